//! Taking back the last records of a log: for an orderer whose newest entries count only once
//! others have them too.
//!
//! Nothing of them may come back, and nothing may look like a record that was there: the newest
//! segment goes first, after the mark which says that it is there, and the bytes after the cut
//! are gone from the device before this returns. A crash in between leaves the log longer than it
//! was to be, and whole.

use std::io;
use std::sync::Arc;

use types::Height;

use super::reader::list_segments;
use super::records::{Place, SegmentRecords};
use super::writer::{LogWriter, Pages, WrittenSegment};
use crate::files::{Files, StorageFile};
use crate::segment::{MARK_BYTES, Mark, SEGMENT_HEADER_BYTES, SegmentHeader, segment_path};
use crate::stream::Stream;

impl LogWriter {
    /// Removes the records from `height` on, which must not be the first of all.
    ///
    /// # Errors
    ///
    /// Also where the log has no record before them; any error is final for this writer.
    pub fn cut(&mut self, height: Height) -> io::Result<()> {
        self.check_alive()?;
        if height >= self.next_height {
            return Ok(());
        }
        let cut = self.cut_records(height);
        self.or_poison(cut)
    }

    fn cut_records(&mut self, height: Height) -> io::Result<()> {
        let files: Arc<dyn Files> = Arc::clone(&self.files);
        let segments = list_segments(&*files, self.stream)?;
        // One that begins with the first record to go has none left, but is still the one that the
        // segment before says is there.
        let last = segments.partition_point(|first| *first <= height).checked_sub(1);
        let Some(last) = last.filter(|_| height > segments[0]) else {
            return Err(io::Error::other(format!("no record is left before block {height}")));
        };
        self.segment = None;
        for pair in segments[last..].windows(2).rev() {
            unclose(&*files.open(&segment_path(self.stream, pair[0]))?)?;
            files.remove(&segment_path(self.stream, pair[1]))?;
            files.sync_folder(self.stream.folder())?;
        }
        let file = files.open(&segment_path(self.stream, segments[last]))?;
        let (salt, place) = place_of(&*file, self.stream, segments[last], height)?;
        file.set_size(place.offset)?;
        file.sync()?;
        if let Some(hash) = place.previous_hash {
            self.head_hash = hash;
        } else {
            let before = super::read_record(&*files, self.stream, height - 1)?;
            let before = before.ok_or_else(|| io::Error::other("the record before is missing"))?;
            self.head_hash = before.hash();
        }
        let (offset, size) = (place.offset, place.offset);
        let pages = Pages::new(&self.options);
        self.segment = Some(WrittenSegment { file, salt, offset, size, pages });
        (self.next_height, self.durable_below, self.rests) = (height, height, false);
        Ok(())
    }
}

/// Has a segment end with its last record, so that none need follow it.
fn unclose(file: &dyn StorageFile) -> io::Result<()> {
    let Some(offset) = file.size()?.checked_sub(MARK_BYTES as u64) else { return Ok(()) };
    let (mut header, mut mark) = ([0; SEGMENT_HEADER_BYTES], [0; MARK_BYTES]);
    file.read_at(&mut header, 0)?;
    file.read_at(&mut mark, offset)?;
    let header = SegmentHeader::decode(&header).map_err(io::Error::other)?;
    if Mark::decode(&mark, header.salt).is_some() {
        file.set_size(offset)?;
        file.sync()?;
    }
    Ok(())
}

/// Where a record begins in its segment.
fn place_of(
    file: &dyn StorageFile,
    stream: Stream,
    first: Height,
    height: Height,
) -> io::Result<(u64, Place)> {
    let mut records = SegmentRecords::open(file, stream, first)?;
    while records.place.next_height < height {
        if records.next()?.is_none() {
            return Err(io::Error::other(format!("block {height} is not in its segment")));
        }
    }
    Ok((records.header.salt, records.place))
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;
    use crate::log::{LogError, LogOptions, LogReader};
    use crate::memory_files::MemoryFiles;
    use crate::record::Record;
    use crate::testing::chain;

    fn orders(count: u64) -> Vec<Record> {
        chain(count - 1, 3).iter().map(|block| block.batch.encode().unwrap()).collect()
    }

    fn read(files: &MemoryFiles) -> (Vec<Record>, LogReader) {
        let mut reader = LogReader::open(Arc::new(files.clone()), Stream::Orders).unwrap();
        let mut records = Vec::new();
        loop {
            match reader.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) | Err(LogError::TornTail(_)) => return (records, reader),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn writer(files: &MemoryFiles) -> LogWriter {
        let options = LogOptions { segment_bytes: 1200, zero_fill_bytes: 256, sync: true };
        LogWriter::resume(read(files).1, options).unwrap()
    }

    #[test]
    fn what_was_cut_is_gone_and_others_take_its_place() {
        let records = orders(20);
        for cut in [1, 2, 7, 13, 19] {
            let files = MemoryFiles::new();
            let mut log = writer(&files);
            records.iter().for_each(|record| log.append(std::slice::from_ref(record)).unwrap());
            log.rest().unwrap();
            log.cut(cut).unwrap();
            let last = records[cut as usize - 1].hash();
            assert_eq!((log.next_height(), log.head_hash()), (cut, last));
            assert_eq!(read(&files).0, records[..cut as usize], "cut at {cut}");
            log.append(&records[cut as usize..]).unwrap();
            assert_eq!(read(&files).0, records);
            drop(log);
            let mut log = writer(&files);
            log.cut(cut).unwrap();
            assert!(log.cut(0).is_err(), "genesis is never taken back");
        }
    }

    /// Whatever a crash leaves is the log before, or after, or something between.
    #[test]
    fn a_crash_leaves_a_log() {
        let records = orders(20);
        let mut random = Random::new(1);
        for cut in [1, 8, 19] {
            let files = MemoryFiles::new();
            let mut log = writer(&files);
            records.iter().for_each(|record| log.append(std::slice::from_ref(record)).unwrap());
            files.remember();
            log.cut(cut).unwrap();
            log.append(&records[cut as usize..]).unwrap();
            for moment in files.moments() {
                for _ in 0..2 {
                    let (left, _) = read(&moment.crash(&mut random));
                    assert!(left.len() >= cut as usize && records.starts_with(&left));
                }
            }
        }
    }
}
