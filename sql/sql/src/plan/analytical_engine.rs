//! The seam to an analytical engine: what a session asks of it, and nothing about how it answers.
//!
//! ```text
//!   prepare: query, schema, parameter types ─► plan: columns, parameter types     once
//!   run:     plan, snapshot, parameters     ─► rows, some at a time               each time
//! ```
//!
//! A plan belongs to a version of the schema and to no snapshot; it is shared by all that ask the
//! same. Rows are made as they are asked for: an engine keeps a bounded number of them ahead of its
//! client. Dropping them ends the run.
//!
//! Nothing that an analytical engine computes reaches the ledger, and nothing that it reads enters
//! a transaction's footprint: it sees a snapshot, and sessions keep it out of transactions that
//! write.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use kit::pool::{Lease, Pool};
use procedure::{Column, Interrupt};
use sqlparser::ast;
use storage::Snapshot;
use types::{DataType, Result, Value};

use crate::schema::catalog::Catalog;
use crate::settings::Settings;
use crate::settings::session_info::SessionInfo;

pub type Row = Box<[Value]>;

/// What a row takes, long strings included.
pub fn row_bytes(row: &[Value]) -> usize {
    let long = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Jsonb(json) => json.as_str().len(),
        _ => 0,
    };
    size_of::<Row>() + size_of_val(row) + row.iter().map(long).sum::<usize>()
}

/// Rows as they are made, some at a time.
pub type RowBatches = BoxStream<'static, Result<Vec<Row>>>;

/// All rows at once, and what covers them until the stream is dropped.
pub fn held(rows: Vec<Row>, lease: Option<Lease>) -> RowBatches {
    stream::once(ready(Ok(rows))).inspect(move |_| _ = &lease).boxed()
}

/// An engine for queries over much data.
pub trait AnalyticalEngine: Send + Sync {
    /// Checks a query against a catalog and plans it.
    ///
    /// # Errors
    /// What PostgreSQL would say of the query, or 0A000 where the engine has no answer.
    fn prepare(&self, request: &QueryRequest<'_>) -> Result<Arc<dyn AnalyticalPlan>>;
}

/// A query to be planned.
pub struct QueryRequest<'a> {
    pub catalog: &'a Arc<Catalog>,
    /// The schema's version: two catalogs with the same one are the same.
    pub version: u64,
    pub info: &'a SessionInfo,
    pub settings: &'a Settings,
    /// The query's own text, without the EXPLAIN or COPY around it.
    pub text: &'a str,
    pub query: &'a ast::Query,
    /// As the client declared them; `None` is to be inferred.
    pub parameter_types: &'a [Option<DataType>],
    /// Ends the planning.
    pub interrupt: Option<Arc<dyn Interrupt>>,
    /// The row executor could run it, too, and it may not be seen which has: what it would round on
    /// the way is refused instead.
    pub agreeing: bool,
    /// The tables that describe the schema, where the query names some beside users' own.
    pub system: Option<Arc<dyn SystemTables>>,
}

impl QueryRequest<'_> {
    /// # Errors
    /// The plan is not waited for any more: 57014.
    pub fn check(&self) -> Result<()> {
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check())
    }
}

/// Tables whose rows follow from the schema and the session that asks: system catalogs. They
/// belong to one version of the schema, as plans do.
pub trait SystemTables: fmt::Debug + Send + Sync {
    /// The number and the columns of the table that a name in FROM means.
    fn find(&self, schema: Option<&str>, name: &str) -> Option<(usize, Vec<Column>)>;

    /// The rows of a table that was found, as they are for a run with these settings.
    ///
    /// # Errors
    /// A view among them that could not be evaluated.
    fn rows(&self, number: usize, settings: &Settings, now_us: i64) -> Result<Vec<Row>>;
}

/// A query, checked and planned.
pub trait AnalyticalPlan: fmt::Debug + Send + Sync {
    /// Who would run it over this snapshot, for EXPLAIN.
    fn engine(&self, snapshot: &Snapshot) -> &'static str;

    fn columns(&self) -> &[Column];

    /// Types of `$1`…, as declared or inferred.
    fn parameters(&self) -> &[DataType];

    /// Whether it reads rows of tables. What only the schema answers can be asked anywhere.
    fn reads_tables(&self) -> bool;

    fn run(self: Arc<Self>, execution: Execution) -> RowBatches;

    /// The lines of EXPLAIN; `analyze`: after a run whose rows are thrown away.
    fn explain(
        self: Arc<Self>,
        execution: Execution,
        analyze: bool,
    ) -> BoxFuture<'static, Result<Vec<String>>>;
}

/// One run of a plan.
pub struct Execution {
    pub snapshot: Arc<Snapshot>,
    pub parameters: Box<[Value]>,
    /// As they are now: the plan may be older.
    pub settings: Settings,
    /// What `now()` is.
    pub now_us: i64,
    pub limits: Limits,
}

/// What ends a run before its time, with 57014.
#[derive(Clone, Default)]
pub struct Limits {
    /// Time that a client waits for rows. What the client takes to read them does not count.
    pub timeout: Option<Duration>,
    /// Time that rows may wait until they are asked for: what a run holds meanwhile, none
    /// else has.
    pub fetch_timeout: Option<Duration>,
    /// Becomes true when the client asks to cancel what it waits for.
    pub canceled: Arc<AtomicBool>,
    /// What covers rows until the client has them; `None`: nothing does.
    pub memory: Option<Arc<Pool>>,
}
