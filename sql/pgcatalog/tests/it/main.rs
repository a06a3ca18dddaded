//! Literal queries of PostgreSQL's clients, over a schema of ours, against PostgreSQL's answers.
//!
//! `fixtures/CLIENT.queries` is what a client sends; `fixtures/CLIENT.answers` is what PostgreSQL
//! 15 says to that over the tables of `fixtures/schema.sql` (`scripts/catalog-answers` makes it). A
//! number of an object is not the same here and there, so `{name}` stands for it in both.

mod answers;
mod contents;
mod fixtures;
mod hostile;
