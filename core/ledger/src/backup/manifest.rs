//! The manifest of a backup, as text that people can read.
//!
//! ```text
//! tally backup v2
//! ledger 74657374206c65646765722030303031
//! block 41 5d3c… 0a94…                                    the last one, its result hash, its order
//! hash files 3
//! 9f86… 1733 checkpoints/00000000000000000040.manifest    SHA-256, bytes, path
//! 60fa… 4096 orders/00000000000000000000.tally 41 0a94…   and of a segment its last record
//! 71c2… 9210 results/00000000000000000000.tally 41 5d3c…
//! end 2b1d…                                               SHA-256 of all before this line
//! ```
//!
//! Fields are separated by one space, lines end with one line feed, hexadecimal is lower case,
//! numbers have no leading zeros, paths ascend. One manifest has one text, and reading accepts no
//! other. The first two columns of a file's line are what `sha256sum` and `wc -c` say of it.

use sha2::{Digest, Sha256};
use types::{Error, Height, Result, SqlState};

use crate::checkpoint::CHECKPOINT_FOLDER;
use crate::hash::{Hash, from_hex, hash_from_hex, to_hex};
use crate::header::LedgerId;
use crate::segment::parse_segment_path;
use crate::stream::Stream;

use super::Head;

const TITLE: &str = "tally backup v2";

/// A backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Of the run that made it, from 1; in the file's name, not in its text.
    pub number: u64,
    pub ledger_id: LedgerId,
    pub head: Head,
    /// By path.
    pub entries: Vec<Entry>,
}

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub path: String,
    /// What belongs to the backup; the file may be longer.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub digest: Hash,
    /// Of a segment.
    pub last_block: Option<LastBlock>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastBlock {
    pub height: Height,
    /// The order hash in a segment of orders, the result hash in one of results.
    pub hash: Hash,
}

impl Entry {
    /// The height in a segment's name; 0 of other files.
    pub fn first_height(&self) -> Height {
        parse_segment_path(&self.path).map_or(0, |(_, first)| first)
    }

    /// The stream of a segment.
    pub fn stream(&self) -> Option<Stream> {
        parse_segment_path(&self.path).map(|(stream, _)| stream)
    }
}

impl Manifest {
    /// Of both streams.
    pub fn segments(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.last_block.is_some())
    }

    /// By height.
    pub fn segments_of(&self, stream: Stream) -> impl Iterator<Item = &Entry> {
        self.segments().filter(move |entry| entry.stream() == Some(stream))
    }

    /// The oldest block that it has.
    pub fn first_block(&self) -> Height {
        self.segments_of(Stream::Orders).next().map_or(0, Entry::first_height)
    }

    pub fn entry(&self, path: &str) -> Option<&Entry> {
        let place = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()?;
        Some(&self.entries[place])
    }

    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add)
    }

    pub fn encode(&self) -> Vec<u8> {
        let Head { height, hash, order_hash } = self.head;
        let mut text = format!(
            "{TITLE}\nledger {}\nblock {height} {} {}\nfiles {}\n",
            to_hex(&self.ledger_id),
            to_hex(&hash),
            to_hex(&order_hash),
            self.entries.len()
        );
        for Entry { path, bytes, digest, last_block } in &self.entries {
            text += &format!("{} {bytes} {path}", to_hex(digest));
            if let Some(LastBlock { height, hash }) = last_block {
                text += &format!(" {height} {}", to_hex(hash));
            }
            text.push('\n');
        }
        let digest = to_hex(&Sha256::digest(text.as_bytes()));
        text += &format!("end {digest}\n");
        text.into_bytes()
    }

    /// Strict: what this accepts encodes to the same bytes again.
    pub fn decode(bytes: &[u8], number: u64) -> Result<Manifest> {
        let read = || -> Option<Manifest> {
            let text = std::str::from_utf8(bytes).ok()?;
            let mut lines = text.lines();
            (lines.next()? == TITLE).then_some(())?;
            let ledger_id = from_hex(lines.next()?.strip_prefix("ledger ")?).ok()?;
            let (height, hashes) = lines.next()?.strip_prefix("block ")?.split_once(' ')?;
            let (hash, order_hash) = hashes.split_once(' ')?;
            let head = Head {
                height: height.parse().ok()?,
                hash: hash_from_hex(hash).ok()?,
                order_hash: hash_from_hex(order_hash).ok()?,
            };
            let count: usize = lines.next()?.strip_prefix("files ")?.parse().ok()?;
            let entries: Option<Vec<Entry>> =
                lines.by_ref().take(count.min(bytes.len())).map(entry).collect();
            let ledger_id = ledger_id.try_into().ok()?;
            Some(Manifest { number, ledger_id, head, entries: entries? })
        };
        let damaged = |what: &str| {
            Err(Error::new(SqlState::DATA_CORRUPTED, "the backup's manifest is damaged")
                .with_detail(what.to_owned()))
        };
        let Some(manifest) = read() else {
            return damaged("It does not read as one.");
        };
        let ascending = manifest.entries.windows(2).all(|pair| pair[0].path < pair[1].path);
        match ascending && manifest.encode() == bytes {
            true => Ok(manifest),
            false => damaged("Its digest, its order or its spelling is wrong."),
        }
    }
}

/// Writes the digest in a manifest's last line anew, as an attacker who changed the lines before
/// could.
pub fn reseal(bytes: &mut Vec<u8>) {
    const LAST_LINE_BYTES: usize = "end \n".len() + 64;
    let lines = bytes.len().saturating_sub(LAST_LINE_BYTES);
    bytes.truncate(lines);
    let digest = to_hex(&Sha256::digest(&*bytes));
    bytes.extend_from_slice(format!("end {digest}\n").as_bytes());
}

fn entry(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split(' ').collect();
    let (digest, bytes, path, last_block) = match fields[..] {
        [digest, bytes, path] => (digest, bytes, path, None),
        [digest, bytes, path, height, hash] => {
            let (height, hash) = (height.parse().ok()?, hash_from_hex(hash).ok()?);
            (digest, bytes, path, Some(LastBlock { height, hash }))
        }
        _ => return None,
    };
    let (folder, name) = path.split_once('/')?;
    let is_plain = !name.contains('/') && !name.starts_with('.') && !name.is_empty();
    let of_streams = Stream::ALL.map(Stream::header_folder);
    let is_segment = Stream::ALL.map(Stream::folder).contains(&folder);
    let is_known = is_segment || folder == CHECKPOINT_FOLDER || of_streams.contains(&folder);
    let fits =
        is_segment == last_block.is_some() && (!is_segment || parse_segment_path(path).is_some());
    (is_plain && is_known && fits).then_some(())?;
    Some(Entry {
        path: path.to_owned(),
        bytes: bytes.parse().ok()?,
        digest: hash_from_hex(digest).ok()?,
        last_block,
    })
}

const PREFIX: &str = "backup-";
const SUFFIX: &str = ".manifest";

pub(super) fn manifest_name(number: u64) -> String {
    format!("{PREFIX}{number:020}{SUFFIX}")
}

pub(super) fn parse_manifest_name(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()?;
    (manifest_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(files: u64) -> Manifest {
        let entry = |n: u64| Entry {
            path: crate::segment::segment_path(Stream::Results, n * 10),
            bytes: 48 + n,
            digest: [n as u8; 32],
            last_block: Some(LastBlock { height: n * 10 + 9, hash: [7; 32] }),
        };
        let checkpoint = Entry {
            path: format!("{CHECKPOINT_FOLDER}/00000000000000000007.pack"),
            bytes: 3,
            digest: [1; 32],
            last_block: None,
        };
        let entries = [checkpoint].into_iter().chain((0..files).map(entry)).collect();
        let head = Head { height: 5, hash: [2; 32], order_hash: [3; 32] };
        Manifest { number: 3, ledger_id: [9; 16], head, entries }
    }

    #[test]
    fn no_byte_of_a_manifest_can_change_and_none_can_go() {
        let manifest = sample(3);
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes, 3).unwrap(), manifest);
        for place in 0..bytes.len() {
            for mask in [1, 2, 4, 0x10, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[place] ^= mask;
                assert!(Manifest::decode(&changed, 3).is_err(), "byte {place}");
            }
            assert!(Manifest::decode(&bytes[..place], 3).is_err(), "cut at {place}");
        }
    }

    /// A manifest is no way out of its folder, wherever it comes from.
    #[test]
    fn paths_that_are_none_of_a_ledgers_are_refused() {
        for path in ["/etc/passwd", "orders/../x", "x/y", "results/x", "checkpoints/.x", "BACKUP"] {
            let mut manifest = sample(0);
            manifest.entries[0].path = path.to_owned();
            assert!(Manifest::decode(&manifest.encode(), 3).is_err(), "{path}");
        }
    }

    proptest! {
        /// Whatever is accepted is canonical, and hostile bytes cost no more than their size.
        #[test]
        fn hostile_manifests(
            place in 0usize..600, with in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = sample(2).encode();
            let place = place.min(bytes.len());
            let end = (place + with.len() / 2).min(bytes.len());
            bytes.splice(place..end, with);
            if let Ok(manifest) = Manifest::decode(&bytes, 1) {
                prop_assert_eq!(manifest.encode(), bytes);
            }
        }
    }
}
