//! The byte stream cut into frames, and the replies gathered before they are sent.
//!
//! ```text
//! frame:  kind: 1 | length: 4, big endian, counts itself | body: length - 4
//! ```
//!
//! Frames stay where they were read: a frame is looked at in place and given back by asking for
//! the next one. Input grows only as fast as bytes arrive, never because a header promises them,
//! and no frame may exceed the limit that was set. Output is sent when the client has to see it
//! (after Sync and the like, once no further whole frame waits) or when it exceeds
//! [`OUTPUT_HIGH`], which is what makes a large result wait for a slow reader.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use kit::pool::Lease;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::{Error, SqlState};

use crate::cancel::Control;
use crate::encoding::Encoding;
use crate::message::kind;
use crate::stream::Stream;

/// Read and write buffers start at this size and return to it after a large message.
const BUFFER_BYTES: usize = 16 << 10;
/// Buffers larger than this are given back as soon as they are empty.
const BUFFER_KEEP_BYTES: usize = 1 << 20;
/// What a client may send ahead while its statement runs. After more than this its end is seen
/// only at the next write.
const READ_AHEAD_BYTES_MAX: usize = 256 << 10;
/// Replies beyond this size are sent before more are made.
pub const OUTPUT_HIGH: usize = 64 << 10;
/// What a client may send before it has authenticated, as in PostgreSQL.
pub const STARTUP_FRAME_MAX: usize = 10_000;

/// How long a client may take to read what it was sent when the server shuts down.
const LAST_READ: Duration = Duration::from_millis(200);

const HEADER: usize = 5;

/// Why a connection ends.
#[derive(Debug)]
pub enum Closed {
    /// The client said goodbye, or hung up between two messages.
    Normally,
    /// The socket failed, or closed inside a message.
    Io(io::Error),
    /// The client is told why.
    Fatal(Error),
}

impl From<io::Error> for Closed {
    fn from(error: io::Error) -> Self {
        Closed::Io(error)
    }
}

/// A whole message in the input buffer, valid until the next one is asked for.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    body: Range<usize>,
}

pub struct Wire {
    stream: Stream,
    input: BytesMut,
    /// Bytes at the start of `input` that belong to the frame in hand.
    in_hand: usize,
    frame_max: usize,
    pub output: Vec<u8>,
    /// Covers both buffers, where they are large; before the client is known nothing does.
    lease: Option<Lease>,
    /// Says when the server shuts down.
    control: Option<Arc<Control>>,
    /// The client's; `None`: UTF-8.
    pub encoding: Option<&'static Encoding>,
}

impl Wire {
    pub fn new(stream: Stream) -> Self {
        Wire {
            stream,
            input: BytesMut::with_capacity(BUFFER_BYTES),
            in_hand: 0,
            frame_max: STARTUP_FRAME_MAX,
            output: Vec::with_capacity(BUFFER_BYTES),
            lease: None,
            control: None,
            encoding: None,
        }
    }

    /// The client is known: what it sends may be long.
    pub(crate) fn admit(&mut self, frame_max: usize, lease: Lease, control: Arc<Control>) {
        self.frame_max = frame_max;
        (self.lease, self.control) = (Some(lease), Some(control));
    }

    fn bytes(&self) -> u64 {
        (self.input.capacity() + self.output.capacity()) as u64
    }

    /// Where a buffer went back to its size.
    fn shrink_lease(&mut self) {
        let bytes = self.bytes();
        if let Some(lease) = &mut self.lease {
            lease.shrink(bytes);
        }
    }

    /// The stream alone, for a TLS handshake. Bytes that were read ahead would be cleartext that
    /// an attacker put before the handshake, so there must be none.
    pub fn into_stream(mut self) -> Result<Stream, Closed> {
        self.release();
        if self.input.is_empty() {
            Ok(self.stream)
        } else {
            Err(Closed::Fatal(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                "received unencrypted data after SSL request",
            )))
        }
    }

    /// Gives the frame in hand back.
    fn release(&mut self) {
        self.input.advance(self.in_hand);
        self.in_hand = 0;
        if self.input.is_empty() && self.input.capacity() > BUFFER_KEEP_BYTES {
            self.input = BytesMut::with_capacity(BUFFER_BYTES);
            self.shrink_lease();
        }
    }

    pub fn body(&self, frame: &Frame) -> &[u8] {
        &self.input[frame.body.clone()]
    }

    /// The body of a message whose names and statements are in the client's encoding, in UTF-8.
    pub fn text_body(&self, frame: &Frame) -> types::Result<Cow<'_, [u8]>> {
        let body = self.body(frame);
        let decoded = match self.encoding {
            None => None,
            Some(encoding) => encoding.decode_message(frame.kind, body)?,
        };
        Ok(decoded.map_or(Cow::Borrowed(body), Cow::Owned))
    }

    /// Turns what was written since into the client's encoding.
    pub fn encode_messages(&mut self, start: usize) {
        if let Some(encoding) = self.encoding {
            encoding.encode_messages(&mut self.output, start);
        }
    }

    /// The next message if it has arrived whole.
    pub fn buffered_frame(&mut self) -> Result<Option<Frame>, Closed> {
        self.release();
        let Some(header) = self.input.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [kind, length @ ..] = *header;
        let end = 1 + self.checked_length(length)?;
        if self.input.len() < end {
            self.make_room(end)?;
            return Ok(None);
        }
        self.in_hand = end;
        Ok(Some(Frame { kind, body: HEADER..end }))
    }

    /// The first message of a connection: no kind byte.
    pub async fn startup_frame(&mut self) -> Result<Frame, Closed> {
        self.release();
        loop {
            if let Some(length) = self.input.first_chunk::<4>() {
                let end = self.checked_length(*length)?;
                if self.input.len() >= end {
                    self.in_hand = end;
                    return Ok(Frame { kind: 0, body: 4..end });
                }
            }
            self.fill().await?;
        }
    }

    fn checked_length(&self, length: [u8; 4]) -> Result<usize, Closed> {
        match usize::try_from(i32::from_be_bytes(length)) {
            Ok(length) if length < 4 => Err(malformed("invalid message length")),
            Ok(length) if length > self.frame_max => Err(Closed::Fatal(
                Error::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!("message of {length} bytes is too long"),
                )
                .with_detail(format!("The limit is {} bytes.", self.frame_max)),
            )),
            Ok(length) => Ok(length),
            Err(_) => Err(malformed("invalid message length")),
        }
    }

    /// Room for the rest of a message, at most doubling what has arrived.
    fn make_room(&mut self, end: usize) -> Result<(), Closed> {
        let missing = end - self.input.len();
        let more = missing.min(self.input.len().max(BUFFER_BYTES));
        if self.input.capacity() - self.input.len() < more {
            let bytes = self.bytes() + more as u64;
            if let Some(lease) = &mut self.lease {
                lease.cover(bytes).map_err(|full| Closed::Fatal(full.into()))?;
            }
            self.input.reserve(more);
        }
        Ok(())
    }

    /// Waits for more input. Nothing is lost if the future is dropped.
    pub async fn fill(&mut self) -> Result<(), Closed> {
        if self.input.capacity() - self.input.len() < BUFFER_BYTES / 4 {
            self.input.reserve(BUFFER_BYTES);
        }
        if self.stream.read_buf(&mut self.input).await? > 0 {
            return Ok(());
        }
        if self.input.is_empty() {
            Err(Closed::Normally)
        } else {
            Err(Closed::Io(io::ErrorKind::UnexpectedEof.into()))
        }
    }

    /// Completes when the client is gone, and keeps what it sends until then. Nothing is lost if
    /// the future is dropped.
    ///
    /// A client that has closed its sending half alone is gone, too: it can ask for nothing more,
    /// not even for a cancellation. Unless it has said farewell: then it wants what it has sent
    /// before to be done.
    pub async fn hung_up(&mut self) -> Closed {
        while self.input.len() < READ_AHEAD_BYTES_MAX {
            if let Err(closed) = self.fill().await {
                if !self.waiting_kinds().any(|waiting| waiting == kind::TERMINATE) {
                    return closed;
                }
                break;
            }
        }
        std::future::pending().await
    }

    /// Kinds of the whole messages that wait behind the one in hand.
    pub fn waiting_kinds(&self) -> impl Iterator<Item = u8> + '_ {
        let mut rest = &self.input[self.in_hand..];
        std::iter::from_fn(move || {
            let [kind, length @ ..] = *rest.first_chunk::<HEADER>()?;
            let end = usize::try_from(i32::from_be_bytes(length)).ok()? + 1;
            rest = rest.get(end..)?;
            Some(kind)
        })
    }

    pub async fn flush(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let stream = &mut self.stream;
        let write = async {
            stream.write_all(&self.output).await?;
            stream.flush().await
        };
        match &self.control {
            None => write.await?,
            Some(control) => tokio::select! {
                biased;
                written = write => written?,
                () = given_up(control) => return Err(io::ErrorKind::TimedOut.into()),
            },
        }
        self.output.clear();
        if self.output.capacity() > BUFFER_KEEP_BYTES {
            self.output = Vec::with_capacity(BUFFER_BYTES);
            self.shrink_lease();
        }
        Ok(())
    }

    /// Sends what has gathered if that is a lot.
    pub async fn flush_if_large(&mut self) -> io::Result<()> {
        if self.output.len() > OUTPUT_HIGH {
            let bytes = self.bytes();
            if let Some(lease) = &mut self.lease {
                // A row of long values was written, of which the session has had memory.
                lease.cover_anyway(bytes);
            }
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends the rest and closes. Input that is still on its way is read and forgotten, since
    /// closing a socket that has unread input would destroy what the client has not read yet.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown().await?;
        let mut left = BUFFER_KEEP_BYTES;
        while left > 0 {
            self.input.clear();
            self.input.reserve(BUFFER_BYTES);
            let read = self.stream.read_buf(&mut self.input).await?;
            if read == 0 {
                break;
            }
            left = left.saturating_sub(read);
        }
        Ok(())
    }
}

/// The server shuts down, and the client has had time to read.
async fn given_up(control: &Control) {
    control.woken().await;
    tokio::time::sleep(LAST_READ).await;
}

/// The client does not speak the protocol; nothing after this can be understood.
pub fn malformed(message: impl Into<String>) -> Closed {
    Closed::Fatal(Error::new(SqlState::PROTOCOL_VIOLATION, message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::net::UnixStream;

    use super::*;

    async fn frames(wire: &mut Wire) -> (Vec<(u8, Vec<u8>)>, Closed) {
        let mut frames = Vec::new();
        loop {
            match wire.buffered_frame() {
                Ok(Some(frame)) => frames.push((frame.kind, wire.body(&frame).to_vec())),
                Ok(None) => {
                    if let Err(closed) = wire.fill().await {
                        return (frames, closed);
                    }
                }
                Err(closed) => return (frames, closed),
            }
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.unwrap().block_on(future)
    }

    /// A client and the wire that it is at the other end of.
    fn connected() -> (UnixStream, Wire) {
        let (client, server) = UnixStream::pair().unwrap();
        (client, Wire::new(Stream::Unix(server)))
    }

    fn encode(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However the bytes are cut on their way, the same frames come out.
        #[test]
        fn frames_do_not_depend_on_packets(
            messages in proptest::collection::vec(
                (any::<u8>(), prop_oneof![0..50usize, 0..50_000usize]), 0..8),
            cuts in proptest::collection::vec(1..20_000usize, 1..20),
        ) {
            let sent: Vec<_> = messages.iter().map(|&(k, n)| (k, vec![k; n])).collect();
            let bytes: Vec<u8> = sent.iter().flat_map(|(k, b)| encode(*k, b)).collect();
            let (read, closed) = block_on(async {
                let (mut client, mut wire) = connected();
                wire.frame_max = 100_000;
                let sending = async move {
                    let mut rest = &bytes[..];
                    for cut in cuts.into_iter().cycle() {
                        let (packet, tail) = rest.split_at(cut.min(rest.len()));
                        client.write_all(packet).await.unwrap();
                        rest = tail;
                        if rest.is_empty() {
                            break;
                        }
                    }
                };
                futures::future::join(frames(&mut wire), sending).await.0
            });
            prop_assert_eq!(read, sent);
            prop_assert!(matches!(closed, Closed::Normally));
        }
    }

    #[test]
    fn a_promise_of_bytes_allocates_nothing() {
        let (capacity, closed) = block_on(async {
            let (mut client, mut wire) = connected();
            wire.frame_max = usize::MAX;
            client.write_all(b"d\x7f\xff\xff\xffdata").await.unwrap();
            drop(client);
            let (_, closed) = frames(&mut wire).await;
            (wire.input.capacity(), closed)
        });
        assert!(capacity <= 4 * BUFFER_BYTES, "{capacity}");
        assert!(matches!(closed, Closed::Io(_)), "the message was cut short");
    }

    #[test]
    fn a_large_message_leaves_no_large_buffer() {
        let large = encode(b'd', &vec![0; 3 << 20]);
        block_on(async {
            let (mut client, mut wire) = connected();
            wire.frame_max = 4 << 20;
            let sending = async {
                client.write_all(&large).await.unwrap();
                drop(client);
            };
            let ((read, _), ()) = futures::future::join(frames(&mut wire), sending).await;
            assert_eq!(read[0].1.len(), 3 << 20);
            assert!(wire.input.capacity() <= BUFFER_KEEP_BYTES);
        });
    }

    #[test]
    fn waiting_kinds_are_those_of_whole_messages() {
        let (_, mut wire) = block_on(async { connected() });
        let cut = &encode(b'E', b"123")[..6];
        let parts = [&encode(b'B', b"12"), &encode(b'E', b""), &encode(b'S', b"")[..], cut];
        wire.input.extend_from_slice(&parts.concat());
        assert_eq!(wire.waiting_kinds().collect::<Vec<_>>(), b"BES");
        wire.buffered_frame().unwrap();
        assert_eq!(wire.waiting_kinds().collect::<Vec<_>>(), b"ES");
        wire.input.clear();
        wire.in_hand = 0;
        wire.input.extend_from_slice(b"S\xff\xff\xff\xff");
        assert_eq!(wire.waiting_kinds().count(), 0, "lengths are not trusted");
    }
}
