//! Where databases lie, and how a folder gets from one place to another: by a rename, which is
//! whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ledger::LedgerId;
use ledger::hash::to_hex;
use sql::session::shared_state::databases::MovedAside;
use tracing::{info, warn};
use types::{Error, SqlState};

use crate::folders::create_private;

/// In the data folder of a node.
const DATABASES: &str = "databases";
const DROPPED: &str = "dropped";
const MAKING: &str = "making-";
/// In a database's folder: what it is called.
const NAME: &str = "DATABASE";

pub struct Folders {
    databases: PathBuf,
    dropped: PathBuf,
}

impl Folders {
    pub fn of(data: &Path) -> Folders {
        Folders { databases: data.join(DATABASES), dropped: data.join(DROPPED) }
    }

    fn place(&self, ledger: &LedgerId) -> PathBuf {
        self.databases.join(to_hex(ledger))
    }

    fn making(&self, ledger: &LedgerId) -> PathBuf {
        self.databases.join(format!("{MAKING}{}", to_hex(ledger)))
    }

    /// An empty folder for a ledger that is to be made.
    pub fn begin(&self, ledger: &LedgerId) -> io::Result<PathBuf> {
        let is_new = !self.databases.exists();
        let folder = self.making(ledger);
        create_private(&self.databases)?;
        if is_new && let Some(data) = self.databases.parent() {
            sync(data)?;
        }
        create_private(&folder)?;
        Ok(folder)
    }

    /// What was made and is no database.
    pub fn forget(&self, ledger: &LedgerId) -> io::Result<()> {
        match fs::remove_dir_all(self.making(ledger)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The folder of a registered database, which has its own name from now on.
    pub fn complete_rename(&self, ledger: &LedgerId, name: &str) -> anyhow::Result<PathBuf> {
        let (place, making) = (self.place(ledger), self.making(ledger));
        if !place.exists() && making.exists() {
            fs::rename(&making, &place)?;
            sync(&self.databases)?;
        }
        // A crash that lost acknowledged blocks may have lost what dropped it.
        if !place.exists()
            && let Some(aside) = self.aside(ledger)
        {
            create_private(&self.databases)?;
            fs::rename(&aside, &place)?;
            sync(&self.dropped)?;
            sync(&self.databases)?;
        }
        anyhow::ensure!(
            place.is_dir(),
            "its folder {} is not there: restore it from a backup",
            place.display()
        );
        if self.name(&place).as_deref() != Some(name) {
            self.write_name(ledger, name)?;
        }
        Ok(place)
    }

    /// The name in a folder.
    pub fn name(&self, folder: &Path) -> Option<String> {
        fs::read_to_string(folder.join(NAME)).ok().map(|text| text.trim_end().to_owned())
    }

    pub fn write_name(&self, ledger: &LedgerId, name: &str) -> io::Result<()> {
        write_name(&self.place(ledger), name)
    }

    /// Where a dropped database's folder is now.
    fn move_aside(&self, ledger: &LedgerId, name: &str) -> io::Result<PathBuf> {
        let from = self.place(ledger);
        create_private(&self.dropped)?;
        let plain = |c: char| if c.is_alphanumeric() || "_-".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        let to = self.dropped.join(format!("{name}-{}", to_hex(ledger)));
        fs::rename(&from, &to)?;
        sync(&self.databases)?;
        sync(&self.dropped)?;
        Ok(to)
    }

    /// What is in the folder of databases: numbers of ledgers, and which have their own names.
    pub fn all(&self) -> io::Result<Vec<(LedgerId, bool)>> {
        let all = match fs::read_dir(&self.databases) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            all => all?,
        };
        let mut known = Vec::new();
        for entry in all {
            let file_name = entry?.file_name();
            let Some(file_name) = file_name.to_str() else { continue };
            let (number, is_made) = match file_name.strip_prefix(MAKING) {
                Some(number) => (number, false),
                None => (file_name, true),
            };
            known.extend(ledger_of(number).map(|ledger| (ledger, is_made)));
        }
        Ok(known)
    }

    /// At a start, when none is being made: those that were, and are not registered.
    pub fn remove_unfinished(&self, registered: &BTreeMap<LedgerId, String>) -> io::Result<()> {
        for (ledger, is_made) in self.all()? {
            if !is_made && !registered.contains_key(&ledger) {
                self.forget(&ledger)?;
                let ledger = to_hex(&ledger);
                warn!(ledger, "a database that was not made to its end is removed");
            }
        }
        Ok(())
    }

    /// Moves aside what was registered once and is not any more.
    pub fn move_gone(
        &self,
        registered: &BTreeMap<LedgerId, String>,
    ) -> io::Result<Vec<MovedAside>> {
        let mut moved = Vec::new();
        for (ledger, is_made) in self.all()? {
            if is_made && !registered.contains_key(&ledger) {
                let name = self.name(&self.place(&ledger)).unwrap_or_default();
                let folder = self.move_aside(&ledger, &name)?;
                info!(database = name, folder = %folder.display(), "a dropped database is kept");
                moved.push(MovedAside { ledger, folder });
            }
        }
        Ok(moved)
    }

    /// Where a dropped database lies.
    fn aside(&self, ledger: &LedgerId) -> Option<PathBuf> {
        let number = format!("-{}", to_hex(ledger));
        let all = fs::read_dir(&self.dropped).ok()?;
        let mut paths = all.filter_map(|entry| Some(entry.ok()?.path()));
        paths.find(|path| path.to_str().is_some_and(|path| path.ends_with(&number)))
    }
}

pub(super) fn ledger_of(number: &str) -> Option<LedgerId> {
    let mut ledger = [0; 16];
    if number.len() != 2 * ledger.len() || !number.is_ascii() {
        return None;
    }
    for (place, byte) in ledger.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&number[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(ledger)
}

/// Where a database of a node's folder lies, be a node running or not.
///
/// # Errors
/// 3D000: none has this name.
pub fn folder_of(data: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folders = Folders::of(data);
    let (mut found, mut names) = (None, Vec::new());
    for (ledger, is_made) in folders.all()? {
        let place = folders.place(&ledger);
        let Some(known) = folders.name(&place).filter(|_| is_made) else { continue };
        if known == name {
            found = Some(place);
        }
        names.push(known);
    }
    names.sort();
    let hint = match names.is_empty() {
        true => "It has none.".to_owned(),
        false => format!("There are: {}.", names.join(", ")),
    };
    found.ok_or_else(|| {
        let what = format!("{} has no database \"{name}\"", data.display());
        Error::new(SqlState::INVALID_CATALOG_NAME, what).with_hint(hint).into()
    })
}

/// Beside the old one first, so that there is always one.
pub fn write_name(folder: &Path, name: &str) -> io::Result<()> {
    let new = folder.join(format!("{NAME}.new"));
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    writeln!(file, "{name}")?;
    file.sync_all()?;
    fs::rename(&new, folder.join(NAME))?;
    sync(folder)
}

pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_cleans_what_a_crash_has_left() {
        let data = tempfile::tempdir().unwrap();
        let folders = Folders::of(data.path());
        let [making, registered, dropped, lost] = [[1; 16], [2; 16], [3; 16], [4; 16]];
        for ledger in [&making, &registered, &dropped] {
            let folder = folders.begin(ledger).unwrap();
            fs::write(folder.join("held"), to_hex(ledger)).unwrap();
        }
        let place = folders.complete_rename(&dropped, "shop/../x").unwrap();
        assert_eq!(folders.name(&place).as_deref(), Some("shop/../x"));
        let known = BTreeMap::from([(registered, "kept".to_owned()), (lost, "lost".to_owned())]);
        for _ in 0..2 {
            folders.remove_unfinished(&known).unwrap();
            folders.move_gone(&known).unwrap();
            let aside = data.path().join(DROPPED).join(format!("shop____x-{}", to_hex(&dropped)));
            assert_eq!(fs::read_to_string(aside.join("held")).unwrap(), to_hex(&dropped));
            assert!(!folders.making(&making).exists() && !place.exists());
        }
        let place = folders.complete_rename(&registered, "kept").unwrap();
        assert!(place.join("held").exists());
        assert_eq!(folders.complete_rename(&registered, "renamed").unwrap(), place);
        assert_eq!(folders.name(&place).as_deref(), Some("renamed"));
        let back = folders.complete_rename(&dropped, "back").unwrap();
        assert!(back.join("held").exists(), "it was not dropped");
        let why = folders.complete_rename(&lost, "lost").unwrap_err();
        assert!(why.to_string().contains("restore it from a backup"), "{why}");
    }
}
