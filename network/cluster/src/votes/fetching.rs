//! A task for each other member: what this one signs goes out, and what it lacks is fetched.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kit::sync::lock;
use ledger::votes::Vote;
use ledger::votes::counting::wire;
use order::Network;
use types::Height;

use super::shared::{PATIENCE, Votes};
use crate::Peers;

/// How often a member hears of this one at least.
const HEARD_EVERY: Duration = Duration::from_secs(1);

/// Of another member's successions of electors no more are asked for.
const FOLLOWED_MAX: u64 = 1 << 16;

impl Votes {
    /// Tells the other members what this one signs, for ever.
    pub async fn send_to_all(self: Arc<Self>, peers: Arc<Peers>) {
        let mut senders: BTreeMap<u64, tokio::task::JoinHandle<()>> = BTreeMap::new();
        loop {
            senders.retain(|_, task| !task.is_finished());
            for member in peers.members().now().0.into_keys().filter(|id| *id != self.me) {
                let send = || tokio::spawn(Arc::clone(&self).send_to(member, Arc::clone(&peers)));
                senders.entry(member).or_insert_with(send);
            }
            tokio::time::sleep(HEARD_EVERY).await;
        }
    }

    /// Until it is no member any more.
    async fn send_to(self: Arc<Self>, member: u64, peers: Arc<Peers>) {
        let mut sent = self.sent.subscribe();
        let mut reported: Option<Height> = None;
        while peers.members().now().0.contains_key(&member) {
            let all = Arc::clone(&sent.borrow_and_update());
            let new: Vec<Vote> =
                all.iter().filter(|vote| Some(vote.said.height) > reported).copied().collect();
            let message = wire::votes(self.certified(), &new);
            let answer = tokio::time::timeout(PATIENCE, peers.call(member, message)).await;
            let answer = answer.map_err(io::Error::other).flatten();
            match answer.and_then(|answer| wire::read_certified(&answer)) {
                Ok(certified) => {
                    reported = new.last().map(|vote| vote.said.height).or(reported);
                    self.take(member, certified, Vec::new());
                    self.fetch(member, certified, &peers).await;
                }
                Err(_) => {
                    // It may have lost what it was told.
                    reported = None;
                    tokio::time::sleep(HEARD_EVERY / 4).await;
                }
            }
            let _ = tokio::time::timeout(HEARD_EVERY, sent.changed()).await;
        }
    }

    /// Gets the certificates that another member has, and this one lacks, and how electors followed
    /// where those that it knows have not made them.
    async fn fetch(&self, member: u64, certified: Height, peers: &Peers) {
        self.fetch_certificates(member, certified, peers).await;
        if self.certified() < certified {
            let known = lock(&self.kept).all().followed() as u64;
            if !self.fetch_electors(member, known, certified, peers).await {
                // It may have gone over others.
                self.fetch_electors(member, 0, certified, peers).await;
            }
        }
        lock(&self.inbox).asked.push(member);
        self.arrived.notify_one();
    }

    /// Those after so many, each with its certificates. Whether any has followed.
    async fn fetch_electors(
        &self,
        member: u64,
        mut known: u64,
        certified: Height,
        peers: &Peers,
    ) -> bool {
        let before = lock(&self.kept).all().followed();
        loop {
            let wanted = peers.call(member, wire::successions_wanted(known));
            let answer = tokio::time::timeout(PATIENCE, wanted).await;
            let answer = answer.map_err(io::Error::other).flatten();
            let Ok(found) = answer.and_then(wire::read_successions) else { break };
            if found.is_empty() || known > FOLLOWED_MAX {
                break;
            }
            known += found.len() as u64;
            for next in found {
                let followed = lock(&self.kept).all().followed();
                lock(&self.inbox).successions.push_back(next);
                self.arrived.notify_one();
                while !lock(&self.inbox).successions.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                if lock(&self.kept).all().followed() > followed {
                    self.fetch_certificates(member, certified, peers).await;
                }
            }
        }
        lock(&self.kept).all().followed() > before
    }

    async fn fetch_certificates(&self, member: u64, certified: Height, peers: &Peers) {
        let mut above = self.certified();
        while above < certified {
            let wanted = peers.call(member, wire::wanted(above));
            let answer = tokio::time::timeout(PATIENCE, wanted).await;
            let answer = answer.map_err(io::Error::other).flatten();
            let Ok(found) = answer.and_then(wire::read_certificates) else { break };
            let Some(last) = found.last().map(|it| it.said.height) else { break };
            if last <= above {
                break;
            }
            above = last;
            lock(&self.inbox).certificates.entry(member).or_default().extend(found);
            self.arrived.notify_one();
            // Until they have been checked.
            while lock(&self.inbox).certificates.get(&member).is_some_and(|it| !it.is_empty()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}
