//! Each workload twice: its procedures from SQL and from the builder must do the same.

use std::sync::Arc;

use procedure::build::Tables;
use procedure::testing::Memory;
use procedure::{Frame, Procedure, ProgramResult, run};
use sql::{Catalog, Statement};
use types::{Stop, TableId, Value};
use workloads::{Settings, Workload};

/// A workload that has been set up by SQL.
struct Bed {
    catalog: Catalog,
    memory: Memory,
}

impl Bed {
    fn new(workload: &dyn Workload) -> Bed {
        let mut catalog = Catalog::genesis();
        for statement in sql::parse(&workload.schema()).unwrap() {
            let bound = sql::bind(&catalog, &statement, &[]).unwrap();
            let Statement::Ddl(ddl) = bound.statement else { panic!("not DDL: {statement:?}") };
            catalog = catalog.apply(&ddl).unwrap().0;
        }
        let mut memory = Memory::new(catalog.tables().map(|table| table.schema.clone()));
        for fill in workload.fills() {
            let copy = &sql::parse(&fill.copy).unwrap()[0];
            let Statement::CopyIn { row, .. } = sql::bind(&catalog, copy, &[]).unwrap().statement
            else {
                panic!("not a COPY: {}", fill.copy)
            };
            for values in fill.batches(1000).flatten() {
                run(&row, &values, &mut Frame::new(), &mut memory).unwrap();
            }
        }
        Bed { catalog, memory }
    }

    fn tables(&self) -> Tables {
        self.catalog.tables().map(|table| table.schema.clone()).collect()
    }

    fn compiled(&self, workload: &dyn Workload) -> Vec<Arc<Procedure>> {
        let names = workload.procedures().into_iter();
        names.map(|name| self.catalog.routine(name).unwrap().procedure(&self.catalog)).collect()
    }

    fn table_ids(&self) -> Vec<TableId> {
        self.catalog.tables().map(|table| table.id()).collect()
    }
}

/// As a transaction: nothing stays of one that fails.
fn call(
    procedure: &Procedure,
    arguments: &[Value],
    memory: &mut Memory,
) -> Result<ProgramResult, Stop> {
    let before = memory.clone();
    let result = run(procedure, arguments, &mut Frame::new(), memory);
    if result.is_err() {
        *memory = before;
    }
    result
}

fn small(workload: &str) -> Vec<Settings> {
    let rows = Settings::default().with("rows", 40);
    let tpcc = Settings::default().with("warehouses", 2).with("customers", 20).with("items", 50);
    match workload {
        "tpcc" => vec![tpcc.with("mix", "even").with("user_aborts", 20).with("remote_lines", 30)],
        "ycsb" => {
            let mixed = rows.clone().with("reads", 20).with("writes", 20).with("rmws", 20);
            let mixed = mixed.with("commands", 20).with("scans", 10).with("inserts", 10);
            vec![rows.with("columns", 3), mixed]
        }
        // Poor customers, so that refusals are among the outcomes.
        "smallbank" => vec![Settings::default().with("rows", 3).with("theta", 1.2)],
        _ => vec![rows],
    }
}

#[test]
fn what_sql_compiles_to_and_what_the_builder_makes_do_the_same() {
    for entry in workloads::ALL {
        for settings in small(entry.name) {
            let workload = entry.make(&settings).unwrap();
            let bed = Bed::new(&*workload);
            let programs = [
                bed.compiled(&*workload),
                workload.programs(&bed.tables()).unwrap().into_iter().map(Arc::new).collect(),
            ];
            let mut memories = [bed.memory.clone(), bed.memory.clone()];
            let mut seen = vec![0; programs[0].len()];
            for one in workload.calls(1).take(150) {
                let [sql, built] = [0, 1].map(|side: usize| {
                    let procedure = &programs[side][one.procedure];
                    call(procedure, &one.arguments, &mut memories[side])
                });
                assert_eq!(sql, built, "{} {one:?}", entry.name);
                seen[one.procedure] += 1;
            }
            for table in bed.table_ids() {
                let [sql, built] = memories.each_ref().map(|memory| memory.rows(table));
                assert_eq!(sql, built, "{} {table:?}", entry.name);
            }
            let never = seen.iter().filter(|count| **count == 0).count();
            assert!(never == 0 || entry.name == "ycsb", "{} {seen:?}", entry.name);
        }
    }
}

#[test]
fn built_programs_have_the_columns_of_those_from_sql() {
    for entry in workloads::ALL {
        let workload = entry.make(&small(entry.name)[0]).unwrap();
        let bed = Bed::new(&*workload);
        let built = workload.programs(&bed.tables()).unwrap();
        for (sql, built) in bed.compiled(&*workload).iter().zip(&built) {
            assert_eq!(sql.name, built.name);
            assert_eq!(sql.parameters, built.parameters, "{}", sql.name);
            assert_eq!(sql.output, built.output, "{}", sql.name);
            assert_eq!(sql.read_only, built.read_only, "{}", sql.name);
        }
    }
}
