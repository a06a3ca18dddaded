//! A connection's prepared statements and portals, by name.
//!
//! A portal is a statement with its parameters bound. It lives until its transaction ends, keeps
//! the rows that a limited Execute has not fetched yet, and runs once. The unnamed ones are what
//! nearly every driver uses, so they are found without hashing and their memory is used again.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use types::{Error, Result, SqlState, Value};

use crate::backend::{Prepared, Tag};
use crate::fetch::Fetch;
use crate::message::Formats;

/// Statements, and portals, that one connection may hold by name.
const NAMES_MAX: usize = 65_536;

/// What they may take, by estimate.
const NAMED_BYTES_MAX: usize = 256 << 20;

/// What a statement takes: so much, and so many times its text, of which it keeps the program.
const STATEMENT_BYTES: usize = 1 << 10;
const BYTES_PER_TEXT_BYTE: usize = 32;

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
    unnamed: Option<T>,
    /// With what each takes.
    named: FxHashMap<Box<str>, (T, usize)>,
    named_bytes: usize,
}

impl<T> Slots<T> {
    fn new() -> Self {
        Slots { unnamed: None, named: FxHashMap::default(), named_bytes: 0 }
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
            self.unnamed = None;
        } else if let Some((_, bytes)) = self.named.remove(name) {
            self.named_bytes -= bytes;
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
            self.unnamed = Some(thing);
            return Ok(());
        }
        if self.named.contains_key(name) {
            return Err(taken());
        }
        if self.named.len() >= NAMES_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a connection can hold at most {NAMES_MAX} names"),
            ));
        }
        if self.named_bytes.saturating_add(bytes) > NAMED_BYTES_MAX {
            return Err(Error::new(
                SqlState::OUT_OF_MEMORY,
                "the connection's prepared statements and portals take too much memory",
            )
            .with_detail(format!("They may take {NAMED_BYTES_MAX} bytes; this one takes {bytes}."))
            .with_hint("Close those that are no longer needed."));
        }
        self.named_bytes += bytes;
        self.named.insert(name.into(), (thing, bytes));
        Ok(())
    }

    fn clear_named(&mut self) {
        if !self.named.is_empty() {
            self.named.clear();
            self.named_bytes = 0;
        }
    }
}

pub struct Store<B> {
    statements: Slots<Statement<B>>,
    portals: Slots<Portal<B>>,
    /// Memory of the last unnamed portal's parameters.
    spare: Vec<Value>,
}

impl<B> Store<B> {
    pub fn new() -> Self {
        Store { statements: Slots::new(), portals: Slots::new(), spare: Vec::new() }
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
        let bytes = STATEMENT_BYTES + name.len() + BYTES_PER_TEXT_BYTE * text.len();
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
            None => self.statements = Slots::new(),
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
        self.portals.insert(name, (portal, size_of::<Portal<B>>() + name.len() + weight), || {
            Error::new(SqlState(*b"42P03"), format!("portal \"{name}\" already exists"))
        })
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
        if let Some(portal) = self.portals.unnamed.take() {
            self.recycle(portal);
        }
        std::mem::take(&mut self.spare)
    }

    fn recycle(&mut self, portal: Portal<B>) {
        let mut parameters = portal.parameters;
        parameters.clear();
        self.spare = parameters;
    }

    /// A simple query destroys the unnamed statement and the unnamed portal.
    pub fn clear_unnamed(&mut self) {
        self.statements.unnamed = None;
        self.portals.unnamed = None;
    }

    /// The transaction is over, and its portals with it.
    pub fn clear_portals(&mut self) {
        if let Some(portal) = self.portals.unnamed.take() {
            self.recycle(portal);
        }
        self.portals.clear_named();
    }
}

fn no_portal(name: &str) -> Error {
    Error::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
