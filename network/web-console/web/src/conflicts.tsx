// What conflicts, which rows are hot, and how blocks were run: of the newest blocks.

import { useEffect, useState } from "preact/hooks";
import { asError, call, type SqlError } from "./api";
import { RowName } from "./changes";
import { integer } from "./format";
import { observed } from "./overview";
import { Card, Fault } from "./parts";
import { useSignal } from "./signal";

interface Outcomes {
  committed: number;
  rejected: number;
  retry: number;
  deferred: number;
}

interface Counted {
  table: string;
  key: string[];
  keyed: boolean;
}

interface Conflicts {
  from: number;
  to: number;
  blocks: number;
  outcomes: Outcomes;
  kinds: Record<string, number>;
  statements: (Outcomes & { text: string })[];
  refused: (Counted & { count: number })[];
  busiest: (Counted & { changes: number })[];
  ways: { in_turn: number; ahead: number; reordered: number; carried: number; empty: number };
  in_time: boolean;
  held_from: number;
  /** Names and values. */
  rules: [string, string][];
}

const BLOCKS = 100;

/** What each word of the ledger says of a transaction. */
const KINDS: Record<string, string> = {
  call: "calls of procedures",
  statement: "single statements",
  transaction: "transactions of several statements",
  load: "COPY",
  schema: "changes of the schema",
  parameter: "changes of ledger settings",
  checkpoint: "digests of the state",
  endorsed: "agreed to before the order",
  skip: "skips of a block",
  other: "first blocks",
};

export function Protocol() {
  const seen = useSignal(observed);
  const [conflicts, setConflicts] = useState<Conflicts>();
  const [error, setError] = useState<SqlError>();
  useEffect(() => {
    let stopped = false;
    let timer = 0;
    const read = async () => {
      const began = performance.now();
      try {
        if (!document.hidden) {
          const came = await call<Conflicts>(`conflicts?blocks=${BLOCKS}`);
          if (stopped) return;
          setConflicts(came);
          setError(undefined);
        }
      } catch (error) {
        if (!stopped) setError(asError(error));
      } finally {
        // A node that has to look for long is asked seldom.
        const pause_ms = Math.max(3000, 9 * (performance.now() - began));
        if (!stopped) timer = window.setTimeout(read, pause_ms);
      }
    };
    void read();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, []);
  return (
    <>
      <h1>Protocol</h1>
      {error && <Fault error={error} />}
      {!conflicts && !error && <p class="quiet">One moment…</p>}
      {conflicts && (
        <>
          <p>
            The ledger runs under <strong>{seen?.protocol ?? "–"}</strong>. What follows is of its
            newest {integer(conflicts.blocks)} blocks, {integer(conflicts.from)} to{" "}
            {integer(conflicts.to)}.
          </p>
          <div class="facts">
            <Became conflicts={conflicts} />
            <Ways conflicts={conflicts} />
            <Refused conflicts={conflicts} />
            <Busiest conflicts={conflicts} />
            <Statements conflicts={conflicts} />
            <Rules conflicts={conflicts} />
          </div>
        </>
      )}
    </>
  );
}

interface Part {
  conflicts: Conflicts;
}

/** Names with their share of the whole. */
function Shares({ parts }: { parts: [string, number][] }) {
  const most = Math.max(1, ...parts.map(([, count]) => count));
  return (
    <ul class="bars">
      {parts.map(([name, count]) => (
        <li>
          <span>{name}</span>
          <meter min={0} max={most} value={count} aria-label={name} />
          <span class="number">{integer(count)}</span>
        </li>
      ))}
    </ul>
  );
}

function Became({ conflicts }: Part) {
  const { committed, rejected, retry, deferred } = conflicts.outcomes;
  const kinds = Object.entries(conflicts.kinds).sort(([, a], [, b]) => b - a);
  return (
    <Card title="What became of transactions">
      <Shares
        parts={[
          ["committed", committed],
          ["rejected, by a rule or an error", rejected],
          ["in conflict, to be tried again", retry],
          ["deferred to the next block", deferred],
        ]}
      />
      <p class="quiet small">
        {kinds.map(([kind, count]) => `${KINDS[kind] ?? kind}: ${integer(count)}`).join(", ")}
      </p>
    </Card>
  );
}

function Ways({ conflicts }: Part) {
  const { in_turn, ahead, reordered, carried, empty } = conflicts.ways;
  return (
    <Card title="Ways that blocks took">
      <Shares
        parts={[
          ["run on the state of the block before", in_turn],
          ["prepared while earlier ones were under way", ahead],
          ["in another order than they came", reordered],
          ["with transactions of earlier blocks", carried],
          ["empty", empty],
        ]}
      />
    </Card>
  );
}

function Refused({ conflicts }: Part) {
  return (
    <Card title="Rows that transactions were refused for">
      {conflicts.refused.length === 0 ? (
        <p class="quiet">
          {conflicts.outcomes.retry === 0
            ? "No transaction was told to try again."
            : "No held version says which: ranges may have been it."}
        </p>
      ) : (
        <ul class="bars named">
          {conflicts.refused.map((it) => (
            <li>
              <span>
                <RowName row={it} />
              </span>
              <span class="number">{integer(it.count)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Busiest({ conflicts }: Part) {
  const { busiest, from, held_from, in_time } = conflicts;
  const most = Math.max(1, ...busiest.map((it) => it.changes));
  return (
    <Card title="Hot rows">
      {busiest.length === 0 && <p class="quiet">No row was seen to change in two blocks.</p>}
      <ul class="bars named">
        {busiest.map((it) => (
          <li>
            <span>
              <RowName row={it} />
            </span>
            <meter
              min={0}
              max={most}
              value={it.changes}
              aria-label={`${it.table} ${it.key.join(", ")}`}
            />
            <span class="number">{integer(it.changes)} blocks</span>
          </li>
        ))}
      </ul>
      {held_from > from && (
        <p class="quiet small">
          Counted by the versions that are held, all of them from block {integer(held_from)} on:
          what was overwritten before may not be counted.
        </p>
      )}
      {!in_time && <p class="quiet small">There was no time to look at all rows.</p>}
    </Card>
  );
}

function Statements({ conflicts }: Part) {
  return (
    <Card title="Statements, those in conflict first" class="wide">
      <div class="wide-table" tabIndex={0} role="region" aria-label="Statements">
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">Statement</th>
              {["Committed", "Rejected", "In conflict", "Deferred"].map((name) => (
                <th scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {conflicts.statements.map((it) => (
              <tr>
                <td class="code">
                  <a href={`#/blocks/with/${encodeURIComponent(sought(it.text))}`}>
                    {it.text.slice(0, 120)}
                  </a>
                </td>
                <td class="number">{integer(it.committed)}</td>
                <td class="number">{integer(it.rejected)}</td>
                <td class="number">{integer(it.retry)}</td>
                <td class="number">{integer(it.deferred)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** By what its transactions are found: a procedure's name, or the text. */
const sought = (text: string) => (text.match(/^CALL (.*)$/)?.[1] ?? text).slice(0, 120);

/** Parameters of the ledger, which every replica follows. */
function Rules({ conflicts }: Part) {
  return (
    <Card title="Rules of the ledger" class="wide">
      <dl class="values">
        {conflicts.rules.map(([name, setting]) => (
          <>
            <dt>{name}</dt>
            <dd class="code">{setting || <span class="quiet">none</span>}</dd>
          </>
        ))}
      </dl>
    </Card>
  );
}
