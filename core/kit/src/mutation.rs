//! Hostile bytes: seeded changes of valid ones.
//!
//! Random bytes are refused by the first field of any format. Bytes that are valid but for one
//! place come far into a decoder, and the places that hurt are lengths and counts: so half of the
//! changes look for something that reads like one, and put there what a careless reader would
//! trust.

use crate::random::Random;

/// Changes `bytes` in one to four places. `others` are valid ones to take pieces from.
pub fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(4) {
        once(bytes, others, random);
    }
}

fn once(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let length =
        random.below(bytes.len() as u64 - at as u64 + 1).min(1 + random.below(40)) as usize;
    match random.below(12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = *pick(&[0, 1, 0x7f, 0x80, 0xff], random),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..at + length)),
        4 => {
            let piece = bytes[at..at + length].to_vec();
            bytes.splice(at..at, piece);
        }
        5 if !others.is_empty() => {
            let other = pick(others, random);
            splice(bytes, at, other, random);
        }
        6 => varint(bytes, at, random),
        7 => bytes.extend((0..1 + random.below(9)).map(|_| random.next_u64() as u8)),
        _ => number(bytes, at, random),
    }
}

fn pick<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

fn splice(bytes: &mut Vec<u8>, at: usize, other: &[u8], random: &mut Random) {
    let from = random.below(other.len() as u64 + 1) as usize;
    let to = (from + random.below(64) as usize).min(other.len());
    let end = (at + random.below(64) as usize).min(bytes.len());
    bytes.splice(at..end, other[from..to].iter().copied());
}

/// A varint that is long, or larger than anything.
fn varint(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let mut varint = vec![0xff; 1 + random.below(10) as usize];
    varint.push(random.below(128) as u8);
    let end = (at + random.below(3) as usize).min(bytes.len());
    bytes.splice(at..end, varint);
}

/// A big-endian number, preferably one that could be a length.
fn number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let size = *pick(&[4, 4, 4, 2, 8], random);
    let size_max = bytes.len() as u64;
    let looks_like_a_length = |at: &usize| {
        let found =
            bytes[*at..at + size].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        found <= size_max
    };
    let last = bytes.len().saturating_sub(size - 1);
    let from = at.min(last);
    let Some(at) = (from..last).find(looks_like_a_length).or((from < last).then_some(from)) else {
        return;
    };
    let near =
        bytes[at..at + size].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let new = match random.below(8) {
        0 => near.wrapping_add(1),
        1 => near.wrapping_sub(1),
        2 => u64::MAX,
        3 => 1 << random.below(64),
        4 => (1 << random.below(64)) - 1,
        5 => size_max.wrapping_sub(at as u64),
        6 => random.below(16),
        _ => random.next_u64() >> random.below(64),
    };
    bytes[at..at + size].copy_from_slice(&new.to_be_bytes()[8 - size..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_bytes_they_can_be_changed_and_a_seed_repeats_it() {
        for length in 0..40 {
            for seed in 0..300 {
                let sample: Vec<u8> = (0..length).collect();
                let others = [vec![9; 20], Vec::new()];
                let changed = |seed| {
                    let mut bytes = sample.clone();
                    mutate(&mut bytes, &others, &mut Random::new(seed));
                    bytes
                };
                assert_eq!(changed(seed), changed(seed));
            }
        }
    }

    /// Else a decoder's counts would never be tried.
    #[test]
    fn lengths_are_made_huge_soon() {
        let sample = [[7; 20].as_slice(), &[0, 0, 0, 5], &[7; 20]].concat();
        let huge = |seed: &u64| {
            let mut bytes = sample.clone();
            mutate(&mut bytes, &[], &mut Random::new(*seed));
            bytes.len() == sample.len() && bytes[20..24] == [0xff; 4]
        };
        assert!((0..2_000).find(huge).is_some());
    }
}
