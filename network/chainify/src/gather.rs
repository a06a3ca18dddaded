//! Approvals before an order: asked for by the organisation whose client it is, given by those whom
//! the tables' policies name.
//!
//! ```text
//! client ─► gather ─► own organisation ─┬─► agree ─► its database's function ─► approval
//!                                       └─► agree, at each other one that is needed
//!        ◄─ the envelope with all approvals, or who did not agree and why
//! ```
//!
//! An organisation without a function agrees to what its own clients ask for, and to nothing of
//! others'. **No approval holds for another transaction**: it is over the envelope's id.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use ledger::approvals::approve;
use order::{Envelope, Signature};
use types::{Error, Result, SqlState};

use crate::shared::Shared;
use crate::statement;
use crate::wire::{self, Request};

const GIVEN: &[u8] = b"+";
const DENIED: &[u8] = b"-";

/// What was asked for, or words for why it is not given.
pub fn read(answer: &Bytes) -> Result<Bytes> {
    let pieces = wire::read_pieces(answer).map_err(|error| silent(&error))?;
    match &pieces[..] {
        [is_given, given] if is_given == GIVEN => Ok(given.clone()),
        [_, why] => {
            let why = String::from_utf8_lossy(why).into_owned();
            Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, why))
        }
        _ => Err(silent(&"an answer about an agreement cannot be read")),
    }
}

/// It does not answer, or nothing that says anything.
fn silent(why: &dyn std::fmt::Display) -> Error {
    Error::new(SqlState(*b"08006"), why.to_string())
}

fn answer(result: Result<Bytes>) -> Bytes {
    match result {
        Ok(given) => wire::pieces([GIVEN, &given[..]]),
        Err(error) => wire::pieces([DENIED, error.message().as_bytes()]),
    }
}

impl Shared {
    /// The envelope with the approvals that it needs.
    pub(crate) async fn gathered(self: &Arc<Self>, envelope: Bytes) -> Bytes {
        answer(self.gather(envelope).await)
    }

    async fn gather(self: &Arc<Self>, bytes: Bytes) -> Result<Bytes> {
        let mut envelope: Envelope = Envelope::decode(&bytes)?;
        let statements = statement::decode(&envelope.request)?;
        let parsed = statement::parsed(&statements, &self.terms.schema)?;
        let needed = self.terms.agreement.needed(&parsed, self.electors());
        if needed.is_nothing() {
            return Ok(bytes);
        }
        // Where a number of them is enough, all are asked.
        let all: BTreeSet<u64> = self.electors().keys.keys().copied().collect();
        let asked = if needed.count > needed.members.len() { &all } else { &needed.members };
        let asking = asked.iter().map(|member| self.ask_to_agree(*member, &bytes));
        let mut reasons = Vec::new();
        for (member, given) in join_all(asking).await {
            let key = self.electors().keys.get(&member).copied().unwrap_or_default();
            match given {
                Ok(bytes) => envelope.approvals.push(Signature { key_id: key, bytes }),
                Err(why) => reasons.push(format!("organisation {member}: {}", why.message())),
            }
        }
        envelope.approvals.sort_by_key(|approval| approval.key_id);
        let gathered = envelope.encode()?;
        // What is no right approval is none.
        let agreed = self.approvals.of(&gathered, self.electors());
        match needed.lacks(&agreed) {
            None => Ok(gathered),
            Some(lacks) => {
                let why = reasons.join("; ");
                let what = format!("the transaction lacks the agreement {lacks} ({why})");
                Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what))
            }
        }
    }

    async fn ask_to_agree(self: &Arc<Self>, member: u64, envelope: &Bytes) -> (u64, Result<Bytes>) {
        let answered = if member == self.member {
            Ok(self.agrees_to(envelope.clone(), true).await)
        } else {
            self.exchange.call(member, Request::Agree { envelope: envelope.clone() }.encode()).await
        };
        (member, answered.map_err(|error| silent(&error)).and_then(|answer| read(&answer)))
    }

    /// This organisation's approval.
    pub(crate) async fn agrees_to(&self, envelope: Bytes, is_own: bool) -> Bytes {
        answer(self.agree_to(&envelope, is_own).await)
    }

    async fn agree_to(&self, envelope: &Bytes, is_own: bool) -> Result<Bytes> {
        let envelope: Envelope = Envelope::decode(envelope)?;
        let refused = |why: &str| Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, why));
        if envelope.ledger_id != self.terms.ledger_id {
            return refused("it is for another ledger");
        }
        let statements = statement::decode(&envelope.request)?;
        statement::check(&statements, &self.terms.schema)?;
        if let Some(function) = &self.check {
            if !self.checked(function, &statements).await? {
                return refused(&format!("{function} does not agree"));
            }
        } else if !is_own {
            return refused("it has no function that could agree (run --check)");
        }
        let id = envelope.id()?;
        Ok(self.signing(|| approve(&self.key, &[id]))?.concat().into())
    }
}
