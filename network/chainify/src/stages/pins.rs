//! Which rows a statement may touch, as sets of values per column: two statements whose sets are
//! disjoint in one column are independent, and may run in the same stage.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use crate::schema::{Column, Kind};

/// Of which rows something is: by the columns' places, in all of which the row has a value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pins(BTreeMap<usize, Pin>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pin {
    /// From one to another, both included; ascending, with gaps between.
    Integers(Vec<(i128, i128)>),
    Texts(BTreeSet<String>),
}

/// Values of one pin; beyond, it is widened.
const VALUES_MAX: usize = 64;

impl Pins {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, column: usize, pin: Pin) {
        self.0.insert(column, pin);
    }

    /// Of rows that are both.
    pub fn and(&mut self, more: Pins) {
        for (column, pin) in more.0 {
            let both = self.0.remove(&column).and_then(|own| own.and(&pin));
            self.0.insert(column, both.unwrap_or(pin));
        }
    }

    /// Of rows that are either.
    #[must_use]
    pub fn or(self, mut other: Pins) -> Pins {
        let either = |(column, pin): (usize, Pin)| {
            let both = pin.or(other.0.remove(&column)?)?;
            Some((column, both))
        };
        Pins(self.0.into_iter().filter_map(either).collect())
    }

    /// Columns of another table instead, where there are such.
    #[must_use]
    pub fn renamed(&self, from: &[usize], to: &[usize]) -> Pins {
        let pairs = from.iter().zip(to);
        Pins(pairs.filter_map(|(from, to)| Some((*to, self.0.get(from)?.clone()))).collect())
    }

    /// Whether no row has a value of both in this column.
    pub fn are_apart(&self, other: &Pins, column: usize) -> bool {
        match (self.0.get(&column), other.0.get(&column)) {
            (Some(own), Some(other)) => own.is_apart(other),
            _ => false,
        }
    }

    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.keys().copied()
    }

    /// The one value of a column.
    pub fn point(&self, column: usize) -> Option<Point> {
        match self.0.get(&column)? {
            Pin::Integers(all) => match all[..] {
                [(first, last)] if first == last => Some(Point::Integer(first)),
                _ => None,
            },
            Pin::Texts(all) if all.len() == 1 => all.first().cloned().map(Point::Text),
            Pin::Texts(_) => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Point {
    Integer(i128),
    Text(String),
}

impl Pin {
    /// What a row has that is inserted with this value. `None`: it may be anything.
    pub fn inserted(column: &Column, value: &Expr) -> Option<Pin> {
        // Spaces that do not fit are cut off.
        if let (Kind::Text { characters: Some(most) }, Some(text)) = (column.kind, text(value))
            && text.chars().count() > most as usize
        {
            return None;
        }
        Pin::compared(column, &BinaryOperator::Eq, value)
    }

    /// What a row has of which a comparison with a literal is true.
    pub fn compared(column: &Column, op: &BinaryOperator, value: &Expr) -> Option<Pin> {
        match column.kind {
            Kind::Integer { .. } => {
                let value = integer(value)?;
                let range = match op {
                    BinaryOperator::Eq => (value, value),
                    BinaryOperator::Lt => (i128::MIN, value.checked_sub(1)?),
                    BinaryOperator::LtEq => (i128::MIN, value),
                    BinaryOperator::Gt => (value.checked_add(1)?, i128::MAX),
                    BinaryOperator::GtEq => (value, i128::MAX),
                    _ => return None,
                };
                Some(Pin::Integers(vec![range]))
            }
            Kind::Text { .. } if *op == BinaryOperator::Eq => {
                Some(Pin::Texts([text(value)?].into()))
            }
            _ => None,
        }
    }

    fn and(self, other: &Pin) -> Option<Pin> {
        match (self, other) {
            (Pin::Integers(own), Pin::Integers(other)) => {
                let mut all = Vec::new();
                for (first, last) in own {
                    let both = other.iter().map(|it| (first.max(it.0), last.min(it.1)));
                    all.extend(both.filter(|(first, last)| first <= last));
                }
                Some(Pin::Integers(all))
            }
            (Pin::Texts(own), Pin::Texts(other)) => {
                Some(Pin::Texts(own.intersection(other).cloned().collect()))
            }
            _ => None,
        }
    }

    fn or(self, other: Pin) -> Option<Pin> {
        match (self, other) {
            (Pin::Integers(mut own), Pin::Integers(other)) => {
                own.extend(other);
                own.sort_unstable();
                let mut all: Vec<(i128, i128)> = Vec::with_capacity(own.len());
                for (first, last) in own {
                    match all.last_mut() {
                        Some(before) if first <= before.1.saturating_add(1) => {
                            before.1 = before.1.max(last);
                        }
                        _ => all.push((first, last)),
                    }
                }
                if all.len() > VALUES_MAX {
                    let whole = (all[0].0, all.last().map_or(all[0].1, |last| last.1));
                    all = vec![whole];
                }
                Some(Pin::Integers(all))
            }
            (Pin::Texts(own), Pin::Texts(other)) => {
                let all: BTreeSet<String> = own.union(&other).cloned().collect();
                (all.len() <= VALUES_MAX).then_some(Pin::Texts(all))
            }
            _ => None,
        }
    }

    fn is_apart(&self, other: &Pin) -> bool {
        match (self, other) {
            (Pin::Integers(own), Pin::Integers(other)) => {
                own.iter().all(|a| other.iter().all(|b| a.1 < b.0 || b.1 < a.0))
            }
            (Pin::Texts(own), Pin::Texts(other)) => own.is_disjoint(other),
            _ => false,
        }
    }
}

fn integer(value: &Expr) -> Option<i128> {
    match value {
        Expr::Nested(inner) => integer(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => integer(expr)?.checked_neg(),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => integer(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(text, false) if text.bytes().all(|it| it.is_ascii_digit()) => {
                text.parse().ok()
            }
            _ => None,
        },
        _ => None,
    }
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Nested(inner) => text(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
