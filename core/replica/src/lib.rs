//! The deterministic core: ordered batches go in, results come out.
//!
//! * [`Replica`]: a value without clock, files or sockets; `T` is what waits for a request's
//!   answer, which it hands on and never looks at;
//! * [`request`]: an envelope on its way; [`transaction`]: what it asks for, and how the ledger
//!   says that it ended; [`effects`]: what its block changed; [`describe`]: all three in words;
//!   [`images`]: rows in the ledger, where no order explains them;
//! * [`limits`]: parameters that bound what a block may hold; [`members`]: the one that says who
//!   keeps the ledger; [`skip`]: what becomes of a block that no start survives.
//!
//! Absence: no SQL (see [`Language`]), no wire format, no knowledge of what a protocol does; no
//! clock, no file, no socket, no runtime, and no thread but those that share the work of one call.

pub mod describe;
pub mod effects;
pub mod images;
pub mod language;
pub mod limits;
pub mod members;
pub mod parameter_types;
mod replica;
pub mod request;
pub mod skip;
mod state_rows;
pub mod transaction;
#[cfg(test)]
mod vectors;

pub use self::replica::{
    AdmissionControl, Boundary, Closed, Entered, Executed, FinishingBlock, Halt, Head, KeyStanding,
    Opened, PlannedBlock, RanBlock, ReadyBlock, Repeat, Replica, Spread, check_first_order,
    check_protocol, compile_request, is_of_another, protocol_of, shown_parameter, simulation_rules,
    too_large, unknown_parameter,
};
pub use identity::{KeyId, Wanted};

pub use effects::{ChangedRow, Effects};
pub use language::{
    Action, AskedChange, Language, MakeLanguage, Migrated, ObjectChange, SCHEMA_TABLE,
    SchemaChange, approvals_suffice, arguments_fit, signers_may,
};
pub use limits::EXECUTOR;
pub use parameter_types::ParameterTypes;
pub use protocols::recorded_name;
pub use request::{Compiled, Completion, Member, Numbering, Request, Verdict, is_barrier};
pub use skip::Skipped;
pub use state_rows::{ProvableState, Rooting};
pub use transaction::{Body, Party, Transaction};
