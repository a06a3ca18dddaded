//! What a power cut may leave of a disk.
//!
//! An image is a *choice*: for each sector that was written since the last sync of its file, each
//! change of a size, each file whose name is not durable and each removal that is not, whether it
//! reached the disk. With `n` of them there are 2^n images. Where that is too many, those are made
//! that a disk is most likely to show: the first so many reached it, save one, or one more.
//!
//! ```text
//!   operations since the sync   a b c d e f
//!   a prefix                    1 1 1 0 0 0
//!   … save one                  1 0 1 0 0 0
//!   … and one more              1 1 1 0 1 0
//! ```

use std::sync::{Arc, Mutex};

use kit::random::Random;

use super::{Change, Contents, Disk, MemoryFiles, SECTOR_BYTES, apply};

impl MemoryFiles {
    /// One of the disks that a power cut at this moment may leave. These files stay as they are.
    pub fn crash(&self, random: &mut Random) -> MemoryFiles {
        let before = self.disk();
        // Nothing, everything, a prefix, or any subset of what was pending.
        let (mut manner, mut in_prefix) = (0, true);
        before.image(&mut |choice| match choice {
            Choice::Entry => {
                manner = random.below(4);
                in_prefix = true;
                random.chance(2)
            }
            Choice::Change => {
                in_prefix &= !random.chance(8);
                match manner {
                    0 => false,
                    1 => true,
                    2 => in_prefix,
                    _ => random.chance(2),
                }
            }
        })
    }

    /// All of them, if `2^choices_max` are enough, and otherwise the likely ones.
    pub fn crash_images(&self, choices_max: u32) -> impl Iterator<Item = MemoryFiles> {
        let disk = self.disk().clone();
        let choices = disk.choices();
        subsets(choices, choices_max).map(move |reached| {
            let mut reached = reached.into_iter();
            disk.image(&mut |_| reached.next().unwrap_or(false))
        })
    }
}

impl MemoryFiles {
    /// How many images [`MemoryFiles::crash_images`] makes.
    pub fn crash_image_count(&self, choices_max: u32) -> usize {
        let choices = self.disk().choices();
        if choices <= choices_max as usize { 1 << choices } else { (choices + 1) * (choices + 1) }
    }
}

enum Choice {
    /// Whether a file's name is there.
    Entry,
    /// Whether a change of its bytes is.
    Change,
}

impl Disk {
    /// What reached the disk or did not.
    fn choices(&self) -> usize {
        let mut choices = 0;
        self.image(&mut |_| {
            choices += 1;
            true
        });
        choices
    }

    /// The disk after a power cut, as `reached` chooses. It is asked the same questions each time,
    /// whatever it answers.
    fn image(&self, reached: &mut dyn FnMut(Choice) -> bool) -> MemoryFiles {
        let (salts, made) = (self.salts + 1, self.made);
        let mut after = Disk { salts, made, ..Disk::default() };
        for (path, contents) in &self.files {
            let there = reached(Choice::Entry) || contents.entry_is_durable;
            let image = contents.image(reached);
            if there {
                after.files.insert(path.clone(), image);
            }
        }
        for (path, contents) in &self.removed {
            let removed = reached(Choice::Entry);
            let image = contents.image(reached);
            if !removed && !after.files.contains_key(path) {
                after.files.insert(path.clone(), image);
            }
        }
        MemoryFiles(Arc::new(Mutex::new(after)))
    }
}

impl Contents {
    fn image(&self, reached: &mut dyn FnMut(Choice) -> bool) -> Contents {
        let mut bytes = self.durable.clone();
        for piece in self.pieces() {
            if reached(Choice::Change) {
                apply(&mut bytes, &piece);
            }
        }
        let (identity, durable, pending) = (self.identity, bytes.clone(), Vec::new());
        Contents { identity, live: bytes, durable, pending, entry_is_durable: true }
    }

    /// What is pending, sector by sector, without those that cannot change anything: the durable
    /// bytes are the same, and nothing that is pending lies there.
    fn pieces(&self) -> Vec<Change> {
        let mut pieces: Vec<Change> = Vec::new();
        for piece in self.pending.iter().flat_map(sectors) {
            let Change::Write { offset, bytes } = &piece else {
                pieces.push(piece);
                continue;
            };
            let end = offset + bytes.len();
            let meets = |other: &Change| match other {
                Change::SetSize(size) => *size < end,
                Change::Write { offset: at, bytes } => *at < end && *offset < at + bytes.len(),
            };
            if self.durable.get(*offset..end) != Some(bytes) || pieces.iter().any(meets) {
                pieces.push(piece);
            }
        }
        pieces
    }
}

/// A write as the sectors that it touches, each of which is written whole or not at all.
fn sectors(change: &Change) -> Vec<Change> {
    let Change::Write { offset, bytes } = change else {
        return vec![change.clone()];
    };
    let (mut offset, mut rest) = (*offset, bytes.as_slice());
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let to_sector_end = SECTOR_BYTES - offset % SECTOR_BYTES;
        let (piece, tail) = rest.split_at(to_sector_end.min(rest.len()));
        pieces.push(Change::Write { offset, bytes: piece.to_vec() });
        offset += piece.len();
        rest = tail;
    }
    pieces
}

/// The subsets of `count` things that are looked at.
fn subsets(count: usize, count_max: u32) -> Box<dyn Iterator<Item = Vec<bool>>> {
    if count <= count_max as usize {
        let all = 0..1u64 << count;
        return Box::new(all.map(move |bits| (0..count).map(|n| bits >> n & 1 == 1).collect()));
    }
    let exceptions = move |prefix: usize| {
        std::iter::once(None).chain((0..count).map(Some)).map(move |exception| {
            (0..count).map(|n| (n < prefix) != (Some(n) == exception)).collect()
        })
    };
    Box::new((0..=count).flat_map(exceptions))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::files::Files;

    fn contents(files: &MemoryFiles) -> Vec<(String, Vec<u8>)> {
        let paths = files.paths().into_iter();
        paths.map(|path| (path.clone(), files.contents(&path).unwrap())).collect()
    }

    /// Three sectors and a file without a name: each may be there or not.
    #[test]
    fn every_image_is_made_and_a_drawn_one_is_among_them() {
        let files = MemoryFiles::new();
        let file = files.create("a").unwrap();
        file.sync().unwrap();
        files.sync_folder("").unwrap();
        file.write_at(&[1; 3 * SECTOR_BYTES], 0).unwrap();
        files.create("b").unwrap();
        let images: BTreeSet<_> = files.crash_images(8).map(|image| contents(&image)).collect();
        // That the name of `a` is durable is no choice, but is asked.
        assert_eq!((images.len(), files.crash_image_count(8)), (8 * 2, 2 * 8 * 2));
        assert_eq!(files.crash_image_count(2), files.crash_images(2).count());
        for seed in 0..500 {
            assert!(images.contains(&contents(&files.crash(&mut Random::new(seed)))));
        }
        let likely: BTreeSet<_> = files.crash_images(2).map(|image| contents(&image)).collect();
        assert!(likely.len() > 8 && likely.is_subset(&images));
    }

    #[test]
    fn what_was_synced_is_in_every_image() {
        let files = MemoryFiles::new();
        let file = files.create("a").unwrap();
        file.write_at(&[1; 700], 0).unwrap();
        file.sync().unwrap();
        files.sync_folder("").unwrap();
        let images: Vec<_> = files.crash_images(8).collect();
        assert!(images.iter().all(|image| image.contents("a") == Some(vec![1; 700])));
    }
}
