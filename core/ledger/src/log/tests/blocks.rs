//! Both streams together: results that end first, results without orders, crashes of either.

use kit::random::Random;

use super::*;
use crate::files::Files;
use crate::testing::{append, genesis};

/// All blocks of a ledger with how many results it has, and the torn tails of both streams.
fn read_blocks(files: &MemoryFiles) -> Result<(Vec<Recorded>, BlockReader), LogError> {
    let mut reader = BlockReader::open(Arc::new(files.clone()))?;
    let mut found = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(block)) => found.push(block),
            Ok(None) => return Ok((found, reader)),
            Err(LogError::TornTail(torn)) => assert_eq!(torn.stream, Stream::Orders),
            Err(error) => return Err(error),
        }
    }
}

/// What is found is the chain's, results without a hole; returns the numbers of both.
fn expect_prefix(found: &[Recorded], blocks: &[Block], when: &str) -> (usize, usize) {
    let (orders, results) = (orders(blocks), results(blocks));
    let with_result = found.iter().take_while(|block| block.result.is_some()).count();
    for (at, Recorded { batch, result }) in found.iter().enumerate() {
        assert_eq!(*batch, orders[at], "{when}");
        assert_eq!(result.as_ref(), results.get(at).filter(|_| at < with_result), "{when}");
    }
    (found.len(), with_result)
}

fn write(files: &MemoryFiles, blocks: &[Block], results_to: usize) {
    let mut writer = crate::testing::writer(files, OPTIONS).unwrap();
    let next = writer.next_height() as usize;
    orders(blocks)[next..].iter().for_each(|order| {
        writer.append_order(std::slice::from_ref(order)).unwrap();
    });
    let next = writer.next_result() as usize;
    results(blocks)[next..results_to].iter().for_each(|result| {
        writer.append_results(std::slice::from_ref(result)).unwrap();
    });
}

#[test]
fn genesis_is_durable_when_a_ledger_has_begun() {
    let files = MemoryFiles::new();
    let writer =
        BlockWriter::begin(Arc::new(files.clone()), &genesis(), LogOptions::default()).unwrap();
    assert_eq!((writer.next_height(), writer.next_result(), writer.durable_below()), (1, 1, 1));
    let block = genesis().to_block().unwrap();
    assert_eq!((writer.head_order_hash(), writer.head_hash()), (block.batch.hash(), block.hash()));
    for image in files.crash_images(4) {
        let (found, _) = read_blocks(&image).unwrap();
        assert_eq!(expect_prefix(&found, std::slice::from_ref(&block), "begun"), (1, 1));
    }
    assert!(BlockWriter::begin(Arc::new(files), &genesis(), LogOptions::default()).is_err());
}

#[test]
fn results_may_end_before_orders_and_are_gone_on_with() {
    let blocks = chain(12, 4);
    for results_to in [0, 1, 5, 13] {
        let files = MemoryFiles::new();
        write(&files, &blocks, results_to);
        let (found, reader) = read_blocks(&files).unwrap();
        assert_eq!(expect_prefix(&found, &blocks, "read"), (13, results_to));
        assert_eq!(reader.next_result(), results_to as Height);
        assert!(reader.torn_orders().is_none() && reader.torn_results().is_none());
        let block = read_block(&files, 4).unwrap().unwrap();
        assert_eq!(block.result.is_some(), results_to > 4);
        append(&files, OPTIONS, &blocks);
        let (found, _) = read_blocks(&files).unwrap();
        assert_eq!(expect_prefix(&found, &blocks, "gone on"), (13, 13));
    }
}

#[test]
fn a_reader_begins_at_any_height() {
    let blocks = chain(12, 4);
    let files = MemoryFiles::new();
    write(&files, &blocks, 9);
    for from in 0..15 {
        let mut reader = BlockReader::open_at(Arc::new(files.clone()), from).unwrap();
        for block in blocks.iter().skip(from as usize) {
            let found = reader.next().unwrap().unwrap();
            assert_eq!(found.batch, block.batch.encode().unwrap());
            assert_eq!(found.result.is_some(), block.height() < 9);
        }
        assert!(reader.next().unwrap().is_none());
        let writer = BlockWriter::resume(reader, OPTIONS).unwrap();
        assert_eq!((writer.next_height(), writer.next_result()), (13, 9), "from {from}");
        assert_eq!(writer.head_order_hash(), blocks[12].batch.hash());
        assert_eq!(writer.head_hash(), blocks[8].hash());
    }
}

/// The orders of `keep` blocks with the results of all.
fn beyond(blocks: &[Block], keep: usize) -> MemoryFiles {
    let files = MemoryFiles::new();
    write(&files, &blocks[..keep], 0);
    let results_only = written(&results(blocks), 1, LogOptions { sync: false, ..OPTIONS });
    for path in results_only.paths() {
        files.plant(&path, results_only.contents(&path).unwrap());
    }
    files
}

/// Results of orders that are not there are cut, over as many segments as they take.
#[test]
fn results_never_count_beyond_the_orders() {
    let blocks = chain(12, 4);
    for keep in 1..=13 {
        let files = beyond(&blocks, keep);
        for from in [0, 3, 9, 20] {
            let mut reader = BlockReader::open_at(Arc::new(files.clone()), from).unwrap();
            while reader.next().unwrap().is_some() {}
            let torn = reader.torn_results();
            assert_eq!(torn.is_some(), keep < 13, "{keep} orders, from {from}");
            assert!(torn.is_none_or(|torn| torn.height == keep as Height));
            assert!(torn.is_none_or(|torn| torn.to_string().contains("nothing is lost")));
            assert_eq!(reader.next_result(), keep as Height);
        }
        let (found, reader) = read_blocks(&files).unwrap();
        assert_eq!(expect_prefix(&found, &blocks, "read"), (keep, keep));
        let writer = BlockWriter::resume(reader, OPTIONS).unwrap();
        assert_eq!((writer.next_height(), writer.next_result()), (keep as u64, keep as u64));
        let (found, reader) = read_blocks(&files).unwrap();
        assert_eq!(expect_prefix(&found, &blocks, "cut"), (keep, keep));
        assert!(reader.torn_results().is_none(), "they are cut");
        append(&files, OPTIONS, &blocks);
        let (found, _) = read_blocks(&files).unwrap();
        assert_eq!(expect_prefix(&found, &blocks, "gone on"), (13, 13));
    }
}

/// The cut itself may be cut short at any operation, in any manner.
#[test]
fn a_cut_of_results_can_be_interrupted_anywhere() {
    let blocks = chain(12, 4);
    let whole = beyond(&blocks, 4);
    let probe = whole.copy();
    drop(crate::testing::writer(&probe, OPTIONS).unwrap());
    let operations = probe.operations() - whole.operations();
    assert!(operations > 12, "{operations} operations");
    let mut images = 0;
    for (what, manner) in MANNERS {
        for operation in 0..operations {
            let when = format!("{what} at operation {operation}");
            let files = whole.copy();
            files.fail_at(Some(manner(files.operations() + operation)));
            drop(crate::testing::writer(&files, OPTIONS));
            files.fail_at(None);
            for image in files.crash_images(6).chain([files.clone()]) {
                let (found, _) = read_blocks(&image).unwrap_or_else(|e| panic!("{when}: {e}"));
                assert_eq!(expect_prefix(&found, &blocks, &when), (4, 4), "{when}");
                append(&image, OPTIONS, &blocks);
                let (found, _) = read_blocks(&image).unwrap();
                assert_eq!(expect_prefix(&found, &blocks, &when), (13, 13), "{when}");
                images += 1;
            }
        }
    }
    assert!(images > 200, "only {images} images");
}

#[test]
fn a_result_does_not_come_before_its_order() {
    let blocks = chain(2, 2);
    let (orders, results) = (orders(&blocks), results(&blocks));
    let mut writer = crate::testing::writer(&MemoryFiles::new(), OPTIONS).unwrap();
    assert!(writer.append_results(&results[..1]).is_err());
    writer.append_order(&orders[..1]).unwrap();
    assert!(writer.append_results(&results[..2]).is_err());
    writer.append_results(&results[..1]).unwrap();
    assert!(writer.append_results(&orders[1..2]).is_err(), "that is no result");
}

#[test]
fn a_result_of_another_order_is_damage() {
    let blocks = chain(4, 2);
    let files = MemoryFiles::new();
    write(&files, &blocks, 0);
    let mut other = results(&blocks);
    let header = |header: &mut crate::header::ResultHeader| header.order_hash = [9; 32];
    let changed = crate::testing::changed_result(&blocks[4].result, &|h, _| header(h));
    other[4] = changed.encode().unwrap();
    let results = written(&other, 1, OPTIONS);
    for path in results.paths() {
        files.plant(&path, results.contents(&path).unwrap());
    }
    match read_blocks(&files) {
        Err(LogError::Damage(damage)) => assert_eq!(damage.height, 4),
        _ => panic!("damage expected"),
    }
    assert!(matches!(read_block(&files, 4), Err(LogError::Damage(_))));
    let mut reader = BlockReader::open(Arc::new(files)).unwrap();
    while reader.next().is_ok() {}
    assert!(reader.next().is_err() && reader.next().is_err(), "there is no way past damage");
    assert!(BlockWriter::resume(reader, OPTIONS).is_err());
}

#[test]
fn without_any_order_results_are_damage_and_without_results_there_are_none() {
    let blocks = chain(5, 2);
    let files = MemoryFiles::new();
    append(&files, OPTIONS, &blocks);
    let without = |stream: Stream| {
        let left = files.copy();
        let gone = files.paths().into_iter().filter(|path| path.starts_with(stream.folder()));
        gone.for_each(|path| left.remove(&path).unwrap());
        left
    };
    assert!(matches!(read_blocks(&without(Stream::Orders)), Err(LogError::Damage(_))));
    let (found, _) = read_blocks(&without(Stream::Results)).unwrap();
    assert_eq!(expect_prefix(&found, &blocks, "orders alone"), (6, 0));
    let left = without(Stream::Results);
    append(&left, OPTIONS, &blocks);
    let (found, _) = read_blocks(&left).unwrap();
    assert_eq!(expect_prefix(&found, &blocks, "computed again"), (6, 6));
}

/// Damage in the middle of the results is damage; in their unproven end it is an end.
#[test]
fn every_flipped_byte_of_the_results_is_found() {
    let blocks = chain(7, 3);
    let files = MemoryFiles::new();
    append(&files, OPTIONS, &blocks);
    let paths = files.paths().into_iter().filter(|path| path.starts_with("results/"));
    let (mut ends, mut damaged) = (0, 0);
    for path in paths.collect::<Vec<_>>() {
        let bytes = files.contents(&path).unwrap();
        for offset in (0..bytes.len()).step_by(3) {
            let mut changed = bytes.clone();
            changed[offset] ^= 0x40;
            files.plant(&path, changed);
            match read_blocks(&files) {
                Ok((found, reader)) => {
                    let (orders, results) = expect_prefix(&found, &blocks, "flipped");
                    assert_eq!(orders, 8);
                    assert!(reader.torn_results().is_some(), "{path}, offset {offset}");
                    assert_eq!(reader.torn_results().unwrap().height, results as Height);
                    ends += 1;
                }
                Err(LogError::Damage(damage)) => {
                    assert_eq!(damage.file, path);
                    damaged += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        files.plant(&path, bytes);
    }
    assert!(ends > 100 && damaged > 100, "{ends} ends, {damaged} damaged");
}

/// One life after another on the same disk, each cut at a random operation (also of the recovery).
fn live_and_die(seed: u64, blocks: &[Block], sync: bool) -> u64 {
    let mut random = Random::new(seed);
    let options = LogOptions {
        segment_bytes: 600 + random.below(5_000),
        zero_fill_bytes: random.below(3_000),
        sync,
    };
    let (orders, results) = (orders(blocks), results(blocks));
    let mut files = MemoryFiles::new();
    let (mut durable, mut lost_results) = (0, 0);
    loop {
        let when = format!("seed {seed}");
        let (found, reader) = read_blocks(&files).unwrap_or_else(|e| panic!("{when}: {e}"));
        let (ordered, executed) = expect_prefix(&found, blocks, &when);
        assert!(ordered >= durable, "{when}: {durable} orders were synced");
        lost_results += u64::from(reader.torn_results().is_some());
        if ordered == blocks.len() && executed == blocks.len() {
            return lost_results;
        }
        files.fail_at(Some(Failure::PowerOff(files.operations() + random.below(30))));
        let writer = match ordered {
            0 => BlockWriter::begin(Arc::new(files.clone()), &genesis(), options),
            _ => crate::testing::writer(&files, options),
        };
        if let Ok(mut writer) = writer {
            let (ordered, executed) = (ordered.max(1), executed.max((ordered == 0).into()));
            assert_eq!(writer.next_height(), ordered as Height, "{when}");
            assert_eq!(writer.next_result(), executed as Height, "{when}");
            durable = durable.max(ordered);
            live(&mut writer, &orders, &results, &mut random, &mut durable);
        }
        files.fail_at(None);
        if !random.chance(3) {
            files = files.crash(&mut random);
        }
    }
}

/// Appends until done or until the power is off.
fn live(
    writer: &mut BlockWriter,
    orders: &[Record],
    results: &[Record],
    random: &mut Random,
    durable: &mut usize,
) {
    loop {
        let next = writer.next_height() as usize;
        let ordered = match orders.get(next..(next + 1 + random.below(3) as usize)) {
            Some(group) => writer.append_order(group),
            None => writer.append_order(&orders[next..]),
        };
        if ordered.is_err() {
            return;
        }
        *durable = (*durable).max(writer.durable_below() as usize);
        let (from, to) = (writer.next_result() as usize, writer.next_height() as usize);
        let to = from + random.below((to - from) as u64 + 1) as usize;
        let executed = writer.append_results(&results[from..to]);
        let synced = if random.chance(6) { writer.sync_results() } else { Ok(()) };
        if executed.is_err() || synced.is_err() || writer.next_result() as usize == results.len() {
            return;
        }
    }
}

#[test]
fn no_crash_takes_a_synced_order_and_none_leaves_a_result_alone() {
    let blocks = chain(20, 6);
    for sync in [true, false] {
        let lost: u64 = (0..300).map(|seed| live_and_die(seed, &blocks, sync)).sum();
        assert!(lost > 40, "results ended early {lost} times only, orders synced: {sync}");
    }
}
