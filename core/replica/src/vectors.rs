//! The test vectors of `docs/transaction-format.md`, generated and compared.
//! `UPDATE_VECTORS=1 cargo test -p replica vectors` writes them anew; a change there is a change of
//! the format. What the bytes mean is written by hand here, so that a second reader,
//! `clients/read_transaction.py`, can be held against it.

use std::ops::Bound;
use std::process::Command;

use bytes::Bytes;
use concurrency::{
    Expectation, Interactive, Outcome, RangeDigest, RangeRequirement, RowRequirement,
};
use ledger::hash::to_hex;
use procedure::ProgramResult;
use procedure::access::Range;
use serde_json::{Value as Json, json};
use types::numeric::Numeric;
use types::{
    DataType, Error, Interval, Jsonb, Key, Origin, SqlState, Stamp, TableId, Value, ZonedTime,
};

use crate::parameter_types::ParameterTypes;
use crate::transaction::outcome::{Fate, imaged};
use crate::transaction::{
    Body, Endorsed, RowChange, RowImage, RowWrite, SchemaSeen, encode_outcome,
};

const SQL: &str = "UPDATE t SET a = a + $1";

fn statement(types: &[Option<DataType>]) -> Body {
    Body::statement(SQL, ParameterTypes::new(types), vec![Value::Int(-3), Value::Null])
}

/// Of more digits than any integer of a machine has.
const LONG_NUMBER: &str = "1234567890123456789012345678901234567890.0123456789";

fn all_values() -> Vec<Value> {
    vec![
        Value::Bool(false),
        Value::Int(i64::MIN),
        Value::Float(-0.5),
        Value::Numeric("-0.05".parse().unwrap()),
        Value::Numeric(LONG_NUMBER.parse().unwrap()),
        Value::Numeric(Numeric::NAN),
        Value::Numeric(Numeric::INFINITY),
        Value::Numeric(Numeric::NEG_INFINITY),
        Value::from("é"),
        Value::Bytes(vec![0, 255].into()),
        Value::Uuid([7; 16]),
        Value::Date(-1),
        Value::Timestamp(1),
        Value::Timestamptz(300),
        Value::Array(vec![Value::Int(1), Value::Null].into()),
    ]
}

/// Intervals and times of day, as parameters that were declared so.
fn of_time() -> (Body, Json) {
    let types = [DataType::INTERVAL, DataType::Time(None), DataType::Timetz(None)].map(Some);
    let arguments = vec![
        Value::Interval(Interval::new(14, -3, -4_000_000)),
        Value::Time(86_400_000_000),
        Value::Timetz(ZonedTime { us: 1, west_s: -19_800 }),
    ];
    let body = Body::statement(SQL, ParameterTypes::new(&types), arguments);
    let means = json!({
        "statement": SQL,
        "types": ["interval", "time", "timetz"],
        "arguments": [
            { "interval": [14, -3, -4_000_000] }, { "time": 86_400_000_000_i64 },
            { "timetz": [1, -19_800] },
        ],
    });
    (body, means)
}

fn interactive() -> (Body, Json) {
    let key = Key::from(&[1, 2, 3][..]);
    let read = |stamp| RowRequirement { table: TableId(3), key: key.clone(), stamp };
    let (low, high) = (Bound::Excluded(key.clone()), Bound::Unbounded);
    let range = Range { table: TableId(3), index: 1, low, high, reverse: true };
    let expected = Expectation { count: 2, rows: vec![[Value::Int(8)].into()] };
    let transaction = Interactive {
        now_us: -7,
        rows: vec![read(None), read(Some(Stamp::new(4, 5)))],
        ranges: vec![RangeRequirement {
            range,
            digest: RangeDigest::from_parts(9, true, [1, u64::MAX]),
            seal: None,
        }],
        writes: vec![(statement(&[]), expected)],
    };
    let seen = SchemaSeen { version: 300, whole: false };
    let body = Body::Interactive { seen, transaction };
    let means = json!({
        "now": -7,
        "schema_version": 300,
        "whole_schema": false,
        "rows_read": [
            { "table": 3, "key": "010203", "stamp": 0 },
            { "table": 3, "key": "010203", "stamp": (4 << 24) + 5 },
        ],
        "ranges_read": [{
            "table": 3, "index": 1, "backwards": true,
            "low": { "beyond": "010203" }, "high": null,
            "rows": 9, "stopped": true, "digest": "0000000000000001ffffffffffffffff",
        }],
        "writes": [{ "statement": SQL, "arguments": [-3, null], "count": 2, "answer": [[8]] }],
    });
    (body, means)
}

fn migration() -> (Body, Json) {
    let ddl = "CREATE TABLE t (a int)";
    let expected = Expectation { count: 1, rows: Vec::new() };
    let schema = (Body::Schema { text: ddl.into() }, Expectation::default());
    let transaction = Interactive {
        now_us: 5,
        rows: Vec::new(),
        ranges: Vec::new(),
        writes: vec![schema, (statement(&[]), expected)],
    };
    let means = json!({
        "now": 5,
        "schema_version": 3,
        "whole_schema": true,
        "rows_read": [],
        "ranges_read": [],
        "writes": [
            { "schema": ddl, "count": 0, "answer": [] },
            { "statement": SQL, "arguments": [-3, null], "count": 1, "answer": [] },
        ],
    });
    let seen = SchemaSeen { version: 3, whole: true };
    (Body::Interactive { seen, transaction }, means)
}

fn endorsed() -> (Body, Json) {
    let (table, key) = (TableId(3), Key::from(&[1, 2, 3][..]));
    let (low, high) = (Bound::Included(key.clone()), Bound::Unbounded);
    let range = Range { table, index: 0, low, high, reverse: false };
    let digest = RangeDigest::from_parts(2, false, [0; 2]);
    let write = |change| RowWrite { table, change };
    let body = Endorsed {
        proposal: Body::call("p", vec![Value::Int(30)]),
        schema_version: 300,
        now_us: 7,
        rows: vec![RowRequirement { table, key, stamp: Some(Stamp::new(4, 5)) }],
        ranges: vec![RangeRequirement { range, digest, seal: Some(Box::new([5; 32])) }],
        writes: vec![
            write(RowChange::Insert(vec![Value::Int(1), Value::Null])),
            write(RowChange::Update {
                key: vec![Value::from("a")],
                columns: vec![(1, Value::Int(70))],
            }),
            write(RowChange::Delete { key: vec![Value::from("b")] }),
        ],
        result: [6; 32],
    };
    let means = json!({
        "proposal": { "call": "p", "arguments": [30] },
        "schema_version": 300,
        "now": 7,
        "rows_read": [{ "table": 3, "key": "010203", "stamp": (4 << 24) + 5 }],
        "ranges_read": [{
            "table": 3, "index": 0, "backwards": false,
            "low": { "at": "010203" }, "high": null,
            "rows": 2, "stopped": false, "digest": "05".repeat(32),
        }],
        "writes": [
            { "table": 3, "insert": [1, null] },
            { "table": 3, "update": ["a"], "changes": [{ "column": 1, "value": 70 }] },
            { "table": 3, "delete": ["b"] },
        ],
        "result": "06".repeat(32),
    });
    (Body::Endorsed(Box::new(body)), means)
}

fn endorsed_transaction() -> (Body, Json) {
    let ((mut body, mut means), (proposal, asked)) = (endorsed(), interactive());
    if let Body::Endorsed(endorsed) = &mut body {
        endorsed.proposal = proposal;
    }
    means["proposal"] = asked;
    (body, means)
}

fn requests() -> Vec<(Body, Json)> {
    let types = [None, Some(DataType::Numeric(Some((9, 2))))];
    let rows = vec![[Value::Int(1)].into(), [Value::Null].into()];
    let call = Body::call("p", all_values());
    let ddl = "CREATE TABLE t (a int)";
    vec![
        (statement(&[]), json!({ "statement": SQL, "arguments": [-3, null] })),
        (
            statement(&types),
            json!({
                "statement": SQL, "types": ["not declared", "numeric(9,2)"], "arguments": [-3, null]
            }),
        ),
        (
            call,
            json!({ "call": "p", "arguments": [
                false, i64::MIN, -0.5, { "numeric": "-0.05" },
                { "numeric": LONG_NUMBER }, { "numeric": "NaN" }, { "numeric": "Infinity" },
                { "numeric": "-Infinity" }, "é", { "bytea": "00ff" },
                { "uuid": "07070707070707070707070707070707" }, { "date": -1 },
                { "timestamp": 1 }, { "timestamptz": 300 }, [1, null],
            ] }),
        ),
        (Body::load("COPY t", rows), json!({ "load": "COPY t", "rows": [[1], [null]] })),
        interactive(),
        migration(),
        (Body::Schema { text: ddl.into() }, json!({ "schema": ddl })),
        (
            Body::Parameter { name: "protocol".into(), value: "serial".into() },
            json!({ "parameter": "protocol", "value": "serial" }),
        ),
        (
            Body::Checkpoint { height: 300, digest: [7; 32] },
            json!({ "checkpoint": 300, "digest": "07".repeat(32) }),
        ),
        (
            Body::Skip { first: 300, order: [7; 32], reason: "it panics".into() },
            json!({ "skip": 300, "order": "07".repeat(32), "reason": "it panics" }),
        ),
        endorsed(),
        endorsed_transaction(),
        json_arguments(),
        of_time(),
        of_reals(),
    ]
}

/// Numbers of 32 bits, as parameters that were declared so.
fn of_reals() -> (Body, Json) {
    let reals = DataType::Array(Box::new(DataType::Float4));
    let types = [DataType::Float4, reals].map(Some);
    let arguments = vec![Value::Float(-0.5), Value::Array(vec![Value::Float(0.25)].into())];
    let body = Body::statement(SQL, ParameterTypes::new(&types), arguments);
    let means = json!({
        "statement": SQL,
        "types": ["real", "real[]"],
        "arguments": [-0.5, [0.25]],
    });
    (body, means)
}

fn json_arguments() -> (Body, Json) {
    let given = "{\"bb\": [1.10, 1e2, \"é\"], \"a\": null, \"bb\": [1.10, 1e2, \"é\"]}";
    let canonical = "{\"a\": null, \"bb\": [1.10, 100, \"é\"]}";
    let types = ParameterTypes::new(&[Some(DataType::Json), Some(DataType::Jsonb)]);
    let arguments = [Value::text(given), Value::Jsonb(Jsonb::read(given).unwrap())];
    let body = Body::statement(SQL, types, arguments.to_vec());
    let means = json!({
        "statement": SQL, "types": ["json", "jsonb"], "arguments": [given, { "jsonb": canonical }],
    });
    (body, means)
}

fn outcomes() -> Vec<(Bytes, Json)> {
    let committed = |count, rows| {
        let result = ProgramResult { count, rows, ..ProgramResult::default() };
        encode_outcome(&Outcome::Committed(result))
    };
    let long = Value::from("x".repeat(300));
    // A list of one row of one text of 300 bytes.
    let listed = [&[1, 1, 6, 0xac, 2][..], &[b'x'; 300]].concat();
    let hash = to_hex(&ledger::merkle::leaf_hash(&listed));
    let zero = Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    let taken = Error::new(SqlState::UNIQUE_VIOLATION, "taken");
    let taken = taken.with_table("t").with_constraint("t_pkey");
    let missing = Error::new(SqlState::NOT_NULL_VIOLATION, "null");
    let missing = missing.with_table("t").with_column("a");
    let stale = Error::new(SqlState::SERIALIZATION_FAILURE, "too late");
    vec![
        (committed(200, Vec::new()), json!({ "committed": 200 })),
        (
            committed(1, vec![[Value::Int(1), Value::from("a")].into()]),
            json!({ "committed": 1, "rows": [[1, "a"]] }),
        ),
        (committed(1, vec![[long].into()]), json!({ "committed": 1, "rows_hash": hash })),
        (encode_outcome(&Outcome::Rejected(zero)), json!({ "rejected": "22012" })),
        (
            encode_outcome(&Outcome::Rejected(taken)),
            json!({ "rejected": "23505", "table": "t", "constraint": "t_pkey" }),
        ),
        (
            encode_outcome(&Outcome::Rejected(missing)),
            json!({ "rejected": "23502", "table": "t", "column": "a" }),
        ),
        (encode_outcome(&Outcome::Retry(stale)), json!({ "retry": "40001" })),
        (Fate::Deferred.encode().into(), json!({ "deferred": true })),
        (
            Fate::Repeat(Origin { height: 300, index: 7 }).encode().into(),
            json!({ "repeat": { "height": 300, "index": 7 } }),
        ),
        imaged_outcome(),
    ]
}

fn imaged_outcome() -> (Bytes, Json) {
    let (table, key) = (TableId(3), Key::from(&[1, 2, 3][..]));
    let images = [
        RowImage::Gone { table, key },
        RowImage::Row { table, image: [0, 0, 0, 4, 0, 0, 0, 9].into() },
    ];
    let ended =
        encode_outcome(&Outcome::Committed(ProgramResult { count: 2, ..ProgramResult::default() }));
    let means = json!({
        "committed": 2,
        "left": [{ "table": 3, "gone": "010203" }, { "table": 3, "image": "0000000400000009" }],
    });
    (imaged(&images, &ended), means)
}

#[test]
fn the_vectors_are_what_is_encoded() {
    let asked = requests().into_iter().map(|(body, means)| {
        json!({ "of": "request", "bytes": to_hex(&body.to_request()), "means": means })
    });
    let outcomes = outcomes().into_iter().map(
        |(outcome, means)| json!({ "of": "outcome", "bytes": to_hex(&outcome), "means": means }),
    );
    let vectors = json!(asked.chain(outcomes).collect::<Vec<_>>());
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(VECTORS, format!("{vectors:#}\n")).unwrap();
    }
    assert_eq!(written(), vectors);
}

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors/transactions.json");

fn written() -> Json {
    serde_json::from_str(&std::fs::read_to_string(VECTORS).unwrap()).unwrap()
}

/// Whether the client reads what it is given, and what it says.
fn client(arguments: [&str; 2]) -> (bool, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/read_transaction.py");
    let output = Command::new("python3").arg(script).args(arguments).output();
    let output = output.expect("python3, which this test needs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_client_reads_the_vectors_and_nothing_shorter_or_longer() {
    let (read, said) = client(["vectors", VECTORS]);
    assert!(read, "{said}");
    for vector in written().as_array().unwrap() {
        let [of, bytes] = ["of", "bytes"].map(|member| vector[member].as_str().unwrap());
        let (cut, longer) = (&bytes[..bytes.len() - 2], format!("{bytes}00"));
        for (what, bytes, reads) in
            [("cut", cut, false), ("whole", bytes, true), ("longer", &longer, false)]
        {
            assert_eq!(client([of, bytes]).0, reads, "{what}: {vector}");
        }
    }
}

/// A vector that is changed is found, or the comparison would compare nothing.
#[test]
fn the_client_finds_changed_vectors() {
    let path = std::env::temp_dir().join(format!("engine-vectors-{}", std::process::id()));
    for at in 0..written().as_array().unwrap().len() {
        let mut changed = written();
        changed[at]["means"]["more"] = true.into();
        std::fs::write(&path, changed.to_string()).unwrap();
        let (same, _) = client(["vectors", path.to_str().unwrap()]);
        assert!(!same, "{at}");
    }
    std::fs::remove_file(path).unwrap();
}
