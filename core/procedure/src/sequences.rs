//! Values of sequences on which every replica agrees.
//!
//! A program reads no sequence while it runs. The node at which a transaction enters has reserved
//! values of the sequence beforehand, by an ordered transaction of its own, and sends each
//! transaction its share as an argument: an array of the sequence's number and *runs*, each a first
//! value, a step and a count.
//!
//! ```text
//!   argument   [17,  5, 1, 3,  40, 1, 2]   of sequence 17: 5 6 7 40 41
//!   nextval('s') at position 3             40
//! ```
//!
//! *Renamed sequences.* By the time the program runs, `s` may be another sequence. Its number then
//! differs from the argument's, and the transaction is not run ([`is_of`]).
//!
//! The values follow from the ordered bytes alone, under every protocol and with any number of
//! threads; keys computed from them are known before the program runs; and two inserting
//! transactions never conflict on the sequence. Positions are those of [`draws`](crate::draws),
//! counted for each sequence separately.
//!
//! *State.* A sequence is a row of a table like any other: the last value, and whether it was
//! taken. [`take`] computes the next values.
//!
//! *Gaps.* Values sent with a transaction are used up, whether or not it commits or takes all of
//! them. A value in a branch that is not executed counts as taken.
//!
//! *Cost.* A walk over the runs for each value: nearly always one run.

use std::borrow::Cow;

use types::{Error, Result, SqlState, TableId, Value};

use crate::meter::Meter;

/// Numbers that one run takes in the array.
const RUN: usize = 3;

/// Values from `first` on, `step` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub first: i64,
    pub step: i64,
    pub count: u64,
}

impl Run {
    /// `None`: it is beyond the run, or no number of 64 bits.
    pub fn value(&self, place: u64) -> Option<i64> {
        let inside = place < self.count;
        let offset = self.step.checked_mul(i64::try_from(place).ok()?);
        offset.and_then(|offset| self.first.checked_add(offset)).filter(|_| inside)
    }

    /// Takes the first `count` off.
    pub fn split_off_front(&mut self, count: u64) -> Run {
        let count = count.min(self.count);
        let front = Run { count, ..*self };
        // Where nothing is left there may be no such number.
        self.first = self.value(count).unwrap_or(self.first);
        self.count -= count;
        front
    }
}

fn numbers(runs: &[Run]) -> impl Iterator<Item = i64> {
    runs.iter().flat_map(|run| [run.first, run.step, run.count as i64])
}

fn array(numbers: impl Iterator<Item = i64>) -> Value {
    Value::from(numbers.map(Value::Int).collect::<Vec<_>>())
}

/// The argument that holds values of a sequence.
pub fn argument(sequence: TableId, runs: &[Run]) -> Value {
    array([i64::from(sequence.0)].into_iter().chain(numbers(runs)))
}

/// The argument that holds the value which was taken last, or NULL.
pub fn current_argument(sequence: TableId, value: &Value) -> Value {
    match value {
        Value::Int(value) => array([i64::from(sequence.0), *value].into_iter()),
        _ => Value::Null,
    }
}

/// Whether an argument is of this sequence.
pub fn is_of(argument: &Value, sequence: TableId) -> bool {
    match argument.as_array() {
        Some(numbers) => numbers.first() == Some(&Value::Int(i64::from(sequence.0))),
        None => argument.is_null(),
    }
}

/// The value at a place of an argument.
pub fn value_at(argument: &Value, mut place: u64) -> Option<i64> {
    let (_, runs) = argument.as_array()?.split_first()?;
    for numbers in runs.chunks_exact(RUN) {
        let [Value::Int(first), Value::Int(step), Value::Int(count)] = numbers else { return None };
        let run = Run { first: *first, step: *step, count: u64::try_from(*count).ok()? };
        if place < run.count {
            return run.value(place);
        }
        place -= run.count;
    }
    None
}

/// `nextval`, with what the compiler and the transaction have added.
pub(crate) fn next(arguments: &[Cow<'_, Value>], meter: &Meter) -> Result<Value> {
    let [sequence, values, position] = arguments else { return Err(misplaced()) };
    let (Value::Int(sequence), Value::Int(position)) = (&**sequence, &**position) else {
        return Err(misplaced());
    };
    let sequence = u32::try_from(*sequence).map(TableId).map_err(|_| misplaced())?;
    let place = u64::try_from(*position).map_err(|_| misplaced())?;
    // Who sends the runs says how many there are.
    meter.spend((values.as_array().map_or(0, <[_]>::len) / RUN) as u64)?;
    meter.take_value(sequence, place);
    value_at(values, place).map(Value::Int).ok_or_else(too_few)
}

/// `currval` and `lastval`, with what the session has taken.
pub(crate) fn current(arguments: &[Cow<'_, Value>]) -> Result<Value> {
    let [_, name, current, _] = arguments else { return Err(misplaced()) };
    match (current.as_array(), &**name) {
        (Some([_, Value::Int(value)]), _) => Ok(Value::Int(*value)),
        (_, Value::Text(name)) => Err(Error::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("currval of sequence \"{name}\" is not yet defined in this session"),
        )),
        _ => Err(Error::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "lastval is not yet defined in this session",
        )),
    }
}

/// What a sequence counts by, and between which bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycles: bool,
}

impl Steps {
    /// The first of the values after `last`; `None`: there is none.
    fn behind(&self, last: i64) -> Option<i64> {
        let next = last.checked_add(self.increment);
        let inside = next.filter(|next| (self.min..=self.max).contains(next));
        let again = if self.increment > 0 { self.min } else { self.max };
        inside.or(self.cycles.then_some(again))
    }

    /// Up to `count` values from `first` on, none beyond a bound; `first` is inside.
    pub fn run(&self, first: i64, count: u64) -> Run {
        let room = match self.increment > 0 {
            true => i128::from(self.max) - i128::from(first),
            false => i128::from(first) - i128::from(self.min),
        };
        let fit = room / i128::from(self.increment).abs() + 1;
        let count = u64::try_from(fit).unwrap_or(u64::MAX).min(count.max(1));
        Run { first, step: self.increment, count }
    }
}

/// The next values of a sequence: the last one, whether it was taken, how many are wanted; then
/// increment, smallest and largest value, whether it cycles, its name. A run, as in an argument.
///
/// # Errors
/// 2200H where there is none.
pub(crate) fn take(arguments: &[Cow<'_, Value>]) -> Result<Value> {
    let int = |place: usize| arguments.get(place)?.as_int();
    let flag =
        |place: usize| arguments.get(place).map(|value| matches!(**value, Value::Bool(true)));
    let read = || {
        let steps = Steps { increment: int(3)?, min: int(4)?, max: int(5)?, cycles: flag(6)? };
        Some((int(0)?, flag(1)?, u64::try_from(int(2)?).ok()?, steps))
    };
    let (last, taken, count, steps) = read().ok_or_else(misplaced)?;
    let first = match taken {
        true => steps.behind(last),
        // The bounds may have been changed since.
        false => Some(last).filter(|last| (steps.min..=steps.max).contains(last)),
    };
    let name = arguments.get(7).map(|name| name.to_string()).unwrap_or_default();
    let first = first.ok_or_else(|| at_end(&name, &steps))?;
    Ok(array(numbers(&[steps.run(first, count)])))
}

/// There are no further values.
pub fn at_end(name: &str, steps: &Steps) -> Error {
    let (which, bound) = match steps.increment > 0 {
        true => ("maximum", steps.max),
        false => ("minimum", steps.min),
    };
    Error::new(
        SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        format!("nextval: reached {which} value of sequence \"{name}\" ({bound})"),
    )
}

/// The data ask for more values than the transaction has brought along.
pub fn too_few() -> Error {
    Error::serialization("The transaction takes more values of a sequence than it was given.")
}

/// The compiler has not given a call its place.
fn misplaced() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "a value of a sequence without a place in its program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_through_and_end() {
        let runs = [Run { first: 5, step: 1, count: 3 }, Run { first: -4, step: -2, count: 2 }];
        let argument = argument(TableId(9), &runs);
        let values: Vec<_> = (0..7).map(|place| value_at(&argument, place)).collect();
        assert_eq!(values, [Some(5), Some(6), Some(7), Some(-4), Some(-6), None, None]);
    }

    #[test]
    fn numbers_that_nobody_drew_are_refused_and_overflow_nothing() {
        let run = |first, step, count| argument(TableId(9), &[Run { first, step, count }]);
        assert_eq!(value_at(&run(i64::MAX, 1, 2), 0), Some(i64::MAX));
        assert_eq!(value_at(&run(i64::MAX, 1, 2), 1), None);
        assert_eq!(value_at(&run(0, i64::MIN, u64::MAX), 0), None, "a negative count");
        assert_eq!(value_at(&run(1, i64::MAX, 3), 2), None);
        assert_eq!(value_at(&array([7, 1, 1].into_iter()), 0), None);
        assert_eq!(value_at(&array([].into_iter()), 0), None);
        assert_eq!(value_at(&Value::Null, 0), None);
    }

    #[test]
    fn an_argument_is_of_the_sequence_that_it_names() {
        let [this, other] = [TableId(3), TableId(4)];
        for argument in [argument(this, &[]), current_argument(this, &Value::Int(4))] {
            assert!(is_of(&argument, this) && !is_of(&argument, other));
        }
        assert!(is_of(&current_argument(this, &Value::Null), other));
        for nothing in [Value::Int(3), array([].into_iter()), array([-1].into_iter())] {
            assert!(!is_of(&nothing, this));
        }
    }

    #[test]
    fn values_stop_at_a_bound_or_begin_again() {
        let up = Steps { increment: 3, min: 1, max: 10, cycles: false };
        assert_eq!(up.run(1, 100), Run { first: 1, step: 3, count: 4 });
        assert_eq!(up.run(1, 2), Run { first: 1, step: 3, count: 2 });
        assert_eq!((up.behind(7), up.behind(10)), (Some(10), None));
        assert_eq!(Steps { cycles: true, ..up }.behind(10), Some(1));
        let down = Steps { increment: -1, min: i64::MIN, max: -1, cycles: true };
        assert_eq!(down.run(i64::MIN + 1, 9).count, 2);
        assert_eq!(down.behind(i64::MIN), Some(-1));
        let whole = Steps { increment: 1, min: i64::MIN, max: i64::MAX, cycles: false };
        assert_eq!(whole.run(i64::MIN, u64::MAX).count, u64::MAX);
        assert_eq!(whole.behind(i64::MAX), None);
    }

    #[test]
    fn the_front_and_the_rest_are_the_whole() {
        let whole = Run { first: 10, step: -3, count: 4 };
        for count in 0..6 {
            let mut rest = whole;
            let front = rest.split_off_front(count);
            let all = |run: Run| (0..run.count).map(move |place| run.value(place).unwrap());
            assert_eq!(all(front).chain(all(rest)).collect::<Vec<_>>(), [10, 7, 4, 1]);
        }
    }
}
