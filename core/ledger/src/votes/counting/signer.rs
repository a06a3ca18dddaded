//! What this node signs, and when.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::signatures::SecretKey;
use crate::votes::{LastVote, Said, Vote};
use crate::{Files, LedgerId};

/// The first block of each span of block time is voted on.
const SPAN_US: i64 = 50_000;

/// Blocks that are due and not signed. With more, the oldest are passed over.
const DUE_MAX: usize = 64;

pub struct Signer {
    ledger_id: LedgerId,
    member: u64,
    /// More than one while a key is being replaced.
    keys: Vec<SecretKey>,
    last: LastVote,
    span: Option<i64>,
    due: VecDeque<Said>,
    newest: Option<Said>,
}

impl Signer {
    pub fn open(files: &Arc<dyn Files>, ledger_id: LedgerId, member: u64) -> io::Result<Signer> {
        let (last, due) = (LastVote::open(files)?, VecDeque::new());
        Ok(Signer { ledger_id, member, keys: Vec::new(), last, span: None, due, newest: None })
    }

    /// Signs by these from now on.
    pub fn use_keys(&mut self, keys: Vec<SecretKey>) {
        self.keys = keys;
    }

    /// What was signed last, in this run or before.
    pub fn last(&self) -> Option<Said> {
        self.last.said()
    }

    /// The last vote once more: a crash may have come before it was sent.
    pub fn again(&self) -> Vec<Vote> {
        self.last.said().into_iter().flat_map(|said| self.votes_for(said)).collect()
    }

    fn votes_for(&self, said: Said) -> impl Iterator<Item = Vote> {
        self.keys.iter().map(move |key| key.vote(self.ledger_id, self.member, said))
    }

    /// A block was executed, after all before.
    pub fn executed(&mut self, said: Said, time_us: i64) {
        let span = time_us.div_euclid(SPAN_US);
        if self.span.replace(span) != Some(span) {
            self.due.push_back(said);
        }
        if self.due.len() > DUE_MAX {
            self.due.pop_front();
        }
        self.newest = Some(said);
    }

    /// Whether the newest block has no vote of this node's.
    pub fn lacks_newest(&self) -> bool {
        self.newest.is_some_and(|newest| self.last.may_sign(newest.height))
    }

    /// Signs what is due; with `quiet`, as nothing has come for a moment, the newest block too. One
    /// sync makes all of it durable.
    pub fn sign(&mut self, quiet: bool) -> io::Result<Vec<Vote>> {
        let mut due: Vec<Said> = self.due.drain(..).collect();
        due.extend(self.newest.filter(|_| quiet));
        due.dedup_by_key(|said| said.height);
        due.retain(|said| self.last.may_sign(said.height));
        let Some(highest) = due.last() else { return Ok(Vec::new()) };
        self.last.put(*highest)?;
        Ok(due.iter().flat_map(|said| self.votes_for(*said)).collect())
    }
}
