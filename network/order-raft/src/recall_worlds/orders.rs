//! Worlds in every order of what may happen, and by chance.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use kit::random::Random;

use super::{Act, Left, Without, World};

/// One leader, elected by all.
fn led(size: u64, left: Left) -> World {
    let mut world = World::new(size, Left { campaigns: 1, under_way: 1, ..left.clone() });
    world.step(Act::Campaign(1), Without::Nothing).unwrap();
    for other in 2..=size {
        world.step(Act::Solicit(1, other), Without::Nothing).unwrap();
        world.step(Act::Deliver(0), Without::Nothing).unwrap();
    }
    assert!(world.members[&1].lead.as_ref().unwrap().is_elected);
    world.left = left;
    world
}

/// Every order of what is left to do. How many worlds there are, or how one of them loses
/// something.
fn explore(world: World, without: Without) -> Result<usize, String> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let (mut seen, mut open) = (HashSet::new(), vec![world]);
    while let Some(world) = open.pop() {
        for act in world.acts() {
            let mut next = world.clone();
            next.step(act, without)?;
            if seen.insert(hasher.hash_one(&next)) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// A walk by chance: first what is done is drawn, then by which member.
fn walk(mut world: World, seed: u64, steps: usize, without: Without) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut done = Vec::new();
    for _ in 0..steps {
        let mut kinds: BTreeMap<u8, Vec<Act>> = BTreeMap::new();
        for act in world.acts() {
            let kind = match act {
                Act::Campaign(_) => 0,
                Act::Solicit(..) => 1,
                Act::Write(_) | Act::Sync(_) => 2,
                Act::Send(..) => 3,
                Act::Deliver(_) => 4,
                Act::Crash(_) => 5,
                Act::Copy(_) => 6,
                Act::PutBack(_) => 7,
                Act::Lose(..) => 8,
                Act::Ask(..) => 9,
                Act::Recover(_) => 10,
            };
            kinds.entry(kind).or_default().push(act);
        }
        let kinds: Vec<Vec<Act>> = kinds.into_values().collect();
        if kinds.is_empty() {
            return Ok(());
        }
        let kind = &kinds[random.below(kinds.len() as u64) as usize];
        let act = kind[random.below(kind.len() as u64) as usize];
        done.push(act);
        world.step(act, without).map_err(|what| format!("seed {seed}: {what} by {done:?}"))?;
    }
    Ok(())
}

const LEFT: Left = Left {
    campaigns: 1,
    active: &[1, 2, 3, 4, 5],
    entries: 1,
    losses: 1,
    copies: 0,
    crashes: 0,
    under_way: 0,
    together: 1,
};

/// One member of two or three loses its data after a leader that writes, and another one stands.
#[test]
fn every_order_of_one_loss_keeps_what_was_acknowledged() {
    for (size, left) in [
        (2, Left { losses: 2, under_way: 1, ..LEFT }),
        (3, Left { crashes: 1, ..LEFT }),
        (3, Left { under_way: 1, ..LEFT }),
    ] {
        let worlds = explore(led(size, left.clone()), Without::Nothing);
        let worlds = worlds.unwrap_or_else(|lost| panic!("{size} members: {lost}"));
        println!("{size} members, {left:?}: {worlds} worlds");
        assert!(worlds > 1_000, "{worlds}");
    }
}

/// Five members, 1 of which leads, and what may follow from there in every order; and the rules
/// without which something is lost.
#[test]
fn every_order_behind_a_loss_keeps_what_was_acknowledged() {
    use Act::{Campaign, Lose, Send, Solicit, Sync, Write};
    let cases: [(&[Act], &[Without]); 4] = [
        // One of two that have an entry forgets it; the others may have it yet.
        (
            &[Write(1), Send(1, 2), Lose(2, None)],
            &[Without::Refusals, Without::FixedIncarnations, Without::AWitness],
        ),
        // One of three, so that it was acknowledged.
        (&[Write(1), Sync(1), Send(1, 2), Send(1, 4), Lose(2, Some(3))], &[Without::TheLeast]),
        (
            &[Write(1), Sync(1), Send(1, 2), Send(1, 4), Lose(2, None), Lose(4, None)],
            &[Without::DoubtOfWitnesses],
        ),
        // It has voted for another leader.
        (&[Campaign(3), Solicit(3, 2), Solicit(3, 4), Lose(2, None)], &[Without::Votes]),
    ];
    for (before, mutants) in cases {
        let left = Left { campaigns: 2, losses: 2, together: 2, ..LEFT };
        let mut world = led(5, left);
        for act in before {
            world.step(*act, Without::Nothing).unwrap();
        }
        let Left { entries, .. } = world.left;
        // 4 and 5 are like 3, before they have done anything.
        world.left = Left { entries, losses: 0, active: &[1, 2, 3], ..LEFT };
        let worlds = explore(world.clone(), Without::Nothing);
        let worlds = worlds.unwrap_or_else(|lost| panic!("{before:?}: {lost}"));
        println!("{before:?}: {worlds} worlds");
        for without in mutants {
            let found = explore(world.clone(), *without);
            assert!(found.is_err(), "{before:?}: {without:?} costs nothing");
        }
    }
}

/// A leader that crashes before it has synced what others have of it already.
#[test]
fn every_order_of_a_leader_that_crashes_keeps_what_was_acknowledged() {
    for size in [2, 3] {
        let left = Left { entries: 2, crashes: 1, losses: 0, campaigns: 2, ..LEFT };
        let world = led(size, left);
        let worlds = explore(world.clone(), Without::Nothing);
        let worlds = worlds.unwrap_or_else(|lost| panic!("{size} members: {lost}"));
        println!("{size} members: {worlds} worlds");
        assert!(worlds > 1_000, "{worlds}");
        // Of two, both are needed for anything.
        let mutants = [Without::AnotherTerm, Without::OwnSync];
        for without in &mutants[..size as usize - 1] {
            assert!(explore(world.clone(), *without).is_err(), "{without:?} costs nothing");
        }
    }
}

/// Of three to five members no more are in doubt together than a minority.
#[test]
fn walks_by_chance_keep_what_was_acknowledged() {
    for seed in 0..1_500 {
        let size = 3 + seed % 3;
        let left = Left {
            campaigns: 6,
            active: LEFT.active,
            entries: 6,
            losses: 3,
            copies: 2,
            crashes: 4,
            under_way: 6,
            together: (size as usize - 1) / 2,
        };
        walk(World::new(size, left), seed, 150, Without::Nothing).unwrap();
    }
}
