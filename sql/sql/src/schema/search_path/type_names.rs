//! Names of types: of casts, columns, and what routines take and return.

use sqlparser::ast::{self, ObjectName};

use std::sync::Arc;

use super::{Resolver, alone, with_schema};
use crate::schema::collations::Collation;
use crate::syntax::collations::unmarked;
use crate::syntax::names::key;

impl Resolver<'_> {
    /// A name that is no type's of the path is given a schema in which it is none either, unless it
    /// is nowhere.
    pub(super) fn type_name(&self, name: &mut ObjectName) {
        let Some(bare) = alone(name) else { return };
        let has = |schema: &&&str| self.catalog.find_made_type(&key(schema, &bare)).is_some();
        match self.schemas.iter().find(has) {
            Some(schema) => with_schema(name, schema),
            None if self.catalog.find_made_type(&bare).is_some() => with_schema(name, "pg_catalog"),
            None => {}
        }
    }

    /// The same of a collation's name; the system's come first.
    pub(super) fn collation(&self, name: &mut ObjectName) {
        if let Some(mut named) = unmarked(name) {
            self.collation(&mut named);
            name.0.truncate(1);
            name.0.extend(named.0);
            return;
        }
        let Some(bare) = alone(name) else { return };
        let is_system = |collation: Arc<Collation>| collation.is_system();
        if self.catalog.collation(name).is_ok_and(is_system) {
            return;
        }
        let has = |schema: &&&str| self.catalog.find_collation(&key(schema, &bare)).is_some();
        match self.schemas.iter().find(has) {
            Some(schema) => with_schema(name, schema),
            None if self.catalog.find_collation(&bare).is_some() => with_schema(name, "pg_catalog"),
            None => {}
        }
    }

    pub(super) fn data_type(&self, data_type: &mut ast::DataType) {
        match data_type {
            ast::DataType::Custom(name, modifiers) if modifiers.is_empty() => self.type_name(name),
            ast::DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(element, _)
                | ast::ArrayElemTypeDef::AngleBracket(element),
            ) => self.data_type(element),
            ast::DataType::Table(Some(columns)) => {
                columns.iter_mut().for_each(|column| self.data_type(&mut column.data_type));
            }
            _ => {}
        }
    }

    /// The types of a routine's parameters and results.
    pub(super) fn signature(&self, definition: &mut ast::CreateFunction) {
        let arguments = definition.args.iter_mut().flatten();
        arguments.for_each(|argument| self.data_type(&mut argument.data_type));
        if let Some(
            ast::FunctionReturnType::DataType(returned) | ast::FunctionReturnType::SetOf(returned),
        ) = &mut definition.return_type
        {
            self.data_type(returned);
        }
    }
}
