//! Random values of queries that the row executor does not run.
//!
//! What the analytical engine answers is in no block, so nothing has to be drawn again: each batch
//! of rows draws from a seed of the system's, as the row executor's queries do. *Cost.* A system
//! call for each batch, and some 100 ns a row.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use procedure::chance::{Draw, Seed};
use rustix::rand::{GetRandomFlags, getrandom};
use types::{DataType, Error, SqlState, Value};

use crate::faults::raise;
use crate::rows::column;
use crate::sql_types::field;

/// `random()`, or a UUID of version 4.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Chance {
    name: String,
    data_type: DataType,
    signature: Signature,
}

/// The function of such a name that takes no arguments.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    let data_type = match name {
        "random" => DataType::Float8,
        "gen_random_uuid" | "uuidv4" | "uuid_generate_v4" => DataType::Uuid,
        _ => return None,
    };
    let signature = Signature::nullary(Volatility::Volatile);
    let function = Chance { name: name.to_owned(), data_type, signature };
    Some(Arc::new(ScalarUDF::new_from_impl(function)))
}

fn new_seed() -> types::Result<Seed> {
    let mut seed = Seed::default();
    match getrandom(&mut seed, GetRandomFlags::empty()) {
        Ok(16) => Ok(seed),
        _ => Err(Error::new(SqlState::IO_ERROR, "the system has no random numbers")),
    }
}

impl ScalarUDFImpl for Chance {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(snapshot::arrow_type(&self.data_type))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(field(&self.name, &self.data_type, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seed = new_seed().map_err(raise)?;
        let drawn = (0..args.number_rows as u64).map(|position| {
            let draw = Draw { seed, lane: 0, position };
            match self.data_type {
                DataType::Float8 => Value::Float(draw.fraction()),
                _ => Value::Uuid(draw.uuid4()),
            }
        });
        let drawn: Vec<Value> = drawn.collect();
        let arrow = snapshot::arrow_type(&self.data_type);
        let values = column(&drawn, &self.data_type, &arrow).map_err(raise)?;
        Ok(ColumnarValue::Array(values))
    }
}
