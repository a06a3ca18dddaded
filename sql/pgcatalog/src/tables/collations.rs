//! Collations, those of the system with PostgreSQL's numbers; and which one a column has.

use sql::Commented;
use sql::catalog::Table;
use sql::collations::{Collation, Provider};
use sql::names::schema_of;
use types::{ColumnId, DataType, SystemType, TableId, Value};

use super::facts::{Facts, Rows, oid, owner};
use crate::oid as number;

/// What the default collation and `"C"` are numbered.
const DEFAULT_COLLATION: u32 = 100;
const C_COLLATION: u32 = 950;

/// Of any encoding, and UTF-8's number.
const ANY_ENCODING: i64 = -1;
const UTF8: i64 = 6;

pub fn pg_collation(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for collation in facts.world.catalog.collations() {
        let is_system = collation.is_system();
        let namespace = match is_system {
            true => number::PG_CATALOG,
            false => facts.world.numbers.namespace(schema_of(&collation.name)),
        };
        let owner = match is_system {
            true => oid(number::OWNER),
            false => {
                let id = TableId(collation.oid - number::FIRST_USER);
                owner(facts.world, &Commented::Collation(id))
            }
        };
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::text);
        let (libc, icu) = locales(collation);
        rows.row(&[
            ("oid", oid(collation.oid)),
            ("collname", Value::text(collation.name())),
            ("collnamespace", oid(namespace)),
            ("collowner", owner),
            ("collprovider", Value::text(provider(collation.provider))),
            ("collisdeterministic", Value::Bool(collation.deterministic)),
            ("collencoding", Value::Int(encoding(collation))),
            ("collcollate", text(libc.as_deref())),
            ("collctype", text(libc.as_deref())),
            ("colliculocale", text(icu)),
        ]);
    }
}

fn provider(of: Provider) -> &'static str {
    match of {
        Provider::Default => "d",
        Provider::Libc => "c",
        Provider::Icu => "i",
    }
}

/// As an operating system names its locale, and as ICU does.
fn locales(collation: &Collation) -> (Option<String>, Option<&str>) {
    let locale = collation.locale.as_deref();
    match (collation.provider, locale) {
        (Provider::Default, _) => (None, None),
        (Provider::Icu, locale) => (None, locale),
        (Provider::Libc, Some(locale)) => {
            (Some(format!("{}.utf8", locale.replace('-', "_"))), None)
        }
        (Provider::Libc, None) => match collation.name() {
            name @ ("POSIX" | "C.utf8") if collation.is_system() => (Some(name.to_owned()), None),
            _ => (Some("C".to_owned()), None),
        },
    }
}

fn encoding(collation: &Collation) -> i64 {
    match collation.provider {
        Provider::Libc if !matches!(collation.oid, C_COLLATION | 951) => UTF8,
        _ => ANY_ENCODING,
    }
}

/// The one of a type's values that have no other.
pub fn of_type(data_type: &DataType) -> u32 {
    match data_type {
        DataType::System(SystemType::Name) => C_COLLATION,
        DataType::Array(element) => of_type(element),
        other if other.is_string() => DEFAULT_COLLATION,
        _ => 0,
    }
}

/// A column's own, or its type's.
pub fn of_column(table: &Table, column: ColumnId) -> u32 {
    let own = table.collations.get(&column);
    own.map_or_else(|| of_type(table.column_type(column)), |collation| collation.oid)
}
