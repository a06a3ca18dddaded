//! Types: the built-in ones are constants; each table has a row type and that one's array.

use types::Value;

use super::{Facts, Rows, oid};
use crate::oid as number;
use crate::world::{Names, World};

/// Input, output, receive and send functions: drivers know arrays by them.
const RECORD_FUNCTIONS: [u32; 4] = [2290, 2291, 2402, 2403];
const ARRAY_FUNCTIONS: [u32; 4] = [750, 751, 2400, 2401];

fn functions(numbers: &[u32; 4]) -> impl Iterator<Item = (&'static str, Value)> {
    let columns = ["typinput", "typoutput", "typreceive", "typsend"];
    columns.into_iter().zip(numbers.map(oid))
}

pub fn pg_type(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for table in facts.world.catalog.tables() {
        let (row, array) = (number::row_type(table.id()), number::array_of_row_type(table.id()));
        let shared = |this: u32, name: String, kind: &str, category: &str| {
            vec![
                ("oid", oid(this)),
                ("typname", Value::text(name)),
                ("typnamespace", oid(number::PUBLIC)),
                ("typowner", oid(number::OWNER)),
                ("typlen", Value::Int(-1)),
                ("typtype", Value::text(kind)),
                ("typcategory", Value::text(category)),
                ("typisdefined", Value::Bool(true)),
                ("typdelim", Value::text(",")),
                ("typalign", Value::text("d")),
                ("typstorage", Value::text("x")),
                ("typtypmod", Value::Int(-1)),
            ]
        };
        let mut columns = shared(row, table.name().to_owned(), "c", "C");
        columns.push(("typrelid", oid(number::table(table.id()))));
        columns.extend(functions(&RECORD_FUNCTIONS));
        columns.push(("typarray", oid(array)));
        rows.row(&columns);
        let mut columns = shared(array, format!("_{}", table.name()), "b", "A");
        columns.push(("typelem", oid(row)));
        columns.extend(functions(&ARRAY_FUNCTIONS));
        rows.row(&columns);
    }
}

pub fn names(world: &World, names: &mut Names) {
    for table in world.catalog.tables() {
        let name = table.name();
        names.types.insert(number::row_type(table.id()), name.to_owned());
        names.types.insert(number::array_of_row_type(table.id()), format!("_{name}"));
    }
}
