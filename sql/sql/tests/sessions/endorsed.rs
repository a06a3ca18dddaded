//! Transactions that were simulated before they were ordered.

use ::types::{Error, Key, Result, Stamp, Value};
use concurrency::RowRequirement;
use engine::transaction::{Endorsed, RowChange};
use engine::{Body, ParameterTypes};
use kit::random::Random;
use order::View;

use super::approvals::{NODE_A, NODE_B, detail, node_keys};
use super::signed::{ADA, EVE, OK, ROOT, Said, founded, outcome, said, schema, submit};
use super::{Client, Node, block_on, code};

const BOTH: [u8; 2] = [NODE_A, NODE_B];

const POLICY: &str = "SET APPROVAL POLICY 'AND(bank_a, bank_b)'";

/// Of the paper's appendix A.
const BALANCES: &str = "CREATE TABLE balances (name text PRIMARY KEY, amount int NOT NULL, \
     CHECK (amount >= 0))";

const TRANSFER: &str = "CREATE PROCEDURE transfer(n int) LANGUAGE plpgsql AS $$ \
     DECLARE a int; b int; BEGIN \
     SELECT amount INTO a FROM balances WHERE name = 'BalA'; \
     SELECT amount INTO b FROM balances WHERE name = 'BalB'; \
     UPDATE balances SET amount = a - n WHERE name = 'BalA'; \
     UPDATE balances SET amount = b + n WHERE name = 'BalB'; END $$";

const INITIAL: &str = "INSERT INTO balances VALUES ('BalA', 100), ('BalB', 50)";

fn statement(text: impl Into<String>) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

/// Of the superuser, whose session hands it in. Lower numbers were used to found the banks.
fn own(sequence: u64, body: Body) -> Said {
    Said { seeds: vec![], ..said("tally", 0, 1000 + sequence, body) }
}

/// What the node has come to.
async fn proposed(client: &mut Client, said: &Said) -> Result<Said> {
    let parameters = [Value::Bytes(said.bytes().into())];
    let rows = client.run_typed("SELECT tally_propose($1)", &[], &parameters).await?;
    let Value::Bytes(bytes) = &rows[0][0] else { panic!("{rows:?}") };
    let view = View::read(bytes)?;
    let body = Body::from_request(view.request)?;
    Ok(Said { seen_height: view.seen_height, body, ..said.clone() })
}

async fn approve(client: &mut Client, said: &Said) -> Result<()> {
    let parameters = [Value::Bytes(said.bytes().into())];
    client.run_typed("SELECT tally_approve($1)", &[], &parameters).await.map(drop)
}

fn endorsed(said: &Said) -> &Endorsed {
    let Body::Endorsed(endorsed) = &said.body else { panic!("{:?}", said.body) };
    endorsed
}

/// The same with something else in it.
fn changed(said: &Said, change: impl FnOnce(&mut Endorsed)) -> Said {
    let mut endorsed = endorsed(said).clone();
    change(&mut endorsed);
    Said { body: Body::Endorsed(Box::new(endorsed)), ..said.clone() }
}

fn text(value: &str) -> Value {
    Value::from(value)
}

fn balance(of: &str, amount: i64) -> RowChange {
    RowChange::Update { key: vec![text(of)], columns: vec![(1, Value::Int(amount))] }
}

fn changes(said: &Said) -> Vec<RowChange> {
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

async fn with(texts: &[&str]) -> (Node, Client) {
    let node = banks().await;
    let mut client = node.session();
    for text in texts {
        client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    (node, client)
}

async fn refused(client: &mut Client, said: &Said) -> Error {
    submit(client, &said.bytes()).await.unwrap_err()
}

async fn shown(client: &mut Client, query: &str) -> String {
    let rows = client.run(query).await.unwrap();
    let cells = |row: &super::Row| row.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    rows.iter().map(cells).collect::<Vec<_>>().join(" ")
}

const AMOUNTS: &str = "SELECT name, amount FROM balances ORDER BY name";

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
        node.database.commons.approval_check.set("look".to_owned()).unwrap();
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
        assert_eq!((why.code().as_str(), detail(&why)), ("42T02", expected), "stale");
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
