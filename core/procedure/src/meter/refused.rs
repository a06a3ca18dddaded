//! What is said where something has run out.

use types::{Error, SqlState};

use super::{FIRST_BYTE_SHARES, FIRST_COMMANDS, FIRST_UNIT_SHARES, Meter, SHARES, SPLIT};

impl Meter {
    /// Why an update command cannot go on.
    fn command_too_long(&self, code: SqlState, what: String) -> Error {
        Error::new(code, format!("an UPDATE by key takes more than {what}"))
            .with_detail(format!(
                "What it makes of a row is computed when the row's turn comes. A transaction's \
                 first {FIRST_COMMANDS} such updates may take a {FIRST_UNIT_SHARES}th of the work \
                 and an {FIRST_BYTE_SHARES}th of the memory that it may take, each of the others \
                 a {SHARES}th.",
            ))
            .with_hint(
                "Read the row in a statement of its own, and write what comes of it. The ledger's \
                 owner can SET ledger.transaction_units_max and ledger.transaction_bytes_max.",
            )
    }

    #[cold]
    pub(super) fn exhausted(&self) -> Error {
        if self.is_command {
            let what = format!("{} units of work", self.allowance.get());
            return self.command_too_long(SqlState::STATEMENT_TOO_COMPLEX, what);
        }
        Error::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!("the transaction takes more than {} units of work", self.allowance.get()),
        )
        .with_detail(
            "A transaction holds up its block, so the ledger's parameter transaction_units_max \
             bounds it. A step, a row that is read, an operator, and 4 bytes that a function works \
             on are a unit each, a pair of a join some more, a row that is written about 40.",
        )
        .with_hint(SPLIT)
    }

    #[cold]
    pub(super) fn out_of_memory(&self) -> Error {
        if self.is_command {
            let what = format!("{} bytes of memory", self.memory.get());
            return self.command_too_long(SqlState::PROGRAM_LIMIT_EXCEEDED, what);
        }
        let what = format!("more than {} bytes are held in memory at once", self.memory.get());
        match self.too_much {
            Some(too_much) => too_much(self.memory.get()),
            None => Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(
                    "The ledger's parameter transaction_bytes_max says how many there may be; rows \
                     that a transaction gathers, answers and writes count.",
                )
                .with_hint(SPLIT),
        }
    }
}
