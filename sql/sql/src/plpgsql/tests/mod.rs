//! Bodies compiled and run against a database of `BTreeMap`s.

mod bank;
mod language;
mod random;

use std::sync::Arc;

use procedure::testing::Memory;
use procedure::{Column, Frame, Meter, Procedure, ProgramResult, run};
use types::{ColumnSchema, DataType, Error, Result, Stop, TableId, TableSchema, Value};

use crate::schema::catalog::{Catalog, Table};
use crate::syntax::path::SearchPath;
use crate::syntax::routine::{CreateFunction, Parameter, ParameterMode, Returns, RoutineKind};

/// A function's head: `name(a bigint, …)` and what it returns.
fn function(parameters: &[(&str, ParameterMode, DataType)], returns: Returns) -> CreateFunction {
    let parameters = parameters.iter().map(|(name, mode, data_type)| Parameter {
        name: name.to_string(),
        mode: *mode,
        data_type: data_type.clone(),
        default: None,
    });
    CreateFunction {
        kind: match returns {
            Returns::Void => RoutineKind::Procedure,
            _ => RoutineKind::Function,
        },
        name: "f".to_string(),
        parameters: parameters.collect(),
        returns,
        language: "plpgsql".to_string(),
        body: String::new(),
        security_definer: false,
        path: SearchPath::default(),
    }
}

fn compile(catalog: &Catalog, mut function: CreateFunction, body: &str) -> Result<Procedure> {
    function.body = body.to_string();
    super::compile(catalog, &function, None)
}

fn call(procedure: &Procedure, arguments: &[Value], memory: &mut Memory) -> Result<ProgramResult> {
    // Loops without an end come to it soon.
    let mut frame = Frame::metered(Meter::new(1_000_000, None));
    run(procedure, arguments, &mut frame, memory).map_err(|stop| match stop {
        Stop::Rejected(error) | Stop::Retry(error) => error,
        Stop::Halt(text) => panic!("{text}"),
    })
}

/// Calls `f(a bigint, b bigint) RETURNS bigint` with this body.
fn eval(body: &str, a: i64, b: i64) -> Result<Value> {
    let bigint = |name| (name, ParameterMode::In, DataType::Int8);
    let head = function(&[bigint("a"), bigint("b")], Returns::Scalar(DataType::Int8));
    let procedure = compile(&Catalog::genesis(), head, body)?;
    let arguments = [Value::Int(a), Value::Int(b)];
    let mut result = call(&procedure, &arguments, &mut Memory::default())?;
    assert_eq!(result.rows.len(), 1);
    Ok(result.rows.remove(0)[0].clone())
}

fn int(body: &str, a: i64, b: i64) -> i64 {
    match eval(body, a, b) {
        Ok(Value::Int(result)) => result,
        other => panic!("{body}: {other:?}"),
    }
}

fn failure(body: &str) -> Error {
    match eval(body, 1, 2) {
        Err(error) => error,
        Ok(value) => panic!("{body}: {value:?}"),
    }
}

fn code(body: &str) -> String {
    failure(body).code().to_string()
}

fn table(id: TableId, name: &str, columns: &[(&str, DataType)], key: &[u16]) -> Arc<Table> {
    let column = |name: &str, data_type: &DataType, nullable| {
        ColumnSchema::new(name, data_type.clone()).nullable(nullable)
    };
    let mut all: Vec<ColumnSchema> = columns
        .iter()
        .enumerate()
        .map(|(i, (name, data_type))| column(name, data_type, !key.contains(&(i as u16))))
        .collect();
    let mut primary_key = key.to_vec();
    if key.is_empty() {
        primary_key.push(all.len() as u16);
        all.push(column("hidden_row_id", &DataType::Uuid, false));
    }
    Arc::new(Table {
        defaults: vec![None; all.len()],
        schema: Arc::new(TableSchema {
            id,
            name: name.to_string(),
            columns: all,
            hidden_row_id: key.is_empty(),
            primary_key,
            indexes: Vec::new(),
        }),
        primary_key_name: format!("{name}_pkey"),
        layout: types::Layout::Row,
        bare_unique: Default::default(),
        nulls_alike: Default::default(),
        materialized: None,
        deferrable: Default::default(),
        declared: Default::default(),
        checks: Vec::new(),
        domains: Default::default(),
        collations: Default::default(),
        foreign_keys: Vec::new(),
        referenced_by: Vec::new(),
        generated: Vec::new(),
    })
}

fn catalog_of(tables: impl IntoIterator<Item = Arc<Table>>) -> Catalog {
    let mut catalog = Catalog::genesis();
    for table in tables {
        catalog.table_names.insert(table.key().to_string(), table.id());
        catalog.tables.insert(table.id(), table);
    }
    catalog
}

fn bigint_column(name: &str) -> Column {
    Column { name: name.to_string(), data_type: DataType::Int8 }
}
