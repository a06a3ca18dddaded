//! Running the [recall](crate::recall) protocol: a member that may have lost its votes or its log
//! asks the others until it may take part again, and each member answers such questions.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use openraft::raft::VoteRequest;
use openraft::{Raft, Vote};
use tokio::time::{Duration, sleep, timeout};

use crate::incarnations::{Incarnation, Incarnations};
use crate::liveness::MEND_EVERY;
use crate::raft_types::Types;
use crate::recall::{Doubt, Lacking, Recalled, Recovered, judge, newer_incarnation};
use crate::shared::{LOOK_AGAIN, Node, Shared, lock};
use crate::wire::{Counted, Request, json, of_json};

/// Between two questions to members that do not answer.
const ASK_EVERY: Duration = Duration::from_millis(100);

impl Node {
    /// What this node answers to a member in doubt. From then on it answers none that counts for
    /// an older incarnation of that member, and the answer holds all that it did before.
    pub(crate) async fn recalled_for(
        &self,
        asking: u64,
        incarnation: Incarnation,
    ) -> io::Result<Recalled> {
        let is_stranger = self.is_stranger(asking).await;
        let recalled = {
            let _none_is_answered = self.0.answering.write().await;
            self.0.store.learn(&Incarnations::default().with(asking, incarnation))?;
            self.0.store.sync()?;
            self.0.store.recalled()
        };
        self.0.wake_pump();
        Ok(Recalled { is_stranger, met: self.0.store.met(asking), ..recalled })
    }

    async fn is_stranger(&self, asking: u64) -> bool {
        let Ok(raft) = self.raft() else { return false };
        if raft.get_read_log_id().await.is_err() {
            return false;
        }
        let metrics = raft.metrics().borrow().clone();
        let members = metrics.membership_config;
        let committed = self.0.committed_count();
        let is_committed = members.log_id().is_some_and(|id| id.index < committed);
        is_committed && !members.membership().voter_ids().any(|voter| voter == asking)
    }

    /// Asks until it is known what this node goes on with, and has it begin.
    pub(crate) async fn recall(self) {
        let mut heard = BTreeMap::new();
        loop {
            let own = self.0.store.recalled();
            let named: BTreeSet<u64> = self.0.config.members.keys().copied().collect();
            match judge(self.0.config.id, &own, &heard, &named) {
                Ok(recovered) => {
                    let begun = self.begin_recovered(recovered).await;
                    let failed = begun.err().map(|error| format!("it cannot take part: {error}"));
                    let is_full = failed.is_some() && self.0.store.fullness().is_some();
                    *lock(&self.0.waits) = failed;
                    if !is_full {
                        return;
                    }
                    sleep(MEND_EVERY).await;
                    let _ = self.0.store.reopen();
                }
                Err(lacking) => *lock(&self.0.waits) = Some(describe(own.doubt, &lacking)),
            }
            if self.0.leaving.load(Ordering::Acquire) {
                return;
            }
            let known = heard.values().flat_map(|it: &Recalled| it.voters.iter().flatten());
            let own_known = own.voters.iter().flatten();
            let mut asked: BTreeSet<u64> = known.chain(own_known).chain(&named).copied().collect();
            asked.remove(&self.0.config.id);
            let answers = asked.into_iter().map(|member| self.ask_of(member));
            for (member, answer) in futures::future::join_all(answers).await {
                if let Some(answer) = answer {
                    heard.insert(member, answer);
                }
            }
            if let Some(number) = newer_incarnation(self.0.config.id, &own, &heard) {
                // On a full disk it is tried again.
                let _ = self.0.store.begin_incarnation(number);
            }
            if judge(self.0.config.id, &own, &heard, &named).is_err() {
                sleep(ASK_EVERY).await;
            }
        }
    }

    async fn ask_of(&self, member: u64) -> (u64, Option<Recalled>) {
        let answer = async {
            let (id, incarnation) = (self.0.config.id, self.0.store.incarnation());
            let request = Request::Recall(id, incarnation).encode().map_err(io::Error::other)?;
            let answer = self.0.network.call(member, request).await?;
            of_json(&answer).map_err(io::Error::other)
        };
        let answer = timeout(self.0.config.timing.election_max, answer).await;
        (member, answer.ok().and_then(Result::ok))
    }

    async fn begin_recovered(&self, recovered: Recovered) -> io::Result<()> {
        if self.0.leaving.load(Ordering::Acquire) {
            return Ok(());
        }
        self.0.store.recover(recovered)?;
        self.take_part().await
    }
}

impl Node {
    /// The answer to a lead that counts for an incarnation which is over. What is new to this node
    /// is kept.
    pub(crate) fn outdates(&self, counted: &Incarnations) -> io::Result<Option<Bytes>> {
        let (id, store) = (self.0.config.id, &self.0.store);
        let (known, own) = (store.incarnations(), store.incarnation());
        if let Some(newer) = counted.of(id).filter(|newer| newer.number > own.number) {
            store.doubt(newer.number + 1)?;
            tokio::spawn(self.clone().asks_again());
            return Err(io::Error::other("this node is an old copy, as its incarnation is over"));
        }
        if counted.of(id) != Some(own) || !known.allow(counted) {
            let newer: Counted<()> = Counted::Outdated(known.with(id, own));
            return json(&newer).map(|newer| Some(newer.into())).map_err(io::Error::other);
        }
        let mut others = counted.clone();
        others.0.remove(&id);
        store.learn(&others)?;
        Ok(None)
    }

    /// It is a copy of what this member was.
    async fn asks_again(self) {
        let raft = lock(&self.0.raft).take();
        if let Some(raft) = raft {
            let _ = raft.shutdown().await;
            self.recall().await;
        }
    }

    /// A leader that has heard of a newer incarnation than its lead counts for gives it up, and
    /// stands again: of an incarnation that is over it may have counted what is forgotten.
    pub(crate) async fn gives_up_lead(&self, raft: &Raft<Types>) -> io::Result<bool> {
        let Shared { config, store, lead, .. } = &*self.0;
        let (vote, other) = {
            let metrics = raft.metrics();
            let metrics = metrics.borrow();
            let mut voters = metrics.membership_config.membership().voter_ids();
            (metrics.vote, voters.find(|voter| *voter != config.id))
        };
        let Some(other) = other.filter(|_| lead.is_outdated(vote.leader_id, &store.incarnations()))
        else {
            return Ok(false);
        };
        // It grants a term that is above its own, to itself in the end: openraft lets no leader
        // stand.
        let above = Vote::new(vote.leader_id.term + 1, other);
        let request = VoteRequest { vote: above, last_log_id: store.last() };
        let granted = raft.vote(request).await.map_err(io::Error::other)?;
        match granted.vote_granted {
            true => raft.trigger().elect().await.map_err(io::Error::other)?,
            // Its lead is too new; being asked again at once would be all that it does.
            false => sleep(LOOK_AGAIN).await,
        }
        Ok(true)
    }
}

/// For people.
fn describe(doubt: Option<Doubt>, lacking: &Lacking) -> String {
    let list =
        |members: &BTreeSet<u64>| members.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let why = match doubt {
        Some(Doubt::New) => "this node begins, and takes part",
        Some(Doubt::Copied) => {
            "the folder of this node is a copy, perhaps an old one: it takes part"
        }
        Some(Doubt::Lost) | None => "the data of this node was lost: it takes part again",
    };
    if !lacking.unheard.is_empty() {
        return format!(
            "{why} when enough of the others have said what they have; no answer yet from {}",
            list(&lacking.unheard)
        );
    }
    format!(
        "{why} when enough members have their data, but {} lost theirs too: start the cluster \
         from the member that has the most, by tally cluster recover",
        list(&lacking.lost)
    )
}
