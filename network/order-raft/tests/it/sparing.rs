//! Followers whose acknowledgement is not needed: what they are sent when, and elections.

use crate::faults::Harness;

/// One client at the leader, who calls again when it is answered; how long each call took at most.
fn calls(harness: &mut Harness, count: usize) -> u64 {
    let leader = harness.cluster.leader().unwrap();
    let mut longest_ms = 0;
    for _ in 0..count {
        let before = harness.given[leader];
        harness.submit_at(leader);
        let mut waited_ms = 0;
        while harness.given[leader] == before {
            harness.cluster.pass(1);
            harness.poll();
            waited_ms += 1;
            assert!(waited_ms < 5_000, "a call is not answered");
        }
        longest_ms = longest_ms.max(waited_ms);
    }
    longest_ms
}

/// A cluster with a client; its leader, the follower that is needed, and the other one.
fn with_a_client(seed: u64) -> (Harness, [usize; 3]) {
    let mut harness = Harness::new(3, seed);
    harness.settle();
    // Those who have asked for something are told of all for a second.
    harness.cluster.pass(1_500);
    harness.poll();
    let leader = harness.cluster.leader().unwrap();
    calls(&mut harness, 50);
    let sent = || [1, 2].map(|it| harness.cluster.calls_to((leader + it) % 3));
    let before = sent();
    let before_given = harness.given[leader];
    calls(&mut harness, 100);
    assert_eq!(harness.given[leader], before_given + 100, "one entry each");
    let sent = [1, 2].map(|it| harness.cluster.calls_to((leader + it) % 3));
    let [first, second] = [sent[0] - before[0], sent[1] - before[1]];
    assert!(first.max(second) >= 100, "{seed}: one is sent each entry: {first} {second}");
    assert!(first.min(second) <= 70, "{seed}: and one several at once: {first} {second}");
    let needed = if first > second { 1 } else { 2 };
    (harness, [leader, (leader + needed) % 3, (leader + 3 - needed) % 3])
}

#[test]
fn one_of_two_followers_is_sent_several_entries_at_once_and_has_all_a_moment_later() {
    for seed in 0..6 {
        let (mut harness, [leader, needed, spared]) = with_a_client(seed);
        harness.cluster.pass(12);
        harness.poll();
        let given = [leader, needed, spared].map(|node| harness.given[node]);
        assert_eq!(given, [harness.agreed.len(); 3], "{seed}");
        harness.settle();
    }
}

#[test]
fn the_other_one_takes_over_when_it_is_needed() {
    for seed in 10..16 {
        let (mut harness, [leader, needed, spared]) = with_a_client(seed);
        let term = |harness: &Harness| harness.cluster.node(leader).unwrap().standing().term;
        let before = term(&harness);
        for other in [leader, spared] {
            harness.cluster.cut(other, needed);
            harness.cluster.cut(needed, other);
        }
        let longest_ms = calls(&mut harness, 50);
        assert!(longest_ms <= 20, "{seed}: {longest_ms} ms behind the one that is gone");
        assert_eq!((harness.cluster.leader(), term(&harness)), (Some(leader), before), "{seed}");
        // The one that is back may be the one that is spared.
        harness.settle();
        harness.cluster.pass(1_500);
        assert!(calls(&mut harness, 50) <= 20, "{seed}");
        harness.settle();
    }
}

/// The one that lacks the newest entries would win no election, and waste a term.
#[test]
fn one_that_was_spared_lets_the_other_stand_first() {
    let mut behind = 0;
    for seed in 20..32 {
        let (mut harness, [leader, needed, spared]) = with_a_client(seed);
        calls(&mut harness, 1 + seed as usize % 4);
        let term = harness.cluster.node(leader).unwrap().standing().term;
        let entries = |node: usize| harness.cluster.node(node).unwrap().standing().entries;
        behind += usize::from(entries(spared) < entries(needed));
        let agreed = harness.agreed.len();
        harness.crash(leader);
        let mut waited_ms = 0;
        while harness.cluster.leader().is_none() {
            harness.cluster.pass(10);
            waited_ms += 10;
            assert!(waited_ms <= 1_500, "{seed}: no leader");
        }
        let standing = harness.cluster.node(needed).unwrap().standing();
        assert_eq!((standing.leader, standing.term), (Some(needed as u64), term + 1), "{seed}");
        harness.begin(leader);
        harness.settle();
        assert!(harness.agreed.len() > agreed, "{seed}");
    }
    assert!(behind > 3, "{behind} of 12 lacked something");
}

#[test]
fn one_that_was_spared_stands_when_nobody_else_does() {
    let (mut harness, [leader, needed, spared]) = with_a_client(40);
    harness.cluster.pass(50);
    let term = |harness: &Harness| harness.cluster.node(spared).unwrap().standing().term;
    let before = term(&harness);
    harness.crash(leader);
    harness.crash(needed);
    harness.cluster.pass(1_500);
    assert_eq!(term(&harness), before, "it lets them stand first");
    harness.cluster.pass(2_000);
    assert!(term(&harness) > before, "it waits for ever");
    harness.begin(leader);
    harness.begin(needed);
    harness.settle();
}
