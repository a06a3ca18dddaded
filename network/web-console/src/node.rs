//! What the console asks of the node that it shows.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::Value as Json;

/// How a process of the same machine reaches the PostgreSQL port.
#[derive(Clone, Debug)]
pub enum SqlAddress {
    /// The socket's folder, and the port that is part of its name.
    Socket(PathBuf, u16),
    Tcp(std::net::SocketAddr),
}

/// The node that is shown.
pub trait Node: Send + Sync + 'static {
    /// `None` while it starts.
    fn sql_address(&self) -> Option<SqlAddress>;

    /// Whether users have passwords. Where they have none, the token is asked for.
    fn has_passwords(&self) -> bool;

    /// The user whose name the login proposes.
    fn owner(&self) -> String;

    fn is_token(&self, shown: &str) -> bool;

    /// 256 bits that cannot be guessed.
    fn random(&self) -> std::io::Result<[u8; 32]>;

    /// Nothing that has to be kept from those who reach the port: no row, no name.
    fn overview(&self) -> Json;

    /// Blocks below a height (`None`: the newest), newest first. Reads files.
    fn blocks(&self, below: Option<u64>, count: usize) -> Result<Json>;

    /// A block and some of its transactions; `None`: there is no such block. Reads files.
    fn block(&self, height: u64, from: usize, count: usize) -> Result<Option<Json>>;

    /// The block of this hash, or of the transaction with this id, as far as it is among those
    /// that are looked through. Reads files.
    fn find(&self, hash: &str) -> Result<Json>;

    /// Transactions below a height (`None`: the newest) that this user sent, that call this
    /// procedure or in whose text this stands, newest first, as far as it looks. Reads files.
    fn search(&self, text: &str, below: Option<u64>) -> Result<Json>;

    /// Rows that a block changed, by the transactions at these places in it, before and after;
    /// `None`: there is no such block.
    fn changes(&self, height: u64, places: Range<u32>) -> Result<Option<Json>>;

    /// What conflicted in the newest blocks, which rows change most, and how blocks were run.
    /// Reads files.
    fn conflicts(&self, blocks: usize) -> Result<Json>;
}
