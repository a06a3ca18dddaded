//! What can be chosen: storage, collector and index pointers of each table, and the systems of
//! table 5.1 that combinations stand for.
//!
//! A text such as `storage=delta:gc=interval:history.gc=none` names a choice: for all tables, and
//! with a table's name before the option for that one. `system=hekaton` is what the study takes for
//! one of the systems. What is not said is as in [`TableSpec::default`]. Combinations that make no
//! sense are refused by name.
//!
//! *The default* is time travel, collected by intervals, with logical pointers. *Measured*, `mvto`,
//! YCSB of a million rows, two threads, thousand transactions a CPU-second at theta 0 and 0.99:
//!
//! ```text
//! time travel   by intervals 162, 175   by transaction 159, 166   in the background 97, 97
//! delta         by intervals 151, 147   by transaction 140, 154
//! newest first                          by transaction 106, 130
//! ```
//!
//! and it is the one collector that a reader of hours does not stop. Everything else is here to be
//! compared with it.

use std::collections::BTreeMap;

use types::{Error, SqlState};

/// How versions are stored (sections 5.4.1 to 5.4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    NewestFirst,
    OldestFirst,
    TimeTravel,
    Delta,
}

/// What collects versions that no reader sees (section 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collector {
    /// Writers keep what they superseded, and free it in batches once no reader can see it.
    Transaction,
    /// A thread in the background visits what is marked dirty.
    Vacuum,
    /// A walk past expired versions takes them out.
    Cooperative,
    None,
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

// The defaults come first.
names!(Storage {
    TimeTravel = "time_travel",
    Delta = "delta",
    NewestFirst = "newest_first",
    OldestFirst = "oldest_first",
});
names!(Collector {
    Interval = "interval",
    Transaction = "transaction",
    Vacuum = "vacuum",
    Cooperative = "cooperative",
    None = "none",
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

pub const SPACES_DEFAULT: u64 = 2;

impl Default for TableSpec {
    fn default() -> Self {
        TableSpec {
            storage: Storage::TimeTravel,
            collector: Collector::Interval,
            pointers: Pointers::TupleId,
            spaces: SPACES_DEFAULT as usize,
            shared_strings: true,
        }
    }
}

impl TableSpec {
    /// Reads `storage=…:gc=…:index=…:spaces=…:strings=…`, in any order.
    pub fn parse(text: &str) -> Result<TableSpec, Error> {
        let mut spec = TableSpec::default();
        parts(text).try_for_each(|(name, value)| spec.set(name, value))?;
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
                return Err(invalid(format!("a table has no option \"{name}\"")).with_hint(
                    "Its options are: storage, gc, index, spaces, strings; for all tables \
                         also: system.",
                ));
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

fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(':').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// How all tables are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    usual: TableSpec,
    /// By name, those that are kept otherwise.
    others: BTreeMap<String, TableSpec>,
}

impl Choice {
    /// What follows the name of a rule: `gc=interval:history.gc=none`, `system=hekaton`.
    pub fn parse(rule: &str, text: &str) -> Result<Choice, Error> {
        let mut usual = TableSpec::default();
        for (name, value) in parts(text).filter(|(name, _)| !name.contains('.')) {
            match name {
                "system" if value == SYSTEMS[0] => {}
                "system" => usual = Emulated::by_name(rule, value)?.tables,
                name => usual.set(name, value)?,
            }
        }
        let mut others = BTreeMap::new();
        for (name, value) in parts(text) {
            if let Some((table, option)) = name.rsplit_once('.') {
                others.entry(table.to_owned()).or_insert(usual).set(option, value)?;
            }
        }
        for (table, spec) in &others {
            spec.check().map_err(|error| {
                let message = format!("table \"{table}\": {}", error.message());
                let hint = error.fields().hint.clone().unwrap_or_default();
                invalid(message).with_hint(hint)
            })?;
        }
        Ok(Choice { usual: usual.check()?, others })
    }

    pub fn of(&self, table: &str) -> TableSpec {
        self.others.get(table).copied().unwrap_or(self.usual)
    }
}

/// A system of table 5.1, as the study emulates it.
#[derive(Clone, Copy, Debug)]
pub struct Emulated {
    pub name: &'static str,
    pub rule: &'static str,
    pub tables: TableSpec,
}

impl Emulated {
    /// Those with another rule are not what the study took for the system.
    fn by_name(rule: &str, name: &str) -> Result<&'static Emulated, Error> {
        let system = EMULATED.iter().find(|system| system.name == name).ok_or_else(|| {
            invalid(format!("invalid value \"{name}\" of \"system\""))
                .with_hint(format!("It is one of {}.", SYSTEMS.join("|")))
        })?;
        if system.rule != rule && (name, rule) != ("postgres", "ssi") {
            let hint = format!("Name {}:system={name}.", system.rule);
            return Err(conflict(format!("system={name} does not go with {rule}"), &hint));
        }
        Ok(system)
    }
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
    emulated("hyrise", "mvocc", Storage::NewestFirst, Collector::None, Pointers::Physical),
    emulated("hekaton", "mvocc", Storage::OldestFirst, Collector::Cooperative, Pointers::Physical),
    emulated("memsql", "mvocc", Storage::NewestFirst, Collector::Vacuum, Pointers::Physical),
    emulated("hana", "mv2pl", Storage::TimeTravel, Collector::Vacuum, Pointers::TupleId),
    emulated("nuodb", "mv2pl", Storage::NewestFirst, Collector::Vacuum, Pointers::PrimaryKey),
    emulated("hyper", "mvocc", Storage::Delta, Collector::Transaction, Pointers::TupleId),
];

/// No system, and those of [`EMULATED`].
pub const SYSTEMS: &[&str] = &[
    "none", "oracle", "postgres", "innodb", "hyrise", "hekaton", "memsql", "hana", "nuodb", "hyper",
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
        let names: Vec<&str> = EMULATED.iter().map(|system| system.name).collect();
        assert_eq!((names.len(), &*names), (9, &SYSTEMS[1..]));
        for Emulated { name, rule, tables } in EMULATED {
            let chosen = Choice::parse(rule, &format!("system={name}")).unwrap();
            assert_eq!(chosen.of("any"), tables.check().unwrap());
        }
        assert!(Choice::parse("ssi", "system=postgres").is_ok());
        let error = Choice::parse("mvto", "system=oracle").unwrap_err();
        assert_eq!(error.message(), "system=oracle does not go with mvto");
        assert_eq!(error.fields().hint.as_deref(), Some("Name mv2pl:system=oracle."));
    }

    #[test]
    fn a_table_may_be_kept_otherwise_than_the_others() {
        let choice = Choice::parse("mvto", "history.gc=none:storage=delta:gc=vacuum").unwrap();
        let (usual, history) = (choice.of("accounts"), choice.of("history"));
        assert_eq!((usual.storage, usual.collector), (Storage::Delta, Collector::Vacuum));
        assert_eq!(history, TableSpec { collector: Collector::None, ..usual });
        let error = Choice::parse("mvto", "storage=delta:t.index=physical").unwrap_err();
        let message = "table \"t\": index=physical does not go with storage=delta";
        assert_eq!(error.message(), message);
        assert!(error.fields().hint.is_some());
    }
}
