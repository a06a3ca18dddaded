//! CometBFT without consensus: one chain, a mempool and a state for each node, and what befalls
//! them drawn from a seed.
//!
//! ```text
//! node 0  app.next ─► mempool ─┐                       ┌─► saved ─► finalize ─► answered ─► commit
//! node 1  app.next ─► mempool ─┼─ propose ─► the chain ┤
//! node 2  app.next ─► mempool ─┘   gossip to all       └─► … each at its own pace
//! ```
//!
//! It holds an application to what CometBFT does: a height that it names is one whose answer was
//! kept, all nodes answer a block alike, and a block comes again after a start; a validator that
//! comes was none, and one that goes was one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kit::random::Random;
use ledger::Hash;
use order::conformance::Harness;
use order::{Delivery, Limits, Orderer, Proposal, Released};
use order_comet::home::address_of;
use order_comet::{Answer, App, Block, Config, Keys, Outcome, Start, Update, Validators};
use sha2::{Digest, Sha256};
use types::Result;

const PASS_MS: u64 = 20;

pub struct Fake {
    nodes: usize,
    lag: u64,
    limits: Limits,
    random: Random,
    disturbed: bool,
    now_ms: u64,
    now_us: i64,
    chain: Vec<Block>,
    /// After the blocks, as the first node answered.
    answers: BTreeMap<u64, Outcome>,
    validators: Keys,
    places: Vec<Place>,
    instances: u64,
}

struct Place {
    app: App,
    mempool: VecDeque<Bytes>,
    /// From each other node.
    links: Vec<VecDeque<Bytes>>,
    /// Blocks that were answered, and those that were committed.
    answered: u64,
    committed: u64,
    /// What its ledger has executed: content and result hash of each block.
    given: Vec<Delivery>,
    results: Vec<Hash>,
}

impl Fake {
    pub fn new(nodes: usize, lag: u64, seed: u64) -> Fake {
        Fake {
            nodes,
            lag,
            limits: Limits::default(),
            random: Random::new(seed),
            disturbed: false,
            now_ms: 0,
            now_us: 0,
            chain: Vec::new(),
            answers: BTreeMap::new(),
            validators: Keys::new(),
            places: Vec::new(),
            instances: 0,
        }
    }

    fn config(&mut self) -> Config {
        self.instances += 1;
        let (limits, lag, instance) = (self.limits, self.lag, self.instances);
        Config { limits, lag, instance, patience_ms: 400 }
    }

    /// Sends what the nodes have to send, and passes on what they have heard.
    fn talk(&mut self) {
        for node in 0..self.nodes {
            while let Some((number, tx)) = self.places[node].app.next(self.now_ms) {
                assert!(self.places[node].app.check(&tx).is_ok());
                if self.disturbed && self.random.chance(5) {
                    self.places[node].app.not_taken(number);
                    break;
                }
                self.hear(node, tx);
            }
        }
        for node in 0..self.nodes {
            for from in 0..self.nodes {
                let heard = self.places[node].links[from].len();
                let count = if self.disturbed { self.random.below(heard as u64 + 1) } else { !0 };
                for _ in 0..(heard as u64).min(count) {
                    let Some(tx) = self.places[node].links[from].pop_front() else { break };
                    let all = &mut self.places[node].mempool;
                    if !all.contains(&tx) {
                        all.push_back(tx);
                    }
                }
            }
        }
    }

    /// A node has a transaction, and tells the others.
    fn hear(&mut self, node: usize, tx: Bytes) {
        for other in 0..self.nodes {
            let copies = match self.disturbed {
                true if self.random.chance(6) => 0,
                true if self.random.chance(6) => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let early = self.disturbed && self.random.chance(4);
                let link = &mut self.places[other].links[node];
                if early { link.push_front(tx.clone()) } else { link.push_back(tx.clone()) }
            }
        }
    }

    fn propose(&mut self) {
        let height = self.chain.len() as u64 + 1;
        let proposer = self.random.below(self.nodes as u64) as usize;
        let waiting: Vec<Bytes> = self.places[proposer].mempool.iter().cloned().collect();
        let answer = |height| self.answers.get(&height).map(|it| it.app_hash);
        let changed = height > 1 && answer(height - 1) != answer(height - 2);
        if waiting.is_empty() && !(changed && self.random.chance(2)) {
            return;
        }
        let txs = self.places[proposer].app.prepare(&waiting, 1 << 20);
        for place in &mut self.places {
            place.app.process(&txs).unwrap();
            place.mempool.retain(|tx| !txs.contains(tx));
        }
        self.decide(proposer, txs);
    }

    fn decide(&mut self, proposer: usize, txs: Vec<Bytes>) {
        let height = self.chain.len() as u64 + 1;
        let mut hash = Sha256::new();
        hash.update(height.to_be_bytes());
        txs.iter().for_each(|tx| hash.update(tx));
        let hash = Bytes::from(hash.finalize().to_vec());
        let proposer = [proposer as u8 + 1; 20];
        // Each of two is convicted, and comes up once more.
        let convicted = match height {
            8 | 20 => vec![address_of(&[2; 32])],
            14 => vec![address_of(&[3; 32]), address_of(&[99; 32])],
            _ => Vec::new(),
        };
        let time_us = self.now_us;
        self.chain.push(Block { height, hash, time_us, proposer, txs, convicted });
    }

    /// One step of a node's CometBFT; whether there was one.
    fn step(&mut self, node: usize) -> bool {
        let place = &mut self.places[node];
        if place.answered > place.committed {
            place.app.commit();
            place.committed = place.answered;
            return true;
        }
        let Some(block) = self.chain.get(place.answered as usize) else { return false };
        match place.app.finalize(block).unwrap() {
            Answer::Now(outcome) => {
                if !self.answers.contains_key(&block.height) {
                    for Update { key, power } in &outcome.updates {
                        let changed = match power {
                            0 => self.validators.remove(key),
                            _ => self.validators.insert(*key),
                        };
                        assert!(changed, "{key:?} has the power {power} already");
                    }
                    assert!(!self.validators.is_empty());
                    self.answers.insert(block.height, outcome.clone());
                }
                let known = &self.answers[&block.height];
                assert_eq!(outcome, *known, "node {node} answers block {} otherwise", block.height);
                place.answered += 1;
                true
            }
            Answer::Later => false,
        }
    }

    /// CometBFT starts beside an application, or an application beside CometBFT.
    fn shake_hands(&mut self, node: usize) {
        let place = &mut self.places[node];
        let Answer::Now((height, hash)) = place.app.info() else {
            panic!("node {node} does not know its app hash")
        };
        assert!(height <= place.answered, "of block {height} no answer was kept");
        let is_it = height == 0 || self.answers[&height].app_hash == hash;
        assert!(is_it, "another app hash at {height}");
        if height == 0 {
            place.app.first_hash().unwrap();
        }
        (place.answered, place.committed) = (height, height);
    }

    fn content(delivery: &Delivery) -> Option<&Proposal> {
        delivery.content.as_ref()
    }
}

/// Whom the ledger names after a block: the last of four is another one every five blocks, until
/// there were enough.
fn named(height: u64) -> Keys {
    let last = 4 + height.min(40) / 5;
    [1, 2, 3, last as u8].map(|key| [key; 32]).into()
}

/// For a node that begins after this block.
fn validators(height: u64, lag: u64) -> Validators {
    let first = height.saturating_sub(lag + 1);
    Validators::new((first..=height).map(|height| (height, named(height))).collect(), [])
}

/// The result of executing a block after another one.
fn result(before: &Hash, content: &Proposal) -> Hash {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(content.encode());
    hash.finalize().into()
}

impl Harness for Fake {
    fn start(&mut self, limits: Limits) {
        self.limits = limits;
        self.disturbed = false;
        self.now_us = 0;
        let first = Outcome { app_hash: [9; 32], updates: Vec::new() };
        (self.chain, self.answers) = (Vec::new(), BTreeMap::from([(0, first)]));
        self.validators = named(0);
        self.places = Vec::new();
        for _ in 0..self.nodes {
            let config = self.config();
            let results = BTreeMap::from([(0, [9; 32])]);
            let validators = validators(0, self.lag);
            let (sequence, height, time_us, last) = (0, 0, i64::MIN, None);
            let start = Start { sequence, height, time_us, last, results, validators };
            self.places.push(Place {
                app: App::new(config, start),
                mempool: VecDeque::new(),
                links: vec![VecDeque::new(); self.nodes],
                answered: 0,
                committed: 0,
                given: Vec::new(),
                results: vec![[9; 32]],
            });
        }
        (0..self.nodes).for_each(|node| self.shake_hands(node));
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn node(&mut self, node: usize) -> &mut dyn Orderer {
        &mut self.places[node].app
    }

    fn pass(&mut self) {
        self.now_ms += PASS_MS;
        self.talk();
        self.propose();
        for node in 0..self.nodes {
            let most = if self.disturbed { self.random.below(5) } else { 100 };
            let mut left = most;
            while left > 0 && self.step(node) {
                left -= 1;
            }
            if self.disturbed && self.random.chance(20) {
                // CometBFT alone starts again.
                let app = &self.places[node].app;
                if matches!(app.info(), Answer::Now(_)) {
                    self.shake_hands(node);
                }
            }
        }
    }

    fn restart(&mut self, _node: usize) {}

    fn keeps_deliveries(&self) -> bool {
        true
    }

    fn make_empty_entry(&mut self) -> bool {
        self.decide(0, Vec::new());
        true
    }

    fn disturb(&mut self, on: bool) {
        self.disturbed = on;
    }

    /// What its ledger holds is all that a node knows.
    fn resume(&mut self, node: usize, after: u64, _time_us: i64) -> Result<()> {
        let config = self.config();
        let lag = self.lag;
        let place = &mut self.places[node];
        place.given.truncate(after as usize);
        let contents: Vec<&Proposal> = place.given.iter().filter_map(Fake::content).collect();
        let (height, time_us) = (contents.len(), contents.last().map_or(i64::MIN, |it| it.time_us));
        place.results.truncate(height + 1);
        let known = (height as u64).saturating_sub(lag + 1)..=height as u64;
        let results = known.map(|height| (height, place.results[height as usize])).collect();
        let last = place.given.last().and_then(Fake::content).cloned();
        let mut validators = validators(height as u64, lag);
        for block in &self.chain[..after as usize] {
            validators.convict(block.height, &block.convicted);
        }
        let (sequence, height) = (after, height as u64);
        let start = Start { sequence, height, time_us, last, results, validators };
        place.app = App::new(config, start);
        self.shake_hands(node);
        self.places[node].app.resume(after, time_us)
    }

    fn poll(&mut self, node: usize, now_us: i64) -> Option<Delivery> {
        self.now_us = now_us;
        let place = &mut self.places[node];
        let delivery = place.app.poll(now_us)?;
        place.given.push(delivery.clone());
        if let Some(content) = Fake::content(&delivery) {
            let result_hash = result(place.results.last().unwrap(), content);
            place.results.push(result_hash);
            let height = place.results.len() as u64 - 1;
            place.app.validate(height, named(height));
            let (parameters_hash, names_seen, carried) = ([7; 32], false, 0);
            let released = Released { height, result_hash, parameters_hash, names_seen, carried };
            place.app.released(released);
        }
        Some(delivery)
    }
}
