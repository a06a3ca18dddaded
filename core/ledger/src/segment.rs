//! Segment files: how records lie on disk, and how a torn end is told from damage.
//!
//! ```text
//! orders/00000000000000000000.tally          named by the first height, 20 digits
//! results/00000000000000000000.tally
//!
//! segment header, 52 bytes                   record header, 32 bytes
//! offset bytes field                         offset bytes field
//!      0     8 "TALLYSEG"                         0     4 "TREC"
//!      8     4 format version, 2                  4     4 length of the payload
//!     12     4 stream: 1 orders, 2 results        8     8 height of the block
//!     16    16 ledger id                         16     8 durable_below
//!     32     8 first height                      24     4 CRC-32(salt ‖ payload)
//!     40     8 salt                              28     4 CRC-32(salt ‖ bytes 0..28)
//!     48     4 CRC-32(bytes 0..48)               32       payload: the canonical batch or result
//! ```
//!
//! Numbers are big-endian; CRC-32 is the one of IEEE 802.3 (zlib's). Records follow the header and
//! one another without gaps. The newest segment is filled with zeros beyond its last record:
//! written ones, not merely allocated ones, so that the next write changes neither size nor extents
//! and its fdatasync commits no metadata (90 µs against 137 µs for 2 kB measured). Every byte of a
//! segment is a checksum, under a checksum, or zero.
//!
//! **Marks.** After the last record there may be a mark, 64 bytes:
//!
//! ```text
//!      0     4 "TRST" at rest, "TNXT" closed     24     4 CRC-32(salt ‖ head)
//!      4     4 32                                28     4 CRC-32(salt ‖ bytes 0..28)
//!      8     8 height after the last record      32    32 head: hash of the last record
//!     16     8 durable_below, the same
//! ```
//!
//! *At rest*: written when nothing has come for a moment, and at a clean stop, after records that
//! are on stable storage. It vouches for the last of them, which no later record does; the next one
//! overwrites it, as each is longer. *Closed*: written when the segment that follows is on stable
//! storage, before that has a record; the file ends with it. A last segment that is closed says
//! that a file is missing. A copy of a segment has no mark.
//!
//! **Torn or damaged?** A write that a power cut tore leaves any subset of its sectors: the first
//! record of a group may be lost where the second one is whole. So a whole record *after* a bad one
//! does not mean that the bad one was ever acknowledged. `durable_below` decides: when a record was
//! written, all records below that height had been synced already. If any record after the bad
//! record N says more than N, block N was on disk and is damaged. If none does, N may have been
//! torn by a crash, and the two cannot be distinguished: "torn or damaged tail at block N". A mark
//! is such a record, too: what was acknowledged a moment ago, or before a clean stop, is never
//! torn.
//!
//! **Salt.** To find those later records, a reader looks at every offset, and envelopes are
//! bytes that a stranger chose, for instance a complete record. All record checksums start with the
//! segment's salt, which the stranger cannot know, so what lies inside a payload never passes.

use types::Height;

use crate::hash::Hash;
use crate::header::{LedgerId, ORDER_HEADER_BYTES, RESULT_HEADER_BYTES};
use crate::record::RECORD_BYTES_MAX;
use crate::stream::Stream;

pub const SEGMENT_HEADER_BYTES: usize = 52;
pub const RECORD_HEADER_BYTES: usize = 32;
pub const SEGMENT_VERSION: u32 = 2;

const SEGMENT_MAGIC: [u8; 8] = *b"TALLYSEG";
const RECORD_MAGIC: [u8; 4] = *b"TREC";

pub const MARK_BYTES: usize = RECORD_HEADER_BYTES + 32;

// A record overwrites the mark that it comes in place of.
const _: () = assert!(RECORD_HEADER_BYTES + ORDER_HEADER_BYTES >= MARK_BYTES);
const _: () = assert!(RECORD_HEADER_BYTES + RESULT_HEADER_BYTES >= MARK_BYTES);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub stream: Stream,
    pub ledger_id: LedgerId,
    pub first_height: Height,
    pub salt: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&SEGMENT_VERSION.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.stream.code().to_be_bytes());
        bytes[16..32].copy_from_slice(&self.ledger_id);
        bytes[32..40].copy_from_slice(&self.first_height.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.salt.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[..48]);
        bytes[48..52].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((bytes, _)) = bytes.split_first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err("the segment header is cut");
        };
        if bytes[0..8] != SEGMENT_MAGIC {
            return Err("this is not a segment file");
        }
        if crc32fast::hash(&bytes[..48]) != u32::from_be_bytes(field(bytes, 48)) {
            return Err("the segment header's checksum does not match");
        }
        if u32::from_be_bytes(field(bytes, 8)) != SEGMENT_VERSION {
            return Err("the segment's format version is not known");
        }
        let Some(stream) = Stream::of_code(u32::from_be_bytes(field(bytes, 12))) else {
            return Err("the segment's stream is not known");
        };
        Ok(SegmentHeader {
            stream,
            ledger_id: field(bytes, 16),
            first_height: u64::from_be_bytes(field(bytes, 32)),
            salt: u64::from_be_bytes(field(bytes, 40)),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub length: u32,
    pub height: Height,
    /// All blocks below this height were on stable storage when this record was written.
    pub durable_below: Height,
    pub payload_crc: u32,
}

impl RecordHeader {
    pub fn encode(&self, salt: u64) -> [u8; RECORD_HEADER_BYTES] {
        self.encode_as(RECORD_MAGIC, salt)
    }

    fn encode_as(&self, magic: [u8; 4], salt: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&magic);
        bytes[4..8].copy_from_slice(&self.length.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.height.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.durable_below.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_be_bytes());
        let checksum = salted_crc(salt, &bytes[..28]);
        bytes[28..32].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8], salt: u64) -> Result<Self, &'static str> {
        Self::decode_as(RECORD_MAGIC, bytes, salt)
    }

    fn decode_as(magic: [u8; 4], bytes: &[u8], salt: u64) -> Result<Self, &'static str> {
        let Some((bytes, _)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err("the record header is cut");
        };
        if bytes[0..4] != magic {
            return Err("there is no record where one must begin");
        }
        if salted_crc(salt, &bytes[..28]) != u32::from_be_bytes(field(bytes, 28)) {
            return Err("the record header's checksum does not match");
        }
        Ok(RecordHeader {
            length: u32::from_be_bytes(field(bytes, 4)),
            height: u64::from_be_bytes(field(bytes, 8)),
            durable_below: u64::from_be_bytes(field(bytes, 16)),
            payload_crc: u32::from_be_bytes(field(bytes, 24)),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkKind {
    Rest,
    Closed,
}

impl MarkKind {
    const ALL: [MarkKind; 2] = [MarkKind::Rest, MarkKind::Closed];

    const fn magic(self) -> [u8; 4] {
        match self {
            MarkKind::Rest => *b"TRST",
            MarkKind::Closed => *b"TNXT",
        }
    }
}

/// What stands after the last record: all before is on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub kind: MarkKind,
    /// The height after the last record.
    pub height: Height,
    /// Hash of the last record.
    pub head: Hash,
}

impl Mark {
    pub fn encode(&self, salt: u64) -> [u8; MARK_BYTES] {
        let header = RecordHeader {
            length: self.head.len() as u32,
            height: self.height,
            durable_below: self.height,
            payload_crc: salted_crc(salt, &self.head),
        };
        let mut bytes = [0; MARK_BYTES];
        bytes[..RECORD_HEADER_BYTES].copy_from_slice(&header.encode_as(self.kind.magic(), salt));
        bytes[RECORD_HEADER_BYTES..].copy_from_slice(&self.head);
        bytes
    }

    /// The mark that the bytes begin with, if they do.
    pub fn decode(bytes: &[u8], salt: u64) -> Option<Mark> {
        let (bytes, _) = bytes.split_first_chunk::<MARK_BYTES>()?;
        let kind = MarkKind::ALL.into_iter().find(|kind| bytes[0..4] == kind.magic())?;
        let header = RecordHeader::decode_as(kind.magic(), bytes, salt).ok()?;
        let head: Hash = field(bytes, RECORD_HEADER_BYTES);
        let RecordHeader { length, height, durable_below, payload_crc } = header;
        let holds = length as usize == head.len()
            && durable_below == height
            && payload_crc == salted_crc(salt, &head);
        holds.then_some(Mark { kind, height, head })
    }
}

pub fn salted_crc(salt: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_be_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Appends one record to a write buffer.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    salt: u64,
    height: Height,
    durable_below: Height,
    payload: &[u8],
) {
    assert!(payload.len() <= RECORD_BYTES_MAX, "its length would not be its length");
    debug_assert!(durable_below <= height, "a record cannot vouch for itself");
    let header = RecordHeader {
        length: payload.len() as u32,
        height,
        durable_below,
        payload_crc: salted_crc(salt, payload),
    };
    out.extend_from_slice(&header.encode(salt));
    out.extend_from_slice(payload);
}

/// Whether some header in these bytes, of a record or of a mark, proves that the record at `height`
/// had been synced.
pub(crate) fn proves_durable(bytes: &[u8], salt: u64, height: Height) -> bool {
    let magics = [RECORD_MAGIC, MarkKind::Rest.magic(), MarkKind::Closed.magic()];
    bytes.windows(RECORD_HEADER_BYTES).any(|window| {
        window[0] == b'T'
            && magics.into_iter().any(|magic| {
                RecordHeader::decode_as(magic, window, salt)
                    .is_ok_and(|header| header.height > height && header.durable_below > height)
            })
    })
}

pub fn segment_name(first_height: Height) -> String {
    format!("{first_height:020}.tally")
}

pub fn segment_path(stream: Stream, first_height: Height) -> String {
    format!("{stream}/{}", segment_name(first_height))
}

/// The stream and the first height of a path, if it is that of a segment.
pub fn parse_segment_path(path: &str) -> Option<(Stream, Height)> {
    let (folder, name) = path.split_once('/')?;
    Some((Stream::of_folder(folder)?, parse_segment_name(name)?))
}

/// The first height of a file name, if it is the name of a segment.
pub fn parse_segment_name(name: &str) -> Option<Height> {
    let height = name.strip_suffix(".tally")?.parse().ok()?;
    (segment_name(height) == name).then_some(height)
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(segment_name(1), "00000000000000000001.tally");
        assert_eq!(parse_segment_name("00000000000000000001.tally"), Some(1));
        assert_eq!(parse_segment_name(&segment_name(u64::MAX)), Some(u64::MAX));
        for stream in Stream::ALL {
            let path = segment_path(stream, 7);
            assert_eq!(parse_segment_path(&path), Some((stream, 7)));
            assert_eq!(parse_segment_path(&format!("x{path}")), None);
        }
        for bad in ["1.tally", "+0000000000000000001.tally", "00000000000000000001.tally~", "x"] {
            assert_eq!(parse_segment_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn marks_round_trip_and_every_flip_is_seen() {
        for kind in MarkKind::ALL {
            let mark = Mark { kind, height: 7, head: [3; 32] };
            let bytes = mark.encode(5);
            assert_eq!(Mark::decode(&bytes, 5), Some(mark));
            assert_eq!(Mark::decode(&bytes, 6), None, "another salt");
            assert_eq!(Mark::decode(&bytes[1..], 5), None);
            assert!(RecordHeader::decode(&bytes, 5).is_err(), "a mark is no record");
            assert!(proves_durable(&bytes, 5, 6) && !proves_durable(&bytes, 5, 7));
            for bit in 0..MARK_BYTES * 8 {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Mark::decode(&changed, 5), None);
            }
        }
    }

    #[test]
    fn headers_round_trip_and_every_flip_is_seen() {
        let segment =
            SegmentHeader { stream: Stream::Results, ledger_id: [3; 16], first_height: 4, salt: 5 };
        let record = RecordHeader { length: 1, height: 2, durable_below: 2, payload_crc: 9 };
        let (segment_bytes, record_bytes) = (segment.encode(), record.encode(5));
        assert_eq!(SegmentHeader::decode(&segment_bytes), Ok(segment));
        assert_eq!(RecordHeader::decode(&record_bytes, 5), Ok(record));
        assert!(RecordHeader::decode(&record_bytes, 6).is_err(), "another salt");
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut changed = segment_bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&changed).is_err());
        }
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut changed = record_bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(RecordHeader::decode(&changed, 5).is_err());
        }
    }
}
