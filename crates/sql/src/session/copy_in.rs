//! COPY FROM STDIN within a session: bytes to values, values to one ledger transaction.

use std::sync::Arc;

use concurrency::{Load, Work};
use engine::transaction::Asked;
use kit::pool::Lease;
use procedure::draws::Draws;
use procedure::{Interrupt, Procedure, ROW_WEIGHT};
use types::{Error, Result, SqlState, Value, Zone};

use super::guard::{Guard, SHORT_TEXT_BYTES, aside};
use super::{Answer, Session, Tag};
use crate::copy::binary::{BinaryFields, BinaryParser};
use crate::copy::{CopyFormat, CopyOptions, CopyParser, Fields};

/// Bytes that are taken between two looks at whether to go on.
const PIECE_BYTES: usize = 64 << 10;

/// What a row takes while it is encoded for the ledger and handed to the engine: so often itself.
const COPIES: u64 = 3;

pub struct CopyIn {
    text: String,
    /// Inserts one row; its parameters are the columns that COPY names.
    row: Arc<Procedure>,
    parser: Parser,
    /// What times without an offset are read in.
    zone: Zone,
    rows: Rows,
    bytes: usize,
    /// The transaction's data has to fit an envelope.
    bytes_max: usize,
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
        Ok(self.lease.cover(self.bytes())?)
    }

    fn bytes(&self) -> u64 {
        self.weight + (self.rows.len() * ROW_WEIGHT) as u64
    }
}

fn too_much(bytes_max: u64, parameter: &str) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too much data for one COPY")
        .with_detail(format!(
            "By the ledger's parameter {parameter} a transaction has at most {bytes_max} bytes."
        ))
        .with_hint("Split the data into several COPY statements.")
}

impl CopyIn {
    pub fn new(
        (text, bytes_max): (String, usize),
        row: Arc<Procedure>,
        (options, zone): (&CopyOptions, &Zone),
        guard: &Arc<Guard>,
    ) -> CopyIn {
        let weight_max = guard.budget().bytes_max;
        let rows = Rows { rows: Vec::new(), weight: 0, weight_max, lease: guard.lease() };
        let parser = match options.format {
            CopyFormat::Binary => Parser::Binary(BinaryParser::new(row.visible_parameters().len())),
            CopyFormat::Text | CopyFormat::Csv => Parser::Text(CopyParser::new(options)),
        };
        let guard = Arc::clone(guard);
        CopyIn { text, row, parser, zone: zone.clone(), rows, bytes: 0, bytes_max, guard }
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

    pub fn row(&self) -> &Arc<Procedure> {
        &self.row
    }

    /// The data are at their end: how many rows they are.
    pub fn end(&mut self) -> Result<usize> {
        let (row, rows) = (&self.row, &mut self.rows);
        self.parser.take(None, (row, &self.zone), rows)?;
        Ok(self.rows.rows.len())
    }

    /// Puts values behind those of each row.
    pub fn extend(&mut self, more: Vec<Vec<Value>>) -> Result<()> {
        let Rows { rows, weight, .. } = &mut self.rows;
        for (row, more) in rows.iter_mut().zip(more) {
            *weight += more.iter().map(|value| value.weight() as u64).sum::<u64>();
            *row = std::mem::take(row).into_iter().chain(more).collect();
        }
        self.rows.check()
    }

    /// What the ledger will hold, what runs, and what covers both until it is answered.
    pub fn finish(mut self, draws: &mut Draws) -> Result<(Asked, Load, Lease)> {
        self.rows.lease.cover(COPIES * self.rows.bytes())?;
        self.guard.check()?;
        let asked = Asked::load(&self.text, &self.rows.rows);
        self.guard.check()?;
        let rows = self.rows.rows.into_iter().map(|values| draws.arguments(&self.row, values));
        let rows = rows.collect::<Result<_>>()?;
        Ok((asked, Load { procedure: self.row, rows }, self.rows.lease))
    }
}

impl Session {
    pub fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.copy {
            Some(copy) => aside(bytes.len() <= SHORT_TEXT_BYTES, || copy.push(bytes)),
            None => Err(Error::new(SqlState::PROTOCOL_VIOLATION, "no COPY is in progress")),
        }
    }

    pub async fn copy_done(&mut self) -> Result<Answer> {
        let mut copy = self
            .copy
            .take()
            .ok_or_else(|| Error::new(SqlState::PROTOCOL_VIOLATION, "no COPY is in progress"))?;
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        let (rows, row) = (aside(false, || copy.end())?, Arc::clone(copy.row()));
        if !row.sequences.is_empty() {
            copy.extend(self.bring_for_rows(&row, rows).await?)?;
        }
        let mut draws = self.draws(&row)?;
        let (asked, load, _lease) = aside(false, || copy.finish(&mut draws))?;
        let result = self.write(asked, Work::Load(load), draws).await?;
        Ok(Answer::Tag(Tag::Counted("COPY".into(), result.count)))
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
