//! The loop: events in the order of time, clients, endorsers, replicas; the orderers beside it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kit::random::Random;

use super::hotstuff::HotStuff;
use super::kafka::{BROKERS, Kafka};
use super::parts::{Nanos, SECOND, Server};
use super::scene::{Busiest, Ordering, Outcome, Scene};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// A client sends its transaction.
    Born(usize),
    /// It reaches an endorser.
    Proposed {
        transaction: usize,
        endorser: usize,
    },
    Endorsed {
        transaction: usize,
        endorser: usize,
    },
    /// What an endorser says reaches the client.
    Answered {
        transaction: usize,
    },
    /// It reaches who orders.
    Submitted(usize),
    Kafka(super::kafka::Event),
    HotStuff(super::hotstuff::Event),
    /// A batch whose order is certain reaches a replica.
    Ordered {
        batch: usize,
        replica: usize,
    },
    Executed {
        batch: usize,
        replica: usize,
    },
}

/// A machine: a replica, or a broker.
#[derive(Clone, Default, Debug)]
pub(super) struct Machine {
    pub card: Server,
    pub database: Server,
    pub core: Server,
}

struct Transaction {
    born: Nanos,
    /// The replica that its client is beside.
    home: usize,
    endorsed: usize,
}

enum Orderer {
    Kafka(Kafka),
    HotStuff(HotStuff),
}

/// What events act on, but for the orderer.
pub(super) struct Stage<'s> {
    pub scene: &'s Scene,
    pub now: Nanos,
    /// Replicas, then brokers.
    pub machines: Vec<Machine>,
    /// The transactions of each.
    pub batches: Vec<Vec<usize>>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    scheduled: u64,
}

impl Stage<'_> {
    pub fn at(&mut self, time: Nanos, event: Event) {
        self.events.push(Reverse((time, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// By the network card of a machine to another one; the event is its arrival.
    pub fn send(&mut self, from: usize, to: usize, bytes: u64, event: Event) {
        let network = &self.scene.network;
        let sent = self.machines[from].card.take(self.now, network.sending(bytes));
        let way = network.way(self.replica(from), self.replica(to));
        self.at(sent + way, event);
    }

    /// `None`: a broker.
    fn replica(&self, machine: usize) -> Option<usize> {
        (machine < self.scene.replicas).then_some(machine)
    }

    pub fn bytes_of(&self, batch: usize) -> u64 {
        self.batches[batch].len() as u64 * self.scene.system.transaction_bytes
    }
}

struct World<'s> {
    stage: Stage<'s>,
    orderer: Orderer,
    transactions: Vec<Transaction>,
    random: Random,
    executed: Vec<u64>,
    /// When each replica had executed a tenth, and nine tenths.
    marks: Vec<[Option<Nanos>; 2]>,
    latencies: Vec<Nanos>,
    waiting: u64,
    /// Of those who wait, over time.
    waited: u128,
}

impl Scene {
    pub fn play(&self) -> Outcome {
        World::new(self).play()
    }
}

impl<'s> World<'s> {
    fn new(scene: &'s Scene) -> World<'s> {
        let (brokers, orderer) = match scene.ordering {
            Ordering::Kafka { linger, sync } => {
                (BROKERS, Orderer::Kafka(Kafka::new(linger, sync, scene.replicas)))
            }
            Ordering::HotStuff { batch_max, crypto } => {
                (0, Orderer::HotStuff(HotStuff::new(batch_max, crypto, scene.replicas)))
            }
        };
        let stage = Stage {
            scene,
            now: 0,
            machines: vec![Machine::default(); scene.replicas + brokers],
            batches: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
        };
        World {
            stage,
            orderer,
            transactions: Vec::with_capacity(scene.transactions),
            random: Random::new(scene.seed),
            executed: vec![0; scene.replicas],
            marks: vec![[None; 2]; scene.replicas],
            latencies: Vec::with_capacity(scene.transactions),
            waiting: 0,
            waited: 0,
        }
    }

    fn play(mut self) -> Outcome {
        self.bear();
        while let Some(Reverse((time, _, event))) = self.stage.events.pop() {
            self.waited += u128::from(self.waiting) * u128::from(time - self.stage.now);
            self.stage.now = time;
            self.happen(event);
        }
        self.outcome()
    }

    /// The next transaction's moment: exponential, so that arrivals do not know of each other.
    fn bear(&mut self) {
        let at = self.transactions.len();
        if at == self.stage.scene.transactions {
            return;
        }
        let mean = SECOND as f64 / self.stage.scene.offered_per_second;
        let pause = -(1.0 - self.random.unit()).ln() * mean;
        let born = self.stage.now + pause as Nanos;
        let home = at % self.stage.scene.replicas;
        self.transactions.push(Transaction { born, home, endorsed: 0 });
        self.stage.at(born, Event::Born(at));
    }

    fn happen(&mut self, event: Event) {
        let scene = self.stage.scene;
        match event {
            Event::Born(transaction) => {
                self.waiting += 1;
                self.bear();
                match scene.system.endorsing {
                    None => self.submit(transaction),
                    Some(_) => self.propose(transaction),
                }
            }
            Event::Proposed { transaction, endorser } => {
                let work = scene.system.endorsing.map_or(0, |endorsing| endorsing.simulate);
                let done = self.stage.machines[endorser].database.take(self.stage.now, work);
                self.stage.at(done, Event::Endorsed { transaction, endorser });
            }
            Event::Endorsed { transaction, endorser } => {
                let (home, bytes) =
                    (self.transactions[transaction].home, scene.system.transaction_bytes);
                self.stage.send(endorser, home, bytes, Event::Answered { transaction });
            }
            Event::Answered { transaction } => {
                let wanted = scene.system.endorsing.map_or(0, |endorsing| endorsing.endorsers);
                self.transactions[transaction].endorsed += 1;
                if self.transactions[transaction].endorsed == wanted.min(scene.replicas) {
                    self.submit(transaction);
                }
            }
            Event::Submitted(transaction) => match &mut self.orderer {
                Orderer::Kafka(kafka) => kafka.submitted(&mut self.stage, transaction),
                Orderer::HotStuff(hotstuff) => hotstuff.submitted(&mut self.stage, transaction),
            },
            Event::Kafka(event) => {
                if let Orderer::Kafka(kafka) = &mut self.orderer {
                    kafka.happen(&mut self.stage, event);
                }
            }
            Event::HotStuff(event) => {
                if let Orderer::HotStuff(hotstuff) = &mut self.orderer {
                    hotstuff.happen(&mut self.stage, event);
                }
            }
            Event::Ordered { batch, replica } => {
                let transactions = self.stage.batches[batch].len() as u64;
                let work =
                    scene.system.block * transactions / scene.system.block_transactions as u64;
                let done = self.stage.machines[replica].database.take(self.stage.now, work);
                self.stage.at(done, Event::Executed { batch, replica });
            }
            Event::Executed { batch, replica } => self.execute(batch, replica),
        }
    }

    fn propose(&mut self, transaction: usize) {
        let scene = self.stage.scene;
        let Some(endorsing) = scene.system.endorsing else { return };
        let home = self.transactions[transaction].home;
        for endorser in
            (0..endorsing.endorsers.min(scene.replicas)).map(|it| (home + it) % scene.replicas)
        {
            let way = scene.network.way(Some(home), Some(endorser));
            let sending = scene.network.sending(endorsing.proposal_bytes);
            let at = self.stage.now + sending + way;
            self.stage.at(at, Event::Proposed { transaction, endorser });
        }
    }

    /// Clients' machines are many: each sends at once.
    fn submit(&mut self, transaction: usize) {
        let scene = self.stage.scene;
        let home = self.transactions[transaction].home;
        let to = match scene.ordering {
            Ordering::Kafka { .. } => None,
            Ordering::HotStuff { .. } => Some(0),
        };
        let sending = scene.network.sending(scene.system.transaction_bytes);
        let at = self.stage.now + sending + scene.network.way(Some(home), to);
        self.stage.at(at, Event::Submitted(transaction));
    }

    fn execute(&mut self, batch: usize, replica: usize) {
        let now = self.stage.now;
        let answer = self.stage.scene.network.near;
        for transaction in &self.stage.batches[batch] {
            let Transaction { born, home, .. } = &self.transactions[*transaction];
            if *home == replica {
                let latency = now + answer - born;
                self.latencies.push(latency);
                self.waited += u128::from(answer);
                self.waiting -= 1;
            }
        }
        self.executed[replica] += self.stage.batches[batch].len() as u64;
        for (mark, tenths) in self.marks[replica].iter_mut().zip([1, 9]) {
            if 10 * self.executed[replica] >= tenths * self.stage.scene.transactions as u64 {
                mark.get_or_insert(now);
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        let scene = self.stage.scene;
        let last = |at: usize| self.marks.iter().filter_map(|marks| marks[at]).max().unwrap_or(0);
        let span = last(1).saturating_sub(last(0)) as f64 / SECOND as f64;
        self.latencies.sort_unstable();
        let sum: u128 = self.latencies.iter().map(|it| u128::from(*it)).sum();
        let at = |percent: usize| self.latencies.get(self.latencies.len() * percent / 100);
        let ms = |percent| at(percent).map_or(f64::NAN, |nanos| *nanos as f64 / 1e6);
        let all = self.stage.now.max(1);
        let (replicas, brokers) = self.stage.machines.split_at(scene.replicas);
        let most = |of: fn(&Machine) -> &Server, machines: &[Machine]| {
            machines.iter().map(|machine| of(machine).busy()).max().unwrap_or(0)
        };
        let log = match &self.orderer {
            Orderer::Kafka(kafka) => kafka.sync_busy(),
            Orderer::HotStuff(_) => 0,
        };
        let used = [
            ("database", most(|it| &it.database, replicas)),
            ("network", most(|it| &it.card, replicas).max(most(|it| &it.card, brokers))),
            ("signatures", most(|it| &it.core, replicas)),
            ("log", log),
        ];
        let busiest = used.into_iter().max_by_key(|(_, busy)| *busy).unwrap_or(("nothing", 0));
        Outcome {
            per_second: 0.8 * scene.transactions as f64 / span,
            latency_ms_mean: sum as f64 / self.latencies.len() as f64 / 1e6,
            latency_ms_p50: ms(50),
            latency_ms_p99: ms(99),
            executed: self.executed,
            waiting_mean: self.waited as f64 / all as f64,
            busiest: Busiest { what: busiest.0, share: busiest.1 as f64 / all as f64 },
            seconds: all as f64 / SECOND as f64,
        }
    }
}
