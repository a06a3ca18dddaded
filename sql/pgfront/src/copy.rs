//! COPY: bulk data through the connection, a message at a time.
//!
//! Neither direction gathers data. Incoming messages go to the session as they arrive, and the
//! next is read only when it has taken the last; outgoing chunks are made only when the client
//! has read the ones before. TCP then slows the faster side.

use std::borrow::Cow;

use types::{Error, SqlState};

use crate::backend::{CopyChunks, Response, Session};
use crate::cancel::{Cancel, canceled};
use crate::failure::Failure;
use crate::fetch::next;
use crate::message::{Format, decode_text, kind};
use crate::reply;
use crate::wire::{Closed, Wire};

/// `COPY … FROM STDIN`: hands the client's data to the session until the client ends it.
///
/// Sync and Flush are ignored meanwhile, since clients send a Sync right after the Execute that
/// turns out to start a copy. After an error the rest of the client's data is ignored by the main
/// loop.
pub async fn receive<N: Session>(
    wire: &mut Wire,
    session: &mut N,
    cancel: &Cancel,
    (columns, format): (usize, Format),
) -> Result<Response, Failure> {
    reply::copy_in_response(&mut wire.output, columns, format)?;
    wire.flush().await?;
    loop {
        if cancel.is_requested() {
            return Err(give_up(session, canceled()));
        }
        let Some(frame) = wire.buffered_frame()? else {
            tokio::select! {
                biased;
                filled = wire.fill() => filled?,
                () = cancel.requested() => {}
            }
            continue;
        };
        match frame.kind {
            kind::COPY_DATA => {
                let data = match wire.encoding.filter(|_| format == Format::Text) {
                    None => Cow::Borrowed(wire.body(&frame)),
                    Some(encoding) => {
                        let decoded = encoding.decode(wire.body(&frame));
                        decoded.map_err(|error| give_up(session, error))?
                    }
                };
                session.copy_in_data(&data).await?;
            }
            kind::COPY_DONE => return Ok(session.copy_in_done().await?),
            kind::COPY_FAIL => {
                let body = wire.text_body(&frame).unwrap_or_default();
                let reason = decode_text(&body).unwrap_or("no reason given");
                let message = format!("COPY from stdin failed: {reason}");
                let error = Error::new(SqlState::QUERY_CANCELED, message);
                return Err(give_up(session, error));
            }
            kind::SYNC | kind::FLUSH => {}
            kind::TERMINATE => return Err(Failure::Connection(Closed::Normally)),
            other => {
                let message =
                    format!("unexpected message type 0x{other:02X} during COPY from stdin");
                let error = Error::new(SqlState::PROTOCOL_VIOLATION, message);
                return Err(give_up(session, error));
            }
        }
    }
}

fn give_up<N: Session>(session: &mut N, error: Error) -> Failure {
    session.copy_in_fail(&error);
    Failure::Statement(error)
}

/// `COPY … TO STDOUT`: pulls chunks as fast as the client reads them, each row a message, many
/// messages a write. Returns the rows sent.
pub async fn send(
    wire: &mut Wire,
    cancel: &Cancel,
    (columns, format): (usize, Format),
    mut chunks: CopyChunks,
) -> Result<u64, Failure> {
    reply::copy_out_response(&mut wire.output, columns, format)?;
    let encoding = wire.encoding.filter(|_| format == Format::Text);
    let mut rows = 0u64;
    while let Some(chunk) = next(&mut chunks, wire).await? {
        let chunk = chunk?;
        cancel.check()?;
        let mut start = 0;
        for &end in &chunk.ends {
            reply::copy_data(&mut wire.output, &chunk.bytes[start..end], encoding)?;
            start = end;
            wire.flush_if_large().await?;
        }
        rows = rows.saturating_add(chunk.rows);
    }
    wire.output.extend_from_slice(&reply::COPY_DONE);
    Ok(rows)
}
