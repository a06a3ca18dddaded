//! `tally chainify` with processes and databases as they are: two PostgreSQL and one MariaDB, an
//! administrator, SIGKILL.

#[path = "../../../network/chainify/tests/it/servers.rs"]
mod servers;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use chainify::Database;
use chainify::dialect::Dialect;
use serde_json::{Value, json};

use servers::{mariadb, postgres, traces};

fn tables(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric(12,2) NOT NULL \
             CHECK (balance >= 0)); INSERT INTO accounts SELECT id, 100 FROM \
             generate_series(1, 50) id"
        }
        Dialect::MariaDb => {
            "CREATE TABLE accounts (id bigint PRIMARY KEY, balance decimal(12,2) NOT NULL \
             CHECK (balance >= 0)); INSERT INTO accounts SELECT seq, 100 FROM seq_1_to_50"
        }
    }
}

fn tally(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.args(arguments).output().unwrap()
}

fn succeeded(arguments: &[&str]) -> String {
    let output = tally(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}{error}");
    text
}

/// One process of an organisation, killed when this is dropped.
struct Served(Child);

impl Served {
    fn start(folder: &Path) -> Served {
        Served::start_with(folder, &[])
    }

    fn start_with(folder: &Path, more: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args(["chainify", "run", "--folder"]).arg(folder).args(more);
        Served(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three ports in a row.
fn ports() -> u16 {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let Some(last) = first.checked_add(2) else { continue };
        if (first..=last).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
    panic!("no three ports in a row are free")
}

fn page(folder: &str) -> Value {
    let output = tally(&["--output", "json", "chainify", "status", "--folder", folder]);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn status(folder: &str) -> Vec<Value> {
    page(folder)["organisations"].as_array().unwrap().clone()
}

async fn all_traces(urls: &[String]) -> Vec<Vec<Vec<Option<String>>>> {
    let mut all = Vec::new();
    for url in urls {
        all.push(traces(&mut Database::connect(url).await.unwrap()).await);
    }
    all
}

/// Until all have agreed on a block, and all of this holds of the page.
fn wait_for(folder: &str, what: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let page = status(folder);
        if holds(&page) {
            return page;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {page:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn all_have(page: &[Value], block: u64) -> bool {
    page.iter().all(|it| it["agreed"].as_u64().is_some_and(|agreed| agreed >= block))
}

/// A file of payments, few under way at once; on a database that is chained it would be an edit, and
/// is refused.
fn fed(folder: &str, url: &str, agreed: u64) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let pay = |id: u64| {
        json!([
            format!("UPDATE accounts SET balance = balance - 1 WHERE id = {id}"),
            format!("UPDATE accounts SET balance = balance + 1 WHERE id = {}", id + 1),
        ])
    };
    let lines: Vec<String> = (20..40).map(|id| pay(id).to_string()).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.path().to_str().unwrap();
    let feed = ["chainify", "feed", "--folder", folder, "--under-way", "9", "--file", file];
    let text = succeeded(&feed);
    assert!(text.starts_with("20 transactions succeeded, 0 failed, 0 were refused"), "{text}");
    let text = succeeded(&[&["--output", "json"], &feed[..]].concat());
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((last["succeeded"].as_u64(), last["failed"].as_u64()), (Some(20), Some(0)));
    assert!(last["decided"].as_u64().unwrap() > agreed + 4, "{last}");
    assert!(last["transactions"][1].as_u64() >= last["stages"][1].as_u64(), "{last}");
    assert!(last["signatures_us"][0].as_u64().unwrap() > 0, "{last}");
    let alone = failed(&["chainify", "alone", "--database", url, "--file", file]);
    assert!(alone.contains("is chained") && alone.contains("--chained"), "{alone}");
    std::fs::write(file, "UPDATE accounts SET balance = 0").unwrap();
    let refused = failed(&feed);
    assert!(refused.contains("line 1 of") && refused.contains("is no list"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_organisations_keep_one_ledger_with_the_databases_that_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("chained");
    let mut urls = Vec::new();
    for server in [postgres(), postgres(), mariadb()] {
        urls.push(server.database(tables(server.dialect())).await);
    }
    let before = all_traces(&urls).await;
    let (listen, shown) = (format!("127.0.0.1:{}", ports()), folder.display().to_string());
    let mut arguments = vec!["chainify", "init", "--folder", &shown, "--tables", "accounts"];
    arguments.extend(["--listen", &listen, "--checkpoint-blocks", "3"]);
    urls.iter().for_each(|url| arguments.extend(["--database", url]));
    succeeded(&arguments);
    let folders: Vec<_> = (1..=3).map(|id| folder.join(id.to_string())).collect();
    let mut served: Vec<Served> = folders.iter().map(|folder| Served::start(folder)).collect();
    let of = |id: usize| folders[id - 1].to_str().unwrap();
    wait_for(of(1), "all are there", |page| all_have(page, 0));
    let pay = |id: usize, amount: &str| {
        let from = format!("UPDATE accounts SET balance = balance - {amount} WHERE id = 1");
        let to = format!("UPDATE accounts SET balance = balance + {amount} WHERE id = 2");
        tally(&["chainify", "submit", "--folder", of(id), &from, &to])
    };
    for id in 1..=3 {
        let paid = pay(id, "1.50");
        assert!(paid.status.success(), "{paid:?}");
    }
    let too_much = pay(2, "1000");
    assert!(String::from_utf8_lossy(&too_much.stdout).contains("failed in block"), "{too_much:?}");
    let clock =
        tally(&["chainify", "submit", "--folder", of(2), "DELETE FROM accounts WHERE now() > 0"]);
    assert!(String::from_utf8_lossy(&clock.stderr).contains("function now()"), "{clock:?}");

    // An administrator of the second one: the next block names the row, and it is repaired.
    let mut admin = Database::connect(&urls[1]).await.unwrap();
    admin.run("UPDATE accounts SET balance = 5000 WHERE id = 17").await.unwrap();
    assert!(pay(1, "1").status.success());
    let named = |page: &[Value]| {
        let events = page[1]["events"].to_string();
        events.contains("accounts (id = 17) was changed by user tally")
            && events.contains("recovered block")
    };
    let found = wait_for(of(1), "the row is named and repaired", named);
    let deviation = &found[1]["deviations"][0];
    let rows = [format!("accounts (id = 17) was changed by user {}", postgres().user())];
    assert_eq!(deviation["rows"], serde_json::json!(rows), "{deviation}");
    assert_eq!(
        (deviation["block"].as_u64(), &found[1]["deviates"]),
        (Some(5), &Value::from(false))
    );
    assert_eq!(deviation["agree"], serde_json::json!([1, 3]), "{deviation}");
    assert!(deviation["recovered"].as_str().unwrap().starts_with("recovered block 5"));
    let page = page(of(3));
    assert_eq!(page["enough"], 2, "{page}");
    let votes = page["votes"].as_array().unwrap();
    let of_five = |vote: &&Value| vote["block"] == 5 && vote["stage"] == "result";
    let values: Vec<&Value> = votes.iter().filter(of_five).map(|it| &it["value"]).collect();
    assert_eq!(values.len(), 3, "{page}");
    assert!(values[0] == values[2] && values[0] != values[1], "{page}");
    assert_eq!((values[0], values[1]), (&deviation["agreed_result"], &deviation["own_result"]));
    let rows = admin.rows("SELECT balance FROM accounts WHERE id = 17").await.unwrap();
    assert_eq!(rows, [[Some("100.00".to_owned())]]);

    // SIGKILL of the third one, while payments go on.
    served.pop();
    for _ in 0..4 {
        assert!(pay(1, "1").status.success());
    }
    served.push(Served::start(&folders[2]));
    let agreed = status(of(1))[0]["agreed"].as_u64().unwrap();
    wait_for(of(1), "it comes back", |page| all_have(page, agreed));
    assert!(pay(3, "1").status.success());
    fed(of(3), &urls[2], agreed);
    drop(served);
    let mut heads = Vec::new();
    for id in 1..=3 {
        let page = succeeded(&["--output", "json", "chainify", "verify", "--folder", of(id)]);
        let page: Value = serde_json::from_str(&page).unwrap();
        assert!(page["certified"].as_u64().unwrap() > 5, "{page}");
        heads.push((page["agreed"].as_u64().unwrap(), page["head"].clone()));
    }
    // One that was stopped a moment before the others may lack the last block.
    let (newest, _) = heads.iter().max_by_key(|head| head.0).unwrap();
    let last: Vec<_> = heads.iter().filter(|head| head.0 == *newest).collect();
    assert!(last.len() > 1 && last.iter().all(|head| head.1 == last[0].1), "{heads:?}");
    for url in &urls {
        succeeded(&["chainify", "uninstall", "--database", url]);
    }
    assert_eq!(all_traces(&urls).await, before);
    let gone = failed(&["chainify", "run", "--folder", of(2)]);
    assert!(gone.contains("is not chained to this ledger"), "{gone}");
}

fn failed(arguments: &[&str]) -> String {
    let output = tally(arguments);
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What cannot be begun is named, and leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_beginning_that_fails_leaves_no_trace() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("chained");
    let shown = folder.display().to_string();
    let mut urls = Vec::new();
    for server in [postgres(), mariadb(), postgres()] {
        urls.push(server.database(tables(server.dialect())).await);
    }
    let before = all_traces(&urls).await;
    let listen = format!("127.0.0.1:{}", ports());
    let init = |tables: &str, urls: &[&str], more: &[&str]| {
        let mut arguments = vec!["chainify", "init", "--folder", &shown, "--tables", tables];
        arguments.extend(["--listen", &listen]);
        urls.iter().for_each(|url| arguments.extend(["--database", url]));
        arguments.extend(more);
        failed(&arguments)
    };
    let [one, two, three] = [0, 1, 2].map(|at: usize| &*urls[at]);
    let nowhere = "postgresql://tally@127.0.0.1:1/none";
    for (error, what) in [
        (init("accounts", &[one], &[]), "nothing to agree with"),
        (init("accounts", &[one, two], &["--votes", "1"]), "not enough or too many"),
        (init("accounts", &[one, two, nowhere], &[]), "cannot connect to"),
        (init("others", &[one, two], &[]), "table \"others\" does not exist"),
        (init("accounts", &[one, "sqlite:x"], &[]), "a database is named by a URL"),
    ] {
        assert!(error.contains(what), "{error}");
    }
    // The last one of three has other rows, when the first two are chained already.
    let mut third = Database::connect(three).await.unwrap();
    third.run("UPDATE accounts SET balance = 7 WHERE id = 7").await.unwrap();
    let error = init("accounts", &[one, two, three], &[]);
    assert!(error.contains("are not those of the ledger"), "{error}");
    assert_eq!(all_traces(&urls).await, before);
    assert!(!folder.exists());
    let none = failed(&["chainify", "run", "--folder", &shown]);
    assert!(none.contains("is no folder of a chained database"), "{none}");
    let none = failed(&["chainify", "status", "--folder", parent.path().to_str().unwrap()]);
    assert!(none.contains("is no folder of a chained database"), "{none}");

    third.run("UPDATE accounts SET balance = 100 WHERE id = 7").await.unwrap();
    let mut arguments = vec!["chainify", "init", "--folder", &shown, "--tables", "accounts"];
    arguments.extend(["--listen", &listen, "--database", one, "--database", two]);
    succeeded(&arguments);
    let first = folder.join("1").display().to_string();
    let away = failed(&["chainify", "submit", "--folder", &first, "DELETE FROM accounts"]);
    assert!(away.contains("organisation 1 is not running"), "{away}");
    let output = tally(&["chainify", "status", "--folder", &first]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("organisation 2  does not answer"), "{text}");
    arguments[3] = "elsewhere";
    let twice = failed(&arguments);
    assert!(twice.contains("is chained already"), "{twice}");
    assert!(Database::connect(one).await.unwrap().ledger().await.unwrap().is_some(), "it stays");
}

/// Two organisations, one of which does not like an account: it says so before the order, and
/// nothing of it is in a block.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_agreed_to_before_it_is_ordered() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("chained");
    let mut urls = Vec::new();
    for disliked in ["nothing", "id = 13"] {
        let url = postgres().database(tables(Dialect::Postgres)).await;
        let mut database = Database::connect(&url).await.unwrap();
        let function = format!(
            "CREATE FUNCTION agrees(statements text) RETURNS boolean LANGUAGE sql AS \
             $$ SELECT statements NOT LIKE '%{disliked}%' $$"
        );
        database.run(&function).await.unwrap();
        urls.push(url);
    }
    let (listen, shown) = (format!("127.0.0.1:{}", ports()), folder.display().to_string());
    let mut init = vec!["chainify", "init", "--folder", &shown, "--tables", "accounts"];
    init.extend(["--listen", &listen, "--database", &urls[0], "--database", &urls[1], "--agree"]);
    let wrong = failed(&[&init[..], &["ghost=all"]].concat());
    assert!(wrong.contains("table ghost, which has a policy, is not chained"), "{wrong}");
    succeeded(&[&init[..], &["accounts=all"]].concat());
    let folders: Vec<_> = (1..=2).map(|id| folder.join(id.to_string())).collect();
    let of = |id: usize| folders[id - 1].to_str().unwrap();
    let first = Served::start_with(&folders[0], &["--check", "agrees"]);
    let mut second = Served::start_with(&folders[1], &["--check", "agrees"]);
    wait_for(of(1), "all are there", |page| all_have(page, 0));
    assert_eq!(page(of(1))["agreement"], "accounts=all");
    let submit = |id: usize, account: u64| {
        let statement = format!("UPDATE accounts SET balance = 7 WHERE id = {account}");
        tally(&["chainify", "submit", "--folder", of(id), &statement])
    };
    for id in 1..=2 {
        let agreed = submit(id, 12);
        assert!(agreed.status.success(), "{agreed:?}");
        let denied = submit(id, 13);
        let why = String::from_utf8_lossy(&denied.stderr).into_owned();
        assert!(why.contains("organisation 2: agrees does not agree"), "{why}");
    }
    // One without a function agrees to what its own clients ask for.
    drop(second);
    second = Served::start(&folders[1]);
    wait_for(of(1), "it is back", |page| all_have(page, 2));
    let denied = submit(1, 14);
    let why = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(why.contains("organisation 2: it has no function that could agree"), "{why}");
    assert!(submit(2, 14).status.success());
    drop((first, second));
    let verified = succeeded(&["--output", "json", "chainify", "verify", "--folder", of(2)]);
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!((&verified["transactions"], &verified["failed"]), (&json!(3), &json!(0)));
}
