//! COPY FROM STDIN within a session: bytes to values, values to one ledger transaction, or to
//! several where `tally.copy_rows_per_block` says how many rows each has.

use std::sync::Arc;

use concurrency::{Load, Work};
use engine::transaction::Asked;
use kit::pool::Lease;
use procedure::draws::Draws;
use procedure::{INSERT_UNITS, Interrupt, Procedure, ROW_WEIGHT};
use types::{Error, Result, SqlState, Value, Zone};

use super::Session;
use super::answer::{Answer, Tag};
use super::guard::{Guard, SHORT_TEXT_BYTES, aside};
use crate::copy::binary::{BinaryFields, BinaryParser};
use crate::copy::{CopyFormat, CopyOptions, CopyParser, Fields};
use crate::settings::COPY_ROWS_PER_BLOCK;

/// Bytes that are taken between two looks at whether to go on.
const PIECE_BYTES: usize = 64 << 10;

/// What a row takes while it is encoded for the ledger and handed to the engine: so often itself.
const COPIES: u64 = 3;

pub struct CopyIn {
    text: String,
    /// Inserts one row; its parameters are the columns that COPY names.
    row: Arc<Procedure>,
    /// Looks at one when all of a block are there.
    at_end: Option<Arc<Procedure>>,
    parser: Parser,
    /// What times without an offset are read in.
    zone: Zone,
    rows: Rows,
    /// Of the data that is not in the ledger yet.
    bytes: usize,
    /// The transaction's data has to fit an envelope.
    bytes_max: usize,
    /// So many rows become a transaction of their own; `None`: all together.
    block_rows: Option<usize>,
    /// Rows that are in the ledger already.
    committed: u64,
    guard: Arc<Guard>,
}

enum Parser {
    Text(CopyParser),
    Binary(BinaryParser),
}

impl Parser {
    /// Takes a piece of the data; `None`: they are at their end.
    fn take(
        &mut self,
        piece: Option<&[u8]>,
        (row, zone): (&Procedure, &Zone),
        rows: &mut Rows,
    ) -> Result<()> {
        let taken = match self {
            Parser::Text(parser) => {
                let mut keep = |fields: &Fields<'_>| rows.push(values_of(row, fields, zone)?);
                match piece {
                    Some(piece) => parser.push(piece, &mut keep),
                    None => parser.finish(&mut keep),
                }
            }
            Parser::Binary(parser) => match piece {
                Some(piece) => {
                    parser.push(piece, &mut |fields| rows.push(values_of_binary(row, fields)?))
                }
                None => parser.finish(),
            },
        };
        taken.map_err(|error| at_line(error, self.line()))
    }

    /// Of the last row.
    fn line(&self) -> u64 {
        match self {
            Parser::Text(parser) => parser.line(),
            Parser::Binary(parser) => parser.row(),
        }
    }

    fn partial_bytes(&self) -> usize {
        match self {
            Parser::Text(parser) => parser.partial_bytes(),
            Parser::Binary(parser) => parser.partial_bytes(),
        }
    }
}

/// The rows so far, what they weigh, and what covers them.
struct Rows {
    rows: Vec<Box<[Value]>>,
    weight: u64,
    /// Of a transaction of the ledger.
    weight_max: u64,
    rows_max: u64,
    lease: Lease,
}

impl Rows {
    /// What the block would refuse is refused before it takes memory.
    fn push(&mut self, row: Box<[Value]>) -> Result<()> {
        self.weight += row.iter().map(|value| value.weight() as u64).sum::<u64>();
        self.check()?;
        self.rows.push(row);
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        if self.weight > self.weight_max {
            return Err(too_much(self.weight_max, "transaction_bytes_max"));
        }
        if self.rows.len() as u64 > self.rows_max {
            return Err(too_many(self.rows_max));
        }
        Ok(self.lease.cover(self.bytes())?)
    }

    fn bytes(&self) -> u64 {
        self.weight + (self.rows.len() * ROW_WEIGHT) as u64
    }

    /// The first so many, with what covers them.
    fn take(&mut self, count: usize) -> Rows {
        let rest = self.rows.split_off(count.min(self.rows.len()));
        let rows = std::mem::replace(&mut self.rows, rest);
        let values = rows.iter().flatten();
        let weight = values.map(|value| value.weight() as u64).sum();
        self.weight -= weight;
        let bytes = weight + (rows.len() * ROW_WEIGHT) as u64;
        let (weight_max, rows_max) = (self.weight_max, self.rows_max);
        Rows { rows, weight, weight_max, rows_max, lease: self.lease.split(bytes) }
    }

    /// Puts values behind those of each row.
    fn extend(&mut self, more: Vec<Vec<Value>>) -> Result<()> {
        for (row, more) in self.rows.iter_mut().zip(more) {
            self.weight += more.iter().map(|value| value.weight() as u64).sum::<u64>();
            *row = std::mem::take(row).into_iter().chain(more).collect();
        }
        self.check()
    }

    /// What the ledger will hold, what runs, and what covers both until it is answered.
    fn load(
        mut self,
        CopyIn { text, row, at_end, guard, .. }: &CopyIn,
        draws: &mut Draws,
    ) -> Result<(Asked, Load, Lease)> {
        self.lease.cover(COPIES * self.bytes())?;
        guard.check()?;
        let asked = Asked::load(text, &self.rows);
        guard.check()?;
        let rows = self.rows.into_iter().map(|values| draws.arguments(row, values));
        let rows = rows.collect::<Result<_>>()?;
        let (procedure, at_end) = (Arc::clone(row), at_end.clone());
        Ok((asked, Load { procedure, at_end, rows }, self.lease))
    }
}

fn no_copy() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "no COPY is in progress")
}

fn too_much(bytes_max: u64, parameter: &str) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too much data for one COPY")
        .with_detail(format!(
            "By the ledger's parameter {parameter} a transaction has at most {bytes_max} bytes."
        ))
        .with_hint(split())
}

/// The block would refuse them, too, once it had written as many.
fn too_many(rows_max: u64) -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "too many rows for one COPY")
        .with_detail(format!(
            "By the ledger's parameter transaction_units_max a transaction writes fewer than \
             {rows_max} rows."
        ))
        .with_hint(format!("{} The ledger's owner can SET ledger.transaction_units_max.", split()))
}

fn split() -> String {
    format!(
        "Split the data into several COPY statements, or SET {COPY_ROWS_PER_BLOCK}, by which a \
         COPY outside of a transaction is several."
    )
}

impl CopyIn {
    pub fn new(
        (text, bytes_max): (String, usize),
        (row, at_end): (Arc<Procedure>, Option<Arc<Procedure>>),
        (options, zone): (&CopyOptions, &Zone),
        block_rows: Option<usize>,
        guard: &Arc<Guard>,
    ) -> CopyIn {
        let weight_max = guard.budget().bytes_max;
        let rows_max = match block_rows {
            Some(_) => u64::MAX,
            None => guard.budget().units_max / INSERT_UNITS,
        };
        let rows = Rows { rows: Vec::new(), weight: 0, weight_max, rows_max, lease: guard.lease() };
        let parser = match options.format {
            CopyFormat::Binary => Parser::Binary(BinaryParser::new(row.visible_parameters().len())),
            CopyFormat::Text | CopyFormat::Csv => Parser::Text(CopyParser::new(options)),
        };
        let guard = Arc::clone(guard);
        let (zone, bytes, committed) = (zone.clone(), 0, 0);
        CopyIn {
            text,
            row,
            at_end,
            parser,
            zone,
            rows,
            bytes,
            bytes_max,
            block_rows,
            committed,
            guard,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len();
        if self.bytes > self.bytes_max {
            return Err(too_much(self.bytes_max as u64, "envelope_bytes_max"));
        }
        let (row, rows) = (&self.row, &mut self.rows);
        for piece in bytes.chunks(PIECE_BYTES) {
            self.guard.check()?;
            self.parser.take(Some(piece), (row, &self.zone), rows)?;
            rows.lease.cover(rows.bytes() + self.parser.partial_bytes() as u64)?;
        }
        Ok(())
    }

    /// The data are at their end.
    fn end(&mut self) -> Result<()> {
        self.parser.take(None, (&self.row, &self.zone), &mut self.rows)
    }

    /// The next rows that are a transaction of their own, once they are there.
    fn next_block(&mut self) -> Option<Rows> {
        let count = self.block_rows.filter(|count| self.rows.rows.len() >= *count)?;
        self.bytes = self.parser.partial_bytes();
        Some(self.rows.take(count))
    }

    /// An error that leaves rows in the ledger says so.
    fn told(&self, error: Error) -> Error {
        if self.committed == 0 {
            return error;
        }
        let before = error.fields().detail.as_ref().map(|detail| format!("{detail} "));
        let (before, rows) = (before.unwrap_or_default(), self.committed);
        error.with_detail(format!(
            "{before}The first {rows} rows are in the ledger, as {COPY_ROWS_PER_BLOCK} asks."
        ))
    }
}

impl Session {
    pub(super) fn begin_copy(
        &mut self,
        text: &str,
        columns: usize,
        programs: (Arc<Procedure>, Option<Arc<Procedure>>),
        options: &CopyOptions,
    ) -> Result<Answer> {
        self.check_copy(options)?;
        let engine = &self.database.engine;
        self.guard.set_budget(engine.budget());
        let text_and_bytes = (text.to_owned(), engine.envelope_bytes_max());
        let how = (options, &self.info.zone);
        let block_rows = self.copy_block_rows();
        let copy = CopyIn::new(text_and_bytes, programs, how, block_rows, &self.guard);
        self.copy = Some(copy);
        let is_binary = options.format == CopyFormat::Binary;
        Ok(Answer::CopyIn { columns, is_binary })
    }

    pub async fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        let mut copy = self.copy.take().ok_or_else(no_copy)?;
        aside(bytes.len() <= SHORT_TEXT_BYTES, || copy.push(bytes)).map_err(|e| copy.told(e))?;
        while let Some(rows) = copy.next_block() {
            self.copy_rows(&mut copy, rows).await?;
        }
        self.copy = Some(copy);
        Ok(())
    }

    pub async fn copy_done(&mut self) -> Result<Answer> {
        let mut copy = self.copy.take().ok_or_else(no_copy)?;
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        aside(false, || copy.end()).map_err(|error| copy.told(error))?;
        while let Some(rows) = copy.next_block() {
            self.copy_rows(&mut copy, rows).await?;
        }
        let rest = copy.rows.take(usize::MAX);
        if copy.committed == 0 || !rest.rows.is_empty() {
            self.copy_rows(&mut copy, rest).await?;
        }
        Ok(Answer::Tag(Tag::Counted("COPY".into(), copy.committed)))
    }

    /// Some of the rows, as one statement.
    async fn copy_rows(&mut self, copy: &mut CopyIn, rows: Rows) -> Result<()> {
        let written = self.load(copy, rows).await;
        copy.committed += written.map_err(|error| copy.told(error))?;
        Ok(())
    }

    async fn load(&mut self, copy: &CopyIn, mut rows: Rows) -> Result<u64> {
        let row = &copy.row;
        if !row.sequences.is_empty() {
            rows.extend(self.bring_for_rows(row, rows.rows.len()).await?)?;
        }
        let mut draws = self.draws(row)?;
        let loaded = aside(false, || rows.load(copy, &mut draws));
        let (asked, load, _lease) = loaded?;
        Ok(self.write(asked, Work::Load(load), draws).await?.count)
    }

    /// How many rows of a COPY are a transaction; a block of SQL's, or a key, holds them together.
    pub(super) fn copy_block_rows(&self) -> Option<usize> {
        let is_alone = self.transaction.is_none() && !self.settings.has_transaction_key();
        self.settings.copy_rows_per_block().filter(|_| is_alone)
    }

    /// What the client sends and is sent is in its own encoding, but for values in binary format.
    pub(super) fn check_copy(&self, options: &CopyOptions) -> Result<()> {
        let (_, encoding) = self.settings.show("client_encoding")?;
        let is_plain = ["UTF8", "SQL_ASCII"].contains(&encoding.as_str());
        match options.format == CopyFormat::Binary && !is_plain {
            false => Ok(()),
            true => Err(Error::unsupported(format_args!("COPY in binary format in {encoding}"))
                .with_hint("SET client_encoding TO UTF8, or use the text format.")),
        }
    }

    pub fn copy_failed(&mut self) {
        self.copy = None;
    }
}

fn values_of(row: &Procedure, fields: &Fields<'_>, zone: &Zone) -> Result<Box<[Value]>> {
    let columns = row.visible_parameters();
    if let Some(missing) = columns.get(fields.len()) {
        return Err(Error::new(
            SqlState::BAD_COPY_FILE_FORMAT,
            format!("missing data for column \"{}\"", missing.name),
        ));
    }
    if fields.len() > columns.len() {
        return Err(Error::new(
            SqlState::BAD_COPY_FILE_FORMAT,
            "extra data after last expected column",
        ));
    }
    let values = fields.iter().zip(columns).map(|(field, column)| match field {
        Some(text) => Value::read_text_in(&column.data_type, text, zone)
            .map_err(|error| error.with_column(column.name.clone())),
        None => Ok(Value::Null),
    });
    values.collect()
}

/// The parser has counted the fields.
fn values_of_binary(row: &Procedure, fields: &BinaryFields<'_>) -> Result<Box<[Value]>> {
    let values = fields.iter().zip(row.visible_parameters()).map(|(field, column)| match field {
        Some(bytes) => Value::read_binary(&column.data_type, bytes)
            .map_err(|error| error.with_column(column.name.clone())),
        None => Ok(Value::Null),
    });
    values.collect()
}

fn at_line(error: Error, line: u64) -> Error {
    if error.fields().detail.is_some() {
        error
    } else {
        error.with_detail(format!("COPY line {line}."))
    }
}
