//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Two writers of one record both commit.
    NoWaw,
    /// Who read what a smaller TID writes always commits.
    NoRaw,
    /// Writes are not compared with the reads of smaller TIDs.
    NoWar,
    /// Row counts and failed inserts reserve nothing.
    NoExistenceReservations,
    /// No phantoms are looked for.
    NoRangeReservations,
    /// The block order is claimed although readers were let through before writers.
    BlockOrder,
}

impl Mutant {
    pub const NAMES: &[&str] = &[
        "no_waw",
        "no_raw",
        "no_war",
        "no_existence_reservations",
        "no_range_reservations",
        "block_order",
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_waw" => Mutant::NoWaw,
            "no_raw" => Mutant::NoRaw,
            "no_war" => Mutant::NoWar,
            "no_existence_reservations" => Mutant::NoExistenceReservations,
            "no_range_reservations" => Mutant::NoRangeReservations,
            "block_order" => Mutant::BlockOrder,
            _ => return None,
        })
    }
}
