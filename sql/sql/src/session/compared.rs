//! What two nodes have come to of one proposal, compared. The first difference is told, with its
//! key.
//!
//! A node may have simulated it on a newer block than the other. Where what differs has changed
//! since, neither has lied, and the transaction is stale.

use concurrency::RowRequirement;
use engine::transaction::{Endorsed, RowChange, RowWrite};
use types::key::decode_key;
use types::{Error, Height, Key, Result, SqlState, Stamp, TableId, Value};

use super::last_changes::schema_changed;
use crate::schema::catalog::Catalog;

/// Two nodes have come to different things.
pub(super) const ENDORSERS_DIFFER: SqlState = SqlState(*b"42T02");

/// Whether two nodes have come to the same; `seen`: the block that the other has simulated it on.
///
/// # Errors
/// 42T02: the first difference, with the key that it is at. 40001: it is from what has changed
/// since.
pub(super) fn compare(
    catalog: &Catalog,
    (asked, seen): (&Endorsed, Height),
    (own, height): (&Endorsed, Height),
) -> Result<()> {
    let differ = |what: &str, detail: String| {
        let what = format!("the node's simulation {what} than the envelope");
        Err(Error::new(ENDORSERS_DIFFER, what).with_detail(detail).with_hint(
            "One of the nodes does not run what the ledger says, or the envelope is not what its \
             node has come to.",
        ))
    };
    if asked.schema_version != own.schema_version {
        return Err(schema_changed());
    }
    let (asked_rows, own_rows) = (by_key(&asked.rows), by_key(&own.rows));
    if let Some((table, key)) = first_difference(&asked_rows, &own_rows) {
        let place = place(catalog, table, key);
        return match changed_since(&own.rows, seen) || height > seen && own_lacks(&asked.rows, own)
        {
            true => Err(since(&place)),
            false => differ("reads something else", place),
        };
    }
    if asked.rows != own.rows {
        return differ("reads the same otherwise", "The order of its reads differs.".to_owned());
    }
    let pairs = asked.ranges.iter().zip(&own.ranges);
    if let Some((range, _)) = pairs.clone().find(|(asked, own)| asked != own) {
        let place = format!("It is one of table \"{}\".", name_of(catalog, range.range.table));
        return match height > seen {
            true => Err(since(&place)),
            false => differ("reads another range", place),
        };
    }
    if asked.ranges.len() != own.ranges.len() {
        let (asked, own) = (asked.ranges.len(), own.ranges.len());
        return differ("reads other ranges", format!("They are {own} in place of {asked}."));
    }
    let longest = asked.writes.len().max(own.writes.len());
    let other = (0..longest).find(|at| asked.writes.get(*at) != own.writes.get(*at));
    if let Some(write) = other.and_then(|at| own.writes.get(at).or(asked.writes.get(at))) {
        return differ("writes something else", described(catalog, write));
    }
    match asked.result == own.result && asked.now_us == own.now_us {
        true => Ok(()),
        false => differ("answers something else", "All reads and writes agree.".to_owned()),
    }
}

fn since(place: &str) -> Error {
    Error::serialization(format!("What the transaction read was changed since. {place}"))
}

/// Rows have other versions than on that block.
fn changed_since(rows: &[RowRequirement], seen: Height) -> bool {
    rows.iter().any(|row| row.stamp.is_some_and(|stamp| stamp.height() > seen))
}

/// A row that the other has read is not there.
fn own_lacks(asked: &[RowRequirement], own: &Endorsed) -> bool {
    let gone = |row: &&RowRequirement| row.stamp.is_none();
    own.rows.iter().filter(gone).any(|gone| {
        let same = |row: &&RowRequirement| row.table == gone.table && row.key == gone.key;
        asked.iter().find(same).is_some_and(|row| row.stamp.is_some())
    })
}

type ByKey<'a> = Vec<(TableId, &'a Key, Option<Stamp>)>;

fn by_key(rows: &[RowRequirement]) -> ByKey<'_> {
    rows.iter().map(|row| (row.table, &row.key, row.stamp)).collect()
}

fn first_difference<'a>(asked: &ByKey<'a>, own: &ByKey<'a>) -> Option<(TableId, &'a Key)> {
    let missing = |of: &ByKey<'a>, among: &ByKey<'a>| {
        let found = of.iter().find(|row| among.binary_search(row).is_err());
        found.map(|(table, key, _)| (*table, *key))
    };
    missing(own, asked).or_else(|| missing(asked, own))
}

fn name_of(catalog: &Catalog, table: TableId) -> String {
    catalog.table_by_id(table).map_or_else(|| table.0.to_string(), |it| it.name().to_owned())
}

fn place(catalog: &Catalog, table: TableId, key: &Key) -> String {
    let name = name_of(catalog, table);
    let values = catalog.table_by_id(table).and_then(|table| {
        let columns = table.schema.primary_key.iter();
        let columns = columns.map(|column| {
            let column = &table.schema.columns[usize::from(*column)];
            (&column.data_type, column.nullable)
        });
        decode_key(columns, key.as_bytes()).ok()
    });
    match values {
        Some(values) => format!("It is at the key {} of table \"{name}\".", listed(&values)),
        None => format!("It is at a key of table \"{name}\"."),
    }
}

fn listed(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    format!("({})", texts.join(", "))
}

fn described(catalog: &Catalog, write: &RowWrite) -> String {
    let name = name_of(catalog, write.table);
    match &write.change {
        RowChange::Insert(values) => {
            format!("It is at the row {} inserted into table \"{name}\".", listed(values))
        }
        RowChange::Update { key, .. } | RowChange::Delete { key } => {
            format!("It is at the key {} of table \"{name}\".", listed(key))
        }
    }
}
