//! Which transactions of a block run beside each other: those of one stage change nothing that
//! another one of it reads or changes.
//!
//! ```text
//! statements ─► accesses ─► conflicts with earlier ones ─► stage: one after the last of these
//! access   rows of a table: read, inserted, deleted, updated in some columns
//! pins     column id in 7..=7: rows that have another id are other rows
//! ```
//!
//! So what a block comes to is what it would come to one transaction after the other, whatever
//! isolation the database gives. Each organisation makes stages for itself: they are no part of the
//! ledger. What is not understood is everything: it runs alone.

pub mod access;
pub mod pins;
pub mod rules;

use std::collections::BTreeMap;

use access::{Access, Does};
use pins::Point;
use rules::Rules;

use crate::schema::{Schema, Table};

/// Accesses that are compared one by one; beyond, the next one runs after all of them.
const COMPARED_MAX: usize = 512;
/// Of one transaction to one table; beyond, it is taken to write all of it.
const ACCESSES_MAX: usize = 64;

/// Whether the order of two accesses matters.
pub fn conflicts(a: &Access, b: &Access, rules: &Rules) -> bool {
    if a.table != b.table || !(a.is_write() || b.is_write()) {
        return false;
    }
    let are_apart = |column: usize| {
        a.pins.are_apart(&b.pins, column) && !a.updates(column) && !b.updates(column)
    };
    let other_rows = a.pins.columns().any(are_apart);
    for (read, write) in [(a, b), (b, a)] {
        if let Does::Read(columns) = &read.does {
            let sees = match columns {
                None => true,
                Some(columns) => write.moves(&columns.iter().copied().collect::<Vec<_>>()),
            };
            return sees && !other_rows;
        }
    }
    let puts = |access: &Access| !matches!(access.does, Does::Delete);
    let clash = |index: &Vec<usize>| {
        let both = a.moves_index(index) && b.moves_index(index) && (puts(a) || puts(b));
        both && !index.iter().any(|column| are_apart(*column))
    };
    !other_rows || rules.unique_of(a.table).iter().any(clash)
}

impl Access {
    /// Whether it may put a key into an index, or take one out.
    fn moves_index(&self, index: &[usize]) -> bool {
        index.is_empty() || self.moves(index)
    }
}

/// The stages of transactions by their places; `None`: it does not run.
pub fn stages(
    transactions: &[Option<Vec<Access>>],
    schema: &Schema,
    rules: &Rules,
) -> Vec<Vec<usize>> {
    let mut tables: BTreeMap<u32, Known> = BTreeMap::new();
    for (number, table) in schema.numbered() {
        tables.insert(number, Known::new(table, rules.unique_of(number)));
    }
    let mut stages: Vec<Vec<usize>> = Vec::new();
    for (place, accesses) in transactions.iter().enumerate() {
        let Some(accesses) = accesses else { continue };
        let accesses = bounded(accesses);
        let behind = accesses.iter().filter_map(|access| {
            tables.get(&access.table).and_then(|known| known.behind(access, rules))
        });
        let stage = behind.max().map_or(0, |last| last + 1);
        for access in accesses {
            if let Some(known) = tables.get_mut(&access.table) {
                known.push(stage, access);
            }
        }
        if stages.len() <= stage {
            stages.resize_with(stage + 1, Vec::new);
        }
        stages[stage].push(place);
    }
    stages
}

fn bounded(accesses: &[Access]) -> Vec<Access> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    accesses.iter().for_each(|access| *counts.entry(access.table).or_default() += 1);
    let few = |table: &u32| counts[table] <= ACCESSES_MAX;
    let mut all: Vec<Access> = accesses.iter().filter(|it| few(&it.table)).cloned().collect();
    for table in counts.keys().filter(|table| !few(table)) {
        all.push(Access { table: *table, does: Does::Delete, pins: Default::default() });
    }
    all
}

/// Accesses to a table up to here.
struct Known {
    /// The column by whose values they are kept apart: a key's.
    main: usize,
    /// Unique indexes that its values do not keep apart.
    others: Vec<Vec<usize>>,
    /// Everything runs after this stage.
    barrier: Option<usize>,
    last: Option<usize>,
    points: BTreeMap<Point, Vec<(usize, Access)>>,
    wide: Vec<(usize, Access)>,
}

impl Known {
    fn new(table: &Table, unique: &[Vec<usize>]) -> Known {
        let main = table.columns.iter().position(|column| column.is_key).unwrap_or(0);
        let others = unique.iter().filter(|index| !index.contains(&main)).cloned().collect();
        let (points, wide) = (BTreeMap::new(), Vec::new());
        Known { main, others, barrier: None, last: None, points, wide }
    }

    /// Its value of the main column, where another one makes it an access to other rows.
    fn point(&self, access: &Access) -> Option<Point> {
        let is_apart = !access.updates(self.main)
            && !self.others.iter().any(|index| access.is_write() && access.moves_index(index));
        access.pins.point(self.main).filter(|_| is_apart)
    }

    /// Of accesses without pins, all that write run after everything.
    fn is_barrier(access: &Access) -> bool {
        access.is_write() && access.pins.is_empty()
    }

    /// The last stage with something that it has to run after.
    fn behind(&self, access: &Access, rules: &Rules) -> Option<usize> {
        if Known::is_barrier(access) {
            return self.last;
        }
        let behind = |all: &[(usize, Access)]| {
            if all.len() >= COMPARED_MAX {
                return all.iter().map(|(stage, _)| *stage).max();
            }
            let conflicting = all.iter().filter(|(_, it)| conflicts(it, access, rules));
            conflicting.map(|(stage, _)| *stage).max()
        };
        let pointed = match self.point(access) {
            Some(point) => self.points.get(&point).and_then(|all| behind(all)),
            None => self.points.values().filter_map(|all| behind(all)).max(),
        };
        self.barrier.max(pointed).max(behind(&self.wide))
    }

    fn push(&mut self, stage: usize, access: Access) {
        self.last = self.last.max(Some(stage));
        if Known::is_barrier(&access) {
            // What was before is before it.
            (self.barrier, self.points, self.wide) = (Some(stage), BTreeMap::new(), Vec::new());
            return;
        }
        let all = match self.point(&access) {
            Some(point) => self.points.entry(point).or_default(),
            None => &mut self.wide,
        };
        all.push((stage, access));
        if all.len() > COMPARED_MAX {
            // Of those that are not compared, the last stage is all that counts.
            let last = all.iter().map(|(stage, _)| *stage).max().unwrap_or(stage);
            all.truncate(COMPARED_MAX);
            all[0].0 = last;
        }
    }
}
