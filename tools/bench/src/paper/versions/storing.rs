//! Version storage, figures 5.11 to 5.17. All under MVTO, as the thesis's.

use anyhow::Result;

use super::stage::Ycsb;
use super::{FEW_CORES, PROTOCOL, Sheet, play_often, tpcc_tables, ycsb};
use crate::paper::{Findings, Lab, times};

const APPEND: &str = "append";
const STORAGES: [(&str, &str); 3] = [
    (APPEND, "storage=newest_first"),
    ("time travel", "storage=time_travel"),
    ("delta", "storage=delta"),
];

/// Rates of some ways to keep tables over something that varies.
fn sweep(
    lab: &mut Lab<'_>,
    (title, x_label): (&str, &str),
    ways: &[(&str, &str)],
    places: &[(String, Ycsb)],
) -> Result<Sheet> {
    let mut sheet = Sheet::new(title, x_label, "committed a CPU-second", 0);
    for (place, work) in places {
        let (data, groups) = (work.data(), [work.group(lab.effort.threads, false)?]);
        for (name, tables) in ways {
            let played = play_often(lab, (PROTOCOL, tables), &data, &groups)?;
            sheet.put(name, place, played.per_cpu_second());
        }
    }
    Ok(sheet)
}

pub fn strings(lab: &mut Lab<'_>) -> Result<Findings> {
    let ways = [("shared", "strings=shared"), ("copied", "strings=copied")];
    let mut findings = Findings::default();
    for (name, update_percent, paper) in
        [("read-intensive", 20, 1.4), ("update-intensive", 80, 2.0)]
    {
        let rows = lab.effort.rows(50_000);
        let place = |attributes: usize| {
            let (written, read) = (1, 1);
            let base = Ycsb { rows, long: true, update_percent, written, read, ..ycsb(lab) };
            (attributes.to_string(), Ycsb { attributes, ..base })
        };
        let places = [1, 10, 50].map(|n| place(n + usize::from(n == 1)));
        let title = format!("{name}, 100-byte strings");
        let sheet = sweep(lab, (&title, "attributes"), &ways, &places)?;
        let ratio = sheet.ratio(["shared", "copied"], 50);
        let claim = format!("{name}, 50 attributes: sharing against copying");
        findings.ratio(&claim, paper, ratio);
        sheet.add_to(&mut findings);
    }
    Ok(findings)
}

pub fn order(lab: &mut Lab<'_>) -> Result<Findings> {
    let ways = [("newest first", "storage=newest_first"), ("oldest first", "storage=oldest_first")];
    let mut findings = Findings::default();
    for (name, update_percent) in [("read-intensive", 20), ("update-intensive", 80)] {
        let places = [0.0, 0.7, 0.9]
            .map(|theta| (theta.to_string(), Ycsb { theta, update_percent, ..ycsb(lab) }));
        let sheet = sweep(lab, (name, "theta"), &ways, &places)?;
        let ratio = sheet.ratio(["newest first", "oldest first"], 0.9);
        let claim = format!("{name}, theta 0.9: newest first against oldest first");
        findings.ratio(&claim, (2.4, 3.4), ratio);
        sheet.add_to(&mut findings);
    }
    findings.remark(
        "chains are as long as the horizon is behind: with two transactions at a time it is never \
         far, so there is less to walk than with forty.",
    );
    Ok(findings)
}

const WHOLE_ROWS: &str = "whoever writes copies the whole row aside first, whatever the storage: \
    part of what deltas save in the thesis is spent here.";

pub fn updates(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for attributes in [10, 100] {
        let rows = lab.effort.rows(if attributes == 10 { 200_000 } else { 50_000 });
        let (written, read) = (1, 1);
        let base = Ycsb { rows, attributes, written, read, ..ycsb(lab) };
        let places = [0, 50, 100]
            .map(|percent| (percent.to_string(), Ycsb { update_percent: percent, ..base }));
        let title = format!("{attributes} attributes, one of them modified");
        let sheet = sweep(lab, (&title, "percent updates"), &STORAGES, &places)?;
        let ratio = sheet.ratio(["delta", APPEND], 100);
        let claim = format!("{attributes} attributes, updates only: delta against append");
        findings.ratio(&claim, if attributes == 10 { 1.0 } else { 2.0 }, ratio);
        sheet.add_to(&mut findings);
    }
    findings.remark(WHOLE_ROWS);
    Ok(findings)
}

pub fn modified(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let rows = lab.effort.rows(50_000);
    let base = Ycsb { rows, attributes: 100, read: 1, update_percent: 80, ..ycsb(lab) };
    let places = [1, 20, 100].map(|written| (written.to_string(), Ycsb { written, ..base }));
    let what = ("100 attributes, update-intensive", "modified");
    let sheet = sweep(lab, what, &STORAGES, &places)?;
    let [few, all] = [1, 100].map(|n| sheet.ratio(["delta", APPEND], n));
    findings.claim("one modified: delta against append", "best", times(few), few > 1.1);
    let claim = "all modified against one: delta's lead shrinks";
    findings.claim(claim, "converges", times(all / few), all < few);
    sheet.add_to(&mut findings);
    findings.remark(WHOLE_ROWS);
    Ok(findings)
}

pub fn read(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for (name, written) in [("updates modify one", 1), ("updates modify all", 100)] {
        let rows = lab.effort.rows(50_000);
        let base = Ycsb { rows, attributes: 100, written, ..ycsb(lab) };
        let places = [1, 20, 100].map(|read| (read.to_string(), Ycsb { read, ..base }));
        let title = format!("100 attributes, read-intensive, {name}");
        let sheet = sweep(lab, (&title, "attributes read"), &STORAGES, &places)?;
        let [few, all] = [1, 100].map(|n| sheet.ratio(["delta", APPEND], n));
        let claim = format!("{name}: reading more hurts delta most");
        findings.claim(&claim, "yes", times(all / few), all < few);
        sheet.add_to(&mut findings);
    }
    findings.remark("their losses to traffic between sockets cannot show on one.");
    Ok(findings)
}

pub fn spaces(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let work = Ycsb { update_percent: 100, ..ycsb(lab) };
    let (data, groups) = (work.data(), [work.group(lab.effort.threads, false)?]);
    let what = "updates only, 10 attributes";
    let mut sheet = Sheet::new(what, "memory spaces", "committed a CPU-second", 0);
    for (name, storage) in STORAGES {
        for spaces in [1, 2, 20] {
            let tables = format!("{storage}:spaces={spaces}");
            let played = play_often(lab, (PROTOCOL, &tables), &data, &groups)?;
            sheet.put(name, spaces, played.per_cpu_second());
        }
    }
    let ratio = sheet.get(APPEND, 20) / sheet.get(APPEND, 1);
    findings.ratio("append: 20 spaces against one", (1.6, 4.0), ratio);
    sheet.add_to(&mut findings);
    findings.remark("forty threads wait for one allocator; two seldom meet there.");
    Ok(findings)
}

pub fn tpcc(lab: &mut Lab<'_>) -> Result<Findings> {
    let tables = tpcc_tables(lab, 1)?;
    let groups = [tables.group(lab.effort.threads.saturating_sub(1).max(1), &[])?, tables.scan()?];
    let mut findings = Findings::default();
    let mut rates = Sheet::new("TPC-C beside a scan", "", "committed a second", 0);
    let mut scans = Sheet::new("the scan", "", "us", 0);
    for (name, storage) in STORAGES {
        let played = play_often(lab, (PROTOCOL, storage), &tables.data, &groups)?;
        rates.put(name, "transactions", played.rate(0));
        scans.put(name, "latency", played.groups[1].latency_us());
    }
    let ratio = scans.ratio([APPEND, "delta"], "latency");
    let claim = "a scan takes less on append than on delta";
    findings.ratio(claim, (0.53, 0.75), ratio);
    rates.add_to(&mut findings);
    scans.add_to(&mut findings);
    findings.remark(FEW_CORES);
    Ok(findings)
}
