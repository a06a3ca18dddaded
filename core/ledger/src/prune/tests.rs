//! A prune at every moment of which the power may go or an operation fail.

use std::sync::Arc;

use super::*;
use crate::block::Block;
use crate::checkpoint::{Manifest, write_manifest};
use crate::headers::{check_chain, kept_header};
use crate::log::{BlockReader, BlockWriter, LogOptions, Recorded, first_block};
use crate::memory_files::{Failure, MemoryFiles};
use crate::parameters::Parameters;
use crate::receipt::Receipt;
use crate::testing::{append, chain, writer, written as written_with};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 900, zero_fill_bytes: 500, sync: true };

/// A ledger of several segments of each stream.
fn written(blocks: &[Block]) -> MemoryFiles {
    written_with(OPTIONS, blocks)
}

fn read(files: &MemoryFiles) -> Result<Vec<Recorded>> {
    let mut reader = BlockReader::open(Arc::new(files.clone()))?;
    let mut blocks = Vec::new();
    while let Some(block) = reader.next()? {
        blocks.push(block);
    }
    Ok(blocks)
}

fn copy_of(files: &MemoryFiles) -> MemoryFiles {
    files.crash_images(0).last().unwrap()
}

/// Orders are there from some height on with all their results, and kept headers of both streams
/// lead up to their first records. Returns the oldest block, and the oldest result.
fn expect_whole(files: &MemoryFiles, blocks: &[Block], when: &str) -> (Height, Height) {
    let found = read(files).unwrap_or_else(|error| panic!("{when}: {error}"));
    let first = first_block(files).unwrap();
    let expected: Vec<Recorded> = blocks[first as usize..].iter().map(recorded).collect();
    assert_eq!(found, expected, "{when}");
    check_chain::<OrderHeader>(files, first, &found[0].batch.previous_hash())
        .unwrap_or_else(|error| panic!("{when}: {error}"));
    let first_result = first_record(files, Stream::Results).unwrap();
    assert!(first_result <= first, "{when}: a result went before its order");
    let previous = blocks[first_result as usize].result.header().previous_result_hash;
    check_chain::<ResultHeader>(files, first_result, &previous)
        .unwrap_or_else(|error| panic!("{when}: {error}"));
    (first, first_result)
}

fn recorded(block: &Block) -> Recorded {
    let result = Some(block.result.encode().unwrap());
    Recorded { batch: block.batch.encode().unwrap(), result }
}

fn newest(files: &MemoryFiles, stream: Stream) -> Height {
    *list_segments(files, stream).unwrap().last().unwrap()
}

#[test]
fn segments_below_the_checkpoint_go_and_their_headers_stay() {
    let blocks = chain(12, 4);
    let whole = written(&blocks);
    for (to_block, checkpoint) in [(0, 12), (12, 0), (5, 12), (12, 7), (12, 12), (99, 99)] {
        let files = copy_of(&whole);
        let pruned = prune(&files, to_block, checkpoint).unwrap();
        let (first, first_result) = expect_whole(&files, &blocks, "pruned");
        assert_eq!(first, pruned.first_block);
        assert!(first <= to_block.min(checkpoint) + 1);
        assert_eq!(pruned.segments > 0, first > 0);
        for (stream, limit) in
            [(Stream::Orders, to_block.min(checkpoint) + 1), (Stream::Results, first)]
        {
            assert_eq!(newest(&files, stream), newest(&whole, stream), "the newest one stays");
            let segments = list_segments(&files, stream).unwrap();
            let next = segments.get(1).copied().unwrap_or(Height::MAX);
            assert!(next > limit, "no more of {stream} could go");
        }
        let again = prune(&files, to_block, checkpoint).unwrap();
        assert_eq!((again.first_block, again.segments), (first, 0));
        assert_eq!(expect_whole(&files, &blocks, "again"), (first, first_result));
    }
}

#[test]
fn a_pruned_log_goes_on_and_is_pruned_again() {
    let blocks = chain(12, 4);
    let files = written(&blocks[..8]);
    let mut first = prune(&files, 8, 8).unwrap().first_block;
    for height in 8..blocks.len() {
        let mut reader = BlockReader::open(Arc::new(files.clone())).unwrap();
        assert_eq!(reader.first_height(), first);
        let pruned = reader.pruned().unwrap().clone();
        let before = &blocks[first as usize - 1];
        assert_eq!(
            (&pruned.order, &pruned.result),
            (before.batch.header(), before.result.header())
        );
        while reader.next().unwrap().is_some() {}
        append(&files, OPTIONS, &blocks[..=height]);
        first = prune(&files, height as Height, height as Height).unwrap().first_block;
        expect_whole(&files, &blocks[..=height], "gone on");
    }
    for stream in Stream::ALL {
        assert!(list_segments(&files, stream).unwrap().len() <= 2);
        assert!(pieces(&files, stream).unwrap().len() > 2);
    }
}

/// Results are synced before a checkpoint is written.
fn checkpoint_of(files: &MemoryFiles, block: &Block) {
    let manifest = Manifest {
        order: block.batch.header().clone(),
        result: block.result.header().clone(),
        durable_below: 0,
        parameters: Parameters::new("serial"),
        schema: Vec::new(),
        carried: Vec::new(),
        tables: Vec::new(),
        past: None,
    };
    files.create_folder(CHECKPOINT_FOLDER).unwrap();
    write_manifest(files, &manifest).unwrap();
}

/// A result that no file proves to be durable keeps its order: it could not be computed again.
#[test]
fn an_order_does_not_go_while_its_result_may_be_lost() {
    let blocks = chain(12, 4);
    let files = MemoryFiles::new();
    let options = LogOptions { segment_bytes: 600, ..OPTIONS };
    let mut writer = writer(&files, options).unwrap();
    blocks.iter().for_each(|block| {
        writer.append_order(&[block.batch.encode().unwrap()]).unwrap();
    });
    assert!(list_segments(&files, Stream::Orders).unwrap().len() > 5);
    assert_eq!(prune(&files, 12, 12).unwrap().segments, 0, "there is no result at all");
    let results: Vec<_> = blocks.iter().map(|block| block.result.encode().unwrap()).collect();
    writer.append_results(&results[..7]).unwrap();
    assert_eq!(prune(&files, 12, 12).unwrap().segments, 0, "none of them is synced");
    writer.sync_results().unwrap();
    assert_eq!(prune(&files, 12, 12).unwrap().segments, 0, "and nothing says so yet");
    let copy = copy_of(&files);
    checkpoint_of(&copy, &blocks[9]);
    let by_checkpoint = prune(&copy, 9, 9).unwrap().first_block;
    assert!((5..=7).contains(&by_checkpoint), "{by_checkpoint}: no further than results are there");
    writer.append_results(&results[7..9]).unwrap();
    drop(writer);
    let first = prune(&files, 12, 12).unwrap().first_block;
    assert!((5..=7).contains(&first), "{first}");
    for image in files.crash_images(6) {
        let mut reader = BlockReader::open(Arc::new(image.clone())).unwrap();
        let found = std::iter::from_fn(|| reader.next().unwrap());
        let with_result = found.take_while(|block| block.result.is_some()).last();
        assert!(with_result.is_none_or(|last| last.batch.height() + 1 >= first));
        append(&image, options, &blocks);
        expect_whole(&image, &blocks, "computed again");
    }
}

/// A segment that was created and not written to yet is all that there is.
#[test]
fn an_empty_newest_segment_is_enough_to_go_on() {
    let blocks = chain(12, 4);
    let files = written(&blocks);
    let newest = newest(&files, Stream::Orders);
    let path = segment_path(Stream::Orders, newest);
    let header = files.contents(&path).unwrap()[..crate::segment::SEGMENT_HEADER_BYTES].to_vec();
    files.plant(&path, header);
    assert_eq!(prune(&files, 99, 99).unwrap().first_block, newest);
    for from in [0, newest - 1, newest] {
        let mut reader = BlockReader::open_at(Arc::new(files.clone()), from).unwrap();
        assert!(reader.next().unwrap().is_none());
        let writer = BlockWriter::resume(reader, OPTIONS).unwrap();
        let before = &blocks[newest as usize - 1];
        assert_eq!(writer.head_order_hash(), before.batch.hash());
        assert_eq!((writer.next_height(), writer.next_result()), (newest, newest));
        assert_eq!(writer.head_hash(), before.hash());
    }
}

#[test]
fn a_receipt_from_before_holds_under_the_kept_headers_and_a_forged_one_does_not() {
    let blocks = chain(12, 4);
    let files = written(&blocks);
    prune(&files, 12, 12).unwrap();
    let first = first_record(&files, Stream::Results).unwrap();
    assert!(first > 0);
    let previous_hash = blocks[first as usize].result.header().previous_result_hash;
    for block in &blocks[..first as usize] {
        let kept = kept_header::<ResultHeader>(&files, block.height(), first, &previous_hash);
        let header = kept.unwrap().unwrap();
        let receipt = Receipt::of(block, 0).unwrap();
        receipt.verify(&header.hash()).unwrap();
        let mut forged = receipt.clone();
        forged.outcome = b"another".to_vec();
        assert!(forged.verify(&header.hash()).is_err());
    }
}

/// What a restore of a pruned ledger begins with.
#[test]
fn a_log_begins_behind_copied_headers() {
    let blocks = chain(12, 4);
    let files = written(&blocks);
    let first = prune(&files, 9, 12).unwrap().first_block;
    assert!(first > first_record(&files, Stream::Results).unwrap(), "the test needs a difference");
    let target = MemoryFiles::new();
    copy_headers(&files, &target).unwrap();
    let mut reader = BlockReader::open(Arc::new(files.clone())).unwrap();
    let last = reader.pruned().unwrap().clone();
    let mut writer = BlockWriter::begin_behind(Arc::new(target.clone()), &last, OPTIONS).unwrap();
    assert_eq!((writer.next_height(), writer.next_result()), (first, first));
    while let Some(Recorded { batch, result }) = reader.next().unwrap() {
        writer.append_order(&[batch]).unwrap();
        writer.append_results(&result.into_iter().collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(expect_whole(&target, &blocks, "restored"), (first, first));
}

/// Every moment, every image of the disk: all blocks are there or the prune can be completed, and
/// once it is decided it is.
#[test]
fn every_image_of_every_moment_is_a_whole_ledger() {
    let blocks = chain(9, 4);
    let whole = written(&blocks);
    // An older prune, so that the new pieces stand beside old ones.
    let start = *list_segments(&whole, Stream::Orders).unwrap().get(1).unwrap();
    prune(&whole, start - 1, 9).unwrap();
    let whole = copy_of(&whole);
    let done = copy_of(&whole);
    let before = done.operations();
    prune(&done, 9, 9).unwrap();
    let (end, end_result) = expect_whole(&done, &blocks, "done");
    let operations = done.operations() - before;
    assert!(end > start && operations > 12, "{operations} operations");
    let mut images = 0;
    for operation in 0..=operations {
        let files = copy_of(&whole);
        files.fail_at(Some(Failure::PowerOff(files.operations() + operation)));
        let pruned = prune(&files, 9, 9);
        assert_eq!(pruned.is_ok(), operation == operations);
        files.fail_at(None);
        for image in files.crash_images(6).chain([files.clone()]) {
            let when = format!("operation {operation}");
            let (first, _) = expect_whole(&image, &blocks, &when);
            let completed = complete(&image, Some(9)).unwrap();
            let (after, _) = expect_whole(&image, &blocks, &when);
            assert_eq!(completed.first_block, after, "{when}");
            assert!([start, end].contains(&after), "{when}: neither all nor nothing: {after}");
            assert!(first == start || after == end, "{when}: decided, and not completed");
            assert_eq!(prune(&image, 9, 9).unwrap().first_block, end, "{when}: again");
            assert_eq!(expect_whole(&image, &blocks, &when), (end, end_result));
            images += 1;
        }
    }
    assert!(images > 100, "only {images} images");
}

/// If the checkpoint is lost before a prune was completed, the blocks that are left stay.
#[test]
fn without_a_checkpoint_nothing_more_goes() {
    let blocks = chain(9, 4);
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
        let (_, first_result) = expect_whole(&files, &blocks, "gone back");
        for (stream, first) in [(Stream::Orders, first), (Stream::Results, first_result)] {
            assert!(pieces(&files, stream).unwrap().iter().all(|piece| *piece < first));
        }
    }
}

/// A segment of the genesis block alone ends at height 0, and stays without a checkpoint of it.
#[test]
fn genesis_alone_stays_without_a_checkpoint() {
    let blocks = chain(4, 4);
    let files = written_with(LogOptions { segment_bytes: 1, ..LogOptions::default() }, &blocks);
    let going = closed_up_to(&files, 0).unwrap();
    assert_eq!(going, [ClosedSegment { first: 0, last: 0 }]);
    keep_headers::<OrderHeader>(&files, &going).unwrap();
    assert_eq!(complete(&files, None).unwrap(), Pruned::default());
    assert!(pieces(&files, Stream::Orders).unwrap().is_empty(), "it has gone back");
    keep_headers::<OrderHeader>(&files, &going).unwrap();
    assert_eq!(complete(&files, Some(0)).unwrap().first_block, 1);
    assert_eq!(first_record(&files, Stream::Results).unwrap(), 0, "its result is not pruned alone");
    assert_eq!(prune(&files, 0, 0).unwrap().first_block, 1);
    assert_eq!(expect_whole(&files, &blocks, "pruned"), (1, 1));
}

#[test]
fn every_fault_at_every_operation_leaves_a_whole_ledger() {
    let manners: [fn(u64) -> Failure; 5] =
        [Failure::Once, Failure::Short, Failure::SyncLost, Failure::Full, Failure::ReadOnly];
    let blocks = chain(7, 4);
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
    let blocks = chain(9, 4);
    let whole = written(&blocks);
    for stream in Stream::ALL {
        let path = segment_path(stream, *list_segments(&whole, stream).unwrap().get(1).unwrap());
        let bytes = whole.contents(&path).unwrap();
        for place in [0, 50, 60, 100, bytes.len() - 1] {
            let files = copy_of(&whole);
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            files.plant(&path, changed);
            assert!(prune(&files, 9, 9).is_err(), "{stream}, byte {place}");
            assert_eq!(first_record(&files, stream).unwrap(), 0);
        }
    }
}
