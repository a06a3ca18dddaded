//! Which transactions of a block commit, and in which serial order: Rules 1 and 2 of the paper.
//!
//! ```text
//! min_out, max_in of each ─► Rule 1: rejected? ── no ─► Rule 2: by (min_out, TID) ─► serial order
//! (edges)                          └─ yes ─► runs again, or is deferred
//! a command that fails ───────────► fails: to try again would be in vain
//! ```
//!
//! [The protocol's own page](super) has the rules, and why they suffice.

use types::Position;

use super::edges::{NO_TRANSACTION, Place};
use super::mutant::Mutant;

/// Who is rejected, and the numbers by which the others are ordered.
pub struct Verdict {
    min_out: Vec<Place>,
    fates: Vec<Fate>,
    reordering: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// By a rule.
    Rejected,
    /// A command of its own, or of another on the same record, fails: to try again later would be
    /// in vain.
    Fails,
}

impl Verdict {
    /// Without reordering, commands are applied in block order: then one that read what an earlier
    /// transaction writes cannot stay, whether or not another read what it writes.
    pub fn new(
        (min_out, max_in): (Vec<Place>, Vec<Place>),
        reordering: bool,
        mutant: Option<Mutant>,
    ) -> Verdict {
        let both = min_out.iter().zip(max_in).enumerate();
        let rejected = both.map(|(tid, (&min_out, max_in))| match reordering {
            true => {
                let lenient =
                    Place::from(mutant == Some(Mutant::StrictRule1) && max_in != NO_TRANSACTION);
                rule_1(tid as Place, min_out, max_in - lenient)
            }
            false => min_out < tid as Place,
        });
        let fates = rejected.map(|rejected| if rejected { Fate::Rejected } else { Fate::Stays });
        let fates = fates.collect();
        Verdict { min_out, fates, reordering: reordering && mutant != Some(Mutant::BlockOrder) }
    }

    /// Rule 2: the survivors by (min_out, TID).
    pub fn serial_order(&self) -> Vec<Position> {
        let tids = 0..self.fates.len() as Position;
        let mut order: Vec<Position> = tids.filter(|&tid| !self.is_rejected(tid)).collect();
        if self.reordering {
            order.sort_by_key(|&tid| self.min_out[tid as usize]);
        }
        order
    }

    pub fn rejected(&self) -> Vec<Position> {
        (0..self.fates.len() as Position).filter(|&tid| self.is_rejected(tid)).collect()
    }

    pub fn is_rejected(&self, tid: Position) -> bool {
        self.fates[tid as usize] != Fate::Stays
    }

    /// Rejected for its commands' sake, not by a rule.
    pub fn fails(&self, tid: Position) -> bool {
        self.fates[tid as usize] == Fate::Fails
    }

    pub fn min_out(&self, tid: Position) -> Place {
        self.min_out[tid as usize]
    }

    pub fn reject(&mut self, tid: Position) {
        self.fates[tid as usize] = Fate::Rejected;
    }

    pub fn fail(&mut self, tid: Position) {
        if self.fates[tid as usize] == Fate::Stays {
            self.fates[tid as usize] = Fate::Fails;
        }
    }
}

/// The middle of a backward dangerous structure `Ti <-rw- Tj <-rw- Tk`, i < j and i <= k.
fn rule_1(tid: Place, min_out: Place, max_in: Place) -> bool {
    min_out < tid && min_out <= max_in
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lai 2023, 3.2: i = k is allowed, so two transactions that read what the other writes are
    /// enough.
    #[test]
    fn two_transactions_are_enough_for_a_dangerous_structure() {
        assert!(rule_1(1, 0, 0));
    }

    /// Lai 2023, 3.2: without an edge to an earlier transaction none is rejected.
    #[test]
    fn a_transaction_without_backward_edge_survives() {
        assert!(!rule_1(1, 2, 5));
        assert!(!rule_1(3, 1, 0));
        assert!(!rule_1(3, 1, NO_TRANSACTION));
    }
}
