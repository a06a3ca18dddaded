//! Ways to read a table: which index, and what says where it begins and ends.

use procedure::query::SortKey;
use procedure::{BinaryOp, Expr};
use types::{ColumnId, IndexId};

use super::items::Item;
use crate::schema::catalog::Table;

/// How a relation would be read.
pub(super) struct Path {
    pub index: IndexId,
    /// Conjuncts that give the index's leading columns, in index order.
    pub equal: Vec<Bounding>,
    pub low: Option<Bounding>,
    pub high: Option<Bounding>,
    pub point: bool,
    /// Satisfies the order: `Some(reverse)`.
    pub ordered: Option<bool>,
}

#[derive(Clone)]
pub(super) struct Bounding {
    pub conjunct: usize,
    pub op: BinaryOp,
    pub value: Expr,
    pub column: ColumnId,
}

impl Path {
    /// What is better comes later.
    pub fn rank(&self) -> (bool, usize, usize, bool) {
        let range = usize::from(self.low.is_some()) + usize::from(self.high.is_some());
        (self.point, self.equal.len(), range, self.ordered.is_some())
    }

    pub fn is_full_scan(&self) -> bool {
        self.equal.is_empty() && self.low.is_none() && self.high.is_none()
    }
}

impl Path {
    /// Conjuncts that the path makes true by itself. A lower bound alone lets the NULLs after all
    /// values through, so it stays a condition where there may be any.
    pub fn exactly_used(&self, item: &Item) -> Vec<usize> {
        let mut used: Vec<usize> = self.equal.iter().map(|b| b.conjunct).collect();
        used.extend(self.high.iter().map(|b| b.conjunct));
        let lets_nulls_through =
            |low: &&Bounding| self.high.is_none() && item.is_nullable(low.column);
        used.extend(self.low.iter().filter(|low| !lets_nulls_through(low)).map(|b| b.conjunct));
        used
    }
}

pub(super) fn indexes(table: &Table) -> impl Iterator<Item = IndexId> {
    std::iter::once(0).chain(table.live_indexes().map(|(index, _)| index))
}

/// Which columns of an index have a NULL byte in their keys.
pub(super) fn index_nullability(table: &Table, index: IndexId) -> Box<[bool]> {
    let columns = table.index_columns(index).iter();
    columns.map(|c| table.schema.columns[usize::from(*c)].nullable).collect()
}

pub(super) fn mirrored(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Equal => BinaryOp::Equal,
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        _ => return None,
    })
}

/// The path that an index gives: equality on its leading columns, a range on the next.
pub(super) fn path_by(
    table: &Table,
    index: IndexId,
    bounds: &[Bounding],
    item: &Item,
    order: &[SortKey],
) -> Path {
    let columns = table.index_columns(index);
    let on = |column: ColumnId, accept: fn(BinaryOp) -> bool| {
        let mut on_column = bounds.iter().filter(move |b| b.column == column);
        on_column.find(|b| accept(b.op)).cloned()
    };
    let equal: Vec<Bounding> =
        columns.iter().map_while(|c| on(*c, |op| op == BinaryOp::Equal)).collect();
    let next = columns.get(equal.len()).copied();
    let above = |op| matches!(op, BinaryOp::Greater | BinaryOp::GreaterOrEqual);
    let below = |op| matches!(op, BinaryOp::Less | BinaryOp::LessOrEqual);
    let fixed: Vec<ColumnId> = equal.iter().map(|b| b.column).collect();
    Path {
        index,
        point: index == 0 && equal.len() == columns.len(),
        low: next.and_then(|c| on(c, above)),
        high: next.and_then(|c| on(c, below)),
        ordered: gives_order(table, index, &fixed, item, order),
        equal,
    }
}

/// Whether the entries of an index, where `fixed` columns have one value each, come in `order` or
/// exactly against it. Entries end with the primary key.
fn gives_order(
    table: &Table,
    index: IndexId,
    fixed: &[ColumnId],
    item: &Item,
    order: &[SortKey],
) -> Option<bool> {
    if order.is_empty() {
        return None;
    }
    let own = table.index_columns(index).iter();
    let key = if index == 0 { &[][..] } else { &table.schema.primary_key };
    let mut entry = own.chain(key).filter(|c| !fixed.contains(c));
    let mut direction = None;
    for sort in order {
        let Expr::Column(column) = sort.expr else {
            return None;
        };
        if !item.has(column) {
            return None;
        }
        let column = column - item.offset;
        if fixed.contains(&column) {
            continue;
        }
        match entry.next() {
            // The whole key is behind us: no two rows are alike so far.
            None => break,
            Some(next) if *next != column => return None,
            Some(_) => {}
        }
        let nulls_as_stored = sort.nulls_first == sort.descending;
        if item.is_nullable(column) && !nulls_as_stored {
            return None;
        }
        if *direction.get_or_insert(sort.descending) != sort.descending {
            return None;
        }
    }
    Some(direction.unwrap_or(false))
}
