//! Materialized views in a session: what changes the schema, and what fills it after that, are one
//! transaction (see `ddl::materialized`).

use types::{Error, Result, SqlState};

use super::Session;
use super::answer::{Answer, Tag, plain};
use super::blocks::ATTEMPTS_MAX;
use super::prepared::Action;
use crate::syntax::ddl::Ddl;
use crate::syntax::names::object_name;

impl Session {
    /// CREATE MATERIALIZED VIEW, and REFRESH of one that holds no rows.
    pub(super) async fn materialize(&mut self, ddl: &Ddl, text: &str) -> Result<Answer> {
        let (name, with_data) = match ddl {
            Ddl::CreateMaterialized { create, with_data } => (&create.name, *with_data),
            Ddl::Refresh { name, with_data } => (name, *with_data),
            _ => return self.change_schema(ddl, text).await,
        };
        let is_skipped = match ddl {
            Ddl::CreateMaterialized { create, .. } if create.if_not_exists => {
                self.view().versioned.catalog.relation_exists(&object_name(name)?)
            }
            _ => false,
        };
        if !with_data || is_skipped {
            return self.change_schema(ddl, text).await;
        }
        let fill = format!("REFRESH MATERIALIZED VIEW {name}");
        if self.transaction.is_some() {
            return self.change_and_fill((ddl, text), &fill).await;
        }
        let mut left = ATTEMPTS_MAX;
        loop {
            self.begin_implicit_block()?;
            let filled = self.change_and_fill((ddl, text), &fill).await;
            let counts = filled.is_ok();
            if let Some(filled) = self.end_own_block(&mut left, filled, counts).await {
                return filled;
            }
        }
    }

    async fn change_and_fill(&mut self, (ddl, text): (&Ddl, &str), fill: &str) -> Result<Answer> {
        Box::pin(self.change_schema(ddl, text)).await?;
        let parsed = self.parse(fill)?.remove(0);
        let fill = self.prepare(parsed, &[])?;
        if !matches!(fill.bound.statement, Action::Program(_)) {
            let what = "a materialized view is filled by no program";
            return Err(Error::new(SqlState::INTERNAL_ERROR, what));
        }
        match Box::pin(self.execute_within(&fill, &[])).await? {
            Answer::Tag(Tag::Counted(_, rows)) if matches!(ddl, Ddl::CreateMaterialized { .. }) => {
                Ok(Answer::Tag(Tag::Counted("SELECT".into(), rows)))
            }
            _ => Ok(plain(ddl.tag())),
        }
    }
}
