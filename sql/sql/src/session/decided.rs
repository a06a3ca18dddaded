//! How a client learns the fate of a transaction that was submitted to the ledger.
//!
//! ```text
//! waits for its block   cancel, statement_timeout   withdrawn: in no block       57014
//!                       tally.commit_timeout        withdrawn: in no block       55000
//!                                                   may have been ordered        08007
//!                       of an endorser's that another has handed in
//!                                                   one of its attempts is in    08007
//! is in a block         the block's outcome, even if the client cancels or times out
//! ```
//!
//! With `tally.acknowledge` = `certified`, a committed transaction is answered once its block's
//! result is certified; if that takes too long, the answer is 08007 and names the block.
//!
//! No clock decides the outcome of a block. But in a cluster too few nodes may be reachable for
//! long. Then a transaction that was sent to another node can be neither withdrawn nor decided, and
//! its client is told so. If the transaction has a key, the client can ask for its outcome later.

use std::sync::Arc;
use std::time::Duration;

use engine::{Completion, Engine, Submitted, Withdrawal};
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::watch;
use types::{Error, Height, Result, SqlState};

use super::guard::Guard;

/// How often it is asked, after `tally.commit_timeout`, whether the ledger can decide.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Ended {
    pub answer: Result<Completion>,
    /// It is in no block, and will be in none.
    pub withdrawn: bool,
}

impl Ended {
    fn answered(answer: Result<Result<Completion>, RecvError>, key: Option<&str>) -> Ended {
        let stopped = |_| Err(unknown("The node stopped before it was acknowledged".into(), key));
        Ended { answer: answer.unwrap_or_else(stopped), withdrawn: false }
    }

    fn unknown(what: String, key: Option<&str>) -> Ended {
        Ended { answer: Err(unknown(what, key)), withdrawn: false }
    }
}

/// Waits until it is known, or the client gives up, or `limit` has passed and the ledger is
/// hindered. `key`: what the client has named it by.
pub(super) async fn ended(
    engine: &Arc<Engine>,
    guard: &Arc<Guard>,
    limit: Option<Duration>,
    mut submitted: Submitted,
    key: Option<&str>,
) -> Ended {
    let why = tokio::select! {
        biased;
        answer = &mut submitted.answer => return Ended::answered(answer, key),
        why = guard.given_up() => why,
        limit = undecided(engine, limit, engine.is_in_cluster()) => late(limit, engine),
    };
    match engine.withdraw(&submitted) {
        Withdrawal::Done => Ended { answer: Err(why), withdrawn: true },
        Withdrawal::Unknown => Ended::unknown(reason(&why, engine), key),
        Withdrawal::Ordered => tokio::select! {
            biased;
            answer = &mut submitted.answer => Ended::answered(answer, key),
            limit = undecided(engine, limit, false) => {
                Ended::unknown(reason(&late(limit, engine), engine), key)
            }
        },
    }
}

/// Completes when the limit has passed and the ledger is hindered, or may be.
async fn undecided(engine: &Engine, limit: Option<Duration>, may_be: bool) -> Duration {
    let Some(limit) = limit else { return std::future::pending().await };
    tokio::time::sleep(limit).await;
    while !may_be && engine.hindrance().is_none() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    limit
}

fn late(limit: Duration, engine: &Engine) -> Error {
    let ms = limit.as_millis();
    let what = format!("the transaction was not ordered within {ms} ms");
    let why = engine.hindrance().unwrap_or_default();
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        .with_detail(format!("It is in no block. {why}").trim_end().to_owned())
        .with_hint("Send it again, here or to another node. tally.commit_timeout bounds the wait.")
}

fn reason(why: &Error, engine: &Engine) -> String {
    match engine.hindrance() {
        Some(hindrance) => format!("{}: {hindrance}", why.message()),
        None => why.message().to_owned(),
    }
}

/// Waits until the result of a block is certified, or the client gives up, or `limit` has passed.
pub(super) async fn certified(
    guard: &Arc<Guard>,
    limit: Option<Duration>,
    mut certified: watch::Receiver<Height>,
    height: Height,
    key: Option<&str>,
) -> Result<()> {
    let late = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let why = tokio::select! {
        biased;
        is_there = certified.wait_for(|newest| *newest >= height) => match is_there {
            Ok(_) => return Ok(()),
            Err(_) => "The node stopped".to_owned(),
        },
        why = guard.given_up() => why.message().to_owned(),
        () = late => {
            let ms = limit.unwrap_or_default().as_millis();
            format!("Too few members have signed it within {ms} ms")
        }
    };
    let what = format!("the transaction is in block {height}, whose result is not certified");
    Err(named_by(what, why, key))
}

/// What is refused before it is ordered, as it could not be acknowledged.
pub(super) fn without_votes() -> Error {
    let what = "tally.acknowledge is certified, and a lone node's results are certified by none";
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        .with_detail("The transaction is in no block.")
        .with_hint("SET tally.acknowledge = quorum, or RESET tally.acknowledge.")
}

/// Its number or its key is used by now: others had an attempt of it, and one of them has handed
/// that in. To send it again would have it twice.
pub(super) fn of_another_attempt(key: Option<&str>) -> Error {
    unknown("Another member has handed in an attempt of it".into(), key)
}

fn unknown(why: String, key: Option<&str>) -> Error {
    named_by("whether the transaction is in the ledger is not known".to_owned(), why, key)
}

fn named_by(what: String, why: String, key: Option<&str>) -> Error {
    let (detail, hint) = match key {
        Some(key) => {
            let literal = key.replace('\'', "''");
            let ask = format!("SELECT * FROM tally_outcome('{literal}') tells, on any node.");
            (format!("Its key is {key:?}. {why}."), ask)
        }
        None => {
            let hint = "Look for its effects before it is sent again. Where \
                        tally.transaction_key names one, SELECT * FROM tally_outcome('key') tells.";
            (format!("It has no key. {why}."), hint.to_owned())
        }
    };
    Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, what).with_detail(detail).with_hint(hint)
}
