//! The state of an organisation that its threads share, and its answers to other organisations:
//! votes, blocks, rows of checkpoints, and the order where it is the orderer.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kit::sync::lock;
use ledger::signatures::SecretKey;
use ledger::votes::{Certificates, Vote};
use ledger::{Batch, Certificate, Electors, Files, Hash, read_block};
use order::{Envelope, Limits, Proposal, Solo};
use tokio::sync::{Notify, watch};
use types::{Error, Height, Result, SqlState};

use crate::approvals::Approvals;
use crate::ballot::{Stage, Verdict};
use crate::block::Net;
use crate::book::Terms;
use crate::database::Database;
use crate::database::checkpoint::KEPT;
use crate::exchange::Exchange;
use crate::joining::{Folders, Joining};
use crate::organisation::Executed;
use crate::polls::Polls;
use crate::statement;
use crate::status::{Deviation, Run, Status};
use crate::stretches::{self, Stretch};
use crate::wire::{self, ROWS_MAX, Request, Votes};

/// Own votes, and blocks whose changes are known, that are kept in memory.
const VOTES_MAX: usize = 4096;
const EFFECTS_MAX: usize = 64;
/// Blocks of which the status has votes.
const SHOWN: u64 = 3;
const DEVIATIONS_MAX: usize = 32;
/// Lines of what went wrong.
const EVENTS_MAX: usize = 256;
/// How long a question for the next order waits for one.
const ORDER_WAIT: Duration = Duration::from_millis(500);

pub struct Shared {
    pub member: u64,
    pub terms: Terms,
    electors: Electors,
    url: String,
    /// Of the book.
    files: Arc<dyn Files>,
    votes: Mutex<BTreeMap<(Height, Stage), Vote>>,
    pub(crate) polls: Polls,
    certificates: Mutex<BTreeMap<Stage, Certificates>>,
    effects: Mutex<BTreeMap<Height, Vec<Net>>>,
    /// Of tables as they were at the last checkpoints.
    stretches: Mutex<BTreeMap<Height, Vec<Vec<Stretch>>>>,
    /// Where this organisation orders.
    orderer: Option<Mutex<Solo>>,
    waiting: Notify,
    status: watch::Sender<Status>,
    signatures_ns: AtomicU64,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) key: Arc<SecretKey>,
    pub(crate) exchange: Arc<dyn Exchange>,
    /// A function of the database that says whether this organisation agrees.
    pub(crate) check: Option<String>,
    /// For questions about rows; made when one comes.
    database: tokio::sync::Mutex<Option<Database>>,
}

impl Shared {
    pub(crate) fn new(
        joining: &Joining,
        terms: Terms,
        electors: Electors,
        approvals: &Arc<Approvals>,
    ) -> Result<Shared> {
        let Joining { folders, url, key, exchange, block_transactions, check, .. } = joining;
        let member = joining.member;
        let mut certificates = BTreeMap::new();
        let Folders { book, orders, again } = folders;
        let all = [(Stage::Order, orders), (Stage::Result, book), (Stage::Again(0), again)];
        for (stage, files) in all {
            let opened = Certificates::open(files, &stage.electors(&electors), 0);
            let (kept, _) = opened.map_err(|error| unreadable("certificates", &error))?;
            certificates.insert(stage, kept);
        }
        let is_orderer = electors.keys.keys().next() == Some(&member);
        let limits = Limits { transactions_max: *block_transactions, ..Limits::default() };
        let orderer = is_orderer.then(|| Mutex::new(Solo::new(limits, [0; 32])));
        Ok(Shared {
            member,
            terms,
            electors,
            url: url.clone(),
            files: Arc::clone(&folders.book),
            votes: Mutex::default(),
            polls: Polls::default(),
            certificates: Mutex::new(certificates),
            effects: Mutex::default(),
            stretches: Mutex::default(),
            orderer,
            waiting: Notify::new(),
            status: watch::Sender::new(Status::default()),
            signatures_ns: AtomicU64::new(0),
            approvals: Arc::clone(approvals),
            key: Arc::clone(key),
            exchange: Arc::clone(exchange),
            check: check.clone(),
            database: tokio::sync::Mutex::new(None),
        })
    }

    pub fn electors(&self) -> &Electors {
        &self.electors
    }

    /// The organisation that orders: the first one.
    pub fn orderer(&self) -> u64 {
        self.electors.keys.keys().next().copied().unwrap_or(self.member)
    }

    pub fn status(&self) -> Status {
        let status = self.status.borrow().clone();
        let votes = self.polls.since(status.agreed.saturating_sub(SHOWN - 1));
        let signing_ns = self.signatures_ns.load(Ordering::Relaxed);
        let signatures_us = (signing_ns + self.approvals.spent_ns()) / 1000;
        let (enough, agreement) = (self.electors.votes as u64, self.terms.agreement.to_string());
        Status { votes, enough, agreement, signatures_us, ..status }
    }

    /// Makes or checks signatures, which is timed.
    pub(crate) fn signing<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let spent = began.elapsed().as_nanos() as u64;
        self.signatures_ns.fetch_add(spent, Ordering::Relaxed);
        done
    }

    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(crate) fn doing(&self, what: impl Into<String>) {
        self.status.send_modify(|status| status.doing = what.into());
    }

    pub(crate) fn reached(&self, ordered: Height, agreed: Height) {
        self.status.send_modify(|status| (status.ordered, status.agreed) = (ordered, agreed));
    }

    pub(crate) fn ran(&self, run: Run) {
        self.status.send_modify(|status| status.run = run);
    }

    pub(crate) fn event(&self, what: String) {
        tracing::warn!(member = self.member, "{what}");
        self.status.send_modify(|status| {
            status.events.push_back(what);
            if status.events.len() > EVENTS_MAX {
                status.events.pop_front();
            }
        });
    }

    /// It has come to something else than was agreed on.
    pub(crate) fn deviates(&self, deviation: Deviation) {
        self.event(deviation.reported(self.member));
        self.status.send_modify(|status| {
            status.deviations.push_back(deviation);
            if status.deviations.len() > DEVIATIONS_MAX {
                status.deviations.pop_front();
            }
        });
    }

    /// What deviated does no more.
    pub(crate) fn recovered(&self, how: String) {
        self.event(how.clone());
        self.status.send_modify(|status| {
            let open = status.deviations.iter_mut().filter(|it| it.recovered.is_empty());
            open.for_each(|deviation| deviation.recovered.clone_from(&how));
        });
    }

    pub(crate) fn voted(&self, stage: Stage, height: Height, vote: Vote) {
        let mut votes = lock(&self.votes);
        votes.insert((height, stage), vote);
        while votes.len() > VOTES_MAX {
            votes.pop_first();
        }
    }

    /// A vote of any organisation, whenever it comes.
    pub(crate) fn heard(&self, stage: Stage, height: Height, vote: Vote) {
        let Status { ordered, agreed, .. } = *self.status.borrow();
        let (place, kept) = ((height, stage), (ordered, agreed));
        let reported = self.signing(|| self.polls.count(&self.electors, place, kept, vote));
        reported.into_iter().for_each(|reported| self.event(reported));
    }

    /// What the votes come to, and who has not given one.
    pub(crate) fn verdict(&self, stage: Stage, height: Height, own: Hash) -> (Verdict, Vec<u64>) {
        let (verdict, lacking, reported) = self.polls.verdict(&self.electors, (height, stage), own);
        reported.into_iter().for_each(|reported| self.event(reported));
        (verdict, lacking)
    }

    pub(crate) fn certified(&self, stage: Stage, certificate: &Certificate) -> Result<()> {
        let mut kept = lock(&self.certificates);
        let Some(kept) = kept.get_mut(&stage.kept()) else { return Ok(()) };
        if kept.last().is_some_and(|last| last.height >= certificate.said.height) {
            return Ok(());
        }
        kept.append(certificate).map_err(|error| unreadable("certificates", &error))
    }

    /// The certificate of just this block.
    pub fn certificate(&self, stage: Stage, height: Height) -> Option<Certificate> {
        let kept = lock(&self.certificates);
        let number = stage.number(height);
        let found = kept.get(&stage.kept())?.covering(number).ok()?;
        found.filter(|it| it.said.height == number)
    }

    /// What others may ask of a block that has come to something here.
    pub(crate) fn changed(&self, height: Height, executed: &Executed) {
        let mut effects = lock(&self.effects);
        effects.insert(height, executed.net.clone());
        while effects.len() > EFFECTS_MAX {
            effects.pop_first();
        }
        drop(effects);
        if executed.stretches.is_empty() {
            return;
        }
        let mut stretches = lock(&self.stretches);
        stretches.insert(height, executed.stretches.clone());
        while stretches.len() > KEPT {
            stretches.pop_first();
        }
    }

    /// Takes an envelope to be ordered, if every organisation would run it.
    pub fn submit(&self, envelope: Bytes) -> Result<()> {
        let Some(orderer) = &self.orderer else {
            let what = format!("organisation {} does not order", self.member);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        };
        let request = Envelope::decode(&envelope)?.request;
        statement::check(&statement::decode(&request)?, &self.terms.schema)?;
        let by = (Some(&self.electors), &*self.approvals);
        if let Some(lacks) = self.terms.lacks(&envelope, &request, by) {
            let what = format!("the transaction lacks the agreement {lacks}");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        }
        lock(orderer).submit(envelope, ())?;
        self.waiting.notify_waiters();
        Ok(())
    }

    /// The next batch, where this organisation orders, when something waits.
    pub(crate) async fn cut(&self, now_us: i64) -> Option<Proposal> {
        let orderer = self.orderer.as_ref()?;
        let notified = self.waiting.notified();
        if let Some((proposal, _)) = lock(orderer).cut(now_us) {
            return Some(proposal);
        }
        let _ = tokio::time::timeout(ORDER_WAIT, notified).await;
        lock(orderer).cut(now_us).map(|(proposal, _)| proposal)
    }

    /// Answers an organisation, this one's own clients among them.
    pub async fn answer(self: Arc<Self>, from: u64, request: Bytes) -> io::Result<Bytes> {
        match Request::decode(&request)? {
            Request::Vote { stage, height, own } => {
                own.into_iter().for_each(|vote| self.heard(stage, height, vote));
                let own = lock(&self.votes).get(&(height, stage)).copied();
                let certificate = self.certificate(stage, height);
                Ok(Votes { votes: own.into_iter().collect(), certificate }.encode())
            }
            Request::Order { height } => self.order(height).await,
            Request::Submit { envelope } => match self.submit(envelope) {
                Ok(()) => Ok(Bytes::new()),
                Err(error) => Ok(Bytes::from(error.message().to_owned())),
            },
            // This organisation agrees along with its own clients, and with no others'.
            Request::Gather { .. } if from != self.member => {
                Err(io::Error::other("approvals are gathered for own clients alone"))
            }
            Request::Gather { envelope } => Ok(self.gathered(envelope).await),
            Request::Agree { envelope } => Ok(self.agrees_to(envelope, false).await),
            Request::Nudge => {
                if let Some(orderer) = &self.orderer {
                    order::Orderer::nudge(&mut *lock(orderer));
                    self.waiting.notify_waiters();
                }
                Ok(Bytes::new())
            }
            Request::Status => Ok(self.status().encode()),
            Request::Block { height } => {
                let block = read_block(&*self.files, height).map_err(io::Error::other)?;
                match block.map(|it| (it.batch, it.result)) {
                    Some((batch, Some(result))) => {
                        Ok(wire::pieces([&batch.payload()[..], &result.payload()[..]]))
                    }
                    _ => Ok(Bytes::new()),
                }
            }
            Request::Effects { height } => {
                let effects = lock(&self.effects).get(&height).map(|net| wire::effects(net));
                Ok(effects.unwrap_or_default())
            }
            Request::Stretches { height, table } => {
                let stretches = lock(&self.stretches);
                let all = stretches.get(&height);
                let one = self.terms.schema.numbered().zip(all.into_iter().flatten());
                let one = one.map(|((number, _), one)| (number, one));
                let found = one.into_iter().find(|(number, _)| *number == table);
                Ok(found.map(|(_, one)| stretches::encode(one)).unwrap_or_default().into())
            }
            Request::Checkpoint { .. } | Request::Images { .. } | Request::Rows { .. } => {
                let request = Request::decode(&request)?;
                self.rows(request).await.map_err(io::Error::other)
            }
        }
    }

    /// An order that is durable here, waited for a moment.
    async fn order(&self, height: Height) -> io::Result<Bytes> {
        let mut status = self.watch();
        let there = status.wait_for(|status| status.ordered >= height);
        if !matches!(tokio::time::timeout(ORDER_WAIT, there).await, Ok(Ok(_))) {
            return Ok(Bytes::new());
        }
        let block = read_block(&*self.files, height).map_err(io::Error::other)?;
        let Some(block) = block else { return Ok(Bytes::new()) };
        let batch = Batch::of(&block.batch).map_err(io::Error::other)?;
        let header = batch.header();
        let (time_us, proposer) = (header.time_us, header.proposer);
        let envelopes = batch.envelopes().to_vec();
        Ok(Proposal { time_us, proposer, seen_height: 0, envelopes }.encode())
    }

    /// Whether this organisation's database agrees to a transaction.
    pub(crate) async fn checked(&self, function: &str, statements: &[String]) -> Result<bool> {
        let mut kept = self.database.lock().await;
        let mut database = match kept.take() {
            Some(database) => database,
            None => Database::connect(&self.url).await?,
        };
        // One whose question failed is not asked again by the same connection.
        let agrees = database.agrees(function, statements).await?;
        *kept = Some(database);
        Ok(agrees)
    }

    async fn rows(&self, request: Request) -> Result<Bytes> {
        let mut kept = self.database.lock().await;
        let mut database = match kept.take() {
            Some(database) => database,
            None => Database::connect(&self.url).await?,
        };
        let table = |number: u32| {
            let table = self.terms.schema.by_number(number).map(|table| (number, table));
            let what = || Error::new(SqlState::UNDEFINED_TABLE, format!("no table {number}"));
            table.ok_or_else(what)
        };
        let answer = match request {
            Request::Checkpoint { height } => {
                let agreed = self.status().agreed;
                let there = database.checkpoints().await?.into_iter();
                let newest = there.filter(|it| (height..=agreed).contains(it)).max();
                newest.map_or(Bytes::new(), |it| Bytes::copy_from_slice(&it.to_be_bytes()))
            }
            Request::Images { height, table: number, range } => {
                wire::images(&database.images_in(height, table(number)?, &range).await?)
            }
            Request::Rows { height, table: number, behind } => {
                let rows = database.rows_in(height, table(number)?, &behind, ROWS_MAX).await?;
                wire::pieces(rows.iter().map(|row| row.as_bytes()))
            }
            _ => Bytes::new(),
        };
        *kept = Some(database);
        Ok(answer)
    }
}

pub(crate) fn unreadable(what: &str, error: &io::Error) -> Error {
    let message = format!("{what} of the ledger's folder cannot be kept");
    Error::new(ledger::files::sqlstate_of(error), message).with_detail(error.to_string())
}
