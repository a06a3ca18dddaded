//! Text of others, made fit for a terminal.
//!
//! Names and values come from any client that wrote to a ledger or reached a port. A terminal obeys
//! control characters: an escape sequence in a table's name could repaint a verdict, a carriage
//! return hide one. Everything that is shown and was not written by this program passes through
//! here. What would act instead of being seen is spelled out, as `\u{1b}`.

use std::borrow::Cow;

/// On one line: line feeds are spelled out, too.
pub fn printable(text: &str) -> Cow<'_, str> {
    spelled_out(text, acts)
}

/// A page whose line feeds are meant.
pub fn printable_page(text: &str) -> Cow<'_, str> {
    spelled_out(text, |c| c != '\n' && acts(c))
}

/// JSON without blanks between its parts, which means the same afterwards. JSON itself escapes less
/// than terminals obey.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    spelled_out_by(json, acts, |out, character| {
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

fn spelled_out(text: &str, is_spelled_out: impl Fn(char) -> bool) -> Cow<'_, str> {
    spelled_out_by(text, is_spelled_out, |out, character| out.extend(character.escape_unicode()))
}

fn spelled_out_by(
    text: &str,
    is_spelled_out: impl Fn(char) -> bool,
    spell: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.chars().any(&is_spelled_out) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_spelled_out(character) {
            true => spell(&mut shown, character),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Controls (C0, DEL, C1), what turns the direction of writing, breaks lines, or has no width.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (text, shown) in [
            ("plain é 数 👩‍👧", "plain é 数 👩‍👧"),
            ("\x1b[2Ksound", "\\u{1b}[2Ksound"),
            ("a\rb\nc\td\u{7f}", "a\\u{d}b\\u{a}c\\u{9}d\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}dnuos", "\\u{202e}dnuos"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_page("a\x1bb\nc"), "a\\u{1b}b\nc");
        assert!(matches!(printable("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_json() {
        let json = "[\"a\u{9b}b\u{202e}\u{7f}\"]";
        assert_eq!(printable_json(json), "[\"a\\u009bb\\u202e\\u007f\"]");
        assert_eq!(printable_json("{\"é\":1}"), "{\"é\":1}");
    }

    #[test]
    fn no_character_that_is_shown_acts() {
        let all: String = ('\0'..=char::MAX).collect();
        assert!(!printable(&all).chars().any(acts));
        assert!(printable_page(&all).chars().all(|c| c == '\n' || !acts(c)));
    }
}
