//! Members whose data is gone, or is an old copy.

use std::sync::Arc;

use bytes::Bytes;
use ledger::{Files, MemoryFiles};
use order_raft::{SIDE_FOLDER, forget};

use crate::cluster::Cluster;
use crate::faults::{Harness, same_records};

/// What is put in the place of a member's folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    /// As `cluster init` has made it.
    Emptied,
    /// The ledger of another member, taken anew.
    TakenAnew,
    /// Its own, as it was before.
    OldCopy,
}

impl Harness {
    /// So many are given to one node at least.
    fn order(&mut self, node: usize, count: usize) {
        let target = self.given[node] + count;
        for _ in 0..600 {
            if self.given[node] >= target {
                return;
            }
            self.submit_at(node);
            self.cluster.pass(20);
            self.poll();
        }
        panic!("no order at node {node} within 12 s");
    }

    fn cut_off(&self, node: usize) {
        for other in (0..self.cluster.size()).filter(|it| *it != node) {
            self.cluster.cut(node, other);
            self.cluster.cut(other, node);
        }
    }

    /// In place of the node's own; `copy` is from before.
    fn lose(&mut self, node: usize, loss: Loss, copy: &(MemoryFiles, usize)) {
        let (files, given) = match loss {
            Loss::Emptied => (Cluster::founded(), 0),
            Loss::OldCopy => (copy.0.copy(), copy.1),
            Loss::TakenAnew => {
                let files = copy.0.copy();
                forget(&(Arc::new(files.clone()) as Arc<dyn Files>)).unwrap();
                self.cluster.take_anew(&files, &copy.0);
                (files, copy.1)
            }
        };
        self.cluster.files[node] = files;
        self.given[node] = given;
    }

    fn copy_of(&self, node: usize) -> (MemoryFiles, usize) {
        (self.cluster.files[node].copy(), self.given[node])
    }
}

/// Two of three acknowledged; one of them dies, the other forgets; the third was away.
fn two_forget_nothing_together(loss: Loss) {
    let mut harness = Harness::new(3, 11);
    harness.settle();
    let leader = harness.cluster.leader().unwrap();
    let (loser, away) = ((leader + 1) % 3, (leader + 2) % 3);
    let source = if loss == Loss::TakenAnew { away } else { loser };
    let copy = harness.copy_of(source);
    harness.cut_off(away);
    harness.order(leader, 20);
    let reported = harness.agreed.len();
    harness.crash(leader);
    harness.crash(loser);
    harness.lose(loser, loss, &copy);
    harness.cluster.heal();
    harness.begin(loser);
    for _ in 0..100 {
        harness.submit_at(away);
        harness.submit_at(loser);
        harness.cluster.pass(50);
        harness.poll();
    }
    assert_eq!(
        harness.agreed.len(),
        reported,
        "{loss:?}: two that lack it have ordered without it"
    );
    let standing = harness.cluster.node(loser).unwrap().standing();
    let waits = standing.waits.unwrap_or_default();
    assert!(waits.contains(&format!("no answer yet from {leader}")), "{waits}");
    harness.begin(leader);
    harness.settle();
    assert!(harness.agreed.len() > reported);
    // It counts again: two of three are a majority with it.
    harness.crash(leader);
    harness.order(loser, 5);
    harness.begin(leader);
    harness.settle();
    same_records(&harness);
}

#[test]
fn an_emptied_member_outvotes_nothing() {
    two_forget_nothing_together(Loss::Emptied);
}

#[test]
fn a_member_that_took_the_ledger_anew_outvotes_nothing() {
    two_forget_nothing_together(Loss::TakenAnew);
}

#[test]
fn an_old_copy_outvotes_nothing() {
    two_forget_nothing_together(Loss::OldCopy);
}

/// A leader that is put back from a copy does not lead on in the term that it had.
#[test]
fn a_copied_leader_stands_again() {
    let mut harness = Harness::new(3, 12);
    harness.settle();
    let leader = harness.cluster.leader().unwrap();
    let copy = harness.copy_of(leader);
    harness.order(leader, 10);
    harness.crash(leader);
    harness.lose(leader, Loss::OldCopy, &copy);
    harness.begin(leader);
    harness.settle();
    same_records(&harness);
}

/// All folders moved to other disks at once: there is nothing newer anywhere.
#[test]
fn copies_of_all_go_on_where_they_were() {
    let mut harness = Harness::new(3, 13);
    harness.settle();
    harness.order(0, 10);
    for node in 0..3 {
        harness.crash(node);
        let copy = harness.copy_of(node);
        harness.lose(node, Loss::OldCopy, &copy);
    }
    harness.begin(0);
    harness.begin(1);
    harness.cluster.pass(10_000);
    assert!(harness.cluster.leader().is_none(), "the third may have more");
    harness.begin(2);
    harness.settle();
    same_records(&harness);
}

/// After a power cut nothing is in doubt: two of three go on without the third.
#[test]
fn a_power_cut_of_all_asks_no_one() {
    let mut harness = Harness::new(3, 14);
    for round in 0..6 {
        harness.settle();
        harness.order(0, 5);
        (0..3).for_each(|node| harness.crash(node));
        let away = round % 3;
        for node in (0..3).filter(|node| *node != away) {
            harness.begin(node);
        }
        harness.order((away + 1) % 3, 5);
    }
    harness.settle();
    same_records(&harness);
}

/// A cluster begins when all that found it have met: before that, one that lost everything would
/// be as good as new.
#[test]
fn founders_meet_before_they_begin() {
    let mut harness = Harness::new(3, 15);
    for node in 0..3 {
        harness.cluster.stop(node);
        harness.cluster.files[node] = Cluster::founded();
    }
    (0..2).for_each(|node| harness.begin(node));
    harness.cluster.pass(10_000);
    assert!(harness.cluster.leader().is_none());
    harness.begin(2);
    harness.settle();
    // From then on two are enough, also at once.
    harness.crash(1);
    harness.order(0, 3);
}

/// Two of three have lost their data: what they alone had is known nowhere, so the owner decides.
#[test]
fn two_that_lost_their_data_wait_for_their_owner() {
    let mut harness = Harness::new(3, 16);
    harness.settle();
    let copy = harness.copy_of(0);
    for node in [1, 2] {
        harness.crash(node);
        harness.lose(node, Loss::Emptied, &copy);
        harness.begin(node);
    }
    let reported = harness.agreed.len();
    for _ in 0..100 {
        harness.submit_at(0);
        harness.cluster.pass(50);
        harness.poll();
    }
    assert_eq!(harness.agreed.len(), reported);
    let waits = harness.cluster.node(1).unwrap().standing().waits.unwrap_or_default();
    assert!(waits.contains("2 lost theirs too"), "{waits}");
}

/// One of two that had acknowledged alone forgets, and takes part again; before it was sent what it
/// lacks, the other one forgets, too. It is no witness that there was nothing.
#[test]
fn one_that_lacks_something_still_is_no_witness() {
    let mut harness = Harness::new(3, 17);
    harness.settle();
    let loser = harness.cluster.leader().unwrap();
    let (holder, away) = ((loser + 1) % 3, (loser + 2) % 3);
    harness.cut_off(away);
    harness.order(holder, 20);
    let reported = harness.agreed.len();
    let copy = harness.copy_of(loser);
    for node in [loser, holder, away] {
        harness.crash(node);
    }
    harness.lose(loser, Loss::Emptied, &copy);
    harness.cluster.heal();
    for node in [holder, away, loser] {
        harness.begin(node);
    }
    // Long enough to be answered, and not to elect a leader.
    harness.cluster.pass(200);
    let standing = |harness: &Harness| harness.cluster.node(loser).unwrap().standing();
    let lacks = standing(&harness);
    assert!(lacks.waits.is_some_and(|why| why.contains("start the members that are down")));
    assert!(lacks.entries < reported as u64);
    harness.crash(holder);
    harness.lose(holder, Loss::Emptied, &copy);
    harness.begin(holder);
    for _ in 0..100 {
        harness.submit_at(away);
        harness.cluster.pass(50);
        harness.poll();
    }
    assert_eq!(harness.agreed.len(), reported, "what two had acknowledged was ordered over");
    let waits = harness.cluster.node(holder).unwrap().standing().waits.unwrap_or_default();
    assert!(waits.contains(&format!("but {loser} lost theirs too")), "{waits}");
    assert!(standing(&harness).waits.is_some());
}

/// Of five one is down for good, and another one has lost its data: three others are a majority
/// without it, and let it. Its word counts again: the next that goes leaves three.
fn a_majority_lets_it(loss: Loss) {
    let mut harness = Harness::new(5, 18);
    harness.settle();
    let leader = harness.cluster.leader().unwrap();
    let [loser, down, next] = [1, 2, 3].map(|more| (leader + more) % 5);
    let copy = harness.copy_of(loser);
    harness.order(leader, 10);
    harness.crash(down);
    harness.crash(loser);
    harness.lose(loser, loss, &copy);
    harness.begin(loser);
    harness.order(loser, 10);
    assert_eq!(harness.cluster.node(loser).unwrap().standing().waits, None);
    harness.crash(next);
    harness.order(loser, 5);
    harness.begin(next);
    harness.begin(down);
    harness.settle();
    same_records(&harness);
}

#[test]
fn a_majority_without_it_lets_an_emptied_member() {
    a_majority_lets_it(Loss::Emptied);
}

#[test]
fn a_majority_without_it_lets_an_old_copy() {
    a_majority_lets_it(Loss::OldCopy);
}

#[test]
fn a_majority_without_it_lets_one_that_took_the_ledger_anew() {
    a_majority_lets_it(Loss::TakenAnew);
}

/// A leader that was cut off has counted what a member has forgotten since. It adds nothing to it.
#[test]
fn a_leader_counts_for_no_incarnation_that_is_over() {
    let mut harness = Harness::new(5, 19);
    harness.settle();
    let leader = harness.cluster.leader().unwrap();
    let [loser, late, one, other] = [1, 2, 3, 4].map(|more| (leader + more) % 5);
    let copy = harness.copy_of(loser);
    for away in [late, one, other] {
        harness.cluster.cut(leader, away);
    }
    for _ in 0..5 {
        harness.submit_at(leader);
        harness.cluster.pass(20);
    }
    let entries =
        |harness: &Harness, node: usize| harness.cluster.node(node).unwrap().standing().entries;
    assert!(entries(&harness, loser) > entries(&harness, late), "two of five have them");
    harness.crash(loser);
    harness.lose(loser, Loss::Emptied, &copy);
    for node in [late, one, other, loser] {
        harness.cluster.cut(node, leader);
    }
    harness.cluster.cut(leader, loser);
    harness.begin(loser);
    harness.cluster.pass(100);
    // Once the loser has asked them, a third one hears of the leader alone.
    harness.cluster.heal();
    for node in [one, other, loser] {
        harness.cluster.cut(leader, node);
        harness.cluster.cut(node, leader);
    }
    harness.cluster.pass(100);
    harness.poll();
    harness.settle();
    same_records(&harness);
}

/// A machine that was set back keeps all that a file system tells of a file. Once a newer
/// incarnation is known of its member, it is found out.
#[test]
fn one_that_was_set_back_is_found_out_by_its_incarnation() {
    let mut harness = Harness::new(3, 20);
    harness.settle();
    let leader = harness.cluster.leader().unwrap();
    let loser = (leader + 1) % 3;
    // As a power cut would leave it: its files are those that they were.
    let unseen = harness.cluster.files[loser].crash(&mut harness.random);
    let given = harness.given[loser];
    let copy = harness.copy_of(loser);
    harness.crash(loser);
    harness.lose(loser, Loss::OldCopy, &copy);
    harness.begin(loser);
    harness.order(loser, 10);
    harness.crash(loser);
    (harness.cluster.files[loser], harness.given[loser]) = (unseen, given);
    harness.begin(loser);
    harness.order(loser, 10);
    harness.settle();
    same_records(&harness);
}

/// Crashes and losses by seeds, one loss at a time. What was agreed on stays.
fn losses(nodes: usize, seed: u64) {
    let mut harness = Harness::new(nodes, seed);
    harness.settle();
    let mut copies: Vec<_> = (0..nodes).map(|node| harness.copy_of(node)).collect();
    for _ in 0..8 {
        let node = harness.random.below(nodes as u64) as usize;
        for _ in 0..harness.random.below(40) {
            harness.submit();
            let wait = harness.random.below(80);
            harness.cluster.pass(wait);
            harness.poll();
            if harness.random.chance(6) {
                let other = harness.random.below(nodes as u64) as usize;
                if harness.cluster.node(other).is_some() {
                    harness.crash(other);
                } else {
                    harness.begin(other);
                }
            }
        }
        if harness.cluster.node(node).is_some() {
            harness.crash(node);
        }
        let loss = [Loss::Emptied, Loss::OldCopy, Loss::OldCopy][harness.random.below(3) as usize];
        let copy = copies[node].clone();
        harness.lose(node, loss, &copy);
        harness.begin(node);
        for _ in 0..harness.random.below(40) {
            harness.submit();
            harness.cluster.pass(50);
            harness.poll();
            let other = harness.random.below(nodes as u64) as usize;
            if harness.random.chance(8) && harness.cluster.node(other).is_none() {
                harness.begin(other);
            }
        }
        harness.settle();
        for (node, copy) in copies.iter_mut().enumerate() {
            if harness.random.chance(3) {
                *copy = harness.copy_of(node);
            }
        }
    }
    same_records(&harness);
}

#[test]
fn three_nodes_lose_nothing_with_one() {
    (200..210).for_each(|seed| losses(3, seed));
}

#[test]
fn five_nodes_lose_nothing_with_one() {
    (300..304).for_each(|seed| losses(5, seed));
}

/// Bytes that say what is in doubt are as safe as votes.
#[test]
fn a_member_that_forgot_knows_it_after_a_crash() {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    forget(&shared).unwrap();
    assert!(!files.list(SIDE_FOLDER).unwrap().is_empty());
    let mut random = kit::random::Random::new(4);
    for _ in 0..20 {
        let crashed = files.crash(&mut random);
        let names = crashed.list(SIDE_FOLDER).unwrap();
        let read = |name: &String| crashed.contents(&format!("{SIDE_FOLDER}/{name}")).unwrap();
        let kept =
            names.iter().any(|name| Bytes::from(read(name)).windows(6).any(|it| it == b"\"Lost\""));
        assert!(kept, "{names:?}");
    }
}
