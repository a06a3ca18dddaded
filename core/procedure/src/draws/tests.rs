use std::collections::BTreeSet;
use std::sync::Arc;

use types::{ColumnSchema, TableId, TableSchema};

use super::*;
use crate::analysis::KeyPlan;
use crate::build::{Builder, Tables, add, at_least, int};
use crate::query::RowFunction;
use crate::testing::Memory;
use crate::{Frame, run};

const SEED: Seed = *b"sixteen bytes ok";

/// A call as the compiler leaves it.
fn drawn(function: Function, mark: i64) -> Expr {
    let now = (function == Function::Uuidv7).then_some(Expr::Now);
    let arguments = now.into_iter().chain([super::mark(mark)]).collect();
    Expr::Call { function, arguments, result: DataType::Uuid }
}

fn schema() -> Arc<TableSchema> {
    let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
    Arc::new(TableSchema {
        id: TableId(1),
        name: "t".into(),
        columns: vec![column("id", DataType::Uuid), column("n", DataType::Int8)],
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

fn tables() -> Tables {
    [schema()].into_iter().collect()
}

fn series(last: i64) -> Query {
    Query::Call { function: RowFunction::Integers, inputs: [int(1), int(last), int(1)].into() }
}

fn one_for_each(input: Query, draw: Expr) -> Query {
    Query::Project { input: Box::new(input), expressions: [draw].into() }
}

/// Branches of different lengths, loops in loops, turns that end early, queries.
fn program(function: Function) -> Procedure {
    let draw = |mark| drawn(function, mark);
    let tables = tables();
    let mut p = Builder::new(&tables, "p", &[("n", DataType::Int8)]);
    let [n] = p.arguments();
    p.emit(vec![draw(0)]);
    p.for_range([int(1), n], |p, i| {
        p.when_else(
            at_least(i.clone(), int(3)),
            |p| {
                p.emit(vec![draw(1)]);
                p.emit(vec![draw(2)]);
            },
            |p| p.for_range([int(1), int(2)], |p, _| p.emit(vec![draw(3)])),
        );
        p.for_rows(one_for_each(series(3), draw(4)), |p, [row]| {
            p.emit(vec![row]);
            p.emit(vec![draw(5)]);
        });
        p.for_range([int(1), add(i, int(1), &DataType::Int8)], |p, j| {
            p.emit(vec![draw(6)]);
            p.when(at_least(j, int(2)), |p| p.next_turn(None));
            p.emit(vec![draw(7)]);
        });
    });
    p.emit(vec![draw(8)]);
    let condition = Expr::is_null(draw(9), true);
    let filtered = Query::Filter { input: Box::new(series(4)), condition };
    p.emit_query(one_for_each(filtered, draw(10)));
    p.emit(vec![draw(11)]);
    let mut procedure = p.build().unwrap();
    place(&mut procedure).unwrap();
    procedure
}

fn answers(procedure: &Procedure, seed: Seed, n: i64) -> Vec<Value> {
    let arguments = Draws::new(seed).arguments(procedure, [Value::Int(n)]).unwrap();
    let mut memory = Memory::new([schema()]);
    let result = run(procedure, &arguments, &mut Frame::new(), &mut memory).unwrap();
    result.rows.iter().map(|row| row[0].clone()).collect()
}

#[test]
fn every_draw_is_another_one_and_a_second_run_draws_the_same() {
    let procedure = program(Function::GenRandomUuid);
    let drawn = answers(&procedure, SEED, 4);
    let texts: BTreeSet<String> = drawn.iter().map(ToString::to_string).collect();
    // Of turn i: 2, then 3 rows and 3, then i + 1 and one that is not passed over.
    assert_eq!(drawn.len(), 1 + 4 * (2 + 6 + 1) + (2 + 3 + 4 + 5) + 1 + 4 + 1);
    assert_eq!(texts.len(), drawn.len());
    assert_eq!(answers(&procedure, SEED, 4), drawn);
    let other = answers(&procedure, [0; 16], 4);
    assert!(other.iter().all(|uuid| !texts.contains(&uuid.to_string())));
}

#[test]
fn positions_grow_in_the_order_of_execution() {
    let drawn: Vec<_> = answers(&program(Function::Uuidv7), SEED, 4)
        .into_iter()
        .map(|value| match value {
            Value::Uuid(uuid) => uuid,
            other => panic!("{other:?}"),
        })
        .collect();
    // The rows of a loop are all read, and drawn for, before its first turn.
    let of_rows = |at: usize| {
        (0..4).any(|turn| {
            let before = 1 + (0..turn).map(|i| 9 + 2 + i).sum::<usize>() + 2;
            [before, before + 2, before + 4].contains(&at)
        })
    };
    let others = drawn.iter().enumerate().filter(|(at, _)| !of_rows(*at));
    assert!(others.map(|(_, uuid)| uuid).is_sorted_by(|a, b| a < b));
}

#[test]
fn a_copied_call_is_one_draw_and_lanes_are_others() {
    let tables = tables();
    let mut p = Builder::new(&tables, "p", &[("n", DataType::Int8)]);
    let draw = |mark| drawn(Function::GenRandomUuid, mark);
    p.emit(vec![Expr::equal(draw(1), draw(1))]);
    p.emit(vec![Expr::equal(draw(1), draw(2))]);
    p.emit(vec![draw(1)]);
    let mut procedure = p.build().unwrap();
    place(&mut procedure).unwrap();
    assert_eq!(procedure.visible_parameters().len(), 1);
    let mut draws = Draws::new(SEED);
    let mut run_once = || {
        let arguments = draws.arguments(&procedure, [Value::Int(1)]).unwrap();
        let mut memory = Memory::new([schema()]);
        run(&procedure, &arguments, &mut Frame::new(), &mut memory).unwrap().rows
    };
    let (first, second) = (run_once(), run_once());
    assert_eq!([&first[0][0], &first[1][0]], [&Value::Bool(true), &Value::Bool(false)]);
    assert_ne!(first[2], second[2]);
    assert_eq!(draws.lanes(), 2);
}

#[test]
fn a_drawn_key_is_known_before_the_program_runs() {
    let tables = tables();
    let mut p = Builder::new(&tables, "p", &[("n", DataType::Int8)]);
    let [n] = p.arguments();
    let id = p.assign(drawn(Function::GenRandomUuid, 0));
    p.insert("t", vec![("id", id), ("n", n)]);
    let mut procedure = p.build().unwrap();
    place(&mut procedure).unwrap();
    let arguments = Draws::new(SEED).arguments(&procedure, [Value::Int(5)]).unwrap();
    let plan = KeyPlan::of(&procedure);
    assert!(plan.is_complete());
    let keys = plan.keys(&arguments).unwrap();
    let mut memory = Memory::new([schema()]);
    run(&procedure, &arguments, &mut Frame::new(), &mut memory).unwrap();
    let Value::Uuid(stored) = memory.rows(TableId(1))[0][0] else { panic!("no uuid") };
    assert_eq!(keys[0].key.as_bytes(), stored);
}

#[test]
fn an_expression_outside_of_a_program_draws_from_its_seed() {
    let pair = Expr::Array([drawn(Function::Random, 0), drawn(Function::Random, 1)].into());
    let eval = |seed| {
        let mut expr = pair.clone();
        seed_expression(&mut expr, seed);
        expr.eval(&[], &[], 0).unwrap()
    };
    assert!(pair.eval(&[], &[], 0).is_err());
    assert_eq!(eval(SEED), eval(SEED));
    assert_ne!(eval(SEED), eval([0; 16]));
    let drawn = eval(SEED);
    let [one, other] = drawn.as_array().unwrap() else { panic!("no pair") };
    assert_ne!(one, other);
}
