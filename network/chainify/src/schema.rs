//! The tables that are chained, as all organisations see them, whatever system holds them.
//!
//! ```text
//! table accounts
//!   balance numeric(12,2) not null
//!   id int8 not null key
//!   name text(40)
//! ```
//!
//! That text stands in the ledger's first block. Tables and columns are in the order of their
//! names, so that the order in which a system keeps columns says nothing. A table's number is its
//! place, from 1.

use std::fmt;

use types::{Error, Result, SqlState};

/// What this crate's own tables, triggers and functions begin with, in every database.
pub const PREFIX: &str = "tally_chainify";

const NAME_BYTES_MAX: usize = 40;

/// Bytes of a key in its canonical form; what an index of either system bears.
pub const KEY_BYTES_MAX: usize = 2000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    pub tables: Vec<Table>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub name: String,
    /// By name.
    pub columns: Vec<Column>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub nullable: bool,
    pub is_key: bool,
}

/// What a column holds. Two columns of two systems are the same if their kinds are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Signed, of so many bytes.
    Integer {
        bytes: u8,
    },
    Numeric {
        precision: u8,
        scale: u8,
    },
    /// Characters at most; `None`: as many as the system bears.
    Text {
        characters: Option<u32>,
    },
    /// Bytes of any number.
    Bytes,
    Boolean,
    Date,
    /// Without time zone, with so many digits of a second's fraction.
    Timestamp {
        digits: u8,
    },
    Uuid,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Integer { bytes } => write!(f, "int{bytes}"),
            Kind::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Kind::Text { characters: Some(most) } => write!(f, "text({most})"),
            Kind::Text { characters: None } => f.write_str("text"),
            Kind::Bytes => f.write_str("bytes"),
            Kind::Boolean => f.write_str("boolean"),
            Kind::Date => f.write_str("date"),
            Kind::Timestamp { digits } => write!(f, "timestamp({digits})"),
            Kind::Uuid => f.write_str("uuid"),
        }
    }
}

impl Kind {
    fn parse(text: &str) -> Option<Kind> {
        let (name, of) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((name, of)) => (name, Some(of)),
            None => (text, None),
        };
        let kind = match (name, of) {
            ("int2", None) => Kind::Integer { bytes: 2 },
            ("int4", None) => Kind::Integer { bytes: 4 },
            ("int8", None) => Kind::Integer { bytes: 8 },
            ("numeric", Some(of)) => {
                let (precision, scale) = of.split_once(',')?;
                Kind::Numeric { precision: precision.parse().ok()?, scale: scale.parse().ok()? }
            }
            ("text", None) => Kind::Text { characters: None },
            ("text", Some(of)) => Kind::Text { characters: Some(of.parse().ok()?) },
            ("bytes", None) => Kind::Bytes,
            ("boolean", None) => Kind::Boolean,
            ("date", None) => Kind::Date,
            ("timestamp", Some(of)) => Kind::Timestamp { digits: of.parse().ok()? },
            ("uuid", None) => Kind::Uuid,
            _ => return None,
        };
        Some(kind)
    }

    /// Bytes of the longest field of this kind, with its length; `None`: there is no bound that an
    /// index bears.
    fn field_bytes_max(self) -> Option<usize> {
        let text = match self {
            Kind::Integer { .. } => 20,
            Kind::Numeric { precision, .. } => usize::from(precision) + 3,
            Kind::Text { characters } => 4 * usize::try_from(characters?).ok()?,
            Kind::Bytes => return None,
            Kind::Boolean => 1,
            Kind::Date => 8,
            Kind::Timestamp { .. } => 20,
            Kind::Uuid => 36,
        };
        Some(text + text.to_string().len() + 1)
    }
}

impl Schema {
    /// Puts tables and columns in order, and refuses what cannot be chained.
    pub fn new(mut tables: Vec<Table>) -> Result<Schema> {
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        for table in &mut tables {
            table.columns.sort_by(|a, b| a.name.cmp(&b.name));
            table.check()?;
        }
        if let Some(two) = tables.windows(2).find(|two| two[0].name == two[1].name) {
            let what = format!("table \"{}\" is named twice", two[0].name);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, what));
        }
        if tables.is_empty() {
            let what = "no table is named that is to be chained";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        Ok(Schema { tables })
    }

    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Tables with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &Table)> {
        (1..).zip(&self.tables)
    }

    pub fn by_number(&self, number: u32) -> Option<&Table> {
        self.tables.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    pub fn parse(text: &str) -> Result<Schema> {
        let bad = |line: &str| {
            Error::new(SqlState::DATA_CORRUPTED, "the ledger's text of tables cannot be read")
                .with_detail(format!("Its line {line:?} is none of such a text."))
        };
        let mut tables: Vec<Table> = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("table ") {
                tables.push(Table { name: name.to_owned(), columns: Vec::new() });
                continue;
            }
            let column = line.strip_prefix("  ").and_then(Column::parse);
            let table = tables.last_mut().ok_or_else(|| bad(line))?;
            table.columns.push(column.ok_or_else(|| bad(line))?);
        }
        let schema = Schema::new(tables)?;
        match schema.to_string() == text {
            true => Ok(schema),
            false => Err(bad(text)),
        }
    }

    /// The first thing in which another schema differs.
    pub fn difference(&self, other: &Schema) -> Option<String> {
        let (own, theirs) = (self.to_string(), other.to_string());
        let mut table = String::new();
        let mut lines = theirs.lines();
        for line in own.lines() {
            if line.starts_with("table ") {
                line.clone_into(&mut table);
            }
            let theirs = lines.next().unwrap_or("nothing");
            if theirs != line {
                return Some(format!("{table}: \"{}\" and \"{}\"", line.trim(), theirs.trim()));
            }
        }
        lines.next().map(|more| format!("{table}: nothing and \"{}\"", more.trim()))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "table {}", table.name)?;
            for column in &table.columns {
                let not_null = if column.nullable { "" } else { " not null" };
                let key = if column.is_key { " key" } else { "" };
                writeln!(f, "  {} {}{not_null}{key}", column.name, column.kind)?;
            }
        }
        Ok(())
    }
}

impl Column {
    fn parse(line: &str) -> Option<Column> {
        let (line, is_key) = line.strip_suffix(" key").map_or((line, false), |line| (line, true));
        let (line, nullable) =
            line.strip_suffix(" not null").map_or((line, true), |line| (line, false));
        let (name, kind) = line.split_once(' ')?;
        Some(Column { name: name.to_owned(), kind: Kind::parse(kind)?, nullable, is_key })
    }
}

impl Table {
    /// The columns of the primary key, by name.
    pub fn key(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_key)
    }

    fn check(&self) -> Result<()> {
        check_name("table", &self.name)?;
        self.columns.iter().try_for_each(|column| check_name("column", &column.name))?;
        let refused = |why: String| {
            let what = format!("table \"{}\" cannot be chained", self.name);
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_detail(why)
        };
        let mut bytes = 0;
        for column in self.key() {
            if column.nullable {
                let why = format!("Column \"{}\" of its key may be NULL.", column.name);
                return Err(refused(why));
            }
            let most = column.kind.field_bytes_max().ok_or_else(|| {
                let why = format!("Column \"{}\" of its key is of no bounded length.", column.name);
                refused(why).with_hint("Give it a length, as varchar(100) has.")
            })?;
            bytes += most;
        }
        match bytes {
            0 => Err(refused("It has no primary key.".to_owned())
                .with_hint("A row is named by its key: add a primary key.")),
            _ if bytes > KEY_BYTES_MAX => Err(refused(format!(
                "Its key may come to {bytes} bytes in text, and {KEY_BYTES_MAX} are allowed."
            ))),
            _ => Ok(()),
        }
    }
}

/// Names that mean the same with and without quotes in all systems.
fn check_name(what: &str, name: &str) -> Result<()> {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let fits = begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(letters);
    if fits && !name.starts_with(PREFIX) {
        return Ok(());
    }
    let refused = format!("the name of {what} \"{name}\" cannot be chained");
    let detail = format!(
        "Names of what is chained have letters a to z, digits and underscores, at most \
         {NAME_BYTES_MAX}, and do not begin with \"{PREFIX}\"."
    );
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, refused).with_detail(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
table accounts
  balance numeric(12,2) not null
  id int8 not null key
  name text(40)
table trades
  at timestamp(6)
  by uuid not null key
  note text
  paid boolean not null
  until date
  what bytes
";

    #[test]
    fn one_schema_has_one_text() {
        let schema = Schema::parse(TEXT).unwrap();
        assert_eq!(schema.to_string(), TEXT);
        assert_eq!(schema.by_number(2).unwrap().name, "trades");
        assert!(schema.by_number(0).is_none() && schema.by_number(3).is_none());
        let swapped = TEXT.replace("  id int8 not null key\n  name text(40)\n", "");
        for bad in [&*swapped, "", "  a int4\n", "table a\n  b float\n", "table a\n  b int4\n"] {
            assert!(Schema::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_key_is_named() {
        let of = |line: &str| Schema::parse(&format!("table a\n{line}\n"));
        let detail = |line: &str| of(line).unwrap_err().fields().detail.clone().unwrap();
        assert!(detail("  b int4 key").contains("\"b\" of its key may be NULL"));
        assert!(detail("  b text not null key").contains("no bounded length"));
        assert!(detail("  b text(600) not null key").contains("2405 bytes"));
        assert!(detail("  b int4").contains("no primary key"));
        assert!(of("  b text(100) not null key").is_ok());
        for name in ["A", "1a", "a-b", "tally_chainify_x", &"a".repeat(41)] {
            let error = Schema::parse(&format!("table {name}\n  b int4 not null key\n"));
            assert!(error.unwrap_err().message().contains(name), "{name}");
        }
    }

    #[test]
    fn a_difference_is_named_with_its_table() {
        let (one, other) = (Schema::parse(TEXT).unwrap(), TEXT.replace("(12,2)", "(12,3)"));
        let found = one.difference(&Schema::parse(&other).unwrap()).unwrap();
        assert!(found.contains("table accounts") && found.contains("numeric(12,3)"), "{found}");
        assert_eq!(one.difference(&one), None);
    }
}
