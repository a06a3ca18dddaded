//! Disks that a power cut may leave.
//!
//! After a kill everything that was written can be read, as the page cache survives the process. A
//! power cut leaves less: what was written since the last fdatasync is there in part. A node writes
//! one block and syncs it before the next one, so each block's record was, for a moment, the bytes
//! after the last fdatasync; an image of that moment is the log up to that record, and any part of
//! the record, with zeros (or nothing) behind.
//!
//! ```text
//!   … ─┤ record N-1 ├┤ record N, torn │ 0 0 0 …      N and its successors are gone,
//!       known to be synced                           every block below N must be there
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use ledger::memory_files::SECTOR_BYTES;
use ledger::segment::{
    RECORD_HEADER_BYTES, RecordHeader, SEGMENT_FOLDER, SEGMENT_HEADER_BYTES, SegmentHeader,
    parse_segment_name,
};
use ledger::{LogError, LogOptions, LogReader, LogWriter, MemoryFiles};

/// Where a record lies in its segment.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub height: u64,
    pub offset: usize,
    pub end: usize,
}

/// A segment's bytes and the records in them.
#[derive(Clone)]
pub struct Segment {
    pub name: String,
    pub first_height: u64,
    pub bytes: Vec<u8>,
    /// None if a kill came between the creation of the file and the write of its header.
    header: Option<SegmentHeader>,
    pub records: Vec<Record>,
}

impl Segment {
    pub fn parse(name: &str, bytes: Vec<u8>) -> Result<Segment> {
        let first_height = parse_segment_name(name).context("not a segment")?;
        let mut records: Vec<Record> = Vec::new();
        let header = SegmentHeader::decode(&bytes).ok();
        if let Some(header) = &header {
            let mut offset = SEGMENT_HEADER_BYTES;
            while let Ok(record) = RecordHeader::decode(&bytes[offset..], header.salt) {
                let end = offset + RECORD_HEADER_BYTES + record.length as usize;
                if end > bytes.len() {
                    break;
                }
                let height = record.height;
                records.push(Record { height, offset, end });
                offset = end;
            }
        }
        Ok(Segment { name: name.to_owned(), first_height, bytes, header, records })
    }

    /// All segments of a data folder, in order.
    pub fn read_all(data: &Path) -> Result<Vec<Segment>> {
        let mut names: Vec<String> = std::fs::read_dir(data.join(SEGMENT_FOLDER))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        names.sort_unstable();
        let read = |name: &String| {
            let bytes = std::fs::read(data.join(SEGMENT_FOLDER).join(name))?;
            Segment::parse(name, bytes)
        };
        names.iter().map(read).collect()
    }

    pub fn path(&self) -> String {
        format!("{SEGMENT_FOLDER}/{}", self.name)
    }

    fn data_end(&self) -> usize {
        let last = self.records.last();
        last.map_or(SEGMENT_HEADER_BYTES, |record| record.end)
    }
}

/// The newest segment as a power cut may leave it.
pub struct Image {
    pub bytes: Vec<u8>,
    /// The first block that is not there whole.
    pub height: u64,
    /// Where its bytes begin; 0 if the segment's own header is torn.
    pub offset: usize,
    /// Whether something of it is left that is no block.
    pub torn: bool,
    /// Whether nothing was taken from the blocks that a client may have been told of.
    pub complete: bool,
}

/// Tears one of the records above `known`, or one more than there are.
pub fn tear(random: &mut Random, newest: &Segment, known: u64) -> Image {
    if newest.header.is_none() {
        return Image { complete: true, ..tear_header(random, newest) };
    }
    let above = newest.records.iter().filter(|record| record.height > known);
    let candidates: Vec<Record> = above.copied().collect();
    let choice = random.below(candidates.len() as u64 + 1) as usize;
    let Some(record) = candidates.get(choice) else {
        return tear_next(random, newest);
    };
    let begins_segment = record.offset == SEGMENT_HEADER_BYTES && newest.first_height > known;
    if begins_segment && random.chance(2) {
        return tear_header(random, newest);
    }
    let whole = &newest.bytes[record.offset..record.end];
    let torn = tear_bytes(random, whole, record.offset);
    if torn == whole {
        return finish(newest, record.end, &[], record.height + 1);
    }
    finish(newest, record.offset, &torn, record.height)
}

/// A record that was being written when the power went, and that nobody was told of.
fn tear_next(random: &mut Random, newest: &Segment) -> Image {
    let end = newest.data_end();
    let next = newest.records.last().map_or(newest.first_height, |r| r.height + 1);
    let like = newest.records.first();
    let mut whole = like.map_or(vec![0x55; 300], |r| newest.bytes[r.offset..r.end].to_vec());
    // Not the same record again, which would be damage: another height under no checksum.
    whole[8..16].copy_from_slice(&next.to_be_bytes());
    let torn = tear_bytes(random, &whole, end);
    let mut image = finish(newest, end, &torn, next);
    image.complete = true;
    image
}

/// The creation of the segment was cut short.
fn tear_header(random: &mut Random, newest: &Segment) -> Image {
    let written = newest.bytes.len().min(SEGMENT_HEADER_BYTES) as u64;
    let kept = random.below(written.max(1)) as usize;
    let mut bytes = newest.bytes.clone();
    bytes[kept..].fill(0);
    if random.chance(2) {
        bytes.truncate(kept.max(random.below(200) as usize));
    }
    Image { bytes, height: newest.first_height, offset: 0, torn: true, complete: false }
}

fn finish(newest: &Segment, offset: usize, torn: &[u8], height: u64) -> Image {
    let mut bytes = newest.bytes.clone();
    bytes.resize(bytes.len().max(offset + torn.len()), 0);
    bytes[offset..].fill(0);
    bytes[offset..offset + torn.len()].copy_from_slice(torn);
    Image { torn: torn.iter().any(|byte| *byte != 0), complete: false, bytes, height, offset }
}

/// A part of a write that begins at `offset` of its file: a prefix, or any of its sectors, or with
/// a sector that holds something else.
fn tear_bytes(random: &mut Random, whole: &[u8], offset: usize) -> Vec<u8> {
    let mut torn = whole.to_vec();
    let manner = random.below(3);
    if manner == 0 {
        let kept = random.below(whole.len() as u64 + 1) as usize;
        torn[kept..].fill(0);
        return torn;
    }
    let mut start = 0;
    while start < torn.len() {
        let end = torn.len().min(start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES);
        match random.below(6) {
            0 | 1 => torn[start..end].fill(0),
            2 if manner == 2 => torn[start..end].fill_with(|| random.next_u64() as u8),
            _ => {}
        }
        start = end;
    }
    torn
}

/// Reads an image, goes on from it, and reads it again, all in memory.
pub fn check_in_memory(segments: &[Segment], image: &Image) -> Result<()> {
    let files = Arc::new(MemoryFiles::new());
    let newest = segments.last().context("a ledger has a segment")?;
    let before = segments.len().saturating_sub(2);
    for (index, segment) in segments.iter().enumerate() {
        // A reader opens the last two only: from the height at which the last but one begins.
        let bytes = if index < before { &[][..] } else { &segment.bytes };
        files.plant(&segment.path(), bytes.to_vec());
    }
    files.plant(&newest.path(), image.bytes.clone());
    let from = segments[before].first_height;

    let (reader, torn) = read(&files, from)?;
    ensure!(
        reader.next_height() == image.height,
        "blocks up to {} are there instead of {}",
        reader.next_height(),
        image.height
    );
    ensure!(torn == image.torn, "torn: {torn}, expected {}", image.torn);
    let writer = LogWriter::resume(reader, LogOptions::default())?;
    ensure!(writer.next_height() == image.height);
    drop(writer);
    if torn {
        let path = files.paths().into_iter().find(|p| p.starts_with("quarantine/"));
        let aside = path.and_then(|path| files.contents(&path));
        let aside = aside.context("nothing was kept aside")?;
        let cut = image.bytes[image.offset..].iter().rposition(|byte| *byte != 0);
        let cut = cut.map_or(0, |last| last + 1);
        ensure!(aside == image.bytes[image.offset..image.offset + cut], "other bytes aside");
    }
    let (again, torn) = read(&files, from)?;
    ensure!(!torn && again.next_height() == image.height, "recovery left a torn log");
    Ok(())
}

fn read(files: &MemoryFiles, from: u64) -> Result<(LogReader, bool)> {
    let mut reader = LogReader::open_at(Arc::new(files.clone()), from)?;
    loop {
        match reader.next_block() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok((reader, false)),
            Err(LogError::TornTail(_)) => return Ok((reader, true)),
            Err(error) => bail!("{error}"),
        }
    }
}

/// Puts a copy of a data folder, with the image as its newest segment, below `folder`.
pub fn plant(data: &Path, newest: &Segment, image: &Image, copy: &Path) -> Result<()> {
    for path in files_below(data)? {
        let to = copy.join(path.strip_prefix(data)?);
        std::fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        std::fs::copy(&path, &to)?;
    }
    std::fs::write(copy.join(newest.path()), &image.bytes)?;
    remove_later_checkpoints(copy, image.height)
}

/// When the power went, nobody had taken a checkpoint of a block that was still being written.
fn remove_later_checkpoints(data: &Path, height: u64) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(data.join(CHECKPOINT_FOLDER)) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let of = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if of.is_none_or(|of: u64| of >= height) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// All files of a folder and those in it, in order; a socket is none.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files.extend(files_below(&entry.path())?);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Genesis, Parameters};

    /// A log of a genesis block, and its one segment.
    fn segments() -> Vec<Segment> {
        let files = Arc::new(MemoryFiles::new());
        let options = LogOptions { zero_fill_bytes: 4_096, ..LogOptions::default() };
        let genesis =
            Genesis { ledger_id: [7; 16], time_us: 1, parameters: Parameters::new("serial") };
        LogWriter::begin(files.clone(), &genesis, options).unwrap();
        let path = files.paths().remove(0);
        let bytes = files.contents(&path).unwrap();
        let name = path.strip_prefix("segments/").unwrap();
        vec![Segment::parse(name, bytes).unwrap()]
    }

    #[test]
    fn images_of_a_log_of_one_block_hold_and_a_wrong_one_does_not() {
        let segments = segments();
        assert_eq!(segments[0].records.len(), 1);
        let mut random = Random::new(1);
        for _ in 0..500 {
            let image = tear(&mut random, &segments[0], 0);
            check_in_memory(&segments, &image).unwrap();
            let claimed = Image { height: image.height + 1, ..image };
            assert!(check_in_memory(&segments, &claimed).is_err());
        }
    }

    /// What a kill leaves between the creation of a segment and the write of its header.
    #[test]
    fn a_segment_without_a_header_stays_one() {
        let mut segments = segments();
        let end = segments[0].data_end();
        segments[0].bytes.truncate(end);
        segments.push(Segment::parse("00000000000000000001.tally", Vec::new()).unwrap());
        let mut random = Random::new(2);
        for _ in 0..100 {
            let image = tear(&mut random, &segments[1], 0);
            assert!(image.torn && image.height == 1);
            check_in_memory(&segments, &image).unwrap();
        }
    }
}
