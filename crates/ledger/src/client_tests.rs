//! `clients/check_chain.py`, which knows nothing but `docs/ledger-format.md`, against real files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kit::random::Random;

use crate::files::RealFiles;
use crate::hash::to_hex;
use crate::log::{LogOptions, LogReader, LogWriter};
use crate::receipt::Receipt;
use crate::testing::{chain, encoded};
use crate::vectors::{row_receipt, segment_files};

const HOLDS: Option<i32> = Some(0);
const FAULT: Option<i32> = Some(1);
const TORN: Option<i32> = Some(3);

/// The client's exit code and what it said; `None` where there is no Python.
fn client(arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/check_chain.py");
    let output = Command::new("python3").arg(script).args(arguments).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes a chain with the real files and returns its segments.
fn write_ledger(folder: &Path) -> Vec<PathBuf> {
    let files = Arc::new(RealFiles::open(folder).unwrap());
    let mut reader = LogReader::open(files).unwrap();
    assert!(reader.next_block().unwrap().is_none());
    let options = LogOptions { segment_bytes: 4_000, zero_fill_bytes: 1_000, sync: true };
    let mut writer = LogWriter::resume(reader, options).unwrap();
    encoded(&chain(20, 5)).chunks(3).for_each(|group| writer.append(group).unwrap());
    let entries = std::fs::read_dir(folder.join("segments")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 3);
    paths
}

/// What a prune leaves, by `docs/backup-format.md`.
#[test]
fn the_client_checks_the_headers_of_pruned_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let root = text(folder.path());
    write_ledger(folder.path());
    let files = RealFiles::open(folder.path()).unwrap();
    assert!(crate::prune::prune(&files, 20, 20).unwrap().segments >= 2);
    let Some((code, said)) = client(&["chain", root]) else {
        return;
    };
    assert_eq!(code, HOLDS, "{said}");
    let head = to_hex(&chain(20, 5)[20].header.hash());
    assert_eq!(client(&["chain", root, "--head", &head]).unwrap().0, HOLDS);
    let pieces = crate::headers::pieces(&files).unwrap();
    for first in pieces {
        let path = folder.path().join(crate::headers::piece_path(first));
        let bytes = std::fs::read(&path).unwrap();
        for place in [0, 20, 70, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            std::fs::write(&path, changed).unwrap();
            assert_eq!(client(&["chain", root]).unwrap().0, FAULT, "byte {place}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(client(&["chain", root]).unwrap().0, FAULT, "without headers from {first} on");
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn the_client_checks_chains() {
    let folder = tempfile::tempdir().unwrap();
    let root = text(folder.path());
    let segments = write_ledger(folder.path());
    let Some((code, said)) = client(&["chain", root]) else {
        eprintln!("python3 is not there: skipped");
        return;
    };
    assert_eq!(code, HOLDS, "{said}");
    let head = to_hex(&chain(20, 5)[20].header.hash());
    assert!(said.contains("21 blocks") && said.contains(&head), "{said}");
    assert_eq!(client(&["chain", root, "--head", &head]).unwrap().0, HOLDS);
    assert_eq!(client(&["chain", root, "--head", &"00".repeat(32)]).unwrap().0, FAULT);

    // Both readers come to the same verdict on damage anywhere.
    let mut random = Random::new(1);
    for _ in 0..16 {
        let path = &segments[random.below(segments.len() as u64) as usize];
        let bytes = std::fs::read(path).unwrap();
        let mut changed = bytes.clone();
        changed[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8);
        std::fs::write(path, changed).unwrap();
        let mut reader = LogReader::open(Arc::new(RealFiles::read_only(root).unwrap())).unwrap();
        let verdict = loop {
            match reader.next_block() {
                Ok(Some(_)) => {}
                Ok(None) => break HOLDS,
                Err(crate::LogError::TornTail(_)) => break TORN,
                Err(_) => break FAULT,
            }
        };
        assert_ne!(verdict, HOLDS);
        let (code, said) = client(&["chain", root]).unwrap();
        assert_eq!(code, verdict, "{said}");
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::remove_file(&segments[1]).unwrap();
    assert_eq!(client(&["chain", root]).unwrap().0, FAULT);
}

#[test]
fn the_client_checks_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("segments")).unwrap();
    let files = segment_files();
    assert_eq!(files.paths().len(), 2);
    for path in files.paths() {
        std::fs::write(folder.path().join(&path), files.contents(&path).unwrap()).unwrap();
    }
    let Some((code, said)) = client(&["chain", text(folder.path())]) else {
        return;
    };
    assert_eq!(code, HOLDS, "{said}");
}

#[test]
fn the_client_checks_receipts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("receipt.json");
    let block = chain(2, 11).pop().unwrap();
    let hash = to_hex(&block.header.hash());
    for index in [0, 7, 10] {
        let mut json = Receipt::of(&block, index).unwrap().to_json();
        std::fs::write(&path, json.to_string()).unwrap();
        let Some((code, said)) = client(&["receipt", text(&path), &hash]) else {
            return;
        };
        assert_eq!(code, HOLDS, "{said}");
        assert_eq!(client(&["receipt", text(&path), &"00".repeat(32)]).unwrap().0, FAULT);
        json["outcome"] = "00".into();
        std::fs::write(&path, json.to_string()).unwrap();
        assert_eq!(client(&["receipt", text(&path), &hash]).unwrap().0, FAULT);
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
    let Some((code, said)) = with_image(&image) else {
        return;
    };
    assert_eq!(code, HOLDS, "{said}");
    assert_eq!(with_image(b"another row").unwrap().0, FAULT);
    assert_eq!(client(&["row", text(&path), &"00".repeat(32)]).unwrap().0, FAULT);
    for (member, value) in [("table", 2.into()), ("row_receipt", "00".into())] {
        let mut changed = json.clone();
        changed[member] = value;
        std::fs::write(&path, changed.to_string()).unwrap();
        assert_eq!(client(&["row", text(&path), &hash]).unwrap().0, FAULT, "{member}");
    }
}
