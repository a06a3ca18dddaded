//! [`Failure`]: why a statement's handling ends early, by an error for the client or by the end of
//! the connection; and running long work without holding up other sessions.

use std::io;

use tokio::runtime::{Handle, RuntimeFlavor};
use types::Error;

use crate::wire::Closed;

/// What ends a statement early: an error to report, or the end of the connection.
#[derive(Debug)]
pub enum Failure {
    Statement(Error),
    Connection(Closed),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Statement(error)
    }
}

impl From<Closed> for Failure {
    fn from(closed: Closed) -> Self {
        Failure::Connection(closed)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Connection(Closed::Io(error))
    }
}

/// Runs what takes a while where it holds up no other session.
pub fn aside<T>(run: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}
