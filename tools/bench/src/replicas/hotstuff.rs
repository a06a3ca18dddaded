//! Chained HotStuff (Yin et al., PODC 2019) with one leader, replica 0; see the module above.
//!
//! ```text
//!   leader    P1 ─┐     ┌─ P2(QC 1) ─┐     ┌─ P3(QC 2) ─┐     ┌─ P4(QC 3)
//!   others        └► V1 ┘            └► V2 ┘            └► V3 ┘     └► 1 is committed
//! ```

use super::parts::Nanos;
use super::scene::Crypto;
use super::world::{Event as Any, Stage};

const HEADER_BYTES: u64 = 200;
const VOTE_BYTES: u64 = 150;
/// Of a certificate, for each vote.
const SIGNATURE_BYTES: u64 = 72;
/// With so many proposals behind it, one is committed.
const CHAIN: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// The leader has hashed and signed it.
    Made(usize),
    Proposal {
        view: usize,
        replica: usize,
    },
    /// Checked and signed.
    Checked {
        view: usize,
        replica: usize,
    },
    Vote(usize),
    Certified(usize),
}

pub struct HotStuff {
    batch_max: usize,
    crypto: Crypto,
    replicas: usize,
    waiting: Vec<usize>,
    /// The batch of each view; `None`: it is empty, and there for those before it.
    views: Vec<Option<usize>>,
    votes: usize,
    under_way: bool,
}

impl HotStuff {
    pub fn new(batch_max: usize, crypto: Crypto, replicas: usize) -> HotStuff {
        let (waiting, views) = (Vec::new(), Vec::new());
        HotStuff { batch_max, crypto, replicas, waiting, views, votes: 0, under_way: false }
    }

    fn quorum(&self) -> usize {
        self.replicas - (self.replicas - 1) / 3
    }

    pub fn submitted(&mut self, stage: &mut Stage<'_>, transaction: usize) {
        self.waiting.push(transaction);
        if !self.under_way {
            self.propose(stage);
        }
    }

    pub fn happen(&mut self, stage: &mut Stage<'_>, event: Event) {
        let quorum = self.quorum();
        match event {
            Event::Made(view) => {
                let bytes = self.bytes(stage, view);
                for replica in 1..self.replicas {
                    let proposal = Any::HotStuff(Event::Proposal { view, replica });
                    stage.send(0, replica, bytes, proposal);
                }
                self.commit(stage, view, 0);
                self.vote(stage, view);
            }
            Event::Proposal { view, replica } => {
                let work = self.making(stage, view) + self.crypto.verify_all(quorum);
                let done = stage.machines[replica].core.take(stage.now, work);
                stage.at(done, Any::HotStuff(Event::Checked { view, replica }));
            }
            Event::Checked { view, replica } => {
                self.commit(stage, view, replica);
                stage.send(replica, 0, VOTE_BYTES, Any::HotStuff(Event::Vote(view)));
            }
            Event::Vote(view) => self.vote(stage, view),
            Event::Certified(view) => {
                self.under_way = false;
                let open = self.views[..=view].iter().rev().take(CHAIN).any(Option::is_some);
                if open || !self.waiting.is_empty() {
                    self.propose(stage);
                }
            }
        }
    }

    fn propose(&mut self, stage: &mut Stage<'_>) {
        let count = self.waiting.len().min(self.batch_max);
        let batch = (count > 0).then(|| {
            stage.batches.push(self.waiting.drain(..count).collect());
            stage.batches.len() - 1
        });
        let view = self.views.len();
        self.views.push(batch);
        (self.votes, self.under_way) = (0, true);
        let work = self.making(stage, view);
        let made = stage.machines[0].core.take(stage.now, work);
        stage.at(made, Any::HotStuff(Event::Made(view)));
    }

    /// To hash a proposal and to sign it, or a vote for it.
    fn making(&self, stage: &Stage<'_>, view: usize) -> Nanos {
        self.crypto.hash(self.bytes(stage, view)) + self.crypto.sign
    }

    fn bytes(&self, stage: &Stage<'_>, view: usize) -> u64 {
        let batch = self.views[view].map_or(0, |batch| stage.bytes_of(batch));
        HEADER_BYTES + SIGNATURE_BYTES * self.quorum() as u64 + batch
    }

    /// A replica that has this proposal knows that the third before it is committed.
    fn commit(&mut self, stage: &mut Stage<'_>, view: usize, replica: usize) {
        let committed = view.checked_sub(CHAIN).and_then(|view| self.views[view]);
        if let Some(batch) = committed {
            stage.at(stage.now, Any::Ordered { batch, replica });
        }
    }

    fn vote(&mut self, stage: &mut Stage<'_>, view: usize) {
        // Those that come late are of a view that is certified.
        if view + 1 != self.views.len() {
            return;
        }
        self.votes += 1;
        if self.votes == self.quorum() {
            let work = self.crypto.verify_all(self.quorum());
            let done = stage.machines[0].core.take(stage.now, work);
            stage.at(done, Any::HotStuff(Event::Certified(view)));
        }
    }
}
