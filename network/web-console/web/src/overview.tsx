// What /metrics has, as rates, percentiles and plots; and the cluster, if there is one.

import { useEffect, useState } from "preact/hooks";
import { call, query, session, type Row } from "./api";
import { Cluster } from "./cluster";
import { bytes, duration, integer, rate } from "./format";
import { Card, Hash } from "./parts";
import { Plot } from "./plot";
import { signal, useSignal } from "./signal";

type Buckets = [number | null, number][];
type Metrics = Record<string, number | Record<string, number> | Buckets | undefined>;

interface Votes {
  signed: number | null;
  certified: number | null;
  certificates: number;
  needed: number;
  diverged: string | null;
  members: Record<string, { signed: number | null; deviates: number | null; refused: number }>;
}

export interface Seen {
  version: string;
  phase: string;
  metrics: Metrics;
  ledger_id?: string;
  height?: number;
  head?: string;
  protocol?: string;
  hindrance?: string | null;
  cluster?: { orderer: string; members: string; electors: number[]; votes: number } | null;
  votes?: Votes;
}

/** A reading of the node: what was counted up to then. */
interface Reading {
  at: number;
  seen: Seen;
}

/** A second of the node. */
interface Second {
  at: number;
  committed: number;
  failed: number;
  blocks: number;
  perBlock: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  execute: number | null;
  sync: number | null;
}

const KEPT = 300;
/** Percentiles are of the readings of so many seconds. */
const WINDOW = 10;

export const observed = signal<Seen | undefined>(undefined);
const seconds = signal<Second[]>([]);
let readings: Reading[] = [];

/** Reads the node each second, whatever page is shown. */
export function watchNode() {
  let stopped = false;
  let timer = 0;
  const again = async () => {
    try {
      if (!document.hidden || readings.length === 0) take(await call<Seen>("overview"));
    } catch {
      readings = [];
    }
    if (!stopped) timer = window.setTimeout(again, 1000);
  };
  void again();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

function take(seen: Seen) {
  observed.value = seen;
  const before = readings.at(-1);
  const reading = { at: performance.now() / 1000, seen };
  // Another node, or the same one started again.
  const begunAnew =
    before && count(before, "tally_blocks_total") > count(reading, "tally_blocks_total");
  if (begunAnew) readings = [];
  readings = [...readings.slice(-WINDOW), reading];
  if (before && !begunAnew) {
    seconds.value = [...seconds.value.slice(1 - KEPT), between(before, reading)];
  }
}

function count(reading: Reading, name: string, label?: string): number {
  const value = reading.seen.metrics[name];
  if (typeof value === "number") return value;
  return label && value && !Array.isArray(value) ? (value[label] ?? 0) : 0;
}

function between(before: Reading, now: Reading): Second {
  const passed = Math.max(now.at - before.at, 1e-3);
  const more = (name: string, label?: string) =>
    count(now, name, label) - count(before, name, label);
  const transactions = (label: string) => more("tally_transactions_total", label);
  const blocks = more("tally_blocks_total");
  const all = transactions("committed") + transactions("rejected") + transactions("retry");
  const mean = (name: string) => {
    const times = more(`${name}_count`);
    return times > 0 ? more(`${name}_sum`) / times : null;
  };
  const latency = (part: number) => percentile("tally_commit_duration_seconds", part);
  return {
    at: Date.now() / 1000,
    committed: transactions("committed") / passed,
    failed: (transactions("rejected") + transactions("retry")) / passed,
    blocks: blocks / passed,
    perBlock: blocks > 0 ? all / blocks : null,
    p50: latency(0.5),
    p95: latency(0.95),
    p99: latency(0.99),
    execute: mean("tally_block_execute_duration_seconds"),
    sync: mean("tally_block_sync_duration_seconds"),
  };
}

/** Of the last readings; within a bucket it is taken to be evenly spread. */
function percentile(name: string, part: number): number | null {
  const [first, last] = [readings[0], readings.at(-1)];
  const buckets = (reading?: Reading) => (reading?.seen.metrics[`${name}_bucket`] ?? []) as Buckets;
  const [before, now] = [buckets(first), buckets(last)];
  const counts = now.map(([, total], at) => total - (before[at]?.[1] ?? 0));
  const wanted = (counts.at(-1) ?? 0) * part;
  if (wanted <= 0) return null;
  const at = counts.findIndex((count) => count >= wanted);
  const [low, high] = [now[at - 1]?.[0] ?? 0, now[at]?.[0] ?? now[at - 1]?.[0] ?? 0];
  const [below, within] = [counts[at - 1] ?? 0, counts[at]!];
  return low + (high - low) * (within > below ? (wanted - below) / (within - below) : 1);
}

export function Overview() {
  const seen = useSignal(observed);
  const past = useSignal(seconds);
  if (!seen) return <p class="quiet">Asking the node…</p>;
  const at = past.map((second) => second.at);
  const line = (name: keyof Second) => past.map((second) => second[name] ?? null);
  const recent = past.slice(-WINDOW);
  const mean = (name: "committed" | "failed" | "blocks") =>
    recent.reduce((sum, second) => sum + second[name], 0) / Math.max(recent.length, 1);
  const last = past.at(-1);
  const perBlock =
    mean("blocks") > 0 ? (mean("committed") + mean("failed")) / mean("blocks") : null;
  return (
    <>
      <h1>Overview</h1>
      <div class="figures">
        <Figure
          name="Transactions/s"
          value={rate(mean("committed"))}
          more={`${rate(mean("failed"))}/s rejected or to be tried again`}
        />
        <Figure
          name="Commit, median"
          value={duration(last?.p50 ?? undefined)}
          more={`99 % within ${duration(last?.p99 ?? undefined)}`}
        />
        <Figure
          name="Blocks/s"
          value={rate(mean("blocks"))}
          more={perBlock === null ? "no transactions now" : `${rate(perBlock)} transactions each`}
        />
        <Figure
          name="Sync"
          value={duration(last?.sync ?? undefined)}
          more={`executing ${duration(last?.execute ?? undefined)}`}
        />
      </div>
      <div class="plots">
        <Card title="Transactions each second">
          <Plot
            label="Transactions each second, committed and failed"
            lines={[
              { label: "committed", color: 1, fill: true },
              { label: "failed", color: 3 },
            ]}
            data={[at, line("committed"), line("failed")]}
            shown={rate}
            span={60}
          />
        </Card>
        <Card title="From COMMIT to its answer">
          <Plot
            label="Percentiles of commit latency"
            lines={[
              { label: "50 %", color: 1 },
              { label: "95 %", color: 2 },
              { label: "99 %", color: 3 },
            ]}
            data={[at, line("p50"), line("p95"), line("p99")]}
            shown={duration}
            span={60}
          />
        </Card>
        <Card title="Transactions in a block">
          <Plot
            label="Transactions in a block"
            lines={[{ label: "transactions", color: 2, fill: true }]}
            data={[at, line("perBlock")]}
            shown={rate}
            span={60}
          />
        </Card>
        <Card title="What a block takes">
          <Plot
            label="Time to execute and to sync a block"
            lines={[
              { label: "execute", color: 1 },
              { label: "sync", color: 4 },
            ]}
            data={[at, line("execute"), line("sync")]}
            shown={duration}
            span={60}
          />
        </Card>
      </div>
      <div class="facts">
        <Ledger seen={seen} />
        <Memory seen={seen} />
        {seen.cluster && <Cluster seen={seen} />}
      </div>
    </>
  );
}

function Figure({ name, value, more }: { name: string; value: string; more: string }) {
  return (
    <div class="figure">
      <span class="name">{name}</span>
      <span class="value">{value}</span>
      <span class="quiet">{more}</span>
    </div>
  );
}

function Ledger({ seen }: { seen: Seen }) {
  const metric = (name: string) => Number(seen.metrics[`tally_${name}`] ?? 0);
  const height = seen.height ?? 0;
  const checkpoint = metric("checkpoint_height");
  const transactions = (seen.metrics.tally_transactions_total ?? {}) as Record<string, number>;
  const repeated = (transactions.retry ?? 0) + metric("transactions_rerun_total");
  return (
    <Card title="Ledger">
      <dl>
        <dt>Block</dt>
        <dd>
          <a href={`#/blocks/${height}`}>{integer(height)}</a>
          {metric("first_block_height") > 0 &&
            ` (from ${integer(metric("first_block_height"))} on)`}
        </dd>
        <dt>Head</dt>
        <dd>
          <Hash value={seen.head} shown={16} />
        </dd>
        <dt>Ledger</dt>
        <dd>
          <Hash value={seen.ledger_id} shown={16} />
        </dd>
        <dt>Protocol</dt>
        <dd>{seen.protocol ?? "–"}</dd>
        <dt>Conflicts since the start</dt>
        <dd>
          {integer(repeated)} tried again, {integer(metric("transactions_deferred_total"))} deferred
        </dd>
        <dt>On disk</dt>
        <dd>{bytes(metric("ledger_bytes"))} of blocks</dd>
        <dt>Checkpoint</dt>
        <dd>
          {checkpoint > 0 ? `${integer(height - checkpoint)} blocks ago` : "none yet"}
          {metric("checkpoint_failures_total") > 0 &&
            `, ${metric("checkpoint_failures_total")} failed`}
        </dd>
        <dt>Readable past</dt>
        <dd>from block {integer(metric("oldest_snapshot_height"))} on</dd>
        <dt>Sessions</dt>
        <dd>{integer(metric("sessions"))}</dd>
        <dt>Version</dt>
        <dd>
          {seen.version}{" "}
          <a class="quiet small" href="/licenses.md">
            licences of this page
          </a>
        </dd>
      </dl>
    </Card>
  );
}

interface Used {
  name: string;
  bytes: number;
}

function Memory({ seen }: { seen: Seen }) {
  const who = useSignal(session);
  const [parts, setParts] = useState<Used[]>();
  useEffect(() => {
    if (!who) return setParts(undefined);
    let stopped = false;
    const read = async () => {
      if (document.hidden) return;
      const asked = { sql: "SELECT part, name, bytes FROM tally_memory ORDER BY bytes DESC" };
      const answer = await query(asked).catch(() => undefined);
      if (!stopped && answer) setParts(answer.rows.map(used));
    };
    void read();
    const timer = setInterval(read, 5000);
    return () => {
      stopped = true;
      clearInterval(timer);
    };
  }, [who]);
  const metric = (name: string) => Number(seen.metrics[`tally_${name}`] ?? 0);
  const shown = parts ?? [
    { name: "sessions", bytes: metric("session_memory_bytes") },
    { name: "old versions", bytes: metric("undo_bytes") },
  ];
  const [wholes, pieces] = [shown.filter(isWhole), shown.filter((part) => !isWhole(part))];
  const most = Math.max(1, ...pieces.map((part) => part.bytes));
  return (
    <Card title="Memory">
      {wholes.length > 0 && (
        <p>{wholes.map((it) => `${it.name} ${bytes(it.bytes)}`).join(", ")}; of this:</p>
      )}
      <ul class="bars">
        {pieces
          .filter((part) => part.bytes > 0 || !parts)
          .slice(0, 10)
          .map((part) => (
            <li>
              <span>{part.name}</span>
              <meter min={0} max={most} value={part.bytes} aria-label={part.name} />
              <span class="number">{bytes(part.bytes)}</span>
            </li>
          ))}
      </ul>
      {!who && (
        <p class="quiet">
          <a href="#/query">Log in</a> to see it by table and kind.
        </p>
      )}
    </Card>
  );
}

const used = ([part, name, size]: Row): Used => ({
  name: name ? `${name}: ${part}` : (part ?? ""),
  bytes: Number(size),
});

/** What the system counts, or the allocator: the others are pieces of it. */
const isWhole = ({ name }: Used) => ["process", "program", "allocated"].includes(name);
