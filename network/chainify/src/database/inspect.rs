//! What tables there are, and whether they can be chained.

use std::collections::BTreeSet;

use types::{Error, Result, SqlState};

use super::{Database, is_true};
use crate::dialect::{Dialect, Formless, mariadb, postgres};
use crate::schema::{Column, Kind, Schema, Table};

/// What is found beside the schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspected {
    pub schema: Schema,
    /// Tables, those that others refer to by foreign keys before these.
    pub referred_first: Vec<String>,
    /// What works, and will deviate where statements rely on it.
    pub warnings: Vec<String>,
}

impl Database {
    /// Reads these tables, and refuses what cannot be chained, by its name.
    pub async fn inspect(&mut self, names: &[String]) -> Result<Inspected> {
        let mut warnings = Vec::new();
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            // Before a name gets into a statement.
            let key = Column { name: "id".into(), kind: Kind::Date, nullable: false, is_key: true };
            Schema::new(vec![Table { name: name.clone(), columns: vec![key] }])?;
            self.check_table(name).await?;
            let columns = self.columns(name, &mut warnings).await?;
            tables.push(Table { name: name.clone(), columns });
        }
        let schema = Schema::new(tables)?;
        let referred_first = self.referred_first(&schema).await?;
        Ok(Inspected { schema, referred_first, warnings })
    }

    async fn check_table(&mut self, name: &str) -> Result<()> {
        let asked = match self.dialect() {
            Dialect::Postgres => postgres::hindrance(name),
            Dialect::MariaDb => mariadb::hindrance(name),
        };
        let found = self.rows(&asked).await?;
        let Some(hindrance) = found.first().and_then(|row| row.first()) else {
            let what = format!("table \"{name}\" does not exist in {}", self.name());
            return Err(Error::new(SqlState::UNDEFINED_TABLE, what));
        };
        match hindrance {
            None => Ok(()),
            Some(why) => Err(refused(name, why.clone())),
        }
    }

    async fn columns(&mut self, table: &str, warnings: &mut Vec<String>) -> Result<Vec<Column>> {
        let dialect = self.dialect();
        let asked = match dialect {
            Dialect::Postgres => postgres::columns(table),
            Dialect::MariaDb => mariadb::columns(table),
        };
        let mut columns = Vec::new();
        for row in self.rows(&asked).await? {
            let [Some(name), Some(of_type), not_null, made, default, is_key, collation] = &row[..]
            else {
                return Err(refused(table, format!("A column cannot be read: {row:?}.")));
            };
            let kind = match dialect {
                Dialect::Postgres => postgres::kind(of_type),
                Dialect::MariaDb => mariadb::kind(of_type),
            };
            let kind = kind.map_err(|Formless(why)| {
                refused(table, format!("Column \"{name}\" is of type {of_type}: {why}."))
            })?;
            if is_true(made) {
                let why = format!("Column \"{name}\" is generated or numbered by the database.");
                return Err(refused(table, why).with_hint(
                    "Let statements give it a value: sequences count on when a \
                                transaction fails, and differ.",
                ));
            }
            let is_constant = |default: &String| match dialect {
                Dialect::Postgres => postgres::is_constant(default),
                Dialect::MariaDb => mariadb::is_constant(default),
            };
            if let Some(default) = default.iter().find(|default| !is_constant(default)) {
                let why = format!("Column \"{name}\" has the default {default}.");
                return Err(
                    refused(table, why).with_hint("Only constants are the same everywhere.")
                );
            }
            let is_key = is_true(is_key);
            self.check_collation((table, name), is_key, collation, warnings)?;
            let nullable = !is_true(not_null);
            columns.push(Column { name: name.clone(), kind, nullable, is_key });
        }
        Ok(columns)
    }

    fn check_collation(
        &self,
        (table, column): (&str, &str),
        is_key: bool,
        collation: &Option<String>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let (is_binary, is_utf8) = match self.dialect() {
            Dialect::Postgres => (is_true(collation), true),
            Dialect::MariaDb => {
                let name = collation.as_deref();
                (mariadb::is_binary(name), mariadb::is_utf8(name))
            }
        };
        let shown = collation.as_deref().unwrap_or_default();
        if !is_utf8 {
            let why = format!("Column \"{column}\" has the collation {shown}, not one of utf8mb4.");
            return Err(refused(table, why));
        }
        if is_binary {
            return Ok(());
        }
        let equal = "takes texts for equal that differ in their bytes";
        let why = format!("The collation of column \"{column}\" ({shown}) {equal}.");
        match is_key || self.dialect() == Dialect::Postgres {
            true => {
                Err(refused(table, why).with_hint("In MariaDB, utf8mb4_nopad_bin compares bytes."))
            }
            false => {
                warnings.push(format!(
                    "table \"{table}\": {why} A condition on it may find other rows than elsewhere."
                ));
                Ok(())
            }
        }
    }

    async fn referred_first(&mut self, schema: &Schema) -> Result<Vec<String>> {
        let names: Vec<String> =
            schema.tables.iter().map(|table| format!("'{}'", table.name)).collect();
        let asked = match self.dialect() {
            Dialect::Postgres => postgres::foreign_keys(&names.join(", ")),
            Dialect::MariaDb => mariadb::foreign_keys(&names.join(", ")),
        };
        let mut references = BTreeSet::new();
        for row in self.rows(&asked).await? {
            let [Some(from), Some(to), acts] = &row[..] else { continue };
            if let Some(other) = [from, to].into_iter().find(|it| schema.table(it).is_none()) {
                let chained = if other == from { to } else { from };
                let why = format!("A foreign key is between it and \"{other}\", which is not.");
                return Err(refused(chained, why).with_hint("Chain both of them."));
            }
            if is_true(acts) {
                let why = format!(
                    "Its foreign key to \"{to}\" changes rows by itself, and MariaDB fires no \
                     triggers then."
                );
                return Err(refused(from, why).with_hint("Use RESTRICT or NO ACTION."));
            }
            if from != to {
                references.insert((from.clone(), to.clone()));
            }
        }
        sorted(schema, &references)
    }
}

fn sorted(schema: &Schema, references: &BTreeSet<(String, String)>) -> Result<Vec<String>> {
    let mut left: Vec<&str> = schema.tables.iter().map(|table| &*table.name).collect();
    let mut sorted: Vec<String> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits =
            |name: &str| references.iter().any(|(from, to)| from == name && !sorted.contains(to));
        let Some(place) = left.iter().position(|name| !waits(name)) else {
            let why = format!("Foreign keys among {} form a cycle.", left.join(", "));
            return Err(refused(left[0], why));
        };
        sorted.push(left.remove(place).to_owned());
    }
    Ok(sorted)
}

fn refused(table: &str, why: String) -> Error {
    let what = format!("table \"{table}\" cannot be chained");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_by_foreign_keys() {
        let text = ["a", "b", "c"].map(|name| format!("table {name}\n  id int8 not null key\n"));
        let schema = Schema::parse(&text.concat()).unwrap();
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
            sorted(&schema, &pairs.collect())
        };
        assert_eq!(of(&[]).unwrap(), ["a", "b", "c"]);
        assert_eq!(of(&[("a", "c"), ("c", "b")]).unwrap(), ["b", "c", "a"]);
        let error = of(&[("a", "b"), ("b", "a")]).unwrap_err();
        assert!(error.fields().detail.clone().unwrap().contains("a, b"), "{error:?}");
    }
}
