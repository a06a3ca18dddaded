//! `numeric`: exact decimal arithmetic of PostgreSQL's size, 131,072 digits before the point and
//! 16,383 behind it.
//!
//! A number is `magnitude / 10^scale` and a sign; the scale is what PostgreSQL calls the display
//! scale, and results have PostgreSQL's: the larger one for `+`, `-`, `%`, the sum for `*`, and for
//! `/` enough for 16 significant digits (`select_div_scale`). Rounding is half away from zero.
//!
//! What is exact stays exact: only quotients, roots, powers, logarithms and averages round, which
//! have no last digit, and what asks for it (`round`, a column's scale). A number that is too
//! large, and a product with more digits after the point than there can be, is refused with 22003.
//! PostgreSQL rounds the latter. `NaN` and the infinities are in [`special`].
//!
//! Cost: magnitudes below 2^96, which is 28 digits and nearly all, are inline, and nothing
//! allocates where a result is one of them. Longer ones are shared integers of `num-bigint`, and
//! [`work`] says what an operator on them costs before it is done.

mod arithmetic;
mod binary;
mod errors;
mod logarithms;
mod number;
mod powers;
mod rounding;
mod sign;
mod special;
mod text;
pub mod work;

pub use arithmetic::{add, div, mul, rem, sub};
pub(crate) use binary::from_sevens;
pub use binary::{from_bytes, put_bytes};
pub use errors::undefined;
pub use logarithms::{exp, ln, log, power_of};
pub(crate) use number::POW10;
pub use number::{Numeric, SCALE_MAX, WHOLE_DIGITS_MAX};
pub use powers::{power, sqrt, sqrt_at};
pub use rounding::{apply_precision, ceil, floor, quotient, round, to_i64, trunc};
pub use sign::{abs, neg};
pub use special::parse_word;
pub(crate) use text::from_digits;
pub use text::{from_f32, from_f64, parse, to_f64, write};
