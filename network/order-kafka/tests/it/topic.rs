//! A topic in memory, whose answers are late, lost or wrong as a seed says, and nodes on it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::random::Random;
use ledger::{Files, MemoryFiles};
use order::{Limits, Orderer, Released};
use order_kafka::{Config, Log, LogError, Node, Timing};
use tokio::runtime::Runtime;

pub const LEDGER_ID: [u8; 16] = *b"a kafka ledger 1";

#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub delay_ms_max: u64,
    /// One in so many calls fails before anything is done; 0: none.
    pub lost_one_in: u64,
    /// One in so many appends is done, and its answer lost, perhaps for a later moment.
    pub unanswered_one_in: u64,
}

impl Faults {
    pub const MANY: Faults = Faults { delay_ms_max: 40, lost_one_in: 6, unanswered_one_in: 4 };
}

pub struct State {
    pub random: Random,
    pub faults: Faults,
    /// Nothing can be reached.
    pub down: bool,
    pub exists: bool,
    /// Offset of the first record that is kept.
    pub first: u64,
    pub records: Vec<Bytes>,
    /// Appends that were not answered, and come later.
    late: Vec<Bytes>,
}

impl State {
    fn read(&self, from: u64, most: u64) -> Result<Vec<(u64, Bytes)>, LogError> {
        if !self.exists {
            return Err(LogError::NoTopic);
        }
        let end = self.records.len() as u64;
        if from < self.first || from > end {
            return Err(LogError::OutOfRange);
        }
        let numbers = from..end.min(from + most);
        Ok(numbers.map(|at| (at, self.records[at as usize].clone())).collect())
    }
}

#[derive(Clone)]
pub struct Topic(pub Arc<Mutex<State>>);

impl Topic {
    pub fn new(seed: u64) -> Topic {
        let (faults, records, late) = Default::default();
        let random = Random::new(seed);
        let state = State { random, faults, down: false, exists: false, first: 0, records, late };
        Topic(Arc::new(Mutex::new(state)))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The way there, and back.
    async fn travel(&self) -> Result<(), LogError> {
        let (delay, lost) = {
            let mut state = self.state();
            let Faults { delay_ms_max, lost_one_in, .. } = state.faults;
            let lost = state.down || lost_one_in > 0 && state.random.chance(lost_one_in);
            (1 + state.random.below(delay_ms_max + 1), lost)
        };
        tokio::time::sleep(Duration::from_millis(delay)).await;
        match lost {
            true => Err(LogError::Away("lost".to_owned())),
            false => Ok(()),
        }
    }
}

impl Log for Topic {
    fn append(&self, record: Bytes) -> BoxFuture<'static, Result<(), LogError>> {
        let topic = self.clone();
        async move {
            topic.travel().await?;
            let mut state = topic.state();
            if !state.exists {
                return Err(LogError::NoTopic);
            }
            if let Some(late) = state.late.pop() {
                state.records.push(late);
            }
            let one_in = state.faults.unanswered_one_in;
            if one_in > 0 && state.random.chance(one_in) {
                match state.random.chance(2) {
                    true => state.late.push(record),
                    false => state.records.push(record),
                }
                return Err(LogError::Away("no answer".to_owned()));
            }
            state.records.push(record);
            Ok(())
        }
        .boxed()
    }

    fn read(&self, from: u64) -> BoxFuture<'static, Result<Vec<(u64, Bytes)>, LogError>> {
        let topic = self.clone();
        async move {
            topic.travel().await?;
            let most = topic.state().random.below(5) + 1;
            for _ in 0..20 {
                let found = topic.state().read(from, most)?;
                if !found.is_empty() {
                    return Ok(found);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(Vec::new())
        }
        .boxed()
    }

    fn ends(&self) -> BoxFuture<'static, Result<(u64, u64), LogError>> {
        let topic = self.clone();
        async move {
            topic.travel().await?;
            let state = topic.state();
            match state.exists {
                true => Ok((state.first, state.records.len() as u64)),
                false => Err(LogError::NoTopic),
            }
        }
        .boxed()
    }

    fn create(&self) -> BoxFuture<'static, Result<(), LogError>> {
        let topic = self.clone();
        async move {
            topic.travel().await?;
            topic.state().exists = true;
            Ok(())
        }
        .boxed()
    }
}

pub struct Cluster {
    pub runtime: Runtime,
    pub topic: Topic,
    pub files: Vec<MemoryFiles>,
    nodes: Vec<Option<Node>>,
    pub limits: Limits,
    incarnations: u64,
    pub clock_us: Arc<AtomicI64>,
}

impl Cluster {
    pub fn start(nodes: usize, limits: Limits, seed: u64) -> Cluster {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let mut cluster = Cluster {
            runtime,
            topic: Topic::new(seed),
            files: (0..nodes).map(|_| MemoryFiles::new()).collect(),
            nodes: (0..nodes).map(|_| None).collect(),
            limits,
            incarnations: seed << 20,
            clock_us: Arc::default(),
        };
        (0..nodes).for_each(|node| cluster.begin(node, 0));
        cluster
    }

    pub fn size(&self) -> usize {
        self.files.len()
    }

    /// Starts a node that is down, which was given `after` deliveries for good.
    pub fn begin(&mut self, node: usize, after: u64) {
        let limits = self.limits;
        self.begin_with(node, after, limits, LEDGER_ID);
    }

    pub fn begin_with(&mut self, node: usize, after: u64, limits: Limits, ledger_id: [u8; 16]) {
        self.incarnations += 1;
        let mut incarnation = [0; 16];
        incarnation[..8].copy_from_slice(&self.incarnations.to_be_bytes());
        let clock = Arc::clone(&self.clock_us);
        let config = Config {
            proposer: [node as u8 + 1; 32],
            ledger_id,
            incarnation,
            limits,
            timing: Timing::default(),
            clock: Arc::new(move || clock.load(Ordering::SeqCst)),
            topic: "orders".to_owned(),
        };
        let files: Arc<dyn Files> = Arc::new(self.files[node].clone());
        let _inside = self.runtime.enter();
        let log = Arc::new(self.topic.clone());
        let mut started = Node::start(config, log, files, after).unwrap();
        let (parameters_hash, names_seen, carried) = ([7; 32], false, 0);
        started.released(Released {
            height: u64::MAX,
            result_hash: [0; 32],
            parameters_hash,
            names_seen,
            carried,
        });
        self.nodes[node] = Some(started);
    }

    pub fn stop(&mut self, node: usize) {
        if let Some(stopped) = self.nodes[node].take() {
            stopped.stop();
        }
    }

    /// Stops a node as a power cut does; what its disk did is drawn.
    pub fn crash(&mut self, node: usize, random: &mut Random) {
        self.stop(node);
        self.files[node] = self.files[node].crash(random);
    }

    pub fn node(&mut self, node: usize) -> Option<&mut Node> {
        self.nodes[node].as_mut()
    }

    pub fn pass(&self, millis: u64) {
        let wait = async move { tokio::time::sleep(Duration::from_millis(millis)).await };
        self.runtime.block_on(wait);
    }
}
