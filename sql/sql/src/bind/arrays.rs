//! Arrays in expressions: their constructor, their elements.

use std::sync::Arc;

use procedure::{BinaryOp, Expr, Function};
use sqlparser::ast;
use types::arithmetic::no_operator;
use types::cast::{CastContext, common_type};
use types::enums::EnumLabel;
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::binder::{Binder, Typed, fold};
use super::scope::Scope;
use super::system::as_array;
use crate::schema::user_types::labels_of;
use crate::syntax::exprs::named_alone;
use crate::syntax::names::fold as fold_name;

impl Binder<'_> {
    pub(super) fn array(&mut self, scope: &Scope, elements: &[ast::Expr]) -> Result<Typed> {
        let mut inputs = Vec::with_capacity(elements.len());
        for element in elements {
            inputs.push(self.expression(scope, element)?);
        }
        if inputs.is_empty() {
            // What `ARRAY[]::int[]` is cast to says it.
            let what = "cannot determine type of empty array";
            return Err(Error::new(SqlState(*b"42P18"), what).with_hint(
                "Explicitly cast to the desired type, for example ARRAY[]::integer[].",
            ));
        }
        let (inputs, element) = self.unify(inputs, "ARRAY")?;
        if matches!(element, DataType::Array(_)) {
            return Err(Error::unsupported("arrays of more than one dimension"));
        }
        let data_type = DataType::Array(Box::new(element.without_modifier()));
        Ok(Typed::new(fold(Expr::Array(inputs.into())), data_type))
    }

    pub(super) fn subscript(
        &mut self,
        scope: &Scope,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Typed> {
        let (named, chain) = whole_name(root, chain);
        let root = named.as_ref().unwrap_or(root);
        if let [before @ .., ast::AccessExpr::Dot(ast::Expr::Identifier(name))] = chain {
            let name = fold_name(name);
            if let (true, Some(relation)) = (before.is_empty(), named_alone(root))
                && scope.find(&relation)?.is_none()
                && scope.relation(&relation).is_some_and(|relation| !relation.is_scalar)
            {
                return self.qualified_column(scope, &[relation, name]);
            }
            let row = match before {
                [] => self.expression(scope, root)?,
                before => self.subscript(scope, root, before)?,
            };
            return self.field(row, &name);
        }
        let typed = match chain {
            [ast::AccessExpr::Subscript(_), ..] => Some(self.expression(scope, root)?),
            _ => None,
        };
        if let Some(Typed { expr, data_type: DataType::Jsonb, .. }) = typed {
            return self.json_subscript(scope, expr, chain);
        }
        let [ast::AccessExpr::Subscript(subscript)] = chain else {
            return Err(Error::unsupported("this kind of subscript")
                .with_hint("Arrays have one dimension: write a[i]."));
        };
        let array = match typed {
            Some(array) => array,
            None => self.expression(scope, root)?,
        };
        let index = match subscript {
            ast::Subscript::Index { index } => index,
            ast::Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                return self.slice(scope, array, [lower_bound.as_ref(), upper_bound.as_ref()]);
            }
            ast::Subscript::Slice { .. } => {
                return Err(Error::unsupported("this kind of subscript"));
            }
        };
        let is_name = array.data_type == DataType::System(SystemType::Name);
        if is_name || self.system.is_some() && as_array(&array.data_type) != array.data_type {
            let index = self.expression(scope, index)?;
            let index = self.coerce(index, &DataType::Int8, CastContext::Assignment)?;
            if is_name {
                return Ok(character_from_0(array.expr, index));
            }
            if let Some(element) = self.element_from_0(&array, index) {
                return Ok(element);
            }
            return Err(Error::unsupported("this kind of subscript"));
        }
        let DataType::Array(element) = array.data_type else {
            return Err(no_subscripts(&array.data_type));
        };
        let index = self.expression(scope, index)?;
        let index = self.coerce(index, &DataType::Int4, CastContext::Assignment)?;
        let expr = Expr::Element { array: Box::new(array.expr), index: Box::new(index) };
        Ok(Typed::new(fold(expr), *element))
    }

    /// `a[lower:upper]`, each of which may be left out.
    fn slice(
        &mut self,
        scope: &Scope,
        array: Typed,
        bounds: [Option<&ast::Expr>; 2],
    ) -> Result<Typed> {
        let array = Typed { data_type: as_array(&array.data_type), ..array };
        if !matches!(array.data_type, DataType::Array(_)) {
            return Err(no_subscripts(&array.data_type));
        }
        let mut arguments = vec![array.expr];
        for bound in bounds {
            arguments.push(match bound {
                None => Expr::Const(Value::Null),
                Some(bound) => {
                    let bound = self.expression(scope, bound)?;
                    self.coerce(bound, &DataType::Int4, CastContext::Assignment)?
                }
            });
        }
        let given = bounds.map(|bound| Expr::Const(Value::Bool(bound.is_some())));
        arguments.extend(given);
        let (function, result) = (Function::ArraySlice, array.data_type);
        let arguments = arguments.into();
        let expr = Expr::Call { function, arguments, result: result.clone() };
        Ok(Typed::new(fold(expr), result))
    }

    /// `@>`, `<@`, `&&`.
    pub(super) fn array_operator(
        &mut self,
        op: &ast::BinaryOperator,
        left: Typed,
        right: Typed,
    ) -> Result<Typed> {
        let (l, r) = (as_array(&left.data_type), as_array(&right.data_type));
        let Some(common @ DataType::Array(_)) = common_type(&l, &r) else {
            return Err(no_operator(&l, op, &r));
        };
        let common = common.without_modifier();
        let left = self.coerce(Typed { data_type: l, ..left }, &common, CastContext::Implicit)?;
        let right = self.coerce(Typed { data_type: r, ..right }, &common, CastContext::Implicit)?;
        let (function, arguments) = match op {
            ast::BinaryOperator::AtArrow => (Function::ArrayContains, [left, right]),
            ast::BinaryOperator::ArrowAt => (Function::ArrayContains, [right, left]),
            _ => (Function::ArrayOverlaps, [left, right]),
        };
        let result = DataType::Bool;
        let expr = Expr::Call { function, arguments: arguments.into(), result: result.clone() };
        Ok(Typed::new(fold(expr), result))
    }

    /// An array whose element at a place is another one: what `SET a[i] = x` is written as.
    pub(super) fn with_element(&mut self, arguments: &[Typed]) -> Result<Option<Typed>> {
        let [array, indexes @ .., value] = arguments else { return Ok(None) };
        let DataType::Array(element) = &array.data_type else {
            return match array.data_type {
                DataType::Jsonb => Err(Error::unsupported("an assignment to a part of jsonb")
                    .with_hint("Use jsonb_set().")),
                _ => Err(no_subscripts(&array.data_type)),
            };
        };
        let [index] = indexes else {
            return Err(Error::unsupported("an array of more than one dimension"));
        };
        let index = self.coerce(index.clone(), &DataType::Int4, CastContext::Assignment)?;
        let value = self.coerce(value.clone(), element, CastContext::Assignment)?;
        let result = array.data_type.clone();
        let arguments = [array.expr.clone(), index, value].into();
        let expr = Expr::Call { function: Function::ArraySet, arguments, result: result.clone() };
        Ok(Some(Typed::new(expr, result)))
    }

    /// Functions that say which labels an enum has.
    pub(super) fn enum_function(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        if !matches!(name, "enum_first" | "enum_last" | "enum_range") {
            return Ok(None);
        }
        let mut types = arguments.iter().map(|argument| &argument.data_type);
        let Some(DataType::Enum(of)) = types.find(|t| matches!(t, DataType::Enum(_))) else {
            return Ok(None);
        };
        let of = Arc::clone(of);
        let one = DataType::Enum(Arc::clone(&of));
        let all = DataType::Array(Box::new(one.clone()));
        let label = |label: Option<&EnumLabel>| match label {
            Some(label) => Ok(Expr::Const(Value::Int(label.position))),
            None => {
                let what = format!("enum {} contains no values", of.name);
                Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what))
            }
        };
        Ok(Some(match (name, arguments) {
            ("enum_first", [_]) => Typed::new(label(of.labels().first())?, one),
            ("enum_last", [_]) => Typed::new(label(of.labels().last())?, one),
            ("enum_range", [_] | [_, _]) => {
                let mut inputs = vec![Expr::Const(Value::Null); 2];
                if let [from, to] = arguments {
                    for (input, bound) in inputs.iter_mut().zip([from, to]) {
                        *input = self.coerce(bound.clone(), &one, CastContext::Implicit)?;
                    }
                }
                inputs.push(Expr::Const(labels_of(&of)));
                let (function, arguments) = (Function::EnumRange, inputs.into());
                Typed::new(Expr::Call { function, arguments, result: all.clone() }, all)
            }
            _ => return Ok(None),
        }))
    }
}

/// `table.column[1]` comes as a table's name with a chain after it: the column's name, where it has
/// several parts, and what of the chain is behind it.
fn whole_name<'c>(
    root: &ast::Expr,
    mut chain: &'c [ast::AccessExpr],
) -> (Option<ast::Expr>, &'c [ast::AccessExpr]) {
    let mut names = match root {
        ast::Expr::Identifier(name) => vec![name.clone()],
        ast::Expr::CompoundIdentifier(names) => names.clone(),
        _ => return (None, chain),
    };
    while let [ast::AccessExpr::Dot(ast::Expr::Identifier(name)), behind @ ..] = chain {
        names.push(name.clone());
        chain = behind;
    }
    ((names.len() > 1).then(|| ast::Expr::CompoundIdentifier(names)), chain)
}

/// Whether an operator between them is one of arrays.
pub(super) fn are_arrays(left: &Typed, right: &Typed) -> bool {
    let is_array = |side: &Typed| matches!(as_array(&side.data_type), DataType::Array(_));
    let may_be = |side: &Typed| is_array(side) || side.data_type == DataType::Unknown;
    (is_array(left) || is_array(right)) && may_be(left) && may_be(right)
}

/// A character of a name, which is an array of them.
fn character_from_0(name: Expr, index: Expr) -> Typed {
    let one = || Expr::Const(Value::Int(1));
    let (left, right, result) = (Box::new(index), Box::new(one()), DataType::Int8);
    let place = Expr::Binary { op: BinaryOp::Add, left, right, result };
    let result = DataType::System(SystemType::Char);
    let arguments = [name, fold(place), one()].into();
    let expr = Expr::Call { function: Function::Substring, arguments, result: result.clone() };
    Typed::new(fold(expr), result)
}

fn no_subscripts(data_type: &DataType) -> Error {
    let what =
        format!("cannot subscript type {data_type} because it does not support subscripting");
    Error::new(SqlState::DATATYPE_MISMATCH, what)
}
