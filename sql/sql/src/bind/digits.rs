//! Values whose type says how they are shown: of `real` its own digits, of `char(n)` its blanks.

use procedure::{Expr, Function};
use types::{DataType, Value};

use super::binder::{Typed, fold};

/// A `real` on its way to a text or a numeric: by as many digits as it has itself, which the double
/// that holds it does not know.
pub(super) fn as_digits(real: Typed, to: &DataType) -> Typed {
    use DataType as T;
    let element = |t: &T| match t {
        T::Array(element) => (**element).clone(),
        other => other.clone(),
    };
    let result = match element(to) {
        _ if element(&real.data_type) != T::Float4 => return real,
        T::Numeric(_) => T::Numeric(None),
        of if of.is_string() => T::Text,
        _ => return real,
    };
    let result = match to {
        T::Array(_) => T::Array(Box::new(result)),
        _ => result,
    };
    let (function, arguments) = (Function::RealDigits, [real.expr].into());
    let shown = Expr::Call { function, arguments, result: result.clone() };
    Typed::new(fold(shown), result)
}

/// A value of `char(n)` with the blanks that it is shown with.
pub(super) fn padded(value: Expr, length: u32) -> Expr {
    let length = Expr::Const(Value::Int(length.into()));
    let arguments = [value, length, Expr::Const(Value::text(" "))].into();
    fold(Expr::Call { function: Function::Rpad, arguments, result: DataType::Text })
}
