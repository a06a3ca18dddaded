//! PL/pgSQL: bodies of procedures and functions, compiled to the procedure IR.
//!
//! ```text
//! text ── tokens ── parse ──► syntax tree ── lower ──► steps ── prune ──► Procedure
//!                                             │ ▲
//!                                  expressions│ │and embedded SQL
//!                                             ▼ │
//!                                            Binder
//! ```
//!
//! **Variables.** The IR has no variables, only registers that are written once. So lowering keeps
//! a map from each variable to the expression that is its value *at this point of the program*: an
//! assignment changes the map, a branch lowers both ways from the same map and merges what differs
//! by phis, a loop gives each variable that its body may assign a carried register (this is the
//! construction of SSA form directly from structured code: Brandis and Mössenböck, 1994). The map
//! *is* the binder's list of variables, so expressions and SQL see the right version of every
//! variable by just being bound.
//!
//! **Names.** A name that is both a variable and a column in sight is ambiguous (42702), as
//! PL/pgSQL's own default has it; qualify it by its table, or by the procedure's or block's name.
//!
//! **Departures.** What would need a second transaction or an undo inside one is refused with
//! 0A000: EXCEPTION, COMMIT and ROLLBACK. Dynamic SQL is, because a program is analysed before it
//! runs; and `current_user` and its kin are, because it is compiled once for all its callers.
//! NOTICE and its kin are accepted and leave no trace. The fields of a record are those of the
//! query that filled it last in program order.

mod assigned;
mod embedded;
mod loops;
mod lower;
mod parse;
mod raise;
mod scope;
mod syntax;
mod tokens;

pub use lower::Dependence;

use identity::RoleId;
use procedure::Procedure;
use types::{Error, Result};

use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;
use crate::syntax::routine::CreateFunction;

/// Compiles the body of a PL/pgSQL procedure or function.
///
/// # Errors
/// It is no program. What `role` may not do is no error, but raised where it stands.
pub fn compile(
    catalog: &Catalog,
    function: &CreateFunction,
    role: Option<RoleId>,
) -> Result<Procedure> {
    // A routine is compiled once, and its callers are many.
    match compile_in_session(catalog, &SessionInfo::default(), function, role)? {
        (procedure, Dependence { session: false, .. }) => Ok(procedure),
        _ => Err(Error::unsupported("a session's own functions in a routine")
            .with_hint("Let the caller hand their values in as arguments.")),
    }
}

/// Compiles a body that one session runs.
///
/// # Errors
/// As [`compile`].
pub fn compile_in_session(
    catalog: &Catalog,
    session: &SessionInfo,
    function: &CreateFunction,
    role: Option<RoleId>,
) -> Result<(Procedure, Dependence)> {
    let names: Vec<String> = lower::parameter_names(function).collect();
    let names_settled = (&function.path, catalog);
    let (body, reads) = parse::parse_body(&function.body, &names, names_settled)?;
    lower::lower((catalog, session), (function, role), &body, reads)
}

#[cfg(test)]
mod tests;
