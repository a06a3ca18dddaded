//! What is known of the values that both engines compute: how many digits they have, and whether
//! they compare.

use types::{DataType, Value};

/// Digits that a number that the analytical engine computes has at most.
pub const DIGITS_MAX: u8 = 29;

/// Digits after the point that it has at most, and of a column.
pub const SCALE_MAX: u8 = 28;

/// Digits of a number that is surely the same float for both.
pub const FLOAT_DIGITS_MAX: u8 = 15;

/// Digits of the analytical engine's widest numbers.
pub const WIDE_DIGITS: u8 = 38;

/// Digits after the point that the analytical engine gives a parameter of type numeric.
pub const PARAMETER_SCALE: u8 = 10;

/// What is known of an expression's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Null,
    Bool,
    /// Of at most so many digits.
    Int(u8),
    /// So many digits before the point at most, and so many after it always.
    Number {
        whole: u8,
        scale: u8,
    },
    /// A number that brings its scale along: a quotient, or what is computed from one.
    Free,
    /// A parameter: its scale is its value's.
    Parameter,
    Float,
    Text,
    Date,
    Timestamp,
    Timestamptz,
    Uuid,
    /// A constant, by which moments are moved.
    Interval,
    /// Shown and counted, never compared.
    Opaque,
}

pub fn column_kind(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::Bool => Kind::Bool,
        DataType::Int2 => Kind::Int(5),
        DataType::Int4 => Kind::Int(10),
        DataType::Int8 => Kind::Int(19),
        DataType::Numeric(Some((precision, scale))) => {
            let digits = u8::try_from(*precision).ok().filter(|digits| *digits <= SCALE_MAX)?;
            let scale = u8::try_from(*scale).ok()?;
            Kind::Number { whole: digits.checked_sub(scale)?, scale }
        }
        DataType::Text | DataType::Varchar(_) => Kind::Text,
        DataType::Date => Kind::Date,
        DataType::Timestamp(_) => Kind::Timestamp,
        DataType::Timestamptz(_) => Kind::Timestamptz,
        DataType::Uuid => Kind::Uuid,
        DataType::Float8 => Kind::Float,
        DataType::Bytea => Kind::Opaque,
        _ => return None,
    })
}

pub fn parameter_kind(data_type: &DataType) -> Option<Kind> {
    match data_type {
        DataType::Numeric(_) => Some(Kind::Parameter),
        DataType::Bytea => None,
        other => column_kind(other),
    }
}

/// What comes out of a function or a cast that the analytical engine has the row executor compute.
pub fn computed_kind(data_type: &DataType) -> Option<Kind> {
    match data_type {
        DataType::Numeric(None) => Some(Kind::Free),
        other => column_kind(other),
    }
}

impl Kind {
    pub fn of_value(value: &Value) -> Option<Kind> {
        Some(match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Int(int) if i32::try_from(*int).is_ok() => Kind::Int(10),
            Value::Int(_) => Kind::Int(19),
            // Whole numbers may stand for integers, which the other engine widens.
            Value::Numeric(number) => {
                let digits = number.units()?.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
                let digits = u8::try_from(digits).ok().filter(|digits| *digits <= SCALE_MAX)?;
                let scale =
                    u8::try_from(number.scale()).ok().filter(|scale| *scale <= SCALE_MAX)?;
                let whole = digits.saturating_sub(scale).max(10);
                Kind::Number { whole, scale }
            }
            Value::Float(_) => Kind::Float,
            Value::Text(_) => Kind::Text,
            Value::Date(_) => Kind::Date,
            Value::Timestamp(_) => Kind::Timestamp,
            Value::Timestamptz(_) => Kind::Timestamptz,
            Value::Uuid(_) => Kind::Uuid,
            Value::Interval(_) => Kind::Interval,
            _ => return None,
        })
    }

    /// Digits before and after the point.
    pub fn digits(self) -> Option<(u8, u8)> {
        match self {
            Kind::Int(whole) => Some((whole, 0)),
            Kind::Number { whole, scale } => Some((whole, scale)),
            Kind::Parameter => Some((WIDE_DIGITS - PARAMETER_SCALE, PARAMETER_SCALE)),
            _ => None,
        }
    }

    pub fn is_ordered(self) -> bool {
        !matches!(self, Kind::Opaque | Kind::Interval)
    }

    /// Whether values that are equal are the same.
    pub fn is_keyed(self) -> bool {
        !matches!(self, Kind::Opaque | Kind::Free | Kind::Float | Kind::Interval)
    }

    pub fn is_exact(self) -> bool {
        matches!(self, Kind::Int(_) | Kind::Number { .. } | Kind::Free)
    }

    /// Whether the values of both compare, and as in the other engine.
    pub fn compares_to(self, other: Kind) -> bool {
        if self == Kind::Parameter && other == Kind::Parameter {
            return false;
        }
        if self == Kind::Free || other == Kind::Free {
            let is_number = |kind: Kind| kind.is_exact() || kind == Kind::Null;
            return is_number(self) && is_number(other);
        }
        match (self.digits(), other.digits()) {
            (Some((a_whole, a_scale)), Some((b_whole, b_scale))) => {
                a_whole.max(b_whole) + a_scale.max(b_scale) <= WIDE_DIGITS
            }
            (None, None) => {
                let is_null = self == Kind::Null || other == Kind::Null;
                (self == other || is_null) && self.is_ordered() && other.is_ordered()
            }
            (Some(_), None) => other == Kind::Null,
            (None, Some(_)) => self == Kind::Null,
        }
    }

    /// Whether rows are joined by values of the one that equal those of the other.
    pub fn is_key_of(self, other: Kind) -> bool {
        self.compares_to(other) && self.is_keyed() && other.is_keyed()
    }

    /// The kind of what is one or the other, where numbers may keep their own scales.
    pub fn or_free(self, other: Kind) -> Option<Kind> {
        let is_other = self.digits() != other.digits() || self == Kind::Free;
        match (self, other) {
            (Kind::Int(_), Kind::Int(_)) => self.or(other),
            _ if self.is_exact() && other.is_exact() && is_other => match self.or(other) {
                Some(same @ Kind::Number { .. }) => Some(same),
                _ => Some(Kind::Free),
            },
            _ => self.or(other),
        }
    }

    /// The kind of what is one or the other.
    pub fn or(self, other: Kind) -> Option<Kind> {
        match (self, other) {
            // Two may be of different scales that the analytical engine knows.
            (Kind::Free, _) | (_, Kind::Free) => None,
            (Kind::Null, kind) | (kind, Kind::Null) => Some(kind),
            (Kind::Int(a), Kind::Int(b)) => Some(Kind::Int(a.max(b))),
            (Kind::Number { whole: a, scale }, Kind::Number { whole: b, scale: other })
                if scale == other =>
            {
                Some(Kind::Number { whole: a.max(b), scale })
            }
            (Kind::Parameter, _) => None,
            (kind, other) => (kind == other).then_some(kind),
        }
    }
}

pub fn one_of(mut kinds: impl Iterator<Item = Option<Kind>>) -> Option<Kind> {
    kinds.try_fold(Kind::Null, |sofar, kind| sofar.or_free(kind?))
}

/// A cast that the text does not have.
pub fn cast(from: Kind, to: &DataType) -> Option<Kind> {
    match (from, to) {
        (Kind::Null, _) => column_kind(to),
        (Kind::Int(from), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            column_kind(to).filter(|to| to.digits().is_some_and(|(to, _)| from <= to))
        }
        (Kind::Int(whole), DataType::Numeric(None)) => Some(Kind::Number { whole, scale: 0 }),
        (Kind::Number { .. } | Kind::Parameter | Kind::Free, DataType::Numeric(None)) => Some(from),
        (Kind::Int(_) | Kind::Free, DataType::Float8) => Some(Kind::Float),
        (Kind::Number { whole, scale }, DataType::Float8) => {
            (whole + scale <= FLOAT_DIGITS_MAX).then_some(Kind::Float)
        }
        (Kind::Text, DataType::Text) => Some(from),
        (Kind::Date, DataType::Timestamp(_)) => Some(Kind::Timestamp),
        _ => None,
    }
}
