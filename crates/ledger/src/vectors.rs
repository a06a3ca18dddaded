//! The test vectors in `docs/vectors/`, generated and compared. `UPDATE_VECTORS=1 cargo test -p
//! ledger vectors` writes them anew; a change there is a change of the format.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use types::TableId;

use crate::effects::{Effect, effects_root, row_image_hash};
use crate::hash::{Hash, to_hex};
use crate::log::{LogOptions, LogReader, LogWriter};
use crate::memory_files::MemoryFiles;
use crate::merkle::{inclusion_proof, leaf_hash, root};
use crate::parameters::Parameters;
use crate::receipt::Receipt;
use crate::row_receipt::RowReceipt;
use crate::testing::{chain, encoded};

fn hex_list<B: AsRef<[u8]>>(list: impl IntoIterator<Item = B>) -> Vec<String> {
    list.into_iter().map(|bytes| to_hex(bytes.as_ref())).collect()
}

fn merkle() -> Value {
    let leaves: Vec<Vec<u8>> = (0..7u8).map(|n| vec![n; usize::from(n)]).collect();
    let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
    let tree = |n: usize| {
        let proof = |index| hex_list(inclusion_proof(&hashes[..n], index).unwrap());
        json!({
            "leaves": hex_list(&leaves[..n]),
            "root": to_hex(&root(&leaves[..n])),
            "inclusion_proofs": (0..n).map(proof).collect::<Vec<_>>(),
        })
    };
    json!((0..=leaves.len()).map(tree).collect::<Vec<_>>())
}

fn parameters() -> Value {
    let mut many = Parameters::new("harmony");
    many.others.insert("b".to_owned(), "2".to_owned());
    many.others.insert("a".to_owned(), "é".to_owned());
    let vector = |parameters: &Parameters| {
        json!({
            "protocol": parameters.protocol,
            "row_encoding": parameters.row_encoding,
            "others": parameters.others,
            "bytes": to_hex(&parameters.encode().unwrap()),
            "hash": to_hex(&parameters.hash().unwrap()),
        })
    };
    json!([vector(&Parameters::new("serial")), vector(&many)])
}

fn effects() -> Value {
    let image = |text: &str| Some(row_image_hash(text.as_bytes()));
    let effect = |table, key: &'static str, before, after, previous_height| Effect {
        table: TableId(table),
        key: key.as_bytes(),
        before,
        after,
        previous_height,
    };
    let list = [
        effect(1, "a", None, image("inserted"), 0),
        effect(1, "ab", image("old"), image("new"), 7),
        effect(2, "a", image("deleted"), None, 8),
    ];
    let leaf = |effect: &Effect<'_>| {
        let mut bytes = Vec::new();
        effect.encode_into(&mut bytes).unwrap();
        bytes
    };
    json!({
        "row_image": to_hex(b"inserted"),
        "row_image_hash": to_hex(&row_image_hash(b"inserted")),
        "leaves": hex_list(list.iter().map(leaf)),
        "effects_root": to_hex(&effects_root(list).unwrap()),
    })
}

fn blocks() -> Value {
    let blocks = chain(3, 3);
    let vector = |block: &crate::Block| {
        json!({
            "header": to_hex(&block.header.encode()),
            "height": block.header.height,
            "time_us": block.header.time_us,
            "transactions_root": to_hex(&block.header.transactions_root),
            "outcomes_root": to_hex(&block.header.outcomes_root),
            "block": to_hex(block.encode().unwrap().payload()),
            "block_hash": to_hex(&block.header.hash()),
        })
    };
    json!(blocks.iter().map(vector).collect::<Vec<_>>())
}

fn receipt() -> Value {
    let receipt = Receipt::of(&chain(3, 3)[3], 1).unwrap();
    json!({ "binary": to_hex(&receipt.encode().unwrap()), "json": receipt.to_json() })
}

/// One of two rows that a block inserted, and that row's image.
pub fn row_receipt() -> (RowReceipt, Vec<u8>) {
    let block = &chain(3, 3)[3];
    let key = 3u64.to_be_bytes();
    let effect = Effect {
        table: TableId(1),
        key: &key,
        before: None,
        after: Some(row_image_hash(&key)),
        previous_height: 0,
    };
    let other = Effect { table: TableId(2), ..effect };
    let mut header = block.header.clone();
    header.effects_root = effects_root([effect, other]).unwrap();
    (RowReceipt::of(&header, &[effect, other], 0).unwrap().unwrap(), key.to_vec())
}

fn row_receipts() -> Value {
    let (receipt, image) = row_receipt();
    json!({ "json": receipt.to_json().unwrap(), "row_image": to_hex(&image) })
}

/// The chain of `blocks` in two segments, the last one with a zero tail.
pub fn segment_files() -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut reader = LogReader::open(Arc::new(files.clone())).unwrap();
    assert!(reader.next_block().unwrap().is_none());
    let options = LogOptions { segment_bytes: 1_100, zero_fill_bytes: 1_000, sync: true };
    let mut writer = LogWriter::resume(reader, options).unwrap();
    let blocks = encoded(&chain(3, 3));
    blocks.iter().for_each(|block| writer.append(std::slice::from_ref(block)).unwrap());
    files
}

fn segments() -> Value {
    let files = segment_files();
    let file = |path: String| {
        let bytes = to_hex(&files.contents(&path).unwrap());
        (path, Value::from(bytes))
    };
    files.paths().into_iter().map(file).collect()
}

#[test]
fn vectors_are_current() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors"));
    for (name, value) in [
        ("merkle.json", merkle()),
        ("parameters.json", parameters()),
        ("effects.json", effects()),
        ("chain.json", blocks()),
        ("receipt.json", receipt()),
        ("row_receipt.json", row_receipts()),
        ("segment.json", segments()),
    ] {
        let path = folder.join(name);
        let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
        if std::env::var_os("UPDATE_VECTORS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} is not what this code computes", path.display());
    }
}
