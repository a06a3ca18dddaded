//! The end of a log: whether it is the true one, whatever was lost or changed.

use super::*;
use crate::segment::{MARK_BYTES, Mark, MarkKind, RECORD_HEADER_BYTES};

/// A log that was stopped cleanly.
fn at_rest(blocks: &[Record], options: LogOptions) -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut writer = writer_from(&files, blocks[0].stream(), 0, options).unwrap();
    for block in blocks {
        writer.append(std::slice::from_ref(block)).unwrap();
        // A moment of rest that did not last.
        writer.rest().unwrap();
    }
    files
}

#[test]
fn the_newest_segment_is_missed_like_any_other() {
    for stream in Stream::ALL {
        let blocks = records(stream, &chain(12, 4));
        let files = written(&blocks, 1, OPTIONS);
        let paths = files.paths();
        let newest = paths.last().unwrap();
        files.remove(newest).unwrap();
        let found = damage(&files);
        assert_eq!(found.file, paths[paths.len() - 2]);
        assert!(found.what.contains("the segment behind this one is missing"), "{found}");
        let first = newest.rsplit('/').next().unwrap();
        assert_eq!(found.height, crate::segment::parse_segment_name(first).unwrap());
        // Nor is a file of nothing taken for it.
        files.plant(newest, Vec::new());
        assert_eq!(&damage(&files).file, newest);
    }
}

/// Of a log at rest no bit of any record can change without being named as damage; what lies after
/// the last record is no record, and cutting it loses none.
#[test]
fn no_record_of_a_log_at_rest_is_taken_for_a_torn_one() {
    for stream in Stream::ALL {
        let blocks = records(stream, &chain(5, 3));
        for options in [OPTIONS, LogOptions { sync: false, ..OPTIONS }] {
            let files = at_rest(&blocks, options);
            let path = files.paths().pop().unwrap();
            let bytes = files.contents(&path).unwrap();
            let records_end = bytes.windows(4).rposition(|four| four == b"TRST").unwrap();
            for offset in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[offset] ^= 1 << (offset % 8);
                files.plant(&path, changed);
                match read(&files) {
                    (_, Some(LogError::Damage(damage))) => {
                        assert_eq!(damage.file, path);
                        assert!(offset < records_end, "byte {offset}: {damage}");
                    }
                    (found, Some(LogError::TornTail(tail))) => {
                        assert!(offset >= records_end, "byte {offset}: {tail}");
                        assert_eq!(found, blocks, "byte {offset}");
                    }
                    (_, other) => panic!("byte {offset}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_mark_is_overwritten_by_the_next_record_and_put_once() {
    let blocks = orders(&chain(6, 2));
    let files = at_rest(&blocks[..4], OPTIONS);
    let before = files.operations();
    let mut writer = writer(&files, OPTIONS).unwrap();
    let resumed = files.operations();
    assert!(resumed > before);
    writer.rest().unwrap();
    assert_eq!(files.operations(), resumed, "it is there already");
    blocks[4..].iter().for_each(|block| writer.append(std::slice::from_ref(block)).unwrap());
    let (found, error) = read(&files);
    assert!(error.is_none() && found == blocks, "{error:?}");
    let path = files.paths().pop().unwrap();
    let bytes = files.contents(&path).unwrap();
    assert!(!bytes.windows(4).any(|four| four == b"TRST"));
}

/// One that a checksum vouches for and that names another head was not written by this log.
#[test]
fn a_mark_of_another_head_is_damage() {
    let blocks = orders(&chain(3, 2));
    let files = at_rest(&blocks, LogOptions::default());
    let path = files.paths().pop().unwrap();
    let bytes = files.contents(&path).unwrap();
    let salt = SegmentHeader::decode(&bytes).unwrap().salt;
    let at = bytes.windows(4).rposition(|four| four == b"TRST").unwrap();
    let mark = Mark::decode(&bytes[at..], salt).unwrap();
    assert_eq!((mark.kind, mark.height, mark.head), (MarkKind::Rest, 4, blocks[3].hash()));
    for other in [Mark { height: 5, ..mark }, Mark { head: [7; 32], ..mark }] {
        let mut changed = bytes.clone();
        changed[at..at + MARK_BYTES].copy_from_slice(&other.encode(salt));
        files.plant(&path, changed);
        assert!(damage(&files).what.contains("another head"));
    }
    assert_eq!(MARK_BYTES, RECORD_HEADER_BYTES + 32);
}

/// A crash between the creation of a segment and the closing of the one before.
#[test]
fn a_segment_that_was_not_closed_is_closed_by_the_next_start() {
    let blocks = orders(&chain(12, 4));
    let files = written(&blocks, 1, OPTIONS);
    let paths = files.paths();
    let (before, newest) = (&paths[paths.len() - 2], &paths[paths.len() - 1]);
    let (closed, full) = (files.contents(before).unwrap(), files.contents(newest).unwrap());
    let records_end = closed.len() - MARK_BYTES;
    let mut empty = full[..SEGMENT_HEADER_BYTES].to_vec();
    empty.resize(full.len(), 0);
    for torn in 0..=MARK_BYTES {
        let mut left = closed.clone();
        left[records_end + torn..].fill(0);
        left.resize(closed.len() + 100, 0);
        for from in [0, 12] {
            for header in [SEGMENT_HEADER_BYTES, 20] {
                let files = files.copy();
                files.plant(before, left.clone());
                files.plant(newest, [&empty[..header], &vec![0; 100]].concat());
                let (found, error) = read(&files);
                assert!(found == blocks[..found.len()], "{torn}");
                assert!(!matches!(error, Some(LogError::Damage(_))), "{torn}: {error:?}");
                let mut writer = writer_from(&files, Stream::Orders, from, OPTIONS).unwrap();
                let next = writer.next_height() as usize;
                writer.append_and_sync(&blocks[next..]).unwrap();
                let (found, error) = read(&files);
                assert!(error.is_none() && found == blocks, "{torn}: {error:?}");
                let segments = files.paths().into_iter().filter(|path| path.starts_with("orders/"));
                files.remove(&segments.max().unwrap()).unwrap();
                assert!(matches!(read(&files).1, Some(LogError::Damage(_))), "{torn}");
            }
        }
    }
    // Once there is a record after it, it is damage.
    let mut left = closed.clone();
    left[records_end..].fill(0);
    files.plant(before, left);
    assert_eq!(&damage(&files).file, before);
}
