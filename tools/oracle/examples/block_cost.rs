//! Cost of a transaction under each protocol: one value read and two update commands on 100,000
//! rows.
//!
//! `cargo run --release -p oracle --example block_cost [workers]`

use std::sync::Arc;
use std::time::Instant;

use concurrency::{Statement, Work, WorkerPool};
use kit::random::Random;
use oracle::course::Course;
use oracle::programs::{Builder, TABLE, fill, schemas};
use procedure::step::{Column, Procedure, Step};
use procedure::{BinaryOp, CommandCode, Expr, Reg};
use storage::Store;
use types::{DataType, Value};

const ROWS: u64 = 100_000;

fn main() {
    let workers = std::env::args().nth(1).and_then(|w| w.parse().ok());
    let pool = WorkerPool::new(workers.unwrap_or(1));
    println!("protocol  per block  rerun %  us per transaction");
    for entry in protocols::ALL {
        for size in [16, 1_000] {
            let (rerun, cost_us) = measure(entry, &pool, size);
            let name = entry.info.name;
            println!("{name:<9} {size:>9}  {:>7.2}  {cost_us:>18.3}", 100.0 * rerun);
        }
    }
}

/// Share of transactions that ran twice, and microseconds for each.
fn measure(entry: &protocols::Entry, pool: &WorkerPool, size: usize) -> (f64, f64) {
    let protocol = protocols::by_name(entry.info.name).expect("a listed protocol");
    let store = Arc::new(Store::new());
    for schema in schemas() {
        store.create_table(schema);
    }
    let mut random = Random::new(1);
    let mut blocks = vec![fill(ROWS)];
    let procedure = procedure();
    let programs = || {
        let arguments = [(); 3].map(|()| Value::Int(random.below(ROWS) as i64));
        Arc::new(Work::Statement(Statement {
            procedure: Arc::clone(&procedure),
            arguments: arguments.into(),
        }))
    };
    let all: Vec<_> = std::iter::repeat_with(programs).take(300_000).collect();
    blocks.extend(all.chunks(size).map(<[_]>::to_vec));
    let mut started = Instant::now();
    let (mut rerun, mut course) = (0, Course::behind(0, &store, &protocol, 0));
    for (height, transactions) in (1..).zip(blocks) {
        let ran = course.run(pool, transactions).expect("no block halts");
        match height {
            1 => started = Instant::now(),
            _ => rerun += u64::from(ran.sealed.report.rerun),
        }
        if height % 8 == 0 {
            store.collect();
        }
    }
    let count = all.len() as f64;
    let cost_us = started.elapsed().as_secs_f64() * 1e6 / count;
    (rerun as f64 / count, cost_us)
}

/// Reads the row at $1 and adds 1 to `b` of those at $2 and $3.
fn procedure() -> Arc<Procedure> {
    let key = |register| -> Box<[Expr]> { Box::new([Expr::Reg(Reg(register))]) };
    let sum = Expr::Binary {
        op: BinaryOp::Add,
        left: Box::new(Expr::Column(2)),
        right: Box::new(Expr::Reg(Reg(0))),
        result: DataType::Int8,
    };
    let code = Arc::new(CommandCode::new(Box::new([(2, sum)]), Box::default()));
    let update = |at| Step::Update {
        table: TABLE,
        key: key(at),
        code: Arc::clone(&code),
        inputs: Box::new([Expr::Const(Value::Int(1))]),
        found: Reg(5),
    };
    let read = Step::Read {
        table: TABLE,
        key: key(0),
        columns: Box::new([1]),
        out: Reg(3),
        found: Reg(4),
    };
    let emit = Step::Emit { values: key(3) };
    let parameter = |_| Column { name: "key".into(), data_type: DataType::Int8 };
    let template = Builder::default().procedure();
    Arc::new(Procedure {
        name: "read_and_add".into(),
        parameters: (0..3).map(parameter).collect(),
        registers: 6,
        body: [read, update(1), update(2), emit].into(),
        output: template.output.clone(),
        tag: "CALL".into(),
        read_only: false,
        draws: false,
        sequences: Box::default(),
        register_names: Box::default(),
    })
}
