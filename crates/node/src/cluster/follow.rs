//! What follows from a change of the members in the ledger.
//!
//! ```text
//! block 812 is released: member 4 is named       every node: the door opens for its key
//!                                                the leader: Raft sends it the log, then it votes
//! block 990 is released: member 2 is not named   the leader: Raft goes on without it
//!                                                every node: the door closes, once Raft has
//! ```
//!
//! Nodes look at what they have released, and not at how it came there: a restart, a new leader, a
//! block that was executed late lead to the same.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cluster::{Members, Roll};
use engine::Engine;
use engine::limits::MEMBERS;
use order_raft::Node;
use tracing::{debug, error, info, warn};

use super::recover::Pending;

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub struct Following {
    pub node: Node,
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    pub id: u64,
    pub members: Arc<Members>,
    /// Of a member that was told to go on alone.
    pub pending: Option<Pending>,
    pub data: PathBuf,
    pub owner: String,
}

impl Following {
    /// Until the runtime ends.
    pub async fn run(mut self) {
        let mut named = String::new();
        let (mut done, mut told) = (false, false);
        let mut waits = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let standing = self.node.standing();
            if standing.waits != waits {
                match &standing.waits {
                    Some(why) => warn!("{why}"),
                    None => info!("this node takes part in the order"),
                }
                waits = standing.waits;
            }
            if let Some(why) = standing.stopped
                && !std::mem::replace(&mut told, true)
            {
                error!("this node takes no part in the order any more: {why}");
            }
            let Some(Ok(now)) = self.engine.get().map(|engine| engine.parameter(MEMBERS)) else {
                continue;
            };
            let Ok(roll) = Roll::parse(&now) else { continue };
            if now != named {
                info!(members = now, "the ledger's members");
                (named, done) = (now, false);
            }
            if let Some(pending) = &self.pending {
                let engine = self.engine.get().filter(|_| self.node.leads());
                let Some(engine) = engine else { continue };
                match pending.complete(&self.data, engine, &self.owner).await {
                    Ok(()) => {
                        info!("the ledger goes on with this member alone");
                        self.pending = None;
                    }
                    Err(error) => warn!("the ledger's members are not changed yet: {error:#}"),
                }
                continue;
            }
            self.open_door(&roll);
            if done && self.node.leads() {
                continue;
            }
            let ids: BTreeSet<u64> = roll.0.keys().copied().collect();
            match self.node.follow(&ids).await {
                Ok(is_done) => done = is_done,
                Err(error) => debug!(%error, "Raft's members are not those of the ledger yet"),
            }
        }
    }

    /// To the ledger's members and, until Raft is done with them, to those before. A node that the
    /// ledger does not name yet goes on with whom it knows.
    fn open_door(&self, roll: &Roll) {
        let before = self.members.now();
        let mut open = roll.clone();
        let raft = self.node.raft_members();
        for (id, known) in &before.0 {
            if raft.contains(id) || !roll.0.contains_key(&self.id) {
                open.0.entry(*id).or_insert_with(|| known.clone());
            }
        }
        if open != before {
            self.members.set(open);
        }
    }
}
