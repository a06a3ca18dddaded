// Numbers, times and sizes for people.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const integer = (value: number) => plain.format(value).replaceAll(",", "\u202f");

export function rate(value: number): string {
  return value >= 1000 ? integer(value) : short.format(value);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : short.format(value)} ${units[unit]}`;
}

/** Seconds. */
export function duration(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  if (value >= 1) return `${short.format(value)} s`;
  if (value >= 1e-3) return `${short.format(value * 1e3)} ms`;
  return `${short.format(value * 1e6)} µs`;
}

const EPOCH_MS = Date.UTC(2000, 0, 1);

/** Microseconds since 2000-01-01, as blocks have them. */
export function blockTime(us: number): string {
  const date = new Date(EPOCH_MS + us / 1000);
  return date.toISOString().replace("T", " ").slice(0, 23) + " Z";
}

export const hash = (digits: string | undefined, shown = 10) =>
  digits === undefined ? "–" : `${digits.slice(0, shown)}…`;

export const isNumber = (type: string) => /^(int|float|numeric|oid)/.test(type);

export const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

export const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
