//! Operators whose answer DataFusion gives otherwise than PostgreSQL.
//!
//! | | PostgreSQL | DataFusion |
//! |---|---|---|
//! | `int + int` (`-`, `*`) | 22003 beyond the wider of the two types | wraps around |
//! | `numeric / numeric` | 16 significant digits or more | four more than the dividend |
//! | `float8 / 0` | 22012 | infinity |
//! | `date - date` | integer | bigint |
//! | `date + integer` | date | refused |
//! | `date + interval` | timestamp | date |
//!
//! The first three become functions. What is a date and a whole number of days or months stays a
//! date inside of a cast, so that a comparison with a date can compare dates, which zones
//! understand.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use datafusion::arrow::compute::kernels::arity::try_binary;
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Field, FieldRef, Float64Type, TimeUnit, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::own::text_of;
use crate::sql_types::{QUOTIENT_SCALE, quotient_field};

const TIMESTAMP: ArrowType = ArrowType::Timestamp(TimeUnit::Microsecond, None);

/// What an operator becomes.
#[derive(Debug)]
pub(crate) struct Arithmetic {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    divide: Arc<ScalarUDF>,
}

impl Default for Arithmetic {
    fn default() -> Self {
        let function = |kind| Arc::new(ScalarUDF::new_from_impl(Checked::new(kind)));
        Arithmetic {
            add: function(Kind::Add),
            subtract: function(Kind::Subtract),
            multiply: function(Kind::Multiply),
            divide: function(Kind::Divide),
        }
    }
}

impl ExprPlanner for Arithmetic {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema))
        else {
            return Ok(PlannerResult::Original(expr));
        };
        let planned = match &expr.op {
            BinaryOperator::Plus => self.sum(&expr, &left, &right),
            BinaryOperator::Minus => self.difference(&expr, &left, &right),
            BinaryOperator::Multiply => self.checked(&self.multiply, &expr, &left, &right),
            BinaryOperator::Divide => self.quotient(&expr, &left, &right),
            BinaryOperator::StringConcat => {
                return Ok(PlannerResult::Original(texts(expr, [&left, &right])));
            }
            BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq => return Ok(PlannerResult::Original(compared(expr))),
            _ => None,
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }
}

impl Arithmetic {
    fn sum(&self, expr: &RawBinaryExpr, left: &ArrowType, right: &ArrowType) -> Option<Expr> {
        match (left, right) {
            (ArrowType::Date32, ArrowType::Interval(_)) => {
                Some(shifted(&expr.left, Operator::Plus, &expr.right))
            }
            (ArrowType::Interval(_), ArrowType::Date32) => {
                Some(shifted(&expr.right, Operator::Plus, &expr.left))
            }
            (ArrowType::Date32, days) if is_int(days) => {
                Some(moved(&self.add, &expr.left, &expr.right))
            }
            (days, ArrowType::Date32) if is_int(days) => {
                Some(moved(&self.add, &expr.right, &expr.left))
            }
            _ => self.checked(&self.add, expr, left, right),
        }
    }

    fn difference(
        &self,
        expr: &RawBinaryExpr,
        left: &ArrowType,
        right: &ArrowType,
    ) -> Option<Expr> {
        match (left, right) {
            (ArrowType::Date32, ArrowType::Date32) => {
                let days = |date: &Expr| cast(date.clone(), ArrowType::Int32);
                Some(self.subtract.call(vec![days(&expr.left), days(&expr.right)]))
            }
            (ArrowType::Date32, ArrowType::Interval(_)) => {
                Some(shifted(&expr.left, Operator::Minus, &expr.right))
            }
            (ArrowType::Date32, days) if is_int(days) => {
                Some(moved(&self.subtract, &expr.left, &expr.right))
            }
            _ => self.checked(&self.subtract, expr, left, right),
        }
    }

    fn checked(
        &self,
        function: &ScalarUDF,
        expr: &RawBinaryExpr,
        left: &ArrowType,
        right: &ArrowType,
    ) -> Option<Expr> {
        let wider = wider(left, right)?;
        let wide = |expr: &Expr, from: &ArrowType| match *from == wider {
            true => expr.clone(),
            false => cast(expr.clone(), wider.clone()),
        };
        Some(function.call(vec![wide(&expr.left, left), wide(&expr.right, right)]))
    }

    fn quotient(&self, expr: &RawBinaryExpr, left: &ArrowType, right: &ArrowType) -> Option<Expr> {
        let is_decimal = |of: &ArrowType| matches!(of, ArrowType::Decimal128(..));
        let to = if *left == ArrowType::Float64 || *right == ArrowType::Float64 {
            Some(ArrowType::Float64)
        } else if is_decimal(left) || is_decimal(right) {
            None
        } else {
            return None;
        };
        let place = |expr: &Expr, from: &ArrowType| match &to {
            Some(float) if from != float => Some(cast(expr.clone(), float.clone())),
            None if is_int(from) => Some(cast(expr.clone(), ArrowType::Decimal128(19, 0))),
            None if !is_decimal(from) => None,
            _ => Some(expr.clone()),
        };
        Some(self.divide.call(vec![place(&expr.left, left)?, place(&expr.right, right)?]))
    }
}

fn is_int(arrow: &ArrowType) -> bool {
    matches!(arrow, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
}

/// The type of what two integers come to.
fn wider(left: &ArrowType, right: &ArrowType) -> Option<ArrowType> {
    let both = is_int(left) && is_int(right);
    [ArrowType::Int64, ArrowType::Int32, ArrowType::Int16]
        .into_iter()
        .find(|candidate| both && (left == candidate || right == candidate))
}

fn cast(expr: Expr, to: ArrowType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to))
}

/// A date and a number of days.
fn moved(function: &ScalarUDF, date: &Expr, days: &Expr) -> Expr {
    let date = cast(date.clone(), ArrowType::Int32);
    cast(function.call(vec![date, cast(days.clone(), ArrowType::Int32)]), ArrowType::Date32)
}

/// A date and an interval: a timestamp.
fn shifted(date: &Expr, op: Operator, interval: &Expr) -> Expr {
    let at = |date: Expr| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(date), op, Box::new(interval.clone())))
    };
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _)
            if value.nanoseconds == 0 =>
        {
            cast(at(date.clone()), TIMESTAMP)
        }
        _ => at(cast(date.clone(), TIMESTAMP)),
    }
}

/// A date and a timestamp that [`shifted`] made of a date compare as dates.
fn compared(mut expr: RawBinaryExpr) -> RawBinaryExpr {
    fn date_within(expr: &Expr) -> Option<Expr> {
        let Expr::Cast(Cast { expr, field }) = expr else { return None };
        let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = &**expr else { return None };
        let by_interval =
            matches!(&**right, Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(_)), _));
        let of_date = !matches!(
            &**left,
            Expr::Cast(Cast { field, .. }) if *field.data_type() != ArrowType::Date32
        );
        (*field.data_type() == TIMESTAMP && by_interval && of_date).then(|| (**expr).clone())
    }
    match (date_within(&expr.left), date_within(&expr.right)) {
        (None, Some(date)) if !is_timestamp_cast(&expr.left) => expr.right = date,
        (Some(date), None) if !is_timestamp_cast(&expr.right) => expr.left = date,
        _ => {}
    }
    expr
}

/// Beside a text, `||` takes the text of what is none.
fn texts(mut expr: RawBinaryExpr, [left, right]: [&ArrowType; 2]) -> RawBinaryExpr {
    let is_other = |arrow: &ArrowType| {
        !arrow.is_string() && !arrow.is_binary() && !arrow.is_nested() && !arrow.is_null()
    };
    if left.is_string() && is_other(right) {
        expr.right = text_of(expr.right);
    } else if right.is_string() && is_other(left) {
        expr.left = text_of(expr.left);
    }
    expr
}

fn is_timestamp_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(Cast { field, .. }) if *field.data_type() == TIMESTAMP)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// An operator that does not go on beyond its type's range.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Checked {
    kind: Kind,
    signature: Signature,
}

impl Checked {
    fn new(kind: Kind) -> Checked {
        Checked { kind, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Add => "checked_add",
            Kind::Subtract => "checked_subtract",
            Kind::Multiply => "checked_multiply",
            Kind::Divide => "checked_divide",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        Ok(match (self.kind, types) {
            (Kind::Divide, [ArrowType::Decimal128(..), _]) => {
                ArrowType::Decimal128(38, QUOTIENT_SCALE)
            }
            (_, [left, ..]) => left.clone(),
            (_, []) => return exec_err!("an operator without operands"),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let data_type = self.return_type(&types.collect::<Vec<_>>())?;
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let is_quotient = matches!(data_type, ArrowType::Decimal128(..));
        let field = Field::new(self.name(), data_type, nullable);
        Ok(Arc::new(if is_quotient { quotient_field(field) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else {
            return exec_err!("an operator has two operands");
        };
        match self.kind {
            Kind::Add => apply(left, right, add),
            Kind::Subtract => apply(left, right, sub),
            Kind::Multiply => apply(left, right, mul),
            Kind::Divide => {
                let arrays = ColumnarValue::values_to_arrays(&args.args)?;
                let divided = divide(&arrays[0], &arrays[1])?;
                let scalars =
                    args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
                Ok(match scalars {
                    true => ColumnarValue::Scalar(ScalarValue::try_from_array(&divided, 0)?),
                    false => ColumnarValue::Array(divided),
                })
            }
        }
    }
}

fn divide(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    match (left.data_type(), right.data_type()) {
        (ArrowType::Float64, ArrowType::Float64) => {
            let left = left.as_primitive::<Float64Type>();
            let right = right.as_primitive::<Float64Type>();
            let divided: Float64Array = try_binary(left, right, |left, right: f64| match right {
                0.0 => Err(ArrowError::DivideByZero),
                right => Ok(left / right),
            })?;
            Ok(Arc::new(divided))
        }
        (ArrowType::Decimal128(_, left_scale), ArrowType::Decimal128(_, right_scale)) => {
            let power = QUOTIENT_SCALE + right_scale - left_scale;
            let left = left.as_primitive::<Decimal128Type>();
            let right = right.as_primitive::<Decimal128Type>();
            let divided: Decimal128Array =
                try_binary(left, right, |left, right: i128| quotient(left, right, power))?;
            let to = ArrowType::Decimal128(38, QUOTIENT_SCALE);
            Ok(Arc::new(divided.with_data_type(to)))
        }
        (left, right) => exec_err!("{left} is not divided by {right}"),
    }
}

/// A quotient without its fraction, a half of which counts as a whole; the divisor is not 0.
pub(crate) fn rounded(dividend: i128, divisor: i128) -> i128 {
    let (whole, rest) = (dividend / divisor, dividend % divisor);
    let is_half = rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2);
    whole + if is_half { dividend.signum() * divisor.signum() } else { 0 }
}

/// `left * 10^power / right`, rounded, unless that takes more than 128 bits on the way.
fn quotient(left: i128, right: i128, power: i8) -> Result<i128, ArrowError> {
    let overflow = || ArrowError::ArithmeticOverflow("the quotient has too many digits".into());
    if right == 0 {
        return Err(ArrowError::DivideByZero);
    }
    let factor = 10i128.checked_pow(power.unsigned_abs().into()).ok_or_else(overflow)?;
    if power < 0 {
        return Ok(left / right / factor);
    }
    if let Some(dividend) = left.checked_mul(factor) {
        return Ok(rounded(dividend, right));
    }
    let wide = |int: i128| i256::from_i128(int);
    let dividend = wide(left).checked_mul(wide(factor)).ok_or_else(overflow)?;
    dividend.checked_div(wide(right)).and_then(i256::to_i128).ok_or_else(overflow)
}
