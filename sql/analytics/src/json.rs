//! Values of `json` and `jsonb` pass through a query as they are.
//!
//! To this engine they are texts, and a `jsonb` has neither a text's order nor its equality. So a
//! query that would compare, sort, group or compute with one is refused here, and the row executor
//! has it.

use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ExprSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, LogicalPlan};
use types::{DataType, Error};

use crate::faults::raise;
use crate::sql_types::sql_type;

/// # Errors
/// 0A000 for a plan that looks at such a value.
pub(crate) fn check_untouched(plan: &LogicalPlan) -> DfResult<()> {
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        let touches = match node {
            LogicalPlan::Distinct(_) => node.schema().fields().iter().any(|field| is_json(field)),
            LogicalPlan::Projection(projection) => {
                let computed = projection.expr.iter().filter(|expr| !passes(expr));
                computed.into_iter().any(|expr| mentions(expr, &inputs))
            }
            _ => node.expressions().iter().any(|expr| mentions(expr, &inputs)),
        };
        match touches {
            true => Err(raise(Error::unsupported("json in this query"))),
            false => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

fn is_json(field: &Field) -> bool {
    matches!(sql_type(field), Ok(DataType::Json | DataType::Jsonb))
}

/// A column as it is.
fn passes(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => passes(&alias.expr),
        expr => matches!(expr, Expr::Column(_)),
    }
}

fn mentions(expr: &Expr, inputs: &[&LogicalPlan]) -> bool {
    let found = expr.exists(|expr| {
        Ok(match expr {
            Expr::Column(column) => {
                let fields = inputs.iter().map(|input| input.schema().field_from_column(column));
                fields.flatten().any(|field| is_json(field))
            }
            Expr::OuterReferenceColumn(field, _) => is_json(field),
            _ => false,
        })
    });
    found.unwrap_or(true)
}
