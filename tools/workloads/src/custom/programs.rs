//! The same procedure by the builder.

use procedure::Procedure;
use procedure::build::{Builder, Tables, call, element, int};
use procedure::functions::Function;
use types::{DataType, Result};

pub(super) fn all(tables: &Tables) -> Result<Vec<Procedure>> {
    let keys = DataType::Array(Box::new(DataType::Int8));
    let parameters = ["reads", "writes", "amounts"].map(|name| (name, keys.clone()));
    let mut p = Builder::new(tables, "read_write", &parameters);
    let [reads, writes, amounts] = p.arguments();
    p.for_each(reads, |p, wanted| {
        p.read("account", &[wanted], ["balance"]);
    });
    let last = call(Function::Cardinality, vec![writes.clone()], &DataType::Int4);
    p.for_range([int(1), last], |p, n| {
        let amount = element(&amounts, &n);
        p.update("account", &[element(&writes, &n)], vec![("balance", amount)]);
    });
    Ok(vec![p.build()?])
}
