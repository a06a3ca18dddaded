//! Whether a measurement is of what its name says.
//!
//! A protocol whose block is not worth its own way takes another one ([`ExecutionPath`]), which
//! leads to the same state. A figure of that is none of the protocol's.

use concurrency::ExecutionPath;

use crate::Measurement;
use crate::table::percent;

/// Of the executions, those that must have taken a protocol's own way to count as measured.
const SHARE_MIN: f64 = 0.5;

/// A protocol, the ways that are its own, and what it is called.
const OWN: &[(&str, &[ExecutionPath], &str)] = &[
    ("quecc", &[ExecutionPath::Cut, ExecutionPath::SnapshotReader], "QueCC"),
    ("calvin", &[ExecutionPath::Locked], "Calvin"),
    ("bohm", &[ExecutionPath::Versioned], "BOHM"),
    ("conflict_graph", &[ExecutionPath::Staged], "the graph of conflicts"),
];

/// A choice that has ways of its own, and what those lack that did not take them.
const CHOSEN: &[(&str, ExecutionPath, &str)] = &[
    (
        "inter_block=on",
        ExecutionPath::Overlapped,
        "blocks one after another, not blocks that overlap",
    ),
    (
        "planning=pipelined",
        ExecutionPath::Overlapped,
        "blocks one after another, not blocks that overlap",
    ),
    ("early_abort=on", ExecutionPath::EarlyAbortOffered, "no early abort"),
];

/// Something else than its name says was measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misnamed {
    pub protocol: String,
    /// `this measured Calvin, not QueCC: tail 100 %, locked 100 %`
    pub why: String,
}

/// The protocol's name, without its options.
pub fn base(protocol: &str) -> &str {
    protocol.split(':').next().unwrap_or_default()
}

/// `None`: most executions took the way that the protocol is named for, or it has only one.
pub fn misnamed(measurement: &Measurement) -> Option<Misnamed> {
    let named = |why| Misnamed { protocol: measurement.protocol.clone(), why };
    if measurement.executions == 0 {
        return None;
    }
    let share =
        |ways: &[ExecutionPath]| ways.iter().map(|way| measurement.share_of(*way)).sum::<f64>();
    let mut chosen = measurement.protocol.split(':').skip(1);
    let lacks = chosen.find_map(|choice| {
        let (_, way, what) = CHOSEN.iter().find(|(name, ..)| *name == choice)?;
        (share(&[*way]) < SHARE_MIN).then_some(*what)
    });
    if let Some(what) = lacks {
        return Some(named(format!("this measured {what}")));
    }
    let (_, ways, name) = OWN.iter().find(|(name, ..)| *name == base(&measurement.protocol))?;
    if share(ways) >= SHARE_MIN {
        return None;
    }
    let what = instead(measurement);
    Some(named(format!("this measured {what}, not {name}: {}", words(measurement))))
}

/// What most executions were in truth.
fn instead(measurement: &Measurement) -> &'static str {
    let share = |way: &ExecutionPath| measurement.share_of(*way);
    let serial: f64 = ExecutionPath::ALL.iter().filter(|way| way.is_serial()).map(share).sum();
    let whole = share(&ExecutionPath::Whole);
    match share(&ExecutionPath::Locked) {
        locked if locked >= serial.max(whole) => "Calvin",
        _ if whole >= serial => "transactions in one piece",
        _ => "one transaction after another",
    }
}

/// All ways that were taken, with their shares of the executions.
pub fn words(measurement: &Measurement) -> String {
    let word = |(way, _): (&&str, &u64)| {
        let share = ExecutionPath::ALL.iter().find(|known| known.name() == *way);
        let share = share.map_or(0.0, |way| measurement.share_of(*way));
        format!("{way} {} %", percent(share, 0))
    };
    measurement.ways.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The way that most executions took, for a table.
pub(crate) fn most(measurement: &Measurement) -> String {
    let most = measurement.ways.iter().max_by_key(|(_, count)| **count);
    most.map_or_else(String::new, |(way, count)| {
        let share = *count as f64 / measurement.executions.max(1) as f64;
        format!("{way} {}", percent(share, 0))
    })
}
