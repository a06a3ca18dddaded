//! How large a text may be, before and after it is cut into tokens.
//!
//! A token takes some 80 bytes, and what the parser makes of it up to a thousand: bytes of the text
//! say little about what it costs, tokens say all. So texts of many bytes are scanned first, which
//! takes no memory, and those with too many tokens or blanks go no further.
//!
//! The scan knows what the tokenizer takes as one piece (words, numbers, strings, comments); where
//! it is not sure it counts too many. The count that decides is that of the tokens.

use types::{Error, Result, SqlState};

/// Tokens of one text, blanks and comments not counted.
pub(crate) const TOKENS_MAX: usize = 500_000;

/// Blanks and comments of one text.
const BLANKS_MAX: usize = 2_000_000;

/// A text with fewer bytes has fewer tokens than any bound.
const SMALL_TEXT_BYTES: usize = 256 << 10;

/// Refuses what would take too much memory to cut into tokens.
pub(crate) fn check_text(sql: &str) -> Result<()> {
    if sql.len() <= SMALL_TEXT_BYTES {
        return Ok(());
    }
    let mut scan = Scan { bytes: sql.as_bytes(), at: 0 };
    let (mut tokens, mut blanks) = (0_usize, 0_usize);
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Token => tokens += 1,
            Piece::Blank => blanks += 1,
        }
        // A number with a point is counted as three.
        if tokens > 3 * TOKENS_MAX {
            return Err(too_many(tokens));
        }
        if blanks > BLANKS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("the text has more than {BLANKS_MAX} blanks and comments"),
            )
            .with_hint("Leave them out, or send the statements one by one."));
        }
    }
    Ok(())
}

pub(crate) fn check_tokens(tokens: usize) -> Result<()> {
    match tokens <= TOKENS_MAX {
        true => Ok(()),
        false => Err(too_many(tokens)),
    }
}

fn too_many(tokens: usize) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the statement is too long")
        .with_detail(format!("It has {tokens} tokens or more; {TOKENS_MAX} can be read at once."))
        .with_hint(
            "Pass many values as one array parameter (= ANY($1)), load many rows by COPY, or send \
             several statements.",
        )
}

/// What a text takes while it is parsed and bound, by estimate.
pub(crate) fn memory_of(sql: &str) -> u64 {
    let mut scan = Scan { bytes: sql.as_bytes(), at: 0 };
    let (mut tokens, mut blanks) = (0, 0);
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Token => tokens += 1,
            Piece::Blank => blanks += 1,
        }
    }
    TEXT_COPIES * sql.len() as u64 + TOKEN_BYTES * tokens + BLANK_BYTES * blanks
}

/// Copies of a long literal that there are at a time: in its token, its tree, its program.
const TEXT_COPIES: u64 = 4;

/// What is made of a token, and what one is that says nothing.
const TOKEN_BYTES: u64 = 1500;
const BLANK_BYTES: u64 = 80;

enum Piece {
    Token,
    Blank,
}

struct Scan<'s> {
    bytes: &'s [u8],
    at: usize,
}

impl Scan<'_> {
    fn next(&mut self) -> Option<Piece> {
        let first = *self.bytes.get(self.at)?;
        let rest = &self.bytes[self.at..];
        let mut piece = Piece::Token;
        let length = match first {
            b'-' if rest.starts_with(b"--") => {
                piece = Piece::Blank;
                rest.iter().position(|b| *b == b'\n').map_or(rest.len(), |end| end + 1)
            }
            b'/' if rest.starts_with(b"/*") => {
                piece = Piece::Blank;
                comment(rest)
            }
            b'\'' | b'"' => quoted(rest, first, self.has_escapes()),
            b'$' => dollar_quoted(rest).unwrap_or(1),
            b if b.is_ascii_whitespace() => {
                piece = Piece::Blank;
                1
            }
            b if b.is_ascii_digit() => length_of(rest, |b| b.is_ascii_digit()),
            b if is_part_of_word(b) => length_of(rest, |b| is_part_of_word(b) || b == b'$'),
            _ => 1,
        };
        debug_assert!(length > 0, "no step at byte {}", self.at);
        self.at += length.max(1);
        Some(piece)
    }

    /// Whether a string begins here in which `\` makes the next character itself: after E, and, as
    /// the tokenizer has it, after X.
    fn has_escapes(&self) -> bool {
        let before = |n: usize| self.at.checked_sub(n).map(|at| self.bytes[at]);
        let is_marked = matches!(before(1), Some(b'e' | b'E' | b'x' | b'X'));
        is_marked && !before(2).is_some_and(is_part_of_word)
    }
}

fn length_of(bytes: &[u8], goes_on: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|b| !goes_on(*b)).unwrap_or(bytes.len())
}

fn is_part_of_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || !b.is_ascii()
}

/// A quote within is written twice, or after a backslash where there are `escapes`.
fn quoted(bytes: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while let Some(b) = bytes.get(at) {
        at += match *b {
            b'\\' if escapes && quote == b'\'' => 2,
            b if b == quote && bytes.get(at + 1) == Some(&quote) => 2,
            b if b == quote => return at + 1,
            _ => 1,
        };
    }
    bytes.len()
}

/// `$tag$ … $tag$`
fn dollar_quoted(bytes: &[u8]) -> Option<usize> {
    let tag = 1 + bytes[1..].iter().position(|b| !is_part_of_word(*b))?;
    if bytes[tag] != b'$' {
        return None;
    }
    let (tag, rest) = bytes.split_at(tag + 1);
    let mut at = 0;
    loop {
        at += rest[at..].iter().position(|b| *b == b'$')?;
        if rest[at..].starts_with(tag) {
            return Some(at + 2 * tag.len());
        }
        at += 1;
    }
}

fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let opens = rest.starts_with(b"/*");
        let closes = rest.starts_with(b"*/");
        depth = if opens { depth + 1 } else { depth - usize::from(closes) };
        at += if opens || closes { 2 } else { 1 };
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sqlparser::tokenizer::{Token, Tokenizer};

    use super::*;
    use crate::syntax::dialect::Ledger;

    fn scanned(sql: &str) -> (usize, usize) {
        let mut scan = Scan { bytes: sql.as_bytes(), at: 0 };
        let mut counts = (0, 0);
        while let Some(piece) = scan.next() {
            match piece {
                Piece::Token => counts.0 += 1,
                Piece::Blank => counts.1 += 1,
            }
        }
        counts
    }

    #[test]
    fn a_string_of_hexadecimal_digits_has_escapes_as_the_tokenizer_has_it() {
        let sql = r#"x'\''x'"x''x'*/a"#;
        let tokens = Tokenizer::new(&Ledger::for_tokens(0), sql).tokenize().unwrap();
        assert!(scanned(sql).0 >= tokens.len(), "{tokens:?}");
    }

    proptest! {
        #[test]
        fn the_scan_counts_no_fewer_than_the_tokenizer(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "a", "e", "E", " ", "\n", "'", "''", "\"", "\\", "$", "$t$", "$$", "--", "/*", "*/",
                "1", "1.5", ".", "1e+5", ",", "(", "::", "é", "\u{a0}", "\u{feff}", "\u{1f980}", "x'", "U&'", "N'", "$1", "E'", "_", "n",
            ]), 0..40)
        ) {
            let sql = pieces.concat();
            if let Ok(tokens) = Tokenizer::new(&Ledger::for_tokens(0), &sql).tokenize() {
                let blank = |t: &&Token| matches!(t, Token::Whitespace(_));
                let blanks = tokens.iter().filter(blank).count();
                let (tokens_scanned, blanks_scanned) = scanned(&sql);
                prop_assert!(tokens_scanned + blanks_scanned >= tokens.len(), "{sql:?}");
                prop_assert!(2 * (tokens_scanned + 1) >= tokens.len() - blanks, "{sql:?}");
            }
        }
    }

    #[test]
    fn too_much_is_refused_before_it_takes_memory() {
        for (sql, refused) in [
            (" ".repeat(3_000_000), true),
            (format!("SELECT 1 IN (1{})", ",1".repeat(2_000_000)), true),
            (format!("SELECT '{}'", "a, ".repeat(3_000_000)), false),
            (format!("SELECT $x${}$x$", "a, ".repeat(3_000_000)), false),
            (format!("/*{}*/ SELECT 1", "a, ".repeat(3_000_000)), false),
        ] {
            let checked = crate::syntax::parse::parse(&sql).map(drop);
            let code = checked.as_ref().err().map(Error::code);
            assert_eq!(code, refused.then_some(SqlState::PROGRAM_LIMIT_EXCEEDED), "{checked:?}");
        }
        let many = format!("SELECT 1 IN (1{})", ",1".repeat(TOKENS_MAX / 2));
        let error = crate::syntax::parse::parse(&many).unwrap_err();
        assert!(error.fields().hint.as_deref().is_some_and(|hint| hint.contains("ANY($1)")));
    }
}
