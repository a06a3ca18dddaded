//! The lock table beside one that knows keys only, in small worlds: an interval there is the list
//! of all keys in it, and whatever waits is looked at anew each time.

use std::collections::BTreeSet;
use std::ops::Bound;

use concurrency::claims::{Claim, Place};
use kit::random::Random;
use types::{Key, TableId};

use super::table::{Answer, Bounds, LockTable, OwnerId};

const OWNERS: u64 = 5;

/// Claims name even keys, so that between any two of them lies another.
const KEYS: std::ops::RangeInclusive<u8> = 1..=9;

fn key(number: u8) -> Key {
    Key::from(&[number][..])
}

fn keys_of(place: &Place) -> BTreeSet<u8> {
    let inside = |number: &u8| {
        let number = key(*number);
        match place {
            Place::Key(key) => *key == number,
            Place::Range(low, high) => {
                let above = match low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => number >= *low,
                    Bound::Excluded(low) => number > *low,
                };
                let below = match high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => number <= *high,
                    Bound::Excluded(high) => number < *high,
                };
                above && below
            }
        }
    };
    KEYS.filter(inside).collect()
}

fn conflict(a: &Claim, b: &Claim) -> bool {
    (a.exclusive || b.exclusive)
        && a.index == b.index
        && !keys_of(&a.place).is_disjoint(&keys_of(&b.place))
}

#[derive(Default)]
struct Twin {
    held: Vec<(OwnerId, Claim)>,
    /// Owner, claim, owners that it stands after.
    waiting: Vec<(OwnerId, Claim, Vec<OwnerId>)>,
}

impl Twin {
    fn waits(&self, owner: OwnerId) -> bool {
        self.waiting.iter().any(|(waiter, ..)| *waiter == owner)
    }

    fn holders(&self, owner: OwnerId, claim: &Claim) -> BTreeSet<OwnerId> {
        let against = |(other, held): &&(OwnerId, Claim)| *other != owner && conflict(held, claim);
        self.held.iter().filter(against).map(|(other, _)| *other).collect()
    }

    fn edges(&self) -> BTreeSet<(OwnerId, OwnerId)> {
        let mut edges = BTreeSet::new();
        for (owner, claim, behind) in &self.waiting {
            edges.extend(self.holders(*owner, claim).into_iter().map(|to| (*owner, to)));
            edges.extend(behind.iter().filter(|to| self.waits(**to)).map(|to| (*owner, *to)));
        }
        edges
    }

    /// Pairs of which the first waits for the second, in however many steps.
    fn closure(&self) -> BTreeSet<(OwnerId, OwnerId)> {
        let mut all = self.edges();
        loop {
            let steps = all.iter().flat_map(|&(a, b)| {
                all.iter().filter(move |(from, _)| *from == b).map(move |&(_, c)| (a, c))
            });
            let longer: BTreeSet<_> = steps.chain(all.iter().copied()).collect();
            if longer.len() == all.len() {
                return all;
            }
            all = longer;
        }
    }

    fn has(&self, owner: OwnerId, claim: &Claim) -> bool {
        self.held.iter().any(|(holder, held)| {
            let range_in_key =
                matches!((&held.place, &claim.place), (Place::Key(_), Place::Range(..)));
            *holder == owner
                && held.index == claim.index
                && (held.exclusive || !claim.exclusive)
                && !range_in_key
                && keys_of(&claim.place).is_subset(&keys_of(&held.place))
        })
    }

    fn request(&mut self, owner: OwnerId, claim: &Claim, may_wait: bool) -> &'static str {
        if self.has(owner, claim) {
            return "had";
        }
        let closure = self.closure();
        let holders = self.holders(owner, claim);
        let ahead = self.waiting.iter().filter(|(waiter, wanted, _)| {
            conflict(wanted, claim) && !closure.contains(&(*waiter, owner))
        });
        let behind: Vec<_> = ahead.map(|(waiter, ..)| *waiter).collect();
        if holders.is_empty() && behind.is_empty() {
            self.held.push((owner, claim.clone()));
            return "granted";
        }
        if !may_wait {
            return "busy";
        }
        if holders.iter().any(|holder| closure.contains(&(*holder, owner))) {
            return "deadlock";
        }
        self.waiting.push((owner, claim.clone(), behind));
        "waits"
    }

    fn stop_waiting(&mut self, owner: OwnerId) {
        self.waiting.retain(|(waiter, ..)| *waiter != owner);
        for (_, _, behind) in &mut self.waiting {
            behind.retain(|ahead| *ahead != owner);
        }
    }

    fn grant_waiters(&mut self) -> Vec<OwnerId> {
        let mut granted = Vec::new();
        while let Some((owner, claim, _)) = self.waiting.iter().find(|(owner, claim, behind)| {
            behind.iter().all(|ahead| !self.waits(*ahead)) && self.holders(*owner, claim).is_empty()
        }) {
            let (owner, claim) = (*owner, claim.clone());
            self.stop_waiting(owner);
            self.held.push((owner, claim));
            granted.push(owner);
        }
        granted
    }
}

fn a_claim(random: &mut Random) -> Claim {
    let number = |random: &mut Random| key(2 + 2 * random.below(4) as u8);
    let bound = |random: &mut Random, key: Key| match random.below(3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    let mut ends = [number(random), number(random)];
    ends.sort();
    let [low, high] = ends;
    let place = match (random.chance(2), low == high) {
        (true, _) | (_, true) => Place::Key(low),
        _ => Place::Range(bound(random, low), bound(random, high)),
    };
    let index = random.below(2) as u16;
    Claim { table: TableId(1), index, place, exclusive: random.chance(2) }
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Had => "had",
        Answer::Granted => "granted",
        Answer::Waits => "waits",
        Answer::Busy => "busy",
        Answer::Deadlock(_) => "deadlock",
        Answer::Full => "full",
    }
}

/// No owner that waits could be served, and none waits for itself.
fn check(twin: &Twin, table: &LockTable, seed: u64) {
    let closure = twin.closure();
    for owner in (0..OWNERS).map(OwnerId) {
        assert!(!closure.contains(&(owner, owner)), "seed {seed}: {owner:?} waits for itself");
        assert_eq!(table.waits(owner), twin.waits(owner), "seed {seed}: {owner:?}");
        for (_, claim) in twin.held.iter().filter(|(holder, _)| *holder == owner) {
            assert!(table.has(owner, claim), "seed {seed}: {owner:?} {claim:?}");
        }
    }
    for (a, first) in &twin.held {
        for (b, second) in &twin.held {
            assert!(a == b || !conflict(first, second), "seed {seed}: {first:?} {second:?}");
        }
    }
    let served = twin.edges().into_iter().map(|(from, _)| from).collect::<BTreeSet<_>>();
    assert_eq!(served.len(), twin.waiting.len(), "seed {seed}: one waits for nothing");
}

#[test]
fn the_table_answers_as_its_twin_does() {
    let mut seen = BTreeSet::new();
    for seed in 0..3_000 {
        let random = &mut Random::new(seed);
        let (mut table, mut twin) = (LockTable::default(), Twin::default());
        (0..OWNERS).for_each(|owner| table.enter(OwnerId(owner), owner as i32));
        for _ in 0..40 {
            let owner = OwnerId(random.below(OWNERS));
            let mut granted = match random.below(8) {
                0 => {
                    twin.stop_waiting(owner);
                    twin.held.retain(|(holder, _)| *holder != owner);
                    let granted = table.leave(owner);
                    table.enter(owner, owner.0 as i32);
                    granted
                }
                1 => {
                    twin.stop_waiting(owner);
                    table.give_up(owner)
                }
                _ if twin.waits(owner) => continue,
                _ => {
                    let (claim, may_wait) = (a_claim(random), !random.chance(6));
                    let answer = table.request(owner, &claim, may_wait);
                    let expected = twin.request(owner, &claim, may_wait);
                    assert_eq!(name(&answer), expected, "seed {seed}: {owner:?} {claim:?}");
                    if let Answer::Deadlock(cycle) = &answer {
                        let links = cycle.iter().zip(cycle.iter().cycle().skip(1));
                        assert!(links.into_iter().all(|(from, to)| from.by == to.process));
                    }
                    seen.insert(expected);
                    check(&twin, &table, seed);
                    continue;
                }
            };
            let mut expected = twin.grant_waiters();
            granted.sort();
            expected.sort();
            assert_eq!(granted, expected, "seed {seed}");
            check(&twin, &table, seed);
        }
        (0..OWNERS).for_each(|owner| _ = table.leave(OwnerId(owner)));
        assert_eq!(table.held(), 0, "seed {seed}");
    }
    assert_eq!(seen, BTreeSet::from(["had", "granted", "waits", "busy", "deadlock"]));
}

#[test]
fn locks_are_bounded() {
    let mut table = LockTable::with_bounds(Bounds { of_owner: 2, in_all: 3 });
    let claim = |number| {
        let place = Place::Key(key(number));
        Claim { table: TableId(1), index: 0, place, exclusive: true }
    };
    (0..2).for_each(|owner| table.enter(OwnerId(owner), 0));
    let mut ask = |owner, number| name(&table.request(OwnerId(owner), &claim(number), true));
    assert_eq!([ask(0, 1), ask(0, 2), ask(0, 3)], ["granted", "granted", "full"]);
    assert_eq!([ask(0, 1), ask(1, 4), ask(1, 5)], ["had", "granted", "full"]);
    table.leave(OwnerId(0));
    assert_eq!(name(&table.request(OwnerId(1), &claim(5), true)), "granted");
}
