//! The SQL that is sent: the same things said to PostgreSQL and to MariaDB.
//!
//! Triggers write what changes into the *digest table*, in the transaction that changes it:
//!
//! ```text
//! digest      seq | tab, rowkey, serial | kind | before, after | place | writer
//!              │    │                     I U D  image hashes    │       database user
//!              │    serial counts a key's versions               block:index of the transaction
//!              in the order of arrival                           of the ledger; NULL: of none
//! progress    block, idx | ok, detail       a transaction's end, written with its changes
//! state       name | value                  ledger, block (the last that is finished)
//! ```
//!
//! A change of a key is a delete and an insert; an update that leaves a row as it was is nothing.

pub mod mariadb;
pub mod postgres;
mod shared;

use types::{Error, Height, Result, SqlState};

use crate::canonical::fields;
use crate::schema::{Column, PREFIX, Table};

pub use shared::Formless;

/// Which system a database is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Postgres,
    MariaDb,
}

/// What a system itself keeps apart of transactions that run beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    ReadCommitted,
    Serializable,
}

impl Dialect {
    /// The name of one of this crate's own tables.
    pub fn own(self, name: &str) -> String {
        match self {
            Dialect::Postgres => format!("tally_chainify.{name}"),
            Dialect::MariaDb => format!("tally_chainify_{name}"),
        }
    }

    /// The name of a user's table or column, which needs no quotes but where it is a keyword.
    pub fn name(self, name: &str) -> String {
        format!("\"{name}\"")
    }

    /// A literal of text.
    pub fn text(self, text: &str) -> String {
        format!("'{}'", text.replace('\'', "''"))
    }

    /// The expression of a row's canonical text, of the row that `row` names.
    pub fn row_text(self, row: &str, table: &Table) -> String {
        match self {
            Dialect::Postgres => postgres::joined(row, table.columns.iter()),
            Dialect::MariaDb => mariadb::joined(row, table.columns.iter()),
        }
    }

    /// The expression of a key's canonical text.
    pub fn key_text(self, row: &str, table: &Table) -> String {
        match self {
            Dialect::Postgres => postgres::joined(row, table.key()),
            Dialect::MariaDb => mariadb::joined(row, table.key()),
        }
    }

    /// What sorts rows by the bytes of their keys' texts.
    pub fn by_key(self, row: &str, table: &Table) -> String {
        let key = self.key_text(row, table);
        match self {
            Dialect::Postgres => format!("({key}) COLLATE \"C\""),
            Dialect::MariaDb => format!("CAST({key} AS BINARY)"),
        }
    }

    /// The expression of a row's image hash, in hexadecimal.
    pub fn image_hex(self, row: &str, table: &Table) -> String {
        let text = self.row_text(row, table);
        match self {
            Dialect::Postgres => format!("encode({}, 'hex')", postgres::image(&text)),
            Dialect::MariaDb => mariadb::image_hex(&text),
        }
    }

    /// What begins a transaction of the ledger: triggers find there which one it is.
    pub fn begin(self, height: Height, index: u32) -> Vec<String> {
        let place = format!("'{height}:{index}'");
        match self {
            Dialect::Postgres => vec![
                "BEGIN".to_owned(),
                format!("SELECT set_config('tally_chainify.place', {place}, true)"),
            ],
            Dialect::MariaDb => {
                vec![format!("SET @{PREFIX}_place = {place}"), "BEGIN".to_owned()]
            }
        }
    }

    /// What begins one outside of any ledger, under the system's own concurrency control.
    pub fn begin_alone(self, isolation: Isolation) -> Vec<String> {
        let level = match isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::Serializable => "SERIALIZABLE",
        };
        match self {
            Dialect::Postgres => vec![format!("BEGIN ISOLATION LEVEL {level}")],
            Dialect::MariaDb => {
                vec![format!("SET TRANSACTION ISOLATION LEVEL {level}"), "BEGIN".to_owned()]
            }
        }
    }

    /// The statement that inserts rows of which these are the canonical texts.
    pub fn insert(self, table: &Table, rows: &[String]) -> Result<String> {
        let names: Vec<String> = table.columns.iter().map(|it| self.name(&it.name)).collect();
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            let fields = fields(row)?;
            if fields.len() != table.columns.len() {
                let what = format!("a row of {} has {} columns", table.name, fields.len());
                return Err(Error::new(SqlState::DATA_CORRUPTED, what));
            }
            let columns = table.columns.iter().zip(fields);
            let literals: Vec<String> =
                columns.map(|(column, field)| self.literal(column, field)).collect();
            values.push(format!("({})", literals.join(", ")));
        }
        let (table, names, values) = (self.name(&table.name), names.join(", "), values.join(", "));
        Ok(format!("INSERT INTO {table} ({names}) VALUES {values}"))
    }

    /// The literal of a field's text, as the column takes it.
    pub fn literal(self, column: &Column, field: Option<&str>) -> String {
        let Some(field) = field else { return "NULL".to_owned() };
        match self {
            Dialect::Postgres => postgres::literal(column, field),
            Dialect::MariaDb => mariadb::literal(column, field),
        }
    }
}
