//! The protocols that claim block order, in the order of execution that is hardest on them; and
//! programs whose keys cannot be told in advance, under all protocols.

use std::sync::Arc;

use concurrency::{Protocol, Work, WorkerPool};
use kit::random::Random;
use oracle::Twin;
use oracle::programs::{fill, random_follower, random_load, schemas};
use oracle::subjects::{EAGER, Subject};

use crate::seeds;

/// Programs with dependent keys among others, and now and then a load.
fn random_block(random: &mut Random, keys: u64, count: u64) -> Vec<Arc<Work>> {
    let work = |random: &mut Random| match random.below(12) {
        0 => Arc::new(Work::Load(random_load(random, keys))),
        _ => random_follower(random, keys, 5),
    };
    (0..count).map(|_| work(random)).collect()
}

/// Some blocks of up to `count_max` transactions; each must be equal to its serial replay.
fn check(
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    seed: u64,
    count_max: u64,
    in_block_order: bool,
) {
    let name = protocol.info().name;
    let mut random = Random::new(seed);
    let keys = [2, 5, 12, 40][random.below(4) as usize];
    let mut twin = Twin::new(&schemas());
    twin.run(protocol, pool, fill(keys / 2 + 1)).unwrap();
    for _ in 0..3 {
        let count = 1 + random.below(count_max);
        match twin.run(protocol, pool, random_block(&mut random, keys, count)) {
            Ok(outcome) => assert!(!in_block_order || outcome.serial_order.is_sorted()),
            Err(divergence) => {
                panic!("{name}, {} workers, seed {seed}: {divergence}", pool.workers())
            }
        }
    }
}

/// Calvin, 3.2: conflicting transactions are equivalent to the sequence, however eagerly others
/// overtake.
#[test]
fn whoever_may_overtake_does_and_block_order_holds() {
    for name in EAGER {
        let protocol = Subject::named(*name).protocol;
        for workers in [1, 2] {
            let pool = WorkerPool::new(workers);
            (0..seeds(60)).for_each(|seed| check(&protocol, &pool, seed, 40, true));
        }
    }
}

/// Calvin, 3.2.1: transactions whose keys depend on reads work as well.
#[test]
fn keys_may_depend_on_reads_under_every_protocol() {
    for entry in protocols::ALL {
        let protocol = protocols::by_name(entry.info.name).unwrap();
        for workers in [1, 3] {
            let pool = WorkerPool::new(workers);
            (0..seeds(12)).for_each(|seed| check(&protocol, &pool, seed, 150, false));
        }
    }
}
