//! Names in CREATE TABLE and ALTER TABLE.

use sqlparser::ast;
use types::Result;

use super::{Resolver, alone, with_schema};
use crate::syntax::names::fold;

impl Resolver<'_> {
    fn constraint(&self, constraint: &mut ast::TableConstraint) -> Result<()> {
        match constraint {
            ast::TableConstraint::ForeignKey(key) => self.must_find(&mut key.foreign_table),
            _ => Ok(()),
        }
    }

    fn column_options(&self, column: &mut ast::ColumnDef) -> Result<()> {
        for option in &mut column.options {
            match &mut option.option {
                ast::ColumnOption::ForeignKey(key) => self.must_find(&mut key.foreign_table)?,
                ast::ColumnOption::Collation(name) => self.collation(name),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn create_table(&self, create: &mut ast::CreateTable) -> Result<()> {
        match create.temporary {
            true => self.made_temporary(&mut create.name)?,
            false => self.made(&mut create.name)?,
        }
        create.columns.iter_mut().for_each(|column| self.data_type(&mut column.data_type));
        let own = create.name.0.last().and_then(|part| part.as_ident()).map(fold);
        // What is about to be made is found where it will be.
        let parent = |key: &mut ast::ForeignKeyConstraint| {
            if alone(&key.foreign_table).is_some_and(|name| Some(name) == own) {
                key.foreign_table.clone_from(&create.name);
            }
            self.must_find(&mut key.foreign_table)
        };
        for constraint in &mut create.constraints {
            if let ast::TableConstraint::ForeignKey(key) = constraint {
                parent(key)?;
            }
        }
        let options = create.columns.iter_mut().flat_map(|column| &mut column.options);
        for option in options {
            match &mut option.option {
                ast::ColumnOption::ForeignKey(key) => parent(key)?,
                ast::ColumnOption::Collation(name) => self.collation(name),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn alter_table(&self, alter: &mut ast::AlterTable) -> Result<()> {
        use ast::AlterTableOperation as O;
        for operation in &mut alter.operations {
            match operation {
                O::AddConstraint { constraint, .. } => self.constraint(constraint)?,
                O::AddColumn { column_def, .. } => {
                    self.data_type(&mut column_def.data_type);
                    self.column_options(column_def)?;
                }
                O::AlterColumn {
                    op: ast::AlterColumnOperation::SetDataType { data_type, .. },
                    ..
                } => self.data_type(data_type),
                _ => {}
            }
        }
        match (self.must_find(&mut alter.name), alter.if_exists) {
            (Err(_), true) => {
                with_schema(&mut alter.name, "");
                Ok(())
            }
            (found, _) => found,
        }
    }
}
