//! Sessions on a live engine, over files in memory; and the same ledger, executed again.

mod approvals;
mod bounds;
mod chance;
mod codes;
mod copies;
mod cursors;
mod deferral;
mod deferred;
mod domains;
mod endorsed;
mod enums;
mod hostile;
mod interactive;
mod joined;
mod json;
mod keys;
mod locks;
mod migrations;
mod notices;
mod online;
mod past;
mod privileges;
mod proposed_transactions;
mod references;
mod roles;
mod row_locks;
mod schema_changes;
mod schemas;
mod sequences;
mod settings;
mod shared_state;
mod signed;
mod tables_as;
mod temporary;
mod times;
mod types;
mod zones;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use ::types::{DataType, Error, Result, SqlState, Value};
use bytes::Bytes;
use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Clock, EXECUTOR, Engine, EngineOptions, Language, NoObserver,
    RetentionSettings, Submitter, replay, replay_watched, resume_writing,
};
use ledger::signatures::SecretKey;
use ledger::{BlockReader, BlockResult, BlockWriter, Genesis, LogOptions, MemoryFiles, Parameters};
use sql::SessionInfo;
use sql::session::schema::Schema;
use sql::session::{Answer, Database, Session, SessionMemory};
use storage::Store;

pub type Row = Box<[Value]>;

/// Where the answer to a transaction comes from.
pub type Submitted = tokio::sync::oneshot::Receiver<Result<engine::Completion>>;

/// Of the key that nodes sign by.
pub const NODE_SEED: [u8; 32] = [200; 32];

/// What any protocol must bring about is tested under each of them.
pub fn protocols() -> impl Iterator<Item = &'static str> {
    multiversion::register();
    protocols::infos().map(|info| info.name)
}

/// A ledger in memory and the node on it.
pub struct Node {
    files: MemoryFiles,
    pub database: Arc<Database>,
}

impl Node {
    pub fn new(protocol: &str) -> Node {
        Node::with_clock(protocol, Arc::new(|| 0))
    }

    /// The clock is read when a block is begun.
    pub fn with_clock(protocol: &str, clock: Clock) -> Node {
        Node::retaining(protocol, clock, RetentionSettings::default())
    }

    pub fn retaining(protocol: &str, clock: Clock, retention: RetentionSettings) -> Node {
        Node::with(protocol, clock, retention, SessionMemory::default())
    }

    /// Whose sessions have so much memory.
    pub fn with(
        protocol: &str,
        clock: Clock,
        retention: RetentionSettings,
        memory: SessionMemory,
    ) -> Node {
        multiversion::register();
        let files = MemoryFiles::new();
        let parameters = Parameters::new(protocol);
        let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
        BlockWriter::begin(Arc::new(files.clone()), &genesis, options()).unwrap();
        Node::over(files, clock, retention, memory)
    }

    /// Another node, over what a crash leaves of this one's files.
    pub fn crashed(self, random: &mut kit::random::Random) -> Node {
        let left = self.files.crash(random);
        let clock: Clock = Arc::new(|| 0);
        Node::over(left, clock, RetentionSettings::default(), SessionMemory::default())
    }

    fn over(
        files: MemoryFiles,
        clock: Clock,
        retention: RetentionSettings,
        memory: SessionMemory,
    ) -> Node {
        let schema = Arc::new(Schema::new());
        let replayed = read(&files, &schema, 2);
        let log = resume_writing(replayed.reader, &replayed.unrecorded, options()).unwrap();
        let engine = Engine::start_with(
            replayed.replica,
            log,
            schema.clone(),
            BlockLimits::default(),
            clock,
            Arc::new(NoObserver),
            EngineOptions {
                retention,
                signer: Some(SecretKey::of_seed(NODE_SEED)),
                ..EngineOptions::default()
            },
        );
        Node {
            files,
            database: Arc::new(Database {
                engine: Arc::new(engine.unwrap()),
                schema,
                analytical_engine: None,
                memory,
                shared_state: Arc::default(),
            }),
        }
    }

    pub fn session(&self) -> Client {
        self.session_of("tally")
    }

    pub fn session_of(&self, user: &str) -> Client {
        static SESSIONS: AtomicI32 = AtomicI32::new(1);
        let backend_pid = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let user = user.into();
        let info = SessionInfo { user, backend_pid, reads_here: true, ..SessionInfo::default() };
        let interrupt = Arc::new(AtomicBool::new(false));
        let session = Session::new(Arc::clone(&self.database), info, Arc::clone(&interrupt));
        Client { session, interrupt }
    }

    /// Hands a transaction in, without waiting for its answer.
    pub fn submit(&self, body: Body) -> Submitted {
        let submitter = Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };
        self.database.engine.submit(submitter, &Asked::from(&body), None).unwrap()
    }

    /// Stops, and shows `after` the store of another engine that executes the ledger, after each
    /// block.
    pub fn replayed(&self, after: &mut dyn FnMut(&Arc<Store>)) {
        self.database.engine.stop();
        let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
        let files = Arc::new(self.files.clone());
        let replayed = replay_watched(files, &make, 1, &mut |replica, _| after(replica.store()));
        replayed.unwrap_or_else(|fault| panic!("{fault}"));
    }

    /// Stops, and reads the outcomes that the ledger holds.
    pub fn outcomes(&self) -> Vec<Bytes> {
        self.database.engine.stop();
        let mut reader = BlockReader::open(Arc::new(self.files.clone())).unwrap();
        let mut all = Vec::new();
        while let Some(recorded) = reader.next().unwrap() {
            let result = BlockResult::of(&recorded.result.unwrap()).unwrap();
            if result.height() > 0 {
                all.extend_from_slice(result.outcomes());
            }
        }
        all
    }

    /// Stop, and execute the ledger again: any difference panics.
    pub fn verify(self) {
        self.database.engine.stop();
        let head = self.database.engine.head();
        for workers in [1, 2, 8] {
            let replayed = read(&self.files, &Arc::new(Schema::new()), workers);
            assert_eq!(replayed.replica.head().hash, head.hash);
        }
    }
}

fn options() -> LogOptions {
    LogOptions { zero_fill_bytes: 4096, ..LogOptions::default() }
}

fn read(files: &MemoryFiles, schema: &Arc<Schema>, workers: usize) -> engine::Replayed {
    let language: Arc<dyn Language> = schema.clone();
    let make = |_: &Arc<Store>| Arc::clone(&language);
    let replayed = replay(Arc::new(files.clone()), &make, workers, &mut |_| ());
    replayed.unwrap_or_else(|fault| panic!("{fault}"))
}

pub struct Client {
    pub session: Session,
    pub interrupt: Arc<AtomicBool>,
}

impl Client {
    /// As the extended protocol does: with the types of some parameters.
    pub async fn run_typed(
        &mut self,
        text: &str,
        types: &[Option<DataType>],
        parameters: &[Value],
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for source in self.session.read(text)? {
            let answer = match self.session.prepare_source(source, types) {
                Ok((prepared, literals)) if literals.is_empty() => {
                    self.session.execute(&prepared, parameters).await
                }
                Ok((prepared, literals)) => self.session.execute_lifted(&prepared, &literals).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer::Rows { rows: more, .. }) => rows = more,
                Ok(_) => {}
                Err(error) => {
                    self.session.statement_failed();
                    return Err(error);
                }
            }
        }
        Ok(rows)
    }

    pub async fn run(&mut self, text: &str) -> Result<Vec<Row>> {
        self.run_typed(text, &[], &[]).await
    }

    /// Of one statement, with what it holds.
    pub async fn answer(&mut self, text: &str) -> Result<Answer> {
        let parsed = self.session.parse(text)?.remove(0);
        let prepared = self.session.prepare(parsed, &[])?;
        self.session.execute(&prepared, &[]).await
    }

    pub async fn number(&mut self, text: &str) -> i64 {
        let rows = self.run(text).await.unwrap();
        rows[0][0].as_int().unwrap()
    }
}

pub fn code<T>(answer: Result<T>) -> SqlState {
    answer.err().map_or(SqlState(*b"00000"), |error: Error| error.code())
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_time().build().unwrap().block_on(future)
}

#[test]
fn what_sql_prepares_is_executed_with_its_columns_and_forgotten() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("PREPARE put AS INSERT INTO t VALUES ($1, $2) RETURNING v").await.unwrap();
        client.run("PREPARE sum (int) AS SELECT $1 + sum(v) FROM t").await.unwrap();
        assert_eq!(client.number("EXECUTE put (1, '5')").await, 5);
        assert_eq!(client.number("EXECUTE sum (3)").await, 8);
        let parsed = client.session.parse("EXECUTE sum (3)").unwrap().remove(0);
        let reported = client.session.prepare(parsed, &[]).unwrap().bound.output.clone();
        assert!(matches!(reported, procedure::Output::Rows(columns) if columns.len() == 1));
        // The same text, another statement.
        client.run("DEALLOCATE sum; PREPARE sum (int) AS SELECT $1 * 2").await.unwrap();
        assert_eq!(client.number("EXECUTE sum (3)").await, 6);
        for (wrong, expected) in [
            ("EXECUTE sum", "42601"),
            ("EXECUTE sum ('x')", "22P02"),
            ("EXECUTE nothing", "26000"),
            ("PREPARE sum AS SELECT 1", "42P05"),
            ("PREPARE x AS SELECT nothing", "42703"),
            ("PREPARE x AS EXECUTE x", "42601"),
            ("PREPARE x AS CREATE TABLE u (a int)", "42601"),
        ] {
            assert_eq!(code(client.run(wrong).await).as_str(), expected, "{wrong}");
        }
        assert_eq!(client.run("SHOW ALL").await.unwrap()[0].len(), 3);
        node.verify();
    });
}
