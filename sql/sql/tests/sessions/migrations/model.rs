//! What statements mean, on plain maps.

use std::collections::{BTreeMap, BTreeSet};

/// A value of a row: all columns are integers.
pub type Cell = Option<i64>;

/// Rows, sorted; or the code of the error.
pub type Answer = Result<Vec<Vec<Cell>>, &'static str>;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    pub columns: Vec<&'static str>,
    defaults: Vec<Cell>,
    has_key: bool,
    /// By their column.
    unique: BTreeSet<&'static str>,
    indexed: BTreeSet<&'static str>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Model {
    pub tables: BTreeMap<&'static str, Table>,
}

/// A statement over tables whose first column is `k`.
#[derive(Clone, Debug)]
pub enum Statement {
    Create {
        table: &'static str,
        key: bool,
    },
    InsertFrom {
        table: &'static str,
        from: &'static str,
    },
    Drop(&'static str),
    Rename {
        table: &'static str,
        to: &'static str,
    },
    AddColumn {
        table: &'static str,
        column: &'static str,
        default: Cell,
    },
    DropColumn {
        table: &'static str,
        column: &'static str,
    },
    AddKey(&'static str),
    Index {
        table: &'static str,
        column: &'static str,
        unique: bool,
    },
    /// Of as many values as the table had columns when it was said.
    Insert {
        table: &'static str,
        key: i64,
        rest: i64,
        width: usize,
    },
    Update {
        table: &'static str,
        column: &'static str,
        value: i64,
        key: i64,
    },
    Delete {
        table: &'static str,
        column: &'static str,
        value: i64,
    },
    /// Rows whose `k` the other table has, however often.
    UpdateFrom {
        table: &'static str,
        column: &'static str,
        value: i64,
        from: &'static str,
    },
    DeleteUsing {
        table: &'static str,
        column: &'static str,
        value: i64,
        using: &'static str,
    },
    /// Rows whose `k` the other table has; those whose `k` is even go.
    Merge {
        table: &'static str,
        column: &'static str,
        value: i64,
        from: &'static str,
    },
    /// Of the rows that go, the keys come into another table, or the same.
    Move {
        table: &'static str,
        column: &'static str,
        value: i64,
        to: &'static str,
    },
    Select(&'static str),
    Find {
        table: &'static str,
        column: &'static str,
        value: i64,
    },
}

const DUPLICATE: &str = "23505";

impl Statement {
    pub fn text(&self) -> String {
        use Statement::*;
        match self {
            Create { table, key: true } => {
                format!("CREATE TABLE {table} (k int PRIMARY KEY, a int)")
            }
            Create { table, key: false } => format!("CREATE TABLE {table} (k int, a int)"),
            InsertFrom { table, from } => {
                format!("INSERT INTO {table} (k) SELECT k + 1 FROM {from}")
            }
            Drop(table) => format!("DROP TABLE {table}"),
            Rename { table, to } => format!("ALTER TABLE {table} RENAME TO {to}"),
            AddColumn { table, column, default: Some(value) } => {
                format!("ALTER TABLE {table} ADD COLUMN {column} int DEFAULT {value}")
            }
            AddColumn { table, column, default: None } => {
                format!("ALTER TABLE {table} ADD COLUMN {column} int")
            }
            DropColumn { table, column } => format!("ALTER TABLE {table} DROP COLUMN {column}"),
            AddKey(table) => format!("ALTER TABLE {table} ADD PRIMARY KEY (k)"),
            Index { table, column, unique } => {
                format!(
                    "CREATE {}INDEX ON {table} ({column})",
                    if *unique { "UNIQUE " } else { "" }
                )
            }
            Insert { table, key, rest, width } => {
                let rest = format!(", {rest}").repeat(width - 1);
                format!("INSERT INTO {table} VALUES ({key}{rest})")
            }
            Update { table, column, value, key } => {
                format!("UPDATE {table} SET {column} = {value} WHERE k = {key}")
            }
            Delete { table, column, value } => {
                format!("DELETE FROM {table} WHERE {column} = {value}")
            }
            UpdateFrom { table, column, value, from } => format!(
                "UPDATE {table} t SET {column} = {value} FROM {from} s WHERE t.k = s.k
                 RETURNING s.k, t.{column}"
            ),
            DeleteUsing { table, column, value, using } => format!(
                "DELETE FROM {table} t USING {using} s WHERE t.k = s.k AND t.{column} = {value}
                 RETURNING s.k, t.{column}"
            ),
            Merge { table, column, value, from } => format!(
                "MERGE INTO {table} t USING (SELECT DISTINCT k FROM {from}) s ON t.k = s.k
                 WHEN MATCHED AND t.k % 2 = 0 THEN DELETE
                 WHEN MATCHED THEN UPDATE SET {column} = {value}
                 WHEN NOT MATCHED AND s.k > {value} THEN INSERT (k) VALUES (s.k)"
            ),
            Move { table, column, value, to } => format!(
                "WITH gone AS (DELETE FROM {table} WHERE {column} = {value} RETURNING k)
                 INSERT INTO {to} (k) SELECT k FROM gone"
            ),
            Select(table) => format!("SELECT * FROM {table}"),
            Find { table, column, value } => {
                format!("SELECT k FROM {table} WHERE {column} = {value}")
            }
        }
    }

    pub fn changes_schema(&self) -> bool {
        use Statement::*;
        matches!(
            self,
            Create { .. }
                | Drop(_)
                | Rename { .. }
                | AddColumn { .. }
                | DropColumn { .. }
                | AddKey(_)
                | Index { .. }
        )
    }

    pub fn writes(&self) -> bool {
        !matches!(self, Statement::Select(_) | Statement::Find { .. })
    }
}

impl Table {
    fn place(&self, column: &str) -> Result<usize, &'static str> {
        self.columns.iter().position(|name| *name == column).ok_or("42703")
    }

    fn check(&self) -> Result<(), &'static str> {
        let key = self.has_key.then_some("k");
        for column in self.unique.iter().copied().chain(key) {
            let place = self.place(column)?;
            let mut seen = BTreeSet::new();
            let mut values = self.rows.iter().filter_map(|row| row[place]);
            if !values.all(|value| seen.insert(value)) {
                return Err(DUPLICATE);
            }
        }
        Ok(())
    }

    /// Those that equal something.
    fn keys(&self) -> BTreeSet<Cell> {
        self.rows.iter().map(|row| row[0]).filter(Option::is_some).collect()
    }

    fn sorted(&self) -> Vec<Vec<Cell>> {
        let mut rows = self.rows.clone();
        rows.sort();
        rows
    }
}

impl Model {
    fn at(&mut self, table: &str) -> Result<&mut Table, &'static str> {
        self.tables.get_mut(table).ok_or("42P01")
    }

    /// Whether it is all the same in which order a statement changes its rows.
    pub fn is_free(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|table| table.unique.is_empty())
    }

    pub fn width(&self, table: &str) -> usize {
        self.tables.get(table).map_or(2, |table| table.columns.len())
    }

    /// Whole or not at all.
    pub fn run(&mut self, statement: &Statement) -> Answer {
        let before = self.clone();
        let answer = self.attempt(statement);
        if answer.is_err() {
            *self = before;
        }
        answer
    }

    fn attempt(&mut self, statement: &Statement) -> Answer {
        use Statement::*;
        let is_taken = |model: &Model, name: &str| model.tables.contains_key(name);
        match *statement {
            Create { table, key } => {
                if is_taken(self, table) {
                    return Err("42P07");
                }
                let (columns, defaults) = (vec!["k", "a"], vec![None, None]);
                let new = Table { columns, defaults, has_key: key, ..Table::default() };
                self.tables.insert(table, new);
            }
            InsertFrom { table, from } => {
                self.at(table)?;
                let keys: Vec<_> = self.at(from)?.rows.iter().map(|row| row[0]).collect();
                let table = self.at(table)?;
                for key in keys {
                    let mut row = table.defaults.clone();
                    row[0] = key.map(|key| key + 1);
                    table.rows.push(row);
                }
                table.check()?;
            }
            Drop(table) => {
                self.at(table)?;
                self.tables.remove(table);
            }
            Rename { table, to } => {
                self.at(table)?;
                if is_taken(self, to) {
                    return Err("42P07");
                }
                let moved = self.tables.remove(table).unwrap_or_default();
                self.tables.insert(to, moved);
            }
            AddColumn { table, column, default } => {
                let table = self.at(table)?;
                if table.place(column).is_ok() {
                    return Err("42701");
                }
                table.columns.push(column);
                table.defaults.push(default);
                table.rows.iter_mut().for_each(|row| row.push(default));
            }
            DropColumn { table, column } => {
                let table = self.at(table)?;
                let place = table.place(column)?;
                table.columns.remove(place);
                table.defaults.remove(place);
                table.unique.remove(column);
                table.indexed.remove(column);
                table.rows.iter_mut().for_each(|row| _ = row.remove(place));
            }
            AddKey(table) => {
                let table = self.at(table)?;
                if table.has_key {
                    return Err("42P16");
                }
                table.has_key = true;
                table.check()?;
            }
            Index { table, column, unique } => {
                let table = self.at(table)?;
                table.place(column)?;
                match unique {
                    true => table.unique.insert(column),
                    false => table.indexed.insert(column),
                };
                table.check()?;
            }
            Insert { table, key, rest, width } => {
                let table = self.at(table)?;
                let mut row = table.defaults.clone();
                row.get_mut(..width).ok_or("42601")?.fill(Some(rest));
                row[0] = Some(key);
                table.rows.push(row);
                table.check()?;
            }
            Update { table, column, value, key } => {
                let table = self.at(table)?;
                let place = table.place(column)?;
                for row in table.rows.iter_mut().filter(|row| row[0] == Some(key)) {
                    row[place] = Some(value);
                }
                table.check()?;
            }
            Delete { table, column, value } => {
                let table = self.at(table)?;
                let place = table.place(column)?;
                table.rows.retain(|row| row[place] != Some(value));
            }
            UpdateFrom { table, column, value, from } => {
                self.at(table)?;
                let keys = self.at(from)?.keys();
                let table = self.at(table)?;
                let place = table.place(column)?;
                let mut changed = Vec::new();
                for row in table.rows.iter_mut().filter(|row| keys.contains(&row[0])) {
                    changed.push(vec![row[0], Some(value)]);
                    row[place] = Some(value);
                }
                table.check()?;
                changed.sort();
                return Ok(changed);
            }
            DeleteUsing { table, column, value, using } => {
                self.at(table)?;
                let keys = self.at(using)?.keys();
                let table = self.at(table)?;
                let place = table.place(column)?;
                let goes = |row: &Vec<Cell>| keys.contains(&row[0]) && row[place] == Some(value);
                let gone = table.rows.iter().filter(|row| goes(row));
                let mut gone: Vec<_> = gone.map(|row| vec![row[0], row[place]]).collect();
                table.rows.retain(|row| !goes(row));
                gone.sort();
                return Ok(gone);
            }
            Merge { table, column, value, from } => {
                self.at(table)?;
                let keys = self.at(from)?.keys();
                let table = self.at(table)?;
                let place = table.place(column)?;
                let known = table.keys();
                let is_even = |key: Cell| key.is_some_and(|key| key % 2 == 0);
                table.rows.retain(|row| !(keys.contains(&row[0]) && is_even(row[0])));
                for row in table.rows.iter_mut().filter(|row| keys.contains(&row[0])) {
                    row[place] = Some(value);
                }
                for key in keys.difference(&known).filter(|key| **key > Some(value)) {
                    let mut row = table.defaults.clone();
                    row[0] = *key;
                    table.rows.push(row);
                }
                table.check()?;
            }
            Move { table, column, value, to } => {
                self.at(to)?;
                let table = self.at(table)?;
                let place = table.place(column)?;
                let goes = |row: &&Vec<Cell>| row[place] == Some(value);
                let gone: Vec<_> = table.rows.iter().filter(goes).map(|row| row[0]).collect();
                table.rows.retain(|row| !goes(&row));
                let to = self.at(to)?;
                for key in gone {
                    let mut row = to.defaults.clone();
                    row[0] = key;
                    to.rows.push(row);
                }
                to.check()?;
            }
            Select(table) => return Ok(self.at(table)?.sorted()),
            Find { table, column, value } => {
                let table = self.at(table)?;
                let place = table.place(column)?;
                let found = table.rows.iter().filter(|row| row[place] == Some(value));
                let mut keys: Vec<Vec<Cell>> = found.map(|row| vec![row[0]]).collect();
                keys.sort();
                return Ok(keys);
            }
        }
        Ok(Vec::new())
    }
}
