//! From runs to figures: medians, and their two forms, a table row and a JSON object.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::run::Run;
use crate::{Cell, Plan};

/// One cell's result. A field that does not apply is null.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub workload: &'static str,
    pub protocol: String,
    pub theta: f64,
    pub warehouses: Option<u32>,
    /// What the workload's settings were, where they were not the defaults.
    pub settings: BTreeMap<String, String>,
    pub threads: usize,
    pub block_transactions: usize,
    pub transactions: usize,
    pub repetitions: usize,
    pub sealing: bool,
    pub durability: bool,
    pub committed_per_second: f64,
    pub committed_per_second_min: f64,
    pub committed_per_second_max: f64,
    pub committed_per_cpu_second: f64,
    /// Turned away by the protocol's rule at first; those run again in the block.
    pub abort_share: f64,
    /// Put off to a later block.
    pub deferred_share: Option<f64>,
    /// Ended in an error of the program's own, such as an overflow.
    pub rejected_share: f64,
    /// From a block's inputs to its results: what each of its transactions waited.
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// The part of it that was waiting for the disk.
    pub sync_us_p50: Option<f64>,
    pub allocations_per_transaction: Option<f64>,
    /// Of the state after the run.
    pub digest: String,
}

impl Figure {
    pub(crate) fn of(plan: &Plan, cell: &Cell, runs: &[Run]) -> Result<Figure> {
        let Some(first) = runs.first() else {
            bail!("a figure needs a run");
        };
        if runs.iter().any(|run| run.digest != first.digest) {
            bail!("two runs of the same blocks led to different states: {cell:?}");
        }
        let all = plan.transactions as f64;
        let committed = |run: &Run| run.committed as f64;
        let mut rates =
            runs.iter().map(|run| committed(run) / run.wall.as_secs_f64()).collect::<Vec<_>>();
        rates.sort_by(f64::total_cmp);
        let cpu = runs.iter().map(|run| committed(run) / run.cpu.as_secs_f64());
        let blocks = |share| runs.iter().map(move |run| percentile(&run.latencies, share));
        let syncs = runs.iter().map(|run| percentile(&run.syncs, 0.5));
        let durability = plan.durability.is_some();
        Ok(Figure {
            workload: plan.workload.name(),
            protocol: cell.protocol.clone(),
            theta: cell.theta,
            warehouses: None,
            settings: plan.settings.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            threads: cell.threads,
            block_transactions: plan.block_transactions,
            transactions: plan.transactions,
            repetitions: plan.repetitions,
            sealing: cell.sealing,
            durability,
            committed_per_second: rates[rates.len() / 2].round(),
            committed_per_second_min: rates[0].round(),
            committed_per_second_max: rates[rates.len() - 1].round(),
            committed_per_cpu_second: median(cpu).round(),
            abort_share: first.rerun as f64 / all,
            deferred_share: None,
            rejected_share: first.rejected as f64 / all,
            latency_us_p50: median(blocks(0.5)).round(),
            latency_us_p99: median(blocks(0.99)).round(),
            sync_us_p50: durability.then(|| median(syncs).round()),
            allocations_per_transaction: first.allocations.map(|n| n as f64 / all),
            digest: ledger::hash::to_hex(&first.digest),
        })
    }

    /// One line of JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Under [`TABLE_HEAD`].
    pub fn to_row(&self) -> String {
        let on_off = if self.sealing { "on" } else { "off" };
        let sync = self.sync_us_p50.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
        format!(
            "{:<9}  {:<8} {:>5} {:>7}  {:<7} {:>11.0} {:>11.0} {:>7.2} {:>9.0} {:>9.0} {:>7}  {}",
            self.workload,
            self.protocol,
            self.theta,
            self.threads,
            on_off,
            self.committed_per_second,
            self.committed_per_cpu_second,
            100.0 * self.abort_share,
            self.latency_us_p50,
            self.latency_us_p99,
            sync,
            &self.digest[..12],
        )
    }
}

pub const TABLE_HEAD: &str = concat!(
    "workload   protocol theta threads  sealing committed/s  per CPU-s  rerun %",
    "    p50 us    p99 us sync us  digest"
);

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Microseconds below which a share of the durations lies.
fn percentile(durations: &[Duration], share: f64) -> f64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).map_or(f64::NAN, |duration| duration.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians_are_of_the_sorted_values() {
        let durations: Vec<_> = (1..=101).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&durations, 0.5).round(), 51.0);
        assert_eq!(percentile(&durations, 0.99).round(), 100.0);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }
}
