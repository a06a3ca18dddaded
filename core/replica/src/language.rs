//! [`Language`]: what the replica needs of the transaction language (SQL): compile a request, apply
//! a schema change, describe an object. `sql` implements it, and the replica knows no SQL.

use std::sync::Arc;

use concurrency::{PendingWrite, Work};
use identity::{APPROVAL_MISSING, KeyId, Wanted};
use ledger::Parameters;
use order::{Envelope, View};
use pipeline::Barrier;
use procedure::ProgramResult;
use storage::{Snapshot, Store};
use types::{Error, Height, Position, Result, SqlState, Stop};

use crate::request::Compiled;
use crate::transaction::{Body, Party, Transaction};

const _: () = assert!(identity::APPROVALS_MAX == order::signed::APPROVERS_MAX);

/// Compiles ledger transactions and changes the schema. Implemented above the engine; a function of
/// the transaction and of the schema that earlier blocks made, and of nothing else.
pub trait Language: Send + Sync + 'static {
    /// Ready to run. A transaction that does not compile, or lacks approvals, is `Err`, which the
    /// block records as its outcome.
    fn compile(&self, transaction: Transaction) -> Result<Work>;

    /// Changes whenever a compiled program might mean something else.
    fn schema_version(&self) -> u64;

    /// Whether a party may do what is no matter of the language, after the blocks so far.
    ///
    /// # Errors
    /// 42501: it may not.
    fn authorize(&self, _: Party<'_>, _: Action<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether there may be a party whose transactions have to bear a signature. As long as there
    /// is none, those without one are not asked about.
    fn asks_for_signatures(&self) -> bool {
        false
    }

    /// Whose signature transactions of a party have to bear.
    fn wanted_signature(&self, _: Party<'_>) -> Wanted {
        Wanted::Nothing
    }

    /// Whether the signers of a transaction, whose signatures are right, may speak for its party,
    /// after the blocks so far.
    ///
    /// # Errors
    /// 28000: one may not, or one is missing.
    fn check_signers(&self, _: Party<'_>, _: &[KeyId]) -> Result<()> {
        Ok(())
    }

    /// Whether there may be a policy that asks for approvals.
    fn asks_for_approvals(&self) -> bool {
        false
    }

    /// Whether a transaction that is no program would be refused for what it lacks of them, after
    /// the blocks so far. [`Language::compile`] says it of programs.
    ///
    /// # Errors
    /// 42T01: it would; others are of no account.
    fn check_approvals(&self, _: &Transaction) -> Result<()> {
        Ok(())
    }

    /// Whether a client may hand in a transaction of its own making, its party being one that may
    /// do what it does.
    ///
    /// # Errors
    /// 42501: nodes alone may ask for it.
    fn check_handed_in(&self, _: &Body) -> Result<()> {
        Ok(())
    }

    /// What a ledger without blocks has from its parameters. Called before any block is run.
    fn begin(&self, _: &Parameters) {}

    /// Run a schema change in the block at `height`, whole or not at all. What sessions compile
    /// against must become part of the store's catalog: a snapshot's data and schema belong
    /// together.
    fn apply(
        &self,
        asked: AskedChange<'_>,
        store: &Arc<Store>,
        height: Height,
        time_us: i64,
    ) -> Result<SchemaChange, Error>;

    /// Run a migration, the COMMIT of a transaction that changes the schema, whole or not at all.
    /// The changes are made as by [`Language::apply`]; the rows are the caller's to install.
    fn migrate(
        &self,
        _: Transaction,
        _: &Arc<Store>,
        _: Position,
        _: Height,
    ) -> Result<Migrated, Stop> {
        let what = "schema changes within a transaction of this language";
        Err(Stop::Rejected(Error::unsupported(what)))
    }

    /// The schema that a snapshot is read under, as bytes that [`Language::restore`] understands:
    /// a function of the blocks up to it.
    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>>;

    /// Brings a language that has seen no block, and an empty store, to a schema. The store's
    /// tables have no rows yet.
    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()>;
}

/// A schema change, and who asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedChange<'a> {
    pub party: Party<'a>,
    /// Their signatures are right, and they may speak for the party.
    pub signers: &'a [KeyId],
    pub approvers: &'a [KeyId],
    pub text: &'a str,
}

/// Whether an envelope's signers may speak for its party; whether they have signed it is another
/// question, which [`order::EnvelopeBytes::check_signatures`] answers.
///
/// # Errors
/// 28000: they may not. 42704: its settings name no party.
pub fn signers_may<S: AsRef<str>, B>(
    language: &dyn Language,
    envelope: &Envelope<S, B>,
) -> Result<()> {
    let party = Party::of_envelope(envelope)?;
    let signers: Vec<KeyId> =
        envelope.signatures.iter().map(|signature| signature.key_id).collect();
    language.check_signers(party, &signers)
}

/// Whether an envelope, whose signatures and approvals are right, has the approvals that policies
/// ask for, after the blocks so far; and its program, if it asks for one.
///
/// # Errors
/// 42T01: it has not.
pub fn approvals_suffice(language: &dyn Language, view: &View<'_>) -> Result<Option<Compiled>> {
    let schema_version = language.schema_version();
    // What is no transaction is rejected where it runs.
    let Ok(transaction) = Transaction::of(view) else { return Ok(None) };
    let lacks = |error: &Error| error.code() == APPROVAL_MISSING;
    if transaction.body.barrier() != Barrier::None {
        return match language.check_approvals(&transaction) {
            Err(error) if lacks(&error) => Err(error),
            _ => Ok(None),
        };
    }
    let work = match language.compile(transaction) {
        Err(error) if lacks(&error) => return Err(error),
        work => Arc::new(work.unwrap_or_else(Work::Void)),
    };
    Ok(Some(Compiled { work, schema_version, agreed: true }))
}

/// Whether the arguments of a call or a statement, which a client has encoded by itself, are of the
/// kinds that its parameters have in the newest schema.
///
/// # Errors
/// 42804: they are not. In a block that would be 40001, as after a change of the schema.
pub fn arguments_fit(language: &dyn Language, view: &View<'_>) -> Result<()> {
    let Ok(transaction) = Transaction::of(view) else { return Ok(()) };
    if !matches!(transaction.body, Body::Call(_) | Body::Statement(_)) {
        return Ok(());
    }
    match language.compile(transaction) {
        Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE => {
            let what = "the call is not what the schema has it be";
            let hint = "Encode each argument as its parameter's type asks, and bring a seed along \
                        where the program draws from chance.";
            Err(Error::new(SqlState::DATATYPE_MISMATCH, what).with_hint(hint))
        }
        _ => Ok(()),
    }
}

/// What concerns the ledger as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action<'a> {
    SetParameter(&'a str),
    ChangeMembers,
    SkipBlocks,
}

/// Makes the language of a replica over its store. Called once for each attempt.
pub type MakeLanguage<'a> = &'a dyn Fn(&Arc<Store>) -> Arc<dyn Language>;

/// What a schema change did: the definitions of the objects it touched, which the effects root
/// covers as rows of [`SCHEMA_TABLE`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SchemaChange {
    /// The command tag.
    pub tag: String,
    /// Sorted by name, no name twice.
    pub objects: Vec<ObjectChange>,
}

/// What a migration did, and what it writes under the schema that it leaves.
#[derive(Debug)]
pub struct Migrated {
    pub answer: ProgramResult,
    pub changes: Vec<SchemaChange>,
    /// None of them can fail any more.
    pub writes: Vec<PendingWrite>,
    /// What `now()` was.
    pub now_us: i64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ObjectChange {
    /// Kind and name, as in `table accounts`.
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Number under which schema objects stand in the effects; user tables start above it.
pub const SCHEMA_TABLE: types::TableId = types::TableId(0);
