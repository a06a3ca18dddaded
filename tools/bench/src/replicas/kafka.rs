//! Three brokers, of which one leads; see the module above.

use super::parts::{Log, Nanos};
use super::world::{Event as Any, Stage};

pub const BROKERS: usize = 3;

/// What is said about a batch beside it.
const WORD_BYTES: u64 = 100;
/// The leader and another one.
const COPIES_MIN: usize = 2;
/// Batches that are cut and not committed, as clients of Kafka have it.
const UNDER_WAY_MAX: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// The first one that waits, of the batch that has this number, has waited long enough.
    Due(usize),
    Append {
        batch: usize,
        broker: usize,
    },
    Synced(usize),
    Has(usize),
    Committed {
        batch: usize,
        broker: usize,
    },
}

pub struct Kafka {
    linger: Nanos,
    sync: Nanos,
    replicas: usize,
    waiting: Vec<usize>,
    under_way: usize,
    /// What waits has waited long enough.
    is_due: bool,
    logs: [Log; BROKERS],
    copies: Vec<Copies>,
}

/// Of a batch, on disk.
#[derive(Clone, Copy, Default)]
struct Copies {
    count: usize,
    on_leader: bool,
    committed: bool,
}

impl Kafka {
    pub fn new(linger: Nanos, sync: Nanos, replicas: usize) -> Kafka {
        let (waiting, logs, copies) = (Vec::new(), Default::default(), Vec::new());
        let (under_way, is_due) = (0, false);
        Kafka { linger, sync, replicas, waiting, under_way, is_due, logs, copies }
    }

    pub fn sync_busy(&self) -> Nanos {
        self.logs.iter().map(Log::busy).max().unwrap_or(0)
    }

    pub fn submitted(&mut self, stage: &mut Stage<'_>, transaction: usize) {
        self.waiting.push(transaction);
        if self.waiting.len() == 1 {
            self.wait(stage);
        }
        self.cut_what_may_be(stage);
    }

    /// From now on, for the batch that is cut next.
    fn wait(&mut self, stage: &mut Stage<'_>) {
        let due = Any::Kafka(Event::Due(stage.batches.len()));
        stage.at(stage.now + self.linger, due);
    }

    fn cut_what_may_be(&mut self, stage: &mut Stage<'_>) {
        let full = stage.scene.system.block_transactions;
        while self.under_way < UNDER_WAY_MAX
            && (self.waiting.len() >= full || self.is_due && !self.waiting.is_empty())
        {
            self.cut(stage);
        }
    }

    pub fn happen(&mut self, stage: &mut Stage<'_>, event: Event) {
        match event {
            Event::Due(batch) => {
                if stage.batches.len() == batch {
                    self.is_due = true;
                    self.cut_what_may_be(stage);
                }
            }
            Event::Append { batch, broker } => self.append(stage, batch, broker),
            Event::Synced(broker) => {
                let (batches, again) = self.logs[broker].end();
                if again {
                    self.begin_sync(stage, broker);
                }
                for batch in batches {
                    match broker {
                        0 => {
                            self.copies[batch].on_leader = true;
                            self.has(stage, batch);
                        }
                        _ => {
                            let (from, to) = (self.replicas + broker, self.replicas);
                            stage.send(from, to, WORD_BYTES, Any::Kafka(Event::Has(batch)));
                        }
                    }
                }
            }
            Event::Has(batch) => self.has(stage, batch),
            Event::Committed { batch, broker } => self.deliver(stage, batch, broker),
        }
    }

    fn cut(&mut self, stage: &mut Stage<'_>) {
        let batch = stage.batches.len();
        let count = self.waiting.len().min(stage.scene.system.block_transactions);
        stage.batches.push(self.waiting.drain(..count).collect());
        (self.under_way, self.is_due) = (self.under_way + 1, false);
        if !self.waiting.is_empty() {
            self.wait(stage);
        }
        self.copies.push(Copies::default());
        self.append(stage, batch, 0);
        let bytes = stage.bytes_of(batch);
        for broker in 1..BROKERS {
            let append = Any::Kafka(Event::Append { batch, broker });
            stage.send(self.replicas, self.replicas + broker, bytes, append);
        }
    }

    fn append(&mut self, stage: &mut Stage<'_>, batch: usize, broker: usize) {
        if self.logs[broker].append(batch) {
            self.begin_sync(stage, broker);
        }
    }

    fn begin_sync(&mut self, stage: &mut Stage<'_>, broker: usize) {
        self.logs[broker].begin(self.sync);
        stage.at(stage.now + self.sync, Any::Kafka(Event::Synced(broker)));
    }

    /// Another copy is on disk, as the leader knows.
    fn has(&mut self, stage: &mut Stage<'_>, batch: usize) {
        let copies = &mut self.copies[batch];
        copies.count += 1;
        if copies.committed || !copies.on_leader || copies.count < COPIES_MIN {
            return;
        }
        copies.committed = true;
        self.under_way -= 1;
        for broker in 1..BROKERS {
            let word = Any::Kafka(Event::Committed { batch, broker });
            stage.send(self.replicas, self.replicas + broker, WORD_BYTES, word);
        }
        self.deliver(stage, batch, 0);
        self.cut_what_may_be(stage);
    }

    /// To the broker's share of the replicas.
    fn deliver(&mut self, stage: &mut Stage<'_>, batch: usize, broker: usize) {
        let bytes = stage.bytes_of(batch) + WORD_BYTES;
        for replica in (broker..self.replicas).step_by(BROKERS) {
            stage.send(self.replicas + broker, replica, bytes, Any::Ordered { batch, replica });
        }
    }
}
