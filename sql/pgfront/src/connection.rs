//! One client's session, from its first command to its last.
//!
//! The loop takes one message at a time and answers into the output buffer. Replies are sent when
//! the client has asked to see them (Sync, Flush, a simple query) *and* no further whole message
//! waits, or when a statement does not finish at once: a batch of pipelined statements costs one
//! write, and a slow statement does not hold back the replies to the ones before it.
//!
//! Extended protocol: an error sends ErrorResponse, which is due at once, and skips to the next
//! Sync. Statements between two Syncs are one transaction. The common batch, a single Execute whose
//! Sync has arrived too, runs without an implicit block, so that the session may run it as one
//! request.
//!
//! ```text
//! Parse ─► statement ─Bind─► portal ─Execute─► rows … PortalSuspended ─Execute─► rows … complete
//! ```
//!
//! Departures: a limited Execute that fetches the last row completes at once, where PostgreSQL
//! would suspend once more; but not where rows are made as they are fetched.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::time;
use types::{DataType, Error, Result, SqlState, Value, Zone};

use crate::backend::{Prepared, Response, Session, Tag, TransactionStatus};
use crate::cancel::{Cancel, Registration};
use crate::copy;
use crate::encoding::Encoding;
use crate::failure::{Failure, aside};
use crate::fetch::{Fetch, Shape};
use crate::message::decode_text;
use crate::message::{Bind, Execute, Format, Formats, Parse, Target, kind, utf8};
use crate::options::Options;
use crate::reply::{self, RowDescription, Severity};
use crate::store::{Portal, PortalState, Statement, Store};
use crate::wire::{Closed, Frame, Wire, malformed};

/// The values of a longer Bind, or a longer text, take a while to be read.
const SHORT_MESSAGE_BYTES: usize = 64 << 10;

/// A finished statement: its tag, and how many rows this Execute sent.
struct Completion {
    tag: Tag,
    rows_sent: u64,
}

pub struct Connection<'a, N: Session> {
    wire: &'a mut Wire,
    session: N,
    registration: &'a Registration,
    store: Store<N::Statement>,
    /// After an error, until Sync.
    skipping: bool,
    /// The session was told that an implicit block begins, and not yet that it ends.
    in_implicit_block: bool,
    /// The client waits for what is in the output buffer.
    reply_due: bool,
    /// No command has come since the client was told to send its next.
    is_first: bool,
}

impl<'a, N: Session> Connection<'a, N> {
    pub fn new(
        wire: &'a mut Wire,
        session: N,
        registration: &'a Registration,
        options: &Options,
    ) -> Self {
        Connection {
            wire,
            session,
            registration,
            store: Store::new(options.bounds, &options.memory),
            skipping: false,
            in_implicit_block: false,
            reply_due: false,
            is_first: true,
        }
    }

    /// Serves the client until it leaves or has to.
    pub async fn run(&mut self) -> Closed {
        match self.serve().await {
            Err(closed) => closed,
            Ok(never) => match never {},
        }
    }

    async fn serve(&mut self) -> Result<std::convert::Infallible, Closed> {
        self.ready()?;
        loop {
            match self.wire.buffered_frame()? {
                Some(frame) => {
                    self.handle(frame).await?;
                    // A long pipeline must not gather its replies without end.
                    self.wire.flush_if_large().await?;
                }
                None => self.wait().await?,
            }
        }
    }

    /// Sends what is due and waits for the client, or for a reason to turn it away.
    async fn wait(&mut self) -> Result<(), Closed> {
        if self.reply_due {
            self.wire.flush().await?;
            self.reply_due = false;
        }
        let control = &self.registration.control;
        let patience = self.session.patience();
        tokio::select! {
            biased;
            filled = self.wire.fill() => filled?,
            () = control.woken() => self.check_eviction()?,
            () = self.session.notified() => self.put_notifications(),
            () = after(patience) => return Err(Closed::Fatal(self.gone_idle())),
        }
        // Whatever was to be cancelled while we waited is over.
        control.cancel.clear();
        self.check_eviction()
    }

    fn check_eviction(&self) -> Result<(), Closed> {
        self.registration.control.check().map_err(Closed::Fatal)
    }

    fn gone_idle(&self) -> Error {
        let (code, what) = match self.session.transaction_status() {
            TransactionStatus::Idle => (*b"57P05", "idle-session timeout"),
            _ => (*b"25P03", "idle-in-transaction timeout"),
        };
        Error::new(SqlState(code), format!("terminating connection due to {what}"))
    }

    async fn handle(&mut self, frame: Frame) -> Result<(), Closed> {
        match frame.kind {
            kind::TERMINATE => return Err(Closed::Normally),
            kind::SYNC => return self.sync().await,
            // The rest of a copy that has failed.
            kind::COPY_DATA | kind::COPY_DONE | kind::COPY_FAIL => return Ok(()),
            _ if self.skipping => return Ok(()),
            kind::FLUSH => {
                self.reply_due = true;
                return Ok(());
            }
            _ => self.check_eviction()?,
        }
        if std::mem::take(&mut self.is_first) && self.session.wants_to_catch_up() {
            let cancel = &self.registration.control.cancel;
            let caught = self.session.catch_up();
            let caught = finish(caught, self.wire, cancel, &mut self.reply_due).await;
            if caught.is_err() {
                return self.failed(caught, frame.kind == kind::QUERY).await;
            }
        }
        match frame.kind {
            kind::QUERY => return self.query(&frame).await,
            kind::FUNCTION_CALL => {
                let error = Error::unsupported("the function call protocol");
                return self.conclude(Err(error.into())).await;
            }
            _ => {}
        }
        let outcome = match frame.kind {
            kind::EXECUTE => self.execute(&frame).await,
            kind::BIND if self.wire.body(&frame).len() > SHORT_MESSAGE_BYTES => {
                aside(|| self.bind(&frame)).map_err(Failure::from)
            }
            kind::BIND => self.bind(&frame).map_err(Failure::from),
            kind::DESCRIBE => self.describe(&frame).map_err(Failure::from),
            kind::PARSE if self.wire.body(&frame).len() > SHORT_MESSAGE_BYTES => {
                aside(|| self.parse(&frame)).map_err(Failure::from)
            }
            kind::PARSE => self.parse(&frame).map_err(Failure::from),
            kind::CLOSE => self.close(&frame).map_err(Failure::from),
            other => Err(malformed(format!("invalid frontend message type {other}")).into()),
        };
        self.failed(outcome, false).await
    }

    /// Reports an error, if it is one: a simple query ends with it, and of others the rest up to
    /// Sync is skipped.
    async fn failed(
        &mut self,
        outcome: Result<(), Failure>,
        is_simple: bool,
    ) -> Result<(), Closed> {
        match outcome {
            Ok(()) => Ok(()),
            outcome if is_simple => self.conclude(outcome).await,
            Err(Failure::Connection(closed)) => Err(closed),
            Err(Failure::Statement(error)) => {
                self.skipping = true;
                // A client that asked by Flush, or not at all, waits for nothing else.
                self.reply_due = true;
                self.report(&error).await
            }
        }
    }

    /// Tells the client of an error, and the session that its transaction has failed.
    async fn report(&mut self, error: &Error) -> Result<(), Closed> {
        // What was ended by the shutdown is told so, and not that its client canceled it.
        if error.code() == SqlState::QUERY_CANCELED {
            self.check_eviction()?;
        }
        self.put_notices();
        let start = self.wire.output.len();
        reply::error_response(&mut self.wire.output, Severity::Error, error);
        self.wire.encode_messages(start);
        self.session.statement_failed();
        if std::mem::take(&mut self.in_implicit_block)
            && let Err(error) = self.session.end_implicit_block(false).await
        {
            tracing::warn!(%error, "rollback of an implicit block failed");
        }
        self.registration.control.cancel.clear();
        self.check_eviction()
    }

    async fn end_implicit_block(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.in_implicit_block) {
            let commit = self.session.end_implicit_block(true);
            let cancel = &self.registration.control.cancel;
            finish(commit, self.wire, cancel, &mut self.reply_due).await?;
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), Closed> {
        self.skipping = false;
        let ended = self.end_implicit_block().await;
        self.conclude(ended).await
    }

    /// The client may send its next command.
    fn ready(&mut self) -> Result<(), Closed> {
        self.put_notices();
        let start = self.wire.output.len();
        for (name, value) in self.session.take_parameter_changes() {
            reply::parameter_status(&mut self.wire.output, &name, &value).map_err(Closed::Fatal)?;
            if name == "client_encoding" {
                self.wire.encoding = Encoding::named(&value);
            }
        }
        self.wire.encode_messages(start);
        let status = self.session.transaction_status();
        if status == TransactionStatus::Idle {
            self.store.clear_portals();
            self.put_notifications();
        }
        reply::ready_for_query(&mut self.wire.output, status);
        self.is_first = true;
        self.reply_due = true;
        self.check_eviction()
    }

    fn put_notifications(&mut self) {
        let start = self.wire.output.len();
        for notification in self.session.take_notifications() {
            reply::notification_response(&mut self.wire.output, &notification);
            self.reply_due = true;
        }
        self.wire.encode_messages(start);
    }

    fn put_notices(&mut self) {
        let start = self.wire.output.len();
        for notice in self.session.take_notices() {
            reply::notice_response(&mut self.wire.output, &notice);
        }
        self.wire.encode_messages(start);
    }

    async fn query(&mut self, frame: &Frame) -> Result<(), Closed> {
        self.store.clear_unnamed();
        let outcome = self.run_script(frame).await;
        self.conclude(outcome).await
    }

    /// Reports how a command ended and asks for the next.
    async fn conclude(&mut self, outcome: Result<(), Failure>) -> Result<(), Closed> {
        match outcome {
            Ok(()) => {}
            Err(Failure::Statement(error)) => self.report(&error).await?,
            Err(Failure::Connection(closed)) => return Err(closed),
        }
        self.ready()
    }

    /// All statements of a simple query. The last one's tag waits for the commit.
    async fn run_script(&mut self, frame: &Frame) -> Result<(), Failure> {
        let (wire, session) = (&self.wire, &mut self.session);
        let mut read = || session.parse(decode_text(&wire.text_body(frame)?)?);
        let statements = match wire.body(frame).len() > SHORT_MESSAGE_BYTES {
            true => aside(read)?,
            false => read()?,
        };
        let mut left = statements.len();
        if left == 0 {
            self.end_implicit_block().await?;
            self.wire.output.extend_from_slice(&reply::EMPTY_QUERY_RESPONSE);
        }
        let several = left > 1;
        for statement in statements {
            self.check_eviction()?;
            if several {
                self.session.begin_implicit_block()?;
                self.in_implicit_block = true;
            }
            let completion = self.run_simple(statement).await?;
            left -= 1;
            if left == 0 {
                self.end_implicit_block().await?;
            }
            self.complete(&completion);
        }
        Ok(())
    }

    async fn run_simple(&mut self, parsed: N::Parsed) -> Result<Completion, Failure> {
        let prepared = self.session.prepare(parsed, &[])?;
        if !prepared.parameters.is_empty() {
            return Err(
                Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1").into()
            );
        }
        let execution = self.session.execute(&prepared, &[]);
        let cancel = &self.registration.control.cancel;
        let response = finish(execution, self.wire, cancel, &mut self.reply_due).await?;
        let formats = Formats::All(prepared.format);
        let (mut rows, tag) = match response {
            Response::Rows { rows, tag, lease } => (Fetch::whole(rows, lease), tag),
            Response::Stream { rows, tag } => (Fetch::stream(rows), tag),
            other => return self.finish_without_rows(other).await,
        };
        let start = self.wire.output.len();
        prepared.description().put(&mut self.wire.output, &formats)?;
        self.wire.encode_messages(start);
        let zone = self.session.zone();
        let shape = Shape { columns: prepared.columns(), formats: &formats, zone: &zone };
        let rows_sent = rows.send(self.wire, cancel, &shape, None).await?;
        Ok(Completion { tag, rows_sent })
    }

    /// The responses that are the same in both protocols.
    async fn finish_without_rows(&mut self, response: Response) -> Result<Completion, Failure> {
        let cancel = &self.registration.control.cancel;
        let response = match response {
            Response::CopyIn { columns, format } => {
                let shape = (columns, format);
                copy::receive(self.wire, &mut self.session, cancel, shape).await?
            }
            other => other,
        };
        let tag = match response {
            Response::Tag(tag) => tag,
            Response::Deallocate { name, tag } => {
                self.store.deallocate(name.as_deref())?;
                tag
            }
            Response::CopyOut { columns, format, chunks } => {
                Tag::Copy(copy::send(self.wire, cancel, (columns, format), chunks).await?)
            }
            Response::Rows { .. } | Response::Stream { .. } | Response::CopyIn { .. } => {
                let message = "a COPY did not end with a tag";
                return Err(Error::new(SqlState::INTERNAL_ERROR, message).into());
            }
        };
        Ok(Completion { tag, rows_sent: 0 })
    }

    fn complete(&mut self, completion: &Completion) {
        self.put_notices();
        reply::command_complete(&mut self.wire.output, &completion.tag, completion.rows_sent);
    }

    fn parse(&mut self, frame: &Frame) -> Result<()> {
        let body = self.wire.text_body(frame)?;
        let message = Parse::decode(&body)?;
        let parameter_types = message
            .parameter_types
            .iter()
            .map(|&oid| match self.session.type_of_oid(oid) {
                Some(known) => Ok(Some(known)),
                None => declared_type(oid),
            })
            .collect::<Result<Vec<_>>>()?;
        let mut statements = self.session.parse(message.sql)?;
        if statements.len() > 1 {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let statement: Statement<N::Statement> = match statements.pop() {
            Some(parsed) => Some(self.session.prepare(parsed, &parameter_types)?),
            None => None,
        };
        self.store.insert_statement(message.name, statement, message.sql)?;
        self.wire.output.extend_from_slice(&reply::PARSE_COMPLETE);
        Ok(())
    }

    fn bind(&mut self, frame: &Frame) -> Result<()> {
        let encoding = self.wire.encoding;
        let body = self.wire.text_body(frame)?;
        let message = Bind::decode(&body)?;
        let mut parameters = self.store.take_parameters(message.portal);
        let statement = self.store.statement(message.statement)?.clone();
        let expected = match &statement {
            Some(prepared) => prepared.parameters.as_slice(),
            None => &[],
        };
        if message.parameter_count != expected.len() {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                    message.parameter_count,
                    message.statement,
                    expected.len()
                ),
            ));
        }
        let zone = self.session.zone();
        let formats = &message.parameter_formats;
        formats.check_count(expected.len(), "parameter")?;
        let mut body = message.body;
        for (index, data_type) in expected.iter().enumerate() {
            let format = (formats.get(index), &zone);
            let value = parameter(body.value()?, data_type, format, encoding)
                .map_err(|error| in_parameter(error, index))?;
            parameters.push(value);
        }
        let formats = Bind::result_formats(body)?;
        let columns = statement.as_deref().map_or(0, |s| s.columns().len());
        formats.check_count(columns, "result")?;
        if !message.portal.is_empty() && self.session.cursor(message.portal).is_some() {
            let what = format!("cursor \"{}\" already exists", message.portal);
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, what));
        }
        let portal = Portal { statement, parameters, formats, state: PortalState::Ready };
        self.store.insert_portal(message.portal, portal)?;
        self.wire.output.extend_from_slice(&reply::BIND_COMPLETE);
        Ok(())
    }

    fn describe(&mut self, frame: &Frame) -> Result<()> {
        let start = self.wire.output.len();
        let body = self.wire.text_body(frame)?.into_owned();
        self.put_target(Target::decode(&body)?)?;
        self.wire.encode_messages(start);
        Ok(())
    }

    fn put_target(&mut self, target: Target<'_>) -> Result<()> {
        match target {
            Target::Statement(name) => {
                let statement = self.store.statement(name)?;
                let parameters = statement.as_deref().map_or(&[][..], |s| s.parameters.as_slice());
                let statement = statement.clone();
                let out = &mut self.wire.output;
                reply::parameter_description(out, parameters)?;
                put_description(out, &statement, &Formats::All(Format::Text))
            }
            Target::Portal(name) => {
                let portal = match (self.store.portal(name), self.session.cursor(name)) {
                    (Err(_), Some((columns, format))) => {
                        let description = RowDescription::new(&columns);
                        return description.put(&mut self.wire.output, &Formats::All(format));
                    }
                    (portal, _) => portal?,
                };
                put_description(&mut self.wire.output, &portal.statement, &portal.formats)
            }
        }
    }

    /// Closing what does not exist is no error.
    fn close(&mut self, frame: &Frame) -> Result<()> {
        let body = self.wire.text_body(frame)?;
        match Target::decode(&body)? {
            Target::Statement(name) => self.store.remove_statement(name),
            Target::Portal(name) => {
                self.store.remove_portal(name);
                self.session.close_cursor(name);
            }
        }
        self.wire.output.extend_from_slice(&reply::CLOSE_COMPLETE);
        Ok(())
    }

    async fn execute(&mut self, frame: &Frame) -> Result<(), Failure> {
        let ends_batch = self.ends_batch();
        let body = self.wire.text_body(frame)?;
        let message = Execute::decode(&body)?;
        let max_rows = message.max_rows;
        let cancel = &self.registration.control.cancel;
        let portal = self.store.portal_mut(message.portal)?;
        let Some(prepared) = portal.statement.clone() else {
            self.wire.output.extend_from_slice(&reply::EMPTY_QUERY_RESPONSE);
            return Ok(());
        };
        let first_run = matches!(portal.state, PortalState::Ready);
        let may_stay = first_run && max_rows.is_some() && !message.portal.is_empty();
        let staying = may_stay.then(|| message.portal.to_owned());
        let (mut rows, tag) = match std::mem::replace(&mut portal.state, PortalState::Done) {
            PortalState::Suspended { rows, tag } => (rows, tag),
            PortalState::Done => (finished_rows(&prepared, message.portal)?, Tag::Select),
            PortalState::Ready => {
                if !ends_batch || self.in_implicit_block {
                    self.session.begin_implicit_block()?;
                    self.in_implicit_block = true;
                }
                let execution = self.session.execute(&prepared, &portal.parameters);
                match finish(execution, self.wire, cancel, &mut self.reply_due).await? {
                    Response::Rows { rows, tag, lease } => (Fetch::whole(rows, lease), tag),
                    Response::Stream { rows, tag } => (Fetch::stream(rows), tag),
                    other => {
                        let completion = self.finish_without_rows(other).await?;
                        self.complete(&completion);
                        return Ok(());
                    }
                }
            }
        };
        let zone = self.session.zone();
        let shape = Shape { columns: prepared.columns(), formats: &portal.formats, zone: &zone };
        let rows_sent = rows.send(self.wire, cancel, &shape, max_rows).await?;
        if rows.may_have_more() {
            portal.state = PortalState::Suspended { rows, tag };
            if let Some(name) = staying {
                self.store.portal_is_suspended(&name);
            }
            self.wire.output.extend_from_slice(&reply::PORTAL_SUSPENDED);
        } else {
            self.complete(&Completion { tag, rows_sent });
        }
        Ok(())
    }

    /// Whether the Sync that ends this batch has arrived, and nothing executes before it.
    fn ends_batch(&self) -> bool {
        self.wire
            .waiting_kinds()
            .find(|kind| !matches!(*kind, kind::CLOSE | kind::DESCRIBE | kind::FLUSH))
            == Some(kind::SYNC)
    }
}

/// Awaits the session. If it does not finish at once, sends the replies that are due meanwhile, and
/// looks whether the client is still there: if not, the session is asked to give up what can be
/// given up. It is awaited all the same, since what is on its way into the ledger is not.
async fn finish<F, T>(
    work: F,
    wire: &mut Wire,
    cancel: &Cancel,
    reply_due: &mut bool,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T>>,
{
    let mut work = pin!(work);
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(result) = first {
        return Ok(result?);
    }
    let mut closed = None;
    if std::mem::take(reply_due) {
        match select(work.as_mut(), pin!(wire.flush())).await {
            Either::Left((result, flush)) => {
                flush.await?;
                return Ok(result?);
            }
            Either::Right((flushed, _)) => closed = flushed.err().map(Closed::Io),
        }
    }
    let closed = match closed {
        Some(closed) => closed,
        None => match select(work.as_mut(), pin!(wire.hung_up())).await {
            Either::Left((result, _)) => return Ok(result?),
            Either::Right((closed, _)) => closed,
        },
    };
    cancel.request();
    _ = work.await;
    Err(closed.into())
}

async fn after(patience: Option<Duration>) {
    match patience {
        Some(patience) => time::sleep(patience).await,
        None => std::future::pending().await,
    }
}

/// Executing a finished query again finds no more rows; any other statement runs once.
fn finished_rows<B>(prepared: &Prepared<B>, portal: &str) -> Result<Fetch> {
    if prepared.columns.is_some() {
        return Ok(Fetch::whole(Vec::new(), None));
    }
    Err(Error::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("portal \"{portal}\" cannot be run"),
    ))
}

fn put_description<B>(
    out: &mut Vec<u8>,
    statement: &Statement<B>,
    formats: &Formats,
) -> Result<()> {
    match statement {
        Some(prepared) if prepared.columns.is_some() => prepared.description().put(out, formats),
        _ => {
            out.extend_from_slice(&reply::NO_DATA);
            Ok(())
        }
    }
}

/// A parameter's type as Parse declares it; `None` leaves it to the server.
fn declared_type(oid: u32) -> Result<Option<DataType>> {
    match DataType::from_oid(oid) {
        Some(DataType::Unknown) => Ok(None),
        Some(known) => Ok(Some(known)),
        None => Err(Error::unsupported(format!("the type with OID {oid}"))),
    }
}

fn parameter(
    bytes: Option<&[u8]>,
    data_type: &DataType,
    (format, zone): (Format, &Zone),
    encoding: Option<&Encoding>,
) -> Result<Value> {
    let decoded = match (encoding, bytes) {
        (Some(encoding), Some(bytes)) if format == Format::Text || data_type.is_string() => {
            Some(encoding.decode(bytes)?)
        }
        _ => None,
    };
    match (decoded.as_deref().or(bytes), format) {
        (None, _) => Ok(Value::Null),
        (Some(bytes), Format::Text) => Value::read_text_in(data_type, utf8(bytes)?, zone),
        (Some(bytes), Format::Binary) => Value::read_binary(data_type, bytes),
    }
}

/// Says which parameter an error is about, where the error does not say more.
fn in_parameter(error: Error, index: usize) -> Error {
    if error.fields().detail.is_some() {
        return error;
    }
    error.with_detail(format!("In parameter ${}.", index + 1))
}
