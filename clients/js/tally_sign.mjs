// Transactions that bear their user's signature, for Node.js and node-postgres.
//
//     import { Signer, submit } from "./tally_sign.mjs";
//
//     const ada = new Signer("ada", ledgerId, seed);    // 32 bytes of a key: tally identity new
//     const envelope = ada.call("transfer", [1, 2, 100]);
//     const answer = await submit(client, envelope);    // any session can hand it in
//     answer.block, answer.index, answer.rows
//
// Written from docs/order-format.md and docs/transaction-format.md alone, with node:crypto. Values
// are told by their JavaScript type; the functions below name those that have none of their own.

import { createHash, createPrivateKey, createPublicKey, randomBytes, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const EPOCH_MS = 946_684_800_000;
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** A value whose kind its JavaScript type does not tell. */
class Typed {
  constructor(encoded) { this.encoded = encoded; }
}

export const integer = (given) => new Typed(int(BigInt(given)));
export const double = (given) => new Typed(float(given));
export const numeric = (text) => new Typed(decimal(String(text)));
export const uuid = (text) => {
  const data = Buffer.from(text.replaceAll("-", ""), "hex");
  if (data.length !== 16) throw new RangeError("no uuid");
  return new Typed(Buffer.concat([Buffer.of(8), data]));
};
/** Of a Date, in days. */
export const date = (given) => {
  const days = Math.floor((given.getTime() - EPOCH_MS) / 86_400_000);
  return new Typed(Buffer.concat([Buffer.of(9), zigzag(BigInt(days))]));
};
/** Of a Date, without a time zone. */
export const timestamp = (given) => new Typed(moment(10, given));

function varint(number) {
  const out = [];
  for (; number > 0x7fn; number >>= 7n) out.push(Number(number & 0x7fn) | 0x80);
  out.push(Number(number));
  return Buffer.from(out);
}

const zigzag = (number) => varint(number >= 0n ? 2n * number : -2n * number - 1n);

function string(given) {
  const data = typeof given === "string" ? Buffer.from(given, "utf8") : Buffer.from(given);
  return Buffer.concat([varint(BigInt(data.length)), data]);
}

function int(number) {
  if (BigInt.asIntN(64, number) !== number) throw new RangeError("an integer of over 64 bits");
  return Buffer.concat([Buffer.of(3), zigzag(number)]);
}

function float(number) {
  const data = Buffer.alloc(9);
  data[0] = 4;
  if (Number.isNaN(number)) data.writeUInt32BE(0x7ff80000, 1);
  else data.writeDoubleBE(number + 0, 1);
  return data;
}

function decimal(text) {
  const names = { Infinity: 32768n, "-Infinity": 32769n, NaN: 32770n };
  if (text in names) return Buffer.concat([Buffer.of(5), varint(names[text])]);
  const read = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!read) throw new RangeError("no numeric");
  const [, sign, whole, behind = ""] = read;
  const size = BigInt(whole + behind);
  const scale = 2n * BigInt(behind.length) + (sign && size > 0n ? 1n : 0n);
  return Buffer.concat([Buffer.of(5), varint(scale), varint(size)]);
}

function moment(tag, given) {
  return Buffer.concat([Buffer.of(tag), zigzag(BigInt(given.getTime() - EPOCH_MS) * 1000n)]);
}

/** Whole numbers are integers, others double precision; a Date is a timestamptz. */
export function value(given) {
  if (given === null || given === undefined) return Buffer.of(0);
  if (given instanceof Typed) return given.encoded;
  if (typeof given === "boolean") return Buffer.of(given ? 2 : 1);
  if (typeof given === "bigint") return int(given);
  if (typeof given === "number") {
    return Number.isSafeInteger(given) ? int(BigInt(given)) : float(given);
  }
  if (typeof given === "string") return Buffer.concat([Buffer.of(6), string(given)]);
  if (given instanceof Uint8Array) return Buffer.concat([Buffer.of(7), string(given)]);
  if (given instanceof Date) return moment(11, given);
  if (Array.isArray(given)) return Buffer.concat([Buffer.of(12), row(given)]);
  throw new TypeError("no value of a transaction");
}

const row = (values) =>
  Buffer.concat([varint(BigInt(values.length)), ...values.map((one) => value(one))]);

export class Signer {
  #seed;
  #sequence = 0n;
  #submitter = randomBytes(16);

  constructor(principal, ledgerId, seed, { expiresSeconds = 300 } = {}) {
    this.principal = principal;
    this.ledgerId = typeof ledgerId === "string" ? Buffer.from(ledgerId, "hex") : ledgerId;
    if (this.ledgerId.length !== 16 || seed.length !== 32) {
      throw new RangeError("a ledger's id has 16 bytes, the seed of a key 32");
    }
    this.#seed = Buffer.from(seed);
    this.keyId = publicKey(this.#seed);
    this.expiresSeconds = expiresSeconds;
  }

  /** With a key that `tally identity new` has made. */
  static ofFile(principal, ledgerId, path, options) {
    const seed = Buffer.from(readFileSync(path, "ascii").trim(), "hex");
    return new Signer(principal, ledgerId, seed, options);
  }

  /** A procedure or function by its name. See `envelope` for the options. */
  call(procedure, args = [], options = {}) {
    return this.envelope(Buffer.concat([Buffer.of(2), string(procedure), row(args)]), options);
  }

  /** One INSERT, UPDATE, DELETE, MERGE or SELECT of a function, with $1, $2, … */
  statement(text, args = [], options = {}) {
    return this.envelope(Buffer.concat([Buffer.of(1), string(text), row(args)]), options);
  }

  /** A schema change, such as ALTER ORGANISATION. */
  schema(text, options = {}) {
    return this.envelope(Buffer.concat([Buffer.of(5), string(text)]), options);
  }

  /**
   * `key` names the transaction, which then runs at most once under that name; `role` is the one
   * that it acts as; `seed`, 16 bytes, is what random values are drawn from.
   */
  envelope(request, { key, role, seed, expiresUs } = {}) {
    const form = 0x10 | (key === undefined ? 0 : 1) | (role === undefined ? 0 : 2)
      | (seed === undefined ? 0 : 4);
    const now = BigInt(Date.now() - EPOCH_MS) * 1000n;
    const expires = expiresUs ?? now + BigInt(Math.round(this.expiresSeconds * 1e6));
    const submission = key === undefined
      ? Buffer.concat([this.#submitter, varint(this.#sequence++)])
      : string(key);
    const settings = role === undefined
      ? Buffer.alloc(0)
      : Buffer.concat([Buffer.of(1), string("role"), string(role)]);
    const body = Buffer.concat([
      Buffer.of(form), this.ledgerId, string(this.principal), submission, zigzag(expires),
      Buffer.of(0), settings, seed ?? Buffer.alloc(0), string(request),
    ]);
    return signed(body, this.#seed, this.keyId);
  }
}

const privateKey = (seed) =>
  createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });

export function publicKey(seed) {
  const der = createPublicKey(privateKey(seed)).export({ format: "der", type: "spki" });
  return der.subarray(der.length - 32);
}

export function signed(body, seed, keyId) {
  const id = createHash("sha256").update("tally envelope 1").update(body).digest();
  const message = Buffer.concat([Buffer.from("tally signature1"), id]);
  const signature = sign(null, message, privateKey(seed));
  return Buffer.concat([body, Buffer.of(1), keyId, string(signature), Buffer.of(0)]);
}

/** Hands it in and waits for its block. The driver throws what the ledger rejects it with. */
export async function submit(client, envelope) {
  const { rows: [answer] } =
    await client.query("SELECT * FROM tally_submit_signed($1)", [envelope]);
  const { block, index, count, rows } = answer;
  return { block: BigInt(block), index: BigInt(index), count: BigInt(count),
    rows: typeof rows === "string" ? JSON.parse(rows) : rows };
}

function checkVectors(path) {
  const { signed: vectors } = JSON.parse(readFileSync(path, "utf8"));
  for (const { seed, key, body, envelope } of vectors) {
    const [seedBytes, bodyBytes] = [Buffer.from(seed, "hex"), Buffer.from(body, "hex")];
    const keyId = publicKey(seedBytes);
    if (keyId.toString("hex") !== key) throw new Error(`another key than ${key}`);
    const made = signed(bodyBytes, seedBytes, keyId).toString("hex");
    if (made !== envelope) throw new Error(`another envelope than ${envelope}`);
  }
  console.log(`${vectors.length} envelopes are signed as they should be`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.length !== 4 || process.argv[2] !== "vectors") {
    console.error("usage: tally_sign.mjs vectors FILE");
    process.exit(2);
  }
  checkVectors(process.argv[3]);
}
