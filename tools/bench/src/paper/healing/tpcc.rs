//! TPC-C: figures 3.8 to 3.13, tables 3.1 and 3.4.

use anyhow::Result;

use super::{COMMANDS, INTERLEAVED, contest, interleaved, lines, percentile, ratio, spent_ns};
use crate::Workload;
use crate::bed::Source;
use crate::contention::{Contender, Scene, Trace};
use crate::paper::{Expected, Findings, Lab, near, times};
use crate::table::Table;

const TRANSACTIONS: usize = 30_000;
const WAREHOUSES: [usize; 4] = [1, 2, 4, 8];

fn workload(lab: &Lab<'_>, warehouses: usize) -> Result<Workload> {
    let (warehouses, customers, items) = match lab.effort.smoke {
        true => (1, 30, 100),
        false => (warehouses, lab.effort.rows(600), lab.effort.rows(20_000)),
    };
    let tpcc = Workload::named("tpcc")?.with("warehouses", warehouses);
    let tpcc = tpcc.with("customers", customers).with("items", items);
    Ok(tpcc.with("remote_lines", 0).with("remote_payments", 0))
}

fn scene(lab: &Lab<'_>, workload: &Workload) -> Scene {
    Scene {
        workload: workload.clone(),
        theta: None,
        transactions: lab.effort.transactions(TRANSACTIONS),
        threads: lab.effort.threads,
        ad_hoc_percent: 0,
    }
}

fn named(names: &[&str]) -> Vec<Contender> {
    names.iter().map(|name| Contender::named(name)).collect()
}

/// Contenders over numbers of warehouses: by place, then by contender.
fn over_warehouses(
    lab: &mut Lab<'_>,
    contenders: &[Contender],
    spans: bool,
) -> Result<Vec<Vec<Trace>>> {
    let mut traces = Vec::new();
    for warehouses in WAREHOUSES {
        let workload = workload(lab, warehouses)?;
        let source = Source::load(&workload)?;
        let scene = scene(lab, &workload);
        traces.push(contest(lab, &source, &scene, contenders, spans)?);
    }
    Ok(traces)
}

fn places() -> Vec<String> {
    WAREHOUSES.map(|warehouses| warehouses.to_string()).to_vec()
}

const RATE: (&str, &str, usize) = ("warehouses", "transactions per CPU-second", 0);

/// Figure 3.8.
pub fn validation(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut contenders = named(&["occ", "silo"]);
    contenders.extend(["occ", "silo"].map(Contender::unvalidated));
    let contenders = interleaved(&contenders);
    let traces = over_warehouses(lab, &contenders, false)?;
    let mut findings = Findings::default();
    let rates = lines("TPC-C", RATE, &places(), &contenders, &traces, Trace::per_cpu_second);
    findings.series.push(rates);
    let fewest = |one, other| ratio(&contenders, &traces[0], one, other);
    let occ = fewest("OCC-", "OCC");
    findings.ratio("fewest warehouses: OCC- over OCC", 3.0, occ);
    let silo = fewest("SILO-", "SILO");
    findings.ratio("fewest warehouses: SILO- over SILO", 12.0, silo);
    let bounds = fewest("SILO-", "OCC-");
    findings.ratio("SILO- over OCC-", (1.10, 1.15), bounds);
    findings.remark(INTERLEAVED);
    findings.remark(COMMANDS);
    Ok(findings)
}

/// Figure 3.9.
pub fn restarts(lab: &mut Lab<'_>) -> Result<Findings> {
    let contenders = interleaved(&named(&["occ", "silo"]));
    let traces = over_warehouses(lab, &contenders, true)?;
    let mut findings = Findings::default();
    let percent = ("warehouses", "percent", 1);
    let lost = |trace: &Trace| 100.0 * trace.lost_share();
    let title = "Time spent on attempts that came to nothing";
    findings.series.push(lines(title, percent, &places(), &contenders, &traces, lost));
    let rate = ("warehouses", "restarts for each commit", 2);
    let rates = lines("Abort rate", rate, &places(), &contenders, &traces, Trace::abort_rate);
    findings.series.push(rates);
    for (at, name, theirs) in [(0, "OCC", 69.0), (1, "SILO", 91.0)] {
        let share = lost(&traces[0][at]);
        let claim = format!("fewest warehouses: share of time that {name} loses");
        let (paper, ours) = (format!("{theirs:.0} %"), format!("{share:.0} %"));
        findings.judge(&claim, &paper, ours, near(theirs, share), share > 50.0);
    }
    let alike = traces[0][1].abort_rate() / traces[0][0].abort_rate();
    let holds = (0.7..1.4).contains(&alike);
    findings.claim("abort rate of SILO over that of OCC", "similar", times(alike), holds);
    findings.remark(INTERLEAVED);
    findings.remark(COMMANDS);
    Ok(findings)
}

fn all_protocols() -> Vec<Contender> {
    let mut all = named(&["healing", "occ", "silo", "2pl", "hybrid", "partitioned"]);
    all.extend(["occ", "silo"].map(Contender::unvalidated));
    interleaved(&all)
}

const DT: &str = "DT runs one transaction of a partition after the other: nothing of it is \
    interleaved.";

/// Figure 3.10.
pub fn warehouses(lab: &mut Lab<'_>) -> Result<Findings> {
    let contenders = all_protocols();
    let traces = over_warehouses(lab, &contenders, false)?;
    let mut findings = Findings::default();
    let rates = lines("TPC-C", RATE, &places(), &contenders, &traces, Trace::per_cpu_second);
    findings.series.push(rates);
    let fewest = |other| ratio(&contenders, &traces[0], "HEALING", other);
    let bound = fewest("OCC-");
    findings.ratio("fewest warehouses: HEALING over OCC-", 1.0, bound);
    let silo = fewest("SILO");
    findings.ratio("fewest warehouses: HEALING over SILO", 6.2, silo);
    let Trace { healed, healed_whole, relocked, restarts, committed, .. } = traces[0][0];
    let share = |count: u64| 100.0 * count as f64 / committed as f64;
    let ours = format!("{restarts} restarts");
    findings.claim("HEALING never begins again", "no-wait alone", ours, restarts == 0);
    findings.remark(&format!(
        "of HEALING's transactions on the fewest warehouses {:.1} % were healed, {:.1} % from \
         their start, and {:.2} % let go of their locks and took them again in order.",
        share(healed),
        share(healed_whole),
        share(relocked)
    ));
    findings.remark(DT);
    findings.remark(INTERLEAVED);
    findings.remark(COMMANDS);
    Ok(findings)
}

/// Figure 3.11.
pub fn threads(lab: &mut Lab<'_>) -> Result<Findings> {
    let contenders = all_protocols();
    let mut findings = Findings::default();
    let counts: Vec<usize> = (1..=lab.effort.threads).collect();
    let places: Vec<String> = counts.iter().map(usize::to_string).collect();
    for warehouses in [1, 2, 8] {
        let workload = workload(lab, warehouses)?;
        let source = Source::load(&workload)?;
        let mut traces = Vec::new();
        for threads in &counts {
            let scene = Scene { threads: *threads, ..scene(lab, &workload) };
            traces.push(contest(lab, &source, &scene, &contenders, false)?);
        }
        let title = format!("TPC-C, warehouses: {warehouses}");
        let axes = ("threads", RATE.1, 0);
        let rates = lines(&title, axes, &places, &contenders, &traces, Trace::per_cpu_second);
        findings.series.push(rates);
        if warehouses == 1 {
            let most = traces.last().map(Vec::as_slice).unwrap_or_default();
            let of = |one, other| ratio(&contenders, most, one, other);
            for (one, other, theirs) in
                [("HEALING", "2PL", 2.3), ("HEALING", "SILO", 6.2), ("2PL", "OCC", 1.25)]
            {
                let ours = of(one, other);
                let claim = format!("one warehouse, all threads: {one} over {other}");
                findings.ratio(&claim, theirs, ours);
            }
        }
    }
    findings.remark("two threads at most: bends over many cannot show.");
    findings.remark(DT);
    findings.remark(INTERLEAVED);
    Ok(findings)
}

/// Figure 3.12.
pub fn remote(lab: &mut Lab<'_>) -> Result<Findings> {
    let contenders = all_protocols();
    let mut traces = Vec::new();
    let percents = [0, 10, 20, 40];
    for percent in percents {
        // A NewOrder has ten lines: that so many of a hundred have a remote one.
        let lines = (percent + 5) / 10;
        let workload = workload(lab, 4)?.with("remote_payments", percent);
        let workload = workload.with("remote_lines", lines);
        let source = Source::load(&workload)?;
        let scene = scene(lab, &workload);
        traces.push(contest(lab, &source, &scene, &contenders, false)?);
    }
    let mut findings = Findings::default();
    let places = percents.map(|percent| percent.to_string());
    let axes = ("remote, %", RATE.1, 0);
    let title = "TPC-C, 4 warehouses";
    let rates = lines(title, axes, &places, &contenders, &traces, Trace::per_cpu_second);
    findings.series.push(rates);
    for (at, who) in contenders.iter().enumerate() {
        let rate = |place: usize| traces[place][at].per_cpu_second();
        let kept = rate(1) / rate(0);
        let (name, moves) = (who.name(), who.name() == "DT");
        if moves || name == "HEALING" {
            let theirs = if moves { "falls" } else { "flat" };
            let claim = format!("{name}: with 10 % remote over none");
            let holds = if moves { kept < 0.8 } else { kept > 0.9 };
            findings.claim(&claim, theirs, times(kept), holds);
        }
    }
    findings.remark(DT);
    findings.remark(INTERLEAVED);
    Ok(findings)
}

/// Figure 3.13.
pub fn ad_hoc(lab: &mut Lab<'_>) -> Result<Findings> {
    let contenders = interleaved(&named(&["healing", "occ", "silo"]));
    let workload = workload(lab, 4)?;
    let source = Source::load(&workload)?;
    let percents = [0, 20, 40, 60, 80, 100];
    let mut traces = Vec::new();
    for ad_hoc_percent in percents {
        let scene = Scene { ad_hoc_percent, ..scene(lab, &workload) };
        traces.push(contest(lab, &source, &scene, &contenders, false)?);
    }
    let mut findings = Findings::default();
    let places = percents.map(|percent| percent.to_string());
    let axes = ("ad hoc, %", RATE.1, 0);
    let title = "TPC-C, 4 warehouses";
    let rates = lines(title, axes, &places, &contenders, &traces, Trace::per_cpu_second);
    findings.series.push(rates);
    let rate = |place: usize| traces[place][0].per_cpu_second();
    let declines = (1..percents.len()).all(|place| rate(place) < 1.05 * rate(place - 1));
    let all = rate(5) / rate(0);
    findings.claim("HEALING declines with ad-hoc work", "smoothly", times(all), declines);
    let end = ratio(&contenders, &traces[5], "HEALING", "OCC");
    findings.ratio("all ad hoc: HEALING over OCC", 1.0, end);
    findings.remark(
        "where the thesis runs ad-hoc transactions as OCC, healing runs them again from their \
         start with their locks held, so it need not come down to OCC.",
    );
    findings.remark(INTERLEAVED);
    Ok(findings)
}

/// Table 3.1.
pub fn latencies(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut contenders = named(&["healing", "occ", "silo", "2pl"]);
    contenders.extend(["occ", "silo"].map(Contender::unvalidated));
    let contenders = interleaved(&contenders);
    let workload = workload(lab, 4)?;
    let source = Source::load(&workload)?;
    let scene = scene(lab, &workload);
    let traces = contest(lab, &source, &scene, &contenders, true)?;
    let mut findings = Findings::default();
    for procedure in ["new_order", "delivery"] {
        let name = format!("tpcc_{procedure}");
        let all: Vec<Vec<u64>> = traces.iter().map(|trace| spent_ns(trace, Some(&name))).collect();
        findings
            .tables
            .push((format!("{procedure}, % of transactions"), shares(&contenders, &all)));
        let beyond = |at: usize| percentile(&all[at], 95) / percentile(&all[4], 50);
        for (at, who) in contenders.iter().enumerate().take(3) {
            let claim = format!("{procedure}: 95 % of {} over the median of OCC-", who.name());
            let theirs = if at == 0 { Expected::About(2.0) } else { Expected::AtLeast(4.0) };
            findings.ratio(&claim, theirs, beyond(at));
        }
    }
    findings.remark(INTERLEAVED);
    Ok(findings)
}

/// Shares in buckets that double.
fn shares(contenders: &[Contender], spent_ns: &[Vec<u64>]) -> Table {
    let heads = ["us".to_owned()].into_iter().chain(contenders.iter().map(Contender::name));
    let mut table = Table { heads: heads.collect(), rows: Vec::new() };
    let bounds_us = [0, 10, 20, 40, 80, 160, 320, 640, 1_280];
    for (at, low) in bounds_us.iter().enumerate() {
        let high = bounds_us.get(at + 1).copied();
        let within = |ns: &&u64| **ns >= low * 1_000 && high.is_none_or(|high| **ns < high * 1_000);
        let share = |all: &Vec<u64>| {
            let count = all.iter().filter(within).count();
            format!("{:.1}", 100.0 * count as f64 / all.len().max(1) as f64)
        };
        let name = high.map_or_else(|| format!("> {low}"), |high| format!("{low} to {high}"));
        table.rows.push(std::iter::once(name).chain(spent_ns.iter().map(share)).collect());
    }
    table
}

/// Table 3.4.
pub fn overhead(lab: &mut Lab<'_>) -> Result<Findings> {
    // One warehouse a thread, one transaction at a time: none meets another.
    let contenders = named(&["healing", "occ", "silo"]);
    let mut findings = Findings::default();
    let mut traces = Vec::new();
    let counts: Vec<usize> = (1..=lab.effort.threads).collect();
    for threads in &counts {
        let workload = workload(lab, *threads)?;
        let source = Source::load(&workload)?;
        let scene = Scene { threads: *threads, ..scene(lab, &workload) };
        traces.push(contest(lab, &source, &scene, &contenders, false)?);
    }
    let places: Vec<String> = counts.iter().map(usize::to_string).collect();
    let axes = ("threads", RATE.1, 0);
    let title = "TPC-C, as many warehouses as threads";
    let rates = lines(title, axes, &places, &contenders, &traces, Trace::per_cpu_second);
    findings.series.push(rates);
    let most = traces.last().map(Vec::as_slice).unwrap_or_default();
    for other in ["OCC", "SILO"] {
        let cost = 100.0 * (1.0 - ratio(&contenders, most, "HEALING", other));
        let claim = format!("what the record costs, against {other}");
        findings.claim(&claim, "up to 6.7 %", format!("{cost:.1} %"), cost <= 7.0);
    }
    findings.remark(
        "the thesis's access cache and copies of what was read are one record here: copies are the \
         registers of the program.",
    );
    Ok(findings)
}
