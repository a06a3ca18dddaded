//! Each workload twice: its procedures from SQL and from the builder must do the same.

use std::ops::ControlFlow;
use std::sync::Arc;

use procedure::build::Tables;
use procedure::testing::Memory;
use procedure::{Access, Command, Frame, Procedure, ProgramResult, Range, Row, run};
use sql::{Catalog, Program, Statement};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};
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
            let Statement::Program(Program::CopyIn { row, .. }) =
                sql::bind(&catalog, copy, &[]).unwrap().statement
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

/// What a call did to rows: what a protocol makes of it depends on the kinds of its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Kinds {
    reads: u32,
    /// Looks whether a row is there.
    looks: u32,
    /// Updates that look at nothing of their rows.
    writes: u32,
    /// Updates that do.
    commands: u32,
    inserts: u32,
    deletes: u32,
    scans: u32,
}

struct Counted<'a> {
    memory: &'a mut Memory,
    kinds: Kinds,
}

impl Access for Counted<'_> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        self.kinds.reads += 1;
        self.memory.read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.kinds.looks += 1;
        self.memory.exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        match command.code.columns.is_empty() {
            true => self.kinds.writes += 1,
            false => self.kinds.commands += 1,
        }
        self.memory.update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        self.kinds.inserts += 1;
        self.memory.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.kinds.deletes += 1;
        self.memory.delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        self.kinds.scans += 1;
        self.memory.scan(range, columns, visit)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        self.memory.next_row_id()
    }

    fn now_us(&self) -> i64 {
        self.memory.now_us()
    }
}

/// As a transaction: nothing stays of one that fails.
fn call(
    procedure: &Procedure,
    arguments: &[Value],
    memory: &mut Memory,
) -> (Result<ProgramResult, Stop>, Kinds) {
    let before = memory.clone();
    let mut counted = Counted { memory, kinds: Kinds::default() };
    let result = run(procedure, arguments, &mut Frame::new(), &mut counted);
    let kinds = counted.kinds;
    if result.is_err() {
        *memory = before;
    }
    (result, kinds)
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
