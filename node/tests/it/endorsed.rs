//! Two organisations of one node each endorse what they come to, over their cluster's network.

use std::collections::BTreeMap;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::clusters::TestCluster;
use super::organisations::printed;
use super::{Node, path};

const BALANCES: &str = "CREATE TABLE balances (name text PRIMARY KEY, amount int NOT NULL, CHECK (amount >= 0)); \
     INSERT INTO balances VALUES ('BalA', 100), ('BalB', 50)";

const TRANSFER: &str = "CREATE PROCEDURE transfer(n int) LANGUAGE plpgsql AS $$ BEGIN \
     UPDATE balances SET amount = amount - n WHERE name = 'BalA'; \
     UPDATE balances SET amount = amount + n WHERE name = 'BalB'; END $$";

/// Not thirteen, whatever is asked for.
const LOOK: &str = "CREATE FUNCTION look(who text, kind text, what text, given text[]) RETURNS boolean \
     LANGUAGE plpgsql AS $$ BEGIN RETURN kind <> 'call' OR given[1] <> '13'; END $$";

async fn shown(client: &Client, query: &str) -> String {
    let messages = client.simple_query(query).await.unwrap();
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let cells: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("-")).collect();
            Some(cells.join(","))
        }
        _ => None,
    });
    rows.collect::<Vec<_>>().join(" ")
}

/// The demonstration checks what it shows, and ends with 1 where that is not so.
#[test]
fn the_demonstration_of_organisations_holds() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/demo-organisations");
    let mut demo = std::process::Command::new(script);
    demo.env("TALLY", env!("CARGO_BIN_EXE_tally")).env("CLIENTS", "6").env("TRANSACTIONS", "5");
    let shown = demo.output().unwrap();
    let [out, errors] = [shown.stdout, shown.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(shown.status.success(), "{out}\n{errors}");
    assert_eq!(out.matches("sound: every hash").count(), 3, "{out}");
}

/// Code, message and detail.
async fn refused(client: &Client, text: &str) -> [String; 3] {
    let error = client.simple_query(text).await.unwrap_err();
    let error = error.as_db_error().unwrap_or_else(|| panic!("{text}: {error}"));
    let detail = error.detail().unwrap_or_default().to_owned();
    [error.code().code().to_owned(), error.message().to_owned(), detail]
}

const AMOUNTS: &str = "SELECT name, amount FROM balances ORDER BY name";

/// Six clients on two nodes, five transfers each: how many were valid.
async fn transfers_at_once(cluster: &TestCluster) -> i32 {
    let clients = futures::future::join_all((0..6).map(|at| cluster.connect(at % 2))).await;
    let ends = clients.iter().map(async |client| {
        client.simple_query("SET tally.endorse = on").await.unwrap();
        let mut done = 0;
        for _ in 0..5 {
            match client.simple_query("CALL transfer(1)").await {
                Ok(_) => done += 1,
                Err(error) => assert_eq!(error.code().unwrap().code(), "40001", "{error:?}"),
            }
        }
        done
    });
    futures::future::join_all(ends).await.into_iter().sum()
}

/// Two banks with a node each, whose balances and whose check function both have to agree on.
async fn banks() -> TestCluster {
    let start = |data: &std::path::Path| {
        Node::start_with(super::tally(&[]), data, &["--set", "approval_check=look"])
    };
    let cluster = TestCluster::start_by(2, &[], start);
    let keys = tempfile::tempdir().unwrap();
    let first = cluster.connect(0).await;
    for text in [BALANCES, TRANSFER, LOOK] {
        run(&first, text).await;
    }
    let ledger = shown(&first, "SHOW ledger.id").await;
    for (node, bank) in ["bank_a", "bank_b"].into_iter().enumerate() {
        let root = keys.path().join(bank);
        let public = printed(&["identity", "new", path(&root)]);
        run(&first, &format!("CREATE ORGANISATION {bank} KEY '{public}'")).await;
        let own = printed(&["identity", "node", "--data", path(&cluster.data(node))]);
        let add = format!("ALTER ORGANISATION {bank} ADD KEY '{own}' FOR NODE one");
        let by = ["sign", "--key", path(&root), "--user", "tally", "--ledger", &ledger];
        let signed = printed(&[&by[..], &["schema", &add]].concat());
        run(&first, &format!("SELECT * FROM tally_submit_signed('{signed}')")).await;
    }
    run(&first, "ALTER FUNCTION look SET APPROVAL POLICY 'AND(bank_a, bank_b)'").await;
    run(&first, "ALTER TABLE balances SET APPROVAL POLICY 'AND(bank_a, bank_b)'").await;
    cluster
}

async fn newest_block(client: &Client) -> u64 {
    let query = "SELECT block FROM tally_last_commit()";
    shown(client, query).await.parse().unwrap()
}

/// Approvals in later blocks, by key: of those that one signature is of many transactions.
async fn approvals_of_many(client: &Client, after: u64) -> BTreeMap<[u8; 32], usize> {
    let mut found = BTreeMap::new();
    for block in after + 1..after + 200 {
        for index in 0.. {
            let query = format!("SELECT tally_receipt({block}, {index})");
            let Ok(messages) = client.simple_query(&query).await else { break };
            let proof = messages.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            let proof = ledger::proof::Proof::read_file(proof.unwrap().as_bytes()).unwrap();
            let ledger::proof::Body::Receipt(receipt) = proof.body else { panic!("no receipt") };
            for approval in order::View::read(&receipt.envelope).unwrap().approvals {
                *found.entry(approval.key_id).or_default() +=
                    usize::from(approval.bytes.len() > 64);
            }
        }
    }
    found
}

async fn run(client: &Client, text: &str) {
    client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_banks_endorse_over_their_clusters_network() {
    let mut cluster = banks().await;
    let (first, second) = (cluster.connect(0).await, cluster.connect(1).await);
    let run = async |text: &str| run(&first, text).await;

    let [code, _, detail] = refused(&first, "CALL transfer(30)").await;
    assert_eq!((&*code, detail.contains("bank_a and bank_b are missing")), ("42T01", true));
    run("SET tally.endorse = on").await;
    run("CALL transfer(30)").await;
    assert_eq!(shown(&first, AMOUNTS).await, "BalA,70 BalB,80");
    // By a prepared statement, with what it answers.
    let update = "UPDATE balances SET amount = amount + $1 WHERE name = $2 RETURNING amount";
    let rows = first.query(update, &[&5_i32, &"BalB"]).await.unwrap();
    assert_eq!(rows[0].get::<_, i32>(0), 85);
    let [code, _, detail] = refused(&first, "CALL transfer(13)").await;
    assert_eq!(code, "42T01");
    for said in ["Of this node: function look does not approve", "Of member 2: function look"] {
        assert!(detail.contains(said), "{detail}");
    }
    let [code, message, _] = refused(&first, "CALL transfer(71)").await;
    assert_eq!((&*code, message.contains("balances_amount_check")), ("23514", true), "{message}");
    // The other bank's clients ask their own node.
    second.simple_query("SET tally.endorse = on").await.unwrap();
    second.simple_query("CALL transfer(20)").await.unwrap();
    assert_eq!(shown(&second, AMOUNTS).await, "BalA,50 BalB,105");

    // Many at once on the same two rows: each is valid or stale, and none is lost or done twice,
    // whichever protocol validates them.
    run("UPDATE balances SET amount = amount + 1000 WHERE name = 'BalA'").await;
    let (mut a, mut b) = (1050, 105);
    for protocol in ["fabric", "fabric:lock=state", "fabric_pp", "harmony"] {
        run(&format!("SET ledger.protocol = '{protocol}'")).await;
        let done = transfers_at_once(&cluster).await;
        assert!(done > 0, "{protocol}: one of those that meet is valid");
        (a, b) = (a - done, b + done);
        cluster.settle();
        let expected = format!("BalA,{a} BalB,{b}");
        assert_eq!(shown(&first, AMOUNTS).await, expected, "{protocol}: {done} of 30");
    }

    // More than a member does at a time, which wait for each other; each on a row of its own.
    let many = futures::future::join_all((0..30).map(|_| cluster.connect(0))).await;
    let each = many.iter().enumerate().map(async |(at, client)| {
        client.simple_query("SET tally.endorse = on").await.unwrap();
        for text in [
            format!("INSERT INTO balances VALUES ('{at}', 1)"),
            format!("UPDATE balances SET amount = amount + 1 WHERE name = '{at}'"),
        ] {
            client.simple_query(&text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
    });
    let before = newest_block(&first).await;
    futures::future::join_all(each).await;
    assert_eq!(shown(&first, "SELECT count(*) FROM balances WHERE amount = 2").await, "30");
    // Some of them were signed together, by either bank.
    let together = approvals_of_many(&first, before).await;
    assert!(together.values().all(|count| *count > 0) && together.len() == 2, "{together:?}");
    cluster.stop();
    let heads = cluster.verify();
    assert_eq!(heads[0], heads[1]);
}

/// Four clients on two nodes, four transactions each that look at what they change: how many were
/// valid.
async fn moves_at_once(cluster: &TestCluster) -> i32 {
    let clients = futures::future::join_all((0..4).map(|at| cluster.connect(at % 2))).await;
    let ends = clients.iter().map(async |client| {
        let mut done = 0;
        for _ in 0..4 {
            run(client, "BEGIN").await;
            let amount = "SELECT amount FROM balances WHERE name = 'BalA'";
            let amount: i32 = shown(client, amount).await.parse().unwrap();
            let put = format!("UPDATE balances SET amount = {} WHERE name = 'BalA'", amount - 1);
            run(client, &put).await;
            run(client, "UPDATE balances SET amount = amount + 1 WHERE name = 'BalB'").await;
            match client.simple_query("COMMIT").await {
                Ok(_) => done += 1,
                Err(error) => assert_eq!(error.code().unwrap().code(), "40001", "{error:?}"),
            }
        }
        done
    });
    futures::future::join_all(ends).await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_several_statements_is_endorsed_as_one() {
    let mut cluster = banks().await;
    let (first, mut second) = (cluster.connect(0).await, cluster.connect(1).await);
    // Where a policy asks for approvals nothing else has to be said.
    for text in [
        "BEGIN",
        "UPDATE balances SET amount = amount - 30 WHERE name = 'BalA'",
        "SAVEPOINT s",
        "DELETE FROM balances",
    ] {
        run(&first, text).await;
    }
    assert_eq!(shown(&first, AMOUNTS).await, "");
    run(&first, "ROLLBACK TO s").await;
    run(&first, "UPDATE balances SET amount = amount + 30 WHERE name = 'BalB'").await;
    assert_eq!(shown(&first, AMOUNTS).await, "BalA,70 BalB,80");
    assert_eq!(shown(&second, AMOUNTS).await, "BalA,100 BalB,50", "not yet");
    run(&first, "COMMIT").await;
    assert_eq!(shown(&first, AMOUNTS).await, "BalA,70 BalB,80");
    cluster.settle();

    // A driver's own transaction, with parameters, at the other bank's node.
    run(&second, "SET tally.endorse = on").await;
    let transaction = second.transaction().await.unwrap();
    let update = "UPDATE balances SET amount = amount + $1 WHERE name = $2 RETURNING amount";
    let rows = transaction.query(update, &[&5_i32, &"BalB"]).await.unwrap();
    assert_eq!(rows[0].get::<_, i32>(0), 85);
    transaction.execute("INSERT INTO balances VALUES ($1, $2)", &[&"BalC", &1_i32]).await.unwrap();
    transaction.execute("CALL transfer(1)", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    cluster.settle();
    assert_eq!(shown(&first, AMOUNTS).await, "BalA,69 BalB,86 BalC,1");

    // What is wrong is told by COMMIT: a check of either node that one of several does not pass,
    run(&first, "BEGIN").await;
    run(&first, "UPDATE balances SET amount = 7 WHERE name = 'BalC'").await;
    run(&first, "CALL transfer(13)").await;
    let [code, _, detail] = refused(&first, "COMMIT").await;
    assert_eq!(code, "42T01");
    for said in ["Of this node: function look does not approve", "Of member 2: function look"] {
        assert!(detail.contains(said), "{detail}");
    }
    // and what was shown and is no more.
    run(&first, "BEGIN").await;
    assert_eq!(shown(&first, "SELECT amount FROM balances WHERE name = 'BalA'").await, "69");
    run(&second, "CALL transfer(9)").await;
    cluster.settle();
    run(&first, "UPDATE balances SET amount = 69 WHERE name = 'BalC'").await;
    let [code, ..] = refused(&first, "COMMIT").await;
    assert_eq!(code, "40001");
    cluster.settle();
    assert_eq!(shown(&first, AMOUNTS).await, "BalA,60 BalB,95 BalC,1", "nothing of either is left");

    // Many at once, whichever protocol validates them: none is lost or done twice.
    run(&second, "UPDATE balances SET amount = 1000 WHERE name = 'BalA'").await;
    cluster.settle();
    let (mut a, mut b) = (1000, 95);
    for protocol in ["fabric", "fabric:lock=state", "fabric_pp", "harmony"] {
        run(&first, &format!("SET ledger.protocol = '{protocol}'")).await;
        let done = moves_at_once(&cluster).await;
        assert!(done > 0, "{protocol}: one of those that meet is valid");
        (a, b) = (a - done, b + done);
        cluster.settle();
        let expected = format!("BalA,{a} BalB,{b} BalC,1");
        assert_eq!(shown(&first, AMOUNTS).await, expected, "{protocol}: {done} of 16");
    }
    cluster.stop();
    let heads = cluster.verify();
    assert_eq!(heads[0], heads[1]);
}
