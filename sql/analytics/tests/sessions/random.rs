//! Random expressions over random rows: where the router may move a query, both engines answer
//! alike, to the last digit.

use std::sync::Arc;

use analytics::Analytics;
use futures::TryStreamExt;
use kit::random::Random;
use procedure::Output;
use sql::SessionInfo;
use sql::analytical_engine::{AnalyticalEngine, Execution, Limits, QueryRequest};
use sql::bind::statement::{Program, Statement};
use sql::router::{is_agreed, may_differ};
use sql::session::Database;
use sql::settings::Settings;
use types::{Error, SqlState, Value};

use super::{Client, Node, Reported, block_on, roomy};

const TABLE: &str = "CREATE TABLE {} (id int PRIMARY KEY, k smallint, i int, b bigint,
    p numeric(10,2), q numeric(6,4), w numeric(24,8), f float8, t text, v varchar(12),
    d date, at timestamp, ok boolean)";

const ROWS: usize = 150;
const QUERIES: usize = 260;
const DEPTH: u32 = 3;

struct Sql {
    random: Random,
}

impl Sql {
    fn pick(&mut self, from: &[&str]) -> String {
        from[self.random.below(from.len() as u64) as usize].to_owned()
    }

    /// One of so many.
    fn dice(&mut self, sides: u64) -> u64 {
        self.random.below(sides)
    }

    /// An exact number.
    fn number(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.dice(4) {
                0 => self.pick(&["0", "1", "-1", "7", "2.50", "0.003", "-0.1", "100000"]),
                _ => self.pick(&["k", "i", "b", "p", "q", "w", "p", "q"]),
            };
        }
        let (a, b) = (self.number(depth - 1), self.number(depth - 1));
        match self.dice(19) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 | 4 => format!("({a} * {b})"),
            5 | 6 => format!("({a} / nullif({b}, 0))"),
            7 => format!("round({a}, {})", self.dice(6)),
            8 => format!("{}({a})", self.pick(&["abs", "-", "+"]).replace('+', "")),
            9 => format!("CASE WHEN {} THEN {a} ELSE {b} END", self.truth(depth - 1)),
            10 => format!("coalesce({a}, {b})"),
            11 => format!("({a})::{}", self.pick(&["numeric(20,3)", "int", "bigint", "numeric"])),
            12 => format!("length({})", self.text(depth - 1)),
            13 => {
                let field = self.pick(&["year", "month", "day", "dow", "doy", "week", "quarter"]);
                format!("extract({field} FROM {})", self.pick(&["d", "at"]))
            }
            14 => {
                let field = self.pick(&["second", "hour", "epoch", "milliseconds", "century"]);
                format!("extract({field} FROM at)")
            }
            15 => format!("({a} % nullif({b}, 0))"),
            16 => format!("trunc(({a})::numeric(20,5), {})", self.dice(4)),
            17 => {
                format!("{}(({a})::numeric(22,6))", self.pick(&["ceil", "floor", "sign", "round"]))
            }
            _ => format!("({} - d)", self.date(depth - 1)),
        }
    }

    fn float(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["f", "f", "0.5::float8", "-0.0::float8"]);
        }
        let (a, b) = (self.float(depth - 1), self.float(depth - 1));
        match self.dice(7) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} * {})", self.number(depth - 1)),
            2 => format!("({a} - {b})"),
            3 => format!("({a} / nullif({b}, 0))"),
            4 => format!("sqrt(abs({a}))"),
            5 => format!("({})::float8", self.number(depth - 1)),
            _ => format!("round({a})"),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["t", "v", "t", "'a%b'", "'Ünï'"]);
        }
        let a = self.text(depth - 1);
        match self.dice(12) {
            0 => format!("{}({a})", self.pick(&["upper", "lower", "reverse", "initcap", "btrim"])),
            1 => format!("substring({a}, {}, {})", self.dice(5), self.dice(4)),
            2 => format!("substring({a} FROM {})", self.dice(5)),
            3 => format!("({a} || {})", self.text(depth - 1)),
            4 => format!("replace({a}, 'a', {})", self.text(0)),
            5 => format!("{}({a}, {})", self.pick(&["left", "right"]), self.dice(5)),
            6 => format!("({})::text", self.number(depth - 1)),
            7 => format!("({})::varchar(4)", self.text(depth - 1)),
            8 => format!("lpad({a}, {}, 'xy')", self.dice(9)),
            9 => format!("split_part({a}, 'a', {})", 1 + self.dice(3)),
            10 => format!("coalesce({a}, '-')"),
            _ => format!("concat({a}, {}, d)", self.number(0)),
        }
    }

    fn date(&mut self, depth: u32) -> String {
        match self.dice(5) {
            0 => format!("(d + {})", self.dice(400)),
            1 => "(d - k)".to_owned(),
            2 if depth > 0 => format!("coalesce({}, d)", self.date(depth - 1)),
            3 => "at::date".to_owned(),
            _ => "date '2024-02-29'".to_owned(),
        }
    }

    fn truth(&mut self, depth: u32) -> String {
        let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        if depth == 0 {
            return self.pick(&["ok", "t LIKE 'a%'", "p > 0", "d < date '2020-06-01'", "f = 0"]);
        }
        match self.dice(9) {
            0 => format!("{} {op} {}", self.number(depth - 1), self.number(depth - 1)),
            1 => format!("{} {op} {}", self.text(depth - 1), self.text(depth - 1)),
            2 => format!("{} {op} {}", self.date(depth - 1), self.pick(&["d", "at::date"])),
            3 => format!("{} {op} {}", self.float(depth - 1), self.float(depth - 1)),
            4 => {
                let pattern = self.pick(&["a%", "%b", "_a%", "%\\%%", "", "%", "A_b\\_%", "%a%b%"]);
                format!("{} LIKE '{pattern}'", self.text(depth - 1))
            }
            5 => format!("({} AND {})", self.truth(depth - 1), self.truth(depth - 1)),
            6 => format!("({} OR NOT {})", self.truth(depth - 1), self.truth(depth - 1)),
            7 => format!("{} IS NULL", self.number(depth - 1)),
            _ => format!("{} IN ({}, 1, 2.5)", self.number(depth - 1), self.number(0)),
        }
    }

    fn query(&mut self, table: &str) -> String {
        match self.dice(6) {
            0 | 1 => format!("SELECT id, {} FROM {table} ORDER BY id", self.number(DEPTH)),
            2 => {
                let expr = match self.dice(4) {
                    0 => self.float(DEPTH),
                    1 => self.date(DEPTH),
                    2 => format!("date_trunc('month', at), {}", self.truth(DEPTH)),
                    _ => self.text(DEPTH),
                };
                format!("SELECT id, {expr} FROM {table} ORDER BY id")
            }
            3 => {
                let (a, b) = (self.number(DEPTH), self.number(2));
                format!("SELECT count({a}), sum({a}), avg({b}), sum({b}) / count(*) FROM {table}")
            }
            4 => {
                let (a, b) = (self.number(2), self.truth(2));
                format!(
                    "SELECT k, sum({a}), avg({a}) * 2, round(avg(p), 2) FROM {table} \
                     WHERE {b} GROUP BY k HAVING avg(p) > 1 ORDER BY avg(p), k"
                )
            }
            _ => {
                let (a, b) = (self.truth(DEPTH), self.number(2));
                format!("SELECT id FROM {table} WHERE {a} ORDER BY {b}, id")
            }
        }
    }

    fn value(&mut self, tame: &[&str], extreme: &[&str], far: bool) -> String {
        match (self.dice(9), far) {
            (0, _) => "NULL".to_owned(),
            (1..5, true) => self.pick(extreme),
            _ => self.pick(tame),
        }
    }

    fn row(&mut self, id: usize, far: bool) -> String {
        let texts =
            ["'abc'", "''", "'a%b'", "'Äpfel aB'", "'A_b_c'", "'banana'", "' x '", "'100%'"];
        let values = [
            self.value(&["0", "1", "2", "-3"], &["32767", "-32768"], far),
            self.value(&["0", "1", "-1", "17", "4096"], &["2147483647", "-2147483648"], far),
            self.value(&["0", "3", "-12345678901"], &["9223372036854775807", "-1"], far),
            self.value(&["0", "1.50", "-2.25", "99.99"], &["99999999.99", "-99999999.99"], far),
            self.value(&["0", "0.5", "-0.0003", "3"], &["99.9999", "-99.9999"], far),
            self.value(&["0", "1.25", "-1234.5"], &["9999999999999999.99999999"], far),
            self.value(
                &["0", "-0.0", "1.5", "-2.5", "0.1"],
                &["1e300::float8", "-1e-300::float8"],
                far,
            ),
            self.value(&texts, &["repeat('ab', 40)"], far),
            self.value(&texts, &["'zzzzzzzzzzzz'"], far),
            self.value(&["'2020-02-29'", "'1999-12-31'"], &["'0001-01-01'", "'9999-12-31'"], far),
            self.value(
                &["'2020-02-29 12:34:56.789'", "'1999-12-31 23:59:59.999999'"],
                &["'0001-01-01'"],
                far,
            ),
            self.value(&["true", "false"], &["true"], far),
        ];
        format!("({id}, {})", values.join(", "))
    }
}

/// What the analytical engine says where it has to agree; `None` where the query would not move.
async fn analyzed(
    analytics: &Analytics,
    database: &Database,
    text: &str,
) -> Option<Result<Reported, Error>> {
    let snapshot = Arc::new(database.engine.store().snapshot());
    let versioned = database.schema.of(&snapshot);
    let parsed = sql::parse(text).expect("SQL").pop().expect("a statement");
    let bound = sql::bind(&versioned.catalog, &parsed, &[]).ok()?;
    let (Statement::Program(Program::Procedure(procedure)), Output::Rows(columns)) =
        (&bound.statement, &bound.output)
    else {
        panic!("no query: {text}");
    };
    if !is_agreed(&versioned.catalog, procedure) {
        return None;
    }
    let request = QueryRequest {
        catalog: &versioned.catalog,
        version: versioned.version,
        info: &SessionInfo::default(),
        settings: &Settings::default(),
        text,
        query: parsed.query().expect("a query"),
        parameter_types: &[],
        interrupt: None,
        agreeing: true,
        system: None,
    };
    let plan = match analytics.prepare(&request) {
        Ok(plan) if plan.columns() == columns => plan,
        // As for the session.
        _ => return None,
    };
    let execution = Execution {
        snapshot,
        parameters: [].into(),
        settings: Settings::default(),
        now_us: 0,
        limits: Limits::default(),
    };
    let columns = columns.iter().map(|c| (c.name.clone(), c.data_type.clone())).collect();
    let batches = plan.run(execution).try_collect::<Vec<_>>().await;
    Some(batches.map(|batches| {
        let rows: Vec<Box<[Value]>> = batches.into_iter().flatten().collect();
        Reported { columns, rows, by_analytical_engine: true }
    }))
}

#[derive(Default)]
struct Tally {
    moved: usize,
    refused: usize,
    stayed: usize,
}

async fn compare(node: &Node, client: &mut Client, text: &str, tally: &mut Tally) {
    let Some(analyzed) = analyzed(&node.analytics, &node.database, text).await else {
        tally.stayed += 1;
        return;
    };
    // An error of the row executor counts, whatever the analytical engine has said.
    let Ok(reported) = client.tell(text, &[]).await else { return };
    match analyzed {
        Ok(analyzed) => {
            tally.moved += 1;
            assert_eq!(analyzed.lines(), reported.lines(), "{text}");
        }
        Err(error) => {
            tally.refused += 1;
            let is_planned = error.code() != SqlState::INTERNAL_ERROR;
            assert!(may_differ(&error) && is_planned, "{text}: {error:?}");
        }
    }
}

#[test]
fn random_queries_that_may_move_have_the_same_answers() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        let mut sql = Sql { random: Random::new(20_261_121) };
        for (table, far) in [("near", false), ("far", true)] {
            client.run(&TABLE.replace("{}", table)).await;
            let rows: Vec<String> = (0..ROWS).map(|id| sql.row(id, far)).collect();
            client.run(&format!("INSERT INTO {table} VALUES {}", rows.join(", "))).await;
        }
        for table in ["near", "far"] {
            let mut tally = Tally::default();
            for _ in 0..QUERIES {
                let query = sql.query(table);
                compare(&node, &mut client, &query, &mut tally).await;
            }
            let Tally { moved, refused, stayed } = tally;
            println!("{table}: {moved} moved, {refused} refused, {stayed} stayed");
            assert!(
                moved > QUERIES / 4,
                "{table}: {moved} moved, {refused} refused, {stayed} stayed"
            );
        }
    });
}
