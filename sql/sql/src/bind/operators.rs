//! Operators: the types that both sides meet in, and what comes out.

use procedure::{BinaryOp, Expr, Function};
use sqlparser::ast;
use types::arithmetic::{ArithmeticOp, concat_type, no_operator, operand_type, result_type};
use types::cast::{CastContext, common_type};
use types::datatype::CHARACTER_LENGTH_MAX;
use types::{DataType, Error, Result, SqlState, SystemType, Zone};

use super::binder::{Binder, Typed, fold, network_text};
use super::collated::Collated;
use super::digits::as_digits;
use super::scope::Scope;
use super::system::as_array;
use super::volatility::converts_stably;
use crate::schema::collations::check_collatable;

impl Binder<'_> {
    pub(super) fn arithmetic(
        &mut self,
        op: BinaryOp,
        arithmetic: ArithmeticOp,
        left: Typed,
        right: Typed,
    ) -> Result<Typed> {
        let (left, right) = (self.stored(left), self.stored(right));
        if let Some(moved) = self.moment_arithmetic((op, arithmetic), &left, &right)? {
            return Ok(moved);
        }
        let result = result_type(arithmetic, &left.data_type, &right.data_type)?;
        let operand = |known: &DataType, other: &DataType| match other {
            DataType::Unknown => known.without_modifier(),
            other => other.clone(),
        };
        let (l, r) = (left.data_type.clone(), right.data_type.clone());
        let left = self.coerce(left, &operand(&r, &l), CastContext::Implicit)?;
        let right = self.coerce(right, &operand(&l, &r), CastContext::Implicit)?;
        let expr = Expr::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
            result: result.clone(),
        };
        Ok(Typed::new(fold(expr), result))
    }

    pub(super) fn concat(&mut self, left: Typed, right: Typed) -> Result<Typed> {
        let (left, right) = (self.shown_text(left)?, self.shown_text(right)?);
        if is_element_of(&right, &left) {
            return self.call_by_name("array_append", vec![left, right]);
        }
        if is_element_of(&left, &right) {
            return self.call_by_name("array_prepend", vec![left, right]);
        }
        let is_array = |side: &Typed| matches!(side.data_type, DataType::Array(_));
        let result_of_arrays = concat_type(&left.data_type, &right.data_type);
        if let (true, Ok(result)) = (is_array(&left) || is_array(&right), result_of_arrays) {
            // An array that is not there is one without elements.
            let left = self.coerce(left, &result, CastContext::Implicit)?;
            let right = self.coerce(right, &result, CastContext::Implicit)?;
            let arrays = [left, right].map(|side| Typed::new(side, result.clone()));
            return self.call_by_name("array_cat", arrays.into());
        }
        let is_enum = |side: &Typed| matches!(side.data_type, DataType::Enum(_));
        let (left, right) = match (is_enum(&left), is_enum(&right)) {
            (true, false) => (self.shown(left)?, right),
            (false, true) => (left, self.shown(right)?),
            _ => (left, right),
        };
        // A bare literal beside what is no string itself is text: 'n = ' || 1.
        let beside =
            |other: &Typed| !matches!(other.data_type, DataType::Bytea | DataType::Array(_));
        let as_text = |binder: &mut Self, typed: Typed, other: &Typed| match typed.data_type {
            DataType::Unknown if beside(other) => binder.resolved(typed),
            _ => Ok(typed),
        };
        let left = as_text(self, left, &right)?;
        let right = as_text(self, right, &left)?;
        let result = concat_type(&left.data_type, &right.data_type)?;
        self.stable |= [&left, &right].iter().any(|side| converts_stably(&side.data_type, &result));
        let [mut left, mut right] = [left, right].map(beside_text);
        for side in [&mut left, &mut right] {
            if !Zone::matters(&side.data_type, &result) {
                continue;
            }
            let is_moment = matches!(side.data_type, DataType::Timestamptz(_));
            if is_moment && result.is_string() || matches!(side.expr, Expr::Const(_)) {
                let text = self.coerce(side.clone(), &result, CastContext::Explicit)?;
                *side = Typed::new(text, result.clone());
            } else {
                let from = &side.data_type;
                self.needs_plain(from, &result, format_args!("{from} as text"))?;
            }
        }
        if matches!(result, DataType::Array(_)) {
            // Beside an array NULL is an empty one.
            return self.call_by_name("array_cat", vec![left, right]);
        }
        let operand = |binder: &mut Self, typed: Typed| match typed.data_type {
            DataType::Unknown => binder.coerce(typed, &result, CastContext::Implicit),
            _ => Ok(typed.expr),
        };
        let collated = left.collated.with(&right.collated)?;
        let (left, right) = (operand(self, left)?, operand(self, right)?);
        let expr = Expr::Binary {
            op: BinaryOp::Concat,
            left: Box::new(left),
            right: Box::new(right),
            result: result.clone(),
        };
        Ok(Typed { collated, ..Typed::new(fold(expr), result) })
    }

    /// A value that system catalogs alone have, as its text; arrays stay what they are.
    fn shown_text(&mut self, side: Typed) -> Result<Typed> {
        match side.data_type {
            DataType::System(_) | DataType::Record(_) => self.shown(side),
            _ => Ok(side),
        }
    }

    pub(super) fn bits(
        &mut self,
        op: BinaryOp,
        shown: &ast::BinaryOperator,
        left: Typed,
        right: Typed,
    ) -> Result<Typed> {
        let shift = matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
        let result = match shift {
            true => Some(left.data_type.clone()),
            false => common_type(&left.data_type, &right.data_type),
        };
        let integers = left.data_type.is_integer() || left.data_type == DataType::Unknown;
        let result = result.filter(|t| t.is_integer() && integers);
        let Some(result) = result else {
            return Err(no_operator(&left.data_type, shown, &right.data_type));
        };
        let amount = if shift { DataType::Int4 } else { result.clone() };
        let left = self.coerce(left, &result, CastContext::Implicit)?;
        let right = self.coerce(right, &amount, CastContext::Implicit)?;
        let expr = Expr::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
            result: result.clone(),
        };
        Ok(Typed::new(fold(expr), result))
    }

    /// `expr COLLATE …`.
    pub(super) fn collated(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        collation: &ast::ObjectName,
    ) -> Result<Typed> {
        let collation = self.catalog.collation(collation)?;
        let typed = self.expression(scope, expr)?;
        let bears = typed.data_type.stored();
        if !matches!(bears, DataType::Unknown) {
            check_collatable(&bears)?;
        }
        Ok(Typed { collated: Collated::Explicit(collation), ..typed })
    }

    pub(super) fn compared(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        op: BinaryOp,
        right: &ast::Expr,
    ) -> Result<Typed> {
        if let Some(compared) = self.rows_compared(scope, left, op, right)? {
            return Ok(compared);
        }
        let left = self.expression(scope, left)?;
        let right = self.expression(scope, right)?;
        self.comparison(op, left, right)
    }

    /// Both sides become values of one kind. The planner relies on it: a bare column that is
    /// compared with an expression can be looked up by that expression's value.
    pub fn comparison(&mut self, op: BinaryOp, left: Typed, right: Typed) -> Result<Typed> {
        let (l, r) = (left.data_type.clone(), right.data_type.clone());
        if let (DataType::Record(_), DataType::Record(_)) = (&l, &r) {
            return self.records_compared(op, left, right);
        }
        let common = match compared_in(&l, &r) {
            Some(DataType::Unknown) => DataType::Text,
            Some(common) if common != DataType::Void => common,
            _ => return Err(no_operator(&l, operator_text(op), &r)),
        };
        let blank_padded = matches!(l, DataType::Char(_)) || matches!(r, DataType::Char(_));
        let collated = match common.is_string() {
            true => left.collated.with(&right.collated)?,
            false => Collated::Default,
        };
        let order = collated.order(op)?;
        let left = self.comparand(left, &common, blank_padded)?;
        let right = self.comparand(right, &common, blank_padded)?;
        let (left, right) = match order {
            Some(collation) => (collation.key_of(left), collation.key_of(right)),
            None => (left, right),
        };
        let (left, right) = match common {
            DataType::Jsonb => shown_as_jsonb(left, right),
            _ => (left, right),
        };
        let expr = Expr::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
            result: DataType::Bool,
        };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }

    /// One side of a comparison in the common type. `char(n)` values are kept without their blanks,
    /// so what is compared with one as `char(n)` loses its own: what has no type yet, and varchar.
    /// With text it is compared as text.
    pub(super) fn comparand(
        &mut self,
        typed: Typed,
        common: &DataType,
        blank_padded: bool,
    ) -> Result<Expr> {
        let to = match common {
            DataType::Char(_) => DataType::Text,
            other => other.without_modifier(),
        };
        let strips =
            blank_padded && matches!(typed.data_type, DataType::Unknown | DataType::Varchar(_));
        if strips {
            self.take_for_char(&typed);
        }
        let expr = self.coerce(typed, &to, CastContext::Implicit)?;
        Ok(if strips { fold(without_blanks(expr)) } else { expr })
    }

    /// Notes that a parameter without a type has been given that of a `char(n)`.
    fn take_for_char(&mut self, typed: &Typed) {
        if let Some(number) = self.untyped_parameter(typed) {
            self.char_parameters.push(number);
        }
    }

    pub(super) fn equals_any(&mut self, input: Typed, array: Typed) -> Result<Typed> {
        let array = Typed { data_type: as_array(&array.data_type), ..array };
        let element = match (&array.data_type, &input.data_type) {
            (DataType::Array(element), _) => (**element).clone(),
            (DataType::Unknown, DataType::Unknown) => DataType::Text,
            (DataType::Unknown, other) => other.without_modifier(),
            _ => {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "op ANY/ALL (array) requires array on right side",
                ));
            }
        };
        let meet = common_type(&input.data_type, &element);
        if !meet.is_some_and(|common| common.is_comparable()) {
            return Err(no_operator(&input.data_type, "=", &element));
        }
        let common = compared_in(&input.data_type, &element).map(|t| t.without_modifier());
        let common = match common {
            Some(DataType::Char(_)) | None => DataType::Text,
            Some(common) => common,
        };
        let is_char = |data_type: &DataType| matches!(data_type, DataType::Char(_));
        let loose = |t: &DataType| matches!(t, DataType::Unknown | DataType::Varchar(_));
        let given = match &array.data_type {
            DataType::Array(element) => (**element).clone(),
            other => other.clone(),
        };
        let strips_elements = is_char(&input.data_type) && loose(&given);
        let is_padded = is_char(&input.data_type) || is_char(&given);
        input.collated.with(&array.collated)?.check_equality()?;
        let input = self.comparand(input, &common, is_padded)?;
        if strips_elements {
            self.take_for_char(&array);
        }
        let to = DataType::Array(Box::new(common));
        let mut array = self.coerce(array, &to, CastContext::Implicit)?;
        if strips_elements {
            array = fold(elements_without_blanks(array));
        }
        let expr = Expr::AnyEqual { input: Box::new(input), array: Box::new(array) };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }
}

/// Whether `||` adds the one to the array that the other is.
fn is_element_of(element: &Typed, array: &Typed) -> bool {
    match &array.data_type {
        DataType::Array(of) => {
            !matches!(element.data_type, DataType::Array(_) | DataType::Unknown)
                && common_type(of, &element.data_type).is_some()
        }
        _ => false,
    }
}

/// What is shown otherwise than it is kept, as a text.
fn beside_text(side: Typed) -> Typed {
    match side.data_type {
        DataType::Float4 => as_digits(side, &DataType::Text),
        _ if side.data_type.is_network() => {
            Typed::new(network_text(side.expr, false, DataType::Text), DataType::Text)
        }
        _ => side,
    }
}

/// The type in which two sides are compared: a name and another text as texts.
pub(super) fn compared_in(left: &DataType, right: &DataType) -> Option<DataType> {
    let is_name = |side: &DataType| *side == DataType::System(SystemType::Name);
    match (left, right) {
        (name, text) | (text, name) if is_name(name) && text.is_string() => Some(DataType::Text),
        (left, right) => operand_type(left, right).filter(DataType::is_comparable),
    }
}

/// Two of type `jsonb`, of which one says so: how long a comparison takes follows from that.
/// Columns stay as they are, so that they can be looked up.
fn shown_as_jsonb(left: Expr, right: Expr) -> (Expr, Expr) {
    let says = |side: &Expr| !matches!(side, Expr::Column(_) | Expr::Reg(_));
    let said =
        |side: Expr| Expr::Cast { input: Box::new(side), to: DataType::Jsonb, explicit: false };
    match (&left, &right) {
        (left, right) if says(left) || says(right) => {}
        (_, Expr::Column(_)) => return (said(left), right),
        _ => return (left, said(right)),
    }
    (left, right)
}

/// Whether values can be distinguished, as DISTINCT and GROUP BY do.
///
/// # Errors
/// 42883 for `json`, of which two texts may mean the same.
pub(super) fn comparable(data_type: &DataType) -> Result<()> {
    match data_type.is_comparable() {
        true => Ok(()),
        false => {
            let what = format!("could not identify an equality operator for type {data_type}");
            Err(Error::new(SqlState::UNDEFINED_FUNCTION, what))
        }
    }
}

/// Whether values have an order, as ORDER BY needs one.
pub(super) fn ordered(data_type: &DataType) -> Result<()> {
    match data_type.is_comparable() {
        true => Ok(()),
        false => {
            let what = format!("could not identify an ordering operator for type {data_type}");
            Err(Error::new(SqlState::UNDEFINED_FUNCTION, what)
                .with_hint("Use an explicit ordering operator or modify the query."))
        }
    }
}

pub(super) fn without_blanks(text: Expr) -> Expr {
    Expr::Call { function: Function::TrimRight, arguments: [text].into(), result: DataType::Text }
}

/// As the longest of all `char(n)`, which cuts nothing else off.
pub(super) fn elements_without_blanks(array: Expr) -> Expr {
    let to = DataType::Array(Box::new(DataType::Char(CHARACTER_LENGTH_MAX)));
    Expr::Cast { input: Box::new(array), to, explicit: true }
}

pub(super) fn negated_if(negated: bool, typed: Typed) -> Typed {
    match negated {
        true => Typed::new(fold(Expr::negated(typed.expr)), DataType::Bool),
        false => typed,
    }
}

fn operator_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::NotEqual => "<>",
        BinaryOp::Less => "<",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterOrEqual => ">=",
        _ => "=",
    }
}
