//! The conformance suite on what there is, and on what it has to find.

use std::collections::VecDeque;

use bytes::Bytes;
use order::conformance::{Harness, run};
use order::model::Faults;
use order::{Delivery, Limits, Model, Orderer, Proposal, Refused, Solo};
use types::{Error, Result};

struct Embedded(Solo, Limits);

impl Embedded {
    fn new() -> Self {
        Embedded(Solo::new(Limits::default(), [9; 32]), Limits::default())
    }
}

impl Harness for Embedded {
    fn start(&mut self, limits: Limits) {
        *self = Embedded(Solo::new(limits, [9; 32]), limits);
    }
    fn nodes(&self) -> usize {
        1
    }
    fn node(&mut self, _node: usize) -> &mut dyn Orderer {
        &mut self.0
    }
    fn pass(&mut self) {}
    fn restart(&mut self, _node: usize) {
        self.start(self.1);
    }
    fn keeps_deliveries(&self) -> bool {
        false
    }
}

struct Modelled {
    seed: u64,
    nodes: usize,
    model: Model,
}

impl Modelled {
    fn new(seed: u64, nodes: usize) -> Self {
        Modelled { seed, nodes, model: Model::new(seed, nodes, Limits::default(), 0) }
    }
}

impl Harness for Modelled {
    fn start(&mut self, limits: Limits) {
        self.seed += 1000;
        self.model = Model::new(self.seed, self.nodes, limits, 0);
    }
    fn nodes(&self) -> usize {
        self.nodes
    }
    fn node(&mut self, node: usize) -> &mut dyn Orderer {
        self.model.node(node)
    }
    fn pass(&mut self) {
        self.model.pass();
    }
    fn restart(&mut self, node: usize) {
        self.model.restart(node);
    }
    fn keeps_deliveries(&self) -> bool {
        true
    }
    fn make_empty_entry(&mut self) -> bool {
        self.model.empty_entry();
        true
    }
    fn disturb(&mut self, on: bool) {
        self.model.set_faults(if on { Faults::MANY } else { Faults::NONE });
    }
}

#[test]
fn solo_conforms() {
    assert_eq!(run(&mut Embedded::new()), Ok(()));
}

#[test]
fn the_model_conforms() {
    for seed in 0..4 {
        for nodes in [1, 2, 3] {
            assert_eq!(run(&mut Modelled::new(seed, nodes)), Ok(()), "seed {seed}, {nodes} nodes");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    SwapsEnvelopes,
    SwapsAtOneNode,
    ChangesBytes,
    LosesEnvelopes,
    LosesWhenDisturbed,
    SkipsDeliveries,
    LosesDeliveries,
    RepeatsDeliveries,
    RepeatsUnderAnotherNumber,
    ForgetsItsPlace,
    ResumesOneAhead,
    Unbounded,
    UnboundedBytes,
    TakesTheTooLarge,
    OverfillsBatches,
    OverfillsBlocks,
    ForgetsTheTime,
    FollowsTheClock,
    StandsStill,
    NeverCloses,
    ForgetsTheCause,
    DropsWhenClosed,
    HidesEmptyEntries,
    MakesIdleBatches,
    IgnoresNudges,
}

use Mutant::*;

/// An orderer with a mutant.
struct Mutated<H> {
    mutant: Mutant,
    inner: H,
    limits: Limits,
    submitted: u64,
    disturbed: bool,
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    ready: VecDeque<Delivery>,
    /// Taken in and given out, for those that number on their own.
    taken: u64,
    given: u64,
    first_us: Option<i64>,
    hoarded: Vec<Bytes>,
    closed: Option<Error>,
}

impl<H: Harness> Mutated<H> {
    fn new(mutant: Mutant, inner: H) -> Self {
        let limits = Limits::default();
        Mutated { mutant, inner, limits, submitted: 0, disturbed: false, nodes: Vec::new() }
    }

    /// What becomes of a delivery: none, one or two.
    fn distort(&mut self, node: usize, mut delivery: Delivery, now_us: i64) {
        let state = &mut self.nodes[node];
        state.taken += 1;
        let seventh = state.taken.is_multiple_of(7);
        if let Some(proposal) = &mut delivery.content {
            let first_us = *state.first_us.get_or_insert(proposal.time_us);
            match self.mutant {
                SwapsEnvelopes if proposal.envelopes.len() > 2 => proposal.envelopes.swap(0, 1),
                SwapsAtOneNode if node == 1 && proposal.envelopes.len() > 2 => {
                    proposal.envelopes.swap(0, 1);
                }
                ChangesBytes if seventh => proposal.envelopes.iter_mut().for_each(|envelope| {
                    let mut bytes = envelope.to_vec();
                    bytes.iter_mut().take(20).for_each(|byte| *byte ^= 1);
                    *envelope = bytes.into();
                }),
                FollowsTheClock => proposal.time_us = now_us,
                StandsStill => proposal.time_us = first_us,
                _ => {}
            }
        }
        let twice = seventh && matches!(self.mutant, RepeatsDeliveries | RepeatsUnderAnotherNumber);
        let lost = match self.mutant {
            SkipsDeliveries | LosesDeliveries => seventh,
            HidesEmptyEntries => delivery.content.is_none(),
            _ => false,
        };
        let renumbered =
            matches!(self.mutant, LosesDeliveries | RepeatsUnderAnotherNumber | HidesEmptyEntries);
        if lost {
            return;
        }
        for _ in 0..1 + usize::from(twice) {
            state.given += 1;
            let sequence = if renumbered { state.given } else { delivery.sequence };
            state.ready.push_back(Delivery { sequence, ..delivery.clone() });
        }
    }
}

impl<H: Harness> Harness for Mutated<H> {
    fn start(&mut self, mut limits: Limits) {
        self.limits = limits;
        self.disturbed = false;
        self.nodes = (0..self.inner.nodes()).map(|_| Node::default()).collect();
        match self.mutant {
            OverfillsBatches => limits.transactions_max += 1,
            OverfillsBlocks => {
                limits.block_bytes_max -= limits.outcome_bytes_max;
                limits.outcome_bytes_max = 0;
            }
            UnboundedBytes => limits.queued_bytes_max = usize::MAX,
            TakesTheTooLarge => limits.block_bytes_max = usize::MAX,
            _ => {}
        }
        self.inner.start(limits);
    }
    fn nodes(&self) -> usize {
        self.inner.nodes()
    }
    fn node(&mut self, node: usize) -> &mut dyn Orderer {
        self.inner.node(node)
    }
    fn pass(&mut self) {
        self.inner.pass();
    }
    fn restart(&mut self, node: usize) {
        self.nodes[node] = Node::default();
        self.inner.restart(node);
    }
    fn keeps_deliveries(&self) -> bool {
        self.inner.keeps_deliveries()
    }
    fn make_empty_entry(&mut self) -> bool {
        self.inner.make_empty_entry()
    }
    fn disturb(&mut self, on: bool) {
        self.disturbed = on;
        self.inner.disturb(on);
    }
    fn submit(&mut self, node: usize, envelope: Bytes) -> Result<(), Refused> {
        self.submitted += 1;
        let seventh = self.submitted.is_multiple_of(7);
        if seventh
            && (self.mutant == LosesEnvelopes
                || self.mutant == LosesWhenDisturbed && self.disturbed)
        {
            return Ok(());
        }
        match self.inner.submit(node, envelope.clone()) {
            Err(Refused::Full) if self.mutant == Unbounded => {
                self.nodes[node].hoarded.push(envelope);
                Ok(())
            }
            Err(Refused::Closed(_)) if self.mutant == ForgetsTheCause => {
                Err(Refused::Closed(Error::unsupported("this")))
            }
            other => other,
        }
    }
    fn nudge(&mut self, node: usize) {
        if self.mutant != IgnoresNudges {
            self.inner.nudge(node);
        }
    }
    fn poll(&mut self, node: usize, now_us: i64) -> Option<Delivery> {
        for envelope in std::mem::take(&mut self.nodes[node].hoarded) {
            let _ = self.submit(node, envelope);
        }
        if self.mutant == DropsWhenClosed && self.nodes[node].closed.is_some() {
            return None;
        }
        while let Some(delivery) = self.inner.poll(node, now_us) {
            self.distort(node, delivery, now_us);
        }
        let state = &mut self.nodes[node];
        if self.mutant == MakesIdleBatches && state.ready.is_empty() {
            self.inner.nudge(node);
        }
        self.nodes[node].ready.pop_front()
    }
    fn resume(&mut self, node: usize, after: u64, time_us: i64) -> Result<()> {
        self.nodes[node].given = after;
        match self.mutant {
            ForgetsItsPlace => self.inner.resume(node, 0, i64::MIN),
            ForgetsTheTime => self.inner.resume(node, after, i64::MIN),
            ResumesOneAhead => self.inner.resume(node, after + 1, time_us),
            _ => self.inner.resume(node, after, time_us),
        }
    }
    fn close(&mut self, node: usize, why: Error) {
        self.nodes[node].closed = Some(why.clone());
        if self.mutant != NeverCloses {
            self.inner.close(node, why);
        }
    }
}

/// Each with the promise that it breaks first.
const MUTANTS: [(Mutant, &str); 25] = [
    (SwapsEnvelopes, "order"),
    (SwapsAtOneNode, "order"),
    (ChangesBytes, "order"),
    (LosesEnvelopes, "order"),
    (LosesWhenDisturbed, "disturbed"),
    (SkipsDeliveries, "order"),
    (LosesDeliveries, "order"),
    (RepeatsDeliveries, "order"),
    (RepeatsUnderAnotherNumber, "order"),
    (ForgetsItsPlace, "restart"),
    (ResumesOneAhead, "restart"),
    (Unbounded, "count"),
    (UnboundedBytes, "bytes"),
    (TakesTheTooLarge, "large"),
    (OverfillsBatches, "order"),
    (OverfillsBlocks, "large"),
    (ForgetsTheTime, "restart"),
    (FollowsTheClock, "time"),
    (StandsStill, "time"),
    (NeverCloses, "closed"),
    (ForgetsTheCause, "closed"),
    (DropsWhenClosed, "closed"),
    (HidesEmptyEntries, "empty entries"),
    (MakesIdleBatches, "idle"),
    (IgnoresNudges, "nudge"),
];

/// The step that finds it.
fn found<H: Harness>(mutant: Mutant, inner: H) -> &'static str {
    run(&mut Mutated::new(mutant, inner)).map_or_else(|broken| broken.step, |()| "nothing")
}

#[test]
fn every_mutant_is_found() {
    for (mutant, step) in MUTANTS {
        if mutant != NOT_IN_THE_MODEL {
            assert_eq!(found(mutant, Modelled::new(1, 3)), step, "{mutant:?} of the model");
        }
        if !NOT_IN_SOLO.contains(&mutant) {
            assert_eq!(found(mutant, Embedded::new()), step, "{mutant:?} of Solo");
        }
    }
}

/// Its log knows the times.
const NOT_IN_THE_MODEL: Mutant = ForgetsTheTime;
/// One node, and no entries of its own.
const NOT_IN_SOLO: [Mutant; 2] = [SwapsAtOneNode, HidesEmptyEntries];

/// Else the suite would find a fault of the wrapper in each of them.
#[test]
fn a_mutant_that_cannot_show_is_none() {
    for mutant in NOT_IN_SOLO {
        assert_eq!(found(mutant, Embedded::new()), "nothing");
    }
    assert_eq!(found(SwapsAtOneNode, Modelled::new(1, 1)), "nothing");
    assert_eq!(found(NOT_IN_THE_MODEL, Modelled::new(1, 3)), "nothing");
}

/// Clocks that are off move the ledger's time, and never back.
#[test]
fn clocks_that_are_off_do_not_turn_time() {
    for seed in 0..20 {
        let mut model = Model::new(seed, 4, Limits::default(), 1_000_000);
        model.set_faults(Faults::MANY);
        let mut times = vec![Vec::new(); 4];
        for round in 0..200i64 {
            for (node, times) in times.iter_mut().enumerate() {
                model.node(node).submit(Bytes::from(vec![node as u8])).unwrap();
                while let Some(delivery) = model.node(node).poll(round * 1000) {
                    times.extend(delivery.content.map(|Proposal { time_us, .. }| time_us));
                }
            }
            model.pass();
        }
        for times in &times {
            assert!(times.len() > 50 && times.is_sorted(), "seed {seed}");
        }
    }
}

/// A simulation is repeated by its seed, and another seed is another one.
#[test]
fn a_seed_repeats_a_model() {
    let deliveries = |seed: u64| {
        let mut model = Model::new(seed, 3, Limits::default(), 50);
        model.set_faults(Faults::MANY);
        let mut given = Vec::new();
        for round in 0..100u8 {
            model.node(usize::from(round) % 3).submit(vec![round].into()).unwrap();
            model.pass();
            given.extend(model.node(0).poll(i64::from(round)));
        }
        given
    };
    assert_eq!(deliveries(1), deliveries(1));
    assert_ne!(deliveries(1), deliveries(2));
}

/// Else the disturbed step would disturb nothing.
#[test]
fn the_models_faults_happen() {
    let mut model = Model::new(7, 2, Limits::default(), 0);
    model.set_faults(Faults::MANY);
    let (mut envelopes, mut empty) = (Vec::new(), 0);
    for round in 0..1000u64 {
        model.node(0).submit(Bytes::copy_from_slice(&round.to_be_bytes())).unwrap();
        model.pass();
        while let Some(delivery) = model.node(0).poll(0) {
            empty += usize::from(delivery.content.is_none());
            envelopes.extend(delivery.content.into_iter().flat_map(|proposal| proposal.envelopes));
        }
    }
    assert!(!envelopes.is_sorted() && empty > 20, "{empty}");
    let delivered = envelopes.len();
    envelopes.sort();
    envelopes.dedup();
    assert!(envelopes.len() > 900, "{} of 1000", envelopes.len());
    assert!(delivered > envelopes.len() + 100, "{delivered} with copies");
}
