//! The second port: `/livez`, `/readyz`, `/metrics`.
//!
//! Live means that the process answers; ready means that the ledger was read and sessions are
//! admitted. A node that is starting or stopping, or whose engine gave up because the disk failed,
//! is live and not ready.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use engine::Engine;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// A node's phase, as probes see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    Starting = 0,
    Ready = 1,
    Stopping = 2,
    /// The engine takes nothing any more; the node waits to be restarted.
    Halted = 3,
}

/// What the second port shows.
#[derive(Default)]
pub struct Observed {
    phase: AtomicU8,
    /// Set as soon as there is one.
    engine: OnceLock<Arc<Engine>>,
    pub metrics: Arc<Metrics>,
}

impl Observed {
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// From now on, a halt of the engine shows.
    pub fn watch(&self, engine: Arc<Engine>) {
        let _ = self.engine.set(engine);
    }

    pub fn phase(&self) -> Phase {
        if self.engine.get().is_some_and(|engine| engine.is_halted()) {
            return Phase::Halted;
        }
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers until the task is dropped.
pub async fn serve(listener: TcpListener, observed: Arc<Observed>) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "live\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(observed);
    axum::serve(listener, router).await
}

async fn readyz(State(observed): State<Arc<Observed>>) -> impl IntoResponse {
    match observed.phase() {
        Phase::Ready => (StatusCode::OK, "ready\n"),
        Phase::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        Phase::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        Phase::Halted => (StatusCode::SERVICE_UNAVAILABLE, "halted\n"),
    }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
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
        tokio::spawn(serve(listener, observed.clone()));
        let readyz = fetch(address, "/readyz").await;
        assert!(readyz.starts_with("HTTP/1.1 503") && readyz.ends_with("starting\n"));
        observed.enter(Phase::Ready);
        assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        observed.enter(Phase::Stopping);
        assert!(fetch(address, "/readyz").await.ends_with("stopping\n"));
        assert!(fetch(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let metrics = fetch(address, "/metrics").await;
        assert!(metrics.contains(OPEN_METRICS) && metrics.contains("tally_blocks_total 0"));
        assert!(fetch(address, "/other").await.starts_with("HTTP/1.1 404"));
    }
}
