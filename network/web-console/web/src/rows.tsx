// Tables by key, the state as of a block, a row's history, and whether it is proven.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asError, query, type Answer, type Column, type Row, type SqlError } from "./api";
import { check, pinOf, pins, setPin, shownHead, type Checked, type Pin } from "./check";
import { duration, identifier, integer, literal } from "./format";
import { observed } from "./overview";
import { Card, Fault, Hash, Table } from "./parts";
import { useSignal } from "./signal";

const PAGE = 500;

interface Known {
  name: string;
  key: string[];
}

const TABLES = `SELECT t.table_name, k.column_name
  FROM information_schema.tables t
  LEFT JOIN information_schema.table_constraints c
    ON c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.constraint_type = 'PRIMARY KEY'
  LEFT JOIN information_schema.key_column_usage k
    ON k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.constraint_name = c.constraint_name
  WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE'
  ORDER BY t.table_name, k.ordinal_position`;

async function tables(): Promise<Known[]> {
  const known = new Map<string, string[]>();
  for (const [table, column] of (await query({ sql: TABLES, row_max: 10_000 })).rows) {
    const key = known.get(table!) ?? [];
    known.set(table!, column ? [...key, column] : key);
  }
  return [...known].map(([name, key]) => ({ name, key }));
}

export function Rows({ path }: { path: string[] }) {
  const [known, setKnown] = useState<Known[]>();
  const [error, setError] = useState<SqlError>();
  useEffect(() => {
    tables()
      .then(setKnown)
      .catch((error) => setError(asError(error)));
  }, []);
  if (error) return <Fault error={error} />;
  if (!known) return <p class="quiet">One moment…</p>;
  const table = known.find((table) => table.name === path[0]) ?? known[0];
  return (
    <>
      <h1>Rows</h1>
      {known.length === 0 || !table ? (
        <p class="quiet">There are no tables yet.</p>
      ) : (
        <div class="rows">
          <nav class="card tables" aria-label="Tables">
            <h2>Tables</h2>
            <ul>
              {known.map((it) => (
                <li>
                  <a
                    href={`#/rows/${encodeURIComponent(it.name)}`}
                    aria-current={it === table ? "true" : undefined}
                  >
                    {it.name}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          <Browse key={table.name} table={table} wanted={path.slice(1).join("/")} />
        </div>
      )}
    </>
  );
}

/** Rows from a key on; `after`: those behind it. */
function select(table: Known, from: string[] | undefined, after: boolean): string {
  const columns = table.key.map(identifier).join(", ");
  const bound =
    from && from.length > 0
      ? ` WHERE (${table.key.slice(0, from.length).map(identifier).join(", ")}) ${after ? ">" : ">="} (${from.map(literal).join(", ")})`
      : "";
  const order = columns ? ` ORDER BY ${columns}` : "";
  return `SELECT * FROM ${identifier(table.name)}${bound}${order} LIMIT ${PAGE}`;
}

function Browse({ table, wanted }: { table: Known; wanted: string }) {
  const [block, setBlock] = useState<number>();
  const [from, setFrom] = useState(wanted);
  const [answer, setAnswer] = useState<Answer>();
  const [error, setError] = useState<SqlError>();
  const [chosen, setChosen] = useState<number>();
  const asked = useRef(0);
  const position = (column: string) => answer?.columns.findIndex((it) => it.name === column) ?? -1;
  const keyOf = (row: Row) => table.key.map((column) => row[position(column)] ?? "");
  const read = async (more?: Row) => {
    const turn = (asked.current += 1);
    const start = more ? keyOf(more) : from.split("/").filter(Boolean);
    const as_of = block === undefined ? {} : { as_of_block: block };
    try {
      const came = await query({
        sql: select(table, start, more !== undefined),
        row_max: PAGE,
        ...as_of,
      });
      if (turn !== asked.current) return;
      setError(undefined);
      setAnswer((before) =>
        more && before ? { ...came, rows: [...before.rows, ...came.rows] } : came,
      );
      if (!more) setChosen(wanted && came.rows.length > 0 ? 0 : undefined);
    } catch (error) {
      if (turn !== asked.current) return;
      setError(asError(error));
      setChosen(undefined);
    }
  };
  useEffect(() => setFrom(wanted), [wanted]);
  useEffect(() => {
    const timer = setTimeout(() => void read(), 120);
    return () => clearTimeout(timer);
  }, [block, from]);
  const rows = useMemo(() => answer?.rows ?? [], [answer]);
  const isWhole = rows.length % PAGE !== 0 || rows.length === 0;
  const row = chosen === undefined ? undefined : rows[chosen];
  return (
    <div class="browse">
      <section class="card" aria-label={table.name}>
        <div class="head">
          <h2>
            {table.name}
            {table.key.length > 0 && <span class="quiet"> by {table.key.join(", ")}</span>}
          </h2>
          {table.key.length > 0 && (
            <label class="inline">
              from
              <input
                size={14}
                placeholder="first key"
                value={from}
                onInput={(event) => setFrom(event.currentTarget.value)}
                aria-label={`From this ${table.key.join("/")}`}
              />
            </label>
          )}
        </div>
        <Past block={block} onBlock={setBlock} />
        {error ? (
          <Fault error={error} />
        ) : answer ? (
          <>
            <Table
              label={`Rows of ${table.name}`}
              columns={answer.columns}
              rows={rows}
              onChoose={(_, index) => setChosen(index)}
              chosen={chosen}
            />
            <p class="told quiet">
              {integer(rows.length)} rows
              {block === undefined ? "" : ` as of block ${integer(block)}`} in{" "}
              {duration(answer.elapsed_ms / 1000)}
              {!isWhole && table.key.length > 0 && (
                <button type="button" class="plain" onClick={() => read(rows.at(-1))}>
                  Read more
                </button>
              )}
            </p>
          </>
        ) : (
          <p class="quiet">One moment…</p>
        )}
      </section>
      {answer && row && table.key.length > 0 && (
        <Detail
          key={`${keyOf(row).join("/")} ${block ?? ""}`}
          table={table}
          columns={answer.columns}
          row={row}
          keyed={keyOf(row)}
          block={block}
        />
      )}
    </div>
  );
}

/** The slider over the blocks that can be read. */
function Past({
  block,
  onBlock,
}: {
  block: number | undefined;
  onBlock: (block: number | undefined) => void;
}) {
  const seen = useSignal(observed);
  const head = seen?.height ?? 0;
  const oldest = Math.min(head, Number(seen?.metrics.tally_oldest_snapshot_height ?? 0));
  return (
    <div class="slider">
      <label for="as-of">State as of block</label>
      <input
        id="as-of"
        type="range"
        min={Math.min(oldest, block ?? oldest)}
        max={head}
        value={block ?? head}
        aria-valuetext={block === undefined ? "newest" : String(block)}
        onInput={(event) => {
          const value = Number(event.currentTarget.value);
          onBlock(value >= head ? undefined : value);
        }}
      />
      <output>{block === undefined ? "newest" : integer(block)}</output>
      {block !== undefined && (
        <button type="button" class="plain" onClick={() => onBlock(undefined)}>
          Newest
        </button>
      )}
    </div>
  );
}

interface DetailProps {
  table: Known;
  columns: Column[];
  row: Row;
  keyed: string[];
  block: number | undefined;
}

function Detail(props: DetailProps) {
  const { table, columns, keyed, block } = props;
  const [row, setRow] = useState(props.row);
  return (
    <aside class="detail" aria-label="The chosen row">
      <Card title={`${table.name} ${keyed.join(", ")}`}>
        <dl class="values">
          {columns.map((column, at) => (
            <>
              <dt>{column.name}</dt>
              <dd class="code">{row[at] === null ? <span class="null">NULL</span> : row[at]}</dd>
            </>
          ))}
        </dl>
        {block === undefined ? (
          <Check table={table} columns={columns} row={row} keyed={keyed} onRow={setRow} />
        ) : (
          <p class="quiet">Proofs are of the newest state: choose it to check this row.</p>
        )}
      </Card>
      <History table={table} keyed={keyed} block={block} />
    </aside>
  );
}

interface CheckProps {
  table: Known;
  columns: Column[];
  row: Row;
  keyed: string[];
  onRow: (row: Row) => void;
}

function Check({ table, columns, row, keyed, onRow }: CheckProps) {
  const [shown, setShown] = useState<Pin & { origin: string }>();
  const [checked, setChecked] = useState<Checked>();
  const [error, setError] = useState<SqlError>();
  const [busy, setBusy] = useState(false);
  useSignal(pins);
  const look = () =>
    shownHead()
      .then(setShown)
      .catch((error) => setError(asError(error)));
  useEffect(() => void look(), []);
  const pin = shown && pinOf(shown.origin);
  const run = async () => {
    if (!shown) return;
    setBusy(true);
    const where = table.key
      .map((column, at) => `${identifier(column)} = ${literal(keyed[at]!)}`)
      .join(" AND ");
    const reread = async () =>
      (await query({ sql: `SELECT * FROM ${identifier(table.name)} WHERE ${where}` })).rows[0];
    const { key: shownKey, origin } = shown;
    const came = await check({
      table: table.name,
      key: keyed,
      columns,
      row,
      shownKey,
      origin,
      reread,
    });
    if (came.row) onRow(came.row);
    setChecked(came);
    setBusy(false);
    void look();
  };
  return (
    <div class="check">
      <button type="button" onClick={run} disabled={busy || !shown}>
        {busy ? "Checking…" : "Check this"}
      </button>
      {error && <Fault error={error} />}
      {checked && (
        <div class={`verdict ${checked.holds ? "holds" : "fails"}`} role="status">
          <strong>
            {checked.holds
              ? `Proven, as of block ${integer(checked.height ?? 0)}`
              : "Not proven: do not trust what is shown"}
          </strong>
          <ul>
            {checked.steps.map((step) => (
              <li class={step.holds ? "yes" : "no"}>
                <span class="mark-of" aria-label={step.holds ? "holds" : "does not hold"}>
                  {step.holds ? "✓" : "✗"}
                </span>
                <span>
                  {step.what}
                  {step.why && <span class={step.holds ? "quiet" : "why"}> – {step.why}</span>}
                </span>
              </li>
            ))}
          </ul>
          {checked.row && <p>The row has been changed since it was shown; this is the new one.</p>}
        </div>
      )}
      {shown && (
        <dl class="trust">
          <dt>{pin ? "Pinned head" : "Head of this node"}</dt>
          <dd>
            {integer((pin ?? shown).size)} blocks, root{" "}
            <Hash value={(pin ?? shown).root} shown={14} />
          </dd>
          <dt>Key</dt>
          <dd>
            <Hash value={(pin ?? shown).key} shown={22} />
          </dd>
        </dl>
      )}
      {shown && (
        <p class="quiet small">
          {pin
            ? "Kept in this browser. Each check also shows that the ledger of now continues it."
            : "Compare the key with what the operator told you, then pin it: from then on nothing else is believed."}
          <br />
          <button
            type="button"
            class="second"
            onClick={() =>
              setPin(shown.origin, { key: (pin ?? shown).key, size: shown.size, root: shown.root })
            }
            disabled={pin !== undefined && pin.size >= shown.size}
          >
            {pin ? "Pin the newest head" : "Pin this head"}
          </button>
          {pin && (
            <button type="button" class="plain" onClick={() => setPin(shown.origin, undefined)}>
              Forget the pin
            </button>
          )}
        </p>
      )}
    </div>
  );
}

/** Columns of tally_history before the row's own. */
const BEFORE = 4;

function History({
  table,
  keyed,
  block,
}: {
  table: Known;
  keyed: string[];
  block: number | undefined;
}) {
  const [answer, setAnswer] = useState<Answer>();
  const [error, setError] = useState<SqlError>();
  useEffect(() => {
    const named = [table.name, ...keyed].map(literal).join(", ");
    const as_of = block === undefined ? {} : { as_of_block: block };
    query({ sql: `SELECT * FROM tally_history(${named})`, row_max: 200, ...as_of })
      .then(setAnswer)
      .catch((error) => setError(asError(error)));
  }, []);
  return (
    <Card title="History">
      {error && <Fault error={error} />}
      {answer?.rows.length === 0 && <p class="quiet">No version is held.</p>}
      <ol class="history">
        {answer?.rows.map((version, at) => {
          const before = answer.rows[at + 1];
          const [height, , time, deleted] = version;
          const changed = answer.columns.slice(BEFORE).flatMap((column, index) => {
            const [was, is] = [before?.[BEFORE + index] ?? null, version[BEFORE + index] ?? null];
            return before && was !== is ? [{ name: column.name, was, is }] : [];
          });
          return (
            <li>
              <a href={`#/blocks/${height}`}>Block {integer(Number(height))}</a>{" "}
              <span class="quiet small">{time ?? ""}</span>
              {deleted === "t" ? (
                <p>deleted</p>
              ) : before && before[3] !== "t" ? (
                changed.map(({ name, was, is }) => (
                  <p>
                    {name}: <del>{was ?? "NULL"}</del> → <ins>{is ?? "NULL"}</ins>
                  </p>
                ))
              ) : (
                <p>{before ? "inserted again" : "the oldest version that is held"}</p>
              )}
            </li>
          );
        })}
      </ol>
      {answer?.notices.map((notice) => (
        <p class="quiet small">{notice.message}.</p>
      ))}
    </Card>
  );
}
