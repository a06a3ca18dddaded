//! The headers of pruned blocks: what is left of a segment when its records have gone.
//!
//! A receipt proves itself to a reader that has the head of its block, so a ledger that has thrown
//! its old blocks away must still know their hashes, and must be able to show that they lead up to
//! the blocks that it has. For each segment of either stream that is pruned, a *piece* takes its
//! place:
//!
//! ```text
//! order-headers/00000000000000000000.headers     blocks 0 to 41     genesis whole, and 42 headers
//! order-headers/00000000000000000042.headers     blocks 42 to 99
//! orders/00000000000000000100.tally              blocks 100 to …
//! ```
//!
//! # Bytes
//!
//! ```text
//! bytes  field                        (numbers big-endian)
//!     8  "TALLYHDR"
//!     4  format version, 2
//!     4  stream: 1 orders, 2 results
//!    16  ledger id
//!     8  first height
//!    32  previous hash of the first   zeros before genesis
//! 4 + n  genesis                      the batch of block 0 if these are orders from 0 on, else
//! empty
//!     4  number of headers, at least 1
//!        for each header
//!     1    bit 0: the first repeated field differs from that of the header before, bit 1: the
//! second 0, 32    the first repeated field, if so
//! 0, 32    the second
//!     n    what follows the first 58 bytes of the header, without these two fields
//!    32  SHA-256("tally heads v2" 00 00 ‖ all bytes before)
//! ```
//!
//! The repeated fields are, of an order, proposer and parameters_hash; of a result, carried_root
//! and state_root. Before the first header they count as zeros.
//!
//! What a header says besides (version, ledger id, height, previous hash) follows: 53 bytes of an
//! order and 129 of a result, instead of 174 and 250. As previous hashes are computed and not read,
//! a piece is a chain by construction; that pieces join, and join the first segment, is what
//! [`check_chain`] compares.

use std::io;

use types::{Error, Height, Result, SqlState};

use crate::batch::Batch;
use crate::files::{Files, read_all, sqlstate_of};
use crate::genesis::Genesis;
use crate::hash::{Hash, TAG_HEADERS, tagged_hash, to_hex};
use crate::header::{COMMON_BYTES, HEADER_VERSION, Header, LedgerId, OrderHeader, ResultHeader};
use crate::stream::Stream;
use crate::wire::{Cursor, put_prefixed};

const MAGIC: [u8; 8] = *b"TALLYHDR";
const VERSION: u32 = 2;
const SUFFIX: &str = ".headers";

/// The headers of the records of one pruned segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderPiece<H> {
    /// At least one; each follows from the one before.
    headers: Vec<H>,
    genesis: Option<Batch>,
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

/// The last record of a stream's part, as what follows must know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    pub ledger_id: LedgerId,
    pub height: Height,
    pub hash: Hash,
}

impl Link {
    pub fn of<H: Header>(header: &H) -> Link {
        Link { ledger_id: header.ledger_id(), height: header.height(), hash: header.hash() }
    }
}

impl<H: Header> HeaderPiece<H> {
    /// `genesis` is the batch of block 0, if these are orders and that is the first one. An error
    /// if the headers are no chain.
    pub fn new(headers: Vec<H>, genesis: Option<Batch>) -> Result<HeaderPiece<H>> {
        let joined = headers.windows(2).all(|pair| {
            let [before, after] = pair else { return false };
            Some(after.height()) == before.height().checked_add(1)
                && after.previous_hash() == before.hash()
                && after.ledger_id() == before.ledger_id()
        });
        let begins = headers.first().is_some_and(|first| match &genesis {
            Some(genesis) => {
                H::STREAM == Stream::Orders
                    && genesis.hash() == first.hash()
                    && Genesis::from_batch(genesis, 1).is_ok()
            }
            None => H::STREAM == Stream::Results || first.height() > 0,
        });
        match joined && begins {
            true => Ok(HeaderPiece { headers, genesis }),
            false => Err(Error::new(SqlState::DATA_CORRUPTED, "these headers are no chain")),
        }
    }

    pub fn first_height(&self) -> Height {
        self.first().height()
    }

    pub fn first(&self) -> &H {
        &self.headers[0]
    }

    pub fn last(&self) -> &H {
        &self.headers[self.headers.len() - 1]
    }

    pub fn headers(&self) -> &[H] {
        &self.headers
    }

    pub fn header(&self, height: Height) -> Option<&H> {
        let index = height.checked_sub(self.first_height())?;
        self.headers.get(usize::try_from(index).ok()?)
    }

    pub fn genesis(&self) -> Option<&Batch> {
        self.genesis.as_ref()
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let first = self.first();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&H::STREAM.code().to_be_bytes());
        bytes.extend_from_slice(&first.ledger_id());
        bytes.extend_from_slice(&first.height().to_be_bytes());
        bytes.extend_from_slice(&first.previous_hash());
        let genesis = self.genesis.as_ref().map(Batch::encode).transpose()?;
        put_prefixed(&mut bytes, genesis.as_ref().map_or(&[][..], |batch| batch.payload()))?;
        bytes.extend_from_slice(&(self.headers.len() as u32).to_be_bytes());
        let (mut before, mut header) = (vec![0; H::BYTES], Vec::new());
        for next in &self.headers {
            header.clear();
            next.put(&mut header);
            put_short(&mut bytes, H::REPEATED, &before, &header);
            std::mem::swap(&mut before, &mut header);
        }
        let hash = tagged_hash(TAG_HEADERS, &bytes);
        bytes.extend_from_slice(&hash);
        debug_assert!(
            HeaderPiece::<H>::decode(&bytes).is_ok_and(|read| read.last() == self.last())
        );
        Ok(bytes)
    }

    /// Strict: what this accepts encodes to the same bytes again.
    pub fn decode(bytes: &[u8]) -> Result<HeaderPiece<H>> {
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
        if cursor.u32()? != H::STREAM.code() {
            return Err(cursor.invalid("its headers are of another stream"));
        }
        let ledger_id: LedgerId = cursor.array()?;
        let first_height = cursor.u64()?;
        let mut previous_hash: Hash = cursor.array()?;
        let genesis = match cursor.prefixed()? {
            [] => None,
            batch => Some(Batch::decode(&batch.to_vec().into())?),
        };
        let (mut headers, mut bytes) = (Vec::new(), vec![0; H::BYTES]);
        for index in 0..cursor.count(short_bytes_min::<H>())? as u64 {
            let Some(height) = first_height.checked_add(index) else {
                return Err(cursor.invalid("its heights go beyond the last one"));
            };
            bytes[..2].copy_from_slice(&HEADER_VERSION.to_be_bytes());
            bytes[2..18].copy_from_slice(&ledger_id);
            bytes[18..26].copy_from_slice(&height.to_be_bytes());
            bytes[26..COMMON_BYTES].copy_from_slice(&previous_hash);
            take_short(&mut cursor, H::REPEATED, &mut bytes)?;
            let header = H::decode(&bytes)?;
            previous_hash = header.hash();
            headers.push(header);
        }
        let _hash: Hash = cursor.array()?;
        cursor.finish()?;
        HeaderPiece::new(headers, genesis)
    }
}

/// What a header takes at least: two repeated fields less, a byte that says so more.
fn short_bytes_min<H: Header>() -> usize {
    H::BYTES - COMMON_BYTES - 2 * size_of::<Hash>() + 1
}

fn put_short(out: &mut Vec<u8>, repeated: &[usize], before: &[u8], header: &[u8]) {
    debug_assert_eq!(before.len(), header.len(), "headers of one kind have one length");
    debug_assert!(repeated.len() < 8 && repeated.is_sorted(), "a bit for each, in their order");
    let field = |at: usize| at..at + size_of::<Hash>();
    let changed = |at: usize| before[field(at)] != header[field(at)];
    let bits = repeated.iter().enumerate().map(|(bit, at)| u8::from(changed(*at)) << bit);
    out.push(bits.sum());
    for &at in repeated.iter().filter(|at| changed(**at)) {
        out.extend_from_slice(&header[field(at)]);
    }
    let mut from = COMMON_BYTES;
    for &at in repeated {
        out.extend_from_slice(&header[from..at]);
        from = field(at).end;
    }
    out.extend_from_slice(&header[from..]);
}

/// Turns the bytes of the header before into those of the next one, after the common part.
fn take_short(cursor: &mut Cursor<'_>, repeated: &[usize], header: &mut [u8]) -> Result<()> {
    let bits = cursor.u8()?;
    if bits >> repeated.len() != 0 {
        return Err(cursor.invalid("it does not say which fields of a header changed"));
    }
    for (bit, &at) in repeated.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1) {
        let field = &mut header[at..at + size_of::<Hash>()];
        let changed = cursor.take(size_of::<Hash>())?;
        if field == changed {
            return Err(cursor.invalid(format!("field {bit} is said to change and does not")));
        }
        field.copy_from_slice(changed);
    }
    let mut from = COMMON_BYTES;
    for end in repeated.iter().copied().chain([header.len()]) {
        header[from..end].copy_from_slice(cursor.take(end - from)?);
        from = (end + size_of::<Hash>()).min(header.len());
    }
    Ok(())
}

/// Hashes a piece's bytes anew, as an attacker who changed them could.
pub fn reseal(bytes: &mut [u8]) {
    if let Some((content, hash)) = bytes.split_last_chunk_mut::<32>() {
        *hash = tagged_hash(TAG_HEADERS, content);
    }
}

pub fn piece_path(stream: Stream, first_height: Height) -> String {
    format!("{}/{first_height:020}{SUFFIX}", stream.header_folder())
}

/// First heights of all pieces of a stream, ascending. Whether they hold is another question.
pub fn pieces(files: &dyn Files, stream: Stream) -> io::Result<Vec<Height>> {
    let names = files.list(stream.header_folder())?;
    let parse = |name: &String| {
        let height = name.strip_suffix(SUFFIX)?.parse().ok()?;
        piece_path(stream, height).ends_with(name.as_str()).then_some(height)
    };
    let heights: Vec<Height> = names.iter().filter_map(parse).collect();
    debug_assert!(heights.is_sorted_by(|left, right| left < right), "names sort as heights do");
    Ok(heights)
}

pub fn read_piece<H: Header>(
    files: &dyn Files,
    first_height: Height,
) -> Result<HeaderPiece<H>, PieceError> {
    let path = piece_path(H::STREAM, first_height);
    let bytes = files.open(&path).and_then(|file| read_all(&*file)).map_err(PieceError::Io)?;
    let piece = HeaderPiece::<H>::decode(&bytes).map_err(PieceError::Damaged)?;
    if piece.first_height() == first_height {
        return Ok(piece);
    }
    let what = format!("{path} holds the headers from block {} on", piece.first_height());
    Err(PieceError::Damaged(Error::new(SqlState::DATA_CORRUPTED, what)))
}

/// The last header of a piece of a stream.
pub(crate) fn read_end(
    files: &dyn Files,
    stream: Stream,
    first_height: Height,
) -> Result<Link, PieceError> {
    match stream {
        Stream::Orders => {
            read_piece::<OrderHeader>(files, first_height).map(|piece| Link::of(piece.last()))
        }
        Stream::Results => {
            read_piece::<ResultHeader>(files, first_height).map(|piece| Link::of(piece.last()))
        }
    }
}

/// Returns when the piece is on stable storage, and its name is.
pub fn write_piece<H: Header>(files: &dyn Files, piece: &HeaderPiece<H>) -> Result<()> {
    let path = piece_path(H::STREAM, piece.first_height());
    let bytes = piece.encode()?;
    let write = || {
        let file = files.create(&path)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        files.sync_folder(H::STREAM.header_folder())
    };
    write().map_err(|error: io::Error| {
        Error::new(sqlstate_of(&error), format!("{path} cannot be written: {error}"))
    })
}

/// The header of a pruned record, one of those below `first`. All headers after it are read too:
/// they must lead to `previous_hash`, the one that the record at `first` names.
pub fn kept_header<H: Header>(
    files: &dyn Files,
    height: Height,
    first: Height,
    previous_hash: &Hash,
) -> Result<Option<H>> {
    let mut found = None;
    walk::<H>(files, height, first, previous_hash, &mut |piece| {
        found = found.take().or_else(|| piece.header(height).cloned());
    })?;
    Ok(found)
}

/// Reads all headers of a stream below `first`: from genesis on each must follow from the one
/// before, and the last lead to `previous_hash`. Returns the last one.
pub fn check_chain<H: Header>(
    files: &dyn Files,
    first: Height,
    previous_hash: &Hash,
) -> Result<Option<H>> {
    let mut last = None;
    walk::<H>(files, 0, first, previous_hash, &mut |piece| last = Some(piece.last().clone()))?;
    Ok(last)
}

fn walk<H: Header>(
    files: &dyn Files,
    from: Height,
    first_record: Height,
    previous_hash: &Hash,
    visit: &mut dyn FnMut(&HeaderPiece<H>),
) -> Result<()> {
    let broken = |what: String| Error::new(SqlState::DATA_CORRUPTED, what);
    let cannot_list = |error: io::Error| Error::new(SqlState::IO_ERROR, error.to_string());
    let pieces = pieces(files, H::STREAM).map_err(cannot_list)?;
    let begin = pieces.partition_point(|first| *first <= from).saturating_sub(1);
    let mut joint: Option<(Height, Hash)> = None;
    for &first in pieces[begin..].iter().filter(|first| **first < first_record) {
        let piece = read_piece::<H>(files, first)?;
        let here = (first, piece.first().previous_hash());
        let joins = joint.map_or(first <= from, |joint| joint == here);
        if !joins {
            return Err(broken(format!("the kept headers do not join at block {first}")));
        }
        joint = Some((piece.last().height() + 1, piece.last().hash()));
        visit(&piece);
    }
    let expected = (first_record, *previous_hash);
    match joint {
        None if first_record == 0 => Ok(()),
        Some(joint) if joint == expected => Ok(()),
        _ => Err(broken(format!(
            "the kept headers do not lead to block {first_record}, whose predecessor is {}",
            to_hex(previous_hash)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::ZERO_HASH;
    use crate::memory_files::MemoryFiles;
    use crate::testing::chain;

    fn orders(from: usize, to: usize) -> HeaderPiece<OrderHeader> {
        let blocks = chain(9, 2);
        let genesis = (from == 0).then(|| blocks[0].batch.clone());
        let mut headers: Vec<_> = blocks.iter().map(|block| block.batch.header().clone()).collect();
        headers[3].parameters_hash = [3; 32];
        headers[5].proposer = [4; 32];
        let mut previous_hash = ZERO_HASH;
        for header in &mut headers {
            header.previous_order_hash = previous_hash;
            previous_hash = header.hash();
        }
        HeaderPiece::new(headers[from..to].to_vec(), genesis).unwrap()
    }

    fn results(from: usize, to: usize) -> HeaderPiece<ResultHeader> {
        let mut headers: Vec<_> =
            chain(9, 2).iter().map(|block| block.result.header().clone()).collect();
        headers[6].carried_root = [3; 32];
        let mut previous_hash = ZERO_HASH;
        for header in &mut headers {
            header.previous_result_hash = previous_hash;
            previous_hash = header.hash();
        }
        HeaderPiece::new(headers[from..to].to_vec(), None).unwrap()
    }

    fn round_trip<H: Header>(piece: fn(usize, usize) -> HeaderPiece<H>, bytes: usize) {
        for (from, to) in [(0, 10), (0, 1), (1, 5), (4, 10)] {
            let piece = piece(from, to);
            let bytes = piece.encode().unwrap();
            assert_eq!(HeaderPiece::decode(&bytes).unwrap(), piece);
        }
        let (long, short) = (piece(4, 10).encode().unwrap(), piece(4, 9).encode().unwrap());
        assert_eq!(long.len() - short.len(), bytes);
        assert_eq!(short_bytes_min::<H>(), bytes);
    }

    #[test]
    fn headers_take_a_part_of_their_bytes_and_come_back_whole() {
        round_trip(orders, 53);
        round_trip(results, 129);
        assert!(HeaderPiece::<OrderHeader>::decode(&results(1, 5).encode().unwrap()).is_err());
    }

    #[test]
    fn no_bit_can_change_and_no_byte_can_go() {
        let bytes = orders(0, 5).encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(HeaderPiece::<OrderHeader>::decode(&changed).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            let decoded = HeaderPiece::<OrderHeader>::decode(&bytes[..cut]);
            assert!(decoded.is_err(), "cut at {cut}");
        }
    }

    /// With the right hash, what is accepted is canonical.
    #[test]
    fn resealed_changes_are_refused_or_another_piece() {
        let whole = results(2, 8);
        let bytes = whole.encode().unwrap();
        let mut others = 0;
        for bit in 0..(bytes.len() - 32) * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            reseal(&mut changed);
            if let Ok(other) = HeaderPiece::<ResultHeader>::decode(&changed) {
                assert_eq!(other.encode().unwrap(), changed, "bit {bit}");
                assert_ne!(other, whole);
                others += 1;
            }
        }
        assert!(others > 1_000, "{others}");
    }

    #[test]
    fn pieces_must_join_each_other_and_the_first_block() {
        let files = MemoryFiles::new();
        let pieces = [orders(0, 3), orders(3, 7), orders(7, 9)];
        pieces.iter().for_each(|piece| write_piece(&files, piece).unwrap());
        let end = pieces[2].last().hash();
        let check = |first, previous: &Hash| check_chain::<OrderHeader>(&files, first, previous);
        let kept = |height| kept_header::<OrderHeader>(&files, height, 9, &end);
        assert_eq!(check(9, &end).unwrap().unwrap().height, 8);
        assert!(check(9, &[1; 32]).is_err());
        assert!(check(8, &end).is_err());
        for height in 0..9 {
            assert_eq!(kept(height).unwrap().as_ref(), orders(0, 10).header(height));
        }
        files.remove(&piece_path(Stream::Orders, 3)).unwrap();
        assert!(check(9, &end).is_err(), "a piece is missing");
        assert!(kept(4).is_err(), "its own piece is missing");
        assert!(kept(8).unwrap().is_some());
    }
}
