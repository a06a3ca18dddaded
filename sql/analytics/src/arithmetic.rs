//! Operators whose answer DataFusion gives otherwise than PostgreSQL.
//!
//! | | PostgreSQL | DataFusion |
//! |---|---|---|
//! | `int + int` (`-`, `*`) | 22003 beyond the wider of the two types | wraps around |
//! | `float8 + float8` (`-`, `*`, `/`) | 22003 beyond its range, 22012 | infinity |
//! | `numeric / numeric` | 16 significant digits or more | four more than the dividend |
//! | `date - date` | integer | bigint |
//! | `date + integer` | date | refused |
//! | `date + interval` | timestamp | date |
//! | `-0.0::float8 = 0` | true | false |
//! | `interval '1 month' = interval '30 days'` | true | false |
//!
//! All become functions but the sixth. What is a date and a whole number of days or months stays a
//! date inside of a cast, so that a comparison with a date can compare dates, which zones
//! understand.
//!
//! Where an answer has to be the row executor's ([`Arithmetic::agreeing`]), a product, sum or
//! difference of decimals is refused beyond 96 bits, before it is too long for Arrow.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::kernels::arity::try_binary;
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, sub};
use datafusion::arrow::datatypes::{DataType as ArrowType, Decimal128Type, Float64Type, TimeUnit};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use procedure::BinaryOp;
use types::arithmetic::{ArithmeticOp, arithmetic};
use types::{DataType, Value};

use crate::call;
use crate::comparable;
use crate::faults::{raise, too_long};
use crate::own::{self, text_of};
use crate::variable_scale::VARIABLE_SCALE;

const TIMESTAMP: ArrowType = ArrowType::Timestamp(TimeUnit::Microsecond, None);

/// What an operator becomes.
#[derive(Debug)]
pub(crate) struct Arithmetic {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    divide: Arc<ScalarUDF>,
    /// Of decimals, where they have to be as the row executor's.
    within: Option<Arc<ScalarUDF>>,
}

impl Default for Arithmetic {
    fn default() -> Self {
        let function = |kind| Arc::new(ScalarUDF::new_from_impl(Checked::new(kind)));
        Arithmetic {
            add: function(Kind::Add),
            subtract: function(Kind::Subtract),
            multiply: function(Kind::Multiply),
            divide: function(Kind::Divide),
            within: None,
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
        if let Some(planned) = called(&expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
        let planned = match &expr.op {
            BinaryOperator::Plus => self.sum(&expr, &left, &right),
            BinaryOperator::Minus => self.difference(&expr, &left, &right),
            BinaryOperator::Multiply => self.checked(&self.multiply, &expr, &left, &right),
            BinaryOperator::Divide => self.checked(&self.divide, &expr, &left, &right),
            BinaryOperator::StringConcat => {
                return Ok(PlannerResult::Original(texts(expr, [&left, &right])));
            }
            BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq => {
                return Ok(PlannerResult::Original(compared(expr, &left, &right)));
            }
            _ => None,
        };
        Ok(match planned.or_else(|| self.within(&expr, schema)) {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }

    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(by_name("substring", args))
    }

    /// The text in which it looks comes first.
    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(by_name("position", args))
    }
}

fn by_name(name: &str, args: Vec<Expr>) -> PlannerResult<Vec<Expr>> {
    match call::function(name) {
        Some(function) => PlannerResult::Planned(function.call(args)),
        None => PlannerResult::Original(args),
    }
}

/// What the row executor computes: quotients of decimals, days, remainders, and whatever has a
/// number of its own digits beside it.
fn called(expr: &RawBinaryExpr, left: &ArrowType, right: &ArrowType) -> Option<Expr> {
    use BinaryOperator as O;
    let op = match &expr.op {
        O::Plus => BinaryOp::Add,
        O::Minus => BinaryOp::Subtract,
        O::Multiply => BinaryOp::Multiply,
        O::Divide => BinaryOp::Divide,
        O::Modulo => BinaryOp::Modulo,
        O::Eq => BinaryOp::Equal,
        O::NotEq => BinaryOp::NotEqual,
        O::Lt => BinaryOp::Less,
        O::LtEq => BinaryOp::LessOrEqual,
        O::Gt => BinaryOp::Greater,
        O::GtEq => BinaryOp::GreaterOrEqual,
        _ => return None,
    };
    let is_decimal = |of: &ArrowType| matches!(of, ArrowType::Decimal128(..));
    let is_exact = |of: &ArrowType| is_int(of) || is_decimal(of) || *of == VARIABLE_SCALE;
    let (dates, days) = (*left == ArrowType::Date32, *right == ArrowType::Date32);
    let is_its = match op {
        BinaryOp::Add => (dates && is_int(right)) || (days && is_int(left)),
        BinaryOp::Subtract => dates && (days || is_int(right)),
        BinaryOp::Divide => (is_decimal(left) || is_decimal(right)) && is_exact(left),
        // Arrow refuses the remainder of the smallest integer by -1.
        BinaryOp::Modulo if is_int(left) && is_int(right) => !is_nonzero(&expr.right),
        BinaryOp::Modulo => is_exact(left),
        _ => false,
    };
    if is_its && (dates || days || is_exact(right)) {
        return call::operator(op, expr.left.clone(), expr.right.clone());
    }
    let (left, right) = match (*left == VARIABLE_SCALE, *right == VARIABLE_SCALE) {
        (false, false) => return None,
        (true, _) if *right == ArrowType::Float64 => (float_of(&expr.left), expr.right.clone()),
        (_, true) if *left == ArrowType::Float64 => (expr.left.clone(), float_of(&expr.right)),
        _ => (expr.left.clone(), expr.right.clone()),
    };
    call::operator(op, left, right)
}

/// A number as the row executor makes a float of it: Arrow rounds twice.
pub(crate) fn float_of(expr: &Expr) -> Expr {
    match own::function("cast as double precision") {
        Some(function) => function.call(vec![expr.clone()]),
        None => expr.clone(),
    }
}

/// A number as it is written, which is neither 0 nor -1.
fn is_nonzero(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { expr, .. }) => is_nonzero(expr),
        Expr::Literal(ScalarValue::Int64(Some(int)), _) => *int > 0,
        Expr::Literal(ScalarValue::Decimal128(Some(units), ..), _) => *units > 0,
        Expr::Literal(ScalarValue::Float64(Some(float)), _) => *float > 0.0,
        _ => false,
    }
}

impl Arithmetic {
    /// Which refuses decimals that may be too long for Arrow.
    pub(crate) fn agreeing() -> Arithmetic {
        let within = Arc::new(ScalarUDF::new_from_impl(Checked::new(Kind::Within)));
        Arithmetic { within: Some(within), ..Arithmetic::default() }
    }

    fn within(&self, expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
        let (within, op) = match &expr.op {
            BinaryOperator::Plus => (self.within.as_ref()?, Operator::Plus),
            BinaryOperator::Minus => (self.within.as_ref()?, Operator::Minus),
            BinaryOperator::Multiply => (self.within.as_ref()?, Operator::Multiply),
            _ => return None,
        };
        let (left, right) = (Box::new(expr.left.clone()), Box::new(expr.right.clone()));
        let computed = Expr::BinaryExpr(BinaryExpr::new(left, op, right));
        match computed.get_type(schema).ok()? {
            ArrowType::Decimal128(digits, _) if digits >= DIGITS => {
                Some(within.call(vec![computed]))
            }
            _ => None,
        }
    }

    fn sum(&self, expr: &RawBinaryExpr, left: &ArrowType, right: &ArrowType) -> Option<Expr> {
        match (left, right) {
            (ArrowType::Date32, ArrowType::Interval(_)) => {
                Some(shifted(&expr.left, Operator::Plus, &expr.right))
            }
            (ArrowType::Interval(_), ArrowType::Date32) => {
                Some(shifted(&expr.right, Operator::Plus, &expr.left))
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
            (ArrowType::Date32, ArrowType::Interval(_)) => {
                Some(shifted(&expr.left, Operator::Minus, &expr.right))
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
        // Integers are widened when they come: one may turn out to be none.
        let is_float = wider(left, right)? == ArrowType::Float64;
        let wide = |expr: &Expr, from: &ArrowType| match is_float && *from != ArrowType::Float64 {
            true => float_of(expr),
            false => expr.clone(),
        };
        Some(function.call(vec![wide(&expr.left, left), wide(&expr.right, right)]))
    }
}

fn is_int(arrow: &ArrowType) -> bool {
    matches!(arrow, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
}

/// The type of what two integers, or a float and another number, come to.
fn wider(left: &ArrowType, right: &ArrowType) -> Option<ArrowType> {
    let is_number =
        |of: &ArrowType| is_int(of) || matches!(of, ArrowType::Float64 | ArrowType::Decimal128(..));
    if [left, right].contains(&&ArrowType::Float64) {
        return (is_number(left) && is_number(right)).then_some(ArrowType::Float64);
    }
    let both = is_int(left) && is_int(right);
    [ArrowType::Int64, ArrowType::Int32, ArrowType::Int16]
        .into_iter()
        .find(|candidate| both && (left == candidate || right == candidate))
}

fn cast(expr: Expr, to: ArrowType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to))
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

/// Floats and intervals compare by what those that are equal have in common. A date and a timestamp
/// that [`shifted`] made of a date compare as dates.
fn compared(mut expr: RawBinaryExpr, left: &ArrowType, right: &ArrowType) -> RawBinaryExpr {
    let by_common = |of: &ArrowType| match of {
        ArrowType::Float64 => !is_nonzero(&expr.left) && !is_nonzero(&expr.right),
        ArrowType::Interval(_) => true,
        _ => false,
    };
    if by_common(left) || by_common(right) {
        expr.left = comparable::of(expr.left, left);
        expr.right = comparable::of(expr.right, right);
        return expr;
    }
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

/// The function that refuses decimals of too many digits.
pub(crate) const WITHIN: &str = "within_digits";

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Of one decimal.
    Within,
}

/// An operator that does not go on beyond its type's range.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Checked {
    kind: Kind,
    signature: Signature,
}

impl Checked {
    fn new(kind: Kind) -> Checked {
        let operands = if kind == Kind::Within { 1 } else { 2 };
        Checked { kind, signature: Signature::any(operands, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Add => "checked_add",
            Kind::Subtract => "checked_subtract",
            Kind::Multiply => "checked_multiply",
            Kind::Divide => "checked_divide",
            Kind::Within => WITHIN,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        match types {
            [ArrowType::Decimal128(_, scale)] => Ok(ArrowType::Decimal128(DIGITS, *scale)),
            [operand] => exec_err!("{operand} is no decimal"),
            [left, right] => match wider(left, right) {
                Some(wider) => Ok(wider),
                None => exec_err!("{left} and {right} are no two integers"),
            },
            _ => exec_err!("an operator without operands"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.return_field.data_type();
        let is_float = *of == ArrowType::Float64;
        if let [left, right] = &args.args[..]
            && !is_float
        {
            let (left, right) = (left.cast_to(of, None)?, right.cast_to(of, None)?);
            return match self.kind {
                Kind::Add => apply(&left, &right, add),
                Kind::Subtract => apply(&left, &right, sub),
                Kind::Multiply => apply(&left, &right, mul),
                Kind::Divide => apply(&left, &right, div),
                Kind::Within => exec_err!("one number has digits"),
            };
        }
        match (self.kind, &args.args[..]) {
            (Kind::Within, [operand]) => {
                let is_scalar = matches!(operand, ColumnarValue::Scalar(_));
                let within = within_digits(&operand.to_array(args.number_rows)?, of)?;
                Ok(match is_scalar {
                    true => ColumnarValue::Scalar(ScalarValue::try_from_array(&within, 0)?),
                    false => ColumnarValue::Array(within),
                })
            }
            (kind, [_, _]) => {
                let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
                let operands = ColumnarValue::values_to_arrays(&args.args)?;
                let floats = floats(kind, &operands[0], &operands[1])?;
                Ok(match is_scalar {
                    true => ColumnarValue::Scalar(ScalarValue::try_from_array(&floats, 0)?),
                    false => ColumnarValue::Array(floats),
                })
            }
            _ => exec_err!("an operator has two operands"),
        }
    }
}

/// The row executor's, value by value.
fn floats(kind: Kind, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let op = match kind {
        Kind::Add => ArithmeticOp::Add,
        Kind::Subtract => ArithmeticOp::Sub,
        Kind::Multiply => ArithmeticOp::Mul,
        Kind::Divide => ArithmeticOp::Div,
        Kind::Within => return exec_err!("floats have no digits"),
    };
    let compute = |left, right| {
        let answer = arithmetic(op, &Value::Float(left), &Value::Float(right), &DataType::Float8);
        match answer.map_err(|error| ArrowError::ExternalError(Box::new(error)))? {
            Value::Float(float) => Ok(float),
            _ => Err(ArrowError::ComputeError("a float was expected".to_owned())),
        }
    };
    let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
    let floats: Float64Array = try_binary::<_, _, _, Float64Type>(left, right, compute)?;
    Ok(Arc::new(floats))
}

/// Digits that a number has at most where it has to be the row executor's, which has more.
pub(crate) const DIGITS: u8 = 29;

/// Decimals, unless one has more units than 96 bits hold.
fn within_digits(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    const UNITS_MAX: u128 = (1 << 96) - 1;
    let decimals = array.as_primitive::<Decimal128Type>();
    if decimals.values().iter().any(|units| units.unsigned_abs() > UNITS_MAX) {
        return Err(raise(too_long()));
    }
    Ok(Arc::new(decimals.clone().with_data_type(to.clone())))
}
