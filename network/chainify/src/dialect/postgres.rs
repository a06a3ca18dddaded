//! For PostgreSQL, 13 and later: sha256() came with 11, exact numbers of extract() with 14, and
//! what is used of both is there in 15, which is tested.

use std::collections::BTreeMap;

use super::shared::{Formless, days_and_microseconds, image_tag, numeric};
use crate::schema::{Column, Kind, Schema, Table};

/// What a session of this crate's own has set.
pub const SESSION: &str = "\
SET default_transaction_isolation = 'read committed'; SET timezone = 'UTC'; \
SET datestyle = 'ISO, YMD'; SET standard_conforming_strings = on; SET lock_timeout = '5s'; \
SET bytea_output = 'hex'; SET client_min_messages = warning; SET row_security = on";

/// Of a column that the row holds; NULL where it is NULL.
fn text(column: &str, kind: Kind) -> String {
    match kind {
        Kind::Integer { .. } | Kind::Numeric { .. } | Kind::Text { .. } | Kind::Uuid => {
            format!("{column}::text")
        }
        Kind::Bytes => format!("encode({column}, 'hex')"),
        Kind::Boolean => format!("CASE WHEN {column} THEN 't' WHEN NOT {column} THEN 'f' END"),
        Kind::Date => format!("({column} - date '2000-01-01')::text"),
        Kind::Timestamp { .. } => {
            format!("((extract(epoch from {column}) - 946684800) * 1000000)::bigint::text")
        }
    }
}

fn field(row: &str, column: &Column) -> String {
    let text = text(&format!("{row}.\"{}\"", column.name), column.kind);
    format!("coalesce(octet_length({text}) || ':' || {text}, 'N')")
}

/// The canonical text of columns of a row.
pub(super) fn joined<'a>(row: &str, columns: impl Iterator<Item = &'a Column>) -> String {
    columns.map(|column| field(row, column)).collect::<Vec<_>>().join(" || ")
}

/// The image hash of a row's text.
pub(super) fn image(text: &str) -> String {
    format!("sha256('\\x{}'::bytea || convert_to({text}, 'UTF8'))", image_tag())
}

pub(super) fn literal(column: &Column, field: &str) -> String {
    match column.kind {
        Kind::Bytes => format!("'\\x{field}'::bytea"),
        Kind::Date => format!("(date '2000-01-01' + {field})"),
        Kind::Timestamp { .. } => match days_and_microseconds(field) {
            Some((days, microseconds)) => format!(
                "(timestamp '2000-01-01' + interval '1 day' * {days} \
                 + interval '1 microsecond' * {microseconds})"
            ),
            None => format!("'{}'", field.replace('\'', "''")),
        },
        _ => format!("'{}'", field.replace('\'', "''")),
    }
}

/// Statements that create everything, in one transaction.
pub fn install(schema: &Schema) -> Vec<String> {
    let mut all = vec![
        "CREATE SCHEMA tally_chainify".to_owned(),
        "CREATE TABLE tally_chainify.digest (seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE, \
         tab integer, rowkey text COLLATE \"C\", serial bigint, kind char(1) NOT NULL, \
         before bytea, after bytea, place text, writer text NOT NULL, \
         PRIMARY KEY (tab, rowkey, serial))"
            .to_owned(),
        "CREATE TABLE tally_chainify.progress (block bigint, idx integer, ok boolean NOT NULL, \
         detail text NOT NULL, PRIMARY KEY (block, idx))"
            .to_owned(),
        "CREATE TABLE tally_chainify.state (name text PRIMARY KEY, value text NOT NULL)".to_owned(),
        truncated(),
    ];
    for (number, table) in schema.numbered() {
        all.push(changed(number, table));
        all.extend(triggers(number, table));
    }
    all
}

/// Dropping the functions drops the triggers, and nothing of the user's depends on them.
pub fn uninstall(_tables: &[String]) -> Vec<String> {
    vec!["DROP SCHEMA IF EXISTS tally_chainify CASCADE".to_owned()]
}

fn truncated() -> String {
    "CREATE FUNCTION tally_chainify.truncated() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     RAISE EXCEPTION 'table \"%\" is chained and cannot be truncated', TG_TABLE_NAME \
     USING ERRCODE = 'feature_not_supported', HINT = 'Delete its rows by a transaction of the \
     ledger.'; END $$"
        .to_owned()
}

/// The function of a table's trigger. It runs with the rights of who has created it, so that users
/// need none for the digest table.
fn changed(number: u32, table: &Table) -> String {
    let row = |row| joined(row, table.columns.iter());
    let key = |row| joined(row, table.key());
    let note = |kind: &str, key: &str, before: &str, after: &str| {
        format!(
            "INSERT INTO tally_chainify.digest (tab, rowkey, serial, kind, before, after, place, \
             writer) SELECT {number}, {key}, coalesce(max(serial) + 1, 0), '{kind}', {before}, \
             {after}, nullif(current_setting('tally_chainify.place', true), ''), session_user \
             FROM tally_chainify.digest WHERE tab = {number} AND rowkey = {key};"
        )
    };
    let (before, after) = (image("o"), image("n"));
    format!(
        "CREATE FUNCTION tally_chainify.changed_{number}() RETURNS trigger LANGUAGE plpgsql \
         SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ \
         DECLARE o text; n text; old_key text; new_key text; BEGIN \
         IF current_setting('tally_chainify.restoring', true) = 'on' THEN RETURN NULL; END IF; \
         IF TG_OP <> 'INSERT' THEN o := {}; old_key := {}; END IF; \
         IF TG_OP <> 'DELETE' THEN n := {}; new_key := {}; END IF; \
         IF o = n THEN RETURN NULL; END IF; \
         IF old_key = new_key THEN {} RETURN NULL; END IF; \
         IF o IS NOT NULL THEN {} END IF; \
         IF n IS NOT NULL THEN {} END IF; \
         RETURN NULL; END $$",
        row("OLD"),
        key("OLD"),
        row("NEW"),
        key("NEW"),
        note("U", "new_key", &before, &after),
        note("D", "old_key", &before, "NULL"),
        note("I", "new_key", "NULL", &after),
    )
}

/// Of this crate's triggers: table, name, how it is turned on, the function's body.
pub fn own_bodies() -> String {
    "SELECT c.relname, t.tgname, t.tgenabled, p.prosrc FROM pg_trigger t \
     JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid \
     WHERE NOT t.tgisinternal AND t.tgname LIKE 'tally\\_chainify\\_%' \
     AND p.pronamespace = to_regnamespace('tally_chainify')"
        .to_owned()
}

/// The same, as they are made.
pub fn bodies(schema: &Schema) -> BTreeMap<(String, String), String> {
    let body = |function: String| function.split("$$").nth(1).unwrap_or_default().to_owned();
    let mut all = BTreeMap::new();
    for (number, table) in schema.numbered() {
        let name = format!("tally_chainify_{}", table.name);
        all.insert((table.name.clone(), format!("{name}_t")), body(truncated()));
        all.insert((table.name.clone(), name), body(changed(number, table)));
    }
    all
}

/// Statements that make functions and triggers anew.
pub fn mended(schema: &Schema) -> Vec<String> {
    let anew = |function: String| function.replacen("CREATE", "CREATE OR REPLACE", 1);
    let mut all = vec![anew(truncated())];
    for (number, table) in schema.numbered() {
        let name = &table.name;
        all.push(anew(changed(number, table)));
        for trigger in [format!("tally_chainify_{name}"), format!("tally_chainify_{name}_t")] {
            all.push(format!("DROP TRIGGER IF EXISTS {trigger} ON \"{name}\""));
        }
        all.extend(triggers(number, table));
    }
    all
}

/// They fire in sessions of role `replica` too.
fn triggers(number: u32, table: &Table) -> Vec<String> {
    let name = &table.name;
    let changed = format!("tally_chainify_{name}");
    let truncated = format!("{changed}_t");
    vec![
        format!(
            "CREATE TRIGGER {changed} AFTER INSERT OR UPDATE OR DELETE ON \"{name}\" \
             FOR EACH ROW EXECUTE FUNCTION tally_chainify.changed_{number}()"
        ),
        format!("ALTER TABLE \"{name}\" ENABLE ALWAYS TRIGGER {changed}"),
        format!(
            "CREATE TRIGGER {truncated} BEFORE TRUNCATE ON \"{name}\" \
             FOR EACH STATEMENT EXECUTE FUNCTION tally_chainify.truncated()"
        ),
        format!("ALTER TABLE \"{name}\" ENABLE ALWAYS TRIGGER {truncated}"),
    ]
}

/// Of a table's columns: name, type, NOT NULL, generated or identity, default, key, collation is
/// deterministic.
pub fn columns(table: &str) -> String {
    format!(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
         a.attgenerated <> '' OR a.attidentity <> '', pg_get_expr(d.adbin, d.adrelid), \
         EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary \
         AND a.attnum = ANY (i.indkey)), \
         coalesce((SELECT c.collisdeterministic FROM pg_collation c WHERE c.oid = a.attcollation), \
         true) \
         FROM pg_attribute a LEFT JOIN pg_attrdef d \
         ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) \
         WHERE a.attrelid = '\"{table}\"'::regclass AND a.attnum > 0 AND NOT a.attisdropped"
    )
}

/// Of a table: what keeps it from being chained; no row: there is none of that name.
pub fn hindrance(table: &str) -> String {
    format!(
        "SELECT CASE \
         WHEN c.relkind <> 'r' THEN 'It is no ordinary table.' \
         WHEN c.relpersistence <> 'p' THEN 'A crash empties it: it is unlogged or temporary.' \
         WHEN c.relispartition OR EXISTS (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, \
         i.inhparent)) THEN 'It inherits from another one, or is inherited from.' \
         WHEN c.relrowsecurity THEN 'It has row-level security.' \
         WHEN c.relhasrules THEN 'It has rules.' \
         WHEN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
         AND t.tgname NOT LIKE 'tally\\_chainify\\_%') THEN 'It has a trigger of its own, \"' || \
         (SELECT min(t.tgname) FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
         AND t.tgname NOT LIKE 'tally\\_chainify\\_%') || '\".' END \
         FROM pg_class c WHERE c.oid = to_regclass('\"{table}\"')"
    )
}

/// Foreign keys of these tables, and to them: the one that has it, the one that it is to, and
/// whether it changes rows by itself, which is seen by triggers here.
pub fn foreign_keys(tables: &str) -> String {
    format!(
        "SELECT a.relname, b.relname, false FROM pg_constraint c \
         JOIN pg_class a ON a.oid = c.conrelid JOIN pg_class b ON b.oid = c.confrelid \
         WHERE c.contype = 'f' AND (a.relname IN ({tables}) OR b.relname IN ({tables})) \
         ORDER BY 1, 2"
    )
}

/// Of these tables: each unique index's columns; NULL where it is over something else.
pub fn unique(tables: &str) -> String {
    format!(
        "SELECT c.relname, CASE WHEN 0 = ANY (i.indkey) OR i.indisexclusion OR EXISTS \
         (SELECT FROM pg_collation l WHERE l.oid = ANY (i.indcollation) \
         AND NOT l.collisdeterministic) THEN NULL ELSE (SELECT string_agg(a.attname, ',') \
         FROM pg_attribute a JOIN unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n) \
         ON a.attnum = k.attnum WHERE a.attrelid = c.oid AND k.n <= i.indnkeyatts) END \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         JOIN unnest(ARRAY[{tables}]) t(name) ON c.oid = to_regclass(quote_ident(t.name)) \
         WHERE i.indisunique OR i.indisexclusion"
    )
}

/// Foreign keys between these tables: from which columns to which, and whether they change rows.
pub fn references(tables: &str) -> String {
    let columns = |key: &str, table: &str| {
        format!(
            "(SELECT string_agg(t.attname, ',' ORDER BY k.n) FROM pg_attribute t \
             JOIN unnest(c.{key}) WITH ORDINALITY k(attnum, n) ON t.attnum = k.attnum \
             WHERE t.attrelid = c.{table})"
        )
    };
    let (from, to) = (columns("conkey", "conrelid"), columns("confkey", "confrelid"));
    format!(
        "SELECT a.relname, {from}, b.relname, {to}, \
         c.confdeltype NOT IN ('a', 'r') OR c.confupdtype NOT IN ('a', 'r') \
         FROM pg_constraint c JOIN pg_class a ON a.oid = c.conrelid \
         JOIN pg_class b ON b.oid = c.confrelid WHERE c.contype = 'f' \
         AND a.relname IN ({tables}) AND b.relname IN ({tables}) ORDER BY 1, 2"
    )
}

/// The kind of a type, or why there is none.
pub fn kind(type_name: &str) -> Result<Kind, Formless> {
    let kind = match type_name {
        "smallint" => Kind::Integer { bytes: 2 },
        "integer" => Kind::Integer { bytes: 4 },
        "bigint" => Kind::Integer { bytes: 8 },
        "text" | "character varying" => Kind::Text { characters: None },
        "bytea" => Kind::Bytes,
        "boolean" => Kind::Boolean,
        "date" => Kind::Date,
        "timestamp without time zone" => Kind::Timestamp { digits: 6 },
        "uuid" => Kind::Uuid,
        other => return with_numbers(other).ok_or_else(|| why_not(other)),
    };
    Ok(kind)
}

fn with_numbers(type_name: &str) -> Option<Kind> {
    let (name, rest) = type_name.split_once('(')?;
    let (numbers, rest) = rest.split_once(')')?;
    match (name, rest) {
        ("numeric", "") => {
            let (precision, scale) = numbers.split_once(',')?;
            numeric(precision, scale)
        }
        ("character varying", "") => Some(Kind::Text { characters: numbers.parse().ok() }),
        ("timestamp", " without time zone") => {
            Some(Kind::Timestamp { digits: numbers.parse().ok()? })
        }
        _ => None,
    }
}

fn why_not(type_name: &str) -> Formless {
    let why = match type_name.split('(').next().unwrap_or_default() {
        "numeric" => "a numeric needs a precision and a scale from 0 to 38, as numeric(12,2) has",
        "real" | "double precision" => {
            "systems print and compute floating point differently; use numeric(p,s)"
        }
        "character" | "\"char\"" | "bpchar" => {
            "systems pad it differently; use character varying(n)"
        }
        "timestamp with time zone" | "time with time zone" | "timestamp" => {
            "MariaDB has none of its range; use timestamp without time zone, in UTC"
        }
        _ => "it has no canonical form that both systems compute",
    };
    Formless(why)
}

/// Whether a default is a constant; only that is the same everywhere.
pub fn is_constant(default: &str) -> bool {
    let value = default.split("::").next().unwrap_or_default();
    let is_number = value.trim_matches(['(', ')', '-']).parse::<f64>().is_ok();
    let is_text = value.len() > 1 && value.starts_with('\'') && value.ends_with('\'');
    is_number || is_text || ["true", "false", "NULL"].contains(&value)
}
