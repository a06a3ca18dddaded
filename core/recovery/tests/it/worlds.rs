//! Random worlds: hostile programs over two tables, over several that pieces are apart in, and
//! loops whose turns depend on each other.
//! Whatever the strategy, the model and the workers, the state is that of the protocol's own run;
//! and every seeded bug is found by one of these worlds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use concurrency::schedule::Preference;
use concurrency::test_mode::{self, TestMode};
use concurrency::{Block, Work, WorkerPool};
use kit::random::Random;
use oracle::families::FAMILIES;
use oracle::programs::{fill, schemas};
use oracle::recipe::Recipe;
use procedure::Row;
use recovery::analysis::{Model, Options};
use recovery::log::{Commit, Entry, LoggedBlock, RowWrite};
use recovery::mutant::Mutant;
use recovery::replay::{self, Task};
use storage::{LATEST, Store};
use types::{Key, TableSchema};

/// Rows that are there at first, a log, and the state that it led to.
struct World {
    schemas: Vec<Arc<TableSchema>>,
    fill: Vec<Arc<Work>>,
    log: Arc<[LoggedBlock]>,
    after: Arc<Store>,
}

fn store_of(schemas: &[Arc<TableSchema>], fill: &[Arc<Work>]) -> Arc<Store> {
    let store = Arc::new(Store::new());
    schemas.iter().for_each(|schema| drop(store.create_table(Arc::clone(schema))));
    let protocol = protocols::by_name("serial").unwrap();
    block(&store, &protocol, &WorkerPool::new(1), fill.to_vec());
    store
}

impl World {
    /// Runs blocks of transactions; those that `ad_hoc` chooses are logged by their rows. The first
    /// block is not in the log.
    fn new(
        schemas: Vec<Arc<TableSchema>>,
        blocks: Vec<Vec<Arc<Work>>>,
        mut ad_hoc: impl FnMut(&Work) -> bool,
    ) -> World {
        let mut blocks = blocks.into_iter();
        let fill = blocks.next().unwrap_or_default();
        let store = store_of(&schemas, &fill);
        let protocol = protocols::by_name("serial").unwrap();
        let pool = WorkerPool::new(1);
        let mut log = Vec::new();
        for works in blocks {
            let by_row: Vec<bool> = works.iter().map(|work| ad_hoc(work)).collect();
            if !by_row.contains(&true) {
                log.push(block(&store, &protocol, &pool, works));
                continue;
            }
            // One by one, so that what each wrote can be seen.
            for (work, by_row) in works.into_iter().zip(by_row) {
                let logged = block(&store, &protocol, &pool, vec![work]);
                log.push(if by_row { by_rows(&store, logged) } else { logged });
            }
        }
        World { schemas, fill, log: log.into(), after: store }
    }

    /// What is wrong with a replay, if something is.
    fn check(&self, how: &How) -> Result<(), String> {
        let store = store_of(&self.schemas, &self.fill);
        let pool = WorkerPool::new(how.workers);
        let task = Task {
            log: Arc::clone(&self.log),
            batch_transactions: how.batch_transactions,
            options: Options { model: how.model, mutant: how.mutant },
            preference: how.preference,
            changes: None,
        };
        let strategy = replay::by_name(how.strategy).unwrap();
        let _on = test_mode::enter(how.shake.map_or_else(TestMode::default, TestMode::shaken));
        let run = catch_unwind(AssertUnwindSafe(|| (strategy.replay)(&task, &store, &pool)));
        run.map_err(|_| "panicked".to_owned())??;
        crate::bed::same_rows(&store, &self.after)
    }
}

#[derive(Clone, Debug)]
struct How {
    strategy: &'static str,
    model: Model,
    workers: usize,
    batch_transactions: usize,
    preference: Preference,
    shake: Option<u64>,
    mutant: Option<Mutant>,
}

fn block(
    store: &Arc<Store>,
    protocol: &Arc<dyn concurrency::Protocol>,
    pool: &WorkerPool,
    transactions: Vec<Arc<Work>>,
) -> LoggedBlock {
    let height = store.newest() + 1;
    let block = Arc::new(Block::new(height, height as i64, transactions));
    crate::bed::run_block(store, protocol, pool, block)
}

/// The one transaction of a block, by what it wrote.
fn by_rows(store: &Store, logged: LoggedBlock) -> LoggedBlock {
    let height = logged.block.height;
    let mut rows = Vec::new();
    for table in store.tables() {
        for (key, stamp, _) in oracle::rows(store, table.id()) {
            if stamp.height() == height {
                let slot = table.find(&key).unwrap();
                let mut row = Vec::new();
                table.read_row(slot, LATEST, &mut row);
                let row: Row = row.into();
                rows.push(RowWrite { table: table.id(), key: Key::from(&key[..]), row: Some(row) });
            }
        }
        let before = store.snapshot_at(height - 1).unwrap();
        rows.extend(crate::bed::gone(&before, store, table.id()));
    }
    let commits = logged
        .commits
        .iter()
        .map(|commit| Commit { position: commit.position, entry: Entry::Rows(rows.clone()) });
    LoggedBlock { commits: commits.collect(), block: logged.block }
}

/// A world of the oracle; its sessions are left out, as they need a client.
fn of_family(family: usize, seed: u64) -> World {
    let mut random = Random::new(seed);
    let world = FAMILIES[family].world(seed);
    let works = |recipes: &Vec<Recipe>| recipes.iter().filter_map(Recipe::work).collect();
    let blocks = [fill(world.filled)].into_iter().chain(world.blocks.iter().map(works));
    World::new(schemas().to_vec(), blocks.collect(), move |_| random.chance(8))
}

fn of_several(seed: u64) -> World {
    let mut random = Random::new(seed);
    let blocks = crate::several::blocks(&mut random);
    // A program is ad hoc in all its calls, so that no other need write what it writes.
    let mut decision = BTreeMap::new();
    let mut ad_hoc = move |work: &Work| match work {
        Work::Statement(statement) => {
            let program = Arc::as_ptr(&statement.procedure).addr();
            *decision.entry(program).or_insert_with(|| random.chance(4))
        }
        _ => false,
    };
    World::new(crate::several::schemas(), blocks, &mut ad_hoc)
}

fn of_turns(seed: u64) -> World {
    World::new(crate::several::schemas(), crate::turns::blocks(&mut Random::new(seed)), |_| false)
}

fn ways(seed: u64) -> Vec<How> {
    let mut ways = Vec::new();
    for strategy in replay::ALL {
        for workers in [1, 2, 8] {
            ways.push(How {
                strategy: strategy.name,
                model: [Model::Thesis, Model::Refined][(seed % 2) as usize],
                workers,
                batch_transactions: 1 + 10 * (seed as usize % 3),
                preference: [Preference::Earliest, Preference::Latest][workers / 2 % 2],
                shake: (workers > 1).then_some(seed),
                mutant: None,
            });
        }
    }
    ways
}

fn seeds() -> u64 {
    std::env::var("TALLY_ORACLE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

#[test]
fn every_strategy_ends_as_the_oracles_worlds_did() {
    for (family, named) in FAMILIES.iter().enumerate() {
        for seed in 0..4 * seeds() {
            let world = of_family(family, seed);
            for how in ways(seed) {
                if let Err(what) = world.check(&how) {
                    panic!("{}, seed {seed}, {how:?}: {what}", named.name);
                }
            }
        }
    }
}

#[test]
fn every_strategy_ends_as_worlds_of_several_tables_did() {
    for seed in 0..60 * seeds() {
        let world = of_several(seed);
        for how in ways(seed) {
            if let Err(what) = world.check(&how) {
                panic!("seed {seed}, {how:?}: {what}");
            }
        }
    }
}

#[test]
fn every_strategy_ends_as_worlds_of_loops_did() {
    for seed in 0..40 * seeds() {
        let world = of_turns(seed);
        for how in ways(seed) {
            if let Err(what) = world.check(&how) {
                panic!("seed {seed}, {how:?}: {what}");
            }
        }
    }
}

#[test]
fn every_seeded_bug_is_found() {
    let finds = |mutant: Mutant, world: &World, seed: u64| {
        let how = How {
            strategy: "pipelined",
            model: Model::Refined,
            workers: 1,
            batch_transactions: 1 + 10 * (seed as usize % 3),
            preference: Preference::Latest,
            shake: None,
            mutant: Some(mutant),
        };
        world.check(&how).is_err()
    };
    for mutant in Mutant::ALL {
        let found = (0..400).find(|seed| {
            finds(mutant, &of_several(*seed), *seed)
                || finds(mutant, &of_turns(*seed), *seed)
                || finds(mutant, &of_family(*seed as usize % FAMILIES.len(), *seed), *seed)
        });
        assert!(found.is_some(), "no check notices {mutant:?}");
    }
}
