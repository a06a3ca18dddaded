//! Listening, and the life of each connection's task.
//!
//! One task per connection, one for accepting. A panic in a session ends that session alone: its
//! client is told `XX000`, the others notice nothing. On shutdown no connection is accepted any
//! more, running statements finish, idle clients are told `57P01`; whoever is still busy when the
//! grace period is over is cut off.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use types::{Error, SqlState};

use crate::auth;
use crate::backend::Database;
use crate::cancel::Registry;
use crate::connection::Connection;
use crate::listener::{Listener, Peer, Stream};
use crate::reply::{self, Severity};
use crate::startup::{self, Negotiated, Startup};
use crate::tls::Tls;
use crate::wire::{Closed, Wire};

#[derive(Clone, Debug)]
pub struct Options {
    pub max_connections: usize,
    /// `None`: clients that ask for TLS are told that there is none.
    pub tls: Option<Tls>,
    /// From accepting to the first ReadyForQuery.
    pub authentication_timeout: Duration,
    /// `None`: for ever.
    /// Longest message a client may send: a statement, all parameters of one, a piece of COPY.
    pub message_bytes_max: usize,
    /// How long running statements may take once shutdown has begun.
    pub shutdown_grace: Duration,
    /// What drivers take for PostgreSQL's version: they read the number in front.
    pub server_version: String,
    /// Makes up salts for users that do not exist. Kept across restarts it hides which those are
    /// for good; `None` draws a new one.
    pub mock_secret: Option<[u8; 32]>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_connections: 500,
            tls: None,
            authentication_timeout: Duration::from_secs(60),
            message_bytes_max: 64 << 20,
            shutdown_grace: Duration::from_secs(30),
            server_version: concat!("16.4 (Tallystick ", env!("CARGO_PKG_VERSION"), ")").to_owned(),
            mock_secret: None,
        }
    }
}

pub(crate) struct Server<D> {
    pub database: Arc<D>,
    pub options: Options,
    pub registry: Arc<Registry>,
    pub mock_secret: [u8; 32],
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
        options,
    });
    let mut connections = JoinSet::new();
    accept_until(&server, &listeners, &mut connections, shutdown).await;
    drop(listeners);

    server.registry.close();
    let all_gone = async { while connections.join_next().await.is_some() {} };
    if time::timeout(server.options.shutdown_grace, all_gone).await.is_err() {
        tracing::warn!(connections = connections.len(), "grace period is over, cutting off");
        // A task that computes is not cut off before it comes back.
        server.registry.cancel_all();
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
    let options = &server.options;
    // Clients that have not authenticated are not sessions yet, but they are bounded too.
    let sockets_max = options.max_connections.saturating_mul(2).saturating_add(16);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task panicked outside its session");
                }
            }
            accepted = accept_any(listeners) => match accepted {
                Ok((stream, peer)) if connections.len() < sockets_max => {
                    connections.spawn(connection(server.clone(), stream, peer));
                }
                Ok((_, peer)) => tracing::warn!(%peer, "too many sockets, closing this one"),
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

async fn connection<D: Database>(server: Arc<Server<D>>, stream: Stream, peer: Peer) {
    let deadline = Instant::now() + server.options.authentication_timeout;
    match stream {
        Stream::Tcp(stream) => {
            let negotiated = time::timeout_at(deadline, startup::negotiate(&server, stream)).await;
            match negotiated {
                Ok(Ok(Negotiated::Tls(wire, startup))) => {
                    converse(&server, *wire, startup, peer, true, deadline).await;
                }
                Ok(Ok(Negotiated::Plain(wire, startup))) => {
                    converse(&server, wire, startup, peer, false, deadline).await;
                }
                Ok(Err((wire, closed))) => turn_away(wire, closed, peer).await,
                Err(_) => tracing::debug!(%peer, "no startup message in time"),
            }
        }
        Stream::Unix(stream) => {
            let mut wire = Wire::new(stream);
            let negotiated = startup::negotiate_local(&server, &mut wire);
            match time::timeout_at(deadline, negotiated).await {
                Ok(Ok(startup)) => {
                    converse(&server, wire, startup, peer, false, deadline).await;
                }
                Ok(Err(closed)) => turn_away(Some(wire), closed, peer).await,
                Err(_) => tracing::debug!(%peer, "no startup message in time"),
            }
        }
    }
}

async fn turn_away<S>(wire: Option<Wire<S>>, closed: Closed, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match wire {
        Some(wire) => farewell(wire, closed, peer).await,
        None => tracing::debug!(%peer, ?closed, "no connection was made"),
    }
}

/// A connection from its startup message to its end.
async fn converse<S, D>(
    server: &Server<D>,
    mut wire: Wire<S>,
    startup: Startup,
    peer: Peer,
    tls: bool,
    deadline: Instant,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    D: Database,
{
    let conversation = async {
        let opened = startup::open(server, &mut wire, startup, peer, tls);
        let (session, registration) = match time::timeout_at(deadline, opened).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(closed)) => return closed,
            Err(_) => {
                tracing::debug!(%peer, "no authentication in time");
                return Closed::Normally;
            }
        };
        wire.set_frame_max(server.options.message_bytes_max);
        Connection::new(&mut wire, session, &registration).run().await
    };
    // Nothing that the session touched is used again, except the output, which is repaired.
    let closed = match AssertUnwindSafe(conversation).catch_unwind().await {
        Ok(closed) => closed,
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
    farewell(wire, closed, peer).await;
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
async fn farewell<S>(mut wire: Wire<S>, closed: Closed, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
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
