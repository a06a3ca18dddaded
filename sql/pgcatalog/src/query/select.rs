//! SELECT: its FROM, its conditions, what it computes.

use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use super::Typed;
use super::bind::{Binder, check_position, direction, output_named, settled};
use super::plan::*;
use super::refused::{missing_table, no_calls, sets_not_allowed};
use super::scope::{Scope, ScopeTable, parts};
use sql::names::fold;

impl Binder<'_> {
    pub fn select(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Query> {
        self.select_with(Scope::default(), select, order)
    }

    /// A side of a set operation: its literals and parameters may be of no type yet.
    pub fn unsettled(&mut self, select: &ast::Select) -> Result<Query> {
        let scope = Scope { unsettled: true, ..Scope::default() };
        self.select_with(scope, select, &[])
    }

    fn select_with(
        &mut self,
        scope: Scope,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
    ) -> Result<Query> {
        self.scopes.push(scope);
        let bound = self.select_in_scope(select, order);
        self.scopes.pop();
        bound
    }

    pub fn scope(&mut self) -> &mut Scope {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn select_in_scope(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
    ) -> Result<Query> {
        let (mut items, mut conditions) = (Vec::new(), Vec::new());
        for from in &select.from {
            match self.joined(from)? {
                Source::Product { items: joined, on } => {
                    items.extend(joined);
                    conditions.extend(on);
                }
                source => items.push(source),
            }
        }
        if !self.scope().sets.is_empty() {
            let what = "set-returning functions must appear at top level of FROM";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        no_calls(self.scope(), "functions in FROM")?;
        if let Some(selection) = &select.selection {
            split(self.condition(selection, "WHERE")?, &mut conditions);
        }
        check_names(self.scope())?;
        no_calls(self.scope(), "WHERE")?;
        let (mut columns, mut outputs) = (Vec::new(), Vec::new());
        for item in &select.projection {
            self.select_item(item, &mut columns, &mut outputs)?;
        }
        let keys = self.group_by(&select.group_by, &columns, &outputs)?;
        self.no_sets_in(&keys)?;
        self.settle_keys(&keys, &mut columns, &mut outputs)?;
        let having = select.having.as_ref();
        let around = self.scope().sets.len();
        let having = having.map(|having| self.condition(having, "HAVING")).transpose()?;
        if self.scope().sets.len() > around {
            return Err(sets_not_allowed("in HAVING"));
        }
        let width =
            self.scope().tables.last().map_or(0, |table| table.offset + table.columns.len());
        let order = self.order_by(order, &columns, &mut outputs)?;
        let distinct = self.distinct(select.distinct.as_ref(), &columns, &mut outputs)?;
        check_distinct(&distinct, &order, columns.len())?;
        let scope = std::mem::take(self.scope());
        let mut source = Source::Product { items, on: conditions };
        source.mark(&scope.presence);
        let grouped = !keys.is_empty() || having.is_some() || !scope.aggregates.is_empty();
        if grouped && !self.tables.is_empty() {
            let shown = outputs.iter().chain(&having);
            shown.into_iter().try_for_each(|expr| check_grouped(expr, &keys, &scope, width))?;
        }
        let grouping = grouped.then_some(Grouping { keys, aggregates: scope.aggregates, having });
        let select = Select {
            width: scope.width,
            source,
            grouping,
            windows: scope.windows,
            sets: scope.sets,
            outputs,
            distinct,
        };
        let body = Body::Select(Box::new(select));
        Ok(Query { columns, ctes: Vec::new(), body, order, limit: None, offset: None })
    }

    fn select_item(
        &mut self,
        item: &ast::SelectItem,
        columns: &mut Vec<Column>,
        outputs: &mut Vec<Expr>,
    ) -> Result<()> {
        use ast::SelectItemQualifiedWildcardKind::{Expr as OfExpr, ObjectName};
        let stars = match item {
            ast::SelectItem::Wildcard(_) => self.scope().star(None),
            ast::SelectItem::QualifiedWildcard(ObjectName(name), _) => {
                let qualifier = parts(name);
                if self.scope().table(&qualifier).is_none() {
                    return Err(missing_table(&qualifier.join(".")));
                }
                self.scope().star(Some(&qualifier))
            }
            ast::SelectItem::QualifiedWildcard(OfExpr(expr), _) => {
                let input = self.expr(expr)?;
                for (place, (name, data_type)) in input.fields.iter().enumerate() {
                    columns.push(Column::new(*name, data_type.clone()));
                    outputs.push(Expr::Field { input: Box::new(input.expr.clone()), place });
                }
                return Ok(());
            }
            ast::SelectItem::UnnamedExpr(expr) => {
                return self.output(expr, None, columns, outputs);
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                return self.output(expr, Some(fold(alias)), columns, outputs);
            }
            ast::SelectItem::ExprWithAliases { .. } => return Err(Error::unsupported(item)),
        };
        self.count(stars.len())?;
        for (expr, column) in stars {
            outputs.push(expr);
            columns.push(column);
        }
        Ok(())
    }

    fn output(
        &mut self,
        expr: &ast::Expr,
        name: Option<String>,
        columns: &mut Vec<Column>,
        outputs: &mut Vec<Expr>,
    ) -> Result<()> {
        let typed = self.expr(expr)?;
        let name = name.unwrap_or_else(|| super::expression::output_name(expr));
        let waits = self.scope().unsettled
            && matches!(typed.expr, Expr::Value(_) | Expr::Parameter(_))
            && typed.data_type == DataType::Unknown;
        let to = if waits { DataType::Unknown } else { settled(&typed.data_type) };
        let fields = typed.fields;
        outputs.push(self.coerce(typed, &to)?);
        columns.push(Column { name, data_type: to, fields });
        Ok(())
    }

    fn group_by(
        &mut self,
        group_by: &ast::GroupByExpr,
        columns: &[Column],
        outputs: &[Expr],
    ) -> Result<Vec<Expr>> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(Error::unsupported(group_by));
        };
        if !modifiers.is_empty() {
            return Err(Error::unsupported(group_by));
        }
        let mut keys = Vec::new();
        for expr in exprs {
            check_position(expr, columns.len(), "GROUP BY")?;
            // An input column comes before an output of that name.
            let input = match expr {
                ast::Expr::Identifier(name) => self.column_in_scope(&fold(name))?,
                _ => false,
            };
            match output_named(expr, columns).filter(|_| !input) {
                Some(output) => keys.push(outputs[output].clone()),
                None => keys.push(self.expr(expr)?.expr),
            }
        }
        Ok(keys)
    }

    /// Rows are grouped before what each of them is many is known.
    fn no_sets_in(&mut self, keys: &[Expr]) -> Result<()> {
        let sets: Vec<usize> = self.scope().sets.iter().map(|set| set.place).collect();
        let mut found = false;
        keys.iter().for_each(|key| key.columns(0, &mut |place| found |= sets.contains(&place)));
        match found {
            true => Err(Error::unsupported("a set-returning function in GROUP BY")),
            false => Ok(()),
        }
    }

    /// GROUP BY compares, and so needs types of its own.
    fn settle_keys(
        &mut self,
        keys: &[Expr],
        columns: &mut [Column],
        outputs: &mut [Expr],
    ) -> Result<()> {
        for (column, output) in columns.iter_mut().zip(outputs) {
            // Expressions of one text are the same.
            let is_it = |key: &Expr| format!("{key:?}") == format!("{output:?}");
            if column.data_type == DataType::Unknown && keys.iter().any(is_it) {
                column.data_type = DataType::Text;
                let literal = Typed::new(output.clone(), DataType::Unknown);
                *output = self.coerce(literal, &DataType::Text)?;
            }
        }
        Ok(())
    }

    fn column_in_scope(&mut self, name: &str) -> Result<bool> {
        Ok(self.scope().find(&[], name)?.is_some())
    }

    fn order_by(
        &mut self,
        order: &[ast::OrderByExpr],
        columns: &[Column],
        outputs: &mut Vec<Expr>,
    ) -> Result<Vec<Order>> {
        let mut bound = Vec::new();
        for by in order {
            let output = self.sorted_output(&by.expr, columns, outputs)?;
            bound.push(Order { output, direction: direction(by) });
        }
        Ok(bound)
    }

    /// The output that has what is sorted by; a hidden one if need be.
    fn sorted_output(
        &mut self,
        expr: &ast::Expr,
        columns: &[Column],
        outputs: &mut Vec<Expr>,
    ) -> Result<usize> {
        check_position(expr, columns.len(), "ORDER BY")?;
        if let ast::Expr::Identifier(name) = expr {
            check_unambiguous(&fold(name), columns, outputs)?;
        }
        if let Some(output) = output_named(expr, columns) {
            return Ok(output);
        }
        let typed = self.expr(expr)?;
        // Expressions of one text are the same.
        let text = format!("{:?}", typed.expr);
        if let Some(output) = outputs.iter().position(|output| format!("{output:?}") == text) {
            return Ok(output);
        }
        // Names of objects are sorted as numbers, as PostgreSQL does.
        outputs.push(typed.expr);
        Ok(outputs.len() - 1)
    }

    fn distinct(
        &mut self,
        distinct: Option<&ast::Distinct>,
        columns: &[Column],
        outputs: &mut Vec<Expr>,
    ) -> Result<Distinct> {
        Ok(match distinct {
            None | Some(ast::Distinct::All) => Distinct::All,
            Some(ast::Distinct::Distinct) => Distinct::Rows,
            Some(ast::Distinct::On(exprs)) => {
                let bind = |expr| self.sorted_output(expr, columns, outputs);
                Distinct::On(exprs.iter().map(bind).collect::<Result<_>>()?)
            }
        })
    }
}

/// # Errors
/// 42712 for two tables of one name.
fn check_names(scope: &Scope) -> Result<()> {
    for (at, table) in scope.tables.iter().enumerate().filter(|(_, t)| !t.name.is_empty()) {
        let is_same = |other: &&ScopeTable| {
            let apart = matches!((&other.schema, &table.schema), (Some(a), Some(b)) if a != b);
            other.name == table.name && !apart
        };
        if scope.tables[..at].iter().any(|other| is_same(&other)) {
            let message = format!("table name \"{}\" specified more than once", table.name);
            return Err(Error::new(SqlState(*b"42712"), message));
        }
    }
    Ok(())
}

/// # Errors
/// 42702 for a name that two outputs have which are not the same.
fn check_unambiguous(name: &str, columns: &[Column], outputs: &[Expr]) -> Result<()> {
    let mut texts = columns.iter().zip(outputs).filter(|(column, _)| column.name == name);
    let first = texts.next().map(|(_, output)| format!("{output:?}"));
    match first.is_some_and(|first| texts.any(|(_, output)| format!("{output:?}") != first)) {
        false => Ok(()),
        true => {
            let message = format!("ORDER BY \"{name}\" is ambiguous");
            Err(Error::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
    }
}

/// # Errors
/// 42P10 for an order that DISTINCT leaves nothing of.
fn check_distinct(distinct: &Distinct, order: &[Order], shown: usize) -> Result<()> {
    let message = match distinct {
        Distinct::Rows if order.iter().any(|by| by.output >= shown) => {
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
        }
        Distinct::On(on) => {
            let leading = order.iter().take_while(|by| on.contains(&by.output));
            let leading: std::collections::BTreeSet<usize> = leading.map(|by| by.output).collect();
            let is_cut = order.iter().any(|by| !on.contains(&by.output));
            if !is_cut || on.iter().all(|output| leading.contains(output)) {
                return Ok(());
            }
            "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
        }
        _ => return Ok(()),
    };
    Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, message))
}

/// # Errors
/// 42803 for a column that is neither grouped by nor of a table whose key is.
fn check_grouped(expr: &Expr, keys: &[Expr], scope: &Scope, width: usize) -> Result<()> {
    let is_key = |place: usize| {
        let is_it =
            |key: &Expr| matches!(key, Expr::Column { level: 0, place: of } if *of == place);
        keys.iter().any(is_it)
    };
    let ungrouped = |place: usize| {
        let of = |table: &&ScopeTable| {
            (table.offset..table.offset + table.columns.len()).contains(&place)
        };
        let table = scope.tables.iter().find(of).filter(|_| place < width && !is_key(place))?;
        let is_known = !table.key.is_empty() && table.key.iter().all(|place| is_key(*place));
        (!is_known).then(|| {
            let column = &table.columns[place - table.offset].column.name;
            Error::new(
                SqlState(*b"42803"),
                format!(
                    "column \"{}.{column}\" must appear in the GROUP BY clause or be used in an \
                     aggregate function",
                    table.name
                ),
            )
        })
    };
    // Expressions of one text are the same.
    let text = format!("{expr:?}");
    if keys.iter().any(|key| format!("{key:?}") == text) {
        return Ok(());
    }
    match expr {
        Expr::Column { level: 0, place } => ungrouped(*place).map_or(Ok(()), Err),
        Expr::Subquery { query, .. } => {
            let mut first = None;
            query.columns(1, &mut |place| first = first.take().or_else(|| ungrouped(place)));
            first.map_or(Ok(()), Err)
        }
        expr => {
            let mut children = expr.children().into_iter();
            children.try_for_each(|child| check_grouped(child, keys, scope, width))
        }
    }
}
