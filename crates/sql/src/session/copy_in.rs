//! COPY FROM STDIN within a session: bytes to values, values to one ledger transaction.

use std::sync::Arc;

use concurrency::Load;
use engine::transaction::Asked;
use procedure::Procedure;
use procedure::draws::Draws;
use types::{Error, Result, SqlState, Value};

use crate::copy::{CopyOptions, CopyParser, Fields};

/// Bytes of COPY data in one transaction, at most: it must fit one block.
const LOAD_BYTES_MAX: usize = 768 << 20;

pub struct CopyIn {
    text: String,
    /// Inserts one row; its parameters are the columns that COPY names.
    row: Arc<Procedure>,
    parser: CopyParser,
    rows: Vec<Box<[Value]>>,
    bytes: usize,
}

impl CopyIn {
    pub fn new(text: String, row: Arc<Procedure>, options: &CopyOptions) -> CopyIn {
        CopyIn { text, row, parser: CopyParser::new(options), rows: Vec::new(), bytes: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len();
        if self.bytes > LOAD_BYTES_MAX {
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too much data for one COPY")
                .with_detail(format!("One transaction holds at most {LOAD_BYTES_MAX} bytes."))
                .with_hint("Split the data into several COPY statements."));
        }
        let (row, rows) = (&self.row, &mut self.rows);
        let taken = self.parser.push(bytes, &mut |fields| {
            rows.push(values_of(row, fields)?);
            Ok(())
        });
        taken.map_err(|error| at_line(error, self.parser.line()))
    }

    pub fn row(&self) -> &Procedure {
        &self.row
    }

    /// What the ledger will hold, and what runs.
    pub fn finish(mut self, draws: &mut Draws) -> Result<(Asked, Load)> {
        let (row, rows) = (&self.row, &mut self.rows);
        let taken = self.parser.finish(&mut |fields| {
            rows.push(values_of(row, fields)?);
            Ok(())
        });
        taken.map_err(|error| at_line(error, self.parser.line()))?;
        let asked = Asked::load(&self.text, &self.rows);
        let rows = self.rows.into_iter().map(|values| draws.arguments(&self.row, values));
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
