//! What a block changed: the root that its result header names, and the rows in words.
//!
//! A block without schema changes is one step, whose rows are sorted by table and key. A schema or
//! parameter change is a step of its own, and so is what stands between two of them; the leaves of
//! the root are those of the steps, one step after the other, each between the images that the step
//! found and left: a schema change in between may have written the row anew, in other columns.
//!
//! The images of a block that is one step stay readable, so it is hashed off the critical path.
//! Those of a step that others follow are gone with them, and are hashed at its end
//! ([`Effects::tell`]).
//!
//! The ledger keeps the root and the count alone. So where a block does not give its recorded root
//! again, what can be said is what it changes when it is run now; the difference is in one of these
//! rows, or in one that is missing among them.

use std::sync::Arc;

use ledger::effects::{Effect, EffectsBuilder, row_image_hash};
use ledger::{EffectsDigest, Hash};
use proofs::TreeKey;
use state_tree::{Change as RowChange, Value as RowState};
use storage::{Change, Changes};
use types::key::decode_key;
use types::{Error, Height, Key, Result, Stamp, TableSchema, Value};

use crate::language::{ObjectChange, SCHEMA_TABLE};

/// The net changes of an executed block.
#[derive(Default)]
pub struct Effects {
    steps: Vec<Step>,
}

/// What one step of a block changed.
pub enum Step {
    Rows(Changes),
    /// The same, hashed.
    Hashed(Vec<HashedRow>),
    /// Those of a schema change, sorted by name.
    Objects(Vec<ObjectChange>),
}

/// A row's net change, without its images.
pub struct HashedRow {
    schema: Arc<TableSchema>,
    key: Key,
    before: Option<Hash>,
    after: Option<Hash>,
    previous_height: Height,
    /// That of the row afterwards.
    stamp: Option<Stamp>,
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

    /// Hashes the rows of all steps so far, for there are others or there will be.
    pub(crate) fn tell(&mut self) -> Result<()> {
        for step in &mut self.steps {
            if let Step::Rows(changes) = step {
                *step = Step::Hashed(hashed(changes)?);
            }
        }
        Ok(())
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
            Step::Hashed(rows) => rows.len(),
            Step::Objects(objects) => objects.len(),
        };
        self.steps.iter().map(of).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the schema or the parameters changed, or could have.
    pub fn change_objects(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Objects(_)))
    }

    /// The root, and how many leaves it has.
    pub fn digest(&self) -> Result<EffectsDigest> {
        self.digest_with(None)
    }

    /// The same; `rows` gets what becomes of each row, step by step.
    pub fn digest_with(&self, mut rows: Option<&mut Vec<RowChange>>) -> Result<EffectsDigest> {
        let mut effects = EffectsBuilder::new();
        for step in &self.steps {
            effects.begin_step();
            match step {
                Step::Rows(changes) => push_rows(changes, &mut effects, rows.as_deref_mut())?,
                Step::Hashed(hashed) => hashed.iter().try_for_each(|row| {
                    note(rows.as_deref_mut(), row.stamp, &row.effect());
                    effects.push(&row.effect())
                })?,
                Step::Objects(objects) => push_objects(objects, &mut effects)?,
            }
        }
        Ok(effects.digest())
    }

    /// The changes in the order of the root's leaves.
    pub fn rows(&self) -> Vec<ChangedRow> {
        let of = |step: &Step| -> Vec<ChangedRow> {
            match step {
                Step::Rows(changes) => changes.touched().iter().map(changed_row).collect(),
                Step::Hashed(rows) => rows.iter().map(HashedRow::shown).collect(),
                Step::Objects(objects) => objects.iter().map(changed_object).collect(),
            }
        };
        self.steps.iter().flat_map(of).collect()
    }
}

/// Changes ahead of which memory is fetched.
const AHEAD: usize = 4;

/// The digest of the rows of a block that ran in one step.
pub fn row_digest(changes: &Changes) -> Result<EffectsDigest> {
    let mut effects = EffectsBuilder::new();
    push_rows(changes, &mut effects, None)?;
    Ok(effects.digest())
}

fn push_rows(
    changes: &Changes,
    effects: &mut EffectsBuilder,
    mut rows: Option<&mut Vec<RowChange>>,
) -> Result<()> {
    each_effect(changes, &mut |_, stamp, effect| {
        note(rows.as_deref_mut(), stamp, effect);
        effects.push(effect)
    })
}

/// Adds what becomes of a row to `rows`.
fn note(rows: Option<&mut Vec<RowChange>>, stamp: Option<Stamp>, effect: &Effect<'_>) {
    let Some(rows) = rows else { return };
    let value = stamp.zip(effect.after);
    let value = value.map(|(stamp, image)| RowState { image, height: stamp.height() });
    rows.push(RowChange { key: TreeKey::new(effect.table.0, effect.key), value });
}

fn hashed(changes: &Changes) -> Result<Vec<HashedRow>> {
    let mut rows = Vec::with_capacity(changes.len());
    each_effect(changes, &mut |change, stamp, effect| {
        rows.push(HashedRow {
            schema: Arc::clone(change.schema()),
            key: change.key().clone(),
            before: effect.before,
            after: effect.after,
            previous_height: effect.previous_height,
            stamp,
        });
        Ok(())
    })?;
    Ok(rows)
}

/// Shows `visit` each change, with the stamp of the row afterwards.
fn each_effect(
    changes: &Changes,
    visit: &mut impl FnMut(&Change, Option<Stamp>, &Effect<'_>) -> Result<()>,
) -> Result<()> {
    let mut image = Vec::new();
    for (place, change) in changes.touched().iter().enumerate() {
        changes.prefetch(place + AHEAD);
        image.clear();
        let previous = change.before_image(&mut image)?;
        let before = previous.map(|_| row_image_hash(&image));
        image.clear();
        let stamp = change.after_image(&mut image)?;
        let effect = Effect {
            table: change.table(),
            key: change.key().as_bytes(),
            before,
            after: stamp.map(|_| row_image_hash(&image)),
            previous_height: previous.map_or(0, |stamp| stamp.height()),
        };
        visit(change, stamp, &effect)?;
    }
    Ok(())
}

impl HashedRow {
    fn effect(&self) -> Effect<'_> {
        let HashedRow { schema, key, before, after, previous_height, .. } = self;
        let (before, after, previous_height) = (*before, *after, *previous_height);
        Effect { table: schema.id, key: key.as_bytes(), before, after, previous_height }
    }

    fn shown(&self) -> ChangedRow {
        shown((&self.schema, &self.key), self.before.is_some(), self.stamp)
    }
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

fn changed_row(change: &Change) -> ChangedRow {
    let mut row = Vec::new();
    let was = change.before(&mut row).is_some();
    shown((change.schema(), change.key()), was, change.after(&mut row))
}

/// `is`: the stamp of the row afterwards.
fn shown((schema, key): (&TableSchema, &Key), was: bool, is: Option<Stamp>) -> ChangedRow {
    let columns = || schema.primary_key.iter().map(|&id| &schema.columns[usize::from(id)]);
    let decoded = decode_key(columns().map(|column| (&column.data_type, column.nullable)), &key.0);
    let text = |values: Vec<Value>| -> Vec<String> {
        let values = values.iter().zip(columns());
        values.map(|(value, column)| value.to_text(&column.data_type)).collect()
    };
    let unreadable = |error: Error| vec![error.to_string()];
    let key = decoded.map_or_else(unreadable, text).join(", ");
    ChangedRow {
        transaction: is.map(|stamp| stamp.position() as usize),
        table: schema.name.clone(),
        key: format!("({key})"),
        change: change_word(was, is.is_some()),
    }
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
