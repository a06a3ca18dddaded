//! Detection of forks: two members that have committed different orders for the same height.
//!
//! Raft rules that out as long as members keep what they have acknowledged. If enough members have
//! lost data (restored disks, deleted folders), it can happen nevertheless. No member can then tell
//! which ledger is the right one. So each reports the first height that differs, with both hashes,
//! and the operator decides which members have to rejoin.
//!
//! ```text
//! this member   0 … 431  432  433  434
//! other member  0 … 431  432' 433'
//!                        └── compare order hashes at the lower of both heads, every 3 seconds;
//!                            if they differ, find the first difference by binary search
//! ```
//!
//! Only the order hashes are compared. Different *results* of the same order are the business of
//! the [votes](super::votes).
//!
//! *Effect.* A fork is logged and reported, and no node stops for it: a member that lies about its
//! order looks the same as one that has forked. A node whose order differs from that of more than
//! half of the members reports itself as not ready.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use cluster::Peers;
use engine::Engine;
use kit::sync::lock;
use tracing::{error, info};

use super::orderers::Place;
use super::remote;
use super::report::Fork;

const LOOK_EVERY: Duration = Duration::from_secs(3);

/// What was found last.
#[derive(Default)]
pub struct Forks {
    forks: Mutex<BTreeMap<u64, Fork>>,
    members: AtomicUsize,
}

impl Forks {
    pub fn now(&self) -> Vec<Fork> {
        self.lock().values().cloned().collect()
    }

    /// Whether more than half of the members have another ledger than this one.
    pub fn is_outnumbered(&self) -> bool {
        2 * self.lock().len() > self.members.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Fork>> {
        lock(&self.forks)
    }

    fn found(&self, member: u64, fork: Option<Fork>) {
        let mut forks = self.lock();
        if forks.get(&member) == fork.as_ref() {
            return;
        }
        match fork {
            Some(fork) => {
                error!(
                    "{fork}. Stop the members whose ledger is not to go on, and have them take the \
                     other one: tally cluster rejoin."
                );
                forks.insert(member, fork);
            }
            None => {
                forks.remove(&member);
                info!(member, "its ledger is the one here again");
            }
        }
    }
}

/// The way to the first block that differs, when a later one does.
pub struct Halving {
    /// Everything below is the same.
    same: u64,
    pub differs: u64,
}

impl Halving {
    pub fn new(first: u64, differs: u64) -> Halving {
        Halving { same: first, differs }
    }

    /// What is to be compared next.
    pub fn middle(&self) -> Option<u64> {
        (self.same < self.differs).then(|| self.same + (self.differs - self.same) / 2)
    }

    pub fn reported(&mut self, middle: u64, is_same: bool) {
        match is_same {
            true => self.same = middle + 1,
            false => self.differs = middle,
        }
    }
}

/// Compares this node's orders with the others', until the runtime ends.
pub struct Comparing {
    pub id: u64,
    pub place: Arc<dyn Place>,
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    pub peers: Arc<Peers>,
    pub forks: Arc<Forks>,
}

impl Comparing {
    pub async fn run(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(own) = self.engine.get().map(|engine| engine.head().height) else { continue };
            let members = self.peers.members().now().0;
            self.forks.members.store(members.len(), Ordering::Relaxed);
            for member in members.into_keys().filter(|it| *it != self.id) {
                // One that does not answer leaves what is known of it.
                if let Ok(fork) = self.compare(member, own).await {
                    self.forks.found(member, fork);
                }
            }
        }
    }

    async fn compare(&self, member: u64, own: u64) -> io::Result<Option<Fork>> {
        let (newest, first) = remote::ask_span(&self.peers, member).await?;
        let (height, first) = (own.min(newest), first.max(self.place.first_height()));
        if height < first || self.is_same(member, height).await? {
            return Ok(None);
        }
        let mut halving = Halving::new(first, height);
        while let Some(middle) = halving.middle() {
            halving.reported(middle, self.is_same(member, middle).await?);
        }
        let height = halving.differs;
        let (here, there) = self.orders(member, height).await?;
        Ok(Some(Fork { member, height, here, there }))
    }

    async fn is_same(&self, member: u64, height: u64) -> io::Result<bool> {
        let (here, there) = self.orders(member, height).await?;
        Ok(here == there)
    }

    async fn orders(&self, member: u64, height: u64) -> io::Result<(String, String)> {
        let place = Arc::clone(&self.place);
        // It may read a file.
        let here = tokio::task::spawn_blocking(move || place.hash_of(height));
        let here = here.await.map_err(io::Error::other)??;
        let there = remote::ask_order(&self.peers, member, height).await?;
        Ok((ledger::hash::to_hex(&here), there))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_comes_to_the_first_block_that_differs() {
        for (first, parted, newest) in [(0, 0, 0), (0, 0, 9), (3, 5, 9), (3, 9, 9), (8, 8, 9)] {
            let mut halving = Halving::new(first, newest);
            while let Some(middle) = halving.middle() {
                assert!((first..newest).contains(&middle));
                halving.reported(middle, middle < parted);
            }
            assert_eq!(halving.differs, parted);
        }
    }

    #[test]
    fn a_fork_is_told_once_and_forgotten_when_it_is_healed() {
        let forks = Forks::default();
        let (here, there) = ("aa".repeat(32), "bb".repeat(32));
        let fork = Fork { member: 2, height: 432, here, there };
        forks.found(2, Some(fork.clone()));
        forks.found(2, Some(fork.clone()));
        forks.found(1, None);
        forks.members.store(3, Ordering::Relaxed);
        assert!(!forks.is_outnumbered(), "one of three may be the one that is wrong");
        forks.found(3, Some(Fork { member: 3, ..fork.clone() }));
        assert!(forks.is_outnumbered());
        forks.found(3, None);
        assert_eq!(forks.now(), [fork.clone()]);
        let said = fork.to_string();
        for part in ["block 432", &fork.here, &fork.there, "member 2"] {
            assert!(said.contains(part), "{said}");
        }
        forks.found(2, None);
        assert!(forks.now().is_empty());
    }
}
