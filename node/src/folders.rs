//! Recognises what a folder on the command line is: a ledger, a backup, an unfinished copy of
//! either, or none of them.

use std::fs::{DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ledger::backup::{self, BackupFiles};
use ledger::{Files, RealFiles, TornTail, checkpoint};
use types::{Error, SqlState};

/// In a folder that `tally restore` has not finished.
pub const RESTORING: &str = "RESTORING";

/// A folder that a node may be started on: its owner's alone, as those above it that are missing.
pub fn create_private(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // It may have been there.
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// A ledger's folder, or a backup or an archive of one, to be read. No node may be running on it.
pub fn open(path: &Path) -> Result<Arc<dyn Files>> {
    let opened = RealFiles::read_only(path);
    if is_busy(&opened) {
        let what = format!("{}: the data folder is in use by another process", path.display());
        let hint = "Stop the node, or take a backup of it while it runs (tally backup) and look \
                    at that.";
        return Err(refused(what).with_hint(hint).into());
    }
    let files: Arc<dyn Files> = Arc::new(opened?);
    refuse_unfinished(&*files, path)?;
    if !backup::is_backup(&*files)? {
        return Ok(files);
    }
    let opened = BackupFiles::open(files);
    Ok(Arc::new(opened.with_context(|| format!("cannot open the backup {}", path.display()))?))
}

/// A ledger's folder as its only user. Who looks whether it [is in use](is_in_use) has it for a
/// moment, and is waited for.
pub fn open_to_write(path: &Path) -> Result<Arc<dyn Files>> {
    const TRIES: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(20);
    let mut opened = RealFiles::open(path);
    for _ in 1..TRIES {
        if !is_busy(&opened) {
            break;
        }
        std::thread::sleep(PAUSE);
        opened = RealFiles::open(path);
    }
    let files: Arc<dyn Files> = Arc::new(opened?);
    refuse_unless_data(&*files, path)?;
    Ok(files)
}

/// Says what lies after the last whole block, which a reader could take for the end.
/// An error if a checkpoint says that there were more blocks, and no power cut took them.
pub fn tell_end(files: &dyn Files, next_height: u64, torn: Option<&TornTail>) -> Result<()> {
    let above = checkpoint::heights(files)?.into_iter().filter(|height| *height >= next_height);
    let claims = above.filter_map(|height| checkpoint::read_manifest(files, height).ok());
    let durable_below = claims.map(|manifest| manifest.durable_below).max().unwrap_or(0);
    if durable_below > next_height {
        let what = format!(
            "blocks {next_height} to {} are damaged or missing: a checkpoint says that they were \
             on stable storage",
            durable_below - 1
        );
        let mut lost = Error::new(SqlState::DATA_CORRUPTED, what);
        if let Some(tail) = torn {
            lost = lost.with_detail(tail.to_string());
        }
        if let Some(last) = next_height.checked_sub(1) {
            let without =
                format!("Restore the ledger without them: tally restore --to-block {last}.");
            lost = lost.with_hint(without);
        }
        return Err(lost.into());
    }
    if let Some(tail) = torn {
        eprintln!("tally: {tail}; the ledger is taken up to the block before");
    }
    Ok(())
}

/// Whether a process uses the folder, and may be writing to it.
pub fn is_in_use(path: &Path) -> Result<bool> {
    let opened = RealFiles::read_only(path);
    if is_busy(&opened) {
        return Ok(true);
    }
    opened?;
    Ok(false)
}

fn is_busy(opened: &std::io::Result<RealFiles>) -> bool {
    opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// A writer here must not take a backup, or half of a ledger, for one.
pub fn refuse_unless_data(files: &dyn Files, path: &Path) -> Result<()> {
    refuse_unfinished(files, path)?;
    if !backup::is_backup(files)? {
        return Ok(());
    }
    let what = format!("{} is a backup or an archive, and no ledger to work on", path.display());
    let hint = "Make a ledger of it in a new folder: tally restore --from BACKUP --data NEW.";
    Err(refused(what).with_hint(hint).into())
}

fn refuse_unfinished(files: &dyn Files, path: &Path) -> Result<()> {
    if !files.list("")?.iter().any(|name| name == RESTORING) {
        return Ok(());
    }
    let what = format!("{} holds a restore that was not finished", path.display());
    let hint = "Remove the folder and run `tally restore` again.";
    Err(refused(what).with_hint(hint).into())
}

/// 55000.
pub fn refused(what: impl Into<String>) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
}

/// What an error advises, wherever in the chain of causes it stands.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    let own =
        |cause: &'_ (dyn std::error::Error + 'static)| cause.downcast_ref::<Error>().is_some();
    let cause = error.chain().find(|cause| own(*cause))?;
    cause.downcast_ref::<Error>()?.fields().hint.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_for_a_moment_keeps_no_node_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        drop(RealFiles::open(folder.path()).unwrap());
        let looking = RealFiles::read_only(folder.path()).unwrap();
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| open_to_write(folder.path()).is_ok());
            std::thread::sleep(Duration::from_millis(30));
            drop(looking);
            assert!(opened.join().unwrap());
        });
        let _user = open_to_write(folder.path()).unwrap();
        assert!(open_to_write(folder.path()).is_err(), "who stays is not waited for");
    }
}
