//! What people see of a node in a browser: pages that are part of the program, and what they ask.
//!
//! ```text
//!   browser ── GET /, /console.js … ──► the bundle of web/, as dist/ has it
//!           ── /console/overview ─────► what /metrics has, for all who reach the port
//!           ── /console/login ────────► a session: a cookie here, a connection there
//!           ── /console/query ────────► the node's own PostgreSQL port, as that user
//!           ── /console/blocks ───────► the ledger's files
//! ```
//!
//! Statements take the way of every client, so users, passwords, privileges and bounds are those of
//! the PostgreSQL port, and nothing is decided a second time. What is decided here:
//!
//! - **Who asks** ([`door`]): a cookie of 256 random bits that scripts cannot read and other sites
//!   cannot send; a POST has besides a header that no form of another site can send. Where the node
//!   has no passwords, a login shows the token of the second port.
//! - **How much** ([`query`]): rows, bytes and time of an answer, statements that wait.

mod assets;
mod blocks;
mod door;
mod metrics;
mod query;
mod session;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value as Json, json};

pub use metrics::of_open_metrics;

use door::Console;

/// The largest request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How a process of the same machine reaches the PostgreSQL port.
#[derive(Clone, Debug)]
pub enum WayIn {
    /// The socket's folder, and the port that is part of its name.
    Socket(PathBuf, u16),
    Tcp(std::net::SocketAddr),
}

/// The node that is shown.
pub trait Node: Send + Sync + 'static {
    /// `None` while it starts.
    fn way_in(&self) -> Option<WayIn>;

    /// Whether users have passwords. Where they have none, the token is asked for.
    fn has_passwords(&self) -> bool;

    /// The user whose name the login proposes.
    fn owner(&self) -> String;

    fn is_token(&self, shown: &str) -> bool;

    /// Nothing that has to be kept from those who reach the port: no row, no name.
    fn overview(&self) -> Json;

    /// Blocks below a height (`None`: the newest), newest first. Reads files.
    fn blocks(&self, below: Option<u64>, count: usize) -> Result<Json, String>;

    /// A block and some of its transactions; `None`: there is no such block. Reads files.
    fn block(&self, height: u64, from: usize, count: usize) -> Result<Option<Json>, String>;

    /// The block of this hash, or of the transaction with this id, as far as it is among those
    /// that are looked through. Reads files.
    fn find(&self, hash: &str) -> Result<Json, String>;
}

/// Whether a path is the console's, which then decides who may ask for it.
pub fn is_own(path: &str) -> bool {
    path.starts_with("/console/")
}

/// To be merged into the router of the second port.
pub fn router(node: Arc<dyn Node>) -> Router {
    let console = Arc::new(Console::new(node));
    tokio::spawn(session::end_idle(Arc::downgrade(&console)));
    let asked = Router::new()
        .route("/console/session", get(door::shown))
        .route("/console/overview", get(overview))
        .route("/console/login", post(door::login))
        .route("/console/logout", post(door::logout))
        .route("/console/query", post(query::answer))
        .route("/console/blocks", get(blocks::list))
        .route("/console/block/{height}", get(blocks::one))
        .route("/console/find/{hash}", get(blocks::find))
        .with_state(console)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(door::admit));
    asked.merge(assets::router()).layer(middleware::map_response(hardened))
}

async fn overview(State(console): State<Arc<Console>>) -> Response {
    let node = console.node.clone();
    match aside(move || node.overview()).await {
        Ok(overview) => answer(StatusCode::OK, &overview),
        Err(stopping) => stopping,
    }
}

/// Runs what reads files or takes locks beside the threads that serve connections.
fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, Response>> {
    let running = tokio::task::spawn_blocking(work);
    async { running.await.map_err(|_| refuse(StatusCode::SERVICE_UNAVAILABLE, "stopping", "")) }
}

fn answer(status: StatusCode, value: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// An error that is not one of SQL.
fn refuse(status: StatusCode, message: &str, hint: &str) -> Response {
    answer(status, &json!({"error": {"message": message, "hint": hint}}))
}

/// Nothing but the node itself is loaded or asked, no other page frames these, nothing is kept.
async fn hardened(mut response: Response) -> Response {
    const HEADERS: [(header::HeaderName, &str); 5] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
