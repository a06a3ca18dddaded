//! A client that sends and reads message by message.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::soon;

/// A server's message: kind and body.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub kind: char,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A field of ErrorResponse or NoticeResponse.
    pub fn field(&self, code: char) -> Option<String> {
        let fields = self.text();
        let mut fields = fields.split('\0');
        fields.find_map(|field| field.strip_prefix(code).map(str::to_owned))
    }

    pub fn sqlstate(&self) -> String {
        assert_eq!(self.kind, 'E', "expected an error, not {self:?}");
        self.field('C').expect("a SQLSTATE")
    }

    /// The values of a DataRow.
    pub fn values(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, 'D', "expected a row, not {self:?}");
        let mut rest = &self.body[2..];
        let mut values = Vec::new();
        while let Some((length, tail)) = rest.split_first_chunk() {
            rest = tail;
            values.push(usize::try_from(i32::from_be_bytes(*length)).ok().map(|n| {
                let (value, tail) = rest.split_at(n);
                rest = tail;
                value.to_vec()
            }));
        }
        values
    }
}

pub struct Client<S> {
    pub stream: S,
}

/// A message with its kind and length.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0, 3, 0, 0];
    for (name, value) in parameters {
        body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    body.push(0);
    let mut bytes = (body.len() as i32 + 4).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Parameters as text, all results in `format`.
pub fn bind(portal: &str, statement: &str, values: &[Option<&str>], format: u8) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        let length = value.map_or(-1, |v| v.len() as i32);
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(value.unwrap_or_default().as_bytes());
    }
    body.extend_from_slice(&[0, 1, 0, format]);
    message(b'B', &body)
}

pub fn describe(target: char, name: &str) -> Vec<u8> {
    message(b'D', format!("{target}{name}\0").as_bytes())
}

pub fn close(target: char, name: &str) -> Vec<u8> {
    message(b'C', format!("{target}{name}\0").as_bytes())
}

pub fn execute(portal: &str, max_rows: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend_from_slice(&max_rows.to_be_bytes());
    message(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// Parse, Bind and Execute of one statement without parameters.
pub fn run(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", "", &[], 0), execute("", 0)].concat()
}

impl Client<TcpStream> {
    pub async fn raw(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        Client { stream }
    }

    /// Connected as a trusted user, up to the first ReadyForQuery.
    pub async fn connect(address: SocketAddr) -> Self {
        let mut client = Self::raw(address).await;
        client.send(startup(&[("user", "bench")])).await;
        client.until_ready().await;
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.stream.write_all(bytes.as_ref())).await.expect("the server reads");
    }

    /// The next message; `None` when the server has closed.
    pub async fn next(&mut self) -> Option<Reply> {
        soon(async {
            let mut header = [0; 5];
            self.stream.read_exact(&mut header).await.ok()?;
            let [kind, length @ ..] = header;
            let mut body = vec![0; i32::from_be_bytes(length) as usize - 4];
            self.stream.read_exact(&mut body).await.ok()?;
            let kind = kind.into();
            Some(Reply { kind, body })
        })
        .await
    }

    /// The messages up to and with ReadyForQuery.
    pub async fn until_ready(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.next().await {
            let ready = reply.kind == 'Z';
            replies.push(reply);
            if ready {
                return replies;
            }
        }
        panic!("the server closed after {replies:?}");
    }

    pub async fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Vec<Reply> {
        self.send(bytes).await;
        self.until_ready().await
    }

    /// Messages until the server closes.
    pub async fn until_closed(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.next().await {
            replies.push(reply);
        }
        replies
    }
}

/// Kinds of `replies` as one word.
pub fn kinds(replies: &[Reply]) -> String {
    replies.iter().map(|reply| reply.kind).collect()
}

/// The completion tags among `replies`.
pub fn tags(replies: &[Reply]) -> Vec<String> {
    replies
        .iter()
        .filter(|reply| reply.kind == 'C')
        .map(|reply| reply.text().trim_end_matches('\0').to_owned())
        .collect()
}
