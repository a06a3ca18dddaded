//! Functions that compute as the row executor does, with its own code, value by value.
//!
//! DataFusion's casts cut numbers where PostgreSQL rounds, do not cut strings where it does, and
//! write times in another format; its fields of times lose their fractions; its minus wraps around.
//! The [rewriter](crate::rewrite) calls these instead, by names that no query can mean by accident:
//!
//! ```text
//! cast as numeric(10,2)    extract second    date_part hour    date_trunc month    negate    free
//! zone America/New_York
//! ```
//!
//! The last makes a number one of [variable scale](crate::variable_scale).
//!
//! A cast that Arrow does as PostgreSQL is made a plain one again when the plan is simplified, so
//! that zones and keys are found through it. *Cost.* The others take some 50 ns a value.

use std::sync::Arc;

use chrono_tz::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric::neg;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use procedure::Function;
use snapshot::arrow_type;
use types::{DataType, Error, SqlState, Value, numeric};

use crate::comparable;
use crate::faults::raise;
use crate::rows::{Cells, Digits, Shown, column};
use crate::sql_types::{field, sql_type};
use crate::time_zone;
use crate::variable_scale::VARIABLE_SCALE;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Task {
    Cast(DataType),
    /// `extract`, `date_part` and `date_trunc`, with the name of a field.
    Part(&'static str, String),
    Negate,
    Free,
    /// `AT TIME ZONE`.
    Zone(Tz),
}

/// A function of one argument.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Own {
    name: String,
    task: Task,
    signature: Signature,
}

const PARTS: &[(&str, Function)] = &[
    ("extract", Function::Extract),
    ("date_part", Function::DatePart),
    ("date_trunc", Function::DateTrunc),
];

/// The function of such a name.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    let (verb, object) = name.split_once(' ').unwrap_or((name, ""));
    let task = match (verb, object.strip_prefix("as ")) {
        ("negate", _) if object.is_empty() => Task::Negate,
        ("free", _) if object.is_empty() => Task::Free,
        ("zone", _) => Task::Zone(time_zone::find(object)?),
        ("cast", Some(data_type)) => Task::Cast(DataType::from_sql_name(data_type).ok()?),
        _ if !object.is_empty() => {
            let (verb, _) = PARTS.iter().find(|(part, _)| *part == verb)?;
            Task::Part(verb, object.to_owned())
        }
        _ => return None,
    };
    let signature = Signature::any(1, Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(Own { name: name.to_owned(), task, signature })))
}

/// The cast of an expression to text.
pub(crate) fn text_of(expr: Expr) -> Expr {
    match function("cast as text") {
        Some(function) => function.call(vec![expr]),
        None => expr,
    }
}

impl Task {
    /// The type of the answer to values of a type.
    fn result(&self, from: &DataType) -> DataType {
        match self {
            Task::Cast(to) => to.clone(),
            Task::Negate => from.clone(),
            Task::Free => DataType::Numeric(None),
            Task::Zone(_) if matches!(from, DataType::Timestamp(_)) => DataType::Timestamptz(None),
            Task::Zone(_) => DataType::Timestamp(None),
            Task::Part("date_part", _) => DataType::Float8,
            Task::Part("date_trunc", _) if matches!(from, DataType::Timestamp(_)) => {
                DataType::Timestamp(None)
            }
            Task::Part("date_trunc", _) => DataType::Timestamptz(None),
            Task::Part(_, name) if name == "epoch" && *from == DataType::Date => {
                DataType::Numeric(Some((28, 0)))
            }
            Task::Part(_, name) => DataType::Numeric(Some((28, scale(name)))),
        }
    }

    /// The same as Arrow's, of answers to values of Arrow's type.
    fn arrow(&self, from: &ArrowType, result: &DataType) -> ArrowType {
        match (self, from) {
            (Task::Free, _) => VARIABLE_SCALE,
            (Task::Negate, _) => from.clone(),
            (Task::Cast(DataType::Numeric(None)), _) => match from {
                ArrowType::Decimal128(..) => from.clone(),
                ArrowType::Int16 => ArrowType::Decimal128(5, 0),
                ArrowType::Int32 => ArrowType::Decimal128(10, 0),
                ArrowType::Int64 => ArrowType::Decimal128(19, 0),
                ArrowType::Null => arrow_type(result),
                _ => VARIABLE_SCALE,
            },
            _ => arrow_type(result),
        }
    }

    /// The field of the answers to values of a field.
    fn field(&self, name: &str, from: &Field) -> types::Result<Field> {
        let to = self.result(&sql_type(from)?);
        let arrow = self.arrow(from.data_type(), &to);
        // What is computed of a column is of no type that was declared.
        Ok(match matches!(self, Task::Cast(_)) && arrow == arrow_type(&to) {
            true => field(name, &to, true),
            false => Field::new(name, arrow, true),
        })
    }

    fn answer(&self, value: Value, to: &DataType) -> types::Result<Value> {
        match self {
            Task::Cast(to) => types::cast::cast(&value, to, true),
            Task::Part(verb, name) => {
                let value = match value {
                    Value::Date(_) if *verb == "date_trunc" => {
                        types::cast::cast(&value, &DataType::Timestamptz(None), true)?
                    }
                    value => value,
                };
                let function = PARTS.iter().find(|(part, _)| part == verb).map(|(_, f)| *f);
                let function = function.ok_or_else(|| Error::unsupported("this function"))?;
                let name = procedure::Expr::Const(Value::text(name));
                let call = procedure::Expr::Call {
                    function,
                    arguments: [name, procedure::Expr::Column(0)].into(),
                    result: to.without_modifier(),
                };
                call.eval(&[], &[value], 0)
            }
            Task::Free => types::cast::cast(&value, to, true),
            Task::Zone(zone) => time_zone::at(*zone, value),
            Task::Negate => match value {
                Value::Numeric(number) => Ok(Value::Numeric(numeric::neg(&number))),
                _ => Err(Error::unsupported("this operator")),
            },
        }
    }
}

/// Digits after the point that a field of a time has.
fn scale(name: &str) -> u16 {
    match name {
        "second" | "seconds" | "epoch" => 6,
        "millisecond" | "milliseconds" => 3,
        _ => 0,
    }
}

/// Digits before the point.
fn whole(precision: u8, scale: i8) -> i16 {
    i16::from(precision) - i16::from(scale)
}

/// Whether Arrow's cast is PostgreSQL's.
fn is_arrows(from: &ArrowType, to: &DataType) -> bool {
    use ArrowType as A;
    let target = arrow_type(to);
    match (from, &target) {
        // Digits that were given stay.
        (A::Decimal128(..), _) if *to == DataType::Numeric(None) => true,
        // Neither a digit after the point nor one before it may be lost: DataFusion would take the
        // cast out of a comparison.
        (A::Decimal128(from, from_scale), A::Decimal128(to, to_scale)) => {
            to_scale >= from_scale && whole(*to, *to_scale) >= whole(*from, *from_scale)
        }
        (A::Int16, A::Decimal128(to, scale)) => whole(*to, *scale) >= 5,
        (A::Int32, A::Decimal128(to, scale)) => whole(*to, *scale) >= 10,
        (A::Int64, A::Decimal128(to, scale)) => whole(*to, *scale) >= 19,
        (A::Null, _) => true,
        (A::Utf8 | A::LargeUtf8 | A::Utf8View, A::Utf8View) => *to == DataType::Text,
        (A::Utf8View, _) => false,
        (A::Int16, A::Int16 | A::Int32 | A::Int64 | A::Float64)
        | (A::Int32, A::Int32 | A::Int64 | A::Float64)
        | (A::Int64, A::Int64)
        | (A::Date32, A::Timestamp(..)) => true,
        (from, to) => from == to,
    }
}

/// There is one NaN, and no other sorts as it does.
fn one_nan(array: ArrayRef) -> ArrayRef {
    match array.as_primitive_opt::<Float64Type>() {
        Some(floats) => Arc::new(comparable::canonical(floats, false)),
        None => array,
    }
}

impl ScalarUDFImpl for Own {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        let Some(from) = types.first() else { return exec_err!("{} of nothing", self.name) };
        if self.task == Task::Negate {
            return Ok(from.clone());
        }
        let field = self.task.field("", &Field::new("", from.clone(), true)).map_err(raise)?;
        Ok(field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [from] = args.arg_fields else { return exec_err!("{} of nothing", self.name) };
        if self.task == Task::Negate {
            return Ok(from.clone());
        }
        let of = sql_type(from).map_err(raise)?;
        let to = self.task.result(&of);
        let is_time = of.is_datetime() || *from.data_type() == ArrowType::Null;
        if matches!(self.task, Task::Part(..) | Task::Zone(_)) && !is_time {
            let message = format!("function {}({of}) does not exist", self.name);
            return Err(raise(Error::new(SqlState::UNDEFINED_FUNCTION, message)));
        }
        if to.is_string() && Shown::new(from, of).digits == Digits::Needed {
            let error = Error::unsupported("the text of a numeric without a scale");
            return Err(raise(error.with_hint("Cast it to numeric(p, s) first.")));
        }
        self.task.field(&self.name, from).map(Arc::new).map_err(raise)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[..], [ColumnarValue::Scalar(_)]);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let from = args.args[0].to_array(rows)?;
        let answers: ArrayRef = match &self.task {
            Task::Negate if *from.data_type() != VARIABLE_SCALE => one_nan(neg(&from)?),
            task => answers(task, &from, &args.arg_fields[0]).map_err(raise)?,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(answers),
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Task::Cast(to) = &self.task else { return Ok(ExprSimplifyResult::Original(args)) };
        let [from] = &args[..] else { return Ok(ExprSimplifyResult::Original(args)) };
        if !is_arrows(&info.get_data_type(from)?, to) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let of = info.get_data_type(from)?;
        let to = self.task.field("", &Field::new("", of.clone(), true)).map_err(raise)?;
        Ok(ExprSimplifyResult::Simplified(match of == *to.data_type() {
            true if to.metadata().is_empty() => from.clone(),
            _ => Expr::Cast(Cast::new_from_field(Box::new(from.clone()), Arc::new(to))),
        }))
    }
}

fn answers(task: &Task, from: &ArrayRef, from_field: &Field) -> types::Result<ArrayRef> {
    let of = sql_type(from_field)?;
    let (to, made) = (task.result(&of), task.field("", from_field)?);
    let shown = Shown::new(from_field, of);
    let cells = Cells::new(from, &shown.data_type, shown.digits)?;
    let answer = |row| match cells.value(row)? {
        Value::Null => Ok(Value::Null),
        value => task.answer(value, &to),
    };
    let answers = (0..from.len()).map(answer).collect::<types::Result<Vec<Value>>>()?;
    column(&answers, &to, made.data_type())
}
