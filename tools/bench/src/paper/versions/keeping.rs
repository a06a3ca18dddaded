//! Collectors, index pointers and the emulated systems, figures 5.18 to 5.25.

use anyhow::Result;
use multiversion::spec::EMULATED;

use super::stage::Ycsb;
use super::{FEW_CORES, PROTOCOL, Sheet, play_often, tpcc_tables, ycsb};
use crate::paper::{Findings, Lab, times};

/// Throughput, memory and steadiness of some collectors.
fn collectors(
    lab: &mut Lab<'_>,
    findings: &mut Findings,
    ways: &[(&str, &str)],
    (title, work): (&str, Ycsb),
) -> Result<[Sheet; 2]> {
    let (data, groups) = (work.data(), [work.group(lab.effort.threads, false)?]);
    let mut rates = Sheet::new(title, "", "committed a CPU-second", 0);
    let mut memory = Sheet::new(title, "memory", "bytes", 0);
    let mut halves = Sheet::new(title, "steadiness", "second half over the first", 2);
    for (name, tables) in ways {
        let played = play_often(lab, (PROTOCOL, tables), &data, &groups)?;
        rates.put(name, "rate", played.per_cpu_second());
        memory.put(name, "grown, each commit", played.bytes_each());
        let [first, second] = played.halves.map(|n| n as f64);
        halves.put(name, "rate", second / first);
    }
    halves.add_to(findings);
    Ok([rates, memory])
}

pub fn tuples(lab: &mut Lab<'_>) -> Result<Findings> {
    let ways = [
        ("cooperative", "storage=oldest_first:gc=cooperative"),
        ("background", "storage=oldest_first:gc=vacuum"),
        ("none", "storage=oldest_first:gc=none"),
    ];
    let mut findings = Findings::default();
    for (name, theta) in [("low contention", 0.2), ("high contention", 0.8)] {
        let work = Ycsb { theta, update_percent: 80, ..ycsb(lab) };
        let [rates, memory] = collectors(lab, &mut findings, &ways, (name, work))?;
        let ratio = rates.ratio(["cooperative", "background"], "rate");
        let claim = format!("{name}: cooperative against background");
        findings.ratio(&claim, 1.45, ratio);
        let ratio = memory.ratio(["cooperative", "none"], "grown, each commit");
        let claim = format!("{name}: memory of cooperative against none");
        findings.claim(&claim, "less", times(ratio), ratio < 1.0);
        rates.add_to(&mut findings);
        memory.add_to(&mut findings);
    }
    findings.remark("without collection oldest first walks ever longer chains.");
    Ok(findings)
}

pub fn batches(lab: &mut Lab<'_>) -> Result<Findings> {
    let ways = [
        ("by transaction", "gc=transaction"),
        ("background", "gc=vacuum"),
        ("by intervals (ours)", "gc=interval"),
        ("none", "gc=none"),
    ];
    let mut findings = Findings::default();
    for (name, update_percent) in [("read-intensive", 20), ("update-intensive", 80)] {
        let work = Ycsb { theta: 0.8, update_percent, ..ycsb(lab) };
        let [rates, memory] = collectors(lab, &mut findings, &ways, (name, work))?;
        let ratio = rates.ratio(["by transaction", "background"], "rate");
        let claim = format!("{name}: by transaction against background");
        match update_percent {
            20 => findings.claim(&claim, "above 1x", times(ratio), ratio > 1.0),
            _ => findings.ratio(&claim, 1.2, ratio),
        }
        let ratio = rates.ratio(["by transaction", "none"], "rate");
        let claim = format!("{name}: by transaction against none");
        findings.ratio(&claim, (1.2, 1.3), ratio);
        rates.add_to(&mut findings);
        memory.add_to(&mut findings);
    }
    findings.remark("newest first: without collection only memory grows, no reader walks further.");
    Ok(findings)
}

const POINTERS: [(&str, &str); 3] = [
    ("logical, tuple id", "index=tuple_id"),
    ("logical, primary key", "index=primary_key"),
    ("physical", "index=physical"),
];

pub fn indexes(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for (name, theta) in [("low contention", 0.2), ("high contention", 0.8)] {
        let mut sheet = Sheet::new(name, "secondary indexes", "committed a CPU-second", 0);
        for indexes in [0, 8, 20] {
            let rows = lab.effort.rows(50_000);
            let work = Ycsb { rows, theta, indexes, update_percent: 80, written: 1, ..ycsb(lab) };
            let (data, groups) = (work.data(), [work.group(lab.effort.threads, false)?]);
            for (name, tables) in POINTERS {
                let played = play_often(lab, (PROTOCOL, tables), &data, &groups)?;
                sheet.put(name, indexes, played.per_cpu_second());
            }
        }
        let ratio = sheet.ratio(["logical, tuple id", "physical"], 20);
        let paper = if theta < 0.5 { 1.4 } else { 1.25 };
        let claim = format!("{name}, 20 indexes: logical against physical");
        findings.ratio(&claim, paper, ratio);
        sheet.add_to(&mut findings);
    }
    findings.remark("updates write an attribute that no index has: only physical pointers follow.");
    Ok(findings)
}

pub fn index_threads(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let rows = lab.effort.rows(50_000);
    let (theta, indexes, update_percent, written) = (0.8, 8, 80, 1);
    let work = Ycsb { rows, theta, indexes, update_percent, written, ..ycsb(lab) };
    let data = work.data();
    let mut sheet = Sheet::new("8 indexes, theta 0.8", "threads", "a CPU-second", 0);
    for threads in [1, lab.effort.threads] {
        let groups = [work.group(threads, false)?];
        for (name, tables) in POINTERS {
            let played = play_often(lab, (PROTOCOL, tables), &data, &groups)?;
            sheet.put(name, threads, played.per_cpu_second());
        }
    }
    let ratio = sheet.ratio(["logical, tuple id", "physical"], lab.effort.threads);
    let claim = "all threads: logical against physical";
    findings.ratio(claim, 1.45, ratio);
    sheet.add_to(&mut findings);
    findings.remark(FEW_CORES);
    Ok(findings)
}

pub fn systems(lab: &mut Lab<'_>) -> Result<Findings> {
    let tables = tpcc_tables(lab, 1)?;
    let groups = [tables.group(lab.effort.threads.saturating_sub(1).max(1), &[])?, tables.scan()?];
    let mut findings = Findings::default();
    let mut rates = Sheet::new("TPC-C beside a scan", "", "committed a second", 0);
    let mut scans = Sheet::new("StockScan", "", "us", 0);
    for system in EMULATED {
        let keeps = system.tables.to_string();
        let played = play_often(lab, (system.rule, &keeps), &tables.data, &groups)?;
        rates.put(system.name, "transactions", played.rate(0));
        scans.put(system.name, "latency", played.groups[1].latency_us());
    }
    let best = EMULATED.iter().map(|system| rates.get(system.name, "transactions"));
    let best = best.fold(0.0, f64::max);
    let nuodb = rates.get("nuodb", "transactions") / best;
    findings.claim("NuoDB's choices are the fastest", "1x", times(nuodb), nuodb > 0.9);
    let delta = scans.get("hyper", "latency").max(scans.get("innodb", "latency"));
    let append = scans.get("memsql", "latency").min(scans.get("nuodb", "latency"));
    let claim = "scans: delta-based ones take longest";
    findings.claim(claim, "worst", times(delta / append), delta > append);
    rates.add_to(&mut findings);
    scans.add_to(&mut findings);
    findings.remark("one thread of transactions and one that scans; table 5.1 as printed.");
    findings.remark(FEW_CORES);
    Ok(findings)
}
