//! A short run of each fuzzer.

use std::time::Duration;

use tools::fuzz::{Kind, Plan, run};
use tools::node_process::NodeProcess;

use super::promises::Promise;

const SESSION_BYTES_MAX: i64 = 300_000_000;

/// With what an allocator keeps of it for the threads that have freed it.
const SESSIONS_GROWN_MAX: i64 = SESSION_BYTES_MAX / 4 * 7;

/// Values that a transaction makes in a block, which are no session's.
const BLOCK_BYTES_MAX: i64 = 4 * (64 << 20);

/// What the node itself makes another session wait, as `make fuzz` asks.
const LATE: Promise =
    Promise::new("the node keeps another session waiting", Duration::from_millis(50)).times(15.0);

#[test]
fn no_statement_and_no_message_holds_up_another_session_or_takes_all_memory() {
    let folder = tempfile::tempdir().unwrap();
    let setting = format!("session_memory_bytes_max={SESSION_BYTES_MAX}");
    let node = NodeProcess::start_with(folder.path(), &[&setting]).unwrap();
    let address = node.target.address();
    let process = Some(node.id());
    for kind in Kind::ALL {
        let (time, turns_max) = (Duration::from_secs(20), 60);
        let plan = Plan { address: address.clone(), process, kind, seed: 7, time, turns_max };
        let report = run(&plan);
        println!("{report}");
        assert!(report.faults.is_empty(), "{report}");
        assert!(report.turns > 10 && report.errors > 0 && report.asked > 10, "{report}");
        LATE.hold(report.late_max());
        assert!(report.grown_bytes < SESSIONS_GROWN_MAX + BLOCK_BYTES_MAX, "{report}");
    }
    node.stop().unwrap();
}
