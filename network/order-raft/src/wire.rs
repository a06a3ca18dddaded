//! Messages between nodes.
//!
//! ```text
//! request  append   0 | vote: lead, 1 if it is committed | previous | committed
//!                     | incarnations: count: u32, of each its member, number, salt: u64
//!                     | entries: count: u32, each: its place | kind: 1 | length: u32 | content
//!          vote     1 | JSON
//!          forward  2 | envelopes: a proposal without more
//!          nudge    3
//!          confirm  4
//!          pruned   5 | JSON   do you have this entry? the sender has none before it any more
//!          clock    6          what does your clock say?
//!          lead     7          stand for election: the leader stops
//!          recall   8 | JSON   what do you have? the sender, of this number, may have forgotten
//! answer   JSON; of forward: how many were taken; of confirm: a height; of clock: its time; of
//!          append and vote: Raft's, or newer incarnations than the lead counts for
//! lead     term, member: u64                     place   lead, index: u64
//! content  kind 0: none, 1: members, JSON, 2: a draft; previous, committed: 1, a place, or 0
//! ```
//!
//! What comes with each batch is binary, and what is rare is JSON.

use bytes::{Buf, BufMut, Bytes};
use openraft::raft::AppendEntriesRequest;
use openraft::{CommittedLeaderId, Entry, EntryPayload, LeaderId, LogId, Vote};
use order::Proposal;
use serde::{Deserialize, Serialize};
use types::{Error, Result, SqlState};

use crate::draft::Draft;
use crate::incarnations::{Incarnation, Incarnations};
use crate::raft_types::Types;

pub(crate) enum Request {
    /// With the incarnations that the lead counts for.
    Append(AppendEntriesRequest<Types>, Incarnations),
    Vote(openraft::raft::VoteRequest<u64>, Incarnations),
    Forward(Vec<Bytes>),
    Nudge,
    Confirm,
    Clock,
    Lead,
    /// The last entry of those that the sender has not any more.
    Pruned(LogId<u64>),
    /// The sender's number, and the incarnation that it begins.
    Recall(u64, Incarnation),
}

/// The answer to what a lead, or a campaign for one, asks.
#[derive(Serialize, Deserialize)]
pub(crate) enum Counted<T> {
    Answer(T),
    /// It counts for an incarnation that is over, as these say.
    Outdated(Incarnations),
}

const BLANK: u8 = 0;
const MEMBERS: u8 = 1;
const DRAFT: u8 = 2;

impl Request {
    pub fn encode(&self) -> Result<Bytes> {
        let mut out = Vec::new();
        match self {
            Request::Append(append, incarnations) => {
                out.push(0);
                put_append(append, incarnations, &mut out)?;
            }
            Request::Vote(vote, incarnations) => {
                out.push(1);
                out.extend_from_slice(&json(&(vote, incarnations))?);
            }
            Request::Forward(envelopes) => {
                let envelopes = envelopes.clone();
                let (time_us, proposer, seen_height) = (0, [0; 32], 0);
                out.push(2);
                let proposal = Proposal { time_us, proposer, seen_height, envelopes };
                out.reserve(proposal.encoded_bytes());
                proposal.encode_into(&mut out);
            }
            Request::Nudge => out.push(3),
            Request::Confirm => out.push(4),
            Request::Clock => out.push(6),
            Request::Lead => out.push(7),
            Request::Pruned(last) => {
                out.push(5);
                out.extend_from_slice(&json(last)?);
            }
            Request::Recall(id, incarnation) => {
                out.push(8);
                out.extend_from_slice(&json(&(id, incarnation))?);
            }
        }
        Ok(out.into())
    }

    pub fn decode(bytes: &Bytes) -> Result<Request> {
        let mut rest = bytes.clone();
        if rest.is_empty() {
            return Err(invalid("an empty message"));
        }
        match rest.get_u8() {
            0 => append(rest).map(|(append, incarnations)| Request::Append(append, incarnations)),
            1 => of_json(&rest).map(|(vote, incarnations)| Request::Vote(vote, incarnations)),
            2 => Ok(Request::Forward(Proposal::decode(&rest)?.envelopes)),
            3 if rest.is_empty() => Ok(Request::Nudge),
            4 if rest.is_empty() => Ok(Request::Confirm),
            6 if rest.is_empty() => Ok(Request::Clock),
            7 if rest.is_empty() => Ok(Request::Lead),
            5 => of_json(&rest).map(Request::Pruned),
            8 => of_json(&rest).map(|(id, incarnation)| Request::Recall(id, incarnation)),
            _ => Err(invalid("a message of an unknown kind")),
        }
    }
}

fn put_append(
    append: &AppendEntriesRequest<Types>,
    incarnations: &Incarnations,
    out: &mut Vec<u8>,
) -> Result<()> {
    let AppendEntriesRequest { vote, prev_log_id, leader_commit, entries } = append;
    put_lead(&vote.leader_id, out);
    out.put_u8(u8::from(vote.committed));
    for place in [prev_log_id, leader_commit] {
        out.put_u8(u8::from(place.is_some()));
        place.iter().for_each(|place| put_place(place, out));
    }
    out.put_u32(incarnations.0.len() as u32);
    for (member, Incarnation { number, salt }) in &incarnations.0 {
        [member, number, salt].iter().for_each(|it| out.put_u64(**it));
    }
    out.put_u32(entries.len() as u32);
    for Entry { log_id, payload } in entries {
        put_place(log_id, out);
        match payload {
            EntryPayload::Blank => put_content(BLANK, &[], out),
            EntryPayload::Membership(members) => put_content(MEMBERS, &json(members)?, out),
            EntryPayload::Normal(draft) => {
                let length = draft.encoded_bytes();
                out.reserve(1 + 4 + length);
                out.put_u8(DRAFT);
                out.put_u32(length as u32);
                draft.encode_into(out);
            }
        }
    }
    Ok(())
}

fn put_content(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.put_u8(kind);
    out.put_u32(content.len() as u32);
    out.extend_from_slice(content);
}

fn put_lead(lead: &LeaderId<u64>, out: &mut Vec<u8>) {
    out.put_u64(lead.term);
    out.put_u64(lead.node_id);
}

fn put_place(place: &LogId<u64>, out: &mut Vec<u8>) {
    put_lead(&place.leader_id, out);
    out.put_u64(place.index);
}

fn append(mut rest: Bytes) -> Result<(AppendEntriesRequest<Types>, Incarnations)> {
    let rest = &mut rest;
    let leader_id = lead(rest)?;
    let vote = Vote { leader_id, committed: flag(rest)? };
    let mut known = || -> Result<Option<LogId<u64>>> {
        if flag(rest)? { place(rest).map(Some) } else { Ok(None) }
    };
    let (prev_log_id, leader_commit) = (known()?, known()?);
    let incarnations = (0..count(rest)?).map(|_| {
        let (member, number, salt) = (number(rest)?, number(rest)?, number(rest)?);
        Ok((member, Incarnation { number, salt }))
    });
    let incarnations = Incarnations(incarnations.collect::<Result<_>>()?);
    let entries = (0..count(rest)?).map(|_| entry(rest)).collect::<Result<Vec<_>>>()?;
    if !rest.is_empty() {
        return Err(invalid("a message is longer than what it holds"));
    }
    Ok((AppendEntriesRequest { vote, prev_log_id, entries, leader_commit }, incarnations))
}

fn entry(rest: &mut Bytes) -> Result<Entry<Types>> {
    let (log_id, kind) = (place(rest)?, rest.try_get_u8().map_err(|_| cut())?);
    let length = count(rest)? as usize;
    if length > rest.len() {
        return Err(cut());
    }
    let content = rest.split_to(length);
    let payload = match kind {
        BLANK if content.is_empty() => EntryPayload::Blank,
        MEMBERS => EntryPayload::Membership(of_json(&content)?),
        DRAFT => EntryPayload::Normal(Draft::decode(&content)?),
        _ => return Err(invalid("an entry of an unknown kind")),
    };
    Ok(Entry { log_id, payload })
}

fn lead(rest: &mut Bytes) -> Result<LeaderId<u64>> {
    Ok(LeaderId::new(number(rest)?, number(rest)?))
}

fn place(rest: &mut Bytes) -> Result<LogId<u64>> {
    let LeaderId { term, node_id } = lead(rest)?;
    Ok(LogId::new(CommittedLeaderId::new(term, node_id), number(rest)?))
}

fn flag(rest: &mut Bytes) -> Result<bool> {
    match rest.try_get_u8() {
        Ok(flag @ 0..=1) => Ok(flag == 1),
        Ok(_) => Err(invalid("neither yes nor no")),
        Err(_) => Err(cut()),
    }
}

fn count(rest: &mut Bytes) -> Result<u32> {
    rest.try_get_u32().map_err(|_| cut())
}

fn number(rest: &mut Bytes) -> Result<u64> {
    rest.try_get_u64().map_err(|_| cut())
}

fn cut() -> Error {
    invalid("a message is cut")
}

pub(crate) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| invalid(&error.to_string()))
}

pub(crate) fn of_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| invalid(&error.to_string()))
}

fn invalid(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "a node sent what cannot be read")
        .with_detail(what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use openraft::Membership;

    use super::*;

    fn request() -> Request {
        let at = |term, index| LogId::new(CommittedLeaderId::new(term, 2), index);
        let envelopes = vec![Bytes::from_static(b"one"), Bytes::new()];
        let proposal = Proposal { time_us: -5, proposer: [7; 32], seen_height: 3, envelopes };
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Membership(Membership::new(vec![BTreeSet::from([1, 2])], None)),
            EntryPayload::Normal(Draft::new(4, [9; 32], proposal)),
            EntryPayload::Normal(Draft::void()),
        ];
        let entries =
            (8..).zip(payloads).map(|(index, payload)| Entry { log_id: at(4, index), payload });
        let append = AppendEntriesRequest {
            vote: Vote::new_committed(4, 2),
            prev_log_id: Some(at(3, 7)),
            entries: entries.collect(),
            leader_commit: None,
        };
        let incarnations = Incarnations::default().with(1, Incarnation { number: 3, salt: 9 });
        Request::Append(append, incarnations.with(2, Incarnation { number: 0, salt: u64::MAX }))
    }

    #[test]
    fn an_append_reads_back_and_cut_or_longer_it_does_not() {
        let bytes = request().encode().unwrap();
        let (Request::Append(sent, counted), Ok(Request::Append(read, incarnations))) =
            (request(), Request::decode(&bytes))
        else {
            panic!("it cannot be read");
        };
        assert_eq!(
            (incarnations, read.vote, read.prev_log_id),
            (counted, sent.vote, sent.prev_log_id)
        );
        assert_eq!((read.leader_commit, read.entries), (sent.leader_commit, sent.entries));
        for end in 0..bytes.len() {
            assert!(Request::decode(&bytes.slice(..end)).is_err(), "{end} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Request::decode(&longer.into()).is_err());
    }
}
