//! Statements: one a request, in the session's connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::answers::{answer as answer_with, refuse};
use crate::login::Console;
use crate::session::{Past, STATEMENT_MS_MAX, Session, shown_error};

const ROWS_MAX: usize = 10_000;
const ROWS_USUAL: usize = 1_000;
/// Of the values of an answer.
const BYTES_MAX: usize = 4 << 20;
/// Of everything together. A session that has not answered by then is given up: what state its
/// connection is in is not known.
const WITHIN: Duration = Duration::from_millis(STATEMENT_MS_MAX + 3_000);

#[derive(Deserialize)]
struct Query {
    sql: String,
    /// As text; null is NULL.
    #[serde(default)]
    parameters: Vec<Option<String>>,
    /// The block that the statement reads.
    as_of_block: Option<u64>,
    row_max: Option<usize>,
}

/// What came back.
#[derive(Default)]
struct Answer {
    columns: Vec<Json>,
    rows: Vec<Vec<Option<String>>>,
    bytes: usize,
    /// As the command's tag has it.
    count: Option<u64>,
    truncated: bool,
}

pub async fn answer(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let session = match console.session(&headers) {
        Ok(session) => session,
        Err(refused) => return refused,
    };
    let Ok(query) = serde_json::from_slice::<Query>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "this is no query", "");
    };
    let Ok(_waits) = session.waiting.try_acquire() else {
        let why = "too many statements wait in this session";
        return refuse(StatusCode::TOO_MANY_REQUESTS, why, "Try again.");
    };
    let mut past = session.turn.lock().await;
    let began = Instant::now();
    session.take_notices();
    let Ok(ran) = tokio::time::timeout(WITHIN, run(&session, &mut past, &query)).await else {
        console.sessions.give_up(&session);
        let hint = "Log in again. Bound what the statement reads, or use psql.";
        return refuse(StatusCode::GATEWAY_TIMEOUT, "the statement took too long", hint);
    };
    let elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
    let notices = session.take_notices();
    let page = match ran {
        Ok(Answer { columns, rows, count, truncated, .. }) => json!({
            "columns": columns, "rows": rows, "count": count, "truncated": truncated,
            "notices": notices, "elapsed_ms": elapsed_ms,
        }),
        Err(error) => {
            let error = shown_error(&error);
            json!({"error": error, "notices": notices, "elapsed_ms": elapsed_ms})
        }
    };
    answer_with(StatusCode::OK, &page)
}

type Result<T> = std::result::Result<T, tokio_postgres::Error>;

async fn run(session: &Session, past: &mut Past, query: &Query) -> Result<Answer> {
    let client = &session.client;
    // Also of a request that was given up midway.
    if past.is_set {
        client.batch_execute("RESET tally.as_of_block").await?;
        past.is_set = false;
    }
    let Some(height) = query.as_of_block else { return ask(session, past, query).await };
    past.is_set = true;
    client.batch_execute(&format!("SET tally.as_of_block = {height}")).await?;
    let answer = ask(session, past, query).await;
    // In a transaction that has failed it is undone with the transaction.
    past.is_set = client.batch_execute("RESET tally.as_of_block").await.is_err();
    answer
}

/// The columns' types are those of the statement as it is prepared; the rows come as text.
async fn ask(session: &Session, past: &mut Past, query: &Query) -> Result<Answer> {
    let client = &session.client;
    let prepared = client.prepare(&query.sql).await?;
    let column = |column: &tokio_postgres::Column| json!({"name": column.name(), "type": column.type_().name()});
    let mut answer =
        Answer { columns: prepared.columns().iter().map(column).collect(), ..Answer::default() };
    let row_max = query.row_max.unwrap_or(ROWS_USUAL).min(ROWS_MAX);
    if query.parameters.is_empty() {
        gather(client, &query.sql, row_max, !session.writes, &mut answer).await?;
        return Ok(answer);
    }
    past.names += 1;
    let name = format!("tally_console_{}", past.names);
    client.batch_execute(&format!("PREPARE {name} AS {}", query.sql)).await?;
    let values: Vec<String> = query.parameters.iter().map(literal).collect();
    let execute = format!("EXECUTE {name}({})", values.join(", "));
    let gathered = gather(client, &execute, row_max, !session.writes, &mut answer).await;
    // Within a transaction that has failed it stays, as one of those that a session may have.
    let _ = client.batch_execute(&format!("DEALLOCATE {name}")).await;
    gathered.map(|()| answer)
}

fn literal(value: &Option<String>) -> String {
    match value {
        Some(text) => format!("'{}'", text.replace('\'', "''")),
        None => "NULL".to_owned(),
    }
}

/// Reads on after the bound without keeping anything, and has a query that only reads canceled.
async fn gather(
    client: &Client,
    sql: &str,
    row_max: usize,
    may_cancel: bool,
    answer: &mut Answer,
) -> Result<()> {
    let mut messages = std::pin::pin!(client.simple_query_raw(sql).await?);
    loop {
        let message = match messages.try_next().await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            // Canceled, most likely.
            Err(error) if answer.truncated && error.as_db_error().is_some() => return Ok(()),
            Err(error) => return Err(error),
        };
        match message {
            SimpleQueryMessage::Row(_) if answer.truncated => {}
            SimpleQueryMessage::Row(row) => {
                let values: Vec<Option<String>> =
                    (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect();
                answer.bytes += values.iter().flatten().map(String::len).sum::<usize>();
                if answer.rows.len() < row_max && answer.bytes <= BYTES_MAX {
                    answer.rows.push(values);
                    continue;
                }
                answer.truncated = true;
                if may_cancel {
                    let _ = client.cancel_token().cancel_query(NoTls).await;
                }
            }
            SimpleQueryMessage::CommandComplete(count) => answer.count = Some(count),
            _ => {}
        }
    }
}
