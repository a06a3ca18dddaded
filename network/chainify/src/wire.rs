//! What organisations ask one another. Numbers are varints, bytes have their length before them.
//!
//! ```text
//! vote        stage, height, votes of the sender's (0 or 1)   → votes and certificates of there
//! order       height                                          → the proposal, or nothing yet
//! submit      envelope                                        → nothing, or why it was not taken
//! gather      envelope                                        → it with approvals, or why not
//! agree       envelope                                        → an approval, or why there is none
//! nudge                                                       → nothing
//! status                                                      → heights, texts
//! block       height                                          → order, result, or nothing yet
//! effects     height                                          → net changes, or none are kept
//! checkpoint  height                                          → the newest one at or above it
//! stretches   height, table                                   → the last key and the hash of each
//! images      height, table, range of keys                    → key and image hash of each row
//! rows        height, table, key                              → texts of rows after the key
//! ```

use std::io;

use bytes::Bytes;
use ledger::signatures::SIGNATURE_BYTES;
use ledger::votes::{Said, Vote};
use ledger::{Certificate, Hash};
use types::Height;
use types::codec::{decode_bytes, decode_str, decode_u64, encode_bytes, encode_str, encode_u64};

use crate::ballot::Stage;
use crate::block::Net;
use crate::stretches::Range;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    Vote { stage: Stage, height: Height, own: Option<Vote> },
    Order { height: Height },
    Submit { envelope: Bytes },
    Gather { envelope: Bytes },
    Agree { envelope: Bytes },
    Nudge,
    Status,
    Block { height: Height },
    Effects { height: Height },
    Checkpoint { height: Height },
    Stretches { height: Height, table: u32 },
    Images { height: Height, table: u32, range: Range },
    Rows { height: Height, table: u32, behind: String },
}

/// Rows in an answer.
pub const ROWS_MAX: usize = 20_000;

impl Request {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Request::Vote { stage, height, own } => {
                out.push(b'v');
                out.push(stage.encode());
                encode_u64(*height, &mut out);
                put_votes(own.as_slice(), &mut out);
            }
            Request::Order { height } => {
                out.push(b'o');
                encode_u64(*height, &mut out);
            }
            Request::Submit { envelope }
            | Request::Gather { envelope }
            | Request::Agree { envelope } => {
                out.push(match self {
                    Request::Submit { .. } => b's',
                    Request::Gather { .. } => b'g',
                    _ => b'a',
                });
                out.extend_from_slice(envelope);
            }
            Request::Nudge => out.push(b'n'),
            Request::Status => out.push(b't'),
            Request::Block { height } => {
                out.push(b'b');
                encode_u64(*height, &mut out);
            }
            Request::Effects { height } => {
                out.push(b'e');
                encode_u64(*height, &mut out);
            }
            Request::Checkpoint { height } => {
                out.push(b'c');
                encode_u64(*height, &mut out);
            }
            Request::Stretches { height, table } => {
                out.push(b'h');
                encode_u64(*height, &mut out);
                encode_u64(u64::from(*table), &mut out);
            }
            Request::Images { height, table, range } => {
                out.push(b'i');
                encode_u64(*height, &mut out);
                encode_u64(u64::from(*table), &mut out);
                for key in [&range.behind, &range.upto] {
                    // No key's text is empty.
                    encode_str(key.as_deref().unwrap_or_default(), &mut out);
                }
            }
            Request::Rows { height, table, behind } => {
                out.push(b'r');
                encode_u64(*height, &mut out);
                encode_u64(u64::from(*table), &mut out);
                encode_str(behind, &mut out);
            }
        }
        out.into()
    }

    pub fn decode(bytes: &Bytes) -> io::Result<Request> {
        let mut rest = &bytes[..];
        let kind = byte(&mut rest)?;
        let request = match kind {
            b'v' => {
                let stage = Stage::decode(byte(&mut rest)?).ok_or_else(bad)?;
                let height = number(&mut rest)?;
                let own = read_votes(&mut rest)?.pop();
                Request::Vote { stage, height, own }
            }
            b's' => return Ok(Request::Submit { envelope: bytes.slice(1..) }),
            b'g' => return Ok(Request::Gather { envelope: bytes.slice(1..) }),
            b'a' => return Ok(Request::Agree { envelope: bytes.slice(1..) }),
            b'n' => Request::Nudge,
            b't' => Request::Status,
            b'o' => Request::Order { height: number(&mut rest)? },
            b'b' => Request::Block { height: number(&mut rest)? },
            b'e' => Request::Effects { height: number(&mut rest)? },
            b'c' => Request::Checkpoint { height: number(&mut rest)? },
            b'h' => Request::Stretches { height: number(&mut rest)?, table: table(&mut rest)? },
            b'i' => Request::Images {
                height: number(&mut rest)?,
                table: table(&mut rest)?,
                range: Range { behind: some_text(&mut rest)?, upto: some_text(&mut rest)? },
            },
            b'r' => Request::Rows {
                height: number(&mut rest)?,
                table: table(&mut rest)?,
                behind: text(&mut rest)?,
            },
            _ => return Err(bad()),
        };
        finish(rest, request)
    }
}

/// What is known of a ballot somewhere else.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Votes {
    pub votes: Vec<Vote>,
    pub certificate: Option<Certificate>,
}

impl Votes {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        put_votes(&self.votes, &mut out);
        let certificate = self.certificate.as_ref().map(Certificate::encode);
        encode_bytes(&certificate.unwrap_or_default(), &mut out);
        out.into()
    }

    pub fn decode(bytes: &[u8]) -> io::Result<Votes> {
        let mut rest = bytes;
        let votes = read_votes(&mut rest)?;
        let certificate = decode_bytes(&mut rest).map_err(io::Error::other)?;
        let certificate = match certificate.is_empty() {
            true => None,
            false => Some(Certificate::decode(certificate).map_err(io::Error::other)?),
        };
        finish(rest, Votes { votes, certificate })
    }
}

fn put_votes(votes: &[Vote], out: &mut Vec<u8>) {
    encode_u64(votes.len() as u64, out);
    for Vote { member, said, signature } in votes {
        encode_u64(*member, out);
        encode_u64(said.height, out);
        out.extend_from_slice(&said.result_hash);
        out.extend_from_slice(&said.electors);
        out.extend_from_slice(signature);
    }
}

fn read_votes(rest: &mut &[u8]) -> io::Result<Vec<Vote>> {
    let mut votes = Vec::new();
    for _ in 0..number(rest)? {
        let (member, height) = (number(rest)?, number(rest)?);
        let said = Said { height, result_hash: array(rest)?, electors: array(rest)? };
        votes.push(Vote { member, said, signature: array::<SIGNATURE_BYTES>(rest)? });
    }
    Ok(votes)
}

/// Net changes of a block.
pub fn effects(net: &[Net]) -> Bytes {
    let mut out = Vec::new();
    encode_u64(net.len() as u64, &mut out);
    for Net { table, key, before, after, .. } in net {
        encode_u64(u64::from(*table), &mut out);
        encode_str(key, &mut out);
        for image in [before, after] {
            out.extend_from_slice(&image.unwrap_or_default());
        }
    }
    out.into()
}

pub fn read_effects(bytes: &[u8]) -> io::Result<Vec<Net>> {
    let mut rest = bytes;
    let mut all = Vec::new();
    for _ in 0..number(&mut rest)? {
        let (table, key) = (table(&mut rest)?, text(&mut rest)?);
        let mut image =
            || array::<32>(&mut rest).map(|hash| Some(hash).filter(|it| *it != [0; 32]));
        let (before, after) = (image()?, image()?);
        all.push(Net { table, key, before, after, outsider: None });
    }
    finish(rest, all)
}

pub fn images(rows: &[(String, Hash)]) -> Bytes {
    let mut out = Vec::new();
    for (key, image) in rows {
        encode_str(key, &mut out);
        out.extend_from_slice(image);
    }
    out.into()
}

pub fn read_images(bytes: &[u8]) -> io::Result<Vec<(String, Hash)>> {
    let mut rest = bytes;
    let mut rows = Vec::new();
    while !rest.is_empty() {
        rows.push((text(&mut rest)?, array(&mut rest)?));
    }
    Ok(rows)
}

/// Pieces of bytes, each with its length.
pub fn pieces<'a>(all: impl IntoIterator<Item = &'a [u8]>) -> Bytes {
    let mut out = Vec::new();
    all.into_iter().for_each(|piece| encode_bytes(piece, &mut out));
    out.into()
}

pub fn read_pieces(bytes: &Bytes) -> io::Result<Vec<Bytes>> {
    let mut rest = &bytes[..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        all.push(bytes.slice_ref(decode_bytes(&mut rest).map_err(io::Error::other)?));
    }
    Ok(all)
}

fn number(rest: &mut &[u8]) -> io::Result<u64> {
    decode_u64(rest).map_err(io::Error::other)
}

fn table(rest: &mut &[u8]) -> io::Result<u32> {
    u32::try_from(number(rest)?).map_err(io::Error::other)
}

fn text(rest: &mut &[u8]) -> io::Result<String> {
    decode_str(rest).map(str::to_owned).map_err(io::Error::other)
}

fn some_text(rest: &mut &[u8]) -> io::Result<Option<String>> {
    text(rest).map(|text| Some(text).filter(|text| !text.is_empty()))
}

fn byte(rest: &mut &[u8]) -> io::Result<u8> {
    array::<1>(rest).map(|[byte]| byte)
}

fn array<const N: usize>(rest: &mut &[u8]) -> io::Result<[u8; N]> {
    let (first, behind) = rest.split_first_chunk::<N>().ok_or_else(bad)?;
    *rest = behind;
    Ok(*first)
}

fn finish<T>(rest: &[u8], value: T) -> io::Result<T> {
    if rest.is_empty() { Ok(value) } else { Err(bad()) }
}

fn bad() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message between organisations cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let said = Said { height: 9, result_hash: [1; 32], electors: [2; 32] };
        let vote = Vote { member: 3, said, signature: [4; 64] };
        let some = Range { behind: Some("1:7".to_owned()), upto: Some("1:9".to_owned()) };
        for request in [
            Request::Vote { stage: Stage::Order, height: 9, own: Some(vote) },
            Request::Vote { stage: Stage::Result, height: 300, own: None },
            Request::Vote { stage: Stage::Again(2), height: 300, own: None },
            Request::Order { height: 1 },
            Request::Submit { envelope: Bytes::from_static(b"abc") },
            Request::Gather { envelope: Bytes::from_static(b"abc") },
            Request::Agree { envelope: Bytes::from_static(b"abc") },
            Request::Nudge,
            Request::Status,
            Request::Block { height: 2 },
            Request::Effects { height: 3 },
            Request::Checkpoint { height: 4 },
            Request::Stretches { height: 5, table: 1 },
            Request::Images { height: 5, table: 1, range: Range::default() },
            Request::Images { height: 5, table: 1, range: some },
            Request::Rows { height: 6, table: 2, behind: "1:7".to_owned() },
        ] {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes).unwrap(), request);
            let is_open = |request: &Request| {
                matches!(
                    request,
                    Request::Submit { .. } | Request::Gather { .. } | Request::Agree { .. }
                )
            };
            if !is_open(&request) {
                let longer = Bytes::from([&bytes[..], &[0]].concat());
                assert!(Request::decode(&longer).is_err(), "{request:?}");
                assert!(Request::decode(&bytes.slice(..bytes.len() - 1)).is_err(), "{request:?}");
            }
        }
        let net =
            Net { table: 1, key: "1:7".into(), before: None, after: Some([3; 32]), outsider: None };
        assert_eq!(read_effects(&effects(std::slice::from_ref(&net))).unwrap(), [net]);
        let rows = vec![("1:7".to_owned(), [5; 32]), ("N".to_owned(), [6; 32])];
        assert_eq!(read_images(&images(&rows)).unwrap(), rows);
        assert!(read_images(&images(&rows)[1..]).is_err());
        let all = pieces([&b"ab"[..], b"", b"c"]);
        assert_eq!(read_pieces(&all).unwrap(), [&b"ab"[..], b"", b"c"]);
    }
}
