//! Texts in the order of a language: by keys, which compare byte by byte as the texts do.
//!
//! ```text
//!   ORDER BY name COLLATE "sv-x-icu"    ─►  ORDER BY sort_key(name, 'sv')
//!   key    weights of the Unicode collation algorithm ── 0 ── the text itself
//! ```
//!
//! The text behind its weights decides between texts that a language takes for the same, as
//! PostgreSQL's collations do that are deterministic, and lets [`text_of`] give it back: the least
//! of some keys says which text is the least. A collation that is not deterministic leaves it out.
//!
//! *Determinism.* Weights are those of one version of ICU4X's crates, whose data is compiled in; a
//! test holds them to the byte. What is recorded may compare by them, so another version of these
//! is another executor. No key is stored: indexes are ordered by bytes.
//!
//! *Departures.* Of a text that is longer than [`COLLATED_BYTES_MAX`] the rest is compared by its
//! bytes. Where the crate's Unicode is another one than ICU's, so are a few rare letters' weights.
//!
//! *Cost.* Some 50 ns for each character, and a key about twice as long as its text.

use std::borrow::Cow;
use std::cell::RefCell;

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use icu_locale_core::extensions::unicode::{Key, key};
use types::arithmetic::check_made_bytes;
use types::{Error, Result, SqlState, Value};

use super::arguments::nth;
use super::function::Function;
use crate::meter::Meter;

/// How much of a text has weights.
const COLLATED_BYTES_MAX: usize = 1 << 20;

/// Collators that a thread keeps.
const KNOWN_MAX: usize = 16;

thread_local! {
    /// The one that was used last comes last.
    static KNOWN: RefCell<Vec<(Box<str>, CollatorBorrowed<'static>)>> =
        const { RefCell::new(Vec::new()) };
}

pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    let first = nth(arguments, 0);
    if function == Function::SortedText {
        return Ok(first.as_bytes().and_then(text_of).map_or(Value::Null, Value::text));
    }
    let (Some(text), Some(locale)) = (first.as_text(), nth(arguments, 1).as_text()) else {
        return Ok(Value::Null);
    };
    // It takes about as long as eight functions that look at each character.
    meter.spend_characters(text.len().saturating_mul(8))?;
    let key = key_of(text, locale, *nth(arguments, 2) == Value::Bool(true))?;
    check_made_bytes(key.len())?;
    meter.spend_bytes(key.len())?;
    Ok(Value::from(key))
}

fn key_of(text: &str, locale: &str, is_deterministic: bool) -> Result<Vec<u8>> {
    let (collated, rest) = text.split_at(text.floor_char_boundary(COLLATED_BYTES_MAX));
    let mut key = Vec::with_capacity(2 * text.len() + 16);
    with_collator(locale, |collator| {
        let Ok(()) = collator.write_sort_key_to(collated, &mut key);
    })?;
    key.push(0);
    key.extend_from_slice(if is_deterministic { text } else { rest }.as_bytes());
    Ok(key)
}

/// What a key was made of, by a collation that is deterministic: no weight has a byte 0.
fn text_of(key: &[u8]) -> Option<&str> {
    let end = memchr::memchr(0, key)?;
    std::str::from_utf8(&key[end + 1..]).ok()
}

fn with_collator(locale: &str, run: impl FnOnce(&CollatorBorrowed<'static>)) -> Result<()> {
    KNOWN.with_borrow_mut(|known| {
        match known.iter().rposition(|(name, _)| **name == *locale) {
            Some(place) if place + 1 == known.len() => {}
            Some(place) => {
                let found = known.remove(place);
                known.push(found);
            }
            None => {
                if known.len() >= KNOWN_MAX {
                    known.remove(0);
                }
                known.push((locale.into(), collator(locale)?));
            }
        }
        if let Some((_, collator)) = known.last() {
            run(collator);
        }
        Ok(())
    })
}

/// # Errors
/// 22023: it names no locale, or a setting has a value that it cannot have.
pub fn check_locale(locale: &str) -> Result<()> {
    collator(locale).map(drop)
}

fn collator(name: &str) -> Result<CollatorBorrowed<'static>> {
    let refused = || {
        let what =
            format!("could not open collator for locale \"{name}\": U_ILLEGAL_ARGUMENT_ERROR");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
    };
    let locale = Locale::try_from_str(name).map_err(|_| refused())?;
    let options = options(&locale).ok_or_else(refused)?;
    CollatorBorrowed::try_new(CollatorPreferences::from(&locale), options).map_err(|_| refused())
}

/// The settings of a locale that the crate takes apart from it. `None`: one of an unknown value.
fn options(locale: &Locale) -> Option<CollatorOptions> {
    let value = |key: Key| {
        let value = locale.extensions.unicode.keywords.get(&key)?;
        Some(value.to_string())
    };
    let mut options = CollatorOptions::default();
    if let Some(strength) = value(key!("ks")) {
        options.strength = Some(match &*strength {
            "level1" => Strength::Primary,
            "level2" => Strength::Secondary,
            "level3" => Strength::Tertiary,
            "level4" => Strength::Quaternary,
            "identic" => Strength::Identical,
            _ => return None,
        });
    }
    if let Some(handling) = value(key!("ka")) {
        options.alternate_handling = Some(match &*handling {
            "noignore" => AlternateHandling::NonIgnorable,
            "shifted" => AlternateHandling::Shifted,
            _ => return None,
        });
    }
    if let Some(level) = value(key!("kc")) {
        options.case_level = Some(match &*level {
            "" | "true" => CaseLevel::On,
            "false" => CaseLevel::Off,
            _ => return None,
        });
    }
    if let Some(variable) = value(key!("kv")) {
        options.max_variable = Some(match &*variable {
            "space" => MaxVariable::Space,
            "punct" => MaxVariable::Punctuation,
            "symbol" => MaxVariable::Symbol,
            "currency" => MaxVariable::Currency,
            _ => return None,
        });
    }
    Some(options)
}
