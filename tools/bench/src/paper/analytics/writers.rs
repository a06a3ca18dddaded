//! Writers, alone and beside a query a second that reads every column of their table.
//!
//! Wall-clock rates on few cores would charge the writers for the processor time of the query. So
//! what is compared is what a writer gets for its own CPU-second: queries run on threads that are
//! known by their name, and whose time is taken off the process's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ledger::LogOptions;
use types::Layout;

use super::{AnalyticalBed, median};
use crate::bed::{Bed, Draft, Source};
use crate::paper::{Findings, Lab};
use crate::run::{collect, cpu_time};
use crate::table::{Table, percent, thousands};
use crate::{Cell, Plan, Workload};

const ROWS: u64 = 1_000_000;
const COLUMNS: usize = 10;
const COLUMN_BYTES: u64 = 84;
const BLOCK_TRANSACTIONS: usize = 1_000;
const TRANSACTIONS: usize = 100_000;
const EVERY: Duration = Duration::from_secs(1);
const LOSS_MAX: f64 = 0.05;
const LAYOUTS: [Layout; 2] = [Layout::Row, Layout::Column];

/// What writers did in a while.
struct Rate {
    per_s: f64,
    per_cpu_s: f64,
    queries: u32,
    query_ms: f64,
    query_cpu_share: f64,
}

/// CPU time of the threads that run queries, by their name. A thread of another run may end while
/// the list is read, and is left out then.
pub(super) fn query_cpu_time() -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        let read = |file| std::fs::read_to_string(thread.join(file));
        let Ok(name) = read("comm") else { continue };
        if name.starts_with("analytics")
            && let Ok(spent) = read("schedstat")
        {
            nanoseconds += spent.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The same calls again and again, until told to stop; returns the transactions that committed.
fn write(bed: &mut Bed, drafts: &[Draft], done: &AtomicBool) -> Result<u64> {
    let mut committed = 0;
    for block in drafts.chunks(BLOCK_TRANSACTIONS).cycle() {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let requests = block.iter().map(|draft| bed.request(draft)).collect::<Result<_>>()?;
        let executed = bed.replica.execute(0, requests)?;
        bed.replica.publish();
        committed += executed.decided.iter().filter(|one| one.outcome.is_committed()).count();
        drop(executed);
        collect(bed.replica.store(), bed.replica.head().height);
        bed.replica.store().bring_copies();
    }
    Ok(committed as u64)
}

/// Queries, one in each second; how many, and their time on the wall.
fn query(analytical: &AnalyticalBed, text: &str, span: Duration) -> Result<(u32, Duration)> {
    let (began, mut count, mut busy) = (Instant::now(), 0, Duration::ZERO);
    while began.elapsed() < span {
        let asked = Instant::now();
        analytical.run(text)?;
        busy += asked.elapsed();
        count += 1;
        std::thread::sleep(EVERY.min(span).saturating_sub(asked.elapsed()));
    }
    Ok((count, busy))
}

fn measure(
    bed: &mut Bed,
    drafts: &[Draft],
    beside: Option<(&AnalyticalBed, &str)>,
    span: Duration,
) -> Result<Rate> {
    let done = AtomicBool::new(false);
    let (began, cpu, own) = (Instant::now(), cpu_time(), query_cpu_time()?);
    let (committed, queries) = std::thread::scope(|scope| -> Result<_> {
        let writing = scope.spawn(|| write(bed, drafts, &done));
        let queries = match beside {
            Some((analytical, text)) => query(analytical, text, span),
            None => Ok((0, Duration::ZERO)).inspect(|_| std::thread::sleep(span)),
        };
        done.store(true, Ordering::Relaxed);
        let committed = writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        Ok((committed?, queries?))
    })?;
    let query_cpu = query_cpu_time()?.saturating_sub(own);
    let wall = began.elapsed();
    let writers_cpu = (cpu_time() - cpu).saturating_sub(query_cpu);
    Ok(Rate {
        per_s: committed as f64 / wall.as_secs_f64(),
        per_cpu_s: committed as f64 / writers_cpu.as_secs_f64(),
        queries: queries.0,
        query_ms: queries.1.as_secs_f64() * 1e3 / f64::from(queries.0.max(1)),
        query_cpu_share: query_cpu.as_secs_f64() / wall.as_secs_f64(),
    })
}

pub fn beside_scans(lab: &mut Lab<'_>) -> Result<Findings> {
    let rows = lab.effort.rows(ROWS);
    let workload = Workload::named("ycsb")?.with("rows", rows).with("columns", COLUMNS);
    let workload = workload.with("column_bytes", COLUMN_BYTES);
    let source = Source::load(&workload)?;
    let protocol = "harmony".to_owned();
    let cell = Cell {
        workload: workload.clone(),
        protocol,
        theta: Some(0.0),
        threads: 1,
        sealing: true,
        block_transactions: BLOCK_TRANSACTIONS,
        durability: None,
    };
    let mut bed = Bed::copy(&source, &cell, LogOptions::default())?;
    drop(source);
    let plan = Plan { transactions: lab.effort.transactions(TRANSACTIONS), ..Plan::default() };
    let drafts = bed.drafts(&plan)?;
    let analytical = AnalyticalBed::new(bed.replica.store(), 1)?;
    let columns: Vec<String> = (0..COLUMNS).map(|c| format!("max(field{c})")).collect();
    let text = format!("SELECT {} FROM usertable", columns.join(", "));
    analytical.run(&text)?;
    let scanned_gb = (rows * COLUMNS as u64 * (16 + COLUMN_BYTES)) as f64 / 1e9;

    let seconds = if lab.effort.quick { 2 } else { 5 };
    let span = if lab.effort.smoke { EVERY / 20 } else { EVERY * seconds };
    let tables = bed.replica.store().tables();
    let mut rates = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    let rounds = lab.effort.rounds();
    for round in 0..rounds {
        lab.tell(round, rounds, &"writers, alone and beside scans");
        for (layout, [alone, beside]) in LAYOUTS.iter().zip(&mut rates) {
            tables.iter().for_each(|table| bed.replica.store().set_layout(table.id(), *layout));
            // From here on the columns are kept, or not.
            analytical.run(&text)?;
            alone.push(measure(&mut bed, &drafts, None, span)?);
            beside.push(measure(&mut bed, &drafts, Some((&analytical, &text)), span)?);
        }
    }
    Ok(findings(&rates, scanned_gb))
}

fn findings(rates: &[[Vec<Rate>; 2]; 2], scanned_gb: f64) -> Findings {
    let of = |rates: &[Rate], value: fn(&Rate) -> f64| median(rates.iter().map(value).collect());
    let heads = ["", "tx/s", "tx per writers' CPU-s", "queries", "query, ms", "query, % of a core"];
    let row = |name: &str, rates: &[Rate]| {
        vec![
            name.to_owned(),
            thousands(of(rates, |rate| rate.per_s)),
            thousands(of(rates, |rate| rate.per_cpu_s)),
            rates.iter().map(|rate| rate.queries).sum::<u32>().to_string(),
            format!("{:.0}", of(rates, |rate| rate.query_ms)),
            percent(of(rates, |rate| rate.query_cpu_share), 0),
        ]
    };
    let [[alone, beside], [kept_alone, kept_beside]] = rates;
    let rows = vec![
        row("layout row, writers alone", alone),
        row("layout row, beside a query a second", beside),
        row("layout column, writers alone", kept_alone),
        row("layout column, beside a query a second", kept_beside),
    ];
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows };
    let title = "YCSB, half reads and half writes, blocks of 1,000, sealed, one thread".to_owned();
    let mut findings = Findings { tables: vec![(title, table)], ..Findings::default() };
    let loss = |to: &[Rate]| 1.0 - of(to, |rate| rate.per_cpu_s) / of(alone, |rate| rate.per_cpu_s);
    let claim = format!("writers lose to a snapshot a second over {scanned_gb:.1} GB, per CPU-s");
    let lost = loss(beside);
    findings.claim(&claim, "< 5 %", format!("{:.1} %", 100.0 * lost), lost < LOSS_MAX);
    findings.remark("the query takes the maximum of every column, on a thread of its own.");
    findings.remark(&format!(
        "with layout column writers bring what they write into columns: they lose {:.1} % alone, \
         {:.1} % beside the queries, to layout row alone.",
        100.0 * loss(kept_alone),
        100.0 * loss(kept_beside)
    ));
    findings
}
