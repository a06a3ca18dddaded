//! Signatures over envelopes, checked once each in this process and many together.
//!
//! An organisation meets an envelope up to three times: where it gathers approvals, where it orders,
//! and in the block. Which were right is kept; a block's others are checked as one.
//!
//! **Cost.** Thirty-two bytes for each of the last [`SEEN_MAX`] at most.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use kit::sync::lock;
use ledger::Electors;
use ledger::hash::{Hash, tagged_hash};
use order::EnvelopeBytes;
use order::signed::check_together;

const SEEN_MAX: usize = 1 << 16;

#[derive(Default)]
pub struct Approvals {
    /// Of the bytes of envelopes whose signatures are all right.
    right: Mutex<HashSet<Hash>>,
    spent_ns: AtomicU64,
}

impl Approvals {
    /// What checking has taken.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Looks at all that were not seen yet.
    pub fn check(&self, envelopes: &[Bytes]) {
        let began = Instant::now();
        let read: Vec<(Hash, EnvelopeBytes)> = {
            let right = lock(&self.right);
            let hashed = envelopes.iter().map(|bytes| (hash_of(bytes), bytes));
            let unseen = hashed.filter(|(hash, _)| !right.contains(hash));
            unseen.map(|(hash, bytes)| (hash, EnvelopeBytes::read(bytes.clone()))).collect()
        };
        check_together(read.iter().map(|(_, envelope)| envelope));
        let are_right = read
            .iter()
            .filter(|(_, envelope)| envelope.is_signed() && envelope.check_signatures().is_ok());
        let are_right: Vec<Hash> = are_right.map(|(hash, _)| *hash).collect();
        self.keep(are_right);
        let spent = began.elapsed().as_nanos() as u64;
        self.spent_ns.fetch_add(spent, Ordering::Relaxed);
    }

    /// Electors who approve of an envelope; none where one of its signatures is wrong.
    pub fn of(&self, envelope: &Bytes, electors: &Electors) -> BTreeSet<u64> {
        let read = EnvelopeBytes::read(envelope.clone());
        let is_known = lock(&self.right).contains(&hash_of(envelope));
        let Ok(view) = read.view() else { return BTreeSet::new() };
        if !is_known && !self.is_right(&read) {
            return BTreeSet::new();
        }
        let approves = |key: &[u8; 32]| view.approvals.iter().any(|it| it.key_id == *key);
        let members = electors.keys.iter().filter(|(_, key)| approves(key));
        members.map(|(member, _)| *member).collect()
    }

    /// Of one that is not kept, whatever is kept meanwhile.
    fn is_right(&self, envelope: &EnvelopeBytes) -> bool {
        let began = Instant::now();
        let is_right = envelope.check_signatures().is_ok();
        if is_right && envelope.is_signed() {
            self.keep([hash_of(envelope.bytes())].into());
        }
        let spent = began.elapsed().as_nanos() as u64;
        self.spent_ns.fetch_add(spent, Ordering::Relaxed);
        is_right
    }

    fn keep(&self, are_right: Vec<Hash>) {
        let mut right = lock(&self.right);
        if right.len() + are_right.len() > SEEN_MAX {
            right.clear();
        }
        right.extend(are_right);
    }
}

fn hash_of(envelope: &Bytes) -> Hash {
    tagged_hash(b"tally approved 1", envelope)
}
