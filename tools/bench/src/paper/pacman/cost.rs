//! What durability costs this engine, against bounds that it sets itself.

use std::time::{Duration, Instant};

use anyhow::Result;
use recovery::schemes::Scheme as RowScheme;

use super::logging::{alternate, median_of};
use super::recovering::{
    Cost, Logs, RecoveryMethod, SMALLBANK_TRANSACTIONS, TPCC_TRANSACTIONS, costs, in_order, seconds,
};
use super::{
    CHECKPOINT_CPU_PERCENT_MAX, FEW_CORES, PROTOCOL, Quantity, median, percent_less, setting,
    wanted,
};
use crate::logging::{Load, Scheme, Setting, Trace};
use crate::paper::{Findings, Lab, times};
use crate::recovering::{Checkpointed, bounds};
use crate::table::{Table, thousands};
use crate::{Plan, Workload};

/// Share of throughput that a ledger on disk may cost.
const DISK_COST_MAX: f64 = 0.06;
const P99_RATIO_MAX: f64 = 1.5;
/// Of what two threads could be at most, and of the engine alone.
const SPEED_UP_MIN: f64 = 1.8;
const OF_ENGINE_MIN: f64 = 0.9;
/// How long the machine itself is looked at.
const LOOP: Duration = Duration::from_millis(300);
/// Of the lower of two bounds.
const OF_BOUND_MIN: f64 = 0.8;
/// Share of the saturated rate at which transactions arrive in the open loop.
const OPEN_SHARE: f64 = 0.5;

/// Sealing alone beside the same with a ledger on disk, in turns.
pub fn disk(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let off = setting(lab, &tpcc, 40_000, Scheme::Off);
    let on = Setting { scheme: Scheme::Command, ..off.clone() };
    let traces = alternate(lab, &tpcc, &[off, on])?;
    let mut findings = Findings::default();
    let heads = ["", "tx/s", "tx/CPU-s", "p99 ms"].map(str::to_owned).to_vec();
    let mut table = Table { heads, rows: Vec::new() };
    for (name, runs) in ["sealing alone", "ledger on disk"].iter().zip(&traces) {
        table.rows.push(vec![
            (*name).to_owned(),
            thousands(median_of(runs, Trace::per_second)),
            thousands(median_of(runs, Trace::per_cpu_second)),
            format!("{:.1}", median_of(runs, |trace| trace.without.latency_ms_p99())),
        ]);
    }
    findings.tables.push(("TPC-C, saturated, blocks of 1,000".to_owned(), table));
    let rates: [(&str, Quantity<Trace>); 2] = [
        ("committed a second", Trace::per_second),
        ("committed a CPU-second", Trace::per_cpu_second),
    ];
    for (what, value) in rates {
        let [off, on] = [0, 1].map(|at| median_of(&traces[at], value));
        let claim = format!("{what}: a ledger on disk costs at most 6 %");
        findings.claim(&claim, "-6 %", percent_less(on, off), on / off >= 1.0 - DISK_COST_MAX);
    }
    findings
        .remark("medians of runs that alternate; one thread executes, seals and syncs in turn.");
    Ok(findings)
}

/// The same load with a checkpoint and without, in turns, in a closed loop and in an open one.
pub fn checkpoint(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let mut findings = Findings::default();
    let heads = ["", "tx/s", "p99 ms", "checkpoint, ms", "its CPU, %"].map(str::to_owned);
    let mut table = Table { heads: heads.to_vec(), rows: Vec::new() };
    let closed =
        Setting { block_transactions_max: 200, ..setting(lab, &tpcc, 60_000, Scheme::Command) };
    let mut rate = f64::NAN;
    for (name, open) in [("closed", false), ("open", true)] {
        let load = if open { Load::Open(OPEN_SHARE * rate) } else { Load::Saturated };
        let without = Setting { load, ..closed.clone() };
        let percent = Some(CHECKPOINT_CPU_PERCENT_MAX);
        let with = Setting { checkpoint_cpu_percent_max: percent, ..without.clone() };
        let traces = alternate(lab, &tpcc, &[without, with])?;
        if !open {
            rate = median_of(&traces[0], Trace::per_second);
        }
        table.rows.push(row(&format!("{name} loop, no checkpoint"), &traces[0], false));
        table.rows.push(row(&format!("{name} loop, while one is written"), &traces[1], true));
        judge(name, &traces, &mut findings);
    }
    findings.tables.push(("TPC-C, ledger on disk, blocks of 200 at most".to_owned(), table));
    findings.remark(
        "closed: a full block is always there, and latency is a block's time; open: transactions \
         arrive evenly at half of the closed loop's rate, and latency counts from the arrival.",
    );
    findings.remark("\"its CPU\" is the checkpoint thread's, of one core, while it was at work.");
    findings.remark(FEW_CORES);
    Ok(findings)
}

fn row(name: &str, runs: &[Trace], within: bool) -> Vec<String> {
    let part = |trace: &Trace| if within { trace.within.clone() } else { trace.without.clone() };
    let of = |value: &dyn Fn(&Trace) -> f64| median(runs.iter().map(value).collect());
    let mut cells = vec![
        name.to_owned(),
        thousands(of(&|trace| part(trace).per_second())),
        format!("{:.1}", of(&|trace| part(trace).latency_ms_p99())),
    ];
    if within {
        cells.push(format!("{:.0}", median_of(runs, took_ms)));
        cells.push(format!("{:.0}", median_of(runs, cpu_percent)));
    }
    cells
}

fn took_ms(trace: &Trace) -> f64 {
    trace.checkpoint.as_ref().map_or(f64::NAN, |c| c.took.as_secs_f64() * 1e3)
}

fn cpu_percent(trace: &Trace) -> f64 {
    let cost = trace.checkpoint.as_ref();
    let share = cost.and_then(|c| Some(100.0 * c.cpu?.as_secs_f64() / c.took.as_secs_f64()));
    share.unwrap_or(f64::NAN)
}

fn judge(name: &str, traces: &[Vec<Trace>], findings: &mut Findings) {
    let p99 = median_of(&traces[1], |trace| trace.within.latency_ms_p99())
        / median_of(&traces[0], |trace| trace.without.latency_ms_p99());
    let claim = format!("{name} loop: p99 latency while a checkpoint is written");
    findings.claim(&claim, "at most 1.5x", times(p99), p99 <= P99_RATIO_MAX);
    let percent = median_of(&traces[1], cpu_percent);
    let claim = format!("{name} loop: share of a core that a checkpoint takes");
    let max = f64::from(CHECKPOINT_CPU_PERCENT_MAX);
    // A clock tick over the mark is none.
    let holds = percent <= max * 1.02;
    findings.claim(&claim, &format!("at most {max:.0} %"), format!("{percent:.0} %"), holds);
}

/// Replay beside the engine alone.
pub fn replays(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let heads = ["", "1 thread", "all threads", "ratio"].map(str::to_owned).to_vec();
    let mut table = Table { heads, rows: Vec::new() };
    for (workload, transactions) in
        [(super::tpcc(lab)?, TPCC_TRANSACTIONS), (super::smallbank(lab)?, SMALLBANK_TRANSACTIONS)]
    {
        replay(lab, &workload, transactions, &mut table, &mut findings)?;
    }
    let most = lab.effort.threads;
    let rates = [1, most].map(loops_per_second);
    table.rows.push(rates_row("this machine, a loop without memory", rates));
    findings.tables.push(("Transactions a second, by engine and by replay".to_owned(), table));
    findings.remark(
        "the loop without memory says how much more this machine gives to all threads than to one \
         just now: where its ratio is not their number, the others' cannot be either.",
    );
    findings.remark("the engine alone: protocols without sealing and without a log, same calls.");
    findings.remark(FEW_CORES);
    Ok(findings)
}

/// Recovery of rows and the load of a checkpoint beside what they cannot beat.
pub fn loads(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let heads = ["MB a second", "recovery", "disk", "plain loop", "of the lower"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    logical(lab, &mut table, &mut findings)?;
    load(lab, &mut table, &mut findings)?;
    findings.tables.push(("What bounds recovery, with all threads".to_owned(), table));
    findings.remark(
        "disk: the files read from front to back in pieces of 1 MiB, pages dropped before; plain \
         loop: the bytes in memory, decoded and put into tables by as many threads, no checks.",
    );
    Ok(findings)
}

fn replay(
    lab: &mut Lab<'_>,
    workload: &Workload,
    transactions: usize,
    table: &mut Table,
    findings: &mut Findings,
) -> Result<()> {
    let (name, most) = (workload.name().to_owned(), lab.effort.threads);
    let plan = Plan {
        workloads: vec![workload.clone()],
        protocols: vec!["serial".to_owned(), PROTOCOL.to_owned()],
        threads: vec![1, most],
        ..lab.times(transactions)
    };
    let engine = lab.measure(&plan)?;
    let of = |protocol: &str, threads| {
        let found = engine.iter().find(|m| m.protocol == protocol && m.threads == threads);
        found.map_or(f64::NAN, |m| m.committed_per_second)
    };
    for protocol in ["serial", PROTOCOL] {
        let rates = [of(protocol, 1), of(protocol, most)];
        table.rows.push(rates_row(&format!("{name}, engine, {protocol}"), rates));
    }
    let best = of("serial", 1).max(of(PROTOCOL, most));
    let logs = Logs::make(&wanted(lab, workload, transactions))?;
    let methods: Vec<RecoveryMethod> =
        recovery::replay::ALL.iter().map(RecoveryMethod::Commands).collect();
    let costs = costs(lab, &logs, &methods, &[1, most])?;
    let count = logs.logged.transactions as f64;
    let rate = |method: &str, workers| count / seconds(&costs, method, workers);
    for method in ["clr (", "static-only", "synchronous", "clr-p"] {
        let shown = method.trim_end_matches(" (");
        let rates = [rate(method, 1), rate(method, most)];
        table.rows.push(rates_row(&format!("{name}, replay, {shown}"), rates));
    }
    speeds(&name, &costs, most, best / count, findings);
    findings.measurements.extend(engine);
    Ok(())
}

/// Turns of a loop that stays in registers, by so many threads together.
fn loops_per_second(threads: usize) -> f64 {
    const TURNS_BETWEEN_LOOKS: u64 = 10_000;
    let count = || {
        let (start, mut turns) = (Instant::now(), 0);
        while start.elapsed() < LOOP {
            for turn in 0..TURNS_BETWEEN_LOOKS {
                std::hint::black_box(turn);
            }
            turns += TURNS_BETWEEN_LOOKS;
        }
        turns as f64 / start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(count)).collect();
        count() + others.into_iter().filter_map(|other| other.join().ok()).sum::<f64>()
    })
}

fn rates_row(name: &str, [one, all]: [f64; 2]) -> Vec<String> {
    vec![name.to_owned(), thousands(one), thousands(all), times(all / one)]
}

fn speeds(name: &str, costs: &[Cost], most: usize, best: f64, findings: &mut Findings) {
    let gain = seconds(costs, "clr-p", 1) / seconds(costs, "clr-p", most);
    let claim = format!("{name}: pipelined replay, all threads over one");
    findings.claim(&claim, "at least 1.8x", times(gain), gain >= SPEED_UP_MIN);
    let replayed = costs.iter().map(|cost| cost.seconds).fold(f64::INFINITY, f64::min);
    let share = 1.0 / replayed / best;
    let claim = format!("{name}: the fastest replay, of the engine alone");
    findings.claim(&claim, "at least 0.9x", times(share), share >= OF_ENGINE_MIN);
    if name == "tpcc" {
        in_order(costs, most, findings);
    }
}

fn logical(lab: &mut Lab<'_>, table: &mut Table, findings: &mut Findings) -> Result<()> {
    let most = lab.effort.threads;
    let workload = super::tpcc(lab)?;
    let logs = Logs::make(&wanted(lab, &workload, TPCC_TRANSACTIONS))?;
    let methods = [
        RecoveryMethod::rows(RowScheme::Logical, "llr")?,
        RecoveryMethod::rows(RowScheme::Logical, "llr-p")?,
    ];
    let costs = costs(lab, &logs, &methods, &[most])?;
    let disk = bounds::disk_bytes_per_second(&logs.logged.rows_folder(RowScheme::Logical))?;
    let bytes = logs.logged.volume.logical_bytes as f64;
    let took: Result<Vec<f64>> = (0..lab.effort.rounds())
        .map(|_| Ok(bounds::insert_rows(&logs.logical, &logs.logged.store()?, most)?.as_secs_f64()))
        .collect();
    let plain = bytes / median(took?);
    for cost in &costs {
        let rate = bytes / (logs.reload[1].as_secs_f64() + cost.seconds);
        let name = format!("tpcc, {}", cost.method.name());
        bounded(&name, [rate, disk, plain], table, findings);
    }
    Ok(())
}

fn load(lab: &mut Lab<'_>, table: &mut Table, findings: &mut Findings) -> Result<()> {
    let (workload, most) = (super::tpcc(lab)?, lab.effort.threads);
    let checkpointed = Checkpointed::make(&workload, &lab.effort.folder)?;
    let (mut loads, mut loops, mut disks) = (Vec::new(), Vec::new(), Vec::new());
    let rate = |took: Duration| checkpointed.bytes as f64 / took.as_secs_f64();
    for _ in 0..lab.effort.rounds() {
        disks.push(bounds::disk_bytes_per_second(checkpointed.path())?);
        loads.push(rate(checkpointed.load(most)?));
        loops.push(rate(bounds::insert_checkpoint(&checkpointed, most)?));
    }
    let rates = [median(loads), median(disks), median(loops)];
    bounded("tpcc, checkpoint", rates, table, findings);
    Ok(())
}

/// A rate beside the disk's and the plain loop's.
fn bounded(name: &str, rates: [f64; 3], table: &mut Table, findings: &mut Findings) {
    let [rate, disk, plain] = rates;
    let share = rate / disk.min(plain);
    let cells = rates.map(|rate| format!("{:.0}", rate / 1e6));
    let cells = cells.into_iter().chain([times(share)]);
    table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    let claim = format!("{name}: of the lower of disk and plain loop");
    findings.claim(&claim, "at least 0.8x", times(share), share >= OF_BOUND_MIN);
}
