//! Sessions that ask: SQL in, rows out, over a live engine.

mod agreement;
mod answers;
mod joins;
mod limits;
mod membership;
mod random;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use analytics::{Analytics, AnalyticsOptions};
use engine::{BlockLimits, Engine, Language, NoObserver, replay};
use futures::StreamExt;
use ledger::{BlockWriter, Genesis, LogOptions, MemoryFiles, Parameters};
use procedure::Output;
use sql::SessionInfo;
use sql::session::schema::Schema;
use sql::session::{Answer, Database, Session, SessionMemory};
use storage::Store;
use types::{DataType, Error, Result, SqlState, Value};

pub fn roomy() -> AnalyticsOptions {
    AnalyticsOptions {
        threads: 2,
        image_bytes_max: 1 << 30,
        query_bytes_max: 1 << 28,
        spill_folder: None,
    }
}

/// A ledger in memory, the node on it, and who analyses it.
pub struct Node {
    pub database: Arc<Database>,
    pub analytics: Arc<Analytics>,
}

impl Node {
    pub fn new(options: &AnalyticsOptions) -> Node {
        let files = MemoryFiles::new();
        let parameters = Parameters::new("harmony");
        let genesis =
            Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: engine::EXECUTOR };
        BlockWriter::begin(Arc::new(files.clone()), &genesis, log_options()).expect("a ledger");
        let schema = Arc::new(Schema::new());
        let language: Arc<dyn Language> = schema.clone();
        let make = |_: &Arc<Store>| Arc::clone(&language);
        let Ok(replayed) = replay(Arc::new(files), &make, 2, &mut |_| ()) else {
            panic!("a new ledger can be read");
        };
        let log = engine::resume_writing(replayed.reader, &replayed.unrecorded, log_options())
            .expect("a log");
        // 2026-03-01 12:00:00 UTC.
        let clock = Arc::new(|| 825_681_600_000_000);
        let limits = BlockLimits::default();
        let (replica, observer) = (replayed.replica, Arc::new(NoObserver));
        let engine = Engine::start(replica, log, schema.clone(), limits, clock, observer);
        let engine = Arc::new(engine.expect("an engine"));
        let analytics = Analytics::new(engine.store().clone(), options).expect("analytics");
        let analytics = Arc::new(analytics);
        let analytical_engine: Option<Arc<dyn sql::analytical_engine::AnalyticalEngine>> =
            Some(analytics.clone());
        let (memory, shared_state) = (SessionMemory::default(), Arc::default());
        let database = Database { engine, schema, analytical_engine, memory, shared_state };
        Node { database: Arc::new(database), analytics }
    }

    pub fn session(&self) -> Client {
        let interrupt = Arc::new(AtomicBool::new(false));
        let database = Arc::clone(&self.database);
        let session = Session::new(database, SessionInfo::default(), Arc::clone(&interrupt));
        Client { session, interrupt }
    }
}

fn log_options() -> LogOptions {
    LogOptions { zero_fill_bytes: 4096, ..LogOptions::default() }
}

pub struct Client {
    pub session: Session,
    pub interrupt: Arc<AtomicBool>,
}

/// What a statement answered, and who did.
pub struct Reported {
    pub columns: Vec<(String, DataType)>,
    pub rows: Vec<Box<[Value]>>,
    pub by_analytical_engine: bool,
}

impl Reported {
    /// Rows as lines: values by commas.
    pub fn lines(&self) -> Vec<String> {
        let text = |(value, (_, data_type)): (&Value, &(String, DataType))| match value {
            Value::Null => "NULL".to_owned(),
            value => value.to_text(data_type),
        };
        let line =
            |row: &[Value]| row.iter().zip(&self.columns).map(text).collect::<Vec<_>>().join(",");
        self.rows.iter().map(|row| line(row)).collect()
    }

    /// `name type` of each column.
    pub fn head(&self) -> String {
        let columns = self.columns.iter().map(|(name, data_type)| format!("{name} {data_type}"));
        columns.collect::<Vec<_>>().join(",")
    }
}

impl Client {
    /// The last statement's answer.
    pub async fn tell(&mut self, text: &str, parameters: &[Value]) -> Result<Reported> {
        let mut reported =
            Reported { columns: Vec::new(), rows: Vec::new(), by_analytical_engine: false };
        for source in self.session.read(text)? {
            let answer = match self.session.prepare_source(source, &[]) {
                Ok((prepared, literals)) => {
                    reported.columns = match &prepared.bound.output {
                        Output::Rows(columns) => {
                            columns.iter().map(|c| (c.name.clone(), c.data_type.clone())).collect()
                        }
                        Output::Tag => Vec::new(),
                    };
                    let parameters = if literals.is_empty() { parameters } else { &literals };
                    self.session.execute(&prepared, parameters).await
                }
                Err(error) => Err(error),
            };
            let fetched = match answer {
                Ok(Answer::Rows { rows, .. }) => Ok((rows, false)),
                Ok(Answer::Stream { mut rows, .. }) => {
                    let mut all = Vec::new();
                    loop {
                        match rows.next().await {
                            Some(Ok(batch)) => all.extend(batch),
                            Some(Err(error)) => break Err(error),
                            None => break Ok((all, true)),
                        }
                    }
                }
                Ok(_) => Ok((Vec::new(), false)),
                Err(error) => Err(error),
            };
            match fetched {
                Ok((rows, by_analytical_engine)) => {
                    (reported.rows, reported.by_analytical_engine) = (rows, by_analytical_engine)
                }
                Err(error) => {
                    self.session.statement_failed();
                    return Err(error);
                }
            }
        }
        Ok(reported)
    }

    pub async fn run(&mut self, text: &str) -> Reported {
        self.tell(text, &[]).await.unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    /// From here on DataFusion runs what only reads, or refuses it.
    pub async fn by_columns(&mut self) {
        self.run("SET tally.executor = columns").await;
    }

    /// As the router says.
    pub async fn by_router(&mut self) {
        self.run("RESET tally.executor").await;
    }

    pub async fn lines(&mut self, text: &str) -> Vec<String> {
        self.run(text).await.lines()
    }

    pub async fn error(&mut self, text: &str) -> Error {
        match self.tell(text, &[]).await {
            Ok(reported) => panic!("{text}: {:?}", reported.lines()),
            Err(error) => error,
        }
    }

    pub async fn code(&mut self, text: &str) -> SqlState {
        self.error(text).await.code()
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_time().build().expect("a runtime").block_on(future)
}
