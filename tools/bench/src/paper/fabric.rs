//! Fabric++ (Sharma's thesis, chapter 3): how many transactions of a block survive validation if
//! the block is reordered first.
//!
//! Fabric validates a block in the order of arrival and aborts each transaction whose reads are
//! stale by then; Fabric++ first reorders the block to minimise these aborts. In the figures
//! *arrival* is the protocol `fabric` and *reordered* is `fabric_pp`.
//!
//! * *Micro-benchmarks* (figures 3.6 and 3.7): one block of transactions whose reads and blind
//!   writes the thesis specifies. Here each is a single call. The number of valid transactions
//!   follows from the input alone, so it has to equal the thesis's formula exactly.
//! * *Custom workload* (figure 3.11): how many more transactions are valid with reordering. The
//!   thesis's numbers come from another machine, so only ratios are compared.

use anyhow::Result;
use procedure::Procedure;
use procedure::build::Tables;
use types::Value;
use workloads::settings::{Reader, Setting, setting};
use workloads::{Call, Entry, Fill, ycsb};

use super::{Figure, Findings, Grid, Lab, near, times};
use crate::table::{percent, thousands};
use crate::{Measurement, Plan, Workload};

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "fabric-conflicts",
        about: "valid transactions of 1,024 when writers come ever later: arrival and reordered",
        source: "Sharma, figure 3.6",
        protocols: &["fabric", "fabric_pp"],
        find: conflicts,
    },
    Figure {
        name: "fabric-cycles",
        about: "valid transactions of 1,024 in cycles of growing length: arrival and reordered",
        source: "Sharma, figure 3.7",
        protocols: &["fabric", "fabric_pp"],
        find: cycles,
    },
    Figure {
        name: "fabric-custom",
        about: "Fabric++ beside Fabric where it gains most: RW=8, HR=40, HW=10, HSS=1",
        source: "Sharma, figure 3.11",
        protocols: &["fabric", "fabric_pp"],
        find: custom,
    },
];

const N: u64 = 1_024;

/// One transaction: the keys that it reads, and those that it writes without reading.
type Accesses = (Vec<u64>, Vec<u64>);

/// Half of the transactions write, the others read the same keys; `sequence` - 1 of the readers
/// have been moved from the end to the front.
static INTERLEAVED: Entry = Entry {
    name: "interleaved",
    about: "half of the transactions write, the others read the same keys",
    settings: INTERLEAVED_SETTINGS,
    read: |reader| {
        let n: u64 = reader.number("n", 2..=1_000_000)?;
        let moved = reader.number("sequence", 1..=n / 2 + 1)? - 1;
        let mut block: Vec<Accesses> = (0..n / 2).map(|key| (vec![], vec![key])).collect();
        block.extend((0..n / 2).map(|key| (vec![key], vec![])));
        block.rotate_right(moved as usize);
        Ok(Box::new(OneBlock { keys: n / 2, block }))
    },
};

const INTERLEAVED_SETTINGS: &[Setting] = &[
    setting("n", "1024", "transactions"),
    setting("sequence", "1", "readers in front of the writers, and one"),
];

/// Cycles of a length t: r(0) w(0), r(0) w(1), r(1) w(2), … r(t-2) w(0).
static CYCLES: Entry = Entry {
    name: "cycles",
    about: "cycles of transactions, each of which reads what the one before it writes",
    settings: CYCLES_SETTINGS,
    read: |reader| Ok(Box::new(cycles_of(reader)?)),
};

const CYCLES_SETTINGS: &[Setting] =
    &[setting("n", "1024", "transactions"), setting("length", "2", "transactions of a cycle")];

fn cycles_of(reader: &Reader<'_>) -> types::Result<OneBlock> {
    let n: u64 = reader.number("n", 2..=1_000_000)?;
    let length: u64 = reader.number("length", 2..=n)?;
    let mut block = Vec::new();
    for first in (0..n / length).map(|cycle| cycle * length) {
        for at in 0..length {
            let read = first + at.saturating_sub(1);
            let written = if at + 1 == length { first } else { first + at };
            block.push((vec![read], vec![written]));
        }
    }
    Ok(OneBlock { keys: n, block })
}

/// Calls that are given one by one, over YCSB's table and procedure.
struct OneBlock {
    keys: u64,
    block: Vec<Accesses>,
}

fn keys(numbers: &[u64]) -> Value {
    Value::array(numbers.iter().map(|&n| Value::Int(n as i64)).collect::<Vec<_>>())
}

impl workloads::Workload for OneBlock {
    fn schema(&self) -> String {
        ycsb::schema(1)
    }

    fn procedures(&self) -> Vec<&'static str> {
        vec!["ycsb"]
    }

    fn programs(&self, tables: &Tables) -> types::Result<Vec<Procedure>> {
        Ok(ycsb::built(tables, 1)?.into_iter().take(1).collect())
    }

    fn fills(&self) -> Vec<Fill> {
        let row = |key: u64| [Value::Int(key as i64 - 1), Value::text("old")].into();
        vec![Fill::rows("usertable", self.keys, row)]
    }

    fn calls(&self, _seed: u64) -> Box<dyn Iterator<Item = Call> + Send> {
        let calls = self.block.iter().map(|(reads, writes)| Call {
            procedure: 0,
            arguments: [keys(reads), keys(writes), Value::text("new")].into(),
        });
        Box::new(calls.collect::<Vec<_>>().into_iter())
    }
}

fn committed(measurement: &Measurement) -> String {
    measurement.committed.to_string()
}

/// One block for each of the workloads, and the numbers that the thesis has for it.
fn exact(
    lab: &mut Lab<'_>,
    workloads: Vec<Workload>,
    place: fn(&Measurement) -> String,
    head: &str,
    expected: fn(u64, u64) -> [u64; 2],
) -> Result<Findings> {
    let plan = Plan {
        workloads,
        transactions: N as usize,
        block_transactions: vec![N as usize],
        ..lab.counts(N as usize)
    };
    let grid = Grid { cells: lab.measure(&Plan { transactions: N as usize, ..plan })?, place };
    let mut findings = Findings::default();
    let mut table = grid.table(head, committed);
    for (row, of) in [("thesis: arrival", 0), ("thesis: reordered", 1)] {
        let numbers = grid.places().into_iter().map(|place| {
            place.parse().map_or_else(|_| "-".to_owned(), |x| expected(N, x)[of].to_string())
        });
        let numbers: Vec<String> = numbers.collect();
        table.rows.push(std::iter::once(row.to_owned()).chain(numbers).collect());
    }
    findings.tables.push((format!("Valid transactions of {N}"), table));
    for (protocol, of, formula) in [("fabric", 0, "arrival"), ("fabric_pp", 1, "reordered")] {
        let row: Vec<&Measurement> = grid.row(protocol).collect();
        if row.is_empty() {
            continue;
        }
        let equal = row
            .iter()
            .filter(|m| place(m).parse().is_ok_and(|x| expected(N, x)[of] == m.committed));
        let equal = equal.count();
        let ours = format!("{equal} of {} equal", row.len());
        let claim = format!("{formula}: exactly so many are valid");
        findings.claim(&claim, "all equal", ours, equal == row.len());
    }
    if let Some(slowest) = grid.row("fabric_pp").map(|m| m.latency_us_p99).max() {
        let ours = format!("at most {:.1} ms", slowest as f64 / 1e3);
        let (near, direction) = (slowest <= 3_000, slowest <= 10_000);
        findings.judge("reordering is cheap", "1 to 2 ms", ours, near, direction);
        findings.remark("our time is that of the whole block: simulated, reordered, validated.");
    }
    findings.measurements = grid.cells;
    Ok(findings)
}

fn conflicts(lab: &mut Lab<'_>) -> Result<Findings> {
    let sequences = [1, 65, 129, 193, 257, 321, 385, 449, 513];
    let of = |i: &u64| Workload::of(&INTERLEAVED).with("n", N).with("sequence", i);
    let place = |m: &Measurement| super::setting(m, "sequence");
    let workloads = sequences.iter().map(of).collect();
    exact(lab, workloads, place, "sequence", |n, i| [n / 2 + i - 1, n])
}

fn cycles(lab: &mut Lab<'_>) -> Result<Findings> {
    let lengths = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    let of = |t: &u64| Workload::of(&CYCLES).with("n", N).with("length", t);
    let place = |m: &Measurement| super::setting(m, "length");
    let workloads = lengths.iter().map(of).collect();
    exact(lab, workloads, place, "length", |n, t| [n / 2, n - n / t])
}

fn custom(lab: &mut Lab<'_>) -> Result<Findings> {
    let of = |rw: u32, hr: u32, hw: u32, hss: u32| -> Result<Workload> {
        let custom = Workload::named("custom")?.with("rows", lab.effort.rows(10_000));
        Ok(custom.with("rw", rw).with("hr", hr).with("hw", hw).with("hss", hss))
    };
    let workloads = vec![of(4, 10, 5, 4)?, of(4, 40, 10, 1)?, of(8, 10, 5, 4)?, of(8, 40, 10, 1)?];
    let plan =
        Plan { workloads, block_transactions: vec![N as usize], ..lab.times(100 * N as usize) };
    let place = |m: &Measurement| {
        let all = ["rw", "hr", "hw", "hss"].map(|name| super::setting(m, name));
        all.join("/")
    };
    let grid = Grid { cells: lab.measure(&plan)?, place };
    let mut findings = Findings::default();
    let head = "RW/HR/HW/HSS";
    let valid = grid.table(head, |m| percent(1.0 - m.failed_share, 1));
    findings.tables.push(("Valid, %".to_owned(), valid));
    let rates = grid.table(head, |m| thousands(m.committed_per_cpu_second));
    findings.tables.push(("Committed per CPU-second".to_owned(), rates));
    let gain = |place: &str| {
        let fabric = grid.get("fabric", place)?.committed;
        Some(grid.get("fabric_pp", place)?.committed as f64 / fabric as f64)
    };
    let gains: Vec<(String, f64)> =
        grid.places().into_iter().filter_map(|p| Some((p.clone(), gain(&p)?))).collect();
    if let Some((_, best)) = gains.iter().find(|(place, _)| place == "8/40/10/1") {
        let most = gains.iter().all(|(_, gain)| gain <= best);
        let always = gains.iter().all(|(_, gain)| *gain >= 1.0);
        let ours = format!("{} as many valid", times(*best));
        let (near, direction) = (most && near(3.0, *best), most && *best > 1.0);
        findings.judge("8/40/10/1 gains most", "about 3x", ours, near, direction);
        let least = gains.iter().map(|(_, gain)| *gain).fold(f64::MAX, f64::min);
        let ours = format!("at least {}", times(least));
        findings.claim("Fabric++ is always better", "36 of 36", ours, always);
    }
    findings.remark(
        "simulation is on the state just before the block, so that no conflict crosses blocks.",
    );
    findings.measurements = grid.cells;
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workloads::Settings;

    fn accesses(entry: &Entry, settings: Settings) -> Vec<String> {
        let workload = entry.make(&settings).unwrap();
        let calls = workload.calls(1);
        calls
            .map(|call| {
                let of = |at: usize, letter: &str| -> String {
                    let keys = call.arguments[at].as_array().unwrap();
                    keys.iter().map(|k| format!("{letter}{}", k.as_int().unwrap())).collect()
                };
                of(0, "r") + &of(1, "w")
            })
            .collect()
    }

    /// The thesis's own examples, for n = 6 and for a cycle of four.
    #[test]
    fn the_sequences_are_those_of_the_thesis() {
        let sequence =
            |i: u64| accesses(&INTERLEAVED, Settings::default().with("n", 6).with("sequence", i));
        assert_eq!(sequence(1), ["w0", "w1", "w2", "r0", "r1", "r2"]);
        assert_eq!(sequence(2), ["r2", "w0", "w1", "w2", "r0", "r1"]);
        assert_eq!(sequence(4), ["r0", "r1", "r2", "w0", "w1", "w2"]);
        let cycle = accesses(&CYCLES, Settings::default().with("n", 8).with("length", 4));
        assert_eq!(cycle[..4], ["r0w0", "r0w1", "r1w2", "r2w0"]);
        assert_eq!(cycle[4..], ["r4w4", "r4w5", "r5w6", "r6w4"]);
    }
}
