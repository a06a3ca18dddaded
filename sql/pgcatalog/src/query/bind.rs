//! From syntax to plan: queries, set operations, common table expressions.

use std::collections::BTreeSet;

use procedure::Interrupt;
use sql::catalog::ViewUses;
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, TableId, Value};

use super::plan::*;
use super::refused::no_calls;
use super::scope::Scope;
use super::{Typed, matched};
use crate::world::World;
use sql::names::fold;

pub struct Binder<'a> {
    pub world: &'a World,
    /// Types of `$1`…; `None` until something says.
    pub parameters: Vec<Option<DataType>>,
    pub scopes: Vec<Scope>,
    /// The outermost of `scopes` that something bound since has used.
    pub reach: usize,
    pub ctes: Vec<(String, usize, Vec<Column>)>,
    pub next_cte: usize,
    /// Subqueries whose value is the same for all rows.
    pub cached: usize,
    /// Users' tables that it reads.
    pub tables: BTreeSet<TableId>,
    pub view_uses: ViewUses,
    /// What the statement is given up by.
    pub interrupt: Option<&'a dyn Interrupt>,
    depth: usize,
    /// Expressions and queries, so far.
    bound: usize,
    /// Operands at hand that are looked at several times.
    given: usize,
}

/// Levels of queries and expressions; each costs stack.
const DEPTH_MAX: usize = 100;

/// Expressions, queries and columns that a statement may come to, with those of the views that it
/// reads: they are memory before anything runs.
const BOUND_MAX: usize = 200_000;

/// How often a long binding asks whether it should go on.
const BOUND_BETWEEN_CHECKS: usize = 1024;

impl<'a> Binder<'a> {
    pub fn new(world: &'a World, types: &[Option<DataType>]) -> Binder<'a> {
        Binder {
            world,
            parameters: types.to_vec(),
            scopes: Vec::new(),
            reach: usize::MAX,
            ctes: Vec::new(),
            next_cte: 0,
            cached: 0,
            tables: BTreeSet::new(),
            view_uses: ViewUses::default(),
            interrupt: None,
            depth: 0,
            bound: 0,
            given: 0,
        }
    }

    /// So much more is about to be bound.
    pub fn count(&mut self, expressions: usize) -> Result<()> {
        let before = self.bound / BOUND_BETWEEN_CHECKS;
        self.bound = self.bound.saturating_add(expressions);
        if self.bound > BOUND_MAX {
            let what = "the statement is too complex";
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, what)
                .with_detail(format!("It comes to more than {BOUND_MAX} expressions."))
                .with_hint("Read catalogs by several statements, or through fewer views."));
        }
        match self.interrupt {
            Some(interrupt) if self.bound / BOUND_BETWEEN_CHECKS > before => interrupt.check(),
            _ => Ok(()),
        }
    }

    pub fn nested<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.count(1)?;
        self.depth += 1;
        let bound = match self.depth <= DEPTH_MAX {
            true => bind(self),
            false => Err(sql::too_deep()),
        };
        self.depth -= 1;
        bound
    }

    /// What `look` makes of an operand that it uses more than once. The operand is computed once,
    /// and copied only where that costs nothing: nested ones would double with each level.
    pub fn once(
        &mut self,
        operand: Typed,
        look: impl FnOnce(&mut Self, Typed) -> Result<Typed>,
    ) -> Result<Typed> {
        let mut kept = Vec::new();
        let around = self.given;
        let operand = self.kept(operand, &mut kept);
        let looked = look(self, operand);
        // The same text has the same numbers, by which it is known for the same.
        self.given = around;
        let mut looked = looked?;
        for (number, value) in kept.into_iter().rev() {
            let body = Box::new(looked.expr);
            looked.expr = Expr::Once { number, value: Box::new(value), body };
        }
        Ok(looked)
    }

    /// The fields of a row are compared one by one.
    fn kept(&mut self, operand: Typed, kept: &mut Vec<(usize, Expr)>) -> Typed {
        let mut keep = |expr: Expr| match expr {
            Expr::Value(_) | Expr::Column { .. } | Expr::Parameter(_) | Expr::Given(_) => expr,
            expr => {
                kept.push((self.given, expr));
                self.given += 1;
                Expr::Given(self.given - 1)
            }
        };
        let is_row = operand.is_row();
        let expr = match operand.expr {
            Expr::Array(fields) if is_row => Expr::Array(fields.into_iter().map(keep).collect()),
            expr => keep(expr),
        };
        Typed { expr, ..operand }
    }

    pub fn query(&mut self, query: &ast::Query) -> Result<Query> {
        self.nested(|binder| {
            let outer_ctes = binder.ctes.len();
            let bound = binder.query_with_ctes(query);
            binder.ctes.truncate(outer_ctes);
            bound
        })
    }

    fn query_with_ctes(&mut self, query: &ast::Query) -> Result<Query> {
        if let Some(lock) = query.locks.first() {
            return Err(Error::unsupported(format_args!("{lock} beside system catalogs")));
        }
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        let names: Vec<String> = named.map(|cte| fold(&cte.alias.name)).collect();
        if let Some(name) = repeated(&names) {
            let message = format!("WITH query name \"{name}\" specified more than once");
            return Err(Error::new(SqlState(*b"42712"), message));
        }
        let ctes = match &query.with {
            Some(with) => {
                let bind = |cte| self.cte(cte, with.recursive);
                with.cte_tables.iter().map(bind).collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        let order: &[ast::OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(ast::OrderByKind::Expressions(exprs)) => exprs,
            Some(ast::OrderByKind::All(_)) => return Err(Error::unsupported("ORDER BY ALL")),
            None => &[],
        };
        let mut bound = self.body(&query.body, order)?;
        let (limit, offset) = self.limits(query)?;
        if !ctes.is_empty() {
            bound.ctes = ctes;
        }
        // A query in parentheses has ends of its own.
        if bound.limit.is_some() || bound.offset.is_some() {
            bound = wrap(bound);
        }
        (bound.limit, bound.offset) = (limit, offset);
        Ok(bound)
    }

    fn limits(&mut self, query: &ast::Query) -> Result<(Option<Expr>, Option<Expr>)> {
        let (limit, offset) = match &query.limit_clause {
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(other) => return Err(Error::unsupported(other)),
            None => (None, None),
        };
        let limit = limit.or(query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()));
        let mut number = |expr: Option<&ast::Expr>, clause| match expr {
            None => Ok(None),
            Some(expr) => {
                self.without_row(clause, |binder| binder.bind_as(expr, &DataType::Int8)).map(Some)
            }
        };
        Ok((number(limit, "LIMIT")?, number(offset, "OFFSET")?))
    }

    /// What is bound where the query has no row at hand: only those around it have.
    fn without_row<T>(
        &mut self,
        clause: &str,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.scopes.push(Scope::default());
        let bound = bind(self);
        let scope = self.scopes.pop().unwrap_or_default();
        let bound = bound?;
        no_calls(&scope, clause)?;
        Ok(bound)
    }

    fn cte(&mut self, cte: &ast::Cte, recursive: bool) -> Result<Cte> {
        let name = fold(&cte.alias.name);
        let number = self.next_cte;
        self.next_cte += 1;
        if recursive
            && let ast::SetExpr::SetOperation { op: ast::SetOperator::Union, left, right, .. } =
                &*cte.query.body
            && mentions(right, &name)
        {
            let ends = [
                (cte.query.order_by.is_some(), "ORDER BY"),
                (cte.query.limit_clause.is_some(), "LIMIT"),
                (!cte.query.locks.is_empty(), "FOR UPDATE"),
                (cte.query.with.is_some(), "WITH"),
            ];
            if let Some((_, end)) = ends.iter().find(|(is_there, _)| *is_there) {
                return Err(Error::unsupported(format_args!("{end} in a recursive query")));
            }
            let all = is_all(&cte.query.body);
            let mut query = self.body(left, &[])?;
            rename(&mut query.columns, &cte.alias)?;
            self.ctes.push((name, number, query.columns.clone()));
            let step = self.body(right, &[])?;
            let types: Vec<DataType> =
                query.columns.iter().map(|column| column.data_type.clone()).collect();
            return Ok(Cte { number, query, recursion: Some((cast_columns(step, &types), all)) });
        }
        let mut query = self.query(&cte.query)?;
        rename(&mut query.columns, &cte.alias)?;
        self.ctes.push((name, number, query.columns.clone()));
        Ok(Cte { number, query, recursion: None })
    }

    fn body(&mut self, body: &ast::SetExpr, order: &[ast::OrderByExpr]) -> Result<Query> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, order),
            ast::SetExpr::Query(query) => {
                let bound = self.query(query)?;
                match order.is_empty() {
                    true => Ok(bound),
                    false => self.ordered(wrap(bound), order),
                }
            }
            ast::SetExpr::Values(values) => {
                let bound = self.values(values)?;
                self.ordered(bound, order)
            }
            ast::SetExpr::SetOperation { op, left, right, .. } => {
                let op = match op {
                    ast::SetOperator::Union => SetOp::Union,
                    ast::SetOperator::Intersect => SetOp::Intersect,
                    ast::SetOperator::Except | ast::SetOperator::Minus => SetOp::Except,
                };
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                let bound = self.set_operation(op, is_all(body), left, right)?;
                self.ordered(bound, order)
            }
            other => Err(Error::unsupported(other)),
        }
    }

    /// A side of a set operation. DISTINCT compares, and so needs types of its own.
    fn operand(&mut self, body: &ast::SetExpr) -> Result<Query> {
        match body {
            ast::SetExpr::Select(select)
                if matches!(select.distinct, None | Some(ast::Distinct::All)) =>
            {
                self.unsettled(select)
            }
            other => self.body(other, &[]),
        }
    }

    fn set_operation(&mut self, op: SetOp, all: bool, left: Query, right: Query) -> Result<Query> {
        if left.columns.len() != right.columns.len() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "each UNION query must have the same number of columns",
            ));
        }
        let both = left.columns.iter().zip(&right.columns);
        let types = both.map(|(l, r)| match (&l.data_type, &r.data_type) {
            // A literal is not cut to the length of what it stands beside.
            (DataType::Unknown, DataType::Char(_)) | (DataType::Char(_), DataType::Unknown) => {
                Ok(DataType::Text)
            }
            (DataType::Unknown, other) | (other, DataType::Unknown) => {
                Ok(settled(other).without_modifier())
            }
            (l, r) => matched(l, r),
        });
        let types = types.collect::<Result<Vec<DataType>>>()?;
        let columns = left.columns.iter().zip(&types);
        let columns = columns.map(|(column, t)| Column::new(column.name.clone(), t.clone()));
        let columns = columns.collect();
        let (left, right) = (self.settle(left, &types)?, self.settle(right, &types)?);
        Ok(Query {
            columns,
            ctes: Vec::new(),
            body: Body::Set {
                op,
                all,
                left: Box::new(cast_columns(left, &types)),
                right: Box::new(cast_columns(right, &types)),
            },
            order: Vec::new(),
            limit: None,
            offset: None,
        })
    }

    /// Gives what waits for a type the one of the set operation.
    fn settle(&mut self, mut query: Query, types: &[DataType]) -> Result<Query> {
        let Body::Select(select) = &mut query.body else {
            return Ok(query);
        };
        let columns = query.columns.iter_mut().zip(&mut select.outputs).zip(types);
        for ((column, output), to) in columns {
            if column.data_type == DataType::Unknown {
                let literal = std::mem::replace(output, Expr::Value(Value::Null));
                *output = self.coerce(Typed::new(literal, DataType::Unknown), to)?;
                column.data_type = to.clone();
            }
        }
        Ok(query)
    }

    fn values(&mut self, values: &ast::Values) -> Result<Query> {
        let rows = self.without_row("VALUES", |binder| {
            let mut bind = |row: &Vec<ast::Expr>| row.iter().map(|e| binder.expr(e)).collect();
            values.rows.iter().map(|row| bind(&row.content)).collect::<Result<Vec<Vec<Typed>>>>()
        })?;
        let mut types = vec![DataType::Unknown; rows.first().map_or(0, Vec::len)];
        for row in &rows {
            if row.len() != types.len() {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            for (common, value) in types.iter_mut().zip(row) {
                *common = matched(common, &value.data_type)?;
            }
        }
        types.iter_mut().for_each(|t| *t = settled(t));
        let mut bound = Vec::new();
        for row in rows {
            let row = row.into_iter().zip(&types);
            bound.push(row.map(|(value, t)| self.coerce(value, t)).collect::<Result<_>>()?);
        }
        let columns = types.iter().enumerate();
        let columns = columns.map(|(i, t)| Column::new(format!("column{}", i + 1), t.clone()));
        Ok(Query {
            columns: columns.collect(),
            ctes: Vec::new(),
            body: Body::Values(bound),
            order: Vec::new(),
            limit: None,
            offset: None,
        })
    }

    /// ORDER BY over what is no SELECT: names and numbers of its columns.
    fn ordered(&mut self, mut query: Query, order: &[ast::OrderByExpr]) -> Result<Query> {
        for by in order {
            check_position(&by.expr, query.columns.len(), "ORDER BY")?;
            let output = output_named(&by.expr, &query.columns).ok_or_else(|| {
                Error::unsupported(format_args!("ORDER BY {} after a set operation", by.expr))
            })?;
            query.order.push(Order { output, direction: direction(by) });
        }
        Ok(query)
    }
}

/// The same query as a table: `SELECT * FROM (query)`.
fn wrap(query: Query) -> Query {
    let width = query.columns.len();
    let columns = query.columns.clone();
    let outputs = (0..width).map(|place| Expr::Column { level: 0, place }).collect();
    let leaf = Leaf { offset: 0, width, presence: None, kind: LeafKind::Query(Box::new(query)) };
    select_of(columns, outputs, width, Source::Leaf(leaf))
}

fn select_of(columns: Vec<Column>, outputs: Vec<Expr>, width: usize, source: Source) -> Query {
    let select = Select {
        width,
        source,
        grouping: None,
        windows: Vec::new(),
        sets: Vec::new(),
        outputs,
        distinct: Distinct::All,
    };
    Query {
        columns,
        ctes: Vec::new(),
        body: Body::Select(Box::new(select)),
        order: Vec::new(),
        limit: None,
        offset: None,
    }
}

/// The query with its columns converted.
fn cast_columns(query: Query, types: &[DataType]) -> Query {
    let same = query.columns.iter().zip(types).all(|(column, t)| column.data_type == *t);
    if same {
        return query;
    }
    let mut wrapped = wrap(query);
    if let Body::Select(select) = &mut wrapped.body {
        for ((output, column), to) in select.outputs.iter_mut().zip(&mut wrapped.columns).zip(types)
        {
            let from = std::mem::replace(&mut column.data_type, to.clone());
            let input = Box::new(std::mem::replace(output, Expr::Value(Value::Null)));
            *output = Expr::Cast { input, from, to: to.clone() };
        }
    }
    wrapped
}

fn is_all(body: &ast::SetExpr) -> bool {
    use ast::SetQuantifier::{All, AllByName};
    let quantifier = match body {
        ast::SetExpr::SetOperation { set_quantifier, .. } => set_quantifier,
        _ => return false,
    };
    matches!(quantifier, All | AllByName)
}

/// Whether a table of that name is used.
fn mentions(body: &ast::SetExpr, name: &str) -> bool {
    use std::ops::ControlFlow::{Break, Continue};
    let found = ast::visit_relations(body, |relation| match super::scope::parts(relation) {
        parts if parts == [name] => Break(()),
        _ => Continue(()),
    });
    found.is_break()
}

/// # Errors
/// 42P10 for more names than there are columns.
pub fn rename(columns: &mut [Column], alias: &ast::TableAlias) -> Result<()> {
    if alias.columns.len() > columns.len() {
        let message = format!(
            "table \"{}\" has {} columns available but {} columns specified",
            fold(&alias.name),
            columns.len(),
            alias.columns.len()
        );
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, name) in columns.iter_mut().zip(&alias.columns) {
        column.name = fold(&name.name);
    }
    Ok(())
}

/// What has no type is text.
pub fn settled(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Unknown => DataType::Text,
        known => known.clone(),
    }
}

/// A name that is there twice.
fn repeated(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

/// # Errors
/// 42P10 for the number of an output that there is none of.
pub fn check_position(expr: &ast::Expr, outputs: usize, clause: &str) -> Result<()> {
    let ast::Expr::Value(value) = expr else {
        return Ok(());
    };
    let ast::Value::Number(digits, _) = &value.value else {
        return Ok(());
    };
    match digits.parse::<usize>() {
        Ok(place) if !(1..=outputs).contains(&place) => Err(Error::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("{clause} position {digits} is not in select list"),
        )),
        _ => Ok(()),
    }
}

/// The output that ORDER BY or GROUP BY means by a number or a bare name.
pub fn output_named(expr: &ast::Expr, columns: &[Column]) -> Option<usize> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(number, _) => {
                let number: usize = number.parse().ok()?;
                (1..=columns.len()).contains(&number).then(|| number - 1)
            }
            _ => None,
        },
        ast::Expr::Identifier(name) => {
            let name = fold(name);
            columns.iter().position(|column| column.name == name)
        }
        ast::Expr::Collate { expr, .. } => output_named(expr, columns),
        _ => None,
    }
}

/// NULL is above everything unless NULLS says otherwise.
pub fn direction(by: &ast::OrderByExpr) -> Direction {
    let descending = by.options.asc == Some(false);
    Direction { descending, nulls_first: by.options.nulls_first.unwrap_or(descending) }
}
