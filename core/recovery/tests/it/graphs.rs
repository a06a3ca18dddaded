//! The graphs of known procedures, as text.

use std::sync::Arc;

use procedure::Expr;
use procedure::build::{Builder, Tables, add, at_least, int, less, subtract};
use procedure::step::Procedure;
use recovery::analysis::{Analysis, Model, Options, Subject};
use types::{ColumnSchema, DataType, TableId, TableSchema};

const INT: DataType = DataType::Int8;

fn table(id: u32, name: &str) -> Arc<TableSchema> {
    let column = |name: &str| ColumnSchema::new(name, INT);
    Arc::new(TableSchema {
        id: TableId(id),
        name: name.into(),
        columns: vec![column("id"), column("value")],
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

fn schemas() -> Vec<Arc<TableSchema>> {
    let names = ["spouse", "current", "saving", "stats"];
    names.iter().zip(1..).map(|(name, id)| table(id, name)).collect()
}

/// Reads a value and writes it back, changed: two operations.
fn change(p: &mut Builder<'_>, table: &str, key: &Expr, by: impl FnOnce(Expr) -> Expr) -> Expr {
    let ([value], _) = p.read(table, std::slice::from_ref(key), ["value"]);
    let next = p.assign(by(value));
    p.update(table, std::slice::from_ref(key), vec![("value", next.clone())]);
    next
}

/// The thesis's first example: money goes from a customer to the spouse, and a bonus to savings.
fn transfer(tables: &Tables) -> Procedure {
    let mut p = Builder::new(tables, "transfer", &[("source", INT), ("amount", INT)]);
    let [source, amount] = p.arguments();
    let ([spouse], _) = p.read("spouse", std::slice::from_ref(&source), ["value"]);
    p.when(less(int(0), spouse.clone()), |p| {
        change(p, "current", &source, |value| subtract(value, amount.clone(), &INT));
        change(p, "current", &spouse, |value| add(value, amount.clone(), &INT));
        change(p, "saving", &source, |value| add(value, int(1), &INT));
    });
    p.build().unwrap()
}

/// The second: large balances are counted as savings, and in the nation's statistics.
fn deposit(tables: &Tables) -> Procedure {
    let mut p = Builder::new(tables, "deposit", &[("name", INT), ("amount", INT), ("nation", INT)]);
    let [name, amount, nation] = p.arguments();
    let balance = change(&mut p, "current", &name, |value| add(value, amount, &INT));
    let large = at_least(balance, int(10_000));
    p.when(large.clone(), |p| {
        change(p, "saving", &name, |value| add(value, int(1), &INT));
    });
    p.when(large, |p| {
        change(p, "stats", &nation, |value| add(value, int(1), &INT));
    });
    p.build().unwrap()
}

fn analysis(schemas: Vec<Arc<TableSchema>>, procedures: Vec<Procedure>, model: Model) -> Analysis {
    let subject = Subject {
        procedures: procedures.into_iter().map(|p| (Arc::new(p), true)).collect(),
        tables: schemas.into_iter().map(|schema| (schema.id, schema)).collect(),
        ..Subject::default()
    };
    Analysis::of(&subject, Options { model, mutant: None })
}

#[test]
fn transfer_and_deposit_have_the_four_blocks_of_the_thesis() {
    let tables: Tables = schemas().into_iter().collect();
    let procedures = vec![transfer(&tables), deposit(&tables)];
    let found = analysis(schemas(), procedures, Model::Thesis);
    assert_eq!(
        found.to_string(),
        "\
P0 transfer
  S0  read spouse
  S1  read current, update current, read current, update current
  S2  read saving, update saving
  S0 → S1, S0 → S2
P1 deposit
  S0  read current, update current
  S1  read saving, update saving
  S2  read stats, update stats
  S0 → S1, S0 → S2
B0 (reads only)  P0S0
B1 (current)  P0S1 P1S0
B2 (saving)  P0S2 P1S1
B3 (stats)  P1S2
B0 → B1, B0 → B2, B1 → B2, B1 → B3
"
    );
}

#[test]
fn a_constant_read_is_replicated_like_a_guard() {
    let tables: Tables = schemas().into_iter().collect();
    let found = analysis(schemas(), vec![transfer(&tables)], Model::Refined);
    let text = found.to_string();
    assert!(text.ends_with("B0 (current)  P0S0\nB1 (saving)  P0S1\n"), "{text}");
}

fn of_workload(name: &str, settings: &[(&str, u64)], model: Model) -> String {
    let bed = crate::bed::Bed::empty(name, settings);
    let by_name: Tables = bed.schemas().into_iter().collect();
    let programs = bed.workload.programs(&by_name).unwrap();
    analysis(bed.schemas(), programs, model).to_string()
}

#[test]
fn smallbank_has_savings_before_checking() {
    assert_eq!(
        of_workload("smallbank", &[], Model::Thesis),
        "\
P0 sb_amalgamate
  S0  read savings, update savings
  S1  read checking, update checking, update checking
  S0 → S1
P1 sb_balance
  S0  read savings
  S1  read checking
P2 sb_deposit_checking
  S0  update checking
P3 sb_send_payment
  S0  read checking, update checking, update checking
P4 sb_transact_savings
  S0  read savings, update savings
P5 sb_write_check
  S0  read savings
  S1  read checking, update checking
  S0 → S1
B0 (savings)  P0S0 P1S0 P4S0 P5S0
B1 (checking)  P0S1 P1S1 P2S0 P3S0 P5S1
B0 → B1
"
    );
}

/// Seven blocks by tables: delivery pays customers by their orders' lines, and knows whom to pay
/// by the orders, so these are close together.
#[test]
fn tpcc_by_tables() {
    let text = of_workload("tpcc", &[], Model::Thesis);
    assert_eq!(
        blocks(&text),
        "\
B0 (warehouse)  P0S0 P1S0 P2S0
B1 (district)  P0S2 P1S1 P2S1 P6S0
B2 (new_order)  P0S4 P5S0
B3 (reads only)  P0S5
B4 (order_line, stock)  P0S6 P0S7 P5S2 P6S1
B5 (customer, orders)  P0S1 P0S3 P1S2 P2S2 P3S0 P3S1 P4S0 P4S1 P4S2 P5S1 P5S3
B6 (history)  P1S3 P2S3
B0 → B6, B1 → B2, B1 → B4, B1 → B5, B1 → B6, B2 → B4, B2 → B5, B3 → B4, B4 → B5, B5 → B6
"
    );
}

/// By columns every table has a block of its own: names, prices and the stock's texts never change,
/// and what only looks is not replayed.
#[test]
fn tpcc_by_columns() {
    assert_eq!(
        of_workload("tpcc", &[], Model::Refined),
        "\
P0 tpcc_new_order
  S0  read district, update district
  S1  insert orders
  S2  insert new_order
  S3  update stock
  S4  insert order_line
  S0 → S1, S0 → S2, S0 → S4
P1 tpcc_payment
  S0  update warehouse
  S1  update district
  S2  read customer, update customer, update customer
  S3  insert history
P2 tpcc_payment_by_name
  S0  update warehouse
  S1  update district
  S2  read customer, update customer, update customer
  S3  insert history
P3 tpcc_order_status
P4 tpcc_order_status_by_name
P5 tpcc_delivery
  S0  query new_order, delete new_order
  S1  read orders, update orders
  S2  query order_line, for rows order_line, update order_line
  S3  update customer
  S0 → S1, S0 → S2, S0 → S3, S1 → S3, S2 → S3
P6 tpcc_stock_level
B0 (district)  P0S0 P1S1 P2S1
B1 (new_order)  P0S2 P5S0
B2 (orders)  P0S1 P5S1
B3 (stock)  P0S3
B4 (order_line)  P0S4 P5S2
B5 (warehouse)  P1S0 P2S0
B6 (customer)  P1S2 P2S2 P5S3
B7 (history)  P1S3 P2S3
B0 → B1, B0 → B2, B0 → B4, B1 → B2, B1 → B4, B1 → B6, B2 → B6, B4 → B6
"
    );
}

fn blocks(text: &str) -> &str {
    text.find("\nB0").map_or(text, |at| &text[at + 1..])
}

#[test]
fn the_graph_is_drawn_for_graphviz() {
    let tables: Tables = schemas().into_iter().collect();
    let found = analysis(schemas(), vec![deposit(&tables)], Model::Thesis);
    assert_eq!(
        found.to_dot(),
        "\
digraph recovery {
  node [shape=box];
  B0 [label=\"B0: current\\nP0S0\"];
  B1 [label=\"B1: saving\\nP0S1\"];
  B2 [label=\"B2: stats\\nP0S2\"];
  B0 -> B1;
  B0 -> B2;
}
"
    );
    assert!(found.local_to_dot(0).contains("P0S1 [label=\"read saving, update saving\"]"));
}
