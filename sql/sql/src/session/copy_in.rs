//! COPY FROM STDIN within a session: bytes to values, values to one ledger transaction, or to
//! several where `tally.copy_rows_per_block` says how many rows each has.

use std::sync::Arc;

use concurrency::Load;
use engine::transaction::Asked;
use kit::pool::Lease;
use procedure::draws::Draws;
use procedure::{INSERT_UNITS, Interrupt, Procedure, ROW_WEIGHT};
use types::{Error, Result, SqlState, Value, Zone};

use super::guard::Guard;
use crate::copy::binary::{BinaryFields, BinaryParser};
use crate::copy::{CopyFormat, CopyOptions, CopyParser, Fields};
use crate::settings::COPY_ROWS_PER_BLOCK;

/// Bytes that are taken between two looks at whether to go on.
const PIECE_BYTES: usize = 64 << 10;

/// What a row takes while it is encoded for the ledger and handed to the engine: so often itself.
const COPIES: u64 = 3;

pub struct CopyIn {
    pub(super) text: String,
    /// Inserts one row; its parameters are the columns that COPY names.
    pub(super) row: Arc<Procedure>,
    /// Looks at one when all of a block are there.
    pub(super) at_end: Option<Arc<Procedure>>,
    pub(super) parser: Parser,
    /// What times without an offset are read in.
    pub(super) zone: Zone,
    pub(super) rows: Rows,
    /// Of the data that is not in the ledger yet.
    pub(super) bytes: usize,
    /// The transaction's data has to fit an envelope.
    pub(super) bytes_max: usize,
    /// So many rows become a transaction of their own; `None`: all together.
    pub(super) block_rows: Option<usize>,
    /// Rows that are in the ledger already.
    pub(super) committed: u64,
    pub(super) guard: Arc<Guard>,
}

pub(super) enum Parser {
    Text(CopyParser),
    Binary(BinaryParser),
}

impl Parser {
    /// Takes a piece of the data; `None`: they are at their end.
    pub(super) fn take(
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
    pub(super) fn line(&self) -> u64 {
        match self {
            Parser::Text(parser) => parser.line(),
            Parser::Binary(parser) => parser.row(),
        }
    }

    pub(super) fn partial_bytes(&self) -> usize {
        match self {
            Parser::Text(parser) => parser.partial_bytes(),
            Parser::Binary(parser) => parser.partial_bytes(),
        }
    }
}

/// The rows so far, what they weigh, and what covers them.
pub(super) struct Rows {
    pub(super) rows: Vec<Box<[Value]>>,
    pub(super) weight: u64,
    /// Of a transaction of the ledger.
    pub(super) weight_max: u64,
    pub(super) rows_max: u64,
    pub(super) lease: Lease,
}

impl Rows {
    /// What the block would refuse is refused before it takes memory.
    pub(super) fn push(&mut self, row: Box<[Value]>) -> Result<()> {
        self.weight += row.iter().map(|value| value.weight() as u64).sum::<u64>();
        self.check()?;
        self.rows.push(row);
        Ok(())
    }

    pub(super) fn check(&mut self) -> Result<()> {
        if self.weight > self.weight_max {
            return Err(too_much(self.weight_max, "transaction_bytes_max"));
        }
        if self.rows.len() as u64 > self.rows_max {
            return Err(too_many(self.rows_max));
        }
        Ok(self.lease.cover(self.bytes())?)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.weight + (self.rows.len() * ROW_WEIGHT) as u64
    }

    /// The first so many, with what covers them.
    pub(super) fn take(&mut self, count: usize) -> Rows {
        let rest = self.rows.split_off(count.min(self.rows.len()));
        let rows = std::mem::replace(&mut self.rows, rest);
        let values = rows.iter().flatten();
        let weight = values.map(|value| value.weight() as u64).sum();
        self.weight -= weight;
        let bytes = weight + (rows.len() * ROW_WEIGHT) as u64;
        let (weight_max, rows_max) = (self.weight_max, self.rows_max);
        Rows { rows, weight, weight_max, rows_max, lease: self.lease.split(bytes) }
    }

    /// Puts values after those of each row.
    pub(super) fn extend(&mut self, more: Vec<Vec<Value>>) -> Result<()> {
        for (row, more) in self.rows.iter_mut().zip(more) {
            self.weight += more.iter().map(|value| value.weight() as u64).sum::<u64>();
            *row = std::mem::take(row).into_iter().chain(more).collect();
        }
        self.check()
    }

    /// What the ledger will hold, what runs, and what covers both until it is answered.
    pub(super) fn load(
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

pub(super) fn no_copy() -> Error {
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
    pub(super) fn end(&mut self) -> Result<()> {
        self.parser.take(None, (&self.row, &self.zone), &mut self.rows)
    }

    /// The next rows that are a transaction of their own, once they are there.
    pub(super) fn next_block(&mut self) -> Option<Rows> {
        let count = self.block_rows.filter(|count| self.rows.rows.len() >= *count)?;
        self.bytes = self.parser.partial_bytes();
        Some(self.rows.take(count))
    }

    /// An error that leaves rows in the ledger says so.
    pub(super) fn with_rows_kept(&self, error: Error) -> Error {
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
