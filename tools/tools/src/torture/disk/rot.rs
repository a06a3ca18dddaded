//! Folders in which bytes have changed and files are gone.
//!
//! No crash does that: a disk does, or a person. A start either refuses the folder and says where
//! it is wrong, or comes to the very state that it must, perhaps by an older checkpoint. The one
//! thing that cannot be told from a crash is damage to the end of the log after everything that a
//! later record or a checkpoint vouches for: it is reported as a torn tail, and set aside.
//!
//! Results can be computed again, so a start misses fewer of them than verification does, which
//! names the place of each changed byte, and finds the loss of any file.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use engine::{Fault, Replayed, recover};
use ledger::segment::parse_segment_path;
use ledger::{Files, MemoryFiles, Stream};

use super::count::{Count, Until, spread};
use super::world::{Reference, language};
use node::verification::{Verdict, verify_files};

/// Flips one bit of every `stride`-th byte of every file, and all bits of its neighbour.
pub fn flips(reference: &Reference, stride: usize, until: &Until, count: &mut Count) -> Result<()> {
    let files = reference.files.copy();
    let paths = files.paths();
    for (number, path) in paths.iter().enumerate() {
        let whole = files.contents(path).context("it was listed")?;
        // What the files before have left of the time, in equal parts.
        let share = until.part(100 / (paths.len() - number) as u32);
        for (turn, place) in spread(whole.len().div_ceil(stride)).enumerate() {
            if turn > 0 && share.is_over() {
                break;
            }
            let offset = place * stride;
            let mut rotten = whole.clone();
            rotten[offset] ^= if offset.is_multiple_of(2) { 1 << (offset / 2 % 8) } else { 0xff };
            files.plant(path, rotten);
            let outcome = judge(reference, &files);
            let outcome = outcome.and_then(|refused| {
                names_place(&files, path)?;
                Ok(refused)
            });
            count.flips += 1;
            count.refused += u64::from(outcome.with_context(|| format!("{path}, byte {offset}"))?);
        }
        files.plant(path, whole);
    }
    Ok(())
}

/// Removes each file in turn.
pub fn lost_files(reference: &Reference, count: &mut Count) -> Result<()> {
    for path in reference.files.paths() {
        let files = reference.files.copy();
        files.remove(&path)?;
        let refused = judge(reference, &files).with_context(|| format!("without {path}"))?;
        misses_results(&files, &path)?;
        count.lost_files += 1;
        count.refused += u64::from(refused);
    }
    Ok(())
}

fn of_results(path: &str) -> bool {
    matches!(parse_segment_path(path), Some((Stream::Results, _)))
}

/// Verification says in which file of results the bytes have changed.
fn names_place(files: &MemoryFiles, path: &str) -> Result<()> {
    if !of_results(path) {
        return Ok(());
    }
    let found = verify_files(Arc::new(files.clone()), 1)?;
    let said = match &found.verdict {
        Verdict::Sound => found.results_torn.as_ref().context("nothing is said")?,
        Verdict::TornTail { detail, .. }
        | Verdict::Damaged { detail, .. }
        | Verdict::Differs { detail, .. } => detail,
    };
    ensure!(said.contains(path), "verify: {said}");
    Ok(())
}

/// Verification misses a file of results.
fn misses_results(left: &MemoryFiles, path: &str) -> Result<()> {
    if !of_results(path) {
        return Ok(());
    }
    let found = verify_files(Arc::new(left.clone()), 1)?;
    let damaged = matches!(found.verdict, Verdict::Damaged { .. });
    ensure!(damaged, "verify without {path}: {:?}", found.verdict);
    Ok(())
}

/// Whether the folder is refused or reported; if it is not, nothing may be missing.
fn judge(reference: &Reference, files: &MemoryFiles) -> Result<bool> {
    match recover(Arc::new(files.clone()), &language, 1, &mut |_| ()) {
        Ok(Replayed { replica, torn_tail: Some(_), .. }) => {
            let height = reference.compare(&replica)?;
            ensure!(height + 1 >= reference.head(), "a torn tail behind block {height}");
            Ok(true)
        }
        Ok(Replayed { replica, .. }) => {
            let height = reference.compare(&replica)?;
            ensure!(height == reference.head(), "silently ends at block {height}");
            Ok(false)
        }
        Err(Fault::Damage(_) | Fault::Mismatch(_) | Fault::TornTail(_) | Fault::Io(_)) => Ok(true),
        Err(Fault::Unusable(height, why)) => bail!("given up behind block {height}: {why}"),
        Err(Fault::Halt(height, halt)) => bail!("block {height}: {halt}"),
        Err(Fault::Empty) => bail!("taken for an empty folder"),
    }
}
