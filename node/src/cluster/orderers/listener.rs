//! Which members may connect to this node, where the orderer has no membership of its own.
//!
//! The node accepts a member's key from the execution of the block that names it, until a block is
//! executed that no longer names it. This does not govern access to the orderer: a removed member
//! has to be kept from a Kafka topic by the brokers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cluster::{Members, Membership};
use engine::Engine;
use engine::limits::MEMBERS;
use tracing::{error, info};

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub struct Listener {
    pub id: u64,
    pub members: Arc<Members>,
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    /// What else is told of other members.
    pub followed: Box<dyn FnMut(&Membership) + Send>,
}

impl Listener {
    /// Until the runtime ends.
    pub async fn run(mut self) {
        let (mut named, mut was_member) = (String::new(), false);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(Ok(now)) = self.engine.get().map(|engine| engine.parameter(MEMBERS)) else {
                continue;
            };
            let Ok(membership) = Membership::parse(&now) else { continue };
            if now == named {
                continue;
            }
            info!(members = now, "the ledger's members");
            // A node that the ledger does not name yet goes on with those that it knows.
            if membership.0.contains_key(&self.id) {
                was_member = true;
                (self.followed)(&membership);
                self.members.set(membership);
            } else if was_member {
                let what = "the ledger does not name this node any more: it was removed, and is \
                            to be stopped";
                error!(id = self.id, "{what}");
            }
            named = now;
        }
    }
}
