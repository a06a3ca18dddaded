//! COPY FROM STDIN within a session: bytes to values, values to one ledger transaction.

use std::sync::Arc;

use concurrency::Load;
use engine::transaction::Asked;
use procedure::draws::Draws;
use procedure::{BYTES_MAX, Procedure};
use types::{Error, Result, SqlState, Value};

use crate::copy::{CopyOptions, CopyParser, Fields};

/// Bytes of COPY data in one transaction, at most: it must fit one block.
const LOAD_BYTES_MAX: usize = 768 << 20;

pub struct CopyIn {
    text: String,
    /// Inserts one row; its parameters are the columns that COPY names.
    row: Arc<Procedure>,
    parser: CopyParser,
    rows: Rows,
    bytes: usize,
}

/// The rows so far, and what they weigh.
#[derive(Default)]
struct Rows {
    rows: Vec<Box<[Value]>>,
    weight: u64,
}

impl Rows {
    /// What the block would refuse is refused before it takes memory.
    fn push(&mut self, row: Box<[Value]>) -> Result<()> {
        self.weight += row.iter().map(|value| value.weight() as u64).sum::<u64>();
        if self.weight > BYTES_MAX {
            return Err(too_much(BYTES_MAX));
        }
        self.rows.push(row);
        Ok(())
    }
}

fn too_much(bytes_max: u64) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too much data for one COPY")
        .with_detail(format!("One transaction holds at most {bytes_max} bytes."))
        .with_hint("Split the data into several COPY statements.")
}

impl CopyIn {
    pub fn new(text: String, row: Arc<Procedure>, options: &CopyOptions) -> CopyIn {
        CopyIn { text, row, parser: CopyParser::new(options), rows: Rows::default(), bytes: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len();
        if self.bytes > LOAD_BYTES_MAX {
            return Err(too_much(LOAD_BYTES_MAX as u64));
        }
        let (row, rows) = (&self.row, &mut self.rows);
        let taken = self.parser.push(bytes, &mut |fields| rows.push(values_of(row, fields)?));
        taken.map_err(|error| at_line(error, self.parser.line()))
    }

    pub fn row(&self) -> &Arc<Procedure> {
        &self.row
    }

    /// The data are at their end: how many rows they are.
    pub fn end(&mut self) -> Result<usize> {
        let (row, rows) = (&self.row, &mut self.rows);
        let taken = self.parser.finish(&mut |fields| rows.push(values_of(row, fields)?));
        taken.map_err(|error| at_line(error, self.parser.line()))?;
        Ok(self.rows.rows.len())
    }

    /// Puts values behind those of each row.
    pub fn extend(&mut self, more: Vec<Vec<Value>>) {
        for (row, more) in self.rows.rows.iter_mut().zip(more) {
            *row = std::mem::take(row).into_iter().chain(more).collect();
        }
    }

    /// What the ledger will hold, and what runs.
    pub fn finish(self, draws: &mut Draws) -> Result<(Asked, Load)> {
        let asked = Asked::load(&self.text, &self.rows.rows);
        let rows = self.rows.rows.into_iter().map(|values| draws.arguments(&self.row, values));
        let rows = rows.collect::<Result<_>>()?;
        Ok((asked, Load { procedure: self.row, rows }))
    }
}

fn values_of(row: &Procedure, fields: &Fields<'_>) -> Result<Box<[Value]>> {
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
        Some(text) => Value::read_text(&column.data_type, text)
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
