//! The headers of pruned blocks: what is left of a segment when its transactions have gone.
//!
//! A receipt proves itself to whoever has the hash of its block, so a ledger that has thrown its
//! old blocks away must still know their hashes, and must be able to show that they lead up to the
//! blocks that it has. For each segment that is pruned, a *piece* takes its place:
//!
//! ```text
//! headers/00000000000000000000.headers     blocks 0 to 41     genesis whole, and 42 headers
//! headers/00000000000000000042.headers     blocks 42 to 99
//! segments/00000000000000000100.tally      blocks 100 to …    100's previous_hash is 99's hash
//! ```
//!
//! # Bytes
//!
//! ```text
//! bytes  field                        (numbers big-endian)
//!     8  "TALLYHDR"
//!     4  format version, 1
//!    16  ledger id
//!     8  first height
//!    32  previous_hash of the first   zeros before genesis
//! 4 + n  genesis                      the whole block if the first height is 0, else empty
//!     4  number of headers, at least 1
//!        for each header
//!     1    1 if parameters_hash differs from the header before, or is the first; else 0
//! 0, 32    parameters_hash, if so
//!     8    time_us
//!     8    snapshot_height
//!     4    transaction_count
//!    96    transactions_root, outcomes_root, effects_root
//!    32  SHA-256("tally heads v1" 00 00 ‖ all bytes before)
//! ```
//!
//! What a header says besides (ledger id, height, previous hash, version, reserved zeros) follows:
//! 117 bytes instead of 238, some thirtieth of a small block. As previous hashes are computed and
//! not read, a piece is a chain by construction; that pieces join, and join the first segment, is
//! what [`check_chain`] compares.

use std::io;

use types::{Error, Height, Result, SqlState};

use crate::block::Block;
use crate::files::{Files, read_all};
use crate::genesis::Genesis;
use crate::hash::{Hash, TAG_HEADERS, ZERO_HASH, tagged_hash, to_hex};
use crate::header::{BlockHeader, HEADER_VERSION, LedgerId};
use crate::wire::{Cursor, put_prefixed};

pub const HEADER_FOLDER: &str = "headers";

const MAGIC: [u8; 8] = *b"TALLYHDR";
const VERSION: u32 = 1;
const HEADER_BYTES_MIN: usize = 117;
const SUFFIX: &str = ".headers";

/// The headers of the blocks of one pruned segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderPiece {
    /// At least one; each follows from the one before.
    headers: Vec<BlockHeader>,
    genesis: Option<Block>,
}

/// Why there is no piece.
#[derive(Debug)]
pub enum PieceError {
    Io(io::Error),
    Damaged(Error),
}

impl From<PieceError> for Error {
    fn from(error: PieceError) -> Error {
        match error {
            PieceError::Io(error) => Error::new(SqlState::IO_ERROR, error.to_string()),
            PieceError::Damaged(error) => error,
        }
    }
}

impl HeaderPiece {
    /// `genesis` is the block 0, if that is the first one. An error if the headers are no chain.
    pub fn new(headers: Vec<BlockHeader>, genesis: Option<Block>) -> Result<HeaderPiece> {
        let joined = headers.windows(2).all(|pair| {
            let [before, after] = pair else { return false };
            after.height == before.height + 1
                && after.previous_hash == before.hash()
                && after.ledger_id == before.ledger_id
        });
        let begins = headers.first().is_some_and(|first| match &genesis {
            Some(genesis) => genesis.header == *first && Genesis::from_block(genesis).is_ok(),
            None => first.height > 0,
        });
        match joined && begins {
            true => Ok(HeaderPiece { headers, genesis }),
            false => Err(Error::new(SqlState::DATA_CORRUPTED, "these headers are no chain")),
        }
    }

    pub fn first_height(&self) -> Height {
        self.first().height
    }

    pub fn first(&self) -> &BlockHeader {
        &self.headers[0]
    }

    pub fn last(&self) -> &BlockHeader {
        &self.headers[self.headers.len() - 1]
    }

    pub fn headers(&self) -> &[BlockHeader] {
        &self.headers
    }

    pub fn header(&self, height: Height) -> Option<&BlockHeader> {
        let index = height.checked_sub(self.first_height())?;
        self.headers.get(usize::try_from(index).ok()?)
    }

    pub fn genesis(&self) -> Option<&Block> {
        self.genesis.as_ref()
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let first = self.first();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&first.ledger_id);
        bytes.extend_from_slice(&first.height.to_be_bytes());
        bytes.extend_from_slice(&first.previous_hash);
        let genesis = self.genesis.as_ref().map(Block::encode).transpose()?;
        put_prefixed(&mut bytes, genesis.as_ref().map_or(&[][..], |block| block.payload()))?;
        bytes.extend_from_slice(&(self.headers.len() as u32).to_be_bytes());
        let mut parameters_hash = None;
        for header in &self.headers {
            let changed = parameters_hash != Some(header.parameters_hash);
            bytes.push(u8::from(changed));
            if changed {
                bytes.extend_from_slice(&header.parameters_hash);
                parameters_hash = Some(header.parameters_hash);
            }
            bytes.extend_from_slice(&header.time_us.to_be_bytes());
            bytes.extend_from_slice(&header.snapshot_height.to_be_bytes());
            bytes.extend_from_slice(&header.transaction_count.to_be_bytes());
            bytes.extend_from_slice(&header.transactions_root);
            bytes.extend_from_slice(&header.outcomes_root);
            bytes.extend_from_slice(&header.effects_root);
        }
        let hash = tagged_hash(TAG_HEADERS, &bytes);
        bytes.extend_from_slice(&hash);
        Ok(bytes)
    }

    /// Strict: what this accepts encodes to the same bytes again.
    pub fn decode(bytes: &[u8]) -> Result<HeaderPiece> {
        let mut cursor = Cursor::new("file of headers", bytes);
        if cursor.array()? != MAGIC {
            return Err(cursor.invalid("this is not a file of headers"));
        }
        let Some((content, hash)) = bytes.split_last_chunk::<32>() else {
            return Err(cursor.invalid("it is cut"));
        };
        if tagged_hash(TAG_HEADERS, content) != *hash {
            return Err(cursor.invalid("its hash is not that of its bytes"));
        }
        let version = cursor.u32()?;
        if version != VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let ledger_id: LedgerId = cursor.array()?;
        let first_height = cursor.u64()?;
        let mut previous_hash: Hash = cursor.array()?;
        let genesis = match cursor.prefixed()? {
            [] => None,
            block => Some(Block::decode(&block.to_vec().into())?),
        };
        let mut headers: Vec<BlockHeader> = Vec::new();
        for index in 0..cursor.count(HEADER_BYTES_MIN)? as u64 {
            let Some(height) = first_height.checked_add(index) else {
                return Err(cursor.invalid("its heights go beyond the last one"));
            };
            let header = decode_header(&mut cursor, headers.last(), ledger_id, height)?;
            let header = BlockHeader { previous_hash, ..header };
            previous_hash = header.hash();
            headers.push(header);
        }
        let _hash: Hash = cursor.array()?;
        cursor.finish()?;
        HeaderPiece::new(headers, genesis)
    }
}

/// Hashes a piece's bytes anew, as whoever changed them could.
pub fn reseal(bytes: &mut [u8]) {
    if let Some((content, hash)) = bytes.split_last_chunk_mut::<32>() {
        *hash = tagged_hash(TAG_HEADERS, content);
    }
}

fn decode_header(
    cursor: &mut Cursor<'_>,
    before: Option<&BlockHeader>,
    ledger_id: LedgerId,
    height: Height,
) -> Result<BlockHeader> {
    let parameters_before = before.map(|before| before.parameters_hash);
    let parameters_hash = match (cursor.u8()?, parameters_before) {
        (0, Some(unchanged)) => unchanged,
        (1, before) => {
            let hash: Hash = cursor.array()?;
            if before == Some(hash) {
                return Err(cursor.invalid("parameters are said to change and do not"));
            }
            hash
        }
        _ => return Err(cursor.invalid("it does not say which parameters a block has")),
    };
    Ok(BlockHeader {
        version: HEADER_VERSION,
        ledger_id,
        height,
        previous_hash: ZERO_HASH,
        time_us: cursor.i64()?,
        snapshot_height: cursor.u64()?,
        parameters_hash,
        transaction_count: cursor.u32()?,
        transactions_root: cursor.array()?,
        outcomes_root: cursor.array()?,
        effects_root: cursor.array()?,
        state_root: ZERO_HASH,
    })
}

pub fn piece_path(first_height: Height) -> String {
    format!("{HEADER_FOLDER}/{first_height:020}{SUFFIX}")
}

/// First heights of all pieces, ascending. Whether they hold is another question.
pub fn pieces(files: &dyn Files) -> io::Result<Vec<Height>> {
    let names = files.list(HEADER_FOLDER)?;
    let parse = |name: &String| {
        let height = name.strip_suffix(SUFFIX)?.parse().ok()?;
        piece_path(height).ends_with(name.as_str()).then_some(height)
    };
    Ok(names.iter().filter_map(parse).collect())
}

pub fn read_piece(files: &dyn Files, first_height: Height) -> Result<HeaderPiece, PieceError> {
    let path = piece_path(first_height);
    let bytes = files.open(&path).and_then(|file| read_all(&*file)).map_err(PieceError::Io)?;
    let piece = HeaderPiece::decode(&bytes).map_err(PieceError::Damaged)?;
    if piece.first_height() == first_height {
        return Ok(piece);
    }
    let what = format!("{path} holds the headers from block {} on", piece.first_height());
    Err(PieceError::Damaged(Error::new(SqlState::DATA_CORRUPTED, what)))
}

/// Returns when the piece is on stable storage, and its name is.
pub fn write_piece(files: &dyn Files, piece: &HeaderPiece) -> Result<()> {
    let path = piece_path(piece.first_height());
    let bytes = piece.encode()?;
    let write = || {
        let file = files.create(&path)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        files.sync_folder(HEADER_FOLDER)
    };
    write().map_err(|error: io::Error| {
        Error::new(SqlState::IO_ERROR, format!("{path} cannot be written: {error}"))
    })
}

/// The header of a pruned block, one of those below `first_block`. All headers behind it are read
/// too: they must lead to `previous_hash`, the one that the block at `first_block` names.
pub fn kept_header(
    files: &dyn Files,
    height: Height,
    first_block: Height,
    previous_hash: &Hash,
) -> Result<Option<BlockHeader>> {
    let mut found = None;
    walk(files, height, first_block, previous_hash, &mut |piece| {
        found = found.take().or_else(|| piece.header(height).cloned());
    })?;
    Ok(found)
}

/// Reads all headers below `first_block`: from genesis on each must follow from the one before, and
/// the last lead to `previous_hash`. Returns the last one.
pub fn check_chain(
    files: &dyn Files,
    first_block: Height,
    previous_hash: &Hash,
) -> Result<Option<BlockHeader>> {
    let mut last = None;
    walk(files, 0, first_block, previous_hash, &mut |piece| last = Some(piece.last().clone()))?;
    Ok(last)
}

fn walk(
    files: &dyn Files,
    from: Height,
    first_block: Height,
    previous_hash: &Hash,
    visit: &mut dyn FnMut(&HeaderPiece),
) -> Result<()> {
    let broken = |what: String| Error::new(SqlState::DATA_CORRUPTED, what);
    let cannot_list = |error: io::Error| Error::new(SqlState::IO_ERROR, error.to_string());
    let pieces = pieces(files).map_err(cannot_list)?;
    let begin = pieces.partition_point(|first| *first <= from).saturating_sub(1);
    let mut joint: Option<(Height, Hash)> = None;
    for &first in pieces[begin..].iter().filter(|first| **first < first_block) {
        let piece = read_piece(files, first)?;
        let here = (first, piece.first().previous_hash);
        let joins = joint.map_or(first <= from, |joint| joint == here);
        if !joins {
            return Err(broken(format!("the kept headers do not join at block {first}")));
        }
        joint = Some((piece.last().height + 1, piece.last().hash()));
        visit(&piece);
    }
    let expected = (first_block, *previous_hash);
    match joint {
        None if first_block == 0 => Ok(()),
        Some(joint) if joint == expected => Ok(()),
        _ => Err(broken(format!(
            "the kept headers do not lead to block {first_block}, whose predecessor is {}",
            to_hex(previous_hash)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_files::MemoryFiles;
    use crate::testing::chain;

    fn piece(from: usize, to: usize) -> HeaderPiece {
        let mut blocks = chain(9, 2);
        blocks[3].header.parameters_hash = [3; 32];
        let mut previous_hash = ZERO_HASH;
        for block in &mut blocks {
            block.header.previous_hash = previous_hash;
            previous_hash = block.header.hash();
        }
        let headers = blocks[from..to].iter().map(|block| block.header.clone()).collect();
        HeaderPiece::new(headers, (from == 0).then(|| blocks[0].clone())).unwrap()
    }

    #[test]
    fn headers_take_half_of_their_bytes_and_come_back_whole() {
        for (from, to) in [(0, 10), (0, 1), (1, 5), (4, 10)] {
            let piece = piece(from, to);
            let bytes = piece.encode().unwrap();
            assert_eq!(HeaderPiece::decode(&bytes).unwrap(), piece);
        }
        let (long, short) = (piece(4, 10).encode().unwrap(), piece(4, 9).encode().unwrap());
        assert_eq!(long.len() - short.len(), HEADER_BYTES_MIN);
    }

    #[test]
    fn no_bit_can_change_and_no_byte_can_go() {
        let bytes = piece(0, 5).encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(HeaderPiece::decode(&changed).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(HeaderPiece::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn pieces_must_join_each_other_and_the_first_block() {
        let files = MemoryFiles::new();
        let pieces = [piece(0, 3), piece(3, 7), piece(7, 9)];
        pieces.iter().for_each(|piece| write_piece(&files, piece).unwrap());
        let end = pieces[2].last().hash();
        assert_eq!(check_chain(&files, 9, &end).unwrap().unwrap().height, 8);
        assert!(check_chain(&files, 9, &[1; 32]).is_err());
        assert!(check_chain(&files, 8, &end).is_err());
        for height in 0..9 {
            let header = kept_header(&files, height, 9, &end).unwrap().unwrap();
            assert_eq!(header, *piece(0, 10).header(height).unwrap());
        }
        files.remove(&piece_path(3)).unwrap();
        assert!(check_chain(&files, 9, &end).is_err(), "a piece is missing");
        assert!(kept_header(&files, 4, 9, &end).is_err(), "its own piece is missing");
        assert!(kept_header(&files, 8, 9, &end).unwrap().is_some());
    }
}
