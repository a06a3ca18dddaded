//! What a node counts, and how Prometheus reads it.
//!
//! The hot paths see plain atomics: a [`Counter`] is split into shards that threads hit without
//! sharing a cache line, and a [`Histogram`] has fixed buckets. Names and units are given only
//! here, when `/metrics` is read (base units, as Prometheus asks: seconds and bytes).
//!
//! Absence: nothing here knows what a block or a session is; the node fills the fields.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

const SHARDS: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

/// A count that only grows; adding to it touches a cache line that few other threads touch.
#[derive(Default)]
pub struct Counter([Shard; SHARDS]);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0[shard_of_this_thread()].0.fetch_add(count, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0
            .iter()
            .map(|shard| shard.0.load(Relaxed))
            .fold(0, u64::wrapping_add)
    }
}

fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % SHARDS);
        }
        mine.get()
    })
}

/// A value that goes up and down.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds one for as long as the guard lives.
    pub fn hold(self: &Arc<Self>) -> GaugeGuard {
        self.0.fetch_add(1, Relaxed);
        GaugeGuard(self.clone())
    }
}

pub struct GaugeGuard(Arc<Gauge>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// Upper bounds of the histogram's buckets: 50 us to 10 s, three a decade.
const BOUNDS_US: [u64; 17] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// Durations in fixed buckets.
#[derive(Default)]
pub struct Histogram {
    counts: [Counter; BOUNDS_US.len() + 1],
    sum_us: Counter,
}

impl Histogram {
    pub fn observe(&self, duration: Duration) {
        self.observe_many(duration, 1);
    }

    /// `count` events of the same duration: a block's transactions are released together.
    pub fn observe_many(&self, duration: Duration, count: u64) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound < duration_us);
        self.counts[bucket].add(count);
        self.sum_us.add(duration_us.saturating_mul(count));
    }

    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS_US.iter().map(|&us| us as f64 / 1e6);
        let buckets: Vec<(f64, u64)> = bounds
            .chain([f64::INFINITY])
            .zip(self.counts.iter().map(Counter::get))
            .collect();
        let count = buckets.iter().map(|bucket| bucket.1).sum();
        let sum_s = self.sum_us.get() as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)
    }
}

/// Everything that a node counts.
#[derive(Default)]
pub struct Metrics {
    /// From a transaction's arrival to the release of its result.
    pub commit_duration: Histogram,
    /// Open sessions.
    pub sessions: Arc<Gauge>,
    /// What reading the ledger at the start took, in milliseconds.
    pub recovery_ms: Gauge,
    engine: OnceLock<EngineReading>,
}

type EngineReading = Box<dyn Fn() -> Option<EngineFigures> + Send + Sync>;

/// What the engine counts by itself, read when the page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineFigures {
    /// Blocks that were sealed since the start.
    pub blocks: u64,
    /// Transactions by what became of them.
    pub committed: u64,
    pub rejected: u64,
    pub retry: u64,
    /// What making the blocks durable took, all of them together.
    pub sync_us: u64,
    /// Bytes of the ledger's blocks, those from before the start included.
    pub ledger_bytes: u64,
    /// Height of the newest durable block.
    pub height: u64,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Says where the engine's own figures come from; `None` once the engine is gone.
    pub fn read_engine_from(
        &self,
        reading: impl Fn() -> Option<EngineFigures> + Send + Sync + 'static,
    ) {
        // A second engine in one process would be a mistake; the first one stays.
        let _ = self.engine.set(Box::new(reading));
    }

    fn engine(&self) -> EngineFigures {
        self.engine
            .get()
            .and_then(|read| read())
            .unwrap_or_default()
    }

    /// The page that Prometheus scrapes, in the OpenMetrics text format.
    pub fn page(self: &Arc<Self>) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("tally");
        registry.register_collector(Box::new(Reading(self.clone())));
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }
}

#[derive(Debug)]
struct Reading(Arc<Metrics>);

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = &*self.0;
        let engine = metrics.engine();
        let encoder = &mut encoder;
        counter(encoder, "blocks", "Sealed blocks", engine.blocks)?;
        outcomes(encoder, &engine)?;
        let name = "commit_duration";
        let help = "From a transaction's arrival to the release of its result";
        histogram(encoder, name, help, &metrics.commit_duration)?;
        block_syncs(encoder, &engine)?;
        let sessions = metrics.sessions.get() as f64;
        gauge(encoder, "sessions", "Open sessions", None, sessions)?;
        let help = "Height of the newest durable block";
        gauge(encoder, "height", help, None, engine.height as f64)?;
        let help = "Size of the ledger's segment files";
        let bytes = engine.ledger_bytes as f64;
        gauge(encoder, "ledger", help, Some(Unit::Bytes), bytes)?;
        let help = "What reading the ledger at the start took";
        let seconds = metrics.recovery_ms.get() as f64 / 1e3;
        gauge(encoder, "recovery", help, Some(Unit::Seconds), seconds)
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

/// The engine sums the durations of its syncs, so there is one bucket.
fn block_syncs(encoder: &mut DescriptorEncoder<'_>, engine: &EngineFigures) -> fmt::Result {
    let (name, help) = ("block_sync_duration", "What making a block durable took");
    let unit = Some(&Unit::Seconds);
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    let buckets = [(f64::INFINITY, engine.blocks)];
    let sum_s = engine.sync_us as f64 / 1e6;
    metric.encode_histogram::<NoLabelSet>(sum_s, engine.blocks, &buckets, None)
}

fn outcomes(encoder: &mut DescriptorEncoder<'_>, engine: &EngineFigures) -> fmt::Result {
    let help = "Transactions by outcome";
    let mut family = encoder.encode_descriptor("transactions", help, None, MetricType::Counter)?;
    for (outcome, count) in [
        ("committed", engine.committed),
        ("rejected", engine.rejected),
        ("retry", engine.retry),
    ] {
        let labels = [("outcome", outcome)];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    histogram: &Histogram,
) -> fmt::Result {
    let unit = Some(&Unit::Seconds);
    histogram.encode(&mut encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?)
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    value: f64,
) -> fmt::Result {
    let metric = prometheus_client::metrics::gauge::ConstGauge::new(value);
    metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_promised_names_and_the_counted_values() {
        let metrics = Arc::new(Metrics::default());
        metrics.read_engine_from(|| {
            Some(EngineFigures {
                blocks: 3,
                committed: 40,
                retry: 2,
                sync_us: 1500,
                ledger_bytes: 4096,
                ..EngineFigures::default()
            })
        });
        metrics
            .commit_duration
            .observe_many(Duration::from_micros(150), 4);
        let session = metrics.sessions.hold();
        let page = metrics.page().unwrap();
        for line in [
            "tally_blocks_total 3",
            "tally_transactions_total{outcome=\"committed\"} 40",
            "tally_transactions_total{outcome=\"rejected\"} 0",
            "tally_transactions_total{outcome=\"retry\"} 2",
            "tally_commit_duration_seconds_bucket{le=\"0.0001\"} 0",
            "tally_commit_duration_seconds_bucket{le=\"0.0002\"} 4",
            "tally_commit_duration_seconds_bucket{le=\"+Inf\"} 4",
            "tally_commit_duration_seconds_count 4",
            "tally_commit_duration_seconds_sum 0.0006",
            "tally_block_sync_duration_seconds_bucket{le=\"+Inf\"} 3",
            "tally_block_sync_duration_seconds_sum 0.0015",
            "tally_sessions 1.0",
            "tally_ledger_bytes 4096.0",
            "tally_recovery_seconds 0.0",
            "# EOF",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
        drop(session);
        assert_eq!(metrics.sessions.get(), 0);
    }

    #[test]
    fn counters_lose_nothing_between_threads() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(1)));
            }
        });
        assert_eq!(counter.get(), 2 * SHARDS as u64 * 1000);
    }
}
