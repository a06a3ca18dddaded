//! pgbench's own statements, letter by letter: they must bind, and to the right programs.

use procedure::{Query, Step};
use sql::{Bound, Program, Statement};
use types::{DataType, Value};

use crate::database::Database;

/// What `pgbench -i` sends.
const INITIALISE: &[&str] = &[
    "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    "create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22))",
    "create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)",
    "create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)",
    "create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)",
    "begin",
    "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    "insert into pgbench_branches(bid,bbalance) values(1,0)",
    "insert into pgbench_tellers(tid,bid,tbalance) values (1,1,0)",
    "copy pgbench_accounts from stdin with (freeze on)",
    "insert into pgbench_accounts(aid,bid,abalance,filler) select aid, (aid - 1) / 100000 + 1, 0, '' from generate_series(1, 100) as aid",
    "commit",
    "vacuum analyze pgbench_branches",
    "vacuum analyze pgbench_tellers",
    "vacuum analyze pgbench_accounts",
    "vacuum analyze pgbench_history",
    "alter table pgbench_branches add primary key (bid)",
    "alter table pgbench_tellers add primary key (tid)",
    "alter table pgbench_accounts add primary key (aid)",
];

fn initialised() -> Database {
    let mut database = Database::default();
    for text in INITIALISE {
        database.run(text, &[]).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    database
}

fn bound(database: &Database, text: &str) -> Bound {
    database.bind(text).unwrap_or_else(|e| panic!("{text}: {e}")).remove(0)
}

fn steps(bound: &Bound) -> &[Step] {
    match &bound.statement {
        Statement::Program(Program::Procedure(procedure)) => &procedure.body,
        other => panic!("not a program: {other:?}"),
    }
}

#[test]
fn a_balance_is_updated_by_command() {
    let database = initialised();
    for text in [
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;",
        "UPDATE pgbench_tellers SET tbalance = tbalance + 17 WHERE tid = 1;",
        "UPDATE pgbench_branches SET bbalance = bbalance + -17 WHERE bid = 1;",
    ] {
        let bound = bound(&database, text);
        assert!(
            matches!(steps(&bound), [Step::Update { .. }, Step::CountRows { .. }]),
            "{text}: {:?}",
            steps(&bound)
        );
    }
    let bound =
        bound(&database, "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;");
    assert_eq!(bound.parameters, [DataType::Int4, DataType::Int4]);
}

#[test]
fn a_balance_is_read_by_key() {
    let database = initialised();
    let bound = bound(&database, "SELECT abalance FROM pgbench_accounts WHERE aid = $1;");
    assert!(
        matches!(
            steps(&bound),
            [Step::EmitQuery { query: Query::Get { columns, filter: None, .. } }] if **columns == [2]
        ),
        "{:?}",
        steps(&bound)
    );
}

#[test]
fn tpcb_like_runs() {
    let mut database = initialised();
    let parameters = [Value::Int(5), Value::Int(7)];
    let mut run = |text: &str, parameters: &[Value]| {
        database.run(text, parameters).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    run("BEGIN;", &[]);
    run("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;", &parameters);
    let answer = run("SELECT abalance FROM pgbench_accounts WHERE aid = 7;", &[]);
    assert_eq!(answer.rows, [[Value::Int(5)]]);
    run("UPDATE pgbench_tellers SET tbalance = tbalance + 5 WHERE tid = 1;", &[]);
    run("UPDATE pgbench_branches SET bbalance = bbalance + 5 WHERE bid = 1;", &[]);
    run(
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 7, 5, CURRENT_TIMESTAMP);",
        &[],
    );
    run("END;", &[]);
    let answer = run("select count(*), sum(delta), min(filler) from pgbench_history", &[]);
    assert_eq!(answer.rows, [[Value::Int(1), Value::Int(5), Value::Null]]);
    let answer = run("select count(*) from pgbench_branches", &[]);
    assert_eq!(answer.rows, [[Value::Int(1)]]);
}

#[test]
fn lifted_literals_give_the_same_answers() {
    let texts = [
        "UPDATE pgbench_accounts SET abalance = abalance + -33 WHERE aid = 9",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler) VALUES (1, 1, 7, 5, CURRENT_TIMESTAMP, 'it''s')",
        "SELECT abalance, filler FROM pgbench_accounts WHERE aid = 9 OR (filler = '' AND aid < 3) ORDER BY 1 LIMIT 2",
        "DELETE FROM pgbench_accounts WHERE aid IN (1, 2)",
        "SELECT count(*), sum(abalance) * 1.5 FROM pgbench_accounts",
    ];
    let (mut plain, mut lifted) = (initialised(), initialised());
    for text in texts {
        let expected = plain.run(text, &[]).unwrap();
        let normalised = sql::normalise(text).unwrap();
        let types: Vec<_> = normalised.literals.iter().map(|l| l.data_type.clone()).collect();
        let parsed = sql::parse(&normalised.text).unwrap().remove(0);
        let bound = sql::bind(&lifted.catalog, &parsed, &types).unwrap();
        let values = normalised.literals.iter().zip(&bound.parameters);
        let values: Vec<Value> = values
            .map(|(literal, to)| match &literal.value {
                Value::Text(text) => Value::read_text(to, text).unwrap(),
                value => value.clone(),
            })
            .collect();
        let actual = lifted.execute(&bound, &values).unwrap();
        assert_eq!(actual.rows, expected.rows, "{text}");
        assert_eq!(actual.tag, expected.tag, "{text}");
        assert_eq!(actual.columns, expected.columns, "{text}");
    }
}
