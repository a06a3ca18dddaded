//! JSON: what is a text of it, and the one form in which a `jsonb` is kept.
//!
//! A `json` is the text that was given, checked and otherwise untouched: blanks, doubled keys and
//! the order of keys stay. A [`Jsonb`] is a text, too, but of the one form that PostgreSQL writes:
//!
//! ```text
//! [1, 2], {"a": 1, "bb": null}   one blank behind a comma and a colon, no other outside strings
//! keys     without doubles, of which the last counts; the shorter first, those of a length by bytes
//! numbers  as `numeric` writes them, with their scale: 1e2 is 100, 1.10 stays 1.10, -0 is 0
//! strings  \b \f \n \r \t \" \\, \u00XX for other control characters; all else is itself
//! ```
//!
//! The same text is the value in memory, in storage, in the ledger and behind the version byte on
//! the wire, so nothing is converted on the way, and what is hashed can be computed by PostgreSQL.
//! Two values are equal if their [keys](order::push_key) are: `1.0` equals `1.00`.
//!
//! | Module | |
//! |---|---|
//! | `lexer`, [`parse`] | reads any text, with PostgreSQL's words for what is wrong with it |
//! | [`order`] | bytes whose order is PostgreSQL's order of `jsonb` |
//! | [`raw`] | a look into text that is known to be JSON: kinds, elements, members |
//! | [`write`] | texts and values as JSON |
//!
//! *Bounds.* Text that is nested more than [`DEPTH_MAX`] deep is refused with 54001, as PostgreSQL
//! does by the depth of its stack (some thousands). Reading takes time linear in the text, but for
//! sorting keys, and numbers of many digits (see [`work`](crate::numeric::work::of_text)).
//!
//! *Departure.* The messages have no CONTEXT that quotes the line.
//!
//! *Why no library.* `serde_json` keeps numbers as they are spelled only by its feature
//! `arbitrary_precision`, which would change how every crate here reads numbers, and says other
//! words than PostgreSQL about what is wrong.

mod lexer;
pub mod order;
pub mod parse;
pub mod raw;
pub mod write;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use compact_str::CompactString;

use crate::error::Result;
use crate::key::Key;

/// How deep arrays and objects may lie in each other.
pub const DEPTH_MAX: usize = 1_000;

/// A `jsonb`: text in the canonical form.
#[derive(Clone, Debug)]
pub struct Jsonb(CompactString);

impl Jsonb {
    /// Reads any JSON text.
    ///
    /// # Errors
    /// 22P02 and its sisters for what is none, as PostgreSQL words them.
    pub fn read(text: &str) -> Result<Jsonb> {
        parse::canonical(text).map(Jsonb)
    }

    /// Text that is known to have the canonical form: it was a value's before, or is made of parts
    /// of such.
    pub fn of_canonical(text: CompactString) -> Jsonb {
        debug_assert!(parse::canonical(&text).is_ok_and(|read| read == text), "{text}");
        Jsonb(text)
    }

    /// A value's text as storage had it, which checks its own bytes.
    pub fn stored(text: CompactString) -> Jsonb {
        Jsonb(text)
    }

    /// `None` unless the text has the canonical form.
    pub fn read_canonical(text: &str) -> Option<Jsonb> {
        let read = parse::canonical(text).ok()?;
        (read == text).then_some(Jsonb(read))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_text(self) -> CompactString {
        self.0
    }

    pub fn raw(&self) -> raw::Raw<'_> {
        raw::Raw::of_valid(&self.0)
    }

    pub(crate) fn is_heap_allocated(&self) -> bool {
        self.0.is_heap_allocated()
    }

    fn key(&self) -> Key {
        let mut key = Key::default();
        order::push_key(self, &mut key.0);
        key
    }
}

impl PartialEq for Jsonb {
    fn eq(&self, other: &Jsonb) -> bool {
        self.0 == other.0 || self.cmp(other).is_eq()
    }
}

impl Eq for Jsonb {}

impl PartialOrd for Jsonb {
    fn partial_cmp(&self, other: &Jsonb) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Jsonb {
    fn cmp(&self, other: &Jsonb) -> Ordering {
        if self.0 == other.0 {
            return Ordering::Equal;
        }
        self.key().cmp(&other.key())
    }
}

impl Hash for Jsonb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
