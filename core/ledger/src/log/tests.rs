mod blocks;
mod crashes;
mod ends;
mod faults;
mod flips;
mod lookups;

use std::sync::Arc;

use super::*;
use crate::batch::{Batch, OrderSeal};
use crate::block::Block;
use crate::chain::ChainVerifier;
use crate::files::Files;
use crate::memory_files::{Failure, MANNERS, MemoryFiles};
use crate::record::Record;
use crate::result::BlockResult;
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_name};
use crate::testing::{chain, changed_order, orders, records, results};

/// Small, so that a few blocks fill several segments.
const OPTIONS: LogOptions = LogOptions { segment_bytes: 900, zero_fill_bytes: 500, sync: true };

/// Most tests are of one stream, and each is of whichever has records.
fn stream_of(files: &MemoryFiles) -> Stream {
    let has = |stream: Stream| files.paths().iter().any(|path| path.starts_with(stream.folder()));
    if has(Stream::Results) && !has(Stream::Orders) { Stream::Results } else { Stream::Orders }
}

fn reader(files: &MemoryFiles) -> Result<LogReader, LogError> {
    LogReader::open(Arc::new(files.clone()), stream_of(files))
}

/// A writer at the end of a log, whatever that end is.
fn writer(files: &MemoryFiles, options: LogOptions) -> io::Result<LogWriter> {
    writer_from(files, stream_of(files), 0, options)
}

/// The same by a reader that begins at a height.
fn writer_from(
    files: &MemoryFiles,
    stream: Stream,
    from: Height,
    options: LogOptions,
) -> io::Result<LogWriter> {
    let files = Arc::new(files.clone());
    let mut reader = LogReader::open_at(files, stream, from).expect("a log without damage");
    while matches!(reader.next_record(), Ok(Some(_)) | Err(LogError::TornTail(_))) {}
    LogWriter::resume(reader, options)
}

fn written(blocks: &[Record], group: usize, options: LogOptions) -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut writer = writer_from(&files, blocks[0].stream(), 0, options).unwrap();
    blocks.chunks(group).for_each(|group| writer.append(group).unwrap());
    files
}

/// All blocks of a log, and why there are no more.
fn read(files: &MemoryFiles) -> (Vec<Record>, Option<LogError>) {
    let mut blocks = Vec::new();
    let mut reader = match reader(files) {
        Ok(reader) => reader,
        Err(error) => return (blocks, Some(error)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(block)) => blocks.push(block),
            Ok(None) => return (blocks, None),
            Err(error) => return (blocks, Some(error)),
        }
    }
}

fn damage(files: &MemoryFiles) -> Damage {
    if let Ok(mut reader) = reader(files) {
        while let Ok(Some(_)) = reader.next_record() {}
        assert!(reader.next_record().is_err(), "there is no way past damage");
    }
    match read(files).1 {
        Some(LogError::Damage(damage)) => damage,
        other => panic!("damage expected, {other:?} found"),
    }
}

#[test]
fn many_blocks_at_once_fill_segments_of_the_usual_size() {
    let blocks = orders(&chain(40, 4));
    let files = MemoryFiles::new();
    let mut writer = writer(&files, OPTIONS).unwrap();
    writer.append_and_sync(&blocks).unwrap();
    assert_eq!((writer.next_height(), writer.durable_below()), (41, 41));
    assert_eq!(read(&files).0, blocks);
    for path in files.paths() {
        let bytes = files.contents(&path).unwrap().len() as u64;
        let max = OPTIONS.segment_bytes + OPTIONS.zero_fill_bytes;
        assert!(bytes <= max, "{path}: {bytes} bytes");
    }
}

#[test]
fn what_was_appended_is_read_back() {
    let blocks = orders(&chain(12, 4));
    for group in 1..5 {
        let files = written(&blocks, group, OPTIONS);
        assert!(files.paths().len() > 2, "several segments");
        let (found, error) = read(&files);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(found, blocks);
        for block in &blocks {
            assert_eq!(
                read_record(&files, Stream::Orders, block.height()).unwrap().as_ref(),
                Some(block)
            );
            let reader =
                LogReader::open_at(Arc::new(files.clone()), Stream::Orders, block.height());
            let mut reader = reader.unwrap();
            let mut later = std::iter::from_fn(|| reader.next_record().unwrap());
            assert_eq!(later.find(|found| found.height() == block.height()).as_ref(), Some(block));
        }
        assert_eq!(read_record(&files, Stream::Orders, 13).unwrap(), None);
    }
}

#[test]
fn a_log_goes_on_after_a_restart_at_any_height() {
    let blocks = orders(&chain(8, 3));
    let files = MemoryFiles::new();
    assert_eq!(read(&files).0, []);
    for block in &blocks {
        let mut writer = writer(&files, OPTIONS).unwrap();
        assert_eq!(writer.next_height(), block.height());
        assert_eq!(writer.head_hash(), block.previous_hash());
        writer.append(std::slice::from_ref(block)).unwrap();
        assert_eq!(writer.durable_below(), block.height() + 1);
    }
    assert_eq!(read(&files).0, blocks);
}

#[test]
fn blocks_that_do_not_follow_are_refused_and_harm_nothing() {
    let blocks = orders(&chain(3, 2));
    let files = MemoryFiles::new();
    let mut writer = writer(&files, OPTIONS).unwrap();
    let kind = |result: io::Result<()>| result.err().map(|error| error.kind());
    assert_eq!(kind(writer.append(&blocks[1..])), Some(io::ErrorKind::InvalidInput));
    writer.append(&blocks[..2]).unwrap();
    assert_eq!(kind(writer.append(&blocks[1..])), Some(io::ErrorKind::InvalidInput));
    assert_eq!(kind(writer.append(&blocks[3..])), Some(io::ErrorKind::InvalidInput));
    let fork = chain(2, 5).pop().unwrap().batch;
    let fork = changed_order(&fork, &|header, _| header.previous_order_hash = [7; 32]);
    let fork = fork.encode().unwrap();
    let results = results(&chain(3, 2));
    assert_eq!(kind(writer.append(&results[2..])), Some(io::ErrorKind::InvalidInput));
    assert_eq!(kind(writer.append(&[fork])), Some(io::ErrorKind::InvalidInput));
    writer.append(&blocks[2..]).unwrap();
    assert_eq!(read(&files).0, blocks);
}

/// One write and one sync for a group, unless a segment is created.
#[test]
fn a_group_costs_two_operations() {
    let blocks = orders(&chain(9, 1));
    let files = MemoryFiles::new();
    let mut writer = writer(&files, LogOptions::default()).unwrap();
    writer.append(&blocks[..1]).unwrap();
    let before = files.operations();
    writer.append(&blocks[1..]).unwrap();
    assert_eq!(files.operations() - before, 2);
}

#[test]
fn after_an_error_the_writer_refuses_for_ever() {
    let blocks = orders(&chain(6, 2));
    for skipped in 0..4 {
        let files = written(&blocks[..2], 1, OPTIONS);
        let mut writer = writer(&files, OPTIONS).unwrap();
        files.fail_at(Some(Failure::Once(files.operations() + skipped)));
        let failed =
            blocks[2..].iter().position(|b| writer.append(std::slice::from_ref(b)).is_err());
        let failed = 2 + failed.expect("an injected error");
        for block in &blocks[failed..] {
            assert!(writer.append(std::slice::from_ref(block)).is_err());
        }
        assert!(writer.sync().is_err());
        let (found, _) = read(&files);
        assert!(found.len() >= failed, "acknowledged blocks are there");
        assert_eq!(found, blocks[..found.len()]);
    }
}

/// Clients are told of a full disk, whichever write is theirs.
#[test]
fn a_log_that_an_error_has_closed_tells_of_what_kind_that_was() {
    let blocks = orders(&chain(6, 2));
    let files = written(&blocks[..2], 1, OPTIONS);
    let mut writer = writer(&files, OPTIONS).unwrap();
    let block = |at: usize| std::slice::from_ref(&blocks[at]);
    files.fail_at(Some(Failure::Full(files.operations())));
    let failed = (2..6).find_map(|at| writer.append(block(at)).err()).expect("a full disk");
    assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
    // Another failure does not take its place.
    files.fail_at(Some(Failure::ReadOnly(files.operations())));
    let later = [writer.append(block(5)), writer.sync(), writer.rest(), writer.cut(1)];
    for later in later.map(Result::unwrap_err) {
        assert_eq!(later.kind(), io::ErrorKind::StorageFull);
        assert!(later.to_string().contains("closed by an earlier error"), "{later}");
        assert!(later.to_string().contains(&failed.to_string()), "{later}");
    }
}

#[test]
fn resuming_takes_a_reader_at_its_end() {
    let files = written(&orders(&chain(2, 2)), 1, OPTIONS);
    let unread = reader(&files).unwrap();
    assert!(LogWriter::resume(unread, OPTIONS).is_err());
}

#[test]
fn missing_and_misplaced_segments_are_damage() {
    let blocks = orders(&chain(12, 4));
    let files = written(&blocks, 1, OPTIONS);
    let paths = files.paths();
    assert!(paths.len() >= 4);
    let bytes = |path: &String| files.contents(path).unwrap();

    for missing in 0..paths.len() - 1 {
        let broken = MemoryFiles::new();
        let kept = paths.iter().enumerate().filter(|(at, _)| *at != missing);
        kept.for_each(|(_, path)| broken.plant(path, bytes(path)));
        let found = damage(&broken);
        assert!(found.what.ends_with("are missing"), "{found}");
        assert_eq!(found.file, paths[missing]);
    }

    let with = |path: &str, bytes: Vec<u8>| {
        let broken = files.crash(&mut kit::random::Random::new(0));
        broken.plant(path, bytes);
        damage(&broken)
    };
    let copy = format!("orders/{}", segment_name(1));
    assert!(with(&copy, bytes(&paths[0])).what.contains("twice"));
    assert!(with(&paths[1], bytes(&paths[2])).what.contains("its name says"));
    assert_eq!(with("orders/notes.txt", vec![]).file, "orders/notes.txt");
}

#[test]
fn another_ledgers_segment_is_damage() {
    let blocks = orders(&chain(12, 4));
    let files = written(&blocks, 1, OPTIONS);
    let path = files.paths().remove(1);
    let mut bytes = files.contents(&path).unwrap();
    let own = SegmentHeader::decode(&bytes).unwrap();
    let foreign = SegmentHeader { ledger_id: *b"another ledger!!", ..own };
    let results = SegmentHeader { stream: Stream::Results, ..own };
    for (header, what) in [(foreign, "ledger 616e6f74686572"), (results, "the file holds")] {
        bytes[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode());
        files.plant(&path, bytes.clone());
        let found = damage(&files);
        assert_eq!(found.file, path);
        assert!(found.what.starts_with(what), "{found}");
    }
}

/// A stranger's envelope holds a whole record that claims that block 1 was synced.
#[test]
fn a_record_inside_an_envelope_proves_nothing() {
    let mut blocks = chain(1, 1);
    let mut record = Vec::new();
    crate::segment::put_record(&mut record, 0, 2, 2, b"payload");
    let Block { batch, result } = blocks.pop().unwrap();
    let seal = OrderSeal {
        ledger_id: batch.header().ledger_id,
        height: 1,
        previous_order_hash: batch.header().previous_order_hash,
        time_us: batch.header().time_us,
        proposer: batch.header().proposer,
        parameters_hash: batch.header().parameters_hash,
        seen_height: 0,
    };
    let batch = Batch::seal(seal, vec![record.into()]).unwrap();
    blocks.push(Block { batch, result });
    let files = written(&orders(&blocks), 1, LogOptions::default());
    let path = files.paths().remove(0);
    let mut bytes = files.contents(&path).unwrap();
    let last = bytes.windows(4).rposition(|window| window == b"TREC").unwrap();
    let own = bytes[..last].windows(4).rposition(|window| window == b"TREC").unwrap();
    bytes[own] = 0;
    files.plant(&path, bytes);
    assert!(matches!(read(&files).1, Some(LogError::TornTail(tail)) if tail.height == 1));
}
