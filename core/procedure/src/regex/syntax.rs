//! PostgreSQL's advanced regular expressions, written for `regex-automata`.
//!
//! What is read is what PostgreSQL reads (`\m`, `[[:<:]]`, `***=`, embedded options, a `]` first in
//! its brackets); what is written is the crate's syntax, every character that could mean something
//! there as its number. Beside the text there come
//!
//! * which match is meant, the longest or the shortest ([`Preference`]), which in PostgreSQL is a
//!   property of the whole expression and follows from its first quantifier;
//! * what it takes: positions, which a search may be at side by side or pass in one step (what
//!   matches no character, too), and states, which it is compiled to. Both are bounded, as are the
//!   pattern's length and its groups, since a statement that is ordered must end everywhere.
//!
//! Departures: look-around, references back and the older kinds of expressions (`b`, `e`) are
//! refused by name. Letters and case are Unicode's, digits are the ten.

mod characters;

use types::{Error, Result, SqlState};

use characters::{NEGATED_STATES, push_literal};

/// Copies of what is repeated count.
const POSITIONS_MAX: u64 = 4_000;
const STATES_MAX: u64 = 100_000;
const PATTERN_BYTES_MAX: usize = 16_384;
/// Groups whose matches are kept: a search copies them for each position.
const GROUPS_MAX: usize = 100;
/// Groups within groups.
const DEPTH_MAX: usize = 100;
/// PostgreSQL's `DUPMAX`.
const REPEATED_MAX: u32 = 255;

/// How a pattern is to be read and looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    pub any_case: bool,
    /// `.` and `[^…]` stop at a newline.
    pub dot_stops: bool,
    /// `^` and `$` are the ends of a line.
    pub by_lines: bool,
    pub expanded: bool,
    pub literal: bool,
    /// Of `regexp_replace` and `regexp_matches`: every match.
    pub global: bool,
}

impl Options {
    /// Letters as functions take them.
    ///
    /// # Errors
    /// 22023 for one that is none.
    pub fn read(flags: &str) -> Result<Options> {
        let mut options = Options::default();
        for flag in flags.chars() {
            if flag == 'g' {
                options.global = true;
            } else if !options.take(flag)? {
                let what = format!("invalid regular expression option: \"{flag}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
        }
        Ok(options)
    }

    fn take(&mut self, flag: char) -> Result<bool> {
        match flag {
            'i' => self.any_case = true,
            'c' => self.any_case = false,
            'n' | 'm' => (self.dot_stops, self.by_lines) = (true, true),
            's' => (self.dot_stops, self.by_lines) = (false, false),
            'p' => (self.dot_stops, self.by_lines) = (true, false),
            'w' => (self.dot_stops, self.by_lines) = (false, true),
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'q' => self.literal = true,
            'b' | 'e' => {
                return Err(Error::unsupported("an older kind of regular expressions"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Which of the matches that begin at one place is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preference {
    /// They all have one length.
    None,
    Longest,
    Shortest,
}

/// A pattern in the crate's syntax.
#[derive(Debug)]
pub struct Translated {
    pub text: String,
    pub any_case: bool,
    pub preference: Preference,
    pub groups: usize,
    /// The first match that the crate finds is as long as any.
    pub is_plain: bool,
    pub positions: u64,
    pub states: u64,
}

/// 2201B, as PostgreSQL words it.
fn invalid(what: &str) -> Error {
    Error::new(SqlState(*b"2201B"), format!("invalid regular expression: {what}"))
}

fn too_complex() -> Error {
    invalid("regular expression is too complex")
}

fn bad_escape() -> Error {
    invalid("invalid escape \\ sequence")
}

fn bad_brackets() -> Error {
    invalid("brackets [] not balanced")
}

fn bad_quantifier() -> Error {
    invalid("quantifier operand invalid")
}

/// # Errors
/// 2201B for what is no expression, 0A000 for what is not supported.
pub fn translate(pattern: &str, options: Options) -> Result<Translated> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(too_complex());
    }
    let mut reader = Reader::new(pattern, options);
    reader.prefixes()?;
    if reader.options.literal {
        return reader.literally();
    }
    let whole = reader.alternatives(0)?;
    if reader.peek().is_some() {
        return Err(invalid("parentheses () not balanced"));
    }
    reader.finish(whole)
}

/// What a part of an expression comes to.
#[derive(Clone, Copy)]
struct Part {
    preference: Preference,
    positions: u64,
    states: u64,
    /// It may be quantified.
    is_atom: bool,
}

impl Part {
    const EMPTY: Part =
        Part { preference: Preference::None, positions: 0, states: 0, is_atom: false };

    fn character(states: u64) -> Part {
        Part { positions: 1, states, is_atom: true, ..Part::EMPTY }
    }

    fn and(self, next: Part) -> Part {
        Part {
            preference: match self.preference {
                Preference::None => next.preference,
                first => first,
            },
            positions: self.positions + next.positions,
            states: self.states + next.states,
            is_atom: false,
        }
    }
}

struct Reader {
    characters: Vec<char>,
    at: usize,
    options: Options,
    out: String,
    groups: usize,
    /// Quantifiers that leave a choice, and alternatives.
    choices: usize,
    has_alternatives: bool,
}

impl Reader {
    fn new(pattern: &str, options: Options) -> Reader {
        Reader {
            characters: pattern.chars().collect(),
            at: 0,
            options,
            out: String::with_capacity(2 * pattern.len() + 8),
            groups: 0,
            choices: 0,
            has_alternatives: false,
        }
    }

    fn finish(self, whole: Part) -> Result<Translated> {
        Ok(Translated {
            text: self.out,
            any_case: self.options.any_case,
            preference: whole.preference,
            groups: self.groups,
            is_plain: !self.has_alternatives
                && self.choices <= 1
                && whole.preference != Preference::Shortest,
            positions: whole.positions,
            states: whole.states,
        })
    }

    /// `***:`, `***=`, `(?i)`.
    fn prefixes(&mut self) -> Result<()> {
        if self.skips("***=") {
            self.options.literal = true;
            return Ok(());
        }
        if !self.skips("***:") && self.starts("***") {
            return Err(bad_quantifier());
        }
        let is_letter = |c: &char| c.is_ascii_alphabetic();
        if self.starts("(?") && self.characters.get(self.at + 2).is_some_and(is_letter) {
            self.at += 2;
            loop {
                match self.take() {
                    Some(')') => break,
                    Some(flag) if self.options.take(flag)? => {}
                    _ => return Err(invalid("invalid embedded option")),
                }
            }
        }
        Ok(())
    }

    fn literally(mut self) -> Result<Translated> {
        let mut whole = Part::EMPTY;
        while let Some(c) = self.take() {
            let part = self.literal(c);
            whole = whole.and(part);
            check(whole)?;
        }
        self.finish(whole)
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_unread();
        self.characters.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.characters.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    fn starts(&self, with: &str) -> bool {
        let rest = self.characters.get(self.at..).unwrap_or_default();
        let mut count = 0;
        let same = with.chars().zip(rest).all(|(a, b)| {
            count += 1;
            a == *b
        });
        same && count == with.chars().count()
    }

    fn skips(&mut self, what: &str) -> bool {
        let starts = self.starts(what);
        if starts {
            self.at += what.chars().count();
        }
        starts
    }

    /// Comments, and blanks of the expanded form.
    fn skip_unread(&mut self) {
        loop {
            if self.starts("(?#") {
                let rest = self.characters[self.at..].iter();
                let length = rest.take_while(|c| **c != ')').count();
                self.at = (self.at + length + 1).min(self.characters.len());
                continue;
            }
            match self.characters.get(self.at) {
                Some(c) if self.options.expanded && c.is_ascii_whitespace() => self.at += 1,
                Some('#') if self.options.expanded => {
                    let rest = self.characters[self.at..].iter();
                    self.at += rest.take_while(|c| **c != '\n').count();
                }
                _ => return,
            }
        }
    }

    fn alternatives(&mut self, depth: usize) -> Result<Part> {
        if depth > DEPTH_MAX {
            return Err(too_complex());
        }
        let mut whole = self.branch(depth)?;
        while self.peek() == Some('|') {
            self.at += 1;
            self.out.push('|');
            self.has_alternatives = true;
            let next = whole.and(self.branch(depth)?);
            whole = Part {
                preference: Preference::Longest,
                positions: next.positions + 1,
                states: next.states + 2,
                ..next
            };
            check(whole)?;
        }
        Ok(whole)
    }

    fn branch(&mut self, depth: usize) -> Result<Part> {
        let mut whole = Part::EMPTY;
        loop {
            match self.peek() {
                None | Some('|') => return Ok(whole),
                // In the outermost expression nothing was opened.
                Some(')') if depth > 0 => return Ok(whole),
                Some(')') => return Err(invalid("parentheses () not balanced")),
                Some(_) => {}
            }
            let atom = self.atom(depth)?;
            whole = whole.and(self.quantified(atom)?);
            check(whole)?;
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Part> {
        let Some(c) = self.take() else { return Ok(Part::EMPTY) };
        match c {
            '(' => self.group(depth),
            '[' => self.brackets(),
            '.' => {
                self.out.push_str(if self.options.dot_stops { r"[^\n]" } else { "(?s:.)" });
                Ok(Part::character(NEGATED_STATES))
            }
            '^' => Ok(self.constraint(if self.options.by_lines { "(?m:^)" } else { r"\A" })),
            '$' => Ok(self.constraint(if self.options.by_lines { "(?m:$)" } else { r"\z" })),
            '*' | '+' | '?' => Err(bad_quantifier()),
            '{' if self.characters.get(self.at).is_some_and(char::is_ascii_digit) => {
                Err(bad_quantifier())
            }
            '\\' => self.escaped(),
            other => Ok(self.literal(other)),
        }
    }

    fn constraint(&mut self, text: &str) -> Part {
        self.out.push_str(text);
        Part { positions: 1, states: 2, ..Part::EMPTY }
    }

    fn literal(&mut self, c: char) -> Part {
        push_literal(c, &mut self.out);
        let cases = if self.options.any_case { 3 } else { 1 };
        Part::character(cases * c.len_utf8() as u64)
    }

    fn group(&mut self, depth: usize) -> Result<Part> {
        if self.skips("?:") {
            self.out.push_str("(?:");
        } else if self.starts("?=") || self.starts("?!") || self.starts("?<") {
            return Err(Error::unsupported("look-around in a regular expression"));
        } else if self.starts("?") {
            return Err(bad_quantifier());
        } else {
            self.groups += 1;
            if self.groups > GROUPS_MAX {
                return Err(too_complex());
            }
            self.out.push('(');
        }
        let inner = self.alternatives(depth + 1)?;
        if self.take() != Some(')') {
            return Err(invalid("parentheses () not balanced"));
        }
        self.out.push(')');
        let (positions, states) = (inner.positions + 2, inner.states + 2);
        Ok(Part { is_atom: true, positions, states, ..inner })
    }

    fn quantified(&mut self, atom: Part) -> Result<Part> {
        let Some((least, most, is_exact)) = self.quantifier()? else { return Ok(atom) };
        if !atom.is_atom {
            return Err(bad_quantifier());
        }
        let is_lazy = self.characters.get(self.at) == Some(&'?');
        self.at += usize::from(is_lazy);
        match most {
            None => self.out.push_str(&format!("{{{least},}}")),
            Some(most) => self.out.push_str(&format!("{{{least},{most}}}")),
        }
        if is_lazy {
            self.out.push('?');
        }
        if matches!(self.peek(), Some('*' | '+' | '?')) {
            return Err(bad_quantifier());
        }
        if most != Some(least) {
            self.choices += 1;
        }
        let copies = u64::from(most.unwrap_or(least + 1).max(1));
        let preference = match (is_exact, is_lazy) {
            // So many and no more are as they are themselves.
            (true, _) => atom.preference,
            (false, true) => Preference::Shortest,
            (false, false) => Preference::Longest,
        };
        let part = Part {
            preference,
            positions: (atom.positions + 1).saturating_mul(copies),
            states: (atom.states + 1).saturating_mul(copies),
            is_atom: false,
        };
        check(part)?;
        Ok(part)
    }

    /// The least and the most, if a quantifier stands here, and whether it names one number.
    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>, bool)>> {
        let found = match self.peek() {
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') if self.characters.get(self.at + 1).is_some_and(char::is_ascii_digit) => {
                self.at += 1;
                return self.bounds().map(Some);
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(found))
    }

    fn bounds(&mut self) -> Result<(u32, Option<u32>, bool)> {
        let bad = || invalid("invalid repetition count(s)");
        let least = self.count()?.ok_or_else(bad)?;
        let most = match self.take() {
            Some('}') => return Ok((least, Some(least), true)),
            Some(',') => self.count()?,
            _ => return Err(invalid("braces {} not balanced")),
        };
        match self.take() {
            Some('}') if most.is_none_or(|most| least <= most) => Ok((least, most, false)),
            Some('}') => Err(bad()),
            _ => Err(invalid("braces {} not balanced")),
        }
    }

    fn count(&mut self) -> Result<Option<u32>> {
        let mut count = None;
        while let Some(digit) = self.characters.get(self.at).and_then(|c| c.to_digit(10)) {
            self.at += 1;
            let next = count.unwrap_or(0) * 10 + digit;
            if next > REPEATED_MAX {
                return Err(invalid("invalid repetition count(s)"));
            }
            count = Some(next);
        }
        Ok(count)
    }
}

fn check(part: Part) -> Result<()> {
    match part.positions <= POSITIONS_MAX && part.states <= STATES_MAX {
        true => Ok(()),
        false => Err(too_complex()),
    }
}
