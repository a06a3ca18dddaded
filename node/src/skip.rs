//! `tally skip`: records a block as rejected that no start can execute.
//!
//! It does what a start does up to that block, and adds an order after the last one (see
//! [`engine::skip`]). The next start finds that before it comes to the block.

use std::sync::Arc;

use anyhow::{Context, Result};
use engine::{Language, Recovery, Replayed, Stopped, Trust, Watchdog, recover_by, resume_writing};
use ledger::LogOptions;
use ledger::hash::to_hex;
use serde_json::json;
use sql::session::schema::Schema;
use storage::Store;
use types::printable::printable_page;

use crate::cli::{self, Exit, Output};
use crate::database::{clock, refuse, watchdog_settings, workers};
use crate::folders::{self, refused};
use crate::progress::Progress;

pub fn run(arguments: &cli::Skip, output: Output) -> Result<Exit> {
    let files = folders::open_to_write(&arguments.data)?;
    let watchdog = Watchdog::open(files.clone(), watchdog_settings());
    let watchdog = Arc::new(watchdog.context("cannot read what blocks processes died in")?);
    let recovery = Recovery {
        workers: workers(0),
        trust: Trust::Vouched,
        watchdog: Some(Arc::clone(&watchdog)),
        ..Recovery::default()
    };
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let step = Progress::begin("reading the ledger");
    let mut report = |progress: engine::Progress| step.note(&format!("block {}", progress.blocks));
    let replayed = recover_by(files, &make, &recovery, &mut report).map_err(refuse)?;
    step.end("");
    let Replayed { replica, reader, unrecorded, stopped, .. } = replayed;
    let stopped = stopped.ok_or_else(|| {
        refused("every block of the ledger can be executed: there is nothing to skip")
            .with_hint("A block can be skipped when two starts have died in it.")
    })?;
    check(arguments, &stopped)?;
    crate::cluster::refuse_alone(replica.parameters())?;
    stopped.check(replica.rules())?;
    let batch = stopped.skip(&arguments.owner, &arguments.reason, clock()())?;
    if !batch.envelopes().iter().all(|envelope| replica.may_skip(envelope)) {
        let what = format!("permission denied to skip blocks as \"{}\"", arguments.owner);
        return Err(refused(what)
            .with_hint("Name a superuser of the ledger, or a member of tally_skip_blocks.")
            .into());
    }
    let log = resume_writing(reader, &unrecorded, LogOptions::default());
    let mut log = log.context("cannot go on with the ledger")?;
    log.append_order(&[batch.encode()?]).context("cannot write the ledger")?;
    log.orders.rest().context("cannot write the ledger")?;
    watchdog.forget().context("cannot remove what blocks processes died in")?;
    let (first, last, by) = (stopped.order.height, stopped.last.height, batch.height());
    match output {
        Output::Text => print!("blocks {first} to {last} are skipped by block {by}\n"),
        Output::Json => println!("{}", json!({"first": first, "last": last, "by": by})),
    }
    Ok(Exit::Ok)
}

/// That it is the block which is meant, and that it is meant.
fn check(arguments: &cli::Skip, stopped: &Stopped) -> Result<()> {
    let height = stopped.order.height;
    if arguments.height != height {
        let what = format!(
            "block {height} is the one that cannot be executed, not block {}",
            arguments.height
        );
        return Err(refused(what).with_detail(stopped.failing.why.clone()).into());
    }
    if arguments.yes {
        return Ok(());
    }
    let last = stopped.last.height;
    eprintln!("order hash    {}", to_hex(&stopped.order.hash()));
    eprintln!("transactions  {}", stopped.order.envelope_count);
    if let Some(transaction) = &stopped.transaction {
        eprintln!("transaction 0 {}", printable_page(transaction));
    }
    eprintln!("fails         {}", printable_page(&stopped.failing.why));
    let what = format!(
        "the transactions of blocks {height} to {last} would be rejected for good, with SQLSTATE \
         XXT01, for everyone to see"
    );
    Err(refused(what).with_hint("If that is what you want, add --yes.").into())
}
