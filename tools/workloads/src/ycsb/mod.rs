//! YCSB (Cooper et al., SoCC 2010), in the transactional form of the concurrency-control studies:
//! a transaction does something to each of some different keys, in no order.
//!
//! The defaults are five reads of whole rows and five blind writes of one field, on a million rows
//! of ten fields of ten bytes. Other studies are settings away:
//!
//! ```text
//! Harmony            rows=10000 draw=chance writes=0 commands=50 (or writes=50: blind)
//! Harmony, hotspot   … hot_keys=1 hot_accesses=50 reads=0 commands=100
//! QueCC              operations=16 writes=0 rmws=50 columns=10 column_bytes=5 … 200
//! ```
//!
//! What is drawn are keys by kind of operation, and each kind has its array: the operations are
//! independent of each other, so their order within a transaction is of no consequence.

mod programs;

use kit::random::Random;
use procedure::Procedure;
use procedure::build::Tables;
use types::{Result, Value};

use crate::PgbenchScript;
use crate::settings::{Reader, Setting, invalid, setting};
use crate::skew::Skew;
use crate::text::letters;
use crate::workload::{Call, Entry, Fill, Workload};

pub const ENTRY: Entry = Entry {
    name: "ycsb",
    about: "YCSB: some operations on different keys, by Zipf or a hot spot",
    settings: SETTINGS,
    read: |reader| Ok(Box::new(Ycsb::read(reader)?)),
};

const SETTINGS: &[Setting] = &[
    setting("rows", "1000000", "rows that are loaded"),
    setting("columns", "10", "text fields of a row"),
    setting("column_bytes", "10", "bytes of a field"),
    setting("operations", "10", "operations of a transaction, on as many keys"),
    setting("theta", "0", "Zipf skew of the keys, 0 to 1.2"),
    setting("hot_keys", "1", "percent of the keys that are hot"),
    setting("hot_accesses", "0", "percent of the operations on hot keys; above 0 instead of Zipf"),
    setting("draw", "exact", "exact: every transaction has the shares; chance: by the dice"),
    setting("reads", "50", "percent of operations that read a whole row"),
    setting("writes", "50", "percent that overwrite a field unread"),
    setting("rmws", "0", "percent that read a row and write a field made of it"),
    setting("commands", "0", "percent that change a field by an UPDATE of its own value"),
    setting("scans", "0", "percent that scan a range"),
    setting("scan_rows", "50", "rows of a scan"),
    setting("inserts", "0", "percent that add a row"),
];

const SCHEMA: &str = include_str!("../../sql/ycsb/schema.sql");
const PROCEDURES: &str = include_str!("../../sql/ycsb/procedures.sql");

const KINDS: [&str; 6] = ["reads", "writes", "rmws", "commands", "scans", "inserts"];
const READS: usize = 0;
const WRITES: usize = 1;
const SCANS: usize = 4;
const INSERTS: usize = 5;

/// Tables and procedures for rows of so many fields.
pub fn schema(columns: usize) -> String {
    let list = |separator: &str, field: fn(usize) -> String| {
        (0..columns).map(field).collect::<Vec<_>>().join(separator)
    };
    [SCHEMA, PROCEDURES]
        .concat()
        .replace("{columns}", &list(",\n    ", |n| format!("field{n} text NOT NULL")))
        .replace("{fields}", &list(", ", |n| format!("field{n}")))
        .replace("{contents}", &list(", ", |_| "content".to_owned()))
}

/// The procedures of [`schema`], in its order, by the builder.
pub fn built(tables: &Tables, columns: usize) -> Result<Vec<Procedure>> {
    programs::all(tables, columns)
}

/// For pgbench: ten keys, of which `writes` are written and the others read.
pub fn script(skew: &Skew, writes: u32, column_bytes: usize) -> PgbenchScript {
    const KEYS: u32 = 10;
    let names: Vec<String> = (1..=KEYS).map(|i| format!("key{i}")).collect();
    let draws: String = names.iter().map(|name| skew.pgbench(name)).collect();
    let (written, read) = names.split_at(writes.min(KEYS) as usize);
    let array = |names: &[String]| {
        let keys: Vec<String> = names.iter().map(|name| format!(":{name}")).collect();
        format!("ARRAY[{}]::bigint[]", keys.join(", "))
    };
    let (read, written, content) = (array(read), array(written), "y".repeat(column_bytes));
    let text = format!("{draws}SELECT ycsb({read}, {written}, '{content}');\n");
    PgbenchScript { name: "ycsb", weight: 1, text }
}

#[derive(Clone)]
struct Ycsb {
    columns: usize,
    column_bytes: u64,
    operations: u32,
    skew: Skew,
    exact: bool,
    /// Percentages of [`KINDS`].
    shares: [u32; 6],
    scan_rows: u64,
}

impl Ycsb {
    fn read(reader: &Reader<'_>) -> Result<Ycsb> {
        let rows = reader.number("rows", 1..=1_000_000_000)?;
        let theta = reader.number("theta", 0.0..=1.2)?;
        let (hot_keys, hot_accesses) =
            (reader.percent("hot_keys")?, reader.percent("hot_accesses")?);
        let mut shares = [0; 6];
        for (share, kind) in shares.iter_mut().zip(KINDS) {
            *share = reader.percent(kind)?;
        }
        if shares.iter().sum::<u32>() != 100 {
            return Err(invalid(format!("{} must sum up to 100", KINDS.join(", "))));
        }
        Ok(Ycsb {
            columns: reader.number("columns", 1..=1_000)?,
            column_bytes: reader.number("column_bytes", 1..=100_000)?,
            operations: reader.number("operations", 1..=10_000)?,
            skew: match hot_accesses {
                0 => Skew::zipf(rows, theta),
                _ => Skew::hotspot(rows, rows * u64::from(hot_keys) / 100, hot_accesses),
            },
            exact: reader.choice("draw", &[("exact", true), ("chance", false)])?,
            shares,
            scan_rows: reader.number("scan_rows", 1..=1_000_000)?,
        })
    }

    /// How many operations of each kind a transaction has.
    fn counts(&self, random: &mut Random) -> [u32; 6] {
        let mut counts = [0; 6];
        if self.exact {
            // Rounded such that they sum up to all of them.
            let (mut share, mut given) = (0, 0);
            for (count, kind) in counts.iter_mut().zip(self.shares) {
                share += kind;
                *count = (self.operations * share + 50) / 100 - given;
                given += *count;
            }
        } else {
            for _ in 0..self.operations {
                let drawn = random.below(100) as u32;
                let mut below = 0;
                let kind = self.shares.iter().position(|share| {
                    below += share;
                    drawn < below
                });
                counts[kind.unwrap_or(READS)] += 1;
            }
        }
        counts
    }

    fn call(&self, random: &mut Random, next_key: &mut u64) -> Call {
        let counts = self.counts(random);
        let on_rows: u32 = counts[..INSERTS].iter().sum();
        let mut keys = self.skew.distinct_keys(on_rows as usize, random).into_iter();
        let mut array = |kind: usize| {
            let keys = keys.by_ref().take(counts[kind] as usize).map(int);
            Value::array(keys.collect::<Vec<_>>())
        };
        let [reads, writes, rmws, commands, scans] = [READS, WRITES, 2, 3, SCANS].map(&mut array);
        let content = Value::text(letters(random, self.column_bytes..=self.column_bytes));
        if counts[READS] + counts[WRITES] == self.operations {
            return Call { procedure: 0, arguments: [reads, writes, content].into() };
        }
        let inserts = (0..counts[INSERTS]).map(|_| {
            *next_key += 1;
            int(*next_key)
        });
        let inserts = Value::array(inserts.collect::<Vec<_>>());
        let scan_rows = int(self.scan_rows);
        let arguments = [reads, writes, rmws, commands, scans, scan_rows, inserts, content];
        Call { procedure: 1, arguments: arguments.into() }
    }
}

fn int(number: u64) -> Value {
    Value::Int(number as i64)
}

impl Workload for Ycsb {
    fn schema(&self) -> String {
        schema(self.columns)
    }

    fn procedures(&self) -> Vec<&'static str> {
        vec!["ycsb", "ycsb_mixed"]
    }

    fn programs(&self, tables: &Tables) -> Result<Vec<Procedure>> {
        built(tables, self.columns)
    }

    fn fills(&self) -> Vec<Fill> {
        let (columns, bytes) = (self.columns, self.column_bytes);
        vec![Fill::rows("usertable", self.skew.keys(), move |key| {
            let mut random = Random::new(key);
            let fields = (0..columns).map(|_| Value::text(letters(&mut random, bytes..=bytes)));
            std::iter::once(int(key)).chain(fields).collect()
        })]
    }

    fn calls(&self, seed: u64) -> Box<dyn Iterator<Item = Call> + Send> {
        let ycsb = self.clone();
        let mut random = Random::new(seed);
        let mut next_key = ycsb.skew.keys();
        Box::new(std::iter::repeat_with(move || ycsb.call(&mut random, &mut next_key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_defaults_read_five_rows_and_write_five_others() {
        let ycsb = ENTRY.make(&Settings::default().with("rows", 100)).unwrap();
        for call in ycsb.calls(1).take(100) {
            assert_eq!(call.procedure, 0);
            let mut keys = Vec::new();
            for array in &call.arguments[..2] {
                let array = array.as_array().unwrap();
                assert_eq!(array.len(), 5);
                keys.extend(array.iter().map(|key| key.as_int().unwrap()));
            }
            assert!(keys.windows(2).any(|pair| pair[0] > pair[1]), "sorted: {keys:?}");
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 10);
        }
    }

    #[test]
    fn shares_hold_exactly_or_by_the_dice() {
        let settings = Settings::default()
            .with("rows", 1000)
            .with("operations", 16)
            .with("reads", 25)
            .with("writes", 25)
            .with("rmws", 20)
            .with("commands", 10)
            .with("scans", 10)
            .with("inserts", 10);
        for draw in ["exact", "chance"] {
            let ycsb = ENTRY.make(&settings.clone().with("draw", draw)).unwrap();
            let mut counts = [0; 6];
            for call in ycsb.calls(1).take(1000) {
                let arrays = call.arguments.iter().filter_map(Value::as_array);
                let sizes: Vec<usize> = arrays.map(<[Value]>::len).collect();
                assert_eq!(sizes.iter().sum::<usize>(), 16);
                counts.iter_mut().zip(sizes).for_each(|(count, size)| *count += size);
            }
            for (count, share) in counts.into_iter().zip([25, 25, 20, 10, 10, 10]) {
                let seen = count as f64 / 160.0;
                assert!((seen - f64::from(share)).abs() < 4.0, "{draw}: {seen} {share}");
            }
        }
        assert!(ENTRY.make(&settings.with("reads", 26)).is_err());
    }

    #[test]
    fn a_script_reads_and_writes_ten_keys() {
        let text = script(&Skew::uniform(1000), 3, 100).text;
        assert_eq!(text.matches("\\set key").count(), 10);
        assert!(text.contains("ARRAY[:key1, :key2, :key3]::bigint[], 'y"));
        assert!(script(&Skew::uniform(9), 0, 10).text.contains("ARRAY[]::bigint[], 'y"));
    }
}
