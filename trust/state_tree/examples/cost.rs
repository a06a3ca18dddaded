//! What the state tree costs on this machine.
//!
//!     cargo run --release -p state_tree --example cost [MILLIONS OF ROWS] [WORKERS]
//!
//! Keys are the encoded numbers of a bigint primary key; changes are of random rows.

use std::time::{Duration, Instant};

use kit::random::Random;
use proofs::{Entry, Range, TreeKey, verify};
use state_tree::{Change, StateTree, Value};

const BLOCK: usize = 1_000;

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<f64>().ok());
    let rows = (arguments.next().unwrap_or(1.0) * 1e6) as u64;
    let workers = arguments.next().unwrap_or(1.0) as usize;
    let (before, start) = (resident_bytes(), Instant::now());
    let mut tree = StateTree::load((0..rows).map(|n| (key(n), value(n, 0))), workers);
    let each = start.elapsed().as_nanos() as f64 / rows as f64;
    let bytes = (resident_bytes() - before) as f64 / rows as f64;
    println!("{rows} rows, {workers} workers");
    println!("load                         {each:>8.0} ns a row");
    println!("memory                       {bytes:>8.1} bytes a row");
    let mut random = Random::new(1);
    for (what, pick) in [("anywhere", rows), ("in 10,000 rows", 10_000)] {
        blocks(&mut tree, what, &mut random, workers, |random| random.below(pick));
    }
    let base = rows;
    blocks(&mut tree, "new at the end", &mut Random::new(2), workers, {
        let mut next = base;
        move |_| {
            next += 1;
            next
        }
    });
    proofs_of(&tree, rows, &mut random);
}

fn blocks(
    tree: &mut StateTree,
    what: &str,
    random: &mut Random,
    workers: usize,
    mut pick: impl FnMut(&mut Random) -> u64,
) {
    let mut times = Vec::new();
    for height in 0..200 {
        let mut rows: Vec<u64> = (0..BLOCK).map(|_| pick(random)).collect();
        rows.sort_unstable();
        rows.dedup();
        let changes: Vec<Change> =
            rows.iter().map(|n| Change { key: key(*n), value: Some(value(*n, height)) }).collect();
        let start = Instant::now();
        tree.apply(&changes, workers);
        times.push(start.elapsed() / changes.len() as u32);
    }
    times.sort_unstable();
    let (tenth, half) = (times[times.len() / 10].as_nanos(), times[times.len() / 2].as_nanos());
    println!("change {what:<22} {half:>8} ns a row, {tenth} in one block of ten");
}

fn proofs_of(tree: &StateTree, rows: u64, random: &mut Random) {
    for (what, width) in [("a row", 0), ("an absence", 0), ("100 rows", 99)] {
        let (mut make, mut check, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..1_000 {
            let n = random.below(rows - 100);
            let (mut first, last) = (key(n), key(n + width));
            if what == "an absence" {
                first = TreeKey::of_bytes(&[key(n).as_bytes(), &[0]].concat()).unwrap();
            }
            let last = if width == 0 { first } else { last };
            let range = Range { first: first.as_bytes(), last: last.as_bytes(), extends: false };
            let start = Instant::now();
            let proof = tree.prove(&range);
            make.push(start.elapsed());
            let start = Instant::now();
            let proven = verify(&proof, &tree.root(), range, &mut [Entry::EMPTY; 64]).unwrap();
            check.push(start.elapsed());
            let expected = if what == "an absence" { 0 } else { width as usize + 1 };
            assert_eq!(proven.rows().count(), expected);
            bytes = bytes.max(proof.len());
        }
        let (make, check) = (median(make).as_nanos(), median(check).as_nanos());
        println!(
            "proof of {what:<12} at most {bytes:>6} bytes, made in {make} ns, checked in {check} ns"
        );
    }
}

fn key(n: u64) -> TreeKey {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&(n ^ 1 << 63).to_be_bytes());
    TreeKey::new(7, &key)
}

fn value(n: u64, height: u64) -> Value {
    let mut image = [0; 32];
    image[..8].copy_from_slice(&n.to_be_bytes());
    Value { image, height }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
