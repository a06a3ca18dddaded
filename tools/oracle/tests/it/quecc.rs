//! QueCC's claims, each by name, and the seeded bugs that small random blocks cannot show.

use std::ops::Bound;
use std::sync::Arc;

use concurrency::{ExecutionPath, Outcome, Protocol, Statement, Work, WorkerPool};
use kit::random::Random;
use oracle::programs::{Builder, Operation, fill, random_program, random_work, schemas};
use oracle::{Divergence, Twin, rows};
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::{Carried, Column, OnError, Output, Phi, Procedure, Step};
use procedure::{BinaryOp, CommandCode, Expr, Reg, UnaryOp};
use types::{ColumnSchema, DataType, SqlState, TableId, TableSchema, Value};

const CONFIGURATIONS: [&str; 7] = [
    "quecc",
    "quecc:execution=conservative",
    "quecc:execution=early:cutting=always",
    "quecc:planning=pipelined",
    "quecc:reads=snapshot",
    "quecc:queue=16",
    "quecc:cutting=always",
];

/// One counter for each owner.
const COUNTERS: TableId = TableId(1);
/// Rows of an owner, numbered by the owner's counter.
const ITEMS: TableId = TableId(2);

fn owner_schemas() -> [Arc<TableSchema>; 2] {
    let table = |id, name: &str, columns: &[&str], key: usize| {
        let column = |name: &&str| ColumnSchema::new(*name, DataType::Int8);
        Arc::new(TableSchema {
            id,
            name: name.into(),
            columns: columns.iter().map(column).collect(),
            primary_key: (0..key as u16).collect(),
            indexes: Vec::new(),
            hidden_row_id: false,
        })
    };
    [
        table(COUNTERS, "counters", &["owner", "next"], 1),
        table(ITEMS, "items", &["owner", "number", "amount"], 2),
    ]
}

fn constant(number: i64) -> Expr {
    Expr::Const(Value::Int(number))
}

fn register(register: u16) -> Expr {
    Expr::Reg(Reg(register))
}

fn add(left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::Binary { op: BinaryOp::Add, left, right, result: DataType::Int8 }
}

fn work(parameters: u16, registers: u16, steps: Vec<Step>, arguments: &[Value]) -> Arc<Work> {
    let column = |i: u16| Column { name: format!("${i}"), data_type: DataType::Int8 };
    let procedure = Arc::new(Procedure {
        name: "owner".into(),
        parameters: (0..parameters).map(column).collect(),
        registers,
        body: steps.into(),
        output: Output::Rows(vec![column(0)]),
        tag: "CALL".into(),
        read_only: false,
        draws: false,
        sequences: Box::default(),
        register_names: Box::default(),
    });
    Arc::new(Work::Statement(Statement { procedure, arguments: arguments.into() }))
}

fn increment(table: TableId, key: Box<[Expr]>, column: u16, by: Expr, found: u16) -> Step {
    let code = CommandCode::new(
        Box::new([(column, add(Expr::Column(column), register(0)))]),
        Box::default(),
    );
    Step::Update { table, key, code: Arc::new(code), inputs: Box::new([by]), found: Reg(found) }
}

fn open(owner: i64) -> Arc<Work> {
    let insert = Step::Insert {
        table: COUNTERS,
        key: Box::new([0]),
        hidden_row_id: false,
        values: Box::new([register(0), constant(1)]),
        inserted: Reg(1),
    };
    work(1, 2, vec![insert], &[Value::Int(owner)])
}

/// Adds an item under the owner's next number: its key needs data, but for the first column.
fn append(owner: i64, amount: i64) -> Arc<Work> {
    let steps = vec![
        Step::Read {
            table: COUNTERS,
            key: Box::new([register(0)]),
            columns: Box::new([1]),
            out: Reg(2),
            found: Reg(3),
        },
        increment(COUNTERS, Box::new([register(0)]), 1, constant(1), 4),
        Step::Insert {
            table: ITEMS,
            key: Box::new([0, 1]),
            hidden_row_id: false,
            values: Box::new([register(0), register(2), register(1)]),
            inserted: Reg(5),
        },
        Step::Emit { values: Box::new([register(2)]) },
    ];
    work(2, 6, steps, &[Value::Int(owner), Value::Int(amount)])
}

/// The sum of an owner's items.
fn total(owner: i64) -> Arc<Work> {
    let scan = Query::Scan {
        table: ITEMS,
        index: 0,
        nullable: Box::new([false]),
        low: Bound::Included(Box::new([register(0)])),
        high: Bound::Included(Box::new([register(0)])),
        reverse: false,
        columns: Box::new([2]),
        filter: None,
    };
    let aggregate = Aggregate {
        function: AggregateFunction::Sum,
        input: Some(Expr::Column(0)),
        distinct: false,
        filter: None,
        separator: None,
        order: Box::default(),
        result: DataType::Int8,
    };
    let query = Query::Aggregate {
        input: Box::new(scan),
        groups: Box::default(),
        sets: Box::default(),
        aggregates: Box::new([aggregate]),
    };
    work(1, 2, vec![Step::EmitQuery { query }], &[Value::Int(owner)])
}

fn owners(protocol: &Arc<dyn Protocol>, pool: &WorkerPool, seed: u64) -> Result<Twin, Divergence> {
    let mut random = Random::new(seed);
    let mut twin = Twin::new(&owner_schemas());
    twin.run(protocol, pool, (0..6).map(open).collect())?;
    for _ in 0..3 {
        let block = (0..120).map(|_| {
            let owner = random.below(6) as i64;
            if random.chance(3) { total(owner) } else { append(owner, random.below(9) as i64) }
        });
        let outcome = twin.run(protocol, pool, block.collect())?;
        // Each of them has a place in the queues.
        assert!(outcome.serial_order.is_sorted() || protocol.info().name != "quecc");
    }
    Ok(twin)
}

/// Inserts whose numbers need data and scans of one owner, which the thesis leaves out, stand in
/// the queues of their owner: the serial order is block order.
#[test]
fn inserts_and_scans_are_queued_by_what_their_rows_have_in_common() {
    for name in ["quecc", "quecc:execution=conservative", "quecc:queue=16"] {
        let protocol = protocols::by_name(name).unwrap();
        for seed in 0..4 {
            let states = [1, 2, 8].map(|workers| {
                let twin = owners(&protocol, &WorkerPool::new(workers), seed)
                    .unwrap_or_else(|divergence| panic!("{name}, seed {seed}: {divergence}"));
                (rows(&twin.subject, COUNTERS), rows(&twin.subject, ITEMS))
            });
            assert!(states.windows(2).all(|two| two[0] == two[1]), "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_scan_that_does_not_say_where_it_stands_is_found() {
    let mutant = protocols::mutant("quecc", "no_scan_routes").unwrap();
    assert!((0..20).any(|seed| owners(&mutant, &WorkerPool::new(1), seed).is_err()));
}

fn less(left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::Binary { op: BinaryOp::Less, left, right, result: DataType::Bool }
}

fn look(key: Expr, out: u16, found: u16) -> Step {
    Step::Read {
        table: COUNTERS,
        key: Box::new([key]),
        columns: Box::new([1]),
        out: Reg(out),
        found: Reg(found),
    }
}

fn missing(found: u16) -> Step {
    let error = OnError::new(SqlState::RAISE_EXCEPTION, "no such owner");
    Step::If {
        condition: register(found),
        then: Box::default(),
        otherwise: Box::new([Step::Raise { error }]),
        phis: Box::default(),
    }
}

/// SmallBank's payment: it ends without a trace where the funds do not suffice, and is refused,
/// with a write to undo, where there is none to receive it.
fn pay(sender: i64, receiver: i64, amount: i64) -> Arc<Work> {
    let minus = Expr::Unary { op: UnaryOp::Negate, input: Box::new(register(2)) };
    let refused = Step::If {
        condition: less(register(3), register(2)),
        then: Box::new([Step::Emit { values: Box::new([constant(0)]) }, Step::Return]),
        otherwise: Box::default(),
        phis: Box::default(),
    };
    let steps = vec![
        look(register(0), 3, 4),
        missing(4),
        refused,
        increment(COUNTERS, Box::new([register(0)]), 1, minus, 5),
        increment(COUNTERS, Box::new([register(1)]), 1, register(2), 6),
        missing(6),
        Step::Emit { values: Box::new([constant(1)]) },
    ];
    work(3, 7, steps, &[sender, receiver, amount].map(Value::Int))
}

/// An order: its number, which its lines' keys hold, is read; what is read of an item depends on an
/// argument, and a line on what was read.
fn order(owner: i64, items: &[i64], kind: i64) -> Arc<Work> {
    let line = |amount: Expr, inserted: u16| Step::Insert {
        table: ITEMS,
        key: Box::new([0, 1]),
        hidden_row_id: false,
        values: Box::new([register(0), add(register(3), register(5)), amount]),
        inserted: Reg(inserted),
    };
    let by_kind = Step::If {
        condition: less(register(2), constant(2)),
        then: Box::new([look(register(5), 6, 7)]),
        otherwise: Box::new([look(add(register(5), constant(1)), 8, 9)]),
        phis: Box::new([
            Phi { out: Reg(10), then: register(6), otherwise: register(8) },
            Phi { out: Reg(11), then: register(7), otherwise: register(9) },
        ]),
    };
    let by_data = Step::If {
        condition: less(register(10), constant(1000)),
        then: Box::new([line(register(10), 12)]),
        otherwise: Box::new([line(constant(-1), 13)]),
        phis: Box::default(),
    };
    let body: Vec<Step> =
        vec![by_kind, by_data, increment(COUNTERS, Box::new([register(5)]), 1, constant(3), 14)];
    let steps = vec![
        look(register(0), 3, 4),
        increment(COUNTERS, Box::new([register(0)]), 1, constant(50), 15),
        Step::ForEach {
            register: Reg(5),
            array: register(1),
            body: body.into(),
            carried: Box::default(),
        },
        Step::Emit { values: Box::new([register(3)]) },
    ];
    let items = Value::array(items.iter().map(|item| Value::Int(*item)).collect::<Vec<_>>());
    work(3, 16, steps, &[Value::Int(owner), items, Value::Int(kind)])
}

/// One line of an order, whose whole key it knows.
fn correct(owner: i64, number: i64) -> Arc<Work> {
    let key = || -> Box<[Expr]> { Box::new([register(0), register(1)]) };
    let read =
        Step::Read { table: ITEMS, key: key(), columns: Box::new([2]), out: Reg(2), found: Reg(3) };
    let steps = vec![
        read,
        increment(ITEMS, key(), 2, constant(1), 4),
        Step::Emit { values: Box::new([register(2), register(3)]) },
    ];
    work(2, 5, steps, &[Value::Int(owner), Value::Int(number)])
}

fn payments_and_orders(
    protocol: &Arc<dyn Protocol>,
    workers: usize,
    seed: u64,
    scans: bool,
) -> Result<(Twin, u32), Divergence> {
    let pool = WorkerPool::new(workers);
    let mut random = Random::new(seed);
    let mut twin = Twin::new(&owner_schemas());
    twin.run(protocol, &pool, (0..9).map(open).collect())?;
    let mut cut = 0;
    for _ in 0..4 {
        let block = (0..100).map(|_| {
            let mut owner = |of: u64| random.below(of) as i64;
            // Few of them do not exist.
            let (one, other, third) = (owner(9), owner(10), owner(30));
            let third = if third > 9 { third % 8 } else { third };
            match owner(5) {
                0 if scans => total(one),
                0 => correct(one, owner(200)),
                1 => order(one, &[third, owner(8), owner(8)], owner(4)),
                _ => pay(one, other, owner(60)),
            }
        });
        cut += twin.run(protocol, &pool, block.collect())?.report.paths.of(ExecutionPath::Cut);
    }
    Ok((twin, cut))
}

/// Branches, ends and keys that data decide on are guards and data dependencies of fragments.
#[test]
fn control_flow_is_cut() {
    for name in CONFIGURATIONS {
        let protocol = protocols::by_name(name).unwrap();
        for (seed, scans) in (0..6).map(|seed| (seed, seed % 2 == 1)) {
            let states = [1, 2, 8].map(|workers| {
                let (twin, cut) = payments_and_orders(&protocol, workers, seed, scans)
                    .unwrap_or_else(|divergence| panic!("{name}, seed {seed}: {divergence}"));
                let all = if scans { 200 } else { 400 };
                let is_as_claimed = match name {
                    "quecc:execution=conservative" => cut == 0,
                    // A payment may be refused after a write.
                    "quecc:execution=early:cutting=always" => (1..all).contains(&cut),
                    "quecc:cutting=always" | "quecc:reads=snapshot" => cut >= all,
                    // A scan is in one piece, and then all are.
                    _ if scans => cut < all / 2,
                    _ => cut >= all,
                };
                assert!(is_as_claimed, "{name}, seed {seed}: {cut}");
                (rows(&twin.subject, COUNTERS), rows(&twin.subject, ITEMS))
            });
            assert!(states.windows(2).all(|two| two[0] == two[1]), "{name}, seed {seed}");
        }
    }
}

/// Two records of one table, perhaps the same one, between which no access may change places, and
/// one of another table that is found once, perhaps changed, perhaps taken away and put back.
fn meet(one: i64, other: i64) -> Arc<Work> {
    let key = || -> Box<[Expr]> { Box::new([register(0), register(1)]) };
    let item = |out: u16, found: u16| Step::Read {
        table: ITEMS,
        key: key(),
        columns: Box::new([1, 2]),
        out: Reg(out),
        found: Reg(found),
    };
    let when = |condition: Expr, then: Vec<Step>| Step::If {
        condition,
        then: then.into(),
        otherwise: Box::default(),
        phis: Box::default(),
    };
    let insert = |amount: Expr, inserted: u16| Step::Insert {
        table: ITEMS,
        key: Box::new([0, 1]),
        hidden_row_id: false,
        values: Box::new([register(0), register(1), amount]),
        inserted: Reg(inserted),
    };
    let delete = Step::Delete { table: ITEMS, key: key(), long: Box::default(), found: Reg(10) };
    let steps = vec![
        look(register(0), 2, 3),
        look(register(1), 4, 5),
        increment(COUNTERS, Box::new([register(0)]), 1, constant(7), 6),
        item(7, 9),
        when(less(register(8), register(2)), vec![increment(ITEMS, key(), 2, register(4), 11)]),
        when(less(register(1), constant(2)), vec![delete, insert(register(2), 12)]),
        insert(constant(5), 13),
        look(register(1), 14, 15),
        item(16, 18),
        Step::Emit {
            values: [2, 3, 4, 5, 8, 9, 13, 14, 17, 18].map(register).into_iter().collect(),
        },
    ];
    work(2, 19, steps, &[Value::Int(one), Value::Int(other)])
}

/// What a call does with a record is one fragment as far as nothing can come in between.
#[test]
fn fragments_do_more_than_one_thing_with_a_record() {
    for name in CONFIGURATIONS {
        let protocol = protocols::by_name(name).unwrap();
        for seed in 0..8 {
            let states = [1, 2].map(|workers| {
                let pool = WorkerPool::new(workers);
                let mut random = Random::new(seed);
                let mut twin = Twin::new(&owner_schemas());
                twin.run(&protocol, &pool, (0..4).map(open).collect()).unwrap();
                for _ in 0..4 {
                    let mut owner = || random.below(5) as i64;
                    let block = (0..60).map(|_| match owner() {
                        0 => pay(owner(), owner(), owner()),
                        _ => meet(owner(), owner()),
                    });
                    if let Err(divergence) = twin.run(&protocol, &pool, block.collect()) {
                        panic!("{name}, seed {seed}: {divergence}");
                    }
                }
                (rows(&twin.subject, COUNTERS), rows(&twin.subject, ITEMS))
            });
            assert_eq!(states[0], states[1], "{name}, seed {seed}");
        }
    }
}

/// A loop that is not cut is nothing to a call that gives it no turns.
#[test]
fn a_loop_without_turns_does_not_keep_a_call_in_one_piece() {
    let pool = WorkerPool::new(2);
    let protocol = protocols::by_name("quecc:cutting=always").unwrap();
    let call = |owners: &[i64]| {
        let Work::Statement(scan) = &*total(0) else { unreachable!() };
        let steps = vec![
            increment(COUNTERS, Box::new([register(0)]), 1, constant(2), 2),
            Step::ForEach {
                register: Reg(3),
                array: register(1),
                body: scan.procedure.body.clone(),
                carried: Box::default(),
            },
            look(register(0), 4, 5),
            Step::Emit { values: Box::new([register(4)]) },
        ];
        let owners =
            Value::array(owners.iter().map(|owner| Value::Int(*owner)).collect::<Vec<_>>());
        work(2, 6, steps, &[Value::Int(1), owners])
    };
    let mut twin = Twin::new(&owner_schemas());
    twin.run(&protocol, &pool, (0..3).map(open).collect()).unwrap();
    let block = (0..40).map(|n| call(if n % 4 == 0 { &[1, 2] } else { &[] })).collect();
    let paths = twin.run(&protocol, &pool, block).unwrap().report.paths;
    assert_eq!(
        (
            paths.of(ExecutionPath::Cut),
            paths.of(ExecutionPath::Whole),
            paths.of(ExecutionPath::Tail)
        ),
        (30, 10, 0)
    );
}

#[test]
fn a_scan_over_what_is_undone_is_found() {
    let mutant = protocols::mutant("quecc:cutting=always", "no_scan_dependents").unwrap();
    assert!((0..20).any(|seed| payments_and_orders(&mutant, 1, seed, true).is_err()));
}

/// A block that is large enough for several planners.
fn crowd(protocol: &Arc<dyn Protocol>, workers: usize, seed: u64) -> Result<Twin, Divergence> {
    let pool = WorkerPool::new(workers);
    let mut random = Random::new(seed);
    let mut twin = Twin::new(&schemas());
    twin.run(protocol, &pool, fill(10))?;
    for _ in 0..3 {
        let block = (0..130).map(|_| random_work(&mut random, 20, 3)).collect();
        twin.run(protocol, &pool, block)?;
    }
    Ok(twin)
}

/// Qadah 2021, 2.3: for every record, what a planner of higher priority queued runs first.
#[test]
fn planners_of_lower_priority_wait_where_their_ranges_overlap() {
    let mutant = protocols::mutant("quecc", "no_priority").unwrap();
    assert!((0..20).any(|seed| crowd(&mutant, 3, seed).is_err()));
}

/// Whatever the modes, results are those of the claimed order, and the same on any number of
/// workers.
#[test]
fn every_mode_is_serializable_and_blind_to_workers() {
    for name in CONFIGURATIONS {
        let protocol = protocols::by_name(name).unwrap();
        for seed in 0..5 {
            let states = [1, 2, 8].map(|workers| {
                let twin = crowd(&protocol, workers, seed)
                    .unwrap_or_else(|divergence| panic!("{name}, seed {seed}: {divergence}"));
                rows(&twin.subject, oracle::programs::TABLE)
            });
            assert!(states.windows(2).all(|two| two[0] == two[1]), "{name}, seed {seed}");
        }
    }
}

/// Qadah 2021, 2.2: no call is ever turned away for concurrency, however hot its records are.
#[test]
fn there_are_no_concurrency_aborts() {
    let pool = WorkerPool::new(2);
    for name in CONFIGURATIONS {
        let protocol = protocols::by_name(name).unwrap();
        let mut twin = Twin::new(&schemas());
        twin.run(&protocol, &pool, fill(4)).unwrap();
        let hot = |n: i64| {
            let mut builder = Builder::default();
            builder.push(Operation::Read, n % 2, 0);
            builder.push(Operation::BlindSet, 1, n);
            builder.push(Operation::Add, n % 3, 1);
            builder.finish()
        };
        let outcome = twin.run(&protocol, &pool, (0..300).map(hot).collect()).unwrap();
        assert_eq!(outcome.report.rerun, 0, "{name}");
        assert!(outcome.outcomes.iter().all(Outcome::is_committed));
    }
}

/// Conservatively, a violation undoes its own transaction and no other.
#[test]
fn conservative_execution_has_no_cascades() {
    let pool = WorkerPool::new(2);
    let reruns = |name: &str| {
        let protocol = protocols::by_name(name).unwrap();
        let mut twin = Twin::new(&schemas());
        twin.run(&protocol, &pool, fill(4)).unwrap();
        let block = (0..100).map(|n| {
            let mut builder = Builder::default();
            builder.push(Operation::Add, 0, 1);
            // Every tenth finds its key taken.
            builder.push(Operation::Insert, if n % 10 == 0 { 1 } else { 100 + n }, n);
            builder.finish()
        });
        let outcome = twin.run(&protocol, &pool, block.collect()).unwrap();
        let rejected = outcome.outcomes.iter().filter(|o| !o.is_committed()).count();
        assert_eq!(rejected, 10, "{name}");
        outcome.report.rerun
    };
    assert_eq!(reruns("quecc:execution=conservative"), 10);
    assert_eq!(reruns("quecc:execution=early"), 10);
    assert!(reruns("quecc") > 50);
}

/// A loop over keys is a fragment for each; what it counts is summed up, and an answer is that of a
/// run from start to end even where keys repeat or are missing.
#[test]
fn turns_of_a_loop_are_fragments_of_their_own() {
    let pool = WorkerPool::new(2);
    let touch = |keys: &[i64]| {
        let found = Step::If {
            condition: register(3),
            then: Box::new([Step::Let { out: Reg(4), value: add(register(2), constant(1)) }]),
            otherwise: Box::default(),
            phis: Box::new([Phi { out: Reg(5), then: register(4), otherwise: register(2) }]),
        };
        let steps = vec![
            Step::ForEach {
                register: Reg(1),
                array: register(0),
                body: Box::new([
                    increment(COUNTERS, Box::new([register(1)]), 1, constant(1), 3),
                    found,
                ]),
                carried: Box::new([Carried {
                    register: Reg(2),
                    initial: constant(0),
                    next: register(5),
                }]),
            },
            Step::Emit { values: Box::new([register(2)]) },
        ];
        let keys: Vec<Value> = keys.iter().map(|key| Value::Int(*key)).collect();
        work(1, 6, steps, &[Value::array(keys)])
    };
    for name in CONFIGURATIONS {
        let protocol = protocols::by_name(name).unwrap();
        let mut twin = Twin::new(&owner_schemas());
        twin.run(&protocol, &pool, (0..6).map(open).collect()).unwrap();
        let block = (0..90).map(|n| touch(&[n % 6, 7, (n + 1) % 6, n % 6, 99])).collect();
        let outcome = twin.run(&protocol, &pool, block).unwrap();
        let three = |outcome: &Outcome| match outcome {
            Outcome::Committed(result) => result.rows[0][0] == Value::Int(3),
            _ => false,
        };
        assert!(outcome.outcomes.iter().all(three), "{name}: {:?}", outcome.outcomes[0]);
        // An array that is NULL is the specification's error.
        let Work::Statement(statement) = &*touch(&[]) else { unreachable!() };
        let null = Statement { arguments: [Value::Null].into(), ..statement.clone() };
        let outcome = twin.run(&protocol, &pool, vec![Arc::new(Work::Statement(null))]).unwrap();
        assert!(!outcome.outcomes[0].is_committed());
    }
}

/// What was rolled back is as if it had never been: stamps, net changes, indexes.
#[test]
fn victims_leave_no_trace() {
    let pool = WorkerPool::new(1);
    let protocol = protocols::by_name("quecc").unwrap();
    let raise = || {
        let error = OnError::new(SqlState::RAISE_EXCEPTION, "no");
        Step::Require { condition: Expr::Const(Value::Bool(false)), error }
    };
    let mut twin = Twin::new(&owner_schemas());
    twin.run(&protocol, &pool, (0..3).map(open).collect()).unwrap();
    let before = rows(&twin.subject, COUNTERS);
    let failing = |owner: i64| {
        let key = || Box::new([register(0)]);
        let steps = vec![
            increment(COUNTERS, key(), 1, constant(5), 1),
            Step::Delete { table: COUNTERS, key: key(), long: Box::default(), found: Reg(2) },
            Step::Insert {
                table: COUNTERS,
                key: Box::new([0]),
                hidden_row_id: false,
                values: Box::new([register(0), constant(9)]),
                inserted: Reg(3),
            },
            raise(),
        ];
        work(1, 4, steps, &[Value::Int(owner)])
    };
    let outcome = twin.run(&protocol, &pool, (0..5).map(failing).collect()).unwrap();
    assert!(outcome.outcomes.iter().all(|outcome| !outcome.is_committed()));
    assert!(twin.changes.is_empty());
    assert_eq!(rows(&twin.subject, COUNTERS), before);
}

/// Random programs one by one and in tens, under every mode.
#[test]
fn small_blocks_in_every_mode() {
    let pool = WorkerPool::new(1);
    for name in CONFIGURATIONS {
        let protocol = protocols::by_name(name).unwrap();
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let mut twin = Twin::new(&schemas());
            twin.run(&protocol, &pool, fill(3)).unwrap();
            for _ in 0..4 {
                let count = 1 + random.below(10);
                let block = (0..count).map(|_| random_program(&mut random, 5, 4)).collect();
                if let Err(divergence) = twin.run(&protocol, &pool, block) {
                    panic!("{name}, seed {seed}: {divergence}");
                }
            }
        }
    }
}
