//! Transactions that were simulated before they were ordered.

use ::types::{Error, Key, Result, Stamp, TableId, Value};
use concurrency::RowRequirement;
use engine::transaction::{Endorsed, RowChange, RowWrite};
use engine::{Body, ParameterTypes};
use kit::random::Random;
use order::View;
use sql::session::schema::Schema;

use super::approvals::{NODE_A, NODE_B, detail, node_keys};
use super::signed::{
    ADA, EVE, OK, OTHER_ROOT, ROOT, Said, founded, judge_behind, outcome, public, said, schema,
    submit,
};
use super::{Client, Node, block_on, code};

pub(super) const BOTH: [u8; 2] = [NODE_A, NODE_B];

pub(super) const POLICY: &str = "SET APPROVAL POLICY 'AND(bank_a, bank_b)'";

/// Of the paper's appendix A.
pub(super) const BALANCES: &str = "CREATE TABLE balances (name text PRIMARY KEY, amount int NOT NULL, \
     CHECK (amount >= 0))";

const TRANSFER: &str = "CREATE PROCEDURE transfer(n int) LANGUAGE plpgsql AS $$ \
     DECLARE a int; b int; BEGIN \
     SELECT amount INTO a FROM balances WHERE name = 'BalA'; \
     SELECT amount INTO b FROM balances WHERE name = 'BalB'; \
     UPDATE balances SET amount = a - n WHERE name = 'BalA'; \
     UPDATE balances SET amount = b + n WHERE name = 'BalB'; END $$";

pub(super) const INITIAL: &str = "INSERT INTO balances VALUES ('BalA', 100), ('BalB', 50)";

pub(super) fn statement(text: impl Into<String>) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

/// Of the superuser, whose session hands it in. Lower numbers were used to found the banks.
pub(super) fn own(sequence: u64, body: Body) -> Said {
    Said { seeds: vec![], ..said("tally", 0, 1000 + sequence, body) }
}

/// What the node has come to.
pub(super) async fn proposed(client: &mut Client, said: &Said) -> Result<Said> {
    let parameters = [Value::Bytes(said.bytes().into())];
    let rows = client.run_typed("SELECT tally_propose($1)", &[], &parameters).await?;
    let Value::Bytes(bytes) = &rows[0][0] else { panic!("{rows:?}") };
    let view = View::read(bytes)?;
    let body = Body::from_request(view.request)?;
    Ok(Said { seen_height: view.seen_height, body, ..said.clone() })
}

pub(super) async fn approve(client: &mut Client, said: &Said) -> Result<()> {
    let parameters = [Value::Bytes(said.bytes().into())];
    client.run_typed("SELECT tally_approve($1)", &[], &parameters).await.map(drop)
}

pub(super) fn endorsed(said: &Said) -> &Endorsed {
    let Body::Endorsed(endorsed) = &said.body else { panic!("{:?}", said.body) };
    endorsed
}

/// The same with something else in it.
pub(super) fn changed(said: &Said, change: impl FnOnce(&mut Endorsed)) -> Said {
    let mut endorsed = endorsed(said).clone();
    change(&mut endorsed);
    Said { body: Body::Endorsed(Box::new(endorsed)), ..said.clone() }
}

fn text(value: &str) -> Value {
    Value::from(value)
}

pub(super) fn balance(of: &str, amount: i64) -> RowChange {
    RowChange::Update { key: vec![text(of)], columns: vec![(1, Value::Int(amount))] }
}

pub(super) fn changes(said: &Said) -> Vec<RowChange> {
    endorsed(said).writes.iter().map(|write| write.change.clone()).collect()
}

/// Two banks, whose nodes have keys.
async fn banks() -> Node {
    let node = founded().await;
    let mut client = node.session();
    for (sequence, (root, text)) in (200..).zip(node_keys()) {
        assert_eq!(outcome(&mut client, &said("tally", root, sequence, schema(text))).await, OK);
    }
    node
}

pub(super) async fn with(texts: &[&str]) -> (Node, Client) {
    let node = banks().await;
    let mut client = node.session();
    for text in texts {
        client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    (node, client)
}

pub(super) async fn refused(client: &mut Client, said: &Said) -> Error {
    submit(client, &said.bytes()).await.unwrap_err()
}

pub(super) async fn shown(client: &mut Client, query: &str) -> String {
    let rows = client.run(query).await.unwrap();
    let cells = |row: &super::Row| row.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    rows.iter().map(cells).collect::<Vec<_>>().join(" ")
}

pub(super) const AMOUNTS: &str = "SELECT name, amount FROM balances ORDER BY name";

/// Appendix A of the paper on Fabric++: T7 is valid, T8 is forged, T9 is stale.
#[test]
fn the_papers_transfers_end_as_the_paper_says() {
    block_on(async {
        let alter = format!("ALTER TABLE balances {POLICY}");
        let (node, mut client) = with(&[BALANCES, TRANSFER, INITIAL, &alter]).await;
        let transfer = |n| Body::call("transfer", vec![Value::Int(n)]);
        let t7 = proposed(&mut client, &own(7, transfer(30))).await.unwrap();
        let t8 = proposed(&mut client, &own(8, transfer(70))).await.unwrap();
        let t9 = proposed(&mut client, &own(9, transfer(100))).await.unwrap();
        assert_eq!(
            shown(&mut client, AMOUNTS).await,
            "BalA,100 BalB,50",
            "a simulation writes none"
        );
        assert_eq!(changes(&t7), [balance("BalA", 70), balance("BalB", 80)]);
        assert_eq!(changes(&t9), [balance("BalA", 0), balance("BalB", 150)]);
        let reads = |said: &Said| endorsed(said).rows.clone();
        assert_eq!(reads(&t7).len(), 2);
        assert_eq!(reads(&t7), reads(&t9), "of the same versions");
        assert!(reads(&t7).iter().all(|read| read.stamp.is_some()));

        // A2 has come to something else, and B2 has not signed it.
        let forge = |endorsed: &mut Endorsed| endorsed.writes[0].change = balance("BalA", 100);
        let forged = changed(&t8, forge).by(&[NODE_A]);
        let why = refused(&mut client, &forged).await;
        assert_eq!(why.code().as_str(), "42T01", "{why}");
        assert!(detail(&why).contains("bank_b is missing"), "{why:?}");
        let taken = {
            let (mine, theirs) = (forged.clone().by(&BOTH).bytes(), t8.clone().by(&BOTH).bytes());
            let tail = 2 * (32 + 1 + 64) + 1;
            [&mine[..mine.len() - tail], &theirs[theirs.len() - tail..]].concat()
        };
        let why = submit(&mut client, &taken).await.unwrap_err();
        assert_eq!(why.message(), "an approval of the transaction is wrong");
        assert_eq!(why.code().as_str(), "28000");

        assert_eq!(outcome(&mut client, &t7.clone().by(&BOTH)).await, OK);
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,70 BalB,80");
        assert_eq!(outcome(&mut client, &t7.by(&BOTH)).await, "08P01", "replayed");
        let why = refused(&mut client, &t9.clone().by(&BOTH)).await;
        assert_eq!(why.code().as_str(), "40001");
        assert_eq!(detail(&why), "A row that the transaction read was changed since.");
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,70 BalB,80");
        let again = proposed(&mut client, &own(10, transfer(70))).await.unwrap();
        assert_eq!(outcome(&mut client, &again.by(&BOTH)).await, OK);
        let why = proposed(&mut client, &own(11, transfer(1))).await.unwrap_err();
        assert_eq!(why.code().as_str(), "23514", "its own error: {why}");
        node.verify();
    });
}

#[test]
fn none_believes_what_too_few_have_endorsed() {
    block_on(async {
        let (node, mut client) = with(&[BALANCES, TRANSFER, INITIAL]).await;
        let put = |sequence| own(sequence, statement("UPDATE balances SET amount = amount + 1"));
        let why = proposed(&mut client, &put(50)).await.unwrap();
        let why = refused(&mut client, &why.by(&BOTH)).await;
        assert_eq!(why.code().as_str(), "42T01");
        assert_eq!(why.message(), "table \"balances\" takes no endorsed transactions");
        assert_eq!(why.fields().table.as_deref(), Some("balances"));
        let policy = "'AND(bank_a.ada, OUTOF(1, bank_b, bank_b.eve))'";
        let alter = format!("ALTER TABLE balances SET APPROVAL POLICY {policy}");
        client.run(&alter).await.unwrap();
        let made = proposed(&mut client, &put(1)).await.unwrap();
        for (why, approvers, message) in [
            ("none", &[][..], "lacks approvals that table"),
            ("users have simulated nothing", &[ADA, EVE], "lacks endorsements that table"),
            ("a node is not its user", &BOTH, "lacks approvals that table"),
            ("the other's node is missing", &[ADA, EVE, NODE_A], "lacks endorsements"),
            ("an unknown key", &[ADA, EVE, NODE_A, 99], "lacks endorsements"),
            ("the user's root key in place of its node", &[ROOT, NODE_B], OK),
            ("used", &[ADA, NODE_A, NODE_B], "was used before"),
        ] {
            let said = made.clone().by(approvers);
            match submit(&mut client, &said.bytes()).await {
                Ok(_) => assert_eq!(message, OK, "{why}"),
                Err(error) => assert!(error.message().contains(message), "{why}: {error}"),
            }
        }
        // The ledger's policy serves tables without one.
        client.run("CREATE TABLE free (id int PRIMARY KEY)").await.unwrap();
        client.run("ALTER DATABASE tally SET APPROVAL POLICY 'bank_b'").await.unwrap();
        let made = proposed(&mut client, &own(2, statement("INSERT INTO free VALUES (1)"))).await;
        let made = made.unwrap();
        assert_eq!(outcome(&mut client, &made.clone().by(&[NODE_A])).await, "42T01");
        assert_eq!(outcome(&mut client, &made.by(&[NODE_B])).await, OK);
        node.verify();
    });
}

#[test]
fn what_was_read_is_what_is_there() {
    block_on(async {
        let (node, mut client) = with(&[
            "CREATE TABLE item (id int PRIMARY KEY, kind int, n int NOT NULL DEFAULT 0, \
             code varchar(3) UNIQUE)",
            "CREATE INDEX ON item (kind)",
            "INSERT INTO item VALUES (1, 7, 1, 'a'), (2, 7, 2, 'b'), (3, 8, 3, 'c')",
            &format!("ALTER DATABASE tally {POLICY}"),
        ])
        .await;
        let mut sequence = 0;
        let mut next = |text: &str| {
            sequence += 1;
            own(sequence, statement(text))
        };
        for (proposal, between, expected) in [
            // Another row, or nothing that was read.
            ("UPDATE item SET n = n + 1 WHERE id = 1", "UPDATE item SET n = 9 WHERE id = 2", OK),
            (
                "UPDATE item SET n = n + 1 WHERE id = 1",
                "UPDATE item SET n = 9 WHERE id = 1",
                "40001",
            ),
            // A blind write, of a row that has to be there.
            ("UPDATE item SET n = 5 WHERE id = 1", "UPDATE item SET n = 9 WHERE id = 1", OK),
            ("UPDATE item SET n = 5 WHERE id = 3", "DELETE FROM item WHERE id = 3", "40001"),
            // A phantom, and what is no part of the range.
            (
                "UPDATE item SET n = (SELECT count(*) FROM item WHERE kind = 7) WHERE id = 1",
                "INSERT INTO item VALUES (10, 7)",
                "40001",
            ),
            (
                "UPDATE item SET n = (SELECT count(*) FROM item WHERE kind = 7) WHERE id = 1",
                "INSERT INTO item VALUES (11, 9)",
                OK,
            ),
            (
                "UPDATE item SET n = (SELECT sum(n) FROM item WHERE kind = 7) WHERE id = 1",
                "DELETE FROM item WHERE id = 10",
                "40001",
            ),
            // A key that is taken, and a unique value.
            ("INSERT INTO item VALUES (20, 1)", "INSERT INTO item VALUES (20, 2)", "40001"),
            (
                "INSERT INTO item VALUES (21, 1, 0, 'x')",
                "INSERT INTO item VALUES (22, 2, 0, 'x')",
                "40001",
            ),
            ("DELETE FROM item WHERE id = 11", "UPDATE item SET n = 2 WHERE id = 11", "40001"),
            ("DELETE FROM item WHERE id = 11", "SELECT 1", OK),
        ] {
            let made = proposed(&mut client, &next(proposal)).await.unwrap();
            if between != "SELECT 1" {
                let said = next(between).by(&BOTH);
                assert_eq!(outcome(&mut client, &said).await, OK, "{between}");
            }
            assert_eq!(outcome(&mut client, &made.by(&BOTH)).await, expected, "{proposal}");
        }
        // Under another schema nothing of it counts.
        let made =
            proposed(&mut client, &next("UPDATE item SET n = 5 WHERE id = 1")).await.unwrap();
        let alter = next("ALTER TABLE item ADD COLUMN more int");
        let alter = Said { body: schema("ALTER TABLE item ADD COLUMN more int"), ..alter };
        assert_eq!(outcome(&mut client, &alter.by(&BOTH)).await, OK);
        let why = refused(&mut client, &made.by(&BOTH)).await;
        assert_eq!((why.code().as_str(), detail(&why)), ("40001", "The schema was changed since."));
        node.verify();
    });
}

/// Another transaction may come between that has not read it either.
#[test]
fn a_blind_write_of_the_value_that_is_there_is_written() {
    block_on(async {
        let alter = format!("ALTER TABLE balances {POLICY}");
        let (node, mut client) = with(&[BALANCES, INITIAL, &alter]).await;
        let set = |n, amount: u32| {
            let text = format!("UPDATE balances SET amount = {amount} WHERE name = 'BalA'");
            own(n, statement(text))
        };
        let same = proposed(&mut client, &set(1, 100)).await.unwrap();
        assert_eq!(changes(&same), [balance("BalA", 100)]);
        assert!(endorsed(&same).rows.is_empty(), "{same:?}");
        assert_eq!(outcome(&mut client, &set(2, 60).by(&BOTH)).await, OK);
        assert_eq!(outcome(&mut client, &same.by(&BOTH)).await, OK);
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,100 BalB,50");
        // A command that looks at the row has read it.
        let text = "UPDATE balances SET amount = amount + 0 WHERE name = 'BalA'";
        let read = proposed(&mut client, &own(3, statement(text))).await.unwrap();
        assert_eq!(endorsed(&read).rows.len(), 1);
        node.verify();
    });
}

#[test]
fn a_write_set_is_within_its_proposal_and_its_tables() {
    block_on(async {
        let (node, mut client) = with(&[
            "CREATE TABLE parent (id int PRIMARY KEY)",
            "CREATE TABLE item (id int PRIMARY KEY, of int REFERENCES parent, n int NOT NULL, \
             code varchar(3) UNIQUE, price numeric(4,2), twice int GENERATED ALWAYS AS (n * 2) \
             STORED, CHECK (n < 100))",
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO item VALUES (1, 1, 1, 'a', 1.5), (2, 1, 2, 'b', 2.5)",
            &format!("ALTER TABLE item {POLICY}"),
            &format!("ALTER TABLE parent {POLICY}"),
            "GRANT SELECT, UPDATE (n) ON item TO ada",
        ])
        .await;
        let update = "UPDATE item SET n = n + 1 WHERE id = 1";
        let made = proposed(&mut client, &own(1, statement(update))).await.unwrap();
        let write = &endorsed(&made).writes[0];
        let item = write.table;
        let one = |columns| RowChange::Update { key: vec![Value::Int(1)], columns };
        assert_eq!(write.change, one(vec![(2, Value::Int(2))]));
        let insert = "INSERT INTO item VALUES (9, 1, 1, 'z', 1)";
        let inserting = proposed(&mut client, &own(2, statement(insert))).await.unwrap();
        let RowChange::Insert(row) = changes(&inserting).remove(0) else { panic!() };
        let with_value = |at: usize, value: Value| {
            let mut row = row.clone();
            row[at] = value;
            RowChange::Insert(row)
        };
        let beyond = TableId(item.0 - 1);
        for (why, of, table, change, expected) in [
            ("another column", &made, item, one(vec![(1, Value::Int(1))]), "42501"),
            (
                "another change",
                &made,
                item,
                RowChange::Delete { key: vec![Value::Int(1)] },
                "42501",
            ),
            ("another table", &made, beyond, RowChange::Insert(vec![Value::Int(7)]), "42501"),
            ("a row more", &made, item, with_value(0, Value::Int(7)), "42501"),
            ("no table", &made, TableId(9999), one(vec![(2, Value::Int(3))]), "42T01"),
            ("CHECK", &made, item, one(vec![(2, Value::Int(100))]), "23514"),
            ("NOT NULL", &made, item, one(vec![(2, Value::Null)]), "23502 40001"),
            ("type", &made, item, one(vec![(2, text("x"))]), "40001"),
            ("nothing", &made, item, one(vec![]), "XX001"),
            ("no key", &made, item, RowChange::Update { key: vec![], columns: vec![] }, "XX001"),
            (
                "no row",
                &made,
                item,
                RowChange::Update { key: vec![Value::Int(99)], columns: vec![(2, Value::Int(3))] },
                "40001",
            ),
            (
                "NULL as key",
                &made,
                item,
                RowChange::Update { key: vec![Value::Null], columns: vec![(2, Value::Int(3))] },
                "40001",
            ),
            ("foreign key", &inserting, item, with_value(1, Value::Int(8)), "40001"),
            ("unique", &inserting, item, with_value(3, text("b")), "40001"),
            ("too long", &inserting, item, with_value(3, text("long")), "40001"),
            (
                "too many digits",
                &inserting,
                item,
                with_value(4, Value::Numeric("123.45".parse().unwrap())),
                "40001",
            ),
            ("short", &inserting, item, RowChange::Insert(vec![Value::Int(9)]), "XX001"),
        ] {
            let forged = changed(of, |endorsed| {
                endorsed.writes = vec![RowWrite { table, change: change.clone() }];
            });
            // Its rows were read by an honest node.
            let forged = Said { sequence: 1100 + next_number(), ..forged };
            let code = outcome(&mut client, &forged.by(&BOTH)).await;
            assert!(expected.contains(&code), "{why}: {code}");
        }
        // What follows from other columns does, whatever is said; digits are those of the column.
        let rounded = changed(&inserting, |endorsed| {
            let RowChange::Insert(row) = &mut endorsed.writes[0].change else { panic!() };
            row[4] = Value::Numeric("1.234".parse().unwrap());
            row[5] = Value::Int(77);
        });
        assert_eq!(outcome(&mut client, &rounded.by(&BOTH)).await, OK);
        let query = "SELECT twice, price FROM item WHERE id = 9";
        assert_eq!(shown(&mut client, query).await, "2,1.23");
        // Who may not run it may not have it endorsed.
        let mut ada = node.session_of("ada");
        let may = |sequence, text: &str| said("ada", ADA, sequence, statement(text));
        let allowed = proposed(&mut ada, &may(1, update)).await.unwrap();
        assert_eq!(outcome(&mut client, &allowed.by(&BOTH)).await, OK);
        let denied = may(2, "UPDATE item SET code = 'q' WHERE id = 1");
        assert_eq!(code(proposed(&mut ada, &denied).await).as_str(), "42501");
        assert_eq!(code(proposed(&mut client, &denied).await).as_str(), "42501", "another's");
        let forged = changed(&inserting, |endorsed| endorsed.proposal = denied.body.clone());
        let forged = Said { principal: "ada", seeds: vec![ADA], sequence: 3, ..forged };
        assert_eq!(outcome(&mut client, &forged.by(&BOTH)).await, "42501");
        let open = "BEGIN; SELECT tally_propose('x')";
        assert_ne!(code(client.run(open).await).as_str(), OK);
        client.run("ROLLBACK").await.unwrap();
        let schema = own(4, schema("CREATE TABLE u (id int)"));
        assert_eq!(code(proposed(&mut client, &schema).await).as_str(), "42809");
        let foreign = Said { ledger_id: [8; 16], ..own(5, statement(update)) };
        assert_eq!(code(proposed(&mut client, &foreign).await).as_str(), "08P01");
        let made = proposed(&mut client, &own(6, statement(update))).await.unwrap();
        let late = Said { expires_us: -1, ..made };
        assert_eq!(outcome(&mut client, &late.by(&BOTH)).await, "57014");
        node.verify();
    });
}

fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Rows without a key of their own, rows that go with their parents, and many at once.
#[test]
fn any_kind_of_row_is_endorsed() {
    block_on(async {
        let (node, mut client) = with(&[
            "CREATE TABLE log (what text, n int)",
            "CREATE SCHEMA s",
            "CREATE TABLE s.parent (\"a b\" int, c text, PRIMARY KEY (c, \"a b\"))",
            "CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x int, y text, \
             FOREIGN KEY (y, x) REFERENCES s.parent (c, \"a b\") ON DELETE CASCADE \
             ON UPDATE CASCADE)",
            "CREATE UNIQUE INDEX ON s.parent (\"a b\")",
            "CREATE TABLE nulled (id int PRIMARY KEY, of int REFERENCES s.parent (\"a b\") ON \
             DELETE SET NULL)",
            "CREATE TABLE u (id int PRIMARY KEY, code text UNIQUE)",
            "INSERT INTO u VALUES (1, 'a'), (2, 'b')",
            "CREATE PROCEDURE swap() LANGUAGE plpgsql AS $$ BEGIN \
             UPDATE u SET code = 'c' WHERE id = 1; UPDATE u SET code = 'a' WHERE id = 2; \
             UPDATE u SET code = 'b' WHERE id = 1; END $$",
            "CREATE PROCEDURE fill(n int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..n LOOP \
             INSERT INTO log VALUES ('at', i); INSERT INTO s.parent VALUES (i, 'p'); \
             END LOOP; END $$",
            "INSERT INTO log VALUES ('first', 0)",
            &format!("ALTER DATABASE tally {POLICY}"),
        ])
        .await;
        let call = own(500, statement("INSERT INTO s.parent VALUES (7, 'q'), (8, 'q')"));
        let made = proposed(&mut client, &call).await.unwrap();
        assert_eq!(outcome(&mut client, &made.by(&BOTH)).await, OK);
        for (text, expected) in [
            ("INSERT INTO log VALUES ('x', 1), ('x', 1)", "3"),
            ("INSERT INTO log SELECT what, n + 1 FROM log WHERE what = 'x'", "5"),
            ("UPDATE log SET n = n + 5 WHERE what = 'x'", "5"),
            ("DELETE FROM log WHERE n = 6", "3"),
            (
                "INSERT INTO child (id, x, y) OVERRIDING SYSTEM VALUE VALUES (1, 7, 'q'), (2, 7, 'q')",
                "3",
            ),
            ("UPDATE s.parent SET c = c", "3"),
            ("DELETE FROM s.parent WHERE \"a b\" = 7", "3"),
            ("INSERT INTO child (id, x, y) OVERRIDING SYSTEM VALUE VALUES (3, 8, 'q')", "3"),
            ("DELETE FROM child", "3"),
            ("INSERT INTO nulled VALUES (1, 8), (2, 8), (3, NULL)", "3"),
            ("DELETE FROM s.parent", "3"),
            ("DELETE FROM log", "0"),
        ] {
            let made = proposed(&mut client, &own(next_number(), statement(text))).await;
            let made = made.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            let done = submit(&mut client, &made.by(&BOTH).bytes()).await;
            done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(shown(&mut client, "SELECT count(*) FROM log").await, expected, "{text}");
        }
        assert_eq!(shown(&mut client, "SELECT count(*) FROM child").await, "0");
        let nulled = "SELECT id, of FROM nulled ORDER BY id";
        assert_eq!(shown(&mut client, nulled).await, "1,NULL 2,NULL 3,NULL");
        let fill = Body::call("fill", vec![Value::Int(40)]);
        let made = proposed(&mut client, &own(next_number(), fill)).await.unwrap();
        assert_eq!(changes(&made).len(), 80);
        assert_eq!(outcome(&mut client, &made.by(&BOTH)).await, OK);
        let parents = "SELECT count(*), max(\"a b\") FROM s.parent";
        assert_eq!(shown(&mut client, parents).await, "40,40");
        let child = "INSERT INTO child (id, x, y) OVERRIDING SYSTEM VALUE VALUES (9, 1, 'p')";
        let made = proposed(&mut client, &own(next_number(), statement(child))).await.unwrap();
        assert_eq!(outcome(&mut client, &made.by(&BOTH)).await, OK);
        // Rows that are only allowed together.
        for text in ["UPDATE s.parent SET \"a b\" = 1000 WHERE \"a b\" = 1", "CALL swap()"] {
            let body = match text.starts_with("CALL") {
                true => Body::call("swap", vec![]),
                false => statement(text),
            };
            let why = proposed(&mut client, &own(next_number(), body)).await.unwrap_err();
            assert_eq!(why.code().as_str(), "0A000", "{text}: {why}");
            assert_eq!(why.message(), "the transaction cannot be endorsed", "{text}");
            let detail = detail(&why);
            assert!(
                detail.starts_with("Its rows cannot be written one after the other: "),
                "{detail}"
            );
        }
        node.verify();
    });
}

#[test]
fn a_node_endorses_what_it_comes_to_itself() {
    block_on(async {
        let (node, mut client) = with(&[BALANCES, TRANSFER, INITIAL]).await;
        client
            .run(
                "CREATE FUNCTION look(who text, kind text, what text, given text[]) RETURNS \
                 boolean LANGUAGE sql AS 'SELECT sum(amount) = 150 FROM balances'",
            )
            .await
            .unwrap();
        client.run("ALTER FUNCTION look SET APPROVAL POLICY 'bank_a'").await.unwrap();
        client.run(&format!("ALTER TABLE balances {POLICY}")).await.unwrap();
        node.database.shared_state.approval_check.set("look".to_owned()).unwrap();
        let transfer = |n| Body::call("transfer", vec![Value::Int(n)]);
        let made = proposed(&mut client, &own(1, transfer(30))).await.unwrap();
        approve(&mut client, &made).await.unwrap();
        let mut differ = async |change: &dyn Fn(&mut Endorsed)| {
            let forged = changed(&made, change);
            let why = approve(&mut client, &forged).await.unwrap_err();
            assert_eq!(why.code().as_str(), "42T02", "{why}");
            detail(&why).to_owned()
        };
        let expected = "It is at the key (BalA) of table \"balances\".";
        assert_eq!(differ(&|it| it.writes[0].change = balance("BalA", 71)).await, expected);
        assert_eq!(differ(&|it| it.rows[0].stamp = Some(Stamp::new(1, 1))).await, expected);
        assert_eq!(differ(&|it| drop(it.rows.remove(0))).await, expected);
        assert_eq!(differ(&|it| drop(it.writes.pop())).await, expected.replace("BalA", "BalB"));
        let more = RowRequirement {
            table: endorsed(&made).writes[0].table,
            key: Key::from(&[b'x', 0, 0][..]),
            stamp: None,
        };
        let other = differ(&|it| it.rows.push(more.clone())).await;
        assert_eq!(other, expected.replace("BalA", "x"));
        assert_eq!(differ(&|it| it.result = [0; 32]).await, "All reads and writes agree.");
        differ(&|it| it.now_us += 1).await;
        let early = Said { seen_height: made.seen_height + 1, ..made.clone() };
        assert_eq!(code(approve(&mut client, &early).await).as_str(), "55000");
        // The same from a later block, as long as nothing of it has changed.
        client.run("CREATE TABLE beside (id int PRIMARY KEY)").await.unwrap();
        let why = approve(&mut client, &made).await.unwrap_err();
        assert_eq!(why.code().as_str(), "40001", "another schema: {why}");
        let made = proposed(&mut client, &own(2, transfer(30))).await.unwrap();
        client.run("INSERT INTO beside VALUES (1)").await.unwrap();
        approve(&mut client, &made).await.unwrap();
        assert_eq!(outcome(&mut client, &made.clone().by(&BOTH)).await, OK);
        let why = approve(&mut client, &made).await.unwrap_err();
        let since = format!("What the transaction read was changed since. {expected}");
        assert_eq!((why.code().as_str(), detail(&why)), ("40001", &*since));
        // What it writes follows from what it read, whatever has changed since.
        let made = proposed(&mut client, &own(3, transfer(10))).await.unwrap();
        client.run("INSERT INTO beside VALUES (2)").await.unwrap();
        let forged = changed(&made, |it| it.writes[0].change = balance("BalA", 71));
        assert_eq!(code(approve(&mut client, &forged).await).as_str(), "42T02");
        // A row that is gone.
        let sum = "UPDATE balances SET amount = (SELECT count(id) FROM beside WHERE id = 2) + 100";
        let made = proposed(&mut client, &own(4, statement(sum))).await.unwrap();
        client.run("DELETE FROM beside WHERE id = 2").await.unwrap();
        assert_eq!(code(approve(&mut client, &made).await).as_str(), "40001");
        node.verify();
    });
}

/// Bodies of random bytes, each endorsed by all.
#[test]
fn whatever_is_endorsed_ends() {
    block_on(async {
        let alter = format!("ALTER TABLE balances {POLICY}");
        let (node, mut client) = with(&[BALANCES, TRANSFER, INITIAL, &alter]).await;
        let mut random = Random::new(41);
        let mut seen = std::collections::BTreeMap::<String, u32>::new();
        for round in 0..400 {
            let text = "UPDATE balances SET amount = (SELECT min(amount) FROM balances) + 1 \
                        WHERE name > 'B'";
            let made = proposed(&mut client, &own(100 + round, statement(text))).await.unwrap();
            let mut request = made.body.to_request();
            for _ in 0..=random.below(3) {
                let at = random.below(request.len() as u64) as usize;
                request[at] =
                    if random.chance(2) { random.below(256) as u8 } else { request[at] ^ 1 };
            }
            let Ok(body @ Body::Endorsed(_)) = Body::from_request(&request) else { continue };
            let said = Said { body, ..made }.by(&BOTH);
            *seen.entry(outcome(&mut client, &said).await).or_default() += 1;
        }
        assert!(seen.contains_key("40001") && seen.len() > 3, "{seen:?}");
        assert!(!seen.contains_key("XX000"), "{seen:?}");
        node.verify();
    });
}

/// A body of the block's own versions, by hand.
fn by_hand(schema: &Schema, amounts: [i64; 2], stamps: [Stamp; 2]) -> Endorsed {
    let versioned = schema.newest();
    let table = versioned.catalog.tables().find(|table| table.name() == "balances").unwrap().id();
    let key = |name: &str| Key::from([name.as_bytes(), &[0, 0]].concat().as_slice());
    let names = ["BalA", "BalB"];
    let rows = names.iter().zip(stamps).map(|(name, stamp)| RowRequirement {
        table,
        key: key(name),
        stamp: Some(stamp),
    });
    let writes = names
        .iter()
        .zip(amounts)
        .map(|(name, amount)| RowWrite { table, change: balance(name, amount) });
    Endorsed {
        proposal: Body::call("transfer", vec![Value::Int(30)]),
        schema_version: versioned.version,
        now_us: 0,
        rows: rows.collect(),
        ranges: Vec::new(),
        writes: writes.collect(),
        result: [0; 32],
    }
}

/// Under every protocol and on any number of workers, beside calls that are run.
#[test]
fn a_block_validates_what_was_endorsed_where_it_stands() {
    let mut before = node_keys().to_vec();
    before.extend([BALANCES, TRANSFER].map(|text| (ROOT, text.to_owned())));
    before.push((ROOT, "CREATE TABLE free (id int PRIMARY KEY)".to_owned()));
    let data = [own(300, statement(INITIAL)).bytes()];
    let policy = own(301, schema(format!("ALTER TABLE balances {POLICY}"))).bytes();
    let data: Vec<Vec<u8>> = data.into_iter().chain([policy]).collect();
    judge_behind(&before, &data, &|catalog| {
        let stamp = Stamp::new(3, 0);
        let made = |sequence: u64, amounts, stamps| {
            let body = Body::Endorsed(Box::new(by_hand(catalog, amounts, stamps)));
            Said { seen_height: 3, ..own(sequence, body) }
        };
        let good = |sequence: u64| made(sequence, [70, 80], [stamp; 2]);
        let revoke = format!("ALTER ORGANISATION bank_b REVOKE KEY '{}'", public(NODE_B));
        let stale = [Stamp::new(2, 0), stamp];
        let mut wrong = good(1).by(&BOTH).bytes();
        let last = wrong.len() - 2;
        wrong[last] ^= 1;
        let free = |id: u64| own(600 + id, statement(format!("INSERT INTO free VALUES ({id})")));
        vec![
            (free(1).bytes(), OK),
            (good(1).by(&[NODE_A]).bytes(), "42T01"),
            (good(1).by(&[NODE_A, 99]).bytes(), "42T01"),
            (good(1).by(&[ADA, EVE]).bytes(), "42T01"),
            (wrong, "28000"),
            (Said { expires_us: -1, ..good(1) }.by(&BOTH).bytes(), "57014"),
            (Said { ledger_id: [8; 16], ..good(1) }.by(&BOTH).bytes(), "08P01"),
            (Said { seen_height: 4, ..good(1) }.by(&BOTH).bytes(), "08P01"),
            (made(1, [70, 80], stale).by(&BOTH).bytes(), "40001"),
            (free(2).bytes(), OK),
            (good(3).by(&BOTH).bytes(), OK),
            (good(3).by(&BOTH).bytes(), "08P01"),
            (free(3).bytes(), OK),
            (said("tally", OTHER_ROOT, 1650, schema(revoke)).bytes(), OK),
            (good(4).by(&BOTH).bytes(), "42T01"),
            (good(5).by(&[NODE_A, OTHER_ROOT]).bytes(), "40001"),
            (free(4).bytes(), OK),
        ]
    });
}
