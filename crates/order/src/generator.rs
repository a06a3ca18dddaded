//! Chance that every replica agrees on: `random()` and version-4 UUIDs from an envelope's seed.
//!
//! ```text
//! block n   SHA-256("tally random v1" 00 ‖ seed ‖ n: u64), n = 0, 1, 2, …
//! words     each block is four u64, the first first; all numbers are big-endian
//! random()  (word >> 11) / 2^53
//! uuid      two words; version and variant bits set as RFC 9562 has them for version 4
//! ```
//!
//! Nothing but SHA-256 stands in the definition, which every database and language has, so any of
//! them can repeat a draw, and no library's next version can change one. It hides nothing: the
//! seed is in the ledger, and whoever made it knew every draw beforehand.
//!
//! **Cost.** One compression for four words.

use ledger::hash::{Tag, tagged_hash};

use crate::envelope::Seed;

const TAG_RANDOM: &Tag = b"tally random v1\0";
const WORDS: usize = 4;

/// The draws of one envelope, in the order in which its serial execution makes them.
#[derive(Clone, Debug)]
pub struct Generator {
    seed: Seed,
    blocks: u64,
    words: [u64; WORDS],
    used: usize,
}

impl Generator {
    pub fn new(seed: &Seed) -> Self {
        Generator { seed: *seed, blocks: 0, words: [0; WORDS], used: WORDS }
    }

    pub fn word(&mut self) -> u64 {
        if self.used == WORDS {
            self.refill();
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Uniform in `0.0..1.0`, with 53 bits.
    pub fn random(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version-4 UUID.
    pub fn uuid(&mut self) -> [u8; 16] {
        let words = u128::from(self.word()) << 64 | u128::from(self.word());
        let mut uuid = words.to_be_bytes();
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    fn refill(&mut self) {
        let mut message = [0; 24];
        message[..16].copy_from_slice(&self.seed);
        message[16..].copy_from_slice(&self.blocks.to_be_bytes());
        let block = tagged_hash(TAG_RANDOM, &message);
        let (words, _) = block.as_chunks::<8>();
        for (word, bytes) in self.words.iter_mut().zip(words) {
            *word = u64::from_be_bytes(*bytes);
        }
        self.blocks += 1;
        self.used = 0;
    }
}
