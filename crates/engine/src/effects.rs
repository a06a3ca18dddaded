//! What a block changed: the root that its result header names, and the rows in words.
//!
//! A block without schema changes is one step, whose rows are sorted by table and key. A schema or
//! parameter change is a step of its own, and so is what stands between two of them; the leaves of
//! the root are those of the steps, one step after the other. In each step the image before is that
//! before the block.
//!
//! The ledger keeps the root and the count alone. So where a block does not give its recorded root
//! again, what can be said is what it changes when it is run now; the difference is in one of these
//! rows, or in one that is missing among them.

use ledger::EffectsDigest;
use ledger::effects::{Effect, EffectsBuilder, row_image_hash};
use storage::{Change, Changes};
use types::Result;

use crate::language::{ObjectChange, SCHEMA_TABLE};

/// The net changes of an executed block.
#[derive(Default)]
pub struct Effects {
    steps: Vec<Step>,
}

/// What one step of a block changed.
pub enum Step {
    Rows(Changes),
    /// Those of a schema change, sorted by name.
    Objects(Vec<ObjectChange>),
}

/// One net change, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedRow {
    /// Position in the block of the transaction that wrote last; a row that is gone does not tell.
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
    pub fn of_rows(changes: Changes) -> Effects {
        Effects { steps: vec![Step::Rows(changes)] }
    }

    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The changed rows of each step that ran transactions.
    pub fn row_steps(&self) -> impl Iterator<Item = &Changes> {
        self.steps.iter().filter_map(|step| match step {
            Step::Rows(changes) => Some(changes),
            Step::Objects(_) => None,
        })
    }

    /// The rows of a block that ran in one step, without a schema change.
    pub fn only_rows(&self) -> Option<&Changes> {
        match &self.steps[..] {
            [Step::Rows(changes)] => Some(changes),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        let of = |step: &Step| match step {
            Step::Rows(changes) => changes.len(),
            Step::Objects(objects) => objects.len(),
        };
        self.steps.iter().map(of).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The root, and how many leaves it has.
    pub fn digest(&self) -> Result<EffectsDigest> {
        let mut effects = EffectsBuilder::new();
        for step in &self.steps {
            effects.begin_step();
            match step {
                Step::Rows(changes) => push_rows(changes, &mut effects)?,
                Step::Objects(objects) => push_objects(objects, &mut effects)?,
            }
        }
        Ok(effects.digest())
    }

    /// The changes in the order of the root's leaves.
    pub fn rows(&self) -> Vec<ChangedRow> {
        let of = |step: &Step| -> Vec<ChangedRow> {
            match step {
                Step::Rows(changes) => changes.touched().iter().filter_map(changed_row).collect(),
                Step::Objects(objects) => objects.iter().map(changed_object).collect(),
            }
        };
        self.steps.iter().flat_map(of).collect()
    }
}

/// Changes ahead of which memory is fetched.
const AHEAD: usize = 4;

/// The digest of the rows of a block that ran in one step.
pub(crate) fn row_digest(changes: &Changes) -> Result<EffectsDigest> {
    let mut effects = EffectsBuilder::new();
    push_rows(changes, &mut effects)?;
    Ok(effects.digest())
}

fn push_rows(changes: &Changes, effects: &mut EffectsBuilder) -> Result<()> {
    let mut image = Vec::new();
    for (place, change) in changes.touched().iter().enumerate() {
        changes.prefetch(place + AHEAD);
        image.clear();
        let previous = change.before_image(&mut image)?;
        let before = previous.map(|_| row_image_hash(&image));
        image.clear();
        let after = change.after_image(&mut image)?.map(|_| row_image_hash(&image));
        // It came in one step of the block and went in another.
        if before.is_none() && after.is_none() {
            continue;
        }
        effects.push(&Effect {
            table: change.table(),
            key: change.key().as_bytes(),
            before,
            after,
            previous_height: previous.map_or(0, |stamp| stamp.height()),
        })?;
    }
    Ok(())
}

/// Schema objects stand in the effects as rows of table 0: their names are keys, their definitions
/// images. They have no stamps, so the height of the previous change is not told.
fn push_objects(objects: &[ObjectChange], effects: &mut EffectsBuilder) -> Result<()> {
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
    Ok(())
}

/// `None`: it came in one step of the block and went in another.
fn changed_row(change: &Change) -> Option<ChangedRow> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let was = change.before(&mut before);
    let is = change.after(&mut after);
    if was.is_none() && is.is_none() {
        return None;
    }
    let row = if is.is_some() { &after } else { &before };
    let schema = change.schema();
    let key = schema.primary_key.iter().map(|&id| {
        let id = usize::from(id);
        row[id].to_text(&schema.columns[id].data_type)
    });
    Some(ChangedRow {
        transaction: is.map(|stamp| stamp.position() as usize),
        table: schema.name.clone(),
        key: format!("({})", key.collect::<Vec<_>>().join(", ")),
        change: change_word(was.is_some(), is.is_some()),
    })
}

fn changed_object(object: &ObjectChange) -> ChangedRow {
    ChangedRow {
        transaction: None,
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
