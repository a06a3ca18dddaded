//! A label of an enum that is renamed, in the views that name it: a view holds its text.
//!
//! Which of a query's strings are labels of the type is known once it is bound, and bound values
//! do not say which string they were. So each string that reads as the label is asked about: with
//! another one in its place, which no label can be, the query is bound under the types as they
//! were. If the type refuses that one, the string is a label of it, and is written anew.
//!
//! *Departure.* A label within a longer text, as `'{a,b}'` has some, is not written anew: the
//! renaming is refused where a view could not be read any more.
//!
//! *Cost.* A query is bound as often as it has such strings, of which there may be
//! [`STRINGS_MAX`].

use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast;
use types::{EnumType, Error, Result, SqlState, TableId};

use super::apply::Transition;
use crate::bind::Binder;
use crate::schema::catalog::{Catalog, View};
use crate::settings::session_info::SessionInfo;
use crate::syntax::walk;

/// Of one view, so that a change of the schema takes no longer than its text can say.
const STRINGS_MAX: usize = 64;

/// Longer than any label, and with a sign that none has.
fn no_label() -> String {
    "\u{1}".repeat(100)
}

impl Transition {
    pub(super) fn rename_label(&mut self, key: &str, label: &str, to: &str) -> Result<()> {
        let before = self.catalog.find_enum(key).map(|(_, of)| Arc::clone(of));
        let mut views = Vec::new();
        if let Some(of) = &before {
            let materialized = self.catalog.tables().filter_map(|table| {
                table.materialized.as_ref().map(|kept| (Some(table.id()), &kept.view))
            });
            let all = self.catalog.views().map(|view| (None, view)).chain(materialized);
            let quoted = label.replace('\'', "''");
            for (table, view) in all.filter(|(_, view)| view.text.contains(&quoted)) {
                if self.catalog.can_be_read(view).is_ok() {
                    views.push((table, self.catalog.relabelled(view, of, label, to)?));
                }
            }
        }
        self.change_enum(key, |of| of.rename(label, to))?;
        for (table, view) in views {
            self.catalog.can_be_read(&view).map_err(|_| still_named(&view, label))?;
            self.put_view(table, Arc::new(view));
        }
        Ok(())
    }

    fn put_view(&mut self, table: Option<TableId>, view: Arc<View>) {
        let Some(table) = table else {
            self.catalog.views.insert(view.name.clone(), view);
            return;
        };
        self.edit(table, |table| {
            if let Some(kept) = &mut table.materialized {
                kept.view = view;
            }
        });
    }
}

fn still_named(view: &View, label: &str) -> Error {
    let what = format!("cannot rename the label \"{label}\", which the view {} names", view.name);
    Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
        .with_hint("Drop the view first, and create it again afterwards.")
}

impl Catalog {
    /// # Errors
    /// What is said of its query, as relations and types are.
    pub(super) fn can_be_read(&self, view: &View) -> Result<()> {
        let session = SessionInfo::default();
        let mut binder = Binder::new(self, &session, Vec::new());
        binder.bound_by_text(view.text.len());
        binder.query(&view.query_over(self)).map(drop)
    }

    /// The view with another name for the label.
    fn relabelled(&self, view: &View, of: &EnumType, label: &str, to: &str) -> Result<View> {
        let mut relabelled = view.clone();
        let mut strings = 0;
        each_string(&mut relabelled.query, |text| strings += usize::from(text == label));
        if strings > STRINGS_MAX {
            let what = format!("the view {} names the label \"{label}\" too often", view.name);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(format!("It may {STRINGS_MAX} times at most.")));
        }
        let refused = format!("invalid input value for enum {}: ", of.name);
        let replaced = |place: usize, new: &str| {
            let mut replaced = view.clone();
            put_string(&mut replaced.query, label, &[place], new);
            replaced
        };
        let is_label = |place: &usize| match self.can_be_read(&replaced(*place, &no_label())) {
            Err(error) => error.message().starts_with(&refused),
            Ok(()) => false,
        };
        let places: Vec<usize> = (0..strings).filter(is_label).collect();
        put_string(&mut relabelled.query, label, &places, to);
        relabelled.text = relabelled.query.to_string();
        Ok(relabelled)
    }
}

/// Of the strings that read so, those at these places become another one.
fn put_string(query: &mut ast::Query, label: &str, places: &[usize], new: &str) {
    let mut place = 0;
    each_string(query, |text| {
        if text == label {
            if places.contains(&place) {
                new.clone_into(text);
            }
            place += 1;
        }
    });
}

fn each_string(query: &mut ast::Query, mut visit: impl FnMut(&mut String)) {
    let ControlFlow::<std::convert::Infallible>::Continue(()) =
        walk::change_expressions(query, |expr| {
            if let ast::Expr::Value(value) = expr
                && let ast::Value::SingleQuotedString(text)
                | ast::Value::EscapedStringLiteral(text)
                | ast::Value::DollarQuotedString(ast::DollarQuotedString {
                    value: text, ..
                }) = &mut value.value
            {
                visit(text);
            }
            ControlFlow::Continue(())
        });
}
