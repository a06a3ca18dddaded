//! GROUP BY: by what rows are grouped, once or by several sets.
//!
//! ```text
//!   GROUP BY a, ROLLUP (b, c)  ─►  groups a, b, c   sets (a, b, c), (a, b), (a)
//! ```
//!
//! `GROUPING (…)` is a placeholder until the groups are known, and then an element of a constant
//! array: one for each set.

use procedure::{Expr, Query};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed};
use super::placeholders::{FIRST_AGGREGATE, FIRST_GROUPING, is_grouping, is_window};
use super::scope::Scope;
use super::select::{Output, ordinal};
use super::sort_keys::distinct_by;
use super::state::Place;
use crate::syntax::exprs::positional;
use crate::syntax::names::{fold, function_name};

const SETS_MAX: usize = 4096;
const CUBE_MAX: usize = 12;
const ARGUMENTS_MAX: usize = 31;

/// What GROUP BY says.
#[derive(Default)]
pub(super) struct Groups {
    pub exprs: Vec<Expr>,
    /// Which item of the select list each is.
    outputs: Vec<Option<usize>>,
    /// Groups that each set has; none: one set that has all.
    pub sets: Vec<Vec<u16>>,
    /// The clause is there.
    pub is_said: bool,
}

impl Groups {
    /// The number of a group in sets. Two items of the select list that are alike are two groups.
    fn number(&mut self, expr: Expr, output: Option<usize>, items: &mut [Output]) -> Result<u16> {
        // Else each equal constant of the select list would be the group.
        let expr = match expr {
            Expr::Const(_) => Expr::Coalesce([expr].into()),
            expr => expr,
        };
        let mut known = self.exprs.iter().zip(&self.outputs);
        let same = |(known, of): (&Expr, &Option<usize>)| match output {
            Some(_) => *of == output,
            None => of.is_none() && *known == expr,
        };
        let place = match known.position(same) {
            Some(place) => place,
            None => {
                let mut expr = expr;
                while self.exprs.contains(&expr) {
                    expr = Expr::Coalesce([expr].into());
                }
                if let Some(item) = output.and_then(|output| items.get_mut(output)) {
                    item.value.expr = expr.clone();
                }
                self.exprs.push(expr);
                self.outputs.push(output);
                self.exprs.len() - 1
            }
        };
        u16::try_from(place).map_err(|_| crate::syntax::depth::too_deep())
    }

    /// Grouping by a table's whole primary key fixes all of its columns, so they may be used too.
    pub fn add_whole_keys(&mut self, scope: &Scope) {
        for relation in &scope.relations {
            let (key, width) = match (&relation.table, relation.key) {
                (Some(table), _) => (&*table.schema.primary_key, table.schema.columns.len()),
                (None, Some(column)) => (&[column][..], relation.columns.len()),
                (None, None) => continue,
            };
            let grouped = |c: u16| {
                let column = Expr::Column(relation.offset + c);
                let place = self.exprs.iter().position(|group| *group == column);
                place.is_some_and(|place| self.sets.iter().all(|set| set.contains(&(place as u16))))
            };
            if key.iter().all(|c| grouped(*c)) {
                let columns = 0..width as u16;
                let missing: Vec<u16> = columns.filter(|c| !grouped(*c)).collect();
                for column in missing {
                    let number = self.exprs.len() as u16;
                    self.exprs.push(Expr::Column(relation.offset + column));
                    self.sets.iter_mut().for_each(|set| set.push(number));
                }
            }
        }
    }

    /// Puts what they are in place of calls of GROUPING over rows of groups and `calls` aggregates.
    ///
    /// # Errors
    /// 42803 where an argument is no group.
    pub fn answer(
        &self,
        groupings: &[Vec<Expr>],
        calls: usize,
        exprs: impl Iterator<Item = impl std::ops::DerefMut<Target = Expr>>,
    ) -> Result<()> {
        let answers = groupings.iter().map(|arguments| self.grouping(arguments, calls));
        let answers = answers.collect::<Result<Vec<Expr>>>()?;
        for mut expr in exprs {
            expr.rewrite(&mut |expr| match expr {
                Expr::Column(column) if is_grouping(*column) => {
                    let place = usize::from(*column - FIRST_GROUPING);
                    if let Some(answer) = answers.get(place) {
                        *expr = answer.clone();
                    }
                    true
                }
                _ => false,
            });
        }
        Ok(())
    }

    /// A bit for each argument: whether the group at hand is not made by it.
    fn grouping(&self, arguments: &[Expr], calls: usize) -> Result<Expr> {
        let place = |argument| self.exprs.iter().position(|group| group == argument);
        let places: Option<Vec<usize>> = arguments.iter().map(place).collect();
        let places = places.ok_or_else(not_of_groups)?;
        if self.sets.is_empty() {
            return Ok(Expr::Const(Value::Int(0)));
        }
        let bits = |set: &Vec<u16>| {
            let bit = |place: &usize| i64::from(!set.contains(&(*place as u16)));
            Value::Int(places.iter().fold(0, |bits, place| bits << 1 | bit(place)))
        };
        let answers: Vec<Value> = self.sets.iter().map(bits).collect();
        Ok(Expr::Element {
            array: Box::new(Expr::Const(Value::array(answers))),
            index: Box::new(Expr::Column((self.exprs.len() + calls) as u16)),
        })
    }
}

pub(super) fn not_of_groups() -> Error {
    let what = "arguments to GROUPING must be grouping expressions of the associated query level";
    Error::new(SqlState::GROUPING_ERROR, what)
}

impl Binder<'_> {
    pub(super) fn groups(
        &mut self,
        scope: &Scope,
        group_by: &ast::GroupByExpr,
        outputs: &mut [Output],
    ) -> Result<Groups> {
        let exprs = match group_by {
            ast::GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => exprs,
            other => return Err(Error::unsupported(other)),
        };
        let mut groups = Groups { is_said: !exprs.is_empty(), ..Groups::default() };
        let place = std::mem::replace(&mut self.aggregates.place, Place::GroupBy);
        match exprs.iter().any(has_sets) {
            false => {
                for expr in exprs {
                    groups.exprs.push(self.group(scope, expr, outputs)?.0);
                }
            }
            true => self.sets(scope, exprs, outputs, &mut groups)?,
        }
        self.aggregates.place = place;
        if groups.exprs.iter().flat_map(Expr::columns).any(is_window) {
            let what = "window functions are not allowed in GROUP BY";
            return Err(Error::new(SqlState(*b"42P20"), what));
        }
        if groups.exprs.iter().flat_map(Expr::columns).any(|column| column >= FIRST_AGGREGATE) {
            let what = "aggregate functions are not allowed in GROUP BY";
            return Err(Error::new(SqlState::GROUPING_ERROR, what));
        }
        Ok(groups)
    }

    /// Each of one element with each of the next.
    fn sets(
        &mut self,
        scope: &Scope,
        elements: &[ast::Expr],
        outputs: &mut [Output],
        groups: &mut Groups,
    ) -> Result<()> {
        let mut sets: Vec<Vec<u16>> = vec![Vec::new()];
        for element in elements {
            let more = self.sets_of(scope, element, outputs, groups)?;
            if sets.len() * more.len() > SETS_MAX {
                return Err(too_many());
            }
            let with = |set: &Vec<u16>| more.iter().map(|more| joined([set, more])).collect();
            sets = sets.iter().flat_map::<Vec<_>, _>(with).collect();
        }
        let is_whole = |set: &Vec<u16>| set.len() == groups.exprs.len();
        groups.sets = match sets.as_slice() {
            [only] if is_whole(only) => Vec::new(),
            _ => sets,
        };
        Ok(())
    }

    fn sets_of(
        &mut self,
        scope: &Scope,
        element: &ast::Expr,
        outputs: &mut [Output],
        groups: &mut Groups,
    ) -> Result<Vec<Vec<u16>>> {
        let mut list = |exprs: &[ast::Expr]| -> Result<Vec<u16>> {
            let mut numbers = Vec::new();
            for expr in flat(exprs) {
                let (expr, output) = self.group(scope, expr, outputs)?;
                numbers.push(groups.number(expr, output, outputs)?);
            }
            Ok(numbers)
        };
        match element {
            ast::Expr::Rollup(parts) => {
                let parts = parts.iter().map(|part| list(part)).collect::<Result<Vec<_>>>()?;
                Ok((0..=parts.len()).rev().map(|count| joined(&parts[..count])).collect())
            }
            ast::Expr::Cube(parts) if parts.len() > CUBE_MAX => {
                let what = format!("CUBE is limited to {CUBE_MAX} elements");
                Err(Error::new(SqlState(*b"54011"), what))
            }
            ast::Expr::Cube(parts) => {
                let parts = parts.iter().map(|part| list(part)).collect::<Result<Vec<_>>>()?;
                let of = |chosen: usize| {
                    let chosen = |place: &usize| chosen >> (parts.len() - 1 - place) & 1 == 1;
                    joined((0..parts.len()).filter(chosen).map(|place| &parts[place]))
                };
                Ok((0..1usize << parts.len()).rev().map(of).collect())
            }
            ast::Expr::GroupingSets(parts) => {
                let mut sets = Vec::new();
                for part in parts {
                    match part.as_slice() {
                        [only] if has_sets(only) => {
                            sets.extend(self.sets_of(scope, only, outputs, groups)?);
                        }
                        [ast::Expr::Function(call)] if let Some(within) = within_sets(call)? => {
                            sets.extend(self.sets_of(scope, &within, outputs, groups)?);
                        }
                        part => {
                            let mut numbers = Vec::new();
                            for expr in flat(part) {
                                let (expr, output) = self.group(scope, expr, outputs)?;
                                numbers.push(groups.number(expr, output, outputs)?);
                            }
                            sets.push(numbers);
                        }
                    }
                    if sets.len() > SETS_MAX {
                        return Err(too_many());
                    }
                }
                Ok(sets)
            }
            expr => Ok(vec![list(std::slice::from_ref(expr))?]),
        }
    }

    /// A name is an input column before it is an output's alias. With the item of the select list
    /// that it is.
    fn group(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        outputs: &[Output],
    ) -> Result<(Expr, Option<usize>)> {
        if let Some(place) = ordinal(expr, outputs.len(), "GROUP BY")? {
            distinct_by(&outputs[place].value)?;
            return Ok((self.again(&outputs[place].value.expr)?, Some(place)));
        }
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            if scope.find(&name)?.is_none()
                && let Some(place) = outputs.iter().position(|output| output.name == name)
            {
                distinct_by(&outputs[place].value)?;
                return Ok((self.again(&outputs[place].value.expr)?, Some(place)));
            }
        }
        let typed = self.expression(scope, expr)?;
        let typed = self.resolved(typed)?;
        distinct_by(&typed)?;
        let expr = typed.expr;
        let place = outputs.iter().position(|output| output.value.expr == expr);
        Ok((expr, place))
    }

    /// GROUPING (…): its placeholder.
    pub(super) fn grouping_call(&mut self, scope: &Scope, call: &ast::Function) -> Result<Typed> {
        let message = match self.aggregates.place {
            Place::Allowed => "",
            Place::Inside => "aggregate function calls cannot be nested",
            Place::Where => "grouping operations are not allowed in WHERE",
            Place::GroupBy => "grouping operations are not allowed in GROUP BY",
            Place::JoinCondition => "grouping operations are not allowed in JOIN conditions",
            Place::Elsewhere => "grouping operations are not allowed here",
        };
        if !message.is_empty() {
            return Err(Error::new(SqlState::GROUPING_ERROR, message));
        }
        let ast::FunctionArguments::List(list) = &call.args else { return Err(not_of_groups()) };
        if list.args.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \")\""));
        }
        if list.args.len() > ARGUMENTS_MAX {
            let what = format!("GROUPING must have fewer than {} arguments", ARGUMENTS_MAX + 1);
            return Err(Error::new(SqlState(*b"54023"), what));
        }
        let mut arguments = Vec::with_capacity(list.args.len());
        for argument in &list.args {
            let typed = self.expression(scope, positional(argument)?)?;
            arguments.push(self.resolved(typed)?.expr);
        }
        let place = self.aggregates.groupings.len();
        if place >= usize::from(FIRST_AGGREGATE - FIRST_GROUPING) {
            return Err(crate::syntax::depth::too_deep());
        }
        self.aggregates.groupings.push(arguments);
        Ok(Typed::new(Expr::Column(FIRST_GROUPING + place as u16), DataType::Int4))
    }
}

fn too_many() -> Error {
    let what = format!("too many grouping sets present (maximum {SETS_MAX})");
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, what)
}

fn has_sets(expr: &ast::Expr) -> bool {
    use ast::Expr as E;
    matches!(expr, E::Rollup(_) | E::Cube(_) | E::GroupingSets(_) | E::Tuple(_))
}

/// ROLLUP and CUBE within GROUPING SETS, which are read as calls.
fn within_sets(call: &ast::Function) -> Result<Option<ast::Expr>> {
    let make = match &*function_name(&call.name)? {
        "rollup" => ast::Expr::Rollup as fn(Vec<Vec<ast::Expr>>) -> ast::Expr,
        "cube" => ast::Expr::Cube,
        _ => return Ok(None),
    };
    let ast::FunctionArguments::List(list) = &call.args else { return Ok(None) };
    let parts = list.args.iter().map(|part| Ok(vec![positional(part)?.clone()]));
    Ok(Some(make(parts.collect::<Result<_>>()?)))
}

/// `(a, b)` are two.
fn flat(exprs: &[ast::Expr]) -> Vec<&ast::Expr> {
    let flat_one = |expr| match expr {
        &ast::Expr::Tuple(ref within) => flat(within),
        expr => vec![expr],
    };
    exprs.iter().flat_map(flat_one).collect()
}

fn joined<'s>(sets: impl IntoIterator<Item = &'s Vec<u16>>) -> Vec<u16> {
    let mut all = Vec::new();
    for number in sets.into_iter().flatten() {
        if !all.contains(number) {
            all.push(*number);
        }
    }
    all
}

/// Rows grouped, each time by one of the sets.
pub(super) fn grouped(
    input: Query,
    groups: Groups,
    aggregates: Vec<procedure::query::Aggregate>,
) -> Query {
    Query::Aggregate {
        input: Box::new(input),
        groups: groups.exprs.into(),
        sets: groups.sets.into_iter().map(Vec::into_boxed_slice).collect(),
        aggregates: aggregates.into(),
    }
}
