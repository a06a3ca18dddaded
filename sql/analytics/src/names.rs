//! What a query's names mean: tables and views of a catalog, functions, types.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast;
use sql::analytical_engine::QueryRequest;
use sql::catalog::{View, ViewUses};
use types::{Error, SqlState};

use crate::faults::raise;
use crate::prepare;
use crate::rewrite::Place;
use crate::sql_types::{field, is_opaque};
use crate::system::SystemTable;
use crate::table::SnapshotTable;
use crate::{call, chance, exact, own};

/// Functions of DataFusion that do what PostgreSQL's of the same name do, beside those that are the
/// [row executor's](call).
const SCALAR: &[&str] = &["bit_length", "coalesce", "greatest", "least", "md5", "nullif"];

const AGGREGATE: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "min",
    "nth_value",
    "string_agg",
    "sum",
];

const WINDOW: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// The names that one query can use.
pub(crate) struct Names<'a> {
    pub(crate) state: &'a SessionState,
    pub(crate) operators: &'a [Arc<dyn ExprPlanner>],
    pub(crate) request: &'a QueryRequest<'a>,
    /// Whether a table with rows was found so far.
    pub(crate) reads_tables: Cell<bool>,
    pub(crate) view_uses: RefCell<ViewUses>,
    /// How many [`marks`](crate::marks) and [columns of subqueries](crate::correlated) were named.
    pub(crate) marks: Cell<usize>,
}

impl Names<'_> {
    /// A view is its query, planned by the names of this one.
    fn view(&self, view: &View) -> Result<Arc<dyn TableSource>> {
        self.view_uses.borrow_mut().add_one().map_err(raise)?;
        self.request.check().map_err(raise)?;
        let query = view.query_over(&self.request.catalog);
        let plan = prepare::plan(self, &query, &[], Place::Inner).map_err(raise)?;
        let given = view.columns.iter().map(|name| Some(name.as_str()));
        let given = given.chain(std::iter::repeat(None));
        let columns = plan.schema().columns().into_iter().zip(given).map(|(column, given)| {
            let name = given.unwrap_or(&column.name).to_owned();
            Expr::Column(column).alias(name)
        });
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
    }
}

fn known<'n>(names: &[&str], name: &'n str) -> Option<&'n str> {
    names.contains(&name).then_some(name)
}

fn undefined_table(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let table = name.table();
        if let Some(system) = &self.request.system
            && let Some((number, columns)) = system.find(name.schema(), table)
        {
            let provider = SystemTable::new(Arc::clone(system), number, columns);
            return Ok(provider_as_source(Arc::new(provider)));
        }
        let key = sql::names::key(name.schema().unwrap_or(sql::names::PUBLIC), table);
        if let Some(view) = self.request.catalog.view(&key) {
            return self.view(view);
        }
        match self.request.catalog.find_table(&key) {
            Some(found) => {
                self.reads_tables.set(true);
                let provider = SnapshotTable::unbound(found.schema.clone());
                Ok(provider_as_source(Arc::new(provider)))
            }
            None => Err(raise(undefined_table(&name.to_string()))),
        }
    }

    /// Arguments are constants; they are computed here.
    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let function = known(&["generate_series"], name);
        let Some(function) = function.and_then(|name| self.state.table_functions().get(name))
        else {
            let message = format!("function {name} does not exist");
            return Err(raise(Error::new(SqlState::UNDEFINED_FUNCTION, message)));
        };
        let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
        let constant = |arg| {
            let arg = simplifier.coerce(arg, &DFSchema::empty())?;
            Ok(match simplifier.simplify(arg)? {
                // All that such functions count with.
                Expr::Literal(ScalarValue::Int32(int), metadata) => {
                    Expr::Literal(ScalarValue::Int64(int.map(i64::from)), metadata)
                }
                other => other,
            })
        };
        let args = args.into_iter().map(constant).collect::<Result<Vec<Expr>>>()?;
        let args = TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(args)?))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.operators
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if let Some(function) =
            own::function(name).or_else(|| call::function(name)).or_else(|| chance::function(name))
        {
            return Some(function);
        }
        known(SCALAR, name).and_then(|name| self.state.scalar_functions().get(name)).cloned()
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        let agreeing = self.request.agreeing.then(|| exact::agreeing(name)).flatten();
        let known = known(AGGREGATE, name);
        agreeing.or_else(|| self.state.aggregate_functions().get(known?).cloned())
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        known(WINDOW, name).and_then(|name| self.state.window_functions().get(name)).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<ArrowType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// SQL's types are those of the row executor; only what it has none for is DataFusion's.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        if matches!(sql_type, ast::DataType::Interval { .. } | ast::DataType::Array(_)) {
            return Ok(None);
        }
        let data_type = sql::syntax::names::data_type(sql_type).map_err(raise)?;
        if is_opaque(&data_type) {
            return Err(raise(Error::unsupported(format_args!("{data_type} in this query"))));
        }
        Ok(Some(Arc::new(field("", &data_type, true))))
    }
}
