//! Applies a change of the members in the ledger to Raft and to the node's connections.
//!
//! ```text
//! block 812 is executed: member 4 is named       every node: its key is admitted
//!                                                the leader: Raft sends it the log, then it votes
//! block 990 is executed: member 2 is not named   the leader: Raft goes on without it
//!                                                every node: it is refused, once Raft has
//! ```
//!
//! Nodes compare the state that they have executed with what is in force, and do not react to
//! single events. So a restart, a new leader, or a block that is executed late has the same result.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cluster::{Members, Membership};
use engine::Engine;
use engine::limits::MEMBERS;
use order_raft::{Node, Standing};
use tracing::{debug, error, info, warn};

use super::pending::Pending;

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
        let (mut done, mut reported) = (false, false);
        let mut waits = None;
        let mut course = Course::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let standing = self.node.standing();
            course.follow(&standing);
            if standing.waits != waits {
                match &standing.waits {
                    Some(why) => warn!("{why}"),
                    None => info!("this node takes part in the order"),
                }
                waits = standing.waits;
            }
            if let Some(why) = standing.stopped
                && !std::mem::replace(&mut reported, true)
            {
                error!("this node takes no part in the order any more: {why}");
            }
            let Some(Ok(now)) = self.engine.get().map(|engine| engine.parameter(MEMBERS)) else {
                continue;
            };
            let Ok(membership) = Membership::parse(&now) else { continue };
            if now != named {
                info!(members = now, "the ledger's members");
                if !membership.0.contains_key(&self.id) && !named.is_empty() {
                    let what = "the ledger does not name this node any more: it was removed, and \
                                is to be stopped";
                    error!(id = self.id, "{what}");
                }
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
            self.admit(&membership);
            if done && self.node.leads() {
                continue;
            }
            let ids: BTreeSet<u64> = membership.0.keys().copied().collect();
            match self.node.follow(&ids, &membership.voters()).await {
                Ok(is_done) => done = is_done,
                Err(error) => debug!(%error, "Raft's members are not those of the ledger yet"),
            }
        }
    }

    /// To the ledger's members and, until Raft is done with them, to those before. A node that the
    /// ledger does not name yet goes on with whom it knows.
    fn admit(&self, membership: &Membership) {
        let before = self.members.now();
        let mut open = membership.clone();
        let raft = self.node.raft_members();
        for (id, known) in &before.0 {
            if raft.contains(id) || !membership.0.contains_key(&self.id) {
                open.0.entry(*id).or_insert_with(|| known.clone());
            }
        }
        if open != before {
            self.members.set(open);
        }
    }
}

/// How often it is said that nothing can be ordered still.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// What was logged of who leads, and of what stands in the way.
#[derive(Default)]
struct Course {
    regime: (u64, Option<u64>),
    /// Since when, when it was said last, and why.
    hindered: Option<(Instant, Instant, String)>,
}

impl Course {
    fn follow(&mut self, standing: &Standing) {
        let Standing { id, term, leader, hindered, .. } = standing;
        let regime = (*term, *leader);
        if self.regime != regime {
            match *leader {
                Some(leader) if leader == *id => info!(term, "this node leads"),
                Some(leader) => info!(term, leader, "another member leads"),
                None => info!(term, before = self.regime.1, "no member leads: an election"),
            }
            self.regime = regime;
        }
        match (hindered, &mut self.hindered) {
            (Some(why), None) => {
                warn!("nothing can be ordered: {why}");
                self.hindered = Some((Instant::now(), Instant::now(), why.clone()));
            }
            (Some(why), Some((since, said, before))) => {
                // The same cause may count seconds.
                let same = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
                if said.elapsed() >= SAY_EVERY || same(why) != same(before) {
                    let seconds = since.elapsed().as_secs();
                    warn!(seconds, "nothing can be ordered still: {why}");
                    (*said, *before) = (Instant::now(), why.clone());
                }
            }
            (None, Some((since, ..))) => {
                let seconds = since.elapsed().as_secs();
                info!(seconds, "blocks are ordered again");
                self.hindered = None;
            }
            (None, None) => {}
        }
    }
}
