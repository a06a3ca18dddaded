//! Statements beside PostgreSQL: `lockstep/*.sql` have what PostgreSQL 15 answers after each.
//!
//! A line is a statement, or `-- ` and what it answers: a row, or an error's SQLSTATE and message.
//! `scripts/with-postgres cargo test -p node --test it lockstep -- --ignored` asks PostgreSQL for
//! them; with UPDATE_GOLDEN=1 it writes its answers.

use std::fs;
use std::path::{Path, PathBuf};

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::Node;

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lockstep");
    let mut scripts: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    scripts
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn answers(client: &Client, statement: &str) -> Vec<String> {
    match client.simple_query(statement).await {
        Ok(messages) => {
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let fields = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL"));
                    Some(fields.collect::<Vec<_>>().join("|"))
                }
                _ => None,
            });
            rows.collect()
        }
        Err(error) => match error.as_db_error() {
            Some(error) => vec![format!("ERROR {}: {}", error.code().code(), error.message())],
            None => vec![format!("ERROR {error}")],
        },
    }
}

/// The script with what it is answered now.
async fn replayed(client: &Client, script: &str) -> String {
    let mut lines = Vec::new();
    for line in script.lines() {
        if line.is_empty() || line.starts_with("-- #") {
            lines.push(line.to_owned());
        } else if !line.starts_with("--") {
            lines.push(line.to_owned());
            let reported = answers(client, line).await;
            lines.extend(reported.into_iter().map(|answer| format!("-- {answer}")));
        }
    }
    lines.join("\n") + "\n"
}

fn compare(path: &Path, expected: &str, actual: &str) -> Vec<String> {
    let mut statement = "";
    let mut differing = Vec::new();
    let lines = expected.lines().zip(actual.lines());
    for (line, other) in lines {
        if !line.starts_with("--") {
            statement = line;
        }
        if line != other {
            differing.push(format!("{}: {statement}\n  {line}\n  {other}", path.display()));
            break;
        }
    }
    let [expected, actual] = [expected, actual].map(|text| text.lines().count());
    if differing.is_empty() && expected != actual {
        differing.push(format!("{}: {expected} lines, and not {actual}", path.display()));
    }
    differing
}

#[tokio::test]
async fn statements_answer_as_postgresql_does() {
    let mut differing = Vec::new();
    for path in scripts() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(folder.path());
        let port = node.ready["listen"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let client = connect(&format!("postgresql://tally@127.0.0.1:{port}/tally")).await;
        let expected = fs::read_to_string(&path).unwrap();
        let actual = replayed(&client, &expected).await;
        if let Ok(folder) = std::env::var("LOCKSTEP_TO") {
            fs::write(Path::new(&folder).join(path.file_name().unwrap()), &actual).unwrap();
        }
        differing.extend(compare(&path, &expected, &actual));
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[tokio::test]
#[ignore = "asks a PostgreSQL 15: scripts/with-postgres"]
async fn the_answers_are_postgresqls() {
    let url = std::env::var("TALLY_POSTGRES").expect("scripts/with-postgres runs this");
    let (server, _) = url.rsplit_once('/').unwrap();
    let mut differing = Vec::new();
    for (number, path) in scripts().into_iter().enumerate() {
        let name = if number == 0 { "tally".to_owned() } else { format!("tally{number}") };
        let (client, database) = (connect(&url).await, format!("CREATE DATABASE {name}"));
        client.simple_query(&database).await.unwrap();
        let client = connect(&format!("{server}/{name}")).await;
        let expected = fs::read_to_string(&path).unwrap();
        let actual = replayed(&client, &expected).await.replace(&name, "tally");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &actual).unwrap();
        }
        differing.extend(compare(&path, &expected, &actual));
        // Roles are all databases'.
        let roles = "SELECT 'DROP OWNED BY ' || rolname || ' CASCADE; DROP ROLE ' || rolname \
                     FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'tally'";
        for drop in answers(&client, roles).await {
            client.simple_query(&drop).await.unwrap();
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
