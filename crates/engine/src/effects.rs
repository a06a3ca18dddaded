//! What a block changed: the root that its header names, and the rows in words.
//!
//! The ledger keeps the root alone. So where a block does not give its recorded root again, what
//! can be said is what it changes when it is run now; the difference is in one of these rows, or in
//! one that is missing among them.

use ledger::Hash;
use ledger::effects::{Effect, EffectsBuilder, row_image_hash};
use storage::{Change, Changes};
use types::Result;

use crate::language::{ObjectChange, SCHEMA_TABLE};

/// The net changes of an executed block.
pub enum Effects {
    Rows(Changes),
    /// Those of a schema change, sorted by name.
    Objects(Vec<ObjectChange>),
}

/// One net change, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedRow {
    /// Index of the transaction that wrote last; a row that is gone does not tell.
    pub transaction: Option<usize>,
    pub table: String,
    /// The primary key's values, in PostgreSQL's text form.
    pub key: String,
    /// `inserted`, `updated` or `deleted`.
    pub change: &'static str,
}

impl std::fmt::Display for ChangedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.change, self.table, self.key)?;
        match self.transaction {
            Some(index) => write!(f, " by transaction {index}"),
            None => Ok(()),
        }
    }
}

impl Effects {
    pub fn len(&self) -> usize {
        match self {
            Effects::Rows(changes) => changes.len(),
            Effects::Objects(objects) => objects.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn root(&self) -> Result<Hash> {
        match self {
            Effects::Rows(changes) => row_root(changes),
            Effects::Objects(objects) => object_root(objects),
        }
    }

    /// The changes in the order of the root's leaves.
    pub fn rows(&self) -> Vec<ChangedRow> {
        match self {
            Effects::Rows(changes) => changes.touched().iter().map(changed_row).collect(),
            Effects::Objects(objects) => objects.iter().map(changed_object).collect(),
        }
    }
}

/// Changes ahead of which memory is fetched.
const AHEAD: usize = 4;

pub(crate) fn row_root(changes: &Changes) -> Result<Hash> {
    let mut effects = EffectsBuilder::new();
    let mut image = Vec::new();
    for (place, change) in changes.touched().iter().enumerate() {
        changes.prefetch(place + AHEAD);
        image.clear();
        let previous = change.before_image(&mut image)?;
        let before = previous.map(|_| row_image_hash(&image));
        image.clear();
        let after = change.after_image(&mut image)?.map(|_| row_image_hash(&image));
        effects.push(&Effect {
            table: change.table(),
            key: change.key().as_bytes(),
            before,
            after,
            previous_height: previous.map_or(0, |stamp| stamp.height()),
        })?;
    }
    Ok(effects.root())
}

/// Schema objects stand in the effects as rows of table 0: their names are keys, their definitions
/// images. They have no stamps, so the height of the previous change is not told.
fn object_root(objects: &[ObjectChange]) -> Result<Hash> {
    let mut effects = EffectsBuilder::new();
    for object in objects {
        let hash = |text: &Option<String>| text.as_ref().map(|t| row_image_hash(t.as_bytes()));
        effects.push(&Effect {
            table: SCHEMA_TABLE,
            key: object.name.as_bytes(),
            before: hash(&object.before),
            after: hash(&object.after),
            previous_height: 0,
        })?;
    }
    Ok(effects.root())
}

fn changed_row(change: &Change) -> ChangedRow {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let was = change.before(&mut before);
    let is = change.after(&mut after);
    let row = if is.is_some() { &after } else { &before };
    let schema = change.schema();
    let key = schema.primary_key.iter().map(|&id| {
        let id = usize::from(id);
        row[id].to_text(&schema.columns[id].data_type)
    });
    ChangedRow {
        transaction: is.map(|stamp| stamp.position() as usize),
        table: schema.name.clone(),
        key: format!("({})", key.collect::<Vec<_>>().join(", ")),
        change: change_word(was.is_some(), is.is_some()),
    }
}

fn changed_object(object: &ObjectChange) -> ChangedRow {
    ChangedRow {
        transaction: Some(0),
        table: "schema".to_owned(),
        key: format!("({})", object.name),
        change: change_word(object.before.is_some(), object.after.is_some()),
    }
}

fn change_word(was: bool, is: bool) -> &'static str {
    match (was, is) {
        (false, _) => "inserted",
        (true, true) => "updated",
        (true, false) => "deleted",
    }
}
