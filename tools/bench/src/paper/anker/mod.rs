//! AnKerDB: the figures of Sharma, *Snapshot: Friend or Foe of Data Management?* (thesis, 2020,
//! chapter 2; SIGMOD 2018 with Schuhknecht and Dittrich): tables 2.1 and 2.2, figures 2.4 to 2.11.
//!
//! The question of the chapter is what it costs to give analytical queries a consistent snapshot of
//! columns that OLTP transactions update in place.
//!
//! * [`techniques`]: creating snapshots, without a workload;
//! * [`systems`]: the five system configurations, under TPC-C's updates and concurrent scans;
//! * [`layouts`]: not in the thesis: the row layout that this database uses, against columns.
//!
//! *What can be compared.* The thesis measured on two quad-core Xeons with six OLTP and two OLAP
//! streams. Many of its figures are plots without numbers, so only values given in the text appear
//! as claims here.
//!
//! *Departure.* The thesis's technique is `vm_snapshot`, a system call of a patched kernel. It does
//! not exist in a stock kernel, so two substitutes are measured side by side: reference-counted
//! slabs and private mappings (crate `anker`, module `areas`).

mod layouts;
mod systems;
mod techniques;

use anyhow::Result;

use super::{Figure, Findings, Lab};

pub const FIGURES: &[Figure] = &[
    figure("anker-table-2.1", "creating a snapshot, by technique and columns", techniques::table),
    figure("anker-2.4", "snapshots of a column whose pages are modified", techniques::erosion),
    figure("anker-2.5", "scanning a column whose rows have versions", techniques::versions),
    figure("anker-2.6", "snapshots of TPC-H's columns, one by one, and fork", techniques::tables),
    figure("anker-2.8", "snapshot and latency of each query, by configuration", systems::latencies),
    figure("anker-2.9", "transactions a second while queries run", systems::throughput),
    figure("anker-2.10", "latency of two queries, by OLTP streams", systems::oltp_streams),
    figure("anker-2.11", "transactions a second, by OLAP streams", systems::olap_streams),
    figure("anker-table-2.2", "transactions a second, by warehouses", systems::warehouses),
    Figure {
        source: "design, section 4",
        ..figure("anker-layouts", "rows and images beside columns and slabs", layouts::compare)
    },
];

const fn figure(
    name: &'static str,
    about: &'static str,
    find: fn(&mut Lab<'_>) -> Result<Findings>,
) -> Figure {
    // What is measured has no protocol; one must be there all the same.
    Figure { name, about, source: "Sharma, chapter 2", protocols: &["serial"], find }
}

/// Three digits, whatever the size.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
