use std::vec;
use std::vec::Vec;

use super::*;
use crate::{TreeKey, branch_hash, page_hash, put_row};

fn page(keys: &[&[u8]]) -> Vec<u8> {
    let mut page = Vec::new();
    for key in keys {
        let row = Row { key, image: [7; 32], height: 3 };
        put_row(&row, |piece| page.extend_from_slice(piece));
    }
    page
}

/// Steps of a forged proof, and the hash of what they build.
struct Forged {
    steps: Vec<u8>,
    hash: Hash,
}

fn shown(keys: &[&[u8]]) -> Forged {
    let page = page(keys);
    let mut steps = vec![PAGE];
    steps.extend((page.len() as u16).to_be_bytes());
    steps.extend(&page);
    Forged { steps, hash: page_hash(&page) }
}

fn beside(mut top: Forged, step: u8, position: u16, hidden: Hash) -> Forged {
    top.steps.push(step);
    top.steps.extend(position.to_be_bytes());
    top.steps.extend(hidden);
    let hash = match step {
        LEFT => branch_hash(position, &hidden, &top.hash),
        _ => branch_hash(position, &top.hash, &hidden),
    };
    Forged { hash, ..top }
}

fn both(mut left: Forged, right: Forged, position: u16) -> Forged {
    left.steps.extend(&right.steps);
    left.steps.push(BOTH);
    left.steps.extend(position.to_be_bytes());
    Forged { hash: branch_hash(position, &left.hash, &right.hash), ..left }
}

fn check<const CHECKS: u8>(forged: &Forged, range: Range<'_>) -> Result<usize, Refused> {
    let proof = [&[VERSION], &*forged.steps].concat();
    let mut stack = [Entry::EMPTY; 8];
    let proven = verify_by::<CHECKS>(&proof, &forged.hash, range, &mut stack)?;
    Ok(proven.rows().count())
}

const ALL: Range<'_> = Range { first: b"", last: b"", extends: true };

/// Each check is the only one that sees some forgery.
#[test]
fn no_check_can_be_left_out() {
    let unordered = shown(&[b"b", b"a"]);
    assert_eq!(check::<ALL_CHECKS>(&unordered, ALL), Err(Refused::Page));
    assert_eq!(check::<{ !CHECK_ASCENDING }>(&unordered, ALL), Ok(2));

    // "a" and "c" part at bit 7 of their byte: nothing above them is at a later position.
    let beyond = beside(shown(&[b"a", b"c"]), RIGHT, 9, [1; 32]);
    assert_eq!(check::<ALL_CHECKS>(&beyond, Range::of(b"a")), Err(Refused::Shape));
    assert_eq!(check::<{ !CHECK_POSITIONS }>(&beyond, Range::of(b"a")), Ok(1));

    // The bit of "a" at 2 is set, so what is beside it is on the left.
    let crossed = beside(shown(&[b"a"]), RIGHT, 2, [1; 32]);
    assert_eq!(check::<ALL_CHECKS>(&crossed, Range::of(b"\0")), Err(Refused::Shape));
    assert_eq!(check::<{ !CHECK_SIDES }>(&crossed, Range::of(b"\0")), Ok(0));

    // They part at 6, and differ in bit 8 as well.
    let parted = both(shown(&[b"a"]), shown(&[b"d"]), 8);
    assert_eq!(check::<ALL_CHECKS>(&parted, ALL), Err(Refused::Shape));
    let wrong = both(shown(&[b"d"]), shown(&[b"a"]), 8);
    assert_eq!(check::<{ !CHECK_PARTING }>(&wrong, ALL), Ok(2));
    assert_eq!(check::<{ !CHECK_SIDES }>(&wrong, ALL), Err(Refused::Shape));

    let hiding = beside(shown(&[b"a"]), RIGHT, 7, shown(&[b"c"]).hash);
    assert_eq!(check::<ALL_CHECKS>(&hiding, Range::of(b"a")), Ok(1));
    assert_eq!(check::<ALL_CHECKS>(&hiding, Range::of(b"c")), Err(Refused::Hidden));
    assert_eq!(check::<{ !CHECK_HIDDEN }>(&hiding, Range::of(b"c")), Ok(0));

    let other = Forged { hash: [0; 32], ..shown(&[b"a"]) };
    assert_eq!(check::<ALL_CHECKS>(&other, ALL), Err(Refused::Root));
    assert_eq!(check::<{ !CHECK_ROOT }>(&other, ALL), Ok(1));
}

#[test]
fn what_is_no_proof() {
    let steps =
        |steps: &[u8]| check::<ALL_CHECKS>(&Forged { steps: steps.into(), hash: [0; 32] }, ALL);
    let empty = shown(&[]);
    assert_eq!(check::<ALL_CHECKS>(&empty, ALL), Ok(0));
    assert_eq!(steps(&[]), Err(Refused::CutShort));
    assert_eq!(steps(&[empty.steps.clone(), empty.steps.clone()].concat()), Err(Refused::CutShort));
    assert_eq!(steps(&[BOTH, 0, 1]), Err(Refused::Step));
    assert_eq!(steps(&[&*empty.steps, &[BOTH, 0, 1]].concat()), Err(Refused::Step));
    assert_eq!(steps(&[4, 0, 1]), Err(Refused::Step));
    assert_eq!(steps(&[&[LEFT, 0, 1], &[0; 32][..]].concat()), Err(Refused::Step));
    assert_eq!(steps(&[&*empty.steps, &[LEFT, 0, 1], &[0; 32]].concat()), Err(Refused::Shape));
    for zeros in [PAGE, LEFT, RIGHT, BOTH] {
        assert_eq!(steps(&[zeros, 0]), Err(Refused::CutShort));
    }
    // Rows that end within one, have no key, or a key that is too long; two rows of too many bytes.
    assert_eq!(steps(&[PAGE, 0, 1, 1]), Err(Refused::Page));
    assert_eq!(steps(&[&[PAGE, 0, 41][..], &[0; 41]].concat()), Err(Refused::Page));
    assert_eq!(check::<ALL_CHECKS>(&shown(&[&[1; 129]]), ALL), Err(Refused::Page));
    let keys: Vec<[u8; 100]> = (0..4).map(|n| [n; 100]).collect();
    let many: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    assert_eq!(check::<ALL_CHECKS>(&shown(&many), ALL), Err(Refused::Page));
    assert_eq!(check::<ALL_CHECKS>(&shown(&many[..3]), ALL), Ok(3));
    let (stack, proof) = (&mut [], [&[VERSION], &*empty.steps].concat());
    assert_eq!(verify(&proof, &empty.hash, ALL, stack).err(), Some(Refused::Deep));
    assert_eq!(verify(&[2], &empty.hash, ALL, &mut []).err(), Some(Refused::Version));
    assert_eq!(verify(&[], &empty.hash, ALL, &mut []).err(), Some(Refused::CutShort));
}

/// All keys of at most three bytes out of few.
fn small_keys() -> Vec<Vec<u8>> {
    let bytes = [0, 1, 0x7f, 0x80, 0xff];
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    let mut from = 0;
    for _ in 0..3 {
        let end = keys.len();
        for at in from..end {
            for byte in bytes {
                keys.push([&keys[at][..], &[byte]].concat());
            }
        }
        from = end;
    }
    keys
}

#[test]
fn bits_are_the_order_of_keys() {
    let keys = small_keys();
    for a in &keys {
        for b in &keys {
            let Some(at) = first_difference(a, b) else {
                assert_eq!(a, b);
                continue;
            };
            assert_eq!(a < b, bit(b, at), "{a:?} {b:?}");
            assert_ne!(bit(a, at), bit(b, at));
            assert!((0..at).all(|before| bit(a, before) == bit(b, before)));
        }
    }
}

/// A range meets a side if a key is in both; and only then, but for keys that are not listed.
#[test]
fn a_range_meets_what_has_its_keys() {
    let keys: Vec<Vec<u8>> = small_keys().into_iter().step_by(3).collect();
    let mut met = [0, 0];
    for first in keys.iter().step_by(4) {
        for last in keys.iter().step_by(5) {
            for (extends, key) in [false, true].iter().zip(&keys).cycle().take(keys.len()) {
                let range = Range { first, last, extends: *extends };
                for position in 0..28 {
                    for side in [false, true] {
                        let among = |k: &&Vec<u8>| {
                            first_difference(k, key).is_none_or(|at| at >= position)
                                && bit(k, position) == side
                        };
                        let has = keys.iter().filter(among).any(|k| range.contains(k));
                        let meets = range.meets(key, position, side);
                        assert!(meets || !has, "{range:?} {key:?} {position} {side}");
                        met[usize::from(meets)] += 1;
                    }
                }
            }
        }
    }
    assert!(met[0] > met[1], "{met:?}: sides that lie outside are told");
}

/// Outside of a range of one key is everything that has not its bits.
#[test]
fn one_key_meets_its_path_only() {
    let keys = small_keys();
    for key in &keys {
        for of in keys.iter().step_by(7) {
            for position in 0..28 {
                for side in [false, true] {
                    let on_path = first_difference(key, of).is_none_or(|at| at >= position)
                        && bit(key, position) == side;
                    assert_eq!(Range::of(key).meets(of, position, side), on_path);
                }
            }
        }
    }
}

#[test]
fn long_keys_have_a_tree_key_of_their_own() {
    let long = |length: usize| TreeKey::new(5, &vec![9; length]);
    assert_eq!(long(123).as_bytes().len(), 127);
    assert_eq!(long(123).as_bytes()[4..], [9; 123]);
    for length in [124, 125, 4_000_000] {
        assert_eq!(long(length).as_bytes().len(), 128);
        assert_eq!(long(length).as_bytes()[..96], long(123).as_bytes()[..96]);
    }
    assert_ne!(long(124), long(125));
    let (a, b) = (TreeKey::new(5, &[&[9; 91][..], &[1; 60]].concat()), long(200));
    assert!(a < b, "keys that differ in 96 bytes are in order");
    let bound = TreeKey::bound(5, &[9; 200]);
    assert!(Range::beginning(bound.as_bytes()).contains(b.as_bytes()));
    assert!(!Range::beginning(bound.as_bytes()).contains(a.as_bytes()));
    assert!(TreeKey::of_bytes(&[1; 129]).is_none());
}
