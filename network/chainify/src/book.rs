//! An organisation's own ledger: what was ordered, what it came to, in the folder's segments.
//!
//! Orders are durable before a database is touched; a result, before the block is ended there. So
//! the book is never behind the database by more than a block's end.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ledger::hash::{hash_from_hex, to_hex};
use ledger::votes::electors;
use ledger::{
    Batch, BlockReader, BlockResult, BlockWriter, ChainVerifier, Electors, Files, Genesis, Hash,
    LedgerId, LogError, LogOptions, OrderSeal, Parameters, read_block,
};
use order::{Envelope, Proposal, Remembered, Submissions};
use types::{Error, Height, Origin, Result, SqlState};

use crate::agreement::Policies;
use crate::approvals::Approvals;
use crate::block::EXECUTOR;
use crate::schema::Schema;
use crate::statement;

/// What the parameters name.
pub const PROTOCOL: &str = "chainify";
pub const ROW_ENCODING: &str = "chainify-1";
const TABLES: &str = "tables";
const FIRST_ROOT: &str = "first_root";
const CHECKPOINT_BLOCKS: &str = "checkpoint_blocks";
const AGREEMENT: &str = "agreement";

/// What all organisations agree on before the first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    pub ledger_id: LedgerId,
    pub time_us: i64,
    pub schema: Schema,
    /// Of all rows before the first block.
    pub first_root: Hash,
    /// All tables are hashed and copied after every so many blocks.
    pub checkpoint_blocks: u64,
    /// Number, public key and address of each; none where an organisation keeps a ledger alone.
    pub members: String,
    /// Votes that are enough.
    pub votes: usize,
    /// Who has to agree to a transaction before it is ordered.
    pub agreement: Policies,
}

impl Terms {
    pub fn genesis(&self) -> Genesis {
        let mut others = BTreeMap::from([
            (TABLES.to_owned(), self.schema.to_string()),
            (FIRST_ROOT.to_owned(), to_hex(&self.first_root)),
            (CHECKPOINT_BLOCKS.to_owned(), self.checkpoint_blocks.to_string()),
        ]);
        if !self.agreement.is_empty() {
            others.insert(AGREEMENT.to_owned(), self.agreement.to_string());
        }
        if !self.members.is_empty() {
            others.insert(electors::ELECTORS.to_owned(), self.members.clone());
            others.insert(electors::MEMBERS.to_owned(), self.members.clone());
            others.insert(electors::VOTES.to_owned(), self.votes.to_string());
            others.insert(electors::LIARS.to_owned(), "0".to_owned());
        }
        let (protocol, row_encoding) = (PROTOCOL.to_owned(), ROW_ENCODING.to_owned());
        let parameters = Parameters { protocol, row_encoding, others };
        let (ledger_id, time_us) = (self.ledger_id, self.time_us);
        Genesis { ledger_id, time_us, parameters, executor: EXECUTOR }
    }

    pub fn of(genesis: &Genesis) -> Result<Terms> {
        let Parameters { protocol, row_encoding, others } = &genesis.parameters;
        if (&**protocol, &**row_encoding) != (PROTOCOL, ROW_ENCODING) {
            let what = "the ledger is none of chained databases";
            let detail = format!("Its protocol is {protocol}, its rows are {row_encoding}.");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_detail(detail));
        }
        let named = |name: &str| others.get(name).map_or("", |text| text);
        let number = |name: &str| {
            let bad = || Error::new(SqlState::DATA_CORRUPTED, format!("{name} is no number"));
            named(name).parse::<u64>().map_err(|_| bad())
        };
        let members = named(electors::MEMBERS).to_owned();
        let votes = if members.is_empty() { 1 } else { number(electors::VOTES)? as usize };
        Ok(Terms {
            ledger_id: genesis.ledger_id,
            time_us: genesis.time_us,
            schema: Schema::parse(named(TABLES))?,
            first_root: hash_from_hex(named(FIRST_ROOT))?,
            checkpoint_blocks: number(CHECKPOINT_BLOCKS)?.max(1),
            members,
            votes,
            agreement: Policies::parse(named(AGREEMENT))?,
        })
    }

    /// Who votes; `None`: an organisation keeps a ledger alone.
    pub fn electors(&self) -> Result<Option<Electors>> {
        Electors::of(self.ledger_id, &self.genesis().parameters)
    }

    /// Whose agreement an envelope lacks, in words.
    pub fn lacks(
        &self,
        envelope: &Bytes,
        request: &[u8],
        (electors, approvals): (Option<&Electors>, &Approvals),
    ) -> Option<String> {
        let electors = electors.filter(|_| !self.agreement.is_empty())?;
        // What cannot be read is refused for that.
        let statements = statement::parsed(&statement::decode(request).ok()?, &self.schema).ok()?;
        let needed = self.agreement.needed(&statements, electors);
        match needed.is_nothing() {
            true => None,
            false => needed.lacks(&approvals.of(envelope, electors)),
        }
    }

    pub fn is_checkpoint(&self, height: Height) -> bool {
        height.is_multiple_of(self.checkpoint_blocks)
    }
}

pub struct Book {
    files: Arc<dyn Files>,
    log: BlockWriter,
    genesis: Genesis,
    terms: Terms,
    /// Whose approvals count.
    electors: Option<Electors>,
    parameters_hash: Hash,
    /// Of the last order.
    time_us: i64,
    submissions: Submissions,
    /// Of the last block that was ordered.
    admitted: Vec<Option<Envelope>>,
    approvals: Arc<Approvals>,
}

impl Book {
    pub fn create(files: Arc<dyn Files>, terms: &Terms) -> Result<Book> {
        let genesis = terms.genesis();
        let log = BlockWriter::begin(Arc::clone(&files), &genesis, LogOptions::default());
        let log = log.map_err(|error| disk("the ledger cannot be begun", &error))?;
        Book::with(files, log, genesis)
    }

    fn with(files: Arc<dyn Files>, log: BlockWriter, genesis: Genesis) -> Result<Book> {
        let terms = Terms::of(&genesis)?;
        Ok(Book {
            files,
            log,
            electors: terms.electors()?,
            terms,
            parameters_hash: genesis.parameters.hash()?,
            time_us: genesis.time_us,
            submissions: Submissions::new(genesis.ledger_id, Remembered::default()),
            admitted: Vec::new(),
            approvals: Arc::default(),
            genesis,
        })
    }

    /// Reads and checks all of it.
    pub fn open(files: Arc<dyn Files>) -> Result<Book> {
        let mut reader = BlockReader::open(Arc::clone(&files))?;
        let mut chain = ChainVerifier::new();
        let (mut genesis, mut admitting) = (None, None);
        let (mut last, approvals) = (Vec::new(), Approvals::default());
        loop {
            let recorded = match reader.next() {
                Ok(Some(recorded)) => recorded,
                Ok(None) => break,
                // What a crash tore was durable nowhere.
                Err(LogError::TornTail(tail)) => {
                    tracing::warn!(%tail, "the ledger's end was torn by a crash and is cut");
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            let batch = Batch::of(&recorded.batch)?;
            let result = recorded.result.as_ref().map(BlockResult::of).transpose()?;
            chain.push(&batch, result.as_ref())?;
            if batch.height() == 0 {
                let first = Genesis::from_batch(&batch, EXECUTOR)?;
                let terms = Terms::of(&first)?;
                let electors = terms.electors()?;
                let submissions = Submissions::new(first.ledger_id, Remembered::default());
                admitting = Some((submissions, terms, electors));
                genesis = Some(first);
            } else if let Some((submissions, terms, electors)) = &mut admitting {
                let by = (electors.as_ref(), &approvals);
                last = admitted(submissions, &batch, terms, by);
            }
        }
        let (Some(genesis), Some((submissions, ..)), Some(head)) =
            (genesis, admitting, chain.head())
        else {
            let what = "the folder holds no ledger";
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what)
                .with_hint("Make one by `tally chainify init`."));
        };
        let time_us = head.time_us;
        let log = BlockWriter::resume(reader, LogOptions::default());
        let log = log.map_err(|error| disk("the ledger cannot be written", &error))?;
        Ok(Book { time_us, submissions, admitted: last, ..Book::with(files, log, genesis)? })
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    pub fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// The last block that was ordered.
    pub fn ordered(&self) -> Height {
        self.log.next_height() - 1
    }

    /// The last block that was agreed on.
    pub fn agreed(&self) -> Height {
        self.log.next_result() - 1
    }

    /// The hash of the last result.
    pub fn head(&self) -> Hash {
        self.log.head_hash()
    }

    pub fn time_us(&self) -> i64 {
        self.time_us
    }

    /// What a proposal is as the next block.
    pub fn seal(&self, proposal: Proposal) -> Result<Batch> {
        let seal = OrderSeal {
            ledger_id: self.terms.ledger_id,
            height: self.log.next_height(),
            previous_order_hash: self.log.head_order_hash(),
            time_us: proposal.time_us.max(self.time_us),
            proposer: proposal.proposer,
            parameters_hash: self.parameters_hash,
            seen_height: 0,
        };
        Batch::seal(seal, proposal.envelopes)
    }

    /// Makes the next block's order durable, and admits its envelopes.
    pub fn order(&mut self, batch: &Batch) -> Result<()> {
        let appended = self.log.append_order(&[batch.encode()?]);
        appended.map_err(|error| disk("an order cannot be written", &error))?;
        self.time_us = batch.header().time_us;
        let Book { submissions, terms, electors, approvals, .. } = self;
        let by = (electors.as_ref(), &**approvals);
        self.admitted = admitted(submissions, batch, terms, by);
        Ok(())
    }

    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// Envelopes of the last block that was ordered, those that are to run.
    pub fn admitted(&self) -> &[Option<Envelope>] {
        &self.admitted
    }

    /// Takes the last order back, which others do not have: nothing of it was run.
    pub fn take_back(&mut self) -> Result<()> {
        if self.ordered() == self.agreed() {
            let what = "what was agreed on is not taken back";
            return Err(Error::new(SqlState::INTERNAL_ERROR, what));
        }
        let cut = self.log.orders.cut(self.ordered());
        cut.map_err(|error| disk("an order cannot be taken back", &error))?;
        // What it has admitted, it has not.
        let mut submissions = Submissions::new(self.terms.ledger_id, Remembered::default());
        (self.admitted, self.time_us) = (Vec::new(), self.genesis.time_us);
        for height in 1..=self.ordered() {
            let (batch, _) = self.block(height)?;
            let by = (self.electors.as_ref(), &*self.approvals);
            self.admitted = admitted(&mut submissions, &batch, &self.terms, by);
            self.time_us = batch.header().time_us;
        }
        self.submissions = submissions;
        Ok(())
    }

    /// Makes the next block's result durable.
    pub fn agree(&mut self, result: &BlockResult) -> Result<()> {
        let appended = self.log.append_results(&[result.encode()?]);
        appended
            .and_then(|()| self.log.sync_results())
            .map_err(|error| disk("a result cannot be written", &error))
    }

    pub fn block(&self, height: Height) -> Result<(Batch, Option<BlockResult>)> {
        let Some(recorded) = read_block(&*self.files, height)? else {
            let what = format!("the ledger has no block {height}");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        };
        let result = recorded.result.as_ref().map(BlockResult::of).transpose()?;
        Ok((Batch::of(&recorded.batch)?, result))
    }
}

/// Copies of an envelope, what is none, and what not all have agreed to who had to, are not run.
fn admitted(
    submissions: &mut Submissions,
    batch: &Batch,
    terms: &Terms,
    by: (Option<&Electors>, &Approvals),
) -> Vec<Option<Envelope>> {
    if !terms.agreement.is_empty() {
        by.1.check(batch.envelopes());
    }
    submissions.advance(batch.header().time_us);
    let place = |index: usize| Origin { height: batch.height(), index: index as u32 };
    let mut envelopes = Vec::with_capacity(batch.envelopes().len());
    for (index, bytes) in batch.envelopes().iter().enumerate() {
        let run = Envelope::decode_with_id(bytes).ok().filter(|(envelope, id)| {
            // First: without them it does not use up its key.
            terms.lacks(bytes, &envelope.request, by).is_none()
                && submissions.admit(envelope, id, place(index)) == order::Admission::Run
        });
        if let Some((envelope, _)) = &run {
            let ended = submissions.decide(envelope, place(index), order::Ended::Committed);
            debug_assert!(ended.is_ok(), "it was admitted a line above");
        }
        envelopes.push(run.map(|(envelope, _)| envelope));
    }
    envelopes
}

fn disk(what: &str, error: &io::Error) -> Error {
    Error::new(ledger::files::sqlstate_of(error), what).with_detail(error.to_string())
}
