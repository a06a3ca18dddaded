//! Every schedule of a few blocks: all orders in which what was begun can be done, with barriers in
//! all places, against the invariants, which are written here a second time.

use std::collections::{BTreeSet, HashSet};

use super::*;

const BLOCKS: Height = 4;

/// What a world is, and what has happened in it.
#[derive(Clone, Debug)]
struct World {
    pipeline: Pipeline,
    barriers: [Barrier; BLOCKS as usize],
    /// How many of the blocks before it each has not seen; those that the lag hides do not count.
    unseen: Height,
    rules: Rules,
    /// Those in force after a change of parameters.
    next_rules: Rules,
    ordered: Height,
    /// Begun and not yet done.
    pending: Vec<Event>,
    prepared: BTreeSet<Height>,
    finished: Height,
    appended: BTreeSet<Height>,
    durable: BTreeSet<Height>,
    published: Height,
    recorded: Height,
    failed: bool,
}

impl World {
    fn new(pipeline: Pipeline, barriers: [Barrier; BLOCKS as usize], next_rules: Rules) -> World {
        World {
            rules: pipeline.rules(),
            pipeline,
            barriers,
            unseen: BLOCKS,
            next_rules,
            ordered: 0,
            pending: Vec::new(),
            prepared: BTreeSet::new(),
            finished: 0,
            appended: BTreeSet::new(),
            durable: BTreeSet::new(),
            published: 0,
            recorded: 0,
            failed: false,
        }
    }

    fn barrier(&self, height: Height) -> Barrier {
        self.barriers[height as usize - 1]
    }

    /// The last barrier before a block.
    fn floor(&self, height: Height) -> Height {
        (1..height).rev().find(|&h| self.barrier(h) != Barrier::None).unwrap_or(0)
    }

    fn seen(&self, height: Height) -> Height {
        height.saturating_sub(self.unseen)
    }

    fn expected_snapshots(&self, height: Height) -> Snapshots {
        let lags = self.barrier(height) == Barrier::None && !height.is_multiple_of(SAFE_BLOCKS);
        let lag = if lags { self.rules.lag } else { 1 };
        let floor = self.floor(height);
        let newest = height.saturating_sub(lag.min(self.unseen.max(1))).max(floor);
        Snapshots { newest, floor }
    }

    /// All that can happen next.
    fn events(&self) -> Vec<Event> {
        let mut events = self.pending.clone();
        if !self.failed && self.ordered < BLOCKS && self.pipeline.may_order() {
            let height = self.ordered + 1;
            let (barrier, seen) = (self.barrier(height), self.seen(height));
            events.push(Event::Ordered { height, barrier, seen, bytes: 1 });
        }
        if !events.is_empty() && !self.failed {
            events.push(Event::Failed);
        }
        events
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        self.pending.retain(|pending| *pending != event);
        match event {
            Event::Ordered { height, .. } => self.ordered = height,
            Event::Prepared(height) => drop(self.prepared.insert(height)),
            Event::Finished { height, rules } => (self.finished, self.rules) = (height, rules),
            Event::Durable(height) => drop(self.durable.insert(height)),
            Event::Failed => self.failed = true,
        }
        let failed_before = self.failed && event != Event::Failed;
        for action in self.pipeline.step(event) {
            if failed_before || (self.failed && action != Action::Halt) {
                return Err(format!("{action:?} after a failure"));
            }
            self.acts(action).map_err(|what| format!("{action:?}: {what}"))?;
        }
        Ok(())
    }

    fn acts(&mut self, action: Action) -> Result<(), String> {
        let check = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        match action {
            Action::Append(height) => {
                check(self.appended.insert(height), "appended twice")?;
                check(height <= self.ordered, "not ordered")?;
                self.pending.push(Event::Durable(height));
            }
            Action::Prepare { height, snapshots } => {
                check(height <= self.ordered, "not ordered")?;
                check(self.prepared.iter().all(|&other| other < height), "out of order")?;
                let busy = self.pending.iter().any(|event| matches!(event, Event::Prepared(_)));
                check(!busy, "two at a time")?;
                check(snapshots == self.expected_snapshots(height), "another snapshot")?;
                check(snapshots.floor <= self.published, "a barrier is not published")?;
                let readable = snapshots.newest <= self.published;
                check(self.rules.plans_ahead || readable, "its snapshot is not published")?;
                self.pending.push(Event::Prepared(height));
            }
            Action::Finish(height) => {
                check(self.prepared.contains(&height), "not prepared")?;
                check(self.published + 1 == height, "the block before is not published")?;
                check(self.finished < height, "finished twice")?;
                let changes = self.barrier(height) == Barrier::Parameters;
                let rules = if changes { self.next_rules } else { self.rules };
                self.pending.push(Event::Finished { height, rules });
            }
            Action::Publish(height) => {
                check(height == self.published + 1, "out of order")?;
                check(height <= self.finished, "not finished")?;
                check(self.durable.contains(&height), "not durable")?;
                self.published = height;
                let behind = height < self.ordered;
                let reorders_previous =
                    behind && self.expected_snapshots(height + 1).newest < height;
                check(
                    self.pipeline.newest_is_safe() != reorders_previous,
                    "safe is another height",
                )?;
            }
            Action::Answer(height) => check(height == self.published, "not published")?,
            Action::Record(height) => {
                check(height == self.published && height == self.recorded + 1, "out of order")?;
                self.recorded = height;
            }
            Action::Collect | Action::Checkpoint(_) | Action::Halt => {}
        }
        Ok(())
    }

    fn ends_well(&self) -> Result<(), String> {
        let all = self.published == BLOCKS && self.recorded == BLOCKS && self.pipeline.is_idle();
        if all || self.failed { Ok(()) } else { Err("nothing can happen any more".to_owned()) }
    }
}

/// Visits all that can come of a world; the number of its states.
fn explore(world: World) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        if !seen.insert(format!("{world:?}")) {
            continue;
        }
        let events = world.events();
        if events.is_empty() {
            world.ends_well().map_err(|what| format!("{what}: {world:#?}"))?;
        }
        for event in events {
            let mut next = world.clone();
            next.happens(event).map_err(|what| format!("{event:?}: {what}: {world:#?}"))?;
            open.push(next);
        }
    }
    Ok(seen.len())
}

const CHOICES: [Rules; 5] = [
    Rules { lag: 1, plans_ahead: false, runs_first: false },
    Rules { lag: 2, plans_ahead: false, runs_first: false },
    Rules { lag: 3, plans_ahead: false, runs_first: false },
    Rules { lag: 1, plans_ahead: true, runs_first: false },
    Rules { lag: 1, plans_ahead: false, runs_first: true },
];

fn all_barriers() -> impl Iterator<Item = [Barrier; BLOCKS as usize]> {
    let kinds = [Barrier::None, Barrier::Schema, Barrier::Parameters];
    let count = kinds.len().pow(BLOCKS as u32);
    (0..count).map(move |n| std::array::from_fn(|at| kinds[n / kinds.len().pow(at as u32) % 3]))
}

fn pipeline(rules: Rules) -> Pipeline {
    Pipeline::new(0, 0, rules, Cadence::default())
}

#[test]
fn every_schedule_of_four_blocks_keeps_the_invariants() {
    let mut states = 0;
    for rules in CHOICES {
        for barriers in all_barriers() {
            let last = barriers.iter().filter(|&&barrier| barrier == Barrier::Parameters).count();
            // Without a change of parameters nothing follows them.
            let unchanged = [rules];
            for next_rules in if last > 0 { &CHOICES[..] } else { &unchanged } {
                for unseen in [1, 2, BLOCKS] {
                    let world = World::new(pipeline(rules), barriers, *next_rules);
                    let explored = explore(World { unseen, ..world });
                    states += explored.unwrap_or_else(|what| panic!("{rules:?}: {what}"));
                }
            }
        }
    }
    assert!(states > 10_000, "{states}");
}

#[test]
fn seeded_bugs_are_found_by_some_schedule() {
    for mutant in Pipeline::MUTANTS {
        let found = CHOICES.iter().any(|&rules| {
            let barriers = [Barrier::None; BLOCKS as usize];
            explore(World::new(pipeline(rules).with_mutant(mutant), barriers, rules)).is_err()
        });
        assert!(found, "{mutant}");
    }
}

/// A block is prepared while the one before it is finished, and never more than `carry_lag` are
/// under way.
#[test]
fn blocks_overlap_as_far_as_the_rules_allow() {
    let deepest = |rules: Rules| {
        let mut pipeline = pipeline(rules);
        let mut height = 0;
        while pipeline.may_order() {
            height += 1;
            pipeline.step(Event::Ordered { height, barrier: Barrier::None, seen: 0, bytes: 0 });
            pipeline.step(Event::Durable(height));
        }
        height
    };
    assert_eq!(CHOICES.map(deepest), [1, 2, 3, 2, 1]);
}

#[test]
fn a_checkpoint_is_due_after_blocks_or_bytes() {
    let cadence = Cadence { collect_blocks: 2, checkpoint_blocks: 3, checkpoint_bytes: 100 };
    let mut pipeline = Pipeline::new(0, 0, CHOICES[0], cadence);
    let mut due = Vec::new();
    for (height, bytes) in (1..).zip([10, 10, 10, 150, 10]) {
        let rules = CHOICES[0];
        let events = [
            Event::Ordered { height, barrier: Barrier::None, seen: 0, bytes },
            Event::Durable(height),
            Event::Prepared(height),
            Event::Finished { height, rules },
        ];
        let actions = events.into_iter().flat_map(|event| pipeline.step(event));
        due.extend(actions.filter(|a| matches!(a, Action::Collect | Action::Checkpoint(_))));
    }
    let expected = [Action::Collect, Action::Checkpoint(3), Action::Checkpoint(4), Action::Collect];
    assert_eq!(due, expected);
}
