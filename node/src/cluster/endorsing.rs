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
//! thread, of which one member has [`OF_ONE_MAX`] at most. [`WAITING_MAX`] wait, [`PATIENCE`] each,
//! and are to be asked again then; of one member no more than it may have calls under way, so that
//! none takes the others' places. A further one is to be asked again too. Before the node has
//! started it refuses.
//! What a request may hold, and how all of it is written:
//! [`endorsement_messages`](super::endorsement_messages).

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::net::{CALLS_MAX, MEMBERS_MAX};
use cluster::{Answer, Peers};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::Hash;
use parking_lot::Mutex;
use sql::session::Database;
use sql::session::gathering::ForMember;
use sql::session::shared_state::Endorsers;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use types::{Error, Height, Result, SqlState};

use super::asking::Gathering;
use super::endorsement_messages::{AT_A_TIME_MAX, PATIENCE, Said, answer_of, envelopes_of};

const WAITING_MAX: usize = 256;
const OF_ONE_MAX: usize = AT_A_TIME_MAX / 2;

/// Requests of one member that are here at a time, whatever connections it opens.
const QUEUED_OF_ONE_MAX: usize = CALLS_MAX;
const _: () = assert!(QUEUED_OF_ONE_MAX * MEMBERS_MAX <= AT_A_TIME_MAX + WAITING_MAX);

/// After so long nothing of a request is begun.
const SIMULATED_FOR: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What this node does for the others, and has them do.
pub struct Endorsing {
    database: OnceLock<Arc<Database>>,
    rooms: Rooms,
    gathering: Arc<Gathering>,
}

/// Who may be here, and who may simulate.
struct Rooms {
    of_all: Room,
    of_each: Mutex<HashMap<u64, Room>>,
}

#[derive(Clone)]
struct Room {
    queue: Arc<Semaphore>,
    simulating: Arc<Semaphore>,
}

/// A place of its member, and one of all.
type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Room {
    fn new(queued: usize, simulating: usize) -> Room {
        let [queue, simulating] = [queued, simulating].map(|it| Arc::new(Semaphore::new(it)));
        Room { queue, simulating }
    }
}

impl Rooms {
    fn new() -> Rooms {
        let of_all = Room::new(AT_A_TIME_MAX + WAITING_MAX, AT_A_TIME_MAX);
        Rooms { of_all, of_each: Mutex::default() }
    }

    /// Places in the queue and those where it leads to, if there are any: the member's own first,
    /// so that what it has too much of takes none of the others'.
    fn enter(&self, member: u64) -> Option<(Places, [Arc<Semaphore>; 2])> {
        let of_one = || Room::new(QUEUED_OF_ONE_MAX, OF_ONE_MAX);
        let of_one = self.of_each.lock().entry(member).or_insert_with(of_one).clone();
        let own = of_one.queue.try_acquire_owned().ok()?;
        let place = Arc::clone(&self.of_all.queue).try_acquire_owned().ok()?;
        Some(((own, place), [of_one.simulating, Arc::clone(&self.of_all.simulating)]))
    }
}

impl Endorsing {
    pub fn new(id: u64, peers: &Arc<Peers>) -> Arc<Endorsing> {
        let gathering = Arc::new(Gathering::new(id, Arc::clone(peers)));
        let (database, rooms) = (OnceLock::new(), Rooms::new());
        Arc::new(Endorsing { database, rooms, gathering })
    }

    pub fn begin(&self, database: &Arc<Database>) {
        self.gathering.begin(database);
        let gathering: Arc<dyn Endorsers> = self.gathering.clone();
        let _ = database.shared_state.endorsers.set(gathering);
        let _ = self.database.set(Arc::clone(database));
    }

    pub fn answer(&self, from: u64, request: Bytes) -> BoxFuture<'static, Answer> {
        let (database, entered) = (self.database.get().cloned(), self.rooms.enter(from));
        async move {
            let envelopes = envelopes_of(request)?;
            let later = || answer_of(&envelopes.iter().map(|_| Said::Later).collect::<Vec<_>>());
            let Some((_queued, [of_one, of_all])) = entered else { return Ok(later()) };
            let places = async { (of_one.acquire_owned().await, of_all.acquire_owned().await) };
            let Ok(places) = timeout(PATIENCE, places).await else { return Ok(later()) };
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
    fn no_member_takes_the_places_of_others() {
        let rooms = Rooms::new();
        let of = |member| (0..1000).map_while(|_| rooms.enter(member)).collect::<Vec<_>>();
        let mut all: Vec<_> = (1..=MEMBERS_MAX as u64).map(of).collect();
        assert!(all.iter().all(|of_one| of_one.len() == QUEUED_OF_ONE_MAX));
        assert!(rooms.enter(2).is_none());
        all[1].pop();
        assert!(rooms.enter(2).is_some() && rooms.enter(3).is_none(), "its own is free again");
    }

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
