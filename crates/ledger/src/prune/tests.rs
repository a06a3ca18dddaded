//! A prune at every moment of which the power may go or an operation fail.

use std::sync::Arc;

use super::*;
use crate::block::EncodedBlock;
use crate::headers::{check_chain, kept_header};
use crate::log::{LogError, LogOptions, LogReader, LogWriter, first_block};
use crate::memory_files::{Failure, MemoryFiles};
use crate::receipt::Receipt;
use crate::testing::{chain, encoded};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 1_500, zero_fill_bytes: 700, sync: true };

/// A log of several segments.
fn written(blocks: &[EncodedBlock]) -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut reader = LogReader::open(Arc::new(files.clone())).unwrap();
    assert!(reader.next_block().unwrap().is_none());
    let mut writer = LogWriter::resume(reader, OPTIONS).unwrap();
    blocks.iter().for_each(|block| writer.append(std::slice::from_ref(block)).unwrap());
    files
}

fn read(files: &MemoryFiles) -> Result<Vec<EncodedBlock>, LogError> {
    let mut reader = LogReader::open(Arc::new(files.clone()))?;
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block()? {
        blocks.push(block);
    }
    Ok(blocks)
}

fn copy_of(files: &MemoryFiles) -> MemoryFiles {
    files.crash_images(0).last().unwrap()
}

/// The log reads from where it begins to its end, and kept headers lead up to there.
fn expect_whole(files: &MemoryFiles, blocks: &[EncodedBlock], when: &str) -> Height {
    let found = read(files).unwrap_or_else(|error| panic!("{when}: {error}"));
    let first = first_block(files).unwrap();
    assert_eq!(found, blocks[first as usize..], "{when}");
    let previous = found[0].previous_hash();
    let last = check_chain(files, first, &previous);
    last.unwrap_or_else(|error| panic!("{when}: {error}"));
    first
}

#[test]
fn segments_below_the_checkpoint_go_and_their_headers_stay() {
    let blocks = encoded(&chain(12, 4));
    let whole = written(&blocks);
    for (to_block, checkpoint) in [(0, 12), (12, 0), (5, 12), (12, 7), (12, 12), (99, 99)] {
        let files = copy_of(&whole);
        let pruned = prune(&files, to_block, checkpoint).unwrap();
        let first = expect_whole(&files, &blocks, "pruned");
        assert_eq!(first, pruned.first_block);
        assert!(first <= to_block.min(checkpoint) + 1);
        assert_eq!(pruned.segments > 0, first > 0);
        let newest = *list_segments(&files).unwrap().last().unwrap();
        assert_eq!(Some(&newest), list_segments(&whole).unwrap().last(), "the newest one stays");
        let next = list_segments(&files).unwrap().get(1).copied().unwrap_or(Height::MAX);
        assert!(next > to_block.min(checkpoint) + 1 || first == newest, "no more could go");
        let again = prune(&files, to_block, checkpoint).unwrap();
        assert_eq!((again.first_block, again.segments), (first, 0));
    }
}

#[test]
fn a_pruned_log_goes_on_and_is_pruned_again() {
    let blocks = encoded(&chain(12, 4));
    let files = written(&blocks[..8]);
    let mut first = prune(&files, 8, 8).unwrap().first_block;
    for block in &blocks[8..] {
        let mut reader = LogReader::open(Arc::new(files.clone())).unwrap();
        assert_eq!(reader.first_height(), first);
        while reader.next_block().unwrap().is_some() {}
        let mut writer = LogWriter::resume(reader, OPTIONS).unwrap();
        writer.append(std::slice::from_ref(block)).unwrap();
        let height = block.height();
        first = prune(&files, height, height).unwrap().first_block;
        expect_whole(&files, &blocks[..=height as usize], "gone on");
    }
    assert!(list_segments(&files).unwrap().len() == 1 && pieces(&files).unwrap().len() > 2);
}

/// A segment that was created and not written to yet is all that there is.
#[test]
fn an_empty_newest_segment_is_enough_to_go_on() {
    let blocks = encoded(&chain(12, 4));
    let files = written(&blocks);
    let newest = *list_segments(&files).unwrap().last().unwrap();
    let path = segment_path(newest);
    let header = files.contents(&path).unwrap()[..crate::segment::SEGMENT_HEADER_BYTES].to_vec();
    files.plant(&path, header);
    assert_eq!(prune(&files, 99, 99).unwrap().first_block, newest);
    for from in [0, newest - 1, newest] {
        let mut reader = LogReader::open_at(Arc::new(files.clone()), from).unwrap();
        assert!(reader.next_block().unwrap().is_none());
        let writer = LogWriter::resume(reader, OPTIONS).unwrap();
        assert_eq!(writer.head_hash(), blocks[newest as usize].previous_hash());
        assert_eq!(writer.next_height(), newest);
    }
}

#[test]
fn a_receipt_from_before_holds_under_the_kept_headers_and_a_forged_one_does_not() {
    let blocks = chain(12, 4);
    let files = written(&encoded(&blocks));
    let first = prune(&files, 12, 12).unwrap().first_block;
    let previous_hash = blocks[first as usize].header.previous_hash;
    for block in &blocks[..first as usize] {
        let height = block.header.height;
        let header = kept_header(&files, height, first, &previous_hash).unwrap().unwrap();
        let receipt = Receipt::of(block, 0).unwrap();
        receipt.verify(&header.hash()).unwrap();
        let mut forged = receipt.clone();
        forged.outcome = b"another".to_vec();
        assert!(forged.verify(&header.hash()).is_err());
    }
}

/// Every moment, every image of the disk: all blocks are there or the prune can be completed, and
/// once it is decided it is.
#[test]
fn every_image_of_every_moment_is_a_whole_ledger() {
    let blocks = encoded(&chain(9, 4));
    let whole = written(&blocks);
    // An older prune, so that the new pieces stand beside old ones.
    let start = *list_segments(&whole).unwrap().get(1).unwrap();
    prune(&whole, start - 1, 9).unwrap();
    let whole = copy_of(&whole);
    let done = copy_of(&whole);
    let before = done.operations();
    let end = prune(&done, 9, 9).unwrap().first_block;
    let operations = done.operations() - before;
    assert!(end > start && operations > 12, "{operations} operations");
    let mut images = 0;
    for operation in 0..=operations {
        let files = copy_of(&whole);
        files.fail_at(Some(Failure::PowerOff(files.operations() + operation)));
        let pruned = prune(&files, 9, 9);
        assert_eq!(pruned.is_ok(), operation == operations);
        files.fail_at(None);
        for image in files.crash_images(12).chain([files.clone()]) {
            let when = format!("operation {operation}");
            let first = expect_whole(&image, &blocks, &when);
            let completed = complete(&image, Some(9)).unwrap();
            let after = expect_whole(&image, &blocks, &when);
            assert_eq!(completed.first_block, after, "{when}");
            assert!([start, end].contains(&after), "{when}: neither all nor nothing: {after}");
            assert!(first == start || after == end, "{when}: decided, and not completed");
            assert_eq!(prune(&image, 9, 9).unwrap().first_block, end, "{when}: again");
            expect_whole(&image, &blocks, &when);
            images += 1;
        }
    }
    assert!(images > 100, "only {images} images");
}

/// If the checkpoint is lost before a prune was completed, the blocks that are left stay.
#[test]
fn without_a_checkpoint_nothing_more_goes() {
    let blocks = encoded(&chain(9, 4));
    let whole = written(&blocks);
    let probe = copy_of(&whole);
    let before = probe.operations();
    prune(&probe, 9, 9).unwrap();
    for operation in 0..probe.operations() - before {
        let files = copy_of(&whole);
        files.fail_at(Some(Failure::PowerOff(files.operations() + operation)));
        let _ = prune(&files, 9, 9);
        files.fail_at(None);
        let first = first_block(&files).unwrap();
        let left = complete(&files, None).unwrap();
        assert_eq!((left.first_block, left.segments), (first, 0));
        assert_eq!(expect_whole(&files, &blocks, "gone back"), first);
        assert!(pieces(&files).unwrap().iter().all(|piece| *piece < first));
    }
}

/// A segment of the genesis block alone ends at height 0, and stays without a checkpoint of it.
#[test]
fn genesis_alone_stays_without_a_checkpoint() {
    let blocks = encoded(&chain(4, 4));
    let files = written(&blocks[..1]);
    let mut reader = LogReader::open(Arc::new(files.clone())).unwrap();
    while reader.next_block().unwrap().is_some() {}
    let options = LogOptions { segment_bytes: 1, ..LogOptions::default() };
    let mut writer = LogWriter::resume(reader, options).unwrap();
    blocks[1..].iter().for_each(|block| writer.append(std::slice::from_ref(block)).unwrap());
    let going = closed_up_to(&files, 0).unwrap();
    assert_eq!(going, [ClosedSegment { first: 0, last: 0 }]);
    keep_headers(&files, &going).unwrap();
    assert_eq!(complete(&files, None).unwrap(), Pruned::default());
    assert!(pieces(&files).unwrap().is_empty(), "it has gone back");
    keep_headers(&files, &going).unwrap();
    assert_eq!(complete(&files, Some(0)).unwrap().first_block, 1);
}

#[test]
fn every_fault_at_every_operation_leaves_a_whole_ledger() {
    let manners: [fn(u64) -> Failure; 5] =
        [Failure::Once, Failure::Short, Failure::SyncLost, Failure::Full, Failure::ReadOnly];
    let blocks = encoded(&chain(7, 4));
    let whole = written(&blocks);
    let probe = copy_of(&whole);
    let before = probe.operations();
    prune(&probe, 7, 7).unwrap();
    for operation in 0..probe.operations() - before {
        for manner in manners {
            let files = copy_of(&whole);
            files.fail_at(Some(manner(files.operations() + operation)));
            let failed = prune(&files, 7, 7);
            files.fail_at(None);
            let when = format!("{:?}", manner(operation));
            let full = matches!(manner(0), Failure::Full(_));
            assert!(failed.is_err() || full, "{when}");
            for image in files.crash_images(8).chain([files.clone()]) {
                expect_whole(&image, &blocks, &when);
            }
            complete(&files, Some(7)).unwrap();
            assert!(prune(&files, 7, 7).unwrap().first_block > 0, "{when}");
            expect_whole(&files, &blocks, &when);
        }
    }
}

#[test]
fn a_damaged_segment_is_not_pruned() {
    let blocks = encoded(&chain(9, 4));
    let whole = written(&blocks);
    let path = segment_path(*list_segments(&whole).unwrap().get(1).unwrap());
    let bytes = whole.contents(&path).unwrap();
    for place in [0, 50, 60, 100, bytes.len() - 1] {
        let files = copy_of(&whole);
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        files.plant(&path, changed);
        assert!(prune(&files, 9, 9).is_err(), "byte {place}");
        assert_eq!(first_block(&files).unwrap(), 0);
    }
}
