//! The schema as the engine sees it: compiles ledger transactions, applies schema changes.
//!
//! Two catalogs are at hand. *Next* is what the block in execution sees. Sessions compile against
//! the one that came with their snapshot: it travels in the store's catalog, so that none reads
//! new data under an old schema or the other way round. A program compiled under an older version
//! is compiled again by the sequencer, so a race costs time and never correctness.
//!
//! What a transaction compiles to depends on its envelope (text, parameter types, user, settings,
//! seed) and the catalog, on nothing of the session that sent it: `current_user` is the
//! transaction's, random values are drawn from its seed, the other session functions answer the
//! same everywhere. The one setting that changes what a transaction means is `role`, so one that
//! names another is refused.
//!
//! *Schema changes in between.* A statement that was bound before one and runs after it is compiled
//! again; where its arguments no longer fit, it ends in 40001. So does an interactive transaction
//! that began before, if it has read a table that was changed since, or rests on the whole schema
//! ([`last_changes`](super::last_changes)): its requirements are keys, stamps and ranges of that
//! schema, and mean nothing under another.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use concurrency::work::failed_since;
use concurrency::{Interactive, Load, Moment, NoRecord, Overlay, Statement, Work};
use engine::transaction::{Endorsed, SchemaSeen, StatementText};
use engine::{
    Action, AskedChange, Body, KeyId, Language, Migrated, ObjectChange, ParameterTypes, Party,
    SchemaChange, Seed, Transaction, Wanted,
};
use identity::{RoleId, Roles};
use ledger::Parameters;
use parking_lot::Mutex;
use procedure::draws::Draws;
use procedure::{Column, Frame, Procedure, ProgramResult, sequences};
use storage::{LATEST, Snapshot, Store};
use types::codec::{decode_str, encode_str};
use types::{DataType, Error, Height, Position, Result, SqlState, Stop, TableId, Value};

use crate::bind::statement::{Bound, Program, Statement as BoundStatement};
use crate::compile::bind_in_session;
use crate::ddl::Brought;
use crate::schema::access::must_be;
use crate::schema::catalog::Catalog;
use crate::schema::deferred::{Unchecked, taken_off};
use crate::session::changes::{SchemaText, change_schema};
use crate::session::compiled::Compiled;
use crate::session::endorsed::Reach;
use crate::session::guard::error_of;
use crate::session::handed_in::check_leaves_databases;
use crate::session::last_changes::{LastChanges, schema_changed};
use crate::session::sequence_caches::SequenceCaches;
use crate::session::touched::Touched;
use crate::session::versioned::{Stated, Versioned};
use crate::settings::session_info::{OWNER, SessionInfo};
use crate::syntax::ddl::Ddl;
use crate::syntax::parse::parse;
use crate::syntax::path::SearchPath;

pub struct Schema {
    genesis: ArcSwap<Versioned>,
    next: ArcSwap<Versioned>,
    /// Of what is in blocks.
    compiled: Mutex<Compiled>,
    /// Of what is simulated, and may be in none: it makes no block compile anew.
    pub(super) compiled_aside: Mutex<Compiled>,
    /// What this node has taken out of sequences.
    pub(super) sequence_caches: SequenceCaches,
}

/// How a text is compiled.
type CompileText<'a> = &'a dyn Fn(&str, &ParameterTypes) -> Result<Arc<Bound>>;

impl Default for Schema {
    fn default() -> Self {
        Schema::new()
    }
}

impl Schema {
    pub fn new() -> Schema {
        let genesis = genesis_of(OWNER);
        let (next, genesis) = (ArcSwap::from(Arc::clone(&genesis)), ArcSwap::from(genesis));
        Schema {
            next,
            genesis,
            compiled: Mutex::default(),
            compiled_aside: Mutex::default(),
            sequence_caches: SequenceCaches::default(),
        }
    }

    /// What a reader of this snapshot compiles against.
    pub fn of(&self, snapshot: &Snapshot) -> Arc<Versioned> {
        let annotation = snapshot.catalog().annotation().cloned();
        let versioned = annotation.and_then(|annotation| annotation.downcast().ok());
        versioned.unwrap_or_else(|| self.genesis.load_full())
    }

    /// After the newest block that has run, be it published or not.
    pub fn newest(&self) -> Arc<Versioned> {
        self.next.load_full()
    }

    /// Makes a schema, and the tables that it was made with, what comes next sees.
    fn install(&self, next: Arc<Versioned>, tables: &Arc<storage::Catalog>, store: &Store) {
        store.install(Arc::clone(tables));
        self.next.store(next);
    }

    /// Kept for the newest catalog: on older ones little is simulated.
    pub(super) fn compile_text(
        &self,
        cache: &Mutex<Compiled>,
        versioned: &Versioned,
        party: Party<'_>,
        (text, types): (&str, &ParameterTypes),
    ) -> Result<Arc<Bound>> {
        {
            let mut compiled = cache.lock();
            if !compiled.is_of(versioned)
                && Arc::ptr_eq(&self.next.load().catalog, &versioned.catalog)
            {
                *compiled = Compiled::of(&versioned.catalog);
            }
            if compiled.is_of(versioned)
                && let Some(bound) = compiled.bound(party, (text, types))
            {
                return Ok(bound);
            }
        }
        let bound = Arc::new(compile_for_ledger(&versioned.catalog, party, text, types)?);
        let mut compiled = cache.lock();
        if compiled.is_of(versioned) {
            compiled.keep(party, (text, types), &bound);
        }
        Ok(bound)
    }

    /// `draws`: what the transaction's programs have left to draw from.
    fn compile_body(&self, party: Party<'_>, body: Body, draws: &mut Draws) -> Result<Work> {
        let next = self.next.load_full();
        let compile_text = |text: &str, types: &ParameterTypes| {
            self.compile_text(&self.compiled, &next, party, (text, types))
        };
        compile_under(&next, party, &compile_text, body, draws)
    }

    /// What a transaction runs on a snapshot, as on that block.
    ///
    /// # Errors
    /// It is refused, as it would be in its block; but none is asked for approvals.
    pub(super) fn simulated(
        &self,
        versioned: &Versioned,
        transaction: &Transaction,
    ) -> Result<Work> {
        let party = transaction.party()?;
        let compile_text = |text: &str, types: &ParameterTypes| {
            self.compile_text(&self.compiled_aside, versioned, party, (text, types))
        };
        let mut draws = Draws::new(transaction.seed);
        let body = transaction.body.clone();
        let work = compile_under(versioned, party, &compile_text, body, &mut draws)?;
        check_seed(&draws, transaction.seed)?;
        Ok(work)
    }
}

/// `draws`: what the transaction's programs have left to draw from.
fn compile_under(
    versioned: &Versioned,
    party: Party<'_>,
    compile_text: CompileText<'_>,
    body: Body,
    draws: &mut Draws,
) -> Result<Work> {
    let caller = caller_of(&versioned.catalog, party)?;
    let mut compile = |body| compile_write((&versioned.catalog, caller), compile_text, body, draws);
    let Body::Interactive { seen, transaction } = body else {
        Unchecked::none_of(&body)?;
        return compile(body);
    };
    let mut unchecked = Unchecked::default();
    let is_same = seen.version == versioned.version;
    if !is_same && !versioned.admits(seen, &transaction) {
        return Err(schema_changed());
    }
    let compiled = transaction.try_map(|body| {
        unchecked.behind(&body)?;
        compile(body)
    });
    let work = compiled.map_err(|error| if is_same { error } else { schema_changed() })?;
    unchecked.end()?;
    Ok(Work::Interactive(work))
}

/// Whose an endorsed transaction is, and who stands by it.
struct Proposed<'a> {
    party: Party<'a>,
    seed: Seed,
    signers: &'a [KeyId],
    approvers: &'a [KeyId],
}

impl Schema {
    /// See [`endorsed`](super::endorsed).
    fn compile_endorsed(&self, of: Proposed<'_>, endorsed: Endorsed) -> Result<Work> {
        let next = self.next.load_full();
        let catalog = &next.catalog;
        let mut draws = Draws::new(of.seed);
        let mut touched = Touched::by_name(&endorsed.proposal);
        let proposed = self.compile_body(of.party, endorsed.proposal.clone(), &mut draws)?;
        check_seed(&draws, of.seed)?;
        let asked = (of.party, &endorsed.proposal, &proposed);
        let kept = self.reach_of(&self.compiled, &next, asked);
        let reach = kept.get_or_init(|| Reach::of(&proposed));
        touched.by_reach(reach);
        let agreed = catalog.agreed(of.signers, of.approvers);
        touched.check(catalog, &agreed)?;
        let written: BTreeSet<TableId> = endorsed.writes.iter().map(|write| write.table).collect();
        catalog.check_endorsed(written, &agreed)?;
        if endorsed.schema_version != next.version {
            return Err(schema_changed());
        }
        reach.check(catalog, &endorsed.writes)?;
        self.lowered(&self.compiled, &next, endorsed)
    }
}

impl Versioned {
    /// Whether what a transaction saw under an older schema means the same under this one.
    fn admits<W>(&self, seen: SchemaSeen, transaction: &Interactive<W>) -> bool {
        let rows = transaction.rows.iter().map(|row| row.table);
        let ranges = transaction.ranges.iter().map(|range| range.range.table);
        let is_older = !seen.whole && seen.version < self.version;
        is_older && self.last_changes.admits(seen.version, rows.chain(ranges))
    }
}

/// Whose privileges a party's programs have to have; `None`: it may do everything.
///
/// # Errors
/// The party may ask for nothing.
fn caller_of(catalog: &Catalog, party: Party<'_>) -> Result<Option<RoleId>> {
    let roles = catalog.roles();
    let role = roles.actor(party.principal, party.role)?.current;
    Ok((!roles.is_superuser(role)).then_some(role))
}

/// What may stand by itself or within a transaction.
fn compile_write(
    (catalog, caller): (&Catalog, Option<RoleId>),
    compile_text: CompileText<'_>,
    body: Body,
    draws: &mut Draws,
) -> Result<Work> {
    match body {
        Body::Statement(Statement { procedure: StatementText { text, types }, arguments }) => {
            let bound = compile_text(&text, &types)?;
            let procedure = procedure_of(&bound)?;
            check_arguments(&procedure, &arguments)?;
            let arguments = draws.arguments(&procedure, arguments)?;
            Ok(Work::Statement(Statement { procedure, arguments }))
        }
        Body::Call(Statement { procedure: name, arguments }) => {
            let routine = catalog.routine(&name).ok_or_else(|| {
                let what = format!("procedure {name} does not exist");
                Error::new(SqlState::UNDEFINED_FUNCTION, what)
            })?;
            let procedure = routine.procedure_for(catalog, caller)?;
            check_arguments(&procedure, &arguments)?;
            let arguments = draws.arguments(&procedure, arguments)?;
            Ok(Work::Statement(Statement { procedure, arguments }))
        }
        Body::Load(Load { procedure: text, rows, .. }) => {
            let bound = compile_text(&text, &ParameterTypes::default())?;
            let BoundStatement::Program(Program::CopyIn { row, at_end, .. }) = &bound.statement
            else {
                return Err(not_a_write(&text));
            };
            rows.iter().try_for_each(|values| check_arguments(row, values))?;
            let rows = rows.into_iter().map(|values| draws.arguments(row, values));
            let rows = rows.collect::<Result<_>>()?;
            Ok(Work::Load(Load { procedure: Arc::clone(row), at_end: at_end.clone(), rows }))
        }
        Body::Schema { text } | Body::Parameter { name: text, .. } => Err(not_a_write(&text)),
        Body::Checkpoint { .. } => Err(not_a_write("checkpoint")),
        Body::Skip { .. } => Err(not_a_write("skip")),
        Body::Endorsed(_) => Err(not_a_write("endorsed")),
        Body::Interactive { .. } => Err(not_a_write("transaction")),
    }
}

/// A transaction that drew nothing under the schema that it was sent under.
fn check_seed(draws: &Draws, seed: Seed) -> Result<()> {
    match draws.lanes() > 0 && seed == [0; 16] {
        true => Err(Error::serialization(
            "The transaction draws random values and came without a seed.",
        )),
        false => Ok(()),
    }
}

/// The one way a text is compiled for the ledger, by the session that sends it and by every
/// replica.
fn compile_for_ledger(
    catalog: &Catalog,
    party: Party<'_>,
    text: &str,
    types: &ParameterTypes,
) -> Result<Bound> {
    let mut parsed = parse(text)?;
    let without;
    let catalog = match taken_off(text, &mut parsed) {
        None => catalog,
        Some(keys) => {
            without = catalog.without_keys(&keys)?;
            &without
        }
    };
    let set = parsed.first().filter(|_| parsed.len() == 2);
    let path = set.and_then(SearchPath::set_by);
    let (Some(mut statement), true) = (parsed.pop(), parsed.len() == usize::from(path.is_some()))
    else {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "a transaction holds one statement"));
    };
    let path = path.unwrap_or_default();
    path.resolve(catalog, &mut statement)?;
    let info = SessionInfo {
        user: party.principal.to_owned(),
        role: party.role.map(str::to_owned),
        path,
        ..SessionInfo::default()
    };
    statement.reads_newest()?;
    let declared = catalog.current_types(types.declared())?;
    bind_in_session(catalog, &info, &statement, &declared)
}

/// Arguments were read by the types that the sender's schema gave them. Their number is the
/// program's to check, but for what a transaction brings along of sequences, which must be the ones
/// that are called so.
pub(super) fn check_arguments(procedure: &Procedure, arguments: &[Value]) -> Result<()> {
    let is_it = |(parameter, value): (&Column, _)| is_of(value, &parameter.data_type);
    let asked = procedure.visible_parameters().len();
    let brought = arguments.get(asked..).unwrap_or_default();
    let mut pairs = procedure.sequences.iter().zip(brought);
    let same = pairs.all(|(used, value)| sequences::is_of(value, used.sequence))
        && (procedure.sequences.len() == brought.len() || procedure.sequences.is_empty());
    match same && procedure.parameters.iter().zip(arguments).all(is_it) {
        true => Ok(()),
        false => Err(schema_changed()),
    }
}

/// Whether a value is of the kind that values of a type have.
pub fn is_of(value: &Value, data_type: &DataType) -> bool {
    match (value, data_type) {
        (Value::Null, _) | (_, DataType::Unknown | DataType::Void) => true,
        // An object may come by its name.
        (Value::Text(_), DataType::System(system)) if system.is_object() => true,
        (value, DataType::System(system)) => is_of(value, &system.storage()),
        (Value::Array(values), DataType::Record(fields)) => {
            values.iter().zip(fields.iter()).all(|(value, field)| is_of(value, &field.data_type))
        }
        (Value::Int(position), DataType::Enum(of)) => of.label(*position).is_some(),
        (Value::Int(_), data_type) => data_type.is_integer(),
        (Value::Text(_), data_type) => data_type.is_string() || *data_type == DataType::Json,
        (Value::Array(values), DataType::Array(element)) => {
            values.iter().all(|value| is_of(value, element))
        }
        (Value::Float(x), DataType::Float4) => x.is_nan() || f64::from(*x as f32) == *x,
        (Value::Bytes(_), data_type) => *data_type == DataType::Bytea || data_type.is_network(),
        (value, data_type) => value.data_type_hint() == data_type.without_modifier(),
    }
}

/// The program of a bound statement that may stand in the ledger as text.
pub fn procedure_of(bound: &Bound) -> Result<Arc<Procedure>> {
    match &bound.statement {
        BoundStatement::Program(Program::Procedure(procedure)) => Ok(Arc::clone(procedure)),
        _ => Err(not_a_write("statement")),
    }
}

fn not_a_write(text: &str) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, "not a statement that a block can hold")
        .with_detail(text.to_owned())
}

impl Language for Schema {
    fn compile(&self, transaction: Transaction) -> Result<Work> {
        let Transaction { user, settings, seed, signers, approvers, body } = transaction;
        let party = Party::of(&user, &settings)?;
        let mut draws = Draws::new(seed);
        let next = self.next.load_full();
        if let Body::Endorsed(endorsed) = body {
            let party = Proposed { party, seed, signers: &signers, approvers: &approvers };
            return self.compile_endorsed(party, *endorsed);
        }
        let asks = next.catalog.has_policies();
        let mut touched = asks.then(|| Touched::by_name(&body));
        let work = self.compile_body(party, body, &mut draws)?;
        check_seed(&draws, seed)?;
        if let Some(touched) = &mut touched {
            touched.by_program(&work);
            touched.check(&next.catalog, &next.catalog.agreed(&signers, &approvers))?;
        }
        Ok(work)
    }

    fn schema_version(&self) -> u64 {
        self.next.load().version
    }

    fn authorize(&self, party: Party<'_>, action: Action<'_>) -> Result<()> {
        let next = self.next.load();
        let roles = next.catalog.roles();
        let actor = roles.actor(party.principal, party.role)?;
        if action == Action::SkipBlocks
            && let Some(user) = next.catalog.organisations.user(actor.session)
        {
            let what = "permission denied to skip blocks";
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what).with_detail(format!(
                "Role \"{}\" is one of organisation \"{}\", and a skip bears no signature.",
                party.principal, user.organisation
            )));
        }
        may_act(roles, actor.current, action)
    }

    fn asks_for_signatures(&self) -> bool {
        !self.next.load().catalog.organisations.is_empty()
    }

    fn wanted_signature(&self, party: Party<'_>) -> Wanted {
        let next = self.next.load();
        let (organisations, roles) = (&next.catalog.organisations, next.catalog.roles());
        organisations.wanted(roles, party.principal, party.role)
    }

    fn check_signers(&self, party: Party<'_>, signers: &[KeyId]) -> Result<()> {
        let next = self.next.load();
        let (organisations, roles) = (&next.catalog.organisations, next.catalog.roles());
        organisations.check(roles, (party.principal, party.role), signers).map(drop)
    }

    fn asks_for_approvals(&self) -> bool {
        self.next.load().catalog.has_policies()
    }

    fn check_approvals(&self, transaction: &Transaction) -> Result<()> {
        let next = self.next.load_full();
        let catalog = &next.catalog;
        let Transaction { signers, approvers, .. } = transaction;
        match &transaction.body {
            Body::Schema { text } => {
                let party = transaction.party()?;
                let actor = catalog.roles().actor(party.principal, party.role)?;
                let ddl = parse_ddl(catalog, text)?;
                // Of the block that is yet to come, whose height decides on nothing.
                let brought = Brought { signers, approvers, height: 0 };
                catalog.apply_brought(actor, brought, &ddl).map(drop)
            }
            // Nodes record what they have come to, and a block that cannot be executed is skipped,
            // under privileges of their own.
            Body::Checkpoint { .. } | Body::Skip { .. } => Ok(()),
            _ => Touched::default().check(catalog, &catalog.agreed(signers, approvers)),
        }
    }

    fn check_handed_in(&self, body: &Body) -> Result<()> {
        check_leaves_databases(body)
    }

    fn begin(&self, parameters: &Parameters) {
        if let Some(owner) = parameters.others.get(engine::limits::OWNER) {
            let genesis = genesis_of(owner);
            self.next.store(Arc::clone(&genesis));
            self.genesis.store(genesis);
        }
    }

    fn apply(
        &self,
        AskedChange { party, signers, approvers, text }: AskedChange<'_>,
        store: &Arc<Store>,
        height: Height,
        time_us: i64,
    ) -> Result<SchemaChange> {
        let current = self.next.load_full();
        let ddl = parse_ddl(&current.catalog, text)?;
        let change = SchemaText { party, signers, approvers, ddl: &ddl, text };
        let moment = Moment { height, position: 0, now_us: time_us };
        let mut overlay = Overlay::new(store.catalog(), LATEST, moment, NoRecord);
        let version = current.version + 1;
        let next = change_schema(&current, change, version, (&mut overlay, store), None);
        self.install(next.map_err(error_of)?, overlay.catalog(), store);
        Ok(described(change, version))
    }

    fn migrate(
        &self,
        transaction: Transaction,
        store: &Arc<Store>,
        position: Position,
        height: Height,
    ) -> Result<Migrated, Stop> {
        let Transaction { user, settings, seed, signers, approvers, body } = transaction;
        let party = Party::of(&user, &settings)?;
        let Body::Interactive { seen, transaction } = body else {
            return Err(not_a_write("migration").into());
        };
        let mut current = self.next.load_full();
        if seen.version != current.version {
            return Err(schema_changed().into());
        }
        let now_us = transaction.now_us;
        let moment = Moment { height, position, now_us };
        let mut overlay = Overlay::new(store.catalog(), LATEST, moment, NoRecord);
        let (mut frame, mut draws) = (Frame::default(), Draws::new(seed));
        let (mut count, mut changes, mut unchecked) = (0, Vec::new(), Unchecked::default());
        transaction.require(&mut frame, &mut overlay)?;
        for (write, expected) in transaction.writes {
            if let Body::Schema { text } = &write {
                let ddl = parse_ddl(&current.catalog, text)?;
                let (signers, approvers) = (&signers[..], &approvers[..]);
                let change = SchemaText { party, signers, approvers, ddl: &ddl, text };
                let version = current.version + 1;
                let workspace = (&mut overlay, &**store);
                let next = change_schema(&current, change, version, workspace, Some(&mut frame));
                let next = next.map_err(failed_since)?;
                unchecked.kept_by(&current.catalog, &next.catalog)?;
                current = next;
                changes.push(described(change, version));
                continue;
            }
            unchecked.behind(&write)?;
            let catalog = &*current.catalog;
            let compile_text = |text: &str, types: &ParameterTypes| {
                compile_for_ledger(catalog, party, text, types).map(Arc::new)
            };
            let caller = caller_of(catalog, party)?;
            let asked = (catalog, caller);
            let mut touched = Touched::by_name(&write);
            let work = compile_write(asked, &compile_text, write, &mut draws)?;
            touched.by_program(&work);
            touched.check(catalog, &catalog.agreed(&signers, &approvers))?;
            count += work.run_again(&expected, &mut frame, &mut overlay)?;
        }
        check_seed(&draws, seed)?;
        unchecked.end()?;
        overlay.evaluate_all().map_err(failed_since)?;
        self.install(current, overlay.catalog(), store);
        let answer = ProgramResult { count, ..ProgramResult::default() };
        Ok(Migrated { answer, changes, writes: overlay.take_writes(), now_us })
    }

    /// The version, who it began with, the last changes, and the statements. Applied to no rows
    /// they give the same catalog, since what they make of a catalog does not depend on rows.
    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        let versioned = self.of(snapshot);
        let mut image = versioned.version.to_be_bytes().to_vec();
        encode_str(versioned.catalog.roles().name(identity::BOOTSTRAP), &mut image);
        versioned.last_changes.encode(&mut image);
        versioned.statements.iter().for_each(|stated| stated.encode(&mut image));
        Ok(image)
    }

    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()> {
        let Some((version, mut texts)) = schema_image.split_first_chunk() else {
            return Err(Error::new(SqlState::DATA_CORRUPTED, "the schema has no version"));
        };
        let genesis = genesis_of(decode_str(&mut texts)?);
        self.next.store(Arc::clone(&genesis));
        self.genesis.store(genesis);
        let last_changes = LastChanges::decode(&mut texts)?;
        while !texts.is_empty() {
            let stated = Stated::decode(&mut texts)?;
            self.apply(stated.asked(), store, stated.height, 0)?;
        }
        let Versioned { catalog, statements, .. } = &*self.next.load_full();
        let (catalog, statements) = (catalog.clone(), statements.clone());
        let version = u64::from_be_bytes(*version);
        let next = Arc::new(Versioned { catalog, version, statements, last_changes, below: None });
        store.annotate(next.clone());
        self.next.store(next);
        Ok(())
    }
}

/// Of definitions that are read again: they were judged when they were made.
pub(super) const NO_PARTY: Party<'static> = Party { principal: "", role: None };

fn genesis_of(owner: &str) -> Arc<Versioned> {
    let catalog = Arc::new(Catalog::genesis_of(owner));
    let (statements, last_changes) = Default::default();
    Arc::new(Versioned { catalog, version: 0, statements, last_changes, below: None })
}

/// Whether a role may do what concerns the ledger as a whole.
///
/// # Errors
/// 42501: it may not.
pub(super) fn may_act(roles: &Roles, role: RoleId, action: Action<'_>) -> Result<()> {
    let (needed, what) = match action {
        Action::SetParameter(name) => {
            (RoleId::SET_PARAMETERS, format!("set parameter \"ledger.{name}\""))
        }
        Action::ChangeMembers => {
            (RoleId::CHANGE_MEMBERS, "change the members of the ledger".to_owned())
        }
        Action::SkipBlocks => (RoleId::SKIP_BLOCKS, "skip blocks".to_owned()),
    };
    must_be(roles, role, needed, &what)
}

pub(super) fn parse_ddl(catalog: &Catalog, text: &str) -> Result<Ddl> {
    match compile_for_ledger(catalog, NO_PARTY, text, &ParameterTypes::default())?.statement {
        BoundStatement::Ddl(ddl) => Ok(ddl),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "not a schema change")),
    }
}

/// The schema is the sum of its statements, so the statement is the change's image.
fn described(SchemaText { ddl, text, .. }: SchemaText<'_>, version: u64) -> SchemaChange {
    let name = format!("schema {version}");
    let object = ObjectChange { name, before: None, after: Some(text.to_owned()) };
    SchemaChange { tag: ddl.tag().to_owned(), objects: vec![object] }
}
