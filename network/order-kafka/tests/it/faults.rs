//! Lost and late answers, copies, nodes that crash, brokers that are away; topics that are not what
//! they were.
//!
//! Held against every history: all nodes are given the same under the same sequence; what any was
//! given is never taken back; what a node accepted is delivered unless the node stopped or said
//! that it gave up; no envelope is delivered twice.

use std::collections::BTreeSet;

use bytes::Bytes;
use kit::random::Random;
use order::{Delivery, Limits, Orderer, Refused};
use types::{Error, SqlState};

use crate::topic::{Cluster, Faults, LEDGER_ID};

struct Harness {
    cluster: Cluster,
    random: Random,
    agreed: Vec<Delivery>,
    /// How much of it each node was given, and made durable by executing it.
    given: Vec<usize>,
    count: usize,
    /// By node: accepted since it started.
    accepted: Vec<Vec<Bytes>>,
    unsure: BTreeSet<Bytes>,
}

impl Harness {
    fn new(nodes: usize, seed: u64) -> Harness {
        let limits = Limits { transactions_max: 8, queued_max: 200, ..Limits::default() };
        Harness {
            cluster: Cluster::start(nodes, limits, seed),
            random: Random::new(seed ^ 0x5eed),
            agreed: Vec::new(),
            given: vec![0; nodes],
            count: 0,
            accepted: vec![Vec::new(); nodes],
            unsure: BTreeSet::new(),
        }
    }

    fn poll(&mut self) {
        for node in 0..self.cluster.size() {
            let Some(handle) = self.cluster.node(node) else { continue };
            for (envelope, _) in handle.given_up() {
                self.accepted[node].retain(|it| *it != envelope);
                self.unsure.insert(envelope);
            }
            while let Some(delivery) = handle.poll(0) {
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

    fn submit(&mut self, node: usize) {
        let envelope = Bytes::from(format!("envelope {}", self.count));
        self.count += 1;
        let Some(handle) = self.cluster.node(node) else { return };
        match handle.submit(envelope.clone()) {
            Ok(()) => self.accepted[node].push(envelope),
            Err(Refused::Closed(why)) => assert_eq!(why.code(), SqlState::CANNOT_CONNECT_NOW),
            Err(Refused::Full) => {}
            Err(refused) => panic!("{refused:?}"),
        }
    }

    fn crash(&mut self, node: usize) {
        self.cluster.crash(node, &mut self.random);
        let at_risk = std::mem::take(&mut self.accepted[node]);
        self.unsure.extend(at_risk);
        // What a node has executed and not written it executes again.
        self.given[node] = self.random.below(self.given[node] as u64 + 1) as usize;
    }

    fn begin_all(&mut self) {
        for node in 0..self.cluster.size() {
            if self.cluster.node(node).is_none() {
                self.cluster.begin(node, self.given[node] as u64);
            }
        }
    }

    fn hurt(&mut self) {
        let node = self.random.below(self.cluster.size() as u64) as usize;
        match self.random.below(7) {
            0 | 1 if self.cluster.node(node).is_some() => self.crash(node),
            2 => self.cluster.topic.state().faults = Faults::MANY,
            3 => self.cluster.topic.state().faults = Faults::default(),
            4 => self.cluster.topic.state().down = true,
            5 => self.cluster.topic.state().down = false,
            _ => self.begin_all(),
        }
    }

    /// Everything runs again and is left in peace.
    fn settle(&mut self) {
        {
            let mut topic = self.cluster.topic.state();
            (topic.faults, topic.down) = (Faults::default(), false);
        }
        self.begin_all();
        self.cluster.pass(2_000);
        self.poll();
        for node in 0..self.cluster.size() {
            self.submit(node);
        }
        for _ in 0..600 {
            self.cluster.pass(50);
            self.poll();
            let held: BTreeSet<&Bytes> = self.envelopes().collect();
            let all = self.accepted.iter().flatten().all(|it| held.contains(it));
            if all && self.given.iter().all(|given| *given == self.agreed.len()) {
                return;
            }
        }
        panic!("not one order within 30 s of peace: {:?} of {}", self.given, self.agreed.len());
    }

    fn envelopes(&self) -> impl Iterator<Item = &Bytes> {
        self.agreed.iter().filter_map(|it| it.content.as_ref()).flat_map(|it| &it.envelopes)
    }

    /// Nothing twice, and nothing that was not submitted.
    fn check(&self) {
        let mut seen = BTreeSet::new();
        for envelope in self.envelopes() {
            assert!(seen.insert(envelope), "{envelope:?} is delivered twice");
        }
        assert!(seen.len() <= self.count);
    }
}

fn history(nodes: usize, seed: u64) -> usize {
    let mut harness = Harness::new(nodes, seed);
    for _ in 0..4 {
        for _ in 0..80 {
            for _ in 0..harness.random.below(4) {
                let node = harness.random.below(nodes as u64) as usize;
                harness.submit(node);
            }
            let wait = harness.random.below(150);
            harness.cluster.pass(wait);
            harness.poll();
            if harness.random.chance(4) {
                harness.hurt();
            }
        }
        harness.settle();
    }
    harness.check();
    harness.envelopes().count()
}

#[test]
fn three_nodes_agree_whatever_befalls_them() {
    for seed in 0..40 {
        let delivered = history(3, seed);
        assert!(delivered > 20, "seed {seed}: {delivered} envelopes");
    }
}

/// Runs until a node stops; its cause.
fn stops(cluster: &mut Cluster, node: usize) -> Error {
    let stopped = cluster.node(node).unwrap().clone();
    let wait = async move {
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, stopped.stopped()).await.expect("the node goes on")
    };
    cluster.runtime.block_on(wait)
}

/// Three nodes that have ordered a little.
fn harness() -> Harness {
    let mut harness = Harness::new(3, 1);
    for _ in 0..20 {
        harness.submit(0);
        harness.cluster.pass(50);
        harness.poll();
    }
    harness.settle();
    assert!(harness.agreed.len() > 10);
    harness
}

#[test]
fn a_topic_that_was_truncated_stops_all() {
    let mut harness = harness();
    harness.cluster.topic.state().records.truncate(9);
    for node in 0..3 {
        let cause = stops(&mut harness.cluster, node);
        assert!(cause.message().contains("it ends at record 9"), "{cause}");
        assert!(cause.fields().hint.is_some());
    }
}

/// Be it that it was written to since.
#[test]
fn a_topic_that_was_made_anew_stops_all() {
    let mut harness = harness();
    {
        let mut topic = harness.cluster.topic.state();
        topic.records.iter_mut().for_each(|record| *record = Bytes::from_static(b"another's"));
        topic.down = true;
    }
    harness.cluster.pass(2_000);
    harness.cluster.topic.state().down = false;
    for node in 0..3 {
        let cause = stops(&mut harness.cluster, node);
        assert!(cause.message().contains("is not the one that this node has read"), "{cause}");
    }
}

#[test]
fn a_topic_that_is_gone_stops_all() {
    let mut harness = harness();
    harness.cluster.topic.state().exists = false;
    let cause = stops(&mut harness.cluster, 1);
    assert!(cause.message().contains("there is no such topic any more"), "{cause}");
}

#[test]
fn a_topic_whose_retention_has_ended_stops_who_was_away() {
    let mut harness = harness();
    harness.cluster.stop(2);
    for _ in 0..40 {
        harness.submit(0);
        harness.cluster.pass(50);
    }
    let end = harness.cluster.topic.state().records.len() as u64;
    harness.cluster.topic.state().first = end - 5;
    let after = harness.given[2] as u64;
    harness.cluster.begin(2, after);
    let cause = stops(&mut harness.cluster, 2);
    assert!(cause.message().contains("were deleted"), "{cause}");
}

#[test]
fn the_topic_of_another_ledger_is_refused() {
    let mut harness = harness();
    harness.cluster.stop(2);
    harness.cluster.files[2] = ledger::MemoryFiles::new();
    let limits = harness.cluster.limits;
    harness.cluster.begin_with(2, 0, limits, *b"another ledger 1");
    let cause = stops(&mut harness.cluster, 2);
    assert!(cause.message().contains("it is the topic of ledger"), "{cause}");
    assert_ne!(&LEDGER_ID, b"another ledger 1");
}

/// Clients hear of brokers that are away, each what is known of its own transaction.
#[test]
fn clients_are_told_when_brokers_are_away() {
    let mut harness = harness();
    let runtime = harness.cluster.runtime.handle().clone();
    harness.cluster.topic.state().down = true;
    harness.submit(0);
    harness.cluster.pass(1_000);
    harness.submit(0);
    assert!(harness.cluster.node(0).unwrap().given_up().is_empty());
    harness.cluster.pass(6_000);
    // By the runtime's clock.
    let inside = runtime.enter();
    let reported = harness.cluster.node(0).unwrap().given_up();
    let codes: Vec<SqlState> = reported.iter().map(|(_, error)| error.code()).collect();
    assert_eq!(codes, [SqlState::TRANSACTION_RESOLUTION_UNKNOWN, SqlState::CANNOT_CONNECT_NOW]);
    let refused = harness.cluster.node(0).unwrap().submit(Bytes::from_static(b"later"));
    let Err(Refused::Closed(why)) = refused else { panic!("{refused:?}") };
    assert_eq!(why.code(), SqlState::CANNOT_CONNECT_NOW);
    drop(inside);
    harness.accepted[0].clear();
    harness.settle();
    // The one that was sent may come, the other cannot.
    let late: Vec<_> =
        reported.iter().map(|(it, _)| harness.envelopes().any(|e| e == it)).collect();
    assert_eq!(late, [true, false]);
}
