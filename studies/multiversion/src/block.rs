//! Runs a concurrency-control rule of the study as a [`Protocol`] of the product. The transactions
//! of a block run concurrently on the pool's workers, over the study's own tables; a block is an
//! epoch.
//!
//! ```text
//! store ─ load, once ─► study's tables ─ the block's transactions, each until it ends ─► outcomes
//!   ▲                                                                         positions │
//!   └───────────────────── the final row of each tuple that was changed ◄──────────────────┘
//! ```
//!
//! The block is sealed in the serial order that it took, so rows are written back under the stamps
//! and hidden ids that a replay gives them (`renumber`); under [`si`](crate::rules::si), which has
//! no serial order, it is sealed in commit order, with the resulting rows. Only *final* rows are
//! written back, however often a tuple was changed in the block: the group commit that the thesis
//! names as future work (chapter 6). Transactions that met too many conflicts run alone at the end.
//!
//! *Why not on the product's storage*: its records have one version for each block, and stamps that
//! need not follow the serial order within a block. A multi-version rule must read at a timestamp
//! within its epoch, below changes of the same block.
//!
//! The tables are loaded again when the store was changed by other means (another protocol's block,
//! a schema change), and when old versions have left little room: loading drops these.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, Isolation, Moment, OptionValues, Outcome, Prepared,
    Protocol, ProtocolInfo, ProtocolOption, Snapshots, Timing, WorkerPool,
    studies::{self, Study},
};
use parking_lot::Mutex;
use storage::{BlockWrites, LATEST, Store};
use types::{Error, Height, Key, Position, SqlState, Stamp, TableId, Value};

use crate::database::Database;
use crate::mutant::Mutant;
use crate::pool::SPACES_MAX;
use crate::prefetching::GROUP;
use crate::renumber::Places;
use crate::rules::mv2pl::Mv2pl;
use crate::rules::mvocc::Mvocc;
use crate::rules::mvto::Mvto;
use crate::rules::si::Si;
use crate::rules::ssi::Ssi;
use crate::rules::ssn::Ssn;
use crate::rules::{CommitSequenceNumber, Rule};
use crate::session::{Attempt, Session};
use crate::spec::{Choice, Collector, Pointers, SPACES_DEFAULT, SYSTEMS, Storage, TableSpec};
use crate::transaction::Log;
use crate::write_back;

/// Options of a table, as a protocol's info lists them.
const OPTIONS: &[ProtocolOption] = &[
    ProtocolOption {
        name: "storage",
        values: OptionValues::OneOf(Storage::NAMES),
        what: "how versions are stored",
    },
    ProtocolOption {
        name: "gc",
        values: OptionValues::OneOf(Collector::NAMES),
        what: "what collects versions that no reader sees",
    },
    ProtocolOption {
        name: "index",
        values: OptionValues::OneOf(Pointers::NAMES),
        what: "what entries of secondary indexes lead to",
    },
    ProtocolOption {
        name: "spaces",
        values: OptionValues::Integer { min: 1, max: SPACES_MAX as u64, default: SPACES_DEFAULT },
        what: "memory spaces of a table",
    },
    ProtocolOption {
        name: "strings",
        values: OptionValues::OneOf(&["shared", "copied"]),
        what: "whether versions share long strings",
    },
    ProtocolOption {
        name: "system",
        values: OptionValues::OneOf(SYSTEMS),
        what: "storage, gc and index as the study has them for a system; instead of these three",
    },
];

const fn info(name: &'static str, paper: &'static str, isolation: Isolation) -> ProtocolInfo {
    ProtocolInfo {
        name,
        paper,
        isolation,
        deterministic: false,
        may_retry: false,
        options: OPTIONS,
    }
}

const SERIAL: Isolation = Isolation::Serializable;

pub static MVTO: ProtocolInfo = info("mvto", "Reed 1978; Wu, thesis, section 5.3.1", SERIAL);
pub static MVOCC: ProtocolInfo = info("mvocc", "Larson et al., VLDB 2011; section 5.3.2", SERIAL);
pub static MV2PL: ProtocolInfo = info("mv2pl", "Wu, thesis, section 5.3.3", SERIAL);
pub static SSI: ProtocolInfo = info("ssi", "Cahill et al., SIGMOD 2008; section 5.3.4", SERIAL);
pub static SSN: ProtocolInfo = info("ssn", "Wang et al., VLDB Journal 2017; section 5.3.4", SERIAL);
pub static SI: ProtocolInfo = info("si", "Berenson et al., SIGMOD 1995", Isolation::Snapshot);

/// Every rule. All but the last name a serial order.
pub static INFOS: &[&ProtocolInfo] = &[&MVTO, &MVOCC, &MV2PL, &SSI, &SSN, &SI];

static STUDY: Study = Study { infos: INFOS, by_name };

/// From now on this program's ledgers and benchmarks can name these protocols.
pub fn register() {
    studies::register(&STUDY);
}

/// The protocol that a text such as `mvto:storage=delta:gc=interval` names.
pub fn by_name(text: &str) -> Result<Arc<dyn Protocol>, Error> {
    make(text, None)
}

/// One with a bug, which a test must find.
#[cfg(feature = "mutants")]
pub fn mutant(text: &str, mutant: Mutant) -> Result<Arc<dyn Protocol>, Error> {
    make(text, Some(mutant))
}

fn make(text: &str, mutant: Option<Mutant>) -> Result<Arc<dyn Protocol>, Error> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let info = *INFOS.iter().find(|info| info.name == name).ok_or_else(|| {
        let names: Vec<_> = INFOS.iter().map(|info| info.name).collect();
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unknown protocol \"{name}\""))
            .with_hint(format!("The study's are: {}.", names.join(", ")))
    })?;
    let choice = Choice::parse(name, options)?;
    Ok(match name {
        Mvto::NAME => Online::<Mvto>::shared(info, choice, mutant),
        Mvocc::NAME => Online::<Mvocc>::shared(info, choice, mutant),
        Mv2pl::NAME => Online::<Mv2pl>::shared(info, choice, mutant),
        Ssi::NAME => Online::<Ssi>::shared(info, choice, mutant),
        Ssn::NAME => Online::<Ssn>::shared(info, choice, mutant),
        _ => Online::<Si>::shared(info, choice, mutant),
    })
}

struct Online<R> {
    info: &'static ProtocolInfo,
    choice: Choice,
    mutant: Option<Mutant>,
    loaded: Mutex<Option<Loaded>>,
    rule: PhantomData<R>,
}

/// The study's tables, and which state of which store they hold.
struct Loaded {
    store: Weak<Store>,
    height: Height,
    schemas: Vec<TableId>,
    db: Arc<Database>,
    /// The rows alone, without old versions, leave little room.
    crowded: bool,
}

/// What a worker has done.
#[derive(Default)]
struct Done {
    ended: Vec<(Position, Outcome, CommitSequenceNumber)>,
    log: Log,
    conflicts: u32,
    /// Had too many conflicts; to run alone.
    left: Vec<Position>,
    halted: Option<String>,
}

/// Conflicts that a transaction may meet before it has to wait for all others.
const CONFLICTS_MAX: u32 = 16;

impl<R: Rule> Online<R> {
    fn shared(
        info: &'static ProtocolInfo,
        choice: Choice,
        mutant: Option<Mutant>,
    ) -> Arc<dyn Protocol> {
        Arc::new(Online::<R> { info, choice, mutant, loaded: Mutex::default(), rule: PhantomData })
    }

    /// The tables as the store has them.
    fn tables(
        &self,
        store: &Arc<Store>,
        height: Height,
        workers: usize,
    ) -> Result<Arc<Database>, String> {
        let mut loaded = self.loaded.lock();
        let schemas: Vec<TableId> = store.tables().iter().map(|table| table.id()).collect();
        if let Some(loaded) = &mut *loaded
            && loaded.store.ptr_eq(&Arc::downgrade(store))
            && loaded.height + 1 == height
            && loaded.schemas == schemas
            && loaded.db.clock.workers() >= workers
            && (loaded.crowded || !loaded.db.is_crowded())
        {
            loaded.height = height;
            return Ok(Arc::clone(&loaded.db));
        }
        // Never both at once in memory.
        *loaded = None;
        let db = Arc::new(self.load(store, workers)?);
        let (store, crowded) = (Arc::downgrade(store), db.is_crowded());
        *loaded = Some(Loaded { store, height, schemas, db: Arc::clone(&db), crowded });
        Ok(db)
    }

    fn load(&self, store: &Store, workers: usize) -> Result<Database, String> {
        let tables = store.tables();
        let schemas = tables.iter().map(|table| Arc::clone(table.schema()));
        let mut db =
            Database::new(schemas, |schema| self.choice.of(&schema.name), workers, R::STRIPED);
        db.mutant = self.mutant;
        let mut loaded = Ok(());
        for table in &tables {
            let columns: Vec<_> = (0..table.schema().columns.len() as u16).collect();
            let mut load = |key: &[u8], stamp: Stamp, row: &[Value]| {
                loaded = db.load(table.id(), &Key::from(key), row, stamp);
                if loaded.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let all = Bound::Unbounded;
            table.scan(0, all, all, false, LATEST, &columns, &mut load);
            if loaded.is_err() {
                break;
            }
        }
        loaded.map(|()| db).map_err(|stop| format!("the rows cannot be loaded: {stop:?}"))
    }
}

/// One worker's share of a block, taken some transactions at a time.
fn work<R: Rule>(
    session: &mut Session<'_, R>,
    block: &Block,
    mut next: impl FnMut() -> Vec<Position>,
    conflicts_max: u32,
) -> Done {
    let mut done = Done::default();
    session.set_budget(block.budget);
    loop {
        let positions = next();
        if positions.is_empty() {
            break;
        }
        session.foresee(positions.iter().map(|at| &*block.transactions[*at as usize]));
        for position in positions {
            if let Err(why) = run_one(session, block, position, conflicts_max, &mut done) {
                done.halted = Some(why);
                return done;
            }
        }
    }
    done.log = session.take_log();
    session.collect();
    done
}

fn run_one<R: Rule>(
    session: &mut Session<'_, R>,
    block: &Block,
    position: Position,
    conflicts_max: u32,
    done: &mut Done,
) -> Result<(), String> {
    let work = &block.transactions[position as usize];
    let now_us = work.now_us(block.time_us);
    let moment = Moment { height: block.height, position, now_us };
    let mut met = 0;
    loop {
        match session.attempt(work, moment, false)? {
            Attempt::Ended(outcome, csn) => {
                done.ended.push((position, outcome, csn));
                break;
            }
            Attempt::Conflict(_) if met < conflicts_max => {
                met += 1;
                session.rest(met);
            }
            Attempt::Conflict(_) => {
                done.left.push(position);
                break;
            }
        }
    }
    done.conflicts += u32::from(met > 0);
    Ok(())
}

impl<R: Rule> Protocol for Online<R> {
    fn info(&self) -> &'static ProtocolInfo {
        self.info
    }

    /// As it is sealed, if there is one.
    fn keeps_block_order(&self) -> bool {
        self.info.isolation == Isolation::Serializable
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Snapshots,
        _: &WorkerPool,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()))
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let db = self.tables(store, block.height, pool.workers())?;
        db.image_room_bytes.store(block.image_room_bytes, Ordering::Relaxed);
        let count = block.transactions.len();
        let all = Arc::new(Mutex::new(Vec::new()));
        {
            let (db, block, all) = (Arc::clone(&db), Arc::clone(block), Arc::clone(&all));
            let next = AtomicUsize::new(0);
            pool.run_if_large(count, move |worker| {
                let take = || {
                    let first = next.fetch_add(GROUP, Ordering::Relaxed);
                    let end = (first + GROUP).min(count);
                    (first..end).map(|position| position as Position).collect()
                };
                let mut session = Session::<R>::open(&db, worker);
                session.log_changes();
                let done = work(&mut session, &block, take, CONFLICTS_MAX);
                all.lock().push(done);
            });
        }
        let mut all = std::mem::take(&mut *all.lock());
        let left: Vec<Position> = all.iter_mut().flat_map(|done| done.left.drain(..)).collect();
        let mut left = Some(left);
        let mut session = Session::<R>::open(&db, 0);
        session.log_changes();
        session.see(db.clock.newest());
        // Alone no other worker is in the way, but for a gap or two that were marked before.
        all.push(work(&mut session, block, || left.take().unwrap_or_default(), u32::MAX));
        drop(session);
        let outcome = gather(&mut all, count)?;
        let mut csns = Places::new(block.height, &outcome.serial_order);
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        for Log { changed, deleted, numbers } in all.into_iter().map(|done| done.log) {
            rows.extend(changed);
            keys.extend(deleted.into_iter().map(|(t, key, stamp)| (t, key, csns.stamp(stamp))));
            csns.number(numbers);
        }
        csns.rename::<R>(&db, &mut rows)?;
        write_back::join(&mut rows);
        write_back::write_rows(&db, store, csns, rows, writes, pool);
        write_back::delete_rows(&db, store, keys, writes.arena(0));
        db.clock.turn();
        db.appending.start_over();
        db.vacuum(false);
        Ok(outcome)
    }
}

/// Outcomes by position, and the order taken.
fn gather(all: &mut [Done], count: usize) -> Result<BlockOutcome, String> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; count];
    let (mut csns, mut again) = (Vec::with_capacity(count), 0);
    for done in all {
        if let Some(why) = done.halted.take() {
            return Err(why);
        }
        again += done.conflicts;
        for (position, outcome, csn) in done.ended.drain(..) {
            outcomes[position as usize] = Some(outcome);
            csns.push((csn, position));
        }
    }
    csns.sort_unstable();
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    if outcomes.len() != count {
        return Err("a transaction of the block has not ended".into());
    }
    Ok(BlockOutcome {
        outcomes,
        serial_order: csns.into_iter().map(|(_, position)| position).collect(),
        report: BlockReport { executed_again: Timing(again), ..BlockReport::default() },
        ..BlockOutcome::default()
    })
}

/// Names of every serializable rule with every combination of table options that makes sense.
pub fn all_names() -> Vec<String> {
    let specs: BTreeSet<String> = TableSpec::all().iter().map(ToString::to_string).collect();
    let rules = INFOS.iter().filter(|info| info.isolation == SERIAL);
    rules.flat_map(|info| specs.iter().map(|spec| format!("{}:{spec}", info.name))).collect()
}
