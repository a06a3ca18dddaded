//! Functions over values of users' types: the fast path's, so that their answers are the same.
//!
//! What catalogs hold needs few of them, and those are in [`functions`](super::functions) for the
//! types that catalogs have. Beside users' tables the same names mean more (`abs` of a numeric), so
//! the fast path's binder is asked first.

use procedure::{BinaryOp, Function};
use sql::bind::{SHARED_FUNCTIONS, call_of, operator_of};
use types::arithmetic::ArithmeticOp;
use types::{DataType, Error, Result, SqlState, Value};

use super::Typed;
use super::plan::{CompareOp, Expr};

/// Those that depend on nothing but their arguments, beside [`SHARED_FUNCTIONS`].
const FUNCTIONS: &[&str] = &["date_part", "date_trunc"];

/// A type as the fast path would see the argument; `None`: it has no such values.
fn seen(argument: &Typed) -> Option<DataType> {
    match (&argument.data_type, &argument.expr) {
        (DataType::System(_) | DataType::Array(_) | DataType::Void, _) => None,
        // Of no type until its use gives it one.
        (DataType::Unknown, Expr::Parameter(_)) => None,
        (DataType::Unknown, Expr::Value(Value::Text(_))) => Some(DataType::Text),
        (known, _) => Some(known.clone()),
    }
}

/// The fast path's call of that name with such arguments, if it has one.
pub fn call(name: &str, arguments: &[Typed]) -> Option<Typed> {
    if !SHARED_FUNCTIONS.contains(&name) && !FUNCTIONS.contains(&name) {
        return None;
    }
    let types = arguments.iter().map(seen).collect::<Option<Vec<DataType>>>()?;
    let typed = call_of(name, &types).ok()?;
    let arguments = arguments.iter().map(|argument| argument.expr.clone()).collect();
    let expr = Expr::Fast { call: Box::new(typed.expr), arguments };
    Some(Typed::new(expr, typed.data_type))
}

/// An operator between values that are not compared, or added, as they are stored.
pub fn operator(op: BinaryOp, left: Typed, right: Typed) -> Result<Typed> {
    let types = [left.data_type.stored(), right.data_type.stored()];
    let typed = operator_of(op, &types[0], &types[1])?;
    let arguments = vec![left.expr, right.expr];
    let expr = Expr::Fast { call: Box::new(typed.expr), arguments };
    Ok(Typed::new(expr, typed.data_type))
}

/// Whether values of both types are compared as they are.
pub fn compare_alike(left: &DataType, right: &DataType) -> bool {
    let (left, right) = (left.stored().without_modifier(), right.stored().without_modifier());
    let is_padded = |of: &DataType| matches!(of, DataType::Char(_));
    let is_text = |of: &DataType| of.is_string() && !is_padded(of);
    let is_array = |of: &DataType| matches!(of, DataType::Array(_) | DataType::Unknown);
    (left == right && !is_padded(&left))
        || (left.is_integer() && right.is_integer())
        || (is_text(&left) && is_text(&right))
        || is_array(&left)
        || is_array(&right)
}

pub fn comparison(op: CompareOp) -> Option<BinaryOp> {
    Some(match op {
        CompareOp::Equal => BinaryOp::Equal,
        CompareOp::NotEqual => BinaryOp::NotEqual,
        CompareOp::Less => BinaryOp::Less,
        CompareOp::LessOrEqual => BinaryOp::LessOrEqual,
        CompareOp::Greater => BinaryOp::Greater,
        CompareOp::GreaterOrEqual => BinaryOp::GreaterOrEqual,
        CompareOp::Distinct | CompareOp::NotDistinct => return None,
    })
}

pub fn arithmetic(op: ArithmeticOp) -> BinaryOp {
    match op {
        ArithmeticOp::Add => BinaryOp::Add,
        ArithmeticOp::Sub => BinaryOp::Subtract,
        ArithmeticOp::Mul => BinaryOp::Multiply,
        ArithmeticOp::Div => BinaryOp::Divide,
        ArithmeticOp::Mod => BinaryOp::Modulo,
    }
}

/// `extract(field FROM input)`.
pub fn extract(field: &str, input: Typed) -> Result<Typed> {
    if !input.data_type.is_datetime() {
        let message = format!("function extract({}) does not exist", input.data_type);
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, message));
    }
    let result = DataType::Numeric(None);
    let field = procedure::Expr::Const(Value::text(field));
    let call = procedure::Expr::Call {
        function: Function::Extract,
        arguments: [field, procedure::Expr::Column(0)].into(),
        result: result.clone(),
    };
    let expr = Expr::Fast { call: Box::new(call), arguments: vec![input.expr] };
    Ok(Typed::new(expr, result))
}
