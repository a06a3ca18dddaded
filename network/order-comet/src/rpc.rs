//! What is asked of CometBFT: one request of its RPC over a socket in its folder.
//!
//! HTTP 1.0, so that a connection holds one answer and ends with it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Returns when it waits to be ordered.
pub(crate) fn broadcast(socket: &Path, tx: &[u8]) -> io::Result<()> {
    let params = json!({"tx": BASE64_STANDARD.encode(tx)});
    let answer = call(socket, "broadcast_tx_sync", params)?;
    match answer["code"].as_u64() {
        Some(0) => Ok(()),
        _ => Err(io::Error::other(format!("CometBFT does not take a transaction: {answer}"))),
    }
}

/// Names of the nodes that it is connected to.
pub(crate) fn peers(socket: &Path) -> io::Result<Vec<String>> {
    let answer = call(socket, "net_info", json!({}))?;
    let peers = answer["peers"].as_array().into_iter().flatten();
    Ok(peers.filter_map(|it| it["node_info"]["id"].as_str().map(str::to_owned)).collect())
}

fn call(socket: &Path, method: &str, params: Value) -> io::Result<Value> {
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        ask.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(ask.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| &answer[at + 4..]);
    let body = body.ok_or_else(|| io::Error::other("CometBFT gives no answer"))?;
    let mut answer: Value = serde_json::from_slice(body).map_err(io::Error::other)?;
    match answer.get("error") {
        Some(error) => Err(io::Error::other(format!("CometBFT refuses {method}: {error}"))),
        None => Ok(answer["result"].take()),
    }
}
