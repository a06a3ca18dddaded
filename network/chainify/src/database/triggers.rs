//! Whether the triggers are those that were made: an administrator can turn them off.

use std::collections::BTreeMap;

use types::{Error, Result, SqlState};

use super::Database;
use crate::dialect::{Dialect, mariadb, postgres};
use crate::schema::Schema;

impl Database {
    /// # Errors
    ///
    /// Names each that is missing, turned off or another one: what changed meanwhile was not
    /// written down.
    pub async fn check_triggers(&mut self, schema: &Schema) -> Result<()> {
        let (asked, expected) = match self.dialect() {
            Dialect::Postgres => (postgres::own_bodies(), postgres::bodies(schema)),
            Dialect::MariaDb => (mariadb::own_bodies(), mariadb::bodies(schema)),
        };
        let mut found = BTreeMap::new();
        for row in self.rows(&asked).await? {
            let [Some(table), Some(trigger), Some(state), Some(body)] = &row[..] else { continue };
            found.insert((table.clone(), trigger.clone()), (state.clone(), body.clone()));
        }
        let wrong = |(place, body): (&(String, String), &String)| {
            let why = match found.get(place) {
                None => "is missing",
                Some((state, _)) if state != "A" => "is turned off",
                Some((_, there)) if there != body => "is another one",
                Some(_) => return None,
            };
            Some(format!("Trigger {} of table {} {why}.", place.1, place.0))
        };
        let wrong: Vec<String> = expected.iter().filter_map(wrong).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let what = format!("{} does not write down all that changes", self.name());
        Err(Error::new(SqlState::DATA_CORRUPTED, what)
            .with_detail(wrong.join(" "))
            .with_hint("They are made anew, and rows go back to a checkpoint."))
    }

    /// Makes them anew where they are not what they were.
    pub async fn mend_triggers(&mut self, schema: &Schema) -> Result<()> {
        if self.check_triggers(schema).await.is_ok() {
            return Ok(());
        }
        let all = match self.dialect() {
            Dialect::Postgres => postgres::mended(schema),
            Dialect::MariaDb => mariadb::mended(schema),
        };
        self.together(&all).await?;
        self.check_triggers(schema).await
    }
}
