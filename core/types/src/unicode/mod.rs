//! What letters are, and their cases: the one place where a table of Unicode decides a result.
//!
//! *Idea.* A block is run again years later, by a program that another toolchain built, and has to
//! give the same bytes. The standard library's tables move with Unicode, a version a year. So
//! whatever reaches a result asks here, where the tables are a part of the source, and of the
//! executor: `tables` says which version of Unicode they are, and a test holds a hash of what they
//! say of every character.
//!
//! *As PostgreSQL does*, in a database of the locale C.UTF-8: one character becomes one character
//! (Unicode's simple mappings, whatever stands around it), so `upper('éß')` is `Éß`, and
//! `lower('Σ')` is `σ` at the end of a word as well. Identifiers and keywords are folded in ASCII
//! alone, and white space is ASCII's.
//!
//! *Cost.* ASCII takes a comparison, others a binary search in some 200 runs.

mod tables;

use tables::{ALPHABETIC, Run, TO_LOWER, TO_UPPER};

pub fn to_upper(c: char) -> char {
    match c.is_ascii() {
        true => c.to_ascii_uppercase(),
        false => mapped(&TO_UPPER, c),
    }
}

pub fn to_lower(c: char) -> char {
    match c.is_ascii() {
        true => c.to_ascii_lowercase(),
        false => mapped(&TO_LOWER, c),
    }
}

pub fn upper(text: &str) -> String {
    text.chars().map(to_upper).collect()
}

pub fn lower(text: &str) -> String {
    text.chars().map(to_lower).collect()
}

/// The first character of each word is a capital, the others are small.
pub fn initcap(text: &str) -> impl Iterator<Item = char> {
    let mut in_word = false;
    text.chars().map(move |c| {
        let c = if in_word { to_lower(c) } else { to_upper(c) };
        in_word = is_alphanumeric(c);
        c
    })
}

/// Whether a character belongs to a word: a letter, or a digit of ASCII.
pub fn is_alphanumeric(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    let c = u32::from(c);
    let place = ALPHABETIC.partition_point(|(_, last)| *last < c);
    ALPHABETIC.get(place).is_some_and(|(first, _)| *first <= c)
}

/// What PostgreSQL skips around a value: blank, tab, line feed, vertical tab, form feed, return.
pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

fn mapped(runs: &[Run], c: char) -> char {
    let code = u32::from(c);
    let place = runs.partition_point(|(_, last, ..)| *last < code);
    let Some((first, _, step, delta)) = runs.get(place) else { return c };
    match code.checked_sub(*first) {
        Some(behind) if behind % step == 0 => {
            code.checked_add_signed(*delta).and_then(char::from_u32).unwrap_or(c)
        }
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Of each character, surrogates left out: what it becomes, and whether it belongs to a word.
    /// Another hash is another executor: what blocks gave under this one has to stay.
    #[test]
    fn what_is_said_of_all_characters_is_what_was_said() {
        let mut hash = Sha256::new();
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            hash.update(u32::from(to_upper(c)).to_be_bytes());
            hash.update(u32::from(to_lower(c)).to_be_bytes());
            hash.update([is_alphanumeric(c).into(), is_space(c).into()]);
        }
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "21d7b46c84b66d90b5be39f759b10a4780cf0fb7f322e26507ca9ad1542c37de");
    }

    /// Runs are searched by halves.
    #[test]
    fn tables_ascend() {
        for runs in [&TO_UPPER[..], &TO_LOWER] {
            assert!(runs.is_sorted_by(|one, next| one.1 < next.0));
            assert!(runs.iter().all(|(first, last, step, _)| (last - first) % step == 0));
        }
        assert!(ALPHABETIC.is_sorted_by(|one, next| one.1 < next.0));
    }

    #[test]
    fn one_character_becomes_one() {
        assert_eq!((upper("éß ŉ ǰ ﬁ"), lower("ΟΔΟΣ İI")), ("Éß ŉ ǰ ﬁ".into(), "οδοσ ii".into()));
        // Small letters whose capitals Unicode writes as two, and has as one.
        assert_eq!((upper("ᾀᾳῼ"), lower("ᾈᾼῳ")), ("ᾈᾼῼ".into(), "ᾀᾳῳ".into()));
        assert_eq!((upper("ıſµÿ"), lower("ẞKÅ")), ("ISΜŸ".into(), "ßkå".into()));
        assert_eq!((upper("ǆǅ"), lower("Ǆǅ"), upper("𐐨")), ("ǄǄ".into(), "ǆǆ".into(), "𐐀".into()));
        assert_eq!(
            initcap("éTUDE o'neil ßtraße 2nd ²nd ٣x").collect::<String>(),
            "Étude O'Neil ßtraße 2nd ²Nd ٣X"
        );
        assert!(is_space('\u{b}') && !is_space('\u{a0}') && !is_space('\u{85}'));
    }
}
