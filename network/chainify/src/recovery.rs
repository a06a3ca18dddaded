//! How an organisation whose database deviates from the agreed results is brought back to them.
//!
//! | case, cheapest first | rows are copied from | then run again |
//! |---|---|---|
//! | the newest checkpoint verifies | it | the blocks after it |
//! | an older one verifies | it | more blocks |
//! | none does, or running again gives another result | another's next checkpoint | |
//!
//! No step trusts what it reads; each is verified against the ledger: a checkpoint by the state
//! root of its block, a block by its agreed result, another organisation's rows by the certified
//! state root.

use std::collections::BTreeMap;

use bytes::Bytes;
use ledger::merkle::MerkleBuilder;
use ledger::{Batch, BlockResult, Certificate, Hash, Record, Stream, ZERO_HASH, row_image_hash};
use types::{Error, Height, Result, SqlState};

use crate::ballot::{AGAIN_MAX, Stage, short};
use crate::block::differences;
use crate::canonical::{fields, put, row_name};
use crate::member::{Member, detail};
use crate::organisation::{Executed, is_deviation};
use crate::schema::{Schema, Table};
use crate::status::Deviation;
use crate::stretches::{self, Range, Stretch};
use crate::wire::{self, Request};

/// Rows that are named of one block.
const NAMED_MAX: usize = 20;
/// Rows of one statement.
const INSERTED: usize = 500;

impl Member {
    /// Back to what was agreed on, with the block under way, if it was decided otherwise than here.
    /// How many blocks were taken from others.
    pub(crate) async fn recover(
        &mut self,
        decided: Option<(&Batch, Stage, &Certificate)>,
    ) -> Result<u64> {
        let agreed = self.organisation.book.agreed();
        for checkpoint in self.organisation.database.checkpoints().await? {
            if checkpoint > agreed {
                continue;
            }
            self.shared.doing(format!("recovering from the checkpoint of block {checkpoint}"));
            match self.from_checkpoint(checkpoint, decided).await {
                Ok(true) => {
                    let here = self.organisation.book.agreed();
                    self.shared.recovered(format!(
                        "recovered block {here} from the checkpoint of block {checkpoint}"
                    ));
                    self.shared.reached(self.organisation.book.ordered(), here);
                    return Ok(0);
                }
                Ok(false) => {}
                Err(error) => return Err(error),
            }
        }
        let wanted = decided.map_or(agreed, |(batch, _, _)| batch.height());
        self.adopt(wanted).await
    }

    /// Whether a checkpoint and the blocks after it come to what was agreed on.
    async fn from_checkpoint(
        &mut self,
        checkpoint: Height,
        decided: Option<(&Batch, Stage, &Certificate)>,
    ) -> Result<bool> {
        let organisation = &mut self.organisation;
        if !organisation.back_to(checkpoint).await? {
            let what = "its rows are not those of the ledger's state root";
            self.shared.event(format!("the checkpoint of block {checkpoint} is no good: {what}"));
            return Ok(false);
        }
        for height in checkpoint + 1..=organisation.book.agreed() {
            match organisation.replay(height).await {
                Ok(()) => {}
                Err(error) if is_deviation(&error) => return Ok(self.again(&error)),
                Err(error) => return Err(error),
            }
        }
        let Some((batch, stage, certificate)) = decided else { return Ok(true) };
        let executed = match organisation.execute(batch).await {
            Ok(executed) => executed,
            Err(error) if is_deviation(&error) => return Ok(self.again(&error)),
            Err(error) => return Err(error),
        };
        if executed.result.hash() != certificate.said.result_hash {
            let again = self.deviation(batch.height(), Ok(&executed), certificate).await;
            self.shared.event(format!("once more: {}", again.reported(self.shared.member)));
            return Ok(false);
        }
        self.shared.certified(stage, certificate)?;
        self.shared.changed(batch.height(), &executed);
        self.organisation.agree(&executed).await?;
        Ok(true)
    }

    /// Back to the newest checkpoint that holds, to run a block once more on what was agreed on.
    /// `None`: it comes to nothing that holds together.
    pub(crate) async fn run_again(&mut self, batch: &Batch) -> Result<Option<Executed>> {
        let height = batch.height();
        for checkpoint in self.organisation.database.checkpoints().await? {
            let what = format!("running block {height} again from the checkpoint of {checkpoint}");
            self.shared.doing(what);
            if !self.from_checkpoint(checkpoint, None).await? {
                continue;
            }
            let executed = match self.organisation.execute(batch).await {
                Ok(executed) => executed,
                Err(error) if is_deviation(&error) => {
                    self.again(&error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.shared.event(format!(
                "ran block {height} again from the checkpoint of block {checkpoint}: {}",
                short(&executed.result.hash())
            ));
            self.shared.changed(height, &executed);
            return Ok(Some(executed));
        }
        Ok(None)
    }

    fn again(&self, error: &Error) -> bool {
        self.shared.event(format!("once more: {}: {}", error.message(), detail(error)));
        false
    }

    /// Takes the rows of a checkpoint at or above a height from another organisation, and the
    /// blocks up to there.
    async fn adopt(&mut self, wanted: Height) -> Result<u64> {
        self.shared.event(format!(
            "running blocks again does not lead to what was agreed on: the rows of the next \
             checkpoint, at block {wanted} or above, are taken from another organisation"
        ));
        loop {
            for member in self.shared.electors().keys.clone().into_keys() {
                if member == self.shared.member {
                    continue;
                }
                self.shared.doing(format!("waiting for a checkpoint of organisation {member}"));
                match self.adopt_from(member, wanted).await {
                    Ok(Some(blocks)) => return Ok(blocks),
                    Ok(None) => {}
                    Err(error) => {
                        let why = detail(&error);
                        tracing::warn!(member, %error, why, "its rows cannot be taken");
                    }
                }
            }
            // A block that nothing waits for leads to a checkpoint too.
            let orderer = self.shared.orderer();
            let _ = self.exchange.call(orderer, Request::Nudge.encode()).await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    async fn ask(&self, member: u64, request: Request) -> Result<Bytes> {
        let answer = self.exchange.call(member, request.encode()).await;
        answer.map_err(|error| {
            let what = format!("organisation {member} does not answer");
            Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, what)
                .with_detail(error.to_string())
        })
    }

    /// `None`: it has no such checkpoint yet.
    async fn adopt_from(&mut self, member: u64, wanted: Height) -> Result<Option<u64>> {
        let answer = self.ask(member, Request::Checkpoint { height: wanted }).await?;
        let Ok(checkpoint) = answer[..].try_into().map(Height::from_be_bytes) else {
            return Ok(None);
        };
        let mut blocks = Vec::new();
        for height in self.organisation.book.agreed() + 1..=checkpoint {
            blocks.push(self.block_of(member, height).await?);
        }
        let root = match blocks.last() {
            Some((_, result, _, _)) => result.header().state_root,
            None => match self.organisation.book.block(checkpoint)?.1 {
                Some(result) => result.header().state_root,
                None => return Ok(None),
            },
        };
        let schema = self.shared.terms.schema.clone();
        let rows = self.rows_of(member, checkpoint, &schema).await?;
        if state_root(&schema, &rows)? != root {
            let what = format!("the rows of organisation {member} are not those of the ledger");
            return Err(Error::new(SqlState::DATA_CORRUPTED, what));
        }
        // Orders and results first: a crash after them is recovered like any other deviation.
        let count = blocks.len() as u64;
        for (batch, result, stage, certificate) in blocks {
            if self.organisation.book.ordered() < batch.height() {
                self.organisation.order_sealed(&batch)?;
            }
            self.shared.certified(stage, &certificate)?;
            self.organisation.book.agree(&result)?;
        }
        self.fill(checkpoint, &schema, &rows).await?;
        self.organisation.adopted(checkpoint).await?;
        self.shared.recovered(format!(
            "took the rows of block {checkpoint} from organisation {member}: the ledger's \
             certified state root confirms them"
        ));
        self.shared.reached(self.organisation.book.ordered(), checkpoint);
        Ok(Some(count))
    }

    /// A block that was agreed on, with its certificate, all of which is checked.
    async fn block_of(
        &self,
        member: u64,
        height: Height,
    ) -> Result<(Batch, BlockResult, Stage, Certificate)> {
        let refused = |why: &str| {
            let what = format!("organisation {member} gives no good block {height}");
            Error::new(SqlState::DATA_CORRUPTED, what).with_detail(why.to_owned())
        };
        let answer = self.ask(member, Request::Block { height }).await?;
        let pieces = wire::read_pieces(&answer).map_err(|error| refused(&error.to_string()))?;
        let [order, result] = &pieces[..] else { return Err(refused("It has none yet.")) };
        let record = |stream, bytes: &Bytes| Record::from_payload(stream, bytes.clone());
        let batch = Batch::of(&record(Stream::Orders, order)?)?;
        let result = BlockResult::of(&record(Stream::Results, result)?)?;
        let (stage, certificate) = self.certificate_of(member, height).await?;
        certificate.verify(&stage.electors(self.shared.electors()))?;
        let fits = (certificate.said.height, certificate.said.result_hash)
            == (stage.number(height), result.hash())
            && (batch.height(), result.header().order_hash) == (height, batch.hash())
            && ledger::merkle::root(batch.envelopes()) == batch.header().envelopes_root;
        if fits {
            Ok((batch, result, stage, certificate))
        } else {
            Err(refused("Its hashes differ."))
        }
    }

    /// Of the votes by which a block was agreed on.
    async fn certificate_of(&self, member: u64, height: Height) -> Result<(Stage, Certificate)> {
        let again = (1..=AGAIN_MAX).map(Stage::Again);
        for stage in std::iter::once(Stage::Result).chain(again) {
            let asked = Request::Vote { stage, height, own: None };
            let votes = wire::Votes::decode(&self.ask(member, asked).await?);
            if let Ok(wire::Votes { certificate: Some(certificate), .. }) = votes {
                return Ok((stage, certificate));
            }
        }
        let what = format!("organisation {member} has no certificate of block {height}");
        Err(Error::new(SqlState::UNDEFINED_OBJECT, what))
    }

    /// Rows of a checkpoint, table by table, by key.
    async fn rows_of(
        &self,
        member: u64,
        checkpoint: Height,
        schema: &Schema,
    ) -> Result<Vec<Vec<String>>> {
        let mut all = Vec::new();
        for (number, table) in schema.numbered() {
            let mut rows: Vec<String> = Vec::new();
            loop {
                let behind = rows.last().map(|row| key_of(table, row)).transpose()?;
                let behind = behind.unwrap_or_default();
                let asked = Request::Rows { height: checkpoint, table: number, behind };
                let answer = self.ask(member, asked).await?;
                let pieces = wire::read_pieces(&answer).map_err(|error| {
                    let what = format!("rows of organisation {member} cannot be read");
                    Error::new(SqlState::PROTOCOL_VIOLATION, what).with_detail(error.to_string())
                })?;
                let count = pieces.len();
                for piece in pieces {
                    rows.push(String::from_utf8(piece.to_vec()).map_err(|_| {
                        let what = format!("a row of organisation {member} is no UTF-8");
                        Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, what)
                    })?);
                }
                if count < wire::ROWS_MAX {
                    break;
                }
            }
            all.push(rows);
        }
        Ok(all)
    }

    async fn fill(
        &mut self,
        checkpoint: Height,
        schema: &Schema,
        rows: &[Vec<String>],
    ) -> Result<()> {
        let database = &mut self.organisation;
        let dialect = database.database.dialect();
        let mut all = Vec::new();
        for name in database.referred_first().iter().rev() {
            all.push(format!("DELETE FROM {}", dialect.name(name)));
        }
        for name in database.referred_first() {
            let found = schema.tables.iter().zip(rows).find(|(table, _)| table.name == *name);
            let Some((table, rows)) = found else { continue };
            for some in rows.chunks(INSERTED) {
                all.push(dialect.insert(table, some)?);
            }
        }
        database.database.replaced(checkpoint, all).await
    }

    /// Rows that are other ones in a checkpoint of another organisation, whatever changed them.
    async fn other_rows(
        &mut self,
        member: u64,
        height: Height,
        stretches: &[Vec<Stretch>],
    ) -> Result<Vec<String>> {
        let schema = self.shared.terms.schema.clone();
        let mut named = Vec::new();
        for ((number, table), ours) in schema.numbered().zip(stretches) {
            let asked = Request::Stretches { height, table: number };
            let theirs = stretches::decode(&self.ask(member, asked).await?).unwrap_or_default();
            // One that was started since has none: then all rows are compared.
            for range in stretches::differing(ours, &theirs) {
                self.compare((member, height), (number, table), range, &mut named).await?;
            }
        }
        Ok(named)
    }

    async fn compare(
        &mut self,
        (member, height): (u64, Height),
        (number, table): (u32, &Table),
        range: Range,
        named: &mut Vec<String>,
    ) -> Result<()> {
        let mut own = BTreeMap::new();
        let images = self.organisation.database.images(table, &range, |key, image| {
            own.insert(key, image);
        });
        images.await?;
        let asked = Request::Images { height, table: number, range };
        let mut answer = self.ask(member, asked.clone()).await;
        // It makes its checkpoint when it has agreed.
        for _ in 0..40 {
            if answer.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            answer = self.ask(member, asked.clone()).await;
        }
        let theirs = wire::read_images(&answer?).map_err(|error| {
            let what = format!("images of organisation {member} cannot be read");
            Error::new(SqlState::PROTOCOL_VIOLATION, what).with_detail(error.to_string())
        })?;
        for (key, image) in theirs {
            match own.remove(&key) {
                Some(here) if here == image => {}
                Some(_) => named.push(format!("{} is another row here", row_name(table, &key))),
                None => named.push(format!("{} is missing here", row_name(table, &key))),
            }
        }
        let more = own.keys().map(|key| format!("{} is here alone", row_name(table, key)));
        named.extend(more);
        Ok(())
    }

    /// What deviates, with its rows. Where a block came to no result, why.
    pub(crate) async fn deviation(
        &mut self,
        height: Height,
        executed: std::result::Result<&Executed, &str>,
        certificate: &Certificate,
    ) -> Deviation {
        let there = short(&certificate.said.result_hash);
        let agree: Vec<u64> = certificate.votes.iter().map(|(member, _)| *member).collect();
        let known = Deviation { height, there, agree, ..Deviation::default() };
        let executed = match executed {
            Ok(executed) => executed,
            Err(why) => return Deviation { rows: vec![why.to_owned()], ..known },
        };
        let others: Vec<u64> =
            known.agree.iter().copied().filter(|other| *other != self.shared.member).collect();
        let mut rows = Vec::new();
        for other in others {
            let Ok(answer) = self.ask(other, Request::Effects { height }).await else { continue };
            let Ok(theirs) = wire::read_effects(&answer) else { continue };
            rows = differences(&self.shared.terms.schema, &executed.net, &theirs);
            if rows.is_empty() && executed.result.header().state_root != ZERO_HASH {
                let stretches = &executed.stretches;
                rows = self.other_rows(other, height, stretches).await.unwrap_or_default();
            }
            break;
        }
        let more = rows.len().saturating_sub(NAMED_MAX) as u64;
        rows.truncate(NAMED_MAX);
        if rows.is_empty() {
            rows.push("transactions that failed, or rows that it did not change".to_owned());
        }
        Deviation { here: short(&executed.result.hash()), rows, more, ..known }
    }
}

/// The key of a row's text.
fn key_of(table: &Table, row: &str) -> Result<String> {
    let mut key = String::new();
    for (column, field) in table.columns.iter().zip(fields(row)?) {
        if column.is_key {
            put(field, &mut key);
        }
    }
    Ok(key)
}

/// As a database computes it.
fn state_root(schema: &Schema, rows: &[Vec<String>]) -> Result<Hash> {
    let mut roots = MerkleBuilder::new();
    for ((number, table), rows) in schema.numbered().zip(rows) {
        let mut tree = MerkleBuilder::new();
        for row in rows {
            let mut leaf = key_of(table, row)?.into_bytes();
            leaf.extend_from_slice(&row_image_hash(row.as_bytes()));
            tree.push(&leaf);
        }
        let mut leaf = number.to_be_bytes().to_vec();
        leaf.extend_from_slice(&tree.leaves().to_be_bytes());
        leaf.extend_from_slice(&tree.root());
        roots.push(&leaf);
    }
    Ok(roots.root())
}
