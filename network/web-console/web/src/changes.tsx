// What a transaction changed, as the versions of rows show it that the node still holds.

import { call } from "./api";
import { integer } from "./format";

export interface Change {
  table: string;
  key: string[];
  keyed: boolean;
  /** The transaction's place in the block. */
  position: number;
  columns: string[];
  after: (string | null)[] | null;
  before_known: boolean;
  before: (string | null)[] | null;
}

export interface Changes {
  /** Whether all that the block changed can be read still. */
  whole: boolean;
  in_time: boolean;
  rows: Change[];
  /** Rows beyond those that are shown. */
  more: number;
}

export const changesOf = (height: number, from: number, to: number) =>
  call<Changes>(`changes/${height}?from=${from}&to=${to}`);

const shown = (value: string | null | undefined) => value ?? "NULL";

/** A row's page, by its primary key; a row without one has none. */
export function RowName({ row }: { row: { table: string; key: string[]; keyed?: boolean } }) {
  const { table, key, keyed = true } = row;
  if (!keyed) return <>{`a row of ${table}`}</>;
  const path = [table, ...key].map(encodeURIComponent).join("/");
  return <a href={`#/rows/${path}`}>{`${table} ${key.join(", ")}`}</a>;
}

export function ChangeList({ changes, position }: { changes: Changes; position: number }) {
  const rows = changes.rows.filter((row) => row.position === position);
  if (rows.length === 0) {
    if (changes.more > 0) return <p class="quiet">Its rows are beyond the first that are shown.</p>;
    return (
      <p class="quiet">
        {changes.whole && changes.in_time
          ? "No row is as it left it: it changed none, or a later transaction of the block changed them again."
          : "Of what it changed no version is held any more."}
      </p>
    );
  }
  return (
    <>
      <ul class="changes">
        {rows.map((change) => (
          <One change={change} />
        ))}
      </ul>
      {!changes.whole && (
        <p class="quiet small">
          This block, or the one before it, is not readable any more: rows that were changed since
          may be missing, and those before it are not known. The setting snapshot_retention keeps
          more.
        </p>
      )}
    </>
  );
}

function One({ change }: { change: Change }) {
  const { before, after, columns } = change;
  const name = <RowName row={change} />;
  if (!after) {
    return (
      <li>
        {name} <b>deleted</b>
        {before && <Values columns={columns} values={before} />}
      </li>
    );
  }
  if (!before) {
    return (
      <li>
        {name} <b>{change.before_known ? "inserted" : "left as"}</b>
        <Values columns={columns} values={after} />
      </li>
    );
  }
  const differing = columns.flatMap((column, at) =>
    before[at] === after[at] ? [] : [{ column, was: before[at], is: after[at] }],
  );
  return (
    <li>
      {name} <b>updated</b>
      {differing.length === 0 && <span class="quiet"> to what it was</span>}
      {differing.map(({ column, was, is }) => (
        <p>
          {column}: <del>{shown(was)}</del> → <ins>{shown(is)}</ins>
        </p>
      ))}
    </li>
  );
}

function Values({ columns, values }: { columns: string[]; values: (string | null)[] }) {
  return <p>{columns.map((column, at) => `${column}: ${shown(values[at])}`).join(", ")}</p>;
}

/** A row that a refused transaction had read, and who changed it before its turn. */
export interface Changed {
  table: string;
  key: string[];
  height: number;
  position: number;
}

export function WhyRefused({ changed, ranges }: { changed: Changed[]; ranges: number }) {
  if (changed.length === 0) {
    return (
      <>
        {ranges > 0
          ? "a row or a range that it had read was another by its turn; no held version says which"
          : "what it had read was another by its turn; no held version says which"}
      </>
    );
  }
  return (
    <ul class="plain-list">
      {changed.map((row) => (
        <li>
          <RowName row={row} /> had been changed by{" "}
          <a href={`#/blocks/${row.height}/${row.position}`}>
            transaction {integer(row.position)} of block {integer(row.height)}
          </a>
        </li>
      ))}
    </ul>
  );
}
