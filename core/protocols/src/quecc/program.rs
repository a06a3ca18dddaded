//! Fragment plans: what is known of a procedure before any of its calls.
//!
//! A procedure is *cut* when arguments name every record, or at least the queue that it belongs in,
//! turn by turn of a loop:
//!
//! ```text
//!   Read a[$1] → r3                     template 0   once
//!   Update a[$1]                        template 0   the same record: one fragment
//!   Let r5 = r3 + $2                    ─            substituted where r5 is used
//!   Update b[$1] by r5                  template 1   once, needs column 0 of template 0
//!   If r5 > 7 then Emit 0; Return       ─            a guard of all that follows
//!   Insert d[$1, r3]                    template 2   queued by $1; the key waits for r3
//!   ForEach k in $3                     part 1
//!     If $2 > 1 then Update c[k] by r3  template 3   a fragment for each turn, if $2 says so
//!     If found then n := n + 1          ─            a reduction: count the turns that found
//!   Require r5 < 9; Emit n              ─            the epilogue
//! ```
//!
//! *Fragments.* What a call does with one record between two other records of the same table is one
//! fragment, as far as nothing in between has to be waited for: a row is found once, and what is
//! read of it need not leave the worker.
//!
//! *Guards* are what an operation's happening depends on: the branches that it stands in, and the
//! ends that the call may have come to before it. Those that arguments decide are looked at while
//! planning, and there is no fragment where they do not hold. The others make it wait for what they
//! need, as any data dependency does; an operation that turns out not to happen says so. What a
//! `Require` or a `Raise` decides is no guard: the fragments after it run, and are undone.
//!
//! *Steady reads.* What no transaction of the block changes may be read at any time, so the planner
//! reads it where more depends on it than values: the rejection of a loop's turn (`Require found`
//! of an order's items), or the key of another record (a customer by name). Queries are cut in this
//! way alone. Whether the block leaves it be is looked at block by block; where it does not, the
//! call runs in one piece. Where the planner finds that a turn is rejected, or that something
//! fails, the call runs after the queues.
//!
//! Computation between accesses is pure, so it is substituted into the expressions of the accesses
//! that need it; what only the answer needs is left to the *epilogue*. That is either a few sums
//! ([`Epilogue::Reduced`]) or the procedure's [residue](procedure::residue), which takes from the
//! fragments what they found and runs nothing again that they have done. Often nothing is left.

use procedure::analysis::Abortable;
use procedure::residue::Residue;
use procedure::{Expr, Reg};
use std::ops::Range;
use types::{ColumnId, IndexId, TableId, Value};

use super::action::{Action, EXPRESSION_UNITS};
use super::guard::{GUARD_UNITS, Guard};
use super::reduction::Reduction;

/// So far apart numbers do not overflow that were counted before.
const COUNT_MAX: i64 = 1 << 32;

/// Operations of a template.
pub const OPERATIONS_MAX: usize = 64;

/// Fragments that a transaction may be cut into.
pub const FRAGMENTS_MAX: usize = 4096;

pub struct Program {
    pub parts: Box<[Part]>,
    /// Of all parts, in program order.
    pub templates: Box<[Template]>,
    pub epilogue: Epilogue,
    pub registers: u16,
    /// Arguments that may have texts, or other bytes beside their values.
    pub texts: Box<[u16]>,
    /// What no transaction of a block may change, or no call in it is cut by this.
    pub steady: Box<[Steady]>,
    /// What steps outside of loops cost beside the fragments.
    pub units: u64,
    /// Whether, and how, a call may be rejected after some of its fragments have run.
    pub abortable: Abortable,
}

/// What a read rests on that is done while planning: the rows of a table, and some of their
/// columns.
pub struct Steady {
    pub table: TableId,
    pub columns: Box<[ColumnId]>,
    /// The rows are a range of this one.
    pub index: Option<IndexId>,
}

impl Program {
    /// It looks at rows while it is planned.
    pub fn is_steady(&self) -> bool {
        !self.steady.is_empty()
    }

    /// Tables of whose keys not all is known when fragments are queued, and how many columns are.
    pub fn by_lead(&self) -> impl Iterator<Item = (TableId, u8)> + '_ {
        let by_data = self.templates.iter().filter(|template| template.is_keyed_by_data());
        by_data.map(|template| (template.table, template.known))
    }

    pub fn reductions(&self) -> u32 {
        match &self.epilogue {
            Epilogue::Reduced(reduction) => u32::from(reduction.count),
            Epilogue::Left { .. } => 0,
        }
    }
}

/// Steps that run equally often.
pub struct Part {
    pub turns: Turns,
    pub templates: Range<u16>,
    /// What its turns do is not to be cut, so a call that has any runs in one piece.
    pub must_be_empty: bool,
    pub operations: usize,
    /// Cells of a turn.
    pub cells: u16,
    /// Of its operations, update commands which are paid for by more than their text says.
    pub metered: usize,
    /// Of them, those that change a row that may be long.
    pub unweighed: usize,
    /// What a turn costs, about, beside the arguments' texts.
    pub units: u64,
}

pub enum Turns {
    Once,
    Each {
        array: Expr,
    },
    Count {
        bounds: Box<[Expr; 3]>,
        reverse: bool,
        /// The first number and the step, where the text says them.
        known: Option<(i64, i64)>,
    },
}

/// The turns of a loop over numbers.
pub struct Counter {
    first: i64,
    step: i64,
    pub turns: usize,
}

impl Counter {
    /// The first number of a loop and the step to the next one.
    pub fn known(bounds: &[Expr; 3], reverse: bool) -> Option<(i64, i64)> {
        let [Expr::Const(Value::Int(first)), _, Expr::Const(Value::Int(step))] = bounds else {
            return None;
        };
        (1..=COUNT_MAX).contains(step).then_some((*first, if reverse { -step } else { *step }))
    }

    pub fn of(
        bounds: &[Expr; 3],
        reverse: bool,
        arguments: &[Value],
        now_us: i64,
    ) -> Option<Counter> {
        let bound = |expr: &Expr| expr.eval(arguments, &[], now_us).ok()?.as_int();
        let [first, last, step] = bounds;
        let (first, last, step) = (bound(first)?, bound(last)?, bound(step)?);
        if step <= 0 {
            return None;
        }
        let span = if reverse { first.checked_sub(last)? } else { last.checked_sub(first)? };
        let turns = if span < 0 { 0 } else { usize::try_from(span / step).ok()?.checked_add(1)? };
        let step = if reverse { -step } else { step };
        (turns <= FRAGMENTS_MAX).then_some(Counter { first, step, turns })
    }

    pub fn at(&self, turn: usize) -> i64 {
        self.first + self.step * turn as i64
    }
}

/// A fragment for each turn of its part.
pub struct Template {
    pub part: u16,
    pub table: TableId,
    /// Over arguments and the turn's register, and over `inputs` beyond what is known.
    pub key: Box<[Expr]>,
    /// So many of the key's columns, from the first on, are known when the fragment is queued.
    pub known: u8,
    /// It is one operation, which changes nothing, and on what the block does not change: it is
    /// done while planning.
    pub is_steady: bool,
    /// What it does with the record, in program order.
    pub operations: Box<[Operation]>,
    /// Arguments that the expressions use.
    pub arguments: Box<[Reg]>,
    /// What it needs of other fragments.
    pub inputs: Box<[Input]>,
    /// Where a turn's register is.
    pub turn: Option<Reg>,
}

/// An access.
pub struct Operation {
    /// Over arguments and the turn's register: it does not happen where they do not hold.
    pub foreseen: Box<[Guard]>,
    /// Some of those use the turn's register.
    pub foreseen_by_turn: bool,
    /// Those that need what others publish.
    pub guards: Box<[Guard]>,
    pub action: Action,
    /// Its text bounds what the action's expressions take.
    pub is_brief: bool,
    /// The first of the registers that a read fills.
    pub out: Reg,
    /// For whether there was a row.
    pub found: Reg,
    pub publish: Publish,
}

impl Template {
    pub fn is_keyed_by_data(&self) -> bool {
        usize::from(self.known) < self.key.len()
    }

    /// It inserts a row under a key that no other can know.
    pub fn has_hidden_key(&self) -> bool {
        let is_hidden = |operation: &Operation| operation.action.is_hidden();
        self.operations.first().is_some_and(is_hidden)
    }
}

impl Operation {
    /// It happens whatever others publish or arguments say.
    pub fn is_certain(&self) -> bool {
        self.guards.is_empty() && self.foreseen.is_empty()
    }

    pub fn units(&self) -> u64 {
        let mut units = self.action.units();
        if !self.is_brief && self.action.long_exprs() == 0 {
            units += EXPRESSION_UNITS;
        }
        if !self.guards.is_empty() {
            units += GUARD_UNITS;
        }
        for guard in self.foreseen.iter().chain(&self.guards) {
            guard.each_expr(&mut |expr| expr.walk(&mut |_| units += 1));
        }
        units
    }
}

/// A register that another template fills: data dependency.
#[derive(Clone, Copy)]
pub struct Input {
    pub register: Reg,
    pub template: u16,
    /// The operation's place there.
    pub place: u16,
    pub part: u16,
    pub cell: u16,
    /// Of the columns that are published; `None`: whether there was a row.
    pub column: Option<u16>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Publish {
    Nothing,
    /// One more turn of this reduction found its row.
    Count(u16),
    /// Whether there was a row, and these columns of a read, where the part has this cell.
    Cell {
        cell: u16,
        columns: Box<[u16]>,
        /// Other fragments need it.
        is_awaited: bool,
    },
}

pub enum Epilogue {
    Reduced(Reduction),
    /// By access that is needed: the part and the cell where it is found.
    Left {
        residue: Residue,
        cells: Box<[Option<(u16, u16)>]>,
    },
}
