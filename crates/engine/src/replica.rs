//! The replica: a value that blocks go into and sealed blocks come out of.
//!
//! No clock, no file, no socket and no thread but the crew's: what a block becomes is a function of
//! the blocks before it. A live node, recovery, `verify` and a test all run this same code.
//!
//! ```text
//!   payloads ─► compile ─► protocol.prepare ─► protocol.finish ─► effects, outcomes ─► header
//! ```
//!
//! Where transactions run as they arrive, the block is sealed in the serial order that they took,
//! and executing it again means one by one: of all replicas only the one that seals runs the
//! protocol. Where there is no such order, it is sealed with the rows that it left ([`images`]).

use std::sync::Arc;

use bytes::Bytes;
use concurrency::sealed::in_order;
use concurrency::{
    Block, BlockReport, Carried, Crew, History, Outcome, Protocol, Sealed, Snapshots, Work,
};
use ledger::block::{Block as LedgerBlock, BlockSeal};
use ledger::chain::check_parameters;
use ledger::genesis::Genesis;
use ledger::header::BlockHeader;
use ledger::parameters::Parameters;
use ledger::{Hash, LedgerId};
use protocols::serial::Serial;
use storage::{Changes, Store};
use types::row::ROW_ENCODING;
use types::{Error, Height, Position, SqlState};

use crate::effects::Effects;
use crate::images;
use crate::language::{Language, SchemaChange};
use crate::queue::room_beside;
use crate::transaction::{Body, Transaction, encode_outcome};

/// A transaction on its way into a block: its ledger bytes and, where its session has done so
/// already, its program.
#[derive(Clone)]
pub struct Input {
    pub payload: Bytes,
    pub compiled: Option<Compiled>,
}

/// A program and the schema version it was compiled under.
#[derive(Clone)]
pub struct Compiled {
    pub work: Arc<Work>,
    pub schema_version: u64,
}

/// A block that has been executed and sealed.
pub struct Executed {
    pub block: LedgerBlock,
    pub hash: Hash,
    /// One for each transaction, in block order.
    pub outcomes: Vec<Outcome>,
    pub serial_order: Vec<Position>,
    /// Which of the inputs each transaction was, where the block is not in their order: it is in
    /// the serial order that they took.
    pub arrivals: Option<Vec<Position>>,
    /// Those that the protocol puts off to the next block, in ascending order.
    pub deferred: Vec<Position>,
    /// What they were made of: to stand first in the next block, in this order.
    pub put_off: Vec<Input>,
    pub report: BlockReport,
    /// Keeps the images of the changed rows readable as long as it lives.
    pub effects: Effects,
}

/// What executing a recorded block once more gave, before it is held against the record.
pub struct Again {
    /// `None`: nothing was run that could tell them, see [`crate::images`].
    pub outcomes: Option<Vec<Outcome>>,
    pub effects: Effects,
    /// The recorded header, but for what this replica says differently. The effects root is the
    /// recorded one: it takes hashing, which can wait.
    pub header: BlockHeader,
}

/// A block of a chain, the last one where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub height: Height,
    pub hash: Hash,
    pub time_us: i64,
}

/// What a replica is between two blocks, but for its store and its language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boundary {
    /// Of the last block.
    pub header: BlockHeader,
    /// In force for the next one.
    pub parameters: Arc<Parameters>,
}

pub struct Replica {
    ledger_id: LedgerId,
    store: Arc<Store>,
    language: Arc<dyn Language>,
    crew: Crew,
    protocol: Arc<dyn Protocol>,
    parameters: Arc<Parameters>,
    parameters_hash: Hash,
    last: BlockHeader,
    head: Head,
    /// The last block that ran alone.
    barrier: Height,
    history: History,
    carried: Carried,
}

/// Where a protocol reads older snapshots than the newest, every so many blocks is a barrier, so
/// that a replica can begin there with the newest state alone.
const BARRIER_BLOCKS: Height = 256;

/// Why a replica must stop: it may have diverged, or its ledger names something it does not know.
#[derive(Clone, PartialEq, Debug)]
pub struct Halt(pub String);

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Halt {}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Halt(why)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt(error.to_string())
    }
}

impl Replica {
    /// The state after the genesis block: empty.
    pub fn new(
        genesis: &Genesis,
        store: Arc<Store>,
        language: Arc<dyn Language>,
        workers: usize,
    ) -> Result<Replica, Halt> {
        let parameters = Arc::new(genesis.parameters.clone());
        let boundary = Boundary { header: genesis.to_block()?.header, parameters };
        Replica::at(boundary, store, language, workers)
    }

    /// A replica that goes on behind a block whose state is in the store and in the language.
    pub fn at(
        boundary: Boundary,
        store: Arc<Store>,
        language: Arc<dyn Language>,
        workers: usize,
    ) -> Result<Replica, Halt> {
        let Boundary { header, parameters } = boundary;
        let encoding = &parameters.row_encoding;
        if encoding != ROW_ENCODING {
            return Err(Halt(format!("the ledger names an unknown row encoding: {encoding}")));
        }
        Ok(Replica {
            ledger_id: header.ledger_id,
            store,
            language,
            crew: Crew::new(workers),
            protocol: protocol_of(&parameters)?,
            parameters_hash: parameters.hash()?,
            parameters,
            head: head_of(&header, header.hash()),
            barrier: header.height,
            history: History::default(),
            carried: Carried::default(),
            last: header,
        })
    }

    pub fn boundary(&self) -> Boundary {
        Boundary { header: self.last.clone(), parameters: Arc::clone(&self.parameters) }
    }

    /// Whether a replica that is made from the state at the head goes on as this one does.
    pub fn can_resume_here(&self) -> bool {
        self.resumes_after(self.head.height)
    }

    /// The same of another block, if none that runs alone comes in between.
    pub(crate) fn resumes_after(&self, height: Height) -> bool {
        let reads_older = self.protocol.history() > self.protocol.snapshot_lag();
        !reads_older || height.is_multiple_of(BARRIER_BLOCKS)
    }

    pub fn protocol(&self) -> &dyn Protocol {
        &*self.protocol
    }

    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    pub fn language(&self) -> &Arc<dyn Language> {
        &self.language
    }

    pub fn head(&self) -> Head {
        self.head
    }

    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Readers and sessions may see everything up to the head.
    pub fn publish(&self) {
        self.store.publish(self.head.height);
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Execute and seal the next block. Its writes are in the store but not published.
    pub fn execute(&mut self, time_us: i64, inputs: Vec<Input>) -> Result<Executed, Halt> {
        let time_us = time_us.max(self.head.time_us);
        let alone = match inputs.as_slice() {
            [input] if input.compiled.is_none() => match Transaction::decode(&input.payload) {
                Ok(transaction) if transaction.is_alone() => Some(transaction),
                _ => None,
            },
            _ => None,
        };
        match alone {
            Some(transaction) => self.execute_alone(time_us, transaction, inputs),
            None => self.execute_batch(time_us, inputs),
        }
    }

    /// Execute the block that a ledger has next. What it gives is not compared here, and the
    /// replica goes on as if it were the same: it is no replica of the ledger unless it is.
    pub fn execute_again(
        &mut self,
        recorded: &LedgerBlock,
        inputs: Vec<Input>,
        alone: bool,
    ) -> Result<Again, Halt> {
        let theirs = &recorded.header;
        if alone {
            let Executed { block, outcomes, effects, .. } = self.execute(theirs.time_us, inputs)?;
            let header = BlockHeader { effects_root: theirs.effects_root, ..block.header };
            return Ok(Again { outcomes: Some(outcomes), effects, header });
        }
        let header = BlockHeader {
            ledger_id: self.ledger_id,
            height: self.head.height + 1,
            previous_hash: self.head.hash,
            time_us: theirs.time_us.max(self.head.time_us),
            snapshot_height: self.head.height,
            parameters_hash: self.parameters_hash,
            state_root: ledger::ZERO_HASH,
            ..theirs.clone()
        };
        let (outcomes, changes) = match images::are_kept(self.protocol.info()) {
            true => (None, self.put_images(recorded)?),
            false => {
                let (_, transactions) = self.compile(inputs);
                let again = self.replaying_protocol();
                let block = Block::new(header.height, header.time_us, transactions);
                let (sealed, changes) = self.run(&*again, block)?;
                (Some(sealed.outcome.outcomes), changes)
            }
        };
        self.stand_behind(theirs);
        Ok(Again { outcomes, effects: Effects::Rows(changes), header })
    }

    fn put_images(&self, recorded: &LedgerBlock) -> Result<Changes, Halt> {
        let mut writes = self.store.begin_block(self.head.height + 1, self.crew.workers());
        images::apply(recorded, &self.store, &mut writes)?;
        Ok(self.store.finish(writes))
    }

    /// Whether a block behind this head, with none between that changes parameters, says of itself
    /// what executing it would: the parameters and the snapshot.
    pub fn check_follows(&self, header: &BlockHeader) -> Result<(), String> {
        check_parameters(header, &self.parameters_hash).map_err(|fault| fault.to_string())?;
        if header.snapshot_height + 1 == header.height {
            return Ok(());
        }
        let BlockHeader { height, snapshot_height, .. } = header;
        Err(format!("block {height} names the snapshot of block {snapshot_height}"))
    }

    /// Goes on behind a block whose state has come into the store in another way.
    pub fn skip_to(&mut self, header: &BlockHeader) -> Result<(), Halt> {
        self.protocol = protocol_of(&self.parameters)?;
        (self.barrier, self.carried) = (header.height, Carried::default());
        self.stand_behind(header);
        Ok(())
    }

    fn stand_behind(&mut self, header: &BlockHeader) {
        self.head = head_of(header, header.hash());
        self.last = header.clone();
    }

    /// What executes a recorded block once more. A protocol whose order depends on threads would
    /// find another one; but the block is in the order that it found, so any serial one will do.
    fn replaying_protocol(&self) -> Arc<dyn Protocol> {
        match self.protocol.info().deterministic {
            true => Arc::clone(&self.protocol),
            false => Arc::new(Serial),
        }
    }

    /// Under a protocol; the writes are in the store but not published.
    fn run(&mut self, protocol: &dyn Protocol, block: Block) -> Result<(Sealed, Changes), Halt> {
        let (block, newest) = (Arc::new(block), self.head.height);
        let floor = self.barrier.max(newest - newest % BARRIER_BLOCKS);
        let snapshots = Snapshots { newest, floor };
        self.history.hold(&self.store, snapshots, protocol.history())?;
        let mut writes = self.store.begin_block(block.height, self.crew.workers());
        let (store, crew) = (&self.store, &self.crew);
        let prepared = protocol.prepare(&block, store, snapshots, crew)?;
        let carried = &self.carried;
        let outcome = protocol.finish(prepared, &block, store, &mut writes, carried, crew)?;
        self.carried = outcome.carried.clone();
        let sealed = Sealed::of(protocol, &block, outcome);
        Ok((sealed, self.store.finish(writes)))
    }

    fn execute_batch(&mut self, time_us: i64, inputs: Vec<Input>) -> Result<Executed, Halt> {
        let (payloads, transactions) = self.compile(inputs);
        let image_room_bytes = room_beside(&payloads);
        let block = Block::new(self.head.height + 1, time_us, transactions);
        let protocol = Arc::clone(&self.protocol);
        let (sealed, changes) = self.run(&*protocol, Block { image_room_bytes, ..block })?;
        let Sealed { block, outcome, arrivals } = sealed;
        let payloads = match &arrivals {
            Some(arrivals) => in_order(payloads, arrivals),
            None => payloads,
        };
        let schema_version = self.language.schema_version();
        let again = |&position: &Position| {
            let work = Arc::clone(&block.transactions[position as usize]);
            let payload = payloads[position as usize].clone();
            Input { payload, compiled: Some(Compiled { work, schema_version }) }
        };
        let put_off = outcome.deferred.iter().map(again).collect();
        let payloads = match images::are_kept(self.protocol.info()) {
            true => images::attach(payloads, &changes)?,
            false => payloads,
        };
        let effects = Effects::Rows(changes);
        let outcome_bytes = outcome.outcomes.iter().map(encode_outcome).collect();
        let (block, hash) = self.seal(time_us, effects.root()?, payloads, outcome_bytes)?;
        Ok(Executed {
            block,
            hash,
            outcomes: outcome.outcomes,
            serial_order: outcome.serial_order,
            arrivals,
            deferred: outcome.deferred,
            put_off,
            report: outcome.report,
            effects,
        })
    }

    /// What the next blocks are compiled into.
    pub(crate) fn compile(&self, mut inputs: Vec<Input>) -> (Vec<Bytes>, Vec<Arc<Work>>) {
        self.compile_rest(&mut inputs);
        let compiled = |input: Input| Some((input.payload, input.compiled?.work));
        inputs.into_iter().filter_map(compiled).unzip()
    }

    /// Compiles what has not been, or was under another schema.
    pub(crate) fn compile_rest(&self, inputs: &mut [Input]) {
        let schema_version = self.language.schema_version();
        for input in inputs {
            if input.compiled.as_ref().is_none_or(|c| c.schema_version != schema_version) {
                let work = Arc::new(compile_payload(&*self.language, &input.payload));
                input.compiled = Some(Compiled { work, schema_version });
            }
        }
    }

    fn execute_alone(
        &mut self,
        time_us: i64,
        transaction: Transaction,
        inputs: Vec<Input>,
    ) -> Result<Executed, Halt> {
        let height = self.head.height + 1;
        let applied = match transaction.body {
            Body::Schema { text } => self.language.apply(&text, &self.store, height, time_us),
            Body::Parameter { name, value } => {
                let changed = self.with_parameter(&name, &value);
                changed.map(|next| self.change_parameters(next))
            }
            _ => Err(Error::new(SqlState::INTERNAL_ERROR, "not a schema change")),
        };
        let (outcome, change) = match applied {
            Ok(change) => (Outcome::Committed(Default::default()), change),
            Err(error) => (Outcome::Rejected(error.cut()), SchemaChange::default()),
        };
        let effects = Effects::Objects(change.objects);
        let payloads = inputs.into_iter().map(|input| input.payload).collect();
        let outcomes = vec![encode_outcome(&outcome)];
        // The header names the parameters that the block itself ran under.
        let (block, hash) = self.seal(time_us, effects.root()?, payloads, outcomes)?;
        self.parameters_hash = self.parameters.hash()?;
        (self.barrier, self.carried) = (height, Carried::default());
        Ok(Executed {
            block,
            hash,
            outcomes: vec![outcome],
            serial_order: vec![0],
            arrivals: None,
            deferred: Vec::new(),
            put_off: Vec::new(),
            report: BlockReport::default(),
            effects,
        })
    }

    /// The parameters with one changed, and the protocol they name.
    fn with_parameter(
        &self,
        name: &str,
        value: &str,
    ) -> Result<(Parameters, Arc<dyn Protocol>), Error> {
        let mut parameters = Parameters::clone(&self.parameters);
        match name {
            "protocol" => parameters.protocol = value.to_owned(),
            _ => {
                return Err(Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("unrecognized ledger parameter \"{name}\""),
                )
                .with_hint("The ledger's parameters are: protocol."));
            }
        }
        let protocol = protocols::by_name(&parameters.protocol)?;
        Ok((parameters, protocol))
    }

    fn change_parameters(&mut self, next: (Parameters, Arc<dyn Protocol>)) -> SchemaChange {
        let (parameters, protocol) = next;
        let change = crate::language::ObjectChange {
            name: "parameter protocol".into(),
            before: Some(self.parameters.protocol.clone()),
            after: Some(parameters.protocol.clone()),
        };
        self.parameters = Arc::new(parameters);
        self.protocol = protocol;
        SchemaChange { tag: "ALTER SYSTEM".into(), objects: vec![change] }
    }

    fn seal(
        &mut self,
        time_us: i64,
        effects_root: Hash,
        transactions: Vec<Bytes>,
        outcomes: Vec<Bytes>,
    ) -> Result<(LedgerBlock, Hash), Halt> {
        let seal = BlockSeal {
            ledger_id: self.ledger_id,
            height: self.head.height + 1,
            previous_hash: self.head.hash,
            time_us,
            snapshot_height: self.head.height,
            parameters_hash: self.parameters_hash,
            effects_root,
        };
        let block = LedgerBlock::seal(seal, transactions, outcomes)?;
        let hash = block.header.hash();
        self.head = head_of(&block.header, hash);
        self.last = block.header.clone();
        Ok((block, hash))
    }
}

/// A transaction's program, or why it has none, which is what it comes to.
pub(crate) fn compile_payload(language: &dyn Language, payload: &[u8]) -> Work {
    let work = Transaction::decode(payload).and_then(|transaction| {
        if transaction.is_alone() {
            let what = "a schema change must be alone in its block";
            return Err(Error::new(SqlState::INTERNAL_ERROR, what));
        }
        language.compile(&transaction)
    });
    work.unwrap_or_else(Work::Void)
}

fn head_of(header: &BlockHeader, hash: Hash) -> Head {
    Head { height: header.height, hash, time_us: header.time_us }
}

fn protocol_of(parameters: &Parameters) -> Result<Arc<dyn Protocol>, Halt> {
    protocols::by_name(&parameters.protocol)
        .map_err(|error| Halt(format!("the ledger's parameters are unknown: {}", error.message())))
}
