//! Functions and operators whose answer is the row executor's, since it is the row executor that
//! answers.
//!
//! The types of the operands decide, by the row executor's own binder, which of its expressions a
//! call is; each row is then evaluated by it. So text is cut, numbers are rounded, times are taken
//! apart and all of them are refused there and here alike, to the last digit of a number.
//!
//! | | named | which are |
//! |---|---|---|
//! | functions | as in SQL | [those of the row executor](SHARED_FUNCTIONS) |
//! | operators | `call +` | with a [numeric of variable scale](crate::variable_scale) or a date |
//! | `round`, `trunc` | `round 2` | to a number of digits that is written |
//!
//! A number that comes out brings its own digits, unless the call says how many it has: `round 2`,
//! `floor`. *Cost.* 50 to 200 ns a row.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType as ArrowType, Field, FieldRef,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use procedure::BinaryOp;
use sql::bind::{SHARED_FUNCTIONS, Typed, call_of, operator_of};
use types::{DataType, Error, Value};

use crate::faults::{raise, too_long};
use crate::rows::{Cells, Digits, Shown, column};
use crate::sql_types::{field, sql_type};
use crate::variable_scale::{SCALE, VARIABLE_SCALE};

/// Functions that are called as the row executor calls them, beside [`SHARED_FUNCTIONS`].
const FUNCTIONS: &[&str] = &["concat", "concat_ws", "position", "trim"];

const OPERATORS: &[(&str, BinaryOp)] = &[
    ("call +", BinaryOp::Add),
    ("call -", BinaryOp::Subtract),
    ("call *", BinaryOp::Multiply),
    ("call /", BinaryOp::Divide),
    ("call %", BinaryOp::Modulo),
    ("call =", BinaryOp::Equal),
    ("call <>", BinaryOp::NotEqual),
    ("call <", BinaryOp::Less),
    ("call <=", BinaryOp::LessOrEqual),
    ("call >", BinaryOp::Greater),
    ("call >=", BinaryOp::GreaterOrEqual),
];

/// A function or operator by its name.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Call {
    name: String,
    of: &'static str,
    /// The second argument, where the name says it.
    digits: Option<u8>,
    signature: Signature,
}

/// The function of such a name, if it is the row executor's.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    let (of, digits) = match name.split_once(' ') {
        Some((of @ ("round" | "trunc"), digits)) => (of, Some(digits.parse().ok()?)),
        _ => (name, None),
    };
    let operators = OPERATORS.iter().map(|(name, _)| name);
    let mut known = SHARED_FUNCTIONS.iter().chain(FUNCTIONS).chain(operators);
    let of = known.find(|known| **known == of)?;
    let signature = Signature::variadic_any(Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(Call { name: name.to_owned(), of, digits, signature })))
}

/// An operator between what may be numerics of variable scale.
pub(crate) fn operator(op: BinaryOp, left: Expr, right: Expr) -> Option<Expr> {
    let (name, _) = OPERATORS.iter().find(|(_, known)| *known == op)?;
    Some(function(name)?.call(vec![left, right]))
}

impl Call {
    /// What it computes of operands like these.
    fn resolve(&self, operands: &[FieldRef]) -> types::Result<Typed> {
        let types = operands.iter().map(|field| match field.data_type() {
            ArrowType::Null => Ok(DataType::Unknown),
            _ => sql_type(field),
        });
        let digits = self.digits.map(|_| Ok(DataType::Int4));
        let types = types.chain(digits).collect::<types::Result<Vec<DataType>>>()?;
        let typed = match (OPERATORS.iter().find(|(known, _)| *known == self.of), &types[..]) {
            (Some((_, op)), [left, right]) => operator_of(*op, left, right)?,
            _ => call_of(self.of, &types)?,
        };
        let is_cut =
            |(field, of): (&FieldRef, DataType)| Shown::new(field, of).digits == Digits::Needed;
        if typed.data_type.is_string() && operands.iter().zip(types).any(is_cut) {
            let error = Error::unsupported("the text of a numeric without a scale");
            return Err(error.with_hint("Cast it to numeric(p, s) first."));
        }
        Ok(typed)
    }

    /// The type of the answers.
    fn answer_type(&self, result: &DataType, operands: &[FieldRef]) -> ArrowType {
        if !matches!(result, DataType::Numeric(_)) {
            return snapshot::arrow_type(result);
        }
        let Some(ArrowType::Decimal128(precision, scale)) =
            operands.first().map(|field| field.data_type())
        else {
            return VARIABLE_SCALE;
        };
        let digits = match (self.of, operands) {
            ("abs", [_]) => return ArrowType::Decimal128(*precision, *scale),
            ("ceil" | "ceiling" | "floor" | "round" | "trunc", [_]) => self.digits.unwrap_or(0),
            _ => return VARIABLE_SCALE,
        };
        // A digit more, since rounding may add one.
        let whole = precision.saturating_sub(scale.unsigned_abs());
        let precision = u32::from(whole) + 1 + u32::from(digits);
        match digits <= SCALE {
            true => {
                let precision = precision.min(u32::from(DECIMAL128_MAX_PRECISION)) as u8;
                ArrowType::Decimal128(precision, digits as i8)
            }
            false => VARIABLE_SCALE,
        }
    }
}

/// An operand: the same value for each row, or a column of them.
enum Operand {
    Same(Value),
    Each(Cells),
}

impl Operand {
    fn new(value: &ColumnarValue, field: &Field) -> types::Result<Operand> {
        let cells = |array: &ArrayRef| match array.data_type() {
            ArrowType::Null => Ok(Cells::Null),
            _ => {
                let shown = Shown::new(field, sql_type(field)?);
                Cells::new(array, &shown.data_type, shown.digits)
            }
        };
        Ok(match value {
            ColumnarValue::Array(array) => Operand::Each(cells(array)?),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array().map_err(crate::faults::in_sql)?;
                Operand::Same(cells(&array)?.value(0)?)
            }
        })
    }

    fn value(&self, row: usize) -> types::Result<Value> {
        match self {
            Operand::Same(value) => Ok(value.clone()),
            Operand::Each(cells) => cells.value(row),
        }
    }
}

impl Call {
    fn answers(&self, args: &ScalarFunctionArgs, rows: usize) -> types::Result<ArrayRef> {
        let typed = self.resolve(&args.arg_fields)?;
        let operands = args.args.iter().zip(&args.arg_fields);
        let operands = operands.map(|(value, field)| Operand::new(value, field));
        let digits = self.digits.map(|digits| Ok(Operand::Same(Value::Int(digits.into()))));
        let operands = operands.chain(digits).collect::<types::Result<Vec<Operand>>>()?;
        let mut row = vec![Value::Null; operands.len()];
        let answer = |place| {
            for (value, operand) in row.iter_mut().zip(&operands) {
                *value = operand.value(place)?;
            }
            typed.expr.eval(&[], &row, 0)
        };
        let answers = (0..rows).map(answer).collect::<types::Result<Vec<Value>>>()?;
        if let ArrowType::Decimal128(_, scale) = args.return_field.data_type()
            && self.of != "abs"
        {
            let scale = u32::from(scale.unsigned_abs());
            let is_cut = |value: &Value| matches!(value, Value::Numeric(n) if n.scale() != scale);
            // There were too many digits before the point.
            if answers.iter().any(is_cut) {
                return Err(too_long());
            }
        }
        column(&answers, &typed.data_type, args.return_field.data_type())
    }
}

impl ScalarUDFImpl for Call {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        exec_err!("the type of {} depends on its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let typed = self.resolve(args.arg_fields).map_err(raise)?;
        let arrow = self.answer_type(&typed.data_type, args.arg_fields);
        Ok(Arc::new(match arrow == snapshot::arrow_type(&typed.data_type) {
            true => field(&self.name, &typed.data_type, true),
            false => Field::new(&self.name, arrow, true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let answers = self.answers(&args, rows).map_err(raise)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(answers),
        })
    }
}
