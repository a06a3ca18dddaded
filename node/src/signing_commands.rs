//! The command line of `tally identity`, `tally sign`, `tally approve`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ledger::hash::from_hex;
use types::SqlState;

#[derive(Args, Debug)]
pub struct Identity {
    #[command(subcommand)]
    pub action: IdentityAction,
}

#[derive(Subcommand, Debug)]
pub enum IdentityAction {
    /// Make a key in a new file that only its owner can read, and print its public half.
    New {
        /// A file that does not exist.
        file: PathBuf,
    },
    /// Print the public half of a key.
    Show {
        /// A file that `tally identity new` has made.
        file: PathBuf,
    },
    /// Print the public half of the key that a node signs by, which is made if there is none.
    Node {
        /// The node's data folder.
        #[arg(long, value_name = "DIR", default_value = "tally-data")]
        data: PathBuf,
    },
}

#[derive(Args, Debug)]
pub struct Sign {
    /// A file that `tally identity new` has made. Without one the transaction bears no signature:
    /// a session of its user can hand it in.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Whose transaction it is.
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// Id of the ledger, 32 hexadecimal digits: SHOW ledger.id tells it.
    #[arg(long, value_name = "HEX", value_parser = ledger_id)]
    pub ledger: [u8; 16],
    /// The role that the user acts as, where that is another.
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// Names the transaction, which then runs at most once under that name.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Seconds until it can be ordered no more.
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub expires: u32,
    #[command(subcommand)]
    pub action: SignAction,
}

#[derive(Args, Debug)]
pub struct Approve {
    /// A file that `tally identity new` has made.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Id of the ledger that it has to be for, 32 hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = ledger_id)]
    pub ledger: [u8; 16],
    /// What `tally sign`, `tally approve` or `tally_approve()` has printed.
    pub envelope: String,
}

#[derive(Subcommand, Debug)]
pub enum SignAction {
    /// A procedure or function.
    Call {
        procedure: String,
        /// An integer, a number with a point, true, false, null; else a text, in single quotes
        /// where it looks like one of these.
        #[arg(allow_negative_numbers = true)]
        arguments: Vec<String>,
    },
    /// One INSERT, UPDATE, DELETE or MERGE.
    Statement { text: String },
    /// A schema change, such as ALTER ORGANISATION.
    Schema { text: String },
}

/// 32 hexadecimal digits.
pub fn ledger_id(text: &str) -> types::Result<[u8; 16]> {
    let id = from_hex(text).ok().and_then(|id| <[u8; 16]>::try_from(id).ok());
    id.ok_or_else(|| {
        let what = "a ledger's id has 32 hexadecimal digits";
        types::Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledgers_id_has_32_digits() {
        assert_eq!(ledger_id(&"0a".repeat(16)).unwrap(), [10; 16]);
        for wrong in ["", "0a", &"0a".repeat(32), &"0x".repeat(16), &"é".repeat(16)] {
            assert!(ledger_id(wrong).is_err(), "{wrong}");
        }
    }
}
