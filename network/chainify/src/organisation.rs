//! One organisation: its existing SQL database, and its book, the local copy of the ledger. Blocks
//! are processed one at a time.
//!
//! ```text
//! order durable ─► transactions, each with its place ─► digest table ─► result ─► (votes)
//!   in the book      in the database, in its progress      read once               │
//!                                      checkpoint ◄─ end in the database ◄─ result durable
//! ```
//!
//! **A crash between any two steps** can be resumed. The progress table in the database tells which
//! of the block's transactions have ended, and the last block recorded there tells whether the
//! block was ended. The book tells which results were agreed on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::hash::to_hex;
use ledger::{Batch, BlockResult, Files, Hash, ZERO_HASH};
use order::{Envelope, Proposal};
use sqlparser::ast::Statement;
use types::{Error, Height, Result, SqlState};

use crate::block::{self, Net, Outcome};
use crate::book::{Book, Terms};
use crate::database::{Database, Done, Workers};
use crate::schema::Schema;
use crate::stages::{self, access};
use crate::statement;
use crate::status::Run;
use crate::stretches::Stretch;

pub struct Organisation {
    pub database: Database,
    pub book: Book,
    workers: Workers,
    referred_first: Vec<String>,
    /// Why the database is not what its book says; it has to recover.
    behind: Option<Error>,
    /// Tables that changed since the last checkpoint.
    changed: BTreeSet<u32>,
    ran: Run,
}

/// What a block has come to here.
#[derive(Clone, Debug)]
pub struct Executed {
    pub result: BlockResult,
    pub net: Vec<Net>,
    /// Ends of those that were run.
    pub done: Vec<Done>,
    /// Of each table, where all rows were read.
    pub stretches: Vec<Vec<Stretch>>,
}

impl Organisation {
    /// Chains a database: its tables must be those of the terms.
    pub async fn create(files: Arc<dyn Files>, url: &str, terms: &Terms) -> Result<Organisation> {
        let mut database = Database::connect(url).await?;
        let inspected = database.inspect(&names(&terms.schema)).await?;
        check_schema(&database, terms, &inspected.schema)?;
        database.install(&terms.schema, terms.ledger_id).await?;
        let root = database.state_root(&terms.schema).await?;
        if root != terms.first_root {
            database.uninstall().await?;
            let what = format!("the rows of {} are not those of the ledger", database.name());
            let (here, there) = (to_hex(&root), to_hex(&terms.first_root));
            return Err(Error::new(SqlState::DATA_CORRUPTED, what)
                .with_detail(format!("Their digest is {here}, and the ledger begins with {there}."))
                .with_hint("All organisations begin with the same rows: copy those of another."));
        }
        database.checkpoint(0, &terms.schema, &BTreeSet::new()).await?;
        tracing::info!(database = database.name(), "chained");
        let book = Book::create(files, terms)?;
        Ok(Organisation {
            database,
            book,
            workers: Workers::new(url),
            referred_first: inspected.referred_first,
            behind: None,
            changed: BTreeSet::new(),
            ran: Run::default(),
        })
    }

    /// Goes on with a folder and a database that belong together.
    pub async fn open(files: Arc<dyn Files>, url: &str) -> Result<Organisation> {
        let book = Book::open(files)?;
        let mut database = Database::connect(url).await?;
        let terms = book.terms().clone();
        match database.ledger().await? {
            Some(id) if id == terms.ledger_id => {}
            _ => {
                let what = format!("{} is not chained to this ledger", database.name());
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, what)
                    .with_hint("Chain it by `tally chainify init`."));
            }
        }
        let inspected = database.inspect(&names(&terms.schema)).await?;
        check_schema(&database, &terms, &inspected.schema)?;
        // What changed is not known any more: all is copied once.
        let changed = terms.schema.numbered().map(|(number, _)| number).collect();
        let referred_first = inspected.referred_first;
        let (workers, behind, ran) = (Workers::new(url), None, Run::default());
        let mut organisation =
            Organisation { database, book, workers, referred_first, behind, changed, ran };
        organisation.resume().await?;
        Ok(organisation)
    }

    /// How many connections a block's transactions run on; with one, one after the other.
    pub fn set_connections(&mut self, connections: usize) {
        self.workers.set_connections(connections);
    }

    /// Goes on with a new connection: what was under way is found as after a crash.
    pub async fn reconnect(&mut self, url: &str) -> Result<()> {
        let mut database = Database::connect(url).await?;
        if database.ledger().await? != Some(self.book.terms().ledger_id) {
            let what = format!("{} is not chained to this ledger", database.name());
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        }
        self.database = database;
        self.workers.forget();
        self.resume().await
    }

    /// How blocks were run since it was opened.
    pub fn ran(&self) -> Run {
        self.ran
    }

    /// What a crash has left between database and book.
    async fn resume(&mut self) -> Result<()> {
        let schema = self.book.terms().schema.clone();
        if let Err(error) = self.database.check_triggers(&schema).await {
            if !is_deviation(&error) {
                return Err(error);
            }
            self.behind = Some(error);
        }
        let (here, agreed) = (self.database.height().await?, self.book.agreed());
        if here > agreed {
            let what = format!("{} is ahead of its ledger", self.database.name());
            let detail = format!("It has ended block {here}; the ledger ends with {agreed}.");
            return Err(Error::new(SqlState::DATA_CORRUPTED, what)
                .with_detail(detail)
                .with_hint("The ledger's folder is an older copy: put the newest one back."));
        }
        if here < agreed {
            tracing::warn!(here, agreed, "the database is behind its ledger and is brought up");
        }
        for height in here + 1..=agreed {
            match self.replay(height).await {
                Ok(()) => {}
                // Another result, or rows that changed meanwhile: to be recovered.
                Err(error) if is_deviation(&error) => {
                    tracing::error!(%error, height, "the database deviates");
                    self.behind = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs a block again that is agreed on.
    pub(crate) async fn replay(&mut self, height: Height) -> Result<()> {
        let (batch, agreed) = self.book.block(height)?;
        let Some(agreed) = agreed else {
            let what = format!("the ledger has no result of block {height}");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        };
        let refused = |index: usize| {
            agreed.outcomes().get(index).and_then(|it| Outcome::decode(it))
                == Some(Outcome::Refused)
        };
        let envelopes = decoded(&batch).into_iter().enumerate();
        let envelopes: Vec<Option<Envelope>> =
            envelopes.map(|(index, it)| it.filter(|_| !refused(index))).collect();
        let previous = agreed.header().previous_result_hash;
        let executed = self.run(&batch, &envelopes, previous).await?;
        if executed.result.hash() != agreed.hash() {
            return Err(deviation(&self.database, &executed, &agreed));
        }
        self.end(&executed).await
    }

    /// Why the database is not what its book says.
    pub fn behind(&self) -> Option<&Error> {
        self.behind.as_ref()
    }

    pub fn terms(&self) -> &Terms {
        self.book.terms()
    }

    /// The block that was ordered and not agreed on.
    pub fn under_way(&self) -> Result<Option<Batch>> {
        match self.book.ordered() > self.book.agreed() {
            true => Ok(Some(self.book.block(self.book.ordered())?.0)),
            false => Ok(None),
        }
    }

    /// Makes the next block's order durable.
    pub fn order(&mut self, proposal: Proposal) -> Result<Batch> {
        let batch = self.book.seal(proposal)?;
        self.order_sealed(&batch)?;
        Ok(batch)
    }

    pub fn order_sealed(&mut self, batch: &Batch) -> Result<()> {
        self.book.order(batch)
    }

    /// Runs what is left of a block, and reads what it came to.
    pub async fn execute(&mut self, batch: &Batch) -> Result<Executed> {
        if (self.book.ordered(), self.book.agreed() + 1) != (batch.height(), batch.height()) {
            let what = format!("block {} is not the one under way", batch.height());
            return Err(Error::new(SqlState::INTERNAL_ERROR, what));
        }
        let envelopes = self.book.admitted().to_vec();
        let previous = self.book.head();
        self.run(batch, &envelopes, previous).await
    }

    async fn run(
        &mut self,
        batch: &Batch,
        envelopes: &[Option<Envelope>],
        previous: Hash,
    ) -> Result<Executed> {
        let height = batch.height();
        let schema = self.book.terms().schema.clone();
        let transactions: Vec<Option<Transaction>> =
            envelopes.iter().map(|it| Transaction::of(it.as_ref()?, &schema)).collect();
        let mut done: BTreeMap<u32, Done> = BTreeMap::new();
        for known in self.database.progress(height).await? {
            done.insert(known.index, known);
        }
        for stage in self.stages(&transactions, &schema).await? {
            let texts = |index: u32| transactions.get(index as usize)?.as_ref();
            let waiting: Vec<(u32, &[String])> = stage
                .into_iter()
                .map(|place| place as u32)
                .filter(|index| !done.contains_key(index))
                .filter_map(|index| Some((index, &texts(index)?.texts[..])))
                .collect();
            let ended = self.workers.run(&mut self.database, height, &waiting).await?;
            self.ran.stages += u64::from(!ended.is_empty());
            self.ran.transactions += ended.len() as u64;
            done.extend(ended.into_iter().map(|ended| (ended.index, ended)));
        }
        let outcome = |(index, transaction): (u32, &Option<Transaction>)| match done.get(&index) {
            _ if transaction.is_none() => Outcome::Refused,
            Some(Done { succeeded: true, .. }) => Outcome::Succeeded,
            _ => Outcome::Failed,
        };
        let outcomes: Vec<Outcome> = (0..).zip(&transactions).map(outcome).collect();
        self.database.check_triggers(&schema).await?;
        let net = block::net(height, &self.database.entries().await?)?;
        let (state_root, stretches) = match self.book.terms().is_checkpoint(height) {
            true => {
                // Columns that came, foreign keys that change rows by themselves.
                let found = self.database.inspect(&names(&schema)).await?;
                check_schema(&self.database, self.book.terms(), &found.schema)?;
                let (root, stretches) = self.database.state_of(&schema).await?;
                (Some(root), stretches)
            }
            false => (None, Vec::new()),
        };
        let result = block::result(batch, previous, &outcomes, &net, state_root)?;
        Ok(Executed { result, net, done: done.into_values().collect(), stretches })
    }

    /// Which transactions run beside each other, by their places.
    async fn stages(
        &mut self,
        transactions: &[Option<Transaction>],
        schema: &Schema,
    ) -> Result<Vec<Vec<usize>>> {
        if self.workers.connections() == 1 {
            let places = transactions.iter().enumerate();
            return Ok(places.filter(|(_, it)| it.is_some()).map(|(at, _)| vec![at]).collect());
        }
        // Indexes of the database alone may have come since.
        let rules = self.database.rules(schema).await?;
        let accesses = |transaction: &Option<Transaction>| {
            transaction.as_ref().map(|it| access::accesses(&it.parsed, schema, &rules))
        };
        let accesses: Vec<_> = transactions.iter().map(accesses).collect();
        Ok(stages::stages(&accesses, schema, &rules))
    }

    /// The block's result is the one that was agreed on: it gets into the book, then the block is
    /// ended in the database.
    pub async fn agree(&mut self, executed: &Executed) -> Result<()> {
        self.book.agree(&executed.result)?;
        self.end(executed).await
    }

    async fn end(&mut self, executed: &Executed) -> Result<()> {
        let height = executed.result.height();
        let entries = self.database.entries().await?;
        let net = block::net(height, &entries)?;
        if net != executed.net || !self.database.finish(height, &entries).await? {
            let name = self.database.name();
            let what = format!("rows of {name} changed while block {height} ended");
            let rows = block::differences(&self.book.terms().schema, &net, &executed.net);
            return Err(Error::new(SqlState::SERIALIZATION_FAILURE, what)
                .with_detail(rows.join("; "))
                .with_hint("Another session writes chained tables."));
        }
        self.changed.extend(executed.net.iter().map(|net| net.table));
        if executed.result.header().state_root != ZERO_HASH {
            let schema = self.book.terms().schema.clone();
            self.database.checkpoint(height, &schema, &self.changed).await?;
            self.changed.clear();
        }
        Ok(())
    }

    /// All tables are what they were after a checkpoint's block, which the ledger confirms. False:
    /// the copy is not what the ledger says.
    pub(crate) async fn back_to(&mut self, checkpoint: Height) -> Result<bool> {
        let schema = self.book.terms().schema.clone();
        self.database.mend_triggers(&schema).await?;
        self.database.restore(checkpoint, &schema, &self.referred_first).await?;
        let root = match checkpoint {
            0 => self.book.terms().first_root,
            _ => self.book.block(checkpoint)?.1.map_or(ZERO_HASH, |it| it.header().state_root),
        };
        self.changed = schema.numbered().map(|(number, _)| number).collect();
        self.behind = None;
        Ok(self.database.state_root(&schema).await? == root)
    }

    /// All tables have been replaced by what they are after a checkpoint's block.
    pub(crate) async fn adopted(&mut self, checkpoint: Height) -> Result<()> {
        let schema = self.book.terms().schema.clone();
        self.changed = schema.numbered().map(|(number, _)| number).collect();
        self.behind = None;
        self.database.checkpoint(checkpoint, &schema, &self.changed.clone()).await?;
        self.changed.clear();
        Ok(())
    }

    /// Tables as foreign keys want them filled.
    pub fn referred_first(&self) -> &[String] {
        &self.referred_first
    }
}

/// What of an envelope runs.
struct Transaction {
    texts: Vec<String>,
    parsed: Vec<Statement>,
}

impl Transaction {
    fn of(envelope: &Envelope, schema: &Schema) -> Option<Transaction> {
        let texts = statement::decode(&envelope.request).ok()?;
        let parsed = statement::parsed(&texts, schema).ok()?;
        Some(Transaction { texts, parsed })
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.tables.iter().map(|table| table.name.clone()).collect()
}

fn decoded(batch: &Batch) -> Vec<Option<Envelope>> {
    batch.envelopes().iter().map(|bytes| Envelope::decode(bytes).ok()).collect()
}

fn check_schema(database: &Database, terms: &Terms, found: &Schema) -> Result<()> {
    let Some(difference) = terms.schema.difference(found) else { return Ok(()) };
    let what = format!("the tables of {} are not those of the ledger", database.name());
    let detail = format!("The ledger has, and the database has: {difference}.");
    Err(Error::new(SqlState::DATATYPE_MISMATCH, what)
        .with_detail(detail)
        .with_hint("Change the table to what the ledger's first block names."))
}

/// Whether the database has come to something else, or rows were changed around the ledger.
pub(crate) fn is_deviation(error: &Error) -> bool {
    [SqlState::DATA_CORRUPTED, SqlState::SERIALIZATION_FAILURE].contains(&error.code())
}

fn deviation(database: &Database, executed: &Executed, agreed: &BlockResult) -> Error {
    let height = agreed.height();
    let what = format!("block {height} comes to something else in {}", database.name());
    let (here, there) = (executed.result.header(), agreed.header());
    let which = match () {
        () if here.outcomes_root != there.outcomes_root => {
            "Other transactions have failed than did before."
        }
        () if here.effects_root != there.effects_root => "Its rows have changed to other values.",
        () => "Rows differ that the block has not changed.",
    };
    Error::new(SqlState::DATA_CORRUPTED, what).with_detail(which)
}
