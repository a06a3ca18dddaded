//! Reads and writes blocks: the stream of orders and the stream of results side by side. Results
//! may end before the orders, since they can be computed again.

use std::io;
use std::sync::Arc;

use kit::mutant::mutated;
use types::Height;

use super::lookup::read_record;
use super::reader::{LogReader, first_record};
use super::writer::{LogOptions, LogWriter};
use super::{Damage, LogError, TornTail};
use crate::files::Files;
use crate::genesis::Genesis;
use crate::hash::Hash;
use crate::header::{Header, LedgerId, OrderHeader, RESULT_HEADER_BYTES, ResultHeader};
use crate::headers::{self, Link, PieceError};
use crate::record::Record;
use crate::stream::Stream;

type Result<T> = std::result::Result<T, LogError>;

/// A block of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub batch: Record,
    /// None where the results end before the orders.
    pub result: Option<Record>,
}

/// The headers of the newest block whose order was pruned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pruned {
    pub order: OrderHeader,
    pub result: ResultHeader,
}

/// Yields blocks in order, then a clean end or the reason why there is none.
pub struct BlockReader {
    orders: LogReader,
    results: LogReader,
    /// Blocks below are read and not returned.
    from: Height,
    pruned: Option<Pruned>,
    damage: Option<Damage>,
}

impl BlockReader {
    /// Reads from genesis, or from the oldest block that was not pruned.
    pub fn open(files: Arc<dyn Files>) -> Result<Self> {
        Self::open_at(files, 0)
    }

    /// Reads from a height, or from the oldest block after it. Segments before are only known to
    /// be there.
    pub fn open_at(files: Arc<dyn Files>, from: Height) -> Result<Self> {
        let orders = LogReader::open_at(Arc::clone(&files), Stream::Orders, from)?;
        let from = from.max(orders.first_height());
        let pruned = pruned(&*files, &orders)?;
        let results = LogReader::open_at(files, Stream::Results, from)?;
        if results.first_height() > orders.first_height() {
            return Err(gap(results.first_height(), &orders));
        }
        Ok(BlockReader { orders, results, from, pruned, damage: None })
    }

    /// The newest block of which only the headers are kept, if blocks were pruned.
    pub fn pruned(&self) -> Option<&Pruned> {
        self.pruned.as_ref()
    }

    /// Height of the oldest block that is there: 0 if none was pruned.
    pub fn first_height(&self) -> Height {
        self.orders.first_height()
    }

    /// The ledger of the segments read so far (see [`LogReader::ledger_id`]).
    pub fn ledger_id(&self) -> Option<LedgerId> {
        self.orders.ledger_id()
    }

    /// The height after the last block read.
    pub fn next_height(&self) -> Height {
        self.orders.next_height()
    }

    /// The height after the last result read: at the end, of the first one to be computed again.
    pub fn next_result(&self) -> Height {
        self.results.next_height()
    }

    /// Where the orders end, once that was found: a file and an offset in it.
    pub fn end(&self) -> Option<(&str, u64)> {
        self.orders.end()
    }

    /// The torn tail of the orders, once it was found.
    pub fn torn_orders(&self) -> Option<&TornTail> {
        self.orders.torn()
    }

    /// The torn tail of the results, once it was found. Nothing is lost by it.
    pub fn torn_results(&self) -> Option<&TornTail> {
        self.results.torn()
    }

    /// The next block; `None` at the end. After a torn tail of the orders has been reported once,
    /// that is the end; one of the results is no error. Damage of either is reported again and
    /// again, there is no way past it.
    ///
    /// Records share the buffers of whole segments: copy what must outlive the reading.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Recorded>> {
        if let Some(damage) = &self.damage {
            return Err(LogError::Damage(damage.clone()));
        }
        let next = self.read_next();
        if let Err(LogError::Damage(damage)) = &next {
            self.damage = Some(damage.clone());
        }
        next
    }

    fn read_next(&mut self) -> Result<Option<Recorded>> {
        loop {
            let batch = match self.orders.next_record() {
                Ok(Some(batch)) => batch,
                Ok(None) => {
                    self.end_results()?;
                    return Ok(None);
                }
                Err(LogError::TornTail(torn)) => {
                    self.end_results()?;
                    return Err(LogError::TornTail(torn));
                }
                Err(error) => return Err(error),
            };
            if batch.height() >= self.from {
                let result = self.result_of(&batch)?;
                return Ok(Some(Recorded { batch, result }));
            }
        }
    }

    fn result_of(&mut self, batch: &Record) -> Result<Option<Record>> {
        self.skip_results(batch.height())?;
        if self.results.next_height() != batch.height() {
            return Ok(None);
        }
        let Some(result) = self.next_result_record()? else {
            return self.check_pruned().map(|()| None);
        };
        if result.order_hash() == batch.hash() {
            return Ok(Some(result));
        }
        let (file, offset) = self.results.position();
        let (height, what) = (batch.height(), "the result is that of another order".to_owned());
        Err(LogError::Damage(Damage { height, file, offset, what }))
    }

    /// Reads the results below a height.
    fn skip_results(&mut self, height: Height) -> Result<()> {
        while self.results.next_height() < height {
            if self.next_result_record()?.is_none() {
                return self.check_pruned();
            }
        }
        Ok(())
    }

    /// A torn tail of the results is an end like any other.
    fn next_result_record(&mut self) -> Result<Option<Record>> {
        match self.results.next_record() {
            Err(LogError::TornTail(_)) => Ok(None),
            read => read,
        }
    }

    /// Results that have ended must have come to the oldest order: what lies below cannot be
    /// computed again.
    fn check_pruned(&self) -> Result<()> {
        match self.results.next_height() < self.orders.first_height() {
            true => Err(gap(self.results.next_height(), &self.orders)),
            false => Ok(()),
        }
    }

    /// The orders have ended; results after them do not count.
    fn end_results(&mut self) -> Result<()> {
        let end = self.orders.next_height();
        if self.results.next_height() > end {
            let files = Arc::clone(&self.results.files);
            self.results = LogReader::open_at(files, Stream::Results, end)?;
        }
        self.skip_results(end)?;
        if end == 0 {
            return self.refuse_results_without_orders();
        }
        if mutated("results_believed") {
            while self.next_result_record()?.is_some() {}
            return Ok(());
        }
        self.results.end_here()
    }

    /// Genesis is ordered, durably, before there is any result.
    fn refuse_results_without_orders(&mut self) -> Result<()> {
        if self.next_result_record()?.is_none() {
            return Ok(());
        }
        let (file, what) = (Stream::Orders.folder(), "there are results, and no orders");
        let (file, what) = (file.to_owned(), what.to_owned());
        Err(LogError::Damage(Damage { height: 0, file, offset: 0, what }))
    }
}

fn gap(from: Height, orders: &LogReader) -> LogError {
    let last = orders.first_height().saturating_sub(1);
    let (file, offset) = (Stream::Results.folder().to_owned(), 0);
    let what = format!(
        "results {from} to {last} are missing, and their orders were pruned: they cannot be \
         computed again"
    );
    LogError::Damage(Damage { height: from, file, offset, what })
}

/// The headers of the last block before the first order.
fn pruned(files: &dyn Files, orders: &LogReader) -> Result<Option<Pruned>> {
    let Some(last) = orders.pruned() else {
        return Ok(None);
    };
    let order: OrderHeader = kept(files, last.height)?;
    let result: ResultHeader = match first_record(files, Stream::Results)? <= last.height {
        true => match read_record(files, Stream::Results, last.height)? {
            Some(result) => decode(&result, last.height)?,
            None => return Err(gap(last.height, orders)),
        },
        false => kept(files, last.height)?,
    };
    if result.order_hash == last.hash {
        return Ok(Some(Pruned { order, result }));
    }
    let (height, file) = (last.height, Stream::Results.folder().to_owned());
    let what = "the last result below the orders is that of another order".to_owned();
    Err(LogError::Damage(Damage { height, file, offset: 0, what }))
}

fn decode(result: &Record, height: Height) -> Result<ResultHeader> {
    ResultHeader::decode(&result.payload()[..RESULT_HEADER_BYTES])
        .map_err(|error| damaged(Stream::Results, height, &error))
}

/// A header from the pieces that a prune has left.
fn kept<H: Header>(files: &dyn Files, height: Height) -> Result<H> {
    let pieces = headers::pieces(files, H::STREAM)?;
    let Some(piece) = pieces.into_iter().rfind(|piece| *piece <= height) else {
        return Err(missing_header(H::STREAM, height));
    };
    match headers::read_piece::<H>(files, piece) {
        Ok(piece) => piece.header(height).cloned().ok_or_else(|| missing_header(H::STREAM, height)),
        Err(PieceError::Io(error)) => Err(error.into()),
        Err(PieceError::Damaged(error)) => Err(damaged(H::STREAM, piece, &error)),
    }
}

fn missing_header(stream: Stream, height: Height) -> LogError {
    let (file, what) = (stream.header_folder().to_owned(), "a header is missing".to_owned());
    LogError::Damage(Damage { height, file, offset: 0, what })
}

fn damaged(stream: Stream, height: Height, error: &types::Error) -> LogError {
    let (file, what) = (headers::piece_path(stream, height), error.to_string());
    LogError::Damage(Damage { height, file, offset: 0, what })
}

/// The one writer of a ledger. Its two halves may be taken apart, for a thread each.
pub struct BlockWriter {
    pub orders: LogWriter,
    pub results: LogWriter,
}

impl BlockWriter {
    /// A new ledger of a genesis block, which is on stable storage when this returns. What a crash
    /// left of an earlier attempt is cut.
    ///
    /// # Errors
    ///
    /// Also if the folder holds blocks already.
    pub fn begin(
        files: Arc<dyn Files>,
        genesis: &Genesis,
        options: LogOptions,
    ) -> io::Result<BlockWriter> {
        let mut reader = BlockReader::open(files)?;
        match reader.next() {
            Ok(None) | Err(LogError::TornTail(TornTail { height: 0, .. })) => {}
            Ok(Some(_)) => {
                let what = "the folder already holds a ledger";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            Err(error) => return Err(error.into()),
        }
        let block = genesis.to_block().map_err(io::Error::other)?;
        let order = block.batch.encode().map_err(io::Error::other)?;
        let result = block.result.encode().map_err(io::Error::other)?;
        let mut log = BlockWriter::resume(reader, options)?;
        log.append_order_unsynced(&[order])?;
        log.sync_orders()?;
        log.append_results(&[result])?;
        log.orders.rest()?;
        log.results.rest()?;
        Ok(log)
    }

    /// Goes on where a reader stopped, which must have been at the end. Torn tails are moved to
    /// `quarantine/` and cut. Results from [`BlockWriter::next_result`] on are to be computed
    /// again.
    pub fn resume(reader: BlockReader, options: LogOptions) -> io::Result<BlockWriter> {
        let BlockReader { orders, results, .. } = reader;
        let orders = LogWriter::resume(orders, options)?;
        let results = LogWriter::resume(results, of_results(options))?;
        Ok(BlockWriter { orders, results })
    }

    /// Begins a log after a block of which only the headers are there, with empty segments.
    pub fn begin_behind(
        files: Arc<dyn Files>,
        last: &Pruned,
        options: LogOptions,
    ) -> io::Result<BlockWriter> {
        let (order, result) = (Link::of(&last.order), Link::of(&last.result));
        let orders = LogWriter::begin_behind(Arc::clone(&files), Stream::Orders, &order, options)?;
        let results = of_results(options);
        let results = LogWriter::begin_behind(files, Stream::Results, &result, results)?;
        Ok(BlockWriter { orders, results })
    }

    /// The height of the next order.
    pub fn next_height(&self) -> Height {
        self.orders.next_height()
    }

    /// The height of the next result, at most that of the next order.
    pub fn next_result(&self) -> Height {
        self.results.next_height()
    }

    /// Hash of the last order, zeros before genesis.
    pub fn head_order_hash(&self) -> Hash {
        self.orders.head_hash()
    }

    /// Hash of the last result, zeros before genesis.
    pub fn head_hash(&self) -> Hash {
        self.results.head_hash()
    }

    /// All orders below this height are on stable storage.
    pub fn durable_below(&self) -> Height {
        self.orders.durable_below()
    }

    /// Appends orders (see [`LogWriter::append`]): when this returns they are durable, if the
    /// options say so.
    pub fn append_order(&mut self, batches: &[Record]) -> io::Result<()> {
        self.orders.append(batches)
    }

    pub fn append_order_unsynced(&mut self, batches: &[Record]) -> io::Result<()> {
        self.orders.append_unsynced(batches)
    }

    pub fn sync_orders(&mut self) -> io::Result<()> {
        self.orders.sync()
    }

    /// Appends results of orders that were appended; nothing waits for the disk, but at the end of
    /// a segment.
    pub fn append_results(&mut self, results: &[Record]) -> io::Result<()> {
        let last = results.last().map(Record::height);
        if last.is_some_and(|last| last >= self.next_height()) {
            let what = "a result does not come before its order";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.results.append(results)
    }

    pub fn sync_results(&mut self) -> io::Result<()> {
        self.results.sync()
    }
}

/// Those of the results, which are never waited for.
fn of_results(options: LogOptions) -> LogOptions {
    LogOptions { sync: false, ..options }
}

/// Height of the oldest block that a folder has, 0 if none was pruned.
pub fn first_block(files: &dyn Files) -> Result<Height> {
    first_record(files, Stream::Orders)
}

/// One block by its height, without reading the blocks around it. `None` beyond the end; the caller
/// asks for blocks that it knows to be written.
pub fn read_block(files: &dyn Files, height: Height) -> Result<Option<Recorded>> {
    let Some(batch) = read_record(files, Stream::Orders, height)? else {
        return Ok(None);
    };
    let result = read_record(files, Stream::Results, height)?;
    if let Some(other) = result.iter().find(|result| result.order_hash() != batch.hash()) {
        let (height, file) = (other.height(), Stream::Results.folder().to_owned());
        let what = "the result is that of another order".to_owned();
        return Err(LogError::Damage(Damage { height, file, offset: 0, what }));
    }
    Ok(Some(Recorded { batch, result }))
}
