// Row images (docs/transaction-format.md, section 4) as the text that SQL shows.

import type { Column } from "./api";

const EPOCH_MS = Date.UTC(2000, 0, 1);

/** A value's PostgreSQL binary form; undefined for types that are not read here. */
function shown(type: string, data: DataView): string | undefined {
  switch (type) {
    case "bool":
      return data.getUint8(0) === 1 ? "t" : "f";
    case "int2":
      return String(data.getInt16(0));
    case "int4":
      return String(data.getInt32(0));
    case "int8":
      return String(data.getBigInt64(0));
    case "float8":
      return String(data.getFloat64(0));
    case "text":
    case "varchar":
    case "bpchar":
    case "json":
      return new TextDecoder("utf-8", { fatal: true }).decode(data);
    case "jsonb":
      // Behind the version of its form.
      return new TextDecoder("utf-8", { fatal: true }).decode(
        new DataView(data.buffer, data.byteOffset + 1, data.byteLength - 1),
      );
    case "bytea":
      return `\\x${hex(data)}`;
    case "uuid":
      return hex(data).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    case "numeric":
      return numeric(data);
    case "date":
      return new Date(EPOCH_MS + data.getInt32(0) * 86_400_000).toISOString().slice(0, 10);
    case "timestamp":
    case "timestamptz":
      return timestamp(data.getBigInt64(0));
  }
  return undefined;
}

function hex(data: DataView): string {
  let digits = "";
  for (let at = 0; at < data.byteLength; at++)
    digits += data.getUint8(at).toString(16).padStart(2, "0");
  return digits;
}

/** Groups of four digits, the weight of the first, a sign, and how many digits follow the point. */
function numeric(data: DataView): string {
  const [count, weight, sign, scale] = [0, 2, 4, 6].map((at) => data.getInt16(at)) as [
    number,
    number,
    number,
    number,
  ];
  if ((sign & 0xffff) === 0xc000) return "NaN";
  const group = (at: number) => (at >= 0 && at < count ? data.getInt16(8 + 2 * at) : 0);
  let whole = "";
  for (let at = 0; at <= weight; at++) whole += String(group(at)).padStart(4, "0");
  let part = "";
  for (let at = weight + 1; part.length < scale; at++) part += String(group(at)).padStart(4, "0");
  const minus = (sign & 0xffff) === 0x4000 ? "-" : "";
  return `${minus}${whole.replace(/^0+(?=\d)/, "") || "0"}${scale > 0 ? `.${part.slice(0, scale)}` : ""}`;
}

function timestamp(us: bigint): string {
  const ms = us / 1000n - (us % 1000n < 0n ? 1n : 0n);
  const rest = us - ms * 1000n;
  const text = new Date(EPOCH_MS + Number(ms)).toISOString().replace("T", " ").slice(0, 23);
  return text + String(rest).padStart(3, "0");
}

/** Years that have four digits, in any zone: as in an image. */
function normal(type: string, text: string): string {
  if (type === "float8") return String(Number(text));
  if (type !== "timestamp" && type !== "timestamptz") return text;
  const found = text.match(
    /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d+))?(?:([+-]\d\d)(?::(\d\d))?)?$/,
  );
  if (!found) return text;
  const [, at, part = "", hours = "+00", minutes = "00"] = found;
  const ms = Date.parse(`${at!.replace(" ", "T")}${hours}:${minutes}`) - EPOCH_MS;
  return timestamp(BigInt(ms) * 1000n + BigInt(part.padEnd(6, "0").slice(0, 6)));
}

/** The columns whose proven value is another than the one that is shown. */
export function differences(
  image: Uint8Array,
  columns: Column[],
  row: (string | null)[],
): string[] {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  const differing: string[] = [];
  let at = 0;
  columns.forEach((column, index) => {
    const length = view.getInt32(at);
    at += 4;
    const value = row[index] ?? null;
    if (length < 0 || value === null) {
      if (length >= 0 || value !== null) differing.push(column.name);
    } else {
      const proven = shown(column.type, new DataView(image.buffer, image.byteOffset + at, length));
      if (proven === undefined || proven !== normal(column.type, value))
        differing.push(column.name);
    }
    at += Math.max(length, 0);
  });
  if (at !== image.byteLength) differing.push("(a column that is not shown)");
  return differing;
}
