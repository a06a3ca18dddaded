//! A catalog as PostgreSQL's system tables describe it: their rows, made when first asked for and
//! kept for as long as the catalog stays what it is.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use kit::sync::lock;
use sql::Catalog;
use sql::names;
use sql::session::shared_state::activity::Shown;
use sql::session::shared_state::databases::ShownDatabase;
use sql::settings::CursorSeen;
use sql::syntax::path::SearchPath;
use types::{EnumType, TableId, Value};

use crate::memory::Memory;
use crate::oid::{self, Numbers, ViewNumbers};
use crate::relation;

pub type Row = Box<[Value]>;

/// What a session is, and what it may know of the server around it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pub user: String,
    pub database: String,
    pub backend_pid: i32,
    pub server_version: String,
    /// Whose privileges it has.
    pub role: String,
    /// What SHOW ALL shows.
    pub settings: Vec<(String, String)>,
    pub sessions: Sessions,
    pub cursors: Vec<CursorSeen>,
    pub memory: Option<Memory>,
    pub locks: Locks,
    pub members: Members,
    pub databases: Databases,
    /// Microseconds since 2000-01-01.
    pub now_us: i64,
}

/// Tells which databases the node has beside its own ledger.
#[derive(Clone)]
pub struct Databases(pub Arc<dyn Fn() -> Vec<ShownDatabase> + Send + Sync>);

impl Default for Databases {
    fn default() -> Databases {
        Databases(Arc::new(Vec::new))
    }
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Databases")
    }
}

impl Session {
    /// The number of its database.
    pub fn database_number(&self) -> u32 {
        let all = (self.databases.0)();
        let own = all.iter().find(|database| database.name == self.database);
        own.map_or_else(|| oid::own_database(&self.database), |database| database.number)
    }
}

/// Tells what is locked now, by whom.
#[derive(Clone)]
pub struct Locks(pub Arc<dyn Fn() -> Vec<Lock> + Send + Sync>);

impl Default for Locks {
    fn default() -> Locks {
        Locks(Arc::new(Vec::new))
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Locks")
    }
}

/// Tells what the node's sessions do.
#[derive(Clone)]
pub struct Sessions(pub Arc<dyn Fn() -> Vec<Shown> + Send + Sync>);

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions(Arc::new(Vec::new))
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

/// A lock of a session, or one that it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    pub pid: i32,
    pub on: Locked,
    pub exclusive: bool,
    pub granted: bool,
}

/// What is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// Some of a table's rows.
    Rows(TableId),
    /// A number.
    Advisory { class: u32, object: u32, sub: i16 },
}

/// Tells who the members of the cluster are, and how they are.
#[derive(Clone)]
pub struct Members {
    pub all: Arc<dyn Fn() -> Vec<Member> + Send + Sync>,
    pub misbehaviour: Arc<dyn Fn() -> Vec<Misbehaviour> + Send + Sync>,
}

/// What a member was convicted of by evidence in the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misbehaviour {
    /// 0: it is no founder.
    pub member: u64,
    /// The orderer's.
    pub height: u64,
    pub kind: &'static str,
    /// Microseconds since 2000-01-01.
    pub time_us: i64,
}

impl Default for Members {
    fn default() -> Members {
        Members { all: Arc::new(Vec::new), misbehaviour: Arc::new(Vec::new) }
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Members")
    }
}

/// A member of the cluster, as this one knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub number: u64,
    pub address: String,
    pub is_own: bool,
    /// As `tally cluster status` names it, or [`Member::SILENT`].
    pub role: &'static str,
    pub term: Option<u64>,
    pub height: Option<u64>,
    /// After the furthest.
    pub lag_blocks: Option<u64>,
    pub lag_us: Option<i64>,
    /// The block whose result it signed last.
    pub voted: Option<u64>,
    pub certified: Option<u64>,
    /// A block of which it has another result than most.
    pub deviating: Option<u64>,
    pub clock_ahead_us: Option<i64>,
    /// Since it told this.
    pub heard_us: Option<i64>,
    pub trouble: Option<String>,
}

impl Member {
    /// The role of one that does not answer.
    pub const SILENT: &'static str = "silent";
}

/// One version of a catalog.
#[derive(Debug)]
pub struct World {
    pub catalog: Arc<Catalog>,
    /// Where names without a schema are looked for.
    pub path: SearchPath,
    pub numbers: Numbers,
    /// By place in [`relation::all`].
    pub(crate) contents: Vec<OnceLock<Arc<Contents>>>,
    pub(crate) names: OnceLock<Names>,
    pub(crate) comments: OnceLock<Comments>,
    pub(crate) views: OnceLock<Vec<ViewColumns>>,
}

/// A user's view and its columns; none if only another engine knows its query.
#[derive(Debug)]
pub struct ViewColumns {
    pub name: String,
    pub columns: Vec<procedure::Column>,
    pub numbers: ViewNumbers,
}

/// Comments by the number of the object: that of its catalog, its own, and its column's or 0.
pub type Comments = BTreeMap<(u32, u32, i32), String>;

/// The rows of a system table.
#[derive(Debug, Default)]
pub struct Contents {
    pub rows: Vec<Row>,
    /// By column: which rows have a value. Made when a query first looks for one.
    lookups: Mutex<HashMap<usize, Arc<Lookup>>>,
}

pub type Lookup = HashMap<Value, Vec<usize>>;

/// What `regclass` and its kin print and read.
#[derive(Debug, Default)]
pub struct Names {
    pub relations: HashMap<u32, (String, String)>,
    pub routines: HashMap<u32, String>,
    pub types: HashMap<u32, String>,
}

impl Contents {
    pub fn new(rows: Vec<Row>) -> Contents {
        Contents { rows, lookups: Mutex::default() }
    }

    pub fn lookup(&self, column: usize) -> Arc<Lookup> {
        let mut lookups = lock(&self.lookups);
        let lookup = lookups.entry(column).or_insert_with(|| {
            let mut lookup = Lookup::new();
            for (place, row) in self.rows.iter().enumerate() {
                lookup.entry(row[column].clone()).or_default().push(place);
            }
            Arc::new(lookup)
        });
        Arc::clone(lookup)
    }
}

impl World {
    pub fn new(catalog: Arc<Catalog>) -> World {
        World::on_path(catalog, SearchPath::default())
    }

    pub fn on_path(catalog: Arc<Catalog>, path: SearchPath) -> World {
        let numbers = Numbers::of(&catalog);
        let contents = relation::all().iter().map(|_| OnceLock::new()).collect();
        let (names, comments, views) = Default::default();
        World { catalog, path, numbers, contents, names, comments, views }
    }

    /// A relation by name; `pg_catalog` is looked through before the search path.
    pub fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        let system = |schema| relation::place(schema, name).map(|p| relation::all()[p].oid);
        let user = |schema: &str| {
            let key = names::key(schema, name);
            let table = self.catalog.find_table(&key).map(|table| oid::table(table.id()));
            let index = || {
                let (table, index) = self.catalog.find_index(&key)?;
                Some(oid::index(table.id(), index))
            };
            let view = || self.numbers.view(&key).map(|view| view.relation);
            let sequence = || self.catalog.find_sequence(&key).map(|s| oid::table(s.id));
            table.or_else(view).or_else(sequence).or_else(index)
        };
        match schema {
            None => system("pg_catalog").or_else(|| self.schemas().find_map(user)),
            Some(schema) => system(schema).or_else(|| user(schema)),
        }
    }

    /// A user's type by name.
    pub fn find_type(&self, schema: Option<&str>, name: &str) -> Option<EnumType> {
        let find = |schema: &str| self.catalog.find_enum(&names::key(schema, name));
        let found = match schema {
            Some(schema) => find(schema),
            None => self.schemas().find_map(find),
        };
        found.map(|(_, of)| EnumType::clone(of))
    }

    /// Schemas in which names are looked for, after `pg_catalog`.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.path.schemas(&self.catalog)
    }

    /// All schemas, with their numbers.
    pub fn namespaces(&self) -> Vec<(u32, &str)> {
        let system =
            [(oid::PG_CATALOG, "pg_catalog"), (oid::INFORMATION_SCHEMA, "information_schema")];
        let users = self.catalog.namespaces().map(|name| (self.numbers.namespace(name), name));
        system.into_iter().chain(users).collect()
    }
}
