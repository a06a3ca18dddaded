//! An organisation among others: orders are confirmed, blocks run, results agreed on.
//!
//! ```text
//! order ─► durable ─► confirmed by c ─► run ─► result ─► votes ─┬─ enough for it: agreed
//!                          │                                    ├─ enough for another: recover
//!                          └─ another one was: taken back       └─ none can have enough: stop
//! ```
//!
//! **Nothing is run that is not confirmed**, as a database of others cannot take a block back: an
//! orderer that gives organisations different orders touches no row. **A slow one holds up nothing
//! but itself**: c votes are enough, and one that comes later finds the certificate. **One that
//! deviates** names the rows, goes back to a checkpoint and runs the blocks again; where
//! it comes to something else once more, it takes the rows of the next checkpoint from another,
//! which the ledger's certified state root confirms.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use ledger::signatures::SecretKey;
use ledger::votes::LastVote;
use ledger::{Batch, Certificate, Hash};
use order::Proposal;
use types::{Error, Height, Result, SqlState};

use crate::ballot::{AGAIN_MAX, Ballot, Stage, Verdict, short};
use crate::book::Terms;
use crate::exchange::{Couriers, Exchange};
use crate::joining::{Folders, Joining};
use crate::organisation::{Executed, Organisation};
use crate::polls::stage_name;
use crate::shared::{Shared, unreadable};
use crate::status::Deviation;
use crate::wire::{Request, Votes};

/// Pauses between questions that had no answer.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(200);

pub struct Member {
    pub(crate) organisation: Organisation,
    pub(crate) shared: Arc<Shared>,
    pub(crate) exchange: Arc<dyn Exchange>,
    url: String,
    /// Microseconds since 2000-01-01.
    clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    key: Arc<SecretKey>,
    last_order: LastVote,
    last_result: LastVote,
    last_again: LastVote,
    couriers: Couriers,
}

/// Why a block came to no result here.
struct Nothing(String);

/// How a block ended for this organisation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    Agreed,
    /// It deviated, and has recovered; so many blocks were taken from others, 0 if none.
    Recovered {
        adopted: u64,
    },
    /// Nothing was to be ordered yet.
    Idle,
}

impl Member {
    /// Goes on where it stopped; with terms, begins.
    pub async fn open(joining: Joining, first: Option<&Terms>) -> Result<Member> {
        let book = Arc::clone(&joining.folders.book);
        let mut organisation = match first {
            Some(terms) => Organisation::create(book, &joining.url, terms).await?,
            None => Organisation::open(book, &joining.url).await?,
        };
        organisation.set_connections(joining.connections);
        let terms = organisation.terms().clone();
        let electors = terms.electors()?.ok_or_else(|| {
            let what = "the ledger has one organisation, and no votes";
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
        })?;
        let member = joining.member;
        if electors.keys.get(&member) != Some(&joining.key.public()) {
            let what = format!("the key is not that of organisation {member}");
            return Err(Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what));
        }
        let last = |files| LastVote::open(files).map_err(|error| unreadable("votes", &error));
        let Folders { book, orders, again } = &joining.folders;
        let (last_order, last_result, last_again) = (last(orders)?, last(book)?, last(again)?);
        let approvals = organisation.book.approvals();
        let shared = Arc::new(Shared::new(&joining, terms, electors, approvals)?);
        shared.reached(organisation.book.ordered(), organisation.book.agreed());
        let others = shared.electors().keys.keys().copied().filter(|it| *it != member).collect();
        let Joining { url, key, exchange, clock, .. } = joining;
        let couriers = Couriers::new(others, &exchange);
        Ok(Member {
            organisation,
            shared,
            exchange,
            url,
            clock,
            key,
            last_order,
            last_result,
            last_again,
            couriers,
        })
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn organisation(&mut self) -> &mut Organisation {
        &mut self.organisation
    }

    /// Block after block, until an error stops it.
    pub async fn run(mut self) -> Error {
        loop {
            let Err(mut error) = self.step().await else { continue };
            if is_away(&error) {
                self.shared.event(format!("{}: {}", error.message(), detail(&error)));
                match self.reconnected().await {
                    Ok(()) => continue,
                    Err(other) => error = other,
                }
            }
            self.shared.doing(format!("stopped: {}", error.message()));
            return error;
        }
    }

    /// When the database is back.
    async fn reconnected(&mut self) -> Result<()> {
        loop {
            match self.organisation.reconnect(&self.url).await {
                Ok(()) => return Ok(()),
                Err(error) if is_away(&error) => {
                    self.shared.doing(format!("waiting for the database: {}", detail(&error)));
                    tokio::time::sleep(PAUSE_MAX).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One block, or none if nothing is to be ordered yet.
    pub async fn step(&mut self) -> Result<Ended> {
        if let Some(why) = self.organisation.behind().cloned() {
            self.deviates_behind(&why);
            let adopted = self.recover(None).await?;
            return Ok(Ended::Recovered { adopted });
        }
        let batch = match self.organisation.under_way()? {
            Some(batch) => batch,
            None => match self.next_order().await? {
                Some(batch) => batch,
                None => return Ok(Ended::Idle),
            },
        };
        let batch = self.confirm(batch).await?;
        self.shared.doing(format!("running block {}", batch.height()));
        let executed = match self.organisation.execute(&batch).await {
            Ok(executed) => {
                // Before the vote: another may ask at once what differs.
                self.shared.changed(batch.height(), &executed);
                Ok(executed)
            }
            // Rows that were changed around the triggers, as the digest table tells.
            Err(error) if crate::organisation::is_deviation(&error) => {
                let why = format!("{}: {}", error.message(), detail(&error));
                self.shared.event(why.clone());
                Err(Nothing(why))
            }
            Err(error) => return Err(error),
        };
        self.shared.ran(self.organisation.ran());
        let ended = self.agree(&batch, executed).await?;
        self.shared.reached(self.organisation.book.ordered(), self.organisation.book.agreed());
        Ok(ended)
    }

    /// The next order, durable here.
    async fn next_order(&mut self) -> Result<Option<Batch>> {
        let height = self.organisation.book.ordered() + 1;
        self.shared.doing(format!("waiting for the order of block {height}"));
        let proposal = match self.shared.orderer() == self.shared.member {
            true => self.shared.cut((self.clock)()).await,
            false => self.ask_order(height).await,
        };
        let Some(proposal) = proposal else { return Ok(None) };
        let batch = self.organisation.order(proposal)?;
        self.shared.reached(height, self.organisation.book.agreed());
        Ok(Some(batch))
    }

    /// The orderer has it first; the others have it too, where they are ahead.
    async fn ask_order(&self, height: Height) -> Option<Proposal> {
        let orderer = self.shared.orderer();
        let others = self.others().into_iter().filter(|other| *other != orderer);
        for other in std::iter::once(orderer).chain(others) {
            let answer = self.exchange.call(other, Request::Order { height }.encode()).await;
            let proposal = answer.ok().filter(|it| !it.is_empty()).map(|it| Proposal::decode(&it));
            if let Some(Ok(proposal)) = proposal {
                return Some(proposal);
            }
        }
        tokio::time::sleep(PAUSE_MIN).await;
        None
    }

    fn others(&self) -> Vec<u64> {
        let all = self.shared.electors().keys.keys().copied();
        all.filter(|member| *member != self.shared.member).collect()
    }

    /// The order that enough organisations have for this block.
    async fn confirm(&mut self, batch: Batch) -> Result<Batch> {
        let (height, own) = (batch.height(), batch.hash());
        match self.vote(Stage::Order, height, Some(own)).await? {
            Verdict::Agreed(certificate) => {
                self.shared.certified(Stage::Order, &certificate)?;
                Ok(batch)
            }
            Verdict::Other(certificate) => {
                let there = certificate.said.result_hash;
                self.shared.event(format!(
                    "the orderer (organisation {}) has given this one another order for block \
                     {height} ({}) than to others ({}); nothing of it was run",
                    self.shared.orderer(),
                    short(&own),
                    short(&there)
                ));
                self.organisation.book.take_back()?;
                let batch = self.fetch_order(height, &certificate).await?;
                self.shared.certified(Stage::Order, &certificate)?;
                Ok(batch)
            }
            Verdict::Open | Verdict::Split => {
                let what = format!("the orderer gave each organisation another block {height}");
                Err(Error::new(SqlState::DATA_CORRUPTED, what).with_hint(
                    "No row was touched. Have another organisation order: it is not to be trusted.",
                ))
            }
        }
    }

    /// The order that a certificate names, from those who signed it.
    async fn fetch_order(&mut self, height: Height, certificate: &Certificate) -> Result<Batch> {
        loop {
            for (member, _) in &certificate.votes {
                let asked = Request::Order { height }.encode();
                let Ok(answer) = self.exchange.call(*member, asked).await else { continue };
                let Ok(proposal) = Proposal::decode(&answer) else { continue };
                let batch = self.organisation.book.seal(proposal)?;
                if batch.hash() == certificate.said.result_hash {
                    self.organisation.order_sealed(&batch)?;
                    return Ok(batch);
                }
            }
            tokio::time::sleep(PAUSE_MAX).await;
        }
    }

    /// Gives this organisation's vote, if it has a value, and asks the others for theirs until it
    /// is decided.
    async fn vote(&mut self, stage: Stage, height: Height, own: Option<Hash>) -> Result<Verdict> {
        if let Some(own) = own
            && let Some(vote) = self.sign(stage, height, own)?
        {
            self.shared.voted(stage, height, vote);
            self.shared.heard(stage, height, vote);
            let brought = Request::Vote { stage, height, own: Some(vote) };
            self.couriers.bring(&brought.encode());
        }
        let own = own.unwrap_or_default();
        let asked = Request::Vote { stage, height, own: None }.encode();
        let mut asking: FuturesUnordered<_> =
            self.others().into_iter().map(|other| self.ask_vote(other, &asked, None)).collect();
        loop {
            let mut heard = pin!(self.shared.polls.heard().notified());
            heard.as_mut().enable();
            let (verdict, lacking) = self.shared.verdict(stage, height, own);
            if verdict != Verdict::Open {
                return Ok(verdict);
            }
            let what = stage_name(stage, height);
            self.shared.doing(format!("waiting for votes on {what} by {lacking:?}"));
            let (other, pause, answer) = tokio::select! {
                () = heard => continue,
                Some(answered) = asking.next() => answered,
            };
            if let Some(Votes { votes, certificate }) = answer {
                votes.into_iter().for_each(|vote| self.shared.heard(stage, height, vote));
                let electors = self.shared.electors();
                let ballot = Ballot::new(stage, electors, height);
                let believed = |it| self.shared.signing(|| ballot.believe(it, own));
                if let Some(verdict) = certificate.and_then(believed) {
                    return Ok(verdict);
                }
            }
            asking.push(self.ask_vote(other, &asked, Some(pause)));
        }
    }

    /// Asks for a vote after a pause, which grows.
    async fn ask_vote(
        &self,
        other: u64,
        asked: &Bytes,
        pause: Option<Duration>,
    ) -> (u64, Duration, Option<Votes>) {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        let answer = self.exchange.call(other, asked.clone()).await.ok();
        let votes = answer.and_then(|answer| Votes::decode(&answer).ok());
        let next = pause.map_or(PAUSE_MIN, |pause| (pause * 2).min(PAUSE_MAX));
        (other, next, votes)
    }

    /// What it has signed before is signed again, whatever it would say now: another value for the
    /// same block never is. `None`: it has signed for a later one.
    fn sign(&mut self, stage: Stage, height: Height, own: Hash) -> Result<Option<ledger::Vote>> {
        let last = match stage {
            Stage::Order => &mut self.last_order,
            Stage::Result => &mut self.last_result,
            Stage::Again(_) => &mut self.last_again,
        };
        let mut said = Ballot::new(stage, self.shared.electors(), height).said(own);
        if last.may_sign(said.height) {
            last.put(said).map_err(|error| unreadable("votes", &error))?;
        } else {
            match last.said().filter(|last| last.height == said.height) {
                Some(last) => said = last,
                None => return Ok(None),
            }
        }
        let ledger_id = stage.ledger_id(self.shared.terms.ledger_id);
        let vote = self.shared.signing(|| self.key.vote(ledger_id, self.shared.member, said));
        Ok(Some(vote))
    }

    /// The end of a block that was run; or why it came to nothing: its digest table does not hold
    /// together, say.
    async fn agree(
        &mut self,
        batch: &Batch,
        mut executed: std::result::Result<Executed, Nothing>,
    ) -> Result<Ended> {
        let height = batch.height();
        for round in 0..=AGAIN_MAX {
            let stage = if round == 0 { Stage::Result } else { Stage::Again(round) };
            let own = executed.as_ref().ok().map(|executed| executed.result.hash());
            match self.vote(stage, height, own).await? {
                Verdict::Agreed(certificate) => {
                    let Ok(executed) = executed else { break };
                    return self.end(stage, &executed, &certificate).await;
                }
                Verdict::Other(certificate) => {
                    let executed = executed.as_ref().map_err(|why| &*why.0);
                    self.shared.event(format!(
                        "block {height} has come to something else here than was agreed on: its \
                         rows are looked for"
                    ));
                    let deviation = self.deviation(height, executed, &certificate).await;
                    self.shared.deviates(deviation);
                    let adopted = self.recover(Some((batch, stage, &certificate))).await?;
                    return Ok(Ended::Recovered { adopted });
                }
                // All recover, and vote on what they come to then.
                Verdict::Open | Verdict::Split if round < AGAIN_MAX => {
                    let again = self.run_again(batch).await?;
                    executed =
                        again.ok_or_else(|| Nothing("no checkpoint leads to a result".to_owned()));
                }
                Verdict::Open | Verdict::Split => {}
            }
        }
        Err(self.split(height))
    }

    async fn end(
        &mut self,
        stage: Stage,
        executed: &Executed,
        certificate: &Certificate,
    ) -> Result<Ended> {
        self.shared.certified(stage, certificate)?;
        match self.organisation.agree(executed).await {
            Ok(()) => Ok(Ended::Agreed),
            // Rows changed between the vote and the end; the result is in the book.
            Err(error) if crate::organisation::is_deviation(&error) => {
                self.deviates_behind(&error);
                let adopted = self.recover(None).await?;
                Ok(Ended::Recovered { adopted })
            }
            Err(error) => Err(error),
        }
    }

    /// The database is not what was agreed on up to now.
    fn deviates_behind(&self, error: &Error) {
        let height = self.organisation.book.agreed();
        let rows = vec![format!("{}: {}", error.message(), detail(error))];
        self.shared.deviates(Deviation { height, rows, ..Deviation::default() });
    }

    fn split(&self, height: Height) -> Error {
        let what = format!("block {height} comes to different results everywhere");
        Error::new(SqlState::DATA_CORRUPTED, what).with_hint(
            "No value can have enough votes, also behind recovery. Compare the organisations' rows: \
             `tally chainify status` names what each has noticed.",
        )
    }
}

/// Whether the database, or the way to it, is to be waited for.
fn is_away(error: &Error) -> bool {
    error.code() == SqlState::TRANSACTION_RESOLUTION_UNKNOWN
}

pub(crate) fn detail(error: &Error) -> &str {
    error.fields().detail.as_deref().unwrap_or_default()
}
