//! What a node has in its log and has not executed, when it starts; a member that is down.

use order::{Limits, Orderer};

use crate::cluster::Cluster;

/// Starts a lone node after so many orders of which none was executed, has all delivered and their
/// hashes told as an engine does, and returns how often the files were read for it.
fn reads_of(blocks: u64) -> u64 {
    let limits = Limits { transactions_max: 1, ..Limits::default() };
    let cluster = Cluster::start_with(1, limits, 7, ledger::LogOptions::default(), None);
    cluster.pass(2_000);
    let mut node = cluster.node(0).unwrap();
    let mut height = 0;
    for number in 0..blocks {
        node.submit(format!("envelope {number}").into_bytes().into()).unwrap();
        while height <= number {
            cluster.pass(10);
            while let Some(delivery) = node.poll(0) {
                height += u64::from(delivery.content.is_some());
            }
        }
    }
    drop(node);
    cluster.stop(0);
    cluster.begin(0, 0);
    let before = cluster.files[0].reads();
    cluster.pass(2_000);
    let mut node = cluster.node(0).unwrap();
    let mut height = 0;
    while let Some(delivery) = node.poll(0) {
        if delivery.content.is_some() {
            height += 1;
            assert!(node.recorded(height).is_some());
        }
    }
    assert_eq!(height, blocks);
    cluster.files[0].reads() - before
}

#[test]
fn a_backlog_is_read_once_and_not_from_the_front_for_each_block() {
    let (few, many) = (reads_of(100), reads_of(400));
    assert!(many < 5 * few, "{few} reads for 100 blocks, {many} for 400");
    assert!(many < 400 * 12, "{many} reads for 400 blocks");
}

#[test]
fn a_member_that_refuses_connections_is_called_now_and_then() {
    let cluster = Cluster::start(3, Limits::default(), 11);
    cluster.pass(3_000);
    let leader = cluster.leader().unwrap();
    let down = (leader + 1) % 3;
    cluster.stop(down);
    let (before, read) = (cluster.calls_to(down), cluster.files[leader].reads());
    let mut node = cluster.node(leader).unwrap();
    let mut confirmed = 0;
    for number in 0..50 {
        node.submit(format!("envelope {number}").into_bytes().into()).unwrap();
        cluster.pass(100);
        while let Some(delivery) = node.poll(0) {
            confirmed += delivery.content.map_or(0, |content| content.envelopes.len());
        }
    }
    assert_eq!(confirmed, 50, "the others go on");
    let calls = cluster.calls_to(down) - before;
    // In five seconds, by the pause after a failure.
    assert!((10..=60).contains(&calls), "{calls} calls");
    let reads = cluster.files[leader].reads() - read;
    assert!(reads < 300, "{reads} reads of the log");
    let before = cluster.leader();
    cluster.begin(down, 0);
    cluster.pass(1_000);
    assert_eq!(cluster.leader(), before, "one that comes back finds its leader");
    let (there, back) = (cluster.node(leader).unwrap(), cluster.node(down).unwrap());
    assert_eq!(back.standing().committed, there.standing().committed);
}
