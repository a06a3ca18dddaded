//! COPY … FROM in a session: data comes in pieces, and rows go to the ledger as statements.

use std::sync::Arc;

use concurrency::Work;
use procedure::Procedure;
use types::{Error, Result};

use super::Session;
use super::answer::{Answer, Tag};
use super::copy_in::{CopyIn, Rows, no_copy};
use super::guard::{SHORT_TEXT_BYTES, aside};
use super::temporary::WritesTo;
use crate::copy::{CopyFormat, CopyOptions};

impl Session {
    pub(super) fn begin_copy(
        &mut self,
        text: &str,
        columns: usize,
        programs: (Arc<Procedure>, Option<Arc<Procedure>>),
        options: &CopyOptions,
    ) -> Result<Answer> {
        self.check_copy(options)?;
        let engine = &self.database.engine;
        self.guard.set_budget(engine.budget());
        let text_and_bytes = (text.to_owned(), engine.envelope_bytes_max());
        let how = (options, &self.info.zone);
        let block_rows = self.copy_block_rows();
        let copy = CopyIn::new(text_and_bytes, programs, how, block_rows, &self.guard);
        self.copy = Some(copy);
        let is_binary = options.format == CopyFormat::Binary;
        Ok(Answer::CopyIn { columns, is_binary })
    }

    pub async fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        let mut copy = self.copy.take().ok_or_else(no_copy)?;
        aside(bytes.len() <= SHORT_TEXT_BYTES, || copy.push(bytes))
            .map_err(|e| copy.with_rows_kept(e))?;
        while let Some(rows) = copy.next_block() {
            self.copy_rows(&mut copy, rows).await?;
        }
        self.copy = Some(copy);
        Ok(())
    }

    pub async fn copy_done(&mut self) -> Result<Answer> {
        let mut copy = self.copy.take().ok_or_else(no_copy)?;
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        aside(false, || copy.end()).map_err(|error| copy.with_rows_kept(error))?;
        while let Some(rows) = copy.next_block() {
            self.copy_rows(&mut copy, rows).await?;
        }
        let rest = copy.rows.take(usize::MAX);
        if copy.committed == 0 || !rest.rows.is_empty() {
            self.copy_rows(&mut copy, rest).await?;
        }
        Ok(Answer::Tag(Tag::Counted("COPY".into(), copy.committed)))
    }

    /// Some of the rows, as one statement.
    async fn copy_rows(&mut self, copy: &mut CopyIn, rows: Rows) -> Result<()> {
        let written = self.load(copy, rows).await;
        copy.committed += written.map_err(|error| copy.with_rows_kept(error))?;
        Ok(())
    }

    async fn load(&mut self, copy: &CopyIn, rows: Rows) -> Result<u64> {
        if self.transaction.is_none() && WritesTo::of(&copy.row) == WritesTo::Session {
            self.begin_implicit_block()?;
            let loaded = self.load_rows(copy, rows).await;
            return self.end_with(loaded).await;
        }
        self.load_rows(copy, rows).await
    }

    async fn load_rows(&mut self, copy: &CopyIn, mut rows: Rows) -> Result<u64> {
        let row = &copy.row;
        if !row.sequences.is_empty() {
            rows.extend(self.bring_for_rows(row, rows.rows.len()).await?)?;
        }
        let mut draws = self.draws(row)?;
        let loaded = aside(false, || rows.load(copy, &mut draws));
        let (asked, load, _lease) = loaded?;
        Ok(self.write(asked, Work::Load(load), draws).await?.count)
    }

    /// How many rows of a COPY are a transaction; a block of SQL's, or a key, holds them together.
    pub(super) fn copy_block_rows(&self) -> Option<usize> {
        let is_alone = self.transaction.is_none() && !self.settings.has_transaction_key();
        self.settings.copy_rows_per_block().filter(|_| is_alone)
    }

    /// What the client sends and is sent is in its own encoding, but for values in binary format.
    pub(super) fn check_copy(&self, options: &CopyOptions) -> Result<()> {
        let (_, encoding) = self.settings.show("client_encoding")?;
        let is_plain = ["UTF8", "SQL_ASCII"].contains(&encoding.as_str());
        match options.format == CopyFormat::Binary && !is_plain {
            false => Ok(()),
            true => Err(Error::unsupported(format_args!("COPY in binary format in {encoding}"))
                .with_hint("SET client_encoding TO UTF8, or use the text format.")),
        }
    }

    pub fn copy_failed(&mut self) {
        self.copy = None;
    }
}
