//! Bodies compiled and run against a database of `BTreeMap`s.

mod bank;
mod language;
mod random;

use procedure::testing::Memory;
use procedure::{Column, Frame, Procedure, ProgramResult, run};
use types::{DataType, Error, Result, Stop, Value};

use crate::catalog::Catalog;
use crate::ddl::{CreateFunction, Parameter, ParameterMode, Returns, RoutineKind};

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
    }
}

fn compile(catalog: &Catalog, mut function: CreateFunction, body: &str) -> Result<Procedure> {
    function.body = body.to_string();
    super::compile(catalog, &function)
}

fn call(procedure: &Procedure, arguments: &[Value], memory: &mut Memory) -> Result<ProgramResult> {
    run(procedure, arguments, &mut Frame::new(), memory).map_err(|stop| match stop {
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

fn bigint_column(name: &str) -> Column {
    Column {
        name: name.to_string(),
        data_type: DataType::Int8,
    }
}
