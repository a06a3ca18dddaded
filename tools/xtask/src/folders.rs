//! Where crates lie: in folders that are floors, so that the tree on disk is the map.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder with a manifest of its own is a crate.
pub const FOLDERS: &[&str] = &["core", "trust", "sql", "network", "studies", "node", "tools"];

/// Crates by name, each with the folder in [`FOLDERS`] and its path below the root.
pub fn crates(root: &Path) -> io::Result<BTreeMap<String, (&'static str, PathBuf)>> {
    let mut crates = BTreeMap::new();
    for folder in FOLDERS {
        if root.join(folder).join("Cargo.toml").exists() {
            crates.insert((*folder).to_owned(), (*folder, PathBuf::from(folder)));
            continue;
        }
        for entry in fs::read_dir(root.join(folder))? {
            let entry = entry?;
            if entry.path().join("Cargo.toml").exists() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = Path::new(folder).join(&name);
                crates.insert(name, (*folder, path));
            }
        }
    }
    Ok(crates)
}
