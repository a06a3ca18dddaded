//! The seam to a concurrency-control protocol: what it says of itself ([`ProtocolInfo`]), its
//! options, and how it is run block by block ([`Protocol`]).

use std::any::Any;
use std::sync::{Arc, Mutex};

use procedure::{Budget, ProgramResult};
use storage::{BlockWrites, Store};
use types::{Error, Height, Position, SqlState, Stop};

use crate::carried::Carried;
use crate::epoch::Epoch;
use crate::execution_path::PathCounts;
use crate::pool::WorkerPool;
use crate::work::Work;

/// A protocol's info: the one list that CLI, docs, bench and tests read.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolInfo {
    pub name: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    pub isolation: Isolation,
    /// The same block gives the same bytes on every replica, whatever the number of workers.
    /// Otherwise the block is [sealed](crate::Sealed) in the serial order that it took, and
    /// replayed by serial execution.
    pub deterministic: bool,
    /// Procedure calls and single statements may end in 40001.
    pub may_retry: bool,
    /// What can be chosen when it is named, `harmony:reordering=off`.
    pub options: &'static [ProtocolOption],
}

/// A choice that a protocol leaves open. It is a part of the ledger's parameters, since it may
/// affect outcomes.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolOption {
    pub name: &'static str,
    pub values: OptionValues,
    /// One line for people.
    pub what: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum OptionValues {
    /// The first is the default.
    OneOf(&'static [&'static str]),
    Integer {
        min: u64,
        max: u64,
        default: u64,
    },
}

/// The options that a protocol was named with, checked against its info; and what only a program
/// can ask for, to test or to measure.
#[derive(Clone, Debug, Default)]
pub struct Options {
    chosen: Vec<(&'static str, String)>,
    /// Of transactions that are free to run the last begins, and no block is too small for the
    /// protocol's own way: the order that is hardest on one which keeps the block's.
    pub eager: bool,
    /// So many transactions of each worker are under way at once, where they run as they arrive.
    pub interleaved: Option<usize>,
    /// The protocol shall have this bug, for tests of the tests; never set in a product build.
    pub mutant: Option<&'static str>,
    /// Told of what is spent on each transaction, by protocols that can tell; for measurements.
    pub watch: Option<Arc<Watch>>,
}

/// A clock, which strategies have not got by themselves, and what it said.
#[derive(Debug)]
pub struct Watch {
    pub now_ns: fn() -> u64,
    pub spans: Mutex<Vec<Span>>,
}

/// Time spent on one transaction, over all its attempts and without what was done in between.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub height: Height,
    pub arrival: Position,
    pub spent_ns: u64,
    /// Of it, on attempts that came to nothing.
    pub lost_ns: u64,
}

impl Options {
    /// `text` is what follows the protocol's name: `a=1:b=off`, or nothing.
    pub fn parse(info: &ProtocolInfo, text: &str) -> Result<Options, Error> {
        let mut options = Options::default();
        for part in text.split(':').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let option = info.options.iter().find(|option| option.name == name);
            let option = option.ok_or_else(|| unknown_option(info, name))?;
            if !option.values.allow(value) {
                return Err(bad_value(option, value));
            }
            options.chosen.retain(|(chosen, _)| *chosen != option.name);
            options.chosen.push((option.name, value.to_owned()));
        }
        Ok(options)
    }

    pub fn with_mutant(self, mutant: &'static str) -> Options {
        Options { mutant: Some(mutant), ..self }
    }

    pub fn eager(self) -> Options {
        Options { eager: true, ..self }
    }

    pub fn interleaving(self, transactions: usize) -> Options {
        Options { interleaved: Some(transactions), ..self }
    }

    pub fn with_watch(self, watch: Option<Arc<Watch>>) -> Options {
        Options { watch, ..self }
    }

    fn chosen(&self, name: &str) -> Option<&str> {
        self.chosen.iter().find(|(chosen, _)| *chosen == name).map(|(_, value)| &**value)
    }

    /// Whether an option of `info`, chosen or by default, has this value.
    pub fn is(&self, info: &ProtocolInfo, name: &str, value: &str) -> bool {
        let default = info.options.iter().find(|o| o.name == name).map(|o| o.values);
        match (self.chosen(name), default) {
            (Some(chosen), _) => chosen == value,
            (None, Some(OptionValues::OneOf(values))) => values.first() == Some(&value),
            _ => false,
        }
    }

    /// The number that an option of `info` has, chosen or by default.
    pub fn number(&self, info: &ProtocolInfo, name: &str) -> u64 {
        let option = info.options.iter().find(|o| o.name == name).map(|o| o.values);
        let chosen = self.chosen(name).and_then(|value| value.parse().ok());
        chosen.unwrap_or(match option {
            Some(OptionValues::Integer { default, .. }) => default,
            _ => 0,
        })
    }
}

impl ProtocolOption {
    /// `name=value`.
    pub fn named(&self, value: &str) -> String {
        format!("{}={value}", self.name)
    }
}

impl OptionValues {
    fn allow(&self, value: &str) -> bool {
        match self {
            OptionValues::OneOf(values) => values.contains(&value),
            OptionValues::Integer { min, max, .. } => {
                value.parse().is_ok_and(|n: u64| (*min..=*max).contains(&n))
            }
        }
    }
}

impl std::fmt::Display for OptionValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionValues::OneOf(values) => f.write_str(&values.join("|")),
            OptionValues::Integer { min, max, .. } => write!(f, "{min}..{max}"),
        }
    }
}

fn unknown_option(info: &ProtocolInfo, name: &str) -> Error {
    let names: Vec<_> = info.options.iter().map(|option| option.name).collect();
    let hint = match names.is_empty() {
        true => format!("\"{}\" has no options.", info.name),
        false => format!("Its options are: {}.", names.join(", ")),
    };
    let message = format!("protocol \"{}\" has no option \"{name}\"", info.name);
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint(hint)
}

fn bad_value(option: &ProtocolOption, value: &str) -> Error {
    let message = format!("invalid value \"{value}\" of protocol option \"{}\"", option.name);
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint(format!("It is one of {}.", option.values))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    Serializable,
    Snapshot,
}

/// An ordered batch of transactions, compiled and ready to run.
#[derive(Debug)]
pub struct Block {
    pub height: Height,
    /// `now()` of its transactions: microseconds since 2000-01-01 UTC.
    pub time_us: i64,
    pub transactions: Vec<Arc<Work>>,
    /// What the sealed block may hold beside its transactions: rows that they leave, where the
    /// protocol's blocks have them.
    pub image_room_bytes: usize,
    /// What each transaction may spend and hold.
    pub budget: Budget,
}

impl Block {
    /// One that nothing bounds.
    pub fn new(height: Height, time_us: i64, transactions: Vec<Arc<Work>>) -> Block {
        let (image_room_bytes, budget) = (usize::MAX, Budget::default());
        Block { height, time_us, transactions, image_room_bytes, budget }
    }
}

/// How a transaction ended. Deterministic, and recorded in the block.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    Committed(ProgramResult),
    Rejected(Error),
    /// An interactive transaction met a newer version than it had read: 40001.
    Retry(Error),
}

impl Outcome {
    /// `Halt` is no transaction's outcome: it stops the replica. Texts are [cut](Error::cut) here,
    /// where every replica and the client get the same ones.
    pub fn from_run(run: Result<ProgramResult, Stop>) -> Result<Outcome, String> {
        match run {
            Ok(result) => Ok(Outcome::Committed(result)),
            Err(Stop::Rejected(error)) => Ok(Outcome::Rejected(error.cut())),
            Err(Stop::Retry(error)) => Ok(Outcome::Retry(error.cut())),
            Err(Stop::Halt(why)) => Err(why),
        }
    }

    pub fn is_committed(&self) -> bool {
        matches!(self, Outcome::Committed(_))
    }
}

/// What running a block gave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockOutcome {
    /// One for each transaction, in block order.
    pub outcomes: Vec<Outcome>,
    /// The serial order that the protocol claims to be equivalent to: a permutation of the block's
    /// positions, rejected and retried transactions included.
    pub serial_order: Vec<Position>,
    /// Transactions, in ascending order, that ended in `Retry` only because the protocol puts them
    /// off: they come first in the next block that is formed.
    pub deferred: Vec<Position>,
    /// (t, u) when transaction t comes, in the serial order, right before transaction u of the
    /// block before. Only a block that was prepared two behind has any; several before one u come
    /// in their block's own order.
    pub inter_block_reorderings: Vec<(Position, Position)>,
    /// For the next block.
    pub carried: Carried,
    pub report: BlockReport,
}

/// Counts that the metrics and the bench show; they never reach the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockReport {
    /// Transactions that the protocol's rule turned away at first and that ran again in the block.
    pub rerun: u32,
    /// Turned away since something they had read was no more.
    pub stale: u32,
    /// Turned away to break cycles of conflicts.
    pub cycle_victims: u32,
    /// Groups of conflicting transactions with too many cycles to be counted, whose victims were
    /// found by degree.
    pub uncounted_components: u32,
    /// Transactions that had to be executed more than once.
    pub executed_again: Timing,
    /// Transactions that were corrected as they committed, by running steps again.
    pub healed: Timing,
    /// Of these, those that had to run again from their start.
    pub healed_whole: Timing,
    /// Attempts at a commit that let go of their locks and took them again in order, since a lock
    /// out of order was not to be had.
    pub relocked: Timing,
    /// Which ways the transactions took.
    pub paths: PathCounts,
}

/// A count that depends on the timing of the workers. It must not make a difference, so all of them
/// are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing(pub u32);

impl PartialEq for Timing {
    fn eq(&self, _: &Timing) -> bool {
        true
    }
}

impl Eq for Timing {}

/// What `prepare` hands to `finish` of the same protocol.
pub type Prepared = Box<dyn Any + Send>;

/// What `finish` of the protocol `info` was handed, as its own `prepare` made it; an error where
/// another protocol did, which stops the replica.
pub fn own<T: Any>(prepared: Prepared, info: &ProtocolInfo) -> Result<T, String> {
    match prepared.downcast() {
        Ok(own) => Ok(*own),
        Err(_) => Err(format!("{} was handed another protocol's block", info.name)),
    }
}

/// The states that `prepare` may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshots {
    /// The newest block whose state may be read.
    pub newest: Height,
    /// No state before this block's may be read. It is the last barrier: a change of the schema or
    /// of the protocol, or genesis; in a replica that began with a checkpoint after that, the
    /// oldest state which the next block might have read.
    pub floor: Height,
}

impl Snapshots {
    /// Without a barrier since genesis.
    pub fn up_to(newest: Height) -> Snapshots {
        Snapshots { newest, floor: 0 }
    }
}

/// How a transaction is simulated before it is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SimulationRules {
    /// No block is validated meanwhile (see [`Store::lock_shared`]).
    pub locks_state: bool,
    /// It is given up as soon as it has read what a block has overwritten since it began. Where
    /// blocks write in place before they know what commits, that may be of one that rolls back.
    pub early_abort: bool,
}

/// One strategy. Virtual per block; below these two calls everything is generic and monomorphised.
///
/// `prepare` may overlap the block before: it must read at the snapshots it is told only. `finish`
/// is called in block order, installs the block's writes through `writes` and names the serial
/// order it took. An `Err` means that this replica is sick and must stop.
///
/// The value itself caches and does not remember: what a block's outcome depends on is the block,
/// the store's snapshots, their bounds and what the block before [carried](Carried) over.
pub trait Protocol: Send + Sync {
    fn info(&self) -> &'static ProtocolInfo;

    /// How far behind its block the newest snapshot of `prepare` may be. With two, block H may be
    /// prepared on snapshot H - 2, before or while block H - 1 is finished by the same protocol.
    fn snapshot_lag(&self) -> Height {
        1
    }

    /// How many blocks back, seen from its own, the oldest snapshot is that `prepare` may read: the
    /// snapshots of so many last blocks, but none before the barrier, are readable until the block
    /// is finished (see [`History`](crate::History)).
    fn history(&self) -> Height {
        self.snapshot_lag()
    }

    /// Whether `prepare` reads no rows: then it may run before or beside `finish` of the block
    /// before, and `snapshots.newest` is not looked at. It may ask where records lie, as a hint
    /// that reaches no result. Only a barrier must be waited for.
    fn plans_ahead(&self) -> bool {
        false
    }

    /// Whether the serial order is always that of the block, as it is sealed. Then the ledger,
    /// which holds no other one, says in which order its transactions committed, and others than
    /// the protocol can replay them.
    fn keeps_block_order(&self) -> bool {
        false
    }

    /// How endorsers simulate transactions for it. It says what their clients wait for and when
    /// they are told, and reaches no block.
    fn simulation(&self) -> SimulationRules {
        SimulationRules::default()
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String>;

    /// `carried`: what the block before left, if this protocol ran it.
    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        carried: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String>;

    /// Opens a block in which calls run as they arrive; `None`: this protocol runs closed ones.
    /// One is open at a time, and none while a block is prepared or finished. `prepare` and
    /// `finish` run a closed block to the same effect.
    fn open(
        &self,
        _store: &Arc<Store>,
        _height: Height,
        _budget: Budget,
    ) -> Option<Box<dyn Epoch>> {
        None
    }

    /// The strict inverse of [`Carried::encode`], of what this protocol carries.
    fn decode_carried(&self, bytes: &[u8]) -> Result<Carried, String> {
        match bytes {
            [] => Ok(Carried::default()),
            _ => Err(format!("{} carries nothing from block to block", self.info().name)),
        }
    }
}
