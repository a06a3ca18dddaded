//! Starts a member of a cluster: its orderer on threads of its own, its port for the other members,
//! voting, clock comparison.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use cluster::votes::{self, Block, Votes};
use cluster::{Answer, Answering, Members, Membership, Peers, Plan, Secrets};
use engine::limits::MEMBERS;
use engine::{BlockLimits, Engine, Head, Journal, RemoteOrderer, Replica};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::hash::{from_hex, to_hex};
use ledger::{Batch, BlockWriter, Electors, Files, Hash, Parameters, Stream, read_record};
use pgcatalog::{Member, Misbehaviour};
use sql::session::Database;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tracing::{info, warn};

use super::endorsement_messages::MARK;
use super::endorsing::Endorsing;
use super::forks::{Comparing, Forks};
use super::neighbours::Neighbours;
use super::orderers::{Beginning, Kind, Place};
use super::pending::Pending;
use super::report::{Report, STATUS};
use super::rotate::Rotation;
use super::{fetch, foreign, remote};
use crate::config::Settings;
use crate::metrics::Order;

/// Threads that what orders runs on. With a second one each message would be handed from the one
/// to the other, several times, and that costs more than what it holds.
const THREADS: usize = 1;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A node's place in a cluster.
pub struct Enrolment {
    plan: Plan,
    secrets: Secrets,
}

/// A member that takes part, until it leaves.
pub struct Joined {
    runtime: Option<Runtime>,
    face: Arc<Face>,
    neighbours: Arc<Neighbours>,
    rotation: Arc<Rotation>,
    voter: Option<JoinHandle<()>>,
}

impl Enrolment {
    /// Of a data folder, if it has one.
    pub fn find(data: &Path) -> Result<Option<Enrolment>> {
        let found = Plan::read(data).context("cannot read what cluster this node is of")?;
        Ok(found.map(|(plan, secrets)| Enrolment { plan, secrets }))
    }

    /// What orders the ledger, which is that of the cluster.
    fn check(&self, replica: &Replica) -> Result<Kind> {
        let (ledger, plan) = (to_hex(&replica.ledger_id()), &self.plan.ledger_id);
        ensure!(ledger == *plan, "the ledger is {ledger}, and the cluster's is {plan}");
        let parameters = replica.parameters();
        let kind = Kind::of(parameters)?;
        let kind = kind.context("the ledger is that of a lone node: it cannot join a cluster")?;
        let (name, planned) = (kind.name(), &self.plan.orderer);
        ensure!(name == planned, "the ledger is ordered by {name}, and the plan says {planned}");
        let (id, own) = (self.secrets.id, self.secrets.own.now());
        match membership_of(parameters)?.0.get(&id) {
            Some(known) if own.iter().all(|own| own.public != known.key) => {
                bail!("the key of this folder is not that of the ledger's member {id}")
            }
            _ => Ok(kind),
        }
    }

    /// Takes the ledger from another member, where the folder has none that the others can go on
    /// with. If so: the block up to which it was executed, and the digest of the state after it.
    pub fn complete(&self, data: &Path, files: &Arc<dyn Files>) -> Result<Option<(u64, Hash)>> {
        if Pending::read(data)?.is_some() {
            // It goes on alone: what the others have is another ledger's.
            return Ok(None);
        }
        let kind = Kind::named(&self.plan.orderer)?;
        if !fetch::has_ledger(files)? && kind.begin_anew(data, &self.plan, &self.secrets)? {
            return Ok(None);
        }
        let members = Arc::new(Members::new(self.plan.membership()?));
        let peers = Peers::new(&self.plan, &self.secrets, members)?;
        foreign::refuse_among(&self.plan, &peers, self.secrets.id)?;
        let ledger_id = from_hex(&self.plan.ledger_id)?;
        let ledger_id = ledger_id.try_into().ok().context("the plan names no ledger")?;
        fetch::complete(data, files, peers, self.secrets.id, kind, ledger_id)
            .context("cannot take the ledger from another member")
    }

    /// Takes part after the last block that the replica has executed. Not within a runtime.
    pub fn join(
        self,
        files: Arc<dyn Files>,
        log: BlockWriter,
        replica: &Replica,
        limits: BlockLimits,
        settings: &Settings,
        ahead_max: Option<Duration>,
    ) -> Result<(Joined, Journal)> {
        let kind = self.check(replica)?;
        let Enrolment { plan, secrets } = self;
        let id = secrets.id;
        let pending = Pending::read(&settings.data)?;
        let membership = first_membership(&plan, id, replica, pending.as_ref())?;
        let runtime = start_threads()?;
        let (votes, voter) = start_votes(&files, &secrets, replica)?;
        let members = Arc::new(Members::new(membership));
        let peers = Arc::new(Peers::new(&plan, &secrets, Arc::clone(&members))?);
        let address = plan.member(id).map(|member| member.address.clone()).unwrap_or_default();
        let engine: Arc<OnceLock<Arc<Engine>>> = Arc::default();
        let forks: Arc<Forks> = Arc::default();
        let (face, journal, neighbours, rotation) = runtime.block_on(async {
            let listener = listen(&address).await?;
            let (place, journal) = kind
                .begin(Beginning {
                    plan: &plan,
                    id,
                    files: Arc::clone(&files),
                    log,
                    replica,
                    limits,
                    settings,
                    own: Arc::clone(&secrets.own),
                    ahead_max,
                    peers: Arc::clone(&peers),
                    members: Arc::clone(&members),
                    engine: Arc::clone(&engine),
                    pending,
                })
                .await?;
            let face = Arc::new(Face {
                place: Arc::clone(&place),
                engine: Arc::clone(&engine),
                found: replica.head(),
                named: named_in(replica.parameters()).to_owned(),
                files,
                votes: Arc::clone(&votes),
                forks: Arc::clone(&forks),
                endorsing: Endorsing::new(id, &peers),
            });
            tokio::spawn(Arc::clone(&votes).send_to_all(peers.clone()));
            tokio::spawn(distrust(Arc::clone(&place), Arc::clone(&votes)));
            compare((id, &place), &engine, &peers, &forks);
            let neighbours = face.neighbours(&peers);
            let rotation = Rotation {
                data: settings.data.clone(),
                id,
                own: Arc::clone(&secrets.own),
                votes: Arc::clone(&votes),
                engine: Arc::clone(&engine),
                peers,
                place: Arc::clone(&place),
            };
            tokio::spawn(answer(listener, plan, secrets, members, Arc::clone(&face)));
            anyhow::Ok((face, journal, neighbours, rotation.begin_to_run()))
        })?;
        info!(id, order = kind.name(), address, "this node is a member of a cluster");
        let (runtime, voter) = (Some(runtime), Some(voter));
        Ok((Joined { runtime, face, neighbours, rotation, voter }, journal))
    }
}

/// The members that a node knows of when it begins.
fn first_membership(
    plan: &Plan,
    id: u64,
    replica: &Replica,
    pending: Option<&Pending>,
) -> Result<Membership> {
    let mut membership = membership_of(replica.parameters())?;
    if !membership.0.contains_key(&id) {
        // It was added by a block that is not here yet.
        membership.0.extend(plan.membership()?.0);
    }
    Ok(match pending {
        Some(pending) => pending.without(&membership),
        None => membership,
    })
}

fn start_threads() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("order")
        .enable_all()
        .build()
        .context("cannot start the threads of what orders")
}

async fn listen(address: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address} for members"))
}

/// Compares this node's orders with the others' until the runtime ends.
fn compare(
    (id, place): (u64, &Arc<dyn Place>),
    engine: &Arc<OnceLock<Arc<Engine>>>,
    peers: &Arc<Peers>,
    forks: &Arc<Forks>,
) {
    let comparing = Comparing {
        id,
        place: Arc::clone(place),
        engine: Arc::clone(engine),
        peers: Arc::clone(peers),
        forks: Arc::clone(forks),
    };
    tokio::spawn(comparing.run());
}

/// What the order convicts members of is known to the votes, until the runtime ends.
async fn distrust(place: Arc<dyn Place>, votes: Arc<Votes>) {
    loop {
        let convicted = place.misbehaviour().into_iter().map(|found| found.member);
        votes.distrust(convicted.filter(|member| *member > 0).collect());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Answers members until the runtime ends.
async fn answer(
    listener: TcpListener,
    plan: Plan,
    secrets: Secrets,
    members: Arc<Members>,
    face: Arc<Face>,
) {
    if let Err(error) = cluster::serve(listener, &plan, &secrets, members, face).await {
        warn!(%error, "members are not answered any more");
    }
}

/// The thread that votes, from the last block on that the replica has executed.
fn start_votes(
    files: &Arc<dyn Files>,
    secrets: &Secrets,
    replica: &Replica,
) -> Result<(Arc<Votes>, JoinHandle<()>)> {
    let electors = Electors::of(replica.ledger_id(), replica.parameters())?;
    let electors = electors.context("the ledger names no members")?;
    let parameters = replica.parameters();
    let started = votes::start(files, electors, (secrets.id, &secrets.own), parameters);
    let (votes, voter) = started.context("cannot go on voting")?;
    let head = replica.head();
    if let Some(order) = read_record(&**files, Stream::Orders, head.height)? {
        votes.executed(Block {
            height: head.height,
            result_hash: head.hash,
            time_us: head.time_us,
            parameters_hash: Batch::of(&order)?.header().parameters_hash,
            next_parameters: Arc::clone(parameters),
        });
    }
    Ok((votes, voter))
}

impl Joined {
    pub fn orderer(&self) -> RemoteOrderer {
        self.face.place.orderer()
    }

    /// For the metrics.
    pub fn tells_order(&self) -> Box<dyn Fn() -> Order + Send + Sync> {
        let place = Arc::clone(&self.face.place);
        Box::new(move || place.order())
    }

    /// All members, as this one knows them.
    pub fn tells_members(&self) -> Box<dyn Fn() -> Vec<Member> + Send + Sync> {
        let neighbours = Arc::clone(&self.neighbours);
        Box::new(move || neighbours.members())
    }

    pub fn tells_misbehaviour(&self) -> Box<dyn Fn() -> Vec<Misbehaviour> + Send + Sync> {
        let place = Arc::clone(&self.face.place);
        Box::new(move || place.misbehaviour())
    }

    /// Whose head is told from now on.
    pub fn tell_of(&self, engine: &Arc<Engine>) {
        let _ = self.face.engine.set(Arc::clone(engine));
        let engine = Arc::clone(engine);
        self.face.votes.halt_by(move |cause| engine.halt(cause));
    }

    /// Endorses for the other members from now on, and has its sessions ask them.
    pub fn endorse(&self, database: &Arc<Database>) {
        self.face.endorsing.begin(database);
    }

    pub fn forks(&self) -> &Arc<Forks> {
        &self.face.forks
    }

    pub fn rotation(&self) -> &Arc<Rotation> {
        &self.rotation
    }

    pub fn votes(&self) -> &Arc<Votes> {
        &self.face.votes
    }

    /// Takes no part any more. The ledger is in order.
    pub fn leave(mut self) -> Result<()> {
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(self.face.place.stop());
            runtime.shutdown_background();
        }
        self.face.votes.end();
        if let Some(voter) = self.voter.take() {
            let _ = voter.join();
        }
        self.face.place.rest().context("cannot mark the end of the ledger")
    }
}

/// What members see of this node.
struct Face {
    place: Arc<dyn Place>,
    engine: Arc<OnceLock<Arc<Engine>>>,
    /// What its start came to, which it tells until there is an engine: the newest block, and the
    /// members.
    found: Head,
    named: String,
    files: Arc<dyn Files>,
    votes: Arc<Votes>,
    forks: Arc<Forks>,
    endorsing: Arc<Endorsing>,
}

impl Face {
    fn report(&self) -> Report {
        let Face { place, votes, .. } = self;
        let engine = self.engine.get();
        let head = engine.map_or_else(|| self.found, |engine| engine.head());
        let named = engine.map_or_else(|| Ok(self.named.clone()), |it| it.parameter(MEMBERS));
        Report {
            standing: place.standing(),
            height: head.height,
            head: to_hex(&head.hash),
            time_us: head.time_us,
            halted: engine.and_then(|it| it.halt_cause().map(ToString::to_string)),
            members: named.unwrap_or_default(),
            votes: votes.standing(),
            clock_ahead_us: place.clocks().remove(&votes.member()).unwrap_or(0),
            clock_trouble: place.clock_trouble(),
            forks: self.forks.now(),
        }
    }

    /// Asks the other members how they are from now on.
    fn neighbours(self: &Arc<Self>, peers: &Arc<Peers>) -> Arc<Neighbours> {
        let (face, place) = (Arc::clone(self), Arc::clone(&self.place));
        let own = Box::new(move || face.report());
        let clocks = Box::new(move || place.clocks());
        let id = self.votes.member();
        let neighbours = Arc::new(Neighbours::new(id, Arc::clone(peers), own, clocks));
        tokio::spawn(Arc::clone(&neighbours).ask());
        neighbours
    }

    fn answer_of_files(&self, ask: Bytes) -> BoxFuture<'static, Answer> {
        let (place, engine) = (Arc::clone(&self.place), Arc::clone(&self.engine));
        let files = Arc::clone(&self.files);
        let answer = move || {
            let engine = engine.get().map(|engine| &**engine);
            remote::answer(&ask, &*files, &*place, engine)
        };
        async move {
            // It reads files.
            tokio::task::spawn_blocking(answer).await.map_err(std::io::Error::other)?
        }
        .boxed()
    }
}

impl Answering for Face {
    fn answer(&self, from: u64, request: Bytes) -> BoxFuture<'static, Answer> {
        if let Some((&remote::MARK, ask)) = request.split_first() {
            return self.answer_of_files(request.slice_ref(ask));
        }
        if let Some((&MARK, envelope)) = request.split_first() {
            return self.endorsing.answer(from, request.slice_ref(envelope));
        }
        if request == STATUS {
            let report = serde_json::to_vec(&self.report()).map_err(std::io::Error::other);
            return async move { Ok(report?.into()) }.boxed();
        }
        if !Votes::is_for(&request) {
            return self.place.answer(request);
        }
        let votes = Arc::clone(&self.votes);
        async move { votes.answer(from, request) }.boxed()
    }
}

/// The members that a ledger names.
fn membership_of(parameters: &Parameters) -> Result<Membership> {
    Ok(Membership::parse(named_in(parameters))?)
}

fn named_in(parameters: &Parameters) -> &str {
    parameters.others.get(MEMBERS).map_or("", String::as_str)
}
