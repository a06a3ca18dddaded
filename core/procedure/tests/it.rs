//! The interpreter, the analysis and EXPLAIN on programs written step by step.

use std::ops::Bound;
use std::sync::Arc;

use procedure::analysis::{
    Abortable, AccessMode, Analysis, CommandClass, Coverage, FragmentId, Planning, Records, StepId,
};
use procedure::explain::{NameResolver, explain};
use procedure::meter::PAIR_UNITS;
use procedure::query::{RowFunction, SortKey};
use procedure::step::{Carried, OnError, Phi};
use procedure::testing::Memory;
use procedure::{
    Access, BinaryOp, Block, Column, CommandCode, Expr, Frame, Meter, Output, Procedure, Query,
    Reg, Step, run, run_step,
};
use types::{
    ColumnSchema, DataType, Error, Key, Result, SqlState, Stop, TableId, TableSchema, Value,
};

const CHECKING: TableId = TableId(1);
const HISTORY: TableId = TableId(2);

fn schemas() -> Vec<Arc<TableSchema>> {
    let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
    let checking = TableSchema {
        id: CHECKING,
        name: "checking".to_string(),
        columns: vec![column("customer", DataType::Int8), column("balance", DataType::Int8)],
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    };
    let history = TableSchema {
        id: HISTORY,
        name: "history".to_string(),
        columns: vec![
            column("source", DataType::Int8),
            column("amount", DataType::Int8),
            column("row_id", DataType::Uuid),
        ],
        primary_key: vec![2],
        indexes: Vec::new(),
        hidden_row_id: true,
    };
    vec![Arc::new(checking), Arc::new(history)]
}

struct Names(Vec<Arc<TableSchema>>);

impl NameResolver for Names {
    fn schema(&self, table: TableId) -> Option<&TableSchema> {
        self.0.iter().map(|schema| &**schema).find(|schema| schema.id == table)
    }
}

fn bank() -> Memory {
    let mut memory = Memory::new(schemas());
    for customer in 1..=3 {
        let row = vec![Value::Int(customer), Value::Int(100)];
        memory.put(CHECKING, row).unwrap();
    }
    memory
}

fn balances(memory: &Memory) -> Vec<i64> {
    memory.rows(CHECKING).iter().map(|row| row[1].as_int().unwrap()).collect()
}

fn reg(register: u16) -> Expr {
    Expr::Reg(Reg(register))
}

fn int(value: i64) -> Expr {
    Expr::Const(Value::Int(value))
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let result = if op.is_comparison() { DataType::Bool } else { DataType::Int8 };
    Expr::Binary { op, left: Box::new(left), right: Box::new(right), result }
}

fn add_to_balance(key: Expr, amount: Expr, op: BinaryOp, found: u16) -> Step {
    Step::Update {
        table: CHECKING,
        key: [key].into(),
        code: Arc::new(CommandCode::new(
            [(1, binary(op, Expr::Column(1), reg(0)))].into(),
            Box::default(),
        )),
        inputs: [amount].into(),
        found: Reg(found),
    }
}

fn require(condition: Expr, message: &str) -> Step {
    Step::Require { condition, error: OnError::new(SqlState::RAISE_EXCEPTION, message) }
}

fn procedure(parameters: &[(&str, DataType)], registers: u16, body: Vec<Step>) -> Procedure {
    let parameters = parameters
        .iter()
        .map(|(name, data_type)| Column { name: name.to_string(), data_type: data_type.clone() });
    Procedure {
        name: "p".to_string(),
        parameters: parameters.collect(),
        registers,
        register_names: Box::default(),
        body: body.into(),
        output: Output::Tag,
        tag: "CALL".to_string(),
        read_only: false,
        draws: false,
        sequences: Box::default(),
    }
}

const BIGINT: DataType = DataType::Int8;

/// SmallBank's payment, with a line in the history.
fn send_payment() -> Procedure {
    let parameters = [("source", BIGINT), ("target", BIGINT), ("amount", BIGINT)];
    let body = vec![
        Step::Read {
            table: CHECKING,
            key: [reg(0)].into(),
            columns: [1].into(),
            out: Reg(3),
            found: Reg(4),
        },
        require(binary(BinaryOp::GreaterOrEqual, reg(3), reg(2)), "insufficient funds"),
        add_to_balance(reg(0), reg(2), BinaryOp::Subtract, 5),
        add_to_balance(reg(1), reg(2), BinaryOp::Add, 6),
        require(reg(6), "no such account"),
        Step::Insert {
            table: HISTORY,
            key: [2].into(),
            hidden_row_id: true,
            values: [reg(0), reg(2)].into(),
            inserted: Reg(7),
        },
    ];
    let mut procedure = procedure(&parameters, 8, body);
    procedure.name = "send_payment".to_string();
    procedure.register_names = [(Reg(3), "balance".into())].into();
    procedure
}

fn ints<const N: usize>(values: [i64; N]) -> [Value; N] {
    values.map(Value::Int)
}

fn error_code(result: Result<procedure::ProgramResult, Stop>) -> String {
    match result {
        Err(Stop::Rejected(error)) => error.code().to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_serves_many_runs() {
    let procedure = send_payment();
    let (mut memory, mut frame) = (bank(), Frame::new());
    run(&procedure, &ints([1, 2, 30]), &mut frame, &mut memory).unwrap();
    run(&procedure, &ints([2, 3, 130]), &mut frame, &mut memory).unwrap();
    assert_eq!(balances(&memory), [70, 0, 230]);
    assert_eq!(memory.rows(HISTORY).len(), 2);
    let poor = run(&procedure, &ints([2, 3, 1]), &mut frame, &mut memory);
    assert_eq!(error_code(poor), "P0001");
    let unknown = run(&procedure, &ints([9, 3, 1]), &mut frame, &mut memory);
    assert_eq!(error_code(unknown), "P0001");
    let null = [Value::Null, Value::Int(1), Value::Int(1)];
    assert_eq!(error_code(run(&procedure, &null, &mut frame, &mut memory)), "P0001");
    assert_eq!(error_code(run(&procedure, &ints([1]), &mut frame, &mut memory)), "08P01");
}

#[test]
fn steps_run_one_at_a_time() {
    let procedure = send_payment();
    assert!(Analysis::of(&procedure).is_straight_line);
    let (mut memory, mut frame) = (bank(), Frame::new());
    frame.enter(&procedure, &ints([1, 2, 30]), memory.now_us()).unwrap();
    // The target's update needs nothing of the read: QueCC may run it first.
    for place in [3, 0, 1, 2, 4, 5] {
        run_step(&procedure.body[place], &mut frame, &mut memory).unwrap();
    }
    assert_eq!(balances(&memory), [70, 130, 100]);
    // Healing: the balance has changed, so its reader runs again.
    memory.put(CHECKING, vec![Value::Int(1), Value::Int(7)]).unwrap();
    run_step(&procedure.body[0], &mut frame, &mut memory).unwrap();
    assert_eq!(frame.get(Reg(3)), &Value::Int(7));
    assert!(run_step(&procedure.body[1], &mut frame, &mut memory).is_err());
}

#[test]
fn dependencies_follow_registers_and_rows() {
    let analysis = Analysis::of(&send_payment());
    let values = |id: usize| analysis.steps[id].value_dependencies.to_vec();
    let rows = |id: usize| analysis.steps[id].row_dependencies.to_vec();
    assert_eq!(values(1), [0]);
    assert_eq!(values(4), [3]);
    // Source and target may be the same account.
    assert_eq!(rows(2), [0]);
    assert_eq!(rows(3), [0, 2]);
    assert_eq!(analysis.dependents(0), [1 as StepId]);
    assert_eq!(analysis.dependents(2), [3, 4]);
    assert_eq!(analysis.dependents(5), [0; 0]);
    assert_eq!(analysis.guards.to_vec(), [1, 4]);
    assert_eq!(analysis.guards_before(3), [1]);
    assert_eq!(analysis.steps[3].abortable, Abortable::Arithmetic);
    let command = analysis.steps[2].command.as_ref().unwrap();
    assert_eq!(command.class, CommandClass::Add);
    assert!(command.commutes_with(analysis.steps[3].command.as_ref().unwrap()));
}

#[test]
fn fragments_gather_by_record() {
    let analysis = Analysis::of(&send_payment());
    let fragments = &analysis.fragments;
    let steps: Vec<Vec<StepId>> = fragments.iter().map(|f| f.steps.clone()).collect();
    assert_eq!(steps, [vec![0, 1, 2], vec![3, 4], vec![5]]);
    assert!(matches!(fragments[2].records, Records::New(HISTORY)));
    assert_eq!(fragments[0].commit_dependencies, [1 as FragmentId]);
    assert_eq!(fragments[1].commit_dependencies, [0]);
    assert_eq!(fragments[2].commit_dependencies, [0, 1]);
    assert!(fragments[2].data_dependencies.is_empty());
}

#[test]
fn keys_follow_from_arguments() {
    let analysis = Analysis::of(&send_payment());
    assert_eq!(analysis.keys.coverage, Coverage::Complete);
    let keys = analysis.keys.keys(&ints([1, 2, 30])).unwrap();
    let found: Vec<_> = keys.iter().map(|k| (k.step, k.key.clone(), k.mode, k.certain)).collect();
    assert_eq!(
        found,
        [
            (0, Key::from_int(1), AccessMode::Read, true),
            (2, Key::from_int(1), AccessMode::Write, true),
            (3, Key::from_int(2), AccessMode::Write, true),
        ]
    );
}

fn exists(key: Expr, found: u16) -> Step {
    Step::Exists { table: CHECKING, key: [key].into(), found: Reg(found) }
}

/// `FOREACH item IN ARRAY items LOOP … END LOOP`, with branches on data and on the argument.
fn order() -> Procedure {
    let array = DataType::Array(Box::new(BIGINT));
    let branch = |condition, then: Vec<Step>, otherwise: Vec<Step>| Step::If {
        condition,
        then: then.into(),
        otherwise: otherwise.into(),
        phis: Box::default(),
    };
    let read = Step::Read {
        table: CHECKING,
        key: [reg(2)].into(),
        columns: [1].into(),
        out: Reg(3),
        found: Reg(4),
    };
    let body: Block = [
        read,
        branch(
            binary(BinaryOp::Greater, reg(3), int(50)),
            vec![add_to_balance(reg(2), int(1), BinaryOp::Subtract, 5)],
            vec![add_to_balance(binary(BinaryOp::Add, reg(2), int(1)), int(1), BinaryOp::Add, 6)],
        ),
        branch(
            binary(BinaryOp::Greater, reg(2), reg(1)),
            vec![exists(reg(2), 7)],
            vec![Step::Continue { depth: 0, values: Box::default() }],
        ),
        exists(reg(3), 8),
    ]
    .into();
    procedure(
        &[("items", array), ("bound", BIGINT)],
        9,
        vec![Step::ForEach { register: Reg(2), array: reg(0), body, carried: Box::default() }],
    )
}

#[test]
fn key_plans_go_both_ways_where_data_decide() {
    let plan = Analysis::of(&order()).keys;
    assert_eq!(plan.coverage, Coverage::Partial);
    assert_eq!(plan.unplanned.to_vec(), [8]);
    let arguments = [Value::from(ints([1, 5]).to_vec()), Value::Int(3)];
    let keys = plan.keys(&arguments).unwrap();
    let found: Vec<_> = keys.iter().map(|k| (k.step, k.key.clone(), k.certain)).collect();
    let key = Key::from_int;
    assert_eq!(
        found,
        [
            (1, key(1), true),
            (3, key(1), false),
            (4, key(2), false),
            (1, key(5), true),
            (3, key(5), false),
            (4, key(6), false),
            (6, key(5), true),
        ]
    );
    assert!(plan.keys(&[Value::Null, Value::Int(3)]).unwrap().is_empty());
}

#[test]
fn a_plan_evaluated_again_finds_nothing_of_the_call_before() {
    let read = Step::Read {
        table: CHECKING,
        key: [reg(0)].into(),
        columns: [1].into(),
        out: Reg(1),
        found: Reg(2),
    };
    let of_data = Step::Exists { table: CHECKING, key: [reg(0), reg(1)].into(), found: Reg(3) };
    let plan = Analysis::of(&procedure(&[("id", BIGINT)], 4, vec![read, of_data])).keys;
    let mut planning = Planning::default();
    for id in [1, 2] {
        plan.evaluate(&[Value::Int(id)], &mut planning).unwrap();
        let keys: Vec<_> = planning.found.keys.iter().map(|found| &found.key).collect();
        let leads: Vec<_> = planning.found.leads.iter().map(|lead| &lead.column).collect();
        assert_eq!(keys, [&Key::from_int(id)]);
        assert_eq!(leads, [&Key::from_int(id)]);
    }
}

/// Data may lead past an error, to the next turn or out of the loop: what comes there is planned
/// too.
#[test]
fn key_plans_go_past_what_may_be_skipped() {
    let read = || Step::Read {
        table: CHECKING,
        key: [reg(0)].into(),
        columns: [1].into(),
        out: Reg(1),
        found: Reg(2),
    };
    let when = |condition, then: Step| Step::If {
        condition,
        then: [then].into(),
        otherwise: Box::default(),
        phis: Box::default(),
    };
    let raise = || Step::Raise { error: OnError::new(SqlState::RAISE_EXCEPTION, "no") };
    let leave = |exit| match exit {
        true => Step::Exit { depth: 0, values: Box::default() },
        false => Step::Continue { depth: 0, values: Box::default() },
    };
    let rich = || binary(BinaryOp::Greater, reg(1), int(50));
    let twice = |body: Vec<Step>| Step::ForRange {
        register: Reg(0),
        first: int(1),
        last: int(2),
        step: int(1),
        reverse: false,
        body: body.into(),
        carried: Box::default(),
    };
    let is_second = || binary(BinaryOp::Equal, reg(0), int(2));
    for (body, expected) in [
        (vec![read(), when(rich(), leave(false)), raise()], [1, 2, 9]),
        (vec![when(is_second(), raise()), read(), when(rich(), leave(true))], [1, 9, 9]),
    ] {
        let procedure = procedure(&[], 4, vec![twice(body), exists(int(9), 3)]);
        let plan = Analysis::of(&procedure).keys;
        assert!(plan.is_complete());
        let keys = plan.keys(&[]).unwrap();
        let found: std::collections::BTreeSet<Key> = keys.into_iter().map(|k| k.key).collect();
        assert_eq!(found, expected.map(Key::from_int).into());
    }
}

#[test]
fn carried_registers_change_together() {
    // a, b := b, a + b, ten times.
    let carried = |register, initial: i64, next| Carried {
        register: Reg(register),
        initial: int(initial),
        next,
    };
    let body = vec![
        Step::ForRange {
            register: Reg(0),
            first: int(10),
            last: int(1),
            step: int(1),
            reverse: true,
            body: Box::default(),
            carried: [carried(1, 0, reg(2)), carried(2, 1, binary(BinaryOp::Add, reg(1), reg(2)))]
                .into(),
        },
        Step::Emit { values: [reg(1), reg(2)].into() },
    ];
    let procedure = procedure(&[], 3, body);
    let result = run(&procedure, &[], &mut Frame::new(), &mut bank()).unwrap();
    assert_eq!(*result.rows[0], ints([55, 89]));
}

#[test]
fn a_loop_without_end_is_rejected() {
    let body = vec![Step::While {
        condition: Expr::Const(Value::Bool(true)),
        body: Box::default(),
        carried: Box::default(),
    }];
    let procedure = procedure(&[], 0, body);
    let mut frame = Frame::metered(Meter::new(1_000_000, None));
    let result = run(&procedure, &[], &mut frame, &mut bank());
    assert_eq!(error_code(result), "54001");
}

/// What each operator costs: with that much it runs, with one unit less it does not.
#[test]
fn every_row_is_paid_for() {
    let scan = || Query::Scan {
        table: CHECKING,
        index: 0,
        nullable: Box::default(),
        low: Bound::Unbounded,
        high: Bound::Unbounded,
        reverse: false,
        columns: Box::new([0]),
        filter: Some(Expr::Const(Value::Bool(false))),
    };
    let series = |last| Query::Call {
        function: RowFunction::Integers,
        inputs: Box::new([int(1), int(last), int(1)]),
    };
    let get = |key| Query::Get {
        table: CHECKING,
        key: Box::new([key]),
        columns: Box::new([0]),
        filter: None,
    };
    let values = |count: i64| Query::Values((0..count).map(|i| [int(i)].into()).collect());
    let nested = Query::NestedLoop {
        outer: Box::new(series(5)),
        inner: Box::new(get(Expr::Column(0))),
        condition: None,
        left: false,
        inner_width: 1,
    };
    let hash = Query::HashJoin {
        outer: Box::new(series(6)),
        inner: Box::new(series(4)),
        outer_keys: Box::new([Expr::Const(Value::Int(1))]),
        inner_keys: Box::new([Expr::Const(Value::Int(1))]),
        condition: None,
        left: false,
        right: false,
        inner_width: 1,
    };
    let full = Query::HashJoin {
        outer: Box::new(series(2)),
        inner: Box::new(series(5)),
        outer_keys: Box::new([Expr::Column(0)]),
        inner_keys: Box::new([Expr::Column(0)]),
        condition: None,
        left: true,
        right: true,
        inner_width: 1,
    };
    let sort = |last| Query::Sort {
        input: Box::new(series(last)),
        keys: Box::new([SortKey { expr: Expr::Column(0), descending: true, nulls_first: false }]),
    };
    let rows = bank().rows(CHECKING).len() as u64;
    // What is held, and what is looked up by a hash.
    const HELD_UNITS: u64 = 3;
    const HASH_UNITS: u64 = 3;
    let cases = [
        (scan(), 1 + rows),
        (series(7), 7),
        (values(3), 3),
        (get(int(1)), 1),
        (nested, 5 + 5 + rows.min(5) * PAIR_UNITS + 5 * HELD_UNITS),
        (hash, 6 + 4 + 6 * 4 * PAIR_UNITS + 4 * HELD_UNITS + (6 + 4) * HASH_UNITS),
        (full, 2 + 5 + 5 * PAIR_UNITS + 5 * HELD_UNITS + (2 + 5) * HASH_UNITS),
        // Of each row its keys are held as well.
        (sort(10), 10 + 10 * 2 * HELD_UNITS),
        // Runs of 16,384 are merged twice.
        (sort(40_000), 40_000 + (32_768 + 40_000) + 40_000 * 2 * HELD_UNITS),
    ];
    for (query, cost) in cases {
        let shown = format!("{query:?}");
        let procedure = procedure(&[], 0, vec![Step::EmitQuery { query }]);
        let with = |units| {
            let mut frame = Frame::metered(Meter::new(units, None));
            run(&procedure, &[], &mut frame, &mut bank())
        };
        // One for the step.
        assert!(with(cost + 1).is_ok(), "{shown}");
        assert_eq!(error_code(with(cost)), "54001", "{shown}");
    }
}

#[test]
fn errors_are_filled_in() {
    let mut error = OnError::from(
        Error::new(SqlState::RAISE_EXCEPTION, "% of %%, not %").with_hint("as it was"),
    );
    error.arguments = [int(1), Expr::Const(Value::Null)].into();
    error.code = Some(Expr::Const(Value::from("division_by_zero")));
    error.detail = Some(int(7));
    let procedure = procedure(&[], 0, vec![Step::Raise { error }]);
    let Err(Stop::Rejected(error)) = run(&procedure, &[], &mut Frame::new(), &mut bank()) else {
        panic!("must be rejected");
    };
    assert_eq!(error.code(), SqlState::DIVISION_BY_ZERO);
    assert_eq!(error.message(), "1 of %, not <NULL>");
    assert_eq!(error.fields().detail.as_deref(), Some("7"));
    assert_eq!(error.fields().hint.as_deref(), Some("as it was"));
}

#[test]
fn pruning_keeps_what_is_read_or_may_fail() {
    let set = |out, value| Step::Let { out: Reg(out), value };
    let phi = |out, then: i64, otherwise: i64| Phi {
        out: Reg(out),
        then: int(then),
        otherwise: int(otherwise),
    };
    let mut body: Block = [
        set(1, reg(0)),
        set(2, binary(BinaryOp::Divide, int(1), reg(0))),
        set(3, int(3)),
        Step::If {
            condition: binary(BinaryOp::Greater, reg(0), int(0)),
            then: [set(4, reg(3))].into(),
            otherwise: Box::default(),
            phis: [phi(5, 1, 2), phi(6, 1, 2)].into(),
        },
        Step::If {
            condition: binary(BinaryOp::Less, reg(0), int(0)),
            then: [set(7, int(1))].into(),
            otherwise: Box::default(),
            phis: Box::default(),
        },
        Step::Emit { values: [reg(6)].into() },
    ]
    .into();
    procedure::prune(&mut body, 8);
    let [Step::Let { out: Reg(2), .. }, Step::If { then, phis, .. }, Step::Emit { .. }] = &*body
    else {
        panic!("{body:?}");
    };
    assert!(then.is_empty());
    assert_eq!(**phis, [phi(6, 1, 2)]);
}

#[test]
fn pruning_drops_what_is_required_on_every_way_already() {
    let not_null = |register| Expr::is_null(reg(register), true);
    let require = |register| Step::Require {
        condition: not_null(register),
        error: OnError::new(SqlState::NOT_NULL_VIOLATION, "null"),
    };
    let counted = |body: Vec<Step>| Step::ForRange {
        register: Reg(3),
        first: int(1),
        last: int(2),
        step: int(1),
        reverse: false,
        body: body.into(),
        carried: Box::default(),
    };
    let branch = Step::If {
        condition: reg(0),
        then: [require(1), require(0)].into(),
        otherwise: [require(1)].into(),
        phis: Box::default(),
    };
    // The counter is never NULL; what one branch requires says nothing after it.
    let mut body: Block =
        [require(0), branch, counted(vec![require(0), require(3), require(1)]), require(1)].into();
    procedure::prune(&mut body, 4);
    let [Step::Require { .. }, Step::If { then, otherwise, .. }, loop_step, Step::Require { .. }] =
        &*body
    else {
        panic!("{body:?}");
    };
    assert_eq!((then.len(), otherwise.len()), (1, 1));
    let Step::ForRange { body, .. } = loop_step else { panic!("{loop_step:?}") };
    let [Step::Require { condition, .. }] = &**body else { panic!("{body:?}") };
    assert_eq!(*condition, not_null(1));
}

/// Compares with a text in `tests/golden`; `BLESS=1` writes it.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{path}");
}

#[test]
fn explain_shows_steps_and_analysis() {
    let names = Names(schemas());
    golden("send_payment", &explain(&send_payment(), &names));
    golden("order", &explain(&order(), &names));
}
