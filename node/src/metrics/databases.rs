//! What each database of a node counts, beside its own ledger.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{Metrics, Page};

impl Page<'_> {
    /// By their names.
    pub(super) fn databases(&mut self, all: &[(String, Arc<Metrics>)]) -> fmt::Result {
        type Read = fn(&Metrics) -> u64;
        let gauges: [(&str, &str, Option<&Unit>, Read); 5] = [
            ("database_height", "Height of a database's newest durable block", None, |it| {
                it.height.get()
            }),
            ("database_sessions", "Open sessions of a database", None, |it| it.sessions.get()),
            ("database_ledger", "Size of a database's blocks", Some(&Unit::Bytes), |it| {
                it.ledger_bytes.get().saturating_sub(it.pruned_bytes.get())
            }),
            ("database_checkpoint_height", "Height of its newest checkpoint", None, |it| {
                it.checkpoint_height.get()
            }),
            ("database_read_only", "Whether a database takes no writes", None, |it| {
                it.read_only.get()
            }),
        ];
        for (name, help, unit, read) in gauges {
            let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for (database, metrics) in all {
                let labels = [("database", database.as_str())];
                family.encode_family(&labels)?.encode_gauge(&(read(metrics) as f64))?;
            }
        }
        let (name, help) = ("database_transactions", "A database's transactions by outcome");
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (database, metrics) in all {
            for (outcome, count) in [
                ("committed", &metrics.committed),
                ("rejected", &metrics.rejected),
                ("retry", &metrics.retry),
            ] {
                let labels = [("database", database.as_str()), ("outcome", outcome)];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&count.get(), None)?;
            }
        }
        Ok(())
    }
}
