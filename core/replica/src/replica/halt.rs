//! Why a replica stops.

use types::Error;

/// Why a replica must stop: it may have diverged, or its ledger names something it does not know.
#[derive(Clone, PartialEq, Debug)]
pub struct Halt(pub String);

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Halt {}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Halt(why)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt(error.to_string())
    }
}
