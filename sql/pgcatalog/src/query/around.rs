//! What is around a run of a query over system catalogs: the catalog's rows, the session, and what
//! the functions of catalogs need besides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kit::sync::lock;
use procedure::Interrupt;
use regex::Regex;
use types::{Error, Result, SqlState};

use super::cast::Names;
use crate::world::{Contents, Session, World};

/// Patterns that are kept compiled; those of rows may be another one for each.
const PATTERNS_MAX: usize = 256;

/// What a pattern may take, and the text that it is looked for in: one match is not interrupted.
const PATTERN_BYTES_MAX: usize = 256 << 10;
const MATCHED_BYTES_MAX: usize = 256 << 10;

/// By text, and whether case does not matter.
type Patterns = HashMap<(String, bool), Arc<Regex>>;

pub struct Around {
    pub world: Arc<World>,
    pub session: Session,
    patterns: Mutex<Patterns>,
    /// Rows of relations that the run has read, by place.
    read: Mutex<HashMap<usize, Arc<Contents>>>,
    interrupt: Arc<dyn Interrupt>,
}

/// Of runs that nothing ends.
pub struct Unhurried;

impl Interrupt for Unhurried {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// # Errors
/// 54000 for a text that is longer than anything that catalogs hold.
fn check_matched_bytes(text: &str) -> Result<()> {
    match text.len() <= MATCHED_BYTES_MAX {
        true => Ok(()),
        false => {
            let what = "the text is too long for a regular expression over system catalogs";
            Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(format!("It may have {MATCHED_BYTES_MAX} bytes.")))
        }
    }
}

impl Around {
    pub fn new(world: Arc<World>, session: Session, interrupt: Arc<dyn Interrupt>) -> Around {
        let (patterns, read) = (Mutex::default(), Mutex::default());
        Around { world, session, patterns, read, interrupt }
    }

    /// Whether the run should go on.
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    pub fn names(&self) -> Names<'_> {
        Names { world: &self.world }
    }

    /// The rows of the relation at this place of [`relation::all`], the same for a whole run.
    pub fn contents(&self, place: usize) -> Result<Arc<Contents>> {
        if let Some(contents) = lock(&self.read).get(&place) {
            return Ok(Arc::clone(contents));
        }
        let contents = self.world.contents(place, &self.session)?;
        lock(&self.read).insert(place, Arc::clone(&contents));
        Ok(contents)
    }

    /// A pattern to be looked for in `text`.
    pub fn regex(&self, pattern: &str, any_case: bool, text: &str) -> Result<Arc<Regex>> {
        self.check()?;
        check_matched_bytes(text)?;
        let key = (pattern.to_owned(), any_case);
        if let Some(known) = lock(&self.patterns).get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut regex = regex::RegexBuilder::new(pattern);
        let regex = regex.case_insensitive(any_case).size_limit(PATTERN_BYTES_MAX).build();
        let regex = regex.map_err(|error| {
            Error::new(SqlState(*b"2201B"), "invalid regular expression")
                .with_detail(error.to_string())
        })?;
        let regex = Arc::new(regex);
        let mut patterns = lock(&self.patterns);
        if patterns.len() >= PATTERNS_MAX {
            patterns.clear();
        }
        patterns.insert(key, Arc::clone(&regex));
        Ok(regex)
    }
}
