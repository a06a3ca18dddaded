//! A language without text: calls of the few [programs](crate::operation), and four schema changes.
//!
//! A schema is its tables, dropped indexes included, with the number of changes that led to it. It
//! travels in the store's catalog, so that a snapshot's readers compile against its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use concurrency::{Statement, Work};
use engine::{AskedChange, Language, ObjectChange, SchemaChange, Transaction};
use kit::sync::lock;
use procedure::build::Tables;
use procedure::step::Procedure;
use storage::{Snapshot, Store};
use types::codec::{decode_str, decode_u64, encode_str, encode_u64};
use types::{
    ColumnSchema, DataType, Error, Height, IndexSchema, Result, SqlState, TableId, TableSchema,
};

use crate::operation::{Call, INDEX, KINDS, TABLES, build};

/// A schema, and its programs by table and kind.
#[derive(Default)]
pub struct Schema {
    version: u64,
    next_table: u32,
    tables: BTreeMap<String, Arc<TableSchema>>,
    programs: BTreeMap<(&'static str, crate::operation::Kind), Arc<Procedure>>,
}

impl Schema {
    fn with_programs(mut self) -> Schema {
        let tables: Tables = self.tables.values().map(|table| visible(table)).collect();
        self.programs.clear();
        for (table, kind) in TABLES.iter().flat_map(|t| KINDS.iter().map(move |k| (*t, *k))) {
            if let Ok(program) = build(&tables, table, kind) {
                self.programs.insert((table, kind), Arc::new(program));
            }
        }
        self
    }

    /// The program of a call under this schema.
    pub fn program(&self, call: &Call) -> Result<Arc<Procedure>> {
        let missing = || {
            let what = format!("there is no {:?} over {}", call.kind, call.table);
            Error::new(SqlState::UNDEFINED_OBJECT, what)
        };
        self.programs.get(&(call.table, call.kind)).cloned().ok_or_else(missing)
    }

    /// The one that a snapshot is read under.
    pub fn of(snapshot: &Snapshot) -> Arc<Schema> {
        let annotation = snapshot.catalog().annotation().cloned();
        annotation.and_then(|annotation| annotation.downcast().ok()).unwrap_or_default()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_u64(self.version, &mut out);
        encode_u64(u64::from(self.next_table), &mut out);
        for table in self.tables.values() {
            encode_str(&table.name, &mut out);
            encode_u64(u64::from(table.id.0), &mut out);
            encode_u64(table.indexes.len() as u64, &mut out);
            encode_u64(u64::from(is_indexed(table)), &mut out);
        }
        out
    }

    fn decode(mut input: &[u8]) -> Result<Schema> {
        let input = &mut input;
        let (version, next_table) = (decode_u64(input)?, decode_u64(input)? as u32);
        let mut tables = BTreeMap::new();
        while !input.is_empty() {
            let name = decode_str(input)?.to_owned();
            let id = TableId(decode_u64(input)? as u32);
            let indexes = decode_u64(input)?;
            let indexed = decode_u64(input)? == 1;
            let mut table = table(&name, id);
            table.indexes = (1..=indexes).map(|n| index(n < indexes || !indexed)).collect();
            tables.insert(name, Arc::new(table));
        }
        Ok(Schema { version, next_table, tables, ..Schema::default() }.with_programs())
    }
}

fn table(name: &str, id: TableId) -> TableSchema {
    TableSchema {
        id,
        name: name.to_owned(),
        columns: ["id", "v"].map(|name| ColumnSchema::new(name, DataType::Int8)).into(),
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    }
}

fn index(dropped: bool) -> IndexSchema {
    IndexSchema { name: INDEX.to_owned(), columns: vec![1], unique: false, dropped }
}

fn is_indexed(table: &TableSchema) -> bool {
    table.indexes.last().is_some_and(|index| !index.dropped)
}

/// Dropped indexes keep their place and lose their name.
fn visible(table: &Arc<TableSchema>) -> Arc<TableSchema> {
    let mut table = TableSchema::clone(table);
    table.indexes.iter_mut().filter(|index| index.dropped).for_each(|index| index.name.clear());
    Arc::new(table)
}

/// What the next block compiles against.
#[derive(Default)]
pub struct Calls {
    next: Mutex<Arc<Schema>>,
}

impl Calls {
    fn next(&self) -> Arc<Schema> {
        Arc::clone(&lock(&self.next))
    }

    fn install(&self, schema: Schema, store: &Store) {
        let schema = Arc::new(schema);
        store.annotate(schema.clone());
        *lock(&self.next) = schema;
    }
}

fn refused(code: SqlState, text: &str) -> Error {
    Error::new(code, format!("\"{text}\" cannot be done"))
}

impl Language for Calls {
    fn compile(&self, transaction: Transaction) -> Result<Work> {
        let unknown = || Error::new(SqlState::UNDEFINED_FUNCTION, "no such program");
        let call = Call::of(&transaction.body).ok_or_else(unknown)?;
        let procedure = self.next().program(&call)?;
        let arguments = [types::Value::Int(call.x), types::Value::Int(call.y)].into();
        Ok(Work::Statement(Statement { procedure, arguments }))
    }

    fn schema_version(&self) -> u64 {
        self.next().version
    }

    fn apply(
        &self,
        AskedChange { text, .. }: AskedChange<'_>,
        store: &Arc<Store>,
        _: Height,
        _: i64,
    ) -> Result<SchemaChange> {
        let current = self.next();
        let (what, name) =
            text.rsplit_once(' ').ok_or_else(|| refused(SqlState::SYNTAX_ERROR, text))?;
        let known = TABLES.contains(&name);
        let mut tables = current.tables.clone();
        let mut next_table = current.next_table.max(1);
        match (what, tables.get(name).cloned()) {
            _ if !known => return Err(refused(SqlState::SYNTAX_ERROR, text)),
            ("create table", None) => {
                let schema = Arc::new(table(name, TableId(next_table)));
                next_table += 1;
                store.create_table(Arc::clone(&schema));
                tables.insert(name.to_owned(), schema);
            }
            ("create table", Some(_)) => return Err(refused(SqlState::DUPLICATE_TABLE, text)),
            (_, None) => return Err(refused(SqlState::UNDEFINED_TABLE, text)),
            ("drop table", Some(table)) => {
                store.drop_table(table.id);
                tables.remove(name);
            }
            ("create index", Some(table)) if !is_indexed(&table) => {
                let mut table = TableSchema::clone(&table);
                table.indexes.push(index(false));
                alter(table, store, &mut tables)?;
            }
            ("drop index", Some(table)) if is_indexed(&table) => {
                let mut table = TableSchema::clone(&table);
                table.indexes.iter_mut().for_each(|index| index.dropped = true);
                alter(table, store, &mut tables)?;
            }
            _ => return Err(refused(SqlState::DUPLICATE_TABLE, text)),
        }
        let version = current.version + 1;
        let schema = Schema { version, next_table, tables, ..Schema::default() };
        self.install(schema.with_programs(), store);
        let name = format!("schema {version}");
        let object = ObjectChange { name, before: None, after: Some(text.to_owned()) };
        Ok(SchemaChange { tag: what.to_uppercase(), objects: vec![object] })
    }

    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        Ok(Schema::of(snapshot).encode())
    }

    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()> {
        let schema = Schema::decode(schema_image)?;
        for table in schema.tables.values() {
            store.create_table(Arc::clone(table));
        }
        self.install(schema, store);
        Ok(())
    }
}

fn alter(
    table: TableSchema,
    store: &Store,
    tables: &mut BTreeMap<String, Arc<TableSchema>>,
) -> Result<()> {
    let table = Arc::new(table);
    store.alter_table(Arc::clone(&table))?;
    tables.insert(table.name.clone(), table);
    Ok(())
}
