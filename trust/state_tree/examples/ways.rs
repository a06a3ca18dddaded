//! The other way to a state root, as a prototype that can be measured beside the tree: a log of
//! changes whose entries are marked as current or not (as QMDB has it).
//!
//!     cargo run --release -p state_tree --example ways [MILLIONS OF ROWS]
//!
//! Each change appends an entry (key, next key, image, height) and clears the bit of the one that
//! it replaces. 2,048 entries are a twig: a Merkle tree over its entries, which changes only while
//! it is filled, and one over its bits. A tree over the roots of twigs gives the root. With each
//! change the oldest current entry is appended again, so that old twigs become empty.
//!
//! Left out: deletions, the order of keys (an insertion appends its neighbour, too), proofs, disks.
//! What is left is the least that the way costs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kit::random::Random;
use sha2::{Digest, Sha256};

type Hash = [u8; 32];

const BLOCK: usize = 1_000;
const TWIG: usize = 2_048;

fn node(left: &Hash, right: &Hash) -> Hash {
    let mut message = [1; 65];
    message[1..33].copy_from_slice(left);
    message[33..].copy_from_slice(right);
    Sha256::digest(message).into()
}

fn entry(row: u64, height: u64) -> Hash {
    // Two keys of 13 bytes, an image's hash, a height.
    let mut message = [0; 67];
    message[..8].copy_from_slice(&row.to_be_bytes());
    message[8..16].copy_from_slice(&height.to_be_bytes());
    Sha256::digest(message).into()
}

#[derive(Default)]
struct Twig {
    entries: Hash,
    bits: Vec<u8>,
    /// Of the trees over 32-byte pieces of the bits, from the top: 1, 2, 4, 8.
    nodes: [Hash; 15],
}

struct Log {
    twigs: Vec<Twig>,
    filling: Vec<Hash>,
    rows: Vec<u64>,
    place: HashMap<u64, usize>,
    oldest: usize,
    /// Pieces of bits that changed since the last root.
    dirty: Vec<(usize, usize)>,
    upper: Vec<Vec<Hash>>,
}

impl Log {
    fn append(&mut self, row: u64, leaf: Hash) {
        let at = self.rows.len();
        self.rows.push(row);
        if let Some(old) = self.place.insert(row, at) {
            self.flip(old);
        }
        if at.is_multiple_of(TWIG) {
            self.twigs.push(Twig { bits: vec![0; TWIG / 8], ..Twig::default() });
        }
        self.flip(at);
        self.filling.push(leaf);
        if self.filling.len() == TWIG {
            let mut level = std::mem::take(&mut self.filling);
            while level.len() > 1 {
                level = level.chunks(2).map(|pair| node(&pair[0], &pair[1])).collect();
            }
            self.twigs[at / TWIG].entries = level[0];
        }
    }

    fn flip(&mut self, at: usize) {
        self.twigs[at / TWIG].bits[at % TWIG / 8] ^= 1 << (at % 8);
        self.dirty.push((at / TWIG, at % TWIG / 256));
    }

    fn change(&mut self, row: u64, height: u64) {
        self.append(row, entry(row, height));
        while self.place[&self.rows[self.oldest]] != self.oldest {
            self.oldest += 1;
        }
        // Its bytes are those that it had.
        self.append(self.rows[self.oldest], entry(self.rows[self.oldest], height));
        self.oldest += 1;
    }

    fn root(&mut self) -> Hash {
        self.dirty.sort_unstable();
        self.dirty.dedup();
        let mut changed: Vec<usize> = Vec::new();
        for (twig, piece) in std::mem::take(&mut self.dirty) {
            let Twig { bits, nodes, .. } = &mut self.twigs[twig];
            nodes[7 + piece].copy_from_slice(&bits[piece * 32..][..32]);
            let mut at = 7 + piece;
            while at > 0 {
                at = (at - 1) / 2;
                nodes[at] = node(&nodes[2 * at + 1], &nodes[2 * at + 2]);
            }
            changed.push(twig);
        }
        changed.dedup();
        let (mut level, mut above) = (0, changed);
        let leaf = |twig: &Twig| node(&twig.entries, &twig.nodes[0]);
        let leaves: Vec<(usize, Hash)> =
            above.iter().map(|twig| (*twig, leaf(&self.twigs[*twig]))).collect();
        set(&mut self.upper, 0, &leaves);
        while self.upper[level].len() > 1 {
            above = above.iter().map(|at| at / 2).collect();
            above.dedup();
            let zero = [0; 32];
            let hashes: Vec<(usize, Hash)> = above
                .iter()
                .map(|at| {
                    let below = &self.upper[level];
                    (*at, node(&below[2 * at], below.get(2 * at + 1).unwrap_or(&zero)))
                })
                .collect();
            level += 1;
            set(&mut self.upper, level, &hashes);
        }
        self.upper[level][0]
    }
}

fn set(upper: &mut Vec<Vec<Hash>>, level: usize, hashes: &[(usize, Hash)]) {
    if upper.len() == level {
        upper.push(Vec::new());
    }
    for (at, hash) in hashes {
        if upper[level].len() <= *at {
            upper[level].resize(at + 1, [0; 32]);
        }
        upper[level][*at] = *hash;
    }
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|text| text.parse::<f64>().ok());
    let rows = (millions.unwrap_or(1.0) * 1e6) as u64;
    let mut log = Log {
        twigs: Vec::new(),
        filling: Vec::new(),
        rows: Vec::new(),
        place: HashMap::new(),
        oldest: 0,
        dirty: Vec::new(),
        upper: Vec::new(),
    };
    (0..rows).for_each(|row| log.append(row, entry(row, 0)));
    log.root();
    let mut random = Random::new(1);
    let mut times: Vec<Duration> = Vec::new();
    for height in 1..200 {
        let start = Instant::now();
        (0..BLOCK).for_each(|_| log.change(random.below(rows), height));
        log.root();
        times.push(start.elapsed() / BLOCK as u32);
    }
    times.sort_unstable();
    let (tenth, half) = (times[times.len() / 10].as_nanos(), times[times.len() / 2].as_nanos());
    println!("{rows} rows: {half} ns a changed row, {tenth} in one block of ten");
}
