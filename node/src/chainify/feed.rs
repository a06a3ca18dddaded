//! `tally chainify feed`: a file of transactions, so many under way at once, and how far all
//! organisations are meanwhile.
//!
//! *Decided* is a block on whose result enough organisations have agreed, whichever they are: the
//! others may lag behind, and are seen to. A transaction is under way until its block is decided.
//! With JSON there is one line for each look at the organisations.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use chainify::wire::{Request, read_pieces};
use chainify::{Outcome, Run, Status, gather};
use cluster::Peers;
use futures::future::join_all;
use kit::sync::lock;
use ledger::hash::to_hex;
use ledger::{Batch, BlockResult, LedgerId, Record, Stream};
use order::Network;
use serde_json::json;
use tokio::time::timeout;

use super::arguments::Feed;
use super::envelopes::{envelope_of, ledger_id_of};
use super::folder::peers_of;
use super::transactions::Transactions;
use crate::cli::{Exit, Output};
use crate::secrets;

/// Calls to the orderer that may be under way: fewer than a member takes of one other.
const SUBMITTERS: usize = 8;
/// From one look at the organisations to the next.
const LOOK: Duration = Duration::from_millis(50);
/// How long one is waited for.
const ANSWER: Duration = Duration::from_millis(1000);
/// For the last ones to be decided.
const ENDING: Duration = Duration::from_secs(120);
const BUSY: Duration = Duration::from_millis(2);

/// What submitters and the observer share.
struct Feeding {
    peers: Arc<Peers>,
    transactions: Transactions,
    ledger_id: LedgerId,
    own: u64,
    orderer: u64,
    /// Of this run's keys.
    salt: String,
    seen_height: u64,
    /// Of agreement before the order.
    has_policies: bool,
    under_way: u64,
    sent: AtomicU64,
    ended: AtomicU64,
    is_over: AtomicBool,
    failure: Mutex<Option<anyhow::Error>>,
}

/// Of all blocks that are decided since it began.
#[derive(Default)]
struct Counted {
    height: u64,
    blocks: u64,
    succeeded: u64,
    failed: u64,
    refused: u64,
}

/// One look at all organisations.
struct Look {
    seconds: f64,
    /// Heights of what each has agreed on; `None`: it has not answered.
    agreed: Vec<Option<u64>>,
    signatures_us: Vec<u64>,
    run: Vec<Run>,
}

pub async fn feed(arguments: &Feed, output: Output) -> Result<Exit> {
    let Feed { place, file, under_way, seconds } = arguments;
    let (feeding, members, status) = begun(&place.folder, file, under_way.get() as u64).await?;
    let feeding = Arc::new(feeding);
    let began = Instant::now();
    let until = seconds.map(|seconds| began + Duration::from_secs_f64(seconds.max(0.0)));
    let submitting: Vec<_> =
        (0..SUBMITTERS).map(|_| tokio::spawn(submitted(Arc::clone(&feeding), until))).collect();
    let mut counted = Counted { height: status.agreed, ..Counted::default() };
    let mut deadline = None;
    loop {
        let looked = looked(&feeding.peers, &members, began).await;
        feeding.count(&looked, &members, status.enough, &mut counted).await?;
        shown(&looked, &counted, output);
        if let Some(error) = lock(&feeding.failure).take() {
            return Err(error);
        }
        let is_over = submitting.iter().all(|it| it.is_finished());
        feeding.is_over.store(is_over, Ordering::Relaxed);
        let (sent, ended) =
            (feeding.sent.load(Ordering::SeqCst), feeding.ended.load(Ordering::SeqCst));
        if is_over && ended >= sent {
            break;
        }
        if is_over && Instant::now() > *deadline.get_or_insert(Instant::now() + ENDING) {
            bail!(
                "{} transactions are in no block yet: tally chainify status tells why",
                sent - ended
            );
        }
        tokio::time::sleep(LOOK).await;
    }
    let Counted { blocks, succeeded, failed, refused, .. } = counted;
    if output == Output::Text {
        println!(
            "{succeeded} transactions succeeded, {failed} failed, {refused} were refused, in \
             {blocks} blocks and {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(Exit::Ok)
}

async fn begun(folder: &Path, file: &Path, under_way: u64) -> Result<(Feeding, Vec<u64>, Status)> {
    let (plan, secrets, _, peers) = peers_of(folder)?;
    let own = secrets.id;
    let members: Vec<u64> = plan.members.iter().map(|member| member.id).collect();
    let orderer = members.iter().copied().min().unwrap_or(own);
    let status = peers.call(orderer, Request::Status.encode()).await;
    let status =
        status.with_context(|| format!("organisation {orderer}, which orders, is away"))?;
    let status = Status::decode(&status)?;
    let feeding = Feeding {
        peers,
        transactions: Transactions::open(file)?,
        ledger_id: ledger_id_of(&plan)?,
        own,
        orderer,
        salt: to_hex(&secrets::random::<8>()?),
        seen_height: status.agreed,
        has_policies: !status.agreement.is_empty(),
        under_way,
        sent: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    Ok((feeding, members, status))
}

/// One submitter's work, until there are no more or the time is up.
async fn submitted(feeding: Arc<Feeding>, until: Option<Instant>) {
    while until.is_none_or(|until| Instant::now() < until) {
        let under_way = feeding.sent.load(Ordering::SeqCst) - feeding.ended.load(Ordering::SeqCst);
        if under_way + SUBMITTERS as u64 > feeding.under_way.max(SUBMITTERS as u64) {
            tokio::time::sleep(BUSY).await;
            continue;
        }
        match feeding.submit_next().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                lock(&feeding.failure).get_or_insert(error);
                return;
            }
        }
    }
}

impl Feeding {
    /// False: there are no more.
    async fn submit_next(&self) -> Result<bool> {
        let Some(statements) = self.transactions.next()? else { return Ok(false) };
        let number = self.sent.fetch_add(1, Ordering::SeqCst);
        let key = format!("{}{number:016x}", self.salt);
        let envelope = envelope_of((self.ledger_id, self.own), key, self.seen_height, &statements)?;
        let envelope = self.gathered(envelope).await?;
        let request = Request::Submit { envelope }.encode();
        loop {
            match self.peers.call(self.orderer, request.clone()).await {
                Ok(refused) if refused.is_empty() => return Ok(true),
                Ok(refused) => bail!("{}", String::from_utf8_lossy(&refused)),
                // One that it has got already is a copy, and is refused in its block.
                Err(error) if self.is_over.load(Ordering::Relaxed) => return Err(error.into()),
                Err(_) => tokio::time::sleep(BUSY).await,
            }
        }
    }

    /// With the approvals that it needs.
    async fn gathered(&self, envelope: Bytes) -> Result<Bytes> {
        if !self.has_policies {
            return Ok(envelope);
        }
        let request = Request::Gather { envelope }.encode();
        loop {
            match self.peers.call(self.own, request.clone()).await {
                Ok(answer) => return Ok(gather::read(&answer)?),
                Err(error) if self.is_over.load(Ordering::Relaxed) => return Err(error.into()),
                Err(_) => tokio::time::sleep(BUSY).await,
            }
        }
    }

    /// Takes blocks into account that are decided by now.
    async fn count(
        &self,
        look: &Look,
        members: &[u64],
        enough: u64,
        counted: &mut Counted,
    ) -> Result<()> {
        let mut heights: Vec<(u64, u64)> = (look.agreed.iter().zip(members))
            .filter_map(|(agreed, member)| Some(((*agreed)?, *member)))
            .collect();
        heights.sort_unstable_by(|a, b| b.cmp(a));
        let place = usize::try_from(enough)?.saturating_sub(1);
        let (Some((decided, _)), Some((_, ahead))) = (heights.get(place), heights.first()) else {
            return Ok(());
        };
        while counted.height < *decided {
            let height = counted.height + 1;
            let answer = self.peers.call(*ahead, Request::Block { height }.encode()).await;
            let Ok(block) = answer else { return Ok(()) };
            let Some((outcomes, own)) = self.outcomes_of(&block)? else { return Ok(()) };
            for outcome in outcomes {
                match outcome {
                    Outcome::Succeeded => counted.succeeded += 1,
                    Outcome::Failed => counted.failed += 1,
                    Outcome::Refused => counted.refused += 1,
                }
            }
            counted.height = height;
            counted.blocks += 1;
            self.ended.fetch_add(own, Ordering::SeqCst);
        }
        Ok(())
    }

    /// What a block's transactions came to, and how many of them are this run's.
    fn outcomes_of(&self, block: &Bytes) -> Result<Option<(Vec<Outcome>, u64)>> {
        let pieces = read_pieces(block)?;
        let [order, result] = &pieces[..] else { return Ok(None) };
        let batch = Batch::of(&Record::from_payload(Stream::Orders, order.clone())?)?;
        let result = BlockResult::of(&Record::from_payload(Stream::Results, result.clone())?)?;
        let salt = self.salt.as_bytes();
        let is_own = |envelope: &&Bytes| envelope.windows(salt.len()).any(|it| it == salt);
        let own = batch.envelopes().iter().filter(is_own).count() as u64;
        let outcomes = result.outcomes().iter().filter_map(|it| Outcome::decode(it)).collect();
        Ok(Some((outcomes, own)))
    }
}

async fn looked(peers: &Peers, members: &[u64], began: Instant) -> Look {
    let asked = members.iter().map(|member| {
        let call = peers.call(*member, Request::Status.encode());
        async move {
            let answer = timeout(ANSWER, call).await.ok()?.ok()?;
            Status::decode(&answer).ok()
        }
    });
    let all: Vec<Option<Status>> = join_all(asked).await;
    let seconds = began.elapsed().as_secs_f64();
    let agreed = all.iter().map(|it| it.as_ref().map(|status| status.agreed)).collect();
    let signatures = |it: &Option<Status>| it.as_ref().map_or(0, |status| status.signatures_us);
    let run = |it: &Option<Status>| it.as_ref().map_or(Run::default(), |status| status.run);
    let signatures_us = all.iter().map(signatures).collect();
    Look { seconds, agreed, signatures_us, run: all.iter().map(run).collect() }
}

fn shown(look: &Look, counted: &Counted, output: Output) {
    if output == Output::Text {
        return;
    }
    let Look { seconds, agreed, signatures_us, run } = look;
    let transactions: Vec<u64> = run.iter().map(|it| it.transactions).collect();
    let stages: Vec<u64> = run.iter().map(|it| it.stages).collect();
    let Counted { height, blocks, succeeded, failed, refused } = counted;
    println!(
        "{}",
        json!({
            "seconds": seconds, "agreed": agreed, "signatures_us": signatures_us,
            "transactions": transactions, "stages": stages,
            "decided": height, "blocks": blocks,
            "succeeded": succeeded, "failed": failed, "refused": refused,
        })
    );
}
