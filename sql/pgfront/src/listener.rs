//! Where clients come in: TCP ports and Unix-domain sockets.
//!
//! A Unix-domain socket lies in a folder as `.s.PGSQL.<port>`, where libpq looks for it when its
//! `host` is that folder. Who may open the file may connect: it is a way in from the same machine,
//! like loopback, at about half of loopback's cost in the kernel. There is no TLS on it.
//!
//! A peer that is gone without a word, by a cut cable or a crash of its machine, is found out by
//! keepalive probes, or by what it does not acknowledge: about 90 seconds either way.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::stream::Stream;

/// A peer that says nothing for so long is asked whether it is there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// How long what was sent may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(90);

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

/// A listening socket and its file, which goes with it: no other's is ever removed.
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    Tcp(SocketAddr),
    /// A process of this machine that may open the socket's file.
    Unix,
}

impl Peer {
    /// Whether the client runs on this machine, which is as far as trust reaches.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Peer::Unix => true,
        }
    }
}

/// What counts as one peer where peers are counted: an address of IPv4, a network of IPv6 (64 bits,
/// of which each customer has one at least), or this machine by a Unix-domain socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Source(Option<IpAddr>);

impl Source {
    pub fn of(address: IpAddr) -> Source {
        Source(Some(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address => address,
        }))
    }
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Source {
        match peer {
            Peer::Tcp(address) => Source::of(address.ip()),
            Peer::Unix => Source(None),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Unix => f.write_str("[local]"),
        }
    }
}

impl Listener {
    /// A socket for libpq in `folder`. The file of a server that is gone is replaced.
    pub fn unix(folder: &Path, port: u16) -> io::Result<Listener> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        match std::os::unix::net::UnixStream::connect(&path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(&path)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path)?;
        Ok(Listener::Unix(UnixSocket { listener, path }))
    }

    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>> {
        match self {
            Listener::Tcp(listener) => listener.poll_accept(cx).map_ok(|(stream, address)| {
                if let Err(error) = prepare(&stream) {
                    tracing::debug!(%address, %error, "cannot set a socket's options");
                }
                (Stream::Tcp(stream), Peer::Tcp(address))
            }),
            Listener::Unix(socket) => socket
                .listener
                .poll_accept(cx)
                .map_ok(|(stream, _)| (Stream::Unix(stream), Peer::Unix)),
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Tcp(listener)
    }
}
