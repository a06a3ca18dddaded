//! What an organisation tells people of itself.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use types::Height;

use crate::ballot::{Stage, short};
use crate::polls::Voted;
use crate::wire;

/// How blocks were run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    pub transactions: u64,
    /// One after the other; the transactions of each beside each other.
    pub stages: u64,
}

/// How far an organisation is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Votes that a result needs.
    pub enough: u64,
    pub ordered: Height,
    pub agreed: Height,
    /// Who has to agree to what before it is ordered; empty: none has.
    pub agreement: String,
    /// Since its process began: what making and checking signatures took.
    pub signatures_us: u64,
    /// Since then: transactions that were run, in so many stages.
    pub run: Run,
    /// What it waits for, or does beside running blocks.
    pub doing: String,
    /// Of the last blocks, as it has heard them.
    pub votes: Vec<Voted>,
    /// Its own, the newest last.
    pub deviations: VecDeque<Deviation>,
    /// What deviated, whose rows, what was done about it; the newest last.
    pub events: VecDeque<String>,
}

/// A block that came to something else than was agreed on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deviation {
    pub height: Height,
    /// Its own result, and that of those who agree; empty: there is none.
    pub here: String,
    pub there: String,
    pub agree: Vec<u64>,
    /// Rows that differ and how, or what else does.
    pub rows: Vec<String>,
    /// Rows that are not named.
    pub more: u64,
    /// How it came back; empty: it has not yet.
    pub recovered: String,
}

impl Deviation {
    /// For people.
    pub fn reported(&self, member: u64) -> String {
        let Deviation { height, here, there, agree, rows, more, .. } = self;
        let rows = rows.join("; ");
        let rows = if *more == 0 { rows } else { format!("{rows} and {more} more") };
        match (here.is_empty(), there.is_empty()) {
            (_, true) => format!("organisation {member} deviates behind block {height}: {rows}"),
            (true, false) => format!(
                "organisation {member} has no result of block {height} ({agree:?} have {there}): \
                 {rows}"
            ),
            (false, false) => format!(
                "organisation {member} deviates at block {height} ({here}, {agree:?} have {there}) \
                 in {rows}"
            ),
        }
    }

    fn encode(&self) -> Bytes {
        let Deviation { height, here, there, agree, rows, more, recovered } = self;
        let agree: Vec<u8> = agree.iter().flat_map(|it| it.to_be_bytes()).collect();
        let (height, more) = (height.to_be_bytes(), more.to_be_bytes());
        let first: [&[u8]; 6] =
            [&height, here.as_bytes(), there.as_bytes(), &agree, &more, recovered.as_bytes()];
        wire::pieces(first.into_iter().chain(rows.iter().map(String::as_bytes)))
    }

    fn decode(bytes: &Bytes) -> io::Result<Deviation> {
        let pieces = wire::read_pieces(bytes)?;
        let [height, here, there, agree, more, recovered, rows @ ..] = &pieces[..] else {
            return Err(io::Error::other("a deviation has too few pieces"));
        };
        let agree = agree.chunks(8).map(number).collect::<io::Result<_>>()?;
        Ok(Deviation {
            height: number(height)?,
            here: text(here),
            there: text(there),
            agree,
            rows: rows.iter().map(text).collect(),
            more: number(more)?,
            recovered: text(recovered),
        })
    }
}

impl Status {
    pub fn encode(&self) -> Bytes {
        let Status { enough, ordered, agreed, agreement, signatures_us, run, .. } = self;
        let Status { doing, votes, deviations, events, .. } = self;
        let vote = |voted: &Voted| {
            let Voted { height, stage, member, value } = voted;
            [&height.to_be_bytes()[..], &[stage.encode()], &member.to_be_bytes(), value].concat()
        };
        let votes: Vec<Vec<u8>> = votes.iter().map(vote).collect();
        let deviations: Vec<Bytes> = deviations.iter().map(Deviation::encode).collect();
        let pieces: [&[u8]; 11] = [
            &enough.to_be_bytes(),
            &ordered.to_be_bytes(),
            &agreed.to_be_bytes(),
            &signatures_us.to_be_bytes(),
            &run.transactions.to_be_bytes(),
            &run.stages.to_be_bytes(),
            agreement.as_bytes(),
            doing.as_bytes(),
            &wire::pieces(votes.iter().map(|it| &it[..])),
            &wire::pieces(deviations.iter().map(|it| &it[..])),
            &wire::pieces(events.iter().map(String::as_bytes)),
        ];
        wire::pieces(pieces)
    }

    pub fn decode(bytes: &Bytes) -> io::Result<Status> {
        let pieces = wire::read_pieces(bytes)?;
        let [enough, ordered, agreed, signatures, transactions, stages, more @ ..] = &pieces[..]
        else {
            return Err(io::Error::other("a status has too few pieces"));
        };
        let [agreement, doing, votes, deviations, events] = more else {
            return Err(io::Error::other("a status has another number of pieces"));
        };
        let vote = |piece: &Bytes| {
            let bad = || io::Error::other("a vote of a status cannot be read");
            let (height, rest) = piece.split_first_chunk::<8>().ok_or_else(bad)?;
            let (stage, rest) = rest.split_first().ok_or_else(bad)?;
            let (member, value) = rest.split_first_chunk::<8>().ok_or_else(bad)?;
            Ok::<_, io::Error>(Voted {
                height: u64::from_be_bytes(*height),
                stage: Stage::decode(*stage).ok_or_else(bad)?,
                member: u64::from_be_bytes(*member),
                value: value.try_into().map_err(|_| bad())?,
            })
        };
        Ok(Status {
            enough: number(enough)?,
            ordered: number(ordered)?,
            agreed: number(agreed)?,
            signatures_us: number(signatures)?,
            run: Run { transactions: number(transactions)?, stages: number(stages)? },
            agreement: text(agreement),
            doing: text(doing),
            votes: wire::read_pieces(votes)?.iter().map(vote).collect::<io::Result<_>>()?,
            deviations: wire::read_pieces(deviations)?
                .iter()
                .map(Deviation::decode)
                .collect::<io::Result<_>>()?,
            events: wire::read_pieces(events)?.iter().map(text).collect(),
        })
    }
}

impl Voted {
    /// Of its value, for people.
    pub fn shown(&self) -> String {
        short(&self.value)
    }
}

fn number(bytes: impl AsRef<[u8]>) -> io::Result<u64> {
    bytes.as_ref().try_into().map(u64::from_be_bytes).map_err(io::Error::other)
}

fn text(piece: &Bytes) -> String {
    String::from_utf8_lossy(piece).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let voted = Voted { height: 3, stage: Stage::Again(1), member: 2, value: [7; 32] };
        let deviation = Deviation {
            height: 3,
            here: "a".to_owned(),
            there: "b".to_owned(),
            agree: vec![1, 3],
            rows: vec!["accounts (id = 7) is missing here".to_owned()],
            more: 4,
            recovered: String::new(),
        };
        let status = Status {
            enough: 2,
            ordered: 3,
            agreed: 2,
            agreement: "stock=all".to_owned(),
            signatures_us: 9,
            run: Run { transactions: 8, stages: 5 },
            doing: "waiting".to_owned(),
            votes: vec![voted.clone(), voted],
            deviations: [deviation.clone(), Deviation::default()].into(),
            events: ["a".to_owned(), String::new()].into(),
        };
        let bytes = status.encode();
        assert_eq!(Status::decode(&bytes).unwrap(), status);
        assert!(Status::decode(&Bytes::from_static(b"\x01a")).is_err());
        let reported = deviation.reported(2);
        assert!(
            reported.ends_with("in accounts (id = 7) is missing here and 4 more"),
            "{reported}"
        );
    }
}
