//! What a name in an expression stands for: a column, a variable, a call without parentheses.

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::scope::Scope;
use crate::syntax::names::{fold as fold_name, is_bare_call};

impl Binder<'_> {
    pub(super) fn identifier(&mut self, scope: &Scope, ident: &ast::Ident) -> Result<Typed> {
        let name = fold_name(ident);
        match self.column(scope, &name) {
            Err(error) if error.code() == SqlState::UNDEFINED_COLUMN => {
                if is_bare_call(ident) {
                    return self.call_by_name(&name, Vec::new());
                }
                self.row_of(scope, &name)?.ok_or(error)
            }
            found => found,
        }
    }

    fn column(&mut self, scope: &Scope, name: &str) -> Result<Typed> {
        let variable = self.variables.iter().rfind(|v| v.name == name && !v.qualified_only);
        match (scope.find(name)?, variable) {
            (Some(_), Some(_)) if self.strict_variables => Err(ambiguous(name)),
            (Some((expr, data_type)), _) => {
                self.reads(scope, &expr);
                let collated = scope.collated(&expr);
                Ok(Typed { collated, ..Typed::new(expr, data_type) })
            }
            (None, variable) => {
                let variable = variable.map(|v| Typed::new(v.value.clone(), v.data_type.clone()));
                let outer = self.outer_column(name, |scope| scope.find(name))?;
                match (outer, variable) {
                    (Some(_), Some(_)) if self.strict_variables => Err(ambiguous(name)),
                    (Some(outer), _) => Ok(outer),
                    (None, Some(variable)) => Ok(variable),
                    (None, None) => Err(self.unknown_column(scope, name)),
                }
            }
        }
    }

    fn unknown_column(&self, scope: &Scope, name: &str) -> Error {
        let error =
            Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
        match scope.suggestion(name) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// Whether the first relation of that name, from the innermost query outwards, is of a schema.
    fn is_in_schema(&self, scope: &Scope, schema: &str, name: &str) -> bool {
        let around = self.enclosing.iter().rev().map(|around| &around.scope);
        let mut scopes = std::iter::once(scope).chain(around);
        let first = scopes.find(|scope| scope.relation(name).is_some());
        first.is_some_and(|scope| scope.is_in_schema(schema, name))
    }

    pub(super) fn qualified_column(&mut self, scope: &Scope, parts: &[String]) -> Result<Typed> {
        let (qualifier, name) = match parts {
            [qualifier, name] => (qualifier, name),
            [schema, qualifier, name] if self.is_in_schema(scope, schema, qualifier) => {
                (qualifier, name)
            }
            [schema, qualifier, _] if schema != "public" || scope.relation(qualifier).is_some() => {
                let what = format!("missing FROM-clause entry for table \"{schema}.{qualifier}\"");
                return Err(Error::new(SqlState::UNDEFINED_TABLE, what));
            }
            [_, qualifier, name] => (qualifier, name),
            _ => {
                return Err(Error::unsupported(format_args!("the name {}", parts.join("."))));
            }
        };
        if let Some((expr, data_type)) = scope.find_qualified(qualifier, name)? {
            self.reads(scope, &expr);
            let collated = scope.collated(&expr);
            return Ok(Typed { collated, ..Typed::new(expr, data_type) });
        }
        let mut variables = self.variables.iter();
        if let Some(variable) = variables.rfind(|v| v.qualifier == *qualifier && v.name == *name) {
            return Ok(Typed::new(variable.value.clone(), variable.data_type.clone()));
        }
        let shown = format!("{qualifier}.{name}");
        let find = |scope: &Scope| scope.find_qualified(qualifier, name);
        if let Some(outer) = self.outer_column(&shown, find)? {
            return Ok(outer);
        }
        Err(Error::new(
            SqlState::UNDEFINED_TABLE,
            format!("missing FROM-clause entry for table \"{qualifier}\""),
        ))
    }
}

fn ambiguous(name: &str) -> Error {
    Error::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
        .with_detail("It could refer to either a PL/pgSQL variable or a table column.")
        .with_hint("Qualify it by the table's name, or by that of the procedure or block.")
}
