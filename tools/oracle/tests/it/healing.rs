//! Transaction healing: the claims of Wu, Chan and Tan (SIGMOD 2016), and programs of every
//! structure that a walk can meet.
//!
//! One worker with many transactions under way at once: all of them run before the first commits,
//! so all but the first meet what they did not expect, on any schedule.

use std::ops::Bound;
use std::sync::Arc;

use concurrency::test_mode::TestMode;
use concurrency::{BlockOutcome, Outcome, Statement, Work, WorkerPool};
use kit::random::Random;
use oracle::programs::{LOG, TABLE, fill, schemas};
use oracle::subjects::{Subject, made};
use oracle::{Twin, rows};
use procedure::Expr;
use procedure::build::{Builder, Tables, add, at_least, int, less, multiply, subtract};
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::Procedure;
use types::{DataType, Value};

use crate::seeds;

const INT: DataType = DataType::Int8;
const HEALING: &str = "healing+interleaved=64";

fn tables() -> Tables {
    schemas().into_iter().collect()
}

fn call(procedure: &Arc<Procedure>, arguments: &[i64]) -> Arc<Work> {
    let arguments = arguments.iter().map(|n| Value::Int(*n)).collect();
    Arc::new(Work::Statement(Statement { procedure: Arc::clone(procedure), arguments }))
}

fn procedure(arguments: usize, build: impl FnOnce(&mut Builder<'_>, Vec<Expr>)) -> Arc<Procedure> {
    let tables = tables();
    let names: Vec<String> = (0..arguments).map(|n| format!("x{n}")).collect();
    let parameters: Vec<_> = names.iter().map(|name| (name.as_str(), INT)).collect();
    let mut p = Builder::new(&tables, "p", &parameters);
    p.returns(&[("a", INT), ("b", INT)]);
    let given = (0..arguments as u16).map(|n| Expr::Reg(procedure::Reg(n))).collect();
    build(&mut p, given);
    Arc::new(p.build().unwrap())
}

/// One block under healing, all at once, on one worker; what came of it is equal to serial replay.
fn at_once(keys: u64, block: Vec<Arc<Work>>) -> (Twin, BlockOutcome) {
    let subject = Subject::named(HEALING);
    let pool = WorkerPool::new(1);
    let mut twin = Twin::new(&schemas());
    // Shaken: a procedure has a graph from its first call.
    twin.test_mode = TestMode::chosen(1);
    twin.run(&subject.protocol, &pool, fill(keys)).unwrap();
    let outcome = twin.run(&subject.protocol, &pool, block).unwrap();
    (twin, outcome)
}

/// None was run again from its start, by the driver or at its commit.
fn assert_healed(outcome: &BlockOutcome, healed: u32) {
    let report = &outcome.report;
    let seen = (report.healed.0, report.healed_whole.0, report.executed_again.0);
    assert_eq!(seen, (healed, 0, 0));
}

/// Reads a row and writes what it read, plus one, as a value.
fn counted_by_value() -> Arc<Procedure> {
    procedure(1, |p, x| {
        let ([a], _) = p.read("t", &x[..1], ["a"]);
        let more = p.assign(add(a, int(1), &INT));
        p.update("t", &x[..1], vec![("a", more.clone())]);
        p.emit(vec![more, int(0)]);
    })
}

/// Section 3.4.2: what depends on a stale read is restored, and the transaction commits.
#[test]
fn nobody_begins_again_and_no_update_is_lost() {
    let counted = counted_by_value();
    let (twin, outcome) = at_once(1, (0..40).map(|_| call(&counted, &[0])).collect());
    assert_healed(&outcome, 39);
    assert_eq!(rows(&twin.subject, TABLE)[0].2[1], Value::Int(43));
}

/// Section 3.4.5: a row that has changed in columns that were not looked at restores nothing.
#[test]
fn false_invalidations_are_filtered() {
    let readers = procedure(1, |p, x| {
        let ([a], _) = p.read("t", &[int(0)], ["a"]);
        p.update("t", &x[..1], vec![("a", a.clone())]);
        p.emit(vec![a, int(0)]);
    });
    let others = procedure(0, |p, _| {
        let b = add(p.column("t", "b"), int(1), &INT);
        p.update("t", &[int(0)], vec![("b", b)]);
        p.emit(vec![int(0), int(0)]);
    });
    let block = (1..20).flat_map(|n| [call(&others, &[]), call(&readers, &[n])]).collect();
    let (_, outcome) = at_once(20, block);
    assert_healed(&outcome, 19);
}

/// The running example of section 3.1, with an order number: keys depend on what is healed, so the
/// old inserts are taken back and others made, and the numbers are dense.
#[test]
fn key_dependent_steps_move_to_other_keys() {
    let order = procedure(1, |p, x| {
        let ([next], _) = p.read("t", &[int(0)], ["a"]);
        let more = add(p.column("t", "a"), int(1), &INT);
        p.update("t", &[int(0)], vec![("a", more)]);
        p.insert("t", vec![("id", next.clone()), ("a", x[0].clone()), ("b", int(0))]);
        p.for_range([int(1), int(3)], |p, n| {
            let ([_], _) = p.read("t", &[int(1)], ["b"]);
            let id = p.assign(add(multiply(next.clone(), int(100), &INT), n, &INT));
            p.insert("t", vec![("id", id), ("a", next.clone()), ("b", int(1))]);
        });
        p.emit(vec![next, int(0)]);
    });
    let (twin, outcome) = at_once(2, (0..30).map(|n| call(&order, &[n])).collect());
    assert!(outcome.outcomes.iter().all(Outcome::is_committed));
    assert_healed(&outcome, 29);
    assert_eq!(rows(&twin.subject, TABLE).len(), 2 + 30 * 4);
}

/// Section 3.4.7: a range that has gained a row is read again, and what was counted is right.
#[test]
fn phantoms_are_healed() {
    let count = procedure(1, |p, x| {
        let all: [Bound<Box<[Expr]>>; 2] = [Bound::Unbounded, Bound::Unbounded];
        let input = Box::new(p.range("t", None, all, &["id"]));
        let aggregate = Aggregate {
            function: AggregateFunction::Count,
            input: None,
            distinct: false,
            filter: None,
            separator: None,
            order: Box::default(),
            result: INT,
        };
        let query = Query::Aggregate {
            input,
            groups: Box::default(),
            sets: Box::default(),
            aggregates: [aggregate].into(),
        };
        let ([count], _) = p.fetch(query);
        p.insert("t", vec![("id", x[0].clone()), ("a", count.clone()), ("b", int(0))]);
        p.emit(vec![count, int(0)]);
    });
    let (twin, outcome) = at_once(1, (10..30).map(|n| call(&count, &[n])).collect());
    assert_eq!((outcome.report.healed.0, outcome.report.executed_again.0), (19, 0));
    let mut counts: Vec<_> =
        rows(&twin.subject, TABLE)[1..].iter().map(|r| r.2[1].clone()).collect();
    counts.sort_by_key(Value::as_int);
    assert_eq!(counts, (1..21).map(Value::Int).collect::<Vec<_>>());
}

/// Section 3.3: a healed value that breaks what the program requires rejects the transaction, as it
/// would have been rejected alone.
#[test]
fn integrity_decides_on_healed_values() {
    let withdraw = procedure(1, |p, x| {
        let ([a], _) = p.read("t", &[int(0)], ["a"]);
        p.require(
            at_least(a.clone(), x[0].clone()),
            procedure::step::OnError::new(types::SqlState::CHECK_VIOLATION, "not enough"),
        );
        let rest = p.assign(subtract(a, x[0].clone(), &INT));
        p.update("t", &[int(0)], vec![("a", rest.clone())]);
        p.emit(vec![rest, int(0)]);
    });
    // Row 0 holds three.
    let (_, outcome) = at_once(1, (0..8).map(|_| call(&withdraw, &[1])).collect());
    assert_eq!(outcome.outcomes.iter().filter(|o| o.is_committed()).count(), 3);
    assert_eq!(outcome.report.executed_again.0, 0);
}

/// Section 3.4.8: what comes without a program that is known is validated all the same.
#[test]
fn ad_hoc_transactions_are_compatible() {
    let counted = counted_by_value();
    let load = |_| {
        let rows = vec![[Value::Int(0)].into()];
        Arc::new(Work::Load(concurrency::Load::new(Arc::clone(&counted), rows)))
    };
    let (twin, outcome) = at_once(1, (0..20).map(load).collect());
    let report = outcome.report;
    assert_eq!((report.healed.0, report.healed_whole.0, report.executed_again.0), (19, 19, 0));
    assert_eq!(rows(&twin.subject, TABLE)[0].2[1], Value::Int(23));
}

/// Order within a block is a serial order: positions are where the replay has them, whatever was
/// healed how often, on several workers too.
#[test]
fn positions_are_a_serial_order() {
    let pool = WorkerPool::new(4);
    let copy = procedure(2, |p, x| {
        let ([a], _) = p.read("t", &x[..1], ["a"]);
        let more = p.assign(add(a.clone(), int(1), &INT));
        p.update("t", &x[1..2], vec![("a", more)]);
        p.emit(vec![a, int(0)]);
    });
    for seed in 0..seeds(20) {
        for name in ["healing", "healing+interleaved=3", HEALING] {
            let subject = Subject::named(name);
            let mut random = Random::new(seed);
            let mut twin = Twin::new(&schemas());
            twin.test_mode = TestMode::of_seed(seed);
            twin.run(&subject.protocol, &pool, fill(3)).unwrap();
            let mut key = || random.below(3) as i64;
            let block = (0..40).map(|_| call(&copy, &[key(), key()])).collect();
            let outcome = twin.run(&subject.protocol, &pool, block).unwrap();
            assert!(outcome.outcomes.iter().all(Outcome::is_committed));
        }
    }
}

/// A program of any structure: values that come from rows, loops and branches feed keys, values,
/// bounds and decisions of what follows.
struct Program<'r> {
    random: &'r mut Random,
    /// Of rows and loops, to take keys and values from.
    known: Vec<Expr>,
    steps: u64,
    hidden: bool,
}

impl Program<'_> {
    fn value(&mut self) -> Expr {
        match self.random.below(4) {
            0 => int(self.random.below(5) as i64),
            _ => self.known[self.random.below(self.known.len() as u64) as usize].clone(),
        }
    }

    /// A key between 0 and 5, whatever the value is: NULL and negative ones find nothing.
    fn key(&mut self) -> Expr {
        let value = self.value();
        Expr::Binary {
            op: procedure::BinaryOp::Modulo,
            left: Box::new(value),
            right: Box::new(int(6)),
            result: INT,
        }
    }

    fn condition(&mut self) -> Expr {
        less(self.value(), int(self.random.below(9) as i64))
    }

    fn block(&mut self, p: &mut Builder<'_>, depth: u32) {
        for _ in 0..1 + self.random.below(3) {
            self.step(p, depth);
        }
    }

    fn inside(&mut self, p: &mut Builder<'_>, depth: u32) -> Expr {
        let outside = self.known.len();
        self.block(p, depth + 1);
        let value = self.value();
        // What is inside is known inside.
        let value = p.assign(value);
        self.known.truncate(outside);
        value
    }

    fn step(&mut self, p: &mut Builder<'_>, depth: u32) {
        self.steps += 1;
        let deep = depth > 1 || self.steps > 14;
        match self.random.below(if deep { 8 } else { 14 }) {
            simple @ 0..8 => self.simple_step(p, simple),
            structured => self.structure(p, structured, depth),
        }
    }

    fn simple_step(&mut self, p: &mut Builder<'_>, kind: u64) {
        match kind {
            0..3 => {
                let key = self.key();
                let ([a, b], _) = p.read("t", &[key], ["a", "b"]);
                self.known.extend([a, b]);
            }
            3 => {
                let (key, value) = (self.key(), self.value());
                let found = p.update("t", &[key], vec![("a", value)]);
                let found = p.select(found, |_| int(1), |_| int(2));
                self.known.push(found);
            }
            4 => {
                let key = self.key();
                let more = add(p.column("t", "b"), int(1), &INT);
                p.update("t", &[key], vec![("b", more)]);
            }
            5 if self.random.below(2) == 0 => {
                let shown = vec![self.value(), int(0)];
                p.emit(shown);
            }
            5 => {
                let sum = add(self.value(), int(1), &INT);
                let value = p.assign(sum);
                self.known.push(value);
            }
            6 if self.hidden => {
                let value = self.value();
                p.insert("log", vec![("v", value)]);
            }
            6 => {
                let key = self.key();
                p.delete("t", &[key]);
            }
            _ => {
                let (key, values) = (self.key(), [self.value(), self.value()]);
                let ([], found) = p.read("t", std::slice::from_ref(&key), []);
                let [a, b] = values;
                p.when(Expr::negated(found), |p| {
                    p.insert("t", vec![("id", key), ("a", a), ("b", b)]);
                });
            }
        }
    }

    fn structure(&mut self, p: &mut Builder<'_>, kind: u64, depth: u32) {
        match kind {
            8 | 9 => {
                let condition = self.condition();
                let this = std::cell::RefCell::new(&mut *self);
                let value = p.select(
                    condition,
                    |p| this.borrow_mut().inside(p, depth),
                    |p| this.borrow_mut().inside(p, depth),
                );
                self.known.push(value);
            }
            10 | 11 => {
                let last = self.key();
                let initial = self.value();
                let stops = self.random.below(3) == 0;
                let value = p.for_range_carrying([int(1), last], initial, |p, n, carried| {
                    let outside = self.known.len();
                    self.known.extend([n, carried.clone()]);
                    if stops {
                        let condition = self.condition();
                        p.when(condition, |p| p.leave(vec![carried]));
                    }
                    let value = self.inside(p, depth);
                    self.known.truncate(outside);
                    value
                });
                self.known.push(value);
            }
            12 => {
                let bounds = [Bound::Unbounded, Bound::Unbounded];
                let query = p.range("t", Some("t_a"), bounds, &["id", "b"]);
                p.for_rows(query, |p, row: [Expr; 2]| {
                    let outside = self.known.len();
                    self.known.extend(row);
                    self.inside(p, depth);
                    self.known.truncate(outside);
                });
            }
            _ => {
                let limit = self.random.below(4) as i64;
                let initial = [int(0), self.value()];
                let [_, value] = p.while_carrying(
                    initial,
                    |[n, _]| less(n, int(limit)),
                    |p, [n, carried]| {
                        let outside = self.known.len();
                        self.known.push(carried);
                        let value = self.inside(p, depth);
                        self.known.truncate(outside);
                        [add(n, int(1), &INT), value]
                    },
                );
                self.known.push(value);
            }
        }
    }
}

fn random_procedure(random: &mut Random) -> Arc<Procedure> {
    let hidden = random.below(4) == 0;
    procedure(2, |p, arguments| {
        let mut program = Program { random, known: arguments, steps: 0, hidden };
        for _ in 0..4 {
            program.step(p, 0);
        }
        let shown = vec![program.value(), program.value()];
        p.emit(shown);
    })
}

/// Whatever the program, what is healed is what would have been run.
#[test]
fn programs_of_any_structure_are_healed_to_what_they_would_have_done() {
    let pools = [WorkerPool::new(1), WorkerPool::new(3)];
    let (mut healed, mut whole) = (0, 0);
    for seed in 0..seeds(120) {
        let mut random = Random::new(seed);
        let procedures: Vec<_> = (0..3).map(|_| random_procedure(&mut random)).collect();
        for name in [HEALING, "healing+interleaved=3"] {
            let subject = Subject::named(name);
            let mut twin = Twin::new(&schemas());
            twin.test_mode = TestMode::chosen(seed);
            twin.run(&subject.protocol, &pools[0], fill(4)).unwrap();
            for round in 0..4 {
                let block = (0..12).map(|n| {
                    let arguments = [random.below(6) as i64, random.below(9) as i64];
                    call(&procedures[n % procedures.len()], &arguments)
                });
                let block: Vec<_> = block.collect();
                match twin.run(&subject.protocol, &pools[round % 2], block) {
                    Ok(outcome) => {
                        healed += outcome.report.healed.0;
                        whole += outcome.report.healed_whole.0;
                    }
                    Err(divergence) => {
                        panic!("{name}, seed {seed}, round {round}: {divergence}\n{procedures:#?}")
                    }
                }
            }
            assert!(rows(&twin.subject, LOG).len() < 10_000);
        }
    }
    // The walk itself is what is tested: not all of them may run from their start.
    assert!(healed > whole + healed / 10, "{healed} healed, {whole} from their start");
}

/// Each bug that only healing can have is found by the same programs.
#[test]
fn careless_healing_is_found() {
    let mutants = ["dependents_forgotten", "filter_too_wide", "old_key_kept", "phantoms_unhealed"];
    for mutant in mutants {
        let found = (0..400).any(|seed| {
            let protocol = made(HEALING, |options| options.with_mutant(mutant)).unwrap();
            let mut random = Random::new(seed);
            let procedures: Vec<_> = (0..3).map(|_| random_procedure(&mut random)).collect();
            let mut twin = Twin::new(&schemas());
            twin.test_mode = TestMode::chosen(seed);
            let pool = WorkerPool::new(1);
            let runs = || {
                twin.run(&protocol, &pool, fill(4))?;
                for _ in 0..4 {
                    let block = (0..12).map(|n| {
                        let arguments = [random.below(6) as i64, random.below(9) as i64];
                        call(&procedures[n % procedures.len()], &arguments)
                    });
                    let block = block.collect();
                    twin.run(&protocol, &pool, block)?;
                }
                Ok::<_, oracle::Divergence>(())
            };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(runs));
            !matches!(outcome, Ok(Ok(())))
        });
        assert!(found, "{mutant}");
    }
}
