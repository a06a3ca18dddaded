//! The specification's random values: clauses 2.1.5, 2.1.6 and 4.3.2.

use std::ops::RangeInclusive;

use kit::random::Random;

use crate::text::{letters, uniform};

/// NURand's constant C for last names while loading. That of the run must differ by 65 to 119, but
/// not by 96 or 112 (clause 2.1.6.1).
const LAST_NAME_C_LOAD: u64 = 157;
const LAST_NAME_C_RUN: u64 = 223;
const CUSTOMER_C: u64 = 259;
const ITEM_C: u64 = 7911;

/// Last names are made of three syllables, so there are a thousand.
pub const NAMES: u64 = 1000;
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Not uniform: numbers whose bits are set in many others are drawn more often.
fn nurand(random: &mut Random, a: u64, c: u64, bounds: RangeInclusive<u64>) -> u64 {
    let (low, high) = (*bounds.start(), *bounds.end());
    ((random.below(a + 1) | uniform(random, bounds)) + c) % (high - low + 1) + low
}

pub fn customer(random: &mut Random, customers: u64) -> u64 {
    nurand(random, 1023, CUSTOMER_C, 1..=customers)
}

pub fn item(random: &mut Random, items: u64) -> u64 {
    nurand(random, 8191, ITEM_C, 1..=items)
}

/// The name of a customer for the load: the first thousand have one name each.
pub fn loaded_name(random: &mut Random, customer: u64) -> String {
    match customer <= NAMES {
        true => last_name(customer - 1),
        false => last_name(nurand(random, 255, LAST_NAME_C_LOAD, 0..=NAMES - 1)),
    }
}

/// A name to look for. In a district of fewer than a thousand customers, one that is there.
pub fn wanted_name(random: &mut Random, customers: u64) -> String {
    last_name(nurand(random, 255, LAST_NAME_C_RUN, 0..=NAMES - 1) % customers.min(NAMES))
}

fn last_name(number: u64) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

pub fn digits(random: &mut Random, length: usize) -> String {
    (0..length).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
}

/// `I_DATA` and `S_DATA`: one in ten has ORIGINAL somewhere.
pub fn data(random: &mut Random) -> String {
    const MARK: &str = "ORIGINAL";
    let mut text = letters(random, 26..=50);
    if random.chance(10) {
        let at = random.below((text.len() - MARK.len() + 1) as u64) as usize;
        text.replace_range(at..at + MARK.len(), MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_three_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn the_constants_of_names_differ_as_the_clause_demands() {
        let delta = LAST_NAME_C_LOAD.abs_diff(LAST_NAME_C_RUN);
        assert!((65..=119).contains(&delta) && ![96, 112].contains(&delta), "{delta}");
    }

    #[test]
    fn draws_stay_in_bounds_and_nurand_is_not_uniform() {
        let mut random = Random::new(3);
        let mut counts = vec![0u64; 3001];
        for _ in 0..300_000 {
            counts[customer(&mut random, 3000) as usize] += 1;
            assert!((1..=100_000).contains(&item(&mut random, 100_000)));
        }
        assert_eq!(counts[0], 0);
        let (least, most) = (counts[1..].iter().min(), counts[1..].iter().max());
        assert!(most > least.map(|n| n * 10).as_ref(), "{least:?} {most:?}");
        for _ in 0..1000 {
            assert!((12..=24).contains(&letters(&mut random, 12..=24).len()));
            assert!((26..=50).contains(&data(&mut random).len()));
        }
        let originals = (0..10_000).filter(|_| data(&mut random).contains("ORIGINAL")).count();
        assert!((800..1200).contains(&originals), "{originals}");
    }
}
