//! Every construct that can stand within itself, nested as deep as a text may be and deeper: no
//! reading of a text takes long, whether the text is right, wrong inside, or never closed.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::bind::statement::Statement;
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;
use crate::syntax::parse::parse;

const HEADS: &[&str] = &[
    "SELECT {}",
    "SELECT {} FROM t",
    "SELECT * FROM {}",
    "SELECT 1 WHERE {}",
    "INSERT INTO t VALUES ({})",
    "CREATE TABLE t (a int DEFAULT {}, CHECK ({}))",
    "CREATE VIEW v AS SELECT {}",
    "UPDATE t SET a = {}",
    "{}",
];

const WRAPS: &[&str] = &[
    "abs({})",
    "abs(a, {})",
    "\"f\"({})",
    "a.b({})",
    "({})",
    "-{}",
    "+{}",
    "~{}",
    "NOT {}",
    "NOT ({})",
    "NOT NOT ({})",
    "NOT EXISTS ({})",
    "CAST({} AS int)",
    "({})::int",
    "{}::int",
    "x::array<{}>",
    "a::numeric({})",
    "CASE WHEN {} THEN 1 END",
    "CASE {} WHEN 1 THEN 2 END",
    "CASE {} WHEN 1 THEN 2 WHEN 3 THEN 4 END",
    "CASE WHEN 1 THEN 2 ELSE {} END",
    "CASE WHEN {} THEN abs({}) END",
    "(SELECT {})",
    "EXISTS (SELECT {})",
    "ARRAY[{}]",
    "ARRAY(SELECT {})",
    "a[{}]",
    "({})[1]",
    "a IN ({})",
    "a IN (SELECT {})",
    "a NOT IN (({}))",
    "{} BETWEEN 1 AND 2",
    "a BETWEEN {} AND 2",
    "a BETWEEN 1 AND ({})",
    "ROW({})",
    "({}, 1)",
    "EXTRACT(year FROM {})",
    "SUBSTRING({} FROM 1 FOR 2)",
    "SUBSTRING(a FROM {})",
    "TRIM({})",
    "TRIM(BOTH {} FROM a)",
    "POSITION({} IN a)",
    "POSITION('a' IN {})",
    "OVERLAY({} PLACING 'a' FROM 1)",
    "CEIL({})",
    "FLOOR({})",
    "COALESCE({}, 1)",
    "NULLIF({}, 1)",
    "INTERVAL {}",
    "INTERVAL ({})",
    "DATE {}",
    "count(*) FILTER (WHERE {})",
    "sum({}) OVER ()",
    "sum(a) OVER (ORDER BY {})",
    "string_agg(DISTINCT {}, 'a')",
    "f(x => {})",
    "f(x := {})",
    "f(VARIADIC {})",
    "f((SELECT {}))",
    "json_object('a' VALUE {})",
    "json_object('a': {})",
    "xmlelement(NAME a, {})",
    "{ fn {} }",
    "{} IS NULL",
    "{} IS NOT DISTINCT FROM 1",
    "a IS DISTINCT FROM {} OR b",
    "a = ANY({})",
    "a = ALL (SELECT {})",
    "{} COLLATE \"C\"",
    "({}) COLLATE \"C\"",
    "{} AT TIME ZONE 'UTC'",
    "a AT TIME ZONE ({})",
    "a LIKE ({}) ESCAPE 'b'",
    "a LIKE {}",
    "({}).f",
    "({}) || 'a'",
    "1 + {}",
    "1 + abs({})",
    "b AND {}",
    "b OR NOT {}",
    "(b AND {})",
    "(x) -> {}",
    "x -> {}",
    "{} UNION SELECT 1",
    "({}) UNION (SELECT 1)",
    "SELECT 1 UNION ({})",
    "SELECT * FROM ({}) x",
    "(SELECT * FROM {}) x",
    "({} JOIN t ON a = b)",
    "(t JOIN {} ON a = b)",
    "({} CROSS JOIN t)",
    "LATERAL (SELECT * FROM {}) x",
    "WITH a AS ({}) SELECT 1",
    "VALUES ({})",
    "(VALUES ({}))",
    "EXPLAIN {}",
    "GROUPING SETS (({}))",
    "PREPARE p AS {}",
    "COPY ({}) TO STDOUT",
    "BEGIN {}",
    "abs(NOT (CASE WHEN {} THEN 1 END))",
    "(SELECT abs(-({})::int))",
];

const SHALLOW: &[usize] = &[1, 3, 6, 10, 14, 18, 22, 26, 30, 34, 40, 46, 52];

const DEEP: &[usize] = &[70, 100, 200];

/// Where every head is tried; elsewhere the first, since it is the inside that takes long.
const UNDER_EVERY_HEAD: &[usize] = &[3, 46];

/// What is innermost: right, wrong, and a text that ends there.
const KERNELS: &[&str] = &["1", "a", "b", "c", "t", "1 1", "'a' IN", "("];

/// On a loaded machine, too.
const LONG: Duration = Duration::from_secs(5);

fn nested(wraps: &[&str], kernel: &str, depth: usize) -> String {
    (0..depth).fold(kernel.to_owned(), |inner, level| match inner.len() < 50_000 {
        true => wraps[level % wraps.len()].replace("{}", &inner),
        false => inner,
    })
}

/// Reads every text that comes, and tells when it is done with each.
fn read_all(texts: Receiver<String>, done: Sender<()>) {
    let (genesis, session) = (Catalog::genesis(), SessionInfo::default());
    let table = parse("CREATE TABLE t (a int, b bool, c text)").unwrap().remove(0);
    let bound = crate::bind(&genesis, &table, &[]).unwrap();
    let Statement::Ddl(ddl) = bound.statement else { panic!("no table") };
    let catalog = genesis.apply(&ddl).unwrap().0;
    for text in texts {
        for parsed in parse(&text).into_iter().flatten() {
            let _ = crate::bind_in_session(&catalog, &session, &parsed, &[]);
        }
        if done.send(()).is_err() {
            return;
        }
    }
}

fn sweep(texts: impl Iterator<Item = String>) {
    let (send, receive) = channel::<String>();
    let (done, finished) = channel();
    let reader = std::thread::Builder::new().stack_size(64 << 20);
    reader.spawn(move || read_all(receive, done)).unwrap();
    for text in texts {
        send.send(text.clone()).unwrap();
        let end = finished.recv_timeout(LONG);
        assert!(end.is_ok(), "{end:?} after {LONG:?}: {text}");
    }
}

fn sweep_constructs(depths: &[usize], kernels: &[&str]) {
    sweep(WRAPS.iter().flat_map(|wrap| {
        depths.iter().flat_map(move |&depth| {
            kernels.iter().flat_map(move |kernel| {
                let inner = nested(&[wrap], kernel, depth);
                let heads = if UNDER_EVERY_HEAD.contains(&depth) { HEADS } else { &HEADS[..1] };
                heads.iter().map(move |head| head.replace("{}", &inner))
            })
        })
    }));
}

#[test]
fn no_construct_takes_long() {
    sweep_constructs(SHALLOW, KERNELS);
}

/// With fewer kernels, since long texts take long however linear it is.
#[test]
fn no_construct_takes_long_however_deep() {
    sweep_constructs(DEEP, &["a", "1 1", "("]);
}

#[test]
fn no_two_constructs_take_long_in_turns() {
    // Of all pairs one in eighteen, spread evenly: all take minutes.
    let places = (0..WRAPS.len()).flat_map(|a| (0..WRAPS.len()).map(move |b| (a, b)));
    let some = places.filter(|(a, b)| (5 * a + b) % 18 == 0);
    sweep(some.map(|(a, b)| [WRAPS[a], WRAPS[b]]).flat_map(|pair| {
        [24, 48].into_iter().flat_map(move |depth| {
            ["a", "1 1"].map(|kernel| format!("SELECT {} FROM t", nested(&pair, kernel, depth)))
        })
    }));
}

#[test]
fn what_is_nested_within_reason_is_read() {
    for wrap in ["abs({})", "NOT ({})", "CASE WHEN {} THEN 1 END", "({})", "(SELECT {})"] {
        let text = format!("SELECT {}", nested(&[wrap], "a", 20));
        assert!(parse(&text).is_ok(), "{text}");
    }
}
