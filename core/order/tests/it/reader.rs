//! `clients/read_envelope.py`, which knows nothing but `docs/order-format.md`.

use std::process::Command;

use bytes::Bytes;
use kit::mutation::mutate;
use kit::random::Random;
use ledger::hash::to_hex;
use order::{Certificate, Proposal, Remembered, Submissions, View};
use serde_json::Value;

use crate::samples::{LEDGER, usual};
use crate::vectors::{path, some_submissions};

/// The client's exit code and what it said.
fn client(arguments: &[&str]) -> (Option<i32>, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/read_envelope.py");
    let output = Command::new("python3").arg(script).args(arguments).output();
    let output = output.expect("python3, which this test needs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_client_reads_the_vectors() {
    let (code, said) = client(&["vectors", path().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
}

/// A vector that is changed is found, or the comparison would compare nothing.
#[test]
fn the_client_finds_changed_vectors() {
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
    let folder = std::env::temp_dir().join(format!("order-vectors-{}", std::process::id()));
    type Change<'c> = &'c dyn Fn(&mut Value);
    let changes: [(&str, Change<'_>); 4] = [
        ("id", &|all| all["envelopes"][1]["id"] = "00".into()),
        ("proposal", &|all| all["proposal"]["time_us"] = 0.into()),
        ("submissions", &|all| all["submissions"]["principals"][1]["name"] = "x".into()),
        ("refusals", &|all| all["no_envelopes"][0][1] = all["envelopes"][0]["bytes"].clone()),
    ];
    for (what, change) in changes {
        let mut changed = vectors.clone();
        change(&mut changed);
        std::fs::write(&folder, changed.to_string()).unwrap();
        let (code, _) = client(&["vectors", folder.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{what}");
    }
    std::fs::remove_file(folder).unwrap();
}

/// Both readers refuse the same bytes.
#[test]
fn the_client_is_as_strict() {
    let bytes = View { approvals: vec![], ..usual(b"SELECT 1") }.encode().unwrap();
    let proposal = Proposal {
        time_us: 1,
        proposer: [2; 32],
        seen_height: 300,
        envelopes: vec![bytes.clone()],
    };
    let samples = [
        ("envelope", bytes.to_vec()),
        ("proposal", proposal.encode().to_vec()),
        ("certificate", Certificate::solo().encode().to_vec()),
        ("submissions", some_submissions().encode()),
    ];
    let random = &mut Random::new(3);
    for (kind, sample) in &samples {
        for _ in 0..12 {
            let mut changed = sample.clone();
            mutate(&mut changed, &[], random);
            let bytes = Bytes::from(changed);
            let read = match *kind {
                "envelope" => View::read(&bytes).is_ok(),
                "proposal" => Proposal::decode(&bytes).is_ok(),
                "certificate" => Certificate::decode(&bytes).is_ok(),
                _ => {
                    Submissions::decode(&bytes, LEDGER, Remembered::default()).is_ok()
                        || another_ledgers(&bytes)
                }
            };
            let (code, said) = client(&[kind, &to_hex(&bytes)]);
            assert_eq!(code == Some(0), read, "{kind} {}: {said}", to_hex(&bytes));
        }
    }
}

/// The client is not told which ledger's state it reads.
fn another_ledgers(bytes: &[u8]) -> bool {
    let ledger_id = bytes.get(1..17).and_then(|id| id.try_into().ok());
    ledger_id.is_some_and(|id| Submissions::decode(bytes, id, Remembered::default()).is_ok())
}
