//! The graphs of known procedures, as text.

use std::sync::Arc;

use procedure::Expr;
use procedure::build::{Builder, Tables, add, at_least, int, less, subtract};
use procedure::step::Procedure;
use recovery::analysis::{Analysis, Model, Options, Subject};
use types::{ColumnSchema, DataType, TableId, TableSchema};

const INT: DataType = DataType::Int8;

fn table(id: u32, name: &str) -> Arc<TableSchema> {
    let column = |name: &str| ColumnSchema {
        name: name.into(),
        data_type: INT,
        nullable: false,
        dropped: false,
    };
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
    Analysis::of(&subject, Options { model, flaw: None })
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

mod bed;

fn of_workload(name: &str, settings: &[(&str, u64)], model: Model) -> String {
    let bed = bed::Bed::empty(name, settings);
    let by_name: Tables = bed.schemas().into_iter().collect();
    let programs = bed.workload.programs(&by_name).unwrap();
    analysis(bed.schemas(), programs, model).to_string()
}

#[test]
fn smallbank() {
    print!("{}", of_workload("smallbank", &[], Model::Thesis));
    print!("{}", of_workload("smallbank", &[], Model::Refined));
}

#[test]
fn tpcc() {
    print!("{}", of_workload("tpcc", &[], Model::Thesis));
    print!("{}", of_workload("tpcc", &[], Model::Refined));
}
