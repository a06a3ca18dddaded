//! Decoders under hostile bytes.
//!
//! Each decoder is given valid bytes of a real ledger, changed in a few places ([`kit::mutation`]).
//! Where a checksum or a hash stands in front of the rest, half of them are sealed anew, as an
//! adversary would. Asked of each: no panic; no allocation that its input does not pay for; and
//! what is accepted encodes to the same bytes again, so that nothing can be written in two ways.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use engine::{Body, EXECUTOR};
use kit::allocations::largest_during;
use kit::mutation::mutate;
use kit::random::Random;
use ledger::checkpoint::{Manifest, heights, read_manifest, reseal};
use ledger::headers::{self, HeaderPiece};
use ledger::segment::{
    MARK_BYTES, Mark, MarkKind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES,
    SegmentHeader, salted_crc, segment_path,
};
use ledger::{
    Batch, Block, BlockReader, BlockResult, Files, Genesis, Header, LogError, LogReader,
    MemoryFiles, OrderHeader, Parameters, Receipt, Record, ResultHeader, Stream, backup,
};
use order::Envelope;

/// An input pays for this much in one piece, whatever its size: error texts, small tables.
const ALLOCATION_BYTES_FREE: usize = 64 << 10;
/// And for so many bytes for each of its own: an element of two bytes may be a value of 32.
const ALLOCATION_BYTES_PER_BYTE: usize = 64;

/// A format, with valid bytes of it.
struct Decoder {
    name: &'static str,
    samples: Vec<Vec<u8>>,
    /// Makes checksums right again.
    seal: fn(&mut Vec<u8>),
    /// Decodes, and encodes what it found; `None` if the bytes are refused.
    round: fn(&[u8]) -> Option<Vec<u8>>,
}

/// Bytes for all decoders, taken from a ledger.
pub struct Decoders(Vec<Decoder>);

impl Decoders {
    /// Those of everything that lies in a folder.
    pub fn of(files: &MemoryFiles) -> Result<Decoders> {
        let blocks = blocks(files)?;
        let batches: Vec<Record> =
            blocks.iter().map(|block| block.batch.encode()).collect::<types::Result<_>>()?;
        let results: Vec<Record> =
            blocks.iter().map(|block| block.result.encode()).collect::<types::Result<_>>()?;
        let payloads = |records: &[Record]| -> Vec<Vec<u8>> {
            records.iter().map(|record| record.payload().to_vec()).collect()
        };
        let behind_genesis = blocks.iter().filter(|block| block.height() > 0);
        let envelopes = behind_genesis.flat_map(|block| block.batch.envelopes());
        let envelopes: Vec<Vec<u8>> = envelopes.map(|envelope| envelope.to_vec()).collect();
        let requests =
            envelopes.iter().map(|envelope| Ok(order::View::read(envelope)?.request.to_vec()));
        let requests = requests.collect::<types::Result<_>>()?;
        let receipts = blocks.iter().filter_map(|block| Receipt::of(block, 0));
        let mut manifests = Vec::new();
        for height in heights(files)? {
            manifests.push(read_manifest(files, height)?.encode()?);
        }
        let plain = |_: &mut Vec<u8>| ();
        Ok(Decoders(
            [
                decoder("order", payloads(&batches), plain, round_batch),
                decoder("result", payloads(&results), plain, round_result),
                decoder("order in a log", payloads(&batches), plain, round_record::<OrderHeader>),
                decoder("result in a log", payloads(&results), plain, round_record::<ResultHeader>),
                decoder("genesis", vec![genesis()?], plain, round_genesis),
                decoder("envelope", envelopes, plain, round_envelope),
                decoder("request", requests, plain, |bytes| {
                    Some(Body::from_request(bytes).ok()?.to_request())
                }),
                decoder("parameters", vec![parameters().encode()?], plain, |bytes| {
                    Parameters::decode(bytes).ok()?.encode().ok()
                }),
                decoder(
                    "manifest",
                    manifests,
                    |bytes| reseal(bytes),
                    |bytes| Manifest::decode(bytes).ok()?.encode().ok(),
                ),
                decoder(
                    "receipt",
                    receipts.map(|r| r.encode()).collect::<types::Result<_>>()?,
                    plain,
                    |bytes| Receipt::decode(bytes).ok()?.encode().ok(),
                ),
                decoder(
                    "backup manifest",
                    vec![backup_manifest(files, &blocks)?],
                    backup::reseal,
                    |bytes| Some(backup::Manifest::decode(bytes, 1).ok()?.encode()),
                ),
            ]
            .into_iter()
            .chain(of_files(files)?)
            .collect(),
        ))
    }

    /// So many inputs for each decoder; returns how many there were, and how many were accepted.
    pub fn feed(&self, inputs: u64, random: &mut Random) -> Result<(u64, u64)> {
        let (mut fed, mut accepted) = (0, 0);
        for decoder in &self.0 {
            let seed = random.next_u64();
            let mut own = Random::new(seed);
            for number in 0..inputs {
                let taken = decoder.try_one(&mut own);
                let taken = taken
                    .with_context(|| format!("{}, input {number} of seed {seed}", decoder.name))?;
                (fed, accepted) = (fed + 1, accepted + u64::from(taken));
            }
        }
        Ok((fed, accepted))
    }
}

impl Decoder {
    fn try_one(&self, random: &mut Random) -> Result<bool> {
        let which = random.below(self.samples.len() as u64) as usize;
        let mut bytes = self.samples.get(which).context("there are no samples")?.clone();
        ensure!((self.round)(&bytes).as_ref() == Some(&bytes), "valid bytes do not come back");
        mutate(&mut bytes, &self.samples, random);
        if random.chance(2) {
            (self.seal)(&mut bytes);
        }
        let (taken, largest) =
            largest_during(|| catch_unwind(AssertUnwindSafe(|| (self.round)(&bytes))));
        let allowed = ALLOCATION_BYTES_FREE + ALLOCATION_BYTES_PER_BYTE * bytes.len();
        ensure!(largest <= allowed, "{} bytes made it allocate {largest}: {bytes:?}", bytes.len());
        match taken {
            Err(_) => Err(anyhow!("it panics: {bytes:?}")),
            Ok(None) => Ok(false),
            Ok(Some(again)) if again == bytes => Ok(true),
            Ok(Some(again)) => Err(anyhow!("accepted {bytes:?}, encoded {again:?}")),
        }
    }
}

fn decoder(
    name: &'static str,
    samples: Vec<Vec<u8>>,
    seal: fn(&mut Vec<u8>),
    round: fn(&[u8]) -> Option<Vec<u8>>,
) -> Decoder {
    Decoder { name, samples, seal, round }
}

/// Segments, their parts, and what is kept of those that were pruned.
fn of_files(files: &MemoryFiles) -> Result<Vec<Decoder>> {
    let [orders, results] = Stream::ALL.map(|stream| contents_of(files, stream.folder()));
    let segments = [orders?, results?].concat();
    let pieces = |stream: Stream| contents_of(files, stream.header_folder());
    let head = |segment: &Vec<u8>| segment[..SEGMENT_HEADER_BYTES].to_vec();
    let heads = segments.iter().map(head).collect();
    Ok(vec![
        decoder("segment header", heads, seal_segment_header, |bytes| {
            SegmentHeader::decode(bytes)
                .ok()
                .map(|header| [&header.encode()[..], &bytes[SEGMENT_HEADER_BYTES..]].concat())
        }),
        decoder("record header", record_headers(&segments), seal_record_header, |bytes| {
            RecordHeader::decode(bytes, 0)
                .ok()
                .map(|header| [&header.encode(0)[..], &bytes[RECORD_HEADER_BYTES..]].concat())
        }),
        decoder(
            "kept order headers",
            pieces(Stream::Orders)?,
            |bytes| headers::reseal(bytes),
            round_piece::<OrderHeader>,
        ),
        decoder(
            "kept result headers",
            pieces(Stream::Results)?,
            |bytes| headers::reseal(bytes),
            round_piece::<ResultHeader>,
        ),
        decoder("segment", segments, seal_records, round_segment),
    ])
}

fn parameters() -> Parameters {
    let mut parameters = Parameters::new("harmony:inter_block=on");
    parameters.others.insert("block_transactions_max".to_owned(), "1000".to_owned());
    parameters
}

fn genesis() -> Result<Vec<u8>> {
    let parameters = parameters();
    let genesis = Genesis { ledger_id: [7; 16], time_us: 1, parameters, executor: EXECUTOR };
    Ok(genesis.to_batch()?.encode()?.payload().to_vec())
}

/// That of a backup of the whole ledger.
fn backup_manifest(files: &MemoryFiles, blocks: &[Block]) -> Result<Vec<u8>> {
    let last = blocks.last().context("an empty ledger")?;
    let order_hash = last.batch.hash();
    let head = backup::Head { height: last.height(), hash: last.hash(), order_hash };
    let target = MemoryFiles::new();
    backup::take(files, &target, &mut || Ok(head), &mut |_| Ok(()))?;
    let path = target.paths().into_iter().find(|path| path.starts_with("backup-"));
    path.and_then(|path| target.contents(&path)).context("a backup has a manifest")
}

fn blocks(files: &MemoryFiles) -> Result<Vec<Block>> {
    let mut reader = BlockReader::open(Arc::new(files.clone()))?;
    let mut blocks = Vec::new();
    while let Some(recorded) = reader.next()? {
        let result = recorded.result.as_ref().context("a block without a result")?;
        let (batch, result) = (Batch::of(&recorded.batch)?, BlockResult::of(result)?);
        blocks.push(Block { batch, result });
    }
    ensure!(blocks.len() > 1, "an empty ledger");
    Ok(blocks)
}

fn contents_of(files: &MemoryFiles, folder: &str) -> Result<Vec<Vec<u8>>> {
    let names = files.list(folder)?;
    let read = |name: &String| files.contents(&format!("{folder}/{name}"));
    Ok(names.iter().filter_map(read).collect())
}

fn round_batch(bytes: &[u8]) -> Option<Vec<u8>> {
    let batch = Batch::decode(&Bytes::copy_from_slice(bytes)).ok()?;
    Some(batch.encode().ok()?.payload().to_vec())
}

fn round_result(bytes: &[u8]) -> Option<Vec<u8>> {
    let result = BlockResult::decode(&Bytes::copy_from_slice(bytes)).ok()?;
    Some(result.encode().ok()?.payload().to_vec())
}

/// A log looks at the header alone, and must find in it what a decoder does.
fn round_record<H: Header>(bytes: &[u8]) -> Option<Vec<u8>> {
    let record = Record::from_payload(H::STREAM, Bytes::copy_from_slice(bytes)).ok()?;
    let header = H::decode(&bytes[..H::BYTES]).ok()?;
    let mut again = Vec::new();
    header.put(&mut again);
    again.extend_from_slice(&bytes[H::BYTES..]);
    let same = record.height() == header.height() && record.hash() == header.hash();
    same.then_some(again)
}

fn round_genesis(bytes: &[u8]) -> Option<Vec<u8>> {
    let batch = Batch::decode(&Bytes::copy_from_slice(bytes)).ok()?;
    let again = Genesis::from_batch(&batch, EXECUTOR).ok()?.to_batch().ok()?;
    Some(again.encode().ok()?.payload().to_vec())
}

/// Both decoders of an envelope must agree.
fn round_envelope(bytes: &[u8]) -> Option<Vec<u8>> {
    let (view, owned) =
        (order::View::read(bytes), Envelope::decode(&Bytes::copy_from_slice(bytes)));
    let again = owned.ok()?.encode().ok()?;
    (view.ok()?.encode().ok()? == again).then(|| again.to_vec())
}

fn round_piece<H: Header>(bytes: &[u8]) -> Option<Vec<u8>> {
    HeaderPiece::<H>::decode(bytes).ok()?.encode().ok()
}

/// Reads a lone segment to its end: what it yields is nothing to compare, so bytes that are read
/// come back as they are.
fn round_segment(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = SegmentHeader::decode(bytes).ok()?;
    let (stream, first) = (header.stream, header.first_height);
    let files = MemoryFiles::new();
    // A reader wants to see a first segment, and opens the one that was asked for.
    files.plant(&segment_path(stream, 0), Vec::new());
    files.plant(&segment_path(stream, first), bytes.to_vec());
    let mut reader = LogReader::open_at(Arc::new(files), stream, first).ok()?;
    loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => return Some(bytes.to_vec()),
            // One that is closed is not alone where it comes from.
            Err(LogError::Damage(damage)) => {
                let rest = &bytes[usize::try_from(damage.offset).ok()?..];
                let mark = Mark::decode(rest, header.salt).filter(|_| rest.len() == MARK_BYTES)?;
                return (mark.kind == MarkKind::Closed).then(|| bytes.to_vec());
            }
            Err(LogError::TornTail(_) | LogError::Io(_)) => return None,
        }
    }
}

/// The first record's header of each segment, under a salt of zero.
fn record_headers(segments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let first = |segment: &Vec<u8>| {
        let header = SegmentHeader::decode(segment).ok()?;
        let record = RecordHeader::decode(&segment[SEGMENT_HEADER_BYTES..], header.salt).ok()?;
        Some(record.encode(0).to_vec())
    };
    segments.iter().filter_map(first).collect()
}

#[expect(clippy::ptr_arg, reason = "others of these functions change the length")]
fn seal_segment_header(bytes: &mut Vec<u8>) {
    if bytes.len() >= SEGMENT_HEADER_BYTES {
        let checksum = crc32fast::hash(&bytes[..48]).to_be_bytes();
        bytes[48..52].copy_from_slice(&checksum);
    }
}

#[expect(clippy::ptr_arg, reason = "others of these functions change the length")]
fn seal_record_header(bytes: &mut Vec<u8>) {
    if bytes.len() >= RECORD_HEADER_BYTES {
        let checksum = salted_crc(0, &bytes[..28]).to_be_bytes();
        bytes[28..32].copy_from_slice(&checksum);
    }
}

/// Makes the checksums of a segment and of the records that it seems to have right.
fn seal_records(bytes: &mut Vec<u8>) {
    seal_segment_header(bytes);
    let Some(salt) = bytes.get(40..48).and_then(|salt| salt.try_into().ok()) else { return };
    let salt = u64::from_be_bytes(salt);
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(header) = bytes.get(at..at + RECORD_HEADER_BYTES) {
        let length = header[4..8].iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        let start = at + RECORD_HEADER_BYTES;
        if let Some(payload) = bytes.get(start..start.saturating_add(length)) {
            let checksum = salted_crc(salt, payload).to_be_bytes();
            bytes[at + 24..at + 28].copy_from_slice(&checksum);
        }
        let checksum = salted_crc(salt, &bytes[at..at + 28]).to_be_bytes();
        bytes[at + 28..at + 32].copy_from_slice(&checksum);
        at = start.saturating_add(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::disk::world::{Reference, Story};

    #[test]
    fn no_decoder_panics_or_trusts_a_length_and_what_is_accepted_is_canonical() {
        let reference = Reference::of(Story::new("serial", 30, 3, 8)).unwrap();
        let decoders = Decoders::of(&reference.files).unwrap();
        let (fed, accepted) = decoders.feed(1_500, &mut Random::new(3)).unwrap();
        assert!(fed == 24_000 && accepted > 100, "{accepted} of {fed} accepted");
    }
}
