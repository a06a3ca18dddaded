//! A database that fits on two pages, for tests and measurements of the front end alone.
//!
//! Statements are words: `echo int4 text` takes one parameter of each type and returns them, `rows
//! 5` counts, `add 7` and `list` keep a transactional list, `begin`, `commit`, `rollback`, `stream
//! 5` counts in pieces and `stream stalled` never does, `wait` waits to be cancelled, `nap` and
//! `hang` cannot be, `copy in`, `copy out 5`, `fail`, `panic`, `notice`, `set`. Anything else that
//! starts with `select` answers one integer, whatever it asks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgfront::{
    Authentication, Cancel, ColumnDescription, CopyChunk, Database, Format, Notice, NoticeSeverity,
    Peer, Prepared, Response, Row, Session, SessionOptions, Tag, TransactionStatus, Verifier,
};
use types::{DataType, Error, Result, SqlState, Value};

pub struct Fake {
    committed: Arc<Mutex<Vec<i64>>>,
    /// Made once: deriving keys takes thousands of hashes.
    alice: Verifier,
}

pub const ALICE_PASSWORD: &str = "wonderland";

impl Fake {
    pub fn new() -> Self {
        Fake {
            committed: Arc::default(),
            alice: Verifier::from_password(ALICE_PASSWORD, 4096).expect("a verifier"),
        }
    }
}

impl Database for Fake {
    type Session = FakeSession;
    type Target = ();

    async fn open_session(&self, (): (), options: SessionOptions) -> Result<FakeSession> {
        if options.database == "nowhere" {
            let message = "database \"nowhere\" does not exist";
            return Err(Error::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        Ok(FakeSession {
            committed: self.committed.clone(),
            pending: Vec::new(),
            block: Block::None,
            copied: Vec::new(),
            notices: Vec::new(),
            changes: Vec::new(),
            patience: None,
            cancel: options.cancel.clone(),
            options,
        })
    }

    async fn target(&self, _: &str, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn authentication(&self, (): &(), user: &str, _: Peer) -> Authentication {
        match user {
            "alice" => Authentication::ScramSha256(self.alice.clone()),
            "mallory" => Authentication::Unknown { iterations: 4096 },
            _ => Authentication::Trust,
        }
    }

    fn is_operator(&self, (): &(), user: &str) -> bool {
        user == "operator"
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    None,
    Implicit,
    Explicit,
    Failed,
}

pub struct FakeSession {
    committed: Arc<Mutex<Vec<i64>>>,
    pending: Vec<i64>,
    block: Block,
    copied: Vec<u8>,
    notices: Vec<Notice>,
    changes: Vec<(String, String)>,
    patience: Option<Duration>,
    cancel: Arc<Cancel>,
    options: SessionOptions,
}

pub struct Words(Vec<String>);

impl FakeSession {
    fn commit(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.contains(&13) {
            return Err(Error::serialization("13 never commits"));
        }
        self.committed.lock().expect("a lock").extend(pending);
        Ok(())
    }

    fn list(&self) -> Vec<Row> {
        let committed = self.committed.lock().expect("a lock");
        committed.iter().chain(&self.pending).map(|n| row(*n)).collect()
    }

    fn add(&mut self, number: i64) -> Result<Response> {
        self.pending.push(number);
        if self.block == Block::None {
            self.commit()?;
        }
        Ok(Response::Tag(Tag::Insert(1)))
    }

    fn transaction(&mut self, verb: &str) -> Result<Response> {
        let failed = std::mem::replace(&mut self.block, Block::None) == Block::Failed;
        match verb {
            "begin" | "start" => {
                self.block = Block::Explicit;
                Ok(Response::Tag("BEGIN".into()))
            }
            "commit" if !failed => self.commit().map(|()| Response::Tag("COMMIT".into())),
            _ => {
                self.pending.clear();
                Ok(Response::Tag("ROLLBACK".into()))
            }
        }
    }
}

fn row(number: i64) -> Row {
    Box::new([Value::Int(number)])
}

fn number(words: &[String]) -> i64 {
    words.get(1).and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn data_type(name: &str) -> DataType {
    DataType::from_sql_name(name).unwrap_or(DataType::Text)
}

fn columns(types: impl IntoIterator<Item = DataType>) -> Option<Vec<ColumnDescription>> {
    let column = |(i, t)| ColumnDescription::expression(format!("c{i}"), t);
    Some(types.into_iter().enumerate().map(column).collect())
}

impl Session for FakeSession {
    type Parsed = Vec<String>;
    type Statement = Words;

    fn parse(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let words = |s: &str| s.split_whitespace().map(str::to_lowercase).collect();
        let statements: Vec<Vec<String>> = sql.split(';').map(words).collect();
        Ok(statements.into_iter().filter(|w| !w.is_empty()).collect())
    }

    fn prepare(
        &mut self,
        words: Vec<String>,
        declared: &[Option<DataType>],
    ) -> Result<Arc<Prepared<Words>>> {
        let verb = words[0].as_str();
        let placeholders = words.iter().filter(|w| w.starts_with('$'));
        let mut parameters: Vec<_> = placeholders.map(|_| DataType::Int8).collect();
        let columns = match verb {
            "echo" => {
                parameters = words[1..].iter().map(|w| data_type(w)).collect();
                for (parameter, declared) in parameters.iter_mut().zip(declared) {
                    parameter.clone_from(declared.as_ref().unwrap_or(&parameter.clone()));
                }
                columns(parameters.clone())
            }
            "select" | "rows" | "stream" | "list" | "pid" => columns([DataType::Int4]),
            "who" => columns([DataType::Text, DataType::Text, DataType::Bool]),
            "nonsense" => {
                let message = "syntax error at or near \"nonsense\"";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message).with_position(1));
            }
            _ => None,
        };
        Ok(Arc::new(Prepared::new(parameters, columns, Words(words))))
    }

    async fn execute(
        &mut self,
        prepared: &Arc<Prepared<Words>>,
        parameters: &[Value],
    ) -> Result<Response> {
        let words = &prepared.body.0;
        let verb = words[0].as_str();
        if self.block == Block::Failed && !matches!(verb, "commit" | "rollback") {
            let message = "current transaction is aborted";
            return Err(Error::new(SqlState::IN_FAILED_SQL_TRANSACTION, message));
        }
        let rows = match verb {
            "select" => vec![row(1)],
            "echo" => vec![parameters.into()],
            "rows" => (1..=number(words)).map(row).collect(),
            "stream" => {
                let tag = Tag::Select;
                let rows = match words[1].as_str() {
                    "stalled" => Box::pin(futures::stream::pending()),
                    until => streamed(until.to_owned()),
                };
                return Ok(Response::Stream { rows, tag });
            }
            "list" => self.list(),
            "pid" => vec![row(self.options.process_id.into())],
            "who" => vec![Box::from([
                Value::Text(self.options.user.as_str().into()),
                Value::Text(format!("{:?}", self.options.settings).into()),
                Value::Bool(self.options.tls),
            ])],
            "add" => {
                let given = parameters.first().and_then(Value::as_int);
                return self.add(given.unwrap_or(number(words)));
            }
            "begin" | "start" | "commit" | "rollback" => return self.transaction(verb),
            "wait" => {
                self.cancel.interrupt(std::future::pending::<()>()).await?;
                return Ok(Response::Tag("WAIT".into()));
            }
            "nap" => {
                let nap = tokio::time::sleep(Duration::from_millis(300));
                nap.await;
                return Ok(Response::Tag("NAP".into()));
            }
            "hang" => {
                std::future::pending::<()>().await;
                return Ok(Response::Tag("HANG".into()));
            }
            "deallocate" => {
                let name = words.get(1).cloned();
                let tag = "DEALLOCATE".into();
                return Ok(Response::Deallocate { name, tag });
            }
            "copy" if words[1] == "in" => {
                return Ok(Response::CopyIn { columns: 2, format: Format::Text });
            }
            "copy" if words[2] == "stalled" => {
                let chunks = Box::pin(futures::stream::pending());
                return Ok(Response::CopyOut { columns: 2, format: Format::Text, chunks });
            }
            "copy" => return Ok(copy_out(number(&words[1..]))),
            "patience" => {
                self.patience = Some(Duration::from_millis(number(words) as u64));
                return Ok(Response::Tag("PATIENCE".into()));
            }
            "fail" => return Err(elaborate_error()),
            "panic" => panic!("asked to"),
            "notice" => {
                let content = Error::new(SqlState(*b"00000"), "mind the gap");
                let severity = NoticeSeverity::Notice;
                self.notices.push(Notice { severity, content });
                return Ok(Response::Tag("NOTICE".into()));
            }
            "set" => {
                self.changes.push((words[1].clone(), words[2].clone()));
                return Ok(Response::Tag("SET".into()));
            }
            other => return Err(Error::unsupported(other)),
        };
        let tag = Tag::Select;
        Ok(Response::Rows { rows, tag, lease: None })
    }

    fn begin_implicit_block(&mut self) -> Result<()> {
        if self.block == Block::None {
            self.block = Block::Implicit;
        }
        Ok(())
    }

    async fn end_implicit_block(&mut self, commit: bool) -> Result<()> {
        if self.block != Block::Implicit {
            return Ok(());
        }
        self.block = Block::None;
        if commit {
            return self.commit();
        }
        self.pending.clear();
        Ok(())
    }

    async fn copy_in_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.copied.extend_from_slice(bytes);
        if bytes.starts_with(b"bad") {
            self.copied.clear();
            let message = "invalid input syntax";
            return Err(Error::new(SqlState::BAD_COPY_FILE_FORMAT, message));
        }
        Ok(())
    }

    async fn copy_in_done(&mut self) -> Result<Response> {
        let copied = std::mem::take(&mut self.copied);
        let rows = copied.iter().filter(|b| **b == b'\n').count();
        Ok(Response::Tag(Tag::Copy(rows as u64)))
    }

    fn copy_in_fail(&mut self, _: &Error) {
        self.copied.clear();
    }

    fn statement_failed(&mut self) {
        if self.block == Block::Explicit {
            self.block = Block::Failed;
            self.pending.clear();
        }
    }

    fn transaction_status(&self) -> TransactionStatus {
        match self.block {
            Block::None | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::Block,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.changes)
    }
}

/// Rows in threes, each three only after a wait: so many, without an end, or up to an error.
fn streamed(until: String) -> pgfront::RowStream {
    let batches = futures::stream::unfold(1i64, move |first| {
        let until = until.clone();
        async move {
            tokio::task::yield_now().await;
            let last = match until.as_str() {
                "endless" => i64::MAX,
                "fault" if first > 6 => return Some((Err(elaborate_error()), i64::MAX)),
                "fault" => 100,
                count => count.parse().expect("a number"),
            };
            let numbers = (first..first.saturating_add(3)).filter(|number| *number <= last);
            let batch: Vec<_> = numbers.map(row).collect();
            (!batch.is_empty()).then_some((Ok(batch), first + 3))
        }
    });
    Box::pin(batches)
}

/// Rows in threes; the last may be fewer.
fn copy_out(rows: i64) -> Response {
    let chunks = (1..=rows).step_by(3).map(move |first| {
        let (mut bytes, mut ends) = (String::new(), Vec::new());
        for n in first..=rows.min(first + 2) {
            bytes.push_str(&format!("{n}\tline\n"));
            ends.push(bytes.len());
        }
        let rows = ends.len() as u64;
        Ok(CopyChunk { bytes: bytes.into(), ends, rows })
    });
    Response::CopyOut {
        columns: 2,
        format: Format::Text,
        chunks: Box::pin(futures::stream::iter(chunks)),
    }
}

fn elaborate_error() -> Error {
    Error::new(SqlState::UNIQUE_VIOLATION, "duplicate key")
        .with_detail("Key (id)=(1) already exists.")
        .with_hint("Try another.")
        .with_table("accounts")
        .with_column("id")
        .with_constraint("accounts_pkey")
        .with_position(3)
}
