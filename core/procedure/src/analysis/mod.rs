//! Static analysis: one look at a procedure, read by every technique in its own way.
//!
//! Steps are numbered in program order, a step before those inside it ([`StepId`]). What is told
//! here holds for every call, whatever its arguments; only the [key plan](keys::KeyPlan) is
//! evaluated per call.
//!
//! | Here | In the literature | Read by |
//! |---|---|---|
//! | `key_dependencies`, `value_dependencies` | key and value dependencies | healing (Wu, 2016) |
//! | `row_dependencies` | flow, anti and output dependencies | PACMAN's slices (Wu, 2017) |
//! | [`Analysis::dependents`] | the restoration set | healing |
//! | `control_dependencies`, `guards` | control dependence (Ferrante, 1987) | all that reorder |
//! | [`KeyPlan`] | read and write sets known in advance | Calvin, BOHM, ChainifyDB, prefetching |
//! | [`CommandFacts`] | commutative and blind updates | Harmony's reordering and coalescence |
//! | [`Footprint`] | tables and columns read and written | lock granularity, PACMAN's blocks |
//! | [`Fragment`] | fragments and their dependencies | QueCC (Qadah, 2018), Q-Store |
//! | [`Abortable`] | abortable fragments; user-defined aborts | QueCC, speculative execution |
//!
//! **Dependencies.** A step depends on the one that wrote a register which it reads. As registers
//! are single-assignment that is one step each, and a phi or a carried register belongs to its `If`
//! or loop. Where the registers say nothing, rows do: two steps on one table, one of them writing,
//! keep their order unless their keys are constants that differ.

mod commands;
mod dependencies;
mod footprint;
mod fragments;
mod keys;
pub mod visit;

pub use commands::{CommandClass, CommandFacts};
pub(crate) use dependencies::may_fail;
pub use dependencies::{Abortable, StepFacts};
pub use footprint::{Footprint, TableFootprint};
pub use fragments::{Fragment, FragmentId, RecordRef, Records};
pub use keys::{AccessMode, Coverage, Hints, KeyPlan, Lead, PlannedAccesses, PlannedKey, Planning};

use crate::step::Procedure;

/// Number of a step in program order; a step comes before those inside it.
pub type StepId = u32;

/// All that is known of a procedure before it is called.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// By `StepId`.
    pub steps: Box<[StepFacts]>,
    /// Steps that may reject the transaction by the program's own decision, ascending.
    pub guards: Box<[StepId]>,
    pub keys: KeyPlan,
    pub footprint: Footprint,
    pub fragments: Box<[Fragment]>,
    /// No branches, no loops: steps may be run one at a time.
    pub is_straight_line: bool,
}

impl Analysis {
    pub fn of(procedure: &Procedure) -> Self {
        let numbered = visit::numbered(&procedure.body);
        let steps = dependencies::facts(procedure, &numbered);
        let guards = dependencies::guards(&steps);
        let fragments = fragments::of(procedure, &steps);
        Analysis {
            is_straight_line: !procedure.body.iter().any(visit::is_structured),
            footprint: Footprint::of(&numbered),
            keys: KeyPlan::of(procedure),
            fragments,
            guards,
            steps,
        }
    }

    /// All steps that may see something else when what `step` found has changed, ascending: those
    /// that read its registers, those that it decides on, those that see a row after its write, and
    /// theirs in turn.
    pub fn dependents(&self, step: StepId) -> Vec<StepId> {
        let mut affected = vec![false; self.steps.len()];
        affected[step as usize] = true;
        // A phi and what a loop carries come from steps further down, so one pass may not do.
        let mut changed = true;
        while changed {
            changed = false;
            for (id, facts) in self.steps.iter().enumerate() {
                // That a write waits for an earlier read of its row is order, not influence.
                let written = facts.row_dependencies.iter().copied();
                let written = written.filter(|on| self.steps[*on as usize].writes);
                let depends = facts.inputs().chain(written).any(|on| affected[on as usize]);
                changed |= depends && !affected[id];
                affected[id] |= depends;
            }
        }
        let all = (0..self.steps.len() as StepId).filter(|id| affected[*id as usize]);
        all.filter(|id| *id != step).collect()
    }

    /// Guards that come before `step`: until they are decided, so is it not.
    pub fn guards_before(&self, step: StepId) -> &[StepId] {
        let end = self.guards.partition_point(|guard| *guard < step);
        &self.guards[..end]
    }
}
