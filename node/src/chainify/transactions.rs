//! A file of transactions, one a line, each a JSON list of its statements.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use kit::sync::lock;

pub struct Transactions {
    path: PathBuf,
    lines: Mutex<(u64, Lines<BufReader<File>>)>,
}

impl Transactions {
    pub fn open(path: &Path) -> Result<Transactions> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = Mutex::new((0, BufReader::new(file).lines()));
        Ok(Transactions { path: path.to_owned(), lines })
    }

    /// The next one, for the task that asks first.
    pub fn next(&self) -> Result<Option<Vec<String>>> {
        let mut lines = lock(&self.lines);
        let (number, read) = &mut *lines;
        *number += 1;
        let what = || format!("line {number} of {}", self.path.display());
        let Some(line) = read.next().transpose().with_context(what)? else { return Ok(None) };
        let statements = serde_json::from_str(&line);
        statements.map(Some).with_context(|| format!("{} is no list of statements", what()))
    }
}
