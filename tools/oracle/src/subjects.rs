//! What there is to check: every protocol as it is by default, and with each value of each option
//! alone.
//!
//! After a `+` stands what no ledger can be run under: `calvin+eager`, `silo+interleaved=3` (see
//! [`concurrency::Options`]).

use std::sync::Arc;

use concurrency::{OptionValues, Options, Protocol};
use protocols::Entry;

/// Those that keep the block's order, in the order of execution that is hardest on them.
pub const EAGER: &[&str] =
    &["calvin+eager", "conflict_graph+eager", "bohm+eager", "block_stm+eager"];

/// Those that can have several transactions of a worker under way at once.
const INTERLEAVED: &[&str] = &["2pl", "occ", "silo", "hybrid", "healing"];

/// A protocol under a name such as `harmony:reordering=off`.
#[derive(Clone)]
pub struct Subject {
    pub name: String,
    pub protocol: Arc<dyn Protocol>,
}

impl Subject {
    /// # Panics
    /// If there is no such protocol.
    pub fn named(name: impl Into<String>) -> Subject {
        let name = name.into();
        match made(&name, |options| options) {
            Ok(protocol) => Subject { name, protocol },
            Err(error) => panic!("{name}: {}", error.message()),
        }
    }
}

/// The protocol of that name, with more that only a program can ask for.
pub fn made(name: &str, with: impl FnOnce(Options) -> Options) -> types::Result<Arc<dyn Protocol>> {
    let (text, more) = name.split_once('+').unwrap_or((name, ""));
    protocols::made(text, |options| match more.split_once('=') {
        Some(("interleaved", count)) => with(options.interleaving(count.parse().unwrap_or(1))),
        None if more == "eager" => with(options.eager()),
        None if more.is_empty() => with(options),
        _ => panic!("{name}: {more} is nothing to ask for"),
    })
}

/// Every protocol, its options left alone.
pub fn defaults() -> Vec<Subject> {
    protocols::ALL.iter().map(|entry| Subject::named(entry.info.name)).collect()
}

/// Every protocol with one option chosen otherwise.
pub fn variants() -> Vec<Subject> {
    let names = protocols::ALL.iter().flat_map(names_of_variants);
    names.map(Subject::named).collect()
}

/// `name:option=value` for every value that is not the default, and `name+` with what else can be
/// asked for.
pub fn names_of_variants(entry: &Entry) -> Vec<String> {
    let name = entry.info.name;
    let chosen = entry.info.options.iter().flat_map(|option| {
        let values = other_values(option.values);
        values.into_iter().map(move |value| format!("{name}:{}", option.named(&value)))
    });
    let mut names: Vec<String> = chosen.collect();
    names.extend(
        EAGER.iter().filter(|eager| **eager == format!("{name}+eager")).map(|n| (*n).to_owned()),
    );
    if INTERLEAVED.contains(&name) {
        names.extend([3, 64].map(|transactions| format!("{name}+interleaved={transactions}")));
    }
    names
}

/// All names but the first; of numbers the ends, where they are small, and some between.
fn other_values(values: OptionValues) -> Vec<String> {
    /// A larger number is a size that no block of a test reaches.
    const NUMBER_MAX: u64 = 64;
    match values {
        OptionValues::OneOf(names) => names.iter().skip(1).map(ToString::to_string).collect(),
        OptionValues::Integer { min, max, default } => {
            let max = max.min(NUMBER_MAX.max(min));
            let mut numbers: Vec<u64> = [min, 3, max].map(|n| n.clamp(min, max)).to_vec();
            numbers.dedup();
            numbers.iter().filter(|&&n| n != default).map(ToString::to_string).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_values_leave_out_the_default() {
        assert_eq!(other_values(OptionValues::OneOf(&["on", "off"])), ["off"]);
        let number = |min, max, default| other_values(OptionValues::Integer { min, max, default });
        assert_eq!(number(1, 1_000_000, 3), ["1", "64"]);
        assert_eq!(number(4, 4, 4), Vec::<String>::new());
        assert_eq!(number(100, 200, 150), ["100"]);
    }
}
