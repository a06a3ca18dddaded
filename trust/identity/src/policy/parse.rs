//! From text to a policy: recursive descent, as deep as a policy may be.

use types::{Error, Result, SqlState};

use super::formula::{DEPTH_MAX, Node, PARTIES_MAX, Party, TEXT_BYTES_MAX};
use crate::roles::NAME_BYTES_MAX;

pub(super) fn policy(text: &str) -> Result<Node> {
    check_length(text)?;
    let mut parser = Parser { text, at: 0, parties: 0 };
    let node = parser.node(1)?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.expected("the end of the policy")),
    }
}

pub(super) fn check_length(text: &str) -> Result<()> {
    if text.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let what = format!("an approval policy has at most {TEXT_BYTES_MAX} bytes");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what))
}

struct Parser<'t> {
    text: &'t str,
    /// Bytes that are read.
    at: usize,
    parties: usize,
}

/// A word, and whether it stood in quotes.
struct Name {
    text: String,
    quoted: bool,
}

impl Parser<'_> {
    fn node(&mut self, depth: usize) -> Result<Node> {
        let begun = self.at;
        let name = self.name("AND, OR, OUTOF or an organisation")?;
        if self.peek() != Some('(') || name.quoted {
            return self.party(name.text);
        }
        if depth > DEPTH_MAX {
            let what = format!("an approval policy has at most {DEPTH_MAX} levels");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, what));
        }
        let kind = name.text.as_str();
        if !["and", "or", "outof"].contains(&kind) {
            self.at = begun;
            return Err(self.expected("AND, OR or OUTOF before a bracket"));
        }
        self.take('(');
        let needed = match kind {
            "outof" => {
                let needed = self.number()?;
                self.comma()?;
                Some(needed)
            }
            _ => None,
        };
        let mut nodes = vec![self.node(depth + 1)?];
        while self.take(',') {
            nodes.push(self.node(depth + 1)?);
        }
        if !self.take(')') {
            return Err(self.expected("\",\" or \")\""));
        }
        match (kind, needed) {
            ("and", _) => Ok(Node::of(nodes.len(), nodes)),
            (_, Some(needed)) => some_of(needed, nodes),
            _ => Ok(Node::of(1, nodes)),
        }
    }

    fn party(&mut self, organisation: String) -> Result<Node> {
        self.parties += 1;
        if self.parties > PARTIES_MAX {
            let what = format!("an approval policy names at most {PARTIES_MAX} parties");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        let role = match self.take('.') {
            true => Some(self.name("a role")?.text),
            false => None,
        };
        Ok(Node::Party(Party { organisation, role }))
    }

    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        let spaces = [' ', '\t', '\n', '\r'];
        self.at += rest.len() - rest.trim_start_matches(spaces).len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_it = self.peek() == Some(wanted);
        if is_it {
            self.at += wanted.len_utf8();
        }
        is_it
    }

    fn comma(&mut self) -> Result<()> {
        match self.take(',') {
            true => Ok(()),
            false => Err(self.expected("\",\"")),
        }
    }

    fn number(&mut self) -> Result<usize> {
        self.peek();
        let rest = &self.text[self.at..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return Err(self.expected("how many, as a number"));
        }
        let number = rest[..digits].parse();
        self.at += digits;
        // More than any list has.
        Ok(number.unwrap_or(usize::MAX))
    }

    fn name(&mut self, what: &str) -> Result<Name> {
        let begun = match self.peek() {
            Some('"') => return self.quoted(),
            Some(first) if is_of_word(first) && !first.is_ascii_digit() => self.at,
            _ => return Err(self.expected(what)),
        };
        let rest = &self.text[begun..];
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        self.at += end;
        named(rest[..end].to_ascii_lowercase(), false)
    }

    fn quoted(&mut self) -> Result<Name> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find('"') else {
                return Err(self.expected("the end of a name in quotes"));
            };
            text.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.text[self.at..].starts_with('"') {
                return named(text, true);
            }
            text.push('"');
            self.at += 1;
        }
    }

    fn expected(&mut self, what: &str) -> Error {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(_) => {
                let shown: String = self.text[self.at..].chars().take(20).collect();
                format!("\"{shown}\"")
            }
        };
        let place = self.text[..self.at].chars().count() + 1;
        let message = format!("invalid approval policy: expected {what}");
        Error::new(SqlState::SYNTAX_ERROR, message)
            .with_detail(format!("At its character {place} stands {found}."))
            .with_hint("An example is: AND(bank_a, OUTOF(2, bank_b, bank_c, regulator.auditor))")
    }
}

/// As PostgreSQL reads an identifier.
fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

fn named(text: String, quoted: bool) -> Result<Name> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains('\0') {
        let what = format!("a name in an approval policy has from 1 to {NAME_BYTES_MAX} bytes");
        return Err(Error::new(SqlState(*b"42602"), what));
    }
    Ok(Name { text, quoted })
}

/// Some of several, each of which has to be another one: a party that stands there twice would
/// count for two.
fn some_of(needed: usize, nodes: Vec<Node>) -> Result<Node> {
    let refused = |detail: String| {
        let what = format!("invalid approval policy: OUTOF({needed}, …)");
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what).with_detail(detail))
    };
    let all = nodes.len();
    if needed == 0 {
        return refused("It would be met by nothing.".to_owned());
    }
    if needed > all {
        return refused(format!("It asks for {needed} of {all}."));
    }
    let mut sorted: Vec<&Node> = nodes.iter().collect();
    sorted.sort();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return refused(format!("It names {} twice.", twice[0]));
    }
    Ok(Node::of(needed, nodes))
}
