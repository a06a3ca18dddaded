//! Checkpoints: copies of chained tables in the database itself, made and read by SQL alone.
//!
//! ```text
//! copy_5_1    table 1 as it was after block 5; a table that has not changed since keeps its copy
//! state       checkpoint:5   1=5,2=0     of which blocks the copies are that it is made of
//! ```
//!
//! The line in `state` is written last, so a checkpoint is whole or is none. Whether it is right,
//! the ledger says: the state root of its block.

use std::collections::{BTreeMap, BTreeSet};

use ledger::Hash;
use types::{Error, Height, Result, SqlState};

use super::Database;
use crate::dialect::Dialect;
use crate::schema::{PREFIX, Schema, Table};
use crate::stretches::Range;

/// Those that are kept, the newest.
pub const KEPT: usize = 3;

const NAME: &str = "checkpoint:";

/// Of which block the copy of each table is.
type Copies = BTreeMap<u32, Height>;

impl Database {
    /// Copies that are there, whatever they belong to.
    pub(super) async fn copies(&mut self) -> Result<Vec<String>> {
        let asked = match self.dialect() {
            Dialect::Postgres => {
                "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'tally_chainify' AND c.relname LIKE 'copy\\_%' \
                 AND c.relkind = 'r'"
            }
            Dialect::MariaDb => {
                "SELECT SUBSTR(table_name, 16) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name LIKE 'tally\\_chainify\\_copy\\_%'"
            }
        };
        let dialect = self.dialect();
        let rows = self.rows(asked).await?;
        let names = rows.into_iter().filter_map(|row| row.into_iter().next()?);
        Ok(names.map(|name| dialect.own(&name)).collect())
    }

    /// Heights of checkpoints, the newest first.
    pub async fn checkpoints(&mut self) -> Result<Vec<Height>> {
        Ok(self.listed().await?.into_keys().rev().collect())
    }

    async fn listed(&mut self) -> Result<BTreeMap<Height, Copies>> {
        let state = self.dialect().own("state");
        let sql = format!("SELECT name, value FROM {state} WHERE name LIKE '{NAME}%'");
        let mut all = BTreeMap::new();
        for row in self.rows(&sql).await? {
            let [Some(name), Some(value)] = &row[..] else { continue };
            let height = name.strip_prefix(NAME).and_then(|text| text.parse().ok());
            let copies: Option<Copies> = value.split(',').map(copy_of).collect();
            let (Some(height), Some(copies)) = (height, copies) else {
                return Err(self.unreadable("a checkpoint", &format!("{name} {value}")));
            };
            all.insert(height, copies);
        }
        Ok(all)
    }

    /// Copies tables that changed since the last checkpoint, and forgets the oldest. No transaction
    /// of the ledger runs meanwhile.
    pub async fn checkpoint(
        &mut self,
        height: Height,
        schema: &Schema,
        changed: &BTreeSet<u32>,
    ) -> Result<()> {
        let mut listed = self.listed().await?;
        let last = listed.last_key_value().map(|(_, copies)| copies.clone()).unwrap_or_default();
        let (dialect, mut copies) = (self.dialect(), Copies::new());
        for (number, table) in schema.numbered() {
            let known = last.get(&number).filter(|_| !changed.contains(&number));
            if let Some(known) = known {
                copies.insert(number, *known);
                continue;
            }
            let copy = dialect.own(&copy_name(height, number));
            self.run(&format!("DROP TABLE IF EXISTS {copy}")).await?;
            let name = dialect.name(&table.name);
            self.run(&format!("CREATE TABLE {copy} AS SELECT * FROM {name}")).await?;
            copies.insert(number, height);
        }
        let state = dialect.own("state");
        let text: Vec<String> = copies.iter().map(|(table, of)| format!("{table}={of}")).collect();
        let text = text.join(",");
        let mut lines = vec![
            format!("DELETE FROM {state} WHERE name = '{NAME}{height}'"),
            format!("INSERT INTO {state} (name, value) VALUES ('{NAME}{height}', '{text}')"),
        ];
        listed.insert(height, copies);
        while listed.len() > KEPT {
            if let Some((oldest, _)) = listed.pop_first() {
                lines.push(format!("DELETE FROM {state} WHERE name = '{NAME}{oldest}'"));
            }
        }
        self.together(&lines).await?;
        self.drop_unused(&listed).await
    }

    async fn drop_unused(&mut self, listed: &BTreeMap<Height, Copies>) -> Result<()> {
        let dialect = self.dialect();
        let used: BTreeSet<String> = listed
            .values()
            .flatten()
            .map(|(number, of)| dialect.own(&copy_name(*of, *number)))
            .collect();
        for copy in self.copies().await? {
            if !used.contains(&copy) {
                self.run(&format!("DROP TABLE {copy}")).await?;
            }
        }
        Ok(())
    }

    /// The copy of a table in a checkpoint, for reading.
    async fn copy_in(&mut self, height: Height, table: u32) -> Result<String> {
        let listed = self.listed().await?;
        let of = listed.get(&height).and_then(|copies| copies.get(&table));
        let Some(of) = of else {
            let what = format!("{} has no checkpoint of block {height}", self.name());
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        };
        Ok(self.dialect().own(&copy_name(*of, table)))
    }

    /// Keys and image hashes of a table as it was after a checkpoint's block.
    pub async fn images_in(
        &mut self,
        height: Height,
        (number, table): (u32, &Table),
        range: &Range,
    ) -> Result<Vec<(String, Hash)>> {
        let copy = self.copy_in(height, number).await?;
        let mut rows = Vec::new();
        self.images_of(&copy, (table, range), |key, image| rows.push((key, image))).await?;
        Ok(rows)
    }

    /// Canonical texts of rows of such a table, those after a key, by key.
    pub async fn rows_in(
        &mut self,
        height: Height,
        (number, table): (u32, &Table),
        behind: &str,
        most: usize,
    ) -> Result<Vec<String>> {
        let copy = self.copy_in(height, number).await?;
        let dialect = self.dialect();
        let (text, key) = (dialect.row_text("r", table), dialect.by_key("r", table));
        let behind = dialect.text(behind);
        let sql = format!(
            "SELECT {text} FROM {copy} r WHERE {key} > {behind} ORDER BY {key} LIMIT {most}"
        );
        let rows = self.rows(&sql).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next()?).collect())
    }

    /// Makes all chained tables what they were after a checkpoint's block, and that the last one
    /// that is finished; later checkpoints are forgotten. Others read what was there before until
    /// it is done. `referred_first`: as [`super::inspect::Inspected`] has it.
    pub async fn restore(
        &mut self,
        height: Height,
        schema: &Schema,
        referred_first: &[String],
    ) -> Result<()> {
        let listed = self.listed().await?;
        let Some(copies) = listed.get(&height) else {
            let what = format!("{} has no checkpoint of block {height}", self.name());
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        };
        let dialect = self.dialect();
        let named = |name: &String| schema.numbered().find(|(_, table)| table.name == *name);
        let tables: Vec<_> = referred_first.iter().filter_map(named).collect();
        let mut all = Vec::new();
        for (_, table) in tables.iter().rev() {
            all.push(format!("DELETE FROM {}", dialect.name(&table.name)));
        }
        for (number, table) in &tables {
            let of = copies.get(number).copied().unwrap_or_default();
            let copy = dialect.own(&copy_name(of, *number));
            let names: Vec<String> =
                table.columns.iter().map(|column| dialect.name(&column.name)).collect();
            let (name, names) = (dialect.name(&table.name), names.join(", "));
            all.push(format!("INSERT INTO {name} ({names}) SELECT {names} FROM {copy}"));
        }
        let state = dialect.own("state");
        for later in listed.keys().filter(|later| **later > height) {
            all.push(format!("DELETE FROM {state} WHERE name = '{NAME}{later}'"));
        }
        self.replaced(height, all).await
    }

    /// Runs statements that the triggers do not see, and makes `height` the last block.
    pub async fn replaced(&mut self, height: Height, statements: Vec<String>) -> Result<()> {
        let [digest, progress, state] =
            ["digest", "progress", "state"].map(|name| self.dialect().own(name));
        let (on, off) = match self.dialect() {
            Dialect::Postgres => {
                ("SET LOCAL tally_chainify.restoring = on".to_owned(), "SELECT 1".to_owned())
            }
            Dialect::MariaDb => (
                format!("SET @{PREFIX}_restoring = 1, SESSION foreign_key_checks = 0"),
                format!("SET @{PREFIX}_restoring = NULL, SESSION foreign_key_checks = 1"),
            ),
        };
        let mut all = vec![on];
        all.extend(statements);
        all.push(format!("DELETE FROM {digest}"));
        all.push(format!("DELETE FROM {progress}"));
        all.push(format!("UPDATE {state} SET value = '{height}' WHERE name = 'block'"));
        let done = self.together(&all).await;
        self.run(&off).await?;
        done.map(|_| ())
    }
}

fn copy_name(height: Height, table: u32) -> String {
    format!("copy_{height}_{table}")
}

fn copy_of(text: &str) -> Option<(u32, Height)> {
    let (table, height) = text.split_once('=')?;
    Some((table.parse().ok()?, height.parse().ok()?))
}
