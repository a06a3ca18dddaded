//! Blocks that are planned before the one before them is finished.

use std::sync::Arc;

use concurrency::{BlockOutcome, Protocol, Work, WorkerPool};
use kit::random::Random;
use oracle::course::Overlap;
use oracle::programs::{TABLE, fill, random_work, schemas};
use oracle::subjects::{Subject, defaults, variants};
use oracle::{StoredRow, Twin, rows};

/// What looks at no row before it finishes a block.
fn planners() -> Vec<Subject> {
    let choices = ["reads=snapshot", "execution=conservative", "execution=early", "queue=16"];
    let named = choices.map(|choice| format!("quecc:planning=pipelined:{choice}"));
    let all = defaults().into_iter().chain(variants());
    let planners = all.chain(named.into_iter().map(Subject::named));
    planners.filter(|subject| subject.protocol.plans_ahead()).collect()
}

/// Rows come and go, so that records are given to other keys.
fn blocks(seed: u64) -> (u64, Vec<Vec<Arc<Work>>>) {
    let mut random = Random::new(seed);
    let keys = [3, 8, 30, 100][random.below(4) as usize];
    let size = [3, 20, 80][random.below(3) as usize];
    let block = |random: &mut Random| {
        let count = 1 + random.below(size);
        (0..count).map(|_| random_work(random, keys, 4)).collect()
    };
    (keys, (0..6).map(|_| block(&mut random)).collect())
}

type Seen = (Vec<BlockOutcome>, Vec<StoredRow>);

fn run(protocol: &Arc<dyn Protocol>, seed: u64, overlap: Overlap) -> Result<Seen, String> {
    let pool = WorkerPool::new(2);
    let (keys, blocks) = blocks(seed);
    let mut twin = Twin::new(&schemas());
    twin.run(protocol, &pool, fill(keys / 2 + 1)).map_err(|d| d.to_string())?;
    let outcomes = twin.run_overlapping(protocol, &pool, blocks, overlap);
    Ok((outcomes.map_err(|d| d.to_string())?, rows(&twin.subject, TABLE)))
}

#[test]
fn who_plans_ahead_takes_the_order_that_it_would_have_taken_behind() {
    let planners = planners();
    assert!(planners.len() > 4, "{}", planners.len());
    for Subject { name, protocol } in &planners {
        for seed in 0..40 {
            let seen = [Overlap::Before, Overlap::During, Overlap::After].map(|overlap| {
                let seen = run(protocol, seed, overlap);
                seen.unwrap_or_else(|what| panic!("{name}, seed {seed}, {overlap:?}: {what}"))
            });
            assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{name}, seed {seed}");
        }
    }
}

/// A record without a row may be given to another key before the block that was planned runs.
#[test]
fn a_plan_that_names_records_without_rows_is_found_out() {
    let protocol = protocols::mutant("quecc:planning=pipelined", "unsettled_slots").unwrap();
    let fails = |seed| run(&protocol, seed, Overlap::After).is_err();
    assert!((0..200).any(fails), "the seeded bug was not found");
}
