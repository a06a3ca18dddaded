//! One organisation's database: what this crate has put into it, what changed in it.
//!
//! [`link`] speaks to either system; everything here is SQL that [`Dialect`] writes, read as text.

mod alone;
pub mod checkpoint;
pub mod inspect;
pub mod link;
mod mariadb;
mod postgres;
mod rules;
mod triggers;
mod trouble;
mod workers;

use ledger::hash::{Hash, from_hex, to_hex};
use ledger::{LedgerId, merkle};
use types::{Error, Height, Result, SqlState};

use crate::dialect::{self, Dialect};
use crate::schema::{Schema, Table};
use crate::stretches::{Range, Stretch, Stretches};

pub use alone::Alone;
pub use link::Link;
pub use trouble::Trouble;
pub use workers::Workers;

pub struct Database {
    link: Link,
}

/// What became of a transaction, written down in the database with its changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    pub index: u32,
    pub succeeded: bool,
    /// Why it failed, in this system's words. No part of the ledger.
    pub detail: String,
}

/// One line of the digest table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub sequence: u64,
    pub table: u32,
    pub key: String,
    pub serial: u64,
    pub kind: Change,
    pub before: Option<Hash>,
    pub after: Option<Hash>,
    /// Block and index of the ledger's transaction that made the change; `None`: another one did.
    pub place: Option<String>,
    /// The database user.
    pub writer: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Inserted,
    Updated,
    Deleted,
}

/// How often a transaction is tried that deadlocks or waits too long for a lock.
const ATTEMPTS_MAX: u32 = 12;

impl Database {
    pub async fn connect(url: &str) -> Result<Database> {
        Ok(Database { link: Link::connect(url).await? })
    }

    pub fn dialect(&self) -> Dialect {
        self.link.dialect()
    }

    /// Who it is, for people, without a password.
    pub fn name(&self) -> &str {
        self.link.name()
    }

    pub async fn run(&mut self, sql: &str) -> Result<u64> {
        self.link.run(sql).await.map_err(|trouble| trouble.into_error(self.link.name()))
    }

    pub async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let mut rows = Vec::new();
        self.each(sql, |row| {
            rows.push(row);
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    /// Rows as they come, of which no more than one is in memory.
    async fn each(
        &mut self,
        sql: &str,
        take: impl FnMut(Vec<Option<String>>) -> Result<()>,
    ) -> Result<()> {
        let each = self.link.each(sql, take).await;
        each.map_err(|trouble| trouble.into_error(self.link.name()))?
    }

    /// All or nothing, but where a statement of MariaDB ends a transaction by itself.
    async fn together(&mut self, statements: &[String]) -> Result<Vec<u64>> {
        self.run("BEGIN").await?;
        let mut counts = Vec::with_capacity(statements.len());
        for statement in statements {
            match self.run(statement).await {
                Ok(count) => counts.push(count),
                Err(error) => {
                    // A connection that is lost has rolled back.
                    let _ = self.run("ROLLBACK").await;
                    return Err(error);
                }
            }
        }
        self.run("COMMIT").await?;
        Ok(counts)
    }

    /// Creates digest tables and triggers. What an attempt that did not end has left is removed.
    pub async fn install(&mut self, schema: &Schema, ledger_id: LedgerId) -> Result<()> {
        if let Some(other) = self.ledger().await? {
            let what = format!("{} is chained already", self.name());
            let detail = format!("It belongs to the ledger {}.", to_hex(&other));
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, what)
                .with_detail(detail)
                .with_hint("Remove that by `tally chainify uninstall`, if it is of no use."));
        }
        self.uninstall().await?;
        let dialect = self.dialect();
        let mut all = match dialect {
            Dialect::Postgres => dialect::postgres::install(schema),
            Dialect::MariaDb => dialect::mariadb::install(schema),
        };
        let state = dialect.own("state");
        let (id, text) = (to_hex(&ledger_id), dialect.text(&schema.to_string()));
        all.push(format!(
            "INSERT INTO {state} (name, value) VALUES ('block', '0'), ('ledger', '{id}'), \
             ('tables', {text})"
        ));
        self.together(&all).await.map(|_| ())
    }

    /// Leaves no trace, whatever was left of it.
    pub async fn uninstall(&mut self) -> Result<()> {
        let statements = match self.dialect() {
            Dialect::Postgres => dialect::postgres::uninstall(&[]),
            Dialect::MariaDb => {
                let triggers = self.rows(&dialect::mariadb::own_triggers()).await?;
                let mut tables: Vec<String> =
                    triggers.into_iter().filter_map(|row| row.into_iter().nth(1)?).collect();
                tables.sort();
                tables.dedup();
                dialect::mariadb::uninstall(&tables)
            }
        };
        for checkpoint in self.copies().await? {
            self.run(&format!("DROP TABLE {checkpoint}")).await?;
        }
        for statement in statements {
            self.run(&statement).await?;
        }
        Ok(())
    }

    /// The ledger that it is chained to; `None`: it is not.
    pub async fn ledger(&mut self) -> Result<Option<LedgerId>> {
        let there = match self.dialect() {
            Dialect::Postgres => "SELECT to_regclass('tally_chainify.state') IS NOT NULL",
            Dialect::MariaDb => {
                "SELECT COUNT(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() \
                 AND table_name = 'tally_chainify_state'"
            }
        };
        let there = self.rows(there).await?;
        if !there.first().and_then(|row| row.first()).is_some_and(is_true) {
            return Ok(None);
        }
        let Some(text) = self.state("ledger").await? else { return Ok(None) };
        let id = from_hex(&text)?.try_into();
        id.map(Some).map_err(|_| self.unreadable("the ledger's id", &text))
    }

    async fn state(&mut self, name: &str) -> Result<Option<String>> {
        let (state, name) = (self.dialect().own("state"), self.dialect().text(name));
        let rows = self.rows(&format!("SELECT value FROM {state} WHERE name = {name}")).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()?))
    }

    /// The last block that is finished here.
    pub async fn height(&mut self) -> Result<Height> {
        let text = self.state("block").await?.unwrap_or_default();
        text.parse().map_err(|_| self.unreadable("the last block", &text))
    }

    /// Which transactions of a block have ended.
    pub async fn progress(&mut self, height: Height) -> Result<Vec<Done>> {
        let progress = self.dialect().own("progress");
        let sql =
            format!("SELECT idx, ok, detail FROM {progress} WHERE block = {height} ORDER BY idx");
        let rows = self.rows(&sql).await?;
        let done = |row: &Vec<Option<String>>| {
            let [Some(index), ok, Some(detail)] = &row[..] else { return None };
            let (index, succeeded) = (index.parse().ok()?, is_true(ok));
            Some(Done { index, succeeded, detail: detail.clone() })
        };
        let all: Option<Vec<Done>> = rows.iter().map(done).collect();
        all.ok_or_else(|| self.unreadable("a transaction's end", &format!("{rows:?}")))
    }

    /// Runs a transaction of the ledger, if it has not ended already.
    ///
    /// # Errors
    ///
    /// What says nothing of the transaction: the database could not run it. What it refuses is its
    /// outcome.
    pub async fn execute(
        &mut self,
        height: Height,
        index: u32,
        statements: &[String],
    ) -> Result<Done> {
        let dialect = self.dialect();
        let progress = dialect.own("progress");
        let ended = |ok: bool, detail: &str| {
            let (ok, detail) = (if ok { "true" } else { "false" }, dialect.text(detail));
            format!(
                "INSERT INTO {progress} (block, idx, ok, detail) \
                 VALUES ({height}, {index}, {ok}, {detail})"
            )
        };
        let (begin, succeeded) = (dialect.begin(height, index), ended(true, ""));
        let mut attempt = 1;
        let detail = loop {
            match self.link.transaction(&begin, statements, &succeeded).await {
                Ok(()) => return Ok(Done { index, succeeded: true, detail: String::new() }),
                Err(Trouble::Refused(detail)) => break detail,
                Err(Trouble::Again(_)) if attempt < ATTEMPTS_MAX => {
                    tokio::time::sleep(std::time::Duration::from_millis(20 << attempt.min(6)))
                        .await;
                    attempt += 1;
                }
                Err(trouble) => return Err(trouble.into_error(self.link.name())),
            }
        };
        // Of a process that was killed, a session may have been about to commit.
        if let Some(known) = self.known(height, index).await? {
            return Ok(known);
        }
        // Kept short: it stands beside the data, for people.
        let detail: String = detail.chars().take(500).filter(|it| *it != '\0').collect();
        match self.run(&ended(false, &detail)).await {
            Ok(_) => Ok(Done { index, succeeded: false, detail }),
            Err(error) => self.known(height, index).await?.ok_or(error),
        }
    }

    async fn known(&mut self, height: Height, index: u32) -> Result<Option<Done>> {
        Ok(self.progress(height).await?.into_iter().find(|done| done.index == index))
    }

    /// What changed since the last block was finished, by table, key and serial.
    pub async fn entries(&mut self) -> Result<Vec<Entry>> {
        let digest = self.dialect().own("digest");
        let sql = match self.dialect() {
            Dialect::Postgres => format!(
                "SELECT seq, tab, rowkey, serial, kind, encode(before, 'hex'), \
                 encode(after, 'hex'), place, writer FROM {digest} ORDER BY tab, rowkey, serial"
            ),
            Dialect::MariaDb => format!(
                "SELECT seq, tab, rowkey, serial, kind, LOWER(HEX(\"before\")), \
                 LOWER(HEX(\"after\")), place, writer FROM {digest} ORDER BY tab, rowkey, serial"
            ),
        };
        let mut entries = Vec::new();
        self.each(&sql, |row| {
            let entry = Entry::of(&row);
            let what = || Error::new(SqlState::DATA_CORRUPTED, "the digest table cannot be read");
            entries.push(entry.ok_or_else(|| what().with_detail(format!("A row is {row:?}.")))?);
            Ok(())
        })
        .await?;
        Ok(entries)
    }

    /// Ends a block: what was read of the digest table is removed. False, and nothing is done,
    /// where more has come among it meanwhile, which the block does not tell of.
    pub async fn finish(&mut self, height: Height, read: &[Entry]) -> Result<bool> {
        let [digest, progress, state] =
            ["digest", "progress", "state"].map(|name| self.dialect().own(name));
        let newest = read.iter().map(|entry| entry.sequence).max().unwrap_or(0);
        self.run("BEGIN").await?;
        let finished = async {
            let removed = format!("DELETE FROM {digest} WHERE seq <= {newest}");
            if self.run(&removed).await? != read.len() as u64 {
                return Ok(false);
            }
            self.run(&format!("DELETE FROM {progress} WHERE block <= {height}")).await?;
            let before = height - 1;
            let sql = format!(
                "UPDATE {state} SET value = '{height}' WHERE name = 'block' AND value = '{before}'"
            );
            Ok(self.run(&sql).await? == 1)
        }
        .await;
        self.run(if matches!(finished, Ok(true)) { "COMMIT" } else { "ROLLBACK" }).await?;
        finished
    }

    /// The key and the image hash of each row of a table whose key is in the range, by key.
    pub async fn images(
        &mut self,
        table: &Table,
        range: &Range,
        take: impl FnMut(String, Hash),
    ) -> Result<()> {
        let name = self.dialect().name(&table.name);
        self.images_of(&name, (table, range), take).await
    }

    /// Those of a table's copy.
    async fn images_of(
        &mut self,
        name: &str,
        (table, range): (&Table, &Range),
        mut take: impl FnMut(String, Hash),
    ) -> Result<()> {
        let dialect = self.dialect();
        let (key, image) = (dialect.key_text("r", table), dialect.image_hex("r", table));
        let by_key = dialect.by_key("r", table);
        let compared = |than: &str, key: &Option<String>| {
            let key = dialect.text(key.as_ref()?);
            Some(format!("{by_key} {than} {key}"))
        };
        let bounds = [compared(">", &range.behind), compared("<=", &range.upto)];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        let condition = match bounds.is_empty() {
            true => String::new(),
            false => format!("WHERE {} ", bounds.join(" AND ")),
        };
        let sql = format!("SELECT {key}, {image} FROM {name} r {condition}ORDER BY {by_key}");
        self.each(&sql, |row| {
            let [Some(key), Some(image)] = &row[..] else {
                let what = format!("a row of {} cannot be read", table.name);
                return Err(Error::new(SqlState::DATA_CORRUPTED, what));
            };
            take(key.clone(), ledger::hash::hash_from_hex(image)?);
            Ok(())
        })
        .await
    }

    /// The digest of all rows of all tables.
    pub async fn state_root(&mut self, schema: &Schema) -> Result<Hash> {
        Ok(self.state_of(schema).await?.0)
    }

    /// The same, with the stretches of each table.
    pub async fn state_of(&mut self, schema: &Schema) -> Result<(Hash, Vec<Vec<Stretch>>)> {
        let (mut roots, mut all) = (merkle::MerkleBuilder::new(), Vec::new());
        for (number, table) in schema.numbered() {
            let (mut rows, mut stretches) = (merkle::MerkleBuilder::new(), Stretches::default());
            let mut leaf = Vec::new();
            self.images(table, &Range::default(), |key, image| {
                leaf.clear();
                leaf.extend_from_slice(key.as_bytes());
                leaf.extend_from_slice(&image);
                rows.push(&leaf);
                stretches.push(&key, &image, &leaf);
            })
            .await?;
            all.push(stretches.into_all());
            let mut leaf = number.to_be_bytes().to_vec();
            leaf.extend_from_slice(&rows.leaves().to_be_bytes());
            leaf.extend_from_slice(&rows.root());
            roots.push(&leaf);
        }
        Ok((roots.root(), all))
    }

    fn unreadable(&self, what: &str, text: &str) -> Error {
        let message = format!("{what} cannot be read in {}", self.name());
        Error::new(SqlState::DATA_CORRUPTED, message).with_detail(format!("It is {text:?}."))
    }
}

/// As either system prints a truth value.
pub(crate) fn is_true(text: &Option<String>) -> bool {
    matches!(text.as_deref(), Some("t" | "1" | "true"))
}

impl Entry {
    fn of(row: &[Option<String>]) -> Option<Entry> {
        let [sequence, table, key, serial, kind, before, after, place, writer] = row else {
            return None;
        };
        let hash = |text: &Option<String>| match text {
            None => Some(None),
            Some(text) => ledger::hash::hash_from_hex(text).ok().map(Some),
        };
        let kind = match kind.as_deref()? {
            "I" => Change::Inserted,
            "U" => Change::Updated,
            "D" => Change::Deleted,
            _ => return None,
        };
        Some(Entry {
            sequence: sequence.as_deref()?.parse().ok()?,
            table: table.as_deref()?.parse().ok()?,
            key: key.clone()?,
            serial: serial.as_deref()?.parse().ok()?,
            kind,
            before: hash(before)?,
            after: hash(after)?,
            place: place.clone(),
            writer: writer.clone()?,
        })
    }
}
