//! COPY's text formats beside PostgreSQL's.

use procedure::Column;
use types::{DataType, Value, Zone};

use super::*;

fn text() -> CopyOptions {
    CopyOptions {
        format: CopyFormat::Text,
        delimiter: b'\t',
        null: "\\N".into(),
        header: false,
        quote: b'"',
        escape: b'"',
    }
}

fn csv() -> CopyOptions {
    CopyOptions { format: CopyFormat::Csv, delimiter: b',', null: String::new(), ..text() }
}

type Rows = Vec<Vec<Option<String>>>;

fn parse(options: &CopyOptions, data: &[u8], piece: usize) -> Result<Rows> {
    let mut rows = Rows::new();
    let mut keep = |fields: &Fields<'_>| {
        rows.push(fields.iter().map(|f| f.map(str::to_owned)).collect());
        Ok(())
    };
    let mut parser = CopyParser::new(options);
    for piece in data.chunks(piece) {
        parser.push(piece, &mut keep)?;
    }
    parser.finish(&mut keep)?;
    Ok(rows)
}

fn row(fields: &[Option<&str>]) -> Vec<Option<String>> {
    fields.iter().map(|f| f.map(str::to_owned)).collect()
}

#[test]
fn text_rows_are_the_same_however_the_data_is_cut() {
    let data = b"1\ta\\tb\t\\N\r\n\\x41\\102\t\\\\\tz\\\nq\r\n\\.\r\nignored\n";
    let expected =
        vec![row(&[Some("1"), Some("a\tb"), None]), row(&[Some("AB"), Some("\\"), Some("z\nq")])];
    for piece in 1..data.len() {
        assert_eq!(parse(&text(), data, piece).unwrap(), expected, "pieces of {piece}");
    }
}

#[test]
fn csv_rows_are_the_same_however_the_data_is_cut() {
    let data = b"1,\"a \"\"b\"\"\nc\",\n\"\",x\"y,\"z,3\n";
    let expected = vec![
        row(&[Some("1"), Some("a \"b\"\nc"), None]),
        row(&[Some(""), Some("xy,z"), Some("3")]),
    ];
    for piece in 1..data.len() {
        assert_eq!(parse(&csv(), data, piece).unwrap(), expected, "pieces of {piece}");
    }
}

#[test]
fn an_open_quote_at_the_end_is_an_error_with_its_line() {
    let error = parse(&csv(), b"1,2\n\"3", 4).unwrap_err();
    assert_eq!(error.code(), SqlState::BAD_COPY_FILE_FORMAT);
    assert_eq!(error.fields().detail.as_deref(), Some("COPY line 2."));
}

#[test]
fn what_is_written_is_read_back() {
    let values = ["", "\\N", "a\tb", "q\"uo,te", "line\nend", "\\.", "ü"];
    let column = Column { name: "c".into(), data_type: DataType::Text };
    for options in [text(), csv()] {
        let mut out = Vec::new();
        let mut formatter =
            CopyFormatter::new(&options, &[column.clone(), column.clone()], &Zone::default());
        for value in values {
            formatter.row(&[Value::from(value), Value::Null], &mut out).unwrap();
        }
        let read = parse(&options, &out, 3).unwrap();
        let expected: Rows = values.iter().map(|v| row(&[Some(v), None])).collect();
        assert_eq!(read, expected, "{:?}", options.format);
    }
}

/// Rows, or SQLSTATE, message and line.
type Expected = std::result::Result<
    &'static [&'static [Option<&'static str>]],
    (&'static str, &'static str, u64),
>;

/// Options, data, and what PostgreSQL 15 made of them in a table of as many text columns.
#[rustfmt::skip]
const AS_POSTGRESQL: &[(&str, &[u8], Expected)] = &[
    ("", b"1\\\n\\.\n", Ok(&[&[Some("1\n")]])),
    ("", b"a\\.\n", Ok(&[&[Some("a")]])),
    ("", b"a\\.x\n", Err(("22P04", "end-of-copy marker corrupt", 1))),
    ("", b"a\n\\.", Err(("22P04", "end-of-copy marker corrupt", 2))),
    ("", b"a\n\\.\nrest\n", Ok(&[&[Some("a")]])),
    ("", b"a\\", Ok(&[&[Some("a")]])),
    ("", b"a\r\nb\r\n", Ok(&[&[Some("a")], &[Some("b")]])),
    ("", b"a\rb\r", Ok(&[&[Some("a")], &[Some("b")]])),
    ("", b"a\nb\rc\n", Err(("22P04", "literal carriage return found in data", 2))),
    ("", b"a\r\nb\n", Err(("22P04", "literal newline found in data", 2))),
    ("", b"a\rb\n", Err(("22P04", "literal newline found in data", 2))),
    ("", b"a\r\nb\rc\r\n", Err(("22P04", "literal carriage return found in data", 2))),
    ("", b"a\r\n\\.\n", Err(("22P04", "end-of-copy marker does not match previous newline style", 2))),
    ("", b"a\r\n\\.\r\n", Ok(&[&[Some("a")]])),
    ("", b"a\n\\.\r\n", Err(("22P04", "end-of-copy marker does not match previous newline style", 2))),
    ("", b"\\0\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0x00", 1))),
    ("", b"\\x00\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0x00", 1))),
    ("", b"\x00\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0x00", 1))),
    ("", b"\\xff\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0xff", 1))),
    ("", b"\\303\\251\n", Ok(&[&[Some("é")]])),
    ("", b"\\xc3\\x28\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0xc3 0x28", 1))),
    ("", b"\\x\n", Ok(&[&[Some("x")]])),
    ("", b"\\xg\n", Ok(&[&[Some("xg")]])),
    ("", b"\\8\n", Ok(&[&[Some("8")]])),
    ("", b"\\777\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0xff", 1))),
    ("", b"\\b\\f\\n\\r\\t\\v\\q\\\\\\N\n", Ok(&[&[Some("\x08\x0c\n\r\t\x0bq\\N")]])),
    ("", b"\\N\n", Ok(&[&[None]])),
    ("", b"\\N\\N\n", Ok(&[&[Some("NN")]])),
    ("", b"\n", Ok(&[&[Some("")]])),
    ("", b"", Ok(&[])),
    ("", b"a\\\r\nb\n", Ok(&[&[Some("a\r")], &[Some("b")]])),
    ("", b"a\\\rb\r\n", Ok(&[&[Some("a\rb")]])),
    ("", b"\\.\n", Ok(&[])),
    ("", b"x\n\\.y\n", Err(("22P04", "end-of-copy marker corrupt", 2))),
    ("", b"\\1012\n", Ok(&[&[Some("A2")]])),
    ("", b"\\x414\n", Ok(&[&[Some("A4")]])),
    ("", b"\\\\.\n", Ok(&[&[Some("\\.")]])),
    ("", b"\\\\N\n", Ok(&[&[Some("\\N")]])),
    ("", b"\\xc3\t\\xa9\n", Err(("22021", "invalid byte sequence for encoding \"UTF8\": 0xc3", 1))),
    ("", b"a\\\tb\tc\n", Ok(&[&[Some("a\tb"), Some("c")]])),
    ("", b"\\N\t\\\\N\n", Ok(&[&[None, Some("\\N")]])),
    ("", b"\t\n", Ok(&[&[Some(""), Some("")]])),
    ("", b"a\t\\.\n", Ok(&[&[Some("a"), Some("")]])),
    ("(FORMAT csv)", b"\"a\nb\"\n", Ok(&[&[Some("a\nb")]])),
    ("(FORMAT csv)", b"\\.\n", Ok(&[])),
    ("(FORMAT csv)", b"\"\\.\"\n", Ok(&[&[Some("\\.")]])),
    ("(FORMAT csv)", b"a\\.\n", Ok(&[&[Some("a\\.")]])),
    ("(FORMAT csv)", b"\\.x\n", Ok(&[&[Some("\\.x")]])),
    ("(FORMAT csv)", b"a\rb\n", Err(("22P04", "unquoted newline found in data", 2))),
    ("(FORMAT csv)", b"a\nb\rc\n", Err(("22P04", "unquoted carriage return found in data", 2))),
    ("(FORMAT csv)", b"\"a\rb\"\n", Ok(&[&[Some("a\rb")]])),
    ("(FORMAT csv)", b"\"\\.\n\"\n", Ok(&[&[Some("\\.\n")]])),
    ("(FORMAT csv)", b"\\N\n", Ok(&[&[Some("\\N")]])),
    ("(FORMAT csv)", b"\"\"\n", Ok(&[&[Some("")]])),
    ("(FORMAT csv)", b"\n", Ok(&[&[None]])),
    ("(FORMAT csv)", b"\"x\"\"y\"\n", Ok(&[&[Some("x\"y")]])),
    ("(FORMAT csv)", b"x\"y,z\"w\n", Ok(&[&[Some("xy,zw")]])),
    ("(FORMAT csv)", b"\"x\n", Err(("22P04", "unterminated CSV quoted field", 1))),
    ("(FORMAT csv)", b"\"a\"b\"c\"\n", Ok(&[&[Some("abc")]])),
    ("(FORMAT csv)", b"\"\n\\.\n\"\n", Ok(&[&[Some("\n\\.\n")]])),
    ("(FORMAT csv, ESCAPE '\\')", b"\"a\\\"b\"\n", Ok(&[&[Some("a\"b")]])),
    ("(FORMAT csv, ESCAPE '\\')", b"\"a\\b\"\n", Ok(&[&[Some("a\\b")]])),
    ("(FORMAT csv, ESCAPE '\\')", b"\"a\\\\\"\n", Ok(&[&[Some("a\\")]])),
    ("(FORMAT csv, ESCAPE '\\')", b"a\\\"b\"\n", Ok(&[&[Some("a\\b")]])),
    ("(DELIMITER '|')", b"a|b\\|c\n", Ok(&[&[Some("a"), Some("b|c")]])),
    ("(DELIMITER '|', NULL 'NULL')", b"a|NULL\n", Ok(&[&[Some("a"), None]])),
    ("(NULL '')", b"\\N\n", Ok(&[&[Some("N")]])),
    ("(NULL '')", b"\n", Ok(&[&[None]])),
    ("(HEADER)", b"h\na\n", Ok(&[&[Some("a")]])),
];

fn options(given: &str) -> Result<CopyOptions> {
    let mut parsed = crate::syntax::parse::parse(&format!("COPY t TO STDOUT {given}"))?;
    Ok(parsed.remove(0).copy_options()?.unwrap())
}

#[test]
fn data_are_read_as_postgresql_reads_them_however_they_are_cut() {
    for (given, data, expected) in AS_POSTGRESQL {
        let options = options(given).unwrap();
        for piece in 1..=data.len().max(1) {
            let read = parse(&options, data, piece);
            let read = read.map_err(|error| {
                let fields = error.fields();
                let detail = fields.detail.clone().unwrap();
                (fields.code.as_str().to_owned(), fields.message.clone(), detail)
            });
            let expected = match expected {
                Ok(rows) => Ok(rows.iter().map(|fields| row(fields)).collect::<Rows>()),
                Err((code, message, line)) => {
                    Err(((*code).into(), (*message).into(), format!("COPY line {line}.")))
                }
            };
            let data = String::from_utf8_lossy(data);
            assert_eq!(read, expected, "{given} {data:?} in pieces of {piece}");
        }
    }
}

#[test]
fn what_could_not_be_read_again_is_no_option() {
    for (given, code, message) in [
        ("(DELIMITER 'a')", "22023", "COPY delimiter cannot be \"a\""),
        ("(DELIMITER '\\')", "22023", "COPY delimiter cannot be \"\\\""),
        ("(DELIMITER E'\\n')", "22023", "COPY delimiter cannot be newline or carriage return"),
        (
            "(NULL E'\\n')",
            "22023",
            "COPY null representation cannot use newline or carriage return",
        ),
        (
            "(NULL 'a|b', DELIMITER '|')",
            "0A000",
            "COPY delimiter must not appear in the NULL specification",
        ),
        ("(QUOTE '\"')", "0A000", "COPY quote available only in CSV mode"),
        ("(ESCAPE 'x')", "0A000", "COPY escape available only in CSV mode"),
        ("(FORMAT csv, QUOTE ',')", "22023", "COPY delimiter and quote must be different"),
        (
            "(FORMAT csv, NULL '\"')",
            "0A000",
            "CSV quote character must not appear in the NULL specification",
        ),
        ("(FORMAT binary, HEADER)", "0A000", "cannot specify HEADER in BINARY mode"),
        ("(FORMAT binary, NULL 'x')", "42601", "cannot specify NULL in BINARY mode"),
    ] {
        let error = options(given).unwrap_err();
        assert_eq!((error.code().as_str(), error.message()), (code, message), "{given}");
    }
    for given in ["(DELIMITER 'A')", "(FORMAT csv, DELIMITER 'a')", "CSV QUOTE '~'"] {
        options(given).unwrap();
    }
}

#[test]
fn no_file_or_program_of_the_server_is_read_or_written() {
    for copy in [
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "COPY t TO PROGRAM 'id'",
        "COPY t TO 'relative'",
        "COPY t FROM PROGRAM 'id'",
        "COPY t (a) FROM '/tmp/x' WITH (FORMAT csv)",
        "copy (values (1)) to '/tmp/x' csv",
    ] {
        let error = crate::syntax::parse::parse(copy).unwrap_err();
        assert_eq!(error.code(), SqlState::INSUFFICIENT_PRIVILEGE, "{copy}");
        assert!(error.fields().hint.as_deref().unwrap().contains("\\copy"), "{copy}");
    }
    for copy in ["COPY t FROM STDIN", "COPY t TO STDOUT", "COPY (SELECT 1) TO STDIN"] {
        crate::syntax::parse::parse(copy).unwrap();
    }
}

#[test]
fn rows_are_written_as_postgresql_writes_them() {
    let write = |given: &str, values: &[Option<&str>]| {
        let column = Column { name: "c".into(), data_type: DataType::Text };
        let columns = vec![column; values.len()];
        let mut formatter =
            CopyFormatter::new(&options(given).unwrap(), &columns, &Zone::default());
        let values: Vec<_> =
            values.iter().map(|value| value.map_or(Value::Null, Value::from)).collect();
        let mut out = Vec::new();
        formatter.row(&values, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let control = "\u{8}\u{c}\n\r\t\u{b}\\N\u{1}|";
    for (given, values, expected) in [
        ("", &[Some(control)][..], "\\b\\f\\n\\r\\t\\v\\\\N\u{1}|\n"),
        ("(DELIMITER '|')", &[Some("a|\tb"), None], "a\\|\\tb|\\N\n"),
        ("(FORMAT csv)", &[Some("\\.")], "\"\\.\"\n"),
        ("(FORMAT csv)", &[Some("\\."), Some("x")], "\\.,x\n"),
        ("(FORMAT csv)", &[Some(""), None], "\"\",\n"),
        ("(FORMAT csv, ESCAPE '\\')", &[Some("a\\"), Some("q\"x")], "a\\,\"q\\\"x\"\n"),
    ] {
        assert_eq!(write(given, values), expected, "{given} {values:?}");
    }
}
