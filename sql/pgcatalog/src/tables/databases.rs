//! Databases: the node's own ledger by its names, and those that were made in it.

use identity::BOOTSTRAP;
use sql::Commented;
use sql::names::DATABASES;
use sql::session::shared_state::databases::ShownDatabase;
use types::Value;

use super::facts::{Facts, Rows, granted, oid};
use crate::oid::{self as number, own_database};

const UTF8: i64 = 6;
const DEFAULT_TABLESPACE: u32 = 1663;
const TEMPLATE: &str = "template1";

/// The node's own ledger by each of its names, then the databases that were made in it. Of the
/// former one is for tools that go through all that can be connected to.
pub fn pg_database(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let session = facts.session;
    let made = (session.databases.0)();
    let is_other = made.iter().any(|database| database.name == session.database);
    let mut own = DATABASES.to_vec();
    if !is_other && !own.contains(&session.database.as_str()) {
        own.push(&session.database);
    }
    let superuser = facts.world.catalog.roles().name(BOOTSTRAP);
    for name in own {
        let allows = name == DATABASES[0];
        database(facts, (own_database(name), name, superuser), (allows, name == TEMPLATE), rows);
    }
    for ShownDatabase { number, name, owner } in &made {
        database(facts, (*number, name, owner), (true, false), rows);
    }
}

fn database(
    facts: &Facts<'_>,
    (number, name, owner): (u32, &str, &str),
    (allows, is_template): (bool, bool),
    rows: &mut Rows<'_>,
) {
    let world = facts.world;
    let owner = world.catalog.roles().find(owner).map_or(number::OWNER, |role| role.id.0);
    let acl = match name == facts.session.database {
        true => granted(world, &Commented::Database),
        false => Value::Null,
    };
    rows.row(&[
        ("oid", oid(number)),
        ("datname", Value::text(name)),
        ("datdba", oid(owner)),
        ("datacl", acl),
        ("encoding", Value::Int(UTF8)),
        ("datlocprovider", Value::text("c")),
        ("datistemplate", Value::Bool(is_template)),
        ("datallowconn", Value::Bool(allows)),
        ("datconnlimit", Value::Int(-1)),
        ("dattablespace", oid(DEFAULT_TABLESPACE)),
        // Text is ordered by its bytes.
        ("datcollate", Value::text("C")),
        ("datctype", Value::text("C.UTF-8")),
    ]);
}

/// Which ledgers this one has made, as it records them.
pub fn tally_databases(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let catalog = &facts.world.catalog;
    let hex =
        |bytes: &[u8]| Value::from(bytes.iter().map(|b| format!("{b:02x}")).collect::<String>());
    for (name, entry) in catalog.databases() {
        rows.row(&[
            ("database", Value::text(name)),
            ("ledger_id", hex(&entry.ledger.id)),
            ("genesis", hex(&entry.ledger.genesis)),
            ("owner", Value::text(catalog.roles().name(entry.owner))),
            ("since_block", Value::Int(entry.since.cast_signed())),
        ]);
    }
}
