//! Messages about votes.
//!
//! ```text
//! votes         "v" | certified: u64 | count: u16 | each: height u64, result hash 32,
//!                   electors hash 32, signature 64
//! answer        certified: u64
//! certificates  "c" | above: u64
//! answer        certificates, each: length u32, bytes
//! electors      "s" | known: u64
//! answer        the successions of electors after so many, each: length u32, bytes
//! ```
//!
//! `certified` is the height of the sender's last certificate, 0 if it has none. Votes are the
//! sender's own, ascending.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use types::Height;

use crate::Certificate;
use crate::signatures::SIGNATURE_BYTES;
use crate::votes::{Said, Succession, Vote};

/// What requests begin with.
pub const VOTES: u8 = b'v';
pub const CERTIFICATES: u8 = b'c';
pub const SUCCESSIONS: u8 = b's';

/// Votes in a message.
pub const VOTES_MAX: usize = 256;

/// Certificates in an answer.
pub const CERTIFICATES_MAX: u64 = 512;

/// Successions in an answer.
pub const SUCCESSIONS_MAX: usize = 16;

const VOTE_BYTES: usize = 8 + 32 + 32 + SIGNATURE_BYTES;

pub fn votes(certified: Height, votes: &[Vote]) -> Bytes {
    let mut out = BytesMut::with_capacity(11 + VOTE_BYTES * votes.len());
    out.put_u8(VOTES);
    out.put_u64(certified);
    let votes = &votes[votes.len().saturating_sub(VOTES_MAX)..];
    out.put_u16(votes.len() as u16);
    for vote in votes {
        out.put_u64(vote.said.height);
        out.put_slice(&vote.said.result_hash);
        out.put_slice(&vote.said.electors);
        out.put_slice(&vote.signature);
    }
    out.freeze()
}

/// The votes of `member`, after the first byte, and what is certified there.
pub fn read_votes(member: u64, mut rest: Bytes) -> io::Result<(Height, Vec<Vote>)> {
    let certified = rest.try_get_u64().map_err(|_| cut())?;
    let count = usize::from(rest.try_get_u16().map_err(|_| cut())?);
    if count > VOTES_MAX || rest.len() != count * VOTE_BYTES {
        return Err(cut());
    }
    let mut votes = Vec::with_capacity(count);
    while rest.has_remaining() {
        let height = rest.get_u64();
        let (mut result_hash, mut electors) = ([0; 32], [0; 32]);
        let mut signature = [0; SIGNATURE_BYTES];
        rest.copy_to_slice(&mut result_hash);
        rest.copy_to_slice(&mut electors);
        rest.copy_to_slice(&mut signature);
        votes.push(Vote { member, said: Said { height, result_hash, electors }, signature });
    }
    Ok((certified, votes))
}

pub fn certified(height: Height) -> Bytes {
    Bytes::copy_from_slice(&height.to_be_bytes())
}

pub fn read_certified(answer: &[u8]) -> io::Result<Height> {
    Ok(u64::from_be_bytes(answer.try_into().map_err(|_| cut())?))
}

pub fn wanted(above: Height) -> Bytes {
    [&[CERTIFICATES], &above.to_be_bytes()[..]].concat().into()
}

pub fn certificates(certificates: &[Certificate]) -> Bytes {
    prefixed(certificates.iter().map(Certificate::encode))
}

/// Not whether they hold.
pub fn read_certificates(answer: Bytes) -> io::Result<Vec<Certificate>> {
    read_prefixed(answer, CERTIFICATES_MAX as usize, Certificate::decode)
}

/// Asks for those that follow so many.
pub fn successions_wanted(known: u64) -> Bytes {
    [&[SUCCESSIONS], &known.to_be_bytes()[..]].concat().into()
}

pub fn successions(all: &[Succession], known: u64) -> Bytes {
    let more = all.iter().skip(usize::try_from(known).unwrap_or(usize::MAX));
    prefixed(more.take(SUCCESSIONS_MAX).map(Succession::encode))
}

/// Not whether they hold.
pub fn read_successions(answer: Bytes) -> io::Result<Vec<Succession>> {
    read_prefixed(answer, SUCCESSIONS_MAX, Succession::decode)
}

fn prefixed(all: impl Iterator<Item = Vec<u8>>) -> Bytes {
    let mut out = BytesMut::new();
    for bytes in all {
        out.put_u32(bytes.len() as u32);
        out.put_slice(&bytes);
    }
    out.freeze()
}

fn read_prefixed<T>(
    mut answer: Bytes,
    most: usize,
    decode: impl Fn(&[u8]) -> types::Result<T>,
) -> io::Result<Vec<T>> {
    let mut found = Vec::new();
    while answer.has_remaining() {
        let length = answer.try_get_u32().map_err(|_| cut())? as usize;
        if length > answer.len() || found.len() >= most {
            return Err(cut());
        }
        found.push(decode(&answer.split_to(length)).map_err(io::Error::other)?);
    }
    Ok(found)
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message about votes is none")
}

#[cfg(test)]
mod tests {
    use crate::Electors;
    use crate::signatures::SecretKey;

    use super::*;

    #[test]
    fn what_was_sent_is_read_and_garbage_is_refused() {
        let key = SecretKey::of_seed([1; 32]);
        let said = |height| Said { height, result_hash: [height as u8; 32], electors: [4; 32] };
        let sign = |height| key.vote([2; 16], 3, said(height));
        let sent: Vec<Vote> = (5..9).map(sign).collect();
        let message = votes(7, &sent);
        assert_eq!(message[0], VOTES);
        assert_eq!(read_votes(3, message.slice(1..)).unwrap(), (7, sent.clone()));
        for end in 1..message.len() {
            assert!(read_votes(3, message.slice(1..end)).is_err());
        }
        let many: Vec<Vote> = (0..300).map(sign).collect();
        let (_, read) = read_votes(3, votes(0, &many).slice(1..)).unwrap();
        assert_eq!(read, many[300 - VOTES_MAX..]);
        let votes = vec![(3, sent[0].signature)];
        let certificate = Certificate { ledger_id: [2; 16], said: sent[0].said, votes };
        let two = certificates(&[certificate.clone(), certificate.clone()]);
        assert_eq!(read_certificates(two.clone()).unwrap(), [certificate.clone(), certificate]);
        assert!(read_certificates(two.slice(..two.len() - 1)).is_err());
        assert!(read_certificates(Bytes::from_static(&[255; 9])).is_err());
        let keys = [(3, key.public())].into();
        let next = Electors { ledger_id: [2; 16], keys, votes: 1, liars: 0, above: None };
        let one = Succession::new(next, read_certificates(two).unwrap().remove(0));
        let all = vec![one; SUCCESSIONS_MAX + 3];
        let page = |known| read_successions(successions(&all, known)).unwrap();
        assert_eq!((page(0), page(5)), (all[3..].to_vec(), all[5..].to_vec()));
        assert!(page(SUCCESSIONS_MAX as u64 + 3).is_empty() && page(u64::MAX).is_empty());
        assert!(read_successions(Bytes::from_static(&[255; 9])).is_err());
        assert_eq!(read_certified(&certified(9)).unwrap(), 9);
        assert!(read_certified(&[0; 7]).is_err());
    }
}
