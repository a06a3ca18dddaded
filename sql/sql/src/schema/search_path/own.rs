//! Resolves names of temporary objects: `pg_temp.x`, and what CREATE TEMP makes.

use sqlparser::ast::{self, Ident, ObjectName};
use types::{Error, Result, SqlState};

use super::{Resolver, with_schema};
use crate::syntax::names::fold;

impl Resolver<'_> {
    pub(super) fn meets(&self, schema: &str) {
        if self.catalog.temporary_schema() == Some(schema) {
            self.met_temporary.set(true);
        }
    }

    /// A name with a schema, which may be the session's own by the name that all sessions have.
    pub(super) fn qualified(&self, name: &mut ObjectName) {
        let [ast::ObjectNamePart::Identifier(schema), _] = name.0.as_mut_slice() else { return };
        let said = fold(schema);
        let real = self.catalog.real_schema(&said);
        if real != said {
            *schema = Ident::with_quote('"', real);
        }
        self.meets(real);
    }

    /// The name of what is made for the session alone.
    pub(super) fn made_temporary(&self, name: &mut ObjectName) -> Result<()> {
        let Some(own) = self.catalog.temporary_schema() else { return Ok(()) };
        self.qualified(name);
        match name.0.as_slice() {
            [_] => with_schema(name, own),
            [schema, _] if schema.as_ident().is_some_and(|schema| fold(schema) == own) => {}
            _ => {
                let what = "cannot create temporary relation in non-temporary schema";
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, what));
            }
        }
        self.met_temporary.set(true);
        Ok(())
    }

    /// A view over what is the session's own is so itself.
    pub(super) fn view(&self, statement: &mut ast::Statement) -> Result<()> {
        let ast::Statement::CreateView(create) = statement else { return Ok(()) };
        if !self.met_temporary.get() || create.temporary {
            return Ok(());
        }
        if self.is_alone
            && let Some(name) = create.name.0.pop()
        {
            create.name.0 = vec![name];
        }
        self.made_temporary(&mut create.name)
    }
}
