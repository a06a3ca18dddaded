//! CometBFT as the orderer: each node runs it as a child process, and executes the blocks that more
//! than two thirds of the validators have signed.
//!
//! ```text
//! cluster/first-block/   the ledger's first block, as `init` made it
//! cometbft/              the child's home: keys, genesis, peers, its blocks
//! ```
//!
//! *Joining.* A member without a ledger starts from the first block. Its CometBFT fetches all later
//! blocks from its peers, with the signatures that prove them, so no single member has to be
//! trusted. CometBFT's peer-to-peer port is the member's own port plus one.
//!
//! *Validators* follow the ledger's members. A new member connects to the existing ones, so their
//! lists of peers need not change.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use cluster::{Answer, Identity, Members, Membership, Own, Plan, Secrets};
use engine::EXECUTOR;
use engine::members::FORMER_BLOCKS;
use engine::{Journal, RemoteOrderer, Replica};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::hash::from_hex;
use ledger::signatures::SecretKey;
use ledger::votes::electors::ELECTORS;
use ledger::{Batch, Files, Genesis, Hash, RealFiles, Record, Stream, first_block, read_record};
use order::Proposal;
use order_comet::home::{self, Member};
use order_comet::{Comet, Config, LAG, Settings as CometSettings, Start, Validators, height_of};
use pgcatalog::Misbehaviour;
use tracing::{info, warn};
use types::Height;

use super::listener::Listener;
use super::place::written_hash_of;
use super::standing::OfComet;
use super::timekeeping::Timekeeping;
use super::{Beginning, Place, Standing};
use crate::config::Settings;
use crate::database::clock;
use crate::folders;
use crate::metrics::{self, Order};
use crate::secrets;

/// The ledger's first block, in the folder of the cluster's files.
const FIRST_BLOCK: &str = "first-block";

/// Where a private key in PKCS #8 has its 32 bytes.
const SEED: std::ops::Range<usize> = 16..48;
/// In CometBFT's home: what this member signed last.
const SIGNED: &str = "data/priv_validator_state.json";
/// Before connections to members that were removed are cut, and for each member's number more.
const PARTING: Duration = Duration::from_secs(5);
const APART: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// For a bundle to be ordered before it is sent again.
const PATIENCE_MS: u64 = 10_000;
const INSTALL: &str = "Build it by `go install github.com/cometbft/cometbft/cmd/cometbft@v0.39.4`, \
                       and set `cometbft` to where it lies.";

struct CometBft {
    comet: Comet,
    home: PathBuf,
    files: Arc<dyn Files>,
    time: Arc<Timekeeping>,
}

/// CometBFT's own files for a member, after the ledger's first block.
pub fn make(data: &Path, plan: &Plan, id: u64, key: &[u8]) -> Result<()> {
    let members = members_of(&plan.membership()?)?;
    let founders = members_of(&founders_of(&first_block_of(data))?)?;
    let seed = seed_of(key);
    let own = members.iter().find(|member| member.id == id);
    let own = own.context("this node is not among the members")?;
    ensure!(SecretKey::of_pkcs8(key)?.public() == own.key, "the key is not that of member {id}");
    let chain = home::chain_id(&id_of(&plan.ledger_id)?);
    let made = home::make(data, &chain, &founders, &members, own, &seed);
    made.context("cannot make CometBFT's folder")
}

/// Where a member keeps the ledger's first block.
pub fn first_block_of(data: &Path) -> PathBuf {
    data.join(cluster::plan::FOLDER).join(FIRST_BLOCK)
}

/// Those whom the first block names.
fn founders_of(first_block: &Path) -> Result<Membership> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(first_block)?);
    let order = record(&files, Stream::Orders, 0)?;
    let genesis = Genesis::from_batch(&Batch::of(&order)?, EXECUTOR)?;
    let electors = genesis.parameters.others.get(ELECTORS).map_or("", String::as_str);
    Ok(Membership::parse(electors)?)
}

/// Copies a first block from one folder to another one, which is new.
pub fn copy_first_block(from: &Path, to: &Path) -> Result<()> {
    folders::create_private(to)?;
    for name in ["results", "orders"] {
        copy_folder(&from.join(name), &to.join(name))?;
    }
    Ok(std::fs::File::open(to)?.sync_all()?)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    folders::create_private(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().context("a file without a name")?;
        std::fs::copy(&path, to.join(name))?;
        std::fs::File::open(to.join(name))?.sync_all()?;
    }
    Ok(std::fs::File::open(to)?.sync_all()?)
}

/// The first block, and a CometBFT that has no blocks.
pub fn begin_anew(data: &Path, plan: &Plan, secrets: &Secrets) -> Result<()> {
    let first = first_block_of(data);
    ensure!(
        first.join("orders").is_dir(),
        "{} is gone: put it back from another member's folder",
        first.display()
    );
    warn!("this member has no ledger: it begins with the first block, and is sent all others");
    // What it has signed it does not sign again, whatever became of the rest.
    let home = data.join(home::FOLDER);
    let signed = std::fs::read(home.join(SIGNED)).ok();
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    make(data, plan, secrets.id, secrets.own.now()[0].key.secret_der())?;
    if let Some(signed) = signed {
        std::fs::write(home.join(SIGNED), signed)?;
        std::fs::File::open(home.join(SIGNED))?.sync_all()?;
    }
    // Orders last: a start that finds them goes on.
    for name in ["results", "orders"] {
        let (from, to) = (first.join(name), data.join(format!("{name}.new")));
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        copy_folder(&from, &to)?;
        let there = data.join(name);
        if there.exists() {
            std::fs::remove_dir_all(&there)?;
        }
        std::fs::rename(&to, &there)?;
    }
    Ok(std::fs::File::open(data)?.sync_all()?)
}

fn id_of(hex: &str) -> Result<[u8; 16]> {
    let bytes = from_hex(hex)?;
    bytes.try_into().ok().context("the plan names no ledger")
}

fn members_of(membership: &Membership) -> Result<Vec<Member>> {
    let member = |(id, known): (&u64, &cluster::members::Known)| -> Result<Member> {
        let (host, port) = known.address.rsplit_once(':').context("an address has no port")?;
        let port: u16 = port.parse().context("an address has no port")?;
        let port = port.checked_add(1).context("the port of a member is too high")?;
        Ok(Member { id: *id, key: known.key, address: format!("{host}:{port}") })
    };
    membership.0.iter().map(member).collect()
}

pub async fn begin(beginning: Beginning<'_>) -> Result<(Arc<dyn Place>, Journal)> {
    let Beginning { plan, id, files, log, replica, limits, settings, members, engine, .. } =
        beginning;
    let Beginning { ahead_max, peers, own: own_keys, .. } = beginning;
    let program = program(settings)?;
    let membership = replica.parameters().others.get(ELECTORS).map_or("", String::as_str);
    let membership = Membership::parse(membership)?;
    let founders: Vec<(u64, [u8; 32])> =
        membership.0.iter().map(|(id, known)| (*id, known.key)).collect();
    let own: Vec<[u8; 32]> = own_keys.now().iter().map(|own| own.public).collect();
    let start = start_of(&files, replica)?;
    let chain_id = home::chain_id(&replica.ledger_id());
    let home = home::check(&settings.data, &chain_id, &founders, &own, start.sequence);
    let home = home.map_err(|error| folders::refused(error.to_string()))?;
    let kept_home = home.clone();
    let instance = u64::from_be_bytes(secrets::random()?);
    let config =
        Config { limits: limits.of_batches(), lag: LAG, instance, patience_ms: PATIENCE_MS };
    // One that executes the ledger from its beginning is sent blocks by members of now.
    let (planned, mut has_passed) = (plan.membership()?, false);
    let mut all_known = move |named: &Membership| {
        has_passed |= *named == planned;
        let mut all = keys(named);
        if !has_passed {
            all.extend(keys(&planned));
        }
        all
    };
    let first = all_known(&members.now());
    let given = CometSettings { home, program, chain_id, members: first };
    let comet = Comet::start(given, config, start).context("cannot start beside CometBFT")?;
    let time = Timekeeping::begin(id, clock(), ahead_max, peers, Arc::clone(&members));
    let replacing = Replacing {
        id,
        own: own_keys,
        home: kept_home.clone(),
        members: Arc::clone(&members),
        comet: comet.clone(),
    };
    tokio::spawn(replacing.run());
    let known = comet.clone();
    let followed = Box::new(move |members: &Membership| {
        known.know(all_known(members));
        tokio::spawn(part(id, known.clone()));
    });
    tokio::spawn(Listener { id, members, engine: Arc::clone(&engine), followed }.run());
    Ok((Arc::new(CometBft { comet, home: kept_home, files, time }), Journal::from(log)))
}

fn keys(membership: &Membership) -> order_comet::Members {
    membership.0.iter().map(|(id, known)| (*id, known.key)).collect()
}

/// Has CometBFT sign by a member's other key as soon as the blocks are signed by that: before, its
/// word by the first one may be needed.
struct Replacing {
    id: u64,
    own: Arc<Own>,
    home: PathBuf,
    members: Arc<Members>,
    comet: Comet,
}

impl Replacing {
    /// Until the runtime ends.
    async fn run(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(newest) = self.own.now().pop() else { continue };
            if home::has_key(&self.home, &newest.public) || !self.comet.validates(&newest.public) {
                continue;
            }
            match self.replace(&newest) {
                Ok(()) => {
                    info!(id = self.id, "CometBFT signs by this node's other key from now on");
                    self.comet.restart();
                }
                Err(error) => warn!("CometBFT keeps the key that it has: {error:#}"),
            }
        }
    }

    fn replace(&self, newest: &Identity) -> Result<()> {
        let mut members = members_of(&self.members.now())?;
        let own = members.iter_mut().find(|member| member.id == self.id);
        let own = own.context("the ledger does not name this node")?;
        own.key = newest.public;
        let own = own.clone();
        Ok(home::rekey(&self.home, &members, &own, &seed_of(newest.key.secret_der()))?)
    }
}

/// Leaves members that are none any more: one after the other, so that most go on meanwhile.
async fn part(id: u64, comet: Comet) {
    tokio::time::sleep(PARTING + APART * u32::try_from(id).unwrap_or(0)).await;
    let asked = comet.clone();
    let has_strangers = tokio::task::spawn_blocking(move || asked.has_strangers()).await;
    if has_strangers.unwrap_or(false) {
        info!("CometBFT is started again without the members that were removed");
        comet.restart();
    }
}

fn seed_of(key: &[u8]) -> [u8; 32] {
    key.get(SEED).and_then(|seed| seed.try_into().ok()).unwrap_or_default()
}

/// Where the program is.
pub fn program(settings: &Settings) -> Result<PathBuf> {
    order_comet::find(&settings.cometbft).ok_or_else(|| {
        let what = format!("there is no CometBFT: {}", settings.cometbft.display());
        folders::refused(what).with_hint(INSTALL).into()
    })
}

/// After the last block that was executed.
fn start_of(files: &Arc<dyn Files>, replica: &Replica) -> Result<Start> {
    let head = replica.head();
    let first = head.height.saturating_sub(LAG + 1);
    let mut results = BTreeMap::from([(head.height, head.hash)]);
    for height in first..head.height {
        results.insert(height, record(files, Stream::Results, height)?.hash());
    }
    let last = match head.height {
        0 => None,
        height => {
            let batch = Batch::of(&record(files, Stream::Orders, height)?)?;
            let (header, envelopes) = (batch.header(), batch.envelopes().to_vec());
            let (time_us, proposer, seen_height) = (header.time_us, header.proposer, 0);
            Some(Proposal { time_us, proposer, seen_height, envelopes })
        }
    };
    let sequence = last.as_ref().map_or(0, |last| height_of(&last.proposer));
    let time_us = if head.height == 0 { i64::MIN } else { head.time_us };
    const { assert!(LAG + 1 < FORMER_BLOCKS) };
    let named = (first..=head.height).map(|height| {
        let members = engine::members::behind(replica.parameters(), height)?;
        Ok((height, order_comet::keys_of(&members)))
    });
    let validators = Validators::new(named.collect::<Result<_>>()?, []);
    Ok(Start { sequence, height: head.height, time_us, last, results, validators })
}

fn record(files: &Arc<dyn Files>, stream: Stream, height: Height) -> Result<Record> {
    let read = read_record(&**files, stream, height)?;
    read.with_context(|| format!("block {height}, which was executed, is not in {stream}"))
}

impl Place for CometBft {
    fn orderer(&self) -> RemoteOrderer {
        Box::new(self.comet.clone())
    }

    fn standing(&self) -> Standing {
        let order_comet::Standing { height, proposer, complaint } = self.comet.standing();
        Standing::CometBft(OfComet { height, proposer, complaint })
    }

    fn order(&self) -> Order {
        let standing = self.comet.standing();
        let (height, proposer) = (standing.height, standing.proposer.unwrap_or(0));
        let is_hindered = standing.complaint.is_some();
        Order::CometBft(metrics::OfComet { height, proposer, is_hindered })
    }

    fn misbehaviour(&self) -> Vec<Misbehaviour> {
        let row = |found: order_comet::Misbehaviour| {
            let order_comet::Misbehaviour { member, height, kind, time_us, .. } = found;
            Misbehaviour { member, height, kind: kind.name(), time_us }
        };
        self.comet.misbehaviour().into_iter().map(row).collect()
    }

    fn has_key(&self, key: &[u8; 32]) -> bool {
        home::has_key(&self.home, key)
    }

    fn clocks(&self) -> BTreeMap<u64, i64> {
        self.time.ahead_us()
    }

    fn clock_trouble(&self) -> Option<String> {
        self.time.trouble()
    }

    fn answer(&self, request: Bytes) -> BoxFuture<'static, Answer> {
        if let Some(time) = self.time.answer(&request) {
            return async move { Ok(time) }.boxed();
        }
        let what = "CometBFT's nodes talk to each other about the order, and members do not";
        async move { Err(io::Error::other(what)) }.boxed()
    }

    fn hash_of(&self, height: Height) -> io::Result<Hash> {
        written_hash_of(&*self.files, height)
    }

    fn first_height(&self) -> Height {
        first_block(&*self.files).unwrap_or(0)
    }

    fn up_to(&self, _height: Height) -> io::Result<Vec<u8>> {
        Err(io::Error::other("CometBFT's nodes send each other blocks, and members do not"))
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let comet = self.comet.clone();
        async move { drop(tokio::task::spawn_blocking(move || comet.stop()).await) }.boxed()
    }

    fn rest(&self) -> io::Result<()> {
        Ok(())
    }
}
