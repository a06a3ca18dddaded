//! Crashes, partitions and bad messages by seeds.
//!
//! Held against every history: all nodes are given the same under the same sequence, at any time;
//! what any node was given is never taken back; what was given to a client as confirmed is in the
//! order that all come to; every cluster that is left in peace orders again within a bound.

use std::sync::Arc;

use bytes::Bytes;
use kit::random::Random;
use ledger::{Files, LogReader, Stream};
use order::{Delivery, Limits, Orderer};
use order_raft::{Draft, SIDE_FOLDER};

use crate::cluster::{Cluster, Faults, open};

pub struct Harness {
    pub cluster: Cluster,
    pub random: Random,
    /// What has been agreed on, as the first node to be given it was.
    pub agreed: Vec<Delivery>,
    /// How much of it each node was given, and made durable by executing it.
    pub given: Vec<usize>,
    submitted: Vec<Bytes>,
}

impl Harness {
    pub fn new(nodes: usize, seed: u64) -> Harness {
        let limits = Limits { transactions_max: 8, queued_max: 200, ..Limits::default() };
        Harness {
            cluster: Cluster::executing(nodes, limits, seed),
            random: Random::new(seed ^ 0x5eed),
            agreed: Vec::new(),
            given: vec![0; nodes],
            submitted: Vec::new(),
        }
    }

    fn up(&self, node: usize) -> bool {
        self.cluster.node(node).is_some()
    }

    pub fn poll(&mut self) {
        for node in 0..self.cluster.size() {
            while let Some(delivery) = self.cluster.poll(node) {
                let place = self.given[node];
                assert_eq!(delivery.sequence, place as u64 + 1, "node {node}");
                match self.agreed.get(place) {
                    Some(agreed) => assert_eq!(&delivery, agreed, "node {node} is given another"),
                    None => self.agreed.push(delivery),
                }
                self.given[node] += 1;
            }
        }
    }

    pub fn submit(&mut self) {
        let node = self.random.below(self.cluster.size() as u64) as usize;
        self.submit_at(node);
    }

    pub fn submit_at(&mut self, node: usize) {
        let envelope = Bytes::from(format!("envelope {}", self.submitted.len()));
        if let Some(mut handle) = self.cluster.node(node)
            && handle.submit(envelope.clone()).is_ok()
        {
            self.submitted.push(envelope);
        }
    }

    pub fn crash(&mut self, node: usize) {
        self.cluster.crash(node, &mut self.random);
        // What a node has executed and not written it executes again.
        self.given[node] = self.random.below(self.given[node] as u64 + 1) as usize;
    }

    pub fn begin(&mut self, node: usize) {
        self.cluster.begin(node, self.given[node] as u64);
    }

    fn hurt(&mut self) {
        let nodes = self.cluster.size() as u64;
        let node = self.random.below(nodes) as usize;
        match self.random.below(8) {
            0 | 1 if self.up(node) => self.crash(node),
            2 => {
                let leader = self.cluster.leader().unwrap_or(node);
                if self.up(leader) {
                    self.crash(leader);
                }
            }
            3 => self.cluster.set_faults(Faults::MANY),
            4 => {
                let other = self.random.below(nodes) as usize;
                self.cluster.cut(node, other);
                if self.random.chance(2) {
                    self.cluster.cut(other, node);
                }
            }
            5 => self.cluster.heal(),
            _ => {
                for node in 0..self.cluster.size() {
                    if !self.up(node) {
                        self.begin(node);
                    }
                }
            }
        }
    }

    /// Everything runs again and is left in peace.
    pub fn settle(&mut self) {
        self.cluster.heal();
        for node in 0..self.cluster.size() {
            if !self.up(node) {
                self.begin(node);
            }
        }
        let before = self.agreed.len();
        let last = Bytes::from(format!("the last one, behind {}", self.submitted.len()));
        let mut handle = self.cluster.node(0).unwrap();
        handle.submit(last.clone()).unwrap();
        for _ in 0..600 {
            self.cluster.pass(50);
            self.poll();
            let held = |delivery: &Delivery| {
                delivery.content.as_ref().is_some_and(|it| it.envelopes.contains(&last))
            };
            if self.agreed[before..].iter().any(held)
                && self.given.iter().all(|given| *given == self.agreed.len())
            {
                return;
            }
        }
        let standing = |node| self.cluster.node(node).map(|node| node.standing());
        let standings: Vec<_> = (0..self.cluster.size()).map(standing).collect();
        let (given, agreed) = (&self.given, self.agreed.len());
        panic!("not one order within 30 s of peace: {given:?} of {agreed}: {standings:#?}");
    }
}

fn history(nodes: usize, seed: u64) {
    let mut harness = Harness::new(nodes, seed);
    for _ in 0..4 {
        for _ in 0..60 {
            (0..harness.random.below(4)).for_each(|_| harness.submit());
            let wait = harness.random.below(120);
            harness.cluster.pass(wait);
            harness.poll();
            if harness.random.chance(4) {
                harness.hurt();
            }
        }
        harness.settle();
    }
    for delivery in harness.agreed.iter().filter_map(|it| it.content.as_ref()) {
        let known = |it: &Bytes| harness.submitted.contains(it) || it.starts_with(b"the last");
        assert!(delivery.envelopes.iter().all(known), "an envelope that no client submitted");
    }
    same_records(&harness);
}

/// What the nodes' ledgers hold is the same, byte for byte, and what was delivered.
pub fn same_records(harness: &Harness) {
    let mut ledgers = Vec::new();
    for node in 0..harness.cluster.size() {
        harness.cluster.stop(node);
        let files: Arc<dyn Files> = Arc::new(harness.cluster.files[node].clone());
        let mut reader = LogReader::open(files, Stream::Orders).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            records.push((record.height(), record.hash()));
        }
        ledgers.push(records);
    }
    let batches = harness.agreed.iter().filter(|delivery| delivery.content.is_some()).count();
    for (node, ledger) in ledgers.iter().enumerate() {
        let committed = &ledger[..=batches];
        assert_eq!(committed, &ledgers[0][..=batches], "the ledger of node {node}");
    }
}

#[test]
fn three_nodes_agree_whatever_befalls_them() {
    (0..12).for_each(|seed| history(3, seed));
}

#[test]
fn five_nodes_agree_whatever_befalls_them() {
    (100..104).for_each(|seed| history(5, seed));
}

/// What a majority has is not lost with the leader that told it.
#[test]
fn what_was_delivered_outlives_its_leader() {
    let mut harness = Harness::new(3, 7);
    for round in 0..12 {
        for _ in 0..20 {
            harness.submit();
            harness.cluster.pass(20);
            harness.poll();
        }
        let reported = harness.agreed.len();
        let Some(leader) = harness.cluster.leader() else { panic!("no leader in round {round}") };
        harness.crash(leader);
        let mut waited = 0;
        while harness.agreed.len() <= reported {
            harness.cluster.pass(50);
            harness.poll();
            waited += 50;
            assert!(waited <= 2_000, "no order within 2 s of the leader's end");
            harness.submit();
        }
        harness.begin(leader);
        harness.settle();
    }
}

/// A leader that is cut off orders on for itself; none of it is delivered, and it goes.
#[test]
fn a_tail_that_nobody_else_has_is_cut() {
    let mut harness = Harness::new(3, 9);
    harness.settle();
    let old = harness.cluster.leader().unwrap();
    for other in (0..3).filter(|node| *node != old) {
        harness.cluster.cut(old, other);
        harness.cluster.cut(other, old);
    }
    let mut handle = harness.cluster.node(old).unwrap();
    let (reported, height) = (harness.given[old], handle.store().height());
    for count in 0..10 {
        handle.submit(Bytes::from(format!("in vain {count}"))).unwrap();
        harness.cluster.pass(10);
    }
    assert!(handle.store().height() > height, "the tail is in its log");
    harness.cluster.pass(3_000);
    harness.poll();
    assert_eq!(harness.given[old], reported, "a tail was delivered");
    harness.cluster.crash(old, &mut harness.random);
    harness.begin(old);
    harness.settle();
    same_records(&harness);
}

/// Votes and orders that do not belong together are refused.
#[test]
fn a_folder_without_its_votes_is_refused() {
    let mut harness = Harness::new(1, 3);
    harness.settle();
    harness.cluster.stop(0);
    let files: Arc<dyn Files> = Arc::new(harness.cluster.files[0].clone());
    for name in files.list(SIDE_FOLDER).unwrap() {
        files.remove(&format!("{SIDE_FOLDER}/{name}")).unwrap();
    }
    let error = open(&files).err().unwrap();
    assert!(error.to_string().contains("do not fit each other"), "{error}");
}

/// Bytes of a stranger are an error, at once and without a panic.
#[test]
fn garbage_is_refused() {
    let cluster = Cluster::start(1, Limits::default(), 1);
    let node = cluster.node(0).unwrap();
    let mut random = Random::new(5);
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let mut bytes = bytes;
        if let Some(kind) = bytes.first_mut() {
            *kind = random.below(3) as u8;
        }
        assert!(cluster.runtime.block_on(node.answer(bytes.into())).is_err());
    }
    assert!(Draft::decode(&Bytes::from_static(b"short")).is_err());
}
