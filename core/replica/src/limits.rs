//! What decides outcomes beside the protocol, and is therefore a parameter of the ledger and not a
//! setting: limits, and the version of the semantics.
//!
//! Where the parameters do not name one, it has the value that executor 1 gives it. *The executor*
//! is a number for everything that this program does with a block and that no parameter names: what
//! SQL means, what is a unit of work, how deep calls nest, how an outcome is
//! encoded, which of several rejections is told. The same orders give the same results under the
//! same number, for ever: `recovery/tests/it/golden_ledgers.rs` executes ledgers that are checked
//! in. A change of one result takes a new number, by which this program does what it did before. A
//! ledger that names a number which this program does not have is refused.

use ledger::Parameters;
use ledger::record::RECORD_BYTES_MAX;
use procedure::{BYTES_MAX, Budget, UNITS_MAX};
use types::{Error, Result, SqlState};

/// The newest version of the semantics that this program executes; it has all from 1 on.
pub const EXECUTOR: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub executor: u32,
    /// Of an envelope, all its bytes. A larger one is refused on entry and by every replica.
    pub envelope_bytes_max: usize,
    /// How far after its block's time an envelope may expire: so long keys are known.
    pub expiry_us_max: i64,
    /// How often a protocol may defer a transaction to a later block.
    pub attempts_max: u32,
    /// What a transaction may do, so that it holds up a block for a few seconds at most.
    pub budget: Budget,
    /// Whether result headers name the root of the state after them.
    pub state_root: bool,
}

/// Name, default, smallest and largest value.
type Limit = (&'static str, u64, u64, u64);

const VERSION: Limit = ("executor", 1, 1, EXECUTOR as u64);
const ENVELOPE: Limit = ("envelope_bytes_max", 768 << 20, 64 << 10, 1000 << 20);
const EXPIRY: Limit = ("expiry_us_max", 86_400_000_000, 1_000_000, 31_536_000_000_000);
const ATTEMPTS: Limit = ("attempts_max", 100, 0, 10_000);
const UNITS: Limit = ("transaction_units_max", UNITS_MAX, 100_000, 1_000_000_000_000);
const BYTES: Limit = ("transaction_bytes_max", BYTES_MAX, 1 << 20, 1 << 40);

const STATE_ROOT: Limit = ("state_root", 0, 0, 1);

const ALL: [Limit; 7] = [VERSION, ENVELOPE, EXPIRY, ATTEMPTS, UNITS, BYTES, STATE_ROOT];

const _: () = {
    let mut at = 0;
    while at < ALL.len() {
        let (_, default, min, max) = ALL[at];
        assert!(min <= default && default <= max, "a default is a value that can be set");
        at += 1;
    }
};

const _: () = assert!(ENVELOPE.3 < RECORD_BYTES_MAX as u64, "an envelope fits in a record");

/// Who puts a ledger's envelopes in an order; a ledger that does not name one has one node. Set
/// when the ledger begins, for good.
pub const ORDERER: &str = "orderer";

/// The orderer whose log is the ledger's own log of orders: what stands in that may yet be taken
/// back, until it has a result. Any other hands over what is final, and the node writes it down.
pub const RAFT: &str = "raft";

/// The superuser that a ledger begins with, where it is not `tally`. Set when the ledger begins.
pub const OWNER: &str = "owner";

/// Who they are, where it is several nodes: see [`crate::members`].
pub const MEMBERS: &str = "members";

impl Limits {
    /// Who orders, if it is not the node alone.
    pub fn orderer(parameters: &Parameters) -> Option<&str> {
        parameters.others.get(ORDERER).map(String::as_str)
    }

    pub fn of(parameters: &Parameters) -> Result<Limits> {
        let number = |limit: Limit| match parameters.others.get(limit.0) {
            Some(text) => parse(limit, text),
            None => Ok(limit.1),
        };
        Ok(Limits {
            executor: number(VERSION)? as u32,
            envelope_bytes_max: number(ENVELOPE)? as usize,
            expiry_us_max: number(EXPIRY)? as i64,
            attempts_max: number(ATTEMPTS)? as u32,
            budget: Budget { units_max: number(UNITS)?, bytes_max: number(BYTES)? },
            state_root: number(STATE_ROOT)? == 1,
        })
    }

    /// The names that SET ledger.name knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|limit| limit.0)
    }

    /// The parameters with one of them changed; `None` if none has this name.
    pub fn set(parameters: &Parameters, name: &str, value: &str) -> Option<Result<Parameters>> {
        let limit = ALL.into_iter().find(|limit| limit.0 == name)?;
        Some(parse(limit, value).map(|number| {
            let mut next = parameters.clone();
            next.others.insert(name.to_owned(), number.to_string());
            next
        }))
    }

    /// What is in force, as SHOW ledger.name tells.
    pub fn show(parameters: &Parameters, name: &str) -> Option<String> {
        let limit = ALL.into_iter().find(|limit| limit.0 == name)?;
        let set = parameters.others.get(name).cloned();
        Some(set.unwrap_or_else(|| limit.1.to_string()))
    }
}

fn parse((name, _, min, max): Limit, text: &str) -> Result<u64> {
    let number = text.parse::<u64>().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        if name == VERSION.0 {
            return unknown_executor(text);
        }
        let what = format!("invalid value \"{text}\" of ledger parameter \"{name}\"");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
            .with_hint(format!("It is a whole number from {min} to {max}."))
    })
}

/// One that this program does not have.
pub fn unknown_executor(text: &str) -> Error {
    let what = format!("executor {text} is not known: this program has executors 1 to {EXECUTOR}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
        .with_hint("A program of a later version may have it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_executor_is_refused_by_name() {
        let mut parameters = Parameters::new("serial");
        assert_eq!(Limits::of(&parameters).unwrap().executor, 1);
        let next = Limits::set(&parameters, "executor", "1").unwrap().unwrap();
        assert_eq!(next.others["executor"], "1");
        for other in ["0", "2", "99999999999", "", "one", "-1"] {
            let error = Limits::set(&parameters, "executor", other).unwrap().unwrap_err();
            let said = format!("executor {other} is not known: this program has executors 1 to 1");
            assert_eq!(error.message(), said);
            parameters.others.insert("executor".to_owned(), other.to_owned());
            assert_eq!(Limits::of(&parameters).unwrap_err().message(), said);
        }
    }
}
