//! What is measured, and in which units.

use std::collections::BTreeMap;

/// A measure: how it is called in the file, whether more of it is better, and what a subject has to
/// meet that has no line.
pub struct Measure {
    pub name: &'static str,
    pub more_is_better: bool,
    /// In the units of the values.
    pub aim: u64,
    /// Values are in tenths.
    pub tenths: bool,
    pub unit: &'static str,
}

const fn fewer(name: &'static str, aim: u64, unit: &'static str) -> Measure {
    Measure { name, more_is_better: false, aim, tenths: false, unit }
}

pub const CYCLE: Measure = fewer("cycle", 0, "files in one cycle of imports");
pub const FILE_LINES: Measure = fewer("file", 700, "lines in a file");
pub const FUNCTION_LINES: Measure = fewer("function", 70, "lines in a function");
pub const ASSERTIONS: Measure = Measure {
    name: "assertions",
    more_is_better: true,
    aim: 40,
    tenths: true,
    unit: "assertions a thousand lines",
};
pub const PRONOUNS: Measure = fewer("pronouns", 0, "pronouns of persons in comments");
pub const STRING_ERRORS: Measure = fewer("string_errors", 0, "types Result<_, String>");

pub const MEASURES: &[Measure] =
    &[CYCLE, FILE_LINES, FUNCTION_LINES, ASSERTIONS, PRONOUNS, STRING_ERRORS];

impl Measure {
    pub fn show(&self, value: u64) -> String {
        if self.tenths { format!("{}.{}", value / 10, value % 10) } else { value.to_string() }
    }

    pub fn read(&self, text: &str) -> Option<u64> {
        if !self.tenths {
            return text.parse().ok();
        }
        let (whole, tenth) = text.split_once('.')?;
        if tenth.len() != 1 {
            return None;
        }
        Some(whole.parse::<u64>().ok()? * 10 + tenth.parse::<u64>().ok()?)
    }

    pub fn worse(&self, value: u64, limit: u64) -> bool {
        if self.more_is_better { value < limit } else { value > limit }
    }
}

/// `(measure, subject)`.
pub type Key = (&'static str, String);

/// What was measured: the value, and where it comes from.
#[derive(Debug, Default)]
pub struct Measured {
    pub value: u64,
    pub places: Vec<String>,
}

pub type Values = BTreeMap<Key, Measured>;

pub fn measure_of(name: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|measure| measure.name == name)
}
