//! `tally export`: what a ledger holds, as files.

use super::*;

const TABLES: &str = r#"
    CREATE TABLE plain (id int PRIMARY KEY, price numeric(10,2), free numeric, note text, day date);
    INSERT INTO plain VALUES
        (2, 12.50, 0.12345678901234567890, NULL, '2026-03-01'),
        (1, -0.05, 1.5, E'a "quoted", text\nof two lines', NULL),
        (3, 0, NULL, '', '1999-12-31');
    DELETE FROM plain WHERE id = 3;
    INSERT INTO plain VALUES (4, 1, 2, '', '1999-12-31');
    CREATE TABLE "../../out" (x int PRIMARY KEY);
    INSERT INTO "../../out" VALUES (7);
    CREATE TABLE "/tmp/a;b" (x int PRIMARY KEY);
    CREATE TABLE "Ünï %2F" (x text PRIMARY KEY);
"#;

/// A ledger with these tables, on which no node runs any more.
fn ledger(folder: &Path) -> std::path::PathBuf {
    let data = folder.join("data");
    let mut node = Node::start(&data);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { node.connect().await.batch_execute(TABLES).await.unwrap() });
    assert_eq!(node.signal(rustix::process::Signal::TERM), Some(0));
    data
}

fn export(data: &Path, to: &Path, more: &[&str]) -> Output {
    let arguments = ["--output", "json", "export", "--data", path(data), "--to", path(to)];
    run(&[&arguments[..], more].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn tables_become_files_in_the_folder_whatever_they_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let data = ledger(folder.path());
    let to = folder.path().join("deep/export");
    let exported = export(&data, &to, &[]);
    assert!(exported.status.success(), "{exported:?}");
    let files = ["%2E%2E%2F%2E%2E%2Fout.csv", "%2Ftmp%2Fa%3Bb.csv", "%C3%9Cn%C3%AF%20%252F.csv"];
    assert_eq!(names(&to), [&files[..], &["plain.csv"]].concat());
    assert_eq!(names(folder.path()), ["data", "deep"], "nothing was written elsewhere");
    let text = String::from_utf8(exported.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let plain = lines.iter().find(|line| line["table"] == "plain").unwrap();
    assert_eq!(plain["rows"], 3);
    let expected = "id,price,free,note,day\n\
        1,-0.05,1.5,\"a \"\"quoted\"\", text\nof two lines\",\n\
        2,12.50,0.12345678901234567890,,2026-03-01\n\
        4,1.00,2,\"\",1999-12-31\n";
    assert_eq!(std::fs::read_to_string(to.join("plain.csv")).unwrap(), expected);
    assert_eq!(std::fs::read_to_string(to.join(files[0])).unwrap(), "x\n7\n");

    // What was written can be loaded again, and is the same.
    let other = Node::start(&folder.path().join("other"));
    let loaded = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = other.connect().await;
        client.batch_execute(TABLES).await.unwrap();
        client.batch_execute("DELETE FROM plain").await.unwrap();
        let sink = client.copy_in("COPY plain FROM STDIN WITH (FORMAT csv, HEADER)").await.unwrap();
        let mut sink = std::pin::pin!(sink);
        futures::SinkExt::send(&mut sink, bytes::Bytes::from(expected)).await.unwrap();
        assert_eq!(sink.finish().await.unwrap(), 3);
        let rows =
            client.query("SELECT free::text, note FROM plain ORDER BY id", &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<_>>()
    });
    let text = |text: &str| Some(text.to_owned());
    let expected: [(Option<String>, Option<String>); 3] = [
        (text("1.5"), text("a \"quoted\", text\nof two lines")),
        (text("0.12345678901234567890"), None),
        (text("2"), text("")),
    ];
    assert_eq!(loaded, expected);
}

#[test]
fn a_file_that_is_there_stops_an_export_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let data = ledger(folder.path());
    let to = folder.path().join("export");
    let one = export(&data, &to, &["--table", "plain", "--table", "plain"]);
    assert!(one.status.success(), "{one:?}");
    assert_eq!(names(&to), ["plain.csv"]);
    std::fs::write(to.join("plain.csv"), "mine").unwrap();
    let refused = export(&data, &to, &[]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("plain.csv exists already"), "{said}");
    assert_eq!(names(&to), ["plain.csv"]);
    assert_eq!(std::fs::read_to_string(to.join("plain.csv")).unwrap(), "mine");
    // The rest can be asked for.
    assert!(export(&data, &to, &["--table", "../../out"]).status.success());
    assert_eq!(names(&to).len(), 2);
    let unknown = export(&data, &to, &["--table", "nothing"]);
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("there is no table \"nothing\""));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_hold_every_digit() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let folder = tempfile::tempdir().unwrap();
    let data = ledger(folder.path());
    let to = folder.path().join("export");
    let exported = export(&data, &to, &["--format", "parquet"]);
    assert!(exported.status.success(), "{exported:?}");
    let said = String::from_utf8(exported.stderr).unwrap();
    assert!(said.contains("plain: columns of type numeric are written as text"), "{said}");
    assert_eq!(names(&to).len(), 4);
    let file = std::fs::File::open(to.join("plain.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
    let rows: Vec<String> = rows.collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[0].contains("free: \"0.12345678901234567890\""), "{rows:?}");
    assert!(rows[0].contains("price: 12.50"), "{rows:?}");
}
