//! `tally chainify`: databases of organisations, chained to one ledger. `docs/chainify.md` has the
//! whole.

mod alone;
pub mod arguments;
mod envelopes;
mod feed;
mod folder;
mod init;
mod status;
mod transactions;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use chainify::wire::{Request, read_pieces};
use chainify::{Database, Member, Outcome, Status, gather};
use ledger::hash::to_hex;
use ledger::{BlockResult, Files, Record, Stream};
use order::Network;
use serde_json::json;

use arguments::{Action, Chainify};
use envelopes::{envelope_of, ledger_id_of};
use folder::{Answers, Wired, joining, peers_of};

use crate::cli::{Exit, Output};
use crate::{folders, secrets};

const OUTCOME_WAIT: Duration = Duration::from_secs(60);

pub fn run(arguments: &Chainify, output: Output) -> Result<Exit> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(async {
        match &arguments.action {
            Action::Init(arguments) => init::init(arguments, output).await,
            Action::Run { place, connections, block_transactions, check } => {
                let (connections, block) = (connections.get(), block_transactions.get());
                serve(&place.folder, connections, block, check.clone()).await
            }
            Action::Feed(arguments) => feed::feed(arguments, output).await,
            Action::Alone(arguments) => alone::alone(arguments, output).await,
            Action::Submit { place, statements } => submit(&place.folder, statements, output).await,
            Action::Status { place } => status::status(&place.folder, output).await,
            Action::Verify { place } => verify(&place.folder, output),
            Action::Uninstall { database } => {
                let mut database = Database::connect(database).await?;
                database.uninstall().await?;
                println!("{} has no trace of a ledger", database.name());
                Ok(Exit::Ok)
            }
        }
    })
}

async fn serve(
    folder: &Path,
    connections: usize,
    block_transactions: usize,
    check: Option<String>,
) -> Result<Exit> {
    let (plan, secrets, members, peers) = peers_of(folder)?;
    let (_, joining) =
        joining(folder, Arc::new(Wired(peers)), connections, block_transactions, check)?;
    let address = plan.member(secrets.id).map(|member| member.address.clone()).unwrap_or_default();
    let listener = tokio::net::TcpListener::bind(&address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let member = Member::open(joining, None).await?;
    let answers = Arc::new(Answers(Arc::clone(member.shared())));
    let mut events = member.shared().watch();
    println!("organisation {} listens on {address}", secrets.id);
    let reported = tokio::spawn(async move {
        let mut reported = 0;
        while events.changed().await.is_ok() {
            let events = events.borrow_and_update().events.clone();
            events.iter().skip(reported).for_each(|event| eprintln!("{event}"));
            reported = events.len();
        }
    });
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let ended = tokio::select! {
        served = cluster::serve(listener, &plan, &secrets, members, answers) => {
            served.map(|()| Exit::Failed).map_err(anyhow::Error::from)
        }
        ended = stopped(member, secrets.id) => ended,
        _ = terminated.recv() => Ok(Exit::Ok),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Ok),
    };
    reported.abort();
    ended
}

/// When it is told to end: one that has stopped goes on to answer, as others may lack its votes.
async fn stopped(member: Member, id: u64) -> Result<Exit> {
    let error = member.run().await;
    let hint = error.fields().hint.clone().unwrap_or_default();
    eprintln!("organisation {id} has stopped: {error}\nHINT: {hint}");
    std::future::pending().await
}

async fn submit(folder: &Path, statements: &[String], output: Output) -> Result<Exit> {
    let (plan, secrets, _, peers) = peers_of(folder)?;
    let own = secrets.id;
    let asked = |request: Request| peers.call(own, request.encode());
    let status = asked(Request::Status).await;
    let status = status.with_context(|| {
        format!(
            "organisation {own} is not running: tally chainify run --folder {}",
            folder.display()
        )
    })?;
    let Status { agreed: mut height, agreement, .. } = Status::decode(&status)?;
    let ledger_id = ledger_id_of(&plan)?;
    let key = to_hex(&secrets::random::<16>()?);
    let mut envelope = envelope_of((ledger_id, own), key, height, statements)?;
    if !agreement.is_empty() {
        let gathered = asked(Request::Gather { envelope }).await?;
        envelope = gather::read(&gathered)?;
    }
    let orderer = plan.members.iter().map(|member| member.id).min().unwrap_or(own);
    let taken = peers.call(orderer, Request::Submit { envelope: envelope.clone() }.encode()).await;
    let refused =
        taken.with_context(|| format!("organisation {orderer}, which orders, is not there"))?;
    if !refused.is_empty() {
        bail!("{}", String::from_utf8_lossy(&refused));
    }
    let began = Instant::now();
    while began.elapsed() < OUTCOME_WAIT {
        let block = asked(Request::Block { height: height + 1 }).await?;
        let pieces = read_pieces(&block)?;
        let [order, result] = &pieces[..] else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        height += 1;
        if let Some(outcome) = outcome_of(order, result, &envelope)? {
            return reported(height, outcome, output);
        }
    }
    bail!("the transaction was taken, and is in no block yet: tally chainify status tells why")
}

fn outcome_of(order: &Bytes, result: &Bytes, envelope: &Bytes) -> Result<Option<Outcome>> {
    let record = Record::from_payload(Stream::Orders, order.clone())?;
    let batch = ledger::Batch::of(&record)?;
    let Some(index) = batch.envelopes().iter().position(|it| it == envelope) else {
        return Ok(None);
    };
    let result = BlockResult::of(&Record::from_payload(Stream::Results, result.clone())?)?;
    Ok(result.outcomes().get(index).and_then(|it| Outcome::decode(it)))
}

fn reported(height: u64, outcome: Outcome, output: Output) -> Result<Exit> {
    let word = match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Refused => "refused",
    };
    match output {
        Output::Text => println!("{word} in block {height}"),
        Output::Json => println!("{}", json!({ "block": height, "outcome": word })),
    }
    Ok(if outcome == Outcome::Succeeded { Exit::Ok } else { Exit::Failed })
}

fn verify(folder: &Path, output: Output) -> Result<Exit> {
    let files: Arc<dyn Files> = folders::open(folder)?;
    let found = chainify::verify(&files)?;
    let head = to_hex(&found.head);
    match output {
        Output::Text => {
            println!("blocks        {} agreed on, {} ordered", found.agreed, found.ordered);
            println!("transactions  {}, {} of them failed", found.transactions, found.failed);
            println!("certificates  {} of {} blocks have their own", found.certified, found.agreed);
            println!("head          {head}");
        }
        Output::Json => println!(
            "{}",
            json!({
                "agreed": found.agreed, "ordered": found.ordered, "head": head,
                "transactions": found.transactions, "failed": found.failed,
                "certified": found.certified, "torn": found.torn,
            })
        ),
    }
    Ok(if found.torn { Exit::TornTail } else { Exit::Ok })
}
