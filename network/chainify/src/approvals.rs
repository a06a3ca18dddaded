//! Who approves of an envelope, by signatures that are checked many together.
//!
//! An organisation meets an envelope up to three times: where it gathers approvals, where it
//! orders, and in the block. [Signatures](ledger::signatures) that were right are known there after
//! the first time; a block's others are checked as one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use ledger::Electors;
use order::EnvelopeBytes;
use order::signed::check_together;

/// What checking has taken.
#[derive(Default)]
pub struct Approvals {
    spent_ns: AtomicU64,
}

impl Approvals {
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Has those that are right known.
    pub fn check(&self, envelopes: &[Bytes]) {
        self.timed(|| {
            let read: Vec<_> = envelopes.iter().cloned().map(EnvelopeBytes::read).collect();
            check_together(read.iter());
        });
    }

    /// Electors who approve of an envelope; none where one of its signatures is wrong.
    pub fn of(&self, envelope: &Bytes, electors: &Electors) -> BTreeSet<u64> {
        let read = EnvelopeBytes::read(envelope.clone());
        let Ok(view) = read.view() else { return BTreeSet::new() };
        if self.timed(|| read.check_signatures().is_err()) {
            return BTreeSet::new();
        }
        let approves = |key: &[u8; 32]| view.approvals.iter().any(|it| it.key_id == *key);
        let members = electors.keys.iter().filter(|(_, key)| approves(key));
        members.map(|(member, _)| *member).collect()
    }

    fn timed<T>(&self, check: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = check();
        let spent = began.elapsed().as_nanos() as u64;
        self.spent_ns.fetch_add(spent, Ordering::Relaxed);
        done
    }
}
