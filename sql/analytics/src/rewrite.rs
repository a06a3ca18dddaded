//! A query as DataFusion has to read it to mean what it means in PostgreSQL.
//!
//! | PostgreSQL | DataFusion | so it is rewritten as |
//! |---|---|---|
//! | `1` is an integer | a bigint | a cast to the smallest of integer, bigint, numeric |
//! | `$1` has a declared type | guesses | a cast to it |
//! | `now()` is the transaction's | the moment of planning | a parameter |
//! | `x BETWEEN a AND b` compares twice | brings all three to one type | two comparisons |
//! | `nullif(a, b)` compares by `=` | by Arrow's | CASE |
//! | `x::t`, `extract(…)`, `date_trunc(…)`, `-x` | its own | calls of [`own`](crate::own) |
//! | `x AT TIME ZONE z` | the same moment, shown in `z` | a call of [`own`](crate::own) |
//! | `SELECT x, x` | refused | the second under another name |
//! | `generate_series(1, 3)` has a column of its name | `value` | an alias |
//! | `sum(x)` in a subquery is called `sum` | `sum(t.x)` | an alias |
//!
//! Numbers that are no values (`ORDER BY 1`, `LIMIT 1`, `1 PRECEDING`) stay as they are. A number
//! is marked as one of these by sqlparser's flag for a suffix `L`, which PostgreSQL has not.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{
    self, DataType as AstType, ExactNumberInfo, Expr, OrderBy, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableFactor, TimezoneInfo, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use sql::bind::output_name;
use sql::names::fold;
use sql::walk;
use types::{DataType, Result};

use crate::plan::NOW;

/// Where a query stands: names of its columns matter where others can use them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Outer,
    Inner,
}

pub(crate) struct Rewriter<'a> {
    types: &'a [Option<DataType>],
    /// Queries around the place that is visited.
    depth: usize,
}

impl<'a> Rewriter<'a> {
    pub(crate) fn new(types: &'a [Option<DataType>], place: Place) -> Rewriter<'a> {
        Rewriter { types, depth: usize::from(place == Place::Inner) }
    }

    pub(crate) fn rewrite(&mut self, query: &mut Query) -> Result<()> {
        match walk::change(query, self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn declared(&self, placeholder: &str) -> Option<AstType> {
        let number: usize = placeholder.strip_prefix('$')?.parse().ok()?;
        self.types.get(number.checked_sub(1)?)?.as_ref().and_then(ast_type)
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = types::Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<types::Error> {
        self.depth += 1;
        if let Err(error) = check_query(query) {
            return ControlFlow::Break(error);
        }
        mark_positions(query, true);
        match orders_by_an_alias_within(query) {
            true => ControlFlow::Break(types::Error::unsupported(
                "ORDER BY an expression over the name of an output in this query",
            )),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<types::Error> {
        self.depth -= 1;
        mark_positions(query, false);
        cast_limits(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<types::Error> {
        if select.into.is_some() {
            return ControlFlow::Break(types::Error::unsupported("SELECT INTO"));
        }
        name_outputs(&mut select.projection, self.depth > 1);
        mark_groups(select, true);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<types::Error> {
        mark_groups(select, false);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<types::Error> {
        if matches!(factor, TableFactor::Table { sample: Some(_), .. }) {
            return ControlFlow::Break(types::Error::unsupported("TABLESAMPLE"));
        }
        name_function_column(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<types::Error> {
        if matches!(expr, Expr::SimilarTo { .. }) {
            return ControlFlow::Break(types::Error::unsupported("SIMILAR TO"));
        }
        if matches!(expr, Expr::InSubquery { expr, .. } if matches!(**expr, Expr::Tuple(_))) {
            return ControlFlow::Break(types::Error::unsupported("a row IN a subquery"));
        }
        mark_frame(expr, true);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<types::Error> {
        mark_frame(expr, false);
        if let Expr::Value(value) = &*expr
            && let Value::Number(digits, _) = &value.value
            && digits.contains(['e', 'E'])
        {
            let error = types::Error::unsupported("a number with an exponent in this query");
            return ControlFlow::Break(error.with_hint("Write it with all its digits."));
        }
        if matches!(&*expr, Expr::Function(call) if is_long_nullif(call)) {
            let error = types::Error::unsupported("nullif of so long an expression");
            return ControlFlow::Break(error.with_hint("Compute it in a subquery."));
        }
        if let Expr::AtTimeZone { timestamp, time_zone } = &*expr {
            match zoned(timestamp, time_zone) {
                Ok(zoned) => *expr = zoned,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        let replaced = match &*expr {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, false) => whole_number_type(digits),
                Value::Placeholder(name) => self.declared(name),
                _ => None,
            }
            .map(|data_type| cast(expr.clone(), data_type)),
            Expr::Function(call) if is_bare(call) => now_function(&call.name.to_string()),
            Expr::Extract { field, expr, .. } => {
                Some(own(format!("extract {field}").to_lowercase(), (**expr).clone()))
            }
            Expr::Function(call) => part(call).or_else(|| rounded(call)).or_else(|| nullif(call)),
            Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } if !is_constant(expr) => {
                Some(own("negate".to_owned(), (**expr).clone()))
            }
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => own_cast(expr, data_type),
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                Some(ilike(*negated, expr, pattern, escape_char))
            }
            Expr::Between { expr, negated, low, high } if is_small(expr) => {
                Some(between(expr, *negated, low, high))
            }
            _ => None,
        };
        if let Some(replaced) = replaced {
            *expr = replaced;
        }
        ControlFlow::Continue(())
    }
}

/// What DataFusion would leave out of account.
fn check_query(query: &Query) -> Result<()> {
    if !query.locks.is_empty() {
        return Err(types::Error::unsupported("FOR UPDATE in an analytical query"));
    }
    let Some(with) = query.with.as_ref().filter(|with| with.recursive) else { return Ok(()) };
    for table in &with.cte_tables {
        let is_union = matches!(&*table.query.body, SetExpr::SetOperation { .. });
        let names_itself = || {
            let name = table.alias.name.value.as_str();
            walk::relations(&table.query, |relation| match relation.0.as_slice() {
                [ast::ObjectNamePart::Identifier(part)] if part.value == name => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            })
            .is_break()
        };
        let cut = match (&table.query.order_by, &table.query.limit_clause, &table.query.fetch) {
            (Some(_), ..) => "ORDER BY",
            (_, Some(_), _) | (.., Some(_)) => "LIMIT",
            _ => continue,
        };
        if is_union && names_itself() {
            let what = format_args!("{cut} in a recursive query");
            return Err(types::Error::unsupported(what));
        }
    }
    Ok(())
}

/// Names of outputs are known to ORDER BY where they are all of a key; within an expression the
/// same name is an input's, which DataFusion turns round.
fn orders_by_an_alias_within(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let aliases: Vec<&str> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.as_str()),
            _ => None,
        })
        .collect();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else {
        return false;
    };
    let names_alias = |key: &Expr| {
        walk::expressions(key, |part| match part {
            Expr::Identifier(name) if aliases.contains(&name.value.as_str()) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    keys.iter().any(|key| !matches!(key.expr, Expr::Identifier(_)) && names_alias(&key.expr))
}

pub(crate) fn cast(expr: Expr, data_type: AstType) -> Expr {
    let kind = ast::CastKind::Cast;
    Expr::Cast { kind, expr: Box::new(expr), data_type, array: false, format: None }
}

/// A call of a function that no query can name.
fn own(name: String, argument: Expr) -> Expr {
    call(ast::Ident::with_quote('"', name), vec![argument])
}

pub(crate) fn call(name: ast::Ident, arguments: Vec<Expr>) -> Expr {
    let argument = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
    let args = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.into_iter().map(argument).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(ast::Function {
        name: vec![name].into(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A cast to a type of ours, of what is no parameter that takes its type from it.
fn own_cast(expr: &Expr, to: &AstType) -> Option<Expr> {
    let is_parameter = matches!(
        expr,
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_))
    );
    let to = sql::syntax::names::data_type(to).ok()?;
    let is_ours = !matches!(to, DataType::Array(_) | DataType::System(_));
    (is_ours && !is_parameter).then(|| own(format!("cast as {to}"), expr.clone()))
}

fn zoned(time: &Expr, zone: &Expr) -> Result<Expr> {
    let name = match zone {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    };
    let name = name.ok_or_else(|| types::Error::unsupported("a time zone that is computed"))?;
    if crate::time_zone::find(name).is_none() {
        let message = format!("time zone \"{name}\" not recognized");
        let error = types::Error::new(types::SqlState::INVALID_PARAMETER_VALUE, message);
        return Err(error.with_hint("Zones have names here: Europe/Berlin, UTC."));
    }
    Ok(own(format!("zone {name}"), time.clone()))
}

/// A number as it is written, or something that has no range to leave.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::Interval(_) => true,
        Expr::Cast { expr, .. } => matches!(**expr, Expr::Value(_)),
        _ => false,
    }
}

fn list(call: &ast::Function) -> &[ast::FunctionArg] {
    match &call.args {
        ast::FunctionArguments::List(list) => &list.args,
        _ => &[],
    }
}

/// `date_part` and `date_trunc` of a field that is named.
fn part(call: &ast::Function) -> Option<Expr> {
    use ast::{FunctionArg::Unnamed, FunctionArgExpr as A};
    let name = call.name.to_string().to_ascii_lowercase();
    let is_part = matches!(name.as_str(), "date_part" | "date_trunc");
    let [Unnamed(A::Expr(Expr::Value(field))), Unnamed(A::Expr(of))] = list(call) else {
        return None;
    };
    match &field.value {
        Value::SingleQuotedString(field) if is_part => {
            Some(own(format!("{name} {field}").to_lowercase(), of.clone()))
        }
        _ => None,
    }
}

/// `round` and `trunc` to so many digits as are written: the type of what comes out has them.
fn rounded(call: &ast::Function) -> Option<Expr> {
    use ast::{FunctionArg::Unnamed, FunctionArgExpr as A};
    let name = call.name.to_string().to_ascii_lowercase();
    let is_rounding = matches!(name.as_str(), "round" | "trunc");
    let [Unnamed(A::Expr(of)), Unnamed(A::Expr(Expr::Cast { expr: digits, .. }))] = list(call)
    else {
        return None;
    };
    match &**digits {
        Expr::Value(value) if is_rounding => match &value.value {
            Value::Number(digits, _) => Some(own(format!("{name} {digits}"), of.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// What BETWEEN compares is written twice, so one within another doubles with each level: a larger
/// operand stays where it is, once.
fn is_small(expr: &Expr) -> bool {
    const NODES_MAX: usize = 32;
    let mut nodes = 0;
    let counted = walk::expressions(expr, |_| {
        nodes += 1;
        match nodes <= NODES_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    counted.is_continue()
}

/// What a long expression comes to is compared as DataFusion compares.
fn is_long_nullif(call: &ast::Function) -> bool {
    use ast::{FunctionArg::Unnamed, FunctionArgExpr as A};
    let is_long = matches!(list(call), [Unnamed(A::Expr(of)), _] if !is_small(of));
    is_long && call.name.to_string().eq_ignore_ascii_case("nullif")
}

fn nullif(call: &ast::Function) -> Option<Expr> {
    use ast::{FunctionArg::Unnamed, FunctionArgExpr as A};
    let [Unnamed(A::Expr(of)), Unnamed(A::Expr(other))] = list(call) else { return None };
    let is_it = call.name.to_string().eq_ignore_ascii_case("nullif") && is_small(of);
    let equal = Expr::BinaryOp {
        left: Box::new(of.clone()),
        op: ast::BinaryOperator::Eq,
        right: Box::new(other.clone()),
    };
    let null = Expr::Value(Value::Null.with_empty_span());
    is_it.then(|| Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![ast::CaseWhen { condition: equal, result: null }],
        else_result: Some(Box::new(of.clone())),
    })
}

/// Cases are those of the row executor.
fn ilike(negated: bool, expr: &Expr, pattern: &Expr, escape: &Option<ast::ValueWithSpan>) -> Expr {
    let lower = |of: &Expr| Box::new(own("lower".to_owned(), of.clone()));
    let (expr, pattern, escape_char) = (lower(expr), lower(pattern), escape.clone());
    Expr::Like { negated, any: false, expr, pattern, escape_char }
}

fn between(expr: &Expr, negated: bool, low: &Expr, high: &Expr) -> Expr {
    use ast::BinaryOperator as O;
    let compare = |op, bound: &Expr| Expr::BinaryOp {
        left: Box::new(expr.clone()),
        op,
        right: Box::new(bound.clone()),
    };
    let (low, op, high) = match negated {
        false => (compare(O::GtEq, low), O::And, compare(O::LtEq, high)),
        true => (compare(O::Lt, low), O::Or, compare(O::Gt, high)),
    };
    let both = Expr::BinaryOp { left: Box::new(low), op, right: Box::new(high) };
    Expr::Nested(Box::new(both))
}

/// The type of a number without a point.
fn whole_number_type(digits: &str) -> Option<AstType> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match digits.parse::<i64>() {
        Ok(int) if i32::try_from(int).is_ok() => AstType::Integer(None),
        Ok(_) => AstType::BigInt(None),
        Err(_) => AstType::Numeric(ExactNumberInfo::PrecisionAndScale(38, 0)),
    })
}

fn is_bare(call: &ast::Function) -> bool {
    match &call.args {
        ast::FunctionArguments::None => true,
        ast::FunctionArguments::List(list) => list.args.is_empty(),
        ast::FunctionArguments::Subquery(_) => false,
    }
}

fn now_function(name: &str) -> Option<Expr> {
    let utc = AstType::Timestamp(None, TimezoneInfo::WithTimeZone);
    let now = || {
        let placeholder = Value::Placeholder(format!("${NOW}"));
        cast(Expr::Value(placeholder.with_empty_span()), utc)
    };
    Some(match name.to_ascii_lowercase().as_str() {
        "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" => now(),
        "localtimestamp" => cast(now(), AstType::Timestamp(None, TimezoneInfo::None)),
        "current_date" => cast(now(), AstType::Date),
        _ => return None,
    })
}

/// A type as SQL text would have it.
fn ast_type(data_type: &DataType) -> Option<AstType> {
    let text = data_type.to_string();
    Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).ok()?.parse_data_type().ok()
}

fn mark(expr: &mut Expr, marked: bool) {
    if let Expr::Value(value) = expr
        && let Value::Number(_, flag) = &mut value.value
    {
        *flag = marked;
    }
}

/// Numbers in ORDER BY, LIMIT, OFFSET and FETCH.
fn mark_positions(query: &mut Query, marked: bool) {
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by {
        keys.iter_mut().for_each(|key| mark(&mut key.expr, marked));
    }
    if let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
        limit.iter_mut().for_each(|limit| mark(limit, marked));
        offset.iter_mut().for_each(|offset| mark(&mut offset.value, marked));
    }
    if let Some(ast::Fetch { quantity: Some(quantity), .. }) = &mut query.fetch {
        mark(quantity, marked);
    }
}

/// A parameter there is a bigint.
fn cast_limits(query: &mut Query) {
    let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else {
        return;
    };
    for count in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
        if let Expr::Value(value) = count
            && matches!(value.value, Value::Placeholder(_))
        {
            *count = cast(count.clone(), AstType::BigInt(None));
        }
    }
}

fn mark_groups(select: &mut Select, marked: bool) {
    if let ast::GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        groups.iter_mut().for_each(|group| mark(group, marked));
    }
}

/// Numbers of rows in a window's frame.
fn mark_frame(expr: &mut Expr, marked: bool) {
    let Expr::Function(call) = expr else { return };
    let Some(ast::WindowType::WindowSpec(ast::WindowSpec { window_frame: Some(frame), .. })) =
        &mut call.over
    else {
        return;
    };
    for bound in std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound) {
        if let ast::WindowFrameBound::Preceding(Some(rows))
        | ast::WindowFrameBound::Following(Some(rows)) = bound
        {
            mark(rows, marked);
        }
    }
}

/// The one column of a function in FROM is called as the function is.
fn name_function_column(factor: &mut TableFactor) {
    let (TableFactor::Table { name, alias, args: Some(_), .. }
    | TableFactor::Function { name, alias, .. }) = factor
    else {
        return;
    };
    let Some(ast::ObjectNamePart::Identifier(function)) = name.0.last() else { return };
    let name = alias.as_ref().map_or_else(|| function.clone(), |alias| alias.name.clone());
    let alias = alias.get_or_insert_with(|| ast::TableAlias {
        explicit: true,
        name: name.clone(),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
    }
}

/// Gives names to those of a select list that need one: all, or only what is there twice.
fn name_outputs(items: &mut [SelectItem], all: bool) {
    let has_wildcard = items
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut taken = BTreeSet::new();
    let given = items.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    });
    let given: BTreeSet<String> = given.collect();
    for (place, item) in items.iter_mut().enumerate() {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(fold(alias))),
            _ => continue,
        };
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_new = match &name {
            Some(name) => taken.insert(name.clone()),
            None if all && !is_column => taken.insert(output_name(expr)),
            // To DataFusion `a` and `t.a` are one name.
            None if is_column && given.contains(&output_name(expr)) => false,
            // To DataFusion all subqueries have one name.
            None if has_query(expr) => false,
            None => taken.insert(expr.to_string()),
        };
        let alias = match (is_new && !(has_wildcard && is_column), &name) {
            (true, None) if all && !is_column => output_name(expr),
            (true, _) => continue,
            (false, _) => format!("{}:{}", name.unwrap_or_else(|| output_name(expr)), place + 1),
        };
        let alias = ast::Ident::with_quote('"', alias);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

fn has_query(expr: &Expr) -> bool {
    let is_query = |expr: &Expr| match expr {
        Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    walk::expressions(expr, is_query).is_break()
}

/// What PostgreSQL calls a query's columns.
pub(crate) fn output_names(query: &Query, fields: &[&Field]) -> Vec<String> {
    // Without what told two of one name apart.
    let names = fields.iter().zip(1..).map(|(field, place)| {
        let (name, mark) = (field.name(), format!(":{place}"));
        name.strip_suffix(&mark).unwrap_or(name).to_owned()
    });
    let mut names: Vec<String> = names.collect();
    let Some(items) = select_list(&query.body) else { return names };
    let is_wildcard = |item: &SelectItem| item_name(item).is_none();
    let first = items.iter().position(is_wildcard).unwrap_or(items.len());
    let behind = items.iter().rposition(is_wildcard).map_or(0, |last| items.len() - 1 - last);
    // Names of wildcards are those of their columns, as are those of what stands between them.
    for (name, item) in names.iter_mut().zip(&items[..first]) {
        *name = item_name(item).unwrap_or_default();
    }
    for (name, item) in names.iter_mut().rev().zip(items.iter().rev()).take(behind) {
        *name = item_name(item).unwrap_or_default();
    }
    names
}

fn item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(output_name(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    }
}

/// The select list that names a query's columns: the leftmost.
fn select_list(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(query) => select_list(&query.body),
        SetExpr::SetOperation { left, .. } => select_list(left),
        _ => None,
    }
}
