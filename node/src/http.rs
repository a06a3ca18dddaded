//! The second port: `/livez`, `/readyz`, `/metrics`, `/head`, `/checkpoint`, `/prune`, `/members`,
//! and the console ([`console`]). Reading is free for those that reach it, changing needs a token
//! ([`guard`]).
//!
//! Live means that the process answers; ready means that the ledger was read and sessions are
//! admitted. A node that is starting or stopping, that serves reads only because the disk failed,
//! that waits for room on a full disk, or that is of a cluster which cannot order, is live and not
//! ready; the latter three say why. A GET of `/checkpoint` tells how the newest one stands, a POST
//! asks for one and is answered when it is durable. `/head` names the ledger and the newest block
//! in its files, which under `log_scheme` none is older than what sessions see; `/head?ledger=ID`
//! those of a database. A POST of `/prune`
//! is for those who can write the data folder ([`crate::prune`]).

mod blocks;
mod changes;
mod client;
mod conflicts;
mod console;
mod cut;
mod guard;

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing;
use ledger::hash::to_hex;
use serde_json::json;
use tokio::net::TcpListener;
use types::SqlState;

use crate::checkpoints;
use crate::cluster;
use crate::folders;
use crate::observed::{Observed, Phase};
use crate::prune;

pub use client::{Answer, get, post};
pub use guard::Guard;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers until the task is dropped.
pub async fn serve(listener: TcpListener, observed: Arc<Observed>, guard: Arc<Guard>) {
    let shown = console::Shown {
        observed: observed.clone(),
        guard: guard.clone(),
        places: blocks::Places::default(),
    };
    let router = Router::new()
        .route("/livez", routing::get(|| async { "live\n" }))
        .route("/readyz", routing::get(readyz))
        .route("/metrics", routing::get(metrics))
        .route("/head", routing::get(head))
        .route("/prune", routing::post(prune_blocks))
        .route("/members", routing::get(members).post(change_members))
        .route("/checkpoint", routing::get(checkpoint_standing).post(take_checkpoint))
        .with_state(observed)
        .merge(web_console::router(Arc::new(shown)))
        .layer(middleware::from_fn_with_state(guard, guard::admit));
    guard::serve(listener, router).await;
}

async fn readyz(State(observed): State<Arc<Observed>>) -> impl IntoResponse {
    let forks = observed.forks.get();
    let named = forks.map(|forks| forks.now()).unwrap_or_default();
    let named: String = named.iter().map(|fork| format!("{fork}\n")).collect();
    let hindrance = observed.engine().and_then(|engine| engine.hindrance());
    let why = match (observed.phase(), hindrance) {
        (Phase::Ready, Some(why)) => {
            format!("nothing can be written, reads go on: {why}\n{named}")
        }
        (Phase::Ready, None) if forks.is_some_and(|forks| forks.is_outnumbered()) => named,
        (Phase::Ready, None) => {
            let ready = ready(observed.metrics.torn_tails.get());
            return (StatusCode::OK, ready + &named);
        }
        (Phase::Starting, _) => "starting\n".to_owned(),
        (Phase::Stopping, _) => "stopping\n".to_owned(),
        (Phase::Halted, _) => {
            let cause = observed.engine().and_then(|engine| engine.halt_cause());
            let hint = cause.and_then(|cause| cause.fields().hint.as_deref());
            let hint = hint.map(|hint| format!("{hint}\n")).unwrap_or_default();
            let cause = cause.map(ToString::to_string).unwrap_or_default();
            format!("reads only: {cause}\n{hint}{named}")
        }
    };
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Cut ends are told until they were looked at.
fn ready(torn_tails: u64) -> String {
    match torn_tails {
        0 => "ready\n".to_owned(),
        some => format!(
            "ready; {some} cut ends of the ledger lie in the folder quarantine: look at them, then \
             move them away before the next start\n"
        ),
    }
}

async fn head(State(observed): State<Arc<Observed>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let Some(engine) = observed.engine_of(query.strip_prefix("ledger=")) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response();
    };
    let ledger_id = to_hex(&engine.ledger_id());
    // Of the files, since a backup copies them next.
    let written = tokio::task::spawn_blocking(move || engine.written()).await;
    let (height, hash) = match written {
        Ok(Ok(Some(newest))) => newest,
        Ok(Err(error)) => {
            return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response();
        }
        Ok(Ok(None)) | Err(_) => {
            return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response();
        }
    };
    json_page(&json!({
        "ledger_id": ledger_id,
        "height": height,
        "head": to_hex(&hash),
    }))
}

async fn prune_blocks(
    State(observed): State<Arc<Observed>>,
    RawQuery(request): RawQuery,
) -> Response {
    let request = request.unwrap_or_default();
    let done = tokio::task::spawn_blocking(move || prune::by_request(&observed, &request)).await;
    match done {
        Ok(Some(Ok(pruned))) => json_page(&prune::pruned_json(&pruned)),
        Ok(None) => (StatusCode::FORBIDDEN, "there is no such request\n").into_response(),
        Ok(Some(Err(error))) => {
            let hint = folders::hint_of(&error).unwrap_or_default();
            (StatusCode::CONFLICT, format!("{error:#}\n{hint}\n")).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}

async fn members(State(observed): State<Arc<Observed>>) -> Response {
    match observed.engine().map(|engine| cluster::shown(engine)) {
        Some(Ok(shown)) => json_page(&shown),
        Some(Err(error)) => (StatusCode::CONFLICT, format!("{error:#}\n")).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
    }
}

async fn change_members(
    State(observed): State<Arc<Observed>>,
    RawQuery(request): RawQuery,
) -> Response {
    let (Some(engine), Some(owner)) = (observed.engine(), observed.owner.get()) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response();
    };
    let request = request.unwrap_or_default();
    let changed = match request.strip_prefix("rotate=") {
        Some(member) => match observed.rotation.get() {
            Some(rotation) => rotation.begin(engine, owner, member).await,
            None => Err(anyhow::anyhow!("this node is no member of a cluster")),
        },
        None => cluster::by_request(engine, owner, &request).await,
    };
    match changed {
        Ok(shown) => json_page(&shown),
        Err(error) => {
            let hint = folders::hint_of(&error).unwrap_or_default();
            (StatusCode::CONFLICT, format!("{error:#}\n{hint}\n")).into_response()
        }
    }
}

async fn checkpoint_standing(State(observed): State<Arc<Observed>>) -> Response {
    let Some(engine) = observed.engine() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response();
    };
    json_page(&checkpoints::standing_json(&engine.checkpoint_standing()))
}

async fn take_checkpoint(State(observed): State<Arc<Observed>>) -> Response {
    let Some(engine) = observed.engine() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response();
    };
    let taken = match engine.checkpoint() {
        Ok(answer) => answer.await,
        Err(error) => Ok(Err(error)),
    };
    match taken {
        Ok(Ok(taken)) => json_page(&checkpoints::taken_json(&taken)),
        Ok(Err(error)) => {
            let status = match error.code() {
                SqlState::ADMIN_SHUTDOWN => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            let hint = error.fields().hint.as_deref().unwrap_or_default();
            (status, format!("{error}\n{hint}\n")).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}

fn json_page(value: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn metrics(State(observed): State<Arc<Observed>>) -> impl IntoResponse {
    match observed.metrics.page() {
        Ok(page) => ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn fetch(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_follow_the_phase() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let observed = Arc::new(Observed::default());
        tokio::spawn(serve(listener, observed.clone(), Arc::default()));
        let readyz = fetch(address, "/readyz").await;
        assert!(readyz.starts_with("HTTP/1.1 503") && readyz.ends_with("starting\n"));
        observed.enter(Phase::Ready);
        assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        observed.metrics.torn_tails.set(1);
        assert!(fetch(address, "/readyz").await.contains("200 OK"));
        assert!(fetch(address, "/readyz").await.contains("ready; 1 cut ends"));
        observed.enter(Phase::Stopping);
        assert!(fetch(address, "/readyz").await.ends_with("stopping\n"));
        assert!(fetch(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let metrics = fetch(address, "/metrics").await;
        assert!(metrics.contains(OPEN_METRICS) && metrics.contains("tally_blocks_total 0"));
        assert!(fetch(address, "/other").await.starts_with("HTTP/1.1 404"));
    }
}
