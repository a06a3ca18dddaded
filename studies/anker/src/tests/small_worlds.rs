//! Every interleaving of a few short transactions and queries, one step at a time.

use crate::area::{Area, Frozen};
use crate::areas::Slabs;
use crate::mutant::{Mutant, Mutants};
use crate::snapshot::Snapshot;
use crate::tests::history::{History, Running, State, Step};
use crate::{ColumnId, Configuration, Engine};

const ROWS: usize = 3;
const COLUMNS: usize = 2;

#[derive(Clone, Debug)]
enum Actor {
    /// Begin, each step, commit.
    Transaction(Vec<Step>),
    /// Request both columns, read the first, read the second; in one engine all at once.
    Query,
}

impl Actor {
    fn turns(&self) -> usize {
        match self {
            Transaction(steps) => steps.len() + 2,
            Query => COLUMNS + 1,
        }
    }
}

use Actor::{Query, Transaction};
use Step::{Find, Put, Read, Write};

/// What each world is about.
fn worlds() -> Vec<(&'static str, Vec<Actor>)> {
    vec![
        (
            "write skew, and a query over both columns",
            vec![
                Transaction(vec![Read(1, 0), Write(0, 0, 1)]),
                Transaction(vec![Read(0, 0), Write(1, 0, 2)]),
                Query,
            ],
        ),
        (
            "lost updates",
            vec![
                Transaction(vec![Read(0, 0), Write(0, 0, 1)]),
                Transaction(vec![Read(0, 0), Write(0, 0, 2)]),
                Transaction(vec![Put(0, 0, 7)]),
            ],
        ),
        (
            "rows that enter a range",
            vec![
                Transaction(vec![Find(0, 1..=5), Write(1, 0, 1)]),
                Transaction(vec![Put(0, 0, 9), Put(0, 1, 3)]),
                Transaction(vec![Put(0, 0, 2)]),
            ],
        ),
        (
            "rows that leave a range",
            vec![
                Transaction(vec![Find(0, 0..=0), Write(1, 0, 1)]),
                Transaction(vec![Put(0, 0, 9)]),
                Query,
            ],
        ),
        (
            "two columns change together while two queries look",
            vec![Transaction(vec![Put(0, 1, 5), Put(1, 1, 5)]), Query, Query],
        ),
        (
            "two columns change, one after the other",
            vec![Transaction(vec![Put(0, 1, 5)]), Transaction(vec![Put(1, 1, 6)]), Query],
        ),
        (
            "a reader that began long ago",
            vec![
                Transaction(vec![Read(0, 0), Read(0, 0), Find(0, 0..=0)]),
                Transaction(vec![Put(0, 0, 1)]),
                Transaction(vec![Read(0, 0), Write(0, 0, 2)]),
            ],
        ),
    ]
}

/// An actor at work.
enum Stage<'e, A: Area> {
    Before,
    Running(Running<'e, A>),
    /// With the columns that it has read.
    Asked(Snapshot<'e, A>, State),
    Over,
}

impl<'e, A: Area> Stage<'e, A> {
    fn asked(&self) -> Option<(&Snapshot<'e, A>, &State)> {
        match self {
            Stage::Asked(snapshot, seen) => Some((snapshot, seen)),
            _ => None,
        }
    }
}

struct Play<'e, A: Area> {
    engine: &'e Engine<A>,
    history: History,
    stages: Vec<(Stage<'e, A>, usize)>,
}

impl<'e, A: Area> Play<'e, A> {
    fn turn(&mut self, actors: &[Actor], who: usize) {
        let (stage, turn) = &mut self.stages[who];
        let at = *turn;
        *turn += 1;
        *stage = match (&actors[who], std::mem::replace(stage, Stage::Over)) {
            (Transaction(_), Stage::Before) => Stage::Running(Running::begin(self.engine)),
            (Transaction(steps), Stage::Running(mut running)) => match steps.get(at - 1) {
                Some(step) => match running.step(step) {
                    Ok(()) => Stage::Running(running),
                    Err(_) => Stage::Over,
                },
                None => {
                    self.history.records.extend(running.commit(steps));
                    Stage::Over
                }
            },
            (Query, Stage::Before) if self.engine.configuration() == Configuration::HeeAnker => {
                let columns: Vec<ColumnId> = (0..COLUMNS as u16).map(ColumnId).collect();
                Stage::Asked(self.engine.snapshot(&columns), vec![])
            }
            (Query, Stage::Before) => {
                let reader = self.engine.begin();
                let zone = |column: usize| {
                    let mut rows = vec![0; ROWS];
                    reader.read_zone(ColumnId(column as u16), 0, &mut rows);
                    rows
                };
                let state: State = (0..COLUMNS).map(zone).collect();
                self.history.states.push((reader.begin_timestamp(), state));
                self.engine.collect();
                Stage::Over
            }
            (Query, Stage::Asked(snapshot, mut seen)) => {
                let frozen = snapshot.column(ColumnId(at as u16 - 1)).expect("asked for");
                seen.push(frozen.values().zone(0).into_owned());
                Stage::Asked(snapshot, seen)
            }
            (_, over) => over,
        };
        // The collector comes by all the time, as far as the configuration has one.
        if !self.engine.configuration().is_hybrid() {
            self.engine.collect();
        }
    }

    /// What the chains are handed over for: a frozen column can still show what an older snapshot
    /// saw, back to the one that was frozen before.
    fn older_states_are_in_the_chains(&self) -> Result<(), String> {
        for (snapshot, _) in self.stages.iter().filter_map(|(stage, _)| stage.asked()) {
            for (older, columns) in self.stages.iter().filter_map(|(stage, _)| stage.asked()) {
                let at = older.timestamp();
                for (id, column) in columns.iter().enumerate() {
                    let frozen = snapshot.column(ColumnId(id as u16)).expect("asked for");
                    let old: Option<Vec<i64>> =
                        (0..ROWS).map(|row| frozen.read_at(row, at)).collect();
                    if at <= snapshot.timestamp() && old.as_ref() != Some(column) {
                        return Err(format!("as of {at}, the chains say {old:?}, not {column:?}"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn play(
    configuration: Configuration,
    actors: &[Actor],
    order: &[usize],
    mutants: Mutants,
) -> Result<(), String> {
    let engine: Engine<Slabs> = Engine::with_mutants(configuration, &[ROWS; COLUMNS], mutants)
        .map_err(|error| error.to_string())?;
    let stages = actors.iter().map(|_| (Stage::Before, 0)).collect();
    let mut play = Play { engine: &engine, history: History::default(), stages };
    order.iter().for_each(|&who| play.turn(actors, who));
    play.older_states_are_in_the_chains()?;
    let mut history = std::mem::take(&mut play.history);
    for (stage, _) in play.stages {
        if let Stage::Asked(snapshot, seen) = stage {
            history.states.push((snapshot.timestamp(), seen));
        }
    }
    history.check(vec![vec![0; ROWS]; COLUMNS], configuration)
}

/// Calls `visit` with every order in which the turns can be taken, until it finds fault.
fn interleavings(
    left: &mut [usize],
    order: &mut Vec<usize>,
    visit: &mut dyn FnMut(&[usize]) -> Result<(), String>,
) -> Result<(), String> {
    if left.iter().all(|left| *left == 0) {
        return visit(order);
    }
    for who in 0..left.len() {
        if left[who] > 0 {
            left[who] -= 1;
            order.push(who);
            let verdict = interleavings(left, order, visit);
            order.pop();
            left[who] += 1;
            verdict?;
        }
    }
    Ok(())
}

/// All worlds, all interleavings: the first fault, or how many were tried.
pub fn explore(configuration: Configuration, mutant: Option<Mutant>) -> Result<usize, String> {
    let mut tried = 0;
    for (about, actors) in worlds() {
        let mut left: Vec<usize> = actors.iter().map(Actor::turns).collect();
        interleavings(&mut left, &mut Vec::new(), &mut |order| {
            tried += 1;
            play(configuration, &actors, order, Mutants(mutant))
                .map_err(|fault| format!("{about}, turns {order:?}: {fault}"))
        })?;
    }
    Ok(tried)
}

fn holds(configuration: Configuration) {
    let tried = explore(configuration, None).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(tried > 40_000, "{tried}");
}

#[test]
fn one_engine_is_serializable_in_commit_order() {
    holds(Configuration::SeeFs);
}

#[test]
fn one_engine_without_validation_is_snapshot_isolation() {
    holds(Configuration::SeeSi);
}

#[test]
fn two_engines_are_serializable_and_snapshots_are_prefixes() {
    holds(Configuration::HeeAnker);
}

/// The checker can tell the two apart.
#[test]
fn snapshot_isolation_has_write_skew() {
    let actors = &worlds()[0].1;
    let order = [0, 1, 0, 1, 0, 1, 0, 1];
    let engine: Engine<Slabs> =
        Engine::new(Configuration::SeeSi, &[ROWS; COLUMNS]).expect("an engine");
    let stages = actors.iter().map(|_| (Stage::Before, 0)).collect();
    let mut play = Play { engine: &engine, history: History::default(), stages };
    order.iter().for_each(|&who| play.turn(actors, who));
    assert_eq!(play.history.records.len(), 2, "both committed");
    let state = vec![vec![0; ROWS]; COLUMNS];
    assert!(std::mem::take(&mut play.history).check(state, Configuration::SeeFs).is_err());
}
