//! Random histories against a model that counts, and cycles drawn by hand.

use kit::random::Random;

use super::*;

const KEYS: [AdvisoryKey; 3] =
    [AdvisoryKey::Whole(1), AdvisoryKey::Whole(-1), AdvisoryKey::Pair(0, 1)];

/// What a session has taken, told by counting, and what it waits for.
#[derive(Clone, Default)]
struct Model {
    held: Vec<Wanted>,
    waits: Option<Wanted>,
}

/// Whether two sessions may hold these at once.
fn conflict(a: &Wanted, b: &Wanted) -> bool {
    a.key == b.key && (a.exclusive || b.exclusive)
}

fn blocks(holder: &Model, wanted: &Wanted) -> bool {
    holder.held.iter().any(|held| conflict(held, wanted))
}

struct World {
    table: Table,
    ids: Vec<OwnerId>,
    models: Vec<Model>,
    waits: usize,
    deadlocks: usize,
}

impl World {
    fn granted(&mut self, granted: &[OwnerId]) {
        for id in granted {
            let place = self.ids.iter().position(|known| known == id).unwrap();
            let wanted = self.models[place].waits.take().expect("it waited");
            self.models[place].held.push(wanted);
        }
    }

    /// No two hold what conflicts, none waits for nothing, and none waits in a cycle.
    fn check(&self) {
        for (a, model) in self.models.iter().enumerate() {
            for (b, other) in self.models.iter().enumerate().filter(|(b, _)| *b != a) {
                let both = model.held.iter().any(|held| blocks(other, held));
                assert!(!both, "{a} and {b} hold what conflicts");
            }
            let mut counts = model.held.clone();
            for shown in self.table.shown().iter().filter(|s| s.process == a as i32) {
                let same = |w: &Wanted| (w.key, w.exclusive) == (shown.key, shown.exclusive);
                match shown.granted {
                    true => counts.retain(|wanted| !same(wanted)),
                    false => assert!(model.waits.as_ref().is_some_and(same)),
                }
            }
            assert!(counts.is_empty(), "{a} holds what is not shown");
            assert_eq!(self.table.awaited(self.ids[a]), model.waits);
            assert!(self.table.cycle(self.ids[a]).is_none(), "{a} waits in a cycle");
        }
        // Of those that wait for a number, the first is blocked by a holder.
        for key in KEYS {
            let Some(first) = self.table.entries.get(&key).and_then(|e| e.queue.front()) else {
                continue;
            };
            let blocked = self
                .ids
                .iter()
                .zip(&self.models)
                .any(|(id, model)| *id != first.owner && blocks(model, &first.wanted));
            assert!(blocked, "the first of the queue waits for no other");
        }
        let held: usize = self
            .models
            .iter()
            .map(|model| {
                KEYS.iter().filter(|key| model.held.iter().any(|held| held.key == **key)).count()
            })
            .sum();
        assert_eq!(self.table.held, held);
    }

    fn step(&mut self, random: &mut Random) {
        let place = random.below(self.ids.len() as u64) as usize;
        let owner = self.ids[place];
        if self.models[place].waits.is_some() {
            if random.below(3) == 0 {
                let granted = self.table.give_up(owner);
                self.models[place].waits = None;
                self.granted(&granted);
            }
            return;
        }
        let level = [Level::Session, Level::Transaction][random.below(2) as usize];
        let key = KEYS[random.below(3) as usize];
        let wanted = Wanted { key, exclusive: random.below(2) == 0, level };
        match random.below(8) {
            0 => {
                let granted = self.table.release_level(owner, level);
                self.models[place].held.retain(|held| held.level != level);
                self.granted(&granted);
            }
            1..=3 => {
                let held = &mut self.models[place].held;
                let found = held.iter().position(|held| *held == wanted);
                found.map(|found| held.swap_remove(found));
                let granted = self.table.release(owner, wanted);
                assert_eq!(granted.is_some(), found.is_some());
                self.granted(&granted.unwrap_or_default());
            }
            choice => self.request(place, wanted, choice > 4),
        }
    }

    fn request(&mut self, place: usize, wanted: Wanted, may_wait: bool) {
        let others = self.models.iter().enumerate().filter(|(other, _)| *other != place);
        let is_free = others.clone().all(|(_, model)| !blocks(model, &wanted));
        let own = self.models[place].held.iter().any(|held| held.key == wanted.key);
        let passed = others.filter_map(|(_, model)| model.waits.as_ref());
        let in_front = passed.filter(|waits| conflict(waits, &wanted)).count();
        match self.table.request(self.ids[place], wanted, may_wait) {
            Answer::Granted => {
                assert!(is_free, "granted over a holder");
                assert!(own || in_front == 0, "granted before those that wait");
                self.models[place].held.push(wanted);
            }
            Answer::Waits => {
                self.waits += 1;
                self.models[place].waits = Some(wanted);
            }
            Answer::Busy => assert!(!may_wait),
            Answer::Deadlock(cycle) => {
                self.deadlocks += 1;
                assert_eq!(cycle[0], self.ids[place]);
                // All but the requester do wait, and each is named once.
                let named: BTreeSet<_> = cycle.iter().collect();
                assert_eq!(named.len(), cycle.len());
                assert!(cycle.len() > 1);
                for id in &cycle[1..] {
                    assert!(self.table.awaited(*id).is_some());
                }
            }
            Answer::Full => panic!("far from full"),
        }
        assert!(!(is_free && (own || in_front == 0)) || self.models[place].waits.is_none());
    }
}

#[test]
fn random_histories_keep_what_is_promised() {
    let (mut waits, mut deadlocks) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut table = Table::default();
        let ids: Vec<_> = (0..4).map(|process| table.enter(process)).collect();
        let models = vec![Model::default(); 4];
        let mut world = World { table, ids, models, waits: 0, deadlocks: 0 };
        for _ in 0..200 {
            world.step(&mut random);
            world.check();
        }
        waits += world.waits;
        deadlocks += world.deadlocks;
        for place in 0..4 {
            let granted = world.table.leave(world.ids[place]);
            world.models[place] = Model::default();
            world.granted(&granted);
        }
        assert!(world.table.entries.is_empty() && world.table.held == 0);
    }
    assert!(waits > 1_000 && deadlocks > 100, "the histories are idle");
}

#[test]
fn a_cycle_is_refused_and_a_queue_is_fair() {
    let whole = |number, exclusive| Wanted {
        key: AdvisoryKey::Whole(number),
        exclusive,
        level: Level::Session,
    };
    let mut table = Table::default();
    let [a, b, c] = [1, 2, 3].map(|process| table.enter(process));
    assert_eq!(table.request(a, whole(1, true), true), Answer::Granted);
    assert_eq!(table.request(b, whole(2, true), true), Answer::Granted);
    assert_eq!(table.request(b, whole(1, true), true), Answer::Waits);
    assert_eq!(table.request(a, whole(2, true), true), Answer::Deadlock(vec![a, b]));
    assert_eq!(table.request(c, whole(1, false), false), Answer::Busy);
    assert_eq!(table.release(a, whole(1, true)), Some(vec![b]));
    assert_eq!(table.release(a, whole(1, true)), None);
    assert_eq!(table.request(a, whole(1, true), true), Answer::Waits);
    assert_eq!(table.request(c, whole(1, false), true), Answer::Waits, "behind the exclusive");
    assert_eq!(table.leave(b), vec![a]);
    assert_eq!(table.give_up(c), vec![]);
    // Two that share and both want more: a cycle without a second number.
    let mut table = Table::default();
    let [a, b] = [1, 2].map(|process| table.enter(process));
    assert_eq!(table.request(a, whole(1, false), true), Answer::Granted);
    assert_eq!(table.request(b, whole(1, false), true), Answer::Granted);
    assert_eq!(table.request(a, whole(1, true), true), Answer::Waits);
    assert_eq!(table.request(b, whole(1, true), true), Answer::Deadlock(vec![b, a]));
    assert_eq!(table.leave(b), vec![a]);
}

#[test]
fn locks_are_bounded() {
    let mut table = Table::with_bounds(Bounds { of_owner: 2, in_all: 3 });
    let [a, b] = [1, 2].map(|process| table.enter(process));
    let level = Level::Transaction;
    let mut take = |owner, number, exclusive| {
        let wanted = Wanted { key: AdvisoryKey::Whole(number), exclusive, level };
        table.request(owner, wanted, true)
    };
    assert_eq!(take(a, 1, true), Answer::Granted);
    assert_eq!(take(a, 2, true), Answer::Granted);
    assert_eq!(take(a, 3, true), Answer::Full);
    assert_eq!(take(a, 2, false), Answer::Granted, "it holds that number");
    assert_eq!(take(b, 3, true), Answer::Granted);
    assert_eq!(take(b, 4, true), Answer::Full);
    drop(take);
    table.leave(a);
    assert_eq!(table.held, 1);
}
