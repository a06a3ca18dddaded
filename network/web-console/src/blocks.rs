//! Blocks, for users that may read every table: a block holds what was written into any of them.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value as Json, json};

use crate::Node;
use crate::answers::{answer, aside, refuse};
use crate::login::Console;
use crate::session::shown_error;

const BLOCKS_MAX: usize = 100;
const TRANSACTIONS_MAX: usize = 500;
const HASH_DIGITS: usize = 64;
const TEXT_BYTES_MAX: usize = 200;

pub async fn list(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    RawQuery(asked): RawQuery,
) -> Response {
    let below = number(asked.as_deref(), "below");
    let count = number(asked.as_deref(), "count").map_or(BLOCKS_MAX, capped(BLOCKS_MAX));
    read(&console, &headers, move |node| node.blocks(below, count).map(Some)).await
}

pub async fn one(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    Path(height): Path<String>,
    RawQuery(asked): RawQuery,
) -> Response {
    let Ok(height) = height.parse() else {
        return refuse(StatusCode::BAD_REQUEST, "a height is a number", "");
    };
    let from = number(asked.as_deref(), "from").map_or(0, capped(usize::MAX));
    let most = capped(TRANSACTIONS_MAX);
    let count = number(asked.as_deref(), "count").map_or(TRANSACTIONS_MAX, most);
    read(&console, &headers, move |node| node.block(height, from, count)).await
}

pub async fn find(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    Path(hash): Path<String>,
) -> Response {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if hash.len() != HASH_DIGITS || !hash.bytes().all(is_digit) {
        let hint = "64 hexadecimal digits in lower case.";
        return refuse(StatusCode::BAD_REQUEST, "this is no hash", hint);
    }
    read(&console, &headers, move |node| node.find(&hash).map(Some)).await
}

pub async fn search(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    Path(text): Path<String>,
    RawQuery(asked): RawQuery,
) -> Response {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return refuse(StatusCode::BAD_REQUEST, "nothing is looked for, or too much", "");
    }
    let below = number(asked.as_deref(), "below");
    read(&console, &headers, move |node| node.search(&text, below).map(Some)).await
}

pub async fn changes(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    Path(height): Path<String>,
    RawQuery(asked): RawQuery,
) -> Response {
    let Ok(height) = height.parse() else {
        return refuse(StatusCode::BAD_REQUEST, "a height is a number", "");
    };
    let place = |name| {
        let place = number(asked.as_deref(), name)?;
        Some(u32::try_from(place).unwrap_or(u32::MAX))
    };
    let places = place("from").unwrap_or(0)..place("to").unwrap_or(u32::MAX);
    read(&console, &headers, move |node| node.changes(height, places)).await
}

pub async fn conflicts(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    RawQuery(asked): RawQuery,
) -> Response {
    let blocks = number(asked.as_deref(), "blocks").map_or(BLOCKS_MAX, capped(BLOCKS_MAX));
    read(&console, &headers, move |node| node.conflicts(blocks).map(Some)).await
}

/// One reader of files to a session at a time.
async fn read(
    console: &Console,
    headers: &HeaderMap,
    read: impl FnOnce(&dyn Node) -> anyhow::Result<Option<Json>> + Send + 'static,
) -> Response {
    let session = match console.session(headers) {
        Ok(session) => session,
        Err(refused) => return refused,
    };
    match session.reads_all().await {
        Ok(true) => {}
        Ok(false) => {
            let hint = "A superuser grants it: GRANT pg_read_all_data TO …";
            return refuse(StatusCode::FORBIDDEN, "blocks need the role pg_read_all_data", hint);
        }
        Err(error) => return answer(StatusCode::CONFLICT, &json!({"error": shown_error(&error)})),
    }
    let _turn = session.reading.lock().await;
    let node = console.node.clone();
    match aside(move || read(&*node)).await {
        Ok(Ok(Some(found))) => answer(StatusCode::OK, &found),
        Ok(Ok(None)) => refuse(StatusCode::NOT_FOUND, "there is no such block", ""),
        Ok(Err(error)) => refuse(StatusCode::CONFLICT, &format!("{error:#}"), ""),
        Err(stopping) => stopping,
    }
}

fn number(asked: Option<&str>, name: &str) -> Option<u64> {
    let mut pairs = asked?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name)?.1.parse().ok()
}

fn capped(most: usize) -> impl Fn(u64) -> usize {
    move |count| usize::try_from(count).unwrap_or(most).min(most)
}
