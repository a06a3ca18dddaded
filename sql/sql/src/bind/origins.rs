//! Which columns of a result are columns of a table as they stand: what JDBC's updatable results,
//! GUI tools and type caches ask of `RowDescription`.
//!
//! Told from the syntax and the catalog alone, so that it is the same for every executor. Names
//! are looked up with less ceremony than the binder does, which has refused what is wrong with
//! them. Where a FROM clause has more than tables, subqueries and common table expressions, no
//! column has an origin, as where a column is computed.

use sqlparser::ast;
use types::{ColumnId, TableId};

use crate::bind::output_name;
use crate::schema::catalog::{Catalog, Table};
use crate::syntax::names::{fold, object_name};
use crate::syntax::parsed::{Body, Parsed};

/// A table's column.
pub type Origin = (TableId, ColumnId);

/// How deep queries in FROM are followed.
const DEPTH_MAX: usize = 16;

/// Of each of a statement's columns; empty where none has an origin.
pub(crate) fn of(catalog: &Catalog, parsed: &Parsed, columns: usize) -> Box<[Option<Origin>]> {
    let Body::Statement(statement) = &parsed.body else { return Box::default() };
    let search = Search { catalog, named: Vec::new(), depth: 0 };
    let found = search.statement(statement).unwrap_or_default();
    let is_some = found.len() == columns && found.iter().any(|column| column.origin.is_some());
    match is_some {
        true => found.into_iter().map(|column| column.origin).collect(),
        false => Box::default(),
    }
}

#[derive(Clone)]
struct Column {
    name: String,
    origin: Option<Origin>,
}

struct Relation {
    name: String,
    columns: Vec<Column>,
}

#[derive(Clone)]
struct Search<'a> {
    catalog: &'a Catalog,
    /// Common table expressions in sight.
    named: Vec<(String, Vec<Column>)>,
    depth: usize,
}

impl Search<'_> {
    fn statement(&self, statement: &ast::Statement) -> Option<Vec<Column>> {
        match statement {
            ast::Statement::Query(query) => self.query(query),
            ast::Statement::Insert(insert) => {
                let ast::TableObject::TableName(name) = &insert.table else { return None };
                let alias = insert.table_alias.as_ref().map(|alias| fold(&alias.alias));
                self.returning(name, alias, insert.returning.as_deref()?)
            }
            ast::Statement::Update(update) => {
                let sources = match &update.from {
                    None => &[][..],
                    Some(
                        ast::UpdateTableFromKind::AfterSet(sources)
                        | ast::UpdateTableFromKind::BeforeSet(sources),
                    ) => sources,
                };
                self.changed(&update.table.relation, sources, update.returning.as_deref()?)
            }
            ast::Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                    &delete.from;
                let sources = delete.using.as_deref().unwrap_or_default();
                self.changed(&from.first()?.relation, sources, delete.returning.as_deref()?)
            }
            _ => None,
        }
    }

    fn changed(
        &self,
        target: &ast::TableFactor,
        sources: &[ast::TableWithJoins],
        items: &[ast::SelectItem],
    ) -> Option<Vec<Column>> {
        let mut relations = vec![self.relation(target)?];
        let merges = self.relations(sources, &mut relations)?;
        listed(items, &relations, !merges)
    }

    fn returning(
        &self,
        name: &ast::ObjectName,
        alias: Option<String>,
        items: &[ast::SelectItem],
    ) -> Option<Vec<Column>> {
        let table = self.catalog.find_table(&object_name(name).ok()?)?;
        let name = alias.unwrap_or_else(|| table.name().to_owned());
        listed(items, &[Relation { name, columns: columns_of(table) }], true)
    }

    fn query(&self, query: &ast::Query) -> Option<Vec<Column>> {
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut search = Search { depth: self.depth + 1, ..self.clone() };
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = renamed(search.query(&cte.query)?, &cte.alias)?;
            search.named.push((fold(&cte.alias.name), columns));
        }
        match &*query.body {
            ast::SetExpr::Select(select) => search.select(select),
            ast::SetExpr::Query(query) => search.query(query),
            _ => None,
        }
    }

    fn select(&self, select: &ast::Select) -> Option<Vec<Column>> {
        let mut relations = Vec::new();
        let merges = self.relations(&select.from, &mut relations)?;
        listed(&select.projection, &relations, !merges)
    }

    /// Adds what FROM names; whether one of its joins merges columns.
    fn relations(&self, from: &[ast::TableWithJoins], found: &mut Vec<Relation>) -> Option<bool> {
        let mut merges = false;
        for table in from {
            found.push(self.relation(&table.relation)?);
            for join in &table.joins {
                found.push(self.relation(&join.relation)?);
                merges |= merges_columns(&join.join_operator)?;
            }
        }
        Some(merges)
    }

    fn relation(&self, factor: &ast::TableFactor) -> Option<Relation> {
        use ast::TableFactor as F;
        let (name, columns, alias) = match factor {
            F::Table { name, alias, args: None, .. } => {
                let name = object_name(name).ok()?;
                let named = self.named.iter().rfind(|(known, _)| *known == name);
                let columns = match named {
                    Some((_, columns)) => columns.clone(),
                    None => columns_of(self.catalog.find_table(&name)?),
                };
                (name, columns, alias)
            }
            F::Derived { subquery, alias, .. } => (String::new(), self.query(subquery)?, alias),
            _ => return None,
        };
        Some(match alias {
            None => Relation { name, columns },
            Some(alias) => Relation { name: fold(&alias.name), columns: renamed(columns, alias)? },
        })
    }
}

/// Whether a join shows one column for two; `None` for joins whose merged columns are computed.
fn merges_columns(operator: &ast::JoinOperator) -> Option<bool> {
    use ast::JoinOperator as J;
    let constraint = match operator {
        J::Join(c) | J::Inner(c) | J::CrossJoin(c) | J::Left(c) | J::LeftOuter(c) => c,
        J::Right(c) | J::RightOuter(c) | J::FullOuter(c) => match c {
            ast::JoinConstraint::On(_) => c,
            _ => return None,
        },
        _ => return None,
    };
    let using = ast::JoinConstraint::Using(Vec::new());
    let natural = ast::JoinConstraint::Natural;
    Some(
        [using, natural]
            .iter()
            .any(|merging| std::mem::discriminant(merging) == std::mem::discriminant(constraint)),
    )
}

/// A select list; where columns are merged, `*` shows others than the tables do.
fn listed(items: &[ast::SelectItem], relations: &[Relation], expands: bool) -> Option<Vec<Column>> {
    use ast::SelectItem as S;
    let mut columns = Vec::new();
    for item in items {
        match item {
            S::UnnamedExpr(expr) => {
                columns.push(Column { name: output_name(expr), origin: origin(expr, relations) });
            }
            S::ExprWithAlias { expr, alias } => {
                columns.push(Column { name: fold(alias), origin: origin(expr, relations) });
            }
            S::Wildcard(_) if expands => {
                columns.extend(relations.iter().flat_map(|r| r.columns.iter().cloned()));
            }
            S::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _)
                if expands =>
            {
                let name = object_name(name).ok()?;
                let relation = relations.iter().find(|relation| relation.name == name)?;
                columns.extend(relation.columns.iter().cloned());
            }
            _ => return None,
        }
    }
    Some(columns)
}

fn origin(expr: &ast::Expr, relations: &[Relation]) -> Option<Origin> {
    let (relation, name) = match expr {
        ast::Expr::Nested(inner) => return origin(inner, relations),
        ast::Expr::Identifier(name) => (None, fold(name)),
        ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
            [.., relation, name] => (Some(fold(relation)), fold(name)),
            _ => return None,
        },
        _ => return None,
    };
    let meant = |known: &&Relation| relation.as_ref().is_none_or(|name| known.name == *name);
    let mut columns = relations.iter().filter(meant).flat_map(|relation| &relation.columns);
    columns.find(|column| column.name == name)?.origin
}

fn columns_of(table: &Table) -> Vec<Column> {
    let column = |id: ColumnId| Column {
        name: table.column_name(id).to_owned(),
        origin: Some((table.id(), id)),
    };
    table.schema.visible_columns().map(|(id, _)| column(id)).collect()
}

fn renamed(mut columns: Vec<Column>, alias: &ast::TableAlias) -> Option<Vec<Column>> {
    if alias.columns.len() > columns.len() {
        return None;
    }
    for (column, name) in columns.iter_mut().zip(&alias.columns) {
        column.name = fold(&name.name);
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::genesis();
        for text in ["CREATE TABLE t (a int PRIMARY KEY, b int)", "CREATE TABLE u (a int, c int)"] {
            let parsed = parse(text).unwrap().remove(0);
            match crate::bind(&catalog, &parsed, &[]).unwrap().statement {
                crate::Statement::Ddl(ddl) => catalog = catalog.apply(&ddl).unwrap().0,
                other => panic!("{other:?}"),
            }
        }
        catalog
    }

    /// As `table.column`, or `-`.
    fn reported(sql: &str) -> String {
        let catalog = catalog();
        let parsed = parse(sql).unwrap().remove(0);
        let bound = crate::bind(&catalog, &parsed, &[]).unwrap();
        let procedure::Output::Rows(columns) = &bound.output else { panic!("{sql}") };
        let shown = |origin: &Option<Origin>| match origin {
            None => "-".to_owned(),
            Some((table, column)) => {
                let table = catalog.table_by_id(*table).unwrap();
                format!("{}.{}", table.name(), table.column_name(*column))
            }
        };
        of(&catalog, &parsed, columns.len()).iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn plain_columns_have_an_origin_and_others_have_none() {
        for (sql, origins) in [
            ("SELECT a, b + 1, b AS x, 1 FROM t", "t.a - t.b -"),
            ("SELECT * FROM t", "t.a t.b"),
            ("SELECT u.*, t.b FROM t JOIN u ON t.a = u.a", "u.a u.c t.b"),
            (
                "UPDATE t SET b = 1 FROM u x WHERE t.a = x.a RETURNING x.c, t.b, *",
                "u.c t.b t.a t.b u.a u.c",
            ),
            ("DELETE FROM t USING u WHERE t.a = u.a RETURNING c, t.*", "u.c t.a t.b"),
            ("SELECT a, c FROM t JOIN u USING (a)", "t.a u.c"),
            ("SELECT * FROM t JOIN u USING (a)", ""),
            ("SELECT x.p, x.b FROM t AS x (p)", "t.a t.b"),
            ("SELECT s.d, s.b FROM (SELECT a AS d, b FROM t) s", "t.a t.b"),
            ("WITH s (d) AS (SELECT b FROM t) SELECT d FROM s", "t.b"),
            ("SELECT count(*), max(a) FROM t", ""),
            ("SELECT a FROM t UNION ALL SELECT a FROM u", ""),
            ("SELECT a, g FROM t, generate_series(1, 2) g", ""),
            ("INSERT INTO t VALUES (1, 2) RETURNING b, a + 1", "t.b -"),
            ("UPDATE t AS x SET b = 1 RETURNING x.*", "t.a t.b"),
            ("DELETE FROM t RETURNING *", "t.a t.b"),
        ] {
            assert_eq!(reported(sql), origins, "{sql}");
        }
    }
}
