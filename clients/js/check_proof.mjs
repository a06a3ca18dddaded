#!/usr/bin/env node
// Checks proofs of a ledger without any of the code that made them. Written from docs/proofs.md and
// the pages that it names alone, with node:crypto; section numbers are those of docs/proofs.md.
//
//     check_proof.mjs FILE TRUST     TRUST: a head, 64 hexadecimal digits, a verifier key, or
//                                    "first:" and the hash of the first block's order header
//     check_proof.mjs -              lines "TRUST PROOF" in hexadecimal; answers a line to each
//
// Prints what is proven. Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.
// As a module: verify(bytes, trusted(text)) returns that line, or throws Refused.

import { createHash, createPublicKey, verify as verifySignature } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export class Refused extends Error {}

const bytes = (text) => Buffer.from(text, "latin1");
const same = (a, b) => Buffer.compare(a, b) === 0;

function sha256(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

const leafHash = (data) => sha256(Buffer.of(0), data);
const nodeHash = (left, right) => sha256(Buffer.of(1), left, right);

/** Reads bytes from the front; those that are missing give the reason `cut`. */
class Reader {
  constructor(data, cut = "malformed") {
    this.data = data;
    this.at = 0;
    this.cut = cut;
  }

  take(count) {
    if (count > this.data.length - this.at) throw new Refused(this.cut);
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  u8() { return this.take(1)[0]; }
  u16() { return this.take(2).readUInt16BE(); }
  u32() { return this.take(4).readUInt32BE(); }
  u64() { return this.take(8).readBigUInt64BE(); }
  string() { return this.take(this.u32()); }
  hashes() { return Array.from({ length: this.u8() }, () => this.take(32)); }
  get left() { return this.data.length - this.at; }

  finish() {
    if (this.left > 0) throw new Refused(this.cut);
  }
}

function resultHeader(data) {
  const reader = new Reader(data);
  if (data.length !== 250 || reader.u16() !== 2) throw new Refused("malformed");
  const header = { ledgerId: reader.take(16), height: reader.u64(), previous: reader.take(32) };
  header.orderHash = reader.take(32);
  reader.take(12);
  header.outcomeCount = BigInt(reader.u32());
  header.carriedCount = BigInt(reader.u32());
  header.outcomesRoot = reader.take(32);
  header.stateRoot = data.subarray(218);
  header.hash = sha256(bytes("tally result v2\0"), data);
  return header;
}

function orderHeader(data) {
  const reader = new Reader(data);
  if (reader.u16() !== 2) throw new Refused("malformed");
  const order = { ledgerId: reader.take(16), height: reader.u64(), previous: reader.take(32) };
  order.envelopeCount = BigInt(data.readUInt32BE(138));
  order.envelopesRoot = data.subarray(142);
  order.hash = sha256(bytes("tally order v2\0\0"), data);
  return order;
}

/** The root that an inclusion proof leads to; null where it does not fit. Numbers are BigInts. */
function climb(leaf, index, leaves, proof) {
  if (index >= leaves) return null;
  let at = 0;
  for (let last = leaves - 1n; last > 0n; last >>= 1n, index >>= 1n) {
    if (!(index & 1n) && index === last) continue;
    if (at === proof.length) return null;
    const other = proof[at++];
    leaf = index & 1n ? nodeHash(other, leaf) : nodeHash(leaf, other);
  }
  return at === proof.length ? leaf : null;
}

/** Whether an inclusion proof leads from a leaf's hash to a root. */
function climbs(leaf, index, leaves, proof, root) {
  const found = climb(leaf, index, leaves, proof);
  return found !== null && same(found, root);
}

// The state tree, docs/state-tree.md

function treeKey(table, key) {
  const full = Buffer.alloc(4 + key.length);
  full.writeUInt32BE(table);
  key.copy(full, 4);
  return full.length <= 127 ? full : Buffer.concat([full.subarray(0, 96), sha256(full)]);
}

function bit(key, position) {
  const byte = Math.floor(position / 9);
  const within = position % 9;
  if (byte >= key.length) return 0;
  return within === 0 ? 1 : (key[byte] >> (8 - within)) & 1;
}

/** Infinity if there is none. */
function firstDifference(a, b) {
  if (same(a, b)) return Infinity;
  let position = 0;
  while (position / 9 < a.length && a[position / 9] === b[position / 9]) position += 9;
  while (bit(a, position) === bit(b, position)) position += 1;
  return position;
}

const startsWith = (key, start) => same(key.subarray(0, start.length), start);

const contains = ({ first, last, extends: beyond }, key) =>
  Buffer.compare(first, key) <= 0 &&
  (Buffer.compare(key, last) <= 0 || (beyond && startsWith(key, last)));

/** How a key lies to all those with the bits of `key` before `position`, and there `side`. */
function against(bound, key, position, side) {
  const at = firstDifference(bound, key);
  return at < position ? bit(bound, at) - bit(key, at) : bit(bound, position) - side;
}

function meets(range, key, position, side) {
  if (against(range.first, key, position, side) > 0) return false;
  const end = 9 * range.last.length;
  const covers =
    range.extends && position >= end && firstDifference(range.last, key) >= end;
  return covers || against(range.last, key, position, side) >= 0;
}

function readPage(page) {
  const rows = [];
  for (const reader = new Reader(page, "state"); reader.left > 0; ) {
    const length = reader.u8();
    if (length < 1 || length > 128) throw new Refused("state");
    const row = { key: reader.take(length), image: reader.take(32), height: reader.u64() };
    const before = rows.at(-1);
    if (before && Buffer.compare(before.key, row.key) >= 0) throw new Refused("state");
    rows.push(row);
  }
  if (rows.length > 1 && page.length > 512) throw new Refused("state");
  return rows;
}

function below(subtree, position, side) {
  const { key, position: top } = subtree;
  if (!key || position >= top || bit(key, position) !== side) throw new Refused("state");
}

function branch(position, left, right, key) {
  const number = Buffer.alloc(2);
  number.writeUInt16BE(position);
  const hash = sha256(bytes("tally branch v1\0"), number, left, right);
  return { hash, key, position };
}

/** All rows of the range, in order. */
function verifyState(proof, root, range) {
  const reader = new Reader(proof, "state");
  if (reader.u8() !== 1) throw new Refused("state");
  const stack = [];
  const found = [];
  while (reader.left > 0) {
    const kind = reader.u8();
    const number = reader.u16();
    if (kind > 3 || (kind > 0 && stack.length < (kind === 3 ? 2 : 1))) throw new Refused("state");
    if (kind === 0) {
      const page = reader.take(number);
      const rows = readPage(page);
      const position = rows.length ? firstDifference(rows[0].key, rows.at(-1).key) : Infinity;
      stack.push({ hash: sha256(bytes("tally page v1\0\0\0"), page), key: rows[0]?.key, position });
      found.push(...rows.filter((row) => contains(range, row.key)));
    } else if (kind === 3) {
      const [left, right] = stack.splice(-2);
      below(left, number, 0);
      below(right, number, 1);
      if (firstDifference(left.key, right.key) !== number) throw new Refused("state");
      stack.push(branch(number, left.hash, right.hash, left.key));
    } else {
      const side = kind - 1;
      const hidden = reader.take(32);
      const shown = stack.pop();
      below(shown, number, 1 - side);
      if (meets(range, shown.key, number, side)) throw new Refused("state");
      const [left, right] = side ? [shown.hash, hidden] : [hidden, shown.hash];
      stack.push(branch(number, left, right, shown.key));
    }
  }
  if (stack.length !== 1 || !same(stack[0].hash, root)) throw new Refused("state");
  return found;
}

// 4. Signed heads

/** Undefined if it is not the one spelling of some bytes. */
function base64Bytes(text) {
  const data = Buffer.from(text, "base64");
  return data.toString("base64") === text ? data : undefined;
}

/** What stands before the 32 bytes of a public key. */
const ED25519_DER = "302a300506032b6570032100";

const isName = (name) => name !== "" && !/[ +\n]/.test(name);

class Key {
  constructor(text) {
    const parts = text.split("+");
    const [name, id] = parts;
    const data = base64Bytes(parts.slice(2).join("+"));
    if (parts.length < 3 || data?.length !== 33 || data[0] !== 1 || !isName(name)) {
      throw new TypeError("this is no verifier key");
    }
    this.name = name;
    this.id = sha256(Buffer.from(name), bytes("\n\x01"), data.subarray(1)).subarray(0, 4);
    if (this.id.toString("hex") !== id) throw new TypeError("this is no verifier key");
    const key = Buffer.concat([Buffer.from(ED25519_DER, "hex"), data.subarray(1)]);
    this.key = createPublicKey({ key, format: "der", type: "spki" });
  }

  /** What this key has signed. */
  open(note) {
    const { text, lines, head } = parseNote(note);
    const line = lines.find(
      ({ name, signed }) => name === this.name && same(signed.subarray(0, 4), this.id));
    if (!line) throw new Refused("key");
    const signature = line.signed.subarray(4);
    const valid =
      signature.length === 64 && verifySignature(null, Buffer.from(text), this.key, signature);
    if (!valid) throw new Refused("signature");
    return head;
  }
}

function parseNote(data) {
  let note;
  try {
    note = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw new Refused("note");
  }
  const end = note.lastIndexOf("\n\n");
  const split = end >= 0 && end + 2 < note.length && note.endsWith("\n");
  if (!split || /[\0-\x09\x0b-\x1f]/.test(note)) throw new Refused("note");
  const text = note.slice(0, end + 1);
  const signatures = note.slice(end + 2, -1).split("\n");
  if (signatures.length > 100) throw new Refused("note");
  const lines = signatures.map((line) => {
    const space = line.indexOf(" ", 2);
    const name = line.slice(2, space);
    const signed = base64Bytes(line.slice(space + 1));
    const fits = line.startsWith("— ") && space > 0 && isName(name) && signed?.length >= 5;
    if (!fits) throw new Refused("note");
    return { name, signed };
  });
  const said = text.slice(0, -1).split("\n");
  const [origin, size, encoded] = said;
  const root = encoded && base64Bytes(encoded);
  const plain = said.length >= 3 && !said.includes("") && /^(0|[1-9][0-9]{0,18})$/.test(size);
  if (!plain || BigInt(size) >= 1n << 63n || root?.length !== 32) throw new Refused("note");
  return { text, lines, head: { origin, size: BigInt(size), root } };
}

// 5. Consistency

function areConsistent(old, recent, proof) {
  if (old.size === 0n || old.size > recent.size) return false;
  if (old.size === recent.size) return proof.length === 0 && same(old.root, recent.root);
  const path = old.size & (old.size - 1n) ? proof : [old.root, ...proof];
  if (path.length === 0) return false;
  let index = old.size - 1n;
  let last = recent.size - 1n;
  const halve = () => {
    index >>= 1n;
    last >>= 1n;
  };
  while (index & 1n) halve();
  let [was, is] = [path[0], path[0]];
  for (const hash of path.slice(1)) {
    if (last === 0n) return false;
    if (index & 1n || index === last) {
      [was, is] = [nodeHash(hash, was), nodeHash(hash, is)];
      while (index > 0n && !(index & 1n)) halve();
    } else {
      is = nodeHash(is, hash);
    }
    halve();
  }
  return last === 0n && same(was, old.root) && same(is, recent.root);
}

// Envelopes, docs/order-format.md, section 2: as much of them as tells who has signed one

class EnvelopeReader extends Reader {
  varint() {
    let number = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = BigInt(this.u8());
      number |= (byte & 0x7fn) << shift;
      if (number >= 1n << 64n) throw new Refused("malformed");
      if (byte < 0x80n) {
        if (byte === 0n && shift > 0n) throw new Refused("malformed");
        return number;
      }
    }
  }

  string() { return this.take(Number(this.varint())); }

  list(item) {
    const count = this.varint();
    if (count > 64n) throw new Refused("malformed");
    return Array.from({ length: Number(count) }, item);
  }

  /** Keys with signatures, keys with approvals, and the id that both are over. */
  signed() {
    const form = this.u8();
    if (form >> 3 !== 2) throw new Refused("malformed");
    this.take(16);
    this.string();
    if (form & 1) this.string();
    else {
      this.take(16);
      this.varint();
    }
    this.varint();
    this.varint();
    if (form & 2) this.list(() => [this.string(), this.string()]);
    if (form & 4) this.take(16);
    this.string();
    const id = sha256(bytes("tally envelope 1"), this.data.subarray(0, this.at));
    const keys = () => this.list(() => [this.take(32), this.string()]);
    const [signatures, approvals] = this.left > 0 ? [keys(), keys()] : [[], []];
    this.finish();
    return { signatures, approvals, id };
  }
}

/**
 * The keys whose signatures over it are right, then those whose approvals are; none of bytes that
 * are no envelope.
 */
function signers(envelope) {
  try {
    const { signatures, approvals, id } = new EnvelopeReader(envelope).signed();
    const message = Buffer.concat([bytes("tally signature1"), id]);
    const signed = signatures
      .filter(([key, signature]) => signature.length === 64 && isSigned(key, message, signature))
      .map(([key]) => key.toString("hex"));
    const approved = approvals
      .filter(([key, approval]) => isApproved(key, id, approval))
      .map(([key]) => `approval:${key.toString("hex")}`);
    return [...signed, ...approved];
  } catch (error) {
    if (error instanceof Refused) return [];
    throw error;
  }
}

/** Whether an approval is right: of this transaction alone, or of a tree that it is in. */
function isApproved(key, id, approval) {
  let message = Buffer.concat([bytes("tally approval 1"), id]);
  const [signature, rest] = [approval.subarray(0, 64), approval.subarray(64)];
  if (rest.length > 0) {
    if (rest.length % 32 !== 4) return false;
    const [leaves, index] = [rest.readUInt16BE(0), rest.readUInt16BE(2)];
    const path = [];
    for (let at = 4; at < rest.length; at += 32) path.push(rest.subarray(at, at + 32));
    const root = climb(leafHash(message), BigInt(index), BigInt(leaves), path);
    if (root === null || leaves < 2 || leaves > 1024) return false;
    message = Buffer.concat([bytes("tally approvals1"), rest.subarray(0, 2), root]);
  }
  return signature.length === 64 && isSigned(key, message, signature);
}

// 2. and 3. The bodies: read, then checked

function readReceipt(data) {
  const reader = new Reader(data);
  if (reader.u8() !== 2) throw new Refused("malformed");
  const header = resultHeader(reader.take(250));
  const orders = Array.from({ length: reader.u8() }, () => orderHeader(reader.take(174)));
  const index = reader.u32();
  const [envelope, envelopeProof] = [reader.string(), reader.hashes()];
  const outcomeIndex = reader.u32();
  const [outcome, outcomeProof] = [reader.string(), reader.hashes()];
  reader.finish();
  if (orders.length === 0) throw new Refused("malformed");
  const check = () => {
    const linked = orders.every((order, at) => {
      const hash = at === 0 ? header.orderHash : orders[at - 1].previous;
      const follows = at === 0 || (orders[at - 1].height === order.height + 1n &&
        same(orders[at - 1].ledgerId, order.ledgerId));
      return follows && same(hash, order.hash);
    });
    const origin = orders.at(-1);
    const own = orders.length === 1;
    const fits = own
      ? outcomeIndex === index && outcomeIndex < header.outcomeCount
      : outcomeIndex >= header.outcomeCount;
    const place = Buffer.alloc(own ? 0 : 12);
    if (!own) {
      place.writeBigUInt64BE(origin.height);
      place.writeUInt32BE(index, 8);
    }
    const outcomes = header.outcomeCount + header.carriedCount;
    const leaf = leafHash(Buffer.concat([place, outcome]));
    const holds = linked && fits &&
      climbs(leafHash(envelope), BigInt(index), origin.envelopeCount, envelopeProof,
        origin.envelopesRoot) &&
      climbs(leaf, BigInt(outcomeIndex), outcomes, outcomeProof, header.outcomesRoot);
    if (!holds) throw new Refused("receipt");
    const proven = `${envelope.toString("hex")}:${outcome.toString("hex")}`;
    const said = `receipt ${header.height} ${origin.height} ${index} ${proven}`;
    return [said, ...signers(envelope)].join(" ");
  };
  return { header, check };
}

function readRows(data) {
  const reader = new Reader(data);
  const header = resultHeader(reader.take(250));
  const table = reader.u32();
  const [first, last, beyond] = [reader.string(), reader.string(), reader.u8()];
  const proof = reader.string();
  const rows = [];
  for (let count = reader.u32(); count > 0; count--) {
    rows.push({ key: reader.string(), image: reader.string() });
  }
  reader.finish();
  const range = { first, last, extends: beyond === 1 };
  if (beyond > 1 || !contains(range, first)) throw new Refused("malformed");
  const check = () => {
    if (same(header.stateRoot, Buffer.alloc(32))) throw new Refused("state_root");
    const one = same(first, last) && beyond === 0;
    const bound = (key) => treeKey(table, one ? key : key.subarray(0, 92));
    const wide = range.extends || (!one && last.length > 92);
    const bounds = { first: bound(first), last: bound(last), extends: wide };
    const shown = verifyState(proof, header.stateRoot, bounds);
    const fits = shown.length === rows.length && rows.every(({ key, image }, at) =>
      same(treeKey(table, key), shown[at].key) &&
      same(sha256(bytes("tally row v1\0\0\0\0"), image), shown[at].image));
    if (!fits) throw new Refused("rows");
    const hex = (data) => data.toString("hex");
    const says = rows
      .map(({ key, image }, at) => ({ key, image, height: shown[at].height }))
      .filter(({ key }) => contains(range, key))
      .map(({ key, image, height }) => ` ${hex(key)}:${hex(image)}:${height}`);
    const about = `rows ${header.height} ${table} ${hex(first)}:${hex(last)}:${beyond}`;
    return about + says.join("");
  };
  return { header, check };
}

function readHead(data) {
  const header = resultHeader(data);
  return { header, check: () => `head ${header.height} ${header.hash.toString("hex")}` };
}

function readConsistency(data) {
  const reader = new Reader(data);
  const [older, newer, hashes] = [reader.string(), reader.string(), reader.hashes()];
  reader.finish();
  const check = (trust) => {
    if (!(trust instanceof Key)) throw new Refused("trust");
    const [old, recent] = [trust.open(older), trust.open(newer)];
    if (old.origin !== recent.origin) throw new Refused("origin");
    if (!areConsistent(old, recent, hashes)) throw new Refused("consistency");
    const told = ({ size, root }) => `${size}:${root.toString("hex")}`;
    return `consistency ${told(old)} ${told(recent)}`;
  };
  return { check };
}

// Votes: docs/votes.md, sections 1 to 3 and 6

/** Whether 32 bytes as an ed25519 key have signed. */
function isSigned(raw, message, signature) {
  try {
    const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
    const key = createPublicKey({ key: der, format: "der", type: "spki" });
    return verifySignature(null, message, key, signature);
  } catch {
    return false;
  }
}

/** `members`: number (BigInt) and key, ascending. */
function electorsOf(votes, liars, members) {
  const holds = votes <= members.length && 2 * votes > members.length + liars;
  if (!holds) return { holds };
  const data = Buffer.alloc(6 + 40 * members.length);
  [votes, liars, members.length].forEach((number, at) => data.writeUInt16BE(number, 2 * at));
  members.forEach(([member, key], at) => {
    data.writeBigUInt64BE(member, 6 + 40 * at);
    key.copy(data, 14 + 40 * at);
  });
  const hash = sha256(bytes("tally elect v1\0\0"), data);
  return { votes, holds, hash, keys: new Map(members), above: -1n };
}

function ascending(reader, each) {
  const found = [];
  for (let count = reader.u16(); count > 0; count--) {
    const member = reader.u64();
    if (found.length > 0 && found.at(-1)[0] >= member) throw new Refused("malformed");
    found.push([member, reader.take(each)]);
  }
  return found;
}

function readCertificate(reader) {
  if (reader.u8() !== 1) throw new Refused("malformed");
  const certificate = { ledgerId: reader.take(16), height: reader.u64() };
  certificate.resultHash = reader.take(32);
  certificate.electors = reader.take(32);
  certificate.votes = ascending(reader, 64);
  reader.finish();
  return certificate;
}

/** Whether these electors have made it, also for a block that is for others. */
function isBy({ ledgerId, height, resultHash, electors: named, votes }, ledger, electors) {
  const isVote = ([member, signature]) => {
    const numbers = Buffer.alloc(16);
    numbers.writeBigUInt64BE(member);
    numbers.writeBigUInt64BE(height, 8);
    const parts = [bytes("tally vote v1\0\0\0"), ledger, numbers, resultHash, named];
    const key = electors.keys.get(member);
    return key !== undefined && isSigned(key, Buffer.concat(parts), signature);
  };
  return same(ledgerId, ledger) && votes.length >= electors.votes && votes.every(isVote);
}

function readSuccession(data) {
  const reader = new Reader(data);
  const [votes, liars] = [reader.u16(), reader.u16()];
  const next = electorsOf(votes, liars, ascending(reader, 32));
  const certificate = readCertificate(reader);
  next.above = certificate.height;
  return { next, certificate };
}

function follows({ next, certificate }, ledger, before) {
  return next.holds && same(certificate.electors, next.hash) && !same(next.hash, before.hash) &&
    certificate.height > before.above && isBy(certificate, ledger, before);
}

/** Ledger id and electors of a first block, if it is the trusted one. */
function firstElectors(block, trustedHash) {
  const order = orderHeader(block.subarray(0, 174));
  const envelope = block.subarray(174);
  const isIt = same(order.hash, trustedHash) && order.height === 0n &&
    order.envelopeCount === 1n && same(order.envelopesRoot, leafHash(envelope)) &&
    same(envelope.subarray(0, 16), bytes("tally genesis v2"));
  if (!isIt) throw new Refused("first");
  const reader = new Reader(envelope.subarray(16), "first");
  reader.string();
  reader.string();
  const others = new Map();
  for (let count = reader.u32(); count > 0; count--) {
    const name = reader.string().toString();
    others.set(name, reader.string().toString());
  }
  reader.finish();
  const members = (others.get("electors") ?? "").split(", ").map((member) => member.split(" "));
  if (!members.every(([id, key]) => /^\d+$/.test(id) && /^[0-9a-f]{64}$/.test(key ?? ""))) {
    throw new Refused("first");
  }
  const keys = members.map(([id, key]) => [BigInt(id), Buffer.from(key, "hex")]);
  const votes = Number(others.get("votes") ?? Math.floor(2 * keys.length / 3) + 1);
  const liars = Number(others.get("liars") ?? Math.floor((keys.length - 1) / 3));
  const electors = electorsOf(votes, liars, keys.sort((a, b) => (a[0] < b[0] ? -1 : 1)));
  if (!electors.holds) throw new Refused("first");
  return { ledger: order.ledgerId, electors };
}

function readVotes(reader) {
  const firstBlock = reader.string();
  if (firstBlock.length < 174) throw new Refused("malformed");
  orderHeader(firstBlock.subarray(0, 174));
  const [successions, links] = [[], []];
  for (let count = reader.u32(); count > 0; count--) {
    successions.push(readSuccession(reader.string()));
  }
  for (let count = reader.u32(); count > 0; count--) links.push(resultHeader(reader.take(250)));
  const certificate = readCertificate(new Reader(reader.string()));
  return { firstBlock, successions, links, certificate };
}

function checkVotes(header, { firstBlock, successions, links, certificate }, trustedHash) {
  const first = firstElectors(firstBlock, trustedHash);
  const ledger = first.ledger;
  let electors = first.electors;
  for (const succession of successions) {
    if (!follows(succession, ledger, electors)) throw new Refused("electors");
    electors = succession.next;
  }
  const isTheirs = same(certificate.electors, electors.hash) && isBy(certificate, ledger, electors);
  if (!isTheirs) throw new Refused("votes");
  const last = lastOf(header, links);
  const isIt = same(last.ledgerId, ledger) && last.height === certificate.height &&
    same(last.hash, certificate.resultHash);
  if (!isIt) throw new Refused("head");
}

/** The hash of a first block's order header. */
class FirstBlock {
  constructor(hash) {
    this.hash = hash;
  }
}

function readAnchor(reader) {
  const kind = reader.u8();
  if (kind > 3) throw new Refused("malformed");
  if (kind === 3) return { kind, headers: [], votes: readVotes(reader) };
  const headers = [];
  if (kind === 1) {
    for (let count = reader.u32(); count > 0; count--) headers.push(resultHeader(reader.take(250)));
  }
  return kind === 2
    ? { kind, headers, note: reader.string(), hashes: reader.hashes() }
    : { kind, headers };
}

function lastOf(header, links) {
  let last = header;
  for (const next of links) {
    const linked = same(next.previous, last.hash) && next.height === last.height + 1n &&
      same(next.ledgerId, last.ledgerId);
    if (!linked) throw new Refused("links");
    last = next;
  }
  return last;
}

function checkAnchor(header, anchor, trust) {
  if (trust instanceof Key) {
    if (anchor.kind !== 2) throw new Refused("trust");
    const { origin, size, root } = trust.open(anchor.note);
    if (origin !== `tally/${header.ledgerId.toString("hex")}`) throw new Refused("origin");
    if (!climbs(leafHash(header.hash), header.height, size, anchor.hashes, root)) {
      throw new Refused("inclusion");
    }
    return;
  }
  if (trust instanceof FirstBlock) {
    if (anchor.kind !== 3) throw new Refused("trust");
    checkVotes(header, anchor.votes, trust.hash);
    return;
  }
  if (!same(lastOf(header, anchor.headers).hash, trust)) throw new Refused("head");
}

/** What a proof proves to a client that trusts this. */
export function verify(proof, trust) {
  const reader = new Reader(proof);
  if (reader.u8() !== 1) throw new Refused("malformed");
  const kind = reader.u8();
  const data = reader.string();
  const read = [readReceipt, readRows, readHead, readConsistency][kind - 1];
  if (!read) throw new Refused("malformed");
  const body = read(data);
  const anchor = readAnchor(reader);
  if (kind === 4 && anchor.kind > 0) throw new Refused("malformed");
  reader.finish();
  if (body.header) checkAnchor(body.header, anchor, trust);
  return body.check(trust);
}

/** A head, a verifier key or a first block. */
export function trusted(text) {
  const [, first] = /^first:([0-9a-f]{64})$/.exec(text) ?? [];
  if (first) return new FirstBlock(Buffer.from(first, "hex"));
  return /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : new Key(text);
}

function proofOf(file) {
  const data = readFileSync(file);
  return data[0] === 0x7b ? Buffer.from(JSON.parse(data).proof, "hex") : data;
}

async function answerLines() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [trust, proof] = line.split(" ");
    try {
      console.log(`ok ${verify(Buffer.from(proof, "hex"), trusted(trust))}`);
    } catch (why) {
      if (!(why instanceof Refused)) throw why;
      console.log(`no ${why.message}`);
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, trust] = process.argv.slice(2);
  try {
    if (file === "-") await answerLines();
    else console.log(verify(proofOf(file), trusted(trust)));
  } catch (why) {
    console.error(why instanceof Refused ? `the proof does not hold: ${why.message}` : why);
    process.exit(why instanceof Refused ? 1 : 2);
  }
}
