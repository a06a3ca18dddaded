//! Rows and statements drawn at random, and what they come to by this file's own reckoning.

use std::collections::BTreeMap;

use chainify::canonical::put;
use chainify::database::{Change, Entry};
use chainify::dialect::Dialect;
use chrono::{DateTime, Days, NaiveDate, TimeDelta};
use ledger::Hash;
use proptest::prelude::*;

/// A column of each kind, and a key of two.
pub fn table(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "CREATE TABLE things (amount numeric(14,3), at timestamp(6), day date, flag boolean, \
             number integer, part varchar(12) NOT NULL, raw bytea, small smallint NOT NULL, \
             text text, uid uuid, id bigint NOT NULL, PRIMARY KEY (id, part))"
        }
        // The same columns, in another order.
        Dialect::MariaDb => {
            "CREATE TABLE things (id bigint NOT NULL, uid uuid, text longtext CHARACTER SET utf8mb4, \
             small smallint NOT NULL, raw longblob, part varchar(12) CHARACTER SET utf8mb4 \
             COLLATE utf8mb4_nopad_bin NOT NULL, number int, flag boolean, day date, \
             at datetime(6), amount decimal(14,3), PRIMARY KEY (part, id))"
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// In thousandths.
    pub amount: Option<i64>,
    /// Microseconds and days since 2000.
    pub at: Option<i64>,
    pub day: Option<i32>,
    pub flag: Option<bool>,
    pub number: Option<i32>,
    pub raw: Option<Vec<u8>>,
    pub small: i16,
    pub text: Option<String>,
    pub uid: Option<u128>,
}

pub type Key = (i64, String);

#[derive(Clone, Debug)]
pub enum Step {
    Insert(Key, Row),
    Update(Key, Row),
    Move(Key, Key),
    Delete(Key),
    /// Sets a column of several rows to what it is.
    Touch,
}

fn key() -> impl Strategy<Value = Key> {
    let parts = prop::sample::select(vec!["", "a", "A", "a ", "ä", "☃", "🦀", "N", "1:a", "'"]);
    (-1..3i64, parts.prop_map(str::to_owned))
}

/// MariaDB takes no versions that the RFC does not have.
fn fourth_version(uid: u128) -> u128 {
    uid & !(0xf << 76) & !(0xc << 60) | (4 << 76) | (8 << 60)
}

pub fn row() -> impl Strategy<Value = Row> {
    let first_day = (NaiveDate::from_ymd_opt(2000, 1, 1), NaiveDate::from_ymd_opt(1, 1, 1));
    let (Some(epoch), Some(first)) = first_day else { unreachable!("they are dates") };
    let least = first.signed_duration_since(epoch).num_days() as i32;
    let most = least + 3_652_058;
    let microseconds = i64::from(least) * 86_400_000_000..i64::from(most) * 86_400_000_000;
    let some = prop::option::of::<BoxedStrategy<i64>>;
    (
        some(prop_oneof![-5i64..5, -99_999_999_999_999..=99_999_999_999_999i64].boxed()),
        some(prop_oneof![-3i64..3, microseconds].boxed()),
        prop::option::of(prop_oneof![-3i32..3, least..most]),
        prop::option::of(any::<bool>()),
        prop::option::of(any::<i32>()),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        any::<i16>(),
        prop::option::of("[ -~äöß☃🦀\n\t]{0,30}"),
        prop::option::of(any::<u128>().prop_map(fourth_version)),
    )
        .prop_map(|(amount, at, day, flag, number, raw, small, text, uid)| Row {
            amount,
            at,
            day,
            flag,
            number,
            raw,
            small,
            text,
            uid,
        })
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (key(), row()).prop_map(|(key, row)| Step::Insert(key, row)),
        3 => (key(), row()).prop_map(|(key, row)| Step::Update(key, row)),
        2 => (key(), key()).prop_map(|(from, to)| Step::Move(from, to)),
        2 => key().prop_map(Step::Delete),
        1 => Just(Step::Touch),
    ];
    prop::collection::vec(step, 1..40)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn epoch() -> NaiveDate {
    NaiveDate::from_ymd_opt(2000, 1, 1).unwrap()
}

fn thousandths(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", amount.unsigned_abs() / 1000, amount.unsigned_abs() % 1000)
}

fn date(days: i32) -> NaiveDate {
    match days < 0 {
        true => epoch().checked_sub_days(Days::new(u64::from(days.unsigned_abs()))).unwrap(),
        false => epoch().checked_add_days(Days::new(days as u64)).unwrap(),
    }
}

fn time(microseconds: i64) -> String {
    let time = DateTime::from_timestamp(946_684_800, 0).unwrap().naive_utc();
    let time = time + TimeDelta::microseconds(microseconds);
    time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

fn hyphened(uid: u128) -> String {
    let hex = format!("{uid:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Row {
    /// Columns and literals, but of the key.
    fn sql(&self, dialect: Dialect) -> [(&'static str, String); 9] {
        let or_null = |literal: Option<String>| literal.unwrap_or_else(|| "NULL".to_owned());
        let bytes = |raw: &Vec<u8>| match dialect {
            Dialect::Postgres => format!("'\\x{}'", hex(raw)),
            Dialect::MariaDb => format!("X'{}'", hex(raw)),
        };
        [
            ("amount", or_null(self.amount.map(thousandths))),
            ("at", or_null(self.at.map(|at| quoted(&time(at))))),
            ("day", or_null(self.day.map(|day| quoted(&date(day).format("%Y-%m-%d").to_string())))),
            ("flag", or_null(self.flag.map(|flag| flag.to_string()))),
            ("number", or_null(self.number.map(|number| number.to_string()))),
            ("raw", or_null(self.raw.as_ref().map(bytes))),
            ("small", self.small.to_string()),
            ("text", or_null(self.text.as_deref().map(quoted))),
            ("uid", or_null(self.uid.map(|uid| quoted(&hyphened(uid))))),
        ]
    }

    /// As the documentation has it.
    pub fn canonical(&self, (id, part): &Key) -> String {
        let mut text = String::new();
        let mut field = |field: Option<String>| put(field.as_deref(), &mut text);
        field(self.amount.map(thousandths));
        field(self.at.map(|at| at.to_string()));
        field(self.day.map(|day| day.to_string()));
        field(self.flag.map(|flag| if flag { "t" } else { "f" }.to_owned()));
        field(Some(id.to_string()));
        field(self.number.map(|number| number.to_string()));
        field(Some(part.clone()));
        field(self.raw.as_deref().map(hex));
        field(Some(self.small.to_string()));
        field(self.text.clone());
        field(self.uid.map(hyphened));
        text
    }
}

impl Step {
    pub fn sql(&self, dialect: Dialect) -> String {
        let of = |(id, part): &Key| format!("id = {id} AND part = {}", quoted(part));
        match self {
            Step::Insert((id, part), row) => {
                let row = row.sql(dialect);
                let names: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
                let values: Vec<&str> = row.iter().map(|(_, value)| &**value).collect();
                let (names, values) = (names.join(", "), values.join(", "));
                let part = quoted(part);
                format!("INSERT INTO things (id, part, {names}) VALUES ({id}, {part}, {values})")
            }
            Step::Update(key, row) => {
                let set: Vec<String> = row
                    .sql(dialect)
                    .iter()
                    .map(|(name, value)| format!("{name} = {value}"))
                    .collect();
                format!("UPDATE things SET {} WHERE {}", set.join(", "), of(key))
            }
            Step::Move(from, (id, part)) => {
                format!("UPDATE things SET id = {id}, part = {} WHERE {}", quoted(part), of(from))
            }
            Step::Delete(key) => format!("DELETE FROM things WHERE {}", of(key)),
            Step::Touch => "UPDATE things SET small = small WHERE id > 0".to_owned(),
        }
    }
}

/// What a database should come to, and what its digest table should tell.
#[derive(Default)]
pub struct Model {
    pub rows: BTreeMap<Key, Row>,
    pub entries: Vec<(String, u64, Change, Option<Hash>, Option<Hash>)>,
}

pub fn key_text((id, part): &Key) -> String {
    let mut text = String::new();
    put(Some(&id.to_string()), &mut text);
    put(Some(part), &mut text);
    text
}

pub fn image(key: &Key, row: &Row) -> Hash {
    ledger::row_image_hash(row.canonical(key).as_bytes())
}

impl Model {
    fn tell(&mut self, key: &Key, before: Option<Hash>, after: Option<Hash>) {
        let kind = match (before, after) {
            (None, _) => Change::Inserted,
            (_, None) => Change::Deleted,
            _ => Change::Updated,
        };
        let text = key_text(key);
        let serial = self.entries.iter().filter(|entry| entry.0 == text).count() as u64;
        self.entries.push((text, serial, kind, before, after));
    }

    /// Whether the step succeeds.
    pub fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Insert(key, row) => {
                if self.rows.contains_key(key) {
                    return false;
                }
                self.tell(key, None, Some(image(key, row)));
                self.rows.insert(key.clone(), row.clone());
            }
            Step::Update(key, row) => {
                if let Some(before) = self.rows.get(key).cloned().filter(|before| before != row) {
                    self.tell(key, Some(image(key, &before)), Some(image(key, row)));
                    self.rows.insert(key.clone(), row.clone());
                }
            }
            Step::Move(from, to) => {
                let Some(row) = self.rows.get(from).cloned().filter(|_| from != to) else {
                    return true;
                };
                if self.rows.contains_key(to) {
                    return false;
                }
                self.tell(from, Some(image(from, &row)), None);
                self.tell(to, None, Some(image(to, &row)));
                self.rows.remove(from);
                self.rows.insert(to.clone(), row);
            }
            Step::Delete(key) => {
                if let Some(before) = self.rows.remove(key) {
                    self.tell(key, Some(image(key, &before)), None);
                }
            }
            Step::Touch => {}
        }
        true
    }

    pub fn sorted(&self) -> Vec<(String, u64, Change, Option<Hash>, Option<Hash>)> {
        let mut entries = self.entries.clone();
        entries.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        entries
    }
}

pub fn reported(entries: &[Entry]) -> Vec<(String, u64, Change, Option<Hash>, Option<Hash>)> {
    let one = |it: &Entry| (it.key.clone(), it.serial, it.kind, it.before, it.after);
    entries.iter().map(one).collect()
}
