//! For MariaDB, 10.7 and later, which has UUIDs; tested with 10.11.

use std::collections::BTreeMap;

use super::shared::{Formless, days_and_microseconds, image_tag, numeric};
use crate::schema::{Column, Kind, PREFIX, Schema, Table};

/// What a session of this crate's own has set. What text means is as in the standard: quotes of
/// names, `||`, backslashes; what does not fit is an error; a second's fraction is rounded.
pub const SESSION: &str = "\
SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,\
TIME_ROUND_FRACTIONAL,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,ONLY_FULL_GROUP_BY,\
NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', tx_isolation = 'READ-COMMITTED', \
innodb_lock_wait_timeout = 5, foreign_key_checks = 1, unique_checks = 1";

pub const NAMES: &str = "SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin";

const TEXT: &str = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";

fn text(column: &str, kind: Kind) -> String {
    match kind {
        Kind::Integer { .. } | Kind::Numeric { .. } | Kind::Uuid => {
            format!("CAST({column} AS CHAR CHARACTER SET utf8mb4)")
        }
        Kind::Text { .. } => column.to_owned(),
        Kind::Bytes => format!("LOWER(HEX({column}))"),
        Kind::Boolean => {
            format!("CASE {column} WHEN 0 THEN 'f' WHEN 1 THEN 't' ELSE CONCAT('!', {column}) END")
        }
        Kind::Date => format!("COALESCE(DATEDIFF({column}, '2000-01-01'), '!')"),
        Kind::Timestamp { .. } => {
            format!("COALESCE(TIMESTAMPDIFF(MICROSECOND, '2000-01-01 00:00:00', {column}), '!')")
        }
    }
}

fn field(row: &str, column: &Column) -> String {
    let name = format!("{row}.\"{}\"", column.name);
    let text = text(&name, column.kind);
    let text = format!("CONVERT({text} USING utf8mb4) COLLATE utf8mb4_nopad_bin");
    format!("IF({name} IS NULL, 'N', CONCAT(OCTET_LENGTH({text}), ':', {text}))")
}

/// The canonical text of columns of a row.
pub(super) fn joined<'a>(row: &str, columns: impl Iterator<Item = &'a Column>) -> String {
    let fields: Vec<String> = columns.map(|column| field(row, column)).collect();
    format!("CONCAT({})", fields.join(", "))
}

pub(super) fn image_hex(text: &str) -> String {
    format!("SHA2(CONCAT(X'{}', CAST({text} AS BINARY)), 256)", image_tag())
}

pub(super) fn literal(column: &Column, field: &str) -> String {
    match column.kind {
        Kind::Bytes => format!("X'{field}'"),
        Kind::Boolean => if field == "t" { "1" } else { "0" }.to_owned(),
        Kind::Date => format!("DATE_ADD('2000-01-01', INTERVAL {field} DAY)"),
        Kind::Timestamp { .. } => match days_and_microseconds(field) {
            Some((days, microseconds)) => format!(
                "TIMESTAMPADD(MICROSECOND, {microseconds}, \
                 TIMESTAMPADD(DAY, {days}, CAST('2000-01-01' AS DATETIME(6))))"
            ),
            None => format!("'{}'", field.replace('\'', "''")),
        },
        _ => format!("'{}'", field.replace('\'', "''")),
    }
}

/// Statements that create everything. Each is a transaction of its own here: the last one says
/// that all are there.
pub fn install(schema: &Schema) -> Vec<String> {
    let binary = "ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";
    let mut all = vec![
        format!(
            "CREATE TABLE {PREFIX}_digest (seq BIGINT AUTO_INCREMENT UNIQUE, tab INT, \
             rowkey VARBINARY(2000), serial BIGINT, kind CHAR(1) NOT NULL, \"before\" BINARY(32), \
             \"after\" BINARY(32), place VARCHAR(64), writer VARCHAR(400) NOT NULL, \
             PRIMARY KEY (tab, rowkey, serial)) {binary}"
        ),
        format!(
            "CREATE TABLE {PREFIX}_progress (block BIGINT, idx INT, ok BOOLEAN NOT NULL, \
             detail TEXT NOT NULL, PRIMARY KEY (block, idx)) {binary}"
        ),
    ];
    for (number, table) in schema.numbered() {
        all.extend(EVENTS.map(|event| trigger(number, table, event)));
    }
    all.push(format!(
        "CREATE TABLE {PREFIX}_state (name VARCHAR(100) PRIMARY KEY, value TEXT NOT NULL) {binary}"
    ));
    all
}

pub fn uninstall(tables: &[String]) -> Vec<String> {
    let mut all = vec![format!("DROP TABLE IF EXISTS {PREFIX}_state")];
    for table in tables {
        all.extend(
            ["i", "u", "d"].map(|event| format!("DROP TRIGGER IF EXISTS {PREFIX}_{event}_{table}")),
        );
    }
    all.push(format!("DROP TABLE IF EXISTS {PREFIX}_digest, {PREFIX}_progress"));
    all
}

/// Triggers of this crate in the database, each with its table.
pub fn own_triggers() -> String {
    format!(
        "SELECT trigger_name, event_object_table FROM information_schema.triggers \
         WHERE trigger_schema = DATABASE() AND trigger_name LIKE '{}\\_%'",
        PREFIX.replace('_', "\\_")
    )
}

/// Of this crate's triggers: table, name, that it is turned on, the body.
pub fn own_bodies() -> String {
    format!(
        "SELECT event_object_table, trigger_name, 'A', action_statement \
         FROM information_schema.triggers WHERE trigger_schema = DATABASE() \
         AND trigger_name LIKE '{}\\_%'",
        PREFIX.replace('_', "\\_")
    )
}

/// The same, as they are made.
pub fn bodies(schema: &Schema) -> BTreeMap<(String, String), String> {
    let mut all = BTreeMap::new();
    for (number, table) in schema.numbered() {
        for event in EVENTS {
            let made = trigger(number, table, event);
            let body = made.split_once("FOR EACH ROW ").map_or("", |(_, body)| body);
            let place = (table.name.clone(), trigger_name(table, event));
            all.insert(place, body.to_owned());
        }
    }
    all
}

/// Statements that make triggers anew.
pub fn mended(schema: &Schema) -> Vec<String> {
    let mut all = Vec::new();
    for (number, table) in schema.numbered() {
        for event in EVENTS {
            all.push(format!("DROP TRIGGER IF EXISTS {}", trigger_name(table, event)));
            all.push(trigger(number, table, event));
        }
    }
    all
}

const EVENTS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

fn trigger_name(table: &Table, event: &str) -> String {
    format!("{PREFIX}_{}_{}", event[..1].to_ascii_lowercase(), table.name)
}

/// The body has the sql_mode of the session that creates it, whatever session fires it.
fn trigger(number: u32, table: &Table, event: &str) -> String {
    let note = |kind: &str, key: &str, before: &str, after: &str| {
        format!(
            "SET next = (SELECT COALESCE(MAX(serial) + 1, 0) FROM {PREFIX}_digest \
             WHERE tab = {number} AND rowkey = {key}); \
             INSERT INTO {PREFIX}_digest (tab, rowkey, serial, kind, \"before\", \"after\", place, \
             writer) VALUES ({number}, {key}, next, '{kind}', {before}, {after}, @{PREFIX}_place, \
             SESSION_USER());"
        )
    };
    let image = |text: &str| format!("UNHEX({})", image_hex(text));
    let (before, after) = (image("o"), image("n"));
    let set = |variable: &str, key: &str, row: &str| {
        format!(
            "SET {variable} = {}, {key} = CAST({} AS BINARY); IF {variable} IS NULL THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the row is too large to be chained'; \
             END IF;",
            joined(row, table.columns.iter()),
            joined(row, table.key())
        )
    };
    let (old, new) = (set("o", "old_key", "OLD"), set("n", "new_key", "NEW"));
    let (deleted, inserted) =
        (note("D", "old_key", &before, "NULL"), note("I", "new_key", "NULL", &after));
    let body = match event {
        "INSERT" => format!("{new} {inserted}"),
        "DELETE" => format!("{old} {deleted}"),
        _ => format!(
            "{old} {new} IF o <> n THEN IF old_key = new_key THEN {} ELSE {deleted} {inserted} \
             END IF; END IF;",
            note("U", "new_key", &before, &after)
        ),
    };
    let (name, trigger) = (&table.name, trigger_name(table, event));
    format!(
        "CREATE TRIGGER {trigger} AFTER {event} ON \"{name}\" FOR EACH ROW BEGIN \
         DECLARE o {TEXT}; DECLARE n {TEXT}; DECLARE old_key VARBINARY(2000); \
         DECLARE new_key VARBINARY(2000); DECLARE next BIGINT; IF @{PREFIX}_restoring IS NULL THEN {body} END IF; END"
    )
}

/// Of a table's columns: name, type, NOT NULL, generated or numbered, default, key, collation.
pub fn columns(table: &str) -> String {
    format!(
        "SELECT column_name, column_type, is_nullable = 'NO', \
         is_generated <> 'NEVER' OR extra <> '', column_default, column_key = 'PRI', \
         collation_name FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name = '{table}'"
    )
}

/// Of a table: what keeps it from being chained; no row: there is none of that name.
pub fn hindrance(table: &str) -> String {
    let others = format!(
        "(SELECT MIN(trigger_name) FROM information_schema.triggers g \
         WHERE g.event_object_schema = DATABASE() AND g.event_object_table = '{table}' \
         AND g.trigger_name NOT LIKE '{}\\_%')",
        PREFIX.replace('_', "\\_")
    );
    format!(
        "SELECT CASE WHEN t.table_type <> 'BASE TABLE' THEN 'It is no ordinary table.' \
         WHEN t.engine <> 'InnoDB' THEN 'Its engine is not InnoDB, so it has no transactions.' \
         WHEN t.create_options LIKE '%partitioned%' THEN 'It is partitioned.' \
         WHEN {others} IS NOT NULL THEN CONCAT('It has a trigger of its own, \"', {others}, '\".') \
         END FROM information_schema.tables t \
         WHERE t.table_schema = DATABASE() AND t.table_name = '{table}'"
    )
}

/// See the same of PostgreSQL. What a foreign key does by itself is seen by no trigger here.
pub fn foreign_keys(tables: &str) -> String {
    format!(
        "SELECT table_name, referenced_table_name, delete_rule IN ('CASCADE', 'SET NULL', \
         'SET DEFAULT') OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT') \
         FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() \
         AND (table_name IN ({tables}) OR referenced_table_name IN ({tables})) ORDER BY 1, 2"
    )
}

/// See the same of PostgreSQL.
pub fn unique(tables: &str) -> String {
    format!(
        "SELECT table_name, IF(SUM(sub_part IS NOT NULL) > 0, NULL, GROUP_CONCAT(column_name)) \
         FROM information_schema.statistics WHERE table_schema = DATABASE() AND non_unique = 0 \
         AND table_name IN ({tables}) GROUP BY table_name, index_name"
    )
}

/// See the same of PostgreSQL.
pub fn references(tables: &str) -> String {
    format!(
        "SELECT k.table_name, GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position), \
         k.referenced_table_name, \
         GROUP_CONCAT(k.referenced_column_name ORDER BY k.ordinal_position), \
         MAX(r.delete_rule NOT IN ('RESTRICT', 'NO ACTION') \
         OR r.update_rule NOT IN ('RESTRICT', 'NO ACTION')) \
         FROM information_schema.key_column_usage k \
         JOIN information_schema.referential_constraints r \
         ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name \
         AND r.table_name = k.table_name WHERE k.table_schema = DATABASE() \
         AND k.table_name IN ({tables}) AND k.referenced_table_name IN ({tables}) \
         GROUP BY k.table_name, k.constraint_name, k.referenced_table_name"
    )
}

/// The kind of a type, or why there is none.
pub fn kind(type_name: &str) -> Result<Kind, Formless> {
    if type_name.contains("unsigned") || type_name.contains("zerofill") {
        return Err(Formless("PostgreSQL has no unsigned numbers; use a signed, larger type"));
    }
    let (name, numbers) = match type_name.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')),
        None => (type_name, None),
    };
    let digits = || numbers.map_or(Some(0), |digits| digits.parse().ok());
    let kind = match name {
        "tinyint" if numbers == Some("1") => Some(Kind::Boolean),
        "smallint" => Some(Kind::Integer { bytes: 2 }),
        "int" => Some(Kind::Integer { bytes: 4 }),
        "bigint" => Some(Kind::Integer { bytes: 8 }),
        "decimal" => numbers.and_then(|it| it.split_once(',')).and_then(|(p, s)| numeric(p, s)),
        "varchar" => numbers
            .and_then(|it| it.parse().ok())
            .map(|characters: u32| Kind::Text { characters: Some(characters) }),
        "text" | "mediumtext" | "longtext" => Some(Kind::Text { characters: None }),
        "varbinary" | "blob" | "mediumblob" | "longblob" => Some(Kind::Bytes),
        "date" => Some(Kind::Date),
        "datetime" => digits().map(|digits| Kind::Timestamp { digits }),
        "uuid" => Some(Kind::Uuid),
        _ => None,
    };
    kind.ok_or_else(|| {
        let why = match name {
            "float" | "double" => {
                "systems print and compute floating point differently; use decimal(p,s)"
            }
            "char" | "binary" => "systems pad it differently; use varchar(n) or varbinary(n)",
            "timestamp" => {
                "it is another time in each session's time zone; use datetime(6), in UTC"
            }
            "tinyint" | "mediumint" => "PostgreSQL has none of its range; use smallint or int",
            "tinytext" | "tinyblob" => "PostgreSQL has none of its range; use text or blob",
            _ => "it has no canonical form that both systems compute",
        };
        Formless(why)
    })
}

/// Whether a collation takes texts for equal only if all their bytes are. `None`: no text.
pub fn is_binary(collation: Option<&str>) -> bool {
    collation.is_none_or(|name| name == "utf8mb4_nopad_bin")
}

pub fn is_utf8(collation: Option<&str>) -> bool {
    collation.is_none_or(|name| name.starts_with("utf8mb4_") || name.starts_with("uca1400_"))
}

/// Whether a default is a constant, as `information_schema` prints them.
pub fn is_constant(default: &str) -> bool {
    let is_text = default.len() > 1 && default.starts_with('\'') && default.ends_with('\'');
    default == "NULL" || is_text || default.parse::<f64>().is_ok()
}
