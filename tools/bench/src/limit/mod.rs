//! The limit: what one core gets out of the product's tables when nothing stands between.
//!
//! A workload's transactions are written by hand, in Rust, straight on [`storage`]: the same rows
//! are found, the same columns are read, changed and inserted, in the same order, in memory of the
//! same layout, with the same indexes. What is left out is what the product adds to that:
//!
//! ```text
//!   product   program ─► interpreter ─► writes kept aside ─► installed, with versions ─► answers
//!   limit     program in Rust ────────────────────────────► installed
//! ```
//!
//! There is no interpreter, nothing is metered, no write is kept aside and no answer made, and all
//! blocks are written as one, so that a record is copied once before it is first changed and not
//! for each block. So it shows what the *design* has to give on the machine at hand: tables that
//! are found by a hash and ordered by a tree, rows updated in place. What runs on these tables can
//! be told as a share of it.
//!
//! *It is no bound* where rows are more than the processor's cache holds: protocols fetch the rows
//! of calls that wait, and what is written by hand waits for each row where it comes to it.
//!
//! *It does the same*: the state that it leads to has the digest that `serial` leads to, which is
//! therefore always among the protocols. What is read and not written has no digest; a row that is
//! not there ends the run.

mod tpcc;
mod ycsb;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use concurrency::Work;
use ledger::{Hash, LogOptions};
use storage::{Store, Table, UndoArena};
use types::{ColumnId, Stamp, Value};

use crate::bed::{Bed, Source};
use crate::run::{self, Run, Stopwatch};
use crate::table::{Table as TextTable, thousands};
use crate::{Cell, Measurement, Plan, Report};

/// A core's limit, and what protocols reach of it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Limit {
    /// Committed transactions a CPU-second: the median of the repetitions.
    pub per_cpu_second: f64,
    /// Under the plan's protocols.
    pub measurements: Vec<Measurement>,
}

/// A transaction by hand; whether it commits.
trait ByHand {
    fn run(
        &mut self,
        procedure: usize,
        arguments: &[Value],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<bool>;
}

/// Measures the limit of the plan's one workload, in turns with the plan's protocols on it.
pub fn measure(plan: &Plan, report: Report<'_>) -> Result<Limit> {
    plan.check()?;
    let [workload] = &plan.workloads[..] else { bail!("a limit is of one workload") };
    let (source, cells) = (Source::load(workload)?, plan.cells_of(workload));
    let is_serial = |cell: &&Cell| cell.protocol == "serial" && cell.theta == cells[0].theta;
    let Some(first) = cells.iter().find(is_serial) else {
        bail!("`serial` has to be among the protocols: what is written by hand is checked by it")
    };
    let total = plan.repetitions * (cells.len() + 1);
    let mut rates = Vec::new();
    let mut runs: Vec<Vec<Run>> = cells.iter().map(|_| Vec::new()).collect();
    for repetition in 0..plan.repetitions {
        let done = repetition * (cells.len() + 1);
        report(done, total, &format_args!("{workload}, by hand"));
        let (rate, digest) = by_hand(plan, &source, first)?;
        rates.push(rate);
        for (at, (cell, runs)) in cells.iter().zip(&mut runs).enumerate() {
            report(done + at + 1, total, cell);
            let run = run::run(plan, &source, cell, false)?;
            if is_serial(&cell) && run.digest != digest {
                bail!("what was written by hand has led to another state than {cell}");
            }
            runs.push(run);
        }
    }
    rates.sort_by(f64::total_cmp);
    let of = |(cell, runs): (&Cell, &Vec<Run>)| Measurement::of(plan, cell, runs, None);
    Ok(Limit {
        per_cpu_second: rates[rates.len() / 2].round(),
        measurements: cells.iter().zip(&runs).map(of).collect::<Result<_>>()?,
    })
}

impl Limit {
    pub fn table(&self) -> TextTable {
        let row = |name: &str, rate: f64| {
            let share = format!("{:.2}", rate / self.per_cpu_second);
            vec![name.to_owned(), thousands(rate), share]
        };
        let protocols =
            self.measurements.iter().map(|m| row(&m.protocol, m.committed_per_cpu_second));
        TextTable {
            heads: ["", "tx/CPU-s", "of the limit"].map(str::to_owned).into(),
            rows: [row("limit", self.per_cpu_second)].into_iter().chain(protocols).collect(),
        }
    }
}

/// Committed transactions a CPU-second, and the state that they lead to.
fn by_hand(plan: &Plan, source: &Source, cell: &Cell) -> Result<(f64, Hash)> {
    let bed = Bed::copy(source, &Cell { sealing: false, ..cell.clone() }, LogOptions::default())?;
    let works = bed.works(plan)?;
    let procedures = cell.workload.make(cell.theta)?.procedures();
    let store = bed.replica.store();
    let mut hand: Box<dyn ByHand> = match cell.workload.name() {
        "tpcc" => Box::new(tpcc::Tpcc::new(store)?),
        "ycsb" => Box::new(ycsb::Ycsb::new(store)?),
        other => bail!("the transactions of {other} are not written by hand"),
    };
    let calls = works.iter().map(|work| match &**work {
        Work::Statement(statement) => {
            let named = |name: &&str| *name == statement.procedure.name;
            let procedure = procedures.iter().position(named).context("a procedure's name")?;
            Ok((procedure, &*statement.arguments))
        }
        _ => bail!("not a call"),
    });
    let calls: Vec<(usize, &[Value])> = calls.collect::<Result<_>>()?;
    // The block at the next height is empty, as it is where protocols run.
    let first = store.newest() + 2;
    let last = first + (calls.len().div_ceil(cell.block_transactions) as u64).max(1) - 1;
    let mut committed = 0u64;
    let stopwatch = Stopwatch::start();
    let mut writes = store.begin_blocks(first, last, 1);
    for (block, height) in calls.chunks(cell.block_transactions).zip(first..) {
        for ((procedure, arguments), position) in block.iter().zip(0..) {
            let stamp = Stamp::new(height, position);
            committed += u64::from(hand.run(*procedure, arguments, stamp, writes.arena(0))?);
        }
    }
    store.finish_unread(writes);
    store.publish(last);
    let cpu = stopwatch.stop().cpu;
    bed.check()?;
    Ok((committed as f64 / cpu.as_secs_f64(), bed.digest()?))
}

fn table(store: &Store, name: &str) -> Result<Arc<Table>> {
    let tables = store.tables();
    let named = tables.into_iter().find(|table| table.schema().name == name);
    named.with_context(|| format!("no table {name}"))
}

fn columns<const N: usize>(table: &Table, names: [&str; N]) -> Result<[ColumnId; N]> {
    let mut columns = [0; N];
    for (column, name) in columns.iter_mut().zip(names) {
        *column = table.schema().column(name).with_context(|| format!("no column {name}"))?;
    }
    Ok(columns)
}

/// A call's argument that is a number.
fn number(arguments: &[Value], place: usize) -> Result<i64> {
    arguments.get(place).and_then(Value::as_int).context("a number")
}

fn array(arguments: &[Value], place: usize) -> Result<&[Value]> {
    arguments.get(place).and_then(Value::as_array).context("an array")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand the rows come to be what the programs make of them.
    #[test]
    fn what_is_written_by_hand_leads_to_the_state_that_serial_leads_to() {
        for text in [
            "ycsb:rows=500",
            "ycsb:rows=500:reads=0:writes=100",
            "tpcc:mix=neworder-payment:customers=40:items=60:warehouses=2:user_aborts=20",
        ] {
            let plan = Plan {
                workloads: vec![text.parse().unwrap()],
                transactions: 700,
                block_transactions: vec![64],
                repetitions: 1,
                ..Plan::default()
            };
            let limit = measure(&plan, &mut |_, _, _| {}).unwrap();
            assert!(limit.per_cpu_second > 0.0);
            assert_eq!(limit.table().rows.len(), 2, "{text}");
        }
        let plan = Plan {
            workloads: vec!["tpcc:customers=40:items=60".parse().unwrap()],
            ..Plan::default()
        };
        let refused = measure(&Plan { transactions: 200, ..plan.clone() }, &mut |_, _, _| {});
        assert!(refused.is_err(), "deliveries are not written by hand");
        let workloads = vec!["ycsb:rows=500".parse().unwrap()];
        let unchecked = Plan { workloads, protocols: vec!["silo".to_owned()], ..plan };
        let refused = measure(&unchecked, &mut |_, _, _| {}).unwrap_err();
        assert!(refused.to_string().contains("`serial`"), "{refused}");
    }
}
