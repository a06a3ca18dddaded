//! Which system tables and views there are, and their columns.
//!
//! `constants/columns.txt` is PostgreSQL's own answer to that question, so `SELECT *` gives what a
//! client has been written for, in its order; after it stand this server's own, `tally_` by name.
//! What is filled is in [`tables`](crate::tables) and `views.sql`; the rest are of things that do
//! not exist here, and empty.

use std::collections::HashMap;
use std::sync::LazyLock;

use types::{DataType, SystemType};

/// A system table or view.
#[derive(Debug)]
pub struct Relation {
    pub schema: &'static str,
    pub name: &'static str,
    pub oid: u32,
    pub is_view: bool,
    pub columns: Vec<Attribute>,
}

#[derive(Debug)]
pub struct Attribute {
    pub name: &'static str,
    pub data_type: DataType,
    pub not_null: bool,
}

static RELATIONS: LazyLock<Vec<Relation>> =
    LazyLock::new(|| parse(include_str!("constants/columns.txt")));

static PLACES: LazyLock<HashMap<(&str, &str), usize>> = LazyLock::new(|| {
    RELATIONS.iter().enumerate().map(|(place, r)| ((r.schema, r.name), place)).collect()
});

pub fn all() -> &'static [Relation] {
    &RELATIONS
}

/// Its place in [`all`].
pub fn place(schema: &str, name: &str) -> Option<usize> {
    PLACES.get(&(schema, name)).copied()
}

impl Relation {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// A line for each relation (`schema.name oid kind`), and its columns below it, further right:
/// `name:type`, and `!` for NOT NULL.
fn parse(text: &'static str) -> Vec<Relation> {
    let mut relations: Vec<Relation> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("    "), relations.last_mut()) {
            (Some(columns), Some(relation)) => {
                relation.columns.extend(columns.split(' ').filter_map(attribute));
            }
            _ => relations.extend(heading(line)),
        }
    }
    relations
}

fn heading(line: &'static str) -> Option<Relation> {
    let mut words = line.split(' ');
    let (schema, name) = words.next()?.split_once('.')?;
    let oid = words.next()?.parse().ok()?;
    Some(Relation { schema, name, oid, is_view: words.next() == Some("v"), columns: Vec::new() })
}

fn attribute(text: &'static str) -> Option<Attribute> {
    let (name, rest) = text.split_once(':')?;
    let type_name = rest.strip_suffix('!');
    Some(Attribute {
        name,
        data_type: internal_type(type_name.unwrap_or(rest))?,
        not_null: type_name.is_some(),
    })
}

/// A type by its name in `pg_type`, an array's with `_` before it.
pub fn internal_type(name: &str) -> Option<DataType> {
    if let Some(element) = name.strip_prefix('_') {
        return Some(DataType::Array(Box::new(internal_type(element)?)));
    }
    match name {
        "char" => Some(DataType::System(SystemType::Char)),
        "bpchar" => Some(DataType::Char(1)),
        _ => SystemType::from_name(name)
            .map(DataType::System)
            .or_else(|| DataType::from_sql_name(name).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_every_relation_is_read() {
        let text = include_str!("constants/columns.txt");
        let columns: usize = all().iter().map(|relation| relation.columns.len()).sum();
        assert_eq!(columns, text.matches(':').count());
        assert_eq!(all().len(), text.lines().filter(|line| !line.starts_with(' ')).count());
    }
}
