//! Settings of a workload: numbers and words by name, each with a default and a sentence.
//!
//! The list of an [`Entry`](crate::Entry) is all there is to know about them, so that a command
//! line, a page of documentation and a sweep over one of them need no line for any workload.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use types::{Error, Result, SqlState};

/// One setting that a workload has.
#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    pub default: &'static str,
    pub about: &'static str,
}

pub const fn setting(name: &'static str, default: &'static str, about: &'static str) -> Setting {
    Setting { name, default, about }
}

/// What was given; everything else has its default.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Replaces what was given before.
    pub fn set(&mut self, name: &str, value: impl Display) {
        self.0.insert(name.to_owned(), value.to_string());
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Display) -> Settings {
        self.set(name, value);
        self
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Settings as a workload reads them: every name is known to be one of its own.
pub struct Reader<'a> {
    known: &'static [Setting],
    given: &'a Settings,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(known: &'static [Setting], given: &'a Settings) -> Result<Reader<'a>> {
        let reader = Reader { known, given };
        match given.iter().find(|(name, _)| !known.iter().any(|setting| setting.name == *name)) {
            None => Ok(reader),
            Some((name, _)) => {
                let names: Vec<_> = known.iter().map(|setting| setting.name).collect();
                let hint = format!("There are: {}.", names.join(", "));
                Err(invalid(format!("unknown setting \"{name}\"")).with_hint(hint))
            }
        }
    }

    /// The text of a setting, given or default.
    pub fn word(&self, name: &str) -> &'a str {
        let default = self.known.iter().find(|setting| setting.name == name);
        let given = self.given.0.get(name).map(String::as_str);
        given.or(default.map(|setting| setting.default)).unwrap_or_default()
    }

    /// A number within bounds.
    pub fn number<T>(&self, name: &str, bounds: RangeInclusive<T>) -> Result<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.word(name);
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            let (low, high) = (bounds.start(), bounds.end());
            invalid(format!("{name} must be a number from {low} to {high}, not \"{text}\""))
        })
    }

    pub fn percent(&self, name: &str) -> Result<u32> {
        self.number(name, 0..=100)
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T> {
        let text = self.word(name);
        let found = choices.iter().find(|(word, _)| *word == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            invalid(format!("{name} must be one of {}, not \"{text}\"", words.join(", ")))
        })
    }
}

pub(crate) fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
