//! Enum types: labels in an order of their own.
//!
//! A value of an enum is its label's *position*, a [`Value::Int`](crate::Value::Int) whose order is
//! that of the labels; what it is called stands in the type alone. So labels are renamed, and new
//! ones put between others, without a change to a row:
//!
//! ```text
//! CREATE TYPE … AS ENUM ('a', 'b', 'c')     a 1.0   b 2.0           c 3.0     position = n × 2^32
//! ALTER TYPE … ADD VALUE 'd' BEFORE 'c'     a 1.0   b 2.0   d 2.5   c 3.0
//! ```
//!
//! Positions are PostgreSQL's `enumsortorder` times 2^32, exactly. A position never changes and is
//! never given again, so rows, keys and the ledger may hold it.
//!
//! Departure: PostgreSQL numbers the labels anew where there is no number between two of them;
//! here that is refused. It takes 32 labels, each put between the last one and the same neighbour.

use std::hash::{Hash, Hasher};

use crate::error::{Error, Result, SqlState};

/// What one label is from the next where nothing was put between them.
pub const LABEL_STEP: i64 = 1 << 32;
/// Labels that a type has at most.
pub const LABELS_MAX: usize = 2000;
/// PostgreSQL's limit for the bytes of a label.
pub const LABEL_BYTES_MAX: usize = 63;

/// An enum type as the catalog has it at one time; equal if it is the same one, whatever its
/// labels.
#[derive(Clone, Debug)]
pub struct EnumType {
    /// Its number in the catalog; that of its arrays is the next one.
    pub oid: u32,
    /// The name that it goes by in messages, a schema before it where it is not in `public`.
    pub name: String,
    labels: Vec<EnumLabel>,
    /// Places in `labels`, by label.
    by_label: Vec<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumLabel {
    pub position: i64,
    /// Counts the labels as they were added.
    pub number: u16,
    pub label: String,
}

/// Where a new label goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelPlace {
    Last,
    Before(String),
    After(String),
}

impl PartialEq for EnumType {
    fn eq(&self, other: &EnumType) -> bool {
        self.oid == other.oid
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid.hash(state);
    }
}

impl EnumType {
    /// # Errors
    /// 42622, 23505 or 54000: a label is too long, there twice, or one too many.
    pub fn new(oid: u32, name: &str, labels: &[String]) -> Result<EnumType> {
        let mut made = EnumType::named(oid, name);
        for label in labels {
            if made.position(label).is_some() {
                let what = "duplicate key value violates unique constraint \
                            \"pg_enum_typid_label_index\"";
                return Err(Error::new(SqlState::UNIQUE_VIOLATION, what).with_detail(format!(
                    "Key (enumtypid, enumlabel)=({oid}, {label}) already exists."
                )));
            }
            made.add(label, &LabelPlace::Last)?;
        }
        Ok(made)
    }

    /// One of which no more is known than that it is.
    pub fn named(oid: u32, name: &str) -> EnumType {
        EnumType { oid, name: name.to_owned(), labels: Vec::new(), by_label: Vec::new() }
    }

    pub fn array_oid(&self) -> u32 {
        self.oid + 1
    }

    /// In their order.
    pub fn labels(&self) -> &[EnumLabel] {
        &self.labels
    }

    pub fn label(&self, position: i64) -> Option<&str> {
        let place = self.labels.binary_search_by_key(&position, |label| label.position).ok()?;
        Some(&self.labels[place].label)
    }

    pub fn position(&self, label: &str) -> Option<i64> {
        self.place(label).map(|place| self.labels[place].position)
    }

    fn place(&self, label: &str) -> Option<usize> {
        let found = self.by_label.binary_search_by(|place| self.label_at(*place).cmp(label));
        found.ok().map(|at| usize::from(self.by_label[at]))
    }

    fn label_at(&self, place: u16) -> &str {
        &self.labels[usize::from(place)].label
    }

    fn sort_labels(&mut self) {
        let mut places: Vec<u16> = (0..self.labels.len() as u16).collect();
        places.sort_by(|a, b| self.label_at(*a).cmp(self.label_at(*b)));
        self.by_label = places;
    }

    /// Adds a label that is not there.
    ///
    /// # Errors
    /// It is too long or one too many, 22023: its neighbour is no label, or 54000: there is no room
    /// beside it.
    pub fn add(&mut self, label: &str, place: &LabelPlace) -> Result<()> {
        check_label(label)?;
        if self.labels.len() >= LABELS_MAX {
            let what = format!("enum type {} has too many labels", self.name);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(format!("There can be {LABELS_MAX} at most.")));
        }
        let at = match place {
            LabelPlace::Last => self.labels.len(),
            LabelPlace::Before(neighbour) => self.neighbour(neighbour)?,
            LabelPlace::After(neighbour) => self.neighbour(neighbour)? + 1,
        };
        let before = at.checked_sub(1).and_then(|before| self.labels.get(before));
        let position = match (before, self.labels.get(at)) {
            (None, None) => LABEL_STEP,
            (Some(last), None) => last.position + LABEL_STEP,
            (None, Some(first)) => first.position - LABEL_STEP,
            (Some(before), Some(behind)) => {
                let room = behind.position - before.position;
                if room < 2 {
                    let what = format!(
                        "enum type {} has no room between \"{}\" and \"{}\"",
                        self.name, before.label, behind.label
                    );
                    return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
                }
                before.position + room / 2
            }
        };
        let number = self.labels.len() as u16;
        self.labels.insert(at, EnumLabel { position, number, label: label.to_owned() });
        self.sort_labels();
        Ok(())
    }

    fn neighbour(&self, label: &str) -> Result<usize> {
        self.place(label).ok_or_else(|| no_label(label))
    }

    /// # Errors
    /// 22023: there is no such label. 42710: there is one of the new name.
    pub fn rename(&mut self, label: &str, new: &str) -> Result<()> {
        check_label(new)?;
        let place = self.place(label).ok_or_else(|| no_label(label))?;
        if self.place(new).is_some() {
            return Err(label_exists(new));
        }
        new.clone_into(&mut self.labels[place].label);
        self.sort_labels();
        Ok(())
    }

    /// The position that a text names.
    ///
    /// # Errors
    /// 22P02: it is no label.
    pub fn read(&self, text: &str) -> Result<i64> {
        self.position(text).ok_or_else(|| {
            let what = format!("invalid input value for enum {}: \"{text}\"", self.name);
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
        })
    }
}

/// An enum has this label already.
pub fn label_exists(label: &str) -> Error {
    Error::new(SqlState::DUPLICATE_OBJECT, format!("enum label \"{label}\" already exists"))
}

fn no_label(label: &str) -> Error {
    let what = format!("\"{label}\" is not an existing enum label");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

fn check_label(label: &str) -> Result<()> {
    match label.len() <= LABEL_BYTES_MAX {
        true => Ok(()),
        false => {
            let what = format!("invalid enum label \"{label}\"");
            Err(Error::new(SqlState::INVALID_NAME, what)
                .with_detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(of: &EnumType) -> Vec<(&str, i64)> {
        of.labels().iter().map(|label| (&*label.label, label.position)).collect()
    }

    #[test]
    fn labels_keep_their_positions_whatever_comes_between_them() {
        let given = ["sad", "ok", "happy"].map(str::to_owned);
        let mut mood = EnumType::new(16400, "mood", &given).unwrap();
        let sad = mood.read("sad").unwrap();
        mood.add("fine", &LabelPlace::Before("happy".to_owned())).unwrap();
        mood.add("awful", &LabelPlace::Before("sad".to_owned())).unwrap();
        mood.add("ecstatic", &LabelPlace::Last).unwrap();
        mood.rename("sad", "blue").unwrap();
        assert_eq!(mood.label(sad), Some("blue"));
        let step = LABEL_STEP;
        assert_eq!(
            labels(&mood),
            [
                ("awful", 0),
                ("blue", step),
                ("ok", 2 * step),
                ("fine", 5 * step / 2),
                ("happy", 3 * step),
                ("ecstatic", 4 * step)
            ]
        );
        let numbers: Vec<u16> = mood.labels().iter().map(|label| label.number).collect();
        assert_eq!(numbers, [4, 0, 1, 3, 2, 5]);
        assert_eq!(mood.read("sad").unwrap_err().code(), SqlState::INVALID_TEXT_REPRESENTATION);
        assert_eq!(mood.rename("ok", "fine").unwrap_err().code(), SqlState::DUPLICATE_OBJECT);
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let given = ["a", "z"].map(str::to_owned);
        let mut of = EnumType::new(16400, "e", &given).unwrap();
        for n in 0..32 {
            of.add(&format!("n{n}"), &LabelPlace::Before("z".to_owned())).unwrap();
        }
        let full = of.add("n", &LabelPlace::Before("z".to_owned())).unwrap_err();
        assert_eq!(full.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        of.add("n", &LabelPlace::After("z".to_owned())).unwrap();
        let positions: Vec<i64> = of.labels().iter().map(|label| label.position).collect();
        assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
        let long = of.add(&"x".repeat(64), &LabelPlace::Last).unwrap_err();
        assert_eq!(long.code(), SqlState::INVALID_NAME);
    }
}
