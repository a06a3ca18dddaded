//! Callers that wait for a [confirmed read](crate::confirm) of the order: those that come while a
//! question is on its way share the next one.

use std::sync::{Mutex, MutexGuard};

use kit::sync::lock;
use order::Tell;

/// Those who want to know.
#[derive(Default)]
pub(crate) struct Asking(Mutex<Questions>);

#[derive(Default)]
struct Questions {
    waiting: Vec<Tell>,
    under_way: bool,
}

impl Asking {
    /// Whether a task is to be started that asks.
    pub fn joins(&self, tell: Tell) -> bool {
        let mut questions = self.lock();
        questions.waiting.push(tell);
        !std::mem::replace(&mut questions.under_way, true)
    }

    /// Those for whom a question is put now.
    pub fn next(&self) -> Vec<Tell> {
        let mut questions = self.lock();
        questions.under_way = !questions.waiting.is_empty();
        std::mem::take(&mut questions.waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        lock(&self.0)
    }
}
