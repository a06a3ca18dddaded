//! Figures over PostgreSQL and MariaDB servers that are chained, as small as can be: each is
//! measured, none is refused.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

fn figure(name: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally-tools"));
    // On a disk, which a folder for what is temporary need not be.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    command.args(["--output", "json", "bench", "figure", name, "--smoke", "--folder"]).arg(folder);
    let done = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{name}: {text}{errors}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn measured(name: &str, claims: usize) -> Vec<Value> {
    let all = figure(name);
    let refused: Vec<&Value> = all.iter().filter(|it| !it["not_measured"].is_null()).collect();
    assert!(refused.is_empty(), "{name}: {refused:?}");
    let found: Vec<Value> = all.iter().filter(|it| !it["claim"].is_null()).cloned().collect();
    assert_eq!(found.len(), claims, "{name}: {all:?}");
    let judged = |claim: &Value| claim["claim"]["verdict"] != "not_measured";
    assert!(found.iter().all(judged), "{name}: {found:?}");
    all
}

#[test]
fn clients_beside_fabric_and_beside_databases_alone() {
    measured("chainify-4.11a", 3);
    measured("chainify-4.11b", 2);
}

#[test]
fn skew_and_external_concurrency_control() {
    measured("chainify-table-4.2", 1);
    measured("chainify-external", 2);
}

/// The row is named and recovered, and the others go on, whatever the time that it takes.
#[test]
fn edited_rows_and_killed_organisations() {
    for name in ["chainify-4.12a", "chainify-4.12b"] {
        let all = measured(name, 3);
        let said = all.iter().find(|it| it["title"] == "Said").unwrap().to_string();
        // A transaction of the same block may have changed it too.
        let ways = ["was changed by user tally", "was also changed by user tally"];
        let is_named = |how: &&str| said.contains(&format!("checking (id = 100) {how}"));
        assert!(ways.iter().any(is_named), "{said}");
    }
}

#[test]
fn parts_and_sizes_and_costs() {
    measured("chainify-4.13", 6);
    measured("chainify-4.14", 1);
    measured("chainify-costs", 2);
}

#[test]
fn recovery_by_checkpoints() {
    measured("chainify-recovery", 3);
}
