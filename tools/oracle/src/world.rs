//! A world: the rows that are there at first, and some blocks.
//!
//! A world is run as an engine would: what a block defers joins a later one, ahead of its own, and
//! after the last block more follow until nothing is left. That must come to an end, and the whole
//! is compared with the [twins](Twin) block by block.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use concurrency::test_mode::{self, TestMode};
use concurrency::{BlockOutcome, BlockReport, Outcome, Protocol, Work, WorkerPool};

use crate::programs::{LOG, TABLE, fill, schemas};
use crate::recipe::{Line, Recipe, builder};
use crate::session::Session;
use crate::twin::Item;
use crate::watchdog::Watch;
use crate::{Divergence, NetChange, StoredRow, Twin, rows};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct World {
    /// Rows 0.. that are there at first: k holds (k, k + 3, (k + 3) % 7).
    pub filled: u64,
    pub blocks: Vec<Vec<Recipe>>,
    /// Garbage is collected after each block.
    pub collects: bool,
}

/// Everything about a run that must not depend on threads; the counts of its reports may, so they
/// are left out.
#[derive(PartialEq, Debug, Default)]
pub struct Trace {
    pub blocks: Vec<(BlockOutcome, Vec<NetChange>)>,
    pub rows: [Vec<StoredRow>; 2],
}

/// How the transactions of a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub committed: usize,
    pub rejected: usize,
    /// Once for each time.
    pub deferred: usize,
    /// For good.
    pub retried: usize,
    /// Blocks in which no transaction committed or was rejected.
    pub standstills: usize,
}

impl Trace {
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (block, _) in &self.blocks {
            counts.deferred += block.deferred.len();
            let is_retry = |outcome: &Outcome| matches!(outcome, Outcome::Retry(_));
            let stands_still = !block.outcomes.is_empty() && block.outcomes.iter().all(is_retry);
            counts.standstills += usize::from(stands_still);
            for outcome in &block.outcomes {
                match outcome {
                    Outcome::Committed(_) => counts.committed += 1,
                    Outcome::Rejected(_) => counts.rejected += 1,
                    Outcome::Retry(_) => counts.retried += 1,
                }
            }
        }
        counts.retried -= counts.deferred;
        counts
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.committed += other.committed;
        self.rejected += other.rejected;
        self.deferred += other.deferred;
        self.retried += other.retried;
        self.standstills += other.standstills;
    }
}

struct Run<'a> {
    twin: Twin,
    protocol: &'a Arc<dyn Protocol>,
    pool: &'a WorkerPool,
    trace: Trace,
}

impl World {
    /// Run the world and compare; a panic of the protocol is a divergence as well.
    pub fn run(
        &self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        test_mode: TestMode,
    ) -> Result<Trace, Divergence> {
        let name = protocol.info().name;
        let _watch =
            Watch::new(format!("{name}, {} workers, {test_mode:?}\n{self}", pool.workers()));
        let run = catch_unwind(AssertUnwindSafe(|| self.run_all(protocol, pool, test_mode)));
        run.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let what = format!("panicked: {}", text.unwrap_or("?"));
            Err(Divergence::new(0, what))
        })
    }

    fn run_all(
        &self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        test_mode: TestMode,
    ) -> Result<Trace, Divergence> {
        let mut twin = Twin::new(&schemas());
        twin.collects = self.collects;
        twin.test_mode = test_mode;
        twin.attempts_max = u32::MAX;
        let mut run = Run { twin, protocol, pool, trace: Trace::default() };
        run.block(fill(self.filled).into_iter().map(Item::from).collect())?;
        run.drain()?;
        let mut held = BTreeMap::new();
        for (number, recipes) in self.blocks.iter().enumerate() {
            self.hold_sessions(number, &run.twin, &mut held);
            let items = recipes.iter().enumerate().filter_map(|(at, recipe)| match recipe.work() {
                Some(work) => Some(Item::from(work)),
                None => held
                    .remove(&(number, at))
                    .map(|(session, work)| Item { work, session: Some(session) }),
            });
            run.block(items.collect())?;
        }
        run.drain()?;
        run.trace.rows = [TABLE, LOG].map(|table| rows(&run.twin.subject, table));
        Ok(run.trace)
    }

    /// Hold the conversations, and simulate the programs, whose snapshot is the one before block
    /// `number`.
    fn hold_sessions(
        &self,
        number: usize,
        twin: &Twin,
        held: &mut BTreeMap<(usize, usize), (Session, Arc<Work>)>,
    ) {
        let _on = test_mode::enter(twin.test_mode);
        for (later, recipes) in self.blocks.iter().enumerate().skip(number) {
            for (at, recipe) in recipes.iter().enumerate() {
                let (Recipe::Session { blocks_ago, .. } | Recipe::Endorsed { blocks_ago, .. }) =
                    recipe
                else {
                    continue;
                };
                if later.saturating_sub(*blocks_ago) != number {
                    continue;
                }
                match recipe {
                    Recipe::Session { script, .. } => {
                        let script = script.iter().map(Line::action).collect();
                        held.insert((later, at), Session::hold(&twin.subject, script));
                    }
                    Recipe::Endorsed { calls, .. } => {
                        let procedure = builder(calls).procedure();
                        let endorsed = Session::endorse(&twin.subject, &procedure);
                        held.extend(endorsed.map(|endorsed| ((later, at), endorsed)));
                    }
                    _ => {}
                }
            }
        }
    }

    pub fn transactions(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }
}

impl Run<'_> {
    fn block(&mut self, fresh: Vec<Item>) -> Result<(), Divergence> {
        let outcome = self.twin.run_items(self.protocol, self.pool, fresh)?;
        let outcome = BlockOutcome { report: BlockReport::default(), ..outcome };
        self.trace.blocks.push((outcome, self.twin.changes.clone()));
        Ok(())
    }

    /// More blocks until nothing is deferred: each gets on with one transaction at least, which the
    /// twin checks, so this ends.
    fn drain(&mut self) -> Result<(), Divergence> {
        while self.twin.has_deferred() {
            self.block(Vec::new())?;
        }
        Ok(())
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  rows (k, k + 3, (k + 3) % 7) for k in 0..{}", self.filled)?;
        for (number, block) in self.blocks.iter().enumerate() {
            writeln!(f, "  block {}", number + 2)?;
            for (at, recipe) in block.iter().enumerate() {
                writeln!(f, "    T{at:<3} {recipe}")?;
            }
        }
        Ok(())
    }
}
