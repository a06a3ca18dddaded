//! Regular expressions: PostgreSQL's, over an engine that takes a time linear in text and pattern.
//!
//! `regex-automata` looks for the first alternative that fits, PostgreSQL for the longest match of
//! those that begin first, or for the shortest where the expression's first quantifier says so. So
//! a search has three steps, of which most need the first alone:
//!
//! ```text
//! text      x x a b a b c x          pattern  (ab|abab)c?
//! 1. where  leftmost, by the crate       ^
//! 2. to     of all that begin there,     ^-------^   the longest
//! 3. groups of the pattern from there to exactly there
//! ```
//!
//! *Departures.* Groups within a match are those that the crate prefers, an earlier alternative
//! before a longer one. Look-around and references back are refused (see [`syntax`]).
//!
//! *Deterministic.* What a pattern matches depends on Unicode's tables in `regex-syntax`, whose
//! version the lock file has; a test holds them.
//!
//! *Cost.* A pattern is paid for when it is compiled, which is once in a transaction as long as
//! only some others are used between; then each search by the length of text and pattern. What is
//! kept compiled counts as held memory, by its states.

mod calls;
mod similar;
pub mod syntax;

use std::sync::{Arc, OnceLock};

use regex_automata::meta;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax::Config as Syntax;
use regex_automata::{Anchored, Input, MatchKind, Span};
use types::{Error, Result, SqlState};

use crate::meter::Meter;
use syntax::{Options, Preference, Translated};

pub(crate) use calls::call;
pub(crate) use calls::every_match;

/// Patterns that a transaction keeps compiled.
const KEPT_MAX: usize = 8;

/// Units of a compilation, and of each state: some 200 ns.
const COMPILE_UNITS: u64 = 500;
const STATE_UNITS: u64 = 5;

/// Of a compilation, and of each of its states; there are up to three of one pattern, and one of a
/// plain one.
const COMPILED_BYTES: u64 = 4096;
const STATE_BYTES: u64 = 64;
const COMPILATIONS: u64 = 3;
/// A search remembers sets of states, for each state some and not more than these in all.
const SEARCH_BYTES: u64 = 256;
const SEARCH_BYTES_MAX: u64 = 4 << 20;

/// A position takes so many units for as many bytes of the text.
const BYTES_PER_UNIT: u64 = 8;
/// A search that ends early may have looked at the rest of the text.
const REST_PER_UNIT: u64 = 256;
/// One that follows all positions at once goes byte by byte.
const STEPS_PER_UNIT: u64 = 2;

/// A compiled pattern.
pub(crate) struct Pattern {
    first: meta::Regex,
    translated: Translated,
    /// Finds the longest, or the shortest, from a place on.
    to: OnceLock<Result<PikeVM>>,
    /// The pattern up to the end of what it is given.
    whole: OnceLock<Result<meta::Regex>>,
}

/// The whole match, then its groups, by bytes.
pub(crate) type Found = Vec<Option<Span>>;

/// Patterns of one transaction, the last one used behind the others.
#[derive(Default)]
pub(crate) struct Patterns(Vec<Kept>);

struct Kept {
    text: String,
    options: Options,
    pattern: Arc<Pattern>,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.pattern.translated.bytes() + self.text.len() as u64
    }
}

fn not_compiled(error: impl std::fmt::Display) -> Error {
    let what = "invalid regular expression: regular expression is too complex";
    Error::new(SqlState(*b"2201B"), what).with_detail(error.to_string())
}

impl Translated {
    fn syntax(&self) -> Syntax {
        Syntax::new().case_insensitive(self.any_case)
    }

    /// What it takes once it is compiled.
    fn bytes(&self) -> u64 {
        let compilations = if self.is_plain { 1 } else { COMPILATIONS };
        let compiled = compilations * (COMPILED_BYTES + STATE_BYTES * self.states);
        compiled + (SEARCH_BYTES * self.states).min(SEARCH_BYTES_MAX)
    }

    fn regex(&self, text: &str) -> Result<meta::Regex> {
        let config = meta::Config::new().nfa_size_limit(None).onepass(false);
        let mut builder = meta::Regex::builder();
        let builder = builder.configure(config).syntax(self.syntax());
        builder.build(text).map_err(not_compiled)
    }
}

impl Pattern {
    fn new(pattern: &str, options: Options, meter: &Meter) -> Result<Pattern> {
        let translated = syntax::translate(pattern, options)?;
        meter.spend(COMPILE_UNITS + STATE_UNITS * translated.states)?;
        let bytes = translated.bytes() + pattern.len() as u64;
        meter.keep(bytes)?;
        let first = translated.regex(&translated.text).inspect_err(|_| meter.let_go(bytes))?;
        Ok(Pattern { first, translated, to: OnceLock::new(), whole: OnceLock::new() })
    }

    pub(crate) fn groups(&self) -> usize {
        self.translated.groups
    }

    /// Another compilation of the same.
    fn pay_again(&self, meter: &Meter) -> Result<()> {
        meter.spend(COMPILE_UNITS + STATE_UNITS * self.translated.states)
    }

    fn pay(&self, bytes: usize, per_unit: u64, meter: &Meter) -> Result<()> {
        let positions = self.translated.positions + 4;
        meter.spend((bytes as u64 + 8).saturating_mul(positions) / per_unit)
    }

    pub(crate) fn is_match(&self, text: &str, meter: &Meter) -> Result<bool> {
        self.pay(text.len(), BYTES_PER_UNIT, meter)?;
        Ok(self.first.is_match(text))
    }

    /// The first match from a byte on.
    pub(crate) fn find(&self, text: &str, from: usize, meter: &Meter) -> Result<Option<Found>> {
        self.pay(text.len() - from, REST_PER_UNIT, meter)?;
        let mut slots = vec![None; 2 * (self.groups() + 1)];
        let input = Input::new(text).range(from..);
        let is_found = self.first.search_slots(&input, &mut slots).is_some();
        let Some(found) = spans(&slots)[0].filter(|_| is_found) else {
            self.pay(text.len() - from, BYTES_PER_UNIT, meter)?;
            return Ok(None);
        };
        let end = self.end(text, found, meter)?;
        self.pay(end - from, BYTES_PER_UNIT, meter)?;
        if end == found.end {
            return Ok(Some(spans(&slots)));
        }
        // The same from here to there. What is behind does not count any more.
        if self.whole.get().is_none() {
            self.pay_again(meter)?;
        }
        let whole = self
            .whole
            .get_or_init(|| self.translated.regex(&format!("(?:{})\\z", self.translated.text)));
        let whole = whole.as_ref().map_err(Clone::clone)?;
        let input = Input::new(&text[..end]).range(found.start..).anchored(Anchored::Yes);
        let mut slots = vec![None; slots.len()];
        whole.search_slots(&input, &mut slots);
        let mut groups = spans(&slots);
        groups[0] = Some(Span { start: found.start, end });
        Ok(Some(groups))
    }

    /// Where the match that is meant ends, of those that begin where `found` does.
    fn end(&self, text: &str, found: Span, meter: &Meter) -> Result<usize> {
        let is_longest = found.end == text.len();
        let is_shortest = match self.translated.preference {
            _ if self.translated.is_plain => return Ok(found.end),
            Preference::Shortest => true,
            _ if is_longest => return Ok(found.end),
            _ => false,
        };
        self.pay(text.len() - found.start, STEPS_PER_UNIT, meter)?;
        if self.to.get().is_none() {
            self.pay_again(meter)?;
        }
        let to = self.to.get_or_init(|| {
            let config = pikevm::Config::new().match_kind(MatchKind::All);
            let mut builder = PikeVM::builder();
            let whole_alone = thompson::Config::new().which_captures(WhichCaptures::Implicit);
            let builder = builder.configure(config).syntax(self.translated.syntax());
            builder.thompson(whole_alone).build(&self.translated.text).map_err(not_compiled)
        });
        let to = to.as_ref().map_err(Clone::clone)?;
        let input = Input::new(text).range(found.start..).anchored(Anchored::Yes);
        let input = input.earliest(is_shortest);
        let mut slots = [None; 2];
        to.search_slots(&mut to.create_cache(), &input, &mut slots);
        Ok(slots[1].map_or(found.end, NonMaxUsize::get))
    }
}

fn spans(slots: &[Option<NonMaxUsize>]) -> Found {
    let of = |pair: &[Option<NonMaxUsize>]| match pair {
        [Some(start), Some(end)] => Some(Span { start: start.get(), end: end.get() }),
        _ => None,
    };
    slots.chunks(2).map(of).collect()
}

impl Patterns {
    /// A pattern, compiled if it is not one of those that are kept.
    fn get(&mut self, pattern: &str, options: Options, meter: &Meter) -> Result<Arc<Pattern>> {
        let is_it = |kept: &Kept| kept.text == pattern && kept.options == options;
        let kept = match self.0.iter().rposition(is_it) {
            Some(place) => self.0.remove(place),
            None => {
                if self.0.len() >= KEPT_MAX {
                    meter.let_go(self.0.remove(0).bytes());
                }
                let compiled = Arc::new(Pattern::new(pattern, options, meter)?);
                Kept { text: pattern.to_owned(), options, pattern: compiled }
            }
        };
        let compiled = Arc::clone(&kept.pattern);
        self.0.push(kept);
        Ok(compiled)
    }
}

/// A pattern of this transaction.
pub(crate) fn compiled(pattern: &str, options: Options, meter: &Meter) -> Result<Arc<Pattern>> {
    meter.spend_bytes(pattern.len())?;
    meter.patterns().get(pattern, options, meter)
}

#[cfg(test)]
mod tests;
