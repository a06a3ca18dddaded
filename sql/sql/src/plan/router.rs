//! Chooses the executor of a query: the row executor or the columnar engine.
//!
//! The row executor (in messages *the fast path*) runs what transactions need, row by row and
//! through indexes. The columnar engine scans column images of a snapshot,
//! and knows SQL that the row executor does not. The row executor's binder is asked first:
//!
//! | The query | Executor |
//! |---|---|
//! | uses a feature, function, type, relation unknown to the binder | columnar, if it can |
//! | has an error that any engine would report | none: the error |
//! | looks up keys, scans ranges with two bounds, or small tables | row |
//! | scans [`BROAD_ROWS_MIN`] rows, without two bounds | columnar, if results [agree](is_agreed) |
//! | scans [`REPEATED_ROWS_MIN`] of them again for each outer row | columnar, if types agree |
//! | the same from `BROAD_ROWS_MIN` with set operations, windows, several groupings | likewise |
//!
//! *Results agree* if both are known to return the same values to the last digit, so that the
//! answer does not change when a table grows. In the last two cases the row executor takes far too
//! long on large inputs; there the column types have to be the same, and digits may differ.
//!
//! System tables are served by an engine of their own, in front of the columnar one. A query that
//! joins them with users' tables may run on either; EXPLAIN shows which.
//!
//! *Invariant.* The columnar engine does not record what it reads, so COMMIT could not validate
//! it. A transaction that has written is never routed to it, and one that was routed to it cannot
//! write any more.
//!
//! *Cost.* [`scanned_tables`] inspects a program once, when it is bound. A program that only looks
//! up keys has no such tables and pays nothing per run; others add up the sizes of a few tables.

mod agreed;
mod hold_back;

use std::fmt;
use std::ops::Bound;

use procedure::analysis::visit::each_query;
use procedure::query::Aggregate;
use procedure::{Procedure, Query, Step};
use storage::Snapshot;
use types::{Error, SqlState, TableId};

pub use agreed::{are_agreed, is_agreed};
pub use hold_back::hold_back;

/// From how many rows on it pays to plan for columns: the row executor reads about as many in the
/// time that the analytical engine takes to plan.
pub const BROAD_ROWS_MIN: u64 = 20_000;

/// From how many rows on it pays where some of them are read again for each of the others: their
/// numbers multiply.
pub const REPEATED_ROWS_MIN: u64 = BROAD_ROWS_MIN / 10;

/// From how many rows on the analytical engine runs a program although it may answer in other
/// digits: what sorts or compares all rows, or reads them again for each row of others, which is a
/// join to the analytical engine. `None`: both have to agree.
pub fn outgrown_at(procedure: &Procedure) -> Option<u64> {
    let mut rows_min: Option<u64> = None;
    for step in &procedure.body {
        if let Step::EmitQuery { query } | Step::ForRows { query, .. } | Step::Fetch { query, .. } =
            step
        {
            each_query(query, &mut |query| {
                let from = match query {
                    Query::Apply { inner, .. } => {
                        let mut scanned = Vec::new();
                        visit(inner, &mut scanned);
                        if scanned.is_empty() { BROAD_ROWS_MIN } else { REPEATED_ROWS_MIN }
                    }
                    Query::Recursive { step, .. } => {
                        let mut scanned = Vec::new();
                        visit(step, &mut scanned);
                        if scanned.is_empty() { BROAD_ROWS_MIN } else { REPEATED_ROWS_MIN }
                    }
                    Query::Sets { .. }
                    | Query::Window { .. }
                    | Query::HashJoin { right: true, .. } => BROAD_ROWS_MIN,
                    Query::Aggregate { sets, aggregates, .. }
                        if !sets.is_empty() || aggregates.iter().any(is_of_many) =>
                    {
                        BROAD_ROWS_MIN
                    }
                    _ => return,
                };
                rows_min = Some(rows_min.map_or(from, |rows_min| rows_min.min(from)));
            });
        }
    }
    rows_min
}

/// Whether an aggregate joins texts or sorts what it takes in.
fn is_of_many(aggregate: &Aggregate) -> bool {
    !aggregate.order.is_empty() || aggregate.separator.is_some()
}

/// Why a query is where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// What the row executor said.
    Refused(String),
    /// Rows of the tables that are read without two bounds.
    Broad(u64),
    /// `tally.executor`.
    Asked,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Refused(message) => write!(f, "because the fast path says: {message}"),
            Reason::Asked => f.write_str("because tally.executor says so"),
            Reason::Broad(rows) => {
                write!(f, "because it reads whole tables, of {rows} rows together")
            }
        }
    }
}

/// Whether another engine may have an answer where the row executor's binder has this error: it
/// does not know what it refuses, which is another thing than what PostgreSQL refuses, too.
pub fn is_refusal(error: &Error) -> bool {
    match error.code() {
        SqlState::UNDEFINED_OBJECT => !error.message().starts_with("window "),
        SqlState::UNDEFINED_FUNCTION => !is_of_known_function(error.message()),
        SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_TABLE => true,
        _ => is_unknown(error),
    }
}

/// Whether a call with such arguments is none of a function that the binder knows for all types for
/// which there is any.
fn is_of_known_function(message: &str) -> bool {
    const KNOWN: [&str; 13] = [
        "string_agg",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "nth_value",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
        "regexp_replace",
    ];
    // Of nothing, or of all columns.
    const OF_NOTHING: [&str; 5] = ["sum(", "avg(", "min(", "max(", "array_agg("];
    let Some(call) = message.strip_prefix("function ") else { return false };
    let of_nothing = |name: &&str| call.strip_prefix(*name).is_some_and(|it| it.starts_with(')'));
    let name = call.split_once('(').map_or(call, |(name, _)| name);
    KNOWN.contains(&name) || OF_NOTHING.iter().any(of_nothing)
}

/// What [`Error::unsupported`] says.
fn is_unknown(error: &Error) -> bool {
    error.code() == SqlState::FEATURE_NOT_SUPPORTED
        && error.message().ends_with(" is not supported")
}

/// Whether the row executor may have an answer, or another error, where the analytical engine has
/// this one for a query that both can run.
pub fn may_differ(error: &Error) -> bool {
    const DATA_EXCEPTION: &[u8] = b"22";
    const NOT_SUPPORTED: &[u8] = b"0A";
    const NOT_UNDERSTOOD: &[u8] = b"42";
    const INTERNAL: &[u8] = b"XX";
    let classes = [DATA_EXCEPTION, NOT_SUPPORTED, NOT_UNDERSTOOD, INTERNAL];
    classes.contains(&&error.code().0[..2])
}

/// The tables that a program reads without two bounds, if it only reads.
pub fn scanned_tables(procedure: &Procedure) -> Box<[TableId]> {
    let mut tables = Vec::new();
    for step in procedure.body.iter().filter(|_| procedure.read_only) {
        match step {
            Step::EmitQuery { query } | Step::ForRows { query, .. } | Step::Fetch { query, .. } => {
                visit(query, &mut tables);
            }
            _ => {}
        }
    }
    tables.into()
}

/// A LIMIT over a plain scan reads little, so what is below one counts only where something
/// between them needs all rows.
fn visit(query: &Query, tables: &mut Vec<TableId>) {
    match query {
        Query::Scan { table, low, high, .. } => {
            if matches!((low, high), (Bound::Unbounded, _) | (_, Bound::Unbounded)) {
                tables.push(*table);
            }
        }
        Query::Limit { input, limit: Some(_), .. } if is_piecemeal(input) => {}
        query => query.inputs().for_each(|input| visit(input, tables)),
    }
}

/// Rows of tables, those among them that are gone.
pub fn rows(snapshot: &Snapshot, tables: &[TableId]) -> u64 {
    tables.iter().filter_map(|id| Some(snapshot.table(*id)?.slots())).sum()
}

/// Rows come out as they go in, so a reader that stops early has read little.
fn is_piecemeal(query: &Query) -> bool {
    match query {
        Query::Scan { filter, .. } => filter.is_none(),
        Query::Project { input, .. } => is_piecemeal(input),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::statement::{Program, Statement};
    use crate::schema::catalog::Catalog;

    fn scanned(catalog: &Catalog, text: &str) -> usize {
        let parsed = crate::parse(text).unwrap().remove(0);
        match crate::bind(catalog, &parsed, &[]).unwrap().statement {
            Statement::Program(Program::Procedure(procedure)) => scanned_tables(&procedure).len(),
            other => panic!("{other:?}"),
        }
    }

    fn catalog() -> Catalog {
        let text = "CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))";
        let parsed = crate::parse(text).unwrap().remove(0);
        match crate::bind(&Catalog::genesis(), &parsed, &[]).unwrap().statement {
            Statement::Ddl(ddl) => Catalog::genesis().apply(&ddl).unwrap().0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_follows_keys_or_stops_early_is_never_looked_at_again() {
        let catalog = catalog();
        for text in [
            "SELECT v FROM t WHERE a = 1 AND b = 2",
            "SELECT v FROM t WHERE a = $1 AND b > 2",
            "SELECT count(*) FROM t WHERE a BETWEEN 1 AND 5",
            "SELECT * FROM t LIMIT 10",
            "SELECT v FROM t WHERE a >= 5 ORDER BY a LIMIT 10",
            "SELECT 1",
            "UPDATE t SET v = 'x'",
        ] {
            assert_eq!(scanned(&catalog, text), 0, "{text}");
        }
    }

    #[test]
    fn whole_tables_are_counted_wherever_they_stand() {
        let catalog = catalog();
        for (text, tables) in [
            ("SELECT * FROM t", 1),
            ("SELECT count(*) FROM t WHERE a > 5", 1),
            ("SELECT * FROM t WHERE v = 'x' LIMIT 10", 1),
            ("SELECT * FROM t ORDER BY v LIMIT 10", 1),
            ("SELECT 1 FROM t x JOIN t y ON x.v = y.v", 2),
            ("SELECT (SELECT max(v) FROM t) FROM t WHERE a = 1", 1),
            ("SELECT a FROM t UNION ALL SELECT b FROM t", 2),
        ] {
            assert_eq!(scanned(&catalog, text), tables, "{text}");
        }
    }
}
