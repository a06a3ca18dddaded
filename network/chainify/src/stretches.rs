//! A table's rows in stretches by their keys, with a hash each: what tells where two copies of a
//! table differ without comparing all of their rows.
//!
//! ```text
//! here    ├──── h1 ────┼──── h2 ────┼──────── h3 ────────┤
//! there   ├──── h1 ────┼─ h4 ─┼─ h5 ┼──────── h3 ────────┤    rows of the second one are compared
//! ```
//!
//! A stretch ends behind a row whose own image says so, so that rows that came or went move no end
//! but those beside them. They come along with a state root, which reads all rows anyhow.
//!
//! *No trust* is in them: they tell where to look. Who gives false ones has rows named that are not
//! other ones, or none; what was agreed on is decided by state roots.
//!
//! **Cost.** One more hash of each row; some fifty bytes for [`MEAN`] rows in memory.

use std::io;

use ledger::Hash;
use ledger::hash::tagged_hash;
use types::codec::{decode_str, encode_str};

/// Rows of a stretch, on average.
const MEAN: u32 = 1 << 11;
/// One never has more, whatever the images.
const ROWS_MAX: usize = 1 << 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The key of its last row.
    pub last: String,
    pub hash: Hash,
}

/// Keys after `behind`, up to `upto`; `None`: without an end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Range {
    pub behind: Option<String>,
    pub upto: Option<String>,
}

#[derive(Default)]
pub struct Stretches {
    all: Vec<Stretch>,
    leaves: Vec<u8>,
    rows: usize,
    last: String,
}

impl Stretches {
    /// The next row, by key: its leaf of the state root.
    pub fn push(&mut self, key: &str, image: &Hash, leaf: &[u8]) {
        self.leaves.extend_from_slice(leaf);
        self.rows += 1;
        self.last.clear();
        self.last.push_str(key);
        let drawn = u32::from_be_bytes([image[0], image[1], image[2], image[3]]);
        if drawn % MEAN == 0 || self.rows == ROWS_MAX {
            self.end();
        }
    }

    fn end(&mut self) {
        let hash = tagged_hash(b"tally stretch v1", &self.leaves);
        self.all.push(Stretch { last: std::mem::take(&mut self.last), hash });
        self.leaves.clear();
        self.rows = 0;
    }

    pub fn into_all(mut self) -> Vec<Stretch> {
        if self.rows > 0 {
            self.end();
        }
        self.all
    }
}

/// Ranges of keys in which rows differ, the fewest that the stretches tell.
pub fn differing(ours: &[Stretch], theirs: &[Stretch]) -> Vec<Range> {
    let mut found: Vec<Range> = Vec::new();
    let (mut behind, mut is_same) = (None, true);
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    loop {
        let (own, other) = match (ours.peek(), theirs.peek()) {
            (None, None) => return found,
            (Some(own), Some(other)) => (*own, *other),
            // One copy ends before the other.
            _ => {
                put(&mut found, Range { behind, upto: None });
                return found;
            }
        };
        match own.last.as_bytes().cmp(other.last.as_bytes()) {
            std::cmp::Ordering::Less => {
                ours.next();
                is_same = false;
            }
            std::cmp::Ordering::Greater => {
                theirs.next();
                is_same = false;
            }
            std::cmp::Ordering::Equal => {
                let upto = Some(own.last.clone());
                if !is_same || own.hash != other.hash {
                    put(&mut found, Range { behind, upto: upto.clone() });
                }
                (behind, is_same) = (upto, true);
                ours.next();
                theirs.next();
            }
        }
    }
}

/// Those that follow each other are one.
fn put(found: &mut Vec<Range>, range: Range) {
    match found.last_mut() {
        Some(last) if last.upto.is_some() && last.upto == range.behind => last.upto = range.upto,
        _ => found.push(range),
    }
}

pub fn encode(all: &[Stretch]) -> Vec<u8> {
    let mut out = Vec::new();
    for Stretch { last, hash } in all {
        encode_str(last, &mut out);
        out.extend_from_slice(hash);
    }
    out
}

pub fn decode(bytes: &[u8]) -> io::Result<Vec<Stretch>> {
    let (mut rest, mut all) = (bytes, Vec::new());
    while !rest.is_empty() {
        let last = decode_str(&mut rest).map_err(io::Error::other)?.to_owned();
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "a stretch has no hash");
        let (hash, behind) = rest.split_first_chunk::<32>().ok_or_else(bad)?;
        all.push(Stretch { last, hash: *hash });
        rest = behind;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Images of which one in four ends a stretch, so that small tables have many.
    fn image(number: u16) -> Hash {
        let mut image = [7; 32];
        let ends = number % 4 == 0;
        image[..4].copy_from_slice(&if ends { [0; 4] } else { [0, 0, 0, 1] });
        image[4..6].copy_from_slice(&number.to_be_bytes());
        image
    }

    fn stretches(rows: &BTreeMap<String, u16>) -> Vec<Stretch> {
        let mut all = Stretches::default();
        for (key, number) in rows {
            let image = image(*number);
            all.push(key, &image, &[key.as_bytes(), &image].concat());
        }
        all.into_all()
    }

    fn is_in(key: &str, range: &Range) -> bool {
        range.behind.as_deref().is_none_or(|behind| key > behind)
            && range.upto.as_deref().is_none_or(|upto| key <= upto)
    }

    proptest! {
        /// Every row that differs is in a range, and of equal copies there is none.
        #[test]
        fn ranges_hold_every_row_that_differs(
            rows in prop::collection::btree_map("[a-d]{1,3}", any::<u16>(), 0..60),
            edits in prop::collection::vec(("[a-d]{1,3}", prop::option::of(any::<u16>())), 0..4),
        ) {
            let mut other = rows.clone();
            for (key, edit) in edits {
                match edit {
                    Some(number) => other.insert(key, number),
                    None => other.remove(&key),
                };
            }
            let ranges = differing(&stretches(&rows), &stretches(&other));
            prop_assert_eq!(ranges.is_empty(), rows == other);
            let keys: BTreeSet<&String> = rows.keys().chain(other.keys()).collect();
            for key in keys {
                let inside = ranges.iter().filter(|range| is_in(key, range)).count();
                prop_assert!(inside <= 1, "{key} is in {inside} of {ranges:?}");
                prop_assert!(inside == 1 || rows.get(key) == other.get(key), "{key} {ranges:?}");
            }
            let encoded = encode(&stretches(&rows));
            prop_assert_eq!(decode(&encoded).unwrap(), stretches(&rows));
        }
    }

    #[test]
    fn one_row_of_many_has_rows_compared_of_one_stretch() {
        let row = |at: u32| (format!("{at:06}"), at as u16);
        let rows: BTreeMap<String, u16> = (0..10_000).map(row).collect();
        let mut other = rows.clone();
        other.insert("005001".to_owned(), 9);
        let ranges = differing(&stretches(&rows), &stretches(&other));
        let [range] = &ranges[..] else { panic!("{ranges:?}") };
        assert!(rows.keys().filter(|key| is_in(key, range)).count() <= 8, "{range:?}");
        assert!(decode(&[1, b'a', 0]).is_err());
    }

    #[test]
    fn images_that_end_no_stretch_make_none_without_an_end() {
        let mut all = Stretches::default();
        for at in 0..2 * ROWS_MAX + 1 {
            all.push(&format!("{at:08}"), &[1; 32], b"leaf");
        }
        assert_eq!(all.into_all().len(), 3);
    }
}
