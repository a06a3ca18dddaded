//! Sessions on a live engine, over files in memory; and the same ledger, executed again.

mod bounds;
mod schema_changes;
mod types;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::types::{DataType, Error, Result, SqlState, Value};
use engine::{BlockLimits, Engine, Language, NoObserver, replay};
use ledger::{Genesis, LogOptions, LogReader, LogWriter, MemoryFiles, Parameters};
use sql::SessionInfo;
use sql::session::schema::Schema;
use sql::session::{Answer, Database, Session};
use storage::Store;

pub type Row = Box<[Value]>;

/// A ledger in memory and the node on it.
pub struct Node {
    files: MemoryFiles,
    pub database: Arc<Database>,
}

impl Node {
    pub fn new(protocol: &str) -> Node {
        let files = MemoryFiles::new();
        let genesis =
            Genesis { ledger_id: [7; 16], time_us: 0, parameters: Parameters::new(protocol) };
        let mut reader = LogReader::open(Arc::new(files.clone())).unwrap();
        reader.next_block().unwrap();
        let mut log = LogWriter::resume(reader, options()).unwrap();
        log.append(&[genesis.to_block().unwrap().encode().unwrap()]).unwrap();
        drop(log);
        let schema = Arc::new(Schema::new());
        let replayed = read(&files, &schema, 2);
        let log = LogWriter::resume(replayed.reader, options()).unwrap();
        let clock = Arc::new(|| 0);
        let engine = Engine::start(
            replayed.replica,
            log,
            schema.clone(),
            BlockLimits::default(),
            clock,
            Arc::new(NoObserver),
        );
        Node { files, database: Arc::new(Database { engine: Arc::new(engine.unwrap()), schema }) }
    }

    pub fn session(&self) -> Client {
        let info = SessionInfo { user: "tally".into(), ..SessionInfo::default() };
        let interrupt = Arc::new(AtomicBool::new(false));
        let session = Session::new(Arc::clone(&self.database), info, Arc::clone(&interrupt));
        Client { session, interrupt }
    }

    /// Stop, and execute the ledger again: any difference panics.
    pub fn verify(self) {
        self.database.engine.stop();
        let head = self.database.engine.head();
        for workers in [1, 2] {
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
                Ok((prepared, literals)) => self.session.execute(&prepared, &literals).await,
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
    runtime.worker_threads(2).build().unwrap().block_on(future)
}
