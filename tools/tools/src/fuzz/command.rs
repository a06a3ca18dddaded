//! `tally fuzz`: three fuzzers against a node: SQL text, functions of large values, wire messages.
//!
//! All the while another session asks for nothing much. The report says how long that took at
//! most, how much of it the machine would have taken from any process, and how much larger the node
//! became. It fails where an answer was XX000 or did not come, where the node made the other
//! session wait for more than `--late-ms-max`, or where it grew beyond the sessions' memory and a
//! block's.

use std::time::Duration;

use anyhow::{Context, Result};
use node::cli::{Exit, Output};

use super::session::{Kind, Wire};
use super::{Plan, Report};
use crate::arguments;
use crate::node_process::NodeProcess;

const SESSION_BYTES_MAX: u64 = 500_000_000;

/// A quarter more, and values that a transaction makes in a block.
const GROWN_BYTES_MAX: i64 = (SESSION_BYTES_MAX as i64) / 4 * 5 + 4 * (64 << 20);

pub fn run(arguments: &arguments::Fuzz, output: Output) -> Result<Exit> {
    let folder = tempfile::Builder::new().prefix("tally-fuzz-").tempdir()?;
    let node = match arguments.address {
        Some(_) => None,
        None => {
            let memory = format!("session_memory_bytes_max={SESSION_BYTES_MAX}");
            Some(NodeProcess::start_with(folder.path(), &[&memory])?)
        }
    };
    let address = match (&arguments.address, &node) {
        (None, Some(node)) => node.target.address(),
        (given, _) => given.clone().unwrap_or_default(),
    };
    Wire::connect(&address).with_context(|| format!("no node answers at {address}"))?;
    let kinds = arguments.only.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
    let time = Duration::from_secs(arguments.seconds) / kinds.len() as u32;
    let late_max = arguments.late_ms_max.map(Duration::from_millis);
    let mut exit = Exit::Ok;
    for kind in kinds {
        let plan = Plan {
            address: address.clone(),
            process: node.as_ref().map(NodeProcess::id),
            kind,
            seed: arguments.seed,
            time,
            turns_max: u64::MAX,
        };
        let report = super::run(&plan);
        match output {
            Output::Text => println!("{report}"),
            Output::Json => println!("{}", report.json()),
        }
        if fails(&report, late_max, node.is_some()) {
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

/// How much a node may grow is known of one that was started here.
fn fails(report: &Report, late_max: Option<Duration>, is_own: bool) -> bool {
    late_max.is_some_and(|most| report.late_max() > most)
        || !report.faults.is_empty()
        || is_own && report.grown_bytes > GROWN_BYTES_MAX
}
