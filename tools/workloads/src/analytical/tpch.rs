//! TPC-H, revision 3: a wholesaler's orders, and the 22 questions of its management.
//!
//! Rows are dbgen's, byte for byte, and the queries' text is the specification's (both from the
//! crate `tpchgen`), with the validation parameters of clause 2.4, so that at scale 1 the
//! specification's answers are the right ones.
//!
//! Departures: Q15 names its view in a WITH, since a question should make no tables; and the
//! precision in `interval '90' day (3)` is left out, which PostgreSQL does not read.

use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, NationGenerator, Order,
    OrderGenerator, Part, PartGenerator, PartSupp, PartSuppGenerator, RegionGenerator, Supplier,
    SupplierGenerator,
};
use tpchgen::q_and_a::{answers_sf1, queries};
use types::Value;
use types::numeric::Numeric;

use super::{Analytical, Query};
use crate::workload::{Fill, Row};

/// Rows that are made together, about.
const GROUP_ROWS: i64 = 10_000;

/// From 2000-01-01 to 1970-01-01.
const UNIX_EPOCH_DAYS: i32 = -10_957;

pub fn at(scale: f64) -> Analytical {
    Analytical {
        name: "tpch",
        schema: include_str!("../../sql/tpch/schema.sql").to_owned(),
        indexes: include_str!("../../sql/tpch/indexes.sql"),
        fills: fills(scale),
        queries: (1..=22).map(query).collect(),
    }
}

/// The specification's answer at scale 1: a line of heads and one for each row, cells between
/// bars, padded with blanks; numbers are rounded to two digits.
pub fn answer(number: i32) -> Option<&'static str> {
    answers_sf1::answer(number)
}

/// A table whose generator can begin anywhere.
macro_rules! fill {
    ($table:literal, $generator:ident, $scale:expr, $rows:expr, $row:expr) => {{
        let (scale, rows): (f64, i64) = ($scale, $rows);
        let groups = (rows / GROUP_ROWS).clamp(1, i64::from(i32::MAX)) as i32;
        Fill::groups($table, groups as u64, move |group, out| {
            let generator = $generator::new(scale, group as i32 + 1, groups);
            out.extend(generator.iter().map($row));
        })
    }};
}

fn fills(scale: f64) -> Vec<Fill> {
    let orders = OrderGenerator::calculate_row_count(scale, 1, 1);
    let parts = PartGenerator::calculate_row_count(scale, 1, 1);
    vec![
        region_fill("region"),
        nation_fill("nation"),
        fill!("supplier", SupplierGenerator, scale, GROUP_ROWS, supplier),
        fill!("part", PartGenerator, scale, parts, part),
        fill!("partsupp", PartSuppGenerator, scale, 4 * parts, partsupp),
        fill!("customer", CustomerGenerator, scale, parts, customer),
        fill!("orders", OrderGenerator, scale, orders, order),
        fill!("lineitem", LineItemGenerator, scale, 4 * orders, lineitem),
    ]
}

/// The five regions.
pub(super) fn region_fill(table: &'static str) -> Fill {
    Fill::groups(table, 1, |_, out| {
        out.extend(
            RegionGenerator::default().iter().map(|row| {
                Row::from([int(row.r_regionkey), text(row.r_name), text(row.r_comment)])
            }),
        );
    })
}

fn nation_fill(table: &'static str) -> Fill {
    Fill::groups(table, 1, |_, out| {
        out.extend(NationGenerator::default().iter().map(|row| {
            let key = [int(row.n_nationkey), text(row.n_name)];
            key.into_iter().chain([int(row.n_regionkey), text(row.n_comment)]).collect::<Row>()
        }));
    })
}

fn int(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}

fn text(text: impl ToString) -> Value {
    Value::text(text.to_string())
}

fn money(cents: TPCHDecimal) -> Value {
    Value::Numeric(Numeric::from_units(cents.into_inner().into(), 2))
}

fn date(date: TPCHDate) -> Value {
    Value::Date(date.to_unix_epoch() + UNIX_EPOCH_DAYS)
}

fn supplier(row: Supplier) -> Row {
    [
        int(row.s_suppkey),
        text(row.s_name),
        text(row.s_address),
        int(row.s_nationkey),
        text(row.s_phone),
        money(row.s_acctbal),
        text(row.s_comment),
    ]
    .into()
}

fn part(row: Part<'_>) -> Row {
    [
        int(row.p_partkey),
        text(row.p_name),
        text(row.p_mfgr),
        text(row.p_brand),
        text(row.p_type),
        int(row.p_size),
        text(row.p_container),
        money(row.p_retailprice),
        text(row.p_comment),
    ]
    .into()
}

fn partsupp(row: PartSupp<'_>) -> Row {
    [
        int(row.ps_partkey),
        int(row.ps_suppkey),
        int(row.ps_availqty),
        money(row.ps_supplycost),
        text(row.ps_comment),
    ]
    .into()
}

fn customer(row: Customer<'_>) -> Row {
    [
        int(row.c_custkey),
        text(row.c_name),
        text(row.c_address),
        int(row.c_nationkey),
        text(row.c_phone),
        money(row.c_acctbal),
        text(row.c_mktsegment),
        text(row.c_comment),
    ]
    .into()
}

fn order(row: Order<'_>) -> Row {
    [
        int(row.o_orderkey),
        int(row.o_custkey),
        text(row.o_orderstatus),
        money(row.o_totalprice),
        date(row.o_orderdate),
        text(row.o_orderpriority),
        text(row.o_clerk),
        int(row.o_shippriority),
        text(row.o_comment),
    ]
    .into()
}

fn lineitem(row: LineItem<'_>) -> Row {
    [
        int(row.l_orderkey),
        int(row.l_partkey),
        int(row.l_suppkey),
        int(row.l_linenumber),
        Value::Numeric(Numeric::from(row.l_quantity)),
        money(row.l_extendedprice),
        money(row.l_discount),
        money(row.l_tax),
        text(row.l_returnflag),
        text(row.l_linestatus),
        date(row.l_shipdate),
        date(row.l_commitdate),
        date(row.l_receiptdate),
        text(row.l_shipinstruct),
        text(row.l_shipmode),
        text(row.l_comment),
    ]
    .into()
}

/// The text of a query with its validation parameters, and as many rows as it asks for.
fn query(number: i32) -> Query {
    let place = number as usize - 1;
    let mut text = match number {
        15 => include_str!("../../sql/tpch/q15.sql").to_owned(),
        _ => queries::query(number).unwrap_or_default().replace(" (3)", ""),
    };
    // From the last on, since `:1` begins `:10`.
    for (at, parameter) in PARAMETERS[place].iter().enumerate().rev() {
        text = text.replace(&format!(":{}", at + 1), parameter);
    }
    let text = text.trim().trim_end_matches(';');
    let limit = LIMITS.iter().find(|(limited, _)| *limited == number);
    let limit = limit.map_or(String::new(), |(_, rows)| format!("\nlimit {rows}"));
    Query { name: format!("Q{number}"), text: format!("{text}{limit}") }
}

/// Of queries that ask for the first rows only.
const LIMITS: [(i32, u32); 5] = [(2, 100), (3, 10), (10, 20), (18, 100), (21, 100)];

/// For `:1`, `:2`, … of each query.
const PARAMETERS: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_all_their_parameters() {
        for query in at(0.01).queries {
            assert!(query.text.len() > 100, "{}", query.name);
            assert!(!query.text.contains(':'), "{}: {}", query.name, query.text);
            assert!(!query.text.contains(';'), "{}: {}", query.name, query.text);
        }
    }

    /// However the rows are grouped, they are the same.
    #[test]
    fn tables_have_the_rows_of_their_scale() {
        let count = |fill: &Fill| fill.batches(10_000).map(|rows| rows.len()).sum::<usize>();
        let counts: Vec<usize> = at(0.01).fills.iter().map(count).collect();
        assert_eq!(counts, [5, 25, 100, 2_000, 8_000, 1_500, 15_000, 60_175]);
        let single = LineItemGenerator::new(0.01, 1, 1).iter().map(lineitem);
        let fills = at(0.01).fills;
        let grouped = fills[7].batches(10_000).flatten();
        assert!(single.eq(grouped));
    }
}
