//! PL/pgSQL bodies.

mod parse;
mod syntax;
mod tokens;
