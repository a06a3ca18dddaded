//! What the crate promises to the others, checked against models: orders against orders of values,
//! encodings against their inverses, arithmetic against wider or simpler arithmetic, and texts
//! against what PostgreSQL 15 printed.

mod arithmetic;
mod casts;
mod encodings;
mod json;
mod keys;
mod pinned;
mod postgres;
mod strategies;
mod texts;
