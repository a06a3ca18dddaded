//! How a session comes by a bound statement: as it stands, or as every replica will bind it.

use std::sync::{Arc, OnceLock};

use engine::{ParameterTypes, Party};
use procedure::{Interrupt, Output};
use types::{DataType, Error, Result};

use super::guard::{SHORT_TEXT_BYTES, aside};
use super::lock_clauses::Locking;
use super::prepared::{Action, Prepared};
use super::versioned::Versioned;
use super::{Session, deferring};
use crate::bind::origins;
use crate::bind::statement::{Bound, Command, Program};
use crate::compile::bind_interruptibly;
use crate::plan::router;
use crate::settings::Executor;
use crate::settings::session_info::SessionInfo;
use crate::syntax::parsed::Parsed;

/// The longest text that is kept bound for a session's next use of it.
const CACHED_TEXT_BYTES_MAX: usize = 4096;

impl Session {
    /// Binds a statement against the newest schema, or finds it bound already.
    pub fn prepare(&mut self, parsed: Parsed, types: &[Option<DataType>]) -> Result<Arc<Prepared>> {
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        self.follow_settings();
        let versioned = match parsed.as_of {
            said @ Some(_) => self.view_of(said)?.versioned,
            None => self.view().versioned,
        };
        // What EXECUTE answers is not in its text.
        let cachable = ParameterTypes::new(types).is_empty()
            && parsed.text.len() <= CACHED_TEXT_BYTES_MAX
            && !parsed.names_what_it_answers();
        if cachable && let Some(prepared) = self.bound_already(&parsed.text, versioned.version) {
            return Ok(prepared);
        }
        let is_short = parsed.text.len() <= SHORT_TEXT_BYTES;
        // What is recorded may begin with the path.
        let sent = if cachable { parsed.text.clone() } else { String::new() };
        let prepared = aside(is_short, || self.bind(&versioned, parsed, types, true));
        // What leads out of a transaction that has failed always binds.
        let mut prepared =
            prepared.map_err(|error| if self.failed { super::aborted() } else { error })?;
        match &prepared.bound.statement {
            Action::Command(Command::Execute { name, .. }) => {
                prepared.bound.output = self.named_statement(name)?.bound.output.clone();
            }
            Action::Command(Command::Fetch { name, moves: false, .. }) => {
                if let Some(query) = self.cursors.query(name) {
                    prepared.bound.output = query.bound.output.clone();
                    prepared.origins.clone_from(&query.origins);
                }
            }
            _ => {}
        }
        let prepared = Arc::new(prepared);
        if cachable && self.has_room_for(prepared.parsed.text.len()) {
            self.statements.bound.insert(sent, Arc::clone(&prepared));
        }
        Ok(prepared)
    }

    /// The statement comes back, since a long one is bound where it can be given up.
    pub(super) fn bind_by(
        &self,
        info: &SessionInfo,
        versioned: &Versioned,
        parsed: Parsed,
        declared: &[Option<DataType>],
    ) -> Result<(Result<Bound>, Parsed)> {
        if parsed.text.len() <= SHORT_TEXT_BYTES {
            let guard: &dyn Interrupt = &*self.guard;
            let catalog = &versioned.catalog;
            let bound = bind_interruptibly(catalog, info, &parsed, declared, Some(guard));
            return Ok((bound, parsed));
        }
        let (catalog, guard) = (Arc::clone(&versioned.catalog), Arc::clone(&self.guard));
        let given = (catalog, guard, info.clone(), parsed, declared.to_vec());
        self.guard.apart(given, |(catalog, guard, info, parsed, declared)| {
            let guard: &dyn Interrupt = &*guard;
            let bound = bind_interruptibly(&catalog, &info, &parsed, &declared, Some(guard));
            Ok((bound, parsed))
        })
    }

    /// What is ordered is bound as every replica will bind it, to which the session's temporary
    /// objects are not there.
    fn bind_once(
        &self,
        (versioned, temporary): (&Versioned, bool),
        parsed: Parsed,
        declared: &[Option<DataType>],
    ) -> Result<(Result<Bound<Action>>, Parsed)> {
        let (bound, parsed) = self.bind_by(&self.info, versioned, parsed, declared)?;
        let bound = bound.map(|bound| bound.map(Action::from));
        let is_ordered = bound.as_ref().is_ok_and(|bound| bound.statement.is_ordered());
        let Some(below) = versioned.below.as_ref().filter(|_| is_ordered && !temporary) else {
            return Ok((bound, parsed));
        };
        let (again, parsed) = self.bind_by(&self.info, below, parsed, declared)?;
        Ok((Ok(again?.map(Action::from)), parsed))
    }

    /// The same, of rows that are spelled out with the moments that their literals are.
    fn bind_rows(
        &self,
        catalog: (&Versioned, bool),
        parsed: Parsed,
        declared: &[Option<DataType>],
    ) -> Result<(Result<Bound<Action>>, Parsed)> {
        if let Some(moments) = self.rows_in_utc(&catalog.0.catalog, &parsed)?
            && let (Ok(bound), moments) = self.bind_once(catalog, moments, declared)?
        {
            return Ok((Ok(bound), moments));
        }
        // An error says where it is in the text that was sent.
        self.bind_once(catalog, parsed, declared)
    }

    pub(super) fn bind(
        &self,
        versioned: &Arc<Versioned>,
        parsed: Parsed,
        given: &[Option<DataType>],
        analytical_engine: bool,
    ) -> Result<Prepared> {
        let types = ParameterTypes::new(given);
        let declared = versioned.catalog.current_types(types.declared())?;
        if let Some((declaration, query)) = parsed.declared() {
            let (declaration, query) = (declaration.clone(), query);
            let query = self.bind(versioned, query, given, analytical_engine)?;
            return Ok(Prepared::declaring(parsed, types, declaration, query));
        }
        if let Some((explained, options)) = parsed.explained()? {
            let explained = self.bind(versioned, explained, given, analytical_engine)?;
            return Ok(Prepared::explaining(parsed, types, explained, options));
        }
        let mut parsed = parsed;
        let versioned = &self.with_room_for(versioned, &mut parsed);
        let temporary = self.info.path.resolve(&versioned.catalog, &mut parsed)?;
        self.defaults_in_utc(&versioned.catalog, &mut parsed)?;
        let (bound, mut parsed) = self.bind_rows((versioned, temporary), parsed, &declared)?;
        let bound = match bound {
            bound if temporary => bound,
            // Who knows system tables knows their types, as which the client sends its values.
            Err(error) if analytical_engine => {
                self.bind_refused(versioned, &parsed, &given[..declared.len()], error)
            }
            Ok(bound) if analytical_engine && self.executor == Executor::Columns => {
                self.for_columns(versioned, &parsed, &given[..declared.len()], bound)
            }
            bound => bound,
        };
        let bound = bound.map_err(|error| self.beyond_routines(error));
        let mut bound = bound.map_err(|error| self.bound_in_the_past(parsed.as_of, error))?;
        bound.check_columns()?;
        let writes = bound.statement.writes();
        if parsed.as_of.is_some() && !bound.statement.may_say_as_of() {
            return Err(Error::unsupported("AS OF in a statement that does not only read"));
        }
        if writes || bound.statement.calls() {
            // This node runs what it has bound, and the others look for themselves.
            let Party { principal, role } = self.info.party();
            versioned.catalog.roles().actor(principal, role)?;
        }
        let is_program = matches!(bound.statement, Action::Program(Program::Procedure(_)));
        match writes {
            true if is_program && !temporary => {
                (bound, parsed) = self.bound_in_utc(versioned, (bound, parsed), &declared)?;
            }
            true => self.check_zone(&bound)?,
            false => {}
        }
        if temporary {
            return self.prepared((versioned, true), parsed, bound, types);
        }
        if writes && bound.session_dependent {
            // As every replica will bind it, which knows the user but not the session.
            let canonical = self.canonical(self.info.path.clone());
            let (again, same) = self.bind_by(&canonical, versioned.ledger(), parsed, &declared)?;
            (bound, parsed) = (again?.map(Action::from), same);
        }
        if (writes || matches!(bound.statement, Action::Ddl(_))) && !parsed.has_path {
            parsed.text.insert_str(0, &self.info.path.prefix(&versioned.catalog));
            parsed.has_path = true;
        }
        self.prepared((versioned, false), parsed, bound, types)
    }

    /// With what is asked of a statement each time that it runs.
    pub(super) fn prepared(
        &self,
        (versioned, temporary): (&Versioned, bool),
        parsed: Parsed,
        bound: Bound<Action>,
        types: ParameterTypes,
    ) -> Result<Prepared> {
        let (scanned, outgrown_at) = match &bound.statement {
            Action::Program(Program::Procedure(query) | Program::CopyOut { query, .. }) => {
                (router::scanned_tables(query), router::outgrown_at(query))
            }
            _ => (Box::default(), None),
        };
        let (version, keyed, broad) = (versioned.version, OnceLock::new(), OnceLock::new());
        let may_defer = match &bound.statement {
            Action::Program(Program::Procedure(procedure)) => {
                deferring::may_defer(procedure, &versioned.catalog)
            }
            _ => false,
        };
        let locking = Locking::of(&parsed, &versioned.catalog)?;
        let origins = match &bound.output {
            Output::Rows(columns) => origins::of(&versioned.catalog, &parsed, columns.len()),
            Output::Tag => Box::default(),
        };
        let (zone, role) = (self.info.zone.clone(), Arc::from(self.info.current_user()));
        Ok(Prepared {
            parsed,
            bound,
            types,
            version,
            zone,
            role,
            origins,
            scanned,
            outgrown_at,
            locking,
            keyed,
            broad,
            temporary,
            may_defer,
        })
    }

    /// What the ledger is asked for speaks of moments, and not of what clocks show.
    fn check_zone(&self, bound: &Bound<Action>) -> Result<()> {
        if bound.by_clocks {
            return Err(self.clocks_refused());
        }
        match bound.zone_dependent && !self.info.zone.is_plain() {
            false => Ok(()),
            true if self.info.zone.is_utc() => Err(Error::unsupported(
                "an interval from or as text, in a statement that writes, in this interval style",
            )
            .with_hint("SET intervalstyle = 'postgres' for it, or hand it over as a parameter.")),
            true => Err(self.zone_refused()),
        }
    }
}
