//! `tally cluster rotate`: replaces a member's key while its node and the others run.
//!
//! ```text
//! its node    creates a key, on stable storage  next-key.pem
//!             SET ledger.members                from the next block on the ledger names it
//! others      accept the new key, and no longer the old one, once they have
//!             executed the block
//! its node    signs with both keys until the former electors have certified the new ones
//!             every other member has executed the block ─► key.pem is the new one, the old is gone
//! ```
//!
//! *Crashes.* A crash at any point can be resumed. A key that was created and is not named by the
//! ledger gives access to nothing, and is used when the command is given again.
//!
//! The members' file ([`Plan`]) follows the ledger here, too. So a node that starts without a
//! ledger knows the other members by their current keys.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use cluster::votes::Votes;
use cluster::{Membership, Own, Peers, Plan};
use engine::Engine;
use engine::limits::MEMBERS;
use order::Network;
use serde_json::{Value as Json, json};
use tokio::time::timeout;
use tracing::{info, warn};

use super::change;
use super::folders::node_folder;
use super::orderers::Place;
use super::report::{Report, STATUS};
use crate::backup::node_address;
use crate::cli::{self, Exit, Output};
use crate::{configure, http, secrets};

const LOOK_EVERY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(folder: &Path, member: u16, output: Output) -> Result<Exit> {
    let data = node_folder(folder, member);
    let text = data.to_str().map(str::to_owned);
    let flags = cli::Settings { data: text, ..cli::Settings::default() };
    let settings = configure::resolve(&flags)?.settings;
    let address = node_address(&settings)?;
    let token = secrets::token_of_node(&settings)?;
    let answer = http::post(address, &format!("/members?rotate={member}"), &token);
    let answer = answer.with_context(|| format!("the node of {} does not run", data.display()))?;
    if !answer.is_ok {
        bail!("{}", answer.body.trim());
    }
    match output {
        Output::Text => println!("the ledger names another key of member {member} from now on"),
        Output::Json => println!("{}", json!({"member": member})),
    }
    Ok(Exit::Ok)
}

/// What a running member does about its key.
pub struct Rotation {
    pub data: PathBuf,
    pub id: u64,
    pub own: Arc<Own>,
    pub votes: Arc<Votes>,
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    pub peers: Arc<Peers>,
    pub place: Arc<dyn Place>,
}

impl Rotation {
    /// Has the ledger name the key that is to follow, drawn if none was.
    pub async fn begin(&self, engine: &Engine, owner: &str, member: &str) -> Result<Json> {
        let id = self.id;
        ensure!(member == id.to_string(), "this is the node of member {id}, not of {member}");
        let mut membership = Membership::parse(&engine.parameter(MEMBERS)?)?;
        let known = membership.0.get_mut(&id).context("the ledger does not name this node")?;
        let next = self.own.draw(&self.data, id).context("cannot draw a key")?;
        ensure!(known.key != next.public, "the key of member {id} is being replaced already");
        known.key = next.public;
        change::name(engine, owner, &membership).await
    }

    /// In the runtime that is entered.
    pub fn begin_to_run(self) -> Arc<Rotation> {
        let rotation = Arc::new(self);
        tokio::spawn(Arc::clone(&rotation).run());
        rotation
    }

    /// Until the runtime ends.
    async fn run(self: Arc<Self>) {
        let (mut named, mut since) = (String::new(), None);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(engine) = self.engine.get() else { continue };
            let Ok(now) = engine.parameter(MEMBERS) else { continue };
            let Ok(membership) = Membership::parse(&now) else { continue };
            // One that was removed keeps the members that it had.
            let Some(known) = membership.0.get(&self.id) else { continue };
            if now != named && self.is_newest(&membership, &now, engine.head().height).await {
                if let Err(error) = Plan::follow(&self.data, &membership) {
                    warn!(%error, "the file of the members is not up to date");
                }
                named = now;
            }
            let Some(next) = self.own.next().filter(|next| next.public == known.key) else {
                since = None;
                continue;
            };
            let since = *since.get_or_insert_with(|| engine.head().height);
            let is_said = self.votes.is_elector(self.id, &next.public);
            let is_used = self.place.has_key(&next.public);
            if is_said && is_used && self.all_have(&membership, since).await {
                match self.own.take(&self.data) {
                    Ok(()) => info!(id = self.id, "the old key of this node is gone"),
                    Err(error) => warn!(%error, "the old key of this node stays"),
                }
            }
        }
    }

    /// Whether no other member that answers, and is further, names other members: one that executes
    /// the ledger from its beginning passes by those of old.
    async fn is_newest(&self, membership: &Membership, named: &str, height: u64) -> bool {
        let reports = self.reports(membership).await;
        reports.iter().flatten().all(|report| report.height <= height || report.members == named)
    }

    /// Whether every other member has executed a block.
    async fn all_have(&self, membership: &Membership, height: u64) -> bool {
        let reports = self.reports(membership).await;
        reports.iter().all(|it| it.as_ref().is_some_and(|report| report.height >= height))
    }

    /// What the other members say of themselves, those that answer.
    async fn reports(&self, membership: &Membership) -> Vec<Option<Report>> {
        let others = membership.0.keys().copied().filter(|id| *id != self.id);
        let asked = others.map(async |member| {
            let call = timeout(PATIENCE, self.peers.call(member, Bytes::from_static(STATUS)));
            let answer = call.await.ok()?.ok()?;
            serde_json::from_slice::<Report>(&answer).ok()
        });
        futures::future::join_all(asked).await
    }
}
