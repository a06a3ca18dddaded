//! Members endorse each other's simulated transactions, over the network that they have.
//!
//! ```text
//!   request   'E' | envelope
//!   answer    0 | the envelope with an approval      1 | JSON: code, message, detail
//! ```
//!
//! A member that has not come to the block which the envelope has seen waits for it a little.
//!
//! *Bounds.* [`AT_A_TIME_MAX`] are simulated here for others at a time, [`WAITING_MAX`] wait; a
//! further one is refused, as is any before the node has started. As many are asked of one member
//! at a time, and others wait for [`PATIENCE`]: the calls that the order needs find room beside
//! them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Answer, Peers};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use order::Network;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sql::session::Database;
use sql::session::gathering::endorse_for_member;
use sql::session::shared_state::Endorsers;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use types::{Error, Result, SqlState};

/// What a request for an endorsement begins with.
pub const MARK: u8 = b'E';

const AT_A_TIME_MAX: usize = 8;
const _: () = assert!(AT_A_TIME_MAX < cluster::net::CALLS_MAX);
const WAITING_MAX: usize = 256;

/// For a block that is on its way, and for a member that is busy with others.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What this node does for the others, and has them do.
pub struct Endorsing {
    database: OnceLock<Arc<Database>>,
    room: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    gathering: Arc<Gathering>,
}

#[derive(Serialize, Deserialize)]
struct Refusal {
    code: String,
    message: String,
    detail: Option<String>,
}

impl Refusal {
    fn error(self) -> Error {
        let code = self.code.as_bytes().try_into().map_or(SqlState::INTERNAL_ERROR, SqlState);
        let error = Error::new(code, self.message);
        match self.detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
    }
}

impl Endorsing {
    pub fn new(id: u64, peers: &Arc<Peers>) -> Arc<Endorsing> {
        let (peers, asked) = (Arc::clone(peers), Mutex::default());
        let gathering = Arc::new(Gathering { id, peers, asked });
        let [room, queue] =
            [AT_A_TIME_MAX, AT_A_TIME_MAX + WAITING_MAX].map(|it| Arc::new(Semaphore::new(it)));
        Arc::new(Endorsing { database: OnceLock::new(), room, queue, gathering })
    }

    pub fn begin(&self, database: &Arc<Database>) {
        let gathering: Arc<dyn Endorsers> = self.gathering.clone();
        let _ = database.shared_state.endorsers.set(gathering);
        let _ = self.database.set(Arc::clone(database));
    }

    pub fn answer(&self, envelope: Bytes) -> BoxFuture<'static, Answer> {
        let (database, room) = (self.database.get().cloned(), Arc::clone(&self.room));
        let queued = Arc::clone(&self.queue).try_acquire_owned();
        async move {
            let _queued = queued.map_err(|_| io::ErrorKind::ResourceBusy)?;
            let place = room.acquire_owned().await.map_err(io::Error::other)?;
            let database = database.ok_or(io::ErrorKind::NotConnected)?;
            let endorse = move || {
                let _place = place;
                endorse(&database, &envelope)
            };
            let endorsed = tokio::task::spawn_blocking(endorse).await.map_err(io::Error::other)?;
            let mut answer = vec![u8::from(endorsed.is_err())];
            match endorsed {
                Ok(bytes) => answer.extend_from_slice(&bytes),
                Err(error) => {
                    let refusal = Refusal {
                        code: error.code().as_str().to_owned(),
                        message: error.message().to_owned(),
                        detail: error.fields().detail.clone(),
                    };
                    serde_json::to_writer(&mut answer, &refusal).map_err(io::Error::other)?;
                }
            }
            Ok(answer.into())
        }
        .boxed()
    }
}

fn endorse(database: &Arc<Database>, envelope: &[u8]) -> Result<Bytes> {
    let seen = order::View::read(envelope)?.seen_height;
    let until = Instant::now() + PATIENCE;
    while database.engine.head().height < seen && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    endorse_for_member(database, envelope)
}

/// Asks all other members.
struct Gathering {
    id: u64,
    peers: Arc<Peers>,
    /// Room for what is asked of each member.
    asked: Mutex<HashMap<u64, Arc<Semaphore>>>,
}

impl Gathering {
    fn room_of(&self, member: u64) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(AT_A_TIME_MAX));
        Arc::clone(self.asked.lock().entry(member).or_insert_with(new))
    }
}

impl Endorsers for Gathering {
    fn ask(&self, envelope: Bytes) -> BoxStream<'static, (String, Result<Bytes>)> {
        let members = self.peers.members().now().0;
        let (answers, mut gathered) = mpsc::channel(members.len().max(1));
        let request = Bytes::from([&[MARK], &envelope[..]].concat());
        for member in members.into_keys().filter(|member| *member != self.id) {
            let call = self.peers.call(member, request.clone());
            let (room, answers) = (self.room_of(member), answers.clone());
            tokio::spawn(async move {
                let place = tokio::select! {
                    place = timeout(PATIENCE, room.acquire()) => place,
                    // None waits for the answer any more.
                    () = answers.closed() => return,
                };
                // Comes to its end also then: the connection serves for others.
                let answer = match place {
                    Ok(Ok(_place)) => call.await,
                    _ => Err(io::Error::other("it has not answered earlier calls")),
                };
                let _ = answers.send((format!("member {member}"), answered(answer))).await;
            });
        }
        stream::poll_fn(move |context| gathered.poll_recv(context)).boxed()
    }
}

fn answered(answer: io::Result<Bytes>) -> Result<Bytes> {
    let silent = |why: &dyn std::fmt::Display| {
        Error::new(SqlState(*b"08006"), format!("it does not answer ({why})"))
    };
    let answer = answer.map_err(|error| silent(&error))?;
    match answer.split_first() {
        Some((0, envelope)) => Ok(answer.slice_ref(envelope)),
        Some((1, refusal)) => match serde_json::from_slice::<Refusal>(refusal) {
            Ok(refusal) => Err(refusal.error()),
            Err(error) => Err(silent(&error)),
        },
        _ => Err(silent(&"an empty answer")),
    }
}
