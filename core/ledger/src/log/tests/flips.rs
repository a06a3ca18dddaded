//! Every single byte of a small data folder, changed.

use super::*;

/// What `verify` of a node does with the bytes of one stream alone.
fn verify(files: &MemoryFiles) -> Result<u64, LogError> {
    let mut reader = reader(files)?;
    let mut chain = ChainVerifier::new();
    let mut blocks = 0;
    while let Some(record) = reader.next_record()? {
        let height = record.height();
        match record.stream() {
            Stream::Results => {
                BlockResult::of(&record).expect("a checksummed result decodes");
            }
            Stream::Orders => {
                let batch = Batch::of(&record).expect("a checksummed batch decodes");
                let pushed = chain.push(&batch, None);
                pushed.unwrap_or_else(|fault| panic!("checksums missed {height}: {fault}"));
            }
        }
        blocks += 1;
    }
    Ok(blocks)
}

/// For each offset of a segment, the height of the block that lies there.
fn heights(bytes: &[u8], first: u64) -> Vec<u64> {
    let header = SegmentHeader::decode(bytes).unwrap();
    let mut heights = vec![first; SEGMENT_HEADER_BYTES];
    let mut next = first;
    while let Ok(record) =
        crate::segment::RecordHeader::decode(&bytes[heights.len()..], header.salt)
    {
        let end = heights.len() + crate::segment::RECORD_HEADER_BYTES + record.length as usize;
        heights.resize(end, record.height);
        next = record.height + 1;
    }
    heights.resize(bytes.len(), next);
    heights
}

#[test]
fn every_byte_of_the_folder_is_covered() {
    for stream in Stream::ALL {
        every_byte_of_a_stream_is_covered(&records(stream, &chain(7, 3)));
    }
}

fn every_byte_of_a_stream_is_covered(blocks: &[Record]) {
    let last_height = blocks.len() as u64 - 1;
    let files = written(blocks, 1, OPTIONS);
    assert_eq!(verify(&files).unwrap(), blocks.len() as u64);
    let paths = files.paths();
    assert!(paths.len() >= 3);
    assert_eq!(files.contents(&paths[paths.len() - 1]).unwrap().last(), Some(&0), "a zero tail");
    let (mut torn, mut damaged) = (0, 0);
    for path in &paths {
        let bytes = files.contents(path).unwrap();
        let first = SegmentHeader::decode(&bytes).unwrap().first_height;
        for (offset, height) in heights(&bytes, first).into_iter().enumerate() {
            for mask in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[offset] ^= mask;
                files.plant(path, changed);
                match verify(&files) {
                    Err(LogError::TornTail(tail)) => {
                        assert_eq!((&tail.file, tail.height), (path, height), "offset {offset}");
                        assert!(tail.height >= last_height, "offset {offset}: {tail}");
                        torn += 1;
                    }
                    Err(LogError::Damage(damage)) => {
                        assert_eq!((&damage.file, damage.height), (path, height), "{offset}");
                        damaged += 1;
                    }
                    other => panic!("{path} offset {offset}: not detected: {other:?}"),
                }
            }
        }
        files.plant(path, bytes);
    }
    assert!(torn > 0 && damaged > torn);
}

/// Damage in a group of blocks whose sync is proven by a later block is never taken for a torn
/// tail; in the last group it is, as nothing proves that the group was whole.
#[test]
fn a_group_is_proven_by_the_next_one() {
    let blocks = orders(&chain(5, 3));
    let files = written(&blocks, 3, LogOptions::default());
    let path = files.paths().remove(0);
    let bytes = files.contents(&path).unwrap();
    let starts: Vec<usize> = bytes
        .windows(4)
        .enumerate()
        .filter(|(_, four)| *four == b"TREC")
        .map(|(at, _)| at)
        .collect();
    assert_eq!(starts.len(), 6);
    for (height, start) in starts.into_iter().enumerate() {
        let mut changed = bytes.clone();
        changed[start + 5] ^= 0x40;
        files.plant(&path, changed);
        match verify(&files).unwrap_err() {
            LogError::Damage(damage) => assert_eq!(damage.height, height as u64),
            LogError::TornTail(tail) => {
                assert!(height >= 3);
                assert_eq!(tail.height, height as u64);
            }
            LogError::Io(error) => panic!("{error}"),
        }
    }
}
