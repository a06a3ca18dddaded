//! What to do, independent of how: the procedure IR, its analysis and its interpreter.
//!
//! A stored procedure or a one-shot statement is compiled once to a [`Procedure`]: structured,
//! single-assignment steps over registers, which touch data only through [`Access`]. Every
//! concurrency-control protocol reads the same program in its own way (keys known in advance,
//! fragments, footprints, update commands), which is why it says *what* and never *how*.
//!
//! Absence: no storage, no threads, no SQL text. The interpreter is generic over `Access`, so a
//! protocol's data path is compiled into it and no access goes through a virtual call.

pub mod access;
mod aggregate;
pub mod analysis;
pub mod bound;
pub mod build;
pub mod chance;
pub mod condition;
pub mod draws;
mod eval;
pub mod explain;
pub mod expr;
pub mod frame;
pub mod functions;
pub mod healing;
pub mod interpret;
mod key;
mod length;
pub mod like;
pub mod meter;
pub mod prune;
pub mod query;
pub mod regex;
pub mod residue;
mod row_functions;
mod run_query;
pub mod sequences;
pub mod step;
pub mod surroundings;
pub mod testing;
mod variance;
mod whole;

pub use access::{Access, Check, Command, CommandCode, Range, Row};
pub use expr::{BinaryOp, Expr, Reg, UnaryOp};
pub use frame::{Frame, ProgramResult};
pub use functions::{Function, JsonFunction, JsonRows, RegexFunction, collation, domain_fault};
pub use interpret::{run, run_block, run_step, run_within};
pub use key::eval_key;
pub use meter::{
    BYTES_MAX, Budget, INSERT_UNITS, Interrupt, Meter, ROW_WEIGHT, UNITS_MAX,
    WRITTEN_BYTES_PER_UNIT,
};
pub use prune::prune;
pub use query::Query;
pub use run_query::{Flow, Sink, run_query};
pub use step::{
    Block, Column, Notice, NoticeLevel, OnError, Output, Procedure, SequenceNeed, SequenceUse, Step,
};
pub use surroundings::Surroundings;
