//! YCSB (Cooper et al., SoCC 2010), in the transactional form of the concurrency-control studies:
//! a transaction takes ten keys, reads some and overwrites a field of the others.

use std::io::{self, Write};

use crate::PgbenchScript;
use crate::skew::Skew;

pub const SCHEMA: &str = include_str!("../sql/ycsb/schema.sql");
pub const PROCEDURES: &str = include_str!("../sql/ycsb/procedures.sql");

pub const KEYS_PER_TRANSACTION: u32 = 10;
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

/// Writes the rows `first..=last` of `usertable` as COPY's text format has them.
pub fn write_rows(first: u64, last: u64, out: &mut impl Write) -> io::Result<()> {
    for key in first..=last {
        write!(out, "{key}")?;
        for field in 0..FIELDS {
            let stem = format!("{key}.{field}.");
            write!(out, "\t{stem}{}", "x".repeat(FIELD_BYTES - stem.len().min(FIELD_BYTES)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Ten keys, of which `writes` are written and the others read.
pub fn script(skew: &Skew, writes: u32) -> PgbenchScript {
    let writes = writes.min(KEYS_PER_TRANSACTION);
    let names: Vec<String> = (1..=KEYS_PER_TRANSACTION).map(|i| format!("key{i}")).collect();
    let draws: String = names.iter().map(|name| skew.pgbench(name)).collect();
    let (written, read) = names.split_at(writes as usize);
    let array = |names: &[String]| {
        let keys: Vec<String> = names.iter().map(|name| format!(":{name}")).collect();
        format!("ARRAY[{}]::bigint[]", keys.join(", "))
    };
    PgbenchScript {
        name: "ycsb",
        weight: 1,
        text: format!(
            "{draws}SELECT ycsb({}, {}, '{}');\n",
            array(read),
            array(written),
            "y".repeat(FIELD_BYTES)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_ten_fields_of_a_hundred_bytes() {
        let mut rows = Vec::new();
        write_rows(1, 3, &mut rows).unwrap();
        for line in String::from_utf8(rows).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').skip(1).collect();
            assert_eq!(fields.len(), FIELDS);
            assert!(fields.iter().all(|field| field.len() == FIELD_BYTES));
        }
    }

    #[test]
    fn a_script_reads_and_writes_ten_keys() {
        let text = script(&Skew::uniform(1000), 3).text;
        assert_eq!(text.matches("\\set key").count(), 10);
        assert!(text.contains("ARRAY[:key1, :key2, :key3]::bigint[], 'y"));
        assert!(script(&Skew::uniform(9), 0).text.contains("ARRAY[]::bigint[], 'y"));
    }
}
