//! Who may ask: logins, cookies, and requests that only the console's own pages can make.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::Node;
use crate::answers::{answer, refuse};
use crate::session::{Session, Sessions, Wanted, fault};

/// A page of another origin cannot add it without being allowed to, which nothing here does.
const OWN_HEADER: &str = "x-tally-console";
const COOKIE: &str = "tally_console";

/// Failed logins of all addresses together. Fewer than an address may give the PostgreSQL port, so
/// that guesses made here turn no client away there.
const FAILURES_MAX: usize = 5;
const FAILURES_WITHIN: Duration = Duration::from_secs(60);
/// Logins that wait for the one before.
const WAITING_MAX: usize = 8;

/// What all requests share.
pub struct Console {
    pub node: Arc<dyn Node>,
    pub sessions: Sessions,
    failures: Mutex<VecDeque<Instant>>,
    /// A login costs this process the rounds that its password has: one at a time.
    turn: tokio::sync::Mutex<()>,
    waiting: Semaphore,
}

impl Console {
    pub fn new(node: Arc<dyn Node>) -> Console {
        Console {
            node,
            sessions: Sessions::default(),
            failures: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }

    pub fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Response> {
        let session = cookie(headers).and_then(|id| self.sessions.used(&id));
        session.ok_or_else(|| refuse(StatusCode::UNAUTHORIZED, "log in first", ""))
    }

    fn is_guessed_at(&self) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        while failures.front().is_some_and(|at| at.elapsed() > FAILURES_WITHIN) {
            failures.pop_front();
        }
        failures.len() >= FAILURES_MAX
    }

    fn failed(&self) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push_back(Instant::now());
    }
}

/// Stands before every handler but those of the bundle.
pub async fn admit(request: Request, next: Next) -> Response {
    let is_own = request.headers().contains_key(OWN_HEADER) && is_same_origin(request.headers());
    if ![Method::GET, Method::HEAD].contains(request.method()) && !is_own {
        let why = "the request does not come from the console's own page";
        return refuse(StatusCode::FORBIDDEN, why, "");
    }
    next.run(request).await
}

/// A client that names no origin is no page.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    origin.map(|(_, name)| name) == host && host.is_some()
}

/// Browsers send a cookie to every port of a host: each node's has the port in its name.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    format!("{COOKIE}_{}", if is_port { port } else { "80" })
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let sent = headers.get_all(header::COOKIE).into_iter().filter_map(|sent| sent.to_str().ok());
    let mut pairs =
        sent.flat_map(|sent| sent.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, id)| id.to_owned())
}

fn set_cookie(headers: &HeaderMap, id: &str, mut response: Response) -> Response {
    let age = if id.is_empty() { "; Max-Age=0" } else { "" };
    let name = cookie_name(headers);
    let cookie = format!("{name}={id}; Path=/console; HttpOnly; SameSite=Strict{age}");
    if let Ok(cookie) = cookie.parse() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Ends sessions that are idle, as long as there is a console.
pub async fn end_idle(console: Weak<Console>) {
    loop {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let Some(console) = console.upgrade() else { return };
        console.sessions.end_idle();
    }
}

/// Whether there is a session, and what a login takes.
pub async fn shown(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    let session = console.session(&headers).ok();
    let session = session.map(|it| json!({"user": it.user, "writes": it.writes}));
    answer(
        StatusCode::OK,
        &json!({
            "session": session,
            "login": if console.node.has_passwords() { "password" } else { "token" },
            "owner": if console.node.has_passwords() { None } else { Some(console.node.owner()) },
        }),
    )
}

#[derive(Deserialize)]
struct Login {
    user: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    writes: bool,
}

pub async fn login(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Ok(asked) = serde_json::from_slice::<Login>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "this is no login", "");
    };
    let Ok(_waits) = console.waiting.try_acquire() else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "too many logins at a time", "Try again.");
    };
    let _turn = console.turn.lock().await;
    if console.is_guessed_at() {
        let hint = "Wait a minute, or use another client.";
        return refuse(StatusCode::TOO_MANY_REQUESTS, "too many logins have failed", hint);
    }
    let Some(sql_address) = console.node.sql_address() else {
        let hint = "Try again when the ledger has been read.";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the node is starting", hint);
    };
    if !console.node.has_passwords() && !console.node.is_token(&asked.token) {
        console.failed();
        let hint = "Open the link that the node printed at its start, or take what the file \
                    http-token in its data folder holds.";
        return refuse(StatusCode::UNAUTHORIZED, "this is not the node's token", hint);
    }
    let password = console.node.has_passwords().then_some(asked.password);
    let wanted = Wanted { user: asked.user, password, writes: asked.writes };
    let opened = match console.node.random() {
        Ok(id) => console.sessions.open(&sql_address, id, wanted).await,
        Err(error) => Err(fault(&format!("no random number: {error}"))),
    };
    match opened {
        Ok((id, session)) => {
            let shown = json!({"session": {"user": session.user, "writes": session.writes}});
            if let Some(old) = cookie(&headers) {
                console.sessions.end(&old);
            }
            set_cookie(&headers, &id, answer(StatusCode::OK, &shown))
        }
        Err(error) => {
            console.failed();
            answer(StatusCode::UNAUTHORIZED, &json!({"error": error}))
        }
    }
}

pub async fn logout(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    if let Some(id) = cookie(&headers) {
        console.sessions.end(&id);
    }
    set_cookie(&headers, "", StatusCode::NO_CONTENT.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn an_origin_is_the_one_that_was_asked() {
        for (origin, same) in [
            ("http://127.0.0.1:5461", true),
            ("http://127.0.0.1:5462", false),
            ("http://evil.example", false),
            ("null", false),
        ] {
            let sent = headers(&[(header::HOST, "127.0.0.1:5461"), (header::ORIGIN, origin)]);
            assert_eq!(is_same_origin(&sent), same, "{origin}");
        }
        assert!(is_same_origin(&HeaderMap::new()));
        assert!(!is_same_origin(&headers(&[(header::ORIGIN, "http://127.0.0.1")])));
    }

    #[test]
    fn nodes_on_one_host_have_cookies_of_their_own() {
        let both = "a=b; tally_console_5461=one; tally_console_5561=two";
        for (host, id) in [("127.0.0.1:5461", "one"), ("127.0.0.1:5561", "two")] {
            let sent = headers(&[(header::HOST, host), (header::COOKIE, both)]);
            assert_eq!(cookie(&sent).as_deref(), Some(id));
        }
        let sent = headers(&[(header::HOST, "localhost"), (header::COOKIE, both)]);
        assert_eq!(cookie(&sent), None);
    }
}
