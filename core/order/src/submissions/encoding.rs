//! The canonical bytes of [`Submissions`], for checkpoints.
//!
//! ```text
//! [ format: 1 | ledger id: 16 | time_us: zigzag | principals: count, each ]
//! principal   name: text | submitters: count, each | keys: count, each      not both empty
//! submitter   id: 16 | expires_us: zigzag | highest: varint | bitmap: 128
//! key         key: text | id: 32 | height: varint | index: varint | status | expires_us: zigzag
//! status      0 pending, 1 retry, 2 committed, or 3 rejected | sqlstate: 5
//! ```
//!
//! Bit *n* of a bitmap, counted from the first byte's highest, says that *highest - n* is used; bit
//! 0 always is. Names, ids and keys ascend by their bytes.

use std::sync::Arc;

use bytes::BufMut;
use ledger::LedgerId;
use types::codec::{decode_i64, decode_str, decode_u64, encode_i64, encode_str, encode_u64};
use types::{Origin, Result};

use super::{Entry, Remembered, Status, Submissions, Submitter, Window};
use crate::envelope::NAME_BYTES_MAX;
use crate::wire::{corrupt, finish, take};

const FORMAT: u8 = 2;

impl Submissions {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.put_slice(&self.ledger_id);
        encode_i64(self.time_us, &mut out);
        encode_u64(self.principals.len() as u64, &mut out);
        for (name, principal) in &self.principals {
            encode_str(name, &mut out);
            encode_u64(principal.submitters.len() as u64, &mut out);
            for (id, submitter) in &principal.submitters {
                out.put_slice(id);
                encode_submitter(submitter, &mut out);
            }
            encode_u64(principal.keys.len() as u64, &mut out);
            for (key, entry) in &principal.keys {
                encode_str(key, &mut out);
                encode_entry(entry, &mut out);
            }
        }
        out
    }

    pub fn decode(bytes: &[u8], ledger_id: LedgerId, remembered: Remembered) -> Result<Self> {
        let mut rest = bytes;
        if take(&mut rest)? != [FORMAT] {
            return Err(corrupt("an unknown format of submissions"));
        }
        if take(&mut rest)? != ledger_id {
            return Err(corrupt("submissions of another ledger"));
        }
        let mut submissions = Submissions::new(ledger_id, remembered);
        submissions.time_us = decode_i64(&mut rest)?;
        let mut before: Option<&str> = None;
        for _ in 0..decode_u64(&mut rest)? {
            let name = decode_name(&mut rest)?;
            ascending(before.replace(name), name)?;
            submissions.decode_principal(name, &mut rest)?;
        }
        finish(rest)?;
        Ok(submissions)
    }

    fn decode_principal(&mut self, name: &str, rest: &mut &[u8]) -> Result<()> {
        let submitters = decode_u64(rest)?;
        let mut before = None;
        for _ in 0..submitters {
            let id: [u8; 16] = take(rest)?;
            ascending(before.replace(id), id)?;
            let submitter = decode_submitter(rest)?;
            if submitter.expires_us < self.time_us {
                return Err(corrupt("a submitter that has ended"));
            }
            self.put_submitter(name, id, submitter);
        }
        let keys = decode_u64(rest)?;
        let mut before = None;
        for _ in 0..keys {
            let key = decode_name(rest)?;
            ascending(before.replace(key), key)?;
            self.put_key(name, Arc::from(key), decode_entry(rest)?);
        }
        if (submitters, keys) == (0, 0) {
            return Err(corrupt("a principal of whom nothing is known"));
        }
        Ok(())
    }
}

fn decode_name<'a>(rest: &mut &'a [u8]) -> Result<&'a str> {
    let name = decode_str(rest)?;
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(name),
        _ => Err(corrupt("a name of a wrong length")),
    }
}

fn ascending<T: Ord>(before: Option<T>, next: T) -> Result<()> {
    match before {
        Some(before) if before >= next => Err(corrupt("names that do not ascend")),
        _ => Ok(()),
    }
}

fn encode_submitter(submitter: &Submitter, out: &mut Vec<u8>) {
    encode_i64(submitter.expires_us, out);
    encode_u64(submitter.window.highest(), out);
    out.put_slice(&submitter.window.bitmap());
}

fn decode_submitter(rest: &mut &[u8]) -> Result<Submitter> {
    let expires_us = decode_i64(rest)?;
    let highest = decode_u64(rest)?;
    let window = Window::from_bitmap(highest, &take(rest)?);
    let window = window.ok_or_else(|| corrupt("a window of sequences"))?;
    Ok(Submitter { window, expires_us })
}

fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    out.put_slice(&entry.id);
    encode_u64(entry.place.height, out);
    encode_u64(u64::from(entry.place.index), out);
    match entry.status {
        Status::Pending => out.put_u8(0),
        Status::Retry => out.put_u8(1),
        Status::Committed => out.put_u8(2),
        Status::Rejected(code) => {
            out.put_u8(3);
            out.put_slice(&code);
        }
    }
    encode_i64(entry.expires_us, out);
}

fn decode_entry(rest: &mut &[u8]) -> Result<Entry> {
    let id = take(rest)?;
    let height = decode_u64(rest)?;
    let index = u32::try_from(decode_u64(rest)?).map_err(|_| corrupt("an index"))?;
    let status = match take(rest)? {
        [0] => Status::Pending,
        [1] => Status::Retry,
        [2] => Status::Committed,
        [3] => Status::Rejected(take(rest)?),
        _ => return Err(corrupt("an unknown status")),
    };
    Ok(Entry { id, place: Origin { height, index }, status, expires_us: decode_i64(rest)? })
}
