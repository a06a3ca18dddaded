//! Chance that every replica agrees on: `random()` and UUIDs from an envelope's seed.
//!
//! A draw is a function of the seed, of the *lane* of the program within its transaction (the
//! first program that draws has lane 0) and of the draw's *position* within the program:
//!
//! ```text
//! words      SHA-256("tally random v1" 00 ‖ seed ‖ lane: u64 ‖ position: u64) as four u64
//! random()   (word 0 >> 11) / 2^53
//! random(a, b)   a + (word 0 ‖ word 1) mod (b - a + 1), in units of the last digit
//! uuid 4     word 0 ‖ word 1; version and variant bits set as RFC 9562 has them
//! uuid 7     the milliseconds of now(), then 74 bits: base + lane · 2^44 + position, where base is
//!            the first 73 bits of the words of lane 2^64 - 1 and position 2^64 - 1
//! ```
//!
//! All numbers are big-endian. As nothing but SHA-256 stands in the definition, which every
//! database and language has, any of them can repeat a draw, and no library's next version can
//! change one. It hides nothing: the seed is in the ledger, and who made it knew every draw
//! beforehand.
//!
//! *Invariant.* Positions grow in the order of execution, so a transaction's version-7 UUIDs do.
//! Those of two transactions meet with the probability that two numbers of 73 bits do.
//!
//! *Cost.* One compression a draw, two for a version-7 UUID.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use types::numeric::Numeric;
use types::{Error, Result, SqlState, Value};

use crate::functions::function::Function;

/// What a transaction's draws follow from.
pub type Seed = [u8; 16];

/// Programs of one transaction that draw; more than the meter lets run.
pub const LANES_MAX: u64 = 1 << 28;

/// Draws of one program.
pub const POSITIONS_MAX: u64 = 1 << 44;

const TAG: &[u8; 16] = b"tally random v1\0";

/// From 1970 to 2000.
const EPOCH_MS: i64 = 946_684_800_000;

/// The arguments that every draw ends with: seed, lane, position.
pub(crate) const ARGUMENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub struct Draw {
    pub seed: Seed,
    pub lane: u64,
    pub position: u64,
}

impl Draw {
    pub fn words(&self) -> [u64; 4] {
        let mut hasher = Sha256::new();
        hasher.update(TAG);
        hasher.update(self.seed);
        hasher.update(self.lane.to_be_bytes());
        hasher.update(self.position.to_be_bytes());
        let hash: [u8; 32] = hasher.finalize().into();
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(hash.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        words
    }

    fn wide(&self) -> u128 {
        let [high, low, ..] = self.words();
        u128::from(high) << 64 | u128::from(low)
    }

    /// Uniform in `0.0..1.0`, with 53 bits.
    pub fn fraction(&self) -> f64 {
        (self.words()[0] >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn uuid4(&self) -> [u8; 16] {
        stamped(self.wide(), 4)
    }

    pub fn uuid7(&self, now_us: i64) -> [u8; 16] {
        let base = Draw { seed: self.seed, lane: u64::MAX, position: u64::MAX };
        let ordinal = u128::from(self.lane) << 44 | u128::from(self.position);
        let bits = (base.wide() >> 55) + ordinal;
        let ms = now_us.div_euclid(1000).saturating_add(EPOCH_MS).max(0) as u128;
        let low = bits & ((1 << 62) - 1);
        stamped((ms & ((1 << 48) - 1)) << 80 | (bits >> 62) << 64 | low, 7)
    }

    /// A whole number from `low` to `high`, both included.
    fn between(&self, low: i128, high: i128) -> Result<i128> {
        if low > high {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "lower bound must be less than or equal to upper bound",
            ));
        }
        let distance = low.abs_diff(high);
        let step = match distance.checked_add(1) {
            Some(count) => self.wide() % count,
            None => self.wide(),
        };
        Ok(low.wrapping_add_unsigned(step))
    }
}

/// With the bits of the version and of the variant set.
fn stamped(bits: u128, version: u8) -> [u8; 16] {
    let mut uuid = bits.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Calls a function that draws.
pub(crate) fn call(function: Function, arguments: &[Cow<'_, Value>]) -> Result<Value> {
    let given = arguments.len().saturating_sub(ARGUMENTS);
    let (given, draw) = (&arguments[..given], draw_of(&arguments[given..])?);
    match (function, given) {
        (Function::Random, []) => Ok(Value::Float(draw.fraction())),
        (Function::Random, [low, high]) => between(&draw, low, high),
        (Function::GenRandomUuid, []) => Ok(Value::Uuid(draw.uuid4())),
        (Function::Uuidv7, [now]) => match &**now {
            Value::Timestamptz(now_us) => Ok(Value::Uuid(draw.uuid7(*now_us))),
            _ => Err(misplaced()),
        },
        _ => Err(misplaced()),
    }
}

fn draw_of(arguments: &[Cow<'_, Value>]) -> Result<Draw> {
    let [seed, lane, position] = arguments else { return Err(misplaced()) };
    let (Value::Uuid(seed), Value::Int(lane), Value::Int(position)) =
        (&**seed, &**lane, &**position)
    else {
        return Err(misplaced());
    };
    match (u64::try_from(*lane), u64::try_from(*position)) {
        (Ok(lane), Ok(position)) if position < POSITIONS_MAX => {
            Ok(Draw { seed: *seed, lane, position })
        }
        _ => Err(too_many()),
    }
}

fn between(draw: &Draw, low: &Value, high: &Value) -> Result<Value> {
    match (low, high) {
        (Value::Int(low), Value::Int(high)) => {
            let drawn = draw.between(i128::from(*low), i128::from(*high))?;
            Ok(Value::Int(i64::try_from(drawn).map_err(|_| misplaced())?))
        }
        (Value::Numeric(low), Value::Numeric(high)) => {
            if let Some((end, bound)) =
                [("lower", low), ("upper", high)].into_iter().find(|(_, it)| !it.is_finite())
            {
                let what = if bound.is_nan() { "NaN" } else { "infinity" };
                let message = format!("{end} bound cannot be {what}");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            let scale = low.scale().max(high.scale());
            let units = |number: &Numeric| number.units_at(scale);
            let too_wide = || {
                let what = "the bounds of random() have too many digits";
                Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what)
            };
            let bounds = units(low).zip(units(high)).ok_or_else(too_wide)?;
            let drawn = draw.between(bounds.0, bounds.1)?;
            let scale = u8::try_from(scale).map_err(|_| too_wide())?;
            Ok(Value::Numeric(Numeric::from_units(drawn, scale)))
        }
        _ => Err(misplaced()),
    }
}

pub(crate) fn too_many() -> Error {
    let what = "the transaction draws too many random values";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_hint("Split the work into several transactions.")
}

/// The compiler has not given a draw its place.
fn misplaced() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "a random value without a place in its program")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(position: u64) -> Draw {
        Draw { seed: *b"sixteen bytes ok", lane: 0, position }
    }

    #[test]
    fn draws_are_spread_over_their_range_and_differ_by_all_that_names_them() {
        let mut tenths = [0; 10];
        for position in 0..10_000 {
            let fraction = draw(position).fraction();
            assert!((0.0..1.0).contains(&fraction));
            tenths[(fraction * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (900..1100).contains(count)), "{tenths:?}");
        let one = draw(1);
        assert_eq!(one.words(), draw(1).words());
        assert_ne!(one.words(), Draw { lane: 1, ..one }.words());
        assert_ne!(one.words(), Draw { seed: [0; 16], ..one }.words());
    }

    #[test]
    fn uuids_of_version_7_ascend_by_lane_and_position_under_one_time() {
        let now_us = 849_000_000_000_001;
        let mut last = [0; 16];
        for (lane, position) in [(0, 0), (0, 1), (0, POSITIONS_MAX - 1), (1, 0), (LANES_MAX, 7)] {
            let uuid = Draw { lane, ..draw(position) }.uuid7(now_us);
            assert!(uuid > last, "{uuid:?} after {last:?}");
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (7, 2));
            let ms =
                u64::from_be_bytes([0, 0, uuid[0], uuid[1], uuid[2], uuid[3], uuid[4], uuid[5]]);
            assert_eq!(ms, 849_000_000_000 + EPOCH_MS as u64);
            last = uuid;
        }
        assert_eq!((draw(3).uuid4()[6] >> 4, draw(3).uuid4()[8] >> 6), (4, 2));
    }

    #[test]
    fn both_bounds_are_drawn_and_nothing_outside() {
        let drawn = |low, high| -> Vec<i128> {
            (0..200).map(|position| draw(position).between(low, high).unwrap()).collect()
        };
        let dice = drawn(1, 6);
        assert!((1..=6).all(|face| dice.contains(&face)));
        assert!(dice.iter().all(|face| (1..=6).contains(face)));
        assert_eq!(drawn(-3, -3), [-3; 200]);
        let wide = drawn(i128::from(i64::MIN), i128::from(i64::MAX));
        assert!(wide.iter().all(|n| i64::try_from(*n).is_ok()));
        assert!(draw(0).between(i128::MIN, i128::MAX).is_ok());
        assert!(draw(0).between(2, 1).is_err());
    }
}
