//! What members ask each other about simulated transactions, and what they answer.
//!
//! ```text
//!   request   'E' | length: 4, envelope | …
//!   answer    0, length: 4, key: 32, approval | …     or 1, length: 4, JSON: code, message, detail
//!             or 2, length: 4, nothing: not looked at yet, ask again
//! ```

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use order::Signature;
use serde::{Deserialize, Serialize};
use types::{Error, SqlState};

/// What a request for endorsements begins with.
pub const MARK: u8 = b'E';

/// Of one request, and of one signature.
pub const PROPOSALS_MAX: usize = 256;
const _: () = assert!(PROPOSALS_MAX <= ledger::approvals::LEAVES_MAX);

pub const AT_A_TIME_MAX: usize = 8;
const _: () = assert!(AT_A_TIME_MAX < cluster::net::CALLS_MAX);

/// For a member that is busy with others.
pub const PATIENCE: Duration = Duration::from_secs(2);
#[derive(Serialize, Deserialize)]
struct Refusal {
    code: String,
    message: String,
    detail: Option<String>,
}

impl Refusal {
    fn of(error: &Error) -> Refusal {
        Refusal {
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
            detail: error.fields().detail.clone(),
        }
    }

    fn error(self) -> Error {
        let code = self.code.as_bytes().try_into().map_or(SqlState::INTERNAL_ERROR, SqlState);
        let error = Error::new(code, self.message);
        // However long it is: a client is told it.
        match self.detail {
            Some(detail) => error.with_detail(detail).cut(),
            None => error.cut(),
        }
    }
}

/// What is said of one proposal.
#[derive(Debug)]
pub enum Said {
    Endorsed(Signature),
    Refused(Error),
    /// It was not looked at.
    Later,
}

/// What a member is asked for.
pub fn request_of<'a>(envelopes: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let mut request = vec![MARK];
    envelopes.for_each(|envelope| put_part(envelope, &mut request));
    request.into()
}

fn put_part(part: &[u8], out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(part.len()).expect("less than a message holds"));
    out.put_slice(part);
}

fn take_part(rest: &mut Bytes) -> io::Result<Bytes> {
    let length = rest.try_get_u32().map_err(io::Error::other)? as usize;
    match length <= rest.len() {
        true => Ok(rest.split_to(length)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Behind the mark.
pub fn envelopes_of(mut request: Bytes) -> io::Result<Vec<Bytes>> {
    let mut envelopes = Vec::new();
    while !request.is_empty() {
        if envelopes.len() == PROPOSALS_MAX {
            return Err(io::Error::other("too many proposals in a request"));
        }
        envelopes.push(take_part(&mut request)?);
    }
    Ok(envelopes)
}

pub fn answer_of(all: &[Said]) -> Bytes {
    let mut answer = Vec::new();
    for said in all {
        let (kind, part) = match said {
            Said::Endorsed(approval) => (0, [&approval.key_id, &approval.bytes[..]].concat()),
            Said::Refused(error) => {
                (1, serde_json::to_vec(&Refusal::of(error)).expect("texts are JSON"))
            }
            Said::Later => (2, Vec::new()),
        };
        answer.put_u8(kind);
        put_part(&part, &mut answer);
    }
    answer.into()
}

/// What a member has answered to so many proposals. An answer that is none is one to all of them.
pub fn answers_of(answer: io::Result<Bytes>, count: usize) -> Vec<Said> {
    let read = |mut answer: Bytes| {
        let answers: io::Result<Vec<_>> = (0..count).map(|_| take_answer(&mut answer)).collect();
        match answer.is_empty() {
            true => answers,
            false => Err(io::Error::other("a longer answer")),
        }
    };
    let to_all = |why: io::Error| (0..count).map(|_| Said::Refused(silent(&why))).collect();
    answer.and_then(read).unwrap_or_else(to_all)
}

fn take_answer(rest: &mut Bytes) -> io::Result<Said> {
    let kind = rest.try_get_u8().map_err(io::Error::other)?;
    let mut part = take_part(rest)?;
    match (kind, part.len()) {
        (0, 32..) => {
            let mut key_id = [0; 32];
            part.copy_to_slice(&mut key_id);
            Ok(Said::Endorsed(Signature { key_id, bytes: part }))
        }
        (1, _) => Ok(Said::Refused(serde_json::from_slice::<Refusal>(&part)?.error())),
        (2, 0) => Ok(Said::Later),
        _ => Err(io::Error::other("an answer of no form")),
    }
}

/// It does not answer, or nothing that says anything.
pub fn silent(why: &dyn std::fmt::Display) -> Error {
    Error::new(SqlState(*b"08006"), format!("it does not answer ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_they_were_written() {
        let envelopes: Vec<Bytes> = (0..3).map(|n| Bytes::from(vec![n; n.into()])).collect();
        let request = request_of(envelopes.iter());
        assert_eq!(request[0], MARK);
        assert_eq!(envelopes_of(request.slice(1..)).unwrap(), envelopes);
        let approval = Signature { key_id: [3; 32], bytes: Bytes::from_static(&[4; 64]) };
        let refused = Error::new(SqlState(*b"42T02"), "other").with_detail("there");
        let said = [Said::Endorsed(approval.clone()), Said::Refused(refused), Said::Later];
        let answer = answer_of(&said);
        let read = answers_of(Ok(answer.clone()), 3);
        assert!(matches!(&read[0], Said::Endorsed(read) if *read == approval));
        let Said::Refused(why) = &read[1] else { panic!("{read:?}") };
        assert_eq!((why.code().as_str(), why.message()), ("42T02", "other"));
        assert_eq!(why.fields().detail.as_deref(), Some("there"));
        assert!(matches!(read[2], Said::Later));
        // One that is cut, longer, or for another number of proposals, says nothing of any.
        let longer = Bytes::from([&answer[..], &[0]].concat());
        let whole = answer.clone();
        let cut = (0..whole.len()).map(|length| (whole.slice(..length), 3));
        for (answer, count) in cut.chain([(longer, 3), (answer.clone(), 2), (answer, 4)]) {
            let answers = answers_of(Ok(answer), count);
            assert_eq!(answers.len(), count);
            let is_silent =
                |it: &Said| matches!(it, Said::Refused(why) if why.code().0 == *b"08006");
            assert!(answers.iter().all(is_silent));
        }
        let many = vec![Bytes::new(); PROPOSALS_MAX + 1];
        assert!(envelopes_of(request_of(many.iter()).slice(1..)).is_err());
        assert!(envelopes_of(request_of(many[1..].iter()).slice(1..)).is_ok());
        for cut in [&[0, 0, 0][..], &[0, 0, 0, 2, 1], &[255; 4]] {
            assert!(envelopes_of(Bytes::copy_from_slice(cut)).is_err());
        }
    }
}
