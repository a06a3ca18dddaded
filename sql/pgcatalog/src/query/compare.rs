//! From syntax to plan: comparisons, of values and of rows.
//!
//! Values of two types are compared in the one that they meet in, so that equal ones hash alike and
//! a join may look them up. Rows that are spelled out (`(a, b) = (c, d)`) are compared by their
//! fields with three truth values; a row that is one value (a table's name) is compared as
//! PostgreSQL orders records: a NULL within is above everything, and equals another.

use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, SystemType};

use super::bind::Binder;
use super::expression::negate;
use super::plan::*;
use super::{Typed, fast};

impl Binder<'_> {
    pub fn compare_exprs(&mut self, op: CompareOp, a: &ast::Expr, b: &ast::Expr) -> Result<Typed> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        Ok(Typed::bool(self.compare(op, a, b)?))
    }

    pub fn compare(&mut self, op: CompareOp, left: Typed, right: Typed) -> Result<Expr> {
        if let (Expr::Array(a), Expr::Array(b)) = (&left.expr, &right.expr)
            && left.is_row()
            && right.is_row()
        {
            let (a, b) = (fields(a, &left), fields(b, &right));
            return self.compare_rows(op, a, b);
        }
        let settled = |side: &Typed, other: &Typed| match side.data_type {
            DataType::Unknown => comparable_type(&DataType::Unknown, &other.data_type),
            ref known => known.clone(),
        };
        let types = [settled(&left, &right), settled(&right, &left)];
        let (left, right) = (self.cast(left, &types[0])?, self.cast(right, &types[1])?);
        let (left, right) = match meeting(&types[0], &types[1]) {
            Meeting::Alike => (left.expr, right.expr),
            Meeting::In(common) => (self.coerce(left, &common)?, self.coerce(right, &common)?),
            Meeting::Padded => match fast::comparison(op) {
                Some(op) => return Ok(fast::operator(op, left, right)?.expr),
                None => (left.expr, right.expr),
            },
            Meeting::Never => return Err(no_operator(op, &types[0], &types[1])),
        };
        Ok(Expr::Compare { op, sides: Box::new([left, right]) })
    }

    /// Equality is that of all fields, so that each of them may be looked up.
    fn compare_rows(&mut self, op: CompareOp, a: Vec<Typed>, b: Vec<Typed>) -> Result<Expr> {
        if a.len() != b.len() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            ));
        }
        let (of_fields, negated) = match op {
            CompareOp::Equal => (CompareOp::Equal, false),
            CompareOp::NotEqual => (CompareOp::Equal, true),
            CompareOp::NotDistinct => (CompareOp::NotDistinct, false),
            CompareOp::Distinct => (CompareOp::NotDistinct, true),
            _ => {
                let (a, b) = self.fields_alike(a, b)?;
                let sides = Box::new([Expr::Array(a), Expr::Array(b)]);
                return Ok(Expr::CompareRows { op, sides });
            }
        };
        let fields = a.into_iter().zip(b).map(|(a, b)| self.compare(of_fields, a, b));
        Ok(negate(Expr::And(fields.collect::<Result<_>>()?), negated))
    }

    /// Fields in the types that they meet in, pair by pair.
    fn fields_alike(&mut self, a: Vec<Typed>, b: Vec<Typed>) -> Result<(Vec<Expr>, Vec<Expr>)> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (a, b) in a.into_iter().zip(b) {
            let types = [a.data_type.clone(), b.data_type.clone()];
            let types =
                [comparable_type(&types[0], &types[1]), comparable_type(&types[1], &types[0])];
            let types = match meeting(&types[0], &types[1]) {
                Meeting::In(common) => [common.clone(), common],
                Meeting::Never => {
                    return Err(no_operator(CompareOp::Less, &types[0], &types[1]));
                }
                Meeting::Alike | Meeting::Padded => types,
            };
            left.push(self.coerce(a, &types[0])?);
            right.push(self.coerce(b, &types[1])?);
        }
        Ok((left, right))
    }

    /// `input op ANY (query)`, or ALL.
    pub fn quantified_query(
        &mut self,
        op: Quantifier,
        all: bool,
        input: Typed,
        query: &ast::Query,
    ) -> Result<Expr> {
        let (query, cached) = self.subquery(query)?;
        let of_row = match &input.expr {
            Expr::Array(items) if input.is_row() => Some(fields(items, &input)),
            _ => None,
        };
        let width = of_row.as_ref().map_or(1, Vec::len);
        if query.columns.len() != width {
            let few = if query.columns.len() < width { "few" } else { "many" };
            let message = format!("subquery has too {few} columns");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let (op, input) = match (op, of_row) {
            (Quantifier::Compare(op), Some(of_row)) => {
                let mut input = Vec::new();
                for (field, column) in of_row.into_iter().zip(&query.columns) {
                    input.push(self.side(Quantifier::Compare(op), field, &column.data_type)?);
                }
                (Quantifier::Rows(op), Expr::Array(input))
            }
            (op, _) => (op, self.side(op, input, &query.columns[0].data_type.clone())?),
        };
        let query = Box::new(query);
        let array = Box::new(Expr::Subquery { kind: SubqueryKind::Array, query, cached });
        Ok(Expr::Quantified { op, all, input: Box::new(input), array })
    }

    pub fn side(&mut self, op: Quantifier, input: Typed, element: &DataType) -> Result<Expr> {
        match op {
            Quantifier::Match { .. } => self.coerce(input, &DataType::Text),
            Quantifier::Compare(op) | Quantifier::Rows(op) => {
                let to = comparable_type(&input.data_type, element);
                if let Meeting::Never = meeting(&to, &comparable_type(element, &to)) {
                    return Err(no_operator(op, &to, element));
                }
                self.coerce(input, &to)
            }
        }
    }

    /// What has to be true or false.
    pub fn condition(&mut self, expr: &ast::Expr, clause: &str) -> Result<Expr> {
        let typed = self.expr(expr)?;
        match typed.data_type {
            DataType::Bool | DataType::Unknown => self.coerce(typed, &DataType::Bool),
            other => {
                let message =
                    format!("argument of {clause} must be type boolean, not type {other}");
                Err(Error::new(SqlState::DATATYPE_MISMATCH, message))
            }
        }
    }

    pub fn is_null(&mut self, input: &ast::Expr, negated: bool) -> Result<Typed> {
        let input = self.expr(input)?;
        let is_row = input.is_row();
        let input = Box::new(input.expr);
        Ok(Typed::bool(match is_row {
            true => Expr::IsRowNull { input, negated },
            false => Expr::IsNull { input, negated },
        }))
    }
}

fn fields(items: &[Expr], row: &Typed) -> Vec<Typed> {
    let types = row.items.iter().cloned().chain(std::iter::repeat(DataType::Unknown));
    items.iter().cloned().zip(types).map(|(expr, t)| Typed::new(expr, t)).collect()
}

/// How values of two types are compared.
enum Meeting {
    /// As they are.
    Alike,
    In(DataType),
    /// Text with `char(n)`, whose blanks at the end do not count.
    Padded,
    Never,
}

fn meeting(left: &DataType, right: &DataType) -> Meeting {
    if fast::compare_alike(left, right) {
        // What is an object's number is no larger than those.
        return match (left, right) {
            (DataType::System(SystemType::Oid), other) if other.is_integer() => {
                Meeting::In(left.clone())
            }
            (other, DataType::System(SystemType::Oid)) if other.is_integer() => {
                Meeting::In(right.clone())
            }
            _ => Meeting::Alike,
        };
    }
    let (left, right) = (left.stored(), right.stored());
    match types::cast::common_type(&left, &right) {
        Some(common) if common.is_string() => Meeting::Padded,
        Some(common) if common != DataType::Void => Meeting::In(common.without_modifier()),
        _ => Meeting::Never,
    }
}

fn no_operator(op: CompareOp, left: &DataType, right: &DataType) -> Error {
    let op = match op {
        CompareOp::NotEqual => "<>",
        CompareOp::Less => "<",
        CompareOp::LessOrEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterOrEqual => ">=",
        CompareOp::Equal | CompareOp::Distinct | CompareOp::NotDistinct => "=",
    };
    let message = format!("operator does not exist: {left} {op} {right}");
    Error::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(
        "No operator matches the given name and argument types. You might need to add \
                    explicit type casts.",
    )
}

/// What a side of a comparison becomes before it is compared with the other.
pub fn comparable_type(side: &DataType, other: &DataType) -> DataType {
    match (side, other) {
        (DataType::Unknown, DataType::Unknown) => DataType::Text,
        // A length or precision says nothing about what a literal is compared with.
        (DataType::Unknown, other) => other.without_modifier(),
        (side, _) => side.clone(),
    }
}
