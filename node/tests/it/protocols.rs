//! Every protocol on a live ledger: chosen by SQL, under contention, killed and recovered.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use concurrency::{Isolation, OptionValues, ProtocolInfo};
use rustix::process::Signal;
use tokio_postgres::Client;

use super::{Node, path, run};

const CLIENTS: i64 = 6;
const ROUNDS: i64 = 15;

/// Increments of one row; returns how often the client was told to try again.
async fn increment(client: Client) -> u64 {
    let mut retries = 0;
    for _ in 0..ROUNDS {
        while let Err(error) = client.batch_execute("UPDATE hot SET n = n + 1 WHERE id = 1").await {
            let code = error.code().map(|code| code.code().to_owned());
            assert_eq!(code.as_deref(), Some("40001"), "{error}");
            retries += 1;
        }
    }
    retries
}

/// A protocol that puts transactions off retries them itself: of that clients hear nothing.
fn tells_clients(info: &ProtocolInfo) -> bool {
    info.may_retry && info.name != "aria"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_chosen_on_a_live_ledger_contended_killed_and_recovered() {
    multiversion::register();
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path());
    let client = node.connect().await;
    client
        .batch_execute(
            "CREATE TABLE hot (id int PRIMARY KEY, n int); INSERT INTO hot VALUES (1, 0)",
        )
        .await
        .unwrap();
    drop(client);
    for (done, info) in (1..).zip(::protocols::infos()) {
        let protocol = info.name;
        let admin = node.connect().await;
        admin.batch_execute(&format!("SET ledger.protocol = '{protocol}'")).await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..CLIENTS {
            tasks.push(tokio::spawn(increment(node.connect().await)));
        }
        for task in tasks {
            let retries = task.await.unwrap();
            assert!(retries == 0 || tells_clients(info), "{protocol}: {retries} retries");
        }
        node.signal(Signal::KILL);
        node = Node::start(folder.path());
        let client = node.connect().await;
        let row = client.query_one("SELECT n FROM hot WHERE id = 1", &[]).await.unwrap();
        assert_eq!(i64::from(row.get::<_, i32>(0)), CLIENTS * ROUNDS * done, "{protocol}");
        let row = client.query_one("SHOW ledger.protocol", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), protocol);
    }
    node.signal(Signal::TERM);
    assert_eq!(run(&["verify", path(folder.path())]).status.code(), Some(0));
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/protocols.md");

const INTRODUCTION: &str = "\
# Protocols of concurrency control

<!-- Made by node's test protocols::the_page_lists_each_with_its_choices. -->

Which protocols are there, and what does each leave open? A ledger runs under one, which `SET ledger.protocol = 'name'` changes from
the next block on, on every replica; choices stand behind the name: `SET ledger.protocol = 'harmony:reordering=off'`. What the families
are, and how fast each is, is in [transactions.md](transactions.md#protocols); the studies of multi-version ones in
[multi-version.md](multi-version.md).

*Recorded as* says what a block is: its transactions, which every replica executes alike, or those in the order that they took,
which every replica runs one by one. *Clients hear of conflicts*: calls and single statements may be told 40001; interactive
transactions may under every protocol.
";

fn listed(page: &mut String, info: &ProtocolInfo) {
    let recorded = match info.deterministic {
        true => "the block as it was ordered",
        false => "the order that transactions took",
    };
    let isolation = match info.isolation {
        Isolation::Serializable => "serializable",
        Isolation::Snapshot => "snapshot isolation",
    };
    let told = if info.may_retry { "yes" } else { "no" };
    let ProtocolInfo { name, paper, .. } = info;
    write!(
        page,
        "\n## `{name}`\n\n{paper}.\n\nIsolation: {isolation}. Recorded as: {recorded}. Clients hear \
         of conflicts: {told}.\n"
    )
    .unwrap();
    if !info.options.is_empty() {
        page.push_str("\n| choice | values, the default first | |\n|---|---|---|\n");
    }
    for option in info.options {
        let values = match option.values {
            OptionValues::OneOf(values) => {
                values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
            }
            OptionValues::Integer { min, max, default } => {
                format!("{default}; {min} to {max}")
            }
        };
        writeln!(page, "| `{}` | {values} | {} |", option.name, option.what).unwrap();
    }
}

#[test]
fn the_page_lists_each_with_its_choices() {
    multiversion::register();
    let mut page = INTRODUCTION.to_owned();
    let mut names = BTreeSet::new();
    for info in ::protocols::infos().filter(|info| names.insert(info.name)) {
        listed(&mut page, info);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(PAGE, page).unwrap();
    }
    assert_eq!(fs::read_to_string(PAGE).unwrap(), page, "UPDATE_GOLDEN=1 writes it anew");
}
