//! Changes Raft's membership to the members that the ledger names.
//!
//! ```text
//! ledger   1 2 3     1 2 3 4
//! raft     1 2 3     1 2 3 (4 learns) … 4 has nearly all ─► 1 2 3 4 vote
//! ```
//!
//! A new member gets a vote only once its log is almost as long as the leader's. Otherwise the new
//! majority could need a member that cannot acknowledge yet. An observer stays a learner.
//!
//! The leader takes one step per call and is called again. A new leader continues where the old one
//! stopped, since both see the ledger and Raft's own entries.

use std::collections::BTreeSet;
use std::io;

use openraft::{ChangeMembers, EmptyNode, RaftMetrics};

use crate::shared::Node;

/// A learner with so many entries to come may vote.
const NEARLY: u64 = 64;

impl Node {
    /// Members of Raft as this node knows it, be they voters or learners.
    pub fn raft_members(&self) -> BTreeSet<u64> {
        let Ok(raft) = self.raft() else { return BTreeSet::new() };
        let metrics = raft.metrics().borrow().clone();
        metrics.membership_config.membership().nodes().map(|(id, _)| *id).collect()
    }

    /// Those of them that order.
    pub(crate) fn raft_voters(&self) -> BTreeSet<u64> {
        let Ok(raft) = self.raft() else { return BTreeSet::new() };
        raft.metrics().borrow().membership_config.membership().voter_ids().collect()
    }

    /// Takes a step towards these members, of whom `orders` vote, on the leader; elsewhere nothing
    /// happens. Whether there is none left to take.
    pub async fn follow(
        &self,
        members: &BTreeSet<u64>,
        orders: &BTreeSet<u64>,
    ) -> io::Result<bool> {
        let raft = self.raft()?;
        let metrics = raft.metrics().borrow().clone();
        if metrics.current_leader != Some(self.0.config.id) {
            return Ok(false);
        }
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let known: BTreeSet<u64> = membership.nodes().map(|(id, _)| *id).collect();
        if let Some(new) = members.difference(&known).next() {
            raft.add_learner(*new, EmptyNode {}, false).await.map_err(io::Error::other)?;
            return Ok(false);
        }
        let is_joint = membership.get_joint_config().len() > 1;
        if !is_joint && voters == *orders && known == *members {
            return Ok(true);
        }
        if orders.difference(&voters).any(|learner| !is_near(&metrics, *learner)) {
            return Ok(false);
        }
        let change = match !is_joint && voters == *orders {
            // Learners that are members no more.
            true => ChangeMembers::RemoveNodes(known.difference(members).copied().collect()),
            false => ChangeMembers::ReplaceAllVoters(orders.clone()),
        };
        raft.change_membership(change, false).await.map_err(io::Error::other)?;
        Ok(false)
    }
}

fn is_near(metrics: &RaftMetrics<u64, EmptyNode>, learner: u64) -> bool {
    let last = metrics.last_log_index.unwrap_or(0);
    let replication = metrics.replication.as_ref().and_then(|all| all.get(&learner));
    let has = replication.copied().flatten();
    has.is_some_and(|has| has.index.saturating_add(NEARLY) >= last)
}
