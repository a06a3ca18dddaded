//! Members whose data is gone, or is an old copy.

use std::sync::Arc;

use bytes::Bytes;
use ledger::{Files, MemoryFiles};
use order_raft::{SIDE_FOLDER, forget};

use crate::cluster::Cluster;
use crate::faults::{Trial, same_records};

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

impl Trial {
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
    let mut trial = Trial::new(3, 11);
    trial.settle();
    let leader = trial.cluster.leader().unwrap();
    let (loser, away) = ((leader + 1) % 3, (leader + 2) % 3);
    let source = if loss == Loss::TakenAnew { away } else { loser };
    let copy = trial.copy_of(source);
    trial.cut_off(away);
    trial.order(leader, 20);
    let reported = trial.agreed.len();
    trial.crash(leader);
    trial.crash(loser);
    trial.lose(loser, loss, &copy);
    trial.cluster.heal();
    trial.begin(loser);
    for _ in 0..100 {
        trial.submit_at(away);
        trial.submit_at(loser);
        trial.cluster.pass(50);
        trial.poll();
    }
    assert_eq!(trial.agreed.len(), reported, "{loss:?}: two that lack it have ordered without it");
    let standing = trial.cluster.node(loser).unwrap().standing();
    let waits = standing.waits.unwrap_or_default();
    assert!(waits.contains(&format!("no answer yet from {leader}")), "{waits}");
    trial.begin(leader);
    trial.settle();
    assert!(trial.agreed.len() > reported);
    // It counts again: two of three are a majority with it.
    trial.crash(leader);
    trial.order(loser, 5);
    trial.begin(leader);
    trial.settle();
    same_records(&trial);
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
    let mut trial = Trial::new(3, 12);
    trial.settle();
    let leader = trial.cluster.leader().unwrap();
    let copy = trial.copy_of(leader);
    trial.order(leader, 10);
    trial.crash(leader);
    trial.lose(leader, Loss::OldCopy, &copy);
    trial.begin(leader);
    trial.settle();
    same_records(&trial);
}

/// All folders moved to other disks at once: there is nothing newer anywhere.
#[test]
fn copies_of_all_go_on_where_they_were() {
    let mut trial = Trial::new(3, 13);
    trial.settle();
    trial.order(0, 10);
    for node in 0..3 {
        trial.crash(node);
        let copy = trial.copy_of(node);
        trial.lose(node, Loss::OldCopy, &copy);
    }
    trial.begin(0);
    trial.begin(1);
    trial.cluster.pass(10_000);
    assert!(trial.cluster.leader().is_none(), "the third may have more");
    trial.begin(2);
    trial.settle();
    same_records(&trial);
}

/// After a power cut nothing is in doubt: two of three go on without the third.
#[test]
fn a_power_cut_of_all_asks_no_one() {
    let mut trial = Trial::new(3, 14);
    for round in 0..6 {
        trial.settle();
        trial.order(0, 5);
        (0..3).for_each(|node| trial.crash(node));
        let away = round % 3;
        for node in (0..3).filter(|node| *node != away) {
            trial.begin(node);
        }
        trial.order((away + 1) % 3, 5);
    }
    trial.settle();
    same_records(&trial);
}

/// A cluster begins when all that found it have met: before that, one that lost everything would
/// be as good as new.
#[test]
fn founders_meet_before_they_begin() {
    let mut trial = Trial::new(3, 15);
    for node in 0..3 {
        trial.cluster.stop(node);
        trial.cluster.files[node] = Cluster::founded();
    }
    (0..2).for_each(|node| trial.begin(node));
    trial.cluster.pass(10_000);
    assert!(trial.cluster.leader().is_none());
    trial.begin(2);
    trial.settle();
    // From then on two are enough, also at once.
    trial.crash(1);
    trial.order(0, 3);
}

/// Two of three have lost their data: what they alone had is known nowhere, so the owner decides.
#[test]
fn two_that_lost_their_data_wait_for_their_owner() {
    let mut trial = Trial::new(3, 16);
    trial.settle();
    let copy = trial.copy_of(0);
    for node in [1, 2] {
        trial.crash(node);
        trial.lose(node, Loss::Emptied, &copy);
        trial.begin(node);
    }
    let reported = trial.agreed.len();
    for _ in 0..100 {
        trial.submit_at(0);
        trial.cluster.pass(50);
        trial.poll();
    }
    assert_eq!(trial.agreed.len(), reported);
    let waits = trial.cluster.node(1).unwrap().standing().waits.unwrap_or_default();
    assert!(waits.contains("2 lost theirs too"), "{waits}");
}

/// One of two that had acknowledged alone forgets, and takes part again; before it was sent what it
/// lacks, the other one forgets, too. It is no witness that there was nothing.
#[test]
fn one_that_lacks_something_still_is_no_witness() {
    let mut trial = Trial::new(3, 17);
    trial.settle();
    let loser = trial.cluster.leader().unwrap();
    let (holder, away) = ((loser + 1) % 3, (loser + 2) % 3);
    trial.cut_off(away);
    trial.order(holder, 20);
    let reported = trial.agreed.len();
    let copy = trial.copy_of(loser);
    for node in [loser, holder, away] {
        trial.crash(node);
    }
    trial.lose(loser, Loss::Emptied, &copy);
    trial.cluster.heal();
    for node in [holder, away, loser] {
        trial.begin(node);
    }
    // Long enough to be answered, and not to elect a leader.
    trial.cluster.pass(200);
    let standing = |trial: &Trial| trial.cluster.node(loser).unwrap().standing();
    let lacks = standing(&trial);
    assert!(lacks.waits.is_some_and(|why| why.contains("start the members that are down")));
    assert!(lacks.entries < reported as u64);
    trial.crash(holder);
    trial.lose(holder, Loss::Emptied, &copy);
    trial.begin(holder);
    for _ in 0..100 {
        trial.submit_at(away);
        trial.cluster.pass(50);
        trial.poll();
    }
    assert_eq!(trial.agreed.len(), reported, "what two had acknowledged was ordered over");
    let waits = trial.cluster.node(holder).unwrap().standing().waits.unwrap_or_default();
    assert!(waits.contains(&format!("but {loser} lost theirs too")), "{waits}");
    assert!(standing(&trial).waits.is_some());
}

/// Of five one is down for good, and another one has lost its data: three others are a majority
/// without it, and let it. Its word counts again: the next that goes leaves three.
fn a_majority_lets_it(loss: Loss) {
    let mut trial = Trial::new(5, 18);
    trial.settle();
    let leader = trial.cluster.leader().unwrap();
    let [loser, down, next] = [1, 2, 3].map(|more| (leader + more) % 5);
    let copy = trial.copy_of(loser);
    trial.order(leader, 10);
    trial.crash(down);
    trial.crash(loser);
    trial.lose(loser, loss, &copy);
    trial.begin(loser);
    trial.order(loser, 10);
    assert_eq!(trial.cluster.node(loser).unwrap().standing().waits, None);
    trial.crash(next);
    trial.order(loser, 5);
    trial.begin(next);
    trial.begin(down);
    trial.settle();
    same_records(&trial);
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
    let mut trial = Trial::new(5, 19);
    trial.settle();
    let leader = trial.cluster.leader().unwrap();
    let [loser, late, one, other] = [1, 2, 3, 4].map(|more| (leader + more) % 5);
    let copy = trial.copy_of(loser);
    for away in [late, one, other] {
        trial.cluster.cut(leader, away);
    }
    for _ in 0..5 {
        trial.submit_at(leader);
        trial.cluster.pass(20);
    }
    let entries = |trial: &Trial, node: usize| trial.cluster.node(node).unwrap().standing().entries;
    assert!(entries(&trial, loser) > entries(&trial, late), "two of five have them");
    trial.crash(loser);
    trial.lose(loser, Loss::Emptied, &copy);
    for node in [late, one, other, loser] {
        trial.cluster.cut(node, leader);
    }
    trial.cluster.cut(leader, loser);
    trial.begin(loser);
    trial.cluster.pass(100);
    // Once the loser has asked them, a third one hears of the leader alone.
    trial.cluster.heal();
    for node in [one, other, loser] {
        trial.cluster.cut(leader, node);
        trial.cluster.cut(node, leader);
    }
    trial.cluster.pass(100);
    trial.poll();
    trial.settle();
    same_records(&trial);
}

/// A machine that was set back keeps all that a file system tells of a file. Once a newer
/// incarnation is known of its member, it is found out.
#[test]
fn one_that_was_set_back_is_found_out_by_its_incarnation() {
    let mut trial = Trial::new(3, 20);
    trial.settle();
    let leader = trial.cluster.leader().unwrap();
    let loser = (leader + 1) % 3;
    // As a power cut would leave it: its files are those that they were.
    let unseen = trial.cluster.files[loser].crash(&mut trial.random);
    let given = trial.given[loser];
    let copy = trial.copy_of(loser);
    trial.crash(loser);
    trial.lose(loser, Loss::OldCopy, &copy);
    trial.begin(loser);
    trial.order(loser, 10);
    trial.crash(loser);
    (trial.cluster.files[loser], trial.given[loser]) = (unseen, given);
    trial.begin(loser);
    trial.order(loser, 10);
    trial.settle();
    same_records(&trial);
}

/// Crashes and losses by seeds, one loss at a time. What was agreed on stays.
fn losses(nodes: usize, seed: u64) {
    let mut trial = Trial::new(nodes, seed);
    trial.settle();
    let mut copies: Vec<_> = (0..nodes).map(|node| trial.copy_of(node)).collect();
    for _ in 0..8 {
        let node = trial.random.below(nodes as u64) as usize;
        for _ in 0..trial.random.below(40) {
            trial.submit();
            let wait = trial.random.below(80);
            trial.cluster.pass(wait);
            trial.poll();
            if trial.random.chance(6) {
                let other = trial.random.below(nodes as u64) as usize;
                if trial.cluster.node(other).is_some() {
                    trial.crash(other);
                } else {
                    trial.begin(other);
                }
            }
        }
        if trial.cluster.node(node).is_some() {
            trial.crash(node);
        }
        let loss = [Loss::Emptied, Loss::OldCopy, Loss::OldCopy][trial.random.below(3) as usize];
        let copy = copies[node].clone();
        trial.lose(node, loss, &copy);
        trial.begin(node);
        for _ in 0..trial.random.below(40) {
            trial.submit();
            trial.cluster.pass(50);
            trial.poll();
            let other = trial.random.below(nodes as u64) as usize;
            if trial.random.chance(8) && trial.cluster.node(other).is_none() {
                trial.begin(other);
            }
        }
        trial.settle();
        for (node, copy) in copies.iter_mut().enumerate() {
            if trial.random.chance(3) {
                *copy = trial.copy_of(node);
            }
        }
    }
    same_records(&trial);
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
