//! Answers in JSON, and work that must not hold up connections.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};

/// Runs what reads files or takes locks beside the threads that serve connections.
pub fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, Response>> {
    let running = tokio::task::spawn_blocking(work);
    async { running.await.map_err(|_| refuse(StatusCode::SERVICE_UNAVAILABLE, "stopping", "")) }
}

pub fn answer(status: StatusCode, value: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// An error that is not one of SQL.
pub fn refuse(status: StatusCode, message: &str, hint: &str) -> Response {
    answer(status, &json!({"error": {"message": message, "hint": hint}}))
}
