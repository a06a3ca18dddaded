//! Frees large values on a thread where that delays no other session.
//!
//! A value is freed by the thread that happens to drop it, and that is mostly a thread that serves
//! all sessions' connections. The syntax tree of a megabyte of SQL, or the writes of a transaction
//! that is rolled back, are a million allocations to free one by one.

use super::Session;
use super::guard::{SHORT_TEXT_BYTES, aside};
use super::prepared::{Action, Prepared};
use crate::bind::statement::Command;

impl Session {
    pub(super) fn forget_transaction(&mut self) {
        let transaction = self.transaction.take();
        let is_small = transaction.as_ref().is_none_or(|transaction| transaction.is_small());
        aside(is_small, || drop(transaction));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget_transaction();
        let (bound, lifted) = (
            std::mem::take(&mut self.statements.bound),
            std::mem::take(&mut self.statements.lifted),
        );
        aside(self.statements.bytes <= SHORT_TEXT_BYTES as u64, || drop((bound, lifted)));
    }
}

impl Drop for Prepared {
    /// The tree of a long text, and its program, have as many parts as the text has words.
    fn drop(&mut self) {
        if self.parsed.text.len() > SHORT_TEXT_BYTES {
            let statement =
                std::mem::replace(&mut self.bound.statement, Action::Command(Command::Empty));
            let body = self.parsed.take_body();
            aside(false, || drop((statement, body)));
        }
    }
}
