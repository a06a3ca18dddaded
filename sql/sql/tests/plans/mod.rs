//! Whatever index answers, the answer is the same: random queries over a table with keys and
//! indexes, and over a copy that has none and so must be scanned, filtered and sorted.

use proptest::prelude::*;
use types::Value;

use crate::database::Database;

fn databases(rows: &[(i64, Option<i64>, i64)]) -> Database {
    let mut database = Database::default();
    for text in [
        "create table indexed (a int, b int, c int not null, primary key (c, a))",
        "create index on indexed (b, c)",
        "create index on indexed (a)",
        "create table plain (a int, b int, c int not null)",
    ] {
        database.run(text, &[]).unwrap();
    }
    for (a, b, c) in rows {
        let b = b.map_or("null".to_owned(), |b| b.to_string());
        for table in ["indexed", "plain"] {
            let text = format!("insert into {table} values ({a}, {b}, {c})");
            // Keys that come twice are refused by one table, so by both.
            if database.run(&text, &[]).is_err() {
                break;
            }
        }
    }
    database
}

/// A column, marked so that a join can say whose it is.
fn column() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["@a", "@b", "@c"])
}

fn condition() -> impl Strategy<Value = String> {
    let comparison =
        (column(), prop::sample::select(vec!["=", "=", "<", "<=", ">", ">=", "<>"]), -1..5i64)
            .prop_map(|(column, op, value)| format!("{column} {op} {value}"));
    prop_oneof![
        5 => comparison,
        1 => (column(), 0..4i64, 0..4i64).prop_map(|(c, x, y)| format!("{c} in ({x}, {y}, null)")),
        1 => (column(), 0..3i64).prop_map(|(c, x)| format!("{c} between {x} and {}", x + 2)),
        1 => column().prop_map(|c| format!("{c} is null")),
        1 => (column(), column()).prop_map(|(x, y)| format!("{x} <= {y}")),
        1 => (column(), 0..3i64).prop_map(|(c, x)| format!("(@a = {x} or {c} > 2)")),
    ]
}

fn order() -> impl Strategy<Value = String> {
    let key =
        (column(), prop::sample::select(vec!["", " desc", " nulls first", " desc nulls last"]));
    prop::collection::vec(key, 0..3).prop_map(|keys| {
        // The key at the end makes the order of rows, and so LIMIT, unambiguous.
        let keys =
            keys.into_iter().map(|(column, direction)| format!("{}{direction}", &column[1..]));
        keys.chain(["c".into(), "a".into()]).collect::<Vec<_>>().join(", ")
    })
}

fn rows_of(database: &mut Database, text: &str) -> Vec<Vec<Value>> {
    let answer = database.run(text, &[]);
    answer.unwrap_or_else(|e| panic!("{text}: {e}")).rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn indexes_change_no_answer(
        rows in prop::collection::vec((0..4i64, prop::option::of(0..4i64), 0..4i64), 0..14),
        conditions in prop::collection::vec(condition(), 0..4),
        order in order(),
        limit in prop::option::of((0..6u32, 0..3u32)),
    ) {
        let mut database = databases(&rows);
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!(" where {}", conditions.join(" and ")),
        };
        let joined_filter = filter.replace("@b", "y.b").replace('@', "x.");
        let filter = filter.replace('@', "");
        let limit = limit.map_or(String::new(), |(n, skip)| format!(" limit {n} offset {skip}"));
        for select in ["a, b, c", "b", "c + a"] {
            let text = |table| format!("select {select} from {table}{filter} order by {order}{limit}");
            let indexed = rows_of(&mut database, &text("indexed"));
            prop_assert_eq!(&indexed, &rows_of(&mut database, &text("plain")), "{}", text("indexed"));
        }
        for aggregate in ["min(a), max(b), count(*)", "max(b)", "min(b)", "max(c)", "min(a)"] {
            let text = |table| format!("select {aggregate} from {table}{filter}");
            let indexed = rows_of(&mut database, &text("indexed"));
            prop_assert_eq!(&indexed, &rows_of(&mut database, &text("plain")), "{}", text("indexed"));
        }
        for join in ["x.a = y.b", "x.b = y.b and x.c < y.c", "x.c = y.c and y.a = 1", "x.a < y.a"] {
            for kind in ["join", "left join"] {
                let text = |table: &str| format!(
                    "select x.a, x.b, x.c, y.a, y.b, y.c from {table} x {kind} {table} y on {join}{joined_filter} order by 1, 2, 3, 4, 5, 6"
                );
                let indexed = rows_of(&mut database, &text("indexed"));
                prop_assert_eq!(&indexed, &rows_of(&mut database, &text("plain")), "{}", text("indexed"));
            }
        }
        let text = |table| format!("update {table} set b = b + 1{filter}");
        database.run(&text("indexed"), &[]).unwrap();
        database.run(&text("plain"), &[]).unwrap();
        let all = |table| format!("select * from {table} order by c, a");
        prop_assert_eq!(rows_of(&mut database, &all("indexed")), rows_of(&mut database, &all("plain")));
        let text = |table| format!("delete from {table}{filter}");
        database.run(&text("indexed"), &[]).unwrap();
        database.run(&text("plain"), &[]).unwrap();
        prop_assert_eq!(rows_of(&mut database, &all("indexed")), rows_of(&mut database, &all("plain")));
    }
}
