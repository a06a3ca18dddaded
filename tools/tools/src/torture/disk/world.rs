//! A whole engine on files in memory, with checkpoints, and what is known of its past.
//!
//! One client waits for each answer, and checkpoints are taken when it asks, so a story makes the
//! same file operations, in the same order, each time it is told, though an engine with all its
//! threads tells it. Each transaction has a key of its own, so that its envelope has the same bytes
//! whichever process orders it. The fault-free telling is the [`Reference`]: for each height, the
//! block's hash and the digest of the state, both as a re-execution from genesis finds them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail, ensure};
use engine::checkpoint::{Checkpointer, ServiceSettings, State, digest};
use engine::{
    BlockLimits, Boundary, Checkpoints, EXECUTOR, Engine, EngineOptions, Fault, Language,
    NoObserver, Progress, Replayed, Replica, recover, replay_watched, resume_writing,
};
use kit::random::Random;
use ledger::{BlockWriter, Files, Genesis, Hash, LogOptions, MemoryFiles, Parameters};
use ledger::{checkpoint, prune};
use sql::SessionInfo;
use sql::session::schema::Schema;
use sql::session::{Answer, Database, Session, SessionMemory};
use storage::{Snapshot, Store};
use tokio::runtime::Runtime;
use types::{Error, Height, Value};

/// Small, so that a story of some blocks fills several.
pub const LOG: LogOptions =
    LogOptions { segment_bytes: 4 << 10, zero_fill_bytes: 4 << 10, sync: true };
/// The third checkpoint removes the first.
const CHECKPOINTS_KEPT: usize = 2;
/// Those that are asked for, at any price.
pub const CHECKPOINTS: ServiceSettings = ServiceSettings {
    interval_blocks: 0,
    interval_bytes: 0,
    cpu_percent_max: 100,
    undo_bytes_max: 0,
};

const SCHEMA: [&str; 4] = [
    "CREATE TABLE accounts (id bigint PRIMARY KEY, cents bigint NOT NULL, CHECK (cents >= 0))",
    "CREATE TABLE journal (id bigint PRIMARY KEY, note text)",
    // Never changed: checkpoints go on referring to the first one's pack.
    "CREATE TABLE still (id bigint PRIMARY KEY, note text)",
    "CREATE PROCEDURE pay(a bigint, b bigint, much bigint) LANGUAGE plpgsql AS $$ BEGIN \
     UPDATE accounts SET cents = cents - much WHERE id = a; \
     UPDATE accounts SET cents = cents + much WHERE id = b; END $$",
];
const ACCOUNTS: u64 = 12;

/// What the client does next. A change makes one block.
#[derive(Clone, Debug)]
pub enum Step {
    Change {
        key: String,
        text: String,
    },
    Checkpoint,
    /// Blocks up to the oldest checkpoint go.
    Prune,
}

/// A workload: blind writes, inserts, deletes, ranges, hot keys, aborts, interactive transactions.
#[derive(Clone)]
pub struct Story {
    pub protocol: &'static str,
    pub steps: Vec<Step>,
}

impl Story {
    /// As many checkpoints, and after each but the first a prune.
    pub fn new(protocol: &'static str, changes: usize, checkpoints: usize, seed: u64) -> Story {
        let mut random = Random::new(seed);
        let accounts: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, 1000)")).collect();
        let still: Vec<String> = (0..4).map(|id| format!("({id}, '{id:0>60}')")).collect();
        let mut steps = Vec::new();
        let mut push = |text: String| {
            let key = format!("step {}", steps.len());
            steps.push(Step::Change { key, text });
        };
        SCHEMA.iter().for_each(|text| push((*text).into()));
        for (table, rows) in [("accounts", accounts), ("still", still)] {
            push(format!("INSERT INTO {table} VALUES {}", rows.join(", ")));
        }
        for number in 0..changes {
            let (key, text) = (format!("change {number}"), change(&mut random, number));
            steps.push(Step::Change { key, text });
            if (number + 1) * checkpoints / changes > number * checkpoints / changes {
                steps.push(Step::Checkpoint);
                if number + 1 > changes / checkpoints {
                    steps.push(Step::Prune);
                }
            }
        }
        Story { protocol, steps }
    }
}

fn change(random: &mut Random, number: usize) -> String {
    let hot = random.below(2);
    let (one, other) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    match random.below(9) {
        0 => format!("UPDATE accounts SET cents = {number} WHERE id = {one}"),
        1 => format!("UPDATE accounts SET cents = cents + 1 WHERE id = {hot}"),
        2 => format!("INSERT INTO journal VALUES ({number}, 'note {number}')"),
        3 => format!("DELETE FROM journal WHERE id < {}", number.saturating_sub(9)),
        4 => format!("UPDATE accounts SET cents = cents + 2 WHERE id BETWEEN {one} AND {other}"),
        // Refused by the table, and recorded as such.
        5 => format!("UPDATE accounts SET cents = cents - 1000000 WHERE id = {one}"),
        6 => format!(
            "BEGIN; UPDATE accounts SET cents = cents + 5 WHERE id = {one}; \
             INSERT INTO journal VALUES ({number}, NULL); COMMIT"
        ),
        7 => format!("INSERT INTO journal VALUES ({number}, '{:x>300}')", "long"),
        _ => format!("CALL pay({one}, {other}, {})", random.below(50)),
    }
}

/// What was true at a moment of a telling.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reported {
    /// File operations so far.
    pub operations: u64,
    /// The newest block that the client was answered.
    pub height: Height,
    /// The newest checkpoint that it was told of.
    pub checkpoint: Option<Height>,
}

/// An engine on a folder, and its one client.
pub struct Running {
    files: Arc<dyn Files>,
    database: Arc<Database>,
    session: Session,
    protocol: &'static str,
}

pub fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Schema::new())
}

/// Writes the genesis block.
pub fn begin(files: &Arc<dyn Files>, protocol: &str) -> Result<()> {
    BlockWriter::begin(Arc::clone(files), &genesis(protocol), LOG)?;
    Ok(())
}

fn genesis(protocol: &str) -> Genesis {
    let parameters = Parameters::new(protocol);
    Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR }
}

impl Running {
    /// As a node starts: recovery, the log's end, the engine with its checkpoints.
    pub fn open(files: &Arc<dyn Files>, protocol: &'static str) -> Result<Running> {
        Running::open_with(files, protocol, CHECKPOINTS)
    }

    pub fn open_with(
        files: &Arc<dyn Files>,
        protocol: &'static str,
        settings: ServiceSettings,
    ) -> Result<Running> {
        let made = RefCell::new(Arc::new(Schema::new()));
        let make = |_: &Arc<Store>| -> Arc<dyn Language> {
            let schema = Arc::new(Schema::new());
            *made.borrow_mut() = schema.clone();
            schema
        };
        let read = recover(Arc::clone(files), &make, 1, &mut |_| ())?;
        let schema = made.into_inner();
        let language: Arc<dyn Language> = schema.clone();
        let Replayed { replica, reader, unrecorded, checkpoint, passed_over, .. } = read;
        let log = resume_writing(reader, &unrecorded, LOG)?;
        let base = checkpoint.map(|checkpoint| checkpoint.base);
        if let Some(base) = &base {
            // What a crash has cut short; it is tried again at the next start.
            let _ = prune::complete(&**files, Some(base.manifest.height()));
        }
        let checkpointer =
            Checkpointer::new(Arc::clone(files), CHECKPOINTS_KEPT, base, &passed_over);
        let since = Progress::default();
        let checkpoints = Some(Checkpoints { checkpointer, settings, since });
        let (limits, clock) = (BlockLimits::default(), Arc::new(|| 0));
        let observer = Arc::new(NoObserver);
        let options = EngineOptions { checkpoints, ..EngineOptions::default() };
        let engine = Engine::start_with(replica, log, language, limits, clock, observer, options)?;
        let (engine, memory) = (Arc::new(engine), SessionMemory::default());
        let shared_state = Arc::default();
        let database =
            Arc::new(Database { engine, schema, analytical_engine: None, memory, shared_state });
        Ok(Running { files: Arc::clone(files), session: session_of(&database), database, protocol })
    }

    /// Another client of the same engine.
    pub fn another(&self) -> Running {
        let database = Arc::clone(&self.database);
        let (files, protocol) = (Arc::clone(&self.files), self.protocol);
        Running { files, session: session_of(&database), database, protocol }
    }

    pub fn head(&self) -> Height {
        self.database.engine.head().height
    }

    pub fn has_halted(&self) -> bool {
        self.database.engine.is_halted()
    }

    /// Of what readers see.
    pub fn seen(&self) -> Result<Hash> {
        let snapshot = self.database.engine.store().snapshot();
        seen(self.protocol, &snapshot, &**self.database.engine.language())
    }

    pub async fn run(&mut self, text: &str) -> Result<Vec<Box<[Value]>>, Error> {
        let mut found = Vec::new();
        for source in self.session.read(text)? {
            let answer = match self.session.prepare_source(source, &[]) {
                Ok((prepared, literals)) => self.session.execute(&prepared, &literals).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer::Rows { rows, .. }) => found = rows,
                Ok(_) => {}
                Err(error) => {
                    self.session.statement_failed();
                    return Err(error);
                }
            }
        }
        Ok(found)
    }

    /// One step; whether the story can go on, and what the client then knows.
    async fn step(&mut self, step: &Step, reported: &mut Reported) -> bool {
        match step {
            Step::Change { key, text } => {
                // A transaction that the table refuses is answered and recorded too.
                let answered = match self.run(&format!("SET tally.transaction_key = '{key}'")).await
                {
                    Ok(_) => self.run(text).await,
                    Err(error) => Err(error),
                };
                // What readers see is durable, also where its result could not be written.
                reported.height = self.head();
                if self.has_halted() {
                    return false;
                }
                if answered.is_err() {
                    drop(self.run("ROLLBACK").await);
                    reported.height = self.head();
                }
            }
            Step::Checkpoint => {
                let Ok(asked) = self.database.engine.checkpoint() else { return true };
                if let Ok(Ok(taken)) = asked.await {
                    reported.checkpoint = Some(taken.height);
                }
            }
            Step::Prune => {
                let oldest = checkpoint::heights(&*self.files).unwrap_or_default().first().copied();
                if let Some(oldest) = oldest {
                    let _ = prune::prune(&*self.files, oldest, oldest);
                }
            }
        }
        true
    }
}

fn session_of(database: &Arc<Database>) -> Session {
    let info = SessionInfo { user: "tally".into(), ..SessionInfo::default() };
    Session::new(Arc::clone(database), info, Arc::new(AtomicBool::new(false)))
}

/// A single-threaded place for the client to wait in.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}

/// Tells the rest of a story to an engine. The last entry is where it ended.
pub fn tell(
    runtime: &Runtime,
    running: &mut Running,
    steps: &[Step],
    operations: &dyn Fn() -> u64,
) -> Vec<Reported> {
    let mut reported =
        Reported { operations: operations(), height: running.head(), checkpoint: None };
    let mut all = vec![reported];
    for step in steps {
        let goes_on = runtime.block_on(running.step(step, &mut reported));
        reported.operations = operations();
        all.push(reported);
        if !goes_on {
            break;
        }
    }
    all
}

/// What is known of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Of its result.
    hash: Hash,
    /// Of the state after it.
    digest: Hash,
    /// Of that part of the state that readers see.
    seen: Hash,
}

/// What a story comes to, block by block.
pub struct Reference {
    pub story: Story,
    /// From genesis on.
    blocks: Vec<Known>,
    /// For each step, the height after it.
    heights: Vec<Height>,
    /// The folder at the end.
    pub files: MemoryFiles,
    /// Every moment, with what the client knew.
    pub moments: Vec<(MemoryFiles, Reported)>,
}

impl Reference {
    pub fn of(story: Story) -> Result<Reference> {
        let blocks = blocks_of(&story)?;
        let files = MemoryFiles::new();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        begin(&shared, story.protocol)?;
        files.remember();
        let first = files.operations();
        let mut running = Running::open(&shared, story.protocol)?;
        let reported = tell(&runtime()?, &mut running, &story.steps, &|| files.operations());
        ensure!(!running.has_halted(), "a sound disk stopped the engine");
        let (seen, head) = (running.seen()?, running.head());
        drop(running);
        let moments = files.moments();
        ensure!(blocks.len() as u64 == head + 1 && blocks.last().is_some_and(|b| b.seen == seen));
        let at = |index: u64| {
            let known = reported.partition_point(|reported| reported.operations <= first + index);
            known.checked_sub(1).map_or(Reported::default(), |last| reported[last])
        };
        let moments = (0..).zip(moments).map(|(index, disk)| (disk, at(index))).collect();
        let heights = reported.iter().skip(1).map(|reported| reported.height).collect();
        let all = Reference { story, blocks, heights, files, moments };
        ensure!(all.reported().checkpoint.is_some(), "the story has no checkpoint");
        Ok(all)
    }

    /// What the client knew at the end.
    pub fn reported(&self) -> Reported {
        self.moments.last().map(|(_, reported)| *reported).unwrap_or_default()
    }

    pub fn head(&self) -> Height {
        self.blocks.len() as Height - 1
    }

    /// The steps that a ledger of this height has not seen.
    pub fn steps_behind(&self, height: Height) -> &[Step] {
        let seen = self.heights.partition_point(|after| *after <= height);
        &self.story.steps[seen..]
    }

    /// The replica is where the story was at its height.
    pub fn compare(&self, replica: &Replica) -> Result<Height> {
        let head = replica.head();
        let known = self.blocks.get(head.height as usize);
        let known = known.with_context(|| format!("block {} is new", head.height))?;
        let found = known_of(&self.story, replica)?;
        ensure!(known.hash == found.hash, "block {} is another", head.height);
        ensure!(*known == found, "another state after block {}", head.height);
        Ok(head.height)
    }

    pub fn compare_running(&self, running: &Running, height: Height) -> Result<()> {
        let known = self.blocks.get(height as usize).context("a block that is new")?;
        ensure!(known.seen == running.seen()?, "readers see another state than that of {height}");
        Ok(())
    }

    /// Recovers a folder that a crash or a fault left, and compares. `least` must be there.
    pub fn recover(&self, files: &MemoryFiles, least: Reported) -> Result<Replayed> {
        let (found, read) = self.find(files)?;
        found.holds(least)?;
        Ok(read)
    }

    /// The same, and where the folder stands.
    pub fn find(&self, files: &MemoryFiles) -> Result<(Found, Replayed)> {
        let read = recover(Arc::new(files.clone()), &language, 1, &mut |_| ())?;
        let checkpoint = read.checkpoint.as_ref().map(|from| from.base.manifest.height());
        Ok((Found { height: self.compare(&read.replica)?, checkpoint }, read))
    }

    /// Starts an engine on a folder, tells it the rest of the story, and verifies what there is. A
    /// last checkpoint removes what a fault has left of others.
    pub fn go_on(&self, runtime: &Runtime, files: &MemoryFiles, least: Reported) -> Result<()> {
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let mut running = Running::open(&shared, self.story.protocol)?;
        let head = running.head();
        ensure!(head >= least.height, "begins at block {head}, {} was told", least.height);
        self.compare_running(&running, head)?;
        let rest = [self.steps_behind(head), &[Step::Checkpoint]].concat();
        let reported = tell(runtime, &mut running, &rest, &|| 0);
        let last = reported.last().copied().unwrap_or_default();
        ensure!(last.height == self.head(), "the story ends at block {}", last.height);
        ensure!(last.checkpoint == Some(self.head()), "no checkpoint of the end can be taken");
        drop(running);
        self.verify(files)
    }

    /// As `tally verify` does, from genesis; every checkpoint there is must hold.
    pub fn verify(&self, files: &MemoryFiles) -> Result<()> {
        use node::verification::{Verdict, verify_files};
        let found = verify_files(Arc::new(files.clone()), 1)?;
        ensure!(found.verdict == Verdict::Sound, "verify: {:?}", found.verdict);
        ensure!(
            found.height == self.head() && found.head == self.blocks[self.blocks.len() - 1].hash
        );
        match found.checkpoints.iter().find_map(|checkpoint| checkpoint.fault.as_ref()) {
            Some(fault) => bail!("verify: a checkpoint: {fault}"),
            None => Ok(()),
        }
    }
}

/// Where a recovered folder stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub height: Height,
    pub checkpoint: Option<Height>,
}

impl Found {
    /// Whether nothing is missing that a client was told of.
    pub fn holds(self, least: Reported) -> Result<()> {
        let Found { height, checkpoint } = self;
        ensure!(height >= least.height, "block {height} is the last, {} was told", least.height);
        ensure!(
            checkpoint >= least.checkpoint,
            "the checkpoint of {:?} was told, the newest is of {checkpoint:?}",
            least.checkpoint
        );
        Ok(())
    }
}

fn known_of(story: &Story, replica: &Replica) -> Result<Known> {
    let (hash, digest) = (replica.head().hash, State::of(replica)?.digest()?);
    Ok(Known { hash, digest, seen: seen_of(story.protocol, replica)? })
}

/// Of the part of a replica's state that readers see.
pub fn seen_of(protocol: &str, replica: &Replica) -> Result<Hash> {
    seen(protocol, &replica.store().snapshot(), &**replica.language())
}

fn seen(protocol: &str, snapshot: &Snapshot, language: &dyn Language) -> Result<Hash> {
    let block = genesis(protocol).to_block()?;
    let boundary = Boundary {
        order: block.batch.header().clone(),
        result: block.result.header().clone(),
        parameters: Arc::new(Parameters::new(protocol)),
        carried: Default::default(),
        past: Default::default(),
    };
    Ok(digest(snapshot, &boundary, &language.schema_image(snapshot)?)?)
}

/// Those of a story without its prunes, so that all of them are there to be executed.
fn blocks_of(story: &Story) -> Result<Vec<Known>> {
    let steps = story.steps.iter().filter(|step| !matches!(step, Step::Prune));
    let steps: Vec<Step> = steps.cloned().collect();
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    begin(&shared, story.protocol)?;
    tell(&runtime()?, &mut Running::open(&shared, story.protocol)?, &steps, &|| 0);
    executed(story, &files)
}

/// Each block, executed from genesis.
fn executed(story: &Story, files: &MemoryFiles) -> Result<Vec<Known>> {
    let mut blocks = BTreeMap::new();
    let mut failure = None;
    let mut after = |replica: &Replica, _| match known_of(story, replica) {
        Ok(known) => drop(blocks.insert(replica.head().height, known)),
        Err(error) => failure = Some(error),
    };
    let replayed = replay_watched(Arc::new(files.clone()), &language, 1, &mut after);
    replayed.map_err(|fault: Fault| anyhow!("{fault}"))?;
    match failure {
        Some(error) => Err(error),
        None => Ok(blocks.into_values().collect()),
    }
}
