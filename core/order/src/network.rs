//! [`Network`]: how an orderer's messages reach the same orderer on other nodes. Messages may be
//! lost, late or repeated.

use std::io;
use std::pin::Pin;

use bytes::Bytes;

/// An answer that is waited for.
pub type Call = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

/// How messages reach other nodes. A request may arrive more than once, late, or never; its answer
/// is what the orderer there says to it.
pub trait Network: Send + Sync + 'static {
    fn call(&self, to: u64, request: Bytes) -> Call;
}
