//! Who may ask the second port for what, and for how long it listens.
//!
//! - **Changes** (every method but GET and HEAD) need the token: `Authorization: Bearer TOKEN`.
//!   What is below `/console/` the console itself decides about.
//! - **Names**: a request's `Host` is an address, `localhost`, or one of `http_hosts`. A page that
//!   a browser has loaded from elsewhere, and whose name was then made to lead here (DNS
//!   rebinding), still sends its own name. No header of CORS is ever sent.
//! - **Time**: the head of a request has [`HEAD_WITHIN`], everything together [`ANSWER_WITHIN`].
//!   Only one that has shown the token may take longer. There is one request to a connection.
//! - **Room**: [`CONNECTIONS_MAX`] at a time. A newcomer gets in, and the oldest of the address
//!   that holds most goes ([`Arrivals`]).

use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use pgfront::{Arrival, Arrivals, Source};
use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

use crate::secrets;

const CONNECTIONS_MAX: usize = 64;
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What a request has to show.
#[derive(Debug, Default)]
pub struct Guard {
    hosts: Vec<String>,
    /// None until the data folder is open.
    token: RwLock<Option<String>>,
}

impl Guard {
    /// `hosts`: names besides `localhost` by which the port is asked.
    pub fn new(hosts: Vec<String>) -> Guard {
        Guard { hosts, token: RwLock::default() }
    }

    /// From now on, this is the token.
    pub fn expect(&self, token: String) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    fn is_token(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).map(|shown| shown.as_bytes());
        let shown = shown.and_then(|shown| shown.strip_prefix(b"Bearer "));
        shown.is_some_and(|shown| self.is_expected(shown))
    }

    /// Whether this is the token.
    pub fn is_expected(&self, shown: &[u8]) -> bool {
        let token = self.token.read().unwrap_or_else(PoisonError::into_inner);
        token.as_ref().is_some_and(|token| secrets::are_equal(token.as_bytes(), shown))
    }

    /// A client that names no host is no browser.
    fn is_host(&self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(header::HOST).iter();
        match (named.next(), named.next()) {
            (None, _) => true,
            (Some(host), None) => host.to_str().is_ok_and(|host| self.knows(host)),
            (Some(_), Some(_)) => false,
        }
    }

    fn knows(&self, host: &str) -> bool {
        let name = without_port(host);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let mut known = self.hosts.iter().map(String::as_str).chain(["localhost"]);
        bare.parse::<IpAddr>().is_ok() || known.any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether the request of a connection may take as long as it takes.
#[derive(Clone, Default)]
struct Patience(Arc<AtomicBool>);

/// Stands before every handler.
pub async fn admit(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if !guard.is_host(request.headers()) {
        let why = "unknown Host: name it in the setting http_hosts\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if !is_read && !web_console::is_own(request.uri().path()) {
        if !guard.is_token(request.headers()) {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            let why = "changes need the token: Authorization: Bearer TOKEN\n";
            return (StatusCode::UNAUTHORIZED, challenge, why).into_response();
        }
        if let Some(Patience(is_long)) = request.extensions().get() {
            is_long.store(true, Ordering::Release);
        }
    }
    next.run(request).await
}

/// Answers until the task is dropped.
pub async fn serve(listener: TcpListener, router: Router) {
    let arrivals = Arrivals::new(CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let arrival = arrivals.admit(Source::of(peer.ip()));
                tokio::spawn(converse(stream, router.clone(), arrival));
            }
            Err(error) => {
                // Out of descriptors, most likely: give the others time to finish.
                warn!(%error, "the second port cannot accept connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router, arrival: Arrival) {
    let patience = Patience::default();
    let service = TowerToHyperService::new(router.layer(Extension(patience.clone())));
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(connection.serve_connection(TokioIo::new(stream), service));
    // How a connection ends is its client's affair.
    tokio::select! {
        _ = &mut connection => return,
        () = tokio::time::sleep(ANSWER_WITHIN) => {}
        () = arrival.sent_away() => {}
    }
    if patience.0.load(Ordering::Acquire) {
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_named_hosts_are_known_and_no_others() {
        let guard = Guard::new(vec!["tally.example".into()]);
        for (host, known) in [
            ("127.0.0.1:5461", true),
            ("127.0.0.1", true),
            ("[::1]:5461", true),
            ("localhost:1", true),
            ("LOCALHOST", true),
            ("tally.example:5461", true),
            ("evil.example", false),
            ("evil.example:5461", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("[tally.example]", false),
            ("", false),
        ] {
            assert_eq!(guard.knows(host), known, "{host}");
        }
    }

    #[test]
    fn the_token_has_to_be_shown_whole() {
        let guard = Guard::default();
        let shows = |guard: &Guard, shown: &str| {
            let headers = [(header::AUTHORIZATION, shown.parse().unwrap())];
            guard.is_token(&headers.into_iter().collect())
        };
        assert!(!shows(&guard, "Bearer ") && !shows(&guard, "Bearer x"), "there is none yet");
        guard.expect("0123456789abcdef".into());
        assert!(shows(&guard, "Bearer 0123456789abcdef"));
        for wrong in ["Bearer 0123456789abcde", "Bearer ", "0123456789abcdef", "Basic x"] {
            assert!(!shows(&guard, wrong), "{wrong}");
        }
        assert!(!guard.is_token(&HeaderMap::new()));
    }
}
