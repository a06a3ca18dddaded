//! SQL from text to rows, against a database of `BTreeMap`s.
//!
//! `golden/*.sql` are scripts with their results: each statement is followed by what it gives, in
//! comments. `UPDATE_GOLDEN=1 cargo test -p sql` writes them anew; read the diff before you keep
//! it.

mod checkpoints;
mod database;
mod effects;
mod pgbench;
mod plans;
#[path = "../../../node/tests/it/promises.rs"]
mod promises;
mod sessions;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use database::Database;

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
        .collect();
    scripts.sort();
    scripts
}

/// The script with the results that it gives now.
fn replayed(script: &str) -> String {
    let mut database = Database::default();
    let mut out = String::new();
    let mut statement = String::new();
    for line in script.lines() {
        if line.starts_with("--") && statement.is_empty() {
            // Results of the statement before, or a heading.
            if line.starts_with("-- #") {
                writeln!(out, "{line}").unwrap();
            }
            continue;
        }
        if line.trim().is_empty() && statement.is_empty() {
            writeln!(out).unwrap();
            continue;
        }
        writeln!(statement, "{line}").unwrap();
        if line.ends_with(';') {
            out.push_str(&statement);
            for result in database.describe(&statement) {
                writeln!(out, "-- {result}").unwrap();
            }
            statement.clear();
        }
    }
    out
}

#[test]
fn golden_scripts() {
    let mut differing = Vec::new();
    for path in scripts() {
        let expected = std::fs::read_to_string(&path).unwrap();
        let actual = replayed(&expected);
        if actual == expected {
            continue;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, actual).unwrap();
            continue;
        }
        let lines = expected.lines().zip(actual.lines()).enumerate();
        let first = lines.into_iter().find(|(_, (e, a))| e != a);
        differing.push(format!("{}: {first:?}", path.display()));
    }
    assert!(differing.is_empty(), "{differing:#?}");
}
