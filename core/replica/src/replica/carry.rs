//! What a block hands on to the next ones beside rows, schema and parameters.
//!
//! ```text
//! carried     submissions: bytes      what keys came to, as far as it counts (`order`)
//!             unsettled: varint × (height: varint, varint × settlement)
//!             deferred: varint × (joins: varint, varint × transaction)
//!             protocol: bytes         its own carried value
//!             skips: varint × (first: varint, last: varint, owner: text, reason: text)
//! settlement  envelope: bytes, height: varint, index: varint, ended: 0 (committed) | 1 (retry)
//!             | 2 sqlstate: 5 (rejected)
//! transaction envelope: bytes, height: varint, index: varint, attempts: varint
//! ```
//!
//! A checkpoint holds these bytes. The *carried root* in a result header covers what decides how
//! the next blocks run: the deferred transactions (id, origin, attempts, and the block that they
//! join) and the protocol's value. It is zeros where there is neither. Where blocks overlap, the
//! next one may be planned already when a block is finished: the root covers what joins blocks
//! that cannot be, and the roots before it the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use concurrency::{Carried, Protocol, Work};
use kit::mutant::mutated;
use ledger::hash::{Tag, tagged_hash};
use ledger::{Hash, LedgerId, ZERO_HASH};
use order::{Ended, EnvelopeBytes, Submissions};
use pipeline::{Deferred, Line};
use types::codec::{decode_bytes, decode_u64, encode_bytes, encode_u64};
use types::{Error, Height, Origin, Result, SqlState};

use crate::limits::Limits;
use crate::request::{Member, Request, Verdict};
use crate::skip::Skipped;

use super::admission::{AdmissionControl, remembered};
use super::keys::{KeyDecision, Undecided};

const TAG_CARRIED: &Tag = b"tally carried 1\0";

pub(super) struct State<T> {
    pub submissions: Submissions,
    pub undecided: Undecided,
    pub deferred: BTreeMap<Height, Vec<Deferred<Member<T>>>>,
    pub carried: Carried,
    pub skips: Vec<Skipped>,
}

impl<T> State<T> {
    /// No bytes: after genesis.
    pub fn decode(
        bytes: &Bytes,
        ledger_id: LedgerId,
        protocol: &dyn Protocol,
        limits: &Limits,
    ) -> Result<State<T>> {
        let remembered = remembered(limits);
        if bytes.is_empty() {
            let submissions = Submissions::new(ledger_id, remembered);
            let (undecided, deferred, carried, skips) = Default::default();
            return Ok(State { submissions, undecided, deferred, carried, skips });
        }
        let mut input = &bytes[..];
        let mut submissions =
            Submissions::decode(decode_bytes(&mut input)?, ledger_id, remembered)?;
        let mut undecided = VecDeque::new();
        for _ in 0..count(&mut input)? {
            let height = decode_u64(&mut input)?;
            let key_decisions = (0..count(&mut input)?).map(|_| key_decision(bytes, &mut input));
            undecided.push_back((height, key_decisions.collect::<Result<_>>()?));
        }
        let mut deferred = BTreeMap::new();
        for _ in 0..count(&mut input)? {
            let joins = decode_u64(&mut input)?;
            let members = (0..count(&mut input)?).map(|_| transaction(bytes, &mut input));
            deferred.insert(joins, members.collect::<Result<_>>()?);
        }
        let carried =
            protocol.decode_carried(decode_bytes(&mut input)?).map_err(|why| corrupt(&why))?;
        let skips = (0..count(&mut input)?).map(|_| Skipped::decode(&mut input));
        let skips = skips.collect::<Result<_>>()?;
        if mutated("submissions_forgotten") {
            (submissions, undecided) = (Submissions::new(ledger_id, remembered), VecDeque::new());
        }
        if mutated("deferred_forgotten") {
            deferred.clear();
        }
        match input.is_empty() {
            true => Ok(State { submissions, undecided, deferred, carried, skips }),
            false => Err(corrupt("bytes behind the end")),
        }
    }
}

/// What [`State::decode`] reads.
pub(super) fn encode<T>(
    admission: &AdmissionControl,
    line: &Line<Member<T>>,
    skips: &[Skipped],
) -> Bytes {
    let mut out = Vec::new();
    encode_bytes(&admission.submissions.encode(), &mut out);
    encode_u64(admission.undecided.len() as u64, &mut out);
    for (height, key_decisions) in &admission.undecided {
        encode_u64(*height, &mut out);
        encode_u64(key_decisions.len() as u64, &mut out);
        for KeyDecision { envelope, place, ended } in key_decisions {
            put_placed(envelope, *place, &mut out);
            match ended {
                Ended::Committed => out.push(0),
                Ended::Retry => out.push(1),
                Ended::Rejected(code) => {
                    out.push(2);
                    out.extend_from_slice(code);
                }
            }
        }
    }
    let deferred = line.deferred();
    encode_u64(deferred.len() as u64, &mut out);
    for (joins, members) in deferred {
        encode_u64(*joins, &mut out);
        encode_u64(members.len() as u64, &mut out);
        for Deferred { task, origin, attempts } in members {
            put_placed(&task.request.envelope, *origin, &mut out);
            encode_u64(u64::from(*attempts), &mut out);
        }
    }
    encode_bytes(&line.carried().encode(), &mut out);
    encode_u64(skips.len() as u64, &mut out);
    skips.iter().for_each(|skip| skip.encode(&mut out));
    out.into()
}

/// The carried root of the block at a height; `is_barrier`: none was planned before its end.
pub(super) fn root<T>(line: &Line<Member<T>>, is_barrier: bool, height: Height) -> Hash {
    let first = match is_barrier {
        true => height + 1,
        false => height + line.rules().carry_lag(),
    };
    let carried = line.carried();
    let mut deferred = line.deferred().range(first..).peekable();
    if deferred.peek().is_none() && carried.is_empty() {
        return ZERO_HASH;
    }
    let mut out = Vec::new();
    for (joins, members) in deferred {
        for Deferred { task, origin, attempts } in members {
            // An envelope that was admitted has an id.
            let id = task.request.envelope.id().unwrap_or(ZERO_HASH);
            out.extend_from_slice(&id);
            for number in [*joins, origin.height, u64::from(origin.index)] {
                out.extend_from_slice(&number.to_be_bytes());
            }
            out.extend_from_slice(&attempts.to_be_bytes());
        }
    }
    out.extend_from_slice(&carried.encode());
    tagged_hash(TAG_CARRIED, &out)
}

fn put_placed(envelope: &[u8], origin: Origin, out: &mut Vec<u8>) {
    encode_bytes(envelope, out);
    encode_u64(origin.height, out);
    encode_u64(u64::from(origin.index), out);
}

/// Every item takes a byte at least.
fn count(input: &mut &[u8]) -> Result<usize> {
    let count = decode_u64(input)?;
    match count <= input.len() as u64 {
        true => Ok(count as usize),
        false => Err(corrupt("a list longer than its bytes")),
    }
}

fn placed(bytes: &Bytes, input: &mut &[u8]) -> Result<(Bytes, Origin)> {
    let envelope = bytes.slice_ref(decode_bytes(input)?);
    let height = decode_u64(input)?;
    let index = u32::try_from(decode_u64(input)?).map_err(|_| corrupt("an index"))?;
    Ok((envelope, Origin { height, index }))
}

fn key_decision(bytes: &Bytes, input: &mut &[u8]) -> Result<KeyDecision> {
    let (envelope, place) = placed(bytes, input)?;
    let unknown = || corrupt("an end of unknown kind");
    let (kind, mut rest) = input.split_first().ok_or_else(unknown)?;
    let ended = match kind {
        0 => Ended::Committed,
        1 => Ended::Retry,
        2 => {
            let (code, behind) = rest.split_first_chunk().ok_or_else(unknown)?;
            rest = behind;
            Ended::Rejected(*code)
        }
        _ => return Err(unknown()),
    };
    *input = rest;
    Ok(KeyDecision { envelope: EnvelopeBytes::read(envelope), place, ended })
}

fn transaction<T>(bytes: &Bytes, input: &mut &[u8]) -> Result<Deferred<Member<T>>> {
    let (envelope, origin) = placed(bytes, input)?;
    let attempts = u32::try_from(decode_u64(input)?).map_err(|_| corrupt("a count"))?;
    let request = Request::of_bytes(envelope);
    let verdict = Verdict::to_run(&request.envelope.view()?.submission);
    let work = Arc::new(Work::Void(corrupt("it was not compiled")));
    let task = Member { request, verdict, work };
    Ok(Deferred { task, origin, attempts })
}

fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("what a block hands on is unreadable: {what}"))
}
