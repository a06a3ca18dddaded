//! The rows of COPY TO as the messages that clients read: each row one, the line of names one.

use futures::stream::{self, StreamExt};
use pgfront::{CopyChunk, CopyChunks};
use sql::analytical_engine::{Row, RowBatches};
use sql::copy::CopyFormatter;
use types::Error;

const ROWS_PER_CHUNK: usize = 256;
/// A chunk ends after the row that reaches this.
const CHUNK_BYTES: usize = 64 << 10;

/// A batch of rows may be large, and each becomes several chunks, made when they are asked for.
pub fn chunks(rows: RowBatches, formatter: CopyFormatter) -> CopyChunks {
    let copy = CopyOut { rows, formatter, batch: Vec::new().into_iter(), place: Place::Start };
    stream::try_unfold(
        copy,
        |mut copy| async move { Ok(copy.next().await?.map(|chunk| (chunk, copy))) },
    )
    .boxed()
}

struct CopyOut {
    rows: RowBatches,
    formatter: CopyFormatter,
    batch: std::vec::IntoIter<Row>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Rows,
    Ended,
}

impl CopyOut {
    async fn next(&mut self) -> Result<Option<CopyChunk>, Error> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        if self.place == Place::Start {
            self.place = Place::Rows;
            self.formatter.header(&mut bytes);
            // PostgreSQL sends a binary header together with what follows it, and clients cut it
            // off their first row.
            if !bytes.is_empty() && !self.formatter.is_binary() {
                ends.push(bytes.len());
            }
        }
        while self.place == Place::Rows && self.batch.len() == 0 {
            match self.rows.next().await {
                Some(batch) => self.batch = batch?.into_iter(),
                None => {
                    self.place = Place::Ended;
                    self.formatter.end(&mut bytes);
                    if ends.last().copied().unwrap_or_default() < bytes.len() {
                        ends.push(bytes.len());
                    }
                    return Ok((!ends.is_empty()).then(|| chunk(bytes, ends, 0)));
                }
            }
        }
        let mut rows = 0;
        for row in self.batch.by_ref().take(ROWS_PER_CHUNK) {
            self.formatter.row(&row, &mut bytes)?;
            ends.push(bytes.len());
            rows += 1;
            if bytes.len() >= CHUNK_BYTES {
                break;
            }
        }
        Ok((rows > 0).then(|| chunk(bytes, ends, rows)))
    }
}

fn chunk(bytes: Vec<u8>, ends: Vec<usize>, rows: u64) -> CopyChunk {
    CopyChunk { bytes: bytes.into(), ends, rows }
}

#[cfg(test)]
mod tests {
    use procedure::Column;
    use sql::analytical_engine::held;
    use sql::copy::CopyOptions;
    use types::{DataType, Value, Zone};

    use super::*;

    /// The messages that a client would read, for so many rows in batches of some.
    fn messages(format: &str, rows: i64, batch: usize) -> Vec<Vec<u8>> {
        let options = match format {
            "csv" => CopyOptions::csv_with_header(),
            format => CopyOptions::plain(format).unwrap(),
        };
        let columns = [Column { name: "n".into(), data_type: DataType::Int4 }];
        let formatter = CopyFormatter::new(&options, &columns, &Zone::default());
        let all: Vec<Row> = (0..rows).map(|n| vec![Value::Int(n)].into()).collect();
        let batches: Vec<_> = all.chunks(batch).map(|rows| held(rows.to_vec(), None)).collect();
        let rows = stream::iter(batches).flatten().boxed();
        let chunks = futures::executor::block_on_stream(chunks(rows, formatter));
        let (mut messages, mut counted) = (Vec::new(), 0);
        for chunk in chunks.map(Result::unwrap) {
            let mut start = 0;
            for end in chunk.ends {
                messages.push(chunk.bytes[start..end].to_vec());
                start = end;
            }
            assert_eq!(start, chunk.bytes.len(), "bytes outside of any message");
            counted += chunk.rows;
        }
        assert_eq!(counted, all.len() as u64);
        messages
    }

    #[test]
    fn each_row_is_one_message() {
        for (rows, batch) in [(0, 1), (1, 1), (3, 2), (256, 256), (1000, 300)] {
            let text = messages("text", rows, batch);
            let lines: Vec<_> = (0..rows).map(|n| format!("{n}\n").into_bytes()).collect();
            assert_eq!(text, lines);
            let csv = messages("csv", rows, batch);
            assert_eq!((&csv[0][..], &csv[1..]), (&b"n\n"[..], &lines[..]));
            let binary = messages("binary", rows, batch);
            assert_eq!(binary.len() as i64, rows + 1, "the header has no message of its own");
            assert!(binary[0].starts_with(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"));
            assert_eq!(binary[rows as usize][binary[rows as usize].len() - 2..], [255, 255]);
        }
    }
}
