//! `format()`: `%[position$][-][width]type`, with `s`, `I` and `L` for types.

use std::iter::Peekable;
use std::str::Chars;

use types::{Error, Result, SqlState, Value};

use super::made::{Made, check_text_bytes};
use super::text_functions::{quoted_literal, quoted_name, text};

/// One `%…` as it is written, its type excepted.
#[derive(Default)]
struct Specifier {
    /// The number of the argument.
    position: Option<usize>,
    is_left: bool,
    width: i64,
}

/// Which argument comes next.
struct Arguments<'a> {
    all: &'a [Value],
    next: usize,
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what.into())
}

fn unterminated() -> Error {
    wrong("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
}

impl<'a> Arguments<'a> {
    /// One with a number says from where it goes on.
    fn take(&mut self, position: Option<usize>) -> Result<&'a Value> {
        let place = position.map_or(self.next, |position| position - 1);
        self.next = place + 1;
        self.all.get(place).ok_or_else(|| wrong("too few arguments for format()"))
    }
}

pub(super) fn formatted(template: &str, arguments: &[Value]) -> Result<Value> {
    let mut result = Made::default();
    let mut arguments = Arguments { all: arguments, next: 0 };
    let mut rest = template.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            result.push(c.encode_utf8(&mut [0; 4]))?;
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            result.push("%")?;
            continue;
        }
        let specifier = Specifier::read(&mut rest, &mut arguments)?;
        let kind = rest.next().ok_or_else(unterminated)?;
        if !['s', 'I', 'L'].contains(&kind) {
            let what = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(wrong(what).with_hint("For a single \"%\" use \"%%\"."));
        }
        let argument = arguments.take(specifier.position)?;
        let shown = match kind {
            'I' if argument.is_null() => {
                let what = "null values cannot be formatted as an SQL identifier";
                return Err(Error::new(SqlState(*b"22004"), what));
            }
            'I' => quoted_name(text(argument))?,
            'L' if argument.is_null() => "NULL".to_owned(),
            'L' => quoted_literal(text(argument))?,
            _ => text(argument).to_owned(),
        };
        specifier.push(&shown, &mut result)?;
    }
    Ok(result.into_value())
}

impl Specifier {
    fn read(rest: &mut Peekable<Chars<'_>>, arguments: &mut Arguments<'_>) -> Result<Specifier> {
        let mut specifier = Specifier::default();
        if let Some(number) = number(rest)? {
            if rest.next_if_eq(&'$').is_none() {
                specifier.width = number;
                return Ok(specifier);
            }
            specifier.position = Some(position(number)?);
        }
        while rest.next_if_eq(&'-').is_some() {
            specifier.is_left = true;
        }
        if rest.next_if_eq(&'*').is_some() {
            let place = match number(rest)? {
                None => None,
                Some(number) if rest.next_if_eq(&'$').is_some() => Some(position(number)?),
                Some(_) => {
                    return Err(wrong("width argument position must be ended by \"$\""));
                }
            };
            let width = text(arguments.take(place)?).trim();
            specifier.width = match width {
                "" => 0,
                width => width.parse().map_err(|_| {
                    let what = format!("invalid input syntax for type integer: \"{width}\"");
                    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
                })?,
            };
            if specifier.width < 0 {
                specifier.is_left = true;
                specifier.width = specifier.width.saturating_neg();
            }
        } else if let Some(width) = number(rest)? {
            specifier.width = width;
        }
        match rest.peek() {
            Some(_) => Ok(specifier),
            None => Err(unterminated()),
        }
    }

    fn push(&self, shown: &str, result: &mut Made) -> Result<()> {
        let width = usize::try_from(self.width).unwrap_or(usize::MAX);
        let missing = width.saturating_sub(shown.chars().count());
        check_text_bytes(missing)?;
        let blanks = " ".repeat(missing);
        if self.is_left {
            result.push(shown)?;
            return result.push(&blanks);
        }
        result.push(&blanks)?;
        result.push(shown)
    }
}

fn position(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(wrong("format specifies argument 0, but arguments are numbered from 1")),
    }
}

fn number(rest: &mut Peekable<Chars<'_>>) -> Result<Option<i64>> {
    let mut number: Option<i64> = None;
    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
        rest.next();
        let sofar = number.unwrap_or(0) * 10 + i64::from(digit);
        if sofar > i64::from(i32::MAX) {
            let what = "number is out of range";
            return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what));
        }
        number = Some(sofar);
    }
    Ok(number)
}
