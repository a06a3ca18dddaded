//! A cluster under test.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::random::Random;
use ledger::{BlockReader, BlockWriter, Files, Genesis, LogOptions, MemoryFiles, Parameters};
use order::{Delivery, Limits, Network, Orderer, Released};
use order_raft::{Config, Node, Store, Timing};
use tokio::runtime::Runtime;

/// What the network does to messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub delay_ms_max: u64,
    /// One in so many is lost; 0: none.
    pub lost_one_in: u64,
    pub doubled_one_in: u64,
    /// What a line carries; 0: all at once.
    pub bytes_per_ms: u64,
}

impl Faults {
    pub const MANY: Faults =
        Faults { delay_ms_max: 30, lost_one_in: 8, doubled_one_in: 10, bytes_per_ms: 0 };
}

struct Wires {
    random: Random,
    faults: Faults,
    nodes: Vec<Option<Node>>,
    /// From, to: nothing passes.
    cut: Vec<(usize, usize)>,
    /// Messages to each node, arrived or not.
    calls: Vec<u64>,
}

struct Wire {
    from: usize,
    wires: Arc<Mutex<Wires>>,
}

impl Network for Wire {
    fn call(&self, to: u64, request: Bytes) -> BoxFuture<'static, io::Result<Bytes>> {
        let (from, to, wires) = (self.from, to as usize, Arc::clone(&self.wires));
        wires.lock().unwrap().calls[to] += 1;
        async move {
            // As a connection is refused, at once.
            if wires.lock().unwrap().nodes[to].is_none() {
                return Err(io::Error::other("the node is down"));
            }
            if pass(&wires, (from, to), request.len()).await? {
                let _ = answer(&wires, to, request.clone()).await;
            }
            let answered = answer(&wires, to, request).await?;
            pass(&wires, (to, from), answered.len()).await?;
            Ok(answered)
        }
        .boxed()
    }
}

/// One way; whether the message is there twice.
async fn pass(wires: &Mutex<Wires>, (from, to): (usize, usize), bytes: usize) -> io::Result<bool> {
    let (delay, doubled, lost) = {
        let mut wires = wires.lock().unwrap();
        let Faults { delay_ms_max, lost_one_in, doubled_one_in, bytes_per_ms } = wires.faults;
        let lost =
            wires.cut.contains(&(from, to)) || lost_one_in > 0 && wires.random.chance(lost_one_in);
        let doubled = doubled_one_in > 0 && wires.random.chance(doubled_one_in);
        let line = (bytes as u64).checked_div(bytes_per_ms).unwrap_or_default();
        (1 + line + wires.random.below(delay_ms_max + 1), doubled, lost)
    };
    tokio::time::sleep(Duration::from_millis(delay)).await;
    if lost {
        // The sender learns nothing, for long.
        tokio::time::sleep(Duration::from_secs(2)).await;
        return Err(io::Error::other("lost"));
    }
    Ok(doubled)
}

async fn answer(wires: &Mutex<Wires>, to: usize, request: Bytes) -> io::Result<Bytes> {
    let node = wires.lock().unwrap().nodes[to].clone();
    let node = node.ok_or_else(|| io::Error::other("the node is down"))?;
    // A node that stops meanwhile never answers.
    node.answer(request).await
}

pub struct Cluster {
    pub runtime: Runtime,
    pub files: Vec<MemoryFiles>,
    wires: Arc<Mutex<Wires>>,
    limits: Limits,
    options: LogOptions,
    /// How far each node's clock is ahead.
    pub skews_us: Vec<Arc<AtomicI64>>,
    ahead_max: Option<Duration>,
    /// Each node's engine releases what it is given, in [`Cluster::poll`]. Otherwise all has been
    /// released from the start, for tests that look at a node now and then.
    pub executes: bool,
    /// Envelopes that each node was given.
    pub seen: Mutex<Vec<BTreeSet<Bytes>>>,
    pub clock_us: Arc<AtomicI64>,
}

impl Cluster {
    pub fn start(nodes: usize, limits: Limits, seed: u64) -> Cluster {
        Cluster::start_with(nodes, limits, seed, options(), None)
    }

    pub fn start_with(
        nodes: usize,
        limits: Limits,
        seed: u64,
        options: LogOptions,
        ahead_max: Option<Duration>,
    ) -> Cluster {
        let cluster = Cluster::founded_by(nodes, limits, seed, options, ahead_max);
        (0..nodes).for_each(|node| cluster.begin(node, 0));
        cluster
    }

    /// Its nodes execute what they are given.
    pub fn executing(nodes: usize, limits: Limits, seed: u64) -> Cluster {
        let mut cluster = Cluster::founded_by(nodes, limits, seed, options(), None);
        cluster.executes = true;
        (0..nodes).for_each(|node| cluster.begin(node, 0));
        cluster
    }

    fn founded_by(
        nodes: usize,
        limits: Limits,
        seed: u64,
        options: LogOptions,
        ahead_max: Option<Duration>,
    ) -> Cluster {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let files: Vec<MemoryFiles> = (0..nodes).map(|_| Cluster::founded_with(options)).collect();
        let wires = Wires {
            random: Random::new(seed),
            faults: Faults::default(),
            nodes: vec![None; nodes],
            cut: Vec::new(),
            calls: vec![0; nodes],
        };
        let (wires, clock_us) = (Arc::new(Mutex::new(wires)), Arc::new(AtomicI64::new(0)));
        Cluster {
            runtime,
            files,
            wires,
            limits,
            options,
            skews_us: (0..nodes).map(|_| Arc::default()).collect(),
            ahead_max,
            executes: false,
            seen: Mutex::new(vec![BTreeSet::new(); nodes]),
            clock_us,
        }
    }

    /// The folder of a member that has never run.
    pub fn founded() -> MemoryFiles {
        Cluster::founded_with(options())
    }

    fn founded_with(options: LogOptions) -> MemoryFiles {
        let genesis = Genesis {
            ledger_id: *b"a raft cluster 1",
            time_us: 0,
            parameters: Parameters::new("calvin"),
            executor: 1,
        };
        let files = MemoryFiles::new();
        BlockWriter::begin(Arc::new(files.clone()), &genesis, options).unwrap();
        // No two folders draw the same numbers.
        static FOUNDED: AtomicU64 = AtomicU64::new(0);
        (0..FOUNDED.fetch_add(1, Ordering::SeqCst)).for_each(|_| _ = files.salt());
        files
    }

    /// Makes Raft's own entries in a copy of another node's folder those of that node.
    pub fn take_anew(&self, files: &MemoryFiles, other: &MemoryFiles) {
        let other: Arc<dyn Files> = Arc::new(other.copy());
        let store = open(&other).unwrap();
        let own = store.own_up_to(store.height()).unwrap();
        let files: Arc<dyn Files> = Arc::new(files.clone());
        order_raft::begin_behind(&files, &own).unwrap();
    }

    pub fn size(&self) -> usize {
        self.files.len()
    }

    /// Starts a node that is down, which was given `after` deliveries for good.
    pub fn begin(&self, node: usize, after: u64) {
        let files: Arc<dyn Files> = Arc::new(self.files[node].clone());
        let store = open_with(&files, self.options).unwrap();
        let (clock, skew) = (Arc::clone(&self.clock_us), Arc::clone(&self.skews_us[node]));
        let config = Config {
            id: node as u64,
            members: (0..self.size() as u64).map(|id| (id, [id as u8 + 1; 32])).collect(),
            limits: self.limits,
            timing: Timing { patience: Duration::from_secs(3), ..Timing::default() },
            clock: Arc::new(move || clock.load(Ordering::SeqCst) + skew.load(Ordering::SeqCst)),
            ahead_max: self.ahead_max,
            is_barrier: |_| false,
        };
        let wire = Arc::new(Wire { from: node, wires: Arc::clone(&self.wires) });
        let mut started = self.runtime.block_on(Node::start(config, store, wire, after)).unwrap();
        let height = match (self.executes, after.checked_sub(1)) {
            (true, Some(last)) => started.store().height_at(last),
            (true, None) => 0,
            (false, _) => u64::MAX,
        };
        started.released(released(height));
        self.wires.lock().unwrap().nodes[node] = Some(started);
    }

    /// What a node is given next, which it has executed then.
    pub fn poll(&self, node: usize) -> Option<Delivery> {
        let mut handle = self.node(node)?;
        let delivery = handle.poll(0)?;
        if self.executes && delivery.content.is_some() {
            handle.released(released(handle.store().height_at(delivery.sequence - 1)));
        }
        Some(delivery)
    }

    /// Stops a node as its operator does.
    pub fn end(&self, node: usize) {
        let stopped = self.node(node).unwrap();
        self.runtime.block_on(stopped.stop());
        self.wires.lock().unwrap().nodes[node] = None;
    }

    /// Stops a node as a power cut does. What was given of its disk's doing is drawn.
    pub fn crash(&mut self, node: usize, random: &mut Random) {
        self.files[node] = self.files[node].crash(random);
        self.stop(node);
    }

    pub fn stop(&self, node: usize) {
        let stopped = self.wires.lock().unwrap().nodes[node].take();
        if let Some(stopped) = stopped {
            self.runtime.block_on(stopped.halt());
        }
    }

    pub fn node(&self, node: usize) -> Option<Node> {
        self.wires.lock().unwrap().nodes[node].clone()
    }

    pub fn pass(&self, millis: u64) {
        let wait = async move { tokio::time::sleep(Duration::from_millis(millis)).await };
        self.runtime.block_on(wait);
    }

    pub fn set_faults(&self, faults: Faults) {
        self.wires.lock().unwrap().faults = faults;
    }

    /// Nothing passes from the one to the other.
    pub fn cut(&self, from: usize, to: usize) {
        self.wires.lock().unwrap().cut.push((from, to));
    }

    pub fn heal(&self) {
        self.wires.lock().unwrap().cut.clear();
        self.set_faults(Faults::default());
    }

    /// Messages that were sent to a node so far.
    pub fn calls_to(&self, node: usize) -> u64 {
        self.wires.lock().unwrap().calls[node]
    }

    pub fn leader(&self) -> Option<usize> {
        let leads = |node: &usize| self.node(*node).is_some_and(|node| node.leads());
        (0..self.size()).filter(leads).max_by_key(|node| self.node(*node).unwrap().standing().term)
    }
}

fn released(height: u64) -> Released {
    let (result_hash, parameters_hash) = ([0; 32], [7; 32]);
    Released { height, result_hash, parameters_hash, names_seen: false, carried: 0 }
}

pub fn options() -> LogOptions {
    LogOptions { segment_bytes: 64 << 10, zero_fill_bytes: 4 << 10, sync: true }
}

pub fn open(files: &Arc<dyn Files>) -> io::Result<Store> {
    open_with(files, options())
}

fn open_with(files: &Arc<dyn Files>, options: LogOptions) -> io::Result<Store> {
    let mut reader = BlockReader::open(Arc::clone(files)).map_err(io::Error::other)?;
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(ledger::LogError::TornTail(_)) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    let BlockWriter { orders, .. } = BlockWriter::resume(reader, options)?;
    Store::open(Arc::clone(files), orders)
}
