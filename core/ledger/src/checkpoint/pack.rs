//! Pack files: groups one after the other.
//!
//! ```text
//! offset bytes field
//!      0     8 "TALLYCKP"
//!      8     4 format version, 1
//!     12    16 ledger id
//!     28     8 height of the checkpoint
//!     36     4 CRC-32(bytes 0..36)
//!     40       groups, without gaps
//! ```
//!
//! A pack says nothing of its groups: the manifests do. It is written in large aligned pieces, past
//! the page cache where the file system can do that, so that a gigabyte of it neither pushes other
//! pages out nor stands before the log's next sync as dirty pages.

use std::collections::BTreeMap;
use std::io;

use types::{Error, Height, Result, SqlState};

use crate::files::{DIRECT_ALIGNMENT, Files, StorageFile};
use crate::hash::{Hash, to_hex};
use crate::header::LedgerId;
use crate::merkle::leaf_hash;

use super::folder::{pack_path, unreadable};
use super::manifest::{Group, Place};

const MAGIC: [u8; 8] = *b"TALLYCKP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const BUFFER_BYTES: usize = 1 << 20;

fn header(ledger_id: LedgerId, height: Height) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_be_bytes());
    bytes[12..28].copy_from_slice(&ledger_id);
    bytes[28..36].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32fast::hash(&bytes[..36]);
    bytes[36..].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Writes a pack from front to back.
pub struct PackWriter {
    file: Box<dyn StorageFile>,
    height: Height,
    buffer: Buffer,
    /// File offset of the buffer's begin.
    flushed: u64,
}

impl PackWriter {
    /// There must be no such file yet.
    pub fn create(files: &dyn Files, ledger_id: LedgerId, height: Height) -> io::Result<Self> {
        let file = files.create(&pack_path(height))?;
        let mut writer = PackWriter { file, height, buffer: Buffer::new(), flushed: 0 };
        writer.write(&header(ledger_id, height))?;
        Ok(writer)
    }

    pub fn append(&mut self, group: &[u8]) -> io::Result<Place> {
        let offset = self.flushed + self.buffer.length as u64;
        self.write(group)?;
        Ok(Place { pack: self.height, offset, length: group.len() as u64 })
    }

    /// Returns when everything is on stable storage. The file's folder entry is not yet.
    pub fn finish(mut self) -> io::Result<u64> {
        let size = self.flushed + self.buffer.length as u64;
        let padding = self.buffer.length.next_multiple_of(DIRECT_ALIGNMENT) - self.buffer.length;
        self.buffer.fill(&[0; DIRECT_ALIGNMENT][..padding]);
        self.flush()?;
        self.file.set_size(size)?;
        self.file.sync()?;
        Ok(size)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.buffer.fill(bytes);
            bytes = &bytes[taken..];
            if self.buffer.length == BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.buffer.bytes(), self.flushed)?;
        self.flushed += self.buffer.length as u64;
        self.buffer.length = 0;
        Ok(())
    }
}

/// Memory that begins on an aligned address.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    fn new() -> Buffer {
        let memory = vec![0; BUFFER_BYTES + DIRECT_ALIGNMENT];
        let start = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        Buffer { memory, start, length: 0 }
    }

    /// Takes as much as there is room for.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(BUFFER_BYTES - self.length);
        let at = self.start + self.length;
        self.memory[at..at + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
        taken
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

/// The packs that a manifest refers to, open.
pub struct PackReader {
    files: BTreeMap<Height, (Box<dyn StorageFile>, u64)>,
}

impl PackReader {
    pub fn open(files: &dyn Files, ledger_id: LedgerId, packs: &[Height]) -> Result<PackReader> {
        let mut opened = BTreeMap::new();
        for &height in packs {
            let path = pack_path(height);
            let file = files.open(&path).map_err(|error| unreadable(&path, error))?;
            let size = file.size().map_err(|error| unreadable(&path, error))?;
            let mut found = [0; HEADER_BYTES];
            if size < HEADER_BYTES as u64 {
                return Err(damaged(height, "its header is cut"));
            }
            file.read_at(&mut found, 0).map_err(|error| unreadable(&path, error))?;
            if found != header(ledger_id, height) {
                return Err(damaged(height, "its header is not that of this ledger's pack"));
            }
            opened.insert(height, (file, size));
        }
        Ok(PackReader { files: opened })
    }

    /// Reads a group in place of what `out` held, and compares its hash.
    pub fn read(&self, group: &Group, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.append(group, out)?;
        check(group, out)
    }

    /// Reads a group after what `out` holds; its hash is to be compared by [`check`].
    pub fn append(&self, group: &Group, out: &mut Vec<u8>) -> Result<()> {
        let Place { pack, offset, length } = group.place;
        let Some((file, size)) = self.files.get(&pack) else {
            return Err(damaged(pack, "it was not opened"));
        };
        if offset.checked_add(length).is_none_or(|end| end > *size) {
            return Err(damaged(pack, &format!("the group at offset {offset} is cut")));
        }
        let start = out.len();
        out.resize(start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)), 0);
        file.read_at(&mut out[start..], offset).map_err(|error| unreadable(&pack_path(pack), error))
    }
}

/// Whether these are the bytes of a group.
pub fn check(group: &Group, bytes: &[u8]) -> Result<()> {
    let found: Hash = leaf_hash(bytes);
    if found == group.hash {
        return Ok(());
    }
    let Place { pack, offset, .. } = group.place;
    let (expected, found) = (to_hex(&group.hash), to_hex(&found));
    let what = format!("the group at offset {offset} has hash {found}, not {expected}");
    Err(damaged(pack, &what))
}

fn damaged(pack: Height, what: &str) -> Error {
    let path = pack_path(pack);
    Error::new(SqlState::DATA_CORRUPTED, format!("{path} is damaged: {what}"))
}
