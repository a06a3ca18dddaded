//! One digest for each protocol of everything that many random worlds come to: to be the same
//! whatever the build, `scripts/compare-overflow-checks`.
//!
//! `cargo run -p oracle --example digests [seeds]`

use std::hash::{DefaultHasher, Hash, Hasher};

use concurrency::WorkerPool;
use concurrency::test_mode::TestMode;
use oracle::families::FAMILIES;
use oracle::subjects::{Subject, defaults, variants};

fn main() {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok());
    let seeds = seeds.unwrap_or(1_000);
    for subject in defaults().iter().chain(&variants()) {
        println!("{} {:016x}", subject.name, digest(subject, seeds));
    }
}

fn digest(subject: &Subject, seeds: u64) -> u64 {
    let pool = WorkerPool::new(2);
    let mut hasher = DefaultHasher::new();
    for seed in 0..seeds {
        for family in FAMILIES {
            match family.world(seed).run(&subject.protocol, &pool, TestMode::default()) {
                Ok(trace) => format!("{trace:?}").hash(&mut hasher),
                Err(divergence) => {
                    panic!("{}, \"{}\", seed {seed}: {divergence}", subject.name, family.name)
                }
            }
        }
    }
    hasher.finish()
}
