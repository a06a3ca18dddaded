//! From runs to figures: medians and extremes, and their form as a JSON object.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use concurrency::ExecutionPath;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::agreement::gives_same_bytes;
use crate::run::Run;
use crate::{Cell, Plan};

/// One cell's result. A field that does not apply is null.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    pub workload: String,
    pub protocol: String,
    pub theta: Option<f64>,
    pub warehouses: Option<u32>,
    pub rows: Option<u64>,
    /// What the workload's settings were, where they were given.
    pub settings: BTreeMap<String, String>,
    pub threads: usize,
    pub block_transactions: usize,
    pub transactions: usize,
    pub repetitions: usize,
    pub seed: u64,
    pub sealing: bool,
    pub durability: bool,
    /// In one repetition.
    pub committed: u64,
    /// Medians of the repetitions, and their extremes.
    pub committed_per_second: f64,
    pub committed_per_second_min: f64,
    pub committed_per_second_max: f64,
    pub committed_per_cpu_second: f64,
    pub committed_per_cpu_second_min: f64,
    pub committed_per_cpu_second_max: f64,
    /// Of all executions: turned away for the sake of concurrency. The sum of the next three.
    pub abort_share: f64,
    /// Deferred to a later block.
    pub deferred_share: f64,
    /// Run again in the same block.
    pub rerun_share: f64,
    /// Ended in SQLSTATE 40001: its client must send it again.
    pub failed_share: f64,
    /// Ended in an error of the program's own, such as an overflow.
    pub rejected_share: f64,
    /// Transactions that were still deferred, or in no block yet, when the run was ended.
    pub undecided: u64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
    /// The part of a block's time that was waiting for the disk.
    pub sync_us_p50: Option<f64>,
    pub allocations_per_transaction: Option<f64>,
    /// Whether the protocol's serial order was block order.
    pub block_order: bool,
    /// In one repetition: transactions that blocks were asked to run, one that was deferred once
    /// for each block.
    pub executions: u64,
    /// Which ways they took, by [name](concurrency::ExecutionPath::name). Those that none took are
    /// left out, and a protocol that has but one has none.
    pub ways: BTreeMap<&'static str, u64>,
    /// Of the state after the run.
    pub digest: String,
    /// Whether those that must lead to the same state did: see [`crate::agreement`].
    pub digest_agrees: bool,
}

impl Measurement {
    pub(crate) fn of(
        plan: &Plan,
        cell: &Cell,
        runs: &[Run],
        allocations: Option<u64>,
    ) -> Result<Measurement> {
        let Some(first) = runs.first() else {
            bail!("a figure needs a run");
        };
        let rate = |time: fn(&Run) -> Duration| {
            Spread::of(runs.iter().map(|run| run.committed as f64 / time(run).as_secs_f64()))
        };
        let (per_second, per_cpu_second) = (rate(|run| run.wall), rate(|run| run.cpu));
        let mut latencies_us = first.latencies_us.clone();
        for run in &runs[1..] {
            latencies_us.add(&run.latencies_us)?;
        }
        let syncs = Spread::of(runs.iter().map(|run| median_us(&run.syncs)));
        let durability = cell.durability.is_some();
        let number = |setting| cell.workload.setting(setting).and_then(|text| text.parse().ok());
        let settings = cell.workload.settings();
        let share = |count: u64| count as f64 / first.executions as f64;
        Ok(Measurement {
            workload: cell.workload.name().to_owned(),
            protocol: cell.protocol.clone(),
            theta: cell.theta,
            warehouses: number("warehouses").and_then(|n: u64| n.try_into().ok()),
            rows: number("rows"),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            threads: cell.threads,
            block_transactions: cell.block_transactions,
            transactions: plan.transactions,
            repetitions: plan.repetitions,
            seed: plan.seed,
            sealing: cell.sealing,
            durability,
            committed: first.committed,
            committed_per_second: per_second.median.round(),
            committed_per_second_min: per_second.min.round(),
            committed_per_second_max: per_second.max.round(),
            committed_per_cpu_second: per_cpu_second.median.round(),
            committed_per_cpu_second_min: per_cpu_second.min.round(),
            committed_per_cpu_second_max: per_cpu_second.max.round(),
            abort_share: share(first.deferred + first.rerun + first.failed),
            deferred_share: share(first.deferred),
            rerun_share: share(first.rerun),
            failed_share: share(first.failed),
            rejected_share: share(first.rejected),
            undecided: first.undecided,
            latency_us_p50: percentile(&latencies_us, 50.0),
            latency_us_p99: percentile(&latencies_us, 99.0),
            sync_us_p50: durability.then(|| syncs.median.round()),
            allocations_per_transaction: allocations
                .map(|count| count as f64 / plan.transactions as f64),
            block_order: first.block_order,
            executions: first.executions,
            ways: first.ways.taken().map(|(way, count)| (way.name(), count.into())).collect(),
            digest: ledger::hash::to_hex(&first.digest),
            digest_agrees: !gives_same_bytes(&cell.protocol)
                || runs.iter().all(|run| run.digest == first.digest),
        })
    }

    /// Of all executions, those that took this way.
    pub fn share_of(&self, way: ExecutionPath) -> f64 {
        let count = self.ways.get(way.name()).copied().unwrap_or_default();
        count as f64 / self.executions.max(1) as f64
    }

    /// One line of JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Half of the distance between the extremes of throughput, as a share of the median.
    pub fn spread(&self) -> f64 {
        half_range(
            self.committed_per_second,
            self.committed_per_second_min,
            self.committed_per_second_max,
        )
    }

    /// The same of throughput per CPU-second.
    pub fn cpu_spread(&self) -> f64 {
        half_range(
            self.committed_per_cpu_second,
            self.committed_per_cpu_second_min,
            self.committed_per_cpu_second_max,
        )
    }
}

fn half_range(median: f64, min: f64, max: f64) -> f64 {
    if median > 0.0 { (max - min) / 2.0 / median } else { 0.0 }
}

struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let middle = values.len() / 2;
        let median = match values.len().is_multiple_of(2) && !values.is_empty() {
            true => (at(middle - 1) + at(middle)) / 2.0,
            false => at(middle),
        };
        Spread { min: at(0), median, max: at(values.len().saturating_sub(1)) }
    }
}

/// 0 where nothing was decided.
fn percentile(histogram: &Histogram<u64>, percent: f64) -> u64 {
    if histogram.is_empty() { 0 } else { histogram.value_at_percentile(percent) }
}

fn median_us(durations: &[Duration]) -> f64 {
    Spread::of(durations.iter().map(|duration| duration.as_secs_f64() * 1e6)).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = Spread::of([3.0, 1.0, 2.0].into_iter());
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0].into_iter()).median, 2.5);
        assert!(Spread::of(std::iter::empty()).median.is_nan());
    }

    #[test]
    fn the_spread_is_half_of_the_range() {
        assert_eq!(half_range(100.0, 90.0, 120.0), 0.15);
        assert_eq!(half_range(0.0, 0.0, 0.0), 0.0);
    }
}
