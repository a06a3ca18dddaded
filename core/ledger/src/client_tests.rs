//! `clients/check_chain.py`, which knows nothing but `docs/ledger-format.md`, against real files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kit::random::Random;

use crate::files::RealFiles;
use crate::hash::to_hex;
use crate::log::{BlockReader, BlockWriter, LogOptions};
use crate::receipt::Receipt;
use crate::stream::Stream;
use crate::testing::{chain, orders, results};
use crate::vectors::{receipts, row_receipt, segment_files};
use crate::votes::certified::tests::first_block;

const HOLDS: Option<i32> = Some(0);
const FAULT: Option<i32> = Some(1);
const TORN: Option<i32> = Some(3);

/// The client's exit code and what it said.
fn client(arguments: &[&str]) -> (Option<i32>, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/check_chain.py");
    let output = Command::new("python3").arg(script).args(arguments).output();
    let output = output.expect("python3, which this test needs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes a chain with the real files and returns its segments.
fn write_ledger(folder: &Path, results_to: usize) -> Vec<PathBuf> {
    let files = Arc::new(RealFiles::open(folder).unwrap());
    let mut reader = BlockReader::open(files).unwrap();
    assert!(reader.next().unwrap().is_none());
    let options = LogOptions { segment_bytes: 2_000, zero_fill_bytes: 700, sync: true };
    let mut writer = BlockWriter::resume(reader, options).unwrap();
    let blocks = chain(20, 5);
    orders(&blocks).chunks(3).for_each(|group| writer.append_order(group).unwrap());
    for group in results(&blocks)[..results_to].chunks(3) {
        writer.append_results(group).unwrap();
        writer.sync_results().unwrap();
    }
    let mut paths = Vec::new();
    for stream in Stream::ALL {
        let entries = std::fs::read_dir(folder.join(stream.folder())).into_iter().flatten();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    paths.sort();
    paths
}

/// What a prune leaves, by `docs/backup-format.md`.
#[test]
fn the_client_checks_the_headers_of_pruned_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let root = text(folder.path());
    write_ledger(folder.path(), 21);
    let files = RealFiles::open(folder.path()).unwrap();
    assert!(crate::prune::prune(&files, 20, 20).unwrap().segments >= 4);
    let (code, said) = client(&["chain", root]);
    assert_eq!(code, HOLDS, "{said}");
    let head = to_hex(&chain(20, 5)[20].hash());
    assert_eq!(client(&["chain", root, "--head", &head]).0, HOLDS);
    let of_stream = |stream| {
        let pieces = crate::headers::pieces(&files, stream).unwrap();
        pieces.into_iter().map(move |first| crate::headers::piece_path(stream, first))
    };
    for piece in Stream::ALL.into_iter().flat_map(of_stream) {
        let path = folder.path().join(&piece);
        let bytes = std::fs::read(&path).unwrap();
        for place in [0, 70, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            std::fs::write(&path, changed).unwrap();
            assert_eq!(client(&["chain", root]).0, FAULT, "byte {place}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(client(&["chain", root]).0, FAULT, "without {piece}");
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn the_client_checks_chains() {
    let folder = tempfile::tempdir().unwrap();
    let root = text(folder.path());
    let segments = write_ledger(folder.path(), 21);
    let (code, said) = client(&["chain", root]);
    assert_eq!(code, HOLDS, "{said}");
    let head = to_hex(&chain(20, 5)[20].hash());
    assert!(said.contains("21 orders and 21 results") && said.contains(&head), "{said}");
    assert_eq!(client(&["chain", root, "--head", &head]).0, HOLDS);
    assert_eq!(client(&["chain", root, "--head", &"00".repeat(32)]).0, FAULT);

    // Both readers come to the same verdict on damage anywhere.
    let mut random = Random::new(1);
    for _ in 0..12 {
        let path = &segments[random.below(segments.len() as u64) as usize];
        let bytes = std::fs::read(path).unwrap();
        let mut changed = bytes.clone();
        changed[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8);
        std::fs::write(path, changed).unwrap();
        let mut reader = BlockReader::open(Arc::new(RealFiles::read_only(root).unwrap())).unwrap();
        let verdict = loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) if reader.torn_results().is_some() => break TORN,
                Ok(None) => break HOLDS,
                Err(crate::LogError::TornTail(_)) => break TORN,
                Err(_) => break FAULT,
            }
        };
        assert_ne!(verdict, HOLDS);
        let (code, said) = client(&["chain", root]);
        assert_eq!(code, verdict, "{said}");
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::remove_file(&segments[1]).unwrap();
    assert_eq!(client(&["chain", root]).0, FAULT);
}

/// Orders hold without results, and the client says how far these come.
#[test]
fn the_client_checks_orders_whose_results_are_missing() {
    for results_to in [0, 1, 9, 20] {
        let folder = tempfile::tempdir().unwrap();
        let root = text(folder.path());
        write_ledger(folder.path(), results_to);
        let (code, said) = client(&["chain", root]);
        assert_eq!(code, HOLDS, "{said}");
        assert!(said.contains(&format!("21 orders and {results_to} results")), "{said}");
        let head = to_hex(&chain(20, 5)[20].hash());
        assert_eq!(client(&["chain", root, "--head", &head]).0, FAULT, "no such result");
    }
}

#[test]
fn the_client_checks_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    for stream in Stream::ALL {
        std::fs::create_dir(folder.path().join(stream.folder())).unwrap();
    }
    let files = segment_files();
    assert_eq!(files.paths().len(), 4, "{:?}", files.paths());
    for path in files.paths() {
        std::fs::write(folder.path().join(&path), files.contents(&path).unwrap()).unwrap();
    }
    let (code, said) = client(&["chain", text(folder.path())]);
    assert_eq!(code, HOLDS, "{said}");
}

#[test]
fn the_client_checks_receipts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("receipt.json");
    let block = chain(2, 11).pop().unwrap();
    let own = [0, 7, 10].map(|index| Receipt::of(&block, index).unwrap());
    for receipt in own.into_iter().chain(receipts()) {
        let head = to_hex(&receipt.result.hash());
        receipt.verify(&receipt.result.hash()).unwrap();
        let json = receipt.to_json();
        std::fs::write(&path, json.to_string()).unwrap();
        let (code, said) = client(&["receipt", text(&path), &head]);
        assert_eq!(code, HOLDS, "{said}");
        assert_eq!(client(&["receipt", text(&path), &"00".repeat(32)]).0, FAULT);
        let other = Receipt::of(&chain(1, 1)[1], 0).unwrap().to_json();
        for member in ["outcome", "envelope", "orders", "index", "outcome_index"] {
            let mut changed = json.clone();
            changed[member] = match changed[member].as_u64() {
                Some(number) => (number + 1).into(),
                None => other[member].clone(),
            };
            std::fs::write(&path, changed.to_string()).unwrap();
            let (code, said) = client(&["receipt", text(&path), &head]);
            assert_eq!(code, FAULT, "{member}: {said}");
        }
    }
}

#[test]
fn the_client_checks_row_receipts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("row.json");
    let (receipt, image) = row_receipt();
    let hash = to_hex(&receipt.header.hash());
    let json = receipt.to_json().unwrap();
    std::fs::write(&path, json.to_string()).unwrap();
    let arguments = ["row", text(&path), &hash, "--image"];
    let with_image = |image: &[u8]| client(&[&arguments[..], &[&to_hex(image)]].concat());
    let (code, said) = with_image(&image);
    assert_eq!(code, HOLDS, "{said}");
    assert_eq!(with_image(b"another row").0, FAULT);
    assert_eq!(client(&["row", text(&path), &"00".repeat(32)]).0, FAULT);
    for (member, value) in [("table", 2.into()), ("row_receipt", "00".into())] {
        let mut changed = json.clone();
        changed[member] = value;
        std::fs::write(&path, changed.to_string()).unwrap();
        assert_eq!(client(&["row", text(&path), &hash]).0, FAULT, "{member}");
    }
}

#[test]
fn the_client_checks_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certified.json");
    let certified = crate::votes::certified::tests::certified();
    let first_block = to_hex(&first_block(&certified));
    let json = certified.to_json();
    let check = |json: &serde_json::Value, first_block: &str| {
        std::fs::write(&path, json.to_string()).unwrap();
        client(&["certified", text(&path), first_block])
    };
    let (code, said) = check(&json, &first_block);
    assert_eq!(code, HOLDS, "{said}");
    assert!(said.contains("members 1, 3, 4 have certified block 5"), "{said}");
    assert_eq!(check(&json, &"00".repeat(32)).0, FAULT);
    assert_eq!(check(&certified.receipt.to_json(), &first_block).0, FAULT);
    let text_of = |name: &str| json["certified"][name].as_str().unwrap().to_owned();
    let mut random = Random::new(2);
    for name in ["first_block", "certificate"].repeat(6) {
        let mut bytes = crate::hash::from_hex(&text_of(name)).unwrap();
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] ^= 1 << random.below(8);
        let mut changed = json.clone();
        changed["certified"][name] = to_hex(&bytes).into();
        let (code, said) = check(&changed, &first_block);
        assert_eq!(code, FAULT, "{name}, byte {place}: {said}");
    }
    let mut changed = json.clone();
    changed["certified"]["links"].as_array_mut().unwrap().remove(0);
    assert_eq!(check(&changed, &first_block).0, FAULT);
}

#[test]
fn the_client_follows_electors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certified.json");
    let certified = crate::votes::certified::tests::certified_by_others();
    let first_block = to_hex(&first_block(&certified));
    let json = certified.to_json();
    let check = |json: &serde_json::Value| {
        std::fs::write(&path, json.to_string()).unwrap();
        client(&["certified", text(&path), &first_block])
    };
    let (code, said) = check(&json);
    assert_eq!(code, HOLDS, "{said}");
    assert!(said.contains("members 1, 3, 5 have certified block 8"), "{said}");
    let mut random = Random::new(3);
    for place in 0..12 {
        let mut changed = json.clone();
        let value = &mut changed["certified"]["successions"][place % 2];
        let mut bytes = crate::hash::from_hex(value.as_str().unwrap()).unwrap();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        *value = to_hex(&bytes).into();
        let (code, said) = check(&changed);
        assert_eq!(code, FAULT, "succession {}, byte {at}: {said}", place % 2);
    }
    let edit = |edit: &dyn Fn(&mut Vec<serde_json::Value>)| {
        let mut changed = json.clone();
        edit(changed["certified"]["successions"].as_array_mut().unwrap());
        check(&changed).0
    };
    assert_eq!(edit(&|all| all.clear()), FAULT);
    assert_eq!(edit(&|all| all.swap(0, 1)), FAULT);
    assert_eq!(edit(&|all| drop(all.remove(0))), HOLDS, "the first ones certified the last, too");
    let mut changed = json.clone();
    changed["certified"].as_object_mut().unwrap().remove("successions");
    assert_eq!(check(&changed).0, FAULT);
}
