//! CH-benCHmark (Cole and others, DBTest 2011): TPC-H's questions to TPC-C's tables, so that
//! orders can come in while they are asked.
//!
//! A row of stock belongs to supplier `s_w_id * s_i_id mod 10,000`, a customer to the nation whose
//! number is the code of the first letter of its state.
//!
//! Departures: amounts are in cents, as in [`crate::tpcc`]; a query that compared dates with 2007
//! compares them with the day before the load; nations are TPC-H's 25 and then numbered ones, as
//! many as there are letters and digits; what ORDER BY left open is closed.

use kit::random::Random;
use tpchgen::generators::NationGenerator;
use types::{Result, Value};

use super::{Analytical, queries_of, tpch};
use crate::settings::Settings;
use crate::text::{letters, uniform};
use crate::workload::{Fill, Row};

const SUPPLIERS: u64 = 10_000;

/// What a state can begin with.
const CODES: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";

const REGIONS: u64 = 5;

/// With as many warehouses as the scale says.
///
/// # Errors
/// None but those of a scale that TPC-C does not have.
pub fn at(scale: f64) -> Result<Analytical> {
    let warehouses = scale.ceil() as u64;
    // Below one warehouse, fewer customers and items in it.
    let part = scale.min(1.0);
    let of = |full: f64| (full * part).max(10.0) as u64;
    let settings = Settings::default().with("warehouses", warehouses);
    let settings = settings.with("customers", of(3_000.0)).with("items", of(100_000.0));
    let transactional = crate::tpcc::ENTRY.make(&settings)?;
    let schema = [crate::tpcc::SCHEMA, include_str!("../../sql/chbench/schema.sql")].concat();
    let mut fills = transactional.fills();
    fills.push(tpch::region_fill("region"));
    fills.push(Fill::groups("nation", 1, |_, out| nations(out)));
    fills.push(Fill::rows("supplier", SUPPLIERS, supplier));
    Ok(Analytical {
        name: "chbench",
        schema,
        indexes: include_str!("../../sql/chbench/indexes.sql"),
        fills,
        queries: queries_of(include_str!("../../sql/chbench/queries.sql")),
    })
}

fn nations(out: &mut Vec<Row>) {
    let named = NationGenerator::default();
    let mut named = named.iter();
    for (place, code) in CODES.iter().enumerate() {
        let (name, region) = match named.next() {
            Some(nation) => (nation.n_name.to_owned(), nation.n_regionkey as u64),
            None => (format!("NATION {place}"), place as u64 % REGIONS),
        };
        let key = Value::Int(i64::from(*code));
        let comment = letters(&mut Random::new(place as u64), 20..=60);
        let region = Value::Int(region as i64);
        out.push([key, Value::text(name), region, Value::text(comment)].into());
    }
}

/// Supplier `n` of `1..=SUPPLIERS` has the number below, since remainders begin at 0.
fn supplier(n: u64) -> Row {
    let number = n - 1;
    let random = &mut Random::new(number);
    let nation = CODES[random.below(CODES.len() as u64) as usize];
    let mut comment = letters(random, 25..=100);
    if random.chance(100) {
        comment.replace_range(10..13, "bad");
    }
    [
        Value::Int(number as i64),
        Value::text(format!("Supplier#{number:09}")),
        Value::text(letters(random, 10..=40)),
        Value::Int(i64::from(nation)),
        Value::text(uniform(random, 1_000_000_000..=9_999_999_999).to_string()),
        Value::Int(uniform(random, 0..=1_000_000) as i64 - 100_000),
        Value::text(comment),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_questions_and_a_nation_for_every_state() {
        let analytical = at(0.01).expect("a hundredth of a warehouse");
        let names: Vec<_> = analytical.queries.iter().map(|query| query.name.clone()).collect();
        assert_eq!(names, (1..=22).map(|n| format!("Q{n}")).collect::<Vec<_>>());
        let mut rows = Vec::new();
        nations(&mut rows);
        assert_eq!(rows.len(), 62);
        let customers = analytical.fills.iter().find(|fill| fill.copy.contains(" customer "));
        for row in customers.expect("customers").batches(1_000).flatten() {
            let state = row[9].as_text().expect("a state").as_bytes()[0];
            assert!(CODES.contains(&state), "{state}");
        }
    }
}
