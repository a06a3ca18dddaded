//! WITH, where what is named or what follows changes data.
//!
//! All parts see the data as they were before the statement; what one tells another is what its
//! RETURNING says. So everything is read first, and the rows of each part are kept in registers, an
//! array for each column; what RETURNING shows follows from these without a look at the tables.
//! Then the changes are made, part by part in the order of the text:
//!
//! ```text
//!   read ─► arrays of part 1 ┐
//!   read ─► arrays of part 2 ├─► answer of a SELECT ─► change 1 ─► change 2 ─► …
//!           RETURNING of 1 ──┘
//! ```
//!
//! Two parts may insert into one table, or one insert and one change it. Which of two changes of
//! one row would count is left open by PostgreSQL, and refused here.

use std::ops::ControlFlow;

use procedure::analysis::visit::{each_query, each_query_expr};
use procedure::query::{Aggregate, AggregateFunction};
use procedure::{Expr, Output, Query, Reg, Step};
use sqlparser::ast;
use types::{ColumnId, DataType, Error, Result, SqlState};

use super::binder::Binder;
use super::dml::{Dml, Returning};
use super::recursive::{check_names, in_order, is_recursive, name_columns};
use super::row_calls::rows_of_arrays;
use super::state::{BoundQuery, CommonTable, EndChecks, Late};
use crate::bind::statement::Statement;
use crate::schema::catalog::Catalog;
use crate::syntax::changes::{modifying, names_changes};
use crate::syntax::names::{fold, object_name};
use crate::syntax::walk;

/// What the copies of a query may come to, one for each place that reads it, before it is read once
/// instead. A plan knows more of a copy than of rows that are there: which of them are wanted.
const COPIES_WEIGHT_MAX: usize = 1000;

impl Binder<'_> {
    /// A SELECT after parts that change data.
    pub(super) fn select_with_changes(
        &mut self,
        query: &ast::Query,
        text: &str,
    ) -> Result<(Statement, Output)> {
        let end_checks = |catalog: &Catalog| EndChecks::of_query(catalog, query);
        let columns = self.with_end_checks(end_checks, |binder| {
            let outer_ctes = binder.ctes.len();
            binder.changing_parts(query)?;
            let main = ast::Query { with: None, ..query.clone() };
            let bound = binder.query(&main)?;
            binder.ctes.truncate(outer_ctes);
            binder.steps.push(Step::EmitQuery { query: bound.query });
            binder.make_changes();
            Ok(bound.columns)
        })?;
        self.program(text, Output::Rows(columns), "SELECT")
    }

    /// WITH in front of a data-modifying statement.
    pub(super) fn dml_with(&mut self, query: &ast::Query, emit: bool) -> Result<Dml> {
        let Some(statement) = modifying(query) else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "not a data-modifying statement"));
        };
        let outer_ctes = self.ctes.len();
        match (&query.with, names_changes(query)) {
            (Some(_), true) => self.changing_parts(query)?,
            (_, false) => self.common_tables(query)?,
            (None, true) => {}
        }
        let dml = self.nested(|binder| binder.dml(statement, emit));
        self.ctes.truncate(outer_ctes);
        self.make_changes();
        dml
    }

    fn changing_parts(&mut self, query: &ast::Query) -> Result<()> {
        let Some(with) = &query.with else { return Ok(()) };
        check_names(with)?;
        check_targets(query)?;
        self.late = Some(Late::default());
        for part in &with.cte_tables {
            let bound = match modifying(&part.query) {
                Some(statement) if !is_recursive(with, part) => {
                    let mut bound = self.changing_part(&part.query, statement)?;
                    name_columns(&mut bound.columns, &part.alias)?;
                    bound
                }
                _ => self.common_query(with, part)?,
            };
            self.add_common_table(&part.alias.name, bound);
        }
        Ok(())
    }

    fn add_common_table(&mut self, name: &ast::Ident, bound: BoundQuery) {
        let weight = weight_of(&bound.query);
        self.ctes.push(CommonTable { name: fold(name), bound, weight, is_itself: false });
    }

    /// The queries that WITH names in front of `query`, which change nothing.
    ///
    /// One that is read in several places is copied into each, or where that would come to much (as
    /// where each of them reads the one before twice) read once, before the statement's own steps.
    pub(super) fn common_tables(&mut self, query: &ast::Query) -> Result<()> {
        let Some(with) = &query.with else { return Ok(()) };
        check_names(with)?;
        for cte in in_order(with)? {
            if modifying(&cte.query).is_some() && !is_recursive(with, cte) {
                return Err(not_on_top());
            }
            let mut bound = self.common_query(with, cte)?;
            let weight = weight_of(&bound.query);
            if bound.query.width() > 0 {
                let places = places_of(&fold(&cte.alias.name), query);
                if places > 1 && weight.saturating_mul(places) > COPIES_WEIGHT_MAX {
                    bound.query = self.rows_kept(bound.query)?;
                }
            }
            self.add_common_table(&cte.alias.name, bound);
        }
        Ok(())
    }

    /// Another copy of the newest query that WITH calls so.
    pub(super) fn common_table(&mut self, name: &str) -> Result<Option<BoundQuery>> {
        let Some(found) = self.ctes.iter().rfind(|cte| cte.name == name) else { return Ok(None) };
        let (bound, weight) = (found.bound.clone(), found.weight);
        self.reads_itself |= found.is_itself;
        self.count(weight)?;
        Ok(Some(bound))
    }

    fn changing_part(
        &mut self,
        query: &ast::Query,
        statement: &ast::Statement,
    ) -> Result<BoundQuery> {
        if matches!(statement, ast::Statement::Merge(_)) {
            return Err(Error::unsupported("MERGE in a WITH query"));
        }
        if names_changes(query) {
            return Err(not_on_top());
        }
        let outer_ctes = self.ctes.len();
        self.common_tables(query)?;
        if let Some(late) = &mut self.late {
            (late.keeps, late.kept) = (true, None);
        }
        let bound = self.nested(|binder| binder.dml(statement, false));
        self.ctes.truncate(outer_ctes);
        bound?;
        let kept = self.late.as_mut().and_then(|late| {
            late.keeps = false;
            late.kept.take()
        });
        let nothing = BoundQuery::new(Query::Values(Box::default()), Vec::new());
        Ok(kept.unwrap_or(nothing))
    }

    /// The changes that were deferred.
    fn make_changes(&mut self) {
        if let Some(late) = self.late.take() {
            self.steps.extend(late.changes);
        }
    }

    /// Adds the step that changes rows: now, or when everything is read.
    pub(super) fn change_step(&mut self, step: Step) {
        match &mut self.late {
            Some(late) => late.changes.push(step),
            None => self.steps.push(step),
        }
    }

    /// Whether changes are deferred.
    pub(super) fn is_late(&self) -> bool {
        self.late.is_some()
    }

    /// Whether others read what the part at hand returns.
    pub(super) fn keeps_rows(&self) -> bool {
        self.late.as_ref().is_some_and(|late| late.keeps)
    }

    /// The rows of a query, read now, as a query over registers.
    pub(super) fn rows_kept(&mut self, query: Query) -> Result<Query> {
        Ok(rows_of_arrays(&self.arrays_of(query)?))
    }

    /// The rows of a query, read now: an array for each column, NULL where there is no row.
    pub(super) fn arrays_of(&mut self, query: Query) -> Result<Vec<Reg>> {
        let width = query.width();
        let aggregate = |column: u16| Aggregate {
            function: AggregateFunction::ArrayAgg,
            input: Some(Expr::Column(column)),
            distinct: false,
            filter: None,
            separator: None,
            order: Box::default(),
            result: DataType::Array(Box::new(DataType::Unknown)),
        };
        let gathered = Query::Aggregate {
            input: Box::new(query),
            groups: Box::default(),
            sets: Box::default(),
            aggregates: (0..width).map(aggregate).collect(),
        };
        let (arrays, found) = (self.registers(usize::from(width))?, self.register()?);
        self.steps.push(Step::Fetch {
            query: gathered,
            outputs: arrays.clone().into(),
            found,
            strict: false,
        });
        Ok(arrays)
    }

    /// What RETURNING shows of `rows`, where it will be read: `place` says where a column of
    /// the target, and of what stands beside it, is in them.
    pub(super) fn keep_returning(
        &mut self,
        returning: &Returning,
        rows: &Query,
        place: &dyn Fn(ColumnId) -> Option<usize>,
    ) {
        let Some(late) = self.late.as_mut().filter(|late| late.keeps) else { return };
        let Some((exprs, columns)) = returning.shown() else { return };
        let expressions = exprs.iter().map(|expr| {
            let mut expr = expr.clone();
            expr.map_columns(&mut |column| {
                Expr::Column(place(column).map_or(u16::MAX, |place| place as u16))
            });
            expr
        });
        let query =
            Query::Project { input: Box::new(rows.clone()), expressions: expressions.collect() };
        late.kept = Some(BoundQuery::new(query, columns.to_vec()));
    }
}

/// Operators and expressions of a query.
fn weight_of(query: &Query) -> usize {
    let mut weight = 0;
    each_query(query, &mut |query| {
        weight += 1;
        each_query_expr(query, &mut |expr| expr.walk(&mut |_| weight += 1));
    });
    weight
}

/// How often a name stands where a relation's does, in a statement and all that is within it.
fn places_of(name: &str, query: &ast::Query) -> usize {
    let mut places = 0;
    let _ = walk::relations(query, |relation| {
        if let [ast::ObjectNamePart::Identifier(part)] = relation.0.as_slice()
            && fold(part) == name
        {
            places += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    places
}

fn not_on_top() -> Error {
    let what = "WITH clause containing a data-modifying statement must be at the top level";
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
}

/// No two parts change rows that are there already in one table, and none by ON CONFLICT in one
/// that another part adds rows to: those are there for it, and are not to be changed once more.
fn check_targets(query: &ast::Query) -> Result<()> {
    let parts = query.with.iter().flat_map(|with| &with.cte_tables);
    let named = parts.filter_map(|part| modifying(&part.query));
    let (mut seen, mut added) = (Vec::new(), Vec::new());
    for statement in named.chain(modifying(query)) {
        let target = match (changed_table(statement)?, statement) {
            (Some(target), _) => target,
            (None, ast::Statement::Insert(insert)) => {
                if let ast::TableObject::TableName(name) = &insert.table {
                    added.push(object_name(name)?);
                }
                continue;
            }
            (None, _) => continue,
        };
        let by_conflict = changes_by_conflict(statement);
        if seen.contains(&target) || by_conflict && added.contains(&target) {
            return Err(Error::unsupported(format_args!(
                "changing rows of \"{target}\" in two parts of one statement"
            )));
        }
        seen.push(target);
    }
    Ok(())
}

fn changes_by_conflict(statement: &ast::Statement) -> bool {
    let ast::Statement::Insert(insert) = statement else { return false };
    match &insert.on {
        Some(ast::OnInsert::OnConflict(conflict)) => {
            matches!(conflict.action, ast::OnConflictAction::DoUpdate(_))
        }
        _ => false,
    }
}

/// The table whose rows a statement changes; `None` for one that only adds some.
fn changed_table(statement: &ast::Statement) -> Result<Option<String>> {
    use ast::Statement as S;
    let factor = match statement {
        S::Insert(insert) => {
            return match (&insert.table, &insert.on) {
                (ast::TableObject::TableName(name), Some(_)) => object_name(name).map(Some),
                _ => Ok(None),
            };
        }
        S::Update(update) => Some(&update.table.relation),
        S::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                &delete.from;
            from.first().map(|table| &table.relation)
        }
        S::Merge(merge) => Some(&merge.table),
        _ => None,
    };
    match factor {
        Some(ast::TableFactor::Table { name, .. }) => object_name(name).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use types::SqlState;

    use super::weight_of;
    use crate::bind::statement::{Program, Statement};
    use crate::schema::catalog::Catalog;
    use procedure::Step;

    /// Each common table expression has twice the rows of the one before.
    fn doubled(levels: usize) -> String {
        let each = |n: usize| {
            let below = n - 1;
            format!(", a{n} AS (SELECT x FROM a{below} UNION ALL SELECT x FROM a{below})")
        };
        let parts: String = (1..=levels).map(each).collect();
        format!("WITH a0 AS (SELECT 1 AS x){parts} SELECT count(*) FROM a{levels}")
    }

    fn bound(catalog: &Catalog, text: &str) -> types::Result<Statement> {
        Ok(crate::bind(catalog, &crate::parse(text)?.remove(0), &[])?.statement)
    }

    fn weight(statement: &Statement) -> usize {
        let Statement::Program(Program::Procedure(procedure)) = statement else {
            panic!("{statement:?}")
        };
        let of_step = |step: &Step| match step {
            Step::Fetch { query, .. } | Step::EmitQuery { query } => weight_of(query),
            _ => 1,
        };
        procedure.body.iter().map(of_step).sum()
    }

    #[test]
    fn what_doubles_is_read_once_and_what_is_small_is_copied() {
        let catalog = Catalog::genesis();
        for levels in [12, 20, 40] {
            let weight = weight(&bound(&catalog, &doubled(levels)).unwrap());
            assert!(weight < 2000 * (1 + levels / 6), "{levels}: {weight}");
        }
        let Statement::Program(Program::Procedure(small)) = bound(&catalog, &doubled(3)).unwrap()
        else {
            panic!()
        };
        assert!(matches!(&*small.body, [Step::EmitQuery { .. }]), "{:?}", small.body);
    }

    #[test]
    fn a_definition_that_doubles_is_small() {
        let text =
            format!("CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ {} $$", doubled(16));
        let catalog = Catalog::genesis();
        let Statement::Ddl(ddl) = bound(&catalog, &text).unwrap() else { panic!("{text}") };
        let (catalog, ..) = catalog.apply(&ddl).unwrap();
        let procedure = catalog.routine("f").unwrap().procedure(&catalog);
        assert!(procedure.body.len() > 1);
    }

    /// CASE looks at its operand as often as it has cases.
    #[test]
    fn what_copies_itself_ends_by_what_the_text_may_come_to() {
        let mut text = "1".to_owned();
        for _ in 0..20 {
            text = format!("CASE ({text}) WHEN 1 THEN 1 WHEN 2 THEN 2 ELSE 3 END");
        }
        let begun = std::time::Instant::now();
        let error = bound(&Catalog::genesis(), &format!("SELECT {text}")).unwrap_err();
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
        assert!(error.message().contains("too complex"), "{error}");
        assert!(error.fields().hint.is_some());
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }
}
