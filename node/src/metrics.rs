//! What a node counts, and how Prometheus reads it.
//!
//! The hot paths see plain atomics: counters, gauges, and histograms with fixed buckets. Names and
//! units are given only here, when `/metrics` is read (base units, as Prometheus asks: seconds and
//! bytes).
//!
//! Cost: the engine's sequencer is the one writer of nearly everything, so an update is an add to a
//! cache line that it owns.

mod databases;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cluster::votes::heard::{Heard, Standing};
use engine::checkpoint::Taken;
use engine::retention::Memory;
use engine::{BlockEvent, Observer};
use kit::pool::Pool;
use pgcatalog::{Member, Misbehaviour};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use types::Error;

/// A count that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
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

/// Upper bounds of the histogram's buckets: 20 us to 10 s, three a decade.
const BOUNDS_US: [u64; 18] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
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
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound < duration_us);
        self.counts[bucket].add(1);
        self.sum_us.add(duration_us);
    }

    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS_US.iter().map(|&us| us as f64 / 1e6);
        let buckets: Vec<(f64, u64)> =
            bounds.chain([f64::INFINITY]).zip(self.counts.iter().map(Counter::get)).collect();
        let count = buckets.iter().map(|bucket| bucket.1).sum();
        let sum_s = self.sum_us.get() as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)
    }
}

/// Everything that a node counts.
#[derive(Default)]
pub struct Metrics {
    /// Blocks that were sealed since the start.
    pub blocks: Counter,
    /// Transactions by what became of them.
    pub committed: Counter,
    pub rejected: Counter,
    pub retry: Counter,
    /// Transactions that the protocol deferred to the next block, each time counted.
    pub deferred: Counter,
    /// Transactions that the protocol turned away at first and ran again in the same block.
    pub rerun: Counter,
    /// From a transaction's submission to the release of its result.
    pub commit_duration: Histogram,
    pub block_execute_duration: Histogram,
    pub block_sync_duration: Histogram,
    /// Open sessions.
    pub sessions: Arc<Gauge>,
    /// What they hold.
    pub session_memory: OnceLock<Arc<Pool>>,
    /// Bytes of the ledger's blocks, those from before the start included, and those that were
    /// pruned since.
    pub ledger_bytes: Counter,
    /// Height of the newest durable block.
    pub height: Gauge,
    /// Height of the oldest block that is there; those before were pruned.
    pub first_block: Gauge,
    /// Ends of orders that starts have cut, as long as they lie in the folder `quarantine`.
    pub torn_tails: Gauge,
    /// Since the start.
    pub pruned_bytes: Counter,
    /// What reading the ledger at the start took, in milliseconds.
    pub recovery_ms: Gauge,
    /// Since the start.
    pub checkpoints: Counter,
    pub checkpoint_duration: Histogram,
    /// What they wrote; groups of rows that have not changed are not written again.
    pub checkpoint_written_bytes: Counter,
    /// Of the newest one; 0 if there is none.
    pub checkpoint_height: Gauge,
    /// Begun since the start, and not taken.
    pub checkpoint_failures: Counter,
    /// 1 when the disk has failed or a block cannot be executed, and writes are refused.
    pub read_only: Gauge,
    /// The block that cannot be executed, before which the start stopped; 0: there is none.
    pub failing_block: Gauge,
    /// Of overwritten row versions.
    pub undo_bytes: Gauge,
    /// Heights that are pinned, each reader counted.
    pub snapshots: Gauge,
    /// Blocks retained by rules and by name.
    pub snapshots_retained: Gauge,
    /// The lowest pinned height; that of the newest block if there is none.
    pub oldest_snapshot_height: Gauge,
    pub oldest_snapshot_age_us: Gauge,
    /// Since the start.
    pub snapshots_given_up: Gauge,
    /// Set where there is an engine for queries over much data.
    pub analysis: OnceLock<Box<dyn Fn() -> Analysis + Send + Sync>>,
    /// Set where the node is a member of a cluster.
    pub order: OnceLock<Box<dyn Fn() -> Order + Send + Sync>>,
    pub members: OnceLock<Box<dyn Fn() -> Vec<Member> + Send + Sync>>,
    pub misbehaviour: OnceLock<Box<dyn Fn() -> Vec<Misbehaviour> + Send + Sync>>,
    pub votes: OnceLock<Box<dyn Fn() -> Standing + Send + Sync>>,
    /// Set where the node can have databases beside its own ledger.
    pub databases: OnceLock<Box<dyn Fn() -> Vec<(String, Arc<Metrics>)> + Send + Sync>>,
}

/// How a member stands in the order.
#[derive(Clone, Copy)]
pub enum Order {
    Raft(OfRaft),
    Kafka(OfTopic),
    CometBft(OfComet),
}

/// Of a member with a CometBFT beside it.
#[derive(Clone, Copy, Default)]
pub struct OfComet {
    /// CometBFT's.
    pub height: u64,
    /// The member whose block came last; 0: none did.
    pub proposer: u64,
    pub is_hindered: bool,
}

impl Order {
    fn is_hindered(&self) -> bool {
        match self {
            Order::Raft(raft) => raft.hindered,
            Order::Kafka(topic) => topic.is_away || topic.is_stopped,
            Order::CometBft(comet) => comet.is_hindered,
        }
    }
}

/// Of a member that reads a topic of Kafka.
#[derive(Clone, Copy, Default)]
pub struct OfTopic {
    /// Of the next record.
    pub offset: u64,
    /// The last block that was cut.
    pub cut_height: u64,
    /// The brokers cannot be reached.
    pub is_away: bool,
    /// The topic cannot be gone on with.
    pub is_stopped: bool,
}

#[derive(Clone, Copy, Default)]
pub struct OfRaft {
    /// The member that leads; 0: none, as far as this one knows.
    pub leader: u64,
    pub leads: bool,
    pub term: u64,
    /// The last block of its log, and the last one that is known to be committed.
    pub ordered_height: u64,
    pub committed_height: u64,
    pub dials: u64,
    /// Nothing can be ordered.
    pub hindered: bool,
}

/// What queries over much data hold now, and what they did since the start.
#[derive(Clone, Copy, Default)]
pub struct Analysis {
    pub queries: u64,
    pub query_bytes: u64,
    pub image_bytes: u64,
    pub image_scans: u64,
    pub image_evictions: u64,
    /// Of columns that were made from rows.
    pub image_built_bytes: u64,
    /// Of columns that were made from older ones.
    pub image_patched_bytes: u64,
    /// Of columns that were found as they were.
    pub image_reused_bytes: u64,
    /// That were written into columns ahead of queries.
    pub image_kept_rows: u64,
}

impl Observer for Metrics {
    fn block(&self, event: &BlockEvent) {
        self.blocks.add(1);
        self.committed.add(event.committed);
        self.rejected.add(event.rejected);
        self.retry.add(event.retried);
        self.deferred.add(event.deferred);
        self.rerun.add(event.rerun);
        self.block_execute_duration.observe(event.execute);
        self.block_sync_duration.observe(event.sync);
        self.ledger_bytes.add(event.ledger_bytes);
        self.height.set(event.height);
    }

    fn answered(&self, latency: Duration) {
        self.commit_duration.observe(latency);
    }

    fn collected(&self, left: &Memory) {
        self.undo_bytes.set(left.undo_bytes);
        self.snapshots.set(left.snapshots as u64);
        self.snapshots_retained.set(left.retained as u64);
        self.oldest_snapshot_height.set(left.oldest_height.unwrap_or(self.height.get()));
        self.oldest_snapshot_age_us.set(left.oldest_age_us);
        self.snapshots_given_up.set(left.given_up);
    }

    fn checkpoint(&self, taken: &Taken, took: Duration) {
        self.checkpoints.add(1);
        self.checkpoint_duration.observe(took);
        self.checkpoint_written_bytes.add(taken.extent.bytes_written);
        self.checkpoint_height.set(taken.height);
    }

    fn checkpoint_failed(&self, _: &Error) {
        self.checkpoint_failures.add(1);
    }

    fn halted(&self, _: &Error) {
        self.read_only.set(1);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
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
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = &*self.0;
        let mut page = Page(encoder);
        page.counter("blocks", "Sealed blocks", &metrics.blocks)?;
        page.outcomes(metrics)?;
        let help = "Times that a transaction was deferred to the next block";
        page.counter("transactions_deferred", help, &metrics.deferred)?;
        let help = "Transactions that ran again in the same block";
        page.counter("transactions_rerun", help, &metrics.rerun)?;
        let help = "From a transaction's submission to the release of its result";
        page.histogram("commit_duration", help, &metrics.commit_duration)?;
        let help = "What executing a block took";
        page.histogram("block_execute_duration", help, &metrics.block_execute_duration)?;
        let help = "What making a block durable took";
        page.histogram("block_sync_duration", help, &metrics.block_sync_duration)?;
        page.gauge("sessions", "Open sessions", None, metrics.sessions.get() as f64)?;
        let help = "Height of the newest durable block";
        page.gauge("height", help, None, metrics.height.get() as f64)?;
        let help = "Height of the oldest block that was not pruned";
        page.gauge("first_block_height", help, None, metrics.first_block.get() as f64)?;
        let help = "Cut ends of the ledger that lie in the folder quarantine since the last start";
        page.gauge("torn_tails", help, None, metrics.torn_tails.get() as f64)?;
        page.counter("pruned_bytes", "Bytes that pruning freed", &metrics.pruned_bytes)?;
        let bytes = metrics.ledger_bytes.get().saturating_sub(metrics.pruned_bytes.get()) as f64;
        page.gauge("ledger", "Size of the ledger's blocks", Some(&Unit::Bytes), bytes)?;
        let help = "What reading the ledger at the start took";
        let seconds = metrics.recovery_ms.get() as f64 / 1e3;
        page.gauge("recovery", help, Some(&Unit::Seconds), seconds)?;
        page.counter("checkpoints", "Checkpoints taken", &metrics.checkpoints)?;
        let help = "From a checkpoint's begin until it is durable";
        page.histogram("checkpoint_duration", help, &metrics.checkpoint_duration)?;
        let (name, help) = ("checkpoint_written_bytes", "Bytes that checkpoints wrote");
        page.counter(name, help, &metrics.checkpoint_written_bytes)?;
        let help = "Height of the newest checkpoint";
        page.gauge("checkpoint_height", help, None, metrics.checkpoint_height.get() as f64)?;
        let help = "Checkpoints that were begun and not taken";
        page.counter("checkpoint_failures", help, &metrics.checkpoint_failures)?;
        let help = "Height of a block that cannot be executed, where the start stopped; 0: none";
        page.gauge("failing_block_height", help, None, metrics.failing_block.get() as f64)?;
        let order = metrics.order.get().map(|read| read());
        let help = "Whether the node takes no writes: its disk has failed, a block fails, or its \
                    cluster cannot order";
        let hindered = order.is_some_and(|order| order.is_hindered());
        let read_only = metrics.read_only.get().max(u64::from(hindered));
        page.gauge("read_only", help, None, read_only as f64)?;
        order.map_or(Ok(()), |order| page.order(&order, metrics.height.get()))?;
        metrics.members.get().map_or(Ok(()), |read| page.members(&read()))?;
        metrics.misbehaviour.get().map_or(Ok(()), |read| page.misbehaviour(&read()))?;
        page.past(metrics)?;
        metrics.session_memory.get().map_or(Ok(()), |pool| page.session_memory(pool))?;
        metrics.votes.get().map_or(Ok(()), |read| page.votes(&read()))?;
        let databases = metrics.databases.get().map(|read| read()).unwrap_or_default();
        if !databases.is_empty() {
            page.databases(&databases)?;
        }
        metrics.analysis.get().map_or(Ok(()), |read| page.analysis(&read()))
    }
}

/// The page under construction.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn counter(&mut self, name: &str, help: &str, counter: &Counter) -> fmt::Result {
        self.count(name, help, counter.get())
    }

    fn count(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&count, None)
    }

    fn outcomes(&mut self, metrics: &Metrics) -> fmt::Result {
        let (name, help) = ("transactions", "Transactions by outcome");
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (outcome, count) in [
            ("committed", &metrics.committed),
            ("rejected", &metrics.rejected),
            ("retry", &metrics.retry),
        ] {
            let labels = [("outcome", outcome)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&count.get(), None)?;
        }
        Ok(())
    }

    fn past(&mut self, metrics: &Metrics) -> fmt::Result {
        let help = "Memory of what older snapshots keep";
        self.gauge("undo", help, Some(&Unit::Bytes), metrics.undo_bytes.get() as f64)?;
        let help = "Snapshots that somebody reads or keeps";
        self.gauge("snapshots", help, None, metrics.snapshots.get() as f64)?;
        let help = "Blocks that are kept readable by rule or by name";
        self.gauge("snapshots_retained", help, None, metrics.snapshots_retained.get() as f64)?;
        let help = "Height of the oldest snapshot";
        let height = metrics.oldest_snapshot_height.get() as f64;
        self.gauge("oldest_snapshot_height", help, None, height)?;
        let help = "From the oldest snapshot's block to the newest";
        let seconds = metrics.oldest_snapshot_age_us.get() as f64 / 1e6;
        self.gauge("oldest_snapshot_age", help, Some(&Unit::Seconds), seconds)?;
        let help = "Snapshots given up to stay within undo_bytes_max";
        self.count("snapshots_given_up", help, metrics.snapshots_given_up.get())
    }

    fn session_memory(&mut self, pool: &Pool) -> fmt::Result {
        let help = "Memory that sessions hold: results, gathered rows, statements, data of COPY";
        self.gauge("session_memory", help, Some(&Unit::Bytes), pool.leased_bytes() as f64)?;
        let help = "What sessions may hold";
        let bytes_max = pool.bytes_max() as f64;
        self.gauge("session_memory_max", help, Some(&Unit::Bytes), bytes_max)?;
        let help = "Statements that were refused since sessions held too much";
        self.count("session_memory_refused", help, pool.refused())
    }

    fn analysis(&mut self, analysis: &Analysis) -> fmt::Result {
        let help = "Queries over much data that run or wait for their rows to be fetched";
        self.gauge("analytical_queries", help, None, analysis.queries as f64)?;
        let help = "Memory that such queries gather";
        self.gauge("analytical_query", help, Some(&Unit::Bytes), analysis.query_bytes as f64)?;
        let help = "Memory of columnar images";
        self.gauge("image", help, Some(&Unit::Bytes), analysis.image_bytes as f64)?;
        let help = "Tables that were opened to be read by their images";
        self.count("image_scans", help, analysis.image_scans)?;
        let help = "Images that made room for others";
        self.count("image_evictions", help, analysis.image_evictions)?;
        let help = "Bytes of images that were made from rows";
        self.count("image_built_bytes", help, analysis.image_built_bytes)?;
        let help = "Bytes of images that were made from older ones";
        self.count("image_patched_bytes", help, analysis.image_patched_bytes)?;
        let help = "Bytes of images that were read as they were";
        self.count("image_reused_bytes", help, analysis.image_reused_bytes)?;
        let help = "Rows that were written into the columns of tables of layout column";
        self.count("image_kept_rows", help, analysis.image_kept_rows)
    }

    fn order(&mut self, order: &Order, height: u64) -> fmt::Result {
        match order {
            Order::Raft(raft) => self.raft(raft, height),
            Order::Kafka(topic) => self.topic(topic, height),
            Order::CometBft(comet) => self.comet(comet),
        }
    }

    /// What `tally_cluster` shows.
    fn members(&mut self, members: &[Member]) -> fmt::Result {
        let own = members.iter().find(|member| member.is_own);
        let own_ahead_us = own.and_then(|own| own.clock_ahead_us).unwrap_or(0);
        let help = "How far this member's clock is ahead of those of most members";
        self.gauge("clock_offset", help, Some(&Unit::Seconds), own_ahead_us as f64 / 1e6)?;
        let count = |count: Option<u64>| count.map(|count| count as f64);
        let seconds = |us: Option<i64>| us.map(|us| us as f64 / 1e6);
        type Read<'a> = &'a dyn Fn(&Member) -> Option<f64>;
        let all: [(&str, &str, Option<&Unit>, Read<'_>); 7] = [
            ("member_answers", "1: the member answers this one", None, &|it| {
                Some(u8::from(it.role != Member::SILENT).into())
            }),
            ("member_height", "Height of a member's newest block", None, &|it| count(it.height)),
            ("member_lag_blocks", "Blocks that a member is behind the furthest", None, &|it| {
                count(it.lag_blocks)
            }),
            (
                "member_lag",
                "From the time of a member's newest block to that of the furthest",
                Some(&Unit::Seconds),
                &|it| seconds(it.lag_us),
            ),
            ("member_voted_height", "The block whose result a member signed last", None, &|it| {
                count(it.voted)
            }),
            (
                "member_deviating_height",
                "A block of which a member signed another result than most; 0: none",
                None,
                &|it| Some(it.deviating.unwrap_or(0) as f64),
            ),
            (
                "member_clock_offset",
                "How far a member's clock is ahead of those of most members",
                Some(&Unit::Seconds),
                &|it| seconds(it.clock_ahead_us),
            ),
        ];
        for (name, help, unit, read) in all {
            let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for member in members {
                let Some(value) = read(member) else { continue };
                let labels = [("member", member.number)];
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn misbehaviour(&mut self, all: &[Misbehaviour]) -> fmt::Result {
        let help = "What members were convicted of by evidence in the order";
        self.count("misbehaviour", help, all.len() as u64)
    }

    fn comet(&mut self, comet: &OfComet) -> fmt::Result {
        let help = "Height of CometBFT's last block, which need not be one of the ledger";
        self.gauge("cometbft_height", help, None, comet.height as f64)?;
        let help = "The member whose block came last; 0: none since the start";
        self.gauge("cometbft_proposer", help, None, comet.proposer as f64)?;
        let help = "1: CometBFT does not run, or cannot go on";
        self.gauge("cometbft_hindered", help, None, u8::from(comet.is_hindered).into())
    }

    fn topic(&mut self, topic: &OfTopic, height: u64) -> fmt::Result {
        let help = "Offset of the next record of the topic that this member will read";
        self.gauge("kafka_offset", help, None, topic.offset as f64)?;
        let help = "Height of the last block that was cut of the topic's records";
        self.gauge("kafka_cut_height", help, None, topic.cut_height as f64)?;
        let help = "Blocks that were cut and that this node has not executed";
        let lag = topic.cut_height.saturating_sub(height);
        self.gauge("kafka_lag_blocks", help, None, lag as f64)?;
        let help = "1: the brokers cannot be reached";
        self.gauge("kafka_away", help, None, u8::from(topic.is_away).into())?;
        let help = "1: the topic is not the one that this member has read";
        self.gauge("kafka_stopped", help, None, u8::from(topic.is_stopped).into())
    }

    fn raft(&mut self, order: &OfRaft, height: u64) -> fmt::Result {
        let help = "The member that leads, as this one knows; 0: none";
        self.gauge("raft_leader", help, None, order.leader as f64)?;
        let help = "1: this member leads";
        self.gauge("raft_leads", help, None, u8::from(order.leads).into())?;
        let help = "The term, which grows with each election";
        self.gauge("raft_term", help, None, order.term as f64)?;
        let help = "Height of the last block in the log of orders, confirmed or not";
        self.gauge("raft_ordered_height", help, None, order.ordered_height as f64)?;
        let help = "Height of the last block that more than half of the members have";
        self.gauge("raft_committed_height", help, None, order.committed_height as f64)?;
        let help = "Committed blocks that this node has not executed";
        let lag = order.committed_height.saturating_sub(height);
        self.gauge("raft_lag_blocks", help, None, lag as f64)?;
        self.count("raft_dials", "Connections to other members that were tried", order.dials)
    }

    fn votes(&mut self, votes: &Standing) -> fmt::Result {
        let height = |said: &Option<(u64, String)>| said.as_ref().map_or(0, |said| said.0) as f64;
        let help = "Height of the block whose result this node signed last";
        self.gauge("signed_height", help, None, height(&votes.signed))?;
        let help = "Height of the last certificate that this node has";
        self.gauge("certified_height", help, None, height(&votes.certified))?;
        let diverged = u8::from(votes.diverged.is_some());
        self.gauge("diverged", "1: this node's result is not the others'", None, diverged.into())?;
        let deviating = votes.members.values().filter(|heard| heard.deviates.is_some()).count();
        let help = "Members whose newest vote is for another result than this node's";
        self.gauge("deviating_members", help, None, deviating as f64)?;
        let sum = |count: fn(&Heard) -> u64| votes.members.values().map(count).sum();
        let help = "Votes of other members that were counted";
        self.count("votes", help, sum(|heard| heard.counted))?;
        let help = "Votes whose signature was not their member's";
        self.count("votes_refused", help, sum(|heard| heard.refused))?;
        let help = "Votes that contradicted an earlier one of their member";
        self.count("votes_contradicting", help, sum(|heard| heard.contradicting))
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        histogram.encode(&mut self.0.encode_descriptor(name, help, unit, kind)?)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
        let metric = ConstGauge::new(value);
        metric.encode(self.0.encode_descriptor(name, help, unit, metric.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use engine::checkpoint::Extent;

    use super::*;

    #[test]
    fn the_page_has_the_promised_names_and_the_counted_values() {
        let metrics = Arc::new(Metrics::default());
        metrics.block(&BlockEvent {
            height: 17,
            result_hash: [0; 32],
            time_us: 0,
            parameters_hash: [0; 32],
            next_parameters: Arc::new(ledger::Parameters::new("serial")),
            committed: 40,
            rejected: 0,
            retried: 2,
            deferred: 3,
            rerun: 1,
            effects: 80,
            ledger_bytes: 4096,
            execute: Duration::from_micros(400),
            sync: Duration::from_secs(60),
        });
        (0..4).for_each(|_| metrics.answered(Duration::from_micros(150)));
        let extent = Extent { bytes_written: 700, ..Extent::default() };
        let taken = Taken { height: 16, digest: [0; 32], extent };
        metrics.checkpoint(&taken, Duration::from_millis(3));
        let full = Error::new(types::SqlState::DISK_FULL, "the disk is full");
        metrics.checkpoint_failed(&full);
        metrics.collected(&Memory {
            undo_bytes: 65_536,
            snapshots: 3,
            retained: 2,
            oldest_height: Some(9),
            oldest_age_us: 2_500_000,
            given_up: 1,
        });
        metrics.halted(&full);
        let session = metrics.sessions.hold();
        metrics.pruned_bytes.add(96);
        let page = metrics.page().unwrap();
        for line in [
            "tally_blocks_total 1",
            "tally_transactions_total{outcome=\"committed\"} 40",
            "tally_transactions_total{outcome=\"rejected\"} 0",
            "tally_transactions_total{outcome=\"retry\"} 2",
            "tally_transactions_deferred_total 3",
            "tally_transactions_rerun_total 1",
            "tally_commit_duration_seconds_bucket{le=\"0.0001\"} 0",
            "tally_commit_duration_seconds_bucket{le=\"0.0002\"} 4",
            "tally_commit_duration_seconds_bucket{le=\"+Inf\"} 4",
            "tally_commit_duration_seconds_count 4",
            "tally_commit_duration_seconds_sum 0.0006",
            "tally_block_execute_duration_seconds_sum 0.0004",
            "tally_block_sync_duration_seconds_bucket{le=\"10.0\"} 0",
            "tally_block_sync_duration_seconds_bucket{le=\"+Inf\"} 1",
            "tally_sessions 1.0",
            "tally_height 17.0",
            "tally_first_block_height 0.0",
            "tally_torn_tails 0.0",
            "tally_pruned_bytes_total 96",
            "tally_ledger_bytes 4000.0",
            "tally_recovery_seconds 0.0",
            "tally_checkpoints_total 1",
            "tally_checkpoint_duration_seconds_bucket{le=\"0.005\"} 1",
            "tally_checkpoint_written_bytes_total 700",
            "tally_checkpoint_height 16.0",
            "tally_checkpoint_failures_total 1",
            "tally_failing_block_height 0.0",
            "tally_read_only 1.0",
            "tally_undo_bytes 65536.0",
            "tally_snapshots 3.0",
            "tally_snapshots_retained 2.0",
            "tally_oldest_snapshot_height 9.0",
            "tally_oldest_snapshot_age_seconds 2.5",
            "tally_snapshots_given_up_total 1",
            "# EOF",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
        drop(session);
        assert_eq!(metrics.sessions.get(), 0);
    }
}
