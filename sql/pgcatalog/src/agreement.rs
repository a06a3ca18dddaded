//! Whether another engine may answer a query that is run here, too.
//!
//! An answer may not show how large the tables were, so what another engine shows otherwise keeps a
//! query here as long as it can be:
//!
//! | | here, as in PostgreSQL | over columns |
//! |---|---|---|
//! | numerics of no declared scale | show the digits they have | all of a column as many |
//! | LIKE with a computed pattern | refuses one that ends within an escape | finds nothing |

use std::ops::ControlFlow;

use procedure::Column;
use sql::analytical_engine::AnalyticalPlan;
use sqlparser::ast::{self, Expr, Value};
use types::DataType;

use crate::query::Prepared;

/// Whether rows of the one are rows of the other: columns as many, and of the same kinds of values.
pub(crate) fn serves_as(plan: &dyn AnalyticalPlan, own: &Prepared) -> bool {
    let kind = |data_type: &DataType| kind_of(&data_type.stored());
    // Numbers of objects leave this engine as their names.
    let is_named = |data_type: &DataType| match data_type {
        DataType::System(system) => system.is_object(),
        DataType::Record(_) => true,
        _ => false,
    };
    let columns = plan.columns().iter().zip(&own.columns);
    plan.columns().len() == own.columns.len()
        && plan.parameters() == own.parameters
        && columns.into_iter().all(|(theirs, ours)| {
            !is_named(&ours.data_type) && kind(&theirs.data_type) == kind(&ours.data_type)
        })
}

/// The type whose values a type's values could as well be.
fn kind_of(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => DataType::Int8,
        DataType::Numeric(_) => DataType::Numeric(None),
        text if text.is_string() => DataType::Text,
        other => other.clone(),
    }
}

/// Whether the other engine's rows, which [serve](serves_as), are the same to the last digit.
pub(crate) fn are_alike(query: &ast::Query, theirs: &[Column], own: &Prepared) -> bool {
    let is_free = |data_type: &DataType| *data_type == DataType::Numeric(None);
    let columns = theirs.iter().zip(&own.columns);
    let has_free = columns.into_iter().any(|(theirs, ours)| {
        let is_number = matches!(ours.data_type, DataType::Numeric(_));
        is_number && (theirs.data_type != ours.data_type || is_free(&ours.data_type))
    });
    let patterns = sql::walk::expressions(query, |expr| match is_written(expr) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    !has_free && patterns.is_continue()
}

/// Whether a pattern is written, if there is one, and means the same to all.
fn is_written(expr: &Expr) -> bool {
    let pattern = match expr {
        Expr::Like { pattern, escape_char: None, any: false, .. }
        | Expr::ILike { pattern, escape_char: None, any: false, .. } => pattern,
        Expr::Like { .. } | Expr::ILike { .. } => return false,
        _ => return true,
    };
    match &**pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => !text.contains('\\'),
            _ => false,
        },
        _ => false,
    }
}
