//! Every disk that a power cut may leave of a story, and of its recovery.
//!
//! One telling remembers the disk before each of its file operations. From each of these moments
//! follow the images: bounded subsets of the unsynced sectors, sizes, names and removals (see
//! `ledger::memory_files`). An image must recover to a block and a checkpoint no older than the
//! client knew of at that moment, with the very state of that block. Most images come up many
//! times, and each is recovered once. Some of them are recovered by an engine whose power goes
//! again, at each file operation that it makes.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::resume_writing;
use kit::random::Random;
use ledger::{Files, MemoryFiles};
use tokio::runtime::Runtime;

use super::count::{Count, Until, spread};
use super::world::{Found, Reference, Reported, Running, runtime};

/// Subsets of up to so many pending things are all made.
#[derive(Clone, Copy)]
pub struct Depth {
    pub choices_max: u32,
    /// Images of one moment; beyond, evenly chosen ones.
    pub images_max: usize,
    /// One distinct image in so many is recovered under power cuts.
    pub per_second_cut: usize,
    /// One distinct image in so many goes on to the end of the story.
    pub per_story: usize,
}

/// All moments of a telling.
pub fn every_moment(
    reference: &Reference,
    depth: Depth,
    until: &Until,
    count: &mut Count,
) -> Result<()> {
    let mut known: HashMap<u64, Found> = HashMap::new();
    let runtime = runtime()?;
    'moments: for moment in spread(reference.moments.len()) {
        let (disk, reported) = &reference.moments[moment];
        for image in images(disk, depth) {
            if !known.is_empty() && until.is_over() {
                break 'moments;
            }
            count.images += 1;
            let found = match known.get(&image.fingerprint()) {
                Some(found) => *found,
                None => {
                    let number = known.len();
                    let found = look(reference, &runtime, &image, depth, number, count)
                        .with_context(|| format!("an image of moment {moment}"))?;
                    known.insert(image.fingerprint(), found);
                    found
                }
            };
            found.holds(*reported).with_context(|| format!("an image of moment {moment}"))?;
        }
    }
    count.distinct_images += known.len() as u64;
    Ok(())
}

fn images(disk: &MemoryFiles, depth: Depth) -> impl Iterator<Item = MemoryFiles> {
    let stride = disk.crash_image_count(depth.choices_max).div_ceil(depth.images_max);
    disk.crash_images(depth.choices_max).step_by(stride)
}

/// Recovers an image for the first time.
fn look(
    reference: &Reference,
    runtime: &Runtime,
    image: &MemoryFiles,
    depth: Depth,
    number: usize,
    count: &mut Count,
) -> Result<Found> {
    let read = reference.recover(image, Reported::default())?;
    let height = read.replica.head().height;
    let checkpoint = read.checkpoint.as_ref().map(|from| from.base.manifest.height());
    let reported = Reported { operations: 0, height, checkpoint };
    if number.is_multiple_of(depth.per_second_cut) {
        cut_again(reference, image, reported, count).context("cut again while it recovers")?;
    }
    if number.is_multiple_of(depth.per_story) {
        reference.go_on(runtime, &image.copy(), reported).context("going on")?;
        count.stories += 1;
    }
    Ok(Found { height, checkpoint })
}

/// Recovery itself, cut at each of its file operations: it may lose nothing that it has found, and
/// once it is done readers have seen it.
fn cut_again(
    reference: &Reference,
    image: &MemoryFiles,
    reported: Reported,
    count: &mut Count,
) -> Result<()> {
    let files = image.copy();
    files.remember();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    drop(Running::open(&shared, reference.story.protocol)?);
    for moment in files.moments() {
        for again in moment.crash_images(3) {
            reference.recover(&again, reported)?;
            count.second_cuts += 1;
        }
    }
    Ok(())
}

/// Processes that are killed at every moment, which takes nothing of what they have written; the
/// power goes when the next one has told the rest of the story. What the first has not synced the
/// second must not take for durable.
pub fn after_kills(
    reference: &Reference,
    stride: usize,
    until: &Until,
    count: &mut Count,
) -> Result<()> {
    let runtime = runtime()?;
    let end = Reported { checkpoint: None, ..reference.reported() };
    for (turn, place) in spread(reference.moments.len().div_ceil(stride)).enumerate() {
        if turn > 0 && until.is_over() {
            break;
        }
        let moment = place * stride;
        let (disk, reported) = &reference.moments[moment];
        let context = || format!("killed at moment {moment}");
        let files = disk.copy();
        reference.go_on(&runtime, &files, *reported).with_context(context)?;
        count.stories += 1;
        for image in files.crash_images(2).step_by(3) {
            reference.recover(&image, end).with_context(context)?;
            count.images += 1;
        }
    }
    Ok(())
}

/// Random images of random moments, for stories too long to look at all.
pub fn some_moments(
    reference: &Reference,
    random: &mut Random,
    images: u64,
    until: &Until,
    count: &mut Count,
) -> Result<()> {
    for turn in 0..images {
        if turn > 0 && until.is_over() {
            break;
        }
        let moment = random.below(reference.moments.len() as u64) as usize;
        let (disk, reported) = &reference.moments[moment];
        let image = disk.crash(random);
        count.images += 1;
        count.distinct_images += 1;
        let read = reference
            .recover(&image, *reported)
            .with_context(|| format!("a random image of moment {moment}"))?;
        // And on from there, as a writer would.
        let height = read.replica.head().height;
        let log = resume_writing(read.reader, &read.unrecorded, super::world::LOG)?;
        ensure!((log.next_height(), log.next_result()) == (height + 1, height + 1));
    }
    Ok(())
}
