//! Protocols, figures 5.6 to 5.10.

use anyhow::Result;

use super::stage::{NEW_ORDER, PAYMENT, Ycsb};
use super::{FEW_CORES, RULES, Sheet, play, play_often, tpcc_tables, ycsb};
use crate::paper::{Findings, Lab, near, times};

pub fn read_only(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for operations in [1, 100] {
        let work = Ycsb { operations, update_percent: 0, ..ycsb(lab) };
        let data = work.data();
        let title = format!("{operations} reads a transaction, theta 0.2");
        let mut sheet = Sheet::new(&title, "threads", "committed a second", 0);
        for rule in RULES {
            for threads in [1, lab.effort.threads] {
                let groups = [work.group(threads, false)?];
                let played = play_often(lab, (rule, ""), &data, &groups)?;
                sheet.put(rule, threads, played.rate(0));
            }
        }
        if operations == 1 {
            let [one, all] = [1, lab.effort.threads].map(|n| sheet.get("mvto", n));
            let claim = "MVTO: all threads against one, single reads";
            let (gain, linear) = (all / one, lab.effort.threads as f64);
            let near = near(linear, gain);
            findings.judge(claim, "near linear", times(gain), near, gain > 1.0);
        }
        sheet.add_to(&mut findings);
    }
    findings.remark(FEW_CORES);
    findings.remark("rates a second depend on what else the machine does.");
    Ok(findings)
}

const THETAS: [f64; 4] = [0.0, 0.5, 0.7, 0.9];

pub fn skew(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for (name, update_percent) in [("read-intensive", 20), ("update-intensive", 80)] {
        let mut rates = Sheet::new(name, "theta", "committed a CPU-second", 0);
        let mut conflicts = Sheet::new(name, "theta", "conflicts a commit", 3);
        for theta in THETAS {
            let work = Ycsb { theta, update_percent, ..ycsb(lab) };
            let (data, groups) = (work.data(), [work.group(lab.effort.threads, false)?]);
            for rule in RULES {
                let played = play_often(lab, (rule, ""), &data, &groups)?;
                rates.put(rule, theta, played.per_cpu_second());
                conflicts.put(rule, theta, played.groups[0].conflicts_each());
            }
        }
        if name == "read-intensive" {
            let calm = rates.ratio(["mvocc", "mvto"], 0.5);
            let claim = "read-intensive, theta 0.5: MVOCC beside MVTO";
            findings.claim(claim, "equal", times(calm), (0.8..1.25).contains(&calm));
            let hot = rates.ratio(["mvocc", "mvto"], 0.9);
            findings.ratio("the same, theta 0.9", 0.5, hot);
        }
        rates.add_to(&mut findings);
        conflicts.add_to(&mut findings);
    }
    findings.remark(FEW_CORES);
    findings.remark("with two transactions at a time hot keys collide far less than with forty.");
    Ok(findings)
}

pub fn undeclared(lab: &mut Lab<'_>) -> Result<Findings> {
    beside_readers(lab, false)
}

pub fn declared(lab: &mut Lab<'_>) -> Result<Findings> {
    beside_readers(lab, true)
}

/// One thread that mostly updates, alone and beside one that only reads.
fn beside_readers(lab: &mut Lab<'_>, declared: bool) -> Result<Findings> {
    let work = Ycsb { theta: 0.8, operations: 100, update_percent: 80, ..ycsb(lab) };
    let reads = Ycsb { update_percent: 0, ..work };
    let data = work.data();
    let mut findings = Findings::default();
    let name = if declared { "readers declared" } else { "readers undeclared" };
    let mut writers = Sheet::new(name, "writers", "committed a second", 0);
    let mut readers = Sheet::new(name, "readers", "committed a second", 0);
    for rule in RULES {
        let alone = play_often(lab, (rule, ""), &data, &[work.group(1, false)?])?;
        let groups = [work.group(1, false)?, reads.group(1, declared)?];
        let both = play_often(lab, (rule, ""), &data, &groups)?;
        writers.put(rule, "alone", alone.rate(0));
        writers.put(rule, "beside a reader", both.rate(0));
        readers.put(rule, "beside a writer", both.rate(1));
    }
    let steady = |rule: &str| writers.get(rule, "beside a reader") / writers.get(rule, "alone");
    if declared {
        for rule in ["mvto", "mv2pl"] {
            let claim = format!("{rule}: its writer beside a reader, against alone");
            findings.claim(&claim, "steady", times(steady(rule)), near(1.0, steady(rule)));
        }
    } else {
        let (locking, optimistic) = (steady("mv2pl"), steady("mvocc"));
        let claim = "MV2PL's writer nearly stops, MVOCC's is steady";
        let ours = format!("{} {}", times(locking), times(optimistic));
        let as_theirs = locking < 0.15 && near(1.0, optimistic);
        findings.judge(claim, "0.0x 1.0x", ours, as_theirs, locking < 0.7 * optimistic);
        let ratio = readers.ratio(["mvocc", "mvto"], "beside a writer");
        let claim = "MVOCC's readers starve: against MVTO's";
        findings.ratio(claim, (0.04, 0.5), ratio);
        findings.remark(
            "one that wrote nothing needs no validation here (it stands at its snapshot), declared \
             or not; so the starving of MVOCC's readers is not to be seen.",
        );
    }
    writers.add_to(&mut findings);
    readers.add_to(&mut findings);
    findings.remark(
        "one writer and one reader, where the thesis has 20 and up to 20: on two cores they seldom \
         hold a row at the same moment, so that a writer stops for its readers cannot show here.",
    );
    Ok(findings)
}

pub fn tpcc(lab: &mut Lab<'_>) -> Result<Findings> {
    let tables = tpcc_tables(lab, 1)?;
    let mut findings = Findings::default();
    let mut rates = Sheet::new("TPC-C, one warehouse", "", "a CPU-second", 0);
    let mut aborts = Sheet::new("each kind alone", "conflicts", "a commit", 3);
    let threads = lab.effort.threads;
    for rule in RULES {
        let groups = [tables.group(threads, &[])?];
        let played = play_often(lab, (rule, ""), &tables.data, &groups)?;
        rates.put(rule, "committed", played.per_cpu_second());
        let groups = [tables.group(1, &NEW_ORDER)?, tables.group(1, &PAYMENT)?];
        let played = play(lab, (rule, ""), &tables.data, &groups)?;
        for (name, share) in ["NewOrder", "Payment"].iter().zip(&played.groups) {
            aborts.put(rule, name, share.conflicts_each());
        }
    }
    let others = ["mvocc", "mv2pl", "ssn"].map(|rule| rates.get(rule, "committed"));
    let best = others.iter().copied().fold(0.0, f64::max);
    let ratio = rates.get("mvto", "committed") / best;
    findings.ratio("MVTO above the best other", (1.45, 2.2), ratio);
    let payment = aborts.get("mv2pl", "Payment") / aborts.get("mv2pl", "NewOrder");
    let claim = "MV2PL: Payment aborts more often than NewOrder";
    findings.ratio(claim, 6.8, payment);
    rates.add_to(&mut findings);
    aborts.add_to(&mut findings);
    findings.remark("one warehouse and two threads, where the thesis has ten and forty.");
    findings.remark(FEW_CORES);
    Ok(findings)
}
