//! Backups in memory: interrupted, damaged, of a ledger that changes below.

use std::sync::{Arc, Mutex};

use super::*;
use crate::block::Block;
use crate::checkpoint::{self, Group, PackWriter, TableGroups, read_manifest, write_manifest};
use crate::files::StorageFile;
use crate::log::{BlockReader, LogError, LogOptions, Recorded};
use crate::memory_files::{Failure, MemoryFiles};
use crate::merkle::leaf_hash;
use crate::parameters::Parameters;
use crate::prune::prune;
use crate::testing::{append as append_with, chain, changed_order, changed_result};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 900, zero_fill_bytes: 500, sync: true };

fn append(files: &MemoryFiles, blocks: &[Block]) {
    append_with(files, OPTIONS, blocks);
}

fn recorded(block: &Block) -> Recorded {
    let result = Some(block.result.encode().unwrap());
    Recorded { batch: block.batch.encode().unwrap(), result }
}

/// A checkpoint that keeps a group of the one at `older`, which it makes go.
fn checkpoint(files: &MemoryFiles, block: &Block, older: Option<Height>) {
    let (order, result) = (block.batch.header().clone(), block.result.header().clone());
    let height = order.height;
    let mut pack = PackWriter::create(files, order.ledger_id, height).unwrap();
    let bytes = vec![height as u8; 600];
    let place = pack.append(&bytes).unwrap();
    pack.finish().unwrap();
    let older = older.map(|older| read_manifest(files, older).unwrap());
    let kept = older.iter().flat_map(|older| older.groups().take(1));
    let mut groups: Vec<Group> = kept.cloned().collect();
    let first = vec![10 * groups.len() as u8];
    groups.push(Group {
        hash: leaf_hash(&bytes),
        rows: 2,
        last: [first.clone(), vec![1]].concat(),
        first,
        place,
    });
    let manifest = checkpoint::Manifest {
        order,
        result,
        durable_below: height + 1,
        parameters: Parameters::new("serial"),
        schema: b"schema".to_vec(),
        carried: Vec::new(),
        tables: vec![TableGroups { table: types::TableId(1), groups }],
        past: None,
    };
    write_manifest(files, &manifest).unwrap();
    checkpoint::retain(files, height, 1).unwrap();
}

/// A ledger up to a block, with a checkpoint of each height in `checkpoints`.
fn ledger(blocks: &[Block], checkpoints: &[usize]) -> MemoryFiles {
    let files = MemoryFiles::new();
    append(&files, blocks);
    let mut older = None;
    for &height in checkpoints {
        checkpoint(&files, &blocks[height], older);
        older = Some(height as Height);
    }
    files
}

fn copy_of(files: &MemoryFiles) -> MemoryFiles {
    files.crash_images(0).last().unwrap()
}

fn head_of(blocks: &[Block]) -> Head {
    let last = blocks.last().unwrap();
    Head { height: last.height(), hash: last.hash(), order_hash: last.batch.hash() }
}

fn back_up(source: &dyn Files, target: &MemoryFiles, blocks: &[Block]) -> Result<Taken> {
    take(source, target, &mut || Ok(head_of(blocks)), &mut |_| Ok(()))
}

fn check(files: &MemoryFiles) -> Result<Verified> {
    verify(files, &mut |_| Ok(()))
}

/// The backup holds in every respect, and its blocks are these.
fn expect_backup(files: &MemoryFiles, blocks: &[Block], when: &str) {
    let verified = check(files).unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(verified.manifest.head, head_of(blocks), "{when}");
    let view: Arc<dyn Files> = Arc::new(BackupFiles::open(Arc::new(files.clone())).unwrap());
    let mut reader = BlockReader::open(view.clone()).unwrap();
    let first = reader.first_height() as usize;
    for block in &blocks[first..] {
        let found = reader.next().unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(found, Some(recorded(block)), "{when}");
    }
    assert!(reader.next().unwrap().is_none(), "{when}");
    let heights = checkpoint::heights(&*view).unwrap();
    for height in &heights {
        let manifest = read_manifest(&*view, *height).unwrap();
        let packs =
            checkpoint::PackReader::open(&*view, manifest.order.ledger_id, &manifest.packs());
        let (packs, mut bytes) = (packs.unwrap(), Vec::new());
        manifest.groups().try_for_each(|group| packs.read(group, &mut bytes)).unwrap();
    }
    assert!(first == 0 || heights.first().is_some_and(|height| *height as usize + 1 >= first));
}

#[test]
fn only_what_is_new_is_copied() {
    let blocks = chain(12, 4);
    let source = ledger(&blocks[..7], &[4]);
    let target = MemoryFiles::new();
    let first = back_up(&source, &target, &blocks[..7]).unwrap();
    assert_eq!(first.extent.bytes_copied, first.bytes);
    expect_backup(&target, &blocks[..7], "first");
    let none = back_up(&source, &target, &blocks[..7]).unwrap();
    assert_eq!(none.extent.bytes_copied, 0);
    assert!(none.extent.bytes_checked >= first.bytes);

    append(&source, &blocks[..9]);
    let manifest_before = size(&source, &checkpoint::manifest_path(4));
    checkpoint(&source, &blocks[8], Some(4));
    let second = back_up(&source, &target, &blocks[..9]).unwrap();
    expect_backup(&target, &blocks[..9], "second");
    assert_eq!(second.checkpoints, [8]);
    let checkpoint =
        size(&source, &checkpoint::manifest_path(8)) + size(&source, &checkpoint::pack_path(8));
    let new = checkpoint + bytes_of_blocks(&blocks, 7, 9);
    assert_eq!(second.extent.bytes_copied, new);
    assert_eq!(second.bytes, first.bytes + new - manifest_before);
    // The old manifest has gone, the old pack is still needed.
    assert!(target.contents(&checkpoint::manifest_path(4)).is_none());
    assert!(target.contents(&checkpoint::pack_path(4)).is_some());
}

fn size(files: &MemoryFiles, path: &str) -> u64 {
    files.contents(path).map_or(0, |bytes| bytes.len() as u64)
}

/// What blocks take in segments, the header of a new segment included.
fn bytes_of_blocks(blocks: &[Block], from: usize, to: usize) -> u64 {
    let whole = |to: usize| {
        let files = MemoryFiles::new();
        append(&files, &blocks[..to]);
        back_up(&files, &MemoryFiles::new(), &blocks[..to]).unwrap().bytes
    };
    whole(to) - whole(from)
}

/// A second backup, stopped at any operation in any manner: the first is there or the second is, on
/// every disk that is left, and the next run comes to its end.
#[test]
fn a_backup_that_is_interrupted_anywhere_leaves_the_one_before_and_the_next_goes_on() {
    let manners: [fn(u64) -> Failure; 6] = [
        Failure::PowerOff,
        Failure::Once,
        Failure::Short,
        Failure::SyncLost,
        Failure::Full,
        Failure::ReadOnly,
    ];
    let blocks = chain(8, 3);
    let source = ledger(&blocks[..5], &[3]);
    let before = MemoryFiles::new();
    back_up(&source, &before, &blocks[..5]).unwrap();
    let before = copy_of(&before);
    append(&source, &blocks);
    checkpoint(&source, &blocks[7], Some(3));
    let probe = copy_of(&before);
    back_up(&source, &probe, &blocks).unwrap();
    let operations = probe.operations();
    assert!(operations > 15, "{operations} operations");
    let mut images = 0;
    for (first, manner) in (0..).zip(manners) {
        // A power cut at each of them, the others each at other ones.
        let (first, stride) = if first == 0 { (0, 1) } else { (first % 3, 3) };
        for operation in (first..operations).step_by(stride) {
            let when = format!("{:?}", manner(operation));
            let target = copy_of(&before);
            target.fail_at(Some(manner(operation)));
            let taken = back_up(&source, &target, &blocks);
            target.fail_at(None);
            // Other faults leave less in doubt than a power cut.
            let step = if matches!(manner(0), Failure::PowerOff(_)) { 1 } else { 9 };
            let images_left = target.crash_images(6).step_by(step);
            for image in images_left.chain([copy_of(&target), target.clone()]) {
                let height = check(&image).unwrap().manifest.head.height;
                assert!(height == 8 || height == 4 && taken.is_err(), "{when}: {height}");
                let ends = height as usize + 1;
                expect_backup(&image, &blocks[..ends], &when);
                images += 1;
            }
            back_up(&source, &target, &blocks).unwrap_or_else(|error| panic!("{when}: {error}"));
            for image in target.crash_images(2).step_by(5) {
                expect_backup(&image, &blocks, &when);
            }
        }
    }
    assert!(images > 200, "only {images} images");
}

/// The very first one, too: before it is whole there is none, and that is said. It can be made
/// still where the ledger was pruned meanwhile.
#[test]
fn a_first_backup_can_be_cut_anywhere() {
    let blocks = chain(8, 3);
    let source = ledger(&blocks, &[6]);
    let pruned = copy_of(&source);
    assert!(prune(&pruned, 6, 6).unwrap().first_block > 0);
    let probe = MemoryFiles::new();
    back_up(&source, &probe, &blocks).unwrap();
    for operation in 0..probe.operations() {
        let target = MemoryFiles::new();
        target.fail_at(Some(Failure::PowerOff(operation)));
        let taken = back_up(&source, &target, &blocks);
        target.fail_at(None);
        for image in target.crash_images(6).step_by(3).chain([target.clone()]) {
            match check(&image) {
                Ok(_) => expect_backup(&image, &blocks, "whole"),
                Err(error) => {
                    assert!(taken.is_err(), "operation {operation}: {error}");
                    assert!(error.message().contains("no finished backup"), "{error}");
                }
            }
            let later = copy_of(&image);
            let is_there = check(&later).is_ok();
            let done = back_up(&source, &image, &blocks).unwrap();
            assert!(done.extent.bytes_copied <= done.bytes, "operation {operation}");
            expect_backup(&image, &blocks, "gone on");
            let done = back_up(&pruned, &later, &blocks).unwrap();
            assert_eq!(done.first_block == 0, is_there, "operation {operation}");
            expect_backup(&later, &blocks, "gone on after a prune");
            assert!(later.paths().iter().all(|path| path != "UNFINISHED"));
        }
    }
}

#[test]
fn every_flipped_byte_of_every_file_is_found_and_copied_again() {
    let blocks = chain(5, 2);
    let source = ledger(&blocks, &[3]);
    let whole = MemoryFiles::new();
    back_up(&source, &whole, &blocks).unwrap();
    let mut flips = 0;
    for path in whole.paths() {
        let bytes = whole.contents(&path).unwrap();
        for place in (0..bytes.len()).step_by(7).chain(bytes.len().checked_sub(1)) {
            let target = copy_of(&whole);
            let mut changed = bytes.clone();
            changed[place] ^= 0x20;
            target.plant(&path, changed);
            if path == target::MARKER {
                continue;
            }
            let error = check(&target).expect_err(&path);
            assert_eq!(error.code(), SqlState::DATA_CORRUPTED, "{path}, byte {place}: {error}");
            if place % 5 == 0 {
                back_up(&source, &target, &blocks).unwrap();
                expect_backup(&target, &blocks, &path);
            }
            flips += 1;
        }
        if path != target::MARKER {
            let target = copy_of(&whole);
            target.remove(&path).unwrap();
            assert!(check(&target).is_err(), "{path} is gone");
            target.plant(&path, bytes[..bytes.len() - 1].to_vec());
            assert!(check(&target).is_err(), "{path} is short");
        }
    }
    assert!(flips > 300, "only {flips} flips");
}

type Change = Box<dyn FnMut(&MemoryFiles) + Send>;

/// A ledger that is changed by others when the copy reads it for the n-th time.
struct Changing {
    files: MemoryFiles,
    change: Mutex<(u64, Option<Change>)>,
}

impl Changing {
    fn tick(&self) {
        let mut change = self.change.lock().unwrap();
        match change.0.checked_sub(1) {
            Some(left) => change.0 = left,
            None => {
                if let Some(mut now) = change.1.take() {
                    now(&self.files);
                }
            }
        }
    }
}

impl Files for Changing {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.tick();
        self.files.list(folder)
    }
    fn create_folder(&self, _: &str) -> io::Result<()> {
        unreachable!("a ledger is only read")
    }
    fn sync_folder(&self, _: &str) -> io::Result<()> {
        unreachable!("a ledger is only read")
    }
    fn create(&self, _: &str) -> io::Result<Box<dyn StorageFile>> {
        unreachable!("a ledger is only read")
    }
    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        self.tick();
        self.files.open(path)
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("a ledger is only read")
    }
    fn salt(&self) -> u64 {
        0
    }
}

/// Whatever goes from under the copy, at whatever moment: there is a backup, and it holds.
#[test]
fn checkpoints_and_segments_may_go_while_they_are_copied() {
    let blocks = chain(12, 4);
    let (mut again, mut moments) = (0, 0);
    let begun: [&[usize]; 2] = [&[], &[4]];
    for earlier in begun {
        for moment in 0.. {
            let source = ledger(&blocks[..=9], &[4]);
            let target = MemoryFiles::new();
            if !earlier.is_empty() {
                back_up(&source, &target, &blocks[..=9]).unwrap();
            }
            let (newer, all) = (blocks[8].clone(), blocks.clone());
            let change: Change = Box::new(move |files| {
                checkpoint(files, &newer, Some(4));
                append(files, &all);
                prune(files, 8, 8).unwrap();
            });
            let source = Changing { files: source, change: Mutex::new((moment, Some(change))) };
            let taken = back_up(&source, &target, &blocks[..=9]).unwrap();
            again += taken.extent.begun_again;
            moments += 1;
            expect_backup(&target, &blocks[..=9], &format!("moment {moment}"));
            if !earlier.is_empty() {
                assert_eq!(taken.first_block, 0, "what the backup has stays");
            }
            if source.change.lock().unwrap().1.is_some() {
                break;
            }
        }
    }
    assert!(again > 5 && moments > 30, "begun again {again} times in {moments}");
}

#[test]
fn a_backup_keeps_what_the_ledger_prunes() {
    let blocks = chain(12, 4);
    let source = ledger(&blocks[..8], &[6]);
    let target = MemoryFiles::new();
    back_up(&source, &target, &blocks[..8]).unwrap();
    assert!(prune(&source, 6, 6).unwrap().first_block > 0);
    append(&source, &blocks);
    let taken = back_up(&source, &target, &blocks).unwrap();
    assert_eq!(taken.first_block, 0);
    expect_backup(&target, &blocks, "pruned below");
    // Without its manifest it is not known what belongs to it, but it is not thrown away.
    let damaged = copy_of(&target);
    damaged.plant(&manifest::manifest_name(2), b"damaged".to_vec());
    let paths = damaged.paths();
    let error = back_up(&source, &damaged, &blocks).unwrap_err();
    assert!(error.message().contains("no whole manifest"), "{error}");
    assert_eq!(damaged.paths(), paths);
    // One that begins now begins with the headers.
    let later = MemoryFiles::new();
    let taken = back_up(&source, &later, &blocks).unwrap();
    assert!(taken.first_block > 0);
    expect_backup(&later, &blocks, "begun later");
    // And goes on with the checkpoint that its blocks need.
    checkpoint(&source, &blocks[12], Some(6));
    prune(&source, 12, 12).unwrap();
    let taken = back_up(&source, &later, &blocks).unwrap();
    assert_eq!(taken.checkpoints, [6, 12]);
    expect_backup(&later, &blocks, "gone on");
}

#[test]
fn what_does_not_follow_is_refused_and_nothing_is_changed() {
    let blocks = chain(12, 4);
    let source = ledger(&blocks[..6], &[4]);
    let target = MemoryFiles::new();
    back_up(&source, &target, &blocks[..6]).unwrap();
    let refuse = |source: &MemoryFiles, blocks: &[Block], what: &str| {
        let target = copy_of(&target);
        let before: Vec<_> = target.paths().iter().map(|path| target.contents(path)).collect();
        let error = back_up(source, &target, blocks).unwrap_err();
        assert!(error.message().contains(what), "{error}");
        assert!(error.fields().hint.is_some(), "{error}");
        let after: Vec<_> = target.paths().iter().map(|path| target.contents(path)).collect();
        assert!(before == after, "{what}");
    };
    // Pruned before it was backed up.
    let gap = ledger(&blocks, &[11]);
    prune(&gap, 11, 11).unwrap();
    refuse(&gap, &blocks, "the ledger begins with");
    // The ledger has lost a block, and the same with other blocks since.
    refuse(&ledger(&blocks[..5], &[4]), &blocks[..5], "block 5 is not the ledger's");
    let mut other = chain(5, 4);
    let batch = changed_order(&other[5].batch, &|header, _| header.time_us += 1);
    let hash = batch.hash();
    other[5].result = changed_result(&other[5].result, &|header, _| header.order_hash = hash);
    other[5].batch = batch;
    refuse(&ledger(&other, &[4]), &other, "block 5 is not the ledger's");
    let mut foreign: Vec<Block> = Vec::new();
    for block in chain(12, 4) {
        let (order, result) = foreign
            .last()
            .map_or(([0; 32], [0; 32]), |before| (before.batch.hash(), before.hash()));
        let batch = changed_order(&block.batch, &|header, _| {
            (header.ledger_id, header.previous_order_hash) = ([1; 16], order);
        });
        let order_hash = batch.hash();
        let result = changed_result(&block.result, &|header, _| {
            (header.ledger_id, header.previous_result_hash) = ([1; 16], result);
            header.order_hash = order_hash;
        });
        foreign.push(Block { batch, result });
    }
    refuse(&ledger(&foreign, &[]), &foreign, "another ledger");
    // No place for a backup.
    let mut used = MemoryFiles::new();
    used.plant("notes.txt", b"mine".to_vec());
    let error = back_up(&source, &used, &blocks[..6]).unwrap_err();
    assert!(error.message().contains("neither empty"), "{error}");
    used = ledger(&blocks[..6], &[]);
    used.plant("tally.toml", Vec::new());
    assert!(back_up(&source, &used, &blocks[..6]).is_err());
}

#[test]
fn a_full_disk_is_told_as_such() {
    let blocks = chain(5, 2);
    let source = ledger(&blocks, &[3]);
    let target = MemoryFiles::new();
    target.fail_at(Some(Failure::Full(4)));
    let error = back_up(&source, &target, &blocks).unwrap_err();
    assert!(error.message().contains("full"), "{error}");
    assert_eq!(error.code(), SqlState::DISK_FULL);
}

fn is_segment(path: &str) -> bool {
    crate::segment::parse_segment_path(path).is_some()
}

/// Rot in the ledger does not reach the backup.
#[test]
fn damage_of_the_ledger_is_an_error_and_of_a_checkpoint_means_without_it() {
    let blocks = chain(9, 4);
    let whole = ledger(&blocks, &[4]);
    for path in whole.paths() {
        let bytes = whole.contents(&path).unwrap();
        for place in [8, 60, 300] {
            let source = copy_of(&whole);
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            source.plant(&path, changed);
            let target = MemoryFiles::new();
            let taken = back_up(&source, &target, &blocks);
            match is_segment(&path) {
                true => assert!(taken.is_err(), "{path}, byte {place}"),
                false => assert_eq!(taken.unwrap().checkpoints, [0; 0], "{path}, byte {place}"),
            }
        }
        let source = copy_of(&whole);
        source.remove(&path).unwrap();
        let taken = back_up(&source, &MemoryFiles::new(), &blocks);
        assert_eq!(taken.is_err(), is_segment(&path), "without {path}");
    }
}

#[test]
fn an_archive_and_its_pruned_ledger_are_one_ledger() {
    let blocks = chain(12, 4);
    let source = ledger(&blocks, &[11]);
    let target = MemoryFiles::new();
    for to_block in [4, 8, 11] {
        let last = crate::prune::closed_up_to(&source, to_block).unwrap().last().unwrap().last;
        let taken = archive(&source, &target, last, &mut |_| Ok(())).unwrap();
        assert_eq!((taken.first_block, taken.head.height), (0, last));
        prune(&source, last, 11).unwrap();
        let again = archive(&source, &target, last, &mut |_| Ok(()));
        assert!(again.is_ok() || crate::log::first_block(&source).unwrap() > last);
        let parts: Vec<Arc<dyn Files>> = vec![
            Arc::new(source.clone()),
            Arc::new(BackupFiles::open(Arc::new(target.clone())).unwrap()),
        ];
        let mut reader = BlockReader::open(Arc::new(JoinedFiles(parts))).unwrap();
        for block in &blocks {
            assert_eq!(reader.next().unwrap(), Some(recorded(block)));
        }
        assert!(matches!(reader.next(), Ok(None) | Err(LogError::TornTail(_))));
    }
    assert!(archive(&source, &target, 99, &mut |_| Ok(())).is_err());
}

#[test]
fn an_archive_in_a_folder_of_backups_takes_nothing_away() {
    let blocks = chain(12, 4);
    let source = ledger(&blocks[..=9], &[8]);
    let target = MemoryFiles::new();
    back_up(&source, &target, &blocks[..=9]).unwrap();
    let last = crate::prune::closed_up_to(&source, 8).unwrap().last().unwrap().last;
    let taken = archive(&source, &target, last, &mut |_| Ok(())).unwrap();
    assert_eq!((taken.head.height, &taken.checkpoints[..]), (9, &[8][..]));
    expect_backup(&target, &blocks[..=9], "archived");
    prune(&source, last, 8).unwrap();
    append(&source, &blocks);
    back_up(&source, &target, &blocks).unwrap();
    expect_backup(&target, &blocks, "gone on");
}

/// Orders whose results are not there could not be restored where they were pruned.
#[test]
fn a_backup_has_a_result_for_each_of_its_orders() {
    let blocks = chain(9, 4);
    let source = ledger(&blocks, &[4]);
    let target = MemoryFiles::new();
    back_up(&source, &target, &blocks).unwrap();
    let whole = check(&target).unwrap().manifest;
    for (stream, what) in [(Stream::Results, "without results"), (Stream::Orders, "")] {
        let mut manifest = whole.clone();
        let oldest = manifest.segments_of(stream).next().unwrap().path.clone();
        manifest.entries.retain(|entry| entry.path != oldest);
        target.plant(&manifest::manifest_name(whole.number), manifest.encode());
        match check(&target) {
            Ok(_) => assert_eq!(stream, Stream::Orders, "results may begin first"),
            Err(error) => assert!(!what.is_empty() && error.message().contains(what), "{error}"),
        }
    }
}

/// A run that was killed leaves what it copied, and the next one finds it the same as the ledger's.
#[test]
fn a_damaged_checkpoint_is_not_taken_over_from_an_interrupted_run() {
    let blocks = chain(9, 4);
    let source = ledger(&blocks, &[4]);
    let path = checkpoint::pack_path(4);
    let mut bytes = source.contents(&path).unwrap();
    bytes[300] ^= 1;
    source.plant(&path, bytes);
    let target = MemoryFiles::new();
    let of_checkpoint = size(&source, &path) + size(&source, &checkpoint::manifest_path(4));
    let mut stop = |extent: &Extent| match extent.bytes_copied > of_checkpoint {
        true => Err(Error::new(SqlState::IO_ERROR, "killed")),
        false => Ok(()),
    };
    take(&source, &target, &mut || Ok(head_of(&blocks)), &mut stop).unwrap_err();
    assert!(target.contents(&path).is_some());
    let taken = back_up(&source, &target, &blocks).unwrap();
    assert_eq!(taken.checkpoints, [0; 0]);
    expect_backup(&target, &blocks, "after the interrupted one");
}

/// The backup has the begin of a segment that the archive has whole.
#[test]
fn a_backup_and_a_newer_archive_are_one_ledger() {
    let blocks = chain(12, 4);
    let source = ledger(&blocks[..=7], &[7]);
    let backup = MemoryFiles::new();
    back_up(&source, &backup, &blocks[..=7]).unwrap();
    let newest = *list_segments(&source, Stream::Orders).unwrap().last().unwrap();
    append(&source, &blocks);
    let segments = list_segments(&source, Stream::Orders).unwrap();
    let next = segments[segments.binary_search(&newest).unwrap() + 1];
    assert!(newest <= 7 && next > 8, "block 7 does not end its segment");
    let last = segments.last().unwrap() - 1;
    let archived = MemoryFiles::new();
    archive(&source, &archived, last, &mut |_| Ok(())).unwrap();
    let part = |files: &MemoryFiles| -> Arc<dyn Files> {
        Arc::new(BackupFiles::open(Arc::new(files.clone())).unwrap())
    };
    for parts in [[&backup, &archived], [&archived, &backup]] {
        let joined = JoinedFiles(parts.map(part).into());
        let mut reader = BlockReader::open(Arc::new(joined)).unwrap();
        for block in &blocks[..=last as usize] {
            assert_eq!(reader.next().unwrap(), Some(recorded(block)));
        }
        assert!(reader.next().unwrap().is_none());
    }
}
