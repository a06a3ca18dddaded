//! The same procedures by the builder.

use procedure::build::{Builder, Tables, add, call, concat, int};
use procedure::functions::Function;
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::{Expr, Procedure};
use std::ops::Bound;
use types::{DataType, Result};

const TABLE: &str = "usertable";

pub(super) fn all(tables: &Tables, columns: usize) -> Result<Vec<Procedure>> {
    let names: Vec<String> = (0..columns).map(|n| format!("field{n}")).collect();
    let fields: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(vec![plain(tables, &fields)?, mixed(tables, &fields)?])
}

fn keys() -> DataType {
    DataType::Array(Box::new(DataType::Int8))
}

fn read_all(p: &mut Builder<'_>, keys: Expr, fields: &[&str]) {
    p.for_each(keys, |p, wanted| {
        p.read_columns(TABLE, &[wanted], fields);
    });
}

fn write_all(p: &mut Builder<'_>, keys: Expr, content: &Expr) {
    p.for_each(keys, |p, wanted| {
        p.update(TABLE, &[wanted], vec![("field0", content.clone())]);
    });
}

fn plain(tables: &Tables, fields: &[&str]) -> Result<Procedure> {
    let parameters = [("reads", keys()), ("writes", keys()), ("content", DataType::Text)];
    let mut p = Builder::new(tables, "ycsb", &parameters);
    let [reads, writes, content] = p.arguments();
    read_all(&mut p, reads, fields);
    write_all(&mut p, writes, &content);
    p.build()
}

/// A text with its first character after the others.
fn turned(text: Expr) -> Expr {
    let rest = call(Function::Substring, vec![text.clone(), int(2)], &DataType::Text);
    concat(rest, call(Function::Left, vec![text, int(1)], &DataType::Text))
}

fn mixed(tables: &Tables, fields: &[&str]) -> Result<Procedure> {
    let arrays = ["reads", "writes", "rmws", "commands", "scans"].map(|name| (name, keys()));
    let rest = [("scan_rows", DataType::Int8), ("inserts", keys()), ("content", DataType::Text)];
    let parameters = [&arrays[..], &rest[..]].concat();
    let mut p = Builder::new(tables, "ycsb_mixed", &parameters);
    let [reads, writes, rmws, commands, scans, scan_rows, inserts, content] = p.arguments();
    read_all(&mut p, reads, fields);
    write_all(&mut p, writes, &content);
    p.for_each(rmws, |p, wanted| {
        let key = [wanted];
        let (row, _) = p.read_columns(TABLE, &key, fields);
        p.update(TABLE, &key, vec![("field0", turned(row[0].clone()))]);
    });
    p.for_each(commands, |p, wanted| {
        let field = p.column(TABLE, "field0");
        p.update(TABLE, &[wanted], vec![("field0", turned(field))]);
    });
    p.for_each(scans, |p, first| {
        let end = add(first.clone(), scan_rows, &DataType::Int8);
        let bounds = [Bound::Included([first].into()), Bound::Excluded([end].into())];
        let input = Box::new(p.range(TABLE, None, bounds, &["field0"]));
        let greatest = Aggregate {
            function: AggregateFunction::Max,
            input: Some(Expr::Column(0)),
            distinct: false,
            filter: None,
            separator: None,
            order: Box::default(),
            result: DataType::Text,
        };
        let aggregates = [greatest].into();
        p.fetch::<1>(Query::Aggregate {
            input,
            groups: Box::default(),
            sets: Box::default(),
            aggregates,
        });
    });
    p.for_each(inserts, |p, wanted| {
        let values = fields.iter().map(|field| (*field, content.clone()));
        p.insert(TABLE, std::iter::once(("ycsb_key", wanted)).chain(values).collect());
    });
    p.build()
}
