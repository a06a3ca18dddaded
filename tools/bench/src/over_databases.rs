//! What is measured over databases of organisations that are chained to one ledger, and what comes
//! of it.
//!
//! This crate starts no process, as in [`over_network`](crate::over_network): who can hands in
//! [`OverDatabases`]. Servers are those of a plan; its loads run on them one after the other, each
//! from fresh tables of SmallBank's accounts.
//!
//! *What is counted* are transactions whose block enough organisations have agreed on, between two
//! ends of blocks: a block is thousands of transactions, and a window that cut one would count it
//! or not by chance.

use std::path::PathBuf;

use anyhow::Result;

use crate::Report;

/// Who can measure.
#[derive(Clone, Copy, Debug)]
pub struct OverDatabases {
    pub measure: fn(&ChainPlan, Report<'_>) -> Result<Vec<ChainRun>>,
    /// What this machine lacks for it.
    pub missing: fn() -> Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    Postgres,
    MariaDb,
}

#[derive(Clone, Debug)]
pub struct ChainPlan {
    /// Of one organisation each; the first one orders.
    pub systems: Vec<System>,
    pub accounts: u64,
    /// For servers' data.
    pub folder: PathBuf,
    pub loads: Vec<ChainLoad>,
}

#[derive(Clone, Debug)]
pub struct ChainLoad {
    pub name: String,
    pub way: Way,
    /// Zipf's exponent; 0 is uniform.
    pub theta: f64,
    /// Transactions at once: those that wait for their blocks, or connections of a database alone.
    pub under_way: u64,
    pub block_transactions: u64,
    pub checkpoint_blocks: u64,
    pub seconds: f64,
    /// Seconds before that.
    pub warm_up: f64,
    pub seed: u64,
    /// Whether all organisations have to agree to each transaction before it is ordered.
    pub agreed: bool,
    /// With the second, from the beginning of the load, in which each is dealt.
    pub blows: Vec<(f64, Blow)>,
}

/// What transactions go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The ledger, with so many votes for a result; each organisation runs a block's stages on so
    /// many connections, or its transactions one after the other on one.
    Chained { votes: usize, connections: u32 },
    /// Each database for itself, all at the same time, under its own concurrency control.
    Alone { isolation: Level, triggers: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    ReadCommitted,
    Serializable,
}

/// To an organisation, by its number from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blow {
    /// An administrator changes a row by SQL.
    Edit(usize),
    /// The same, with triggers turned off around it.
    EditUnseen(usize),
    Kill(usize),
}

/// Heights, as one look at the organisations found them.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub seconds: f64,
    /// What each has agreed on; `None`: it did not answer.
    pub agreed: Vec<Option<u64>>,
    /// What enough have agreed on.
    pub decided: u64,
    /// In blocks that are decided, since the beginning.
    pub succeeded: u64,
    pub failed: u64,
    pub refused: u64,
    /// Of the servers and of the organisations' processes, since the beginning.
    pub servers_cpu_s: f64,
    pub members_cpu_s: f64,
}

/// What one organisation said, and when.
#[derive(Clone, Debug)]
pub struct Said {
    pub seconds: f64,
    pub organisation: usize,
    pub line: String,
}

#[derive(Clone, Debug, Default)]
pub struct ChainRun {
    pub name: String,
    /// Of databases alone: of each, a second; what had to be sent again is not among it.
    pub alone_per_second: Vec<f64>,
    pub sent_again: u64,
    /// Of databases alone: processor time of the servers for one transaction.
    pub alone_cpu_us: f64,
    pub samples: Vec<Sample>,
    pub said: Vec<Said>,
    /// When blows were dealt.
    pub blows: Vec<(f64, Blow)>,
    /// Transactions that an organisation has run, and stages that they were in.
    pub transactions_run: u64,
    pub stages_run: u64,
    /// Of the organisation that spent most on signatures, of all the time.
    pub signatures_share: f64,
    /// Why the ledgers are not one, or do not hold.
    pub unsound: Option<String>,
    pub warm_up: f64,
}

/// Between two ends of blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    pub seconds: f64,
    pub transactions: u64,
    pub failed: u64,
    pub blocks: u64,
    pub servers_cpu_s: f64,
    pub members_cpu_s: f64,
}

impl ChainRun {
    /// From the first end of a block after the warm-up to the last one.
    pub fn window(&self) -> Option<Window> {
        let ended = |pair: &[Sample]| pair[1].decided > pair[0].decided;
        let ends = self.samples.windows(2).filter(|pair| ended(pair)).map(|pair| &pair[1]);
        let mut ends = ends.filter(|sample| sample.seconds >= self.warm_up);
        let (first, last) = (ends.next()?, ends.next_back()?);
        let all = |it: &Sample| it.succeeded + it.failed;
        Some(Window {
            seconds: last.seconds - first.seconds,
            transactions: all(last) - all(first),
            failed: last.failed - first.failed,
            blocks: last.decided - first.decided,
            servers_cpu_s: last.servers_cpu_s - first.servers_cpu_s,
            members_cpu_s: last.members_cpu_s - first.members_cpu_s,
        })
    }

    pub fn refused(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.refused)
    }

    /// Of a stage, on average.
    pub fn beside(&self) -> f64 {
        self.transactions_run as f64 / self.stages_run.max(1) as f64
    }

    /// When an organisation first said something of this kind, at or after a time.
    pub fn said_at(&self, organisation: usize, what: &str, after: f64) -> Option<&Said> {
        self.said.iter().find(|said| {
            said.organisation == organisation && said.seconds >= after && said.line.contains(what)
        })
    }

    /// The longest time without a block that is decided, between two times.
    pub fn longest_pause(&self, from: f64, to: f64) -> f64 {
        let inside = self.samples.iter().filter(|it| (from..=to).contains(&it.seconds));
        let (mut last, mut since, mut longest) = (None, from, 0.0_f64);
        for sample in inside {
            longest = longest.max(sample.seconds - since);
            if last != Some(sample.decided) {
                (last, since) = (Some(sample.decided), sample.seconds);
            }
        }
        longest
    }
}

impl Window {
    pub fn per_second(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    pub fn block_transactions(&self) -> f64 {
        self.transactions as f64 / self.blocks.max(1) as f64
    }

    pub fn servers_cpu_us(&self) -> f64 {
        self.servers_cpu_s * 1e6 / self.transactions.max(1) as f64
    }

    pub fn members_cpu_us(&self) -> f64 {
        self.members_cpu_s * 1e6 / self.transactions.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(looks: &[(f64, u64, u64)]) -> ChainRun {
        let sample = |&(seconds, decided, succeeded): &(f64, u64, u64)| Sample {
            seconds,
            decided,
            succeeded,
            ..Sample::default()
        };
        let samples = looks.iter().map(sample).collect();
        ChainRun { samples, warm_up: 1.0, ..ChainRun::default() }
    }

    #[test]
    fn a_window_begins_and_ends_with_a_block() {
        let looks = [(0.0, 0, 0), (0.9, 1, 100), (1.5, 2, 150), (2.0, 2, 150), (3.5, 4, 550)];
        let window = run(&[&looks[..], &[(5.0, 4, 550)]].concat()).window().unwrap();
        assert_eq!((window.seconds, window.transactions, window.blocks), (2.0, 400, 2));
        assert_eq!((window.per_second(), window.block_transactions()), (200.0, 200.0));
        assert_eq!(run(&looks[..4]).window(), None);
        assert_eq!(run(&[]).window(), None);
    }

    #[test]
    fn a_pause_is_between_two_blocks_or_up_to_the_end() {
        let run = run(&[(1.0, 1, 0), (2.0, 1, 0), (3.0, 2, 0), (4.0, 3, 0), (9.0, 3, 0)]);
        assert_eq!(run.longest_pause(0.0, 4.0), 2.0);
        assert_eq!(run.longest_pause(0.0, 9.0), 5.0);
        assert_eq!(run.longest_pause(3.0, 4.0), 1.0);
    }
}
