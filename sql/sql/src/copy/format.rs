//! Rows as COPY TO writes them.

use procedure::Column;
use types::{DataType, Result, Value, Zone};

use super::{CopyFormat, CopyOptions, binary};

/// Renders rows for COPY TO.
#[derive(Clone, Debug)]
pub struct CopyFormatter {
    options: CopyOptions,
    types: Vec<DataType>,
    zone: Zone,
    header: Vec<String>,
    field: Vec<u8>,
}

impl CopyFormatter {
    pub fn new(options: &CopyOptions, columns: &[Column], zone: &Zone) -> CopyFormatter {
        CopyFormatter {
            options: options.clone(),
            zone: zone.clone(),
            types: columns.iter().map(|column| column.data_type.clone()).collect(),
            header: columns.iter().map(|column| column.name.clone()).collect(),
            field: Vec::new(),
        }
    }

    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// What stands before all rows: the header line, where one was asked for.
    pub fn header(&mut self, out: &mut Vec<u8>) {
        if self.is_binary() {
            return binary::write_header(out);
        }
        if !self.options.header {
            return;
        }
        for (at, name) in std::mem::take(&mut self.header).iter().enumerate() {
            self.separate(at, out);
            self.field.clear();
            self.field.extend_from_slice(name.as_bytes());
            self.put(out);
        }
        out.push(b'\n');
    }

    /// What stands after all rows.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.is_binary() {
            binary::write_end(out);
        }
    }

    /// # Errors
    /// A type without a binary form, or a row that is too long for it.
    pub fn row(&mut self, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
        if self.is_binary() {
            return binary::write_row(row, &self.types, out);
        }
        for (at, value) in row.iter().enumerate() {
            self.separate(at, out);
            if value.is_null() {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            self.field.clear();
            value.make_text_in(&self.types[at], &self.zone, &mut self.field)?;
            self.put(out);
        }
        out.push(b'\n');
        Ok(())
    }

    fn separate(&self, at: usize, out: &mut Vec<u8>) {
        if at > 0 {
            out.push(self.options.delimiter);
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self.options.format {
            CopyFormat::Csv => self.put_csv(out),
            CopyFormat::Text | CopyFormat::Binary => self.put_text(out),
        }
    }

    fn put_text(&self, out: &mut Vec<u8>) {
        for &byte in &self.field {
            let escaped = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend([b'\\', escaped]);
        }
    }

    fn put_csv(&self, out: &mut Vec<u8>) {
        let CopyOptions { delimiter, quote, escape, ref null, .. } = self.options;
        let special = |b: &u8| *b == delimiter || *b == quote || *b == b'\n' || *b == b'\r';
        let field = &self.field;
        let ends_data = self.types.len() == 1 && field == b"\\.";
        if field != null.as_bytes() && !ends_data && !field.iter().any(special) {
            out.extend_from_slice(field);
            return;
        }
        out.push(quote);
        for &byte in field {
            if byte == quote || byte == escape {
                out.push(escape);
            }
            out.push(byte);
        }
        out.push(quote);
    }
}
