//! Built-in scalar functions: deterministic ones only.

/// A built-in scalar function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    Abs,
    Lower,
    Upper,
    Length,
}
