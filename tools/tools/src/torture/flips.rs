//! Every byte of the data folder is covered: flip one, and verification names the place.
//!
//! A small ledger of a real node, with several segments and a quarantined tail, is read into
//! memory. For each flip one byte is changed (half of the time one bit of it), and the folder is
//! verified by what `tally verify` runs; some go through the program itself. A flip at the end of
//! the results leaves the ledger sound, since they are computed again, and its place is named all
//! the same. What has no effect must be outside of the ledger: the configuration file and what
//! recovery set aside, neither of which verification reads. A flip of a checkpoint's file leaves
//! the
//! ledger sound, and the checkpoint is named, but for groups in a pack that none refers to any
//! more.
//! `LOCK` is empty, so it has no byte to flip.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use ledger::header::{ORDER_HEADER_BYTES, RESULT_HEADER_BYTES};
use ledger::segment::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, parse_segment_path};
use ledger::{Files, MemoryFiles, Stream};
use serde::Serialize;

use super::clients::Round;
use super::disk::Until;
use super::images::{Segment, Segments, files_below, tear};
use super::kills::{create, start_node, verify};
use super::model::Model;
use crate::node_process::NodeProcess;
use node::verification::{self, CheckpointVerdict, Verdict, Verification};

const CLIENTS: i64 = 4;
const LOAD: Duration = Duration::from_millis(150);
const SEGMENT_BYTES: u64 = 64 << 10;
/// However little time is left.
const FLIPS_LEAST: u64 = 100;
/// One flip in so many draws the place first, as the few bytes of some would hardly be met.
const FLIPS_PER_PLACE: u64 = 8;
/// One flip in so many goes through the program.
const FLIPS_PER_PROGRAM: u64 = 50;

/// What lies where a byte was flipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
enum Place {
    SegmentHeader,
    RecordHeader,
    OrderHeader,
    Envelopes,
    LastOrder,
    ResultHeader,
    Outcomes,
    LastResult,
    ZeroTail,
    Manifest,
    Pack,
    Configuration,
    Quarantine,
}

const PLACES: [Place; 13] = [
    Place::SegmentHeader,
    Place::RecordHeader,
    Place::OrderHeader,
    Place::Envelopes,
    Place::LastOrder,
    Place::ResultHeader,
    Place::Outcomes,
    Place::LastResult,
    Place::ZeroTail,
    Place::Manifest,
    Place::Pack,
    Place::Configuration,
    Place::Quarantine,
];

/// How the flips of one place were seen.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Row {
    bytes: u64,
    flips: u64,
    damaged: u64,
    torn_tail: u64,
    /// Of the results, which are computed again.
    again: u64,
    differs: u64,
    no_effect: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub flips: u64,
    /// Of them through `tally verify`.
    pub by_program: u64,
    pub folder_bytes: u64,
    pub segments: u64,
    pub blocks: u64,
    rows: Vec<(Place, Row)>,
}

impl Report {
    pub fn table(&self) -> String {
        let mut text = format!(
            "flips                 {} of {} bytes ({} segments, {} blocks), {} of them by \
             `tally verify`\n\n  {:<16}{:>9}{:>8}{:>9}{:>11}{:>7}{:>9}{:>11}\n",
            self.flips,
            self.folder_bytes,
            self.segments,
            self.blocks,
            self.by_program,
            "place",
            "bytes",
            "flips",
            "damage",
            "torn tail",
            "again",
            "differs",
            "no effect",
        );
        for (place, row) in &self.rows {
            text += &format!(
                "  {:<16}{:>9}{:>8}{:>9}{:>11}{:>7}{:>9}{:>11}\n",
                format!("{place:?}"),
                row.bytes,
                row.flips,
                row.damaged,
                row.torn_tail,
                row.again,
                row.differs,
                row.no_effect
            );
        }
        text + "\n"
    }
}

/// So many flips, or as many as there is time for, and some in any case.
pub fn run(
    folder: &Path,
    flips: u64,
    seed: u64,
    until: &Until,
    advance: impl Fn(f64),
) -> Result<Report> {
    let data = NodeProcess::data_folder(folder);
    make_ledger(folder, seed)?;
    let specimen = Specimen::read(&data)?;
    let mut report = Report {
        folder_bytes: specimen.bytes(),
        segments: specimen.segments.iter().map(Vec::len).sum::<usize>() as u64,
        blocks: specimen.intact.blocks,
        rows: PLACES.map(|place| (place, Row::default())).to_vec(),
        ..Report::default()
    };
    for (name, bytes) in &specimen.files {
        for offset in 0..bytes.len() {
            let (place, _) = specimen.place(name, offset);
            report.rows[place as usize].1.bytes += 1;
        }
    }
    for (place, row) in &report.rows {
        ensure!(row.bytes > 0, "the specimen has no {place:?}");
    }
    let mut random = Random::new(seed);
    for flip in 0..flips {
        if flip >= FLIPS_LEAST && until.is_over() {
            break;
        }
        report.flips += 1;
        let by_program = flip % FLIPS_PER_PROGRAM == 0;
        report.by_program += u64::from(by_program);
        let (file, offset) = specimen.choose(&mut random);
        let mask = match random.chance(2) {
            true => 1 << random.below(8),
            false => 1 + random.below(255) as u8,
        };
        let path = by_program.then_some(data.as_path());
        specimen.flip(file, offset, mask, path, &mut report.rows).with_context(|| {
            let name = &specimen.files[file].0;
            format!("flip of {name}, offset {offset}, with {mask:#04x}")
        })?;
        advance(flip as f64 / flips as f64);
    }
    Ok(report)
}

/// A short life with a power cut in it.
fn make_ledger(folder: &Path, seed: u64) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    std::fs::create_dir_all(folder)?;
    let data = NodeProcess::data_folder(folder);
    let mut node = start_node(folder, SEGMENT_BYTES, "")?;
    runtime.block_on(create(&node.target, CLIENTS))?;
    let models: Vec<Model> = (0..CLIENTS).map(|id| Model::new(seed, id)).collect();
    let round = Round::start(&runtime, &node.target, &models, 1, seed);
    std::thread::sleep(LOAD);
    let vouched = take_checkpoint(&node)?;
    std::thread::sleep(LOAD);
    node.kill()?;
    round.end(&runtime)?;
    let mut random = Random::new(seed);
    let segments = Segments::read(&data)?;
    let newest = segments.newest()?;
    let torn = std::iter::repeat_with(|| tear(&mut random, newest, vouched)).find(|i| i.torn);
    segments.write(&data, &torn.context("endless")?)?;
    node.restart()?;
    // A write after the cut, so that the newest segment has its zeros again.
    let client = runtime.block_on(node.target.connect())?;
    runtime.block_on(client.batch_execute("UPDATE purses SET cents = cents + 1"))?;
    take_checkpoint(&node)?;
    // The last block is one that no checkpoint vouches for.
    runtime.block_on(client.batch_execute("UPDATE purses SET cents = cents - 1"))?;
    node.stop()?;
    let left = verify(&data)?;
    ensure!(left.code == Some(0), "the specimen does not verify: {}", left.output);
    Ok(())
}

/// Returns its height: no power cut takes blocks up to there back.
fn take_checkpoint(node: &NodeProcess) -> Result<u64> {
    let taken = node.post("/checkpoint")?;
    ensure!(taken.is_ok, "no checkpoint: {}", taken.body);
    let taken: serde_json::Value = serde_json::from_str(&taken.body)?;
    taken["height"].as_u64().context("a checkpoint has a height")
}

/// The folder to be damaged.
struct Specimen {
    /// Path below the folder, and contents.
    files: Vec<(String, Vec<u8>)>,
    /// Those of each stream, in order.
    segments: [Vec<Segment>; 2],
    memory: MemoryFiles,
    intact: Verification,
}

impl Specimen {
    fn read(data: &Path) -> Result<Specimen> {
        let memory = MemoryFiles::new();
        let mut files = Vec::new();
        for path in files_below(data)? {
            let name = path.strip_prefix(data)?.to_string_lossy().into_owned();
            let bytes = std::fs::read(&path)?;
            memory.plant(&name, bytes.clone());
            files.push((name, bytes));
        }
        let intact = check(&memory)?;
        ensure!(intact.verdict == Verdict::Sound);
        let segments =
            [Segment::read_all(data, Stream::Orders)?, Segment::read_all(data, Stream::Results)?];
        Ok(Specimen { segments, files, memory, intact })
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Any byte of the folder is as likely as any other; now and then, any place with all its
    /// bytes.
    fn choose(&self, random: &mut Random) -> (usize, usize) {
        let by_place = random.chance(FLIPS_PER_PLACE);
        let wanted = PLACES[random.below(PLACES.len() as u64) as usize];
        loop {
            let (file, offset) = self.locate(random.below(self.bytes()) as usize);
            if !by_place || self.place(&self.files[file].0, offset).0 == wanted {
                return (file, offset);
            }
        }
    }

    /// The byte at a position of all the files in a row.
    fn locate(&self, mut position: usize) -> (usize, usize) {
        for (index, (_, bytes)) in self.files.iter().enumerate() {
            if position < bytes.len() {
                return (index, position);
            }
            position -= bytes.len();
        }
        (0, 0)
    }

    /// What lies there, and where in its file verification must say that it is.
    fn place(&self, name: &str, offset: usize) -> (Place, usize) {
        let of = |segments: &Vec<Segment>| segments.iter().position(|it| it.path == name);
        let (orders, results) = (of(&self.segments[0]), of(&self.segments[1]));
        let (segments, index) = match (orders, results) {
            (Some(index), _) => (&self.segments[0], index),
            (_, Some(index)) => (&self.segments[1], index),
            (None, None) => return (place_of_other(name), 0),
        };
        let segment = &segments[index];
        if offset < SEGMENT_HEADER_BYTES {
            return (Place::SegmentHeader, 0);
        }
        let at = segment.records.partition_point(|record| record.end <= offset);
        let Some(record) = segment.records.get(at) else {
            let end = segment.records.last().map_or(SEGMENT_HEADER_BYTES, |r| r.end);
            return (Place::ZeroTail, end);
        };
        let (header_bytes, header, body, last) = match orders.is_some() {
            true => (ORDER_HEADER_BYTES, Place::OrderHeader, Place::Envelopes, Place::LastOrder),
            false => (RESULT_HEADER_BYTES, Place::ResultHeader, Place::Outcomes, Place::LastResult),
        };
        let newest = index + 1 == segments.len();
        let place = match offset - record.offset {
            _ if newest && at + 1 == segment.records.len() => last,
            0..RECORD_HEADER_BYTES => Place::RecordHeader,
            inner if inner < RECORD_HEADER_BYTES + header_bytes => header,
            _ => body,
        };
        (place, record.offset)
    }

    fn flip(
        &self,
        file: usize,
        offset: usize,
        mask: u8,
        program: Option<&Path>,
        rows: &mut [(Place, Row)],
    ) -> Result<()> {
        let (name, bytes) = &self.files[file];
        let mut changed = bytes.clone();
        changed[offset] ^= mask;
        if let Some(data) = program {
            std::fs::write(data.join(name), &changed)?;
        }
        self.memory.plant(name, changed);
        let found = check(&self.memory);
        self.memory.plant(name, bytes.clone());
        let found = found?;
        if let Some(data) = program {
            let said = verify(data)?;
            std::fs::write(data.join(name), bytes)?;
            let code = node::exit_of(&found) as i32;
            ensure!(said.code == Some(code), "{:?}, but the program: {}", found, said.output);
            if let Some(detail) = detail(&found) {
                let verdict = &said.json["verdict"]["detail"];
                let reported = verdict == detail || said.json["results_torn"] == *detail;
                ensure!(reported, "{}", said.output);
            }
        }
        let (place, start) = self.place(name, offset);
        let row = &mut rows[place as usize].1;
        row.flips += 1;
        let faults = found.checkpoints.iter().filter(|checkpoint| checkpoint.fault.is_some());
        let faults = faults.count();
        match &found.verdict {
            Verdict::Sound if faults > 0 => row.damaged += 1,
            Verdict::Sound if found.results_torn.is_some() => row.again += 1,
            Verdict::Sound => row.no_effect += 1,
            Verdict::TornTail { .. } => row.torn_tail += 1,
            Verdict::Damaged { .. } => row.damaged += 1,
            Verdict::Differs { .. } => row.differs += 1,
        }
        let is_sound = found.verdict == Verdict::Sound && found.head == self.intact.head;
        if parse_segment_path(name).is_some() {
            let said = detail(&found).context("the flip was not detected")?;
            let named = format!("({name}, offset {start}");
            ensure!(said.contains(&named), "expected {named}, found: {said}");
            ensure!(is_sound || found.verdict != Verdict::Sound, "another ledger: {found:?}");
        } else if !is_sound {
            bail!("{name} is no part of the ledger, and yet: {found:?}");
        }
        // A ledger that breaks off says of checkpoints after the break what there is to say.
        let blamed = |it: &CheckpointVerdict| it.fault.is_some() && it.height <= found.height;
        let blamed = found.checkpoints.iter().any(blamed);
        ensure!(place != Place::Manifest || faults > 0, "the flip was not detected");
        ensure!(!blamed || name.starts_with(CHECKPOINT_FOLDER), "a sound checkpoint is blamed");
        Ok(())
    }
}

fn place_of_other(name: &str) -> Place {
    match name {
        _ if name.starts_with("quarantine/") => Place::Quarantine,
        _ if name.ends_with(".manifest") => Place::Manifest,
        _ if name.ends_with(".pack") => Place::Pack,
        _ => Place::Configuration,
    }
}

/// What is said of the place.
fn detail(found: &Verification) -> Option<&String> {
    match &found.verdict {
        Verdict::Sound => found.results_torn.as_ref(),
        Verdict::TornTail { detail, .. }
        | Verdict::Damaged { detail, .. }
        | Verdict::Differs { detail, .. } => Some(detail),
    }
}

/// One thread, as blocks are small.
fn check(memory: &MemoryFiles) -> Result<Verification> {
    let files: Arc<dyn Files> = Arc::new(memory.clone());
    verification::verify_files(files, 1)
}
