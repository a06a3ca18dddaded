//! Why a start could not use a checkpoint: damaged, of another ledger, not what a block vouches
//! for, and other reasons.

use types::{Error, Height, SqlState};

/// A checkpoint that a replica could not be made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassedOver {
    pub height: Height,
    pub why: String,
    /// It can never serve: it is damaged, or of a block that the ledger does not have. Otherwise it
    /// could not be read just now.
    pub is_lost: bool,
}

impl PassedOver {
    pub(crate) fn lost(height: Height, why: &str) -> PassedOver {
        PassedOver { height, why: why.to_owned(), is_lost: true }
    }

    pub(crate) fn contradicted(height: Height, by: Height) -> PassedOver {
        let what = format!("its state is not the one that block {by} of the ledger names");
        PassedOver::lost(height, &what)
    }

    pub(crate) fn not_vouched_for(height: Height) -> PassedOver {
        let why = "no block of the ledger says that its state is the one".to_owned();
        PassedOver { height, why, is_lost: false }
    }

    pub(crate) fn because(height: Height, error: &Error) -> PassedOver {
        let is_lost = error.code() != SqlState::IO_ERROR;
        PassedOver { height, why: error.to_string(), is_lost }
    }
}
