// The verifier as the bundle has it, with what stands in for node's modules, against the vectors.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

async function bundled() {
  const built = await build({
    configFile: here("../vite.config.ts"),
    root: here(".."),
    logLevel: "error",
    build: {
      lib: { entry: here("../../../../clients/js/check_proof.mjs"), formats: ["es"], fileName: "v" },
      write: false,
    },
  });
  const { code } = [built].flat()[0].output.find((file) => file.type === "chunk");
  return import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);
}

function said({ verify, trusted }, { proof, trust }) {
  try {
    return verify(Buffer.from(proof, "hex"), trusted(trust));
  } catch (why) {
    return `no: ${why.message}`;
  }
}

/** A valid proof with some bytes cut out and others put in. */
function edited(vectors, { of, at, cut, put }) {
  const { proof, trust } = vectors.valid[Number(of)];
  const [start, end] = [2 * Number(at), 2 * (Number(at) + Number(cut))];
  return { proof: proof.slice(0, start) + put + proof.slice(end), trust };
}

test("it says of every vector what the vector says", async () => {
  const verifier = await bundled();
  const vectors = JSON.parse(readFileSync(here("../../../../docs/vectors/proofs.json")));
  const expected = ({ says, why }) => says ?? `no: ${why}`;
  for (const vector of [...vectors.valid, ...vectors.forged]) {
    assert.equal(said(verifier, vector), expected(vector), vector.name);
  }
  for (const vector of vectors.edited) {
    assert.equal(said(verifier, edited(vectors, vector)), expected(vector));
  }
});
