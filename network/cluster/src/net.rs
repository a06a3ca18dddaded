//! Connections between members: request and answer as length-prefixed frames over mutual TLS, where
//! each side's certificate must hold a key that the ledger names.
//!
//! A connection is kept for the next message, calls to one peer are bounded, and a peer that cannot
//! be reached is left alone for a moment.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::sync::lock;
use order::Network;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tracing::{debug, warn};

use crate::keys::{ByKey, Expected, key_of};
use crate::members::{Key, Known, Members};
use crate::own::{Called, Calls, Own, called};
use crate::plan::Plan;
use crate::secrets::Secrets;
use crate::seldom::Seldom;

/// Of a message, which may hold one envelope of any size.
const FRAME_BYTES_MAX: usize = 1 << 30;
/// Of a greeting.
const GREETING_BYTES_MAX: usize = 256;
const VERSION: &str = "tally cluster 2";
/// For a connection and its greeting.
const GREETING_TIME: Duration = Duration::from_secs(2);
/// A connection that says nothing for so long ends.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// Connections to a peer that are kept for the next message: as many as calls are under way, since
/// a handshake costs more than most calls.
const KEPT_MAX: usize = CALLS_MAX;
/// Calls to a peer that may be under way, and how long one may be.
pub const CALLS_MAX: usize = 12;
const EXCHANGE_TIME: Duration = Duration::from_secs(10);
/// How long a member is left alone that could not be reached: at first, and at most. Less than an
/// election takes, so that one which comes back is not missed in it.
const DIAL_AGAIN_MIN: Duration = Duration::from_millis(20);
const DIAL_AGAIN_MAX: Duration = Duration::from_millis(250);
/// Connections that are served, for each member, of as many as there may be.
const SERVED_MAX: usize = 24;
pub const MEMBERS_MAX: usize = 16;

// A member has room for all calls of another one, and for what that one keeps.
const _: () = assert!(CALLS_MAX + KEPT_MAX <= SERVED_MAX);

/// What a node does with a member's request.
pub trait Answering: Send + Sync + 'static {
    fn answer(&self, from: u64, request: Bytes) -> BoxFuture<'static, Answer>;
}

pub type Answer = io::Result<Bytes>;

/// The way to the other members.
pub struct Peers {
    own: Arc<Own>,
    greeting: String,
    members: Arc<Members>,
    /// Those that were called.
    peers: Mutex<BTreeMap<u64, Arc<Peer>>>,
    dials: Arc<AtomicU64>,
}

struct Peer {
    id: u64,
    known: Known,
    greeting: String,
    connector: TlsConnector,
    own: Arc<Own>,
    /// Which key of this node the next connection shows.
    turn: Arc<AtomicUsize>,
    /// For calls that are not answered yet.
    room: Arc<Semaphore>,
    kept: Mutex<Vec<Calling>>,
    /// Held by the one call that dials.
    dialling: tokio::sync::Mutex<Dialling>,
    dials: Arc<AtomicU64>,
}

/// A connection to a member. It holds the state of TLS, of more than a kilobyte, and passes from
/// call to call.
type Calling = Box<client::TlsStream<TcpStream>>;

/// When a member may be dialled again that could not be reached.
#[derive(Default)]
struct Dialling {
    failures: u32,
    refused: Option<(Instant, io::ErrorKind, String)>,
}

impl Dialling {
    fn may(&self) -> io::Result<()> {
        match &self.refused {
            Some((until, kind, why)) if Instant::now() < *until => {
                let what = format!("it could not be reached a moment ago: {why}");
                Err(io::Error::new(*kind, what))
            }
            _ => Ok(()),
        }
    }

    fn failed(&mut self, error: &io::Error) {
        let pause = DIAL_AGAIN_MIN.saturating_mul(1 << self.failures.min(8)).min(DIAL_AGAIN_MAX);
        self.failures += 1;
        debug_assert!(pause <= DIAL_AGAIN_MAX, "a member that comes back is not missed");
        let until = Instant::now() + jittered(pause);
        self.refused = Some((until, error.kind(), error.to_string()));
    }
}

/// Half of it to all of it, so that members do not dial in step.
fn jittered(pause: Duration) -> Duration {
    let drawn = RandomState::new().build_hasher().finish();
    pause / 2 + pause.mul_f64(drawn as f64 / u64::MAX as f64 / 2.0)
}

impl Peers {
    pub fn new(plan: &Plan, secrets: &Secrets, members: Arc<Members>) -> io::Result<Peers> {
        let (own, greeting) = (Arc::clone(&secrets.own), greeting(plan));
        Ok(Peers { own, greeting, members, peers: Mutex::default(), dials: Arc::default() })
    }

    /// Connections to members that were tried.
    pub fn dials(&self) -> u64 {
        self.dials.load(Ordering::Relaxed)
    }

    pub fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// Whether another one than the member answers at its address; `None`: nothing does.
    pub async fn is_another(&self, id: u64) -> Option<bool> {
        match self.peer(id).ok()?.connect().await {
            Ok(_) => Some(false),
            Err(error) => {
                let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
                matches!(cause, rustls::Error::InvalidCertificate(_)).then_some(true)
            }
        }
    }

    /// Its key and its address may have changed since it was called last.
    fn peer(&self, id: u64) -> io::Result<Arc<Peer>> {
        let mut peers = lock(&self.peers);
        let Some(known) = self.members.known(id) else {
            peers.remove(&id);
            return Err(io::Error::other(format!("{id} is no member")));
        };
        if let Some(peer) = peers.get(&id).filter(|peer| peer.known == known) {
            return Ok(Arc::clone(peer));
        }
        let expected = Expected::One(known.key);
        let (own, turn) = (Arc::clone(&self.own), Arc::<AtomicUsize>::default());
        let calls = Calls { own: Arc::clone(&own), turn: Arc::clone(&turn) };
        let verifier = Arc::new(ByKey { expected, provider: provider() });
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(calls));
        // A session that goes on shows the key that it began with.
        config.resumption = Resumption::disabled();
        let connector = TlsConnector::from(Arc::new(config));
        let (greeting, kept) = (self.greeting.clone(), Mutex::default());
        let room = Arc::new(Semaphore::new(CALLS_MAX));
        let (dialling, dials) = (tokio::sync::Mutex::default(), Arc::clone(&self.dials));
        let peer = Peer { id, known, greeting, connector, own, turn, room, kept, dialling, dials };
        let peer = Arc::new(peer);
        peers.insert(id, Arc::clone(&peer));
        Ok(peer)
    }
}

impl Network for Peers {
    fn call(&self, to: u64, request: Bytes) -> BoxFuture<'static, io::Result<Bytes>> {
        let peer = self.peer(to);
        async move {
            let peer = peer?;
            let room = Arc::clone(&peer.room).try_acquire_owned();
            let room = room.map_err(|_| io::Error::other("it has not answered earlier calls"))?;
            let exchange = async move {
                let _room = room;
                timeout(EXCHANGE_TIME, peer.call(request)).await.map_err(io::Error::other)?
            };
            Lasting(Some(exchange.boxed())).await
        }
        .boxed()
    }
}

/// Who gives up an answer leaves the connection to the next call: one that is made anew for each
/// try may never come so far. So what is dropped before its end goes on in a task of its own.
struct Lasting(Option<BoxFuture<'static, Answer>>);

impl Future for Lasting {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(exchange) = &mut self.0 else { return Poll::Pending };
        let answer = ready!(exchange.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        if let (Some(exchange), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(exchange);
        }
    }
}

impl Peer {
    async fn call(&self, request: Bytes) -> io::Result<Bytes> {
        // One that was kept may have been closed at the other end meanwhile.
        let kept = lock(&self.kept).pop();
        if let Some(mut kept) = kept
            && let Ok(answer) = exchange(&mut kept, &request).await
        {
            self.keep(kept);
            return Ok(answer);
        }
        self.call_anew_by_any_key(request).boxed().await
    }

    /// Seldom, and a handshake is of some kilobytes, so it does not lie in the future of each call.
    async fn call_anew_by_any_key(&self, request: Bytes) -> io::Result<Bytes> {
        let first = self.call_anew(&request).await;
        // An end that does not want the key says so when it is read from.
        if first.is_ok() || self.own.next().is_none() {
            return first;
        }
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.call_anew(&request).await
    }

    async fn call_anew(&self, request: &Bytes) -> io::Result<Bytes> {
        let mut fresh = self.dial().await?;
        let answer = exchange(&mut fresh, request).await?;
        self.keep(fresh);
        Ok(answer)
    }

    fn keep(&self, stream: Calling) {
        let mut kept = lock(&self.kept);
        if kept.len() < KEPT_MAX {
            kept.push(stream);
        }
        debug_assert!(kept.len() <= KEPT_MAX, "connections that wait are bounded");
    }

    /// One call at a time, and none for a while after one that failed, for all callers together.
    async fn dial(&self) -> io::Result<Calling> {
        let mut dialling = self.dialling.lock().await;
        dialling.may()?;
        self.dials.fetch_add(1, Ordering::Relaxed);
        let connected = timeout(GREETING_TIME, self.connect()).await;
        let connected = connected.map_err(io::Error::other).flatten();
        match &connected {
            Ok(_) => *dialling = Dialling::default(),
            Err(error) => dialling.failed(error),
        }
        connected
    }

    async fn connect(&self) -> io::Result<Calling> {
        let stream = TcpStream::connect(&self.known.address).await?;
        stream.set_nodelay(true)?;
        let name =
            ServerName::try_from(called(self.id, &self.known.key)).map_err(io::Error::other)?;
        let mut stream = self.connector.connect(name, stream).await?;
        write_frame(&mut stream, &[self.greeting.as_bytes()]).await?;
        Ok(Box::new(stream))
    }
}

async fn exchange(stream: &mut Calling, request: &[u8]) -> io::Result<Bytes> {
    write_frame(stream, &[request]).await?;
    let answer = read_frame(stream, FRAME_BYTES_MAX).await?;
    let refused = || io::Error::other("the peer could not answer");
    // The first byte: it could.
    match answer.first() {
        Some(0) => Ok(answer.slice(1..)),
        _ => Err(refused()),
    }
}

/// Answers members until the listener fails or the runtime ends.
pub async fn serve(
    listener: TcpListener,
    plan: &Plan,
    secrets: &Secrets,
    members: Arc<Members>,
    answering: Arc<dyn Answering>,
) -> io::Result<()> {
    let expected = Expected::Any(Arc::clone(&members));
    let verifier = Arc::new(ByKey { expected, provider: provider() });
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(Called(Arc::clone(&secrets.own))));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let room = Arc::new(Semaphore::new(SERVED_MAX * MEMBERS_MAX));
    let greeting = greeting(plan);
    let seldom = Arc::new(Seldom::default());
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // As many descriptors as may be are open, say: those who wait try again.
                if let Some(before) = seldom.is_due(&error.to_string()) {
                    warn!(%error, before, "a member cannot be accepted");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            debug!(%from, "too many connections of members");
            continue;
        };
        let (acceptor, members) = (acceptor.clone(), Arc::clone(&members));
        let (greeting, answering) = (greeting.clone(), Arc::clone(&answering));
        let seldom = Arc::clone(&seldom);
        tokio::spawn(async move {
            let _place = place;
            let greeted = timeout(GREETING_TIME, greet(stream, &acceptor, &members, &greeting));
            match greeted.await {
                Ok(Ok((key, stream))) => answer_all(key, stream, &members, &*answering).await,
                Ok(Err(error)) => {
                    // Of each host one line a minute: a member that was removed goes on asking.
                    if let Some(before) = seldom.is_due(&format!("{} {error}", from.ip())) {
                        warn!(%from, %error, before, "a connection was refused");
                    }
                }
                Err(_) => debug!(%from, "a connection said nothing"),
            }
        });
    }
}

type Served = server::TlsStream<TcpStream>;

async fn greet(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    members: &Members,
    expected: &str,
) -> io::Result<(Key, Served)> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|shown| shown.first());
    let key = shown.and_then(key_of);
    let member = key.and_then(|key| Some((members.id_of(&key)?, key)));
    let (member, key) = member.ok_or_else(|| io::Error::other("its key is no member's"))?;
    let said = read_frame(&mut stream, GREETING_BYTES_MAX).await?;
    if said != expected.as_bytes() {
        let said = String::from_utf8_lossy(&said).into_owned();
        let what = format!("member {member} says {said:?}, this node is of {expected:?}");
        return Err(io::Error::other(what));
    }
    Ok((key, stream))
}

/// As long as the key is a member's.
async fn answer_all(key: Key, mut stream: Served, members: &Members, answering: &dyn Answering) {
    loop {
        let request = timeout(IDLE_TIME, read_frame(&mut stream, FRAME_BYTES_MAX)).await;
        let Ok(Ok(request)) = request else { return };
        let Some(member) = members.id_of(&key) else { return };
        let written = match answering.answer(member, request).await {
            Ok(answer) => write_frame(&mut stream, &[&[0], &answer]).await,
            Err(error) => {
                debug!(member, %error, "a request was not answered");
                write_frame(&mut stream, &[&[1]]).await
            }
        };
        if written.is_err() {
            return;
        }
    }
}

async fn read_frame(
    stream: &mut (impl AsyncReadExt + Unpin),
    bytes_max: usize,
) -> io::Result<Bytes> {
    let length = stream.read_u32().await? as usize;
    if length > bytes_max {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    // Not taken on a stranger's word: memory grows as bytes come.
    let mut bytes = Vec::with_capacity(length.min(1 << 20));
    stream.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    debug_assert_eq!(bytes.len(), length, "what follows is the next frame");
    Ok(bytes.into())
}

/// In one write: TLS makes a record of each, the system a packet, and the other end wakes for each.
async fn write_frame(stream: &mut (impl AsyncWriteExt + Unpin), parts: &[&[u8]]) -> io::Result<()> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(bytes).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(size_of_val(&length) + bytes);
    frame.extend_from_slice(&length.to_be_bytes());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    stream.write_all(&frame).await?;
    stream.flush().await
}

fn greeting(plan: &Plan) -> String {
    format!("{VERSION} {}", plan.ledger_id)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Membership;
    use crate::plan::Made;

    struct Echo;

    impl Answering for Echo {
        fn answer(&self, from: u64, request: Bytes) -> BoxFuture<'static, Answer> {
            async move {
                match &request[..] {
                    b"no" => Err(io::Error::other("no")),
                    said => Ok([&[from as u8], said].concat().into()),
                }
            }
            .boxed()
        }
    }

    fn plan(ledger: &str, addresses: &[String]) -> (Plan, Vec<Secrets>) {
        let folder = tempfile::tempdir().unwrap();
        let made: Vec<Made> = (1..)
            .zip(addresses)
            .map(|(id, address)| Made::new(id, address.clone()).unwrap())
            .collect();
        let members = made.iter().map(|made| made.member.clone()).collect();
        let plan = Plan { ledger_id: ledger.to_owned(), orderer: "raft".to_owned(), members };
        let secrets = made.iter().map(|made| {
            let data = folder.path().join(made.member.id.to_string());
            std::fs::create_dir(&data).unwrap();
            made.write(&data, &plan).unwrap();
            let (read, secrets) = Plan::read(&data).unwrap().unwrap();
            assert_eq!(read, plan);
            secrets
        });
        let secrets = secrets.collect();
        (plan, secrets)
    }

    fn members_of(plan: &Plan) -> Arc<Members> {
        Arc::new(Members::new(plan.membership().unwrap()))
    }

    fn peers_of(plan: &Plan, secrets: &Secrets) -> Peers {
        Peers::new(plan, secrets, members_of(plan)).unwrap()
    }

    #[tokio::test]
    async fn members_are_answered_and_nobody_else() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let nowhere = "127.0.0.1:1".to_owned();
        let (plan_of_ours, secrets) = plan("ours", &[address.clone(), nowhere.clone()]);
        let peers = peers_of(&plan_of_ours, &secrets[1]);
        let (theirs, strangers) = plan("ours", &[address.clone(), nowhere.clone()]);
        let mut ours = plan_of_ours.clone();
        let members = members_of(&plan_of_ours);
        let admitted = Arc::clone(&members);
        tokio::spawn(async move {
            serve(listener, &plan_of_ours, &secrets[0], admitted, Arc::new(Echo)).await.unwrap();
        });
        for said in ["a", "bcd", ""] {
            let answer = peers.call(1, Bytes::from(said)).await.unwrap();
            assert_eq!(answer, [&[2], said.as_bytes()].concat());
        }
        let large = Bytes::from(vec![7; 3 << 20]);
        assert_eq!(peers.call(1, large.clone()).await.unwrap().len(), large.len() + 1);
        assert!(peers.call(1, Bytes::from("no")).await.is_err());
        assert!(peers.call(2, Bytes::from("a")).await.is_err(), "no member listens");
        assert!(peers.call(3, Bytes::from("a")).await.is_err(), "no such member");
        let stranger = peers_of(&theirs, &strangers[1]);
        assert!(stranger.call(1, Bytes::from("a")).await.is_err(), "no member's certificate");
        ours.members[1] = theirs.members[1].clone();
        let forger = peers_of(&ours, &strangers[1]);
        assert!(forger.call(1, Bytes::from("a")).await.is_err(), "not the member's certificate");
        assert!(peers.call(1, Bytes::from("a")).await.is_ok(), "others go on");
        let mut fewer = members.now();
        let removed = fewer.0.remove(&2).unwrap();
        members.set(fewer.clone());
        assert!(peers.call(1, Bytes::from("a")).await.is_err(), "it was removed");
        fewer.0.insert(3, removed);
        members.set(fewer);
        let answer = peers.call(1, Bytes::from("a")).await.unwrap();
        assert_eq!(answer, &[3, b'a'][..], "under another number");
    }

    #[tokio::test]
    async fn a_member_that_is_down_is_dialled_now_and_then_however_often_it_is_called() {
        // A port that refuses until the member is back.
        let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = held.local_addr().unwrap().to_string();
        drop(held);
        let (plan, secrets) = plan("ours", &[address.clone(), "127.0.0.1:1".to_owned()]);
        let peers = Arc::new(peers_of(&plan, &secrets[1]));
        let began = Instant::now();
        let calling = (0..8).map(|_| {
            let peers = Arc::clone(&peers);
            tokio::spawn(async move {
                let mut calls = 0;
                while began.elapsed() < Duration::from_secs(2) {
                    assert!(peers.call(1, Bytes::from("a")).await.is_err());
                    calls += 1;
                    tokio::task::yield_now().await;
                }
                calls
            })
        });
        let calls: u64 = futures::future::join_all(calling).await.into_iter().flatten().sum();
        let dials = peers.dials();
        // 2 s by at least 125 ms, and five shorter pauses before.
        assert!((4..=21).contains(&dials), "{dials} dials for {calls} calls");
        assert!(calls > 10 * dials, "the others are refused at once");
        let listener = TcpListener::bind(&address).await.unwrap();
        let members = members_of(&plan);
        tokio::spawn(async move {
            serve(listener, &plan, &secrets[0], members, Arc::new(Echo)).await.unwrap();
        });
        let back = Instant::now();
        while peers.call(1, Bytes::from("a")).await.is_err() {
            assert!(back.elapsed() < 4 * DIAL_AGAIN_MAX, "it is back and not dialled");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(peers.call(1, Bytes::from("a")).await.is_ok());
        assert_eq!(peers.dials() - dials, 1, "a connection is kept");
    }

    /// Some know the new key already, others the old one alone, at both ends.
    #[tokio::test]
    async fn a_key_is_replaced_while_members_differ_about_it() {
        let held = [TcpListener::bind("127.0.0.1:0").await.unwrap(), {
            TcpListener::bind("127.0.0.1:0").await.unwrap()
        }];
        let addresses = [0, 1].map(|at: usize| held[at].local_addr().unwrap().to_string());
        let (plan, secrets) = plan("ours", &addresses);
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join(crate::plan::FOLDER)).unwrap();
        let (before, own) = (plan.membership().unwrap(), Arc::clone(&secrets[1].own));
        let next = own.draw(data.path(), 2).unwrap();
        assert_eq!(own.draw(data.path(), 2).unwrap().public, next.public, "it was drawn");
        let mut after = before.clone();
        after.0.get_mut(&2).unwrap().key = next.public;

        let listeners = [0, 1].map(|_| Arc::new(Members::new(before.clone())));
        let calls = |at: usize, membership: &Membership| {
            let members = Arc::new(Members::new(membership.clone()));
            Peers::new(&plan, &secrets[at], members).unwrap()
        };
        let mut peers = [calls(0, &before), calls(1, &before)];
        let [first, second] = held;
        for (at, listener) in [(0, first), (1, second)] {
            let secrets = Secrets { id: at as u64 + 1, own: Arc::clone(&secrets[at].own) };
            let (plan, known) = (plan.clone(), Arc::clone(&listeners[at]));
            tokio::spawn(async move {
                serve(listener, &plan, &secrets, known, Arc::new(Echo)).await.unwrap();
            });
        }
        let ask = async |peers: &Peers, to| peers.call(to, Bytes::from("a")).await.is_ok();
        assert!(ask(&peers[1], 1).await, "member 1 knows the old one");
        assert!(ask(&peers[0], 2).await);
        listeners[0].set(after.clone());
        assert!(ask(&peers[1], 1).await, "member 1 knows the new one");
        peers[0].members().set(after.clone());
        assert!(ask(&peers[0], 2).await);
        // The old one is gone: it opens nothing, also where it is all that is known.
        own.take(data.path()).unwrap();
        assert!(own.next().is_none());
        assert!(ask(&peers[1], 1).await);
        listeners[0].set(before.clone());
        assert!(!ask(&peers[1], 1).await);
        peers[0] = calls(0, &before);
        assert!(!ask(&peers[0], 2).await);
        let read = Own::read(data.path(), "").unwrap().now();
        assert_eq!((read.len(), read[0].public), (1, next.public));
    }

    #[tokio::test]
    async fn another_ledger_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (ours, secrets) = plan("ours", &[address, "127.0.0.1:1".to_owned()]);
        let other = Plan { ledger_id: "other".to_owned(), ..ours.clone() };
        let peers = peers_of(&other, &secrets[1]);
        tokio::spawn(async move {
            let members = members_of(&ours);
            serve(listener, &ours, &secrets[0], members, Arc::new(Echo)).await.unwrap();
        });
        assert!(peers.call(1, Bytes::from("a")).await.is_err());
    }
}
