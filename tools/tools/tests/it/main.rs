//! The commands of `tally-tools`, as `tally` runs them.

mod benchmarks;
mod disasters;
mod fuzz;
#[allow(dead_code)]
#[path = "../../../../node/tests/it/promises.rs"]
mod promises;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// `tally` is another package's program, which cargo builds for that one's tests.
fn run(arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_tally-tools")).with_file_name(node::PROGRAM);
    assert!(program.is_file(), "{} is missing: cargo build --package node", program.display());
    Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
