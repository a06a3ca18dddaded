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
use engine::members::LAST_MEMBER;
use order_raft::{Node, REMOVED, Standing};
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
        let mut waits = Waits::default();
        let mut course = Course::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let standing = self.node.standing();
            course.follow(&standing);
            waits.follow(&standing);
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
                let was_removed = self.was_removed(&membership);
                self.node.note_removed(was_removed);
                if was_removed {
                    error!(id = self.id, "{REMOVED}");
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

    /// Numbers are not given again, so one that the ledger has named and does not name is gone. A
    /// new member's ledger may not have come to the block that names it.
    fn was_removed(&self, membership: &Membership) -> bool {
        let last = self.engine.get().and_then(|engine| engine.parameter(LAST_MEMBER).ok());
        let last = last.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        !membership.0.contains_key(&self.id) && self.id <= last
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

/// How often it is said that nothing can be ordered still, and that no one leads still.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// What lasts no longer is not worth a line: a new cluster's members wait for one another, and each
/// that answers is another text.
const SETTLED: Duration = Duration::from_secs(1);

/// What was logged of why this node takes no part yet.
#[derive(Default)]
struct Waits {
    told: Option<String>,
    /// What it is now, and since when.
    now: (Option<String>, Option<Instant>),
}

impl Waits {
    fn follow(&mut self, standing: &Standing) {
        let (now, since) = &mut self.now;
        if *now != standing.waits || since.is_none() {
            (*now, *since) = (standing.waits.clone(), Some(Instant::now()));
        }
        if *now == self.told {
            return;
        }
        match now {
            Some(why) if since.is_some_and(|at| at.elapsed() >= SETTLED) => warn!("{why}"),
            Some(_) => return,
            None => info!("this node takes part in the order"),
        }
        self.told = now.clone();
    }
}

/// What was logged of who leads, and of what stands in the way.
#[derive(Default)]
struct Course {
    regime: (u64, Option<u64>),
    /// When an election was told of last.
    election: Option<Instant>,
    /// Since when, when it was said last, and why.
    hindered: Option<(Instant, Instant, String)>,
}

impl Course {
    fn follow(&mut self, standing: &Standing) {
        let Standing { id, term, leader, waits, hindered, .. } = standing;
        // What this node waits for has a line of its own.
        let hindered = hindered.as_ref().filter(|why| waits.as_ref() != Some(why));
        let regime = (*term, *leader);
        if self.regime != regime {
            // A member that does not reach the others asks them for votes all the time.
            let is_another = leader.is_none() && self.regime.1.is_none();
            let was_told = self.election.is_some_and(|at| at.elapsed() < SAY_EVERY);
            match *leader {
                None if is_another && was_told => {}
                Some(leader) if leader == *id => info!(term, "this node leads"),
                Some(leader) => info!(term, leader, "another member leads"),
                None => {
                    info!(term, before = self.regime.1, "no member leads: an election");
                    self.election = Some(Instant::now());
                }
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
