//! Limits that decide outcomes, which are therefore parameters of the ledger and not settings.
//!
//! Where the parameters do not name one, it has the value that the executor's version gives it.

use ledger::Parameters;
use types::{Error, Result, SqlState};

/// Under executor 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of an envelope, all its bytes. A larger one is refused at the door and by every replica.
    pub envelope_bytes_max: usize,
    /// How far after its block's time an envelope may expire: so long keys are known.
    pub expiry_us_max: i64,
    /// How often a protocol may defer a transaction to a later block.
    pub attempts_max: u32,
}

/// Name, default, smallest and largest value.
type Limit = (&'static str, u64, u64, u64);

const ENVELOPE: Limit = ("envelope_bytes_max", 768 << 20, 64 << 10, 1000 << 20);
const EXPIRY: Limit = ("expiry_us_max", 86_400_000_000, 1_000_000, 31_536_000_000_000);
const ATTEMPTS: Limit = ("attempts_max", 100, 0, 10_000);

const ALL: [Limit; 3] = [ENVELOPE, EXPIRY, ATTEMPTS];

impl Limits {
    pub fn of(parameters: &Parameters) -> Result<Limits> {
        let number = |limit: Limit| match parameters.others.get(limit.0) {
            Some(text) => parse(limit, text),
            None => Ok(limit.1),
        };
        Ok(Limits {
            envelope_bytes_max: number(ENVELOPE)? as usize,
            expiry_us_max: number(EXPIRY)? as i64,
            attempts_max: number(ATTEMPTS)? as u32,
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
        let what = format!("invalid value \"{text}\" of ledger parameter \"{name}\"");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
            .with_hint(format!("It is a whole number from {min} to {max}."))
    })
}
