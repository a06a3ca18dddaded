//! What a YCSB transaction costs a protocol, without SQL, ledger and clients: for profilers.
//!
//! `cargo run --release -p protocols --example ycsb_cost -- NAME WORKERS THETA ROWS BLOCK COUNT`

use std::sync::Arc;
use std::time::{Duration, Instant};

use concurrency::{Statement, Work, WorkerPool};
use kit::random::Random;
use pipeline::{Batch, Cadence, Halves, Line, LineStart, Pipeline, Stepper};
use procedure::access::CommandCode;
use procedure::step::{Carried, Column, Output, Phi, Procedure, Step};
use procedure::{BinaryOp, Expr, Reg};
use storage::Store;
use types::schema::{ColumnSchema, TableSchema};
use types::{DataType, Stamp, TableId, Value};

const TABLE: TableId = TableId(1);
const FIELDS: u16 = 10;
const KEYS: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: f64| -> f64 {
        args.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let name = args.get(1).map_or("serial", |name| name);
    let (workers, theta) = (number(2, 1.0) as usize, number(3, 0.0));
    let (rows, size) = (number(4, 1e6) as u64, number(5, 1e3) as usize);
    let count = number(6, 200_000.0) as usize;
    let protocol = protocols::by_name(name).expect("a protocol");
    let pool = WorkerPool::new(workers);
    let store = Arc::new(Store::new());
    load(&store, rows);
    let blocks = draw(rows, theta, count, size);
    let (began, cpu) = (Instant::now(), cpu_time());
    let (mut rerun, mut committed) = (0, 0);
    let line = Line::new(Arc::clone(&store), LineStart::new(protocol), 0).without_changes();
    let pipeline = Pipeline::new(1, 1, line.rules(), Cadence::default());
    let mut stepper = Stepper::new(line, pipeline);
    let mut blocks = blocks.into_iter();
    loop {
        while stepper.pipeline().may_order()
            && let Some(tasks) = blocks.next()
        {
            stepper.order(Batch { time_us: 0, tasks }).expect("no halt");
        }
        let released = stepper.release(&pool, Halves::Together).expect("no halt");
        let Some(finished) = released else { break };
        rerun += finished.report.rerun as usize;
        committed += finished.decided.iter().filter(|one| one.outcome.is_committed()).count();
    }
    let (wall, cpu) = (began.elapsed(), cpu_time() - cpu);
    println!(
        "{name} workers {workers} theta {theta} rows {rows} block {size}: {:.0}/s, {:.0} per \
         CPU-second, rerun {:.2} %, deferred {:.2} %",
        committed as f64 / wall.as_secs_f64(),
        committed as f64 / cpu.as_secs_f64(),
        100.0 * rerun as f64 / count as f64,
        100.0 * (count - committed) as f64 / count as f64,
    );
    let began = Instant::now();
    let carried_bytes = stepper.line().carried().encode().len();
    if carried_bytes > 0 {
        println!(
            "carried over: {:.0} bytes and {:.0} ns a transaction to encode",
            carried_bytes as f64 / size as f64,
            began.elapsed().as_nanos() as f64 / size as f64,
        );
    }
}

fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let main: u64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all: u64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next().and_then(|n| n.parse::<u64>().ok()))
        .sum();
    Duration::from_nanos(all.max(main))
}

fn load(store: &Arc<Store>, rows: u64) {
    let column = |name: String, data_type| ColumnSchema::new(name, data_type);
    let fields = (0..FIELDS).map(|i| column(format!("field{i}"), DataType::Text));
    let schema = TableSchema {
        id: TABLE,
        name: "usertable".into(),
        columns: std::iter::once(column("ycsb_key".into(), DataType::Int8)).chain(fields).collect(),
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    };
    let table = store.create_table(Arc::new(schema));
    let mut writes = store.begin_block(1, 1);
    let mut row = vec![Value::text("0123456789"); 1 + usize::from(FIELDS)];
    for n in 1..=rows as i64 {
        row[0] = Value::Int(n);
        let key = types::Key::from_int(n);
        table.insert(key.as_bytes(), &row, Stamp::new(1, 0), writes.arena(0));
    }
    store.finish_unread(writes);
    store.publish(1);
}

fn draw(rows: u64, theta: f64, count: usize, size: usize) -> Vec<Vec<Arc<Work>>> {
    let mut random = Random::new(1);
    let mut zipf = Zipf::new(rows, theta);
    let procedure = procedure();
    let mut blocks = Vec::new();
    for first in (0..count).step_by(size) {
        let block = (first..count.min(first + size)).map(|_| {
            let mut keys: Vec<i64> = Vec::with_capacity(KEYS);
            while keys.len() < KEYS {
                let key = zipf.draw(&mut random) as i64;
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            let array = |keys: &[i64]| {
                Value::array(keys.iter().map(|&k| Value::Int(k)).collect::<Vec<_>>())
            };
            let (read, written) = keys.split_at(KEYS / 2);
            let arguments = [array(read), array(written), Value::text("abcdefghij")];
            let procedure = Arc::clone(&procedure);
            Arc::new(Work::Statement(Statement { procedure, arguments: arguments.into() }))
        });
        blocks.push(block.collect());
    }
    blocks
}

/// Gray et al., SIGMOD 1994, with keys spread over the table.
struct Zipf {
    rows: u64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(rows: u64, theta: f64) -> Zipf {
        let sum = |n: u64| (1..=n).map(|i| 1.0 / (i as f64).powf(theta)).sum::<f64>();
        let zeta = sum(rows);
        let eta = (1.0 - (2.0 / rows as f64).powf(1.0 - theta)) / (1.0 - sum(2) / zeta);
        Zipf { rows, theta, zeta, eta }
    }

    fn draw(&mut self, random: &mut Random) -> u64 {
        if self.theta == 0.0 {
            return 1 + random.below(self.rows);
        }
        let u = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta;
        let rank = if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5f64.powf(self.theta) {
            1
        } else {
            let spread = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
            ((self.rows as f64 * spread) as u64).min(self.rows - 1)
        };
        1 + rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.rows
    }
}

/// What the SQL of the workload compiles to: reads of all fields, blind writes of one, a count.
fn procedure() -> Arc<Procedure> {
    let (reads, writes, content) = (Reg(0), Reg(1), Reg(2));
    let (wanted, out, found) = (Reg(3), Reg(4), Reg(14));
    let (sum_1, next_1, then_1) = (Reg(15), Reg(16), Reg(17));
    let (wanted_2, found_2) = (Reg(18), Reg(19));
    let (sum_2, next_2, then_2) = (Reg(20), Reg(21), Reg(22));
    let plus_one = |reg| Expr::Binary {
        op: BinaryOp::Add,
        left: Box::new(Expr::Reg(reg)),
        right: Box::new(Expr::Const(Value::Int(1))),
        result: DataType::Int8,
    };
    let counted = |found, sum, then, next| Step::If {
        condition: Expr::Reg(found),
        then: Box::new([Step::Let { out: then, value: plus_one(sum) }]),
        otherwise: Box::default(),
        phis: Box::new([Phi { out: next, then: Expr::Reg(then), otherwise: Expr::Reg(sum) }]),
    };
    let carried = |register, initial, next| -> Box<[Carried]> {
        Box::new([Carried { register, initial, next: Expr::Reg(next) }])
    };
    let read = Step::Read {
        table: TABLE,
        key: Box::new([Expr::Reg(wanted)]),
        columns: (1..=FIELDS).collect(),
        out,
        found,
    };
    let code = CommandCode::new(Box::new([(1, Expr::Reg(Reg(0)))]), Box::default());
    let update = Step::Update {
        table: TABLE,
        key: Box::new([Expr::Reg(wanted_2)]),
        code: Arc::new(code),
        inputs: Box::new([Expr::Reg(content)]),
        found: found_2,
    };
    let body = [
        Step::ForEach {
            register: wanted,
            array: Expr::Reg(reads),
            body: Box::new([read, counted(found, sum_1, then_1, next_1)]),
            carried: carried(sum_1, Expr::Const(Value::Int(0)), next_1),
        },
        Step::ForEach {
            register: wanted_2,
            array: Expr::Reg(writes),
            body: Box::new([update, counted(found_2, sum_2, then_2, next_2)]),
            carried: carried(sum_2, Expr::Reg(sum_1), next_2),
        },
        Step::Emit { values: Box::new([Expr::Reg(sum_2)]) },
    ];
    let column = |name: &str, data_type| Column { name: name.into(), data_type };
    let keys = DataType::Array(Box::new(DataType::Int8));
    Arc::new(Procedure {
        name: "ycsb_rows".into(),
        parameters: vec![
            column("reads", keys.clone()),
            column("writes", keys),
            column("content", DataType::Text),
        ],
        registers: 23,
        register_names: Box::default(),
        body: body.into(),
        output: Output::Rows(vec![column("ycsb_rows", DataType::Int8)]),
        tag: "SELECT".into(),
        read_only: false,
        draws: false,
        sequences: Box::default(),
    })
}
