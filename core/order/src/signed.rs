//! Signatures over envelopes, checked once each and many together.
//!
//! A signature is over [`TAG_SIGNATURE`] and the envelope's id, by the key whose 32 bytes are its
//! key id. Whether it is right follows from the envelope's bytes alone; whose the key is, the
//! ledger's state says.

use ledger::hash::Hash;
use ledger::signatures::{Claim, SecretKey, TAG_SIGNATURE, check_all};
use types::{Error, Result, SqlState};

use crate::envelope::{EnvelopeBytes, Signature, View};

/// Of one envelope: its client's, and its node's.
pub const SIGNERS_MAX: usize = 2;

/// What a signature says nothing for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    TooMany,
    /// Of which no ledger asks any.
    Approvals,
    /// The one at that place is not over this envelope, or not by that key.
    Wrong(u8),
}

/// What is signed, of an envelope of that id.
pub fn message(id: &Hash) -> [u8; 48] {
    let mut message = [0; 48];
    message[..16].copy_from_slice(TAG_SIGNATURE);
    message[16..].copy_from_slice(id);
    message
}

impl<'a> View<'a> {
    /// Puts a signature beside those that there are; one of the same key is replaced.
    pub fn sign(&mut self, key: &SecretKey, room: &'a mut [u8; 64]) -> Result<()> {
        *room = key.sign(&message(&self.id()?));
        let key_id = key.public();
        self.signatures.retain(|signature| signature.key_id != key_id);
        let place = self.signatures.partition_point(|signature| signature.key_id < key_id);
        self.signatures.insert(place, Signature { key_id, bytes: &room[..] });
        Ok(())
    }
}

impl EnvelopeBytes {
    /// The same where this process has just signed it by its own key: that is not checked again.
    pub fn signed_here(self) -> EnvelopeBytes {
        debug_assert!(self.check_signatures().is_ok(), "its own key has signed it");
        let _ = self.faults.set(None);
        self
    }

    /// Whether its signatures are right, whatever keys they are by.
    ///
    /// # Errors
    /// 28000: one is wrong. 54000, 0A000: there are more than an envelope can have.
    pub fn check_signatures(&self) -> Result<()> {
        let found = self.faults.get_or_init(|| match self.to_check() {
            Ok(Some(signed)) => {
                let (view, message) = signed;
                let wrong = claims(&view, &message).position(|claim| !claim.holds());
                wrong.map(|at| Fault::Wrong(at as u8))
            }
            Ok(None) => None,
            Err(fault) => Some(fault),
        });
        found.map_or(Ok(()), |fault| Err(self.error_of(fault)))
    }

    /// With the message; `None`: it has no signature, or is no envelope.
    fn to_check(&self) -> Result<Option<(View<'_>, [u8; 48])>, Fault> {
        if !self.is_signed() {
            return Ok(None);
        }
        let (Ok(view), Ok(id)) = (self.view(), self.id()) else { return Ok(None) };
        if !view.approvals.is_empty() {
            return Err(Fault::Approvals);
        }
        match view.signatures.len() > SIGNERS_MAX {
            true => Err(Fault::TooMany),
            false => Ok(Some((view, message(&id)))),
        }
    }

    fn error_of(&self, fault: Fault) -> Error {
        let refused = |code, what: String| Error::new(code, what);
        match fault {
            Fault::TooMany => {
                let what = format!("an envelope has {SIGNERS_MAX} signatures at most");
                refused(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            }
            Fault::Approvals => {
                let what = "approvals of an envelope".to_owned();
                Error::unsupported(what)
            }
            Fault::Wrong(at) => {
                let view = self.view().ok();
                let key = view.as_ref().and_then(|view| view.signatures.get(usize::from(at)));
                let key = key.map(|signature| ledger::hash::to_hex(&signature.key_id));
                let what = "a signature of the transaction is wrong".to_owned();
                refused(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what).with_detail(format!(
                    "It is not one over this transaction by the key {}.",
                    key.unwrap_or_default()
                ))
            }
        }
    }
}

fn claims<'v>(view: &'v View<'_>, message: &'v [u8]) -> impl Iterator<Item = Claim<'v>> {
    view.signatures.iter().map(move |signature| Claim {
        key: &signature.key_id,
        message,
        signature: signature.bytes,
    })
}

/// Checks those that were not yet, all of them together.
pub fn check_together<'e>(envelopes: impl Iterator<Item = &'e EnvelopeBytes>) {
    let unchecked = envelopes.filter(|envelope| envelope.is_signed());
    let unchecked: Vec<_> = unchecked.filter(|it| it.faults.get().is_none()).collect();
    if unchecked.len() < 2 {
        // One alone is checked when it is asked about.
        return;
    }
    let mut signed = Vec::with_capacity(unchecked.len());
    for envelope in unchecked {
        match envelope.to_check() {
            Ok(Some((view, message))) => signed.push((envelope, view, message)),
            Ok(None) => drop(envelope.faults.set(None)),
            Err(fault) => drop(envelope.faults.set(Some(fault))),
        }
    }
    let all: Vec<Claim<'_>> =
        signed.iter().flat_map(|(_, view, message)| claims(view, message)).collect();
    let mut held = check_all(&all).into_iter();
    for (envelope, view, _) in &signed {
        // All of them are taken, so that the next envelope begins at its own.
        let own: Vec<bool> = held.by_ref().take(view.signatures.len()).collect();
        let wrong = own.iter().position(|held| !held);
        let _ = envelope.faults.set(wrong.map(|at| Fault::Wrong(at as u8)));
    }
}
