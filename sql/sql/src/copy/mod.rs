//! COPY's formats: parsers that take bytes as they come, and a formatter.

pub mod binary;
mod format;
mod lines;
mod parser;
#[cfg(test)]
mod tests;

use sqlparser::ast;
use types::{Error, Result, SqlState};

pub use format::CopyFormatter;
pub use parser::{CopyParser, Fields};

/// A row may not be longer than this: it would have to be held in memory whole.
const ROW_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// How COPY reads or writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: bool,
    pub quote: u8,
    pub escape: u8,
}

impl CopyOptions {
    /// What `WITH (FORMAT csv, HEADER)` asks for.
    pub fn csv_with_header() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Csv,
            delimiter: b',',
            null: String::new(),
            header: true,
            quote: b'"',
            escape: b'"',
        }
    }

    /// What `WITH (FORMAT name)` asks for.
    ///
    /// # Errors
    /// A name that is none of a format.
    pub fn plain(format: &str) -> Result<CopyOptions> {
        let mut asked = Asked::default();
        asked.option(&ast::CopyOption::Format(ast::Ident::new(format)))?;
        asked.options()
    }

    /// Options of both spellings: `WITH (FORMAT csv, HEADER)` and the older `CSV HEADER`.
    pub(crate) fn from_ast(
        options: &[ast::CopyOption],
        legacy: &[ast::CopyLegacyOption],
    ) -> Result<CopyOptions> {
        let mut asked = Asked::default();
        for option in options {
            asked.option(option)?;
        }
        for option in legacy {
            asked.legacy(option)?;
        }
        asked.options()
    }
}

/// What the statement says; the rest depends on the format.
#[derive(Default)]
struct Asked {
    format: CopyFormat,
    header: bool,
    null: Option<String>,
    delimiter: Option<char>,
    quote: Option<char>,
    escape: Option<char>,
}

impl Asked {
    fn option(&mut self, option: &ast::CopyOption) -> Result<()> {
        use ast::CopyOption;
        match option {
            CopyOption::Format(name) => match name.value.to_ascii_lowercase().as_str() {
                "text" => self.format = CopyFormat::Text,
                "csv" => self.format = CopyFormat::Csv,
                "binary" => self.format = CopyFormat::Binary,
                other => {
                    let what = format!("COPY format \"{other}\" not recognized");
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
                }
            },
            // There is no unfrozen row here.
            CopyOption::Freeze(_) => {}
            CopyOption::Delimiter(c) => self.delimiter = Some(*c),
            CopyOption::Null(text) => self.null = Some(text.clone()),
            CopyOption::Header(on) => self.header = *on,
            CopyOption::Quote(c) => self.quote = Some(*c),
            CopyOption::Escape(c) => self.escape = Some(*c),
            CopyOption::Encoding(name) if is_utf8(name) => {}
            other => return Err(Error::unsupported(format_args!("COPY option {other}"))),
        }
        Ok(())
    }

    fn legacy(&mut self, option: &ast::CopyLegacyOption) -> Result<()> {
        use ast::{CopyLegacyCsvOption, CopyLegacyOption};
        match option {
            CopyLegacyOption::Delimiter(c) => self.delimiter = Some(*c),
            CopyLegacyOption::Binary => self.format = CopyFormat::Binary,
            CopyLegacyOption::Null(text) => self.null = Some(text.clone()),
            CopyLegacyOption::Csv(options) => {
                self.format = CopyFormat::Csv;
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.header = true,
                        CopyLegacyCsvOption::Quote(c) => self.quote = Some(*c),
                        CopyLegacyCsvOption::Escape(c) => self.escape = Some(*c),
                        other => {
                            return Err(Error::unsupported(format_args!("COPY option {other}")));
                        }
                    }
                }
            }
            other => return Err(Error::unsupported(format_args!("COPY option {other}"))),
        }
        Ok(())
    }

    fn options(self) -> Result<CopyOptions> {
        match self.format {
            CopyFormat::Binary => self.check_binary()?,
            CopyFormat::Text => self.check_text()?,
            CopyFormat::Csv => {}
        }
        let (null, delimiter) = match self.format {
            CopyFormat::Csv => ("", ','),
            CopyFormat::Text | CopyFormat::Binary => ("\\N", '\t'),
        };
        let quote = one_byte("quote", self.quote.unwrap_or('"'))?;
        let options = CopyOptions {
            format: self.format,
            delimiter: one_byte("delimiter", self.delimiter.unwrap_or(delimiter))?,
            null: self.null.unwrap_or_else(|| null.to_owned()),
            header: self.header,
            quote,
            escape: self.escape.map_or(Ok(quote), |c| one_byte("escape", c))?,
        };
        options.check()?;
        Ok(options)
    }

    /// Only CSV has what these are about.
    fn check_text(&self) -> Result<()> {
        let said = [("quote", self.quote.is_some()), ("escape", self.escape.is_some())];
        match said.iter().find(|(_, is_said)| *is_said) {
            None => Ok(()),
            Some((name, _)) => Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("COPY {name} available only in CSV mode"),
            )),
        }
    }

    /// Only text has what these are about.
    fn check_binary(&self) -> Result<()> {
        let syntax = SqlState::SYNTAX_ERROR;
        let said = [
            ("DELIMITER", self.delimiter.is_some(), syntax),
            ("NULL", self.null.is_some(), syntax),
            ("HEADER", self.header, SqlState::FEATURE_NOT_SUPPORTED),
            ("QUOTE", self.quote.is_some(), syntax),
            ("ESCAPE", self.escape.is_some(), syntax),
        ];
        match said.into_iter().find(|(_, is_said, _)| *is_said) {
            None => Ok(()),
            Some((name, _, code)) => {
                Err(Error::new(code, format!("cannot specify {name} in BINARY mode")))
            }
        }
    }
}

impl CopyOptions {
    /// Whether what is written so could be read again.
    fn check(&self) -> Result<()> {
        /// Each means something after a backslash.
        const ESCAPES: &[u8] = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        let CopyOptions { format, delimiter, ref null, quote, .. } = *self;
        let invalid = |what: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        let refused = |what| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        if matches!(delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return".into());
        }
        if null.contains(['\n', '\r']) {
            return invalid(
                "COPY null representation cannot use newline or carriage return".into(),
            );
        }
        if format == CopyFormat::Text && ESCAPES.contains(&delimiter) {
            return invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)));
        }
        if format == CopyFormat::Csv && delimiter == quote {
            return invalid("COPY delimiter and quote must be different".into());
        }
        if null.as_bytes().contains(&delimiter) {
            return refused("COPY delimiter must not appear in the NULL specification");
        }
        if format == CopyFormat::Csv && null.as_bytes().contains(&quote) {
            return refused("CSV quote character must not appear in the NULL specification");
        }
        Ok(())
    }
}

/// A node reads and writes no file or program of its own machine for a client.
pub(crate) fn check_target(to: bool, target: &ast::CopyTarget) -> Result<()> {
    let (role, what) = match (target, to) {
        (ast::CopyTarget::Stdin | ast::CopyTarget::Stdout, _) => return Ok(()),
        (ast::CopyTarget::Program { .. }, _) => {
            ("pg_execute_server_program", "COPY to or from an external program")
        }
        (ast::CopyTarget::File { .. }, true) => ("pg_write_server_files", "COPY to a file"),
        (ast::CopyTarget::File { .. }, false) => ("pg_read_server_files", "COPY from a file"),
    };
    let what = format!("must be superuser or have privileges of the {role} role to {what}");
    Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
        .with_detail("No user of a ledger has this privilege.")
        .with_hint(
            "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.",
        ))
}

fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn one_byte(what: &str, c: char) -> Result<u8> {
    u8::try_from(c).ok().filter(u8::is_ascii).ok_or_else(|| {
        Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )
    })
}
