//! What snapshots and analytical queries cost: AnKer's claims (Sharma, chapter 2), and bounds that
//! this engine sets itself.

mod bed;
mod scans;
mod tpch;
mod writers;

pub use bed::InProcess;

use bed::AnalyticalBed;

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "analytics-pin",
        about: "taking a snapshot, over sizes of the table and rows modified before",
        source: "Sharma, table 2.1",
        protocols: &["serial"],
        find: scans::pin,
    },
    Figure {
        name: "analytics-scan",
        about: "a full scan of one column: first, clean, patched, and beside writers",
        source: "a bound of its own",
        protocols: &["serial"],
        find: scans::scan,
    },
    Figure {
        name: "analytics-writers",
        about: "what writers lose to a snapshot a second whose every column is read",
        source: "a bound of its own",
        protocols: &["serial"],
        find: writers::beside_scans,
    },
    Figure {
        name: "analytics-tpch",
        about: "TPC-H's 22 queries: images, Arrow tables in memory, and PostgreSQL if there is one",
        source: "TPC-H, revision 3",
        protocols: &["serial"],
        find: tpch::queries,
    },
];

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
