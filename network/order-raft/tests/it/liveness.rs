//! What a node says when nothing can be ordered, and clocks that are wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ledger::memory_files::{Failure, MANNERS};
use order::{Limits, Orderer};

use crate::cluster::{Cluster, Faults, options};

const SECOND: i64 = 1_000_000;
const AHEAD_MAX: Duration = Duration::from_secs(300);

fn settled(seed: u64) -> (Cluster, usize) {
    let cluster = Cluster::start_with(3, Limits::default(), seed, options(), Some(AHEAD_MAX));
    cluster.pass(4_000);
    let leader = cluster.leader().unwrap();
    (cluster, leader)
}

/// What a node is given from now on bears these times, but for what passes between two questions
/// for the others' clocks: the tests' stand still.
fn gives(cluster: &Cluster, node: usize, expected: &[i64], what: &str) {
    let times = given(cluster, node);
    let near = |(time, expected): (&i64, &i64)| (time - expected).abs() < 2 * SECOND;
    let are_near = times.iter().zip(expected).all(near);
    assert!(times.len() == expected.len() && are_near, "{what}: {times:?} for {expected:?}");
}

/// The times of what a node is given from now on, each envelope once: one that was sent again to a
/// new leader may be in the order twice.
fn given(cluster: &Cluster, node: usize) -> Vec<i64> {
    let mut handle = cluster.node(node).unwrap();
    let mut times = Vec::new();
    while let Some(delivery) = handle.poll(0) {
        let Some(content) = delivery.content else { continue };
        let seen = &mut cluster.seen.lock().unwrap()[node];
        let new = content.envelopes.into_iter().filter(|envelope| seen.insert(envelope.clone()));
        times.extend(new.map(|_| content.time_us));
    }
    times
}

fn submit(cluster: &Cluster, node: usize, envelope: &'static str) {
    cluster.node(node).unwrap().submit(Bytes::from(envelope)).unwrap();
}

fn hindrance(cluster: &Cluster, node: usize) -> String {
    // For its clock.
    let _within = cluster.runtime.enter();
    cluster.node(node).unwrap().hindrance().unwrap_or_default()
}

#[test]
fn a_leader_whose_clock_is_ahead_makes_way_and_the_ledgers_time_stays_right() {
    for seed in 0..4 {
        let (cluster, leader) = settled(seed);
        let other = (leader + 1) % 3;
        cluster.skews_us[leader].store(600 * SECOND, Ordering::SeqCst);
        submit(&cluster, other, "while it is ahead");
        cluster.pass(6_000);
        gives(&cluster, other, &[0], &format!("{seed}: ordered, at the right time"));
        assert_ne!(cluster.leader(), Some(leader), "{seed}");
        assert!(hindrance(&cluster, leader).contains("s ahead of those of most"), "{seed}");
        assert_eq!(hindrance(&cluster, other), "", "{seed}");
        submit(&cluster, leader, "by the node itself");
        cluster.pass(1_000);
        gives(&cluster, other, &[0], &format!("{seed}"));
        cluster.skews_us[leader].store(0, Ordering::SeqCst);
        cluster.pass(3_000);
        assert_eq!(hindrance(&cluster, leader), "", "{seed}: it was set right");
    }
}

#[test]
fn a_leader_whose_clock_is_behind_makes_way_too() {
    let (cluster, leader) = settled(9);
    let other = (leader + 1) % 3;
    cluster.skews_us[leader].store(-600 * SECOND, Ordering::SeqCst);
    submit(&cluster, other, "while it is behind");
    cluster.pass(6_000);
    gives(&cluster, other, &[0], "ordered, at the right time");
    assert_ne!(cluster.leader(), Some(leader));
    assert!(hindrance(&cluster, leader).contains("600 s behind those of most"));
}

/// Within the bound it leads, and blocks do not bear what its clock says.
#[test]
fn a_leader_orders_what_most_clocks_say() {
    let (cluster, leader) = settled(10);
    let other = (leader + 1) % 3;
    for (skew_s, text) in [(200, "ahead"), (-200, "behind")] {
        cluster.clock_us.fetch_add(1_000 * SECOND, Ordering::SeqCst);
        cluster.pass(3_000);
        cluster.skews_us[leader].store(skew_s * SECOND, Ordering::SeqCst);
        submit(&cluster, other, text);
        cluster.pass(1_500);
        let clock_us = cluster.clock_us.load(Ordering::SeqCst);
        gives(&cluster, other, &[clock_us], text);
        assert_eq!(cluster.leader(), Some(leader));
        let ahead = cluster.node(leader).unwrap().clocks();
        let seconds = |node: usize| ahead[&(node as u64)] / SECOND;
        assert_eq!([leader, other].map(seconds), [skew_s, 0]);
    }
}

/// What a reader asks of the leader has the others hear of it.
#[test]
fn readers_do_not_keep_a_leader_whose_clock_is_ahead() {
    let (cluster, leader) = settled(8);
    let other = (leader + 1) % 3;
    cluster.skews_us[leader].store(600 * SECOND, Ordering::SeqCst);
    submit(&cluster, other, "while it is ahead");
    let reported = Arc::new(AtomicUsize::new(0));
    for _ in 0..600 {
        for node in 0..3 {
            let reported = Arc::clone(&reported);
            let tell = Box::new(move |_| {
                reported.fetch_add(1, Ordering::SeqCst);
            });
            assert!(cluster.node(node).unwrap().confirm(tell));
        }
        cluster.pass(10);
    }
    gives(&cluster, other, &[0], "ordered, at the right time");
    assert_ne!(cluster.leader(), Some(leader));
    assert!(reported.load(Ordering::SeqCst) > 0, "readers are told by the next leader");
}

/// The block that a reader at a node is told to wait for, of a question put now.
fn confirmed(cluster: &Cluster, node: usize) -> Arc<AtomicU64> {
    let reported = Arc::new(AtomicU64::new(u64::MAX));
    let tell = {
        let reported = Arc::clone(&reported);
        Box::new(move |height| reported.store(height, Ordering::SeqCst))
    };
    assert!(cluster.node(node).unwrap().confirm(tell));
    reported
}

/// It was acknowledged by the leader and the one follower that is down, so the one that asks has
/// not heard of it, and the leader has not executed it.
#[test]
fn a_leader_that_begins_again_hides_nothing_that_it_acknowledged() {
    for seed in 20..24 {
        let (cluster, leader) = settled(seed);
        let (follower, behind) = ((leader + 1) % 3, (leader + 2) % 3);
        for node in [leader, follower] {
            cluster.cut(node, behind);
            cluster.cut(behind, node);
        }
        submit(&cluster, leader, "acknowledged");
        cluster.pass(300);
        gives(&cluster, leader, &[0], &format!("{seed}"));
        cluster.stop(leader);
        cluster.stop(follower);
        cluster.heal();
        cluster.begin(leader, 0);
        // Who is not told asks again.
        let reported = (0..30).find_map(|_| {
            let reported = confirmed(&cluster, behind);
            cluster.pass(100);
            Some(reported.load(Ordering::SeqCst)).filter(|height| *height != u64::MAX)
        });
        assert_eq!(reported, Some(1), "{seed}");
    }
}

#[test]
fn clocks_that_are_behind_and_all_that_are_set_stop_nothing() {
    let (cluster, leader) = settled(5);
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    cluster.skews_us[others[0]].store(-600 * SECOND, Ordering::SeqCst);
    cluster.pass(2_000);
    submit(&cluster, leader, "a follower is behind");
    cluster.pass(1_000);
    for node in [leader, others[0], others[1]] {
        gives(&cluster, node, &[0], "");
        let behind = hindrance(&cluster, node).contains("600 s behind those of most");
        assert_eq!(behind, node == others[0], "{}", hindrance(&cluster, node));
    }
    cluster.skews_us[others[0]].store(0, Ordering::SeqCst);
    cluster.pass(2_000);
    cluster.clock_us.store(86_400 * SECOND, Ordering::SeqCst);
    cluster.pass(3_000);
    submit(&cluster, leader, "a day later");
    cluster.pass(2_000);
    gives(&cluster, leader, &[86_400 * SECOND], "");
}

#[test]
fn of_two_clocks_the_one_ahead_does_not_order_until_it_is_right() {
    let (cluster, leader) = settled(6);
    let (other, down) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.stop(down);
    cluster.skews_us[leader].store(600 * SECOND, Ordering::SeqCst);
    submit(&cluster, leader, "at the wrong time");
    cluster.pass(500);
    cluster.skews_us[leader].store(0, Ordering::SeqCst);
    cluster.pass(6_000);
    gives(&cluster, other, &[0], "no draft of a wrong time lies in the way");
}

#[test]
fn without_the_others_a_node_says_so_and_takes_back_what_it_sent_nowhere() {
    let (cluster, leader) = settled(7);
    let (other, last) = ((leader + 1) % 3, (leader + 2) % 3);
    assert_eq!(hindrance(&cluster, leader), "");
    cluster.stop(other);
    cluster.stop(last);
    submit(&cluster, leader, "drafted");
    submit(&cluster, leader, "drafted, too");
    cluster.pass(10_000);
    assert!(hindrance(&cluster, leader).contains("too few of the others answer"));
    submit(&cluster, leader, "waits");
    submit(&cluster, leader, "waits, too");
    // Longer than it takes until what waits is sent again.
    cluster.pass(10_000);
    let mut node = cluster.node(leader).unwrap();
    assert!(!node.withdraw(&Bytes::from("drafted")), "it is in the log");
    assert!(node.withdraw(&Bytes::from("waits, too")), "it was sent nowhere");
    assert!(!node.withdraw(&Bytes::from("waits, too")), "it is there no more");
    cluster.begin(other, 0);
    cluster.begin(last, 0);
    let mut ordered: Vec<Bytes> = Vec::new();
    for _ in 0..120 {
        cluster.pass(50);
        let given = std::iter::from_fn(|| node.poll(0)).filter_map(|delivery| delivery.content);
        ordered.extend(given.flat_map(|content| content.envelopes));
    }
    assert_eq!(hindrance(&cluster, leader), "");
    assert!(ordered.contains(&Bytes::from("drafted")));
    let waited = ordered.iter().filter(|envelope| **envelope == Bytes::from("waits"));
    assert_eq!(waited.count(), 1, "it was never sent again beside itself");
    assert!(!ordered.contains(&Bytes::from("waits, too")), "what was taken back is not ordered");
}

#[test]
fn a_follower_without_a_leader_says_so_and_does_not_know_what_it_sent() {
    let (cluster, leader) = settled(8);
    let (other, last) = ((leader + 1) % 3, (leader + 2) % 3);
    submit(&cluster, other, "sent");
    cluster.stop(leader);
    cluster.stop(last);
    cluster.pass(6_000);
    assert!(
        hindrance(&cluster, other).contains("no member leads"),
        "{}",
        hindrance(&cluster, other)
    );
    submit(&cluster, other, "kept");
    submit(&cluster, other, "kept twice");
    submit(&cluster, other, "kept twice");
    let mut node = cluster.node(other).unwrap();
    cluster.pass(1_000);
    assert!(node.withdraw(&Bytes::from("kept")));
    assert!(!node.withdraw(&Bytes::from("kept twice")), "another one stands for it");
    assert!(node.withdraw(&Bytes::from("kept twice")));
}

/// Milliseconds until a node orders what is submitted to it now.
fn ordered_within(cluster: &Cluster, node: usize, envelope: &'static str) -> u64 {
    submit(cluster, node, envelope);
    for waited in 1.. {
        cluster.pass(10);
        if !given(cluster, node).is_empty() {
            return 10 * waited;
        }
        assert!(waited < 1_000, "never ordered");
    }
    unreachable!()
}

#[test]
fn a_leader_that_stops_hands_over() {
    for (nodes, seed) in [(3, 20), (3, 21), (3, 22), (5, 23)] {
        let cluster = Cluster::start(nodes, Limits::default(), seed);
        cluster.pass(4_000);
        let leader = cluster.leader().unwrap();
        let other = (leader + 1) % nodes;
        ordered_within(&cluster, other, "before");
        cluster.end(leader);
        let took = ordered_within(&cluster, other, "after");
        // Of five, one more has to give up the old leader.
        let most = if nodes == 3 { 300 } else { 1_200 };
        assert!(took <= most, "{nodes} nodes: {took} ms");
        cluster.begin(leader, 0);
        cluster.pass(2_000);
        assert_eq!(given(&cluster, leader).len(), 2, "it follows");
    }
}

#[test]
fn a_node_whose_disk_is_full_makes_way_and_comes_back_when_there_is_room() {
    for seed in 30..36 {
        let cluster = Cluster::start(3, Limits::default(), seed);
        cluster.pass(4_000);
        let leader = cluster.leader().unwrap();
        let other = (leader + 1) % 3;
        let full = if seed % 2 == 0 { leader } else { other };
        let asked = if full == other { leader } else { other };
        let files = &cluster.files[full];
        files.fail_at(Some(Failure::Full(files.operations())));
        // Small batches fit into what the segment has already.
        let large = |number: u64| Bytes::from(vec![number as u8; 8 << 10]);
        for number in 0..4 {
            cluster.node(asked).unwrap().submit(large(number)).unwrap();
            cluster.pass(3_000);
        }
        assert_eq!(given(&cluster, asked).len(), 4, "{seed}: the others go on");
        assert!(files.has_failed(), "{seed}: it was never full");
        assert_ne!(cluster.leader(), Some(full), "{seed}");
        assert!(hindrance(&cluster, full).contains("disk is full"), "{seed}");
        assert!(cluster.node(full).unwrap().standing().stopped.is_none(), "{seed}");
        cluster.pass(5_000);
        files.fail_at(None);
        cluster.pass(5_000);
        assert_eq!(hindrance(&cluster, full), "", "{seed}: there is room");
        assert_eq!(given(&cluster, full).len(), 4, "{seed}: it has what was ordered meanwhile");
        let away = (0..3).find(|node| *node != full && *node != asked).unwrap();
        cluster.stop(away);
        cluster.pass(3_000);
        ordered_within(&cluster, full, "it is one of two");
    }
}

/// The others get what it sends, and what they answer is lost: its sync is asked for by none.
#[test]
fn a_leader_whose_disk_fails_behind_its_messages_leads_no_more_and_says_why() {
    for (seed, (what, manner)) in (50..).zip(MANNERS) {
        for at in 0..2 {
            let (cluster, leader) = settled(seed);
            let others = [(leader + 1) % 3, (leader + 2) % 3];
            others.iter().for_each(|other| cluster.cut(*other, leader));
            let files = &cluster.files[leader];
            files.fail_at(Some(manner(files.operations() + at)));
            cluster.node(leader).unwrap().submit(Bytes::from(vec![7; 8 << 10])).unwrap();
            cluster.pass(40);
            if !files.has_failed() {
                continue;
            }
            let closed = cluster.node(leader).unwrap();
            assert!(!closed.leads(), "{what} at {at}");
            cluster.pass(2_500);
            assert!(cluster.leader().is_some_and(|it| it != leader), "{what} at {at}: no other");
            assert!(given(&cluster, leader).is_empty(), "{what} at {at}: it was acknowledged");
            let told = closed.standing().stopped.unwrap_or_else(|| hindrance(&cluster, leader));
            let causes = ["disk is full", "injected error", "power is off", "read-only"];
            assert!(causes.iter().any(|cause| told.contains(cause)), "{what} at {at}: {told}");
        }
    }
}

/// A line that carries two megabytes a second: to send one of these takes ten heartbeats.
#[test]
fn an_envelope_that_takes_longer_than_a_heartbeat_is_ordered_without_an_election() {
    for seed in 20..23 {
        let (cluster, leader) = settled(seed);
        let term = || cluster.node(leader).unwrap().standing().term;
        let before = term();
        cluster.set_faults(Faults { bytes_per_ms: 2_000, ..Faults::default() });
        for (from, beside) in [(leader, "beside it"), ((leader + 1) % 3, "beside the other")] {
            let envelope = Bytes::from(vec![from as u8 + 1; 3_000_000]);
            cluster.node(from).unwrap().submit(envelope).unwrap();
            submit(&cluster, from, beside);
            cluster.pass(8_000);
            for node in 0..3 {
                gives(&cluster, node, &[0, 0], &format!("{seed}: from {from} to {node}"));
            }
        }
        assert_eq!((cluster.leader(), term()), (Some(leader), before), "{seed}");
    }
}
