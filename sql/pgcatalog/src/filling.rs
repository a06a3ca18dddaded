//! What a catalog's system tables hold is made when it is first asked for, and kept.

use std::sync::Arc;

use types::Result;

use crate::relation::{self, Relation};
use crate::tables::{self, Facts};
use crate::world::{Comments, Contents, Names, Session, ViewColumns, World};
use crate::{query, views};

impl World {
    /// The rows of the relation at this place of [`relation::all`].
    pub fn contents(self: &Arc<World>, place: usize, session: &Session) -> Result<Arc<Contents>> {
        let relation = &relation::all()[place];
        if depends_on_session(relation) {
            return self.fill(relation, session).map(Arc::new);
        }
        if let Some(contents) = self.contents[place].get() {
            return Ok(Arc::clone(contents));
        }
        let made = Arc::new(self.fill(relation, session)?);
        Ok(Arc::clone(self.contents[place].get_or_init(|| made)))
    }

    fn fill(self: &Arc<World>, relation: &'static Relation, session: &Session) -> Result<Contents> {
        let rows = match views::definition(relation) {
            Some(text) => query::view_rows(self, session, text, relation)?,
            None => tables::fill(&Facts { world: self, session }, relation)?,
        };
        Ok(Contents::new(rows))
    }

    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| tables::names(self))
    }

    /// What people have said of objects.
    pub fn comments(&self) -> &Comments {
        self.comments.get_or_init(|| tables::comments(self))
    }

    /// Users' views, by name.
    pub fn views(&self) -> &[ViewColumns] {
        self.views.get_or_init(|| {
            let views = self.catalog.views().filter_map(|view| {
                let numbers = self.numbers.view(&view.name)?;
                let columns = query::columns_of_view(self, view).unwrap_or_default();
                Some(ViewColumns { name: view.name.clone(), columns, numbers })
            });
            views.collect()
        })
    }
}

fn depends_on_session(relation: &Relation) -> bool {
    match views::definition(relation) {
        None => tables::SESSION_TABLES.contains(&relation.name),
        Some(text) => {
            let mentions = |name: &&str| text.contains(*name);
            text.contains("current_user") || tables::SESSION_TABLES.iter().any(mentions)
        }
    }
}
