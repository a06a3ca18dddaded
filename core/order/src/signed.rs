//! Signatures over envelopes, checked once each and many together.
//!
//! A signature is over [`TAG_SIGNATURE`] and the envelope's id, by the key whose 32 bytes are its
//! key id; an approval is over [`TAG_APPROVAL`] and the same id. Whether it is right follows from
//! the envelope's bytes alone; whose the key is, the ledger's state says.

use ledger::hash::{Hash, Tag};
use ledger::signatures::{Claim, SecretKey, TAG_APPROVAL, TAG_SIGNATURE, check_all};
use types::{Error, Result, SqlState};

use crate::envelope::{EnvelopeBytes, Signature, View};

/// Of one envelope: its client's, and its node's.
pub const SIGNERS_MAX: usize = 2;

/// Of one envelope: of others, whose policies ask for them.
pub const APPROVERS_MAX: usize = 16;

/// What a signature says nothing for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    TooMany,
    TooManyApprovals,
    /// The one at that place is not over this envelope, or not by that key: of the signatures, then
    /// of the approvals.
    Wrong(u8),
}

/// What is signed, of an envelope of that id.
pub fn message(id: &Hash) -> [u8; 48] {
    tagged(TAG_SIGNATURE, id)
}

/// What is signed of it by those who approve.
pub fn approval_message(id: &Hash) -> [u8; 48] {
    tagged(TAG_APPROVAL, id)
}

fn tagged(tag: &Tag, id: &Hash) -> [u8; 48] {
    let mut message = [0; 48];
    message[..16].copy_from_slice(tag);
    message[16..].copy_from_slice(id);
    message
}

impl<'a> View<'a> {
    /// Puts a signature beside those that there are; one of the same key is replaced.
    pub fn sign(&mut self, key: &SecretKey, room: &'a mut [u8; 64]) -> Result<()> {
        *room = key.sign(&message(&self.id()?));
        put(&mut self.signatures, Signature { key_id: key.public(), bytes: &room[..] });
        Ok(())
    }

    /// The same of an approval.
    pub fn approve(&mut self, key: &SecretKey, room: &'a mut [u8; 64]) -> Result<()> {
        *room = key.sign(&approval_message(&self.id()?));
        put(&mut self.approvals, Signature { key_id: key.public(), bytes: &room[..] });
        Ok(())
    }
}

fn put<'a>(list: &mut Vec<Signature<&'a [u8]>>, one: Signature<&'a [u8]>) {
    list.retain(|known| known.key_id != one.key_id);
    let place = list.partition_point(|known| known.key_id < one.key_id);
    list.insert(place, one);
}

/// An envelope's, and what they are over.
struct ToCheck<'e> {
    view: View<'e>,
    signed: [u8; 48],
    approved: [u8; 48],
}

impl ToCheck<'_> {
    fn count(&self) -> usize {
        self.view.signatures.len() + self.view.approvals.len()
    }

    /// Those of signatures, then those of approvals.
    fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        let signed = self.view.signatures.iter().map(|one| (one, &self.signed[..]));
        let approved = self.view.approvals.iter().map(|one| (one, &self.approved[..]));
        signed.chain(approved).map(|(one, message)| Claim {
            key: &one.key_id,
            message,
            signature: one.bytes,
        })
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
    /// 28000: one is wrong. 54000: there are more than an envelope can have.
    pub fn check_signatures(&self) -> Result<()> {
        let found = self.faults.get_or_init(|| match self.to_check() {
            Ok(Some(all)) => {
                let wrong = all.claims().position(|claim| !claim.holds());
                wrong.map(|at| Fault::Wrong(at as u8))
            }
            Ok(None) => None,
            Err(fault) => Some(fault),
        });
        found.map_or(Ok(()), |fault| Err(self.error_of(fault)))
    }

    /// `None`: it has no signature, or is no envelope.
    fn to_check(&self) -> Result<Option<ToCheck<'_>>, Fault> {
        if !self.is_signed() {
            return Ok(None);
        }
        let (Ok(view), Ok(id)) = (self.view(), self.id()) else { return Ok(None) };
        if view.signatures.len() > SIGNERS_MAX {
            return Err(Fault::TooMany);
        }
        if view.approvals.len() > APPROVERS_MAX {
            return Err(Fault::TooManyApprovals);
        }
        Ok(Some(ToCheck { view, signed: message(&id), approved: approval_message(&id) }))
    }

    fn error_of(&self, fault: Fault) -> Error {
        let refused = |code, what: String| Error::new(code, what);
        match fault {
            Fault::TooMany => {
                let what = format!("an envelope has {SIGNERS_MAX} signatures at most");
                refused(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            }
            Fault::TooManyApprovals => {
                let what = format!("an envelope has {APPROVERS_MAX} approvals at most");
                refused(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            }
            Fault::Wrong(at) => {
                let (view, at) = (self.view().ok(), usize::from(at));
                let is_approval = view.as_ref().is_some_and(|view| at >= view.signatures.len());
                let mut all =
                    view.iter().flat_map(|view| view.signatures.iter().chain(&view.approvals));
                let key = all.nth(at).map(|one| ledger::hash::to_hex(&one.key_id));
                let what = match is_approval {
                    true => "an approval of the transaction is wrong",
                    false => "a signature of the transaction is wrong",
                };
                let refused = refused(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what.into());
                refused.with_detail(format!(
                    "It is not one over this transaction by the key {}.",
                    key.unwrap_or_default()
                ))
            }
        }
    }
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
            Ok(Some(all)) => signed.push((envelope, all)),
            Ok(None) => drop(envelope.faults.set(None)),
            Err(fault) => drop(envelope.faults.set(Some(fault))),
        }
    }
    let all: Vec<Claim<'_>> = signed.iter().flat_map(|(_, all)| all.claims()).collect();
    let mut held = check_all(&all).into_iter();
    for (envelope, all) in &signed {
        // All of them are taken, so that the next envelope begins at its own.
        let own: Vec<bool> = held.by_ref().take(all.count()).collect();
        let wrong = own.iter().position(|held| !held);
        let _ = envelope.faults.set(wrong.map(|at| Fault::Wrong(at as u8)));
    }
}
