//! Negation, absolute value, and the infinities of `numeric`.

use super::number::{Magnitude, Numeric};

pub fn neg(d: &Numeric) -> Numeric {
    with_sign(d, !d.is_negative())
}

pub fn abs(d: &Numeric) -> Numeric {
    with_sign(d, false)
}

fn with_sign(d: &Numeric, negative: bool) -> Numeric {
    match d.magnitude() {
        _ if !d.is_finite() => special_with_sign(d, negative),
        Magnitude::Small(size) => Numeric::of_u128(negative, size, d.scale()),
        Magnitude::Large(_) if d.is_negative() == negative => d.clone(),
        Magnitude::Large(size) => Numeric::large(negative, size.clone(), d.scale()),
    }
}

pub(super) fn infinity(negative: bool) -> Numeric {
    if negative { Numeric::NEG_INFINITY } else { Numeric::INFINITY }
}

fn special_with_sign(d: &Numeric, negative: bool) -> Numeric {
    if d.is_nan() { Numeric::NAN } else { infinity(negative) }
}

/// Of a whole number.
pub(super) fn is_odd(whole: &Numeric) -> bool {
    let whole = whole.normalize();
    whole.scale() == 0 && whole.magnitude().to_big().bit(0)
}
