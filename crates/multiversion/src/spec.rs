//! What can be chosen: storage, collector and index pointers of a table, and the systems of table
//! 5.1 that combinations stand for.
//!
//! A text such as `storage=delta:gc=interval:index=primary_key` names a choice; what is not said is
//! as in [`TableSpec::default`]. Combinations that make no sense are refused by name.

use types::{Error, SqlState};

/// How versions are stored (sections 5.4.1 to 5.4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    NewestFirst,
    OldestFirst,
    TimeTravel,
    Delta,
}

/// Who collects versions that nobody sees (section 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collector {
    /// Writers keep what they superseded, and free it in batches once nobody can see it.
    Transaction,
    /// A thread in the background visits what is marked dirty.
    Vacuum,
    /// Whoever walks past expired versions takes them out.
    Cooperative,
    Nobody,
    /// As `Transaction`, but also versions between two readers, however old the older one is.
    Interval,
}

/// What the entries of secondary indexes lead to (section 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pointers {
    /// The tuple's number, by which its head is found.
    TupleId,
    /// The primary key, to be looked up in its index.
    PrimaryKey,
    /// The version itself: every update adds an entry to every index.
    Physical,
}

/// One name for each value of an axis.
macro_rules! names {
    ($kind:ident { $($variant:ident = $name:literal,)* }) => {
        impl $kind {
            pub const ALL: &[$kind] = &[$($kind::$variant,)*];
            pub const NAMES: &[&str] = &[$($name,)*];

            pub fn name(self) -> &'static str {
                match self { $($kind::$variant => $name,)* }
            }

            fn by_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

names!(Storage {
    NewestFirst = "newest_first",
    OldestFirst = "oldest_first",
    TimeTravel = "time_travel",
    Delta = "delta",
});
names!(Collector {
    Transaction = "transaction",
    Vacuum = "vacuum",
    Cooperative = "cooperative",
    Nobody = "none",
    Interval = "interval",
});
names!(Pointers {
    TupleId = "tuple_id",
    PrimaryKey = "primary_key",
    Physical = "physical",
});

/// How one table is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSpec {
    pub storage: Storage,
    pub collector: Collector,
    pub pointers: Pointers,
    /// Memory spaces (section 5.4.4).
    pub spaces: usize,
    /// Versions share long strings.
    pub shared_strings: bool,
}

impl Default for TableSpec {
    fn default() -> Self {
        TableSpec {
            storage: Storage::NewestFirst,
            collector: Collector::Transaction,
            pointers: Pointers::TupleId,
            spaces: 2,
            shared_strings: true,
        }
    }
}

impl TableSpec {
    /// Reads `storage=…:gc=…:index=…:spaces=…:strings=…`, in any order.
    pub fn parse(text: &str) -> Result<TableSpec, Error> {
        let mut spec = TableSpec::default();
        for part in text.split(':').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            spec.set(name, value)?;
        }
        spec.check()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let bad = |values: &[&str]| {
            invalid(format!("invalid value \"{value}\" of \"{name}\""))
                .with_hint(format!("It is one of {}.", values.join("|")))
        };
        match name {
            "storage" => {
                self.storage = Storage::by_name(value).ok_or_else(|| bad(Storage::NAMES))?;
            }
            "gc" => {
                self.collector = Collector::by_name(value).ok_or_else(|| bad(Collector::NAMES))?;
            }
            "index" => {
                self.pointers = Pointers::by_name(value).ok_or_else(|| bad(Pointers::NAMES))?;
            }
            "strings" => match value {
                "shared" => self.shared_strings = true,
                "copied" => self.shared_strings = false,
                _ => return Err(bad(&["shared", "copied"])),
            },
            "spaces" => {
                let spaces = value.parse().ok();
                let spaces = spaces.filter(|n| (1..=crate::pool::SPACES_MAX).contains(n));
                self.spaces = spaces.ok_or_else(|| bad(&["1..32"]))?;
            }
            _ => {
                return Err(invalid(format!("a table has no option \"{name}\""))
                    .with_hint("Its options are: storage, gc, index, spaces, strings."));
            }
        }
        Ok(())
    }

    /// Refuses what cannot be combined.
    pub fn check(self) -> Result<TableSpec, Error> {
        let TableSpec { storage, collector, pointers, .. } = self;
        if collector == Collector::Cooperative && storage != Storage::OldestFirst {
            return Err(conflict(
                format!("gc=cooperative does not go with storage={}", storage.name()),
                "Only readers of storage=oldest_first walk past expired versions.",
            ));
        }
        let in_place = matches!(storage, Storage::TimeTravel | Storage::Delta);
        if pointers == Pointers::Physical && in_place {
            return Err(conflict(
                format!("index=physical does not go with storage={}", storage.name()),
                "A row that is overwritten in place has one place for all its versions: choose \
                 index=tuple_id or index=primary_key, or an append-only storage.",
            ));
        }
        Ok(self)
    }

    /// Every combination that makes sense.
    pub fn all() -> Vec<TableSpec> {
        let mut all = Vec::new();
        for &storage in Storage::ALL {
            for &collector in Collector::ALL {
                for &pointers in Pointers::ALL {
                    let spec = TableSpec { storage, collector, pointers, ..Default::default() };
                    all.extend(spec.check());
                }
            }
        }
        all
    }
}

impl std::fmt::Display for TableSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TableSpec { storage, collector, pointers, .. } = self;
        let names = (storage.name(), collector.name(), pointers.name());
        write!(f, "storage={}:gc={}:index={}", names.0, names.1, names.2)
    }
}

pub(crate) fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn conflict(message: String, hint: &str) -> Error {
    invalid(message).with_hint(hint)
}

/// A system of table 5.1, as the study emulates it.
#[derive(Clone, Copy, Debug)]
pub struct Emulated {
    pub name: &'static str,
    pub rule: &'static str,
    pub tables: TableSpec,
}

const fn emulated(
    name: &'static str,
    rule: &'static str,
    storage: Storage,
    collector: Collector,
    pointers: Pointers,
) -> Emulated {
    let tables = TableSpec { storage, collector, pointers, spaces: 2, shared_strings: true };
    Emulated { name, rule, tables }
}

/// Table 5.1. PostgreSQL's second protocol is `ssi` with the same tables; HANA's hybrid collector
/// is the background one here; the last two columns of HyPer are those of the VLDB 2017 paper.
pub const EMULATED: &[Emulated] = &[
    emulated("oracle", "mv2pl", Storage::Delta, Collector::Vacuum, Pointers::TupleId),
    emulated("postgres", "mv2pl", Storage::OldestFirst, Collector::Vacuum, Pointers::Physical),
    emulated("innodb", "mv2pl", Storage::Delta, Collector::Vacuum, Pointers::PrimaryKey),
    emulated("hyrise", "mvocc", Storage::NewestFirst, Collector::Nobody, Pointers::Physical),
    emulated("hekaton", "mvocc", Storage::OldestFirst, Collector::Cooperative, Pointers::Physical),
    emulated("memsql", "mvocc", Storage::NewestFirst, Collector::Vacuum, Pointers::Physical),
    emulated("hana", "mv2pl", Storage::TimeTravel, Collector::Vacuum, Pointers::TupleId),
    emulated("nuodb", "mv2pl", Storage::NewestFirst, Collector::Vacuum, Pointers::PrimaryKey),
    emulated("hyper", "mvocc", Storage::Delta, Collector::Transaction, Pointers::TupleId),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_by_name_and_with_a_hint() {
        let refused = |text: &str| {
            let error = TableSpec::parse(text).unwrap_err();
            assert!(error.fields().hint.is_some(), "{text}");
            error.message().to_owned()
        };
        let cooperative = refused("storage=delta:gc=cooperative");
        assert_eq!(cooperative, "gc=cooperative does not go with storage=delta");
        let physical = refused("index=physical:storage=time_travel");
        assert_eq!(physical, "index=physical does not go with storage=time_travel");
        refused("storage=columns");
        refused("spaces=0");
        refused("pages=3");
        assert!(TableSpec::parse("storage=oldest_first:gc=cooperative").is_ok());
        // Four storages, five collectors, three pointers; of 60, 9 + 8 are refused.
        assert_eq!(TableSpec::all().len(), 60 - 9 - 8);
        assert!(TableSpec::all().iter().all(|s| TableSpec::parse(&s.to_string()).unwrap() == *s));
    }

    #[test]
    fn each_emulated_system_is_a_combination_that_makes_sense() {
        assert_eq!(EMULATED.len(), 9);
        assert!(EMULATED.iter().all(|system| system.tables.check().is_ok()));
    }
}
