//! Times as the clocks of a place show them, of each row that is read.
//!
//! ```text
//!   date_trunc('day', t)   in 'America/Chicago'
//!   = moment(rules, date_trunc('day', shown(rules, t)))
//! ```
//!
//! Programs know no zone. The rules of one become a constant of the expression
//! ([`types::rules`]), so it is evaluated without the time zone database. That database is a node's
//! own and changes every year, so such expressions are for what this node alone reads
//! ([`SessionInfo::reads_here`](crate::SessionInfo)), and refused in what is recorded.

use std::fmt;
use std::sync::Arc;

use procedure::{Expr, Function};
use types::cast::CastContext;
use types::{DataType, Error, Result, Value, Zone};

use super::binder::{Binder, Typed, fold};
use super::functions::called;

/// The rules of a place's clocks, as a constant.
pub(super) struct Rules(Arc<[u8]>);

impl Rules {
    fn constant(&self) -> Expr {
        Expr::Const(Value::Bytes(Arc::clone(&self.0)))
    }
}

impl Binder<'_> {
    /// The session's; `None` where its clocks show UTC.
    ///
    /// # Errors
    /// 0A000: the statement may not depend on them.
    pub(super) fn session_rules(&mut self, what: impl fmt::Display) -> Result<Option<Rules>> {
        self.zone_dependent = true;
        let zone = self.session.zone.clone();
        if zone.is_utc() {
            return Ok(None);
        }
        match self.rules_of(&zone) {
            Some(rules) => Ok(Some(rules)),
            None => self.needs_utc(what).map(|()| None),
        }
    }

    /// Those of a zone that has others than UTC; `None`: no expression here may have them.
    pub(super) fn rules_of(&mut self, zone: &Zone) -> Option<Rules> {
        let rules = zone.rules().filter(|_| self.session.reads_here)?;
        self.by_clocks = true;
        Some(Rules(rules))
    }

    /// A conversion between a moment and what clocks show.
    pub(super) fn cast_by_clocks(&self, rules: &Rules, input: Expr, to: &DataType) -> Expr {
        fold(called(Function::CastByClocks, vec![rules.constant(), input], to.clone()).expr)
    }

    /// What clocks show at a moment.
    pub(super) fn shown_by_clocks(&self, rules: &Rules, moment: Expr) -> Typed {
        let to = DataType::Timestamp(None);
        Typed::new(self.cast_by_clocks(rules, moment, &to), to)
    }

    /// A moment moved by an interval of any kind.
    pub(super) fn move_by_clocks(&self, rules: &Rules, moment: Expr, by: Expr) -> Expr {
        let inputs = vec![rules.constant(), moment, by];
        fold(called(Function::MoveByClocks, inputs, DataType::Timestamptz(None)).expr)
    }

    /// The same arguments, moments being what the session's clocks show then.
    pub(super) fn shown_here(
        &mut self,
        arguments: &[Typed],
        what: impl fmt::Display,
    ) -> Result<Vec<Typed>> {
        let Some(rules) = self.session_rules(what)? else { return Ok(arguments.to_vec()) };
        let shown = |argument: &Typed| match argument.data_type {
            DataType::Timestamptz(_) => Ok(self.shown_by_clocks(&rules, argument.expr.clone())),
            _ => Ok(argument.clone()),
        };
        arguments.iter().map(shown).collect()
    }

    /// `date_trunc`. Hours and what is shorter are cut from the moment itself, as days may have two
    /// of an hour.
    pub(super) fn truncated_by_clocks(
        &mut self,
        rules: &Rules,
        field: &Typed,
        moment: Expr,
    ) -> Result<Typed> {
        use DataType as T;
        let of_clock = match &field.expr {
            Expr::Const(Value::Text(field)) => is_of_clock(field),
            _ => return Err(Error::unsupported("date_trunc by a computed unit in this time zone")),
        };
        let again = self.again(&moment)?;
        let shown = self.shown_by_clocks(rules, moment);
        let inputs = vec![field.expr.clone(), shown.expr.clone()];
        let cut = called(Function::DateTrunc, inputs, T::Timestamp(None));
        if !of_clock {
            let expr = self.cast_by_clocks(rules, cut.expr, &T::Timestamptz(None));
            return Ok(Typed::new(expr, T::Timestamptz(None)));
        }
        let subtract = |left: Expr, right: Expr, result: DataType| {
            let (left, right) = (Box::new(left), Box::new(right));
            fold(Expr::Binary { op: procedure::BinaryOp::Subtract, left, right, result })
        };
        let over = subtract(shown.expr, cut.expr, T::INTERVAL);
        Ok(Typed::new(subtract(again, over, T::Timestamptz(None)), T::Timestamptz(None)))
    }

    /// A text or a time as a moment, and a moment as another time or a text; `None` where the
    /// session's clocks show UTC, or do not matter. Lengths and digits are still to be seen to.
    pub(super) fn converted_by_clocks(
        &mut self,
        input: &Expr,
        (from, to): (&DataType, &DataType),
    ) -> Result<Option<Typed>> {
        use DataType as T;
        let is_plain = |t: &T| t.is_string() || matches!(t, T::Date | T::Timestamp(_) | T::Unknown);
        let between = match (from, to) {
            (T::Timestamptz(_), to) if to.is_string() => T::Text,
            (T::Timestamptz(_), T::Date | T::Timestamp(_) | T::Time(_) | T::Timetz(_)) => {
                to.without_modifier()
            }
            (from, T::Timestamptz(_)) if is_plain(from) => T::Timestamptz(None),
            _ => return Ok(None),
        };
        let what = format_args!("a conversion from {from} to {to}");
        let Some(rules) = self.session_rules(what)? else { return Ok(None) };
        let expr = self.cast_by_clocks(&rules, input.clone(), &between);
        Ok(Some(Typed::new(expr, between)))
    }

    /// `moment AT TIME ZONE 'Europe/Berlin'`.
    pub(super) fn at_place(
        &mut self,
        zone: &Zone,
        moment: &Typed,
        (input, result): (&DataType, &DataType),
    ) -> Result<Typed> {
        let is_of_day = !matches!(input, DataType::Timestamp(_) | DataType::Timestamptz(_));
        let rules = match is_of_day {
            true => None,
            false => self.rules_of(zone),
        };
        let Some(rules) = rules else {
            return Err(Error::unsupported("AT TIME ZONE").with_hint("Times are kept in UTC."));
        };
        let expr = self.coerce(moment.clone(), input, CastContext::Assignment)?;
        Ok(Typed::new(self.cast_by_clocks(&rules, expr, result), result.clone()))
    }
}

/// Whether a unit is no longer than an hour.
fn is_of_clock(unit: &str) -> bool {
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    matches!(unit, "hour" | "minute" | "second" | "millisecond" | "microsecond")
}

/// Whether a format of `to_char` shows the zone.
pub(super) fn shows_zone(format: &str) -> bool {
    let upper = format.to_ascii_uppercase();
    upper.contains("TZ") || upper.contains("OF")
}
