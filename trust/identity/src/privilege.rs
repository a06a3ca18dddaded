//! Privileges: what can be done with an object, as sets of bits.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of privileges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Privileges(u16);

/// What a privilege is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Views as well.
    Table,
    Column,
    Sequence,
    Routine,
    Schema,
    Database,
}

impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const INSERT: Privileges = Privileges(1);
    pub const SELECT: Privileges = Privileges(1 << 1);
    pub const UPDATE: Privileges = Privileges(1 << 2);
    pub const DELETE: Privileges = Privileges(1 << 3);
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    pub const EXECUTE: Privileges = Privileges(1 << 7);
    pub const USAGE: Privileges = Privileges(1 << 8);
    pub const CREATE: Privileges = Privileges(1 << 9);
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    pub const CONNECT: Privileges = Privileges(1 << 11);

    pub const fn with(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }

    /// Each by itself, in the order in which PostgreSQL writes them.
    pub fn each(self) -> impl Iterator<Item = Privileges> {
        ORDER.iter().map(|(one, ..)| *one).filter(move |one| self.contains(*one))
    }

    /// The one letter of a single privilege in an ACL's text.
    pub fn letter(self) -> char {
        ORDER.iter().find(|(one, ..)| *one == self).map_or('?', |(_, letter, _)| *letter)
    }

    /// The name of a single privilege.
    pub fn name(self) -> &'static str {
        ORDER.iter().find(|(one, ..)| *one == self).map_or("", |(.., name)| *name)
    }

    /// A single privilege by its name, in whatever case.
    pub fn named(name: &str) -> Option<Privileges> {
        let is_it = |known: &&(Privileges, char, &str)| known.2.eq_ignore_ascii_case(name);
        match ORDER.iter().find(is_it) {
            Some((one, ..)) => Some(*one),
            None => name.eq_ignore_ascii_case("temp").then_some(Privileges::TEMPORARY),
        }
    }
}

const ORDER: &[(Privileges, char, &str)] = &[
    (Privileges::INSERT, 'a', "INSERT"),
    (Privileges::SELECT, 'r', "SELECT"),
    (Privileges::UPDATE, 'w', "UPDATE"),
    (Privileges::DELETE, 'd', "DELETE"),
    (Privileges::TRUNCATE, 'D', "TRUNCATE"),
    (Privileges::REFERENCES, 'x', "REFERENCES"),
    (Privileges::TRIGGER, 't', "TRIGGER"),
    (Privileges::EXECUTE, 'X', "EXECUTE"),
    (Privileges::USAGE, 'U', "USAGE"),
    (Privileges::CREATE, 'C', "CREATE"),
    (Privileges::TEMPORARY, 'T', "TEMPORARY"),
    (Privileges::CONNECT, 'c', "CONNECT"),
];

/// All privileges that there are for objects of a kind.
pub const ALL_OF: &[(Kind, Privileges)] = &[
    (
        Kind::Table,
        Privileges::INSERT
            .with(Privileges::SELECT)
            .with(Privileges::UPDATE)
            .with(Privileges::DELETE)
            .with(Privileges::TRUNCATE)
            .with(Privileges::REFERENCES)
            .with(Privileges::TRIGGER),
    ),
    (
        Kind::Column,
        Privileges::INSERT
            .with(Privileges::SELECT)
            .with(Privileges::UPDATE)
            .with(Privileges::REFERENCES),
    ),
    (Kind::Sequence, Privileges::SELECT.with(Privileges::UPDATE).with(Privileges::USAGE)),
    (Kind::Routine, Privileges::EXECUTE),
    (Kind::Schema, Privileges::USAGE.with(Privileges::CREATE)),
    (Kind::Database, Privileges::CREATE.with(Privileges::TEMPORARY).with(Privileges::CONNECT)),
];

impl Kind {
    /// All privileges that there are for it.
    pub fn all(self) -> Privileges {
        ALL_OF.iter().find(|(kind, _)| *kind == self).map_or(Privileges::NONE, |(_, all)| *all)
    }

    /// What PUBLIC may do with a new object.
    pub fn of_public(self) -> Privileges {
        match self {
            Kind::Routine => Privileges::EXECUTE,
            Kind::Database => Privileges::TEMPORARY.with(Privileges::CONNECT),
            Kind::Table | Kind::Column | Kind::Sequence | Kind::Schema => Privileges::NONE,
        }
    }

    /// How errors call an object of it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Column => "column",
            Kind::Sequence => "sequence",
            Kind::Routine => "function",
            Kind::Schema => "schema",
            Kind::Database => "database",
        }
    }
}

impl BitOr for Privileges {
    type Output = Privileges;

    fn bitor(self, other: Privileges) -> Privileges {
        self.with(other)
    }
}

impl BitOrAssign for Privileges {
    fn bitor_assign(&mut self, other: Privileges) {
        self.0 |= other.0;
    }
}

impl BitAnd for Privileges {
    type Output = Privileges;

    fn bitand(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }
}

impl Not for Privileges {
    type Output = Privileges;

    fn not(self) -> Privileges {
        Privileges(!self.0)
    }
}

impl fmt::Debug for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.each().try_for_each(|one| write!(f, "{}", one.letter()))
    }
}
