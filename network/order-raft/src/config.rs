//! The settings of a node: its number, the members, times, bounds, its clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use order::{Limits, Proposer};

/// Tells the time: microseconds since 2000-01-01 UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// How long nodes wait for one another. All of a cluster should agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    pub heartbeat: Duration,
    /// A follower that hears nothing for `election_max`, in which the leader may still be one, and
    /// for so long again stands for election; each draws anew.
    pub election_min: Duration,
    pub election_max: Duration,
    /// An envelope that was forwarded is sent again after so long.
    pub patience: Duration,
    /// A batch waits for so long to be full; zero: it takes what there is.
    pub fill: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(600),
            patience: Duration::from_secs(5),
            fill: Duration::ZERO,
        }
    }
}

/// A node of a cluster.
#[derive(Clone)]
pub struct Config {
    pub id: u64,
    /// All members, by number, each with the name that it proposes under.
    pub members: BTreeMap<u64, Proposer>,
    pub limits: Limits,
    pub timing: Timing,
    /// Of this node; what it drafts bears what most say.
    pub clock: Clock,
    /// How far the clock of a leader, and the time of a draft, may be from [most members'
    /// clocks](crate::clocks); `None`: nothing is compared.
    pub ahead_max: Option<Duration>,
    /// Whether nothing may be drafted after an envelope before it was executed.
    pub is_barrier: fn(&[u8]) -> bool,
}
