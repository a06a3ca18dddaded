//! Three fuzzers against a node: SQL text, functions of large values, wire messages.
//!
//! ```text
//! cargo build --package node --bin tally
//! cargo run --package node --example fuzz -- --seconds 600 --seed 7
//! ```
//!
//! Without `--address` it starts the node that lies beside it, on a folder that it removes.
//! `--only text`, `values` or `wire` runs one of them; else each gets a third of the time. All the
//! while another session asks for nothing much. The report says how long that took at most, how
//! much of it the machine would have taken from any process, and how much larger the node became.
//! It fails where an answer was XX000 or did not come, where the node made the other session wait
//! for more than `--late-ms-max`, or where it grew beyond the sessions' memory and a block's.

mod fuzz;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use fuzz::{Kind, Plan, run};

const SESSION_BYTES_MAX: u64 = 500_000_000;

/// A quarter more, and values that a transaction makes in a block.
const GROWN_BYTES_MAX: i64 = (SESSION_BYTES_MAX as i64) / 4 * 5 + 4 * (64 << 20);

/// A node of our own, which ends with us.
struct Node {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Node {
    fn start() -> (Node, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let here = std::env::current_exe().expect("a path");
        let tally = here.ancestors().nth(2).expect("a build folder").join("tally");
        let memory = format!("session_memory_bytes_max={SESSION_BYTES_MAX}");
        let data = folder.path().join("data");
        let mut child = Command::new(&tally)
            .args(["--output", "json", "serve", "--listen", "127.0.0.1:0", "--set", &memory])
            .args(["--http-listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", tally.display()));
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a node");
        let ready: serde_json::Value = serde_json::from_str(&line).expect("a node that is ready");
        let address = ready["listen"].as_str().expect("its address").to_owned();
        (Node { child, _folder: folder }, address)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn main() -> ExitCode {
    let mut given = None;
    let (mut seed, mut seconds, mut late_ms_max) = (1, 60, u64::MAX);
    let mut kinds = Kind::ALL.to_vec();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = || value.parse().unwrap_or_else(|_| panic!("{name} takes a number"));
        match name.as_str() {
            "--address" => given = Some(value),
            "--seed" => seed = number(),
            "--seconds" => seconds = number(),
            "--late-ms-max" => late_ms_max = number(),
            "--only" => kinds.retain(|kind| kind.name() == value),
            _ => panic!("unknown: {name}"),
        }
    }
    assert!(!kinds.is_empty(), "--only takes text, values or wire");
    let (node, address) = match given {
        Some(address) => (None, address),
        None => {
            let (node, address) = Node::start();
            (Some(node), address)
        }
    };
    let each = Duration::from_secs(seconds) / kinds.len() as u32;
    let mut failed = false;
    for kind in kinds {
        let plan = Plan {
            address: address.clone(),
            process: node.as_ref().map(|node| node.child.id()),
            kind,
            seed,
            time: each,
            turns_max: u64::MAX,
        };
        let report = run(&plan);
        println!("{report}");
        failed |= report.late_max() > Duration::from_millis(late_ms_max);
        failed |= !report.faults.is_empty();
        failed |= node.is_some() && report.grown_bytes > GROWN_BYTES_MAX;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
