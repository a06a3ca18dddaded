//! JSON: what is a text of it, and the one form in which a `jsonb` is kept.
//!
//! A `json` is the text that was given, checked and otherwise untouched: blanks, doubled keys and
//! the order of keys stay. A [`Jsonb`] is a text, too, but of the one form that PostgreSQL writes:
//!
//! ```text
//! [1, 2], {"a": 1, "bb": null}   one blank after a comma and a colon, no other outside strings
//! keys     the last of each; the shorter first, those of a length by their bytes
//! numbers  as `numeric` writes them, with their scale: 1e2 is 100, 1.10 stays 1.10, -0 is 0
//! strings  \b \f \n \r \t \" \\, \u00XX for other control characters; all else is itself
//! ```
//!
//! The same text is the value in memory, in storage, in the ledger and after the version byte on
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

mod depth;
mod jsonb;
mod lexer;
pub mod order;
pub mod parse;
pub mod raw;
pub mod write;

pub use depth::DEPTH_MAX;
pub use jsonb::Jsonb;
