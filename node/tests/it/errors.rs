//! Errors that a user can cause, each caused: its SQLSTATE, its message, what to do next. The page
//! `docs/errors.md` is made of them, and has a line for every SQLSTATE that the program knows.

use std::fmt::Write as _;
use std::fs;

use super::*;

/// The program's list of codes, as its source has it.
const CODES: &str = include_str!("../../../core/types/src/error.rs");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");

const SETUP: &str = "\
CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(20) NOT NULL,
    cents bigint NOT NULL DEFAULT 0 CHECK (cents >= 0));
INSERT INTO accounts VALUES (1, 'ada', 100), (2, 'bob', 0);
CREATE TABLE transfers (number int PRIMARY KEY, giver int REFERENCES accounts (id));
CREATE ROLE guest;
CREATE SEQUENCE counted;
CREATE SEQUENCE numbers MAXVALUE 2;
SELECT nextval('numbers'), nextval('numbers')";

/// The code, and the statements of one session, the last of which fails by it.
const CAUSED: &[(&str, &str)] = &[
    ("0A000", "CREATE EXTENSION postgis"),
    ("21000", "SELECT (SELECT id FROM accounts)"),
    ("22001", "INSERT INTO accounts VALUES (9, 'a name of more than twenty letters')"),
    ("22003", "SELECT 2147483647 + 1"),
    ("22007", "SELECT DATE 'soon'"),
    ("22008", "SELECT DATE '2026-02-30'"),
    ("22012", "SELECT 1 / 0"),
    ("22015", "SELECT INTERVAL '9999999999 years'"),
    ("22023", "SELECT * FROM accounts AS OF BLOCK 1000000"),
    ("2200H", "SELECT nextval('numbers')"),
    ("22P02", "SELECT 'many'::int"),
    ("22P05", "SELECT '\"\\u0000\"'::jsonb"),
    ("23502", "INSERT INTO accounts (id) VALUES (9)"),
    ("23503", "INSERT INTO transfers VALUES (9, 9)"),
    ("23505", "INSERT INTO accounts VALUES (1, 'bob')"),
    ("23514", "UPDATE accounts SET cents = -1 WHERE id = 1"),
    ("25001", "BEGIN; CREATE DATABASE other"),
    ("25006", "BEGIN READ ONLY; DELETE FROM transfers"),
    ("25P01", "SAVEPOINT one"),
    ("25P02", "BEGIN; SELECT 1 / 0; SELECT 1"),
    ("26000", "EXECUTE nothing"),
    ("2BP01", "DROP TABLE accounts"),
    ("34000", "FETCH nothing"),
    ("3B001", "BEGIN; ROLLBACK TO nowhere"),
    ("3D000", "DROP DATABASE nowhere"),
    ("3F000", "CREATE TABLE nowhere.t (a int)"),
    ("42501", "SET ROLE guest; SELECT * FROM accounts"),
    ("42601", "SELEC 1"),
    ("42701", "CREATE TABLE twice (a int, a int)"),
    ("42702", "SELECT id FROM accounts a, accounts b"),
    ("42703", "SELECT nope FROM accounts"),
    ("42704", "DROP TYPE nothing"),
    ("42710", "CREATE ROLE guest"),
    (
        "42723",
        "CREATE FUNCTION one() RETURNS int LANGUAGE SQL AS 'SELECT 1'; \
         CREATE FUNCTION one() RETURNS int LANGUAGE SQL AS 'SELECT 1'",
    ),
    ("42803", "SELECT owner, sum(cents) FROM accounts"),
    ("42804", "SELECT 1 WHERE 1"),
    ("42809", "SELECT nextval('accounts')"),
    ("42830", "CREATE TABLE child (a int REFERENCES accounts (cents))"),
    ("42846", "SELECT true::date"),
    ("42883", "SELECT nothing(1)"),
    (
        "428C9",
        "CREATE TABLE made (a int GENERATED ALWAYS AS IDENTITY); INSERT INTO made (a) VALUES (1)",
    ),
    ("42P01", "SELECT * FROM nothing"),
    ("42P02", "SELECT $1"),
    ("42P03", "BEGIN; DECLARE c CURSOR FOR SELECT 1; DECLARE c CURSOR FOR SELECT 1"),
    ("42P05", "PREPARE p AS SELECT 1; PREPARE p AS SELECT 1"),
    ("42P07", "CREATE TABLE accounts (id int)"),
    ("42P10", "INSERT INTO accounts VALUES (1, 'b') ON CONFLICT (cents) DO NOTHING"),
    ("42P16", "CREATE TABLE two (a int PRIMARY KEY, b int PRIMARY KEY)"),
    ("42P17", "CREATE TABLE g (a int, b int GENERATED ALWAYS AS (b) STORED)"),
    ("54000", "SELECT repeat('x', 2000000000)"),
    ("55000", "SELECT currval('counted')"),
    ("55P02", "SET server_version = '9'"),
    ("57014", "SET statement_timeout = 50; SELECT pg_sleep(10)"),
    ("P0001", "DO $$ BEGIN RAISE EXCEPTION 'not today' USING HINT = 'Try tomorrow.'; END $$"),
    (
        "P0002",
        "DO $$ DECLARE a int; BEGIN SELECT id INTO STRICT a FROM accounts WHERE id = 99; END $$",
    ),
    ("P0003", "DO $$ DECLARE a int; BEGIN SELECT id INTO STRICT a FROM accounts; END $$"),
];

/// Those whose message says all that there is to say.
const NEED_NO_HINT: &[&str] = &["22023", "2200H", "42P16", "42P17", "55000"];

/// Those that no statement alone causes on a healthy node, and what they are about.
const OTHERS: &[(&str, &str)] = &[
    ("00000", "No error: of notices and of what ended well."),
    (
        "08007",
        "Whether the transaction was committed is not known: the hint has the question to ask.",
    ),
    ("08P01", "The client does not speak PostgreSQL's protocol: a fault of its driver."),
    ("22004", "A NULL where a call takes none."),
    ("22009", "A zone that is further from UTC than a day."),
    ("22021", "A character that text cannot hold."),
    ("2202E", "An array's bounds."),
    ("22P03", "A binary parameter that is none of its type: a fault of the driver."),
    ("22P04", "A line of COPY that is not as the format asks; the message has its number."),
    ("28000", "This user may not come in, or not this way; the hint says which way there is."),
    ("28P01", "A password that is wrong, or a user that is not there: a client is not told which."),
    ("40001", "Another transaction came between: run the whole transaction again."),
    ("40P01", "Two sessions waited for each other: run the whole transaction again."),
    ("42602", "A name that cannot be one."),
    ("42P11", "A cursor's options contradict each other."),
    ("42P18", "The type of a parameter cannot be told: give it, as in $1::int."),
    ("53100", "The disk is full: what is needed is said; writes go on once there is room."),
    ("53200", "Memory that a setting bounds is used up; the hint names the setting."),
    ("53300", "Too many connections: raise max_connections, or share them by a pool."),
    ("54001", "A statement that is nested too deeply."),
    ("55006", "It is in use: a database with sessions, a table with an open cursor."),
    ("55P03", "A lock that another session holds, with NOWAIT or lock_timeout."),
    ("57P01", "The node stops: connect again."),
    ("57P03", "The node starts, or its cluster cannot order: connect again, or to another member."),
    ("58030", "The disk has failed: the operator has to look."),
    ("72000", "Versions of rows that the transaction reads were given up: run it again."),
    ("XX000", "A fault of the program, and never of yours: please report it."),
    ("XX001", "The ledger or a checkpoint is damaged: the operator has to look."),
    ("XXT01", "The block was skipped: [operations.md](operations.md) says by whom that is done."),
];

const INTRODUCTION: &str = "\
# Errors

<!-- Made by node's test errors::every_error_that_a_user_can_cause_says_what_to_do_next. -->

Which error is it, and what is the next step? Every error has a SQLSTATE, which programs should go by, a message
in PostgreSQL's words, DETAIL where there is one, and HINT: the next step. Codes and names are
PostgreSQL's; `XXT01` is this program's own. What a transaction may be told, and what a client does
then, is in [transactions.md](transactions.md).

## What statements cause

The tables are `accounts (id int PRIMARY KEY, owner varchar(20) NOT NULL, cents bigint CHECK (cents >= 0))`, with two rows,
and `transfers (number int PRIMARY KEY, giver int REFERENCES accounts)`. The last statement of a line fails.

| code | statement | message | next step |
|---|---|---|---|
";

const BEYOND: &str = "
## What other things cause

| code | |
|---|---|
";

#[tokio::test]
async fn every_error_that_a_user_can_cause_says_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    node.connect().await.batch_execute(SETUP).await.unwrap();
    let mut page = INTRODUCTION.to_owned();
    for (code, statements) in CAUSED {
        let client = node.connect().await;
        let statements: Vec<&str> = match statements.contains("$$") {
            true => vec![statements],
            false => statements.split("; ").collect(),
        };
        let mut failed = None;
        for statement in &statements {
            failed = client.simple_query(statement).await.err();
        }
        let failed = failed.unwrap_or_else(|| panic!("{code}: {statements:?} does not fail"));
        let said = failed.as_db_error().unwrap();
        assert_eq!(said.code().code(), *code, "{statements:?}: {said:?}");
        let hint = said.hint().unwrap_or_default();
        assert_eq!(hint.is_empty(), NEED_NO_HINT.contains(code), "{code}: {said:?}");
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let [statements, message, hint] = [&statements.join("; "), said.message(), hint].map(cell);
        writeln!(page, "| {code} | `{statements}` | {message} | {hint} |").unwrap();
    }
    page += BEYOND;
    for (code, about) in OTHERS {
        writeln!(page, "| {code} | {about} |").unwrap();
    }
    let known = CODES.lines().filter_map(|line| line.trim().strip_suffix("\";")?.split_once("b\""));
    let known: Vec<&str> = known.map(|(_, code)| code).collect();
    assert!(known.len() > 80, "{known:?}");
    for code in known {
        let lines = page.matches(&format!("\n| {code} |")).count();
        assert_eq!(lines, 1, "{code} belongs into CAUSED or into OTHERS");
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(PAGE, page).unwrap();
    }
    assert_eq!(fs::read_to_string(PAGE).unwrap(), page, "UPDATE_GOLDEN=1 writes it anew");
}
