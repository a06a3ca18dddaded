// Statements: an editor, its history, and what came back as a table, a plot or a tree.

import { useEffect, useRef, useState } from "preact/hooks";
import { asError, query, session, type Answer, type SqlError } from "./api";
import { duration, integer, isNumber } from "./format";
import { Card, Fault, Table } from "./parts";
import { Plot, type Line } from "./plot";
import { stored, useSignal } from "./signal";
import { Tree } from "./tree";

const HISTORY_MAX = 50;
const ROWS_MAX = 10_000;
const history = stored<string[]>("queries", []);
const draft = stored("draft", "SELECT * FROM tally_snapshot()");

const WORDS = [
  "SELECT",
  "FROM",
  "WHERE",
  "GROUP BY",
  "ORDER BY",
  "LIMIT",
  "INSERT INTO",
  "UPDATE",
  "DELETE FROM",
  "VALUES",
  "JOIN",
  "LEFT JOIN",
  "AS OF BLOCK",
  "EXPLAIN",
  "BEGIN",
  "COMMIT",
  "ROLLBACK",
  "CREATE TABLE",
  "PRIMARY KEY",
  "RETURNING",
  "count(*)",
  "tally_snapshot()",
  "tally_history(",
  "tally_row_proof(",
  "tally_signed_head()",
  "tally_verifier_key()",
  "tally_pins()",
  "tally_receipt(",
];

interface Came {
  answer?: Answer;
  error?: SqlError;
  explained: boolean;
}

/** Names of tables and columns, for completion. */
async function names(): Promise<string[]> {
  const sql = `SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'
    UNION SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema = 'public'`;
  const answer = await query({ sql }).catch(() => undefined);
  return answer?.rows.map((row) => row[0] ?? "") ?? [];
}

export function Query() {
  const text = useSignal(draft);
  const past = useSignal(history);
  const who = useSignal(session);
  const [block, setBlock] = useState("");
  const [came, setCame] = useState<Came>();
  const [busy, setBusy] = useState(false);
  const [known, setKnown] = useState<string[]>([]);
  useEffect(() => {
    void names().then((names) => setKnown([...new Set([...names, ...WORDS])]));
  }, []);
  const run = async (explained: boolean) => {
    const sql = text.trim();
    if (!sql || busy) return;
    setBusy(true);
    history.value = [sql, ...past.filter((other) => other !== sql)].slice(0, HISTORY_MAX);
    try {
      const asked = { sql: explained ? `EXPLAIN ${sql}` : sql, row_max: ROWS_MAX };
      const as_of = /^\d+$/.test(block) ? { as_of_block: Number(block) } : {};
      setCame({ answer: await query({ ...asked, ...as_of }), explained });
    } catch (error) {
      setCame({ error: asError(error), explained });
    }
    setBusy(false);
  };
  return (
    <>
      <h1>Query</h1>
      <div class="query">
        <section class="card editor" aria-label="Statement">
          <Editor
            text={text}
            onText={(text) => (draft.value = text)}
            known={known}
            onRun={() => run(false)}
            error={came?.error}
          />
          <div class="tools">
            <button type="button" onClick={() => run(false)} disabled={busy}>
              {busy ? "Running…" : "Run"}
            </button>
            <button type="button" class="second" onClick={() => run(true)} disabled={busy}>
              Explain
            </button>
            <label class="inline">
              as of block
              <input
                inputMode="numeric"
                pattern="[0-9]*"
                size={9}
                placeholder="newest"
                value={block}
                onInput={(event) => setBlock(event.currentTarget.value.trim())}
              />
            </label>
            <span class="quiet keys">
              Ctrl + Enter runs · {who?.writes ? "writes are allowed" : "read-only session"}
            </span>
          </div>
        </section>
        <Past past={past} />
      </div>
      {came && <Result came={came} />}
    </>
  );
}

function Past({ past }: { past: string[] }) {
  return (
    <section class="card past" aria-label="History">
      <h2>History</h2>
      {past.length === 0 && <p class="quiet">Statements that you run are kept in this browser.</p>}
      <ul>
        {past.map((sql) => (
          <li>
            <button type="button" class="plain" title={sql} onClick={() => (draft.value = sql)}>
              {sql}
            </button>
          </li>
        ))}
      </ul>
      {past.length > 0 && (
        <button type="button" class="plain quiet" onClick={() => (history.value = [])}>
          Forget them
        </button>
      )}
    </section>
  );
}

interface EditorProps {
  text: string;
  onText: (text: string) => void;
  onRun: () => void;
  known: string[];
  error?: SqlError;
}

function Editor({ text, onText, onRun, known, error }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [word, setWord] = useState("");
  const [chosen, setChosen] = useState(0);
  const offered =
    word.length < 2
      ? []
      : known
          .filter(
            (name) =>
              name.toLowerCase().startsWith(word.toLowerCase()) &&
              name.toLowerCase() !== word.toLowerCase(),
          )
          .slice(0, 8);
  const look = () => {
    const element = area.current!;
    const before = element.value.slice(0, element.selectionStart);
    setWord(before.match(/[\w]+$/)?.[0] ?? "");
    setChosen(0);
  };
  const accept = (name: string) => {
    const element = area.current!;
    const at = element.selectionStart;
    element.setRangeText(name, at - word.length, at, "end");
    onText(element.value);
    setWord("");
    element.focus();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      setWord("");
      return onRun();
    }
    if (offered.length === 0) return;
    if (event.key === "Tab" && !event.shiftKey) {
      event.preventDefault();
      accept(offered[chosen] ?? offered[0]!);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : offered.length - 1;
      setChosen((chosen + step) % offered.length);
    } else if (event.key === "Escape") {
      setWord("");
    }
  };
  // Where the node found the error.
  useEffect(() => {
    const element = area.current;
    if (!element || !error?.position) return;
    const start = [...element.value].slice(0, error.position - 1).join("").length;
    const length = element.value.slice(start).match(/^\w+|^\S/)?.[0].length ?? 0;
    element.focus();
    element.setSelectionRange(start, start + length);
  }, [error]);
  return (
    <>
      <textarea
        ref={area}
        value={text}
        rows={Math.min(16, Math.max(6, text.split("\n").length + 1))}
        spellcheck={false}
        autocapitalize="off"
        aria-label="SQL"
        aria-controls="offered"
        onInput={(event) => {
          onText(event.currentTarget.value);
          look();
        }}
        onKeyDown={keys}
        onBlur={() => setTimeout(() => setWord(""), 200)}
      />
      <div id="offered" class="offered" role="listbox" aria-label="Completions">
        {offered.map((name, at) => (
          <button
            type="button"
            role="option"
            aria-selected={at === chosen}
            tabIndex={-1}
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => accept(name)}
          >
            {name}
          </button>
        ))}
        {offered.length > 0 && <span class="quiet">Tab takes one</span>}
      </div>
    </>
  );
}

function Result({ came }: { came: Came }) {
  const [asPlot, setAsPlot] = useState(false);
  const { answer, error, explained } = came;
  if (error || !answer) return <Fault error={error ?? { message: "no answer" }} />;
  const lines = plotted(answer);
  const plain = answer.columns.length === 0;
  return (
    <Card title="Result" class="result">
      <p class="quiet told">
        {plain ? `done, ${integer(answer.count ?? 0)} rows` : `${integer(answer.rows.length)} rows`}
        {answer.truncated && " (more are there: not read)"} in {duration(answer.elapsed_ms / 1000)}
        {lines && !explained && (
          <span class="switch" role="group" aria-label="How it is shown">
            <button type="button" aria-pressed={!asPlot} onClick={() => setAsPlot(false)}>
              Table
            </button>
            <button type="button" aria-pressed={asPlot} onClick={() => setAsPlot(true)}>
              Plot
            </button>
          </span>
        )}
      </p>
      {answer.notices.map((notice) => (
        <p class="notice">
          {notice.severity}: {notice.message}
          {notice.detail && <span class="quiet"> {notice.detail}</span>}
        </p>
      ))}
      {explained ? (
        <Tree lines={answer.rows.map((row) => row[0] ?? "")} />
      ) : plain ? null : asPlot && lines ? (
        <Plot
          key={lines.lines.map((line) => line.label).join()}
          label="The result"
          time={lines.time}
          lines={lines.lines}
          data={lines.data}
          shown={(value) => String(Number(value.toPrecision(6)))}
          height={320}
        />
      ) : (
        <Table label="Rows of the result" columns={answer.columns} rows={answer.rows} />
      )}
    </Card>
  );
}

type Plotted = { lines: Line[]; data: [number[], ...(number | null)[][]]; time: boolean };

/** The first column as x where it is a number or a time, up to four numbers as lines. */
function plotted({ columns, rows }: Answer): Plotted | undefined {
  if (rows.length < 2) return undefined;
  const isTime = /^(timestamp|timestamptz|date)$/.test(columns[0]?.type ?? "");
  const hasX = columns.length > 1 && (isTime || isNumber(columns[0]!.type));
  const x = rows.map((row, at) => {
    if (!hasX) return at;
    return isTime
      ? Date.parse((row[0] ?? "").replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00")) / 1000
      : Number(row[0]);
  });
  if (x.some((value) => !Number.isFinite(value))) return undefined;
  const order = x.map((_, at) => at).sort((a, b) => x[a]! - x[b]!);
  const numbers = columns
    .map((_, at) => at)
    .filter((at) => (at > 0 || !hasX) && isNumber(columns[at]!.type))
    .slice(0, 4);
  if (numbers.length === 0) return undefined;
  const lines = numbers.map((at, line) => ({
    label: columns[at]!.name,
    color: (line + 1) as Line["color"],
  }));
  const values = numbers.map((column) =>
    order.map((at) => {
      const value = rows[at]![column];
      return value === null || value === undefined ? null : Number(value);
    }),
  );
  return { lines, data: [order.map((at) => x[at]!), ...values], time: isTime };
}
