//! A folder becomes a running ledger: it is read, or begun, and the engine starts on it; that of a
//! member takes its place among the others first.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use engine::checkpoint::{Checkpointer, ServiceSettings};
use engine::retention::PinFolder;
use engine::{
    Checkpoints, Engine, EngineOptions, Fault, Journal, Language, Recovery, Replayed, Replica,
    RetentionSettings, RowFolders, Stopped, Watchdog, resume_writing,
};
use kit::pool::Pool;
use ledger::signatures::SecretKey;
use ledger::{BlockWriter, Files, RealFiles, first_block};
use recovery::schemes::row_logs::{RowLogOptions, RowLoggers, remove_unused};
use sql::session::ledger_proofs::LedgerProofs;
use sql::session::schema::Schema;
use sql::session::shared_state::SharedState;
use sql::session::{Database, SessionMemory};
use tracing::{info, warn};

use super::{
    Report, begin, block_limits, clock, clock_bound, holds_no_block, log_options, read, recovery,
    refuse, refuse_beside_pins, row_folders, row_paths, segment_bytes, statement_bytes_max, tell,
    torn_tails, watchdog_settings,
};
use crate::analysis;
use crate::cluster::{self, Enrolment, Joined, Telling};
use crate::config::{Durability, LogScheme, Settings};
use crate::folders;
use crate::memory;
use crate::metrics::Metrics;
use crate::proving::ProofSource;
use crate::prune;
use crate::secrets;

/// When nothing comes for so long, the ledger's end is made sure of.
const REST: Duration = Duration::from_millis(50);

/// What a folder came to, and what goes on with it.
struct Recovered {
    replayed: Replayed,
    schema: Arc<Schema>,
    rows: Option<RowFolders>,
    pins: PinFolder,
    watchdog: Arc<Watchdog>,
}

/// What the ledgers of one process share.
#[derive(Clone, Default)]
pub struct Together {
    /// What their tables hold.
    memory: Arc<AtomicU64>,
}

/// Reads the ledger in a folder, or begins one, and starts the engine on it.
pub fn open(
    files: Arc<dyn Files>,
    settings: &Settings,
    metrics: Arc<Metrics>,
    together: &Together,
) -> Result<(Database, Option<Joined>)> {
    cluster::refuse_beside(&settings.data, false)?;
    let enrolment = Enrolment::find(&settings.data)?;
    let recovered = recover(&files, settings, enrolment.as_ref())?;
    let Recovered { replayed, schema, rows, pins, watchdog } = recovered;
    tell(&replayed);
    let Replayed {
        replica, reader, unrecorded, progress, checkpoint, passed_over, stopped, ..
    } = replayed;
    let log = resume_writing(reader, &unrecorded, log_options(settings));
    let log = log.context("cannot go on with the ledger")?;
    let loaded = checkpoint.as_ref().map(|loaded| loaded.base.manifest.height());
    prune::complete(&*files, loaded);
    metrics.ledger_bytes.add(match &checkpoint {
        None => progress.bytes,
        Some(_) => segment_bytes(&*files)?,
    });
    metrics.first_block.set(first_block(&*files)?);
    metrics.torn_tails.set(torn_tails(&*files)?);
    metrics.height.set(replica.head().height);
    metrics.failing_block.set(stopped.as_ref().map_or(0, |stopped| stopped.order.height));
    let (journal, joined) = join(enrolment, &files, log, rows, &replica, settings)?;
    let base = checkpoint.map(|loaded| loaded.base);
    metrics.checkpoint_height.set(base.as_ref().map_or(0, |base| base.manifest.height()));
    let keep = settings.checkpoint_keep as usize;
    let checkpointer = Checkpointer::new(Arc::clone(&files), keep, base, &passed_over);
    // There is nothing new to write down.
    let checkpoints = stopped.is_none().then_some(Checkpoints {
        checkpointer,
        settings: service_settings(settings),
        since: progress,
    });
    let options = EngineOptions {
        checkpoints,
        retention: retention(settings, pins),
        vouch: true,
        rest: Some(REST),
        clock_bound: clock_bound(settings),
        memory_bytes_max: memory::bytes_max(settings.memory_bytes_max),
        memory_together: Arc::clone(&together.memory),
        watchdog: Some(watchdog),
        stopped: stopped.as_ref().map(Stopped::cause),
        remote_orderer: joined.as_ref().map(Joined::orderer),
        waits_for_room: true,
        submitter: joined.as_ref().map(|_| secrets::random()).transpose()?,
        signer: Some(SecretKey::of_seed(secrets::node_key(&settings.data)?)),
    };
    let (language, limits): (Arc<dyn Language>, _) = (schema.clone(), block_limits(settings));
    let observer = Arc::new(observer(&metrics, joined.as_ref()));
    let engine =
        Engine::start_with(replica, journal, language, limits, clock(), observer, options)?;
    let database = database(engine, schema, files, settings, &metrics)?;
    if let Some(joined) = &joined {
        joined.tell_of(&database.engine);
        _ = database.shared_state.certified.set(joined.votes().certified_height());
    }
    Ok((database, joined))
}

/// The ledger in a folder, which is begun where there is none; a member takes it from the others.
fn recover(
    files: &Arc<dyn Files>,
    settings: &Settings,
    enrolment: Option<&Enrolment>,
) -> Result<Recovered> {
    let executed = match enrolment {
        Some(enrolment) => enrolment.complete(&settings.data, files)?,
        None => None,
    };
    let rows = row_folders(settings)?;
    let pins = PinFolder::open(files.clone()).context("cannot read the names of pinned blocks")?;
    let watchdog = Watchdog::open(files.clone(), watchdog_settings());
    let watchdog = Arc::new(watchdog.context("cannot read what blocks processes died in")?);
    let (retain, dog) = (pins.heads(), Some(Arc::clone(&watchdog)));
    let recovery = recovery(settings, rows.clone());
    let recovery = Recovery { retain, watchdog: dog, executed, ..recovery };
    let read = match read(files, &recovery, &mut Report::default()) {
        Err(fault) if holds_no_block(&fault) && enrolment.is_none() => {
            refuse_beside_pins(&recovery.retain)?;
            cluster::refuse_beside(&settings.data, true)?;
            begin(settings, files.clone(), log_options(settings))?;
            read(files, &recovery, &mut Report::default())
        }
        outcome => outcome,
    };
    let (replayed, schema) = match enrolment {
        Some(_) => read.map_err(refuse_member)?,
        None => read.map_err(refuse)?,
    };
    Ok(Recovered { replayed, schema, rows, pins, watchdog })
}

/// What blocks go to; of a member, whose orders others log too, with its place among them.
fn join(
    enrolment: Option<Enrolment>,
    files: &Arc<dyn Files>,
    log: BlockWriter,
    rows: Option<RowFolders>,
    replica: &Replica,
    settings: &Settings,
) -> Result<(Journal, Option<Joined>)> {
    let Some(enrolment) = enrolment else {
        cluster::refuse_alone(replica.parameters())?;
        cluster::refuse_beside(&settings.data, true)?;
        return Ok((journal(settings, log, rows)?, None));
    };
    ensure!(
        settings.log_scheme == LogScheme::Command,
        "log_scheme must be command in a cluster: its members log orders"
    );
    let ahead_max = clock_bound(settings).map(|bound| bound.ahead_max);
    let (limits, files) = (block_limits(settings), files.clone());
    let (joined, journal) = enrolment.join(files, log, replica, limits, settings, ahead_max)?;
    Ok((journal, Some(joined)))
}

fn retention(settings: &Settings, pins: PinFolder) -> RetentionSettings {
    RetentionSettings {
        policy: settings.snapshot_retention.clone(),
        undo_bytes_max: settings.undo_bytes_max,
        pins: Some(pins),
    }
}

/// Counts blocks, and has a member vote on them; metrics show both.
fn observer(metrics: &Arc<Metrics>, joined: Option<&Joined>) -> Telling {
    let votes = joined.map(|joined| Arc::clone(joined.votes()));
    if let Some(joined) = joined {
        _ = metrics.order.set(joined.tells_order());
        _ = metrics.members.set(joined.tells_members());
        _ = metrics.misbehaviour.set(joined.tells_misbehaviour());
    }
    if let Some(votes) = &votes {
        let votes = Arc::clone(votes);
        _ = metrics.votes.set(Box::new(move || votes.standing()));
    }
    Telling { metrics: Arc::clone(metrics), votes }
}

/// What sessions work on.
fn database(
    engine: Engine,
    schema: Arc<Schema>,
    files: Arc<dyn Files>,
    settings: &Settings,
    metrics: &Arc<Metrics>,
) -> Result<Database> {
    let memory = session_memory(settings);
    _ = metrics.session_memory.set(Arc::clone(&memory.pool));
    let shared_state: Arc<SharedState> = Arc::default();
    let analytical_engine =
        Some(analysis::analytical_engine(&engine, &shared_state, settings, metrics)?);
    let engine = Arc::new(engine);
    let key = secrets::node_key(&settings.data).context("cannot have a key that signs heads")?;
    let proofs: Arc<dyn LedgerProofs> = Arc::new(ProofSource::new(files, Arc::clone(&engine), key));
    _ = shared_state.proofs.set(proofs);
    if !settings.approval_check.is_empty() {
        _ = shared_state.approval_check.set(settings.approval_check.clone());
    }
    Ok(Database { engine, schema, analytical_engine, memory, shared_state })
}

fn session_memory(settings: &Settings) -> SessionMemory {
    let tables = settings.memory_bytes_max;
    let bytes_max = memory::session_bytes_max(settings.session_memory_bytes_max, tables);
    SessionMemory {
        pool: Pool::new(bytes_max),
        statements_max: settings.session_statements_max as usize,
        statement_bytes_max: statement_bytes_max(settings),
        cached_statements_max: settings.session_cached_statements_max as usize,
    }
}

/// Where no rows are logged any more, what was logged goes.
fn remove_row_logs(settings: &Settings) {
    for path in row_paths(settings).iter().filter(|path| path.is_dir()) {
        let removed = RealFiles::open(path).and_then(|files| remove_unused(&files, None));
        if let Err(error) = removed {
            warn!(%error, "row logs that are not used any more cannot be removed");
        }
    }
}

/// What blocks go to, and a line about it.
fn journal(settings: &Settings, log: BlockWriter, rows: Option<RowFolders>) -> Result<Journal> {
    if rows.is_none() {
        remove_row_logs(settings);
    }
    let journal = match rows {
        Some(rows) => {
            let options = RowLogOptions {
                segment_bytes: settings.segment_bytes_max,
                sync: settings.durability == Durability::On,
                ..RowLogOptions::default()
            };
            let loggers = RowLoggers::resume(&rows, log.next_height(), options);
            Journal::with_rows(log, loggers.context("cannot log rows")?)
        }
        None if settings.log_scheme == LogScheme::None => Journal::held_back(log),
        None => log.into(),
    };
    match journal.scheme() {
        "none" => warn!(
            "log_scheme is none: a crash loses all that was acknowledged after the last checkpoint"
        ),
        scheme => info!(log_scheme = scheme, "how blocks are logged"),
    }
    Ok(journal)
}

fn service_settings(settings: &Settings) -> ServiceSettings {
    ServiceSettings {
        interval_blocks: settings.checkpoint_interval_blocks,
        interval_bytes: settings.checkpoint_interval_bytes,
        cpu_percent_max: settings.checkpoint_cpu_percent_max,
        undo_bytes_max: settings.checkpoint_undo_bytes_max,
    }
}

/// The others have what is damaged here.
fn refuse_member(fault: Fault) -> anyhow::Error {
    match fault {
        Fault::Damage(_) | Fault::Mismatch(_) => {
            let what = format!("{fault}; the node does not start");
            folders::refused(what).with_hint(cluster::REJOIN).into()
        }
        fault => refuse(fault),
    }
}
