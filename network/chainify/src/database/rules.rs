//! Reads a database's unique indexes and foreign keys from its catalog, as the
//! [rules](crate::stages::rules) by which statements conflict.

use types::Result;

use super::{Database, is_true};
use crate::dialect::{Dialect, mariadb, postgres};
use crate::schema::{Schema, Table};
use crate::stages::rules::{Reference, Rules};

impl Database {
    pub async fn rules(&mut self, schema: &Schema) -> Result<Rules> {
        let dialect = self.dialect();
        let names: Vec<String> =
            schema.tables.iter().map(|table| format!("'{}'", table.name)).collect();
        let names = names.join(", ");
        let (unique, references) = match dialect {
            Dialect::Postgres => (postgres::unique(&names), postgres::references(&names)),
            Dialect::MariaDb => (mariadb::unique(&names), mariadb::references(&names)),
        };
        let mut rules = Rules {
            unique: vec![Vec::new(); schema.tables.len()],
            references: Vec::new(),
            locks_what_it_reads: dialect == Dialect::MariaDb,
            compares_bytes: dialect == Dialect::Postgres,
        };
        let named = |name: &str| schema.numbered().find(|(_, table)| table.name == name);
        for row in self.rows(&unique).await? {
            let [Some(table), columns] = &row[..] else { continue };
            let Some((number, table)) = named(table) else { continue };
            let columns = columns.as_deref().and_then(|it| places(table, it)).unwrap_or_default();
            rules.unique[number as usize - 1].push(columns);
        }
        for row in self.rows(&references).await? {
            let [Some(from), Some(from_columns), Some(to), Some(to_columns), acts] = &row[..]
            else {
                continue;
            };
            let (Some((from, of)), Some((to, other))) = (named(from), named(to)) else { continue };
            let columns = (places(of, from_columns), places(other, to_columns));
            let (Some(from_columns), Some(to_columns)) = columns else { continue };
            let acts = is_true(acts);
            rules.references.push(Reference { from, from_columns, to, to_columns, acts });
        }
        Ok(rules)
    }
}

/// Of columns by their names with commas between.
fn places(table: &Table, names: &str) -> Option<Vec<usize>> {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    names.split(',').map(place).collect()
}
