//! What people see of a node in a browser: pages that are part of the program, and what they ask.
//!
//! ```text
//!   browser ── GET /, /console.js … ──► the bundle of web/, as dist/ has it
//!           ── /console/overview ─────► what /metrics has, for all who reach the port
//!           ── /console/login ────────► a session: a cookie here, a connection there
//!           ── /console/query ────────► the node's own PostgreSQL port, as that user
//!           ── /console/blocks … ─────► the ledger's files, and versions of rows
//! ```
//!
//! Statements take the way of every client, so users, passwords, privileges and bounds are those of
//! the PostgreSQL port, and nothing is decided a second time. What is decided here:
//!
//! - **Who asks** ([`login`]): a cookie of 256 random bits that scripts cannot read and other sites
//!   cannot send; a POST has besides a header that no form of another site can send. Where the node
//!   has no passwords, a login shows the token of the second port.
//! - **How much** ([`query`]): rows, bytes and time of an answer, statements that wait.

mod answers;
mod assets;
mod blocks;
mod login;
mod metrics;
mod node;
mod query;
mod session;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};

pub use metrics::of_open_metrics;
pub use node::{Node, SqlAddress};

use answers::{answer, aside};
use login::Console;

/// The largest request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Whether a path is the console's, which then decides who may ask for it.
pub fn is_own(path: &str) -> bool {
    path.starts_with("/console/")
}

/// To be merged into the router of the second port.
pub fn router(node: Arc<dyn Node>) -> Router {
    let console = Arc::new(Console::new(node));
    tokio::spawn(login::end_idle(Arc::downgrade(&console)));
    let asked = Router::new()
        .route("/console/session", get(login::shown))
        .route("/console/overview", get(overview))
        .route("/console/login", post(login::login))
        .route("/console/logout", post(login::logout))
        .route("/console/query", post(query::answer))
        .route("/console/blocks", get(blocks::list))
        .route("/console/block/{height}", get(blocks::one))
        .route("/console/find/{hash}", get(blocks::find))
        .route("/console/search/{text}", get(blocks::search))
        .route("/console/changes/{height}", get(blocks::changes))
        .route("/console/conflicts", get(blocks::conflicts))
        .with_state(console)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(login::admit));
    asked.merge(assets::router()).layer(middleware::map_response(hardened))
}

async fn overview(State(console): State<Arc<Console>>) -> Response {
    let node = console.node.clone();
    match aside(move || node.overview()).await {
        Ok(overview) => answer(StatusCode::OK, &overview),
        Err(stopping) => stopping,
    }
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
