//! Signatures over envelopes, and `clients/tally_sign.py`, which makes them.

use std::process::Command;

use bytes::Bytes;
use ledger::signatures::{SecretKey, forget};
use order::signed::{APPROVERS_MAX, SIGNERS_MAX, approve_all, are_approved, check_together};
use order::{EnvelopeBytes, Signature, View};
use serde_json::Value;

use crate::samples::usual;
use crate::vectors::path;

fn signed(request: &[u8], seeds: &[u8]) -> Bytes {
    approved_by(request, seeds, &[])
}

fn approved_by(request: &[u8], signers: &[u8], approvers: &[u8]) -> Bytes {
    let mut view = usual(request);
    let (mut rooms, mut others) = (vec![[0; 64]; signers.len()], vec![[0; 64]; approvers.len()]);
    for (seed, room) in signers.iter().zip(&mut rooms) {
        view.sign(&SecretKey::of_seed([*seed; 32]), room).unwrap();
    }
    for (seed, room) in approvers.iter().zip(&mut others) {
        view.approve(&SecretKey::of_seed([*seed; 32]), room).unwrap();
    }
    view.encode().unwrap()
}

/// By one signature with others, of which another stands beside it.
fn approved_with_others(request: &[u8], change: impl Fn(&mut [Vec<u8>])) -> Bytes {
    let key = SecretKey::of_seed([2; 32]);
    let ids = [[1; 32], usual(request).id().unwrap(), [3; 32]];
    let mut approvals = approve_all(&key, &ids);
    change(&mut approvals);
    let approval = Signature { key_id: key.public(), bytes: &approvals[1][..] };
    View { approvals: vec![approval], ..usual(request) }.encode().unwrap()
}

fn code(envelope: &EnvelopeBytes) -> String {
    envelope.check_signatures().err().map_or("00000".to_owned(), |e| e.code().to_string())
}

/// Each with the code that it is refused with.
fn cases() -> Vec<(Bytes, &'static str)> {
    let changed = |at: usize| {
        let mut bytes = signed(b"SELECT 1", &[1]).to_vec();
        let place = bytes.len() - at;
        bytes[place] ^= 1;
        Bytes::from(bytes)
    };
    let short = Signature { key_id: SecretKey::of_seed([1; 32]).public(), bytes: &[1; 63][..] };
    let empty = Signature { bytes: &[][..], ..short.clone() };
    let approved = Signature { key_id: [3; 32], bytes: &[4; 64][..] };
    let signature = |bytes: &Bytes| {
        let view = View::read(bytes).unwrap();
        (view.signatures[0].key_id, view.signatures[0].bytes.to_vec())
    };
    let (key_id, as_approval) = signature(&signed(b"", &[1]));
    let as_approval = Signature { key_id, bytes: &as_approval[..] };
    let approval = View::read(&approved_by(b"", &[], &[1])).unwrap().approvals[0].bytes.to_vec();
    let as_signature = Signature { key_id, bytes: &approval[..] };
    let many: Vec<u8> = (0..=APPROVERS_MAX as u8).collect();
    let mut foreign = approved_by(b"SELECT 1", &[1], &[2]).to_vec();
    foreign[1] ^= 1;
    let mut forged = approved_by(b"SELECT 1", &[1], &[2, 3]).to_vec();
    let last = forged.len() - 2;
    forged[last] ^= 1;
    vec![
        (usual(b"SELECT 1").encode().unwrap(), "00000"),
        (signed(b"SELECT 1", &[1]), "00000"),
        (signed(b"SELECT 1", &[1, 2]), "00000"),
        (signed(b"SELECT 1", &[2, 1, 2]), "00000"),
        (signed(b"SELECT 1", &[1, 2, 3]), "54000"),
        // The last byte of the signature, its first, the key's, the request's.
        (changed(2), "28000"),
        (changed(65), "28000"),
        (changed(70), "28000"),
        (changed(102), "28000"),
        (View { signatures: vec![short], ..usual(b"") }.encode().unwrap(), "28000"),
        (View { signatures: vec![empty], ..usual(b"") }.encode().unwrap(), "28000"),
        (View { approvals: vec![approved], ..usual(b"") }.encode().unwrap(), "28000"),
        (View { approvals: vec![as_approval], ..usual(b"") }.encode().unwrap(), "28000"),
        (View { signatures: vec![as_signature], ..usual(b"") }.encode().unwrap(), "28000"),
        (approved_by(b"SELECT 1", &[1], &[2, 3]), "00000"),
        (approved_by(b"SELECT 1", &[1, 2], &[1, 2]), "00000"),
        (approved_by(b"SELECT 1", &[], &many[1..]), "00000"),
        (approved_by(b"SELECT 1", &[], &many), "54000"),
        (approved_with_others(b"SELECT 1", |_| ()), "00000"),
        (approved_with_others(b"SELECT 2", |_| ()), "00000"),
        (approved_with_others(b"SELECT 1", |it| it.swap(0, 1)), "28000"),
        (approved_with_others(b"SELECT 1", |it| it[1][70] ^= 1), "28000"),
        (approved_with_others(b"SELECT 1", |it| it[1].truncate(64)), "28000"),
        (approved_with_others(b"SELECT 1", |it| it[1].push(0)), "28000"),
        (foreign.into(), "28000"),
        (forged.into(), "28000"),
        (Bytes::from_static(b"no envelope"), "00000"),
    ]
}

#[test]
fn signatures_are_judged_alike_alone_and_together() {
    let cases = cases();
    forget();
    let alone = cases.iter().map(|(bytes, _)| EnvelopeBytes::read(bytes.clone()));
    for (envelope, (_, expected)) in alone.zip(&cases) {
        assert_eq!(code(&envelope), *expected, "{:?}", envelope.view());
    }
    for first in 0..cases.len() {
        let read = |(bytes, _): &(Bytes, _)| EnvelopeBytes::read(bytes.clone());
        let together: Vec<_> = cases[first..].iter().map(read).collect();
        forget();
        check_together(together.iter());
        // What is known is kept, whatever it is looked at beside.
        check_together(together.iter().rev());
        for (envelope, (_, expected)) in together.iter().zip(&cases[first..]) {
            assert_eq!(code(envelope), *expected);
        }
    }
    assert_eq!(SIGNERS_MAX, 2);
}

#[test]
fn each_approval_of_many_is_judged_by_itself() {
    let (key, other) = (SecretKey::of_seed([2; 32]), SecretKey::of_seed([3; 32]));
    let ids: Vec<_> = (0..2_000_u16).map(|n| usual(&n.to_be_bytes()).id().unwrap()).collect();
    let mut approvals = approve_all(&key, &ids);
    assert_eq!(approvals.len(), ids.len(), "by as many signatures as it takes");
    assert_eq!(approvals[3].len(), 64 + 4 + 10 * 32);
    approvals[1][80] ^= 1;
    approvals.swap(5, 6);
    approvals[1999].pop();
    let all: Vec<_> = ids
        .iter()
        .zip(&approvals)
        .enumerate()
        .map(|(at, (id, bytes))| {
            let key_id = if at == 9 { other.public() } else { key.public() };
            (*id, Signature { key_id, bytes: &bytes[..] })
        })
        .collect();
    let wrong: Vec<usize> = are_approved(&all)
        .iter()
        .enumerate()
        .filter_map(|(at, right)| (!right).then_some(at))
        .collect();
    assert_eq!(wrong, [1, 5, 6, 9, 1999]);
}

#[test]
fn the_client_signs_the_vectors() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/tally_sign.py");
    let run = |vectors: &std::path::Path| {
        let mut command = Command::new("python3");
        command.arg(script).arg("vectors").arg(vectors);
        command.output().expect("python3, which this test needs")
    };
    let output = run(&path());
    assert!(output.status.success(), "{output:?}");
    // A vector that is changed is found, or the comparison would compare nothing.
    let text = std::fs::read_to_string(path()).unwrap();
    let mut vectors: Value = serde_json::from_str(&text).unwrap();
    vectors["signed"][1]["envelope"] = vectors["signed"][0]["envelope"].clone();
    let changed = std::env::temp_dir().join(format!("signed-vectors-{}", std::process::id()));
    std::fs::write(&changed, vectors.to_string()).unwrap();
    assert!(!run(&changed).status.success());
    std::fs::remove_file(changed).unwrap();
}
