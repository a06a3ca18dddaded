//! Asks the second port of another process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What a second port answered.
pub struct Answer {
    /// Whether the status is 200.
    pub is_ok: bool,
    pub body: String,
}

/// Asks the second port of another process.
pub fn get(address: SocketAddr, path: &str, within: Option<Duration>) -> std::io::Result<Answer> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\n"), within)
}

/// Has another process change something, however long that takes.
pub fn post(address: SocketAddr, path: &str, token: &str) -> std::io::Result<Answer> {
    let request = format!("POST {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n");
    exchange(address, &request, None)
}

fn exchange(
    address: SocketAddr,
    request: &str,
    within: Option<Duration>,
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(within)?;
    let request = format!("{request}Host: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let is_ok = head.split(' ').nth(1) == Some("200");
    Ok(Answer { is_ok, body: body.to_owned() })
}
