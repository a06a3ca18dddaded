//! `tally export`: a ledger's tables, as files that other programs read.
//!
//! The folder's state is read as a start of the node would read it, and nothing is changed; so a
//! backup will do, and for an earlier state one is restored first. Rows come in the order of
//! their keys, as COPY writes them; in Parquet files in none.
//!
//! No file is ever overwritten: if one is there, nothing is written at all. A file that could not
//! be written to its end is removed, so what is there is whole, and the rest can be asked for by
//! name.
//!
//! A Parquet column of type `numeric` without a precision is a decimal(38, 10). If one number of a
//! table does not fit that, all such columns of the table are strings, and it is said.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::{Language, recover};
use procedure::Column;
use serde_json::json;
use sql::copy::{CopyFormatter, CopyOptions};
use sql::names;
use sql::session::schema::Schema;
use storage::{LATEST, Store, Table};
use types::ColumnId;
use types::printable::{printable, printable_json};

use crate::cli::{self, Exit, Format, Output};
use crate::database::workers;
use crate::folders;

pub fn run(arguments: &cli::Export, output: Output) -> Result<Exit> {
    let files = folders::open(&arguments.data)?;
    let language = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let replica = recover(files, &language, workers(0), &mut |_| ())?.replica;
    let chosen = chosen(replica.store(), &arguments.table)?;
    std::fs::create_dir_all(&arguments.to)
        .with_context(|| format!("cannot make the folder {}", arguments.to.display()))?;
    let path_of = |table: Arc<Table>| {
        let name = format!("{}.{}", file_stem(name_of(&table)), arguments.format.suffix());
        (table, arguments.to.join(name))
    };
    let files: Vec<(Arc<Table>, PathBuf)> = chosen.into_iter().map(path_of).collect();
    for (_, path) in &files {
        ensure!(!path.exists(), "{} exists already; nothing was written", path.display());
    }
    for (table, path) in files {
        let rows = match arguments.format {
            Format::Csv => write_csv(&table, &path),
            #[cfg(feature = "parquet")]
            Format::Parquet => write_parquet(replica.store(), &table, &path),
        };
        let rows = rows.with_context(|| format!("cannot write {}", path.display()))?;
        match output {
            Output::Text => {
                let path = path.display().to_string();
                println!("{:<40}{rows:>14} rows", printable(&path));
            }
            Output::Json => {
                let page = json!({
                    "table": name_of(&table), "file": path.display().to_string(),
                    "rows": rows, "height": replica.head().height,
                });
                println!("{}", printable_json(&page.to_string()));
            }
        }
    }
    Ok(Exit::Ok)
}

/// As its owner wrote it, where it is in the schema that is meant if none is said.
fn name_of(table: &Table) -> &str {
    let key = &table.schema().name;
    match names::schema_of(key) {
        names::PUBLIC => names::bare(key),
        _ => key,
    }
}

/// The tables of these names, or all.
fn chosen(store: &Store, names: &[String]) -> Result<Vec<Arc<Table>>> {
    let tables = store.tables();
    if names.is_empty() {
        return Ok(tables);
    }
    let named = |name: &String| {
        let found = tables.iter().find(|table| name_of(table) == name.as_str());
        found.cloned().with_context(|| {
            let all: Vec<&str> = tables.iter().map(|table| name_of(table)).collect();
            format!("there is no table \"{name}\"; there are: {}", all.join(", "))
        })
    };
    let mut chosen: Vec<Arc<Table>> = names.iter().map(named).collect::<Result<_>>()?;
    chosen.sort_by_key(|table| table.id());
    chosen.dedup_by_key(|table| table.id());
    Ok(chosen)
}

/// A table's name, which a client has chosen, as one of a file in this folder: bytes that mean
/// something to some system of files are written `%XX`, and no two tables share a file.
fn file_stem(table: &str) -> String {
    let mut stem = String::with_capacity(table.len());
    for byte in table.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => stem.push(byte.into()),
            _ => stem.push_str(&format!("%{byte:02X}")),
        }
    }
    stem
}

/// Fills a new file, and takes it away again if that fails.
fn create<T>(path: &Path, fill: impl FnOnce(BufWriter<File>) -> Result<T>) -> Result<T> {
    let filled = fill(BufWriter::new(File::create_new(path)?));
    if filled.is_err() {
        std::fs::remove_file(path)?;
    }
    filled
}

fn write_csv(table: &Table, path: &Path) -> Result<u64> {
    create(path, |file| fill_csv(table, file))
}

fn fill_csv(table: &Table, mut file: BufWriter<File>) -> Result<u64> {
    let schema = table.schema();
    let columns: Vec<ColumnId> = schema.visible_columns().map(|(id, _)| id).collect();
    let described = schema.visible_columns().map(|(_, column)| Column {
        name: column.name.to_string(),
        data_type: column.data_type.clone(),
    });
    let described: Vec<Column> = described.collect();
    let mut formatter =
        CopyFormatter::new(&CopyOptions::csv_with_header(), &described, &types::Zone::default());
    let mut line = Vec::new();
    formatter.header(&mut line);
    let (mut rows, mut written) = (0, Ok(()));
    let (low, high) = (Bound::Unbounded, Bound::Unbounded);
    table.scan(0, low, high, false, LATEST, &columns, &mut |_, _, row| {
        let row = formatter.row(row, &mut line).map_err(std::io::Error::other);
        written = row.and_then(|()| file.write_all(&line));
        line.clear();
        rows += 1;
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    file.write_all(&line)?;
    file.flush()?;
    Ok(rows)
}

#[cfg(feature = "parquet")]
fn write_parquet(store: &Arc<Store>, table: &Table, path: &Path) -> Result<u64> {
    // Images that are read once.
    let images = Arc::new(snapshot::Images::new(Arc::clone(store), 0));
    let scan = || images.scan(Arc::new(store.snapshot()), table.id()).context("no such table");
    let first = scan()?;
    let written = create(path, |file| fill_parquet(&first, file));
    let unfit = |error: &types::Error| error.code() == types::SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
    match written {
        Err(error) if error.downcast_ref().is_some_and(unfit) => {
            let name = &table.schema().name;
            eprintln!("{name}: columns of type numeric are written as text, since {error}");
            let scan = scan()?.with_numerics_as_text();
            create(path, |file| fill_parquet(&scan, file))
        }
        written => written,
    }
}

/// Straight from the images of the rows, group after group, in the order in which they lie there.
#[cfg(feature = "parquet")]
fn fill_parquet(scan: &snapshot::TableScan, file: BufWriter<File>) -> Result<u64> {
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    let schema = scan.table().schema();
    let columns: Vec<ColumnId> = schema.visible_columns().map(|(id, _)| id).collect();
    let schema = scan.schema(&columns);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))?;
    let mut rows = 0;
    for group in 0..scan.groups() {
        let batch = scan.read(group, &columns)?.into_batch(Arc::clone(&schema))?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
    }
    writer.into_inner()?.flush()?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::file_stem;

    #[test]
    fn a_table_s_name_chooses_no_folder() {
        assert_eq!(file_stem("order_lines-2"), "order_lines-2");
        assert_eq!(file_stem("../../x"), "%2E%2E%2F%2E%2E%2Fx");
        assert_eq!(file_stem("/tmp/x"), "%2Ftmp%2Fx");
        assert_ne!(file_stem("a%2F"), file_stem("a/"));
    }
}
