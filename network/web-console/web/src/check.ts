// "Check this": what the node says of a row, held against what this browser trusts.

import { Refused, trusted, verify } from "#verifier";
import { Buffer } from "./verifier/node";
import { asError, value, type Column, type Row } from "./api";
import { integer, literal } from "./format";
import { differences } from "./image";
import { stored } from "./signal";

/** A signed head that this browser keeps, and the key that signed it. */
export interface Pin {
  key: string;
  size: number;
  /** In base64. */
  root: string;
}

/** By the ledger that a key names. */
export const pins = stored<Record<string, Pin>>("pins", {});

export interface Step {
  what: string;
  /** Undefined: not done. */
  holds?: boolean;
  why?: string;
}

export interface Checked {
  holds: boolean;
  steps: Step[];
  /** Behind which the row was so. */
  height?: number;
  /** The row as the node has it now, if it is another one than was shown. */
  row?: Row;
}

/** Reasons of docs/proofs.md in words. */
const REASONS: Record<string, string> = {
  malformed: "the bytes are no proof",
  links: "the result headers are no chain",
  head: "it leads to another head than the trusted one",
  trust: "it has no signed head",
  note: "its head is no signed note",
  key: "its head is not signed by the trusted key",
  signature: "the signature is not valid for what was signed",
  origin: "it is of another ledger",
  inclusion: "the block is not in the ledger that was signed",
  state_root: "the block names no state root: SET ledger.state_root = 1",
  state: "the path to the state root is not right: a row, its neighbours or the root were changed",
  rows: "the row is not the one that the state's hash was made of",
  consistency: "the ledger of now does not continue the pinned one: its past was changed",
};

const reason = (error: unknown): string => {
  if (error instanceof Refused) return `${REASONS[error.message] ?? "refused"} (${error.message})`;
  return asError(error).message;
};

interface Head {
  origin: string;
  size: number;
  root: string;
}

/** Of a note that was verified or will be. */
function headOf(note: string): Head {
  const [origin = "", size = "", root = ""] = note.split("\n");
  return { origin, size: Number(size), root };
}

/** The signed head that is a proof's anchor, which a verifier has held to its key. */
function anchorOf(proof: Uint8Array): Head {
  const view = new DataView(proof.buffer, proof.byteOffset, proof.byteLength);
  const anchor = 2 + 4 + view.getUint32(2);
  const length = view.getUint32(anchor + 1);
  return headOf(new TextDecoder().decode(proof.subarray(anchor + 5, anchor + 5 + length)));
}

function bytesOf(json: string): Uint8Array {
  return Buffer.from(String(JSON.parse(json).proof ?? ""), "hex");
}

/** What the node shows of itself: its key, and its newest signed head. */
export async function shownHead(): Promise<Pin & { origin: string }> {
  const [key, note] = [
    await value("SELECT tally_verifier_key()"),
    await value("SELECT * FROM tally_signed_head()"),
  ];
  const { origin, size, root } = headOf(note);
  return { key, size, root, origin };
}

export const pinOf = (origin: string): Pin | undefined => pins.value[origin];

export function setPin(origin: string, pin: Pin | undefined) {
  const { [origin]: _, ...others } = pins.value;
  pins.value = pin ? { ...others, [origin]: pin } : others;
}

export interface Asked {
  table: string;
  /** Values of the primary key. */
  key: string[];
  columns: Column[];
  row: Row;
  /** Trusted where nothing is pinned. */
  shownKey: string;
  origin: string;
  /** Reads the row again. */
  reread: () => Promise<Row | undefined>;
}

const TABLES_FROM = 16_384;

export async function check(asked: Asked): Promise<Checked> {
  const pin = pinOf(asked.origin);
  const steps: Step[] = [];
  const step = (what: string, holds: boolean, why?: string) => {
    steps.push({ what, holds, why });
    return holds;
  };
  const done = (height?: number, row?: Row): Checked => ({
    holds: steps.every((step) => step.holds),
    steps,
    height,
    row,
  });
  try {
    const named = [asked.table, ...asked.key].map(literal).join(", ");
    const table =
      Number(await value(`SELECT ${literal(asked.table)}::regclass::oid`)) - TABLES_FROM;
    const proof = bytesOf(await value(`SELECT tally_row_proof(${named})`));
    const by = pin ? "the pinned key" : "the key that the node shows";
    let said: string[];
    try {
      said = verify(proof, trusted(pin?.key ?? asked.shownKey)).split(" ");
    } catch (error) {
      step(`The row's proof leads to a head that ${by} has signed`, false, reason(error));
      return done();
    }
    const height = Number(said[1]);
    step(`The row's proof leads to a head that ${by} has signed`, true, `block ${integer(height)}`);
    const anchor = anchorOf(proof);
    if (pin) await continues(pin, anchor, step);
    const image = said.length === 5 ? (said[4]!.split(":")[1] ?? "") : "";
    const isOne = said[0] === "rows" && Number(said[2]) === table && image !== "";
    if (
      !step(
        "It is about one row of this table",
        isOne,
        isOne ? undefined : "it answers another question",
      )
    ) {
      return done(height);
    }
    let differing = differences(Buffer.from(image, "hex"), asked.columns, asked.row);
    let row: Row | undefined;
    if (differing.length > 0) {
      // It may have been changed since it was shown.
      row = await asked.reread();
      if (row) differing = differences(Buffer.from(image, "hex"), asked.columns, row);
    }
    const what = "The values that are shown are the proven ones";
    step(
      what,
      differing.length === 0,
      differing.length > 0 ? `others are proven: ${differing.join(", ")}` : undefined,
    );
    return done(height, differing.length === 0 ? row : undefined);
  } catch (error) {
    step("The node gives a proof", false, reason(error));
    return done();
  }
}

type Stepped = (what: string, holds: boolean, why?: string) => boolean;

async function continues(pin: Pin, now: Head, step: Stepped) {
  const what = `The ledger continues the head that you pinned (${integer(pin.size)} blocks)`;
  if (now.size < pin.size)
    return step(what, false, `the node shows ${integer(now.size)} blocks: older than the pin`);
  if (now.size === pin.size) {
    return step(
      what,
      now.root === pin.root,
      now.root === pin.root ? undefined : "another head of as many blocks",
    );
  }
  try {
    const proof = bytesOf(await value(`SELECT tally_consistency_proof(${pin.size}, ${now.size})`));
    const [, older, newer] = verify(proof, trusted(pin.key)).split(" ");
    const told = (size: number, root: string) =>
      `${size}:${Buffer.from(root, "base64").toString("hex")}`;
    const same = older === told(pin.size, pin.root) && newer === told(now.size, now.root);
    return step(what, same, same ? undefined : "it had another head at that size");
  } catch (error) {
    return step(what, false, reason(error));
  }
}
