//! The options of a server: limits, TLS, time limits, what sessions may hold.

use std::sync::Arc;
use std::time::Duration;

use kit::pool::Pool;

use crate::store::Bounds;
use crate::tls::Tls;

/// What a client's certificate is good for. Its common name has to be the user's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClientCertificates {
    /// It stands for the password. Without one, or with another's, the password counts.
    #[default]
    Optional,
    /// A client that comes by TCP has one, and needs no password.
    Required,
    /// A client that comes by TCP has one, and gives the password, too.
    WithPassword,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub max_connections: usize,
    /// How many of them are kept free for the operator.
    pub reserved_connections: usize,
    /// `None`: clients that ask for TLS are told that there is none.
    pub tls: Option<Tls>,
    /// Whether a client that comes by TCP without TLS is refused.
    pub tls_required: bool,
    pub client_certificates: ClientCertificates,
    /// Wrong passwords that an address may give; 0 means any.
    pub failed_logins_per_minute_max: u32,
    /// From accepting to the first ReadyForQuery.
    pub authentication_timeout: Duration,
    /// Longest message a client may send: a statement, all parameters of one, a piece of COPY.
    pub message_bytes_max: usize,
    /// How long statements on their way into the ledger may take once shutdown has begun.
    pub shutdown_grace: Duration,
    /// What drivers take for PostgreSQL's version: they read the number in front.
    pub server_version: String,
    /// What all sessions hold.
    pub memory: Arc<Pool>,
    /// What each session holds by name.
    pub bounds: Bounds,
    /// Makes up salts for users that do not exist. Kept across restarts it hides which those are
    /// for good; `None` draws a new one.
    pub mock_secret: Option<[u8; 32]>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_connections: 500,
            reserved_connections: 0,
            tls: None,
            tls_required: false,
            client_certificates: ClientCertificates::default(),
            failed_logins_per_minute_max: 10,
            authentication_timeout: Duration::from_secs(15),
            message_bytes_max: 64 << 20,
            shutdown_grace: Duration::from_secs(30),
            server_version: types::version::SERVER_VERSION.to_owned(),
            memory: Pool::unbounded(),
            bounds: Bounds::default(),
            mock_secret: None,
        }
    }
}
