//! Lines of a protocol that runs nothing and defers as it is told.

use std::sync::Mutex;

use concurrency::{BlockOutcome, Isolation, Prepared, ProtocolInfo};
use types::{Error, SqlState};

use super::*;
use crate::{Batch, Cadence, Halves, Pipeline, Stepper};

static INFO: ProtocolInfo = ProtocolInfo {
    name: "deferring",
    paper: "none",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[],
};

/// Which positions of a block it defers.
type Defers = fn(&Block) -> Vec<Position>;

struct Deferring {
    lag: Height,
    defers: Defers,
    /// What it was asked for.
    asked: Mutex<Vec<String>>,
}

impl Deferring {
    fn ask(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

impl Protocol for Deferring {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn snapshot_lag(&self) -> Height {
        self.lag
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        _: &WorkerPool,
    ) -> Result<Prepared, String> {
        let height = snapshots.newest;
        let readable = store.newest() == height || store.pins().heights().contains(&height);
        assert!(readable, "the snapshot of block {height} is not held");
        self.ask(format!("prepare {} on {height}", block.height));
        Ok(Box::new(()))
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        _: &Arc<Store>,
        _: &mut BlockWrites,
        _: &Carried,
        _: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        self.ask(format!("finish {}", block.height));
        let outcomes = block.transactions.iter().map(|_| Outcome::Retry(error()));
        Ok(BlockOutcome {
            outcomes: outcomes.collect(),
            serial_order: (0..block.transactions.len() as Position).collect(),
            deferred: (self.defers)(block),
            ..BlockOutcome::default()
        })
    }
}

fn error() -> Error {
    Error::new(SqlState::SERIALIZATION_FAILURE, "deferred")
}

/// A transaction with a name.
#[derive(Clone, Debug)]
struct Named(char, Arc<Work>);

impl Task for Named {
    fn work(&self) -> &Arc<Work> {
        &self.1
    }
}

fn named(names: &str) -> Vec<Named> {
    names.chars().map(|name| Named(name, Arc::new(Work::Void(error())))).collect()
}

fn protocol(lag: Height, defers: Defers) -> Arc<Deferring> {
    Arc::new(Deferring { lag, defers, asked: Mutex::default() })
}

fn line(protocol: &Arc<Deferring>, attempts_max: u32) -> Line<Named> {
    let protocol: Arc<dyn Protocol> = Arc::<Deferring>::clone(protocol);
    Line::new(Arc::new(Store::new()), LineStart::new(protocol), attempts_max)
}

/// Runs blocks of these tasks one after the other: who was in each and stays, and who goes on.
fn run(line: &mut Line<Named>, blocks: &[&str]) -> Result<Vec<(String, usize)>, String> {
    let pool = WorkerPool::new(1);
    let blocks = blocks.iter().map(|names| {
        let newest = line.store().newest();
        let (height, snapshots) = (newest + 1, Snapshots { newest, floor: newest });
        let ready = line.plan(height, 0, named(names), snapshots).prepare(&pool)?;
        let Finished { decided, carried_in, .. } = line.finish(ready, &pool)?;
        line.store().publish(height);
        let name = |one: Decided<Named>| match one.decision {
            Decision::Now(task) => task.0,
            Decision::Later => '-',
        };
        Ok((decided.into_iter().map(name).collect(), carried_in))
    });
    blocks.collect()
}

/// All but the first of the first block.
fn of_the_first(block: &Block) -> Vec<Position> {
    if block.height == 1 { (1..block.transactions.len() as Position).collect() } else { Vec::new() }
}

#[test]
fn what_is_deferred_joins_the_block_carry_lag_later_ahead_of_its_own_in_its_order() {
    let expected = |blocks: [(&str, usize); 3]| blocks.map(|(names, n)| (names.to_owned(), n));
    let mut next = line(&protocol(1, of_the_first), 9);
    let ran = run(&mut next, &["abc", "d", "e"]).unwrap();
    assert_eq!(ran, expected([("a--", 0), ("bcd", 2), ("e", 0)]));
    let mut after_next = line(&protocol(2, of_the_first), 9);
    let ran = run(&mut after_next, &["abc", "d"]).unwrap();
    assert_eq!(ran, expected([("a--", 0), ("d", 0), ("", 0)])[..2]);
    let origins = after_next.deferred()[&3].iter().map(|one| (one.origin, one.attempts));
    let origin = |index| (Origin { height: 1, index }, 1);
    assert_eq!(origins.collect::<Vec<_>>(), [origin(1), origin(2)]);
    assert_eq!((after_next.joining(2), after_next.joining(3)), (0, 2));
    assert_eq!(run(&mut after_next, &["e"]).unwrap(), [("bce".to_owned(), 2)]);
    assert!(!after_next.has_deferred());
}

/// Where blocks defer to the next one but one no longer, two blocks may defer to the same.
#[test]
fn behind_a_change_of_protocol_all_join_in_the_order_of_their_origins() {
    let defers: Defers = |block| match block.height {
        1..4 => (0..block.transactions.len() as Position).collect(),
        _ => Vec::new(),
    };
    let mut line = line(&protocol(2, defers), 9);
    run(&mut line, &["a", "b"]).unwrap();
    line.set_protocol(protocol(1, defers), Carried::default());
    assert_eq!(run(&mut line, &["c"]).unwrap(), [("--".to_owned(), 1)]);
    assert_eq!(run(&mut line, &["d"]).unwrap(), [("abcd".to_owned(), 3)]);
    assert!(!line.has_deferred());
}

#[test]
fn a_task_is_deferred_attempts_max_times_and_then_its_retry_is_final() {
    let all = |block: &Block| (0..block.transactions.len() as Position).collect();
    let ran = run(&mut line(&protocol(1, all), 2), &["a", "b", "", "", ""]).unwrap();
    let names: Vec<_> = ran.iter().map(|(names, _)| names.as_str()).collect();
    assert_eq!(names, ["-", "--", "a-", "b", ""]);
    assert_eq!(run(&mut line(&protocol(1, all), 0), &["a"]).unwrap(), [("a".to_owned(), 0)]);
}

#[test]
fn what_is_deferred_out_of_place_halts() {
    let beyond: Defers = |_| vec![2];
    let descending: Defers = |_| vec![1, 0];
    let twice: Defers = |_| vec![1, 1];
    for defers in [beyond, descending, twice] {
        assert!(run(&mut line(&protocol(1, defers), 9), &["ab"]).is_err());
    }
}

/// A line that is made with what was carried and deferred goes on as the one before.
#[test]
fn a_line_goes_on_from_its_values() {
    let protocol = protocol(1, of_the_first);
    let mut whole = line(&protocol, 9);
    run(&mut whole, &["abc"]).unwrap();
    let deferred = whole.deferred().clone();
    let again: Arc<dyn Protocol> = Arc::<Deferring>::clone(&protocol);
    let carried = whole.carried().clone();
    let start = LineStart { carried, deferred, ..LineStart::new(again) };
    let mut next = Line::new(Arc::clone(whole.store()), start, 9);
    assert_eq!(run(&mut next, &["d"]).unwrap(), [("bcd".to_owned(), 2)]);
}

/// As far ahead as may be, or one at a time: the snapshots are the same, and held.
#[test]
fn a_stepper_prepares_as_far_ahead_as_blocks_are_ordered() {
    let steps = |lag, halves, one_at_a_time: bool| {
        let protocol = protocol(lag, |_| Vec::new());
        let line = line(&protocol, 9).without_changes();
        let cadence = Cadence { collect_blocks: 1, ..Cadence::default() };
        let pipeline = Pipeline::new(0, 0, line.rules(), cadence);
        let (mut stepper, pool) = (Stepper::new(line, pipeline), WorkerPool::new(2));
        let mut blocks = 0..3;
        loop {
            while stepper.pipeline().may_order()
                && (stepper.pipeline().is_idle() || !one_at_a_time)
                && blocks.next().is_some()
            {
                stepper.order(Batch { time_us: 0, tasks: named("ab") }).unwrap();
            }
            if stepper.release(&pool, halves).unwrap().is_none() {
                break;
            }
        }
        let asked = std::mem::take(&mut *protocol.asked.lock().unwrap());
        asked.join(", ").replace("prepare ", "p").replace("finish ", "f").replace(" on ", "@")
    };
    for halves in [Halves::PrepareFirst, Halves::FinishFirst, Halves::Together] {
        assert_eq!(steps(1, halves, false), "p1@0, f1, p2@1, f2, p3@2, f3");
        assert_eq!(steps(2, halves, true), "p1@0, f1, p2@0, f2, p3@1, f3");
    }
    assert_eq!(steps(2, Halves::PrepareFirst, false), "p1@0, p2@0, f1, p3@1, f2, f3");
    assert_eq!(steps(2, Halves::FinishFirst, false), "p1@0, f1, p2@0, f2, p3@1, f3");
}
