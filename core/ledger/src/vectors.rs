//! The test vectors in `docs/vectors/`, generated and compared. `UPDATE_VECTORS=1 cargo test -p
//! ledger vectors` writes them anew; a change there is a change of the format.

use std::path::PathBuf;

use serde_json::{Value, json};
use types::TableId;

use crate::effects::{Effect, effects_digest, row_image_hash};
use crate::hash::{Hash, to_hex};
use crate::log::LogOptions;
use crate::memory_files::MemoryFiles;
use crate::merkle::{inclusion_proof, leaf_hash, root};
use crate::parameters::Parameters;
use crate::receipt::Receipt;
use crate::row_receipt::RowReceipt;
use crate::testing::{chain, written};
use crate::votes::certified::tests::first_block;

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
        "effect_count": effects_digest(list).unwrap().count,
        "effects_root": to_hex(&effects_digest(list).unwrap().root),
    })
}

fn blocks() -> Value {
    let vector = |block: &crate::Block| {
        let (order, result) = (block.batch.header(), block.result.header());
        json!({
            "height": block.height(),
            "time_us": order.time_us,
            "envelopes_root": to_hex(&order.envelopes_root),
            "batch": to_hex(block.batch.encode().unwrap().payload()),
            "order_hash": to_hex(&block.batch.hash()),
            "outcomes_root": to_hex(&result.outcomes_root),
            "result": to_hex(block.result.encode().unwrap().payload()),
            "result_hash": to_hex(&block.hash()),
        })
    };
    json!(chain(3, 3).iter().map(vector).collect::<Vec<_>>())
}

/// Of an envelope that its own block decided, and of one that the next block did.
pub fn receipts() -> [Receipt; 2] {
    let blocks = chain(3, 3);
    let own = Receipt::of(&blocks[3], 1).unwrap();
    [own, Receipt::of_carried(&blocks[2].batch, 0, &[], &blocks[3]).unwrap()]
}

fn receipt() -> Value {
    let vector = |receipt: Receipt| json!({ "binary": to_hex(&receipt.encode().unwrap()), "json": receipt.to_json() });
    json!(receipts().map(vector))
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
    let mut header = block.result.header().clone();
    let digest = effects_digest([effect, other]).unwrap();
    (header.effect_count, header.effects_root) = (digest.count, digest.root);
    (RowReceipt::of(&header, &[effect, other], 0).unwrap().unwrap(), key.to_vec())
}

fn row_receipts() -> Value {
    let (receipt, image) = row_receipt();
    json!({ "json": receipt.to_json().unwrap(), "row_image": to_hex(&image) })
}

/// The chain of `blocks` in two segments a stream, the last ones with a zero tail, that of the
/// orders at rest.
pub fn segment_files() -> MemoryFiles {
    let options = LogOptions { segment_bytes: 900, zero_fill_bytes: 800, sync: true };
    let files = written(options, &chain(3, 3));
    crate::testing::writer(&files, options).unwrap().orders.rest().unwrap();
    files
}

/// A vote with the seed of its key, and a receipt with a certificate.
fn votes() -> Value {
    let (vote, certified) =
        (crate::votes::tests::vote(2, 9, 7), crate::votes::certified::tests::certified());
    let others = crate::votes::certified::tests::certified_by_others();
    let ledger_id = crate::votes::tests::LEDGER;
    json!({
        "vote": {
            "seed": to_hex(&[2; 32]),
            "key": to_hex(&crate::votes::tests::key(2).public()),
            "ledger_id": to_hex(&ledger_id),
            "member": vote.member,
            "height": vote.said.height,
            "result_hash": to_hex(&vote.said.result_hash),
            "electors": to_hex(&crate::votes::tests::electors(4).encode()),
            "electors_hash": to_hex(&vote.said.electors),
            "signed": to_hex(&crate::votes::signed_bytes(ledger_id, 2, &vote.said)),
            "signature": to_hex(&vote.signature),
        },
        "first_block": to_hex(&first_block(&certified)),
        "receipt": certified.to_json(),
        "first_block_of_others": to_hex(&first_block(&others)),
        "receipt_by_others": others.to_json(),
    })
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
        ("votes.json", votes()),
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
