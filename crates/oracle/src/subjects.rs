//! What there is to check: every protocol as it is by default, and with each value of each option
//! alone.

use std::sync::Arc;

use concurrency::{OptionValues, Protocol};
use protocols::Entry;

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
        match protocols::by_name(&name) {
            Ok(protocol) => Subject { name, protocol },
            Err(error) => panic!("{name}: {}", error.message()),
        }
    }
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

/// `name:option=value` for every value that is not the default.
pub fn names_of_variants(entry: &Entry) -> Vec<String> {
    let chosen = entry.info.options.iter().flat_map(|option| {
        let values = other_values(option.values);
        values.into_iter().map(move |value| (option.name, value))
    });
    chosen.map(|(option, value)| format!("{}:{option}={value}", entry.info.name)).collect()
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
