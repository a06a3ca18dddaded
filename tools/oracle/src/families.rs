//! Families of random worlds, one for each way in which transactions can get at each other.
//!
//! A family makes a world from a seed. All of them mix two to some dozens of transactions on few
//! keys over several blocks, with and without collection of garbage between the blocks.

use std::ops::Range;

use concurrency::WorkerPool;
use concurrency::test_mode::TestMode;
use kit::random::Random;

use crate::programs::Operation::{self, *};
use crate::programs::{OPERATIONS, QUERIES, random_calls, random_rows};
use crate::recipe::{Call, Line, Recipe};
use crate::session::random_lines;
use crate::shrink::Failure;
use crate::subjects::Subject;
use crate::world::{Counts, World};

pub struct Family {
    pub name: &'static str,
    pub world: fn(&mut Random) -> World,
}

impl Family {
    pub fn world(&self, seed: u64) -> World {
        (self.world)(&mut Random::new(seed))
    }
}

pub static FAMILIES: &[Family] = &[
    Family { name: "mixed", world: |random| programs(random, &OPERATIONS, 6) },
    Family {
        name: "blind writes",
        world: |random| programs(random, &[BlindSet, Touch, InsertIfAbsent, Delete, Read], 3),
    },
    Family { name: "reads without writes", world: readers_and_writers },
    Family { name: "chains three deep", world: chains },
    Family {
        name: "inserts and deletes",
        world: |random| {
            let among = [Insert, InsertIfAbsent, Delete, Replace, InsertDeleteInsert, Exists];
            programs(random, &among, 3)
        },
    },
    Family {
        name: "ranges",
        world: |random| {
            let among = [
                SumRange,
                CountIndexRange,
                FirstInRange,
                FirstTwo,
                AddToRange,
                DeleteRange,
                InsertUnique,
                InsertIfAbsent,
                BlindSet,
                Delete,
            ];
            programs(random, &among, 3)
        },
    },
    Family {
        name: "hot keys",
        world: |random| {
            let mut world = programs(random, &[Add, Add, CheckedAdd, BlindSet, Read, Set], 3);
            each_call(&mut world, |call| call.key = i64::from(call.number == 0));
            world
        },
    },
    Family {
        name: "user aborts",
        world: |random| {
            let among = [Read, Require, CheckedAdd, Insert, DivideRange, InsertUnique, Add, Set];
            programs(random, &among, 4)
        },
    },
    Family {
        name: "numbers that overflow",
        world: |random| {
            let among = [Add, Add, BlindSet, Set, Read, SumRange, AddToRange, CheckedAdd];
            let mut world = programs(random, &among, 3);
            each_call(&mut world, |call| match call.number {
                ..0 => call.number = i64::MAX - call.number.abs(),
                0..4 => call.number += i64::MIN,
                _ => {}
            });
            world
        },
    },
    Family {
        name: "keys unknown in advance",
        world: |random| {
            let among = [
                Read,
                SumRange,
                Follow,
                FollowAdd,
                FollowInsert,
                FollowDelete,
                FollowRange,
                AddOrSet,
            ];
            programs(random, &among, 4)
        },
    },
    Family { name: "sessions, loads and calls", world: sessions },
    Family { name: "sessions that look again", world: sessions_looking_again },
    Family { name: "endorsed and plain", world: endorsed },
    Family { name: "large transactions", world: large },
];

/// Blocks that are large enough to be shared out among workers.
pub static WIDE: Family = Family { name: "wide", world: wide };

fn wide(random: &mut Random) -> World {
    let keys = [6, 30, 200][random.below(3) as usize];
    let recipe = |random: &mut Random| match random.below(20) {
        0 => Recipe::Load(random_rows(random, keys)),
        _ => {
            let count = 1 + random.below(4);
            Recipe::Program(random_calls(random, &OPERATIONS, keys, count))
        }
    };
    let block = |random: &mut Random| (0..100).map(|_| recipe(random)).collect();
    let blocks = (0..2).map(|_| block(random)).collect();
    World { filled: keys / 2, blocks, collects: random.chance(2) }
}

/// Programs of up to `calls_max` calls among some operations, a load or a void here and there.
fn programs(random: &mut Random, among: &[Operation], calls_max: u64) -> World {
    let keys = [2, 3, 6, 12][random.below(4) as usize];
    let size = [3, 6, 12, 30][random.below(4) as usize];
    let blocks = 1 + random.below(4);
    let recipe = |random: &mut Random| match random.below(24) {
        0 => Recipe::Load(random_rows(random, keys)),
        1 if random.chance(4) => Recipe::Void,
        _ => {
            let count = 1 + random.below(calls_max);
            Recipe::Program(random_calls(random, among, keys, count))
        }
    };
    let block = |random: &mut Random| {
        let count = 2 + random.below(size);
        (0..count).map(|_| recipe(random)).collect()
    };
    World {
        filled: random.below(keys + 1),
        blocks: (0..blocks).map(|_| block(random)).collect(),
        collects: random.chance(2),
    }
}

fn each_call(world: &mut World, mut change: impl FnMut(&mut Call)) {
    for recipe in world.blocks.iter_mut().flatten() {
        if let Recipe::Program(calls) = recipe {
            calls.iter_mut().for_each(&mut change);
        }
    }
}

/// Every other transaction only looks, at several things that must fit together.
fn readers_and_writers(random: &mut Random) -> World {
    let mut world = programs(random, &[Add, BlindSet, Set, InsertIfAbsent, Delete], 3);
    let csn = world.blocks.iter_mut().flatten().step_by(2);
    for recipe in csn {
        let count = 2 + random.below(4);
        *recipe = Recipe::Program(random_calls(random, &QUERIES, 6, count));
    }
    world
}

/// Copies from one record to the next and on, in an order that need not be theirs, with writers of
/// the first and readers of the last among them.
fn chains(random: &mut Random) -> World {
    let call = |operation, key, number| Call { operation, key, number };
    let copy = |from: i64, to: i64| vec![call(Read, from, 0), call(Set, to, 0)];
    let block = |random: &mut Random| {
        let mut block = Vec::new();
        for _ in 0..1 + random.below(3) {
            let ring = random.chance(3);
            block.extend(
                (0..3).map(|link| copy(link, if ring { (link + 1) % 3 } else { link + 1 })),
            );
            block.push(match random.chance(2) {
                true => vec![call(Add, 0, random.below(9) as i64)],
                false => vec![call(BlindSet, random.below(3) as i64, random.below(9) as i64)],
            });
            block.push(vec![call(Read, random.below(4) as i64, 0), call(Read, 3, 0)]);
        }
        for at in (1..block.len()).rev() {
            block.swap(at, random.below(at as u64 + 1) as usize);
        }
        block.into_iter().map(Recipe::Program).collect()
    };
    let blocks = (0..3).map(|_| block(random)).collect();
    World { filled: 4, blocks, collects: random.chance(2) }
}

/// COMMITs of conversations that began up to three blocks before, beside calls and loads.
fn sessions(random: &mut Random) -> World {
    let keys = [4, 8, 16][random.below(3) as usize];
    let mut world = programs(random, &OPERATIONS, 2);
    for recipe in world.blocks.iter_mut().flatten() {
        match random.below(5) {
            0..=1 => {
                let script = random_lines(random, keys);
                let blocks_ago = random.below(4) as usize;
                *recipe = Recipe::Session { blocks_ago, script };
            }
            2 => *recipe = Recipe::Load(random_rows(random, keys)),
            _ => {}
        }
    }
    world.filled = keys / 2 + 1;
    world
}

/// Conversations in which a statement comes to other rows at COMMIT than before, perhaps to any at
/// all, without a word about it; then a query looks.
fn sessions_looking_again(random: &mut Random) -> World {
    const CHANGES: [Operation; 5] = [BlindSet, Add, Set, InsertIfAbsent, Delete];
    const WRITES: [Operation; 10] = [
        FollowAdd,
        FollowInsert,
        FollowDelete,
        AddOrSet,
        Add,
        Touch,
        InsertIfAbsent,
        Delete,
        AddToRange,
        DeleteRange,
    ];
    const LOOKS: [Operation; 6] = [Read, Exists, Follow, SumRange, CountIndexRange, FirstInRange];
    let keys = 3 + random.below(4);
    let some = |random: &mut Random, among: &[Operation], count_max: u64| {
        let count = 1 + random.below(count_max);
        random_calls(random, among, keys, count)
    };
    let script = |random: &mut Random| {
        let mut script = Vec::new();
        for _ in 0..1 + random.below(2) {
            let mut write = random_calls(random, &[Read], keys, 1);
            write.extend(some(random, &WRITES, 2));
            script.push(Line::Write(write));
            script.push(Line::Query(some(random, &LOOKS, 2)));
        }
        script
    };
    let change = |random: &mut Random| Recipe::Program(some(random, &CHANGES, 2));
    let changes = (0..1 + random.below(2)).map(|_| change(random)).collect();
    let mut commits = vec![change(random)];
    for _ in 0..1 + random.below(3) {
        commits.push(Recipe::Session { blocks_ago: 1, script: script(random) });
    }
    World { filled: random.below(keys + 1), blocks: vec![changes, commits], collects: true }
}

/// Transactions that were simulated up to two blocks before, beside calls that their blocks run:
/// of every kind that has a family, and hot keys.
fn endorsed(random: &mut Random) -> World {
    let kinds: [&[Operation]; 7] = [
        &OPERATIONS,
        &[BlindSet, Touch, InsertIfAbsent, Delete, Read],
        &[Add, BlindSet, Set, Read, Exists, SumRange, CountIndexRange, ListLog, Log],
        &[Insert, InsertIfAbsent, Delete, Replace, InsertDeleteInsert, Exists],
        &[SumRange, FirstInRange, FirstTwo, AddToRange, DeleteRange, InsertUnique, BlindSet],
        &[Read, Require, CheckedAdd, Insert, DivideRange, InsertUnique, Add, Set],
        &[Read, Follow, FollowAdd, FollowInsert, FollowDelete, FollowRange, AddOrSet],
    ];
    let among = kinds[random.below(kinds.len() as u64) as usize];
    let mut world = programs(random, among, 4);
    if random.chance(4) {
        each_call(&mut world, |call| call.key = i64::from(call.number == 0));
    }
    for recipe in world.blocks.iter_mut().flatten() {
        if let Recipe::Program(calls) = recipe
            && random.chance(2)
        {
            let calls = std::mem::take(calls);
            *recipe = Recipe::Endorsed { blocks_ago: random.below(3) as usize, calls };
        }
    }
    world
}

/// Transactions that write more rows than are looked at one by one, and scan them.
fn large(random: &mut Random) -> World {
    let among = crate::programs::LASTING;
    let program = |random: &mut Random| Recipe::Program(random_calls(random, &among, 60, 60));
    let blocks = (0..2).map(|_| (0..3).map(|_| program(random)).collect()).collect();
    World { filled: 40, blocks, collects: random.chance(2) }
}

/// How a family is run.
pub struct Stage<'a> {
    pub pool: &'a WorkerPool,
    pub test_mode: TestMode,
}

/// Run the worlds of some seeds; the first that diverges comes back as small as it goes.
pub fn check(
    subject: &Subject,
    family: &Family,
    seeds: Range<u64>,
    stage: &Stage<'_>,
) -> Result<Counts, Box<Failure>> {
    let mut counts = Counts::default();
    for seed in seeds {
        let world = family.world(seed);
        // A schedule of its own for every world.
        let test_mode = stage.test_mode.map_seed(|of_stage| of_stage.wrapping_add(seed << 16));
        match world.run(&subject.protocol, stage.pool, test_mode) {
            Ok(trace) => counts += trace.counts(),
            Err(divergence) => {
                let found = (world, divergence);
                let origin = (family.name, seed);
                return Err(Failure::smallest(subject, origin, stage.pool, test_mode, found));
            }
        }
    }
    Ok(counts)
}
