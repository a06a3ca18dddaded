//! COMMENT ON: what people have said of tables, columns, indexes, constraints, sequences, views,
//! routines, the schema and the database.
//!
//! A comment belongs to the object and not to its name: it stays where a table or a column is
//! renamed, and goes with what is dropped. It is part of the schema, so every replica has it; the
//! last text said counts, and NULL or an empty one takes it away.

use std::sync::Arc;

use sqlparser::ast;
use types::{Error, IndexId, Result, SqlState, TableId};

use super::apply::Transition;
use super::user_types::no_type;
use crate::schema::catalog::{Catalog, Commented, Table};
use crate::schema::collations::no_collation;
use crate::syntax::names::{DATABASES, fold, object_name};

/// A comment's bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

impl Transition {
    pub(super) fn comment(
        &mut self,
        kind: ast::CommentObject,
        name: &ast::ObjectName,
        text: Option<&str>,
    ) -> Result<()> {
        let object = self.catalog.commented(kind, name)?;
        self.comment_on(object, text)
    }

    pub(super) fn comment_on_constraint(
        &mut self,
        name: &ast::Ident,
        table: &ast::ObjectName,
        text: Option<&str>,
    ) -> Result<()> {
        let (name, table_name) = (fold(name), object_name(table)?);
        let table = match self.catalog.find_table(&table_name) {
            Some(table) => table,
            None => return Err(self.catalog.not_a(&table_name, "table")),
        };
        if !table.has_constraint(&name) {
            return Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" for table \"{table_name}\" does not exist"),
            ));
        }
        let object = Commented::Constraint(table.id(), name);
        self.comment_on(object, text)
    }

    fn comment_on(&mut self, object: Commented, text: Option<&str>) -> Result<()> {
        match text.filter(|text| !text.is_empty()) {
            None => _ = self.catalog.comments.remove(&object),
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                return Err(Error::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!("a comment can have at most {TEXT_BYTES_MAX} bytes"),
                ));
            }
            Some(text) => _ = self.catalog.comments.insert(object, text.into()),
        }
        Ok(())
    }

    /// Comments on what is no longer there go.
    pub(super) fn drop_orphaned_comments(&mut self) {
        let mut comments = std::mem::take(&mut self.catalog.comments);
        comments.retain(|object, _| self.catalog.has(object));
        self.catalog.comments = comments;
    }
}

impl Catalog {
    /// All comments, by what they are about.
    pub fn comments(&self) -> impl Iterator<Item = (&Commented, &str)> {
        self.comments.iter().map(|(object, text)| (object, &**text))
    }

    pub(super) fn commented(
        &self,
        kind: ast::CommentObject,
        name: &ast::ObjectName,
    ) -> Result<Commented> {
        use ast::CommentObject as K;
        match kind {
            K::Table => self.commented_table(name, false),
            K::MaterializedView => self.commented_table(name, true),
            K::View => {
                let name = object_name(name)?;
                match self.view(&name) {
                    Some(_) => Ok(Commented::View(name)),
                    None => Err(self.not_a(&name, "view")),
                }
            }
            K::Index => {
                let name = object_name(name)?;
                match self.find_index(&name) {
                    Some((table, index)) => Ok(Commented::Index(table.id(), index)),
                    None => Err(self.not_a(&name, "index")),
                }
            }
            K::Sequence => {
                let name = object_name(name)?;
                self.sequence(&name).map(|sequence| Commented::Sequence(sequence.id))
            }
            K::Column => self.commented_column(name),
            K::Function | K::Procedure => {
                let name = object_name(name)?;
                match self.routine(&name) {
                    Some(_) => Ok(Commented::Routine(name)),
                    None => Err(Error::new(
                        SqlState::UNDEFINED_FUNCTION,
                        format!("could not find a {} named \"{name}\"", word(kind)),
                    )),
                }
            }
            K::Type | K::Domain => {
                let name = object_name(name)?;
                match self.find_made_type(&name) {
                    Some(id) => Ok(Commented::Type(id)),
                    None => Err(no_type(&name)),
                }
            }
            K::Collation => match self.find_collation(&object_name(name)?) {
                Some((id, _)) => Ok(Commented::Collation(id)),
                None => Err(no_collation(&name.to_string().replace('"', ""))),
            },
            K::Schema => match name_alone(name) {
                Some(name) if self.has_namespace(&name) => Ok(Commented::Schema(name)),
                _ => Err(Error::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    format!("schema \"{name}\" does not exist"),
                )),
            },
            K::Database => match name_alone(name) {
                Some(name) if DATABASES.contains(&name.as_str()) => Ok(Commented::Database),
                _ => Err(Error::new(
                    SqlState::INVALID_CATALOG_NAME,
                    format!("database \"{name}\" does not exist"),
                )),
            },
            other => Err(Error::unsupported(format_args!("COMMENT ON {other}"))),
        }
    }

    fn commented_table(&self, name: &ast::ObjectName, materialized: bool) -> Result<Commented> {
        let name = object_name(name)?;
        let is_one = |table: &&Arc<Table>| table.materialized.is_some() == materialized;
        match (self.find_table(&name).filter(is_one), materialized) {
            (Some(table), _) => Ok(Commented::Table(table.id())),
            (None, true) => Err(self.not_a(&name, "materialized view")),
            (None, false) => Err(self.not_a(&name, "table")),
        }
    }

    /// `[schema.]table.column`.
    fn commented_column(&self, name: &ast::ObjectName) -> Result<Commented> {
        let Some((ast::ObjectNamePart::Identifier(column), table @ [_, ..])) = name.0.split_last()
        else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
        };
        let name = object_name(&ast::ObjectName(table.to_vec()))?;
        match self.find_table(&name) {
            Some(table) => Ok(Commented::Column(table.id(), table.column_named(&fold(column))?)),
            None if self.view(&name).is_some() => {
                Err(Error::unsupported("a comment on a column of a view"))
            }
            None => Err(self.not_a(&name, "table")),
        }
    }

    fn not_a(&self, name: &str, wanted: &str) -> Error {
        match self.relation_exists(name) {
            true => Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!(
                    "\"{name}\" is not {} {wanted}",
                    if wanted == "index" { "an" } else { "a" }
                ),
            ),
            false => {
                Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
            }
        }
    }

    pub(super) fn has(&self, object: &Commented) -> bool {
        let table = |id: &TableId| self.table_by_id(*id);
        match object {
            Commented::Table(id) => table(id).is_some(),
            Commented::Column(id, column) => table(id).is_some_and(|table| {
                table.schema.columns.get(usize::from(*column)).is_some_and(|c| !c.dropped)
            }),
            Commented::Index(id, index) => table(id).is_some_and(|table| is_index(table, *index)),
            Commented::Constraint(id, name) => {
                table(id).is_some_and(|table| table.has_constraint(name))
            }
            Commented::Sequence(id) => self.sequence_by_id(*id).is_some(),
            Commented::View(name) => self.view(name).is_some(),
            Commented::Routine(name) => self.routine(name).is_some(),
            Commented::Schema(name) => self.has_namespace(name),
            Commented::Type(id) => self.made_type(*id).is_some(),
            Commented::Collation(id) => self.collation_by_id(*id).is_some(),
            Commented::Database => true,
        }
    }
}

fn is_index(table: &Table, index: IndexId) -> bool {
    index == 0 || table.live_indexes().any(|(live, _)| live == index)
}

fn word(kind: ast::CommentObject) -> &'static str {
    match kind {
        ast::CommentObject::Procedure => "procedure",
        _ => "function",
    }
}

fn name_alone(name: &ast::ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => Some(fold(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Statement, bind, parse};

    fn after(catalog: &Catalog, text: &str) -> Result<Catalog> {
        let parsed = parse(text)?.remove(0);
        match bind(catalog, &parsed, &[])?.statement {
            Statement::Ddl(ddl) => catalog.apply(&ddl).map(|(catalog, ..)| catalog),
            other => panic!("{other:?}"),
        }
    }

    fn all(catalog: &Catalog) -> String {
        let reported = catalog.comments().map(|(object, text)| format!("{object:?} {text}"));
        reported.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn comments_follow_objects_and_go_with_them() {
        let mut catalog = Catalog::genesis();
        for text in [
            "CREATE TABLE t (a int PRIMARY KEY, b int, c int)",
            "CREATE INDEX i ON t (b)",
            "CREATE VIEW v AS SELECT a FROM t",
            "COMMENT ON TABLE t IS 'it''s mine'",
            "COMMENT ON COLUMN public.t.b IS 'second'",
            "COMMENT ON COLUMN t.c IS 'third'",
            "COMMENT ON INDEX i IS 'index'",
            "COMMENT ON INDEX t_pkey IS 'key'",
            "COMMENT ON VIEW v IS 'view'",
            "COMMENT ON SCHEMA public IS 'all'",
            "CREATE SEQUENCE s",
            "CREATE FUNCTION f(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT a + b'",
            "COMMENT ON FUNCTION f(int, b int) IS 'sums'",
            "COMMENT ON SEQUENCE s IS 'counts'",
            "COMMENT ON CONSTRAINT t_pkey ON public.t IS 'key, too'",
            "COMMENT ON VIEW v IS NULL",
            "DROP VIEW v",
            "ALTER TABLE t RENAME COLUMN c TO d",
            "DROP INDEX i",
            "ALTER TABLE t DROP COLUMN b",
        ] {
            catalog = after(&catalog, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let id = catalog.find_table("t").unwrap().id();
        let sequence = catalog.sequence("s").unwrap().id;
        let expected = format!(
            "Table({id:?}) it's mine; Column({id:?}, 2) third; Index({id:?}, 0) key; \
             Constraint({id:?}, \"t_pkey\") key, too; Sequence({sequence:?}) counts; \
             Routine(\"f\") sums; Schema(\"public\") all"
        );
        assert_eq!(all(&catalog), expected);
        for text in ["DROP TABLE t", "DROP SEQUENCE s", "DROP FUNCTION f"] {
            catalog = after(&catalog, text).unwrap();
        }
        assert_eq!(all(&catalog), "Schema(\"public\") all");
    }

    #[test]
    fn what_is_not_there_cannot_be_commented() {
        let catalog = after(&Catalog::genesis(), "CREATE TABLE t (a int PRIMARY KEY)").unwrap();
        for (text, code) in [
            ("COMMENT ON TABLE nope IS 'x'", "42P01"),
            ("COMMENT ON TABLE t_pkey IS 'x'", "42809"),
            ("COMMENT ON VIEW t IS 'x'", "42809"),
            ("COMMENT ON COLUMN t.nope IS 'x'", "42703"),
            ("COMMENT ON COLUMN nope.a IS 'x'", "42P01"),
            ("COMMENT ON COLUMN a IS 'x'", "42601"),
            ("COMMENT ON FUNCTION f IS 'x'", "42883"),
            ("COMMENT ON SEQUENCE t IS 'x'", "42809"),
            ("COMMENT ON CONSTRAINT nope ON t IS 'x'", "42704"),
            ("COMMENT ON CONSTRAINT t_pkey ON nope IS 'x'", "42P01"),
            ("COMMENT ON CONSTRAINT t_pkey ON t", "42601"),
            ("COMMENT ON SCHEMA s IS 'x'", "3F000"),
            ("COMMENT ON DATABASE other IS 'x'", "3D000"),
            ("COMMENT ON ROLE tally IS 'x'", "0A000"),
        ] {
            assert_eq!(after(&catalog, text).unwrap_err().code().as_str(), code, "{text}");
        }
    }
}
