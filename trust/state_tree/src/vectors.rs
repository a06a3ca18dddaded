//! The test vectors in `docs/vectors/state_tree.json`, generated and compared. `UPDATE_VECTORS=1
//! cargo test -p state_tree vectors` writes them anew; a change there is a change of the format.

use std::path::PathBuf;
use std::process::Command;

use proofs::{Entry, Range, Refused, TreeKey, verify};
use serde_json::{Value as Json, json};

use crate::{Change, StateTree, Value};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Keys of tables 1, 7 and 9: numbers, texts that begin one another, one that is long.
fn rows(count: u64) -> Vec<(u32, Vec<u8>, Value)> {
    let row = |n: u64| {
        let (table, key) = match n % 4 {
            0 | 1 => (7, n.to_be_bytes().to_vec()),
            2 => (1, vec![b'a'; n as usize % 30]),
            _ => (9, vec![0xff - n as u8; 100 + n as usize]),
        };
        (table, key, Value { image: [n as u8; 32], height: n * n })
    };
    let mut rows: Vec<_> = (0..count).map(row).collect();
    rows.sort_unstable_by_key(|(table, key, _)| TreeKey::new(*table, key));
    rows.dedup_by_key(|(table, key, _)| TreeKey::new(*table, key));
    rows
}

fn proof(tree: &StateTree, (first, last, extends): (&[u8], &[u8], bool)) -> Json {
    let range = Range { first, last, extends };
    let proof = tree.prove(&range);
    let mut stack = [Entry::EMPTY; 64];
    let proven = verify(&proof, &tree.root(), range, &mut stack);
    let keys: Vec<String> = proven.into_iter().flat_map(|p| p.rows()).map(|r| hex(r.key)).collect();
    json!({
        "first": hex(first),
        "last": hex(last),
        "extends": extends,
        "proof": hex(&proof),
        "keys": keys,
    })
}

/// A proof of `range` that is refused, and why.
fn refused(tree: &StateTree, bytes: &[u8], range: Range<'_>) -> Json {
    let mut stack = [Entry::EMPTY; 64];
    let why = verify(bytes, &tree.root(), range, &mut stack).err();
    let why = why.unwrap_or_else(|| panic!("{} passes", hex(bytes)));
    json!({
        "first": hex(range.first),
        "last": hex(range.last),
        "extends": range.extends,
        "proof": hex(bytes),
        "why": why.to_string(),
    })
}

fn tree(count: u64) -> Json {
    let rows = rows(count);
    let keyed: Vec<_> =
        rows.iter().map(|(table, key, v)| (TreeKey::new(*table, key), *v)).collect();
    let tree = StateTree::load(keyed.iter().copied(), 1);
    let missing = TreeKey::new(7, b"none");
    let mut ranges: Vec<(&[u8], &[u8], bool)> =
        vec![(missing.as_bytes(), missing.as_bytes(), false), (&[0, 0, 0, 1], &[0, 0, 0, 1], true)];
    let picked = keyed.iter().step_by(5);
    ranges.extend(picked.map(|(key, _)| (key.as_bytes(), key.as_bytes(), false)));
    if let [first, .., last] = &keyed[..] {
        ranges.push((first.0.as_bytes(), last.0.as_bytes(), false));
    }
    json!({
        "rows": rows.iter().zip(&keyed).map(|((table, key, value), (tree_key, _))| json!({
            "table": table,
            "key": hex(key),
            "tree_key": hex(tree_key.as_bytes()),
            "image": hex(&value.image),
            "height": value.height,
        })).collect::<Vec<_>>(),
        "root": hex(&tree.root()),
        "proofs": ranges.into_iter().map(|range| proof(&tree, range)).collect::<Vec<_>>(),
    })
}

/// One forgery for each reason to refuse a proof, but for a stack that is too small.
fn forgeries() -> Json {
    let rows = rows(60);
    let keyed = rows.iter().map(|(table, key, v)| (TreeKey::new(*table, key), *v));
    let tree = StateTree::load(keyed, 1);
    let table = Range::beginning(&[0, 0, 0, 7]);
    let honest = tree.prove(&table);
    let one = TreeKey::new(7, &8u64.to_be_bytes());
    let one = tree.prove(&Range::of(one.as_bytes()));
    let mut other = tree.clone();
    other.apply(&[Change { key: TreeKey::new(7, b"more"), value: Some(rows[0].2) }], 1);
    let with = |at: usize, byte: u8| {
        let mut bytes = honest.clone();
        bytes[at] = byte;
        bytes
    };
    let swapped = [&[1, 0, 0, 106][..], &row(2), &row(1)].concat();
    let beyond = [&[1, 0, 0, 106][..], &row(1), &row(2), &[2, 0, 110], &[0; 32]].concat();
    let forged: [&[u8]; 9] = [
        &with(0, 2),
        &honest[..honest.len() - 1],
        &honest[..1],
        &[&*honest, &[3, 0, 0]].concat(),
        &[&*honest, &[4, 0, 0]].concat(),
        &swapped,
        &beyond,
        &one,
        &other.prove(&table),
    ];
    json!({
        "root": hex(&tree.root()),
        "refused": forged.map(|bytes| refused(&tree, bytes, table)),
    })
}

fn row(n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let key = TreeKey::new(7, &n.to_be_bytes());
    let row = proofs::Row { key: key.as_bytes(), image: [1; 32], height: 1 };
    proofs::put_row(&row, |piece| bytes.extend_from_slice(piece));
    bytes
}

#[test]
fn vectors() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/state_tree.json");
    let trees: Vec<Json> = [0, 1, 5, 60].map(tree).into();
    let vectors = json!({ "trees": trees, "forgeries": forgeries() });
    let text = format!("{}\n", serde_json::to_string_pretty(&vectors).unwrap());
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text);
}

#[test]
fn each_reason_is_in_the_vectors() {
    let text = forgeries().to_string();
    for why in [
        Refused::Version,
        Refused::CutShort,
        Refused::Step,
        Refused::Page,
        Refused::Shape,
        Refused::Hidden,
        Refused::Root,
    ] {
        assert!(text.contains(&why.to_string()), "{why}");
    }
}

/// `clients/check_state.py`, which knows nothing but `docs/state-tree.md`, accepts and refuses what
/// this does, for the same reasons.
#[test]
fn a_checker_that_shares_no_line_agrees() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = |file: PathBuf| {
        let script = root.join("clients/check_state.py");
        let output = Command::new("python3").arg(script).arg("vectors").arg(file).output();
        output.expect("python3, which this test needs").status.code()
    };
    assert_eq!(python(root.join("docs/vectors/state_tree.json")), Some(0));
    let mut wrong = forgeries();
    wrong["refused"][7]["proof"] = proof_of_all().into();
    let file = std::env::temp_dir().join(format!("state_tree_{}.json", std::process::id()));
    let vectors = json!({ "trees": [], "forgeries": wrong });
    std::fs::write(&file, vectors.to_string()).unwrap();
    assert_eq!(python(file.clone()), Some(1), "a proof that holds is no forgery");
    std::fs::remove_file(file).unwrap();
}

/// That of the range that the forgeries are about.
fn proof_of_all() -> String {
    let rows = rows(60);
    let keyed = rows.iter().map(|(table, key, v)| (TreeKey::new(*table, key), *v));
    hex(&StateTree::load(keyed, 1).prove(&Range::beginning(&[0, 0, 0, 7])))
}
