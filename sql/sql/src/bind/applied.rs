//! Subqueries that refer to the query around them.
//!
//! While a subquery is bound, the scopes around it are in sight, too: a column of one of them is
//! read from a register, which every plan takes for a constant, and so may follow an index by it.
//! What such a subquery gives becomes the placeholder `Column(FIRST_APPLIED + n)` in the expression
//! around it, and the subquery a relation of one column after the others, made anew for each of
//! their rows ([`Apply`](procedure::Query::Apply)):
//!
//! ```text
//!   SELECT a, (SELECT max(d) FROM u WHERE u.c = t.b) FROM t
//!   for each (r1 = t.b): t, then max(d) of u at (r1)  ─►  select a, placeholder
//! ```
//!
//! In a query that groups, those of its arguments and groups are run for each row, and all others
//! for each group.

use procedure::analysis::visit::numbered;
use procedure::analysis::visit::{each_query, each_query_expr, each_register, each_step_expr};
use procedure::{Expr, Query, Reg};
use sqlparser::ast;
use types::{DataType, Error, Result};

use super::binder::{Binder, Typed};
use super::items::{Item, Source};
use super::placeholders::{FIRST_APPLIED, FIRST_WINDOW};
use super::scope::Scope;
use super::state::{Applications, Applied, BoundQuery, Enclosing, Gives, Place};

/// Those of a query that groups.
#[derive(Default)]
pub(super) struct OfGroups {
    pub for_each_row: Vec<Item>,
    /// With their placeholders.
    pub for_each_group: Vec<(u16, Applied)>,
}

impl Applications {
    /// What a placeholder stands for.
    pub fn of(&self, column: u16) -> Option<&Applied> {
        self.list.iter().find(|(known, ..)| *known == column).map(|(_, applied, _)| applied)
    }

    pub fn into_items(self) -> Vec<Item> {
        self.list.into_iter().map(|(column, applied, _)| item(column, applied)).collect()
    }

    /// What a group is made of is there before it.
    pub fn of_groups(self, groups: &[Expr]) -> OfGroups {
        let mut apart = OfGroups::default();
        let of_groups: Vec<u16> = groups.iter().flat_map(Expr::columns).collect();
        for (column, applied, place) in self.list {
            let is_below = matches!(place, Place::Inside | Place::GroupBy);
            match is_below || of_groups.contains(&column) {
                true => apart.for_each_row.push(item(column, applied)),
                false => apart.for_each_group.push((column, applied)),
            }
        }
        apart
    }
}

fn item(column: u16, applied: Applied) -> Item {
    Item::new(Source::Applied(Box::new(applied)), column, 1)
}

/// What a subquery was bound to.
pub(super) struct Subquery {
    pub bound: BoundQuery,
    /// What it is given of each row around it; `None`: it refers to nothing outside.
    pub given: Option<Vec<(Reg, Expr)>>,
}

impl Binder<'_> {
    /// From here on subqueries may be run for each row of the query at hand.
    pub(super) fn begin_applied(&mut self) {
        self.applied = Some(Applications::default());
    }

    /// Those so far, which the relations before them come before.
    pub(super) fn applied_so_far(&mut self) -> Vec<Item> {
        let Some(applied) = &mut self.applied else { return Vec::new() };
        let list = std::mem::take(&mut applied.list);
        Applications { list, made: 0 }.into_items()
    }

    pub(super) fn end_applied(&mut self) -> Applications {
        self.applied.take().unwrap_or_default()
    }

    /// Binds a subquery of an expression, or a relation that sees those before it.
    pub(super) fn subquery(
        &mut self,
        scope: &Scope,
        query: &ast::Query,
        has_rows: bool,
    ) -> Result<Subquery> {
        let (scope, given) = (scope.clone(), Vec::new());
        self.enclosing.push(Enclosing { scope, has_rows, given });
        let (aggregates, steps) = (std::mem::take(&mut self.aggregates), self.steps.len());
        let bound = self.query(query);
        self.aggregates = aggregates;
        let bound = bound.and_then(|bound| {
            self.refuse_steps_of_rows(steps)?;
            Ok((self.refers_outside(&bound.query), bound))
        });
        let around = self.enclosing.pop();
        let (is_correlated, bound) = bound?;
        let given = around.map(|around| around.given).unwrap_or_default();
        Ok(Subquery { bound, given: is_correlated.then_some(given) })
    }

    /// Whether a query reads a register that stands for a column of one around it.
    pub(super) fn refers_outside(&self, query: &Query) -> bool {
        let mut refers = false;
        if self.enclosing.iter().any(|around| !around.given.is_empty()) {
            each_query(query, &mut |query| {
                each_query_expr(query, &mut |expr| refers |= self.reads_outside(expr));
            });
        }
        refers
    }

    pub(super) fn reads_outside(&self, expr: &Expr) -> bool {
        let mut reads = false;
        each_register(expr, &mut |register| {
            let mut given = self.enclosing.iter().flat_map(|around| &around.given);
            reads |= given.any(|(known, _)| *known == register);
        });
        reads
    }

    /// What is computed once, before the statement, knows no rows.
    fn refuse_steps_of_rows(&self, from: usize) -> Result<()> {
        if self.enclosing.iter().all(|around| around.given.is_empty()) {
            return Ok(());
        }
        let mut reads = false;
        for step in numbered(&self.steps[from..].to_vec().into()) {
            each_step_expr(step, &mut |_, expr| reads |= self.reads_outside(expr));
        }
        match reads {
            true => Err(Error::unsupported(
                "a query that is read once, in a subquery that refers to the outer query",
            )),
            false => Ok(()),
        }
    }

    /// A column that a query around the one at hand has, the innermost first.
    pub(super) fn outer_column(
        &mut self,
        name: &str,
        find: impl Fn(&Scope) -> Result<Option<(Expr, DataType)>>,
    ) -> Result<Option<Typed>> {
        for level in (0..self.enclosing.len()).rev() {
            let Some((expr, data_type)) = find(&self.enclosing[level].scope)? else { continue };
            if !self.enclosing[level..].iter().all(|around| around.has_rows) {
                return Err(correlated(name));
            }
            let scope = std::mem::take(&mut self.enclosing[level].scope);
            self.reads(&scope, &expr);
            let collated = scope.collated(&expr);
            self.enclosing[level].scope = scope;
            let known = self.enclosing[level].given.iter().find(|(_, value)| *value == expr);
            let register = match known {
                Some((register, _)) => *register,
                None => {
                    let register = self.register()?;
                    self.enclosing[level].given.push((register, expr));
                    register
                }
            };
            let value = Typed::new(Expr::Reg(register), data_type);
            return Ok(Some(Typed { collated, ..value }));
        }
        Ok(None)
    }

    /// The placeholder of what a subquery gives for each row.
    pub(super) fn apply(
        &mut self,
        query: Query,
        given: Vec<(Reg, Expr)>,
        gives: Gives,
        data_type: DataType,
    ) -> Result<Typed> {
        let place = self.aggregates.place;
        let Some(applied) = self.applied.as_mut() else {
            return Err(Error::unsupported("a subquery that refers to the outer query here")
                .with_hint("Write it as a join."));
        };
        let column = FIRST_APPLIED + applied.made;
        if column >= FIRST_WINDOW {
            return Err(crate::syntax::depth::too_deep());
        }
        applied.made += 1;
        applied.list.push((column, Applied { query, given, guard: None, gives }, place));
        Ok(Typed::new(Expr::Column(column), data_type))
    }

    /// How many there are, to tell those that come later.
    pub(super) fn count_applied(&self) -> usize {
        self.applied.as_ref().map_or(0, |applied| applied.list.len())
    }

    /// Those from `first` on are not of the statement after all.
    pub(super) fn forget_applied(&mut self, first: usize) {
        if let Some(applied) = &mut self.applied {
            applied.list.truncate(first);
        }
    }

    /// Those from `first` on are looked at only where all of this is true.
    pub(super) fn guard_applied(&mut self, first: usize, conditions: &[Expr]) {
        let list = self.applied.iter_mut().flat_map(|applied| &mut applied.list);
        for (_, applied, _) in list.skip(first) {
            let all = conditions.iter().cloned().chain(applied.guard.take());
            applied.guard = Expr::all(all.collect());
        }
    }
}

/// True where a condition is not.
pub(super) fn is_not_true(condition: &Expr) -> Expr {
    let constant = |truth| Expr::Const(types::Value::Bool(truth));
    Expr::Case {
        whens: [(condition.clone(), constant(false))].into(),
        otherwise: Box::new(constant(true)),
    }
}

pub(super) fn correlated(name: &str) -> Error {
    Error::unsupported(format_args!("a subquery that refers to \"{name}\" of the outer query here"))
        .with_hint("Write it as a join.")
}
