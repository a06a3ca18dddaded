//! Members endorse each other's simulated transactions, over the network that they have.
//!
//! A request holds all that a gateway has to ask at a time ([`asking`](super::asking)), and an
//! answer has a part for each, in their order. What is endorsed of one request is signed by one
//! signature ([`ledger::approvals`]).
//!
//! *What takes long* holds up no answer for long: after [`SIMULATED_FOR`] no further proposal of a
//! request is begun, and the rest is answered as not looked at, which its gateway asks again. So a
//! request costs that, and one transaction as long as it may run. A member that has not come to the
//! block which an envelope has seen waits for it within the same time.
//!
//! *Bounds.* [`AT_A_TIME_MAX`] requests are simulated here for others at a time, each by one
//! thread, of which one member has [`OF_ONE_MAX`] at most; [`WAITING_MAX`] wait, [`PATIENCE`] each,
//! and are to be asked again then. A further one is refused, as is any before the node has started.
//! What a request may hold, and how all of it is written:
//! [`endorsement_messages`](super::endorsement_messages).

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Answer, Peers};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::Hash;
use parking_lot::Mutex;
use sql::session::Database;
use sql::session::gathering::ForMember;
use sql::session::shared_state::Endorsers;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use types::{Error, Height, Result, SqlState};

use super::asking::Gathering;
use super::endorsement_messages::{AT_A_TIME_MAX, PATIENCE, Said, answer_of, envelopes_of};

const WAITING_MAX: usize = 256;
const OF_ONE_MAX: usize = AT_A_TIME_MAX / 2;

/// After so long nothing of a request is begun.
const SIMULATED_FOR: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What this node does for the others, and has them do.
pub struct Endorsing {
    database: OnceLock<Arc<Database>>,
    room: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    /// Of each member.
    rooms: Mutex<HashMap<u64, Arc<Semaphore>>>,
    gathering: Arc<Gathering>,
}

impl Endorsing {
    pub fn new(id: u64, peers: &Arc<Peers>) -> Arc<Endorsing> {
        let gathering = Arc::new(Gathering::new(id, Arc::clone(peers)));
        let [room, queue] =
            [AT_A_TIME_MAX, AT_A_TIME_MAX + WAITING_MAX].map(|it| Arc::new(Semaphore::new(it)));
        let (database, rooms) = (OnceLock::new(), Mutex::default());
        Arc::new(Endorsing { database, room, queue, rooms, gathering })
    }

    pub fn begin(&self, database: &Arc<Database>) {
        self.gathering.begin(database);
        let gathering: Arc<dyn Endorsers> = self.gathering.clone();
        let _ = database.shared_state.endorsers.set(gathering);
        let _ = self.database.set(Arc::clone(database));
    }

    fn room_of(&self, member: u64) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(OF_ONE_MAX));
        Arc::clone(self.rooms.lock().entry(member).or_insert_with(new))
    }

    pub fn answer(&self, from: u64, request: Bytes) -> BoxFuture<'static, Answer> {
        let of_member = self.room_of(from);
        let (database, room) = (self.database.get().cloned(), Arc::clone(&self.room));
        let queued = Arc::clone(&self.queue).try_acquire_owned();
        async move {
            let _queued = queued.map_err(|_| io::ErrorKind::ResourceBusy)?;
            let envelopes = envelopes_of(request)?;
            let places = async { (of_member.acquire_owned().await, room.acquire_owned().await) };
            let Ok(places) = timeout(PATIENCE, places).await else {
                let later: Vec<Said> = envelopes.iter().map(|_| Said::Later).collect();
                return Ok(answer_of(&later));
            };
            let database = database.ok_or(io::ErrorKind::NotConnected)?;
            let endorse = move || {
                let _places = places;
                answer_of(&endorse_all(&database, &envelopes))
            };
            tokio::task::spawn_blocking(endorse).await.map_err(io::Error::other)
        }
        .boxed()
    }
}

/// What one signature is for, what is refused, and what there was no time for.
fn endorse_all(database: &Arc<Database>, envelopes: &[Bytes]) -> Vec<Said> {
    let until = Instant::now() + SIMULATED_FOR;
    let mut session = ForMember::new(database);
    let mut looked: Vec<Option<Result<Hash>>> = vec![None; envelopes.len()];
    for (at, seen) in by_seen(envelopes) {
        looked[at] = match seen {
            Ok(seen) => endorse((database, &mut session), (&envelopes[at], seen), until),
            Err(error) => Some(Err(error)),
        };
    }
    let ids: Vec<Hash> = looked.iter().flatten().flatten().copied().collect();
    let mut approvals = database.engine.approve_all(&ids).map(Vec::into_iter);
    let said = looked.into_iter().map(|looked| match (looked, &mut approvals) {
        (None, _) => Said::Later,
        (Some(Err(why)), _) => Said::Refused(why),
        (Some(Ok(_)), Ok(approvals)) => Said::Endorsed(approvals.next().expect("one of each")),
        (Some(Ok(_)), Err(why)) => Said::Refused(why.clone()),
    });
    said.collect()
}

/// Places of envelopes, those first whose blocks this node has come to already: one that is ahead
/// holds up none that is not.
fn by_seen(envelopes: &[Bytes]) -> Vec<(usize, Result<Height>)> {
    let seen = |bytes: &Bytes| order::View::read(bytes).map(|view| view.seen_height);
    let mut all: Vec<_> = envelopes.iter().map(seen).enumerate().collect();
    all.sort_by_key(|(_, seen)| *seen.as_ref().unwrap_or(&0));
    all
}

/// `None`: there is no time left for it.
fn endorse(
    (database, session): (&Arc<Database>, &mut ForMember),
    (envelope, seen): (&Bytes, Height),
    until: Instant,
) -> Option<Result<Hash>> {
    while database.engine.head().height < seen && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    if Instant::now() >= until {
        return None;
    }
    // What one of them makes the node stumble over is not the others' matter.
    let endorsed = catch_unwind(AssertUnwindSafe(|| session.endorse(envelope)));
    Some(endorsed.unwrap_or_else(|_| {
        *session = ForMember::new(database);
        Err(Error::new(SqlState::INTERNAL_ERROR, "the simulation ended in a panic"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_ahead_comes_after_those_that_are_not() {
        let of = |seen_height| {
            let submission = order::Submission::Key("k");
            let (principal, settings, request) = ("tally", Vec::new(), &[][..]);
            let (signatures, approvals) = (Vec::new(), Vec::new());
            let (ledger_id, expires_us, seed) = (Default::default(), 0, [0; 16]);
            let view = order::View {
                ledger_id,
                principal,
                submission,
                expires_us,
                seen_height,
                settings,
                seed,
                request,
                signatures,
                approvals,
            };
            view.encode().unwrap()
        };
        let ahead = [of(9), Bytes::from_static(b"none"), of(3), of(u64::MAX), of(3), of(4)];
        let places: Vec<usize> = by_seen(&ahead).into_iter().map(|(at, _)| at).collect();
        assert_eq!(places, [1, 2, 4, 5, 0, 3]);
    }
}
