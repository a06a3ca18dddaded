//! The model against closed forms, bounds and conservation.

use super::{CONTINENTS, Crypto, Endorsing, Nanos, Network, Ordering, SECOND, Scene, System};

const US: Nanos = 1_000;
const MS: Nanos = 1_000_000;
const NEAR: Nanos = 50 * US;
const SYNC: Nanos = 400 * US;
const LINGER: Nanos = 2 * MS;
const KAFKA: Ordering = Ordering::Kafka { linger: LINGER, sync: SYNC };
const FREE: Crypto = Crypto { sign: 0, verify: 0, verify_of_many: 0, hash_nanos_per_byte: 0.0 };

/// No card is ever busy.
const ENDLESS: f64 = 1e18;

fn system(block: Nanos) -> System {
    System { block_transactions: 25, block, transaction_bytes: 150, endorsing: None }
}

fn scene(replicas: usize, ordering: Ordering, system: System) -> Scene {
    Scene {
        replicas,
        system,
        ordering,
        network: Network::of_one_region(NEAR, ENDLESS),
        offered_per_second: 10_000.0,
        transactions: 20_000,
        seed: 1,
    }
}

fn assert_near(ours: f64, expected: f64, tolerance: f64) {
    assert!((ours / expected - 1.0).abs() <= tolerance, "{ours} is not about {expected}");
}

/// A lone one by Kafka: to the leader, the wait for others, the follower's copy and its word, the
/// way to the replica, its twenty-fifth of a block, and the way back.
#[test]
fn a_lone_transaction_takes_the_sum_of_its_parts() {
    let lone = Scene { transactions: 5, ..scene(4, KAFKA, system(25 * MS)) };
    let lone = Scene { offered_per_second: 0.01, ..lone };
    let outcome = lone.play();
    // The first broker's replicas are told as soon as it is committed, the others a way later.
    let parts = NEAR + LINGER + (NEAR + SYNC + NEAR) + NEAR + MS + NEAR;
    for (quantile, expected) in
        [(outcome.latency_ms_p50, parts), (outcome.latency_ms_p99, parts + NEAR)]
    {
        assert!((quantile - expected as f64 / 1e6).abs() < 1e-6, "{quantile} is not {expected} ns");
    }
    // Simulated before, by two at once: to and fro, and its run.
    let (endorsers, simulate) = (2, 3 * MS);
    let endorsing = Some(Endorsing { endorsers, proposal_bytes: 150, simulate });
    let endorsed = Scene { system: System { endorsing, ..lone.system }, ..lone };
    let expected = (parts + NEAR + simulate + NEAR) as f64 / 1e6;
    assert_near(endorsed.play().latency_ms_p50, expected, 1e-9);
}

/// Three proposals after its own, there and back each, and the last one's way: seven, and one for
/// the client's way there and one back. Signatures come on top.
#[test]
fn hotstuff_commits_with_the_third_proposal_after() {
    let ordering = Ordering::HotStuff { batch_max: 100, crypto: FREE };
    let lone = Scene { transactions: 5, ..scene(4, ordering, system(0)) };
    let lone = Scene { offered_per_second: 0.01, ..lone };
    // Of replica 0's client everything is one way less, as it leads.
    assert_near(lone.play().latency_ms_p99, 9.0 * NEAR as f64 / 1e6, 1e-9);
    let crypto = Crypto { sign: 20 * US, verify: 50 * US, ..FREE };
    let crypto = Crypto { verify_of_many: 50 * US, ..crypto };
    let ordering = Ordering::HotStuff { batch_max: 100, crypto };
    let signed = Scene { ordering, ..lone };
    // Four proposals are signed, four times the votes' certificate is checked by those who vote
    // and three votes are signed and certificates made between them: 3 of 4 are a quorum.
    let (sign, certificate) = (20 * US, 150 * US);
    let expected = 9 * NEAR + 4 * (sign + certificate + sign) + 3 * certificate;
    assert_near(signed.play().latency_ms_p99, expected as f64 / 1e6, 1e-9);
    // Over continents the farthest of the quorum counts, however near others are.
    let network = Network {
        far: CONTINENTS,
        replicas_of_region: Some(1),
        ..Network::of_one_region(NEAR, ENDLESS)
    };
    let ordering = Ordering::HotStuff { batch_max: 100, crypto: FREE };
    let wide = Scene { network, ordering, transactions: 4, ..signed };
    // Votes of Ohio, Stockholm and Sydney make a quorum; the client in Mumbai waits longest: there,
    // three round trips to Sydney, and back.
    let expected = 98 * MS + 6 * 94 * MS + 98 * MS + NEAR;
    assert_near(wide.play().latency_ms_p99, expected as f64 / 1e6, 1e-9);
}

/// Whatever is slowest says how many a second there are, by as much as it can bear.
#[test]
fn a_bound_is_reached_and_not_passed() {
    // A block in five milliseconds: five thousand a second.
    let rate = |scene: Scene| {
        let outcome = scene.play();
        (outcome.per_second, outcome.busiest)
    };
    let (ours, busiest) = rate(scene(4, KAFKA, system(5 * MS)));
    assert_near(ours, 5_000.0, 0.01);
    assert_eq!(busiest.what, "database");
    assert!(busiest.share > 0.95 && busiest.share <= 1.0, "{busiest:?}");
    // Nothing is slow: what clients send.
    assert_near(rate(scene(4, KAFKA, system(MS / 4))).0, 10_000.0, 0.03);
    // The leader's card sends each batch to 27 replicas of 81 and to two brokers.
    let narrow = Network::of_one_region(NEAR, 25e6);
    let bytes = 81.0 / 3.0 * (25.0 * 2_000.0 + 100.0) + 2.0 * (25.0 * 2_000.0 + 100.0);
    let big = System { transaction_bytes: 2_000, ..system(MS) };
    let bound = 25.0 * 25e6 / bytes;
    let (ours, busiest) = rate(Scene { network: narrow.clone(), ..scene(81, KAFKA, big) });
    assert_near(ours, bound, 0.02);
    assert_eq!(busiest.what, "network");
    // HotStuff's sends a proposal to all others, and each takes a round trip more than its sending.
    let ordering = Ordering::HotStuff { batch_max: 1_000, crypto: FREE };
    let scene_of_40 = Scene { transactions: 40_000, ..scene(40, ordering, big) };
    let (ours, busiest) = rate(Scene { network: narrow, ..scene_of_40 });
    let view = 39.0 * 1_000.0 * 2_000.0 / 25e6 + 2.0 * NEAR as f64 / SECOND as f64;
    assert_near(ours, 1_000.0 / view, 0.02);
    assert_eq!(busiest.what, "network");
    // Checking certificates: two thirds of the signatures by the leader and by the others, in turn.
    let crypto = Crypto { verify: 100 * US, verify_of_many: 100 * US, ..FREE };
    let ordering = Ordering::HotStuff { batch_max: 20, crypto };
    let (ours, _) = rate(scene(40, ordering, system(0)));
    let view = 2.0 * (27.0 * 100e-6 + NEAR as f64 / SECOND as f64);
    assert_near(ours, 20.0 / view, 0.02);
}

/// Each replica executes each transaction once, and as many wait as come in the time that one
/// waits (Little).
#[test]
fn nothing_is_lost_and_nothing_is_made() {
    let endorsing = Some(Endorsing { endorsers: 2, proposal_bytes: 150, simulate: 50 * US });
    let ordering = Ordering::HotStuff { batch_max: 50, crypto: FREE };
    for scene in [
        scene(7, KAFKA, system(2 * MS)),
        scene(7, KAFKA, System { endorsing, ..system(2 * MS) }),
        scene(7, ordering, system(2 * MS)),
        // One that cannot bear what comes.
        scene(7, KAFKA, system(4 * MS)),
    ] {
        let outcome = scene.play();
        assert_eq!(outcome.executed, [scene.transactions as u64; 7]);
        let come = scene.transactions as f64 / outcome.seconds;
        assert_near(outcome.waiting_mean, come * outcome.latency_ms_mean / 1e3, 0.001);
        assert!(outcome.latency_ms_p50 <= outcome.latency_ms_p99);
        assert_eq!(scene.play().latency_ms_mean, outcome.latency_ms_mean, "a seed is one run");
    }
}

/// What grows with the replicas is what is sent: commands fit where reads and writes do not.
#[test]
fn large_transactions_fall_with_the_replicas_and_small_ones_do_not() {
    let rate = |replicas, transaction_bytes| {
        let network = Network::of_one_region(NEAR, 60e6);
        let system = System { transaction_bytes, ..system(3 * MS) };
        Scene { network, ..scene(replicas, KAFKA, system) }.play().per_second
    };
    assert_near(rate(80, 150), rate(4, 150), 0.02);
    assert!(rate(80, 1_500) < 0.5 * rate(4, 1_500));
}
