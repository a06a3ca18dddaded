//! Calls that give rows, once they are bound: alone, or several side by side.

use procedure::query::RowFunction;
use procedure::{Expr, Query, Reg};

/// The columns of the rows that a call is made for.
pub(super) fn needs(call: &Query) -> Vec<u16> {
    match call {
        Query::Call { inputs, .. } => inputs.iter().flat_map(Expr::columns).collect(),
        Query::RowsFrom { inputs, .. } => inputs.iter().flat_map(needs).collect(),
        // Its expressions are over the call's own rows.
        Query::Project { input, .. } => needs(input),
        _ => Vec::new(),
    }
}

/// Visits what a call is made of.
pub(super) fn each_input(call: &mut Query, visit: &mut dyn FnMut(&mut Expr)) {
    match call {
        Query::Call { inputs, .. } => inputs.iter_mut().for_each(visit),
        Query::RowsFrom { inputs, .. } => {
            inputs.iter_mut().for_each(|call| each_input(call, visit))
        }
        Query::Project { input, .. } => each_input(input, visit),
        _ => {}
    }
}

/// Several calls as one relation.
pub(super) fn side_by_side(mut calls: Vec<Query>, numbered: bool) -> Query {
    match calls.len() {
        1 if !numbered => calls.remove(0),
        _ => Query::RowsFrom { inputs: calls.into(), numbered },
    }
}

/// Rows of which each register has a column.
pub(super) fn rows_of_arrays(arrays: &[Reg]) -> Query {
    let elements = arrays.iter().map(|array| Query::Call {
        function: RowFunction::Elements,
        inputs: [Expr::Reg(*array)].into(),
    });
    side_by_side(elements.collect(), false)
}
