//! Which names of a statement are to be found, and which are of what is made.

use sqlparser::ast::{self, ObjectName};
use types::{Error, Result, SqlState};

use super::{Resolver, alone, with_schema};
use crate::syntax::collations::{CollationSource, CollationStatement};
use crate::syntax::ddl::{AlterSequence, Ddl, SequenceOptions};
use crate::syntax::domains::{DomainChange, DomainStatement};
use crate::syntax::grants::{GrantTarget, Owned};
use crate::syntax::parsed::Body;
use crate::syntax::user_types::TypeStatement;

impl Resolver<'_> {
    pub(super) fn body(&mut self, body: &mut Body) -> Result<()> {
        match body {
            Body::Statement(statement) => {
                self.visit(&mut **statement)?;
                self.view(statement)
            }
            Body::CreateRoutine { definition, .. } => {
                self.made(&mut definition.name)?;
                self.signature(definition);
                self.visit(&mut **definition)
            }
            Body::DropRoutine { definition, .. } => {
                definition.func_desc.iter_mut().for_each(|desc| self.routine(&mut desc.name));
                Ok(())
            }
            Body::TableAs(definition) => {
                self.visit(&mut *definition.query)?;
                match definition.temporary {
                    true => self.made_temporary(&mut definition.name),
                    false => self.made(&mut definition.name),
                }
            }
            Body::Ddl(ddl) => self.ddl(ddl),
            Body::Refresh { name, .. } => self.must_find(name),
            Body::Declare { query, .. } => self.body(&mut query.body),
            _ => Ok(()),
        }
    }

    /// What sqlparser has no tree for.
    fn ddl(&mut self, ddl: &mut Ddl) -> Result<()> {
        match ddl {
            Ddl::CreateSequence { name, options, .. } => {
                self.options(options)?;
                self.made(name)
            }
            Ddl::AlterSequence { name, change, .. } => {
                if let AlterSequence::Options(options) = change {
                    self.options(options)?;
                }
                self.must_find(name)
            }
            Ddl::Grant(statement) => match &mut statement.on {
                GrantTarget::Tables(names) | GrantTarget::Sequences(names) => {
                    names.iter_mut().try_for_each(|name| self.must_find(name))
                }
                GrantTarget::Routines(names) => {
                    names.iter_mut().for_each(|name| self.routine(name));
                    Ok(())
                }
                _ => Ok(()),
            },
            Ddl::ChangeOwner {
                owned: Owned::Table | Owned::View | Owned::Sequence, name, ..
            } => self.must_find(name),
            Ddl::ChangeOwner { owned: Owned::Routine, name, .. } => {
                self.routine(name);
                Ok(())
            }
            Ddl::ApprovalPolicy(statement) => match statement.of {
                Owned::Table if statement.if_exists => {
                    if self.must_find(&mut statement.name).is_err() {
                        with_schema(&mut statement.name, "");
                    }
                    Ok(())
                }
                Owned::Table => self.must_find(&mut statement.name),
                Owned::Routine => {
                    self.routine(&mut statement.name);
                    Ok(())
                }
                _ => Ok(()),
            },
            Ddl::Type(statement) => self.type_statement(statement),
            Ddl::Domain(statement) => self.domain_statement(statement),
            Ddl::Collation(statement) => self.collation_statement(statement),
            Ddl::ChangeOwner { owned: Owned::Collation, name, .. } => {
                self.collation(name);
                Ok(())
            }
            Ddl::ChangeOwner { owned: Owned::Type | Owned::Domain, name, .. } => {
                self.type_name(name);
                Ok(())
            }
            Ddl::CreateMaterialized { create, .. } => {
                self.visit(&mut *create.query)?;
                if self.met_temporary.get() {
                    let what = "materialized views must not use temporary tables or views";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
                }
                self.made(&mut create.name)
            }
            Ddl::Refresh { name, .. }
            | Ddl::AlterIdentity { table: name, .. }
            | Ddl::Rename { name, .. }
            | Ddl::CommentOnConstraint { table: name, .. } => self.must_find(name),
            _ => Ok(()),
        }
    }

    fn domain_statement(&mut self, statement: &mut DomainStatement) -> Result<()> {
        match statement {
            DomainStatement::Create(create) => {
                self.data_type(&mut create.data_type);
                create.collation.iter_mut().for_each(|name| self.collation(name));
                create.default.iter_mut().try_for_each(|default| self.visit(default))?;
                let mut checks = create.checks.iter_mut();
                checks.try_for_each(|check| self.visit(&mut check.condition))?;
                self.made(&mut create.name)
            }
            DomainStatement::Alter { name, change } => {
                self.type_name(name);
                match change {
                    DomainChange::SetDefault(Some(default)) => self.visit(default),
                    DomainChange::Add { check, .. } => self.visit(&mut check.condition),
                    _ => Ok(()),
                }
            }
            DomainStatement::Drop { names, .. } => {
                names.iter_mut().for_each(|name| self.type_name(name));
                Ok(())
            }
        }
    }

    fn collation_statement(&self, statement: &mut CollationStatement) -> Result<()> {
        use CollationStatement as S;
        match statement {
            S::Create { name, like, .. } => {
                if let CollationSource::Another(like) = like {
                    self.collation(like);
                }
                self.made(name)
            }
            S::Drop { names, .. } => {
                names.iter_mut().for_each(|name| self.collation(name));
                Ok(())
            }
            S::Rename { name, .. } | S::SetSchema { name, .. } | S::Refresh { name } => {
                self.collation(name);
                Ok(())
            }
        }
    }

    fn type_statement(&self, statement: &mut TypeStatement) -> Result<()> {
        use TypeStatement as S;
        match statement {
            S::CreateEnum { name, .. } => self.made(name),
            S::Drop { names, .. } => {
                names.iter_mut().for_each(|name| self.type_name(name));
                Ok(())
            }
            S::AddLabel { name, .. }
            | S::RenameLabel { name, .. }
            | S::Rename { name, .. }
            | S::SetSchema { name, .. } => {
                self.type_name(name);
                Ok(())
            }
        }
    }

    /// OWNED BY names a column.
    fn options(&self, options: &mut SequenceOptions) -> Result<()> {
        match &mut options.owned_by {
            Some(Some(column)) => self.column(column),
            _ => Ok(()),
        }
    }

    /// `table.column`.
    fn column(&self, name: &mut ObjectName) -> Result<()> {
        let Some(column) = name.0.pop() else { return Ok(()) };
        let found = self.must_find(name);
        name.0.push(column);
        found
    }

    /// What a statement changes, which is none of its WITH.
    fn changed(&self, target: &mut ast::TableFactor) -> Result<()> {
        match target {
            ast::TableFactor::Table { name, args: None, .. } => self.must_find(name),
            _ => Ok(()),
        }
    }

    fn comment(&self, kind: ast::CommentObject, name: &mut ObjectName) -> Result<()> {
        use ast::CommentObject as K;
        match kind {
            K::Table | K::View | K::MaterializedView | K::Index | K::Sequence => {
                self.must_find(name)
            }
            K::Column => self.column(name),
            K::Collation => {
                self.collation(name);
                Ok(())
            }
            K::Type | K::Domain => {
                self.type_name(name);
                Ok(())
            }
            K::Function | K::Procedure => {
                self.routine(name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn statement(&mut self, statement: &mut ast::Statement) -> Result<()> {
        use ast::Statement as S;
        match statement {
            S::CreateTable(create) => self.create_table(create),
            S::Prepare { data_types, .. } => {
                data_types.iter_mut().for_each(|data_type| self.data_type(data_type));
                Ok(())
            }
            S::CreateView(create) if create.temporary => self.made_temporary(&mut create.name),
            S::CreateView(create) => {
                self.is_alone = alone(&create.name).is_some();
                self.made(&mut create.name)
            }
            S::AlterTable(alter) => self.alter_table(alter),
            S::Insert(insert) => match &mut insert.table {
                ast::TableObject::TableName(name) => self.must_find(name),
                _ => Ok(()),
            },
            S::Update(update) => self.changed(&mut update.table.relation),
            S::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                    &mut delete.from;
                from.iter_mut().take(1).try_for_each(|table| self.changed(&mut table.relation))
            }
            S::Merge(merge) => self.changed(&mut merge.table),
            S::Call(call) => {
                self.routine(&mut call.name);
                Ok(())
            }
            S::Comment { object_type, object_name, .. } => self.comment(*object_type, object_name),
            S::Copy { source: ast::CopySource::Table { table_name, .. }, .. } => {
                self.must_find(table_name)
            }
            S::Lock(lock) => {
                lock.tables.iter_mut().try_for_each(|target| self.must_find(&mut target.name))
            }
            S::Drop { object_type, names, if_exists, .. } => match object_type {
                ast::ObjectType::Table
                | ast::ObjectType::View
                | ast::ObjectType::MaterializedView
                | ast::ObjectType::Index
                | ast::ObjectType::Sequence => self.dropped(names, *if_exists),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
