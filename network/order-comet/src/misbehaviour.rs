//! What members were convicted of by evidence in CometBFT's blocks, kept beside its home's own
//! files: a block is handed over once, and a node forgets what it has in memory.
//!
//! ```text
//! cometbft/misbehaviour.json   [ {"member", "height", "kind", "time_us"}, … ]   written whole
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::Address;

const FILE: &str = "misbehaviour.json";
/// Of a validator, the first ones; the others stand in CometBFT's blocks.
const KEPT_MAX: usize = 100;

/// Of a member, as more than two thirds of the validators have verified.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Misbehaviour {
    /// 0: one that the ledger does not name.
    pub member: u64,
    /// CometBFT's name of it.
    pub validator: Address,
    /// CometBFT's height of the block that holds the evidence.
    pub found: u64,
    /// CometBFT's, of what it signed.
    pub height: u64,
    pub kind: Kind,
    /// That of the block of this height, in microseconds since 2000-01-01 UTC.
    pub time_us: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It signed two votes that contradict each other.
    DuplicateVote,
    /// It signed a block of another chain for those who see headers only.
    LightClientAttack,
    Unknown,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::DuplicateVote => "duplicate vote",
            Kind::LightClientAttack => "light client attack",
            Kind::Unknown => "unknown",
        }
    }
}

/// All that is known.
pub(crate) struct Kept {
    path: PathBuf,
    all: Vec<Misbehaviour>,
}

impl Kept {
    pub fn open(home: &Path) -> io::Result<Kept> {
        let path = home.join(FILE);
        let all = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                let what = format!("{} is damaged: {error}; remove it", path.display());
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Kept { path, all })
    }

    pub fn all(&self) -> Vec<Misbehaviour> {
        self.all.clone()
    }

    /// Whether it was not known: a block that is handed over again convicts of nothing new.
    pub fn add(&mut self, found: Misbehaviour) -> io::Result<bool> {
        if self.all.contains(&found) {
            return Ok(false);
        }
        if self.all.iter().filter(|it| it.validator == found.validator).count() >= KEPT_MAX {
            return Ok(false);
        }
        self.all.push(found);
        let made = self.path.with_extension("new");
        let mut file = File::create(&made)?;
        file.write_all(&serde_json::to_vec(&self.all).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(&made, &self.path)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_known_after_a_restart_and_once() {
        let home = tempfile::tempdir().unwrap();
        let of = |member: u64, height| {
            let (kind, validator) = (Kind::DuplicateVote, [member as u8; 20]);
            Misbehaviour { member, validator, found: height + 2, height, kind, time_us: 5 }
        };
        let mut kept = Kept::open(home.path()).unwrap();
        assert!(kept.add(of(4, 9)).unwrap() && kept.add(of(4, 10)).unwrap());
        assert!(!kept.add(of(4, 9)).unwrap());
        let mut kept = Kept::open(home.path()).unwrap();
        assert_eq!(kept.all(), [of(4, 9), of(4, 10)]);
        for height in 11..11 + KEPT_MAX as u64 {
            assert!(kept.add(of(1, height)).unwrap());
        }
        assert!(!kept.add(of(1, 9_999)).unwrap() && kept.add(of(2, 9_999)).unwrap());
        assert_eq!(kept.all().len(), 2 + KEPT_MAX + 1);
        assert_eq!(kept.all()[0], of(4, 9));
        fs::write(home.path().join(FILE), "[{").unwrap();
        let damaged = Kept::open(home.path()).err().unwrap().to_string();
        assert!(damaged.contains("misbehaviour.json is damaged"), "{damaged}");
    }
}
