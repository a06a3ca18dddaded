//! Membership changes that are still to be written to the ledger after `tally cluster recover` let
//! one member go on alone; kept in its folder until they are ordered.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cluster::plan::FOLDER;
use cluster::{Membership, members::Known};
use engine::Engine;
use engine::limits::MEMBERS;
use ledger::hash::hash_from_hex;
use serde::{Deserialize, Serialize};

use super::change::by_request;

const FILE: &str = "recovering.json";

/// What is left to be written to the ledger before others may join.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pending {
    /// Where this member is none yet.
    pub add: Option<String>,
    pub remove: Vec<u64>,
}

impl Pending {
    /// Into the folder, on stable storage.
    pub fn write(&self, data: &Path) -> Result<()> {
        let path = path(data);
        fs::write(&path, serde_json::to_vec(self)?)?;
        fs::File::open(&path)?.sync_all()?;
        Ok(fs::File::open(data.join(FOLDER))?.sync_all()?)
    }

    pub fn read(data: &Path) -> Result<Option<Pending>> {
        let path = path(data);
        match fs::read(&path) {
            Ok(bytes) => {
                let read = serde_json::from_slice(&bytes);
                Ok(Some(read.with_context(|| path.display().to_string())?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// The members without those that go.
    pub fn without(&self, membership: &Membership) -> Membership {
        let stays = |(id, _): &(&u64, &Known)| !self.remove.contains(id);
        Membership(
            membership.0.iter().filter(stays).map(|(id, known)| (*id, known.clone())).collect(),
        )
    }

    /// Writes to the ledger what is not there yet; this node leads, and alone.
    pub async fn complete(&self, data: &Path, engine: &Engine, owner: &str) -> Result<()> {
        if let Some(add) = &self.add {
            let membership = Membership::parse(&engine.parameter(MEMBERS)?)?;
            let key = add.split('&').find_map(|word| word.strip_prefix("key="));
            let key = hash_from_hex(key.unwrap_or_default());
            let key = key.map_err(|_| anyhow::anyhow!("{FILE} names no key"))?;
            if membership.id_of(&key).is_none() {
                by_request(engine, owner, add).await?;
            }
        }
        for member in &self.remove {
            let membership = Membership::parse(&engine.parameter(MEMBERS)?)?;
            if membership.0.contains_key(member) {
                by_request(engine, owner, &format!("remove={member}")).await?;
            }
        }
        fs::remove_file(path(data))?;
        Ok(fs::File::open(data.join(FOLDER))?.sync_all()?)
    }
}

fn path(data: &Path) -> PathBuf {
    data.join(FOLDER).join(FILE)
}
