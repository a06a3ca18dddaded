//! Every fault of a disk, at every file operation: while a story is told, and while it recovers.
//!
//! After a fault the engine may go on (a checkpoint failed) or stand still for good (the log did).
//! Either way readers see the last answered state, what was answered is on every disk that a power
//! cut may now leave, and a new process on a sound disk tells the rest of the story to the same
//! end.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ledger::memory_files::{Failure, MANNERS};
use ledger::{Files, MemoryFiles};
use tokio::runtime::Runtime;
use types::SqlState;

use super::count::{Count, Until, spread};
use super::world::{Reference, Reported, Running, begin, runtime, tell};

/// Every manner at every operation of a telling; of the operations, every `stride`-th, another
/// choice for each manner.
pub fn while_reported(
    reference: &Reference,
    stride: usize,
    until: &Until,
    count: &mut Count,
) -> Result<()> {
    let runtime = runtime()?;
    let operations = reference.files.operations();
    let first = reference.moments.first().map_or(0, |(disk, _)| disk.operations());
    let (of_operations, mut tried) = (until.part(75), 0);
    'all: for place in spread((operations - first) as usize) {
        let operation = first + place as u64;
        for (_, (what, manner)) in (0..).zip(MANNERS).filter(|(n, _)| n % stride == place % stride)
        {
            if tried >= MANNERS.len() && of_operations.is_over() {
                break 'all;
            }
            tried += 1;
            one(reference, &runtime, manner(operation), count)
                .with_context(|| format!("{what} at operation {operation}"))?;
        }
    }
    let reads = reads_of_a_telling(reference, &runtime)? as usize;
    for (turn, place) in spread(reads.div_ceil(stride)).enumerate() {
        if turn > 0 && until.is_over() {
            break;
        }
        let read = (place * stride) as u64;
        one(reference, &runtime, Failure::Read(read), count)
            .with_context(|| format!("an error at read {read}"))?;
    }
    Ok(())
}

fn one(
    reference: &Reference,
    runtime: &Runtime,
    failure: Failure,
    count: &mut Count,
) -> Result<()> {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    begin(&shared, reference.story.protocol)?;
    let reported = suffer(reference, runtime, &files, &shared, failure)?;
    count.faults += 1;
    survives(reference, runtime, &files, reported, count)
}

/// Tells the story on a disk that fails; what the client knew when it ended.
pub fn suffer(
    reference: &Reference,
    runtime: &Runtime,
    files: &MemoryFiles,
    shared: &Arc<dyn Files>,
    failure: Failure,
) -> Result<Reported> {
    files.fail_at(Some(failure));
    let opened = Running::open(shared, reference.story.protocol);
    let reported = match opened {
        Err(_) => Reported::default(),
        Ok(mut running) => {
            let reported = tell(runtime, &mut running, &reference.story.steps, &|| 0);
            let last = reported.last().copied().unwrap_or_default();
            reference.compare_running(&running, last.height)?;
            if running.has_halted() {
                refuses(runtime, &mut running, last)?;
            }
            last
        }
    };
    files.fail_at(None);
    Ok(reported)
}

/// An engine whose log has failed answers who reads, and refuses who writes.
fn refuses(runtime: &Runtime, running: &mut Running, reported: Reported) -> Result<()> {
    drop(runtime.block_on(running.run("ROLLBACK")));
    for _ in 0..2 {
        let write = runtime.block_on(running.run("UPDATE accounts SET cents = 0"));
        let code = write.err().map(|error| error.code());
        // Without the tables, the statement is wrong before it is refused.
        let expected = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::UNDEFINED_TABLE];
        ensure!(code.is_some_and(|code| expected.contains(&code)), "a write is told {code:?}");
    }
    ensure!(running.head() == reported.height, "the head has moved");
    let read = runtime.block_on(running.run("SELECT 1"));
    ensure!(read.is_ok(), "a read is told {read:?}");
    Ok(())
}

/// What the client was told survives a power cut now, a restart, and a power cut after that.
pub fn survives(
    reference: &Reference,
    runtime: &Runtime,
    files: &MemoryFiles,
    reported: Reported,
    count: &mut Count,
) -> Result<()> {
    for image in files.crash_images(2).step_by(3) {
        reference.recover(&image, reported).context("cut")?;
        count.images += 1;
    }
    let left = files.copy();
    reference.go_on(runtime, &left, reported).context("gone on")?;
    let end = Reported { checkpoint: None, ..reference.reported() };
    for image in left.crash_images(2).step_by(8) {
        reference.recover(&image, end).context("gone on and cut")?;
        count.images += 1;
    }
    Ok(())
}

fn reads_of_a_telling(reference: &Reference, runtime: &Runtime) -> Result<u64> {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    begin(&shared, reference.story.protocol)?;
    let mut running = Running::open(&shared, reference.story.protocol)?;
    tell(runtime, &mut running, &reference.story.steps, &|| 0);
    Ok(files.reads())
}

/// Every manner at every operation and every read of a start. The folders are those that crashes
/// left, some with a torn tail or half a checkpoint.
pub fn while_recovering(
    reference: &Reference,
    stride: usize,
    until: &Until,
    count: &mut Count,
) -> Result<()> {
    let runtime = runtime()?;
    let moments = &reference.moments;
    for (turn, place) in spread(moments.len().div_ceil(stride)).enumerate() {
        if turn > 0 && until.is_over() {
            break;
        }
        let number = place * stride;
        let (disk, reported) = &moments[number];
        let Some(image) = disk.crash_images(2).nth(turn % 3) else { continue };
        let recovering = Recovering { reference, runtime: &runtime, image, reported: *reported };
        recovering
            .every_fault(until, count)
            .with_context(|| format!("on an image of moment {number}"))?;
    }
    Ok(())
}

struct Recovering<'a> {
    reference: &'a Reference,
    runtime: &'a Runtime,
    image: MemoryFiles,
    reported: Reported,
}

impl Recovering<'_> {
    /// One of each manner at least, as long as there is time.
    fn every_fault(&self, until: &Until, count: &mut Count) -> Result<()> {
        let files = self.image.copy();
        let (operations, reads) = (files.operations(), files.reads());
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        drop(Running::open(&shared, self.reference.story.protocol)?);
        let of_operations = until.part(75);
        for (turn, place) in spread((files.operations() - operations) as usize).enumerate() {
            if turn > 0 && of_operations.is_over() {
                break;
            }
            let operation = operations + place as u64;
            for (what, manner) in MANNERS {
                self.one(manner(operation), count)
                    .with_context(|| format!("{what} at operation {operation}"))?;
            }
        }
        for (turn, place) in spread((files.reads() - reads) as usize).enumerate() {
            if turn > 0 && until.is_over() {
                break;
            }
            let read = reads + place as u64;
            self.one(Failure::Read(read), count).with_context(|| format!("read {read}"))?;
        }
        Ok(())
    }

    fn one(&self, failure: Failure, count: &mut Count) -> Result<()> {
        let files = self.image.copy();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        files.fail_at(Some(failure));
        if let Ok(running) = Running::open(&shared, self.reference.story.protocol) {
            ensure!(running.head() >= self.reported.height, "begins at block {}", running.head());
            self.reference.compare_running(&running, running.head())?;
        }
        files.fail_at(None);
        count.faults += 1;
        for image in files.crash_images(2) {
            self.reference.recover(&image, self.reported).context("cut")?;
            count.images += 1;
        }
        let read = self.reference.recover(&files, self.reported)?;
        drop(read);
        if count.faults.is_multiple_of(16) {
            self.reference.go_on(self.runtime, &files, self.reported).context("gone on")?;
            count.stories += 1;
        }
        Ok(())
    }
}
