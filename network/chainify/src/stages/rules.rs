//! How unique indexes and foreign keys widen what a statement reads or writes, beyond the rows that
//! its text names: an input of the dependency analysis of [`stages`](super).

/// Of one database: others may have other indexes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// By table number, from 1: columns of each unique index; none where it is over something else.
    pub unique: Vec<Vec<Vec<usize>>>,
    pub references: Vec<Reference>,
    /// Rows that a foreign key looks for are locked against changes of any column.
    pub locks_what_it_reads: bool,
    /// Texts are equal only if their bytes are.
    pub compares_bytes: bool,
}

/// A foreign key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    pub from: u32,
    pub from_columns: Vec<usize>,
    pub to: u32,
    pub to_columns: Vec<usize>,
    /// It changes rows by itself.
    pub acts: bool,
}

impl Rules {
    pub fn unique_of(&self, table: u32) -> &[Vec<usize>] {
        let of = (table as usize).checked_sub(1).and_then(|at| self.unique.get(at));
        of.map_or(&[], |all| all)
    }
}
