//! One run of the hybrid workload (figures 2.8 to 2.11): OLTP and OLAP streams on one of AnKer's
//! configurations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anker::area::Area;
use anker::areas::{Physical, Private, Slabs};
use anker::{Configuration, Engine};
use anyhow::{Result, anyhow};
use kit::random::Random;
use kit::sync::lock;

use super::queries::{QUERIES, TpccQuery};
use super::tables::Tables;
use super::transactions::Client;
use crate::run::cpu_time;

/// A configuration and the technique under it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    SeeFs,
    SeeSi,
    SeeRu,
    /// `HEE_AnKer` with copy-on-write slabs in the place of `vm_snapshot`.
    Slabs,
    /// `HEE_AnKer` with private mappings in its place.
    Private,
    Fork,
}

impl System {
    pub const ALL: [System; 6] =
        [System::SeeFs, System::SeeSi, System::SeeRu, System::Slabs, System::Private, System::Fork];

    pub fn name(self) -> &'static str {
        match self {
            System::SeeFs => "SEE_FS",
            System::SeeSi => "SEE_SI",
            System::SeeRu => "SEE_RU",
            System::Slabs => "HEE_AnKer, slabs",
            System::Private => "HEE_AnKer, private",
            System::Fork => "HEE_fork",
        }
    }

    pub fn configuration(self) -> Configuration {
        match self {
            System::SeeFs => Configuration::SeeFs,
            System::SeeSi => Configuration::SeeSi,
            System::SeeRu => Configuration::SeeRu,
            System::Slabs | System::Private => Configuration::HeeAnker,
            System::Fork => Configuration::HeeFork,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub system: System,
    pub tables: Tables,
    pub skewed: bool,
    pub oltp_streams: usize,
    pub olap_streams: usize,
    /// Without queries.
    pub warm_up: Duration,
    /// With them.
    pub duration: Duration,
    pub query_every: Duration,
    /// The one that is asked, or any.
    pub query: Option<usize>,
    pub seed: u64,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Setting { system, tables, oltp_streams, olap_streams, .. } = self;
        write!(f, "{}, {} warehouses, ", system.name(), tables.warehouses)?;
        write!(f, "{oltp_streams} OLTP and {olap_streams} OLAP streams")?;
        f.write_str(if self.skewed { ", skewed" } else { "" })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct QueryCost {
    /// From 1 to 8.
    pub query: usize,
    pub snapshot: Duration,
    pub reading: Duration,
}

impl QueryCost {
    pub fn latency(&self) -> Duration {
        self.snapshot + self.reading
    }
}

#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Committed in each tenth of the run.
    pub tenths: [u64; 10],
    pub tenth: Duration,
    pub warm_up_per_second: f64,
    /// While queries run.
    pub per_second: f64,
    /// Of the whole run, the queries' included.
    pub per_cpu_second: f64,
    pub refused_share: f64,
    pub queries: Vec<QueryCost>,
}

const COLLECTOR_PERIOD: Duration = Duration::from_secs(1);

pub fn run(setting: &Setting) -> Result<Trace> {
    match setting.system {
        System::SeeFs | System::SeeSi | System::SeeRu | System::Fork => run_on::<Physical>(setting),
        System::Slabs => run_on::<Slabs>(setting),
        System::Private => run_on::<Private>(setting),
    }
}

/// What the threads of a run share.
struct Shared {
    stop: AtomicBool,
    committed: AtomicU64,
    refused: AtomicU64,
    /// Wakes the threads that sleep until the next query or collection.
    over: (Mutex<bool>, Condvar),
    queries: Mutex<Vec<QueryCost>>,
}

impl Shared {
    /// Sleeps; false: the run is over.
    fn sleep(&self, time: Duration) -> bool {
        let over = lock(&self.over.0);
        let slept = self.over.1.wait_timeout_while(over, time, |over| !*over);
        !*slept.unwrap_or_else(PoisonError::into_inner).0
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        *lock(&self.over.0) = true;
        self.over.1.notify_all();
    }
}

fn run_on<A: Area>(setting: &Setting) -> Result<Trace> {
    let configuration = setting.system.configuration();
    let engine: Engine<A> = Engine::new(configuration, &setting.tables.rows())?;
    setting.tables.load(&engine)?;
    let shared = Shared {
        stop: AtomicBool::new(false),
        committed: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        over: (Mutex::new(false), Condvar::new()),
        queries: Mutex::default(),
    };
    let mut trace = Trace::default();
    let cpu = cpu_time();
    thread::scope(|scope| -> Result<()> {
        let (engine, shared) = (&engine, &shared);
        for stream in 0..setting.oltp_streams {
            scope.spawn(move || oltp(engine, setting, shared, stream as u64));
        }
        if configuration.makes_versions() && !configuration.is_hybrid() {
            scope.spawn(move || {
                while shared.sleep(COLLECTOR_PERIOD) {
                    engine.collect();
                }
            });
        }
        thread::sleep(setting.warm_up);
        let before = shared.committed.load(Ordering::Relaxed);
        trace.warm_up_per_second = before as f64 / setting.warm_up.as_secs_f64();
        let streams: Vec<_> = (0..setting.olap_streams)
            .map(|stream| scope.spawn(move || olap(engine, setting, shared, stream as u64)))
            .collect();
        let (start, tenth) = (Instant::now(), setting.duration / 10);
        for (at, count) in (1u32..).zip(&mut trace.tenths) {
            let from = shared.committed.load(Ordering::Relaxed);
            thread::sleep((tenth * at).saturating_sub(start.elapsed()));
            *count = shared.committed.load(Ordering::Relaxed) - from;
        }
        let committed = shared.committed.load(Ordering::Relaxed) - before;
        trace.per_second = committed as f64 / start.elapsed().as_secs_f64();
        trace.tenth = tenth;
        shared.end();
        streams.into_iter().try_for_each(|stream| match stream.join() {
            Ok(asked) => asked,
            Err(_) => Err(anyhow!("a query panicked")),
        })
    })?;
    let (committed, refused) = (shared.committed.into_inner(), shared.refused.into_inner());
    trace.per_cpu_second = committed as f64 / (cpu_time() - cpu).as_secs_f64();
    trace.refused_share = refused as f64 / (committed + refused).max(1) as f64;
    trace.queries = shared.queries.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(trace)
}

fn oltp<A: Area>(engine: &Engine<A>, setting: &Setting, shared: &Shared, stream: u64) {
    let seed = setting.seed * 1_000 + stream;
    let mut client = Client::new(engine, setting.tables, setting.skewed, seed);
    while !shared.stop.load(Ordering::Relaxed) {
        match client.run() {
            Ok(()) => shared.committed.fetch_add(1, Ordering::Relaxed),
            Err(_) => shared.refused.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// A query at every beat, or at once where the one before took longer.
fn olap<A: Area>(
    engine: &Engine<A>,
    setting: &Setting,
    shared: &Shared,
    stream: u64,
) -> Result<()> {
    let mut random = Random::new(setting.seed * 7_000 + stream);
    let (start, mut asked) = (Instant::now(), 0);
    loop {
        let number = setting.query.unwrap_or_else(|| 1 + random.below(QUERIES as u64) as usize);
        let answered = engine.query(&TpccQuery::numbered(number, &setting.tables))?;
        std::hint::black_box(&answered.words);
        let cost =
            QueryCost { query: number, snapshot: answered.snapshot, reading: answered.reading };
        lock(&shared.queries).push(cost);
        asked += 1;
        let pause = (setting.query_every * asked).saturating_sub(start.elapsed());
        if !shared.sleep(pause) {
            return Ok(());
        }
    }
}
