//! One node: the application with its threads, and CometBFT as a child.
//!
//! ```text
//! sender      app.next ─► RPC ─► CometBFT          one transaction at a time
//! listener    four connections ─► a thread each ─► the application
//! keeper      starts CometBFT, and starts it again
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kit::sync::lock;
use ledger::Parameters;
use ledger::votes::electors::MEMBERS;
use order::{Delivery, Membership, Orderer, Refused, Released, Tell};
use tracing::{debug, error, warn};
use types::{Error, Height, Result};

use crate::app::{Address, Answer, App, Block, Config, Outcome, Start};
use crate::home::{address_of, node_id};
use crate::misbehaviour::{Kept, Misbehaviour};
use crate::validators::Keys;
use crate::{abci, child, rpc};

type Wake = Arc<dyn Fn() + Send + Sync>;

const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What waits for longer is said to wait in vain.
const STALLED: Duration = Duration::from_secs(5);
/// Before a transaction is sent again that CometBFT did not take.
const PAUSE: Duration = Duration::from_millis(100);

/// What a node is given.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CometBFT's folder, as [`crate::home::check`] found it.
    pub home: PathBuf,
    pub program: PathBuf,
    pub chain_id: String,
    /// Those that this node knows at its start.
    pub members: Members,
}

/// Public keys of the members, by number.
pub type Members = BTreeMap<u64, [u8; 32]>;

/// Members as CometBFT names them.
#[derive(Default)]
struct Known {
    now: Members,
    /// Of all that were members since this start: evidence comes later than what it is about.
    numbers: BTreeMap<Address, u64>,
}

impl Known {
    fn set(&mut self, now: Members) {
        self.numbers.extend(now.iter().map(|(id, key)| (address_of(key), *id)));
        self.now = now;
    }
}

/// A handle; clones are the same node.
#[derive(Clone)]
pub struct Comet(Arc<Running>);

struct Running {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    pub settings: Settings,
    app: Mutex<App>,
    /// Something was submitted, released, polled, or it is the end.
    changed: Condvar,
    ended: AtomicBool,
    /// CometBFT is to be started again.
    restarts: AtomicBool,
    began: Instant,
    wake: Mutex<Option<Wake>>,
    /// Connections that are open, to be closed at the end.
    streams: Mutex<Vec<UnixStream>>,
    complaint: Mutex<Option<String>>,
    misbehaviour: Mutex<Kept>,
    known: Mutex<Known>,
}

/// How a node stands, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// CometBFT's.
    pub height: u64,
    /// The member whose block came last.
    pub proposer: Option<u64>,
    /// What was wrong since a block came last.
    pub complaint: Option<String>,
}

impl Comet {
    /// Takes part from now on.
    pub fn start(settings: Settings, config: Config, mut start: Start) -> io::Result<Comet> {
        let socket = settings.home.join("app.sock");
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        let kept = Kept::open(&settings.home)?;
        kept.all().iter().for_each(|it| start.validators.convict(it.found, &[it.validator]));
        let misbehaviour = Mutex::new(kept);
        let mut known = Known::default();
        known.set(settings.members.clone());
        let shared = Arc::new(Shared {
            settings,
            app: Mutex::new(App::new(config, start)),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
            restarts: AtomicBool::new(false),
            began: Instant::now(),
            wake: Mutex::default(),
            streams: Mutex::default(),
            complaint: Mutex::default(),
            misbehaviour,
            known: Mutex::new(known),
        });
        let running = Running { shared: Arc::clone(&shared), threads: Mutex::default() };
        let comet = Comet(Arc::new(running));
        let of = |shared: &Arc<Shared>| Arc::clone(shared);
        let (listening, sending, keeping) = (of(&shared), of(&shared), of(&shared));
        let threads = [
            spawn("abci", move || listen(&listening, &listener))?,
            spawn("abci-send", move || send(&sending))?,
            spawn("cometbft", move || {
                let Settings { home, program, .. } = &keeping.settings;
                child::keep(&keeping, home, program);
            })?,
        ];
        lock(&comet.0.threads).extend(threads);
        Ok(comet)
    }

    pub fn standing(&self) -> Standing {
        let shared = &self.0.shared;
        let (height, proposer) = shared.app().standing();
        let proposer = proposer.map(|it| shared.who(&it)).filter(|id| *id > 0);
        Standing { height, proposer, complaint: lock(&shared.complaint).clone() }
    }

    /// Whether blocks from the next one on are signed by this key.
    pub fn validates(&self, key: &[u8; 32]) -> bool {
        self.0.shared.app().validates(key)
    }

    /// Whether CometBFT is connected to one that is no member: it asks about that when a connection
    /// is made, and not later.
    pub fn has_strangers(&self) -> bool {
        let shared = &self.0.shared;
        let peers = rpc::peers(&shared.settings.home.join("rpc.sock")).unwrap_or_default();
        peers.iter().any(|id| !shared.is_member(id))
    }

    /// Has CometBFT begin anew by what its home says now.
    pub fn restart(&self) {
        self.0.shared.restarts.store(true, Ordering::SeqCst);
    }

    /// Members are these from now on: CometBFT of others is refused.
    pub fn know(&self, members: Members) {
        lock(&self.0.shared.known).set(members);
    }

    /// What members were convicted of, in the order in which that was found.
    pub fn misbehaviour(&self) -> Vec<Misbehaviour> {
        lock(&self.0.shared.misbehaviour).all()
    }

    /// Takes no part any more: CometBFT has ended when this returns.
    pub fn stop(&self) {
        let shared = &self.0.shared;
        shared.ended.store(true, Ordering::SeqCst);
        shared.changed.notify_all();
        for stream in lock(&shared.streams).drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        // So that the listener looks.
        let _ = UnixStream::connect(shared.settings.home.join("app.sock"));
        let threads: Vec<_> = lock(&self.0.threads).drain(..).collect();
        threads.into_iter().for_each(|thread| _ = thread.join());
    }
}

impl Shared {
    pub fn app(&self) -> MutexGuard<'_, App> {
        lock(&self.app)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn wants_restart(&self) -> bool {
        self.restarts.load(Ordering::SeqCst)
    }

    /// Whether CometBFT is to be started again; once.
    pub fn takes_restart(&self) -> bool {
        self.restarts.swap(false, Ordering::SeqCst)
    }

    /// Is told to people until a block comes.
    pub fn complain(&self, what: &str) {
        *lock(&self.complaint) = Some(what.to_owned());
    }

    /// CometBFT is there, and has found out where this node stands.
    pub fn is_well(&self) {
        *lock(&self.complaint) = None;
    }

    fn hindrance(&self) -> Option<String> {
        if let Some(complaint) = &*lock(&self.complaint) {
            return Some(complaint.clone());
        }
        let stalled = Duration::from_millis(self.app().stalled_for_ms(self.now_ms()));
        (stalled >= STALLED).then(|| {
            let seconds = stalled.as_secs();
            format!(
                "CometBFT has ordered nothing of what waits here for {seconds} s: do more than \
                 two thirds of the members run, and reach each other?"
            )
        })
    }

    /// CometBFT has put evidence into a block. What follows from it follows after each start.
    pub fn convict(&self, found: Misbehaviour) -> io::Result<()> {
        let Misbehaviour { member, height, kind, .. } = found;
        if lock(&self.misbehaviour).add(found)? {
            let what = kind.name();
            error!(member, height, "a member has signed what contradicts itself: {what}");
        }
        Ok(())
    }

    pub fn is_member(&self, id: &str) -> bool {
        lock(&self.known).now.values().any(|key| node_id(key) == id)
    }

    /// The number of the member that a validator is.
    pub fn who(&self, address: &[u8]) -> u64 {
        let address = Address::try_from(address);
        address.ok().and_then(|it| lock(&self.known).numbers.get(&it).copied()).unwrap_or(0)
    }

    /// Until there is an answer. It depends on blocks that this node executes, of which no more
    /// than the lag are waited for; a node that executes nothing any more has ended.
    pub fn wait<T>(
        &self,
        mut ask: impl FnMut(&mut App) -> Result<Answer<T>, String>,
    ) -> Result<T, String> {
        let mut app = self.app();
        loop {
            if self.has_ended() {
                return Err("the node stops".to_owned());
            }
            if let Answer::Now(answer) = ask(&mut app)? {
                return Ok(answer);
            }
            let waited = self.changed.wait_timeout(app, LOOK_AGAIN);
            app = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn finalize(&self, block: &Block) -> Result<Outcome, String> {
        // It is delivered before its answer is there.
        let answer = self.app().finalize(block)?;
        *lock(&self.complaint) = None;
        self.wake();
        self.changed.notify_all();
        match answer {
            Answer::Now(outcome) => Ok(outcome),
            Answer::Later => self.wait(|app| {
                let answer = app.finalize(block);
                self.wake();
                answer
            }),
        }
    }

    fn wake(&self) {
        let wake = lock(&self.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// The keys of members.
pub fn keys_of(members: &Membership) -> Keys {
    members.0.values().map(|known| known.key).collect()
}

fn listen(shared: &Arc<Shared>, listener: &UnixListener) {
    for stream in listener.incoming() {
        if shared.has_ended() {
            return;
        }
        let served = stream.and_then(|stream| {
            let mut streams = lock(&shared.streams);
            streams.retain(|open| open.peer_addr().is_ok());
            streams.push(stream.try_clone()?);
            let shared = Arc::clone(shared);
            let thread = spawn("abci-answer", move || {
                if let Err(error) = abci::answer_all(&shared, &stream) {
                    debug!(%error, "a connection of CometBFT has ended");
                }
                // Its other handle is kept open.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            })?;
            drop(thread);
            Ok(())
        });
        if let Err(error) = served {
            warn!(%error, "a connection of CometBFT cannot be served");
            thread::sleep(PAUSE);
        }
    }
}

fn send(shared: &Shared) {
    let socket = shared.settings.home.join("rpc.sock");
    let mut reported_at = Instant::now();
    loop {
        let next =
            shared.wait(|app| Ok(app.next(shared.now_ms()).map_or(Answer::Later, Answer::Now)));
        let Ok((number, tx)) = next else { return };
        if let Err(error) = rpc::broadcast(&socket, &tx) {
            if reported_at.elapsed() > Duration::from_secs(5) {
                warn!(%error, "CometBFT takes no transactions, tried again");
                reported_at = Instant::now();
            }
            shared.app().not_taken(number);
            thread::sleep(PAUSE);
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

impl Orderer for Comet {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        let submitted = self.0.shared.app().submit(envelope);
        self.0.shared.changed.notify_all();
        submitted
    }

    fn nudge(&mut self) {
        self.0.shared.app().nudge();
        self.0.shared.changed.notify_all();
    }

    fn withdraw(&mut self, envelope: &Bytes) -> bool {
        self.0.shared.app().withdraw(envelope)
    }

    fn hindrance(&self) -> Option<String> {
        self.0.shared.hindrance()
    }

    fn poll(&mut self, now_us: i64) -> Option<Delivery> {
        let delivery = self.0.shared.app().poll(now_us);
        if delivery.is_some() {
            self.0.shared.changed.notify_all();
        }
        delivery
    }

    fn resume(&mut self, after: u64, time_us: i64) -> Result<()> {
        self.0.shared.app().resume(after, time_us)
    }

    fn close(&mut self, why: Error) {
        self.0.shared.app().close(why);
    }

    fn governed(&mut self, height: Height, parameters: &Parameters) {
        let members = parameters.others.get(MEMBERS).map_or("", String::as_str);
        match Membership::parse(members) {
            Ok(members) => self.0.shared.app().validate(height, keys_of(&members)),
            // No change of parameters is taken that would lead here.
            Err(error) => error!(%error, "who validates from now on cannot be read"),
        }
    }

    fn released(&mut self, released: Released) {
        self.0.shared.app().released(released);
        self.0.shared.changed.notify_all();
    }

    fn confirm(&mut self, tell: Tell) -> bool {
        let joins = self.0.shared.app().confirm(tell);
        self.0.shared.changed.notify_all();
        joins
    }

    /// Its engine executes nothing any more: nothing is answered, and nothing is voted for.
    fn leave(&mut self) {
        let comet = self.clone();
        if spawn("cometbft-end", move || comet.stop()).is_err() {
            self.0.shared.ended.store(true, Ordering::SeqCst);
        }
    }

    fn wake_by(&mut self, wake: Wake) {
        *lock(&self.0.shared.wake) = Some(wake);
        self.0.shared.wake();
    }
}
