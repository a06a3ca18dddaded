//! Disks that a power cut may leave.
//!
//! After a kill everything that was written can be read, as the page cache survives the process. A
//! power cut leaves less: what was written since the last fdatasync is there in part. A node writes
//! one order and syncs it before the next one, so each order's record was, for a moment, the bytes
//! after the last fdatasync; an image of that moment is the log up to that record, and any part of
//! the record, with zeros (or nothing) after. Results are not waited for: of those that no
//! checkpoint has had synced any number is there, and a part of the next.
//!
//! ```text
//!   orders   … ─┤ record N-1 ├┤ record N, torn │ 0 0 0 …     N and its successors are gone,
//!                known to be synced                          every block below N must be there
//!   results  … ─┤ record M ├┤ torn │ 0 0 0 …                 M below N: computed again
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use ledger::memory_files::SECTOR_BYTES;
use ledger::segment::{
    RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, parse_segment_path,
};
use ledger::{BlockReader, BlockWriter, Files, LogError, LogOptions, MemoryFiles, Stream};

use node::folders;

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
    /// Below the data folder.
    pub path: String,
    pub first_height: u64,
    pub bytes: Vec<u8>,
    /// None if a kill came between the creation of the file and the write of its header.
    header: Option<SegmentHeader>,
    pub records: Vec<Record>,
}

impl Segment {
    pub fn parse(path: &str, bytes: Vec<u8>) -> Result<Segment> {
        let (_, first_height) = parse_segment_path(path).context("not a segment")?;
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
        Ok(Segment { path: path.to_owned(), first_height, bytes, header, records })
    }

    /// All segments of a stream in a data folder, in order.
    pub fn read_all(data: &Path, stream: Stream) -> Result<Vec<Segment>> {
        let mut paths: Vec<String> = std::fs::read_dir(data.join(stream.folder()))?
            .map(|entry| Ok(format!("{stream}/{}", entry?.file_name().to_string_lossy())))
            .collect::<Result<_>>()?;
        paths.sort_unstable();
        let read = |path: &String| Segment::parse(path, std::fs::read(data.join(path))?);
        paths.iter().map(read).collect()
    }

    fn data_end(&self) -> usize {
        let last = self.records.last();
        last.map_or(SEGMENT_HEADER_BYTES, |record| record.end)
    }

    /// As it is before the segment after it was made sure of.
    fn unclosed(&self) -> Vec<u8> {
        let mut bytes = self.bytes[..self.data_end()].to_vec();
        bytes.resize(bytes.len() + 100, 0);
        bytes
    }
}

/// The segments of both streams in a data folder, in order.
pub struct Segments {
    pub orders: Vec<Segment>,
    pub results: Vec<Segment>,
}

impl Segments {
    pub fn read(data: &Path) -> Result<Segments> {
        let orders = Segment::read_all(data, Stream::Orders)?;
        Ok(Segments { orders, results: Segment::read_all(data, Stream::Results)? })
    }

    /// That of the orders.
    pub fn newest(&self) -> Result<&Segment> {
        self.orders.last().context("a ledger has a segment")
    }

    /// Puts an image in the place of the newest segment of a data folder.
    pub fn write(&self, data: &Path, image: &Image) -> Result<()> {
        std::fs::write(data.join(&self.newest()?.path), &image.bytes)?;
        if let Some(before) = self.unclosed_beside(image) {
            std::fs::write(data.join(&before.path), before.unclosed())?;
        }
        Ok(())
    }

    /// The orders' segment before the newest, where that is being created in an image.
    fn unclosed_beside(&self, image: &Image) -> Option<&Segment> {
        let before = self.orders.len().checked_sub(2)?;
        (image.offset == 0).then(|| &self.orders[before])
    }
}

/// The newest segment of the orders as a power cut may leave it.
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
    // A record is written when the segment before is closed, which a kill may have come before.
    if newest.header.is_none() || newest.records.is_empty() {
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

/// A record that was being written when the power went, and that no client was told of.
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
    let mut kept = random.below(written.max(1)) as usize;
    let mut bytes = newest.bytes.clone();
    bytes[kept..].fill(0);
    // One whose checksum ends in zeros is whole without them.
    while SegmentHeader::decode(&bytes).is_ok() {
        kept -= 1;
        bytes[kept] = 0;
    }
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

/// What a power cut at the moment of an image may leave of the results, by path: those up to
/// `durable` and, of those after, any number below `end`, with a part of the next. `None`: no
/// file.
/// The order is on disk before its result is written, so there is nothing of the one at `end`.
pub fn tear_results(
    random: &mut Random,
    results: &[Segment],
    durable: u64,
    end: u64,
) -> Vec<(String, Option<Vec<u8>>)> {
    let least = (durable + 1).min(end);
    let kept = least + random.below(end - least + 1);
    let mut left = Vec::new();
    for (place, segment) in results.iter().enumerate() {
        let next = results.get(place + 1).map_or(u64::MAX, |next| next.first_height);
        if next <= kept {
            continue;
        }
        // It is created for its first record.
        let begun = kept < end && random.chance(2);
        let is_there = segment.first_height < kept || (segment.first_height == kept && begun);
        let bytes = is_there.then(|| match segment.records.iter().find(|it| it.height >= kept) {
            None => segment.bytes.clone(),
            Some(record) => {
                let whole = &segment.bytes[record.offset..record.end];
                let torn =
                    if begun { tear_bytes(random, whole, record.offset) } else { Vec::new() };
                finish(segment, record.offset, &torn, kept).bytes
            }
        });
        if let (None, Some(before)) = (&bytes, place.checked_sub(1))
            && segment.first_height == kept
        {
            left.push((results[before].path.clone(), Some(results[before].unclosed())));
        }
        left.push((segment.path.clone(), bytes));
    }
    left
}

/// Reads an image, goes on from it, and reads it again, all in memory.
pub fn check_in_memory(random: &mut Random, segments: &Segments, image: &Image) -> Result<()> {
    let files = Arc::new(MemoryFiles::new());
    let newest = segments.newest()?;
    let before = segments.orders.len().saturating_sub(2);
    let from = segments.orders[before].first_height;
    for stream in [&segments.orders, &segments.results] {
        for (place, segment) in stream.iter().enumerate() {
            // A reader opens the last ones only: from the height at which the last but one of the
            // orders begins, or, of results that do not come so far, the last.
            let reaches = segment.records.last().is_none_or(|record| record.height >= from);
            let is_read = reaches || place + 1 == stream.len();
            files.plant(&segment.path, if is_read { segment.bytes.clone() } else { Vec::new() });
        }
    }
    files.plant(&newest.path, image.bytes.clone());
    if let Some(before) = segments.unclosed_beside(image) {
        files.plant(&before.path, before.unclosed());
    }
    for (path, left) in tear_results(random, &segments.results, from, image.height) {
        match left {
            Some(bytes) => files.plant(&path, bytes),
            None => files.remove(&path)?,
        }
    }

    let (reader, torn) = read(&files, from)?;
    ensure!(
        reader.next_height() == image.height,
        "blocks up to {} are there instead of {}",
        reader.next_height(),
        image.height
    );
    ensure!(torn == image.torn, "torn: {torn}, expected {}", image.torn);
    let results = reader.next_result();
    // The kill lost those that had been gathered and not written.
    let newest_result = segments.results.iter().filter_map(|it| it.records.last()).next_back();
    let written = newest_result.map_or(0, |record| record.height + 1);
    let least = (from + 1).min(image.height).min(written);
    ensure!((least..=image.height).contains(&results), "results up to {results} are there");
    let writer = BlockWriter::resume(reader, LogOptions::default())?;
    ensure!((writer.next_height(), writer.next_result()) == (image.height, results));
    drop(writer);
    if torn {
        is_kept_aside(&files, image)?;
    }
    let (again, torn) = read(&files, from)?;
    let torn = torn || again.torn_results().is_some();
    ensure!(!torn && again.next_height() == image.height, "recovery left a torn log");
    ensure!(again.next_result() == results, "recovery lost results");
    Ok(())
}

/// The bytes that were cut, and nothing else.
fn is_kept_aside(files: &MemoryFiles, image: &Image) -> Result<()> {
    let cut = image.bytes[image.offset..].iter().rposition(|byte| *byte != 0);
    let cut = &image.bytes[image.offset..][..cut.map_or(0, |last| last + 1)];
    let aside = files.paths().into_iter().filter(|path| path.starts_with("quarantine/"));
    let mut aside = aside.filter_map(|path| files.contents(&path));
    ensure!(aside.any(|aside| aside == cut), "they are not kept aside");
    Ok(())
}

fn read(files: &MemoryFiles, from: u64) -> Result<(BlockReader, bool)> {
    let mut reader = BlockReader::open_at(Arc::new(files.clone()), from)?;
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok((reader, false)),
            Err(LogError::TornTail(_)) => return Ok((reader, true)),
            Err(error) => bail!("{error}"),
        }
    }
}

/// Puts a copy of a data folder, with the image as its newest segment, below `folder`.
pub fn plant(
    random: &mut Random,
    data: &Path,
    segments: &Segments,
    image: &Image,
    copy: &Path,
) -> Result<()> {
    for path in files_below(data)? {
        let to = copy.join(path.strip_prefix(data)?);
        folders::create_private(to.parent().context("a file is in a folder")?)?;
        std::fs::copy(&path, &to)?;
    }
    segments.write(copy, image)?;
    let checkpoint = remove_later_checkpoints(copy, image.height)?;
    for (path, left) in tear_results(random, &segments.results, checkpoint, image.height) {
        match left {
            Some(bytes) => std::fs::write(copy.join(path), bytes)?,
            None => std::fs::remove_file(copy.join(path))?,
        }
    }
    Ok(())
}

/// When the power went, no checkpoint had been taken of a block that was still being written.
/// Returns the height of the newest that is left, 0 if there is none.
fn remove_later_checkpoints(data: &Path, height: u64) -> Result<u64> {
    let mut newest = 0;
    let Ok(entries) = std::fs::read_dir(data.join(CHECKPOINT_FOLDER)) else {
        return Ok(newest);
    };
    for entry in entries {
        let path = entry?.path();
        let of = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        match of.filter(|of: &u64| *of < height) {
            Some(of) if path.extension().is_some_and(|kind| kind == "manifest") => {
                newest = newest.max(of);
            }
            Some(_) => {}
            None => std::fs::remove_file(path)?,
        }
    }
    Ok(newest)
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
    use engine::EXECUTOR;
    use ledger::{Genesis, Parameters};

    use super::*;

    /// A log of a genesis block, and its segments.
    fn segments() -> Segments {
        let files = Arc::new(MemoryFiles::new());
        let options = LogOptions { zero_fill_bytes: 4_096, ..LogOptions::default() };
        let parameters = Parameters::new("serial");
        let genesis = Genesis { ledger_id: [7; 16], time_us: 1, parameters, executor: EXECUTOR };
        BlockWriter::begin(files.clone(), &genesis, options).unwrap();
        let of = |stream: Stream| -> Vec<Segment> {
            let paths = files.paths().into_iter();
            let own = paths.filter(|path| path.starts_with(stream.folder()));
            own.map(|path| Segment::parse(&path, files.contents(&path).unwrap()).unwrap()).collect()
        };
        Segments { orders: of(Stream::Orders), results: of(Stream::Results) }
    }

    #[test]
    fn images_of_a_log_of_one_block_hold_and_a_wrong_one_does_not() {
        let segments = segments();
        let newest = segments.newest().unwrap();
        assert_eq!(newest.records.len(), 1);
        let mut random = Random::new(1);
        for _ in 0..500 {
            let image = tear(&mut random, newest, 0);
            check_in_memory(&mut random, &segments, &image).unwrap();
            let claimed = Image { height: image.height + 1, ..image };
            assert!(check_in_memory(&mut random, &segments, &claimed).is_err());
        }
    }

    #[test]
    fn a_torn_header_is_none_though_its_checksum_ends_in_zeros() {
        let ends_in_zero = |salt: &u64| {
            let stream = Stream::Orders;
            let header = SegmentHeader { stream, ledger_id: [7; 16], first_height: 1, salt: *salt };
            header.encode()[SEGMENT_HEADER_BYTES - 1] == 0
        };
        let salt = (0..).find(ends_in_zero).unwrap();
        let (stream, ledger_id) = (Stream::Orders, [7; 16]);
        let header = SegmentHeader { stream, ledger_id, first_height: 1, salt };
        let path = "orders/00000000000000000001.tally";
        let newest = Segment::parse(path, header.encode().to_vec()).unwrap();
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            assert!(SegmentHeader::decode(&tear(&mut random, &newest, 0).bytes).is_err());
        }
    }

    /// What a kill leaves between the creation of a segment and the write of its header.
    #[test]
    fn a_segment_without_a_header_stays_one() {
        let mut segments = segments();
        let end = segments.orders[0].data_end();
        segments.orders[0].bytes.truncate(end);
        let path = "orders/00000000000000000001.tally";
        segments.orders.push(Segment::parse(path, Vec::new()).unwrap());
        let mut random = Random::new(2);
        for _ in 0..100 {
            let image = tear(&mut random, segments.newest().unwrap(), 0);
            assert!(image.torn && image.height == 1);
            check_in_memory(&mut random, &segments, &image).unwrap();
        }
    }
}
