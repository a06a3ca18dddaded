//! Numbers of objects.
//!
//! PostgreSQL counts; here a number follows from what the ledger's schema already numbers, so every
//! replica has the same ones, and a client may keep them.
//!
//! ```text
//!  31  30    28 27               11 10          0
//! ┌───┬────────┬───────────────────┬─────────────┐
//! │ 0 │ kind   │ table             │ ordinal     │  index, column default, row type, enum label
//! ├───┼────────┼───────────────────┴─────────────┤
//! │ 0 │ kind   │ hash of (table, name)           │  constraint, routine, view, schema: by name
//! ├───┼────────┼─────────────────────────────────┤
//! │ 0 │ 0      │ 16384 + table                   │  table, enum type: PostgreSQL's users' range
//! └───┴────────┴─────────────────────────────────┘
//! ```
//!
//! Bit 31 stays clear because some clients keep numbers in a signed word. Two names with one hash
//! get neighbouring numbers, in the order of their tables and names.

use std::collections::BTreeMap;

use sql::Catalog;
use types::{IndexId, TableId};

/// The first number that is not PostgreSQL's own.
pub const FIRST_USER: u32 = 16384;
pub const PG_CATALOG: u32 = 11;
pub const INFORMATION_SCHEMA: u32 = 13000;
pub const PUBLIC: u32 = 2200;
/// Who owns everything.
pub const OWNER: u32 = 10;
/// The node's own ledger, under its first name, and under each other.
pub const DATABASE: u32 = 5;
const TEMPLATE1: u32 = 1;
const POSTGRES: u32 = 6;
/// Where clients were told none, and took the user's.
const OF_USER: u32 = 7;
pub const HEAP: u32 = 2;
pub const BTREE: u32 = 403;

const INDEX: u32 = 1 << 28;
const DEFAULT: u32 = 2 << 28;
const ROW_TYPE: u32 = 3 << 28;
const CONSTRAINT: u32 = 4 << 28;
const ROUTINE: u32 = 5 << 28;
const LABEL: u32 = 6 << 28;
const VIEW: u32 = 7 << 28;
const HASH: u32 = (1 << 28) - 1;
const ORDINAL_BITS: u32 = 11;

/// The number of a name that the node's own ledger has.
pub fn own_database(name: &str) -> u32 {
    match name {
        "tally" => DATABASE,
        "template1" => TEMPLATE1,
        "postgres" => POSTGRES,
        _ => OF_USER,
    }
}

/// The numbers of what is known by name.
#[derive(Debug, Default)]
pub struct Numbers {
    constraints: BTreeMap<(TableId, String), u32>,
    routines: BTreeMap<String, u32>,
    views: BTreeMap<String, ViewNumbers>,
    namespaces: BTreeMap<String, u32>,
}

/// What belongs to a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewNumbers {
    pub relation: u32,
    pub row_type: u32,
    pub array_of_row_type: u32,
    pub rule: u32,
}

impl Numbers {
    pub fn of(catalog: &Catalog) -> Numbers {
        let mut numbers = Numbers::default();
        let mut taken = std::collections::BTreeSet::new();
        let mut free = |kind: u32, start: u32| {
            let mut hash = start & HASH;
            while !taken.insert(kind | hash) {
                hash = (hash + 1) & HASH;
            }
            kind | hash
        };
        for table in catalog.tables() {
            let mut names: Vec<&str> = constraint_names(table).collect();
            names.sort_unstable();
            for name in names {
                let oid = free(CONSTRAINT, fnv(&table.id().0.to_be_bytes(), name));
                numbers.constraints.insert((table.id(), name.to_owned()), oid);
            }
        }
        for domain in catalog.domains() {
            for check in &domain.checks {
                let oid = free(CONSTRAINT, fnv(&domain.id.0.to_be_bytes(), &check.name));
                numbers.constraints.insert((domain.id, check.name.clone()), oid);
            }
        }
        for (name, _) in catalog.routines() {
            numbers.routines.insert(name.to_owned(), free(ROUTINE, fnv(&[], name)));
        }
        for view in catalog.views() {
            let mut part = |part: u8| free(VIEW, fnv(&[part], &view.name));
            let of_view = ViewNumbers {
                relation: part(0),
                row_type: part(1),
                array_of_row_type: part(2),
                rule: part(3),
            };
            numbers.views.insert(view.name.clone(), of_view);
        }
        for name in catalog.namespaces() {
            let number = match name {
                sql::names::PUBLIC => PUBLIC,
                name => free(VIEW, fnv(b"schema", name)),
            };
            numbers.namespaces.insert(name.to_owned(), number);
        }
        numbers
    }

    pub fn namespace(&self, name: &str) -> u32 {
        self.namespaces.get(name).copied().unwrap_or(PUBLIC)
    }

    pub fn constraint(&self, table: TableId, name: &str) -> u32 {
        self.constraints.get(&(table, name.to_owned())).copied().unwrap_or(0)
    }

    pub fn view(&self, name: &str) -> Option<ViewNumbers> {
        self.views.get(name).copied()
    }

    pub fn routine(&self, name: &str) -> u32 {
        self.routines.get(name).copied().unwrap_or(0)
    }
}

fn constraint_names(table: &sql::Table) -> impl Iterator<Item = &str> {
    let checks = table.checks.iter().map(|check| check.name.as_str());
    let foreign = table.foreign_keys.iter().map(|key| key.name.as_str());
    let keys = table.unique_constraints().map(|(_, index)| index.name.as_str());
    checks.chain(foreign).chain(keys).chain([table.primary_key_name.as_str()])
}

fn fnv(prefix: &[u8], name: &str) -> u32 {
    let bytes = prefix.iter().chain(name.as_bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

pub fn table(id: TableId) -> u32 {
    FIRST_USER.wrapping_add(id.0)
}

/// Of the numbers that tables have here, those of a session's own are the upper half.
fn part(kind: u32, table: TableId, ordinal: u16) -> u32 {
    const HALF: u32 = 1 << 16;
    let table = match table.is_temporary() {
        true => HALF | (table.0 & (HALF - 1)),
        false => table.0,
    };
    kind | ((table << ORDINAL_BITS | u32::from(ordinal)) & HASH)
}

/// 0 is the primary key's.
pub fn index(table: TableId, id: IndexId) -> u32 {
    part(INDEX, table, id)
}

pub fn default(table: TableId, column: u16) -> u32 {
    part(DEFAULT, table, column)
}

/// Of a label of an enum type, by when it was added.
pub fn label(of: TableId, number: u16) -> u32 {
    part(LABEL, of, number)
}

pub fn row_type(table: TableId) -> u32 {
    part(ROW_TYPE, table, 0)
}

pub fn array_of_row_type(table: TableId) -> u32 {
    part(ROW_TYPE, table, 1)
}

/// Of a materialized view.
pub fn rule(table: TableId) -> u32 {
    part(ROW_TYPE, table, 2)
}
