//! Tables, views and indexes, and their columns.

use sql::catalog::DeclaredIndex;
use sql::schema::sequence::Identity;
use sql::{Commented, GrantedColumn, Table};
use types::{ColumnId, DataType, IndexId, Layout, TableId, Value};

use super::facts::{Facts, Rows, granted, ints, oid, owner, shown};
use super::{collations, sequences};
use crate::describe;
use crate::oid as number;
use crate::relation::{self, Relation};
use crate::world::{Names, ViewColumns, World};

/// An index of a table, the primary key's being 0.
pub struct Index<'a> {
    pub id: IndexId,
    pub name: &'a str,
    pub columns: &'a [ColumnId],
    pub unique: bool,
    /// A primary key or a UNIQUE constraint rests on it.
    pub is_constraint: bool,
    /// Where it is over more than columns.
    pub declared: Option<&'a DeclaredIndex>,
}

impl Index<'_> {
    /// As attributes number them; 0 for an expression.
    fn key(&self) -> Vec<i64> {
        match self.declared {
            None => self.columns.iter().map(|column| attribute_number(*column)).collect(),
            Some(declared) => {
                let parts = declared.parts.iter();
                parts.map(|part| part.column.map_or(0, attribute_number)).collect()
            }
        }
    }

    /// The collation of a part.
    pub fn collation(&self, table: &Table, at: usize) -> u32 {
        let declared = self.declared.and_then(|declared| declared.parts.get(at));
        match (declared.and_then(|part| part.collation.as_ref()), self.columns.get(at)) {
            (Some(collation), _) => collation.oid,
            (None, Some(column)) => collations::of_column(table, *column),
            (None, None) => 0,
        }
    }

    /// Its expressions, and its condition.
    fn texts(&self) -> [Value; 2] {
        let Some(declared) = self.declared else { return [Value::Null, Value::Null] };
        let expressions = declared.parts.iter().filter(|part| part.column.is_none());
        let expressions: Vec<&str> = expressions.map(|part| part.text.as_str()).collect();
        [
            match expressions.is_empty() {
                true => Value::Null,
                false => Value::text(expressions.join(", ")),
            },
            declared.predicate.as_deref().map_or(Value::Null, Value::text),
        ]
    }
}

pub fn indexes(table: &Table) -> impl Iterator<Item = Index<'_>> {
    let primary = (!table.schema.hidden_row_id).then(|| Index {
        id: 0,
        name: &table.primary_key_name,
        columns: &table.schema.primary_key,
        unique: true,
        is_constraint: true,
        declared: None,
    });
    let secondary = (1..).zip(&table.schema.indexes).filter(|(_, index)| !index.dropped);
    primary.into_iter().chain(secondary.map(|(id, index)| Index {
        id,
        is_constraint: index.unique && !table.bare_unique.contains(&id),
        name: &index.name,
        columns: &index.columns,
        unique: index.unique,
        declared: table.declared.get(&id).map(|declared| &**declared),
    }))
}

pub fn names(world: &World, names: &mut Names) {
    for table in world.catalog.tables() {
        let id = table.id();
        let schema = table.namespace().to_owned();
        for index in indexes(table) {
            let name = (schema.clone(), index.name.to_owned());
            names.relations.insert(number::index(id, index.id), name);
        }
        names.relations.insert(number::table(id), (schema, table.name().to_owned()));
    }
    for sequence in world.catalog.sequences() {
        names.relations.insert(number::table(sequence.id), parts(&sequence.name));
    }
    for view in world.catalog.views() {
        if let Some(numbers) = world.numbers.view(&view.name) {
            names.relations.insert(numbers.relation, parts(&view.name));
        }
    }
}

fn parts(key: &str) -> (String, String) {
    let (schema, name) = sql::names::split(key);
    (schema.to_owned(), name.to_owned())
}

fn schema_oid(name: &str) -> u32 {
    match name {
        "pg_catalog" => number::PG_CATALOG,
        _ => number::INFORMATION_SCHEMA,
    }
}

pub fn pg_class(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for relation in relation::all() {
        system_class(relation, rows);
    }
    for table in facts.world.catalog.tables() {
        let schema = facts.world.numbers.namespace(table.namespace());
        table_class(facts.world, table, schema, rows);
        let of_table = (facts.world, &**table, schema);
        indexes(table).for_each(|index| index_class(of_table, &index, rows));
    }
    let world = facts.world;
    world.views().iter().for_each(|view| view_class(world, view, rows));
    world.catalog.sequences().for_each(|sequence| sequences::class(world, sequence, rows));
}

fn view_class(world: &World, view: &ViewColumns, rows: &mut Rows<'_>) {
    let (schema, name) = sql::names::split(&view.name);
    let object = Commented::View(view.name.clone());
    let is_own = world.catalog.temporary_schema() == Some(schema);
    rows.row(&[
        ("oid", oid(view.numbers.relation)),
        ("relname", Value::text(name)),
        ("relnamespace", oid(world.numbers.namespace(schema))),
        ("reltype", oid(view.numbers.row_type)),
        ("relowner", owner(world, &object)),
        ("relacl", granted(world, &object)),
        ("reltuples", Value::Float(-1.0)),
        ("relpersistence", Value::text(if is_own { "t" } else { "p" })),
        ("relkind", Value::text("v")),
        ("relnatts", Value::Int(view.columns.len() as i64)),
        ("relhasrules", Value::Bool(true)),
        ("relispopulated", Value::Bool(true)),
        ("relreplident", Value::text("n")),
    ]);
}

/// A view is a rule: to read it is to run its query.
pub fn pg_rewrite(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let views = facts.world.views().iter().map(|view| (view.numbers.rule, view.numbers.relation));
    let kept = facts.world.catalog.tables().filter(|table| table.materialized.is_some());
    let kept = kept.map(|table| (number::rule(table.id()), number::table(table.id())));
    for (rule, relation) in views.chain(kept) {
        rows.row(&[
            ("oid", oid(rule)),
            ("rulename", Value::text("_RETURN")),
            ("ev_class", oid(relation)),
            ("ev_type", Value::text("1")),
            ("ev_enabled", Value::text("O")),
            ("is_instead", Value::Bool(true)),
            ("ev_qual", Value::text("<>")),
            ("ev_action", Value::text("<>")),
        ]);
    }
}

fn system_class(relation: &Relation, rows: &mut Rows<'_>) {
    let kind = if relation.is_view { "v" } else { "r" };
    rows.row(&[
        ("oid", oid(relation.oid)),
        ("relname", Value::text(relation.name)),
        ("relnamespace", oid(schema_oid(relation.schema))),
        ("relowner", oid(number::OWNER)),
        ("relam", oid(if relation.is_view { 0 } else { number::HEAP })),
        ("reltuples", Value::Float(-1.0)),
        ("relpersistence", Value::text("p")),
        ("relkind", Value::text(kind)),
        ("relnatts", Value::Int(relation.columns.len() as i64)),
        ("relhasrules", Value::Bool(relation.is_view)),
        ("relispopulated", Value::Bool(true)),
        ("relreplident", Value::text("n")),
    ]);
}

/// Of a table, or of what goes with it.
pub fn persistence(id: TableId) -> Value {
    Value::text(if id.is_temporary() { "t" } else { "p" })
}

fn table_class(world: &World, table: &Table, schema: u32, rows: &mut Rows<'_>) {
    let (id, kept) = (table.id(), table.materialized.as_ref());
    let refers = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
    let options = match table.layout {
        Layout::Row => Value::Null,
        Layout::Column => Value::Array([Value::text("layout=column")].into()),
    };
    rows.row(&[
        ("oid", oid(number::table(id))),
        ("relname", Value::text(table.name())),
        ("relnamespace", oid(schema)),
        ("reltype", oid(number::row_type(id))),
        ("relowner", owner(world, &Commented::Table(id))),
        ("relacl", granted(world, &Commented::Table(id))),
        ("relam", oid(number::HEAP)),
        ("relfilenode", oid(number::table(id))),
        ("reltuples", Value::Float(-1.0)),
        ("relhasindex", Value::Bool(indexes(table).next().is_some())),
        ("relpersistence", persistence(id)),
        ("relkind", Value::text(if kept.is_some() { "m" } else { "r" })),
        ("relnatts", Value::Int(attributes(table).count() as i64)),
        ("relchecks", Value::Int(table.checks.len() as i64)),
        ("relhasrules", Value::Bool(kept.is_some())),
        ("relhastriggers", Value::Bool(refers)),
        ("relispopulated", Value::Bool(kept.is_none_or(|kept| kept.populated))),
        ("relreplident", Value::text("d")),
        ("reloptions", options),
    ]);
}

fn index_class(
    (world, table, schema): (&World, &Table, u32),
    index: &Index<'_>,
    rows: &mut Rows<'_>,
) {
    rows.row(&[
        ("oid", oid(number::index(table.id(), index.id))),
        ("relname", Value::text(index.name)),
        ("relnamespace", oid(schema)),
        ("relowner", owner(world, &Commented::Table(table.id()))),
        ("relam", oid(number::BTREE)),
        ("relfilenode", oid(number::index(table.id(), index.id))),
        ("reltuples", Value::Float(-1.0)),
        ("relpersistence", persistence(table.id())),
        ("relkind", Value::text("i")),
        ("relnatts", Value::Int(index.columns.len() as i64)),
        ("relispopulated", Value::Bool(true)),
        ("relreplident", Value::text("n")),
    ]);
}

/// The columns of a table with their numbers, dropped ones included: numbers stay.
fn attributes(table: &Table) -> impl Iterator<Item = (ColumnId, &types::ColumnSchema)> {
    let hidden =
        |id: &ColumnId| table.schema.hidden_row_id && table.schema.primary_key.contains(id);
    (0..).zip(&table.schema.columns).filter(move |(id, _)| !hidden(id))
}

/// `attnum` of a column.
pub fn attribute_number(column: ColumnId) -> i64 {
    i64::from(column) + 1
}

pub(super) fn alignment(data_type: &DataType) -> &'static str {
    match data_type.type_len() {
        1 => "c",
        2 => "s",
        8 => "d",
        16 => "c",
        _ => "i",
    }
}

pub(super) fn storage(data_type: &DataType) -> &'static str {
    match (data_type, data_type.type_len()) {
        (DataType::Numeric(_) | DataType::Inet | DataType::Cidr, _) => "m",
        (_, -1) => "x",
        _ => "p",
    }
}

/// What an attribute's row says of its type.
fn typed(data_type: &DataType) -> [(&'static str, Value); 8] {
    let by_value = matches!(data_type.type_len(), 1 | 2 | 4 | 8);
    [
        ("atttypid", oid(data_type.oid())),
        ("attstattarget", Value::Int(-1)),
        ("attlen", Value::Int(data_type.type_len().into())),
        ("attcacheoff", Value::Int(-1)),
        ("atttypmod", Value::Int(data_type.typmod().into())),
        ("attbyval", Value::Bool(by_value)),
        ("attalign", Value::text(alignment(data_type))),
        ("attstorage", Value::text(storage(data_type))),
    ]
}

fn attribute(
    rows: &mut Rows<'_>,
    of: u32,
    at: i64,
    name: &str,
    data_type: &DataType,
    more: &[(&'static str, Value)],
) {
    let mut columns = vec![
        ("attrelid", oid(of)),
        ("attname", Value::text(name)),
        ("attnum", Value::Int(at)),
        ("attislocal", Value::Bool(true)),
        ("attcollation", oid(collations::of_type(data_type))),
        ("attndims", Value::Int(i64::from(matches!(data_type, DataType::Array(_))))),
    ];
    columns.extend(typed(data_type));
    columns.extend_from_slice(more);
    rows.row(&columns);
}

pub fn pg_attribute(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for relation in relation::all() {
        for (at, column) in (1..).zip(&relation.columns) {
            let more = [("attnotnull", Value::Bool(column.not_null))];
            attribute(rows, relation.oid, at, column.name, &column.data_type, &more);
        }
    }
    for table in facts.world.catalog.tables() {
        let identities = facts.world.catalog.identities(table.id());
        for (id, column) in attributes(table) {
            let identity = identities.iter().find(|(column, _)| *column == id);
            let column_grants = (Commented::Table(table.id()), GrantedColumn::OfTable(id));
            let grants = column_granted(facts, &column_grants);
            let identity = identity.map(|(_, kind)| *kind);
            let domain = facts.world.catalog.column_domain(table, id).map(|domain| domain.oid());
            table_attribute((table, identity, grants), (id, domain), column, rows);
        }
        for index in indexes(table) {
            let of = number::index(table.id(), index.id);
            for (at, column) in (1..).zip(index.columns) {
                let name = describe::part_name(table, &index, at - 1);
                let more = [("attcollation", oid(index.collation(table, at as usize - 1)))];
                attribute(rows, of, at, &name, table.column_type(*column), &more);
            }
        }
    }
    for sequence in facts.world.catalog.sequences() {
        for (at, (name, data_type)) in (1..).zip(sequence.shown().0) {
            let more = [("attnotnull", Value::Bool(true))];
            attribute(rows, number::table(sequence.id), at, &name, &data_type, &more);
        }
    }
    for view in facts.world.views() {
        for (at, column) in (1..).zip(&view.columns) {
            let granted =
                (Commented::View(view.name.clone()), GrantedColumn::OfView(column.name.clone()));
            let more = [("attacl", column_granted(facts, &granted))];
            attribute(rows, view.numbers.relation, at, &column.name, &column.data_type, &more);
        }
    }
}

fn column_granted(facts: &Facts<'_>, (of, column): &(Commented, GrantedColumn)) -> Value {
    let grants = facts.world.catalog.column_grants(of, column);
    grants.map_or(Value::Null, |acl| shown(facts.world, acl))
}

fn table_attribute(
    (table, identity, grants): (&Table, Option<Identity>, Value),
    (id, domain): (ColumnId, Option<u32>),
    column: &types::ColumnSchema,
    rows: &mut Rows<'_>,
) {
    let (of, at) = (number::table(table.id()), attribute_number(id));
    if column.dropped || column.is_hidden() {
        let name = format!("........pg.dropped.{at}........");
        let more = [("attisdropped", Value::Bool(true)), ("atttypid", oid(0))];
        return attribute(rows, of, at, &name, &column.data_type, &more);
    }
    let generated = table.generated(id).is_some();
    let has_default = generated || identity.is_none() && default(table, id).is_some();
    let identity = match identity {
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
        None => "",
    };
    let mut more = vec![
        ("attcollation", oid(collations::of_column(table, id))),
        ("attnotnull", Value::Bool(!column.nullable)),
        ("atthasdef", Value::Bool(has_default)),
        ("attidentity", Value::text(identity)),
        ("attacl", grants),
        ("attgenerated", Value::text(if generated { "s" } else { "" })),
    ];
    if let Some(domain) = domain {
        more.extend([("atttypid", oid(domain)), ("atttypmod", Value::Int(-1))]);
    }
    attribute(rows, of, at, &column.name, &column.data_type, &more);
}

fn default(table: &Table, id: ColumnId) -> Option<&procedure::Expr> {
    table.defaults.get(usize::from(id))?.as_ref()
}

pub fn pg_attrdef(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let catalog = &facts.world.catalog;
    for table in catalog.tables() {
        let identities = catalog.identities(table.id());
        for (id, column) in
            attributes(table).filter(|(_, column)| !column.dropped && !column.is_hidden())
        {
            if identities.iter().any(|(column, _)| *column == id) {
                continue;
            }
            let text = match (table.generated(id), default(table, id)) {
                (Some(generated), _) => format!("({})", generated.text),
                (None, Some(default)) => {
                    describe::default_text(facts.world, default, &column.data_type)
                }
                (None, None) => continue,
            };
            rows.row(&[
                ("oid", oid(number::default(table.id(), id))),
                ("adrelid", oid(number::table(table.id()))),
                ("adnum", Value::Int(attribute_number(id))),
                ("adbin", Value::text(text)),
            ]);
        }
    }
}

/// The default B-tree operator class of a type.
fn operator_class(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Int2 => 1979,
        DataType::Int4 => 1978,
        DataType::Int8 => 3124,
        DataType::Numeric(_) => 3125,
        DataType::Float4 => 10012,
        DataType::Float8 => 3123,
        DataType::Bool => 10003,
        DataType::Char(_) => 10004,
        DataType::Bytea => 10006,
        DataType::Inet | DataType::Cidr => 10024,
        DataType::Uuid => 10065,
        DataType::Jsonb => 10088,
        DataType::Array(_) => 10000,
        DataType::Date => 3122,
        DataType::Timestamp(_) => 3128,
        DataType::Timestamptz(_) => 3127,
        DataType::Interval(_) => 10022,
        DataType::Time(_) => 10038,
        DataType::Timetz(_) => 10041,
        _ => 3126,
    }
}

pub fn pg_index(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for table in facts.world.catalog.tables() {
        for index in indexes(table) {
            let types = || index.columns.iter().map(|column| table.column_type(*column));
            let count = Value::Int(index.columns.len() as i64);
            let [expressions, condition] = index.texts();
            let options = |at: usize| {
                let part = index.declared.and_then(|declared| declared.parts.get(at));
                part.map_or(0, |part| part.options.into())
            };
            rows.row(&[
                ("indexrelid", oid(number::index(table.id(), index.id))),
                ("indrelid", oid(number::table(table.id()))),
                ("indnatts", count.clone()),
                ("indnkeyatts", count),
                ("indisunique", Value::Bool(index.unique)),
                ("indnullsnotdistinct", Value::Bool(table.nulls_alike.contains(&index.id))),
                ("indisprimary", Value::Bool(index.id == 0)),
                ("indimmediate", Value::Bool(!table.deferrable.contains_key(&index.id))),
                ("indisvalid", Value::Bool(true)),
                ("indisready", Value::Bool(true)),
                ("indislive", Value::Bool(true)),
                ("indkey", ints(index.key().into_iter())),
                (
                    "indcollation",
                    ints((0..index.columns.len()).map(|at| index.collation(table, at))),
                ),
                ("indclass", ints(types().map(operator_class))),
                ("indoption", ints((0..index.columns.len()).map(options))),
                ("indexprs", expressions),
                ("indpred", condition),
            ]);
        }
    }
}
