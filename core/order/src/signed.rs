//! Signatures over envelopes, checked once each and many together.
//!
//! A signature is over [`TAG_SIGNATURE`] and the envelope's id, by the key whose 32 bytes are its
//! key id; an approval is over the same id behind another tag, alone or with many others by one
//! signature ([`ledger::approvals`]). Whether it is right follows from the envelope's bytes alone;
//! whose the key is, the ledger's state says.

use ledger::approvals::{self, Approved};
use ledger::hash::Hash;
use ledger::signatures::{Claim, SecretKey, TAG_SIGNATURE, check_all, remember};
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
    let mut message = [0; 48];
    message[..16].copy_from_slice(TAG_SIGNATURE);
    message[16..].copy_from_slice(id);
    message
}

/// The approvals of envelopes of these ids by this process's key, as few signatures as they take.
pub fn approve_all(key: &SecretKey, ids: &[Hash]) -> Vec<Vec<u8>> {
    let mut approvals = Vec::with_capacity(ids.len());
    for ids in ids.chunks(approvals::LEAVES_MAX) {
        let of_one = approvals::approve(key, ids).expect("no more than one signature approves");
        if let (Some(id), Some(approval)) = (ids.first(), of_one.first()) {
            remember_own(key, id, approval);
        }
        approvals.extend(of_one);
    }
    debug_assert_eq!(approvals.len(), ids.len(), "each has one");
    approvals
}

fn remember_own(key: &SecretKey, id: &Hash, approval: &[u8]) {
    if let Some((approved, signature)) = Approved::of(id, approval) {
        remember(&Claim { key: &key.public(), message: approved.message(), signature });
    }
}

/// Whether approvals are right, each of an envelope of that id: all of them together.
pub fn are_approved(all: &[(Hash, Signature<&[u8]>)]) -> Vec<bool> {
    let read: Vec<_> = all.iter().map(|(id, it)| Approved::of(id, it.bytes)).collect();
    let claims: Vec<_> =
        all.iter().zip(&read).map(|((_, it), read)| claim_of(&it.key_id, read)).collect();
    check_all(&claims)
}

/// An approval as it was read; one of no form holds never, as it has no signature.
fn claim_of<'a>(key: &'a [u8; 32], read: &'a Option<(Approved, &'a [u8])>) -> Claim<'a> {
    let (message, signature) = match read {
        Some((approved, signature)) => (approved.message(), *signature),
        None => (&[][..], &[][..]),
    };
    Claim { key, message, signature }
}

impl<'a> View<'a> {
    /// Puts a signature beside those that there are; one of the same key is replaced.
    pub fn sign(&mut self, key: &SecretKey, room: &'a mut [u8; 64]) -> Result<()> {
        let message = message(&self.id()?);
        *room = key.sign(&message);
        remember(&Claim { key: &key.public(), message: &message, signature: &room[..] });
        put(&mut self.signatures, Signature { key_id: key.public(), bytes: &room[..] });
        Ok(())
    }

    /// The same of an approval.
    pub fn approve(&mut self, key: &SecretKey, room: &'a mut [u8; 64]) -> Result<()> {
        let id = self.id()?;
        *room = key.sign(Approved::one(&id).message());
        remember_own(key, &id, &room[..]);
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
    /// Of each approval; `None`: it is of no form.
    approved: Vec<Option<(Approved, &'e [u8])>>,
}

impl ToCheck<'_> {
    fn count(&self) -> usize {
        self.view.signatures.len() + self.view.approvals.len()
    }

    /// Those of signatures, then those of approvals.
    fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        let signed = self.view.signatures.iter().map(|one| Claim {
            key: &one.key_id,
            message: &self.signed,
            signature: one.bytes,
        });
        let approvals = self.view.approvals.iter().zip(&self.approved);
        signed.chain(approvals.map(|(one, read)| claim_of(&one.key_id, read)))
    }
}

impl EnvelopeBytes {
    /// The same where this process has just signed it by its own key, or has found each of its
    /// signatures right: the caller's promise, which a release build does not check again.
    pub fn signed_here(self) -> EnvelopeBytes {
        debug_assert!(self.check_signatures().is_ok(), "its signatures are right");
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
                let held = check_all(&all.claims().collect::<Vec<_>>());
                held.iter().position(|held| !held).map(|at| Fault::Wrong(at as u8))
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
        let approved = view.approvals.iter().map(|one| Approved::of(&id, one.bytes)).collect();
        Ok(Some(ToCheck { signed: message(&id), approved, view }))
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
