//! Wu, Chan and Tan: *Transaction healing* (SIGMOD 2016; Wu's thesis, 2017, chapter 3), figures 3.8
//! to 3.14 and tables 3.1 to 3.4.
//!
//! The paper uses 48 cores; these runs use the machine's own, with many transactions of each worker
//! under way at once where contention is what matters ([`crate::contention`]). What can be carried
//! over are ratios between protocols, shares and rates of aborts, and shapes over contention.
//!
//! * [`tpcc`]: figures 3.8 to 3.13, tables 3.1 and 3.4;
//! * [`smallbank`]: figure 3.14, tables 3.2 and 3.3.

mod smallbank;
mod tpcc;

use anyhow::Result;

use super::{Figure, Findings, Lab, Lines};
use crate::Workload;
use crate::bed::Source;
use crate::contention::{Contender, Scene, Trace, run};

pub const FIGURES: &[Figure] = &[
    figure("healing-3.8", "OCC and SILO with validation and without", tpcc::validation),
    figure("healing-3.9", "time lost on restarts, and abort rates", tpcc::restarts),
    figure("healing-3.10", "protocols over the number of warehouses", tpcc::warehouses),
    figure("healing-3.11", "protocols over threads at three levels of contention", tpcc::threads),
    figure("healing-3.12", "protocols over the share of remote transactions", tpcc::remote),
    figure("healing-3.13", "healing with a growing share of ad-hoc work", tpcc::ad_hoc),
    figure("healing-3.14", "SmallBank over skew", smallbank::skew),
    figure("healing-table-3.1", "latency of NewOrder and Delivery", tpcc::latencies),
    figure("healing-table-3.2", "abort rates of SmallBank over skew", smallbank::aborts),
    figure("healing-table-3.3", "latency of SmallBank over skew", smallbank::latencies),
    figure("healing-table-3.4", "what keeping a record costs", tpcc::overhead),
];

type Find = fn(&mut Lab<'_>) -> Result<Findings>;

const fn figure(name: &'static str, about: &'static str, find: Find) -> Figure {
    Figure { name, about, source: "chapter 3 of Wu's thesis", protocols: &["healing"], find }
}

/// Transactions that a worker has under way at once where contention is measured.
const UNDER_WAY: usize = 32;

const INTERLEAVED: &str = "32 transactions of each worker are under way at once, since two threads \
    alone hardly meet: rates are per CPU-second, and a latency is the time spent on a transaction, \
    over all its attempts.";
const COMMANDS: &str = "hot counters are update commands here, which no transaction reads: what is \
    left of TPC-C's contention is the order number of a district, columns beside those that \
    change, and what Delivery and OrderStatus look at.";

/// Runs of several contenders in one scene, in turns; of each, by its rate, the median.
fn contest(
    lab: &mut Lab<'_>,
    source: &Source,
    scene: &Scene,
    contenders: &[Contender],
    spans: bool,
) -> Result<Vec<Trace>> {
    let rounds = lab.effort.rounds();
    let mut traces = vec![Vec::new(); contenders.len()];
    for round in 0..rounds {
        for (at, who) in contenders.iter().enumerate() {
            let total = rounds * contenders.len();
            let what = format!("{}, {}", scene.workload, who.name());
            lab.tell(round * contenders.len() + at, total, &what);
            traces[at].push(run(source, scene, who, spans)?);
        }
    }
    let median = |mut runs: Vec<Trace>| {
        runs.sort_by(|a, b| a.per_cpu_second().total_cmp(&b.per_cpu_second()));
        runs.swap_remove(runs.len() / 2)
    };
    Ok(traces.into_iter().map(median).collect())
}

fn interleaved(contenders: &[Contender]) -> Vec<Contender> {
    contenders.iter().map(|who| who.interleaving(UNDER_WAY)).collect()
}

/// A quantity of each contender at each place.
fn lines(
    title: &str,
    (x_label, unit, digits): (&str, &str, usize),
    places: &[String],
    contenders: &[Contender],
    traces: &[Vec<Trace>],
    value: impl Fn(&Trace) -> f64,
) -> Lines {
    let line = |(at, who): (usize, &Contender)| {
        (who.name(), traces.iter().map(|place| Some(value(&place[at]))).collect())
    };
    Lines {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        unit: unit.to_owned(),
        digits,
        places: places.to_vec(),
        lines: contenders.iter().enumerate().map(line).collect(),
    }
}

/// How many times as much one contender commits as another.
fn ratio(contenders: &[Contender], traces: &[Trace], one: &str, other: &str) -> f64 {
    let rate = |name: &str| {
        let at = contenders.iter().position(|who| who.name() == name);
        at.map_or(f64::NAN, |at| traces[at].per_cpu_second())
    };
    rate(one) / rate(other)
}

/// The value below which so many percent of ascending values lie.
fn percentile(ascending: &[u64], percent: usize) -> f64 {
    let at = (ascending.len() * percent / 100).min(ascending.len().saturating_sub(1));
    ascending.get(at).map_or(f64::NAN, |value| *value as f64)
}

/// What was spent on each transaction, ascending; of one procedure, if it is named.
fn spent_ns(trace: &Trace, procedure: Option<&str>) -> Vec<u64> {
    let of_it = trace.spans.iter().filter(|(name, _)| procedure.is_none_or(|p| p == name));
    let mut spent: Vec<u64> = of_it.map(|(_, span)| span.spent_ns).collect();
    spent.sort_unstable();
    spent
}

fn sized(lab: &Lab<'_>, workload: &str, setting: &str, rows: u64) -> Result<Workload> {
    Ok(Workload::named(workload)?.with(setting, lab.effort.rows(rows)))
}
