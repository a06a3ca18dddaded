//! Privileges of what is bound.
//!
//! A statement is compiled for one role, so what it needs is decided here and costs nothing when it
//! runs. The first thing that is missing is told when all is bound, after what is wrong with the
//! statement itself, as in PostgreSQL. In a routine it is raised where it stands: a branch that is
//! not taken needs no privilege.
//!
//! ```text
//!   statement   bind … first refusal … end ─► Err(42501)
//!   routine     node: steps … refusal     ─► Raise(42501), steps
//! ```

use std::sync::Arc;

use identity::{Privileges, RoleId};
use procedure::step::OnError;
use procedure::{Expr, Step};
use types::{ColumnId, Error, Result, TableId};

use super::binder::Binder;
use super::scope::{ReadView, Scope};
use crate::schema::catalog::{Commented, Table, View};
use crate::schema::sequence::Sequence;

/// No role has this number.
const NO_ROLE: RoleId = RoleId(0);

/// What stood before a part of a routine.
pub(crate) struct Part {
    steps: usize,
    denied: Option<Error>,
}

impl Binder<'_> {
    /// Asks for the privileges of a user from now on. One that is no role any more has those of
    /// PUBLIC; a text that is read for no user, whose name is empty, is asked for nothing.
    pub(crate) fn check_user(&mut self, name: &str) {
        match self.catalog.roles().find(name) {
            Some(role) => self.check_role(role.id),
            None if name.is_empty() => {}
            None => self.check_role(NO_ROLE),
        }
    }

    pub(crate) fn check_role(&mut self, role: RoleId) {
        let roles = self.catalog.roles();
        self.checked = (!roles.is_superuser(role)).then(|| Arc::new(roles.closure(role)));
    }

    /// # Errors
    /// 42501: something was bound that the role may not do.
    pub(crate) fn refuse_denied(&mut self) -> Result<()> {
        self.denied.take().map_or(Ok(()), Err)
    }

    pub(crate) fn begin_part(&mut self) -> Part {
        Part { steps: self.steps.len(), denied: self.denied.take() }
    }

    /// What was refused in a part is raised before it.
    pub(crate) fn end_part(&mut self, part: Part) {
        if let Some(error) = std::mem::replace(&mut self.denied, part.denied) {
            let place = part.steps.min(self.steps.len());
            self.steps.insert(place, Step::Raise { error: OnError::from(error) });
        }
    }

    fn deny(&mut self, object: &Commented) {
        if self.denied.is_none() {
            self.denied = Some(self.catalog.denied(object));
        }
    }

    /// It may do all of this with an object.
    pub(super) fn needs(&mut self, object: &Commented, wanted: Privileges) {
        if let Some(checked) = &self.checked
            && !self.catalog.privileges(checked, object).contains(wanted)
        {
            self.deny(object);
        }
    }

    /// It may do one of these at least.
    pub(super) fn needs_one_of(&mut self, object: &Commented, wanted: Privileges) {
        if let Some(checked) = &self.checked
            && (self.catalog.privileges(checked, object) & wanted).is_empty()
        {
            self.deny(object);
        }
    }

    /// It may do this with each of these columns.
    pub(super) fn needs_columns(
        &mut self,
        table: TableId,
        wanted: Privileges,
        columns: impl IntoIterator<Item = ColumnId>,
    ) {
        let Some(checked) = self.checked.clone() else { return };
        let may = |column: ColumnId| {
            self.catalog.column_privileges(&checked, table, column).contains(wanted)
        };
        if !columns.into_iter().all(may) {
            self.deny(&Commented::Table(table));
        }
    }

    /// Whether it may read these columns.
    pub(super) fn may_read(&self, table: TableId, columns: &[ColumnId]) -> bool {
        self.checked.as_ref().is_none_or(|checked| {
            let may = |column: &ColumnId| {
                let own = self.catalog.column_privileges(checked, table, *column);
                own.contains(Privileges::SELECT)
            };
            columns.iter().all(may)
        })
    }

    /// What is in a schema can be named by those who may use it.
    pub(super) fn check_usage(&self, key: &str) -> Result<()> {
        match &self.checked {
            Some(checked) => self.catalog.check_usage(checked, key),
            None => Ok(()),
        }
    }

    /// A relation of FROM: which columns are read is not known yet.
    pub(super) fn needs_some(&mut self, table: &Table, wanted: Privileges) {
        if let Some(checked) = &self.checked
            && !self.catalog.may_with_any_column(checked, table, wanted)
        {
            self.deny(&Commented::Table(table.id()));
        }
    }

    /// Columns of a scope are read: a whole row reads all of its own.
    pub(super) fn reads(&mut self, scope: &Scope, read: &Expr) {
        if self.checked.is_none() {
            return;
        }
        let mut columns = Vec::new();
        read.walk(&mut |expr| {
            if let Expr::Column(place) = expr {
                columns.push(*place);
            }
        });
        columns.into_iter().for_each(|place| self.reads_column(scope, place));
    }

    fn reads_column(&mut self, scope: &Scope, place: u16) {
        let holds =
            |offset: u16, columns: usize| place >= offset && usize::from(place - offset) < columns;
        let mut relations = scope.relations.iter();
        let Some(relation) = relations.rfind(|r| holds(r.offset, r.columns.len())) else { return };
        let column = place - relation.offset;
        if let Some(table) = relation.table.as_ref().map(|table| table.id()) {
            self.needs_columns(table, Privileges::SELECT, [column]);
        } else if let Some(view) = relation.view.clone() {
            self.needs_view_column(&view, column);
        }
    }

    fn needs_view_column(&mut self, view: &ReadView, column: ColumnId) {
        if let (Some(checked), Some(name)) = (&self.checked, view.columns.get(usize::from(column)))
            && !self
                .catalog
                .view_column_privileges(checked, &view.name, name)
                .contains(Privileges::SELECT)
        {
            self.deny(&Commented::View(view.name.clone()));
        }
    }

    /// Binds what a view is made of, with its owner's privileges.
    pub(super) fn within_view<T>(
        &mut self,
        view: &View,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        // Which columns are read is not known yet.
        let object = Commented::View(view.name.clone());
        if let Some(checked) = &self.checked
            && !self.catalog.may_with_any_view_column(checked, &view.name, Privileges::SELECT)
        {
            self.deny(&object);
        }
        let reader = self.checked.take();
        if reader.is_some() {
            self.check_role(self.catalog.owner(&object));
        }
        let bound = bind(self);
        self.checked = reader;
        bound
    }

    /// Values of a sequence are taken, or set.
    pub(super) fn needs_sequence(&mut self, sequence: &Sequence, wanted: Privileges) {
        // What an identity column takes is the table's to give.
        if sequence.owner.is_none_or(|owner| owner.identity.is_none()) {
            self.needs_one_of(&Commented::Sequence(sequence.id), wanted);
        }
    }
}
