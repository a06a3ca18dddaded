//! Lifting literals out of statements, so that texts which differ only in them share one plan.
//!
//! Clients of the simple protocol write values into the text: `… SET a = a + 17 WHERE id = 5`, then
//! `… + 18 … id = 6`. [`normalise`] makes both `… SET a = a + $1 WHERE id = $2`, the key of a plan
//! cache, and gives the values beside it.
//!
//! It is one pass over the bytes, without a parser, and must never change what a statement means.
//! So it gives up (`None`) wherever a literal could be more than a value:
//!
//! - anything but SELECT, INSERT, UPDATE, DELETE; several statements; comments; existing parameters
//! - casts, typed strings (`date '…'`), string prefixes (`E'…'`) and dollar quotes
//! - GROUP BY, DISTINCT, UNION, WITH, ESCAPE: there the *same* literal must stay the same
//!
//! Literals after ORDER BY, LIMIT, OFFSET and FETCH stay, as do those in brackets. A number keeps
//! the type that it has as a literal; a string stays untyped and takes its type from where it
//! stands, as a parameter does. If the lifted text does not bind, bind the original: its error is
//! the right one.

use compact_str::CompactString;
use types::{DataType, Value};

/// A statement without its literals.
#[derive(Clone, PartialEq, Debug)]
pub struct Normalised {
    pub text: String,
    pub literals: Vec<Literal>,
}

/// What stood in the place of `$n`.
#[derive(Clone, PartialEq, Debug)]
pub struct Literal {
    /// A number, or a string as text.
    pub value: Value,
    /// `None` for strings. Part of the plan's key, for `17` and `17.5` make different plans.
    pub data_type: Option<DataType>,
}

/// More literals than this are bulk data, whose texts are seldom alike.
const LITERALS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4096;

/// Lifts the literals of one statement; `None` where that might change its meaning.
pub fn normalise(sql: &str) -> Option<Normalised> {
    if sql.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut lifter = Lifter {
        sql,
        place: 0,
        before: Before::Start,
        lifting: true,
        copied: 0,
        text: String::with_capacity(sql.len()),
        literals: Vec::new(),
    };
    lifter.run()?;
    if lifter.literals.is_empty() {
        return None;
    }
    lifter.text.push_str(&sql[lifter.copied..]);
    Some(Normalised { text: lifter.text, literals: lifter.literals })
}

/// What the token before tells about a literal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Start,
    /// A value may follow: an operator, `(`, `,` or a word such as AND.
    Open,
    /// A value has just ended, so `-` subtracts.
    Value,
    /// A minus sign, at this offset, that belongs to the number which follows.
    Sign(usize),
    /// Anything else: a literal here is not understood.
    Other,
}

struct Lifter<'s> {
    sql: &'s str,
    place: usize,
    before: Before,
    /// Still before ORDER BY and its kin.
    lifting: bool,
    /// How much of `sql` has gone into `text`.
    copied: usize,
    text: String,
    literals: Vec<Literal>,
}

impl Lifter<'_> {
    fn run(&mut self) -> Option<()> {
        let bytes = self.sql.as_bytes();
        while let Some(&byte) = bytes.get(self.place) {
            let from = self.place;
            let next = bytes.get(self.place + 1).copied();
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.place += 1,
                b'\'' => self.string()?,
                b'0'..=b'9' => self.number()?,
                b'.' if next.is_some_and(|b| b.is_ascii_digit()) => return None,
                b'"' => self.quoted_name()?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 128.. => self.word()?,
                b';' if self.sql[self.place + 1..].trim().is_empty() => self.place += 1,
                b'$' | b';' | b'\\' | b'[' => return None,
                b'-' if next == Some(b'-') => return None,
                b'/' if next == Some(b'*') => return None,
                b':' => return None,
                _ => self.symbol(byte),
            }
            debug_assert!(self.place > from, "no step at byte {from} of {:?}", self.sql);
            // It runs on a thread that many sessions share: to stand still would stop them all.
            if self.place <= from {
                return None;
            }
        }
        Some(())
    }

    fn symbol(&mut self, byte: u8) {
        self.before = match byte {
            b'-' if self.before == Before::Open => Before::Sign(self.place),
            b')' => Before::Value,
            b'.' => Before::Other,
            _ => Before::Open,
        };
        self.place += 1;
    }

    fn word(&mut self) -> Option<()> {
        let rest = &self.sql[self.place..];
        let is_part = |c: char| is_part_of_word(c) || c == '$';
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        let at_start = self.before == Before::Start;
        // E'…', B'…' and their kin.
        if self.sql.as_bytes().get(self.place + length) == Some(&b'\'') {
            return None;
        }
        self.place += length;
        let is = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(word));
        if at_start && !is(&["select", "insert", "update", "delete"]) {
            return None;
        }
        const SAME_LITERALS: &[&str] = &[
            "group",
            "distinct",
            "union",
            "with",
            "escape",
            "cast",
            "over",
            "intersect",
            "except",
            "interval",
            "date",
            "timestamp",
            "timestamptz",
            "time",
            "extract",
            "conflict",
        ];
        if is(SAME_LITERALS) {
            return None;
        }
        if is(&["order", "limit", "offset", "fetch"]) {
            self.lifting = false;
        }
        const OPENING: &[&str] = &[
            "select", "where", "and", "or", "not", "between", "when", "then", "else", "values",
            "set", "in", "like", "ilike", "having", "case", "on",
        ];
        self.before = match is(OPENING) {
            true => Before::Open,
            false => Before::Value,
        };
        Some(())
    }

    fn quoted_name(&mut self) -> Option<()> {
        let close = self.sql[self.place + 1..].find('"')?;
        self.place += close + 2;
        self.before = Before::Value;
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        if !matches!(self.before, Before::Open) {
            return None;
        }
        let start = self.place;
        let mut text = CompactString::default();
        let mut from = start + 1;
        loop {
            let close = from + self.sql[from..].find('\'')?;
            text.push_str(&self.sql[from..close]);
            self.place = close + 1;
            if self.sql.as_bytes().get(self.place) != Some(&b'\'') {
                break;
            }
            text.push('\'');
            from = self.place + 1;
        }
        // 'a' 'b' on two lines is one string.
        if self.sql[self.place..].trim_start().starts_with('\'') {
            return None;
        }
        self.lift(start, Value::Text(text), None)
    }

    fn number(&mut self) -> Option<()> {
        let (start, negative) = match self.before {
            Before::Open => (self.place, false),
            Before::Sign(sign) => (sign, true),
            _ if !self.lifting => (self.place, false),
            _ => return None,
        };
        let rest = &self.sql[self.place..];
        let is_part = |c: char| is_part_of_word(c) || c == '.';
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let digits = &rest[..length];
        self.place += length;
        let plain = |c: char| c.is_ascii_digit() || c == '.';
        if !digits.chars().all(plain) {
            return None;
        }
        let signed = match negative {
            true => format!("-{digits}"),
            false => digits.to_owned(),
        };
        let (value, data_type) = match signed.parse::<i64>() {
            Ok(i) if i32::try_from(i).is_ok() => (Value::Int(i), DataType::Int4),
            Ok(i) => (Value::Int(i), DataType::Int8),
            Err(_) => {
                let number = types::numeric::parse(&signed).ok().flatten()?;
                (Value::Numeric(number), DataType::Numeric(None))
            }
        };
        self.lift(start, value, Some(data_type))
    }

    /// Puts a parameter in the place of what stands from `start` to here.
    fn lift(&mut self, start: usize, value: Value, data_type: Option<DataType>) -> Option<()> {
        self.before = Before::Value;
        if !self.lifting {
            return Some(());
        }
        if self.literals.len() == LITERALS_MAX {
            return None;
        }
        self.literals.push(Literal { value, data_type });
        self.text.push_str(&self.sql[self.copied..start]);
        self.text.push('$');
        self.text.push_str(&self.literals.len().to_string());
        self.copied = self.place;
        Some(())
    }
}

/// As PostgreSQL has it: everything beyond ASCII is, blanks and signs too.
fn is_part_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Blanks, signs and marks that are neither letters nor digits, of two, three and four bytes.
    const SIGNS: [&str; 12] = [
        "\u{80}",
        "\u{a0}",
        "\u{ad}",
        "\u{b7}",
        "\u{2003}",
        "\u{2028}",
        "\u{200b}",
        "\u{feff}",
        "\u{fffd}",
        "\u{301}",
        "\u{e000}",
        "\u{1f980}",
    ];

    #[test]
    fn signs_beyond_ascii_are_passed() {
        for sign in SIGNS {
            for text in [
                format!("SELECT 1{sign}"),
                format!("SELECT 1 {sign}"),
                format!("SELECT {sign}"),
                format!("SELECT{sign}1"),
                format!("UPDATE t SET a = 1 WHERE b = {sign} 2"),
                format!("DELETE FROM t WHERE a = 'x'{sign}"),
                format!("INSERT INTO t VALUES (1, {sign}{sign})"),
                format!("SELECT 1 ORDER BY {sign} 1"),
                format!("{sign}SELECT 1"),
            ] {
                let lifted = normalise(&text);
                // What is no number of its own is not taken for one.
                let is_beside = text.contains(&format!("1{sign}"));
                assert!(lifted.is_none() || !is_beside, "{text:?}: {lifted:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn all_of_any_text_is_looked_at(
            pieces in prop::collection::vec(
                prop::sample::select([&SIGNS[..], &[
                    "SELECT ", "1", "a", "'", "''", "\"", "\\", "$", "(", ")", ",", "-", "/", ".",
                    ";", ":", "[", " ", "\n", "\t", "\u{b}", "\0", "é", "²", "ORDER BY ", "E'",
                ]].concat()),
                0..24,
            )
        ) {
            let text = format!("SELECT {}", pieces.concat());
            if let Some(Normalised { text: left, literals }) = normalise(&text) {
                prop_assert!(!literals.is_empty());
                prop_assert!(left.starts_with("SELECT "));
            }
        }
    }

    fn lifted(sql: &str) -> Option<(String, Vec<Value>)> {
        let normalised = normalise(sql)?;
        let values = normalised.literals.into_iter().map(|l| l.value);
        Some((normalised.text, values.collect()))
    }

    #[test]
    fn literals_become_parameters() {
        for (sql, text, values) in [
            (
                "UPDATE t SET a=a+17 WHERE id=5;",
                "UPDATE t SET a=a+$1 WHERE id=$2;",
                vec![Value::Int(17), Value::Int(5)],
            ),
            (
                "update t set a = a + -7, b = -3 - 2 where id = 1",
                "update t set a = a + $1, b = $2 - $3 where id = $4",
                [-7, -3, 2, 1].map(Value::Int).to_vec(),
            ),
            (
                "INSERT INTO t (a, b) VALUES (1.50, 'it''s')",
                "INSERT INTO t (a, b) VALUES ($1, $2)",
                vec![
                    Value::Numeric(types::numeric::parse("1.50").unwrap().unwrap()),
                    Value::text("it's"),
                ],
            ),
            (
                "SELECT a FROM t2 WHERE b IN (1, 2) AND c <> 'x' ORDER BY 1 LIMIT 10",
                "SELECT a FROM t2 WHERE b IN ($1, $2) AND c <> $3 ORDER BY 1 LIMIT 10",
                vec![Value::Int(1), Value::Int(2), Value::text("x")],
            ),
        ] {
            assert_eq!(lifted(sql), Some((text.to_owned(), values)), "{sql}");
        }
    }

    #[test]
    fn numbers_keep_their_types() {
        let normalised = normalise("select 1, 3000000000, 1.5, -2147483648, 'x'").unwrap();
        let types: Vec<_> = normalised.literals.into_iter().map(|l| l.data_type).collect();
        assert_eq!(
            types,
            [
                Some(DataType::Int4),
                Some(DataType::Int8),
                Some(DataType::Numeric(None)),
                Some(DataType::Int4),
                None,
            ]
        );
    }

    #[test]
    fn what_is_doubtful_is_left_alone() {
        for sql in [
            "select a from t",
            "select 1 -- comment",
            "select /* 2 */ 1",
            "select 1; select 2",
            "select $1 + 1",
            "select '1'::int",
            "select cast(1 as text)",
            "select date '2024-01-01'",
            "select E'\\n'",
            "select $$x$$",
            "select a + 1 from t group by a + 1",
            "select distinct 1",
            "select 1 union select 2",
            "select a[1], 2 from t",
            "select 1e5",
            "select 'a'\n'b'",
            "select a like 'x' escape '!' from t",
            "create table t (a varchar(10))",
            "select 'open",
            "select .5",
        ] {
            assert_eq!(lifted(sql), None, "{sql}");
        }
    }
}
