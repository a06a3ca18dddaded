//! CREATE TABLE … AS in a session: two statements of one transaction
//! (see [`crate::syntax::table_as`]).

use types::{DataType, Error, Result, SqlState, Value};

use super::Session;
use super::answer::{Answer, Tag, plain};
use super::blocks::ATTEMPTS_MAX;
use super::prepared::Action;
use crate::syntax::table_as::TableAs;

impl Session {
    /// In the open transaction, or else in one of its own.
    pub(super) async fn create_table_as(
        &mut self,
        made: &TableAs,
        types: &[DataType],
        parameters: &[Value],
    ) -> Result<Answer> {
        let exists = self.view().versioned.catalog.find_table(&made.name).is_some();
        if made.if_not_exists && exists {
            let what = format!("relation \"{}\" already exists, skipping", made.name);
            self.tell(Error::new(SqlState(*b"42P07"), what));
            return Ok(plain("CREATE TABLE AS"));
        }
        if self.transaction.is_some() {
            return self.create_and_fill(made, types, parameters).await;
        }
        let mut left = ATTEMPTS_MAX;
        loop {
            self.begin_implicit_block()?;
            let filled = self.create_and_fill(made, types, parameters).await;
            let counts = filled.is_ok();
            if let Some(filled) = self.end_own_block(&mut left, filled, counts).await {
                return filled;
            }
        }
    }

    async fn create_and_fill(
        &mut self,
        made: &TableAs,
        types: &[DataType],
        parameters: &[Value],
    ) -> Result<Answer> {
        let parsed = self.parse(&made.create)?.remove(0);
        let create = self.prepare(parsed, &[])?;
        let Action::Ddl(ddl) = &create.bound.statement else {
            return Ok(plain("CREATE TABLE AS"));
        };
        match create.temporary {
            true => self.change_temporary(ddl).await?,
            false => self.change_schema(ddl, &create.parsed.text).await?,
        };
        let Some(fill) = &made.fill else { return Ok(plain("CREATE TABLE AS")) };
        let declared: Vec<_> = types.iter().cloned().map(Some).collect();
        let parsed = self.parse(fill)?.remove(0);
        let fill = self.prepare(parsed, &declared)?;
        match Box::pin(self.execute_within(&fill, parameters)).await? {
            Answer::Tag(Tag::Counted(_, rows)) => {
                Ok(Answer::Tag(Tag::Counted("SELECT".into(), rows)))
            }
            answer => Ok(answer),
        }
    }
}
