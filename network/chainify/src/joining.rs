//! What a member of chained databases is opened with.

use std::sync::Arc;

use ledger::Files;
use ledger::signatures::SecretKey;

use crate::exchange::Exchange;

/// Where an organisation's files are.
#[derive(Clone)]
pub struct Folders {
    pub book: Arc<dyn Files>,
    /// What was signed of orders, apart from what was signed of results.
    pub orders: Arc<dyn Files>,
    /// What was signed of results again.
    pub again: Arc<dyn Files>,
}

/// What it takes to be a member.
pub struct Joining {
    pub folders: Folders,
    pub url: String,
    pub member: u64,
    pub key: Arc<SecretKey>,
    pub exchange: Arc<dyn Exchange>,
    pub clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// On which a block's transactions run, those beside each other that touch other rows.
    pub connections: usize,
    /// Of a block at most, where this organisation orders.
    pub block_transactions: usize,
    /// A function of the database that says whether this organisation agrees to a transaction.
    pub check: Option<String>,
}
