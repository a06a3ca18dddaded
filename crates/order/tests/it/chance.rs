//! Draws from a seed.

use std::collections::BTreeSet;

use order::Generator;

#[test]
fn a_seed_repeats_its_draws_and_another_one_does_not() {
    let draws = |seed: u8| {
        let mut generator = Generator::new(&[seed; 16]);
        (0..100).map(|_| generator.word()).collect::<Vec<_>>()
    };
    assert_eq!(draws(1), draws(1));
    let all: BTreeSet<u64> = (0..10).flat_map(draws).collect();
    assert_eq!(all.len(), 1000);
}

#[test]
fn draws_are_spread_over_their_range() {
    let mut generator = Generator::new(b"sixteen bytes ok");
    let mut tenths = [0; 10];
    for _ in 0..10_000 {
        let draw = generator.random();
        assert!((0.0..1.0).contains(&draw));
        tenths[(draw * 10.0) as usize] += 1;
    }
    assert!(tenths.iter().all(|count| (900..1100).contains(count)), "{tenths:?}");
}

#[test]
fn uuids_are_of_version_4_and_take_two_words() {
    let mut words = Generator::new(&[5; 16]);
    let mut uuids = words.clone();
    for _ in 0..100 {
        let uuid = u128::from_be_bytes(uuids.uuid());
        assert_eq!((uuid >> 76 & 15, uuid >> 62 & 3), (4, 2));
        let drawn = u128::from(words.word()) << 64 | u128::from(words.word());
        let fixed = 0xf << 76 | 3 << 62;
        assert_eq!(uuid & !fixed, drawn & !fixed);
    }
}
