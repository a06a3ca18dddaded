//! Lai, Liu, Lo: *When Private Blockchain Meets Deterministic Database*, SIGMOD 2023, section 5.
//!
//! Theirs are processes of PostgreSQL with tables on disk; ours is one program with tables in
//! memory. Hit rates follow from workload and block size alone and should come out alike; of
//! throughput only the order of the protocols and the shapes can.

use anyhow::Result;
use concurrency::protocol::OptionValues;

use super::{Figure, Findings, Grid, Lab, setting, theta_of, times};
use crate::named;
use crate::table::{percent, thousands};
use crate::{Measurement, Plan, Workload};

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "harmony-hits-ycsb",
        about: "hit rate of Harmony's Rule 1 over skew, YCSB, blocks of 25, 10,000 keys",
        source: "Harmony, table 3",
        protocols: &["harmony", OVERLAPPING, "aria"],
        find: hits_ycsb,
    },
    Figure {
        name: "harmony-hits-smallbank",
        about: "hit rate of Harmony's Rule 1 over skew, SmallBank, blocks of 25, 10,000 customers",
        source: "Harmony, table 3",
        protocols: &["harmony", OVERLAPPING, "aria"],
        find: hits_smallbank,
    },
    Figure {
        name: "harmony-hits-tpcc",
        about: "hit rate of Harmony's Rule 1 over warehouses, TPC-C, blocks of 25",
        source: "Harmony, table 3",
        protocols: &["harmony", OVERLAPPING, "aria"],
        find: hits_tpcc,
    },
    Figure {
        name: "harmony-throughput",
        about: "Harmony beside Aria and RBC at medium contention, each with its own block size",
        source: "Harmony, figures 7 and 8",
        protocols: &["harmony", "aria", "rbc"],
        find: throughput,
    },
    Figure {
        name: "harmony-blocks",
        about: "throughput and aborts of Harmony, Aria and RBC over block sizes, SmallBank and YCSB",
        source: "Harmony, figures 9 and 10",
        protocols: &["harmony", "aria", "rbc"],
        find: block_sizes,
    },
    Figure {
        name: "harmony-contention-smallbank",
        about: "throughput and aborts of Harmony, Aria and RBC over skew, SmallBank, blocks of 25",
        source: "Harmony, figure 11",
        protocols: &["harmony", "aria", "rbc"],
        find: contention_smallbank,
    },
    Figure {
        name: "harmony-contention",
        about: "throughput and aborts of Harmony, Aria and RBC over skew, YCSB, blocks of 25",
        source: "Harmony, figure 12",
        protocols: &["harmony", "aria", "rbc"],
        find: contention,
    },
    Figure {
        name: "harmony-hotspot",
        about: "a hot one percent of YCSB's rows, updated with growing probability",
        source: "Harmony, figure 14",
        protocols: &["harmony", "aria", "rbc"],
        find: hotspot,
    },
    Figure {
        name: "harmony-tpcc",
        about: "Harmony beside Aria and RBC on TPC-C over warehouses",
        source: "Harmony, figure 19",
        protocols: &["harmony", "aria", "rbc"],
        find: tpcc_throughput,
    },
    Figure {
        name: "harmony-ablation",
        about: "Harmony with each of its optimisations switched off, low and high contention",
        source: "Harmony, section 5.7",
        protocols: &["harmony"],
        find: ablation,
    },
];

const BLOCK: usize = 25;
const KEYS: u64 = 10_000;
const SKEWS: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

fn ycsb(lab: &Lab<'_>) -> Result<Workload> {
    let ycsb = Workload::named("ycsb")?.with("rows", lab.effort.rows_exactly(KEYS));
    Ok(ycsb.with("draw", "chance").with("writes", 0).with("commands", 50))
}

fn smallbank(lab: &Lab<'_>) -> Result<Workload> {
    Ok(Workload::named("smallbank")?.with("rows", lab.effort.rows_exactly(KEYS)))
}

/// Fewer customers and items than in the paper, so that 80 warehouses fit into memory and time:
/// contention is on warehouses and districts.
fn tpcc(lab: &Lab<'_>, warehouses: u64) -> Result<Workload> {
    let tpcc = Workload::named("tpcc")?.with("warehouses", warehouses);
    Ok(tpcc.with("customers", lab.effort.rows(100)).with("items", lab.effort.rows(10_000)))
}

fn aborted(measurement: &Measurement) -> String {
    percent(measurement.abort_share, 1)
}

fn per_cpu_second(measurement: &Measurement) -> String {
    thousands(measurement.committed_per_cpu_second)
}

/// Harmony as the paper measured it: a block is simulated while the one before it commits.
const OVERLAPPING: &str = "harmony:inter_block=on";

/// Harmony's rates under a head of the paper's.
fn hits(grid: &Grid, head: &str, paper: &[f64]) -> Findings {
    let mut findings = Findings::default();
    let mut table = grid.table(head, aborted);
    let numbers = paper.iter().map(|percent| format!("{percent:.1}"));
    table.rows.insert(0, std::iter::once("paper".to_owned()).chain(numbers).collect());
    findings.tables.push(("Executions turned away, %".to_owned(), table));
    for (place, &theirs) in grid.places().iter().zip(paper) {
        let Some(ours) = grid.get(OVERLAPPING, place).map(|m| 100.0 * m.abort_share) else {
            continue;
        };
        let near = (ours - theirs).abs() <= (0.5 * theirs).max(1.0);
        let claim = format!("{head} {place}: this share hits the dangerous structure");
        findings.claim(&claim, &format!("{theirs:.1} %"), format!("{ours:.1} %"), near);
    }
    findings.remark("\"holds\" allows for half of the paper's number, or one point.");
    findings.remark("the paper's blocks overlap, as those of harmony:inter_block=on do.");
    findings
}

/// Harmony never turns away more than Aria.
fn fewer_than_aria(grid: &Grid, findings: &mut Findings) {
    let pairs = grid.places().into_iter().filter_map(|place| {
        let harmony = grid.get("harmony", &place)?;
        Some((harmony.abort_share, grid.get("aria", &place)?.abort_share))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    if !pairs.is_empty() {
        let fewer = pairs.iter().filter(|(harmony, aria)| harmony <= aria).count();
        let ours = format!("at {fewer} of {}", pairs.len());
        let holds = fewer == pairs.len();
        findings.claim("Harmony turns away no more than Aria", "everywhere", ours, holds);
    }
}

fn hits_over_skew(lab: &mut Lab<'_>, workload: Workload, paper: &[f64]) -> Result<Findings> {
    let plan = Plan {
        workloads: vec![workload],
        thetas: SKEWS.to_vec(),
        block_transactions: vec![BLOCK],
        ..lab.counts(50_000)
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: theta_of };
    let mut findings = hits(&grid, "skew", paper);
    fewer_than_aria(&grid, &mut findings);
    findings.measurements = grid.cells;
    Ok(findings)
}

fn hits_ycsb(lab: &mut Lab<'_>) -> Result<Findings> {
    let workload = ycsb(lab)?;
    hits_over_skew(lab, workload, &[1.1, 1.2, 2.4, 9.9, 38.3, 74.3])
}

fn hits_smallbank(lab: &mut Lab<'_>) -> Result<Findings> {
    let workload = smallbank(lab)?;
    hits_over_skew(lab, workload, &[0.1, 0.1, 0.2, 1.5, 2.8, 10.6])
}

fn warehouses(lab: &Lab<'_>, counts: &[u64]) -> Result<Vec<Workload>> {
    let counts = if lab.effort.smoke { &counts[..1] } else { counts };
    counts.iter().map(|&count| tpcc(lab, count)).collect()
}

fn hits_tpcc(lab: &mut Lab<'_>) -> Result<Findings> {
    let plan = Plan {
        workloads: warehouses(lab, &[1, 20, 40, 60, 80])?,
        block_transactions: vec![BLOCK],
        ..lab.counts(20_000)
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| setting(m, "warehouses") };
    let mut findings = hits(&grid, "warehouses", &[47.9, 8.8, 4.2, 2.7, 2.4]);
    fewer_than_aria(&grid, &mut findings);
    findings.remark("a district has 100 customers and there are 10,000 items.");
    findings.measurements = grid.cells;
    Ok(findings)
}

/// Each protocol with the block size that the paper found best for it.
fn throughput(lab: &mut Lab<'_>) -> Result<Findings> {
    let sizes = [("harmony", 25, 25), ("aria", 75, 50), ("rbc", 10, 10)];
    let mut cells = Vec::new();
    for (protocol, smallbank_block, ycsb_block) in sizes {
        if !lab.protocols.iter().any(|present| present == protocol) {
            continue;
        }
        for (workload, block) in [(smallbank(lab)?, smallbank_block), (ycsb(lab)?, ycsb_block)] {
            let plan = Plan {
                protocols: vec![protocol.to_owned()],
                workloads: vec![workload],
                thetas: vec![0.6],
                block_transactions: vec![block],
                ..lab.times(100_000)
            };
            cells.extend(lab.measure(&plan)?);
        }
    }
    let grid = Grid { cells, place: |m| m.workload.clone() };
    let mut findings = Findings::default();
    let table = grid.table("workload", per_cpu_second);
    findings.tables.push(("Committed per CPU-second, skew 0.6".to_owned(), table));
    for (other, workload, paper) in
        [("rbc", "smallbank", 3.5), ("rbc", "ycsb", 2.0), ("aria", "ycsb", 1.5)]
    {
        ratio(&grid, other, workload, paper, &mut findings);
    }
    findings.remark("the paper counts transactions per second, with tables on disk.");
    findings.measurements = grid.cells;
    Ok(findings)
}

/// Harmony over another one, by CPU-second.
fn ratio(grid: &Grid, other: &str, place: &str, paper: f64, findings: &mut Findings) {
    let rate = |protocol| grid.get(protocol, place).map(|m| m.committed_per_cpu_second);
    if let (Some(harmony), Some(theirs)) = (rate("harmony"), rate(other)) {
        let ratio = harmony / theirs;
        let claim = format!("{place}: Harmony is ahead of {other}");
        findings.ratio(&claim, paper, ratio);
    }
}

/// The paper's sizes, and what it says of the curves: each falls behind its best size, SmallBank's
/// least.
fn block_sizes(lab: &mut Lab<'_>) -> Result<Findings> {
    const SIZES: [usize; 6] = [5, 10, 25, 50, 75, 100];
    let mut findings = Findings::default();
    let mut kept = Vec::new();
    for workload in [smallbank(lab)?, ycsb(lab)?] {
        let name = workload.name();
        let plan = Plan {
            workloads: vec![workload],
            thetas: vec![0.6],
            block_transactions: SIZES.to_vec(),
            ..lab.times(50_000)
        };
        let cells = lab.measure(&plan)?;
        let grid = Grid { cells, place: |m| m.block_transactions.to_string() };
        let head = "transactions a block";
        let rates = grid.table(head, per_cpu_second);
        findings.tables.push((format!("{name}: committed per CPU-second, skew 0.6"), rates));
        let aborts = grid.table(head, aborted);
        findings.tables.push((format!("{name}: executions turned away, %"), aborts));
        for protocol in grid.protocols() {
            let shares: Vec<f64> = grid.row(&protocol).map(|m| m.abort_share).collect();
            let grows = shares.is_sorted_by(|one, next| *next + 0.01 >= *one);
            let (Some(first), Some(last)) = (shares.first(), shares.last()) else { continue };
            let ours = format!("{:.1} to {:.1} %", 100.0 * first, 100.0 * last);
            let claim = format!("{name}: larger blocks have {protocol} turn away more");
            findings.claim(&claim, "grows", ours, grows);
        }
        kept.extend(grid.cells);
    }
    findings.remark("the paper's best sizes (25 for Harmony, 50 and 75 for Aria, 10 for RBC) are those of processes that wait for disks.");
    findings.measurements = kept;
    Ok(findings)
}

fn contention(lab: &mut Lab<'_>) -> Result<Findings> {
    let workload = ycsb(lab)?;
    contention_of(lab, workload, Some(2.3))
}

fn contention_smallbank(lab: &mut Lab<'_>) -> Result<Findings> {
    let workload = smallbank(lab)?;
    contention_of(lab, workload, None)
}

/// `ahead`: of Aria at the highest skew, where the paper gives a number.
fn contention_of(lab: &mut Lab<'_>, workload: Workload, ahead: Option<f64>) -> Result<Findings> {
    let plan = Plan {
        workloads: vec![workload],
        thetas: SKEWS.to_vec(),
        block_transactions: vec![BLOCK],
        ..lab.times(100_000)
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: theta_of };
    let mut findings = Findings::default();
    let rates = grid.table("skew", per_cpu_second);
    findings.tables.push(("Committed per CPU-second".to_owned(), rates));
    findings.tables.push(("Executions turned away, %".to_owned(), grid.table("skew", aborted)));
    if let Some(paper) = ahead {
        ratio(&grid, "aria", "1", paper, &mut findings);
    }
    fewer_than_aria(&grid, &mut findings);
    findings.measurements = grid.cells;
    Ok(findings)
}

fn hotspot(lab: &mut Lab<'_>) -> Result<Findings> {
    let ycsb = ycsb(lab)?.with("reads", 0).with("commands", 100).with("hot_keys", 1);
    let plan = Plan {
        workloads: [0, 20, 40, 60, 80].map(|p| ycsb.clone().with("hot_accesses", p)).to_vec(),
        block_transactions: vec![BLOCK],
        ..lab.times(100_000)
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| setting(m, "hot_accesses") };
    let mut findings = Findings::default();
    let head = "hot accesses, %";
    let rates = grid.table(head, per_cpu_second);
    findings.tables.push(("Committed per CPU-second".to_owned(), rates));
    findings.tables.push(("Executions turned away, %".to_owned(), grid.table(head, aborted)));
    for protocol in grid.protocols() {
        let rates: Vec<f64> = grid.row(&protocol).map(|m| m.committed_per_cpu_second).collect();
        let (Some(first), Some(last)) = (rates.first(), rates.last()) else { continue };
        let left = last / first;
        let (claim, paper, holds) = match protocol.as_str() {
            "harmony" => ("is almost unaffected by the hot spot", "flat", left >= 0.8),
            _ => ("falls significantly", "falls", left < 0.8),
        };
        let ours = format!("{:.0} % left", 100.0 * left);
        findings.claim(&format!("{protocol} {claim}"), paper, ours, holds);
    }
    findings.remark("a SELECT and an UPDATE of one row are one UPDATE, as in the paper.");
    findings.measurements = grid.cells;
    Ok(findings)
}

fn tpcc_throughput(lab: &mut Lab<'_>) -> Result<Findings> {
    let plan = Plan {
        workloads: warehouses(lab, &[1, 20])?,
        block_transactions: vec![BLOCK],
        ..lab.times(20_000)
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: |m| setting(m, "warehouses") };
    let mut findings = Findings::default();
    let rates = grid.table("warehouses", per_cpu_second);
    findings.tables.push(("Committed per CPU-second".to_owned(), rates));
    let aborts = grid.table("warehouses", aborted);
    findings.tables.push(("Executions turned away, %".to_owned(), aborts));
    for other in ["aria", "rbc"] {
        ratio(&grid, other, "1", 3.3, &mut findings);
    }
    findings
        .remark("3.3x is over the best of the others; 100 customers of a district, 10,000 items.");
    findings.measurements = grid.cells;
    Ok(findings)
}

/// The protocol's own `info` says what can be chosen: one variant for each value but the default.
fn variants(name: &str) -> Result<Vec<String>> {
    let info = named::protocol(name)?.info();
    let others = info.options.iter().flat_map(|option| match option.values {
        OptionValues::OneOf([_, others @ ..]) => {
            others.iter().map(|value| format!("{name}:{}={value}", option.name)).collect()
        }
        _ => Vec::new(),
    });
    Ok(others.collect())
}

fn ablation(lab: &mut Lab<'_>) -> Result<Findings> {
    let plan = Plan {
        protocols: std::iter::once("harmony".to_owned()).chain(variants("harmony")?).collect(),
        workloads: vec![ycsb(lab)?],
        thetas: vec![0.0, 0.6, 1.0],
        block_transactions: vec![BLOCK],
        ..lab.times(100_000)
    };
    let grid = Grid { cells: lab.measure(&plan)?, place: theta_of };
    let mut findings = Findings::default();
    let cpu = grid.table("skew", per_cpu_second);
    findings.tables.push(("Committed per CPU-second".to_owned(), cpu));
    let wall = grid.table("skew", |m| thousands(m.committed_per_second));
    findings.tables.push(("Committed per second".to_owned(), wall));
    for variant in &grid.protocols()[1..] {
        let gain = |theta: &str| {
            let rate = |name: &str| grid.get(name, theta).map(|m| m.committed_per_second);
            Some(rate("harmony")? / rate(variant)?)
        };
        let (Some(low), Some(high)) = (gain("0"), gain("1")) else { continue };
        let variant = variant.trim_start_matches("harmony:");
        let Some((name, value @ ("on" | "off"))) = variant.split_once('=') else { continue };
        // What is off by default helps if switching it on does.
        let (low, high) = if value == "off" { (low, high) } else { (1.0 / low, 1.0 / high) };
        let (paper, holds) = match name {
            "inter_block" => ("most at low contention", low >= high && low > 1.0),
            "reordering" => ("most at high contention", high >= low && high > 1.0),
            _ => ("helps", low.max(high) > 1.0),
        };
        let ours = format!("{} low, {} high", times(low), times(high));
        findings.claim(&format!("{name} helps"), paper, ours, holds);
    }
    if grid.protocols().len() == 1 {
        findings.remark("this program's harmony has nothing that can be switched off.");
    }
    findings.measurements = grid.cells;
    Ok(findings)
}
