//! What one character may be: escapes, brackets and the classes in them.

use types::{Error, Result};

use super::{Part, Reader, bad_brackets, bad_escape, check, invalid};

/// States of a class that is a property of Unicode's, of one that is not some characters, of a
/// range.
const PROPERTY_STATES: u64 = 300;
pub(super) const NEGATED_STATES: u64 = 30;
const RANGE_STATES: u64 = 4;
/// Where case does not matter, each character of a range is looked up.
const CASES_PER_STATE: u64 = 16;
/// The letters of a property are some 140,000.
const PROPERTY_CASES: u64 = 140_000;
const ALL_CASES: u64 = 0x11_0000;

const LETTERS: &str = r"\p{Alphabetic}";
const WORD: &str = r"\p{Alphabetic}\p{Nd}_";
const SPACE: &str = r"\p{White_Space}";

impl Reader {
    /// After a backslash, outside of brackets.
    pub(super) fn escaped(&mut self) -> Result<Part> {
        let Some(c) = self.take() else { return Err(bad_escape()) };
        if let Some(class) = class_of(c) {
            self.out.push_str(&format!("[{class}]"));
            return Ok(Part::character(self.class_states(class)));
        }
        Ok(match c {
            'D' => self.class(r"[^0-9]", NEGATED_STATES),
            'W' => {
                let states = self.class_states(WORD);
                self.class(&format!("[^{WORD}]"), states)
            }
            'S' => self.class(&format!("[^{SPACE}]"), NEGATED_STATES),
            'm' => self.constraint(r"\b{start}"),
            'M' => self.constraint(r"\b{end}"),
            'y' => self.constraint(r"\b"),
            'Y' => self.constraint(r"\B"),
            'A' => self.constraint(r"\A"),
            'Z' => self.constraint(r"\z"),
            '1'..='9' => {
                let group = c.to_digit(10).unwrap_or(0) as usize;
                return Err(match group <= self.groups {
                    true => Error::unsupported("a back reference in a regular expression"),
                    false => invalid("invalid backreference number"),
                });
            }
            other => {
                let literal = self.character_of(other)?;
                self.literal(literal)
            }
        })
    }

    /// Of a named class.
    fn class_states(&self, class: &str) -> u64 {
        let cases = match self.options.any_case {
            false => 0,
            true if class.contains("10ffff") => ALL_CASES,
            true => PROPERTY_CASES,
        };
        PROPERTY_STATES + cases / CASES_PER_STATE
    }

    fn class(&mut self, text: &str, states: u64) -> Part {
        self.out.push_str(text);
        Part::character(states)
    }

    /// The character that an escape stands for, its letter taken.
    fn character_of(&mut self, letter: char) -> Result<char> {
        let c = match letter {
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'B' => Some('\\'),
            'e' => Some('\x1b'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            '0' => self.number(8, 2).or(Some(0)).and_then(char::from_u32),
            'c' => self.take().and_then(|c| char::from_u32(u32::from(c) & 31)),
            'u' => self.digits_of(4),
            'U' => self.digits_of(8),
            'x' => self.number(16, 8).and_then(char::from_u32),
            c if !c.is_alphanumeric() => Some(c),
            _ => None,
        };
        c.filter(|c| *c != '\0').ok_or_else(bad_escape)
    }

    fn digits_of(&mut self, count: usize) -> Option<char> {
        let before = self.at;
        let number = self.number(16, count)?;
        (self.at == before + count).then_some(number).and_then(char::from_u32)
    }

    fn number(&mut self, radix: u32, digits_max: usize) -> Option<u32> {
        let mut number: Option<u32> = None;
        for _ in 0..digits_max {
            let digit = self.characters.get(self.at).and_then(|c| c.to_digit(radix));
            let Some(digit) = digit else { break };
            self.at += 1;
            number = Some(number.unwrap_or(0).checked_mul(radix)?.checked_add(digit)?);
        }
        number
    }

    /// After an opening bracket.
    pub(super) fn brackets(&mut self) -> Result<Part> {
        if self.skips("[:<:]]") {
            return Ok(self.constraint(r"\b{start}"));
        }
        if self.skips("[:>:]]") {
            return Ok(self.constraint(r"\b{end}"));
        }
        let negated = self.skips("^");
        self.out.push_str(if negated { "[^" } else { "[" });
        if negated && self.options.dot_stops {
            self.out.push_str(r"\n");
        }
        let mut states = if negated { NEGATED_STATES } else { 0 };
        let mut is_first = true;
        loop {
            let c = self.take().ok_or_else(bad_brackets)?;
            if c == ']' && !is_first {
                break;
            }
            is_first = false;
            match self.member(c)? {
                Member::Class(class) => {
                    self.out.push_str(&class);
                    states += self.class_states(&class);
                }
                Member::Character(first) => {
                    let last = self.range_end()?.unwrap_or(first);
                    if last < first {
                        return Err(invalid("invalid character range"));
                    }
                    push_literal(first, &mut self.out);
                    if last != first {
                        self.out.push('-');
                        push_literal(last, &mut self.out);
                    }
                    states += match self.options.any_case {
                        true => {
                            let length = u64::from(last) - u64::from(first);
                            3 * RANGE_STATES + length / CASES_PER_STATE
                        }
                        false => RANGE_STATES,
                    };
                }
            }
            check(Part { states, ..Part::EMPTY })?;
        }
        self.out.push(']');
        Ok(Part::character(states))
    }

    /// The other end of a range, if one begins here.
    fn range_end(&mut self) -> Result<Option<char>> {
        let rest = self.characters.get(self.at..).unwrap_or_default();
        if !matches!(rest, ['-', end, ..] if *end != ']') {
            return Ok(None);
        }
        self.at += 1;
        let c = self.take().ok_or_else(bad_brackets)?;
        match self.member(c)? {
            Member::Character(last) => Ok(Some(last)),
            Member::Class(_) => Err(invalid("invalid character range")),
        }
    }

    /// What stands in brackets: `c`, or what it begins.
    fn member(&mut self, c: char) -> Result<Member> {
        match (c, self.characters.get(self.at)) {
            ('[', Some(':')) => {
                let name = self.named(':')?;
                named_class(&name)
                    .map(Member::Class)
                    .ok_or_else(|| invalid("invalid character class"))
            }
            ('[', Some(kind @ ('.' | '='))) => {
                let name = self.named(*kind)?;
                let mut characters = name.chars();
                match (characters.next(), characters.next()) {
                    (Some(c), None) => Ok(Member::Character(c)),
                    _ => Err(invalid("invalid collating element")),
                }
            }
            ('\\', _) => {
                let letter = self.take().ok_or_else(bad_escape)?;
                match class_of(letter) {
                    Some(class) => Ok(Member::Class(class.to_owned())),
                    None => self.character_of(letter).map(Member::Character),
                }
            }
            _ => Ok(Member::Character(c)),
        }
    }

    /// What stands between `[:` and `:]`.
    fn named(&mut self, mark: char) -> Result<String> {
        self.at += 1;
        let rest = self.characters.get(self.at..).unwrap_or_default();
        let length =
            rest.windows(2).position(|pair| pair == [mark, ']']).ok_or_else(bad_brackets)?;
        let name = rest[..length].iter().collect();
        self.at += length + 2;
        Ok(name)
    }
}

enum Member {
    Character(char),
    Class(String),
}

fn class_of(letter: char) -> Option<&'static str> {
    match letter {
        'd' => Some("0-9"),
        's' => Some(SPACE),
        'w' => Some(WORD),
        _ => None,
    }
}

fn named_class(name: &str) -> Option<String> {
    Some(match name {
        "alpha" => LETTERS.to_owned(),
        "alnum" => format!(r"{LETTERS}\p{{Nd}}"),
        "digit" => "0-9".to_owned(),
        "upper" => r"\p{Uppercase}".to_owned(),
        "lower" => r"\p{Lowercase}".to_owned(),
        "space" => SPACE.to_owned(),
        "word" => WORD.to_owned(),
        "blank" => r"\x09\x20".to_owned(),
        "punct" => "[:punct:]".to_owned(),
        "cntrl" => "[:cntrl:]".to_owned(),
        "xdigit" => "0-9A-Fa-f".to_owned(),
        "graph" => r"\x21-\x7e\x{a1}-\x{10ffff}".to_owned(),
        "print" => r"\x20-\x7e\x{a0}-\x{10ffff}".to_owned(),
        "ascii" => r"\x01-\x7f".to_owned(),
        _ => return None,
    })
}

pub(super) fn push_literal(c: char, out: &mut String) {
    match c.is_ascii_alphanumeric() || !c.is_ascii() {
        true => out.push(c),
        false => out.push_str(&format!("\\x{{{:x}}}", u32::from(c))),
    }
}
