//! Listening, and the life of each connection's task.
//!
//! One task per connection, one for accepting. A panic in a session ends that session alone: its
//! client is told `XX000`, the others notice nothing. On shutdown no connection is accepted any
//! more, what sessions compute ends as if it were canceled, and clients are told `57P01`. What is
//! on its way into the ledger is answered first; if that takes longer than the grace period, its
//! client is cut off.
//!
//! Until it is logged in a connection has a place among [`Arrivals`], a short time, and no more
//! than 10 kB of memory; so silent connections keep no others out.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use types::{Error, SqlState};

use crate::arrivals::{Arrival, Arrivals};
use crate::attempts::Attempts;
use crate::auth;
use crate::backend::Database;
use crate::cancel::{Registration, Registry};
use crate::connection::Connection;
use crate::listener::{Listener, Peer};
use crate::options::Options;
use crate::reply::{self, Severity};
use crate::startup::{self, Encryption, Startup};
use crate::stream::Stream;
use crate::wire::{Closed, Wire};

pub(crate) struct Server<D> {
    pub database: Arc<D>,
    pub options: Options,
    pub registry: Arc<Registry>,
    pub mock_secret: [u8; 32],
    pub attempts: Attempts,
    arrivals: Arc<Arrivals>,
}

/// Serves clients on all `listeners` until `shutdown` completes, and returns when the last one has
/// gone.
pub async fn serve<D: Database>(
    listeners: Vec<Listener>,
    database: Arc<D>,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut mock_secret = options.mock_secret.unwrap_or_default();
    if options.mock_secret.is_none() {
        auth::fill_random(&mut mock_secret).map_err(io::Error::other)?;
    }
    let server = Arc::new(Server {
        database,
        registry: Arc::new(Registry::default()),
        mock_secret,
        attempts: Attempts::new(options.failed_logins_per_minute_max),
        arrivals: Arrivals::new(options.max_connections.saturating_add(16)),
        options,
    });
    let mut connections = JoinSet::new();
    accept_until(&server, &listeners, &mut connections, shutdown).await;
    drop(listeners);

    server.registry.close();
    let all_gone = async { while connections.join_next().await.is_some() {} };
    if time::timeout(server.options.shutdown_grace, all_gone).await.is_err() {
        tracing::warn!(connections = connections.len(), "grace period is over, cutting off");
        connections.shutdown().await;
    }
    Ok(())
}

async fn accept_until<D: Database>(
    server: &Arc<Server<D>>,
    listeners: &[Listener],
    connections: &mut JoinSet<()>,
    shutdown: impl Future<Output = ()>,
) {
    // Those that were sent away take a moment to go, during which newcomers wait.
    const LEAVING_MAX: usize = 32;
    let room = server.arrivals.max().saturating_add(LEAVING_MAX);
    let sockets_max = server.options.max_connections.saturating_add(room);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let has_room = connections.len() < sockets_max;
        tokio::select! {
            () = &mut shutdown => return,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task panicked outside its session");
                }
            }
            accepted = accept_any(listeners), if has_room => match accepted {
                Ok((stream, peer)) => {
                    let login = Login::begin(server, peer);
                    connections.spawn(connection(server.clone(), stream, login));
                }
                Err(error) => {
                    // Out of descriptors, most likely: give the others time to finish.
                    tracing::warn!(%error, "cannot accept connections");
                    time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

async fn accept_any(listeners: &[Listener]) -> io::Result<(Stream, Peer)> {
    poll_fn(|context| {
        for listener in listeners {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// A connection from its arrival until it is logged in, or has been told why not.
struct Login {
    peer: Peer,
    deadline: Instant,
    arrival: Arrival,
}

impl Login {
    fn begin<D>(server: &Server<D>, peer: Peer) -> Login {
        let deadline = Instant::now() + server.options.authentication_timeout;
        Login { peer, deadline, arrival: server.arrivals.admit(peer.into()) }
    }

    /// `None` if the step took too long, or others needed the place.
    async fn within<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        let peer = self.peer;
        tokio::select! {
            done = step => Some(done),
            () = time::sleep_until(self.deadline) => {
                tracing::debug!(%peer, "no login in time");
                None
            }
            () = self.arrival.sent_away() => {
                tracing::debug!(%peer, "makes room for others that want to log in");
                None
            }
        }
    }
}

async fn connection<D: Database>(server: Arc<Server<D>>, stream: Stream, login: Login) {
    match login.within(startup::negotiate(&server, stream)).await {
        Some(Ok((wire, startup, encryption))) => {
            converse(&server, wire, startup, encryption, login).await;
        }
        Some(Err((wire, closed))) => turn_away(wire, closed, &login).await,
        None => {}
    }
}

async fn turn_away(wire: Option<Wire>, closed: Closed, login: &Login) {
    let peer = login.peer;
    match wire {
        Some(mut wire) => _ = login.within(farewell(&mut wire, closed, peer)).await,
        None => tracing::debug!(%peer, ?closed, "no connection was made"),
    }
}

/// Logs a client in. One that is refused is told so before its place goes to another.
async fn log_in<D: Database>(
    server: &Server<D>,
    wire: &mut Wire,
    startup: Startup,
    encryption: Option<Encryption>,
    login: Login,
) -> Option<(D::Session, Registration)> {
    let opening = startup::open(server, wire, startup, login.peer, encryption.as_ref());
    match login.within(opening).await? {
        Ok(opened) => Some(opened),
        Err(closed) => {
            login.within(farewell(wire, closed, login.peer)).await;
            None
        }
    }
}

/// A connection from its startup message to its end.
async fn converse<D: Database>(
    server: &Server<D>,
    mut wire: Wire,
    startup: Startup,
    encryption: Option<Encryption>,
    login: Login,
) {
    let peer = login.peer;
    let conversation = async {
        let opened = log_in(server, &mut wire, startup, encryption, login).await;
        let (session, registration) = opened?;
        let options = &server.options;
        let control = Arc::clone(&registration.control);
        wire.admit(options.message_bytes_max, options.memory.lease(), control);
        Some(Connection::new(&mut wire, session, &registration, options).run().await)
    };
    // Nothing that the session touched is used again, except the output, which is repaired.
    let closed = match AssertUnwindSafe(conversation).catch_unwind().await {
        Ok(Some(closed)) => closed,
        Ok(None) => return,
        Err(panic) => {
            let message = panic_message(&*panic);
            tracing::error!(%peer, message, "a session panicked");
            reply::drop_partial_message(&mut wire.output);
            Closed::Fatal(
                Error::new(SqlState::INTERNAL_ERROR, "internal error in this session")
                    .with_detail(message.to_owned())
                    .with_hint("The server's log has more. Connect again to go on."),
            )
        }
    };
    farewell(&mut wire, closed, peer).await;
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// How long a client that is being turned away may take to hear why.
const FAREWELL: Duration = Duration::from_secs(2);

/// Tells the client why the connection ends, and ends it.
async fn farewell(wire: &mut Wire, closed: Closed, peer: Peer) {
    match closed {
        Closed::Normally => {}
        Closed::Io(error) => {
            tracing::debug!(%peer, %error, "connection lost");
            return;
        }
        Closed::Fatal(error) => {
            tracing::debug!(%peer, %error, "closing connection");
            reply::error_response(&mut wire.output, Severity::Fatal, &error);
        }
    }
    if time::timeout(FAREWELL, wire.finish()).await.is_err() {
        tracing::debug!(%peer, "client does not read its farewell");
    }
}
