//! Messages between nodes.
//!
//! ```text
//! request  append   0 | length of the head: u32 | head: JSON | drafts, as long as the head says
//!          vote     1 | JSON
//!          forward  2 | envelopes: a proposal without more
//!          nudge    3
//!          confirm  4
//!          pruned   5 | JSON   do you have this entry? the sender has none before it any more
//!          clock    6          what does your clock say?
//!          lead     7          stand for election: the leader stops
//!          recall   8 | JSON   what do you have? the sender, of this number, may have forgotten
//! answer   JSON; of forward: how many were taken; of confirm: a height; of clock: its time; of
//!          append and vote: Raft's, or newer lives than the lead counts for
//! ```

use bytes::{Buf, BufMut, Bytes};
use openraft::raft::AppendEntriesRequest;
use openraft::{Entry, EntryPayload, LogId, Membership, Vote};
use order::Proposal;
use serde::{Deserialize, Serialize};
use types::{Error, Result, SqlState};

use crate::draft::Draft;
use crate::lives::{Life, Lives};
use crate::raft_types::Types;

pub(crate) enum Request {
    /// With the lives that the lead counts for.
    Append(AppendEntriesRequest<Types>, Lives),
    Vote(openraft::raft::VoteRequest<u64>, Lives),
    Forward(Vec<Bytes>),
    Nudge,
    Confirm,
    Clock,
    Lead,
    /// The last entry of those that the sender has not any more.
    Pruned(LogId<u64>),
    /// The sender's number, and the life that it begins.
    Recall(u64, Life),
}

/// The answer to what a lead, or a campaign for one, asks.
#[derive(Serialize, Deserialize)]
pub(crate) enum Counted<T> {
    Answer(T),
    /// It counts for a life that is over, as these say.
    Outdated(Lives),
}

#[derive(Serialize, Deserialize)]
struct Head {
    vote: Vote<u64>,
    prev_log_id: Option<LogId<u64>>,
    leader_commit: Option<LogId<u64>>,
    entries: Vec<(LogId<u64>, What)>,
    lives: Lives,
}

#[derive(Serialize, Deserialize)]
enum What {
    Blank,
    Members(Membership<u64, openraft::EmptyNode>),
    /// Its bytes.
    Draft(usize),
}

impl Request {
    pub fn encode(&self) -> Result<Bytes> {
        let mut out = Vec::new();
        match self {
            Request::Append(append, lives) => {
                out.push(0);
                put_append(append, lives, &mut out)?;
            }
            Request::Vote(vote, lives) => {
                out.push(1);
                out.extend_from_slice(&json(&(vote, lives))?);
            }
            Request::Forward(envelopes) => {
                let envelopes = envelopes.clone();
                let (time_us, proposer, seen_height) = (0, [0; 32], 0);
                out.push(2);
                let proposal = Proposal { time_us, proposer, seen_height, envelopes };
                out.extend_from_slice(&proposal.encode());
            }
            Request::Nudge => out.push(3),
            Request::Confirm => out.push(4),
            Request::Clock => out.push(6),
            Request::Lead => out.push(7),
            Request::Pruned(last) => {
                out.push(5);
                out.extend_from_slice(&json(last)?);
            }
            Request::Recall(id, life) => {
                out.push(8);
                out.extend_from_slice(&json(&(id, life))?);
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
            0 => append(rest).map(|(append, lives)| Request::Append(append, lives)),
            1 => of_json(&rest).map(|(vote, lives)| Request::Vote(vote, lives)),
            2 => Ok(Request::Forward(Proposal::decode(&rest)?.envelopes)),
            3 if rest.is_empty() => Ok(Request::Nudge),
            4 if rest.is_empty() => Ok(Request::Confirm),
            6 if rest.is_empty() => Ok(Request::Clock),
            7 if rest.is_empty() => Ok(Request::Lead),
            5 => of_json(&rest).map(Request::Pruned),
            8 => of_json(&rest).map(|(id, life)| Request::Recall(id, life)),
            _ => Err(invalid("a message of an unknown kind")),
        }
    }
}

fn put_append(
    append: &AppendEntriesRequest<Types>,
    lives: &Lives,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut drafts = Vec::new();
    let mut what = |payload: &EntryPayload<Types>| match payload {
        EntryPayload::Blank => What::Blank,
        EntryPayload::Membership(members) => What::Members(members.clone()),
        EntryPayload::Normal(draft) => {
            let bytes = draft.encode();
            let length = bytes.len();
            drafts.push(bytes);
            What::Draft(length)
        }
    };
    let entries = append.entries.iter().map(|entry| (entry.log_id, what(&entry.payload))).collect();
    let AppendEntriesRequest { vote, prev_log_id, leader_commit, .. } = *append;
    let lives = lives.clone();
    let head = json(&Head { vote, prev_log_id, leader_commit, entries, lives })?;
    out.put_u32(head.len() as u32);
    out.extend_from_slice(&head);
    drafts.iter().for_each(|draft| out.extend_from_slice(draft));
    Ok(())
}

fn append(mut rest: Bytes) -> Result<(AppendEntriesRequest<Types>, Lives)> {
    let cut = || invalid("a message is cut");
    let length = rest.try_get_u32().map_err(|_| cut())? as usize;
    if length > rest.len() {
        return Err(cut());
    }
    let Head { vote, prev_log_id, leader_commit, entries, lives } =
        of_json(&rest.split_to(length))?;
    let entries = entries.into_iter().map(|(log_id, what)| {
        let payload = match what {
            What::Blank => EntryPayload::Blank,
            What::Members(members) => EntryPayload::Membership(members),
            What::Draft(length) if length <= rest.len() => {
                EntryPayload::Normal(Draft::decode(&rest.split_to(length))?)
            }
            What::Draft(_) => return Err(cut()),
        };
        Ok(Entry { log_id, payload })
    });
    let entries = entries.collect::<Result<Vec<_>>>()?;
    if !rest.is_empty() {
        return Err(invalid("a message is longer than what it holds"));
    }
    Ok((AppendEntriesRequest { vote, prev_log_id, entries, leader_commit }, lives))
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
