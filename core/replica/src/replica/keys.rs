//! Idempotency keys: what each block decided about transactions that their clients named by a key.

use std::collections::VecDeque;

use order::{Ended, EnvelopeBytes, Submission};
use types::{Height, Origin};

use crate::request::{Member, Verdict};
use crate::transaction::outcome::Reported;

/// What a key that a client named has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyStanding {
    /// Where the transaction was ordered.
    pub place: Origin,
    pub status: order::Status,
}

/// What a block decided about a key that a client named.
pub(super) struct KeyDecision {
    pub envelope: EnvelopeBytes,
    pub place: Origin,
    pub ended: Ended,
}

/// Decided keys that do not count yet, by the block that decided them.
pub(super) type Undecided = VecDeque<(Height, Vec<KeyDecision>)>;

impl KeyDecision {
    /// `None`: no client named it, or it did not run.
    pub fn of<T>(member: &Member<T>, place: Origin, ended: Ended) -> Option<KeyDecision> {
        let named = member.verdict == Verdict::RunKeyed;
        named.then(|| KeyDecision { envelope: member.request.envelope.clone(), place, ended })
    }

    /// If it is of this key.
    pub fn standing_of(&self, principal: &str, key: &str) -> Option<KeyStanding> {
        let view = self.envelope.view().ok()?;
        let same = view.principal == principal && view.submission == Submission::Key(key);
        same.then(|| KeyStanding { place: self.place, status: self.ended.status() })
    }

    /// What a recorded outcome says of a key.
    pub fn recorded<T>(
        member: &Member<T>,
        index: u32,
        height: Height,
        outcome: &[u8],
    ) -> Option<KeyDecision> {
        let origin = Origin { height, index };
        match Reported::decode(outcome).ok()? {
            Reported::Retry(_) => KeyDecision::of(member, origin, Ended::Retry),
            Reported::Committed { .. } => KeyDecision::of(member, origin, Ended::Committed),
            Reported::Rejected(it) => KeyDecision::of(member, origin, Ended::Rejected(it.code)),
            Reported::Deferred | Reported::Repeat(_) => None,
        }
    }
}
