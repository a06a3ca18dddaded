//! Analytical workloads: tables, rows and queries, for any server of SQL.
//!
//! The others ([`crate::Workload`]) change rows by procedures; these only ask. Their text is
//! PostgreSQL's, and each query's ORDER BY leaves nothing open that its LIMIT could show, so that
//! two answers to it can be compared line by line.
//!
//! Adding one: a module, and a line in [`by_name`].

pub mod chbench;
pub mod random;
pub mod tpch;

use types::Result;

use crate::settings::invalid;
use crate::workload::Fill;

/// Tables and what is asked of them.
pub struct Analytical {
    pub name: &'static str,
    /// SQL that makes the tables.
    pub schema: String,
    /// SQL that makes the indexes that a store of rows needs to answer in bearable time; nothing
    /// for one that scans columns.
    pub indexes: &'static str,
    pub fills: Vec<Fill>,
    pub queries: Vec<Query>,
}

/// One question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// As the benchmark calls it: `Q1`.
    pub name: String,
    pub text: String,
}

/// `tpch` at a scale factor, `chbench` with so many warehouses (at least one), `random` with a
/// thousand times as many queries.
///
/// # Errors
/// Another name, or a scale that is none: below a hundredth dbgen has too few suppliers.
pub fn by_name(name: &str, scale: f64) -> Result<Analytical> {
    if !(scale > 0.0 && scale <= 1_000.0) {
        return Err(invalid("a scale above 0 and up to 1000 is expected".to_owned()));
    }
    match name {
        "tpch" if scale < 0.01 => Err(invalid("TPC-H begins at scale 0.01".to_owned())),
        "tpch" => Ok(tpch::at(scale)),
        "chbench" => chbench::at(scale),
        "random" => Ok(random::at(1, (scale * 1_000.0) as u64)),
        _ => {
            Err(invalid(format!("unknown analytical workload \"{name}\": tpch, chbench or random")))
        }
    }
}

/// Statements of a file, each under a line `-- Name`; other comments belong to them.
fn queries_of(file: &str) -> Vec<Query> {
    let mut queries: Vec<Query> = Vec::new();
    for line in file.lines() {
        let name =
            line.strip_prefix("-- Q").filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
        match (name, queries.last_mut()) {
            (Some(number), _) => {
                queries.push(Query { name: format!("Q{number}"), text: String::new() });
            }
            (None, Some(query)) => {
                query.text.push_str(line);
                query.text.push('\n');
            }
            (None, None) => {}
        }
    }
    queries
}
