//! Log schemes beside the command log: what a block *did*, row by row (§4.2.1, §4.6.1).
//!
//! | Scheme | A record holds | Read back by |
//! |---|---|---|
//! | command | nothing: the ledger's block is the record | [`replay`](crate::replay) |
//! | [logical](Scheme::Logical) | table, key, the row after | [`recover`], LLR and LLR-P |
//! | [physical](Scheme::Physical) | the same and where the record lies | [`recover`], PLR |
//!
//! A block is the epoch: its results are released together. So it is enough to log each row once,
//! as the block left it; the paper logs every change of every transaction.
//!
//! * [`records`]: the bytes of a record;
//! * [`streams`]: several loggers, group commit, and when an epoch counts;
//! * [`recover`]: the ways back to a state;
//! * [`row_logs`]: row logs of a node, whose ledger says which epochs count;
//! * [`checked`]: the way back from these, which the ledger's effects roots vouch for.

pub mod checked;
pub mod records;
pub mod recover;
pub mod row_logs;
pub mod streams;

/// What is logged of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    Logical,
    Physical,
}

impl Scheme {
    pub const ALL: [Scheme; 2] = [Scheme::Logical, Scheme::Physical];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Logical => "logical",
            Scheme::Physical => "physical",
        }
    }
}
