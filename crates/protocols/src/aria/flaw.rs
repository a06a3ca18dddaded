//! Bugs on purpose: a test that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
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

impl Flaw {
    pub const NAMES: &[&str] = &[
        "no_waw",
        "no_raw",
        "no_war",
        "no_existence_reservations",
        "no_range_reservations",
        "block_order",
    ];

    pub fn by_name(name: &str) -> Option<Flaw> {
        Some(match name {
            "no_waw" => Flaw::NoWaw,
            "no_raw" => Flaw::NoRaw,
            "no_war" => Flaw::NoWar,
            "no_existence_reservations" => Flaw::NoExistenceReservations,
            "no_range_reservations" => Flaw::NoRangeReservations,
            "block_order" => Flaw::BlockOrder,
            _ => return None,
        })
    }
}
