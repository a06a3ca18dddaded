//! One fuzzing session on a raw socket, so that every byte sent is known: what it sends, how long
//! it waits, what it counts as a fault.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use kit::random::Random;

/// A statement that takes longer is ended by the node.
pub const STATEMENT_TIMEOUT_MS: u32 = 1000;

/// Longest wait for an answer before a session gives up and connects again.
const ANSWER_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Statements from a grammar, deeply nested or over many rows.
    Text,
    /// Functions and operators, with arguments that are far too large.
    Values,
    /// Messages of the protocol: out of order, cut, with lengths and counts that are not true.
    Wire,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Text, Kind::Values, Kind::Wire];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Values => "values",
            Kind::Wire => "wire",
        }
    }
}

/// What one turn of a session came to.
#[derive(Default)]
pub struct Found {
    pub errors: u64,
    pub fault: Option<String>,
}

/// A connection of which every byte is known.
pub struct Wire {
    stream: TcpStream,
}

/// The end of a simple query.
#[derive(Default, Debug)]
pub struct Answer {
    /// SQLSTATE and message.
    pub error: Option<(String, String)>,
    pub first_value: Option<String>,
    /// The node has ended the session with the error.
    pub is_last: bool,
}

impl Wire {
    pub fn raw(address: &str) -> io::Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Wire { stream })
    }

    /// Logged in, as the owner.
    pub fn connect(address: &str) -> io::Result<Wire> {
        let mut wire = Wire::raw(address)?;
        let body = b"\0\x03\0\0user\0tally\0database\0tally\0\0";
        wire.stream.write_all(&(body.len() as u32 + 4).to_be_bytes())?;
        wire.stream.write_all(body)?;
        wire.until_ready()?;
        Ok(wire)
    }

    pub fn query(&mut self, text: &str) -> io::Result<Answer> {
        self.query_bytes(text.as_bytes())
    }

    /// A text that need not be UTF-8.
    pub fn query_bytes(&mut self, text: &[u8]) -> io::Result<Answer> {
        self.send(b'Q', &[text, b"\0"].concat())?;
        self.until_ready()
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.stream.write_all(&[&[kind], &length[..], body].concat())
    }

    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn until_ready(&mut self) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let (kind, body) = match self.message() {
                // The node may end a session for whose message it has no memory, and says so.
                Err(error) if answer.is_last && error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(answer);
                }
                read => read?,
            };
            match kind {
                b'Z' => return Ok(answer),
                b'E' => {
                    answer.error = Some(error_of(&body));
                    answer.is_last = body.split(|byte| *byte == 0).any(|field| field == b"VFATAL");
                }
                b'D' if answer.first_value.is_none() && body.len() > 6 => {
                    answer.first_value = Some(String::from_utf8_lossy(&body[6..]).into_owned());
                }
                _ => {}
            }
        }
    }

    pub fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        let mut body = vec![0; (length as usize).saturating_sub(4)];
        self.stream.read_exact(&mut body)?;
        Ok((header[0], body))
    }

    /// Reads what comes within a time, and whether the server has hung up.
    pub fn drain(&mut self, time: Duration) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 << 10];
        let until = Instant::now() + time;
        _ = self.stream.set_read_timeout(Some(Duration::from_millis(20)));
        while Instant::now() < until {
            match self.stream.read(&mut buffer) {
                Ok(0) => return (bytes, true),
                Ok(read) if bytes.len() < 1 << 20 => bytes.extend_from_slice(&buffer[..read]),
                Ok(_) => {}
                Err(error) if is_late(&error) => {}
                Err(_) => return (bytes, true),
            }
        }
        (bytes, false)
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Of an ErrorResponse's fields.
pub fn error_of(body: &[u8]) -> (String, String) {
    let fields = body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let (mut code, mut message) = (String::new(), String::new());
    for field in fields {
        let text = String::from_utf8_lossy(&field[1..]).into_owned();
        match field[0] {
            b'C' => code = text,
            b'M' => message = text,
            _ => {}
        }
    }
    (code, message)
}

pub fn of<'a>(random: &mut Random, choices: &[&'a str]) -> &'a str {
    choices[random.below(choices.len() as u64) as usize]
}
