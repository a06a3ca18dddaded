//! The test vectors of `docs/transaction-format.md`, generated and compared.
//! `UPDATE_VECTORS=1 cargo test -p engine vectors` writes them anew; a change there is a change of
//! the format. What the bytes mean is written by hand here, so that a second reader can be held
//! against it.

use std::ops::Bound;

use concurrency::{Outcome, RangeDigest, RangeRequirement, RowRequirement};
use ledger::hash::to_hex;
use procedure::ProgramResult;
use procedure::access::Range;
use serde_json::{Value as Json, json};
use types::{DataType, Error, Key, SqlState, Stamp, TableId, Value};

use crate::parameter_types::ParameterTypes;
use crate::transaction::{
    Body, InteractiveText, RowImage, StatementText, Transaction, WriteText, encode_outcome,
};

const SQL: &str = "UPDATE t SET a = a + $1";

fn statement(types: &[Option<DataType>]) -> Body {
    Body::Statement(StatementText {
        text: SQL.into(),
        types: ParameterTypes::new(types),
        arguments: vec![Value::Int(-3), Value::Null],
    })
}

fn all_values() -> Vec<Value> {
    vec![
        Value::Bool(false),
        Value::Int(i64::MIN),
        Value::Float(-0.5),
        Value::Numeric("-0.05".parse().unwrap()),
        Value::from("é"),
        Value::Bytes(vec![0, 255].into()),
        Value::Uuid([7; 16]),
        Value::Date(-1),
        Value::Timestamp(1),
        Value::Timestamptz(300),
        Value::Array(vec![Value::Int(1), Value::Null].into()),
    ]
}

fn interactive() -> (Body, Json) {
    let key = Key::from(&[1, 2, 3][..]);
    let read = |stamp| RowRequirement { table: TableId(3), key: key.clone(), stamp };
    let (low, high) = (Bound::Excluded(key.clone()), Bound::Unbounded);
    let range = Range { table: TableId(3), index: 1, low, high, reverse: true };
    let body = Body::Interactive(InteractiveText {
        now_us: -7,
        schema_version: 300,
        rows: vec![read(None), read(Some(Stamp::new(4, 5)))],
        ranges: vec![RangeRequirement {
            range,
            digest: RangeDigest::from_parts(9, true, [1, u64::MAX]),
        }],
        writes: vec![WriteText {
            body: statement(&[]),
            expected_count: 2,
            expected_rows: vec![[Value::Int(8)].into()],
        }],
    });
    let means = json!({
        "now": -7,
        "schema_version": 300,
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

fn transactions() -> Vec<(Body, Json)> {
    let types = [None, Some(DataType::Numeric(Some((9, 2))))];
    let rows = vec![[Value::Int(1)].into(), [Value::Null].into()];
    let call = Body::Call { procedure: "p".into(), arguments: all_values() };
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
                false, i64::MIN, -0.5, { "numeric": "-0.05" }, "é", { "bytea": "00ff" },
                { "uuid": "07070707070707070707070707070707" }, { "date": -1 },
                { "timestamp": 1 }, { "timestamptz": 300 }, [1, null],
            ] }),
        ),
        (
            Body::Load { text: "COPY t".into(), rows },
            json!({ "load": "COPY t", "rows": [[1], [null]] }),
        ),
        interactive(),
        (Body::Schema { text: ddl.into() }, json!({ "schema": ddl })),
        (
            Body::Parameter { name: "protocol".into(), value: "serial".into() },
            json!({ "parameter": "protocol", "value": "serial" }),
        ),
        imaged(),
    ]
}

fn imaged() -> (Body, Json) {
    let (table, key) = (TableId(3), Key::from(&[1, 2, 3][..]));
    let images = vec![
        RowImage::Gone { table, key },
        RowImage::Row { table, image: [0, 0, 0, 4, 0, 0, 0, 9].into() },
    ];
    let means = json!({
        "asked": { "statement": SQL, "arguments": [-3, null] },
        "left": [{ "table": 3, "gone": "010203" }, { "table": 3, "image": "0000000400000009" }],
    });
    (Body::Imaged { asked: Box::new(statement(&[])), images }, means)
}

fn outcomes() -> Vec<(Outcome, Json)> {
    let committed = |count, rows| Outcome::Committed(ProgramResult { count, rows });
    let long = Value::from("x".repeat(300));
    // A list of one row of one text of 300 bytes.
    let listed = [&[1, 1, 6, 0xac, 2][..], &[b'x'; 300]].concat();
    let hash = to_hex(&ledger::merkle::leaf_hash(&listed));
    let zero = Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    let stale = Error::new(SqlState::SERIALIZATION_FAILURE, "too late");
    vec![
        (committed(200, Vec::new()), json!({ "committed": 200 })),
        (
            committed(1, vec![[Value::Int(1), Value::from("a")].into()]),
            json!({ "committed": 1, "rows": [[1, "a"]] }),
        ),
        (committed(1, vec![[long].into()]), json!({ "committed": 1, "rows_hash": hash })),
        (Outcome::Rejected(zero), json!({ "rejected": "22012", "message": "division by zero" })),
        (Outcome::Retry(stale), json!({ "retry": "40001", "message": "too late" })),
    ]
}

#[test]
fn the_vectors_are_what_is_encoded() {
    let transactions = transactions().into_iter().map(|(body, mut means)| {
        let bytes = Transaction { user: "ada".into(), body }.encode();
        means["user"] = json!("ada");
        json!({ "of": "transaction", "bytes": to_hex(&bytes), "means": means })
    });
    let outcomes = outcomes().into_iter().map(|(outcome, means)| {
        json!({ "of": "outcome", "bytes": to_hex(&encode_outcome(&outcome)), "means": means })
    });
    let vectors = json!(transactions.chain(outcomes).collect::<Vec<_>>());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors/transactions.json");
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(path, format!("{vectors:#}\n")).unwrap();
    }
    let written: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(written, vectors);
}
