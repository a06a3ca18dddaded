//! The seam: what the front end asks of the database after it.
//!
//! A [`Database`] opens one [`Session`] per connection, after the client has proved who it is. The
//! front end owns everything that is protocol (prepared statements by name, portals, formats,
//! error-skip, COPY framing); the session owns everything that is SQL (text to statement, statement
//! to rows, transactions). Calls on a session are never concurrent.
//!
//! One simple query or one pipeline is one transaction unless it says otherwise, so the front end
//! brackets it: [`Session::begin_implicit_block`] before each statement of several,
//! [`Session::end_implicit_block`] once at the end. A statement that stands alone gets no bracket,
//! so a session may run it whole, as one request.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use kit::pool::Lease;
use types::{DataType, Error, Value, Zone};

use crate::auth::Verifier;
use crate::cancel::{Backends, Cancel};
use crate::listener::Peer;
pub use crate::message::Format;
use crate::reply::RowDescription;
pub use crate::reply::Tag;

pub trait Database: Send + Sync + 'static {
    type Session: Session;
    /// What a client asks for by the name of a database: the one that it proves itself to is the
    /// one that it gets, whatever has that name then.
    type Target: Send + Sync;

    /// Called once per connection, before authentication: that there is no such database is for
    /// [`Database::open_session`] to say.
    fn target(
        &self,
        user: &str,
        database: &str,
    ) -> impl Future<Output = Result<Self::Target, Error>> + Send;

    /// How `user` has to prove itself.
    fn authentication(&self, target: &Self::Target, user: &str, peer: Peer) -> Authentication;

    /// Whether the last connections are kept free for `user`.
    fn is_operator(&self, target: &Self::Target, user: &str) -> bool;

    /// Called once per connection, after authentication.
    fn open_session(
        &self,
        target: Self::Target,
        options: SessionOptions,
    ) -> impl Future<Output = Result<Self::Session, Error>> + Send;
}

/// How a client proves that it is the user it names.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// No proof at all. The front end grants this to clients of the same machine only.
    Trust,
    /// The password that this verifier was made from.
    ScramSha256(Verifier),
    /// There is no such user. The client goes through the same exchange as with a wrong password,
    /// and cannot tell the two apart, as long as the users that exist have verifiers of as many
    /// iterations.
    Unknown { iterations: u32 },
}

/// What the client said of itself when it connected.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub user: String,
    pub database: String,
    pub application_name: String,
    /// Other startup parameters, `options=-c name=value` unfolded, in the client's order.
    pub settings: Vec<(String, String)>,
    pub peer: Peer,
    pub tls: bool,
    /// What `pg_backend_pid()` returns.
    pub process_id: i32,
    /// Raised when the client asks to cancel the running statement.
    pub cancel: Arc<Cancel>,
    /// All sessions, by their number.
    pub backends: Backends,
}

pub trait Session: Send + 'static {
    /// One statement as text was cut: syntax only, no name in it looked up.
    type Parsed: Send;
    /// What the session needs to execute a statement.
    type Statement: Send + Sync + 'static;

    /// Whether [`Session::catch_up`] has something to do before the client's next commands.
    fn wants_to_catch_up(&self) -> bool {
        false
    }

    /// Called before the first of the commands between two answers, where it is wanted.
    fn catch_up(&mut self) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Cuts `sql` into statements. Names are not looked up yet, since an earlier statement of the
    /// same text may create what a later one uses. Empty text has no statements.
    fn parse(&mut self, sql: &str) -> Result<Vec<Self::Parsed>, Error>;

    /// The type that a client names by a number of the schema's own.
    fn type_of_oid(&self, _: u32) -> Option<DataType> {
        None
    }

    /// Looks up names, types the parameters (`None` where the client left that to the server) and
    /// the result.
    fn prepare(
        &mut self,
        parsed: Self::Parsed,
        parameter_types: &[Option<DataType>],
    ) -> Result<Arc<Prepared<Self::Statement>>, Error>;

    /// Runs a statement. The future is not dropped half-way while the connection lives: whatever
    /// waits in it and may be given up watches [`SessionOptions::cancel`].
    fn execute(
        &mut self,
        prepared: &Arc<Prepared<Self::Statement>>,
        parameters: &[Value],
    ) -> impl Future<Output = Result<Response, Error>> + Send;

    /// From here to [`Session::end_implicit_block`] all statements are one transaction. Called
    /// again before each of them, since a COMMIT among them ends the block; without effect where
    /// a block is open.
    fn begin_implicit_block(&mut self) -> Result<(), Error>;

    /// Commits or rolls back the implicit block. Without effect where there is none any more, or
    /// where a BEGIN has made it an explicit one.
    fn end_implicit_block(
        &mut self,
        commit: bool,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// A piece of the client's COPY data, cut anywhere.
    fn copy_in_data(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Error>> + Send;

    fn copy_in_done(&mut self) -> impl Future<Output = Result<Response, Error>> + Send;

    /// The client gave up: nothing of the copy may stay. Not called where the session itself
    /// failed, nor where the connection was lost and the session is dropped.
    fn copy_in_fail(&mut self, error: &Error);

    /// An error is about to be reported, whether the session found it or the protocol did: an open
    /// transaction block must now refuse everything but its end.
    fn statement_failed(&mut self);

    /// An implicit block counts as [`TransactionStatus::Idle`].
    fn transaction_status(&self) -> TransactionStatus;

    /// How long to wait for the client's next message, as things stand; `None`: for ever.
    fn patience(&self) -> Option<Duration>;

    fn take_notices(&mut self) -> Vec<Notice>;

    /// Completes when there are notifications that the client can be told now.
    fn notified(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Those that the client can be told now: none within a transaction block.
    fn take_notifications(&mut self) -> Vec<Notification> {
        Vec::new()
    }

    /// The time zone that text is read and shown in.
    fn zone(&self) -> Zone {
        Zone::default()
    }

    /// The columns of a cursor that a statement has declared, and whether its rows are meant to be
    /// read in binary format. By name it is a portal like those that the client has bound.
    fn cursor(&self, _name: &str) -> Option<(Vec<ColumnDescription>, Format)> {
        None
    }

    /// Closing what does not exist is no error.
    fn close_cursor(&mut self, _name: &str) {}

    /// Settings that changed and that clients track (`ParameterStatus`).
    fn take_parameter_changes(&mut self) -> Vec<(String, String)>;
}

/// A statement ready to run, shared by every session that has the same text.
#[derive(Debug)]
pub struct Prepared<B> {
    pub parameters: Vec<DataType>,
    /// `None`: the statement returns no rows.
    pub columns: Option<Vec<ColumnDescription>>,
    /// Of its rows, where the client cannot say.
    pub format: Format,
    pub body: B,
    description: OnceLock<RowDescription>,
}

impl<B> Prepared<B> {
    pub fn new(
        parameters: Vec<DataType>,
        columns: Option<Vec<ColumnDescription>>,
        body: B,
    ) -> Self {
        Prepared { parameters, columns, format: Format::Text, body, description: OnceLock::new() }
    }

    pub(crate) fn columns(&self) -> &[ColumnDescription] {
        self.columns.as_deref().unwrap_or_default()
    }

    /// The `RowDescription` message, encoded once for all executions.
    pub(crate) fn description(&self) -> &RowDescription {
        self.description.get_or_init(|| RowDescription::new(self.columns()))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    pub name: String,
    pub data_type: DataType,
    /// OID of the table and number of the column in it; zeros for an expression.
    pub table_oid: u32,
    pub attribute_number: i16,
}

impl ColumnDescription {
    /// A column that comes from no table.
    pub fn expression(name: impl Into<String>, data_type: DataType) -> Self {
        ColumnDescription { name: name.into(), data_type, table_oid: 0, attribute_number: 0 }
    }
}

pub type Row = Box<[Value]>;

/// What a statement answers.
pub enum Response {
    Rows {
        rows: Vec<Row>,
        tag: Tag,
        /// Covers them until they are sent.
        lease: Option<Lease>,
    },
    /// Pulled as fast as the client reads them, from any thread.
    Stream {
        rows: RowStream,
        tag: Tag,
    },
    Tag(Tag),
    /// DEALLOCATE and DISCARD ALL: drop the statement that the client prepared by this name, or
    /// all of them.
    Deallocate {
        name: Option<String>,
        tag: Tag,
    },
    /// Ask the client for data: [`Session::copy_in_data`] follows.
    CopyIn {
        columns: usize,
        format: Format,
    },
    /// Data, pulled one chunk at a time as fast as the client reads.
    CopyOut {
        columns: usize,
        format: Format,
        chunks: CopyChunks,
    },
}

/// Rows as they are made, some at a time. Dropped early where the client wants no more.
pub type RowStream = BoxStream<'static, Result<Vec<Row>, Error>>;

pub type CopyChunks = BoxStream<'static, Result<CopyChunk, Error>>;

/// Several `CopyData` messages in a row. A client takes each for one row, as PostgreSQL sends them.
#[derive(Clone, Debug)]
pub struct CopyChunk {
    pub bytes: Bytes,
    /// Where in `bytes` each message ends; the last ends them all.
    pub ends: Vec<usize>,
    pub rows: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    Idle,
    Block,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Notice {
    pub severity: NoticeSeverity,
    pub content: Error,
}

/// What another session, or this one, told all that listen on a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    pub process_id: i32,
    pub channel: Arc<str>,
    pub payload: Arc<str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoticeSeverity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
}
