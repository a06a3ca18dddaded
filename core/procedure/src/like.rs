//! LIKE: `%` is any text, `_` any character, the escape character makes the next one itself.

use types::{Error, Result, unicode};

use crate::functions::gathered;
use crate::meter::Meter;

/// Characters that are compared between two payments.
const STEPS_PER_PAYMENT: u32 = 1024;

/// Whether `text` matches all of `pattern`. `escape` is PostgreSQL's `\` unless ESCAPE says
/// otherwise.
///
/// Greedy with one point to return to, the last `%`: at most text × pattern steps, no recursion,
/// and each step is paid for.
pub fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    case_insensitive: bool,
    meter: &Meter,
) -> Result<bool> {
    if case_insensitive {
        meter.spend_characters(2 * (text.len() + pattern.len()))?;
        let lowered = |text: &str| gathered(text.chars().map(unicode::to_lower), meter);
        let (text, pattern) = (lowered(text)?, lowered(pattern)?);
        return like(&text, &pattern, escape, false, meter);
    }
    let mut steps = 0;
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // Where to go on after the last `%`: the pattern after it, and the text it has not yet taken.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        steps += 1;
        if steps == STEPS_PER_PAYMENT {
            meter.spend_characters(STEPS_PER_PAYMENT as usize)?;
            steps = 0;
        }
        let matched = match pattern.next() {
            None => {
                if text.as_str().is_empty() {
                    return Ok(true);
                }
                false
            }
            Some('%') if escape != Some('%') => {
                retry = Some((pattern.clone(), text.clone()));
                continue;
            }
            Some('_') if escape != Some('_') => text.next().is_some(),
            Some(c) if Some(c) == escape => {
                let literal = pattern.next().ok_or_else(escape_at_end)?;
                text.next() == Some(literal)
            }
            Some(c) => text.next() == Some(c),
        };
        if matched {
            continue;
        }
        let Some((after_percent, taken)) = &mut retry else {
            return Ok(false);
        };
        if taken.next().is_none() {
            return Ok(false);
        }
        (pattern, text) = (after_percent.clone(), taken.clone());
    }
}

fn escape_at_end() -> Error {
    Error::new(types::SqlState(*b"22025"), "LIKE pattern must not end with escape character")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let matches =
            |text, pattern| like(text, pattern, Some('\\'), false, &Meter::default()).unwrap();
        for (text, pattern) in [
            ("", ""),
            ("", "%"),
            ("abc", "abc"),
            ("abc", "a%"),
            ("abc", "%c"),
            ("abc", "a_c"),
            ("aXbXc", "a%b%c"),
            ("abab", "%ab"),
            ("a%c", "a\\%c"),
            ("äöü", "_ö_"),
        ] {
            assert!(matches(text, pattern), "{text} LIKE {pattern}");
        }
        for (text, pattern) in
            [("", "_"), ("abc", "ab"), ("abc", "%b"), ("abc", "a\\%c"), ("ABC", "abc")]
        {
            assert!(!matches(text, pattern), "{text} NOT LIKE {pattern}");
        }
        let meter = Meter::default();
        assert!(like("ABC", "a%", Some('\\'), true, &meter).unwrap());
        assert!(like("x", "x\\", Some('\\'), false, &meter).is_err());
    }
}
