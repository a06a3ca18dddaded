//! What is measured over nodes, and what comes of it: for figures whose time is that of a network,
//! not of an engine.
//!
//! This crate starts no process. Who can hands in a function that does ([`OverNetwork`]), and gets
//! a [`NetworkPlan`]: ledgers of two organisations' nodes, clients that send at a set rate whether
//! or not they are answered, one protocol after the other.

use anyhow::Result;

use crate::{Report, Workload};

/// Measures a plan: one run for each of its protocols.
pub type OverNetwork = fn(&NetworkPlan, Report<'_>) -> Result<Vec<NetworkRun>>;

#[derive(Clone, Debug)]
pub struct NetworkPlan {
    pub workload: Workload,
    pub protocols: Vec<String>,
    /// Whether transactions are simulated and signed by both organisations before they are ordered,
    /// or ordered as calls.
    pub endorsed: bool,
    /// Each a chain with two nodes of its own.
    pub ledgers: u16,
    /// Connections to each ledger: so many transactions can be under way.
    pub clients: u32,
    /// Transactions that are due on each ledger in a second.
    pub rate: f64,
    pub seconds: f64,
    /// Seconds before that.
    pub warm_up: f64,
    pub seed: u64,
    /// `name=value` of all nodes' settings.
    pub settings: Vec<String>,
}

/// What became of all that was due under one protocol, over all ledgers. Each transaction is in one
/// of the counts.
#[derive(Clone, Debug, Default)]
pub struct NetworkRun {
    pub protocol: String,
    /// Over which they were due.
    pub seconds: f64,
    pub valid: u64,
    /// Before it was ordered: what it had read was overtaken.
    pub aborted_early: u64,
    /// Before it was ordered: another node had met newer rows.
    pub member_ahead: u64,
    /// In a cycle of conflicts, from which it was taken.
    pub aborted_in_ordering: u64,
    /// In its block, with 40001.
    pub invalid: u64,
    /// No client was free to send it.
    pub not_sent: u64,
    /// In any other way, and too few endorsements.
    pub failed: u64,
    /// The first of these, in words.
    pub failure: Option<String>,
    /// Transactions of a block, on average.
    pub block_transactions: f64,
    /// Of those that are valid, from when they were due.
    pub latency: Latency,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl NetworkRun {
    pub fn aborted(&self) -> u64 {
        self.aborted_early + self.member_ahead + self.aborted_in_ordering + self.invalid
    }

    /// Those that came to an end of their own.
    pub fn ended(&self) -> u64 {
        self.valid + self.aborted()
    }

    pub fn due(&self) -> u64 {
        self.ended() + self.not_sent + self.failed
    }

    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }
}
