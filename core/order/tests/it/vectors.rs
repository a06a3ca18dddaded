//! The test vectors in `docs/vectors/envelopes.json`, generated and compared. `UPDATE_VECTORS=1
//! cargo test -p order vectors` writes them anew; a change there is a change of the format.

use std::path::PathBuf;

use bytes::Bytes;
use ledger::hash::{from_hex, to_hex};
use ledger::signatures::SecretKey;
use order::{
    Certificate, CertificateKind, Ended, Envelope, Proposal, Remembered, Signature, Submission,
    Submissions, View, id_of_encoded,
};
use serde_json::{Value, json};
use types::Origin;

use crate::samples::{LEDGER, usual};

fn signature(n: u8, bytes: &'static [u8]) -> Signature<&'static [u8]> {
    Signature { key_id: [n; 32], bytes }
}

fn full() -> View<'static> {
    View {
        principal: "Zoë",
        submission: Submission::Key("rent of March"),
        expires_us: -1,
        settings: vec![("search_path", "a, b"), ("time_zone", "")],
        seed: *b"sixteen bytes ok",
        signatures: vec![signature(1, b"signed"), signature(2, b"")],
        approvals: vec![signature(0, b"approved")],
        ..usual(b"what is asked")
    }
}

fn list() -> Vec<View<'static>> {
    let approved = View { approvals: vec![signature(5, &[7; 200])], ..usual(b"\x01\x00") };
    let last = Submission::Sequence { submitter: [255; 16], sequence: u64::MAX };
    let extreme =
        View { submission: last, expires_us: i64::MIN, seen_height: u64::MAX, ..usual(b"") };
    vec![usual(b"SELECT 1"), full(), approved, extreme]
}

fn envelope(view: &View<'_>) -> Value {
    let bytes = view.encode().unwrap();
    let signatures = |list: &[Signature<&[u8]>]| -> Vec<Value> {
        list.iter().map(|s| json!([to_hex(&s.key_id), to_hex(s.bytes)])).collect()
    };
    let submission = match view.submission {
        Submission::Sequence { submitter, sequence } => {
            json!({ "submitter": to_hex(&submitter), "sequence": sequence })
        }
        Submission::Key(key) => json!({ "key": key }),
    };
    json!({
        "bytes": to_hex(&bytes),
        "id": to_hex(&id_of_encoded(&bytes).unwrap()),
        "ledger_id": to_hex(&view.ledger_id),
        "principal": view.principal,
        "submission": submission,
        "expires_us": view.expires_us,
        "seen_height": view.seen_height,
        "settings": view.settings,
        "seed": to_hex(&view.seed),
        "request": to_hex(view.request),
        "signatures": signatures(&view.signatures),
        "approvals": signatures(&view.approvals),
    })
}

/// Bytes that are no envelope, each for one reason.
fn refused() -> Vec<(&'static str, Vec<u8>)> {
    let plain = usual(b"SELECT 1").encode().unwrap().to_vec();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = plain.clone();
        change(&mut bytes);
        bytes
    };
    vec![
        ("another format", changed(&|bytes| bytes[0] = 0x20)),
        ("an unknown form", changed(&|bytes| bytes[0] |= 8)),
        ("cut short", changed(&|bytes| bytes.truncate(bytes.len() - 1))),
        ("an empty tail", changed(&|bytes| bytes.extend([0, 0]))),
        ("no principal", changed(&|bytes| drop(bytes.splice(17..23, [0])))),
        ("a principal that is no text", changed(&|bytes| bytes[18] = 0xff)),
        ("a byte too many", changed(&|bytes| bytes.extend([0, 1, 0]))),
        ("a million signatures", changed(&|bytes| bytes.extend([0xc0, 0x84, 0x3d, 0]))),
    ]
}

fn proposal() -> Value {
    let envelopes = vec![usual(b"SELECT 1").encode().unwrap(), Bytes::from_static(b"anything")];
    let proposal =
        Proposal { time_us: 849_000_000_000_001, proposer: [3; 32], seen_height: 300, envelopes };
    json!({
        "bytes": to_hex(&proposal.encode()),
        "time_us": proposal.time_us,
        "proposer": to_hex(&proposal.proposer),
        "seen_height": proposal.seen_height,
        "envelopes": proposal.envelopes.iter().map(|e| to_hex(e)).collect::<Vec<_>>(),
    })
}

fn certificate() -> Value {
    let evidence = Bytes::from_static(b"term 3, index 9");
    let certificate = Certificate { kind: CertificateKind::Raft, evidence };
    json!({
        "bytes": to_hex(&certificate.encode()),
        "kind": 1,
        "evidence": to_hex(&certificate.evidence),
    })
}

pub fn some_submissions() -> Submissions {
    let mut submissions = Submissions::new(LEDGER, Remembered::default());
    submissions.advance(848_999_999_000_000);
    let sequence = |sequence| {
        let submission = Submission::Sequence { submitter: [7; 16], sequence };
        View { submission, ..usual(b"") }
    };
    let keyed = |key| View { submission: Submission::Key(key), ..usual(b"") };
    for (index, number) in [70_000, 70_001, 70_009, 69_500].into_iter().enumerate() {
        submissions.admit(&sequence(number), &[1; 32], Origin { height: 8, index: index as u32 });
    }
    let ends = [
        ("a", Some(Ended::Committed)),
        ("b", Some(Ended::Retry)),
        ("c", None),
        ("d", Some(Ended::Rejected(*b"22012"))),
    ];
    for (index, (key, ended)) in ends.into_iter().enumerate() {
        let place = Origin { height: 9, index: index as u32 };
        submissions.admit(&keyed(key), &[2; 32], place);
        if let Some(ended) = ended {
            submissions.decide(&keyed(key), place, ended).unwrap();
        }
    }
    let another = View { principal: "another", ..keyed("a") };
    submissions.admit(&another, &[3; 32], Origin { height: 9, index: 4 });
    submissions
}

fn submissions() -> Value {
    let key = |key, id, index, status| {
        json!({ "key": key, "id": to_hex(&[id; 32]), "height": 9, "index": index,
                "status": status, "expires_us": 849_000_000_000_000i64 })
    };
    let mut rejected = key("d", 2, 3, "rejected");
    rejected["sqlstate"] = "22012".into();
    let used = [69_500, 70_000, 70_001, 70_009];
    let submitter = json!({ "id": to_hex(&[7; 16]), "expires_us": 849_000_000_000_000i64,
                            "used": used });
    json!({
        "bytes": to_hex(&some_submissions().encode()),
        "ledger_id": to_hex(&LEDGER),
        "time_us": 848_999_999_000_000i64,
        "principals": [
            { "name": "another", "submitters": [], "keys": [key("a", 3, 4, "pending")] },
            { "name": "tally", "submitters": [submitter], "keys": [
                key("a", 2, 0, "committed"), key("b", 2, 1, "retry"), key("c", 2, 2, "pending"),
                rejected,
            ] },
        ],
    })
}

fn all() -> Value {
    let refused = refused().into_iter().map(|(why, bytes)| json!([why, to_hex(&bytes)]));
    json!({
        "envelopes": list().iter().map(envelope).collect::<Vec<_>>(),
        "no_envelopes": refused.collect::<Vec<_>>(),
        "proposal": proposal(),
        "certificate": certificate(),
        "submissions": submissions(),
        "signed": signed(),
    })
}

/// The body of an envelope, and the whole of it with one signature.
fn signed() -> Vec<Value> {
    let one = |(seed, view): (u8, View<'_>)| {
        let (mut view, mut room, key) = (view, [0; 64], SecretKey::of_seed([seed; 32]));
        let body = view.encode().unwrap();
        view.sign(&key, &mut room).unwrap();
        json!({
            "seed": to_hex(&[seed; 32]),
            "key": to_hex(&key.public()),
            "body": to_hex(&body),
            "envelope": to_hex(&view.encode().unwrap()),
        })
    };
    let named = View {
        principal: "Zoë",
        submission: Submission::Key("rent of March"),
        settings: vec![("role", "payers")],
        ..usual(b"\x02\x03pay\x00")
    };
    [(1, usual(b"\x01\x08SELECT 1\x00")), (2, named)].into_iter().map(one).collect()
}

pub fn path() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors/envelopes.json").into()
}

#[test]
fn vectors_are_as_published() {
    let found = serde_json::to_string_pretty(&all()).unwrap() + "\n";
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(path(), &found).unwrap();
    }
    let published = std::fs::read_to_string(path()).unwrap();
    assert_eq!(found, published, "the format changed");
}

#[test]
fn vectors_are_decoded() {
    let published: Value = serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
    let bytes = |value: &Value| Bytes::from(from_hex(value["bytes"].as_str().unwrap()).unwrap());
    for (vector, view) in published["envelopes"].as_array().unwrap().iter().zip(list()) {
        let bytes = bytes(vector);
        let (decoded, id) = Envelope::decode_with_id(&bytes).unwrap();
        assert_eq!(to_hex(&id), vector["id"].as_str().unwrap());
        assert_eq!(View::read(&bytes).unwrap(), view);
        assert_eq!(decoded.encode().unwrap(), bytes);
    }
    for (why, bytes) in refused() {
        assert!(View::read(&bytes).is_err(), "{why}");
    }
    assert!(Proposal::decode(&bytes(&published["proposal"])).is_ok());
    let state = bytes(&published["submissions"]);
    let read = Submissions::decode(&state, LEDGER, Remembered::default()).unwrap();
    assert_eq!(read.encode(), state[..]);
}
