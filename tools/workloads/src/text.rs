//! Random numbers and texts that rows are filled with.

use std::ops::RangeInclusive;

use kit::random::Random;

/// Uniform within bounds.
pub fn uniform(random: &mut Random, bounds: RangeInclusive<u64>) -> u64 {
    let (low, high) = (*bounds.start(), *bounds.end());
    low + random.below(high - low + 1)
}

/// Letters and digits, as many as `lengths` allows.
pub fn letters(random: &mut Random, lengths: RangeInclusive<u64>) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ab";
    let length = uniform(random, lengths) as usize;
    let mut text = String::with_capacity(length + 9);
    while text.len() < length {
        // Ten letters of six bits from each word.
        let word = random.next_u64();
        text.extend((0..10).map(|i| char::from(LETTERS[(word >> (6 * i) & 63) as usize])));
    }
    text.truncate(length);
    text
}
