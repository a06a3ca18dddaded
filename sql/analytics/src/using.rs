//! JOIN … USING and NATURAL JOIN, written out.
//!
//! A column that both sides have is one column of the join: the left one's, the right one's in a
//! RIGHT JOIN, and whichever is not NULL in a FULL JOIN; and it comes first in `*`. DataFusion has
//! the left one's always, and where the left table has it. So such a join gets ON, names of merged
//! columns what they mean, and `*` all of its columns.
//!
//! ```text
//!   SELECT *, a FROM t RIGHT JOIN u USING (a)
//!   SELECT u.a AS a, t.b, u.c, u.a AS a FROM t RIGHT JOIN u ON t.a = u.a
//! ```
//!
//! Which columns a table has is asked of DataFusion's planner. Where it cannot say (a table of a
//! recursive query, a subquery that uses its neighbours), a join stays as it is if DataFusion reads
//! it as PostgreSQL does, and is refused otherwise.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, JoinConstraint as Constraint, JoinOperator as Kind, OrderByKind, Query,
    Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
};
use sql::bind::output_name;
use sql::names::{fold, not_in_side, twice_in_side};
use sql::walk;
use types::{DataType, Error, Result};

use crate::names::Names;
use crate::prepare;
use crate::rewrite::{Place, call, cast};

/// The query without such joins.
pub(crate) fn written_out(
    query: &mut Query,
    names: &Names<'_>,
    types: &[Option<DataType>],
) -> Result<()> {
    let mut joins = Joins { names, types, withs: Vec::new() };
    match walk::change(query, &mut joins) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Joins<'a> {
    names: &'a Names<'a>,
    types: &'a [Option<DataType>],
    /// The WITH of each query around the place that is visited, as far as it is known there.
    withs: Vec<Option<ast::With>>,
}

/// What `*` stands for, and what a name means.
#[derive(Clone)]
struct Column {
    name: String,
    expr: Expr,
    data_type: ArrowType,
    is_merged: bool,
}

/// The columns of a relation, if they are known.
type Columns = Option<Vec<Column>>;

impl VisitorMut for Joins<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        // Each sees those before it. Kept out of the query until it is left, they are visited once,
        // however many lie within each other.
        let mut with = query.with.take();
        let all = with.as_mut().map(|with| std::mem::take(&mut with.cte_tables));
        self.withs.push(with);
        for mut cte in all.into_iter().flatten() {
            walk::change(&mut cte.query, self)?;
            if let Some(Some(known)) = self.withs.last_mut() {
                known.cte_tables.push(cte);
            }
        }
        let SetExpr::Select(select) = &mut *query.body else { return ControlFlow::Continue(()) };
        match self.select(select) {
            Ok(columns) => order_by(query, &columns),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        query.with = self.withs.pop().flatten();
        ControlFlow::Continue(())
    }

    /// Those of UNION; a query's only one has no such join any more.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.select(select) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn constraint(kind: &mut Kind) -> Option<&mut Constraint> {
    match kind {
        Kind::Join(of)
        | Kind::Inner(of)
        | Kind::Left(of)
        | Kind::LeftOuter(of)
        | Kind::Right(of)
        | Kind::RightOuter(of)
        | Kind::FullOuter(of) => Some(of),
        _ => None,
    }
}

fn is_merging(from: &TableWithJoins) -> bool {
    let within = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => is_merging(table_with_joins),
        _ => false,
    };
    let is_one = |kind: &Kind| {
        let mut kind = kind.clone();
        matches!(constraint(&mut kind), Some(Constraint::Using(_) | Constraint::Natural))
    };
    within(&from.relation)
        || from.joins.iter().any(|join| is_one(&join.join_operator) || within(&join.relation))
}

/// Whether DataFusion means the same: the left column, and nothing depends on their order.
fn is_plain(from: &TableWithJoins) -> bool {
    from.joins.iter().all(|join| match &join.join_operator {
        Kind::Join(of) | Kind::Inner(of) | Kind::Left(of) | Kind::LeftOuter(of) => {
            !matches!(of, Constraint::Natural)
        }
        Kind::CrossJoin(_) => true,
        _ => false,
    })
}

impl Joins<'_> {
    /// What names mean in a SELECT that had such joins.
    fn select(&mut self, select: &mut Select) -> Result<Vec<Column>> {
        if !select.from.iter().any(is_merging) {
            return Ok(Vec::new());
        }
        let mut from = select.from.clone();
        let mut all = Some(Vec::new());
        for table in &mut from {
            let columns = self.joined(table)?;
            all = all.zip(columns).map(|(all, columns)| [all, columns].concat());
        }
        let Some(all) = all else {
            let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
            return match select.from.iter().all(is_plain) && !select.projection.iter().any(is_star)
            {
                true => Ok(Vec::new()),
                false => Err(Error::unsupported("JOIN with USING of such tables")
                    .with_hint("Write the condition with ON.")),
            };
        };
        select.from = from;
        expand(&mut select.projection, &all);
        let mut meanings = Meanings { columns: &all, depth: 0 };
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item {
                let name = output_name(expr);
                _ = walk::change(expr, &mut meanings);
                if output_name(expr) != name {
                    let alias = Ident::with_quote('"', name);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        _ = walk::change(select, &mut meanings);
        Ok(all)
    }

    /// The columns of one item of FROM, whose joins get ON.
    fn joined(&mut self, from: &mut TableWithJoins) -> Result<Columns> {
        let mut left = self.factor(&mut from.relation)?;
        for join in &mut from.joins {
            let right = self.factor(&mut join.relation)?;
            let (Some(known), Some(right)) = (left, right) else { return Ok(None) };
            left = Some(merge(known, right, &mut join.join_operator)?);
        }
        Ok(left)
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<Columns> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.joined(table_with_joins);
        }
        if let TableFactor::NestedJoin { table_with_joins, alias } = factor {
            let subquery = all_of(std::slice::from_ref(&**table_with_joins), Vec::new())?;
            let (subquery, alias) = (Box::new(subquery), alias.take());
            *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        }
        // Before it is planned, and then not again.
        if let TableFactor::Derived { subquery, .. } = factor
            && let ControlFlow::Break(error) = walk::change(subquery, self)
        {
            return Err(error);
        }
        let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = &*factor
        else {
            return Ok(None);
        };
        let own = match &*factor {
            TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()),
            _ => None,
        };
        let qualifier = alias.as_ref().map(|alias: &TableAlias| &alias.name).or(own).cloned();
        let (Some(qualifier), Some(names)) = (qualifier, self.columns_of(factor)) else {
            return Ok(None);
        };
        let columns = names.into_iter().map(|(name, data_type)| {
            let parts = vec![qualifier.clone(), Ident::with_quote('"', name.as_str())];
            Column { name, expr: Expr::CompoundIdentifier(parts), data_type, is_merged: false }
        });
        Ok(Some(columns.collect()))
    }

    /// As DataFusion plans the factor alone.
    fn columns_of(&self, factor: &TableFactor) -> Option<Vec<(String, ArrowType)>> {
        let from = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
        let tables = self.withs.iter().flatten().flat_map(|with| &with.cte_tables);
        let query = all_of(&[from], tables.cloned().collect()).ok()?;
        let plan = prepare::plan(self.names, &query, self.types, Place::Inner).ok()?;
        let named = |field: &Arc<Field>| (field.name().clone(), field.data_type().clone());
        Some(plan.schema().fields().iter().map(named).collect())
    }
}

/// `WITH … SELECT * FROM …`.
fn all_of(from: &[TableWithJoins], tables: Vec<ast::Cte>) -> Result<Query> {
    let parsed = sql::parse("WITH x AS (SELECT 1) SELECT * FROM x")?.pop();
    let parsed = parsed.as_ref().and_then(|parsed| parsed.query().cloned());
    let mut query = parsed.ok_or_else(|| Error::unsupported("such a join"))?;
    query.with = query.with.filter(|_| !tables.is_empty());
    if let Some(with) = &mut query.with {
        with.cte_tables = tables;
    }
    if let SetExpr::Select(select) = &mut *query.body {
        select.from = from.to_vec();
    }
    Ok(query)
}

/// The column of a side that USING names.
fn find<'c>(columns: &'c [Column], name: &str, side: &str) -> Result<&'c Column> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => Err(not_in_side(name, side)),
        (Some(_), Some(_)) => Err(twice_in_side(name, side)),
    }
}

/// Both sides of a merged column in the type that it has, as far as that is sure to be
/// PostgreSQL's.
fn alike(l: Column, r: Column, kind: &Kind) -> Result<(Expr, Expr, ArrowType)> {
    let bits = |data_type: &ArrowType| match data_type {
        ArrowType::Int16 => Some((16, ast::DataType::SmallInt(None))),
        ArrowType::Int32 => Some((32, ast::DataType::Integer(None))),
        ArrowType::Int64 => Some((64, ast::DataType::BigInt(None))),
        _ => None,
    };
    let is_full = matches!(kind, Kind::FullOuter(_));
    let are_numerics = [&l, &r].iter().all(|c| matches!(c.data_type, ArrowType::Decimal128(..)));
    match (bits(&l.data_type), bits(&r.data_type)) {
        _ if l.data_type == r.data_type || are_numerics && !is_full => {
            Ok((l.expr, r.expr, l.data_type))
        }
        (Some((of_l, _)), Some((of_r, wide))) if of_l < of_r => {
            Ok((cast(l.expr, wide), r.expr, r.data_type))
        }
        (Some((_, wide)), Some(_)) => Ok((l.expr, cast(r.expr, wide), l.data_type)),
        _ => Err(Error::unsupported("JOIN with USING of columns of two types")
            .with_hint("Write the condition with ON.")),
    }
}

/// The columns of a join, which has ON then.
fn merge(left: Vec<Column>, right: Vec<Column>, kind: &mut Kind) -> Result<Vec<Column>> {
    let merged = kind.clone();
    let common: Vec<String> = match constraint(kind) {
        Some(Constraint::Using(columns)) => {
            let name = |column: &ast::ObjectName| {
                let ident = column.0.last().and_then(|part| part.as_ident());
                ident.map(fold).unwrap_or_default()
            };
            columns.iter().map(name).collect()
        }
        Some(Constraint::Natural) => {
            let is_common = |name: &&String| right.iter().any(|column| column.name == **name);
            left.iter().map(|column| &column.name).filter(is_common).cloned().collect()
        }
        _ => return Ok([left, right].concat()),
    };
    let (mut on, mut columns) = (None, Vec::new());
    for name in &common {
        let (l, r) = (find(&left, name, "left")?.clone(), find(&right, name, "right")?.clone());
        let (l, r, data_type) = alike(l, r, &merged)?;
        let equal = binary(l.clone(), ast::BinaryOperator::Eq, r.clone());
        on = Some(match on {
            Some(on) => binary(on, ast::BinaryOperator::And, equal),
            None => equal,
        });
        let expr = match &merged {
            Kind::Right(_) | Kind::RightOuter(_) => r,
            Kind::FullOuter(_) => call(Ident::new("coalesce"), vec![l, r]),
            _ => l,
        };
        columns.push(Column { name: name.clone(), expr, data_type, is_merged: true });
    }
    if let Some(constraint) = constraint(kind) {
        let always = Expr::Value(ast::Value::Boolean(true).with_empty_span());
        *constraint = Constraint::On(on.unwrap_or(always));
    }
    let others = left.into_iter().chain(right).filter(|column| !common.contains(&column.name));
    columns.extend(others);
    Ok(columns)
}

fn binary(left: Expr, op: ast::BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn expand(items: &mut Vec<SelectItem>, columns: &[Column]) {
    let item = |column: &Column| match column.is_merged {
        true => SelectItem::ExprWithAlias {
            expr: column.expr.clone(),
            alias: Ident::with_quote('"', column.name.as_str()),
        },
        false => SelectItem::UnnamedExpr(column.expr.clone()),
    };
    let expanded = std::mem::take(items).into_iter().flat_map(|of| match of {
        SelectItem::Wildcard(_) => columns.iter().map(item).collect(),
        other => vec![other],
    });
    *items = expanded.collect();
}

/// Names of outputs stay what they are.
fn order_by(query: &mut Query, columns: &[Column]) {
    let SetExpr::Select(select) = &*query.body else { return };
    let outputs = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => Some(output_name(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    });
    let outputs: Vec<String> = outputs.collect();
    let Some(ast::OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by
    else {
        return;
    };
    for key in keys {
        let is_output =
            matches!(&key.expr, Expr::Identifier(name) if outputs.contains(&fold(name)));
        if !is_output {
            _ = walk::change(&mut key.expr, &mut Meanings { columns, depth: 0 });
        }
    }
}

/// Names of merged columns as what they mean, but in subqueries.
struct Meanings<'a> {
    columns: &'a [Column],
    depth: usize,
}

impl VisitorMut for Meanings<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
        let name = fold(name);
        let mut found = self.columns.iter().filter(|column| column.name == name);
        if let (Some(column), None) = (found.next(), found.next())
            && column.is_merged
        {
            *expr = column.expr.clone();
        }
        ControlFlow::Continue(())
    }
}
