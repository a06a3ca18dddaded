//! Databases: ledgers beside a node's own, by CREATE DATABASE and the DSN's dbname.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::{Node, json, path, run};

type Outcome<T> = Result<T, tokio_postgres::Error>;

async fn enter(node: &Node, user: &str, database: &str) -> Outcome<Client> {
    let address = node.ready["listen"].as_str().unwrap();
    let url = format!("postgresql://{user}@{address}/{database}");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn open(node: &Node, database: &str) -> Client {
    enter(node, "tally", database).await.unwrap()
}

fn code<T>(outcome: Outcome<T>) -> String {
    match outcome {
        Ok(_) => "00000".to_owned(),
        Err(error) => error.code().map_or(format!("{error}"), |code| code.code().to_owned()),
    }
}

/// First columns, as text.
async fn list(client: &Client, query: &str) -> Vec<String> {
    let rows = client.simple_query(query).await.unwrap();
    let first = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    first.collect()
}

fn folders(above: &Path) -> Vec<PathBuf> {
    let Ok(all) = std::fs::read_dir(above) else { return Vec::new() };
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn verdict(data: &Path) -> String {
    let verified = run(&["--output", "json", "verify", path(data)]);
    json(&verified)["verdict"]["kind"].as_str().unwrap_or_default().to_owned()
}

const MADE: &str = "SELECT datname FROM pg_database WHERE oid > 16000 ORDER BY 1";

#[tokio::test]
async fn a_database_is_a_ledger_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let node = Node::start(&data);
    let own = open(&node, "postgres").await;
    own.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    own.batch_execute("CREATE ROLE staff; CREATE USER ada IN ROLE staff; CREATE USER eve CREATEDB")
        .await
        .unwrap();
    own.batch_execute("CREATE DATABASE shop OWNER ada").await.unwrap();
    let eve = enter(&node, "eve", "tally").await.unwrap();
    eve.batch_execute("CREATE DATABASE \"Eve's own\" PROTOCOL calvin").await.unwrap();
    assert_eq!(list(&own, MADE).await, ["Eve's own", "shop"]);

    let recorded = "SELECT ledger_id || ' ' || genesis || ' ' || owner || ' ' || since_block
                    FROM tally_databases WHERE database = 'shop'";
    let recorded = list(&own, recorded).await.remove(0);
    let [id, genesis, owner, height] = recorded.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{recorded}")
    };
    assert!(data.join("databases").join(id).is_dir(), "{recorded}");
    assert_eq!((genesis.len(), owner), (64, "ada"));
    assert!(height.parse::<u64>().unwrap() > 0);
    let shop = open(&node, "shop").await;
    assert_eq!(list(&shop, "SELECT current_database()").await, ["shop"]);
    assert_eq!(list(&shop, MADE).await, ["Eve's own", "shop"]);
    let owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'shop'";
    assert_eq!([list(&own, owner).await, list(&shop, owner).await], [["ada"], ["ada"]]);
    // Nothing of the other ledger but its roles.
    assert_eq!(code(shop.batch_execute("SELECT * FROM t").await), "42P01");
    let ada = enter(&node, "ada", "shop").await.unwrap();
    ada.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (2)")
        .await
        .unwrap();
    assert_eq!(list(&shop, "SELECT pg_has_role('ada', 'staff', 'MEMBER')").await, ["t"]);
    let eves = enter(&node, "eve", "Eve's%20own").await.unwrap();
    eves.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (3)")
        .await
        .unwrap();
    assert_eq!(list(&eves, "SHOW ledger.protocol").await, ["calvin"]);
    for (client, held) in [(&own, "1"), (&shop, "2"), (&eves, "3")] {
        assert_eq!(list(client, "SELECT a FROM t").await, [held]);
    }
    // A role that is made in one is none of another.
    shop.batch_execute("CREATE USER bob").await.unwrap();
    assert!(enter(&node, "bob", "shop").await.is_ok());
    assert_eq!(code(enter(&node, "bob", "tally").await), "28000");
    drop((own, shop, ada, eves, eve));

    // A backup of one, while it runs.
    let (to, port) = (folder.path().join("backup"), node.ready["http_listen"].as_str().unwrap());
    let of_node = ["--data", path(&data), "--http-listen", port];
    let backup = |database| {
        let to = ["backup", "--to", path(&to), "--database", database];
        run(&[&to[..], &of_node].concat())
    };
    let taken = backup("shop");
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(verdict(&to), "sound");
    let refused = String::from_utf8(backup("other").stderr).unwrap();
    assert!(refused.contains("no database \"other\"") && refused.contains("Eve's own, shop"));

    let mut node = node;
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let verified = run(&["--output", "json", "verify", path(&data), "--database", "Eve's own"]);
    assert_eq!(json(&verified)["verdict"]["kind"], "sound");
    for one in folders(&data.join("databases")) {
        assert_eq!(verdict(&one), "sound", "{}", one.display());
    }
    assert_eq!(verdict(&data), "sound");
    let node = Node::start(&data);
    for (database, held) in [("tally", "1"), ("shop", "2"), ("Eve's%20own", "3")] {
        assert_eq!(list(&open(&node, database).await, "SELECT a FROM t").await, [held]);
    }
}

#[tokio::test]
async fn of_several_that_make_a_database_of_one_name_one_does_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let node = Node::start(&data);
    let own = open(&node, "postgres").await;
    let mut made = 0;
    for _ in 0..4 {
        let attempt = async || {
            let client = open(&node, "postgres").await;
            code(client.batch_execute("CREATE DATABASE one").await)
        };
        let codes = tokio::join!(attempt(), attempt(), attempt(), attempt());
        let codes = [codes.0, codes.1, codes.2, codes.3];
        made += codes.iter().filter(|code| *code == "00000").count();
        let refused = codes.iter().filter(|code| *code != "00000");
        assert!(refused.into_iter().all(|code| code == "42P04"), "{codes:?}");
        own.batch_execute("DROP DATABASE one WITH (FORCE)").await.unwrap();
        let left = folders(&data.join("databases"));
        let left = left.iter().filter(|folder| path(folder).contains("making-"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    }
    assert_eq!(made, 4);
}

#[tokio::test]
async fn a_dropped_database_is_moved_aside_whole() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let node = Node::start(&data);
    let own = open(&node, "postgres").await;
    for _ in 0..2 {
        own.batch_execute("CREATE DATABASE shop").await.unwrap();
        let shop = open(&node, "shop").await;
        shop.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        let refused = own.batch_execute("ALTER DATABASE shop RENAME TO store").await;
        assert_eq!(code(refused), "55006");
        drop(shop);
        // Who leaves is waited for.
        own.batch_execute("ALTER DATABASE shop RENAME TO store").await.unwrap();
        let store = open(&node, "store").await;
        assert_eq!(list(&store, "SELECT count(*) FROM t").await, ["0"]);
        let refused = own.batch_execute("DROP DATABASE store").await.unwrap_err();
        let reported = refused.as_db_error().unwrap();
        assert_eq!(reported.code().code(), "55006", "{reported:?}");
        assert_eq!(reported.detail(), Some("There is 1 other session using the database."));
        own.batch_execute("DROP DATABASE store WITH (FORCE)").await.unwrap();
        assert!(store.batch_execute("SELECT 1").await.is_err(), "its session has ended");
        assert_eq!(code(enter(&node, "tally", "store").await), "3D000");
    }
    assert!(folders(&data.join("databases")).is_empty());
    let dropped = folders(&data.join("dropped"));
    assert_eq!(dropped.len(), 2, "{dropped:?}");
    for one in &dropped {
        assert!(one.file_name().unwrap().to_str().unwrap().starts_with("store-"));
        assert_eq!(verdict(one), "sound");
    }
    // It can be served by itself.
    let again = Node::start(&dropped[0]);
    assert_eq!(list(&open(&again, "tally").await, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_as_postgresql_does() {
    let folder = tempfile::tempdir().unwrap();
    let command = super::tally(&[]);
    let data = folder.path().join("data");
    let node = Node::start_with(command, &data, &["--set", "databases_max=2"]);
    let own = open(&node, "tally").await;
    own.batch_execute("CREATE USER ada; CREATE USER eve CREATEDB; CREATE ROLE staff")
        .await
        .unwrap();
    own.batch_execute("CREATE DATABASE shop").await.unwrap();
    let [ada, eve] = ["ada", "eve"].map(|user| enter(&node, user, "postgres"));
    let (ada, eve, shop) = (ada.await.unwrap(), eve.await.unwrap(), open(&node, "shop").await);
    for (client, text, expected) in [
        (&own, "CREATE DATABASE shop", "42P04"),
        (&own, "CREATE DATABASE postgres", "42P04"),
        (&own, "CREATE DATABASE template0", "42P04"),
        (&own, "CREATE DATABASE a TEMPLATE shop", "0A000"),
        (&own, "CREATE DATABASE a TEMPLATE nothing", "3D000"),
        (&own, "CREATE DATABASE a OWNER nobody", "42704"),
        (&own, "CREATE DATABASE a PROTOCOL nothing", "22023"),
        (&own, "CREATE DATABASE a ENCODING 'LATIN1'", "0A000"),
        (&own, "CREATE DATABASE \"\"", "42601"),
        (&own, &format!("CREATE DATABASE {}", "a".repeat(64)), "42622"),
        (&own, "CREATE DATABASE \"a\tb\"", "42602"),
        (&own, "DROP DATABASE nothing", "3D000"),
        (&own, "DROP DATABASE IF EXISTS nothing", "00000"),
        (&own, "DROP DATABASE tally", "55006"),
        (&own, "DROP DATABASE IF EXISTS postgres", "55006"),
        (&own, "ALTER DATABASE tally RENAME TO a", "55006"),
        (&own, "ALTER DATABASE nothing RENAME TO a", "3D000"),
        (&own, "ALTER DATABASE shop RENAME TO postgres", "42P04"),
        (&own, "ALTER DATABASE nothing OWNER TO ada", "3D000"),
        (&own, "GRANT CONNECT ON DATABASE shop TO ada", "0A000"),
        (&own, "GRANT CONNECT ON DATABASE nothing TO ada", "3D000"),
        (&own, "BEGIN; CREATE DATABASE a", "25001"),
        (&own, "ROLLBACK; SELECT 1; DROP DATABASE shop", "25001"),
        (&ada, "CREATE DATABASE a", "42501"),
        (&ada, "DROP DATABASE shop", "42501"),
        (&ada, "ALTER DATABASE shop RENAME TO a", "42501"),
        (&eve, "DROP DATABASE shop", "42501"),
        (&eve, "CREATE DATABASE a OWNER staff", "42501"),
        (&shop, "CREATE DATABASE a", "0A000"),
        (&shop, "DROP DATABASE shop", "0A000"),
        // Within it, its own name is known.
        (&shop, "GRANT CREATE ON DATABASE shop TO ada", "00000"),
        (&shop, "COMMENT ON DATABASE shop IS 'of goods'", "00000"),
        (&shop, "ALTER DATABASE shop OWNER TO ada", "00000"),
        (&shop, "GRANT CREATE ON DATABASE other TO ada", "3D000"),
        (&own, "SELECT has_database_privilege('nothing', 'CONNECT')", "3D000"),
        (&own, "ALTER DATABASE shop OWNER TO eve", "00000"),
        (&own, "DROP ROLE eve", "2BP01"),
        (&eve, "CREATE DATABASE mine", "00000"),
        (&own, "CREATE DATABASE third", "53400"),
        (&eve, "DROP DATABASE mine", "00000"),
        (&own, "CREATE DATABASE third", "00000"),
    ] {
        let outcome = client.batch_execute(text).await;
        assert_eq!(code(outcome), expected, "{text}");
    }
    let may = |user: &str| format!("SELECT has_database_privilege('{user}', 'shop', 'CREATE')");
    for (client, user, expected) in
        [(&own, "eve", "t"), (&own, "ada", "f"), (&shop, "eve", "f"), (&shop, "ada", "t")]
    {
        assert_eq!(list(client, &may(user)).await, [expected], "{user}");
    }
    let comment = "SELECT description FROM pg_shdescription JOIN pg_database d ON d.oid = objoid \
                   WHERE datname = current_database()";
    assert_eq!(list(&shop, comment).await, ["of goods"]);
    let page = node.fetch("/metrics");
    assert!(page.contains("tally_database_sessions{database=\"shop\"} 1"), "{page}");
    assert!(page.contains("tally_database_transactions_total{database=\"shop\",outcome="));
    assert_eq!(code(enter(&node, "tally", "nothing").await), "3D000");
    assert_eq!(list(&own, MADE).await, ["shop", "third"]);
    let left = folders(&data.join("databases"));
    assert_eq!(left.len(), 2, "what was refused has left nothing: {left:?}");
}

/// Wherever a node is killed, its next start has each database that was answered for with what is
/// in it, none that was dropped, and no half of one.
#[tokio::test]
async fn a_killed_node_has_each_database_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut made: Vec<String> = Vec::new();
    let mut dropped = 0;
    for round in 0..12u64 {
        let (command, log) = (super::tally(&[]), folder.path().join("log"));
        let many = ["--set", "databases_max=1000"];
        let mut node =
            Node::start_logging(command, &data, &many, std::fs::File::create(&log).unwrap());
        let own = open(&node, "postgres").await;
        let found = list(&own, MADE).await;
        for name in &made {
            assert!(found.contains(name), "round {round}: {name} is lost of {found:?}");
        }
        // What was under way may have come to its end, with or without its table.
        for name in &found {
            let client = enter(&node, "tally", name).await.unwrap_or_else(|error| {
                let log = std::fs::read_to_string(&log).unwrap();
                panic!("round {round}: {name}: {error}\n{log}")
            });
            let tables = "SELECT relname FROM pg_class WHERE relname = 't'";
            match list(&client, tables).await.is_empty() {
                true => assert!(!made.contains(name), "round {round}: {name} is empty"),
                false => assert_eq!(list(&client, "SELECT a FROM t").await, [name.clone()]),
            }
        }
        let registered = folders(&data.join("databases"));
        assert_eq!(registered.len(), found.len(), "round {round}: {registered:?}");
        assert!(folders(&data.join("dropped")).len() >= dropped, "round {round}");
        made.drain(..made.len().saturating_sub(3));
        for name in found.iter().filter(|name| !made.contains(name)) {
            own.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
        }
        dropped = folders(&data.join("dropped")).len();

        let (reported, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let address = node.ready["listen"].as_str().unwrap().to_owned();
        let worker = tokio::spawn(async move {
            for number in 0.. {
                let name = format!("d{round}_{number}");
                let changed = work(&address, &name, &reported).await;
                if changed.is_err() {
                    break;
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(150 + 97 * round)).await;
        node.signal(Signal::KILL);
        worker.await.unwrap();
        while let Ok((name, is_there)) = heard.try_recv() {
            match is_there {
                Some(true) => made.push(name),
                Some(false) => dropped += 1,
                None => made.retain(|known| *known != name),
            }
        }
    }
    assert!(dropped > 0, "the rounds came to something");
}

/// Makes a database with a table; drops each other one. What is told holds from then on.
async fn work(
    address: &str,
    name: &str,
    reported: &tokio::sync::mpsc::UnboundedSender<(String, Option<bool>)>,
) -> Outcome<()> {
    let enter = async |database: &str| {
        let url = format!("postgresql://tally@{address}/{database}");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok::<_, tokio_postgres::Error>(client)
    };
    let own = enter("postgres").await?;
    own.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    let client = enter(name).await?;
    let text = format!("CREATE TABLE t (a text PRIMARY KEY); INSERT INTO t VALUES ('{name}')");
    client.batch_execute(&text).await?;
    reported.send((name.to_owned(), Some(true))).unwrap();
    drop(client);
    // From here on it may be there or not.
    reported.send((name.to_owned(), None)).unwrap();
    if !name.ends_with(['0', '2', '4', '6', '8']) {
        reported.send((name.to_owned(), Some(true))).unwrap();
        return Ok(());
    }
    own.batch_execute(&format!("DROP DATABASE {name}")).await?;
    reported.send((name.to_owned(), Some(false))).unwrap();
    Ok(())
}

/// Members order one ledger. What is recorded nevertheless makes nothing.
#[tokio::test]
async fn a_cluster_makes_no_databases() {
    let cluster = super::clusters::TestCluster::start(1);
    let client = cluster.connect(0).await;
    for text in ["CREATE DATABASE shop", "DROP DATABASE shop", "ALTER DATABASE shop RENAME TO b"] {
        let refused = client.batch_execute(text).await.unwrap_err();
        let reported = refused.as_db_error().unwrap();
        assert_eq!(reported.code().code(), "0A000", "{reported:?}");
        assert!(reported.message().ends_with("in a cluster is not supported"), "{reported:?}");
        assert!(reported.hint().unwrap().contains("cluster of its own"), "{reported:?}");
    }
    assert!(folders(&cluster.data(0).join("databases")).is_empty());
}
