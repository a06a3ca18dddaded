//! TPC-B as pgbench has it ("tpcb-like"), as one call.
//!
//! The tables are those that `pgbench -i` makes, so the same data serves the built-in script,
//! statement by statement, and this one.

use crate::PgbenchScript;

/// What `pgbench -i` creates, for runs without it.
pub const SCHEMA: &str = include_str!("../sql/tpcb/schema.sql");
pub const PROCEDURES: &str = include_str!("../sql/tpcb/procedures.sql");

/// The built-in tpcb-like script's draws, and one call instead of its five statements.
pub fn script(scale: u32) -> PgbenchScript {
    let accounts = u64::from(scale) * 100_000;
    let tellers = u64::from(scale) * 10;
    PgbenchScript {
        name: "tpcb",
        weight: 1,
        text: format!(
            "\\set aid random(1, {accounts})\n\
             \\set bid random(1, {scale})\n\
             \\set tid random(1, {tellers})\n\
             \\set delta random(-5000, 5000)\n\
             SELECT tpcb(:aid, :bid, :tid, :delta);\n"
        ),
    }
}
