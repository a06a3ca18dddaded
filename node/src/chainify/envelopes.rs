//! What this organisation hands in, as its own.

use anyhow::{Context, Result};
use bytes::Bytes;
use chainify::statement;
use cluster::Plan;
use ledger::LedgerId;
use ledger::hash::from_hex;
use order::{Envelope, Submission};

use crate::database;

/// How long a transaction may wait for its block.
const EXPIRY_US: i64 = 600 * 1_000_000;

pub fn ledger_id_of(plan: &Plan) -> Result<LedgerId> {
    let id = from_hex(&plan.ledger_id)?;
    id.try_into().ok().context("the plan names no ledger")
}

/// An organisation's transaction, by a key that no other one has.
pub fn envelope_of(
    (ledger_id, own): (LedgerId, u64),
    key: String,
    seen_height: u64,
    statements: &[String],
) -> Result<Bytes> {
    let envelope = Envelope {
        ledger_id,
        principal: format!("organisation-{own}"),
        submission: Submission::Key(key),
        expires_us: database::clock()() + EXPIRY_US,
        seen_height,
        settings: Vec::new(),
        seed: [0; 16],
        request: statement::encode(statements).into(),
        signatures: Vec::new(),
        approvals: Vec::new(),
    };
    Ok(Envelope::<String, Bytes>::encode(&envelope)?)
}
