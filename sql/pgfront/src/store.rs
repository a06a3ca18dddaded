//! A connection's prepared statements and portals, by name.
//!
//! A portal is a statement with its parameters bound. It lives until its transaction ends, keeps
//! the rows that a limited Execute has not fetched yet, and runs once. The unnamed ones are what
//! nearly every driver uses, so they are found without hashing and their memory is used again.

use std::sync::Arc;

use kit::pool::{Lease, Pool, SMALL_BYTES};
use rustc_hash::FxHashMap;
use types::{Error, Result, SqlState, Value};

use crate::backend::{Prepared, Tag};
use crate::failure::aside;
use crate::fetch::Fetch;
use crate::message::Formats;

/// What one connection may hold by name.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub statements_max: usize,
    pub portals_max: usize,
    /// What either may take, by estimate.
    pub bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { statements_max: 10_000, portals_max: 10_000, bytes_max: 64 << 20 }
    }
}

/// What a statement takes: so much, and so many times its text, of which it keeps the program. A
/// long text is mostly literals, which are not much longer in a program.
const STATEMENT_BYTES: usize = 1 << 10;
const BYTES_PER_TEXT_BYTE: usize = 32;
const BYTES_PER_LONG_TEXT_BYTE: usize = 4;
const LONG_TEXT_BYTES: usize = 16 << 10;

/// Copies of a portal's parameters that there are while it runs.
const PARAMETER_COPIES: usize = 3;

/// What rows may take that a portal holds and that no lease covers.
const SUSPENDED_BYTES: usize = SMALL_BYTES as usize;

/// More of what has a name takes a while to be given back.
const MUCH_BYTES: usize = 1 << 20;

/// `None`: the text held no statement.
pub type Statement<B> = Option<Arc<Prepared<B>>>;

pub struct Portal<B> {
    pub statement: Statement<B>,
    pub parameters: Vec<Value>,
    pub formats: Formats,
    pub state: PortalState,
}

pub enum PortalState {
    Ready,
    /// Run; these rows were not fetched yet.
    Suspended {
        rows: Fetch,
        tag: Tag,
    },
    Done,
}

/// Things by name, the empty name apart.
struct Slots<T> {
    /// What they are, and the settings that bound how many there are and what they take.
    kind: Kind,
    names_max: usize,
    bytes_max: usize,
    unnamed: Option<T>,
    unnamed_bytes: usize,
    /// With what each takes.
    named: FxHashMap<Box<str>, (T, usize)>,
    named_bytes: usize,
    /// Covers all of them.
    lease: Lease,
}

#[derive(Clone, Copy)]
enum Kind {
    Statements,
    Portals,
}

impl Kind {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Statements => ("prepared statements", "session_statements_max"),
            Kind::Portals => ("portals", "session_portals_max"),
        }
    }
}

impl<T> Slots<T> {
    fn new(kind: Kind, names_max: usize, bytes_max: usize, lease: Lease) -> Self {
        let (unnamed_bytes, named_bytes) = (0, 0);
        let (unnamed, named) = (None, FxHashMap::default());
        Slots { kind, names_max, bytes_max, unnamed, unnamed_bytes, named, named_bytes, lease }
    }

    fn bytes(&self) -> u64 {
        (self.unnamed_bytes + self.named_bytes) as u64
    }

    fn shrink_lease(&mut self) {
        self.lease.shrink(self.bytes());
    }

    fn get(&self, name: &str) -> Option<&T> {
        match name.is_empty() {
            true => self.unnamed.as_ref(),
            false => self.named.get(name).map(|(thing, _)| thing),
        }
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        match name.is_empty() {
            true => self.unnamed.as_mut(),
            false => self.named.get_mut(name).map(|(thing, _)| thing),
        }
    }

    fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.clear_unnamed();
        } else if let Some((_, bytes)) = self.named.remove(name) {
            self.named_bytes -= bytes;
            self.shrink_lease();
        }
    }

    fn clear_unnamed(&mut self) {
        self.unnamed = None;
        if std::mem::take(&mut self.unnamed_bytes) > 0 {
            self.shrink_lease();
        }
    }

    /// Only the unnamed one may be replaced.
    fn insert(
        &mut self,
        name: &str,
        (thing, bytes): (T, usize),
        taken: impl FnOnce() -> Error,
    ) -> Result<()> {
        if name.is_empty() {
            self.clear_unnamed();
            self.lease.cover(self.bytes() + bytes as u64)?;
            (self.unnamed, self.unnamed_bytes) = (Some(thing), bytes);
            return Ok(());
        }
        if self.named.contains_key(name) {
            return Err(taken());
        }
        let (things, setting) = self.kind.names();
        if self.named.len() >= self.names_max {
            let what = format!("a session can hold at most {} {things}", self.names_max);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(format!("The setting {setting} says how many there may be."))
                .with_hint("Close those that are no longer needed."));
        }
        if self.named_bytes.saturating_add(bytes) > self.bytes_max {
            let what = format!("the session's {things} take too much memory");
            let max = self.bytes_max;
            return Err(Error::new(SqlState::OUT_OF_MEMORY, what)
                .with_detail(format!(
                    "By session_statement_bytes_max they may take {max} bytes; this one takes \
                     {bytes}."
                ))
                .with_hint("Close those that are no longer needed."));
        }
        self.lease.cover(self.bytes() + bytes as u64)?;
        self.named_bytes += bytes;
        self.named.insert(name.into(), (thing, bytes));
        Ok(())
    }

    fn clear_named(&mut self) {
        if !self.named.is_empty() {
            let named = std::mem::take(&mut self.named);
            match std::mem::take(&mut self.named_bytes) > MUCH_BYTES {
                true => aside(|| drop(named)),
                false => drop(named),
            }
            self.shrink_lease();
        }
    }

    /// One by name takes more than it did.
    fn add_bytes(&mut self, name: &str, more: usize) {
        if let Some((_, bytes)) = self.named.get_mut(name) {
            *bytes += more;
            self.named_bytes += more;
            self.lease.cover_anyway(self.bytes());
        }
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        self.clear_named();
    }
}

pub struct Store<B> {
    statements: Slots<Statement<B>>,
    portals: Slots<Portal<B>>,
    /// Memory of the last unnamed portal's parameters.
    spare: Vec<Value>,
}

impl<B> Store<B> {
    pub fn new(bounds: Bounds, pool: &Arc<Pool>) -> Self {
        let Bounds { statements_max, portals_max, bytes_max } = bounds;
        Store {
            statements: Slots::new(Kind::Statements, statements_max, bytes_max, pool.lease()),
            portals: Slots::new(Kind::Portals, portals_max, bytes_max, pool.lease()),
            spare: Vec::new(),
        }
    }

    pub fn statement(&self, name: &str) -> Result<&Statement<B>> {
        self.statements.get(name).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    pub fn insert_statement(
        &mut self,
        name: &str,
        statement: Statement<B>,
        text: &str,
    ) -> Result<()> {
        let (short, long) = (text.len().min(LONG_TEXT_BYTES), text.len());
        let program = BYTES_PER_TEXT_BYTE * short + BYTES_PER_LONG_TEXT_BYTE * long;
        let bytes = STATEMENT_BYTES + name.len() + program;
        self.statements.insert(name, (statement, bytes), || {
            Error::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
        })
    }

    pub fn remove_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Unlike Close, DEALLOCATE insists that the statement exists. `None`: all statements.
    pub fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            Some(name) => {
                self.statement(name)?;
                self.remove_statement(name);
            }
            None => {
                self.statements.clear_unnamed();
                self.statements.clear_named();
            }
        }
        Ok(())
    }

    pub fn portal(&self, name: &str) -> Result<&Portal<B>> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    pub fn portal_mut(&mut self, name: &str) -> Result<&mut Portal<B>> {
        self.portals.get_mut(name).ok_or_else(|| no_portal(name))
    }

    pub fn insert_portal(&mut self, name: &str, portal: Portal<B>) -> Result<()> {
        let weight: usize = portal.parameters.iter().map(Value::weight).sum();
        let bytes = size_of::<Portal<B>>() + name.len() + PARAMETER_COPIES * weight;
        self.portals.insert(name, (portal, bytes), || {
            Error::new(SqlState(*b"42P03"), format!("portal \"{name}\" already exists"))
        })
    }

    /// A portal by name keeps rows until its next Execute.
    pub fn portal_is_suspended(&mut self, name: &str) {
        self.portals.add_bytes(name, SUSPENDED_BYTES);
    }

    pub fn remove_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// An empty vector for the parameters of a new portal. The unnamed portal is replaced, so its
    /// memory can be.
    pub fn take_parameters(&mut self, portal: &str) -> Vec<Value> {
        if !portal.is_empty() {
            return Vec::new();
        }
        self.recycle_unnamed();
        std::mem::take(&mut self.spare)
    }

    fn recycle_unnamed(&mut self) {
        if let Some(portal) = self.portals.unnamed.take() {
            let mut parameters = portal.parameters;
            parameters.clear();
            self.spare = parameters;
            self.portals.clear_unnamed();
        }
    }

    /// A simple query destroys the unnamed statement and the unnamed portal.
    pub fn clear_unnamed(&mut self) {
        self.statements.clear_unnamed();
        self.portals.clear_unnamed();
    }

    /// The transaction is over, and its portals with it.
    pub fn clear_portals(&mut self) {
        self.recycle_unnamed();
        self.portals.clear_named();
    }
}

fn no_portal(name: &str) -> Error {
    Error::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
