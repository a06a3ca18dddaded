//! From a query's syntax tree to an optimised plan.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use procedure::{Column, Interrupt};
use sql::analytical_engine::QueryRequest;
use types::{DataType, Result};

use crate::coerce::coerced;
use crate::correlated::{check_decorrelated, pullable};
use crate::faults::{in_sql, raise};
use crate::filters_first::FiltersFirst;
use crate::json::check_untouched;
use crate::literals::read_literals;
use crate::marks::marked;
use crate::names::Names;
use crate::plan::{Plan, repeats_names};
use crate::rewrite::{Place, Rewriter, output_names};
use crate::rows::Shown;
use crate::shared::Shared;
use crate::sql_types::sql_type;
use crate::system::check_columns;
use crate::three_valued::three_valued;
use crate::using::written_out;

/// PostgreSQL's reading where DataFusion has a choice.
fn parser_options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(true)
        .with_support_varchar_with_length(true)
        .with_map_string_types_to_utf8view(true)
        .with_default_null_ordering(NullOrdering::NullsMax)
}

/// A plan, which all who ask the same may share.
pub(crate) fn prepare(shared: &Arc<Shared>, request: &QueryRequest<'_>) -> Result<Plan> {
    let operators = if request.agreeing { &shared.agreeing_operators } else { &shared.operators };
    let state = &shared.state;
    let (reads_tables, view_uses, marks) = Default::default();
    let names = Names { state, operators, request, reads_tables, view_uses, marks };
    let mut types = request.parameter_types.to_vec();
    let query = request.query;
    let mut logical = plan(&names, query, &types, Place::Outer)?;
    if infer(&logical, &mut types)? {
        names.view_uses.take();
        logical = plan(&names, query, &types, Place::Outer)?;
    }
    check_untouched(&logical).map_err(in_sql)?;
    let logical = optimized(&shared.state, logical, request).map_err(in_sql)?;
    check_decorrelated(&logical).map_err(in_sql)?;
    if request.system.is_some() {
        check_columns(&logical).map_err(in_sql)?;
    }
    let fields: Vec<&Field> = logical.schema().fields().iter().map(|field| &**field).collect();
    let names_out = output_names(query, &fields);
    let types_out = fields.iter().map(|field| sql_type(field)).collect::<Result<Vec<_>>>()?;
    let columns = types_out.iter().zip(names_out);
    let columns = columns.map(|(data_type, name)| Column { name, data_type: data_type.clone() });
    let columns = columns.collect();
    let shown = fields.iter().zip(types_out).map(|(field, of)| Shown::new(field, of)).collect();
    let open = !logical.get_parameter_names().map_err(in_sql)?.is_empty();
    Ok(Plan {
        shared: shared.clone(),
        columns,
        shown,
        parameters: types.into_iter().map(|known| known.unwrap_or(DataType::Text)).collect(),
        reads_tables: names.reads_tables.get(),
        open,
        repeats_names: repeats_names(&logical).map_err(in_sql)?,
        logical,
    })
}

/// Rule by rule, and not further once no client waits for it.
fn optimized(
    state: &SessionState,
    logical: LogicalPlan,
    request: &QueryRequest<'_>,
) -> DfResult<LogicalPlan> {
    request.check().map_err(raise)?;
    let logical = state.analyzer().execute_and_check(logical, &state.options(), |_, _| ())?;
    let check: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(Check(request.interrupt.clone()));
    let first: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(FiltersFirst);
    let rules = state.optimizer().rules.iter();
    let rules = rules.flat_map(|rule| {
        let before = (rule.name() == "eliminate_cross_join").then(|| first.clone());
        before.into_iter().chain([check.clone(), rule.clone()])
    });
    let rules = rules.collect();
    Optimizer::with_rules(rules).optimize(logical, state, |_, _| ())
}

/// Changes nothing, and is an error when the planning has to end.
struct Check(Option<Arc<dyn Interrupt>>);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

impl OptimizerRule for Check {
    fn name(&self) -> &str {
        "check"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        let checked = self.0.as_ref().map_or(Ok(()), |interrupt| interrupt.check());
        checked.map(|()| Transformed::no(plan)).map_err(raise)
    }
}

/// As it is written, not optimised.
pub(crate) fn plan(
    names: &Names<'_>,
    query: &ast::Query,
    types: &[Option<DataType>],
    place: Place,
) -> Result<LogicalPlan> {
    let mut query = query.clone();
    written_out(&mut query, names, types)?;
    Rewriter::new(types, place).rewrite(&mut query)?;
    let statement = ast::Statement::Query(Box::new(query));
    let planner = SqlToRel::new_with_options(names, parser_options());
    let planned = planner.sql_statement_to_plan_with_context(statement, &mut PlannerContext::new());
    let planned = planned.and_then(read_literals).and_then(three_valued);
    let planned = planned.and_then(|plan| {
        let plan = marked(pullable(plan, &names.marks)?, &names.marks)?;
        coerced(plan, names.request.agreeing)
    });
    planned.map_err(in_sql)
}

/// Finds types for parameters that have none; whether it had to.
fn infer(plan: &LogicalPlan, types: &mut Vec<Option<DataType>>) -> Result<bool> {
    let mut inferred = false;
    for (id, field) in placeholders(plan).map_err(in_sql)? {
        let Some(place) = id[1..].parse::<usize>().ok().and_then(|n| n.checked_sub(1)) else {
            continue;
        };
        if types.len() <= place {
            types.resize(place + 1, None);
        }
        if types[place].is_some() {
            continue;
        }
        inferred = true;
        types[place] = Some(match field {
            // As PostgreSQL does: the scale of a column is not its parameter's.
            Some(field) if matches!(field.data_type(), ArrowType::Decimal128(..)) => {
                DataType::Numeric(None)
            }
            Some(field) => sql_type(&field)?.without_modifier(),
            None => DataType::Text,
        });
    }
    Ok(inferred)
}

/// Parameters, with the types that the places say in which they stand.
fn placeholders(plan: &LogicalPlan) -> DfResult<BTreeMap<String, Option<FieldRef>>> {
    let mut found: BTreeMap<String, Option<FieldRef>> = BTreeMap::new();
    let mut note = |expr: &Expr| {
        let (id, said) = match expr {
            // A cast says what it casts.
            Expr::Cast(Cast { expr, field }) => match &**expr {
                Expr::Placeholder(Placeholder { id, field: None }) => (id, Some(field)),
                _ => return Ok(TreeNodeRecursion::Continue),
            },
            Expr::Placeholder(Placeholder { id, field }) => (id, field.as_ref()),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        let known = found.entry(id.clone()).or_default();
        *known = known.take().or_else(|| said.cloned());
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(|plan| plan.apply_expressions(|expr| expr.apply(&mut note)))?;
    Ok(found)
}
