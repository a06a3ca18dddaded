//! Qadah's thesis, chapter 2 (QueCC, Middleware 2018): sweeps over one parameter at a time.
//!
//! The thesis compares with non-deterministic protocols (Cicada, TicToc, Silo, …) on 32 threads and
//! 16 million rows. Here the others are the protocols of this program on this machine's cores and
//! one million rows, so the ratios answer another question: what queues gain over the best of the
//! other deterministic protocols. Where QueCC's queues ran less than half of the transactions, the
//! figure is none of QueCC's, and says so.

use anyhow::Result;

use super::{Figure, Findings, Grid, Lab, near, setting, theta_of, times};
use crate::table::{percent, thousands};
use crate::{Measurement, Plan, Workload};

const PROTOCOLS: &[&str] =
    &["quecc", "calvin", "bohm", "conflict_graph", "aria", "rbc", "harmony", "block_stm"];

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "quecc-batch",
        about: "QueCC's throughput and latency over batch size, theta 0.99",
        source: "Qadah, figure 2.3",
        protocols: &["quecc"],
        find: batch,
    },
    Figure {
        name: "quecc-skew",
        about: "QueCC beside the others over skew, half reads and half read-modify-writes",
        source: "Qadah, figure 2.5",
        protocols: PROTOCOLS,
        find: skew,
    },
    Figure {
        name: "quecc-writes",
        about: "QueCC beside the others over the share of writes, theta 0.99",
        source: "Qadah, figure 2.7",
        protocols: PROTOCOLS,
        find: writes,
    },
    Figure {
        name: "quecc-record-size",
        about: "QueCC beside the others over the size of a record, theta 0.99",
        source: "Qadah, figure 2.8",
        protocols: PROTOCOLS,
        find: record_size,
    },
    Figure {
        name: "quecc-operations",
        about: "operations per second over the operations of a transaction, theta 0.99",
        source: "Qadah, figure 2.9",
        protocols: PROTOCOLS,
        find: operations,
    },
    Figure {
        name: "quecc-tpcc",
        about: "TPC-C's NewOrder and Payment, one warehouse: 0, 50 and 100 % Payment",
        source: "Qadah, figure 2.11",
        protocols: PROTOCOLS,
        find: tpcc,
    },
];

/// The thesis's defaults.
const THETA: f64 = 0.99;
const BATCH: usize = 10_000;

fn ycsb(lab: &Lab<'_>) -> Result<Workload> {
    let ycsb = Workload::named("ycsb")?.with("rows", lab.effort.rows(1_000_000));
    Ok(ycsb.with("operations", 16).with("writes", 0).with("rmws", 50))
}

fn plan(lab: &Lab<'_>, workloads: Vec<Workload>) -> Plan {
    Plan { workloads, thetas: vec![THETA], block_transactions: vec![BATCH], ..lab.times(100_000) }
}

fn per_second(measurement: &Measurement) -> String {
    thousands(measurement.committed_per_second)
}

/// QueCC over the best of the others.
fn lead(grid: &Grid, place: &str) -> Option<(f64, String)> {
    let quecc = grid.get("quecc", place)?.committed_per_second;
    let others = grid.cells.iter().filter(|m| (grid.place)(m) == place && m.protocol != "quecc");
    let rate = |m: &&Measurement| m.committed_per_second;
    let best = others.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    Some((quecc / best.committed_per_second, best.protocol.clone()))
}

/// Throughput and aborts over the grid's places, and the claims that every sweep shares.
fn sweep(grid: &Grid, head: &str, paper: &[(&str, &str, f64)]) -> Findings {
    let mut findings = Findings::default();
    let rates = grid.table(head, per_second);
    findings.tables.push(("Committed per second".to_owned(), rates));
    let aborts = grid.table(head, |m| percent(m.abort_share, 1));
    findings.tables.push(("Executions turned away, %".to_owned(), aborts));
    let quecc: Vec<&Measurement> = grid.row("quecc").collect();
    if quecc.is_empty() {
        findings.remark("there is no quecc yet: only the others are measured.");
        return findings;
    }
    let aborts = quecc.iter().map(|m| m.abort_share).fold(0.0, f64::max);
    let ours = format!("{:.1} %", 100.0 * aborts);
    findings.claim("QueCC never aborts for concurrency", "0 %", ours, aborts == 0.0);
    for &(place, claim, ratio) in paper {
        if let Some((lead, best)) = lead(grid, place) {
            let ours = format!("{} ({best})", times(lead));
            let claim = format!("{head} {place}: {claim}");
            findings.judge(&claim, &times(ratio), ours, near(ratio, lead), lead > 1.0);
        }
    }
    findings.remark("the paper's ratios are over the best of its baselines, on 32 threads.");
    findings
}

fn batch(lab: &mut Lab<'_>) -> Result<Findings> {
    let plan = Plan {
        block_transactions: vec![1_000, 4_000, 10_000, 20_000, 40_000, 80_000],
        ..plan(lab, vec![ycsb(lab)?])
    };
    let plan = Plan { transactions: lab.effort.transactions(160_000), ..plan };
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| m.block_transactions.to_string() };
    let mut findings = Findings::default();
    let rates = grid.table("batch", per_second);
    findings.tables.push(("Committed per second".to_owned(), rates));
    let latencies = grid.table("batch", |m| format!("{:.1}", m.latency_us_p50 as f64 / 1e3));
    findings.tables.push(("Latency p50, ms".to_owned(), latencies));
    let rates: Vec<f64> = grid.cells.iter().map(|m| m.committed_per_second).collect();
    if let (Some(first), Some(last)) = (rates.first(), rates.last()) {
        let grows = grid.cells.windows(2).all(|w| w[0].latency_us_p50 <= w[1].latency_us_p50);
        let claim = "larger batches do not cost throughput, but latency";
        let ours = format!("{} at 80,000 over 1,000", times(last / first));
        findings.claim(claim, "rises, then level", ours, grows && last / first > 0.9);
    }
    findings.remark("the paper has 32 threads, where latency is below 3 ms up to 20,000.");
    findings.measurements = grid.cells;
    Ok(findings)
}

fn skew(lab: &mut Lab<'_>) -> Result<Findings> {
    let thetas = vec![0.0, 0.4, 0.8, 0.9, 0.99];
    let plan = Plan { thetas, ..plan(lab, vec![ycsb(lab)?]) };
    let grid = Grid { cells: lab.measure(&plan)?, place: theta_of };
    let paper = [("0.9", "ahead of the next best", 1.35), ("0.99", "ahead of the next best", 3.3)];
    let mut findings = sweep(&grid, "theta", &paper);
    findings.measurements = grid.cells;
    Ok(findings)
}

fn writes(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = ycsb(lab)?;
    let of = |share: u32| base.clone().with("reads", 100 - share).with("rmws", share);
    let plan = plan(lab, [0, 5, 20, 50, 80, 95].map(of).to_vec());
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| setting(m, "rmws") };
    let paper = [("80", "ahead of the next best", 4.5), ("95", "ahead of the next best", 4.5)];
    let mut findings = sweep(&grid, "writes, %", &paper);
    let rates: Vec<f64> = grid.row("quecc").map(|m| m.committed_per_second).collect();
    if let (Some(first), Some(last)) = (rates.first(), rates.last()) {
        let ours = format!("{:.0} % left at 95 %", 100.0 * last / first);
        findings.claim("QueCC falls with the share of writes", "falls", ours, last < first);
    }
    findings.measurements = grid.cells;
    Ok(findings)
}

fn record_size(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = ycsb(lab)?.with("rows", lab.effort.rows(200_000));
    let of = |bytes: u32| base.clone().with("column_bytes", bytes);
    let plan = plan(lab, [5, 10, 20, 40, 80, 100, 200].map(of).to_vec());
    let place = |m: &Measurement| {
        let bytes: usize = setting(m, "column_bytes").parse().unwrap_or_default();
        (10 * bytes).to_string()
    };
    let grid = Grid { cells: lab.measure(&plan)?, place };
    let mut findings = sweep(&grid, "record, bytes", &[("2000", "ahead of the next best", 3.0)]);
    findings.remark("200,000 rows, so that records of 2,000 bytes fit into memory.");
    findings.measurements = grid.cells;
    Ok(findings)
}

fn operations(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = ycsb(lab)?;
    let of = |count: u32| base.clone().with("operations", count);
    let plan = plan(lab, [1, 10, 16, 20, 32].map(of).to_vec());
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| setting(m, "operations") };
    let mut findings = sweep(&grid, "operations", &[("32", "ahead of the next best", 2.7)]);
    let operations = |m: &Measurement| {
        let of_one: f64 = setting(m, "operations").parse().unwrap_or_default();
        of_one * m.committed_per_second
    };
    let table = grid.table("operations", |m| {
        let of_one: f64 = setting(m, "operations").parse().unwrap_or_default();
        thousands(of_one * m.committed_per_second)
    });
    findings.tables.insert(0, ("Operations per second".to_owned(), table));
    let rates: Vec<f64> = grid.row("quecc").map(operations).collect();
    if let Some(first) = rates.first() {
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        let ours = format!("{} operations/s", thousands(*first));
        let claim = "QueCC's operations/s are lowest at 1 operation";
        findings.claim(claim, "lowest", ours, *first == least);
    }
    findings.measurements = grid.cells;
    Ok(findings)
}

fn tpcc(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut base = Workload::named("tpcc")?.with("mix", "neworder-payment");
    if lab.effort.smoke {
        base = base.with("customers", 30).with("items", 100);
    }
    let of = |share: u32| base.clone().with("payment", share);
    let plan = Plan {
        transactions: lab.effort.transactions(50_000),
        ..plan(lab, [0, 50, 100].map(of).to_vec())
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| setting(m, "payment") };
    let paper = [("50", "ahead of the next best", 2.7), ("100", "ahead of the next best", 6.34)];
    let mut findings = sweep(&grid, "Payment, %", &paper);
    findings.measurements = grid.cells;
    Ok(findings)
}
