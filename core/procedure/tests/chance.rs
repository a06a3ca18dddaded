//! The test vectors in `docs/vectors/draws.json`, generated, compared, and repeated by
//! `clients/read_envelope.py`. `UPDATE_VECTORS=1 cargo test -p procedure --test chance` writes them
//! anew; a change there is a change of the format.

use std::path::PathBuf;
use std::process::Command;

use procedure::chance::{Draw, LANES_MAX, POSITIONS_MAX};
use serde_json::{Value, json};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn vector(draw: Draw, now_us: i64) -> Value {
    json!({
        "seed": hex(&draw.seed),
        "lane": draw.lane,
        "position": draw.position,
        "now_us": now_us,
        "words": draw.words().map(|word| format!("{word:016x}")),
        "random": draw.fraction(),
        "uuid4": hex(&draw.uuid4()),
        "uuid7": hex(&draw.uuid7(now_us)),
    })
}

fn all() -> Value {
    let seed = *b"sixteen bytes ok";
    let places = [(0, 0), (0, 1), (3, 7), (LANES_MAX, POSITIONS_MAX - 1)];
    let draws = places.map(|(lane, position)| Draw { seed, lane, position });
    let mut vectors: Vec<Value> =
        draws.into_iter().map(|draw| vector(draw, 849_000_000_123_456)).collect();
    vectors.push(vector(Draw { seed: [255; 16], lane: 0, position: 0 }, -1));
    json!({ "draws": vectors })
}

fn path() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors/draws.json").into()
}

#[test]
fn vectors_are_as_published() {
    let found = serde_json::to_string_pretty(&all()).unwrap() + "\n";
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(path(), &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(path()).unwrap(), "the format changed");
}

/// What the client makes of a file of vectors.
fn client(file: &std::path::Path) -> Option<i32> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/read_envelope.py");
    let output = Command::new("python3").args([script, "vectors"]).arg(file).output();
    output.expect("python3, which this test needs").status.code()
}

#[test]
fn the_client_draws_the_same_and_finds_a_changed_vector() {
    assert_eq!(client(&path()), Some(0));
    let changed_file = std::env::temp_dir().join(format!("draws-{}.json", std::process::id()));
    for name in ["random", "uuid4", "uuid7"] {
        let mut changed = all();
        changed["draws"][2][name] = 1.into();
        std::fs::write(&changed_file, changed.to_string()).unwrap();
        assert_eq!(client(&changed_file), Some(1), "{name}");
    }
    std::fs::remove_file(changed_file).unwrap();
}
