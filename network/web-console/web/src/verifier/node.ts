// What the verifier uses of node, for browsers: hashes and signatures come from libraries, since the
// browsers' own answer later (SHA-256) or on secure pages alone (Ed25519).

import { Buffer } from "buffer";
import { ed25519 } from "@noble/curves/ed25519.js";
import { sha256 } from "@noble/hashes/sha2.js";

export { Buffer };

/** No program of its own: nothing is read from a command line. */
export const process = { argv: [] as string[] };
export const fileURLToPath = () => "";
const none = (): never => {
  throw new Error("there are no files in a browser");
};
export const readFileSync = none;
export const createInterface = none;

export function createHash(_name: "sha256") {
  const hash = sha256.create();
  const chain = {
    update(data: Uint8Array) {
      hash.update(data);
      return chain;
    },
    digest: () => Buffer.from(hash.digest()),
  };
  return chain;
}

/** Of the DER form of an Ed25519 key, whose last 32 bytes are the key. */
export const createPublicKey = ({ key }: { key: Uint8Array }) => key.slice(-32);

export function verify(_: null, text: Uint8Array, key: Uint8Array, signature: Uint8Array) {
  try {
    return ed25519.verify(signature, text, key, { zip215: false });
  } catch {
    return false;
  }
}
