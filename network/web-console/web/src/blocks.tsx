// Blocks, newest first; one block with its transactions; where a hash is.

import { useEffect, useState } from "preact/hooks";
import { asError, call, query, type SqlError } from "./api";
import { ChangeList, WhyRefused, changesOf, type Changed, type Changes } from "./changes";
import { blockTime, bytes, integer } from "./format";
import { Card, Fault, Hash } from "./parts";

interface Summary {
  height: number;
  time_us: number;
  order_hash: string;
  count: number;
  bytes: number;
  hash?: string;
  effects?: number;
  carried?: number;
  committed?: number;
}

interface Listed {
  first: number;
  head: number;
  blocks: Summary[];
}

interface Outcome {
  kind: string;
  text: string;
}

interface Statement {
  text: string;
  arguments?: string[] | null;
}

interface Transaction {
  index: number;
  position: number;
  kind: string;
  id?: string;
  user?: string;
  key?: string;
  sequence?: number;
  seen_height?: number;
  settings?: [string, string][];
  statements: Statement[];
  requirements?: { rows: number; ranges: number; writes: number };
  signatures?: string[];
  approvals?: string[];
  outcome: Outcome | null;
  /** Of one that was refused: rows that it had read, as far as it is known. */
  changed?: Changed[];
}

interface Whole extends Summary {
  first: number;
  last: number;
  transactions: Transaction[];
  decided?: { height: number; index: number; position: number; outcome: Outcome }[];
  order: Record<string, string | number>;
  result?: Record<string, string | number>;
}

export function Blocks({ path }: { path: string[] }) {
  const [height, chosen] = path;
  const sought = height === "with" ? chosen : undefined;
  const title = sought
    ? `Transactions with “${sought}”`
    : height
      ? `Block ${integer(Number(height))}`
      : "Blocks";
  return (
    <>
      <div class="head">
        <h1>{title}</h1>
        <Search />
      </div>
      {sought ? (
        <Found key={sought} text={sought} />
      ) : height ? (
        <One key={height} height={Number(height)} chosen={chosen} />
      ) : (
        <List />
      )}
    </>
  );
}

function Search() {
  const [told, setTold] = useState("");
  const find = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = String(form.get("what")).trim();
    setTold("");
    if (/^\d+$/.test(text)) return void (location.hash = `#/blocks/${text}`);
    if (!/^[0-9a-f]{64}$/i.test(text)) {
      const [table, ...key] = text.split(/[\s(),]+/).filter(Boolean);
      if (table && key.length > 0 && !text.startsWith('"')) {
        location.hash = `#/rows/${encodeURIComponent(table)}/${key.map(encodeURIComponent).join("/")}`;
        return;
      }
      const sought = text.replace(/^"|"$/g, "");
      if (sought) location.hash = `#/blocks/with/${encodeURIComponent(sought)}`;
      return;
    }
    setTold("Looking…");
    try {
      const found = await call<{ height?: number; index?: number; looked_down_to?: number }>(
        `find/${text.toLowerCase()}`,
      );
      if (found.height === undefined) {
        return setTold(`Not in the blocks down to ${integer(found.looked_down_to ?? 0)}.`);
      }
      setTold("");
      location.hash = `#/blocks/${found.height}${found.index === undefined ? "" : `/${found.index}`}`;
    } catch (error) {
      setTold(asError(error).message);
    }
  };
  return (
    <form class="search" role="search" onSubmit={find}>
      <input
        name="what"
        type="search"
        placeholder="Height, hash, user, procedure, table and key"
        title='A height; a hash; a user, a procedure or a word of a statement; a table and a key; "several words"'
        aria-label="Find a block, a transaction or a row"
        required
      />
      <button type="submit" class="second">
        Find
      </button>
      <output class="quiet">{told}</output>
    </form>
  );
}

interface Match {
  height: number;
  index: number;
  time_us: number;
  user?: string;
  text?: string;
  outcome: Outcome | null;
}

interface Matches {
  found: Match[];
  looked_down_to: number;
  first: number;
}

/** Transactions by user, procedure or words of their text. */
function Found({ text }: { text: string }) {
  const [matches, setMatches] = useState<Matches>();
  const [error, setError] = useState<SqlError>();
  const [busy, setBusy] = useState(true);
  const look = async (below?: number) => {
    setBusy(true);
    try {
      const from = below === undefined ? "" : `?below=${below}`;
      const came = await call<Matches>(`search/${encodeURIComponent(text)}${from}`);
      setMatches((now) => ({ ...came, found: [...(now?.found ?? []), ...came.found] }));
    } catch (error) {
      setError(asError(error));
    }
    setBusy(false);
  };
  useEffect(() => void look(), []);
  if (error) return <Fault error={error} />;
  if (!matches) return <p class="quiet">Looking…</p>;
  const { found, looked_down_to, first } = matches;
  return (
    <div class="card flush">
      {found.length === 0 && (
        <p class="transaction-of quiet">
          No user, no procedure and no statement of the blocks from {integer(looked_down_to)} on.
        </p>
      )}
      {found.map((it) => (
        <p class="transaction-of match">
          <Badge outcome={it.outcome} />
          <a href={`#/blocks/${it.height}/${it.index}`}>
            {integer(it.height)} / {it.index}
          </a>
          <span class="code line">{it.text}</span>
          <span class="quiet">{it.user}</span>
          <span class="quiet small">{blockTime(it.time_us)}</span>
        </p>
      ))}
      {looked_down_to > first && (
        <p class="more">
          <button type="button" class="second" disabled={busy} onClick={() => look(looked_down_to)}>
            {busy ? "Looking…" : `Look below block ${integer(looked_down_to)}`}
          </button>
        </p>
      )}
    </div>
  );
}

function List() {
  const [listed, setListed] = useState<Listed>();
  const [error, setError] = useState<SqlError>();
  useEffect(() => {
    let stopped = false;
    let timer = 0;
    const read = async () => {
      try {
        // A session that nobody looks at becomes idle.
        if (document.hidden) return;
        const newest = await call<Listed>("blocks?count=50");
        if (stopped) return;
        setError(undefined);
        setListed((before) => joined(newest, before));
      } catch (error) {
        if (!stopped) setError(asError(error));
      } finally {
        if (!stopped) timer = window.setTimeout(read, 1000);
      }
    };
    void read();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, []);
  const older = async () => {
    const below = listed?.blocks.at(-1)?.height;
    if (below === undefined) return;
    try {
      const more = await call<Listed>(`blocks?below=${below}&count=100`);
      setListed((now) => now && { ...now, blocks: [...now.blocks, ...more.blocks] });
    } catch (error) {
      setError(asError(error));
    }
  };
  if (!listed) return error ? <Fault error={error} /> : <p class="quiet">One moment…</p>;
  const last = listed.blocks.at(-1)?.height ?? 0;
  return (
    <div class="card flush">
      <div class="wide-table">
        <table class="plain-table blocks">
          <thead>
            <tr>
              <th scope="col" class="number">
                Block
              </th>
              <th scope="col">Time</th>
              <th scope="col" class="number">
                Transactions
              </th>
              <th scope="col" class="number">
                Committed
              </th>
              <th scope="col" class="number">
                Rows changed
              </th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Head</th>
            </tr>
          </thead>
          <tbody>
            {listed.blocks.map((block) => (
              <tr key={block.height}>
                <td class="number">
                  <a href={`#/blocks/${block.height}`}>{integer(block.height)}</a>
                </td>
                <td>{blockTime(block.time_us)}</td>
                <td class="number">{integer(block.count)}</td>
                <td class="number">
                  {block.committed === undefined ? (
                    <span class="quiet">running</span>
                  ) : (
                    integer(block.committed)
                  )}
                </td>
                <td class="number">{integer(block.effects ?? 0)}</td>
                <td class="number">{bytes(block.bytes)}</td>
                <td>
                  <Hash value={block.hash} shown={16} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {last > listed.first && (
        <p class="more">
          <button type="button" class="second" onClick={older}>
            Older blocks
          </button>
        </p>
      )}
    </div>
  );
}

const SHOWN_MAX = 1000;

/** The newest ones before those that are shown, unless blocks between them are missing. */
function joined(newest: Listed, before: Listed | undefined): Listed {
  const lowest = newest.blocks.at(-1)?.height ?? 0;
  const top = before?.blocks[0]?.height;
  if (!before || top === undefined || top < lowest - 1) return newest;
  const below = before.blocks.filter((block) => block.height < lowest);
  return { ...newest, blocks: [...newest.blocks, ...below].slice(0, SHOWN_MAX) };
}

const PAGE = 100;

function One({ height, chosen }: { height: number; chosen?: string }) {
  const [block, setBlock] = useState<Whole>();
  const [error, setError] = useState<SqlError>();
  const first = Math.floor(Number(chosen ?? 0) / PAGE) * PAGE;
  const [from, setFrom] = useState(Number.isFinite(first) ? first : 0);
  const [changes, setChanges] = useState<Changes>();
  const [owners, setOwners] = useState<Map<string, string>>();
  useEffect(() => {
    let stopped = false;
    const read = async () => {
      const block = await call<Whole>(`block/${height}?from=${from}&count=${PAGE}`);
      if (stopped) return;
      setBlock(block);
      const places = block.transactions.map((it) => it.position);
      const [low, high] = [Math.min(...places), Math.max(...places) + 1];
      if (places.length > 0) {
        const changes = await changesOf(height, low, high).catch(() => undefined);
        if (!stopped) setChanges(changes);
      }
      const isSigned = (it: Transaction) => it.signatures?.length || it.approvals?.length;
      if (block.transactions.some(isSigned)) {
        const owners = await keyOwners().catch(() => undefined);
        if (!stopped) setOwners(owners);
      }
    };
    read().catch((error) => !stopped && setError(asError(error)));
    return () => {
      stopped = true;
    };
  }, [height, from]);
  if (error) return <Fault error={error} />;
  if (!block) return <p class="quiet">One moment…</p>;
  return (
    <>
      <div class="facts">
        <Card title="Result">
          <dl>
            <dt>Head</dt>
            <dd>
              <Hash value={block.hash} shown={32} />
            </dd>
            <dt>Time</dt>
            <dd>{blockTime(block.time_us)}</dd>
            <dt>Transactions</dt>
            <dd>
              {integer(block.count)}, {integer(block.committed ?? 0)} committed
            </dd>
            <dt>Rows changed</dt>
            <dd>{integer(block.effects ?? 0)}</dd>
            <dt>Overtakes</dt>
            <dd>{integer(Number(block.result?.reorderings ?? 0))} out of their order</dd>
            <dt>Prepared on</dt>
            <dd>block {integer(Number(block.result?.snapshot_height ?? 0))}</dd>
          </dl>
        </Card>
        <Card title="Hashes">
          <dl>
            <dt>Previous</dt>
            <dd>
              <Hash value={String(block.result?.previous ?? "")} shown={20} />
            </dd>
            <dt>Order</dt>
            <dd>
              <Hash value={block.order_hash} shown={20} />
            </dd>
            <dt>Transactions</dt>
            <dd>
              <Hash value={String(block.order.envelopes_root)} shown={20} />
            </dd>
            <dt>Outcomes</dt>
            <dd>
              <Hash value={String(block.result?.outcomes_root ?? "")} shown={20} />
            </dd>
            <dt>Effects</dt>
            <dd>
              <Hash value={String(block.result?.effects_root ?? "")} shown={20} />
            </dd>
            <dt>State</dt>
            <dd>
              <Hash value={String(block.result?.state_root ?? "")} shown={20} />
            </dd>
          </dl>
        </Card>
      </div>
      <nav class="steps" aria-label="Blocks beside this one">
        {height > block.first && (
          <a href={`#/blocks/${height - 1}`}>← Block {integer(height - 1)}</a>
        )}
        <a href="#/blocks">All blocks</a>
        {height < block.last && (
          <a href={`#/blocks/${height + 1}`}>Block {integer(height + 1)} →</a>
        )}
      </nav>
      <section class="card flush" aria-label="Transactions">
        {(block.decided ?? []).map((it) => (
          <p class="transaction-of">
            <Badge outcome={it.outcome} /> decides transaction {it.index} of{" "}
            <a href={`#/blocks/${it.height}/${it.index}`}>block {integer(it.height)}</a>
          </p>
        ))}
        {block.transactions.map((transaction) => (
          <Item
            key={transaction.index}
            transaction={transaction}
            isOpen={String(transaction.index) === chosen || block.count === 1}
            changes={changes}
            owners={owners}
          />
        ))}
        {block.count === 0 && <p class="transaction-of quiet">No transactions.</p>}
      </section>
      {block.count > PAGE && (
        <nav class="steps" aria-label="Transactions">
          {from > 0 && (
            <button type="button" class="second" onClick={() => setFrom(from - PAGE)}>
              Before
            </button>
          )}
          <span class="quiet">
            {integer(from)} to {integer(Math.min(block.count, from + PAGE) - 1)} of{" "}
            {integer(block.count)}
          </span>
          {from + PAGE < block.count && (
            <button type="button" class="second" onClick={() => setFrom(from + PAGE)}>
              Next
            </button>
          )}
        </nav>
      )}
    </>
  );
}

function Badge({ outcome }: { outcome: Outcome | null }) {
  const kind = outcome?.kind ?? "running";
  return <span class={`badge ${kind}`}>{kind === "retry" ? "conflict" : kind}</span>;
}

/** Whose a key is, by its digits; as the ledger has them, keys that were revoked too. */
async function keyOwners(): Promise<Map<string, string>> {
  const sql = "SELECT key, holder, organisation, kind FROM tally_keys";
  const rows = (await query({ sql, row_max: 10_000 })).rows;
  return new Map(
    rows.map(([key, holder, organisation, kind]) => [
      key ?? "",
      holder ? `${kind} ${holder} of ${organisation}` : `${kind} of ${organisation}`,
    ]),
  );
}

interface ItemProps {
  transaction: Transaction;
  isOpen: boolean;
  changes?: Changes;
  owners?: Map<string, string>;
}

function Item({ transaction, isOpen, changes, owners }: ItemProps) {
  const { index, outcome, statements, user } = transaction;
  const first = statements[0]?.text ?? "";
  const more = statements.length - 1;
  return (
    <details class="transaction" open={isOpen} id={`transaction-${index}`}>
      <summary>
        <span class="number quiet">{index}</span>
        <Badge outcome={outcome} />
        <span class="code line">
          {first}
          {more > 0 && <span class="quiet"> and {more} more</span>}
        </span>
        <span class="quiet">{user}</span>
      </summary>
      <div class="inside">
        {statements.map((statement) => (
          <pre class="code">
            {statement.text}
            {(statement.arguments ?? []).length > 0 && (
              <span class="arguments">
                {(statement.arguments ?? []).map((value, at) => `\n$${at + 1} = ${value}`)}
              </span>
            )}
          </pre>
        ))}
        <dl>
          <dt>Outcome</dt>
          <dd>{outcome?.text ?? "not known yet"}</dd>
          {outcome?.kind === "retry" && (
            <>
              <dt>Why</dt>
              <dd>
                <WhyRefused
                  changed={transaction.changed ?? []}
                  ranges={transaction.requirements?.ranges ?? 0}
                />
              </dd>
            </>
          )}
          {outcome?.kind === "committed" && changes && (
            <>
              <dt>Changed</dt>
              <dd>
                <ChangeList changes={changes} position={transaction.position} />
              </dd>
            </>
          )}
          {transaction.id && (
            <>
              <dt>Id</dt>
              <dd>
                <Hash value={transaction.id} shown={32} />
              </dd>
              <dt>User</dt>
              <dd>{user}</dd>
              <dt>{transaction.key === undefined ? "Number" : "Key"}</dt>
              <dd>{transaction.key ?? transaction.sequence}</dd>
              <dt>Had seen</dt>
              <dd>block {integer(transaction.seen_height ?? 0)}</dd>
              <dt>Place</dt>
              <dd>{transaction.position} among all that ran in the block</dd>
            </>
          )}
          {transaction.requirements && (
            <>
              <dt>Held only if</dt>
              <dd>
                {transaction.requirements.rows} rows and {transaction.requirements.ranges} ranges
                were still as it had read them
              </dd>
            </>
          )}
          {[
            ["Signed by", transaction.signatures],
            ["Approved by", transaction.approvals],
          ].map(
            ([name, keys]) =>
              keys &&
              keys.length > 0 && (
                <>
                  <dt>{name}</dt>
                  <dd>
                    {(keys as string[]).map((key) => (
                      <p class="signer">
                        {owners?.get(key) ?? "a key that no organisation has"}{" "}
                        <Hash value={key} shown={16} />
                      </p>
                    ))}
                  </dd>
                </>
              ),
          )}
        </dl>
      </div>
    </details>
  );
}
