//! Positions that are known only when the block has run.
//!
//! While transactions run, stamps name the positions at which they arrived and hidden row ids a
//! [number](crate::appending); the block is sealed in the serial order that they took
//! ([`concurrency::Sealed`]). So on their way back to the store rows of this block get the stamps
//! that replaying it will give them, and before that those under hidden row ids another key.
//! Nothing else is at work meanwhile.

use concurrency::Moment;
use procedure::ProgramResult;
use procedure::access::{Access, Row};
use rustc_hash::FxHashMap;
use types::{Height, Key, Position, Stamp, Stop, TableId, Value};

use crate::database::Database;
use crate::rules::Rule;
use crate::session::{Attempt, Session};
use crate::write_back::{ALL_COLUMNS, Changed};

/// The places that transactions took, by the positions at which they arrived.
pub struct Places {
    height: Height,
    taken: Vec<Position>,
    /// Positions of arrival, by the numbers in hidden row ids.
    numbers: FxHashMap<u32, Position>,
}

impl Places {
    pub fn new(height: Height, serial_order: &[Position]) -> Places {
        let mut taken = vec![0; serial_order.len()];
        for (place, &arrived) in (0..).zip(serial_order) {
            taken[arrived as usize] = place;
        }
        Places { height, taken, numbers: FxHashMap::default() }
    }

    /// Which transaction had which number in its hidden row ids.
    pub fn number(&mut self, numbers: Vec<(u32, Position)>) {
        self.numbers.extend(numbers);
    }

    /// The stamp that replaying gives.
    pub fn stamp(&self, arrived: Stamp) -> Stamp {
        match self.taken.get(arrived.position() as usize) {
            Some(&place) if arrived.height() == self.height => Stamp::new(self.height, place),
            _ => arrived,
        }
    }

    /// The hidden row id that replaying gives; `None`: it is of another block, or right already.
    fn row_id(&self, key: &Key) -> Option<[u8; 16]> {
        let id: [u8; 16] = key.as_bytes().try_into().ok()?;
        let (height, rest) = id.split_first_chunk::<8>()?;
        let (number, ordinal) = rest.split_first_chunk::<4>()?;
        if Height::from_be_bytes(*height) != self.height {
            return None;
        }
        let arrived = *self.numbers.get(&u32::from_be_bytes(*number))?;
        let ordinal = u32::from_be_bytes(ordinal.try_into().ok()?);
        let right = self.stamp(Stamp::new(self.height, arrived)).row_id(ordinal);
        (right != id).then_some(right)
    }

    /// Puts rows of this block under the hidden ids that replaying gives them, which are changes
    /// too, and leaves their stamps as they are.
    pub fn rename<R: Rule>(&self, db: &Database, changed: &mut Vec<Changed>) -> Result<(), String> {
        let moves = self.moves(db, changed);
        if moves.is_empty() {
            return Ok(());
        }
        let mut session = Session::<R>::open(db, 0);
        session.see(db.clock.newest());
        let moment = Moment { height: self.height, position: 0, now_us: 0 };
        let moved = loop {
            session.begin(moment, false);
            let run = move_rows(session.transaction(), db, &moves);
            let end = run.clone().map(|_| ProgramResult::default());
            // Marks that others have left may stand in the way of a timestamp, once.
            match (session.end(end)?, run) {
                (Attempt::Ended(outcome, _), Ok(moved)) if outcome.is_committed() => break moved,
                (Attempt::Ended(..), _) => return Err("a row could not get its hidden id".into()),
                (Attempt::Conflict(_), _) => {}
            }
        };
        for (id, key, stamp) in &moved {
            let table = db.table(*id).map_err(|error| error.message().to_owned())?;
            if let Some(tuple) = table.find(key) {
                table.restamp(tuple, *stamp);
                changed.push(Changed { table: id.0, tuple, columns: ALL_COLUMNS });
            }
        }
        Ok(())
    }

    fn moves(&self, db: &Database, changed: &[Changed]) -> Vec<Move> {
        let mut moves: Vec<Move> = changed
            .iter()
            .map(|changed| (db.at(changed.table), changed.tuple))
            .filter(|(table, _)| table.schema.hidden_row_id)
            .filter_map(|(table, tuple)| {
                let from = table.key(tuple);
                Some(Move { table: table.schema.id, to: self.row_id(&from)?, from })
            })
            .collect();
        moves.sort_by(|a, b| (a.table, &a.from).cmp(&(b.table, &b.from)));
        moves.dedup_by(|a, b| (a.table, &a.from) == (b.table, &b.from));
        moves
    }
}

struct Move {
    table: TableId,
    from: Key,
    to: [u8; 16],
}

/// Where a row is now, and its stamp.
type Moved = (TableId, Key, Stamp);

/// All leave before one arrives: a new id may be another row's old one.
fn move_rows<A: Access>(access: &mut A, db: &Database, moves: &[Move]) -> Result<Vec<Moved>, Stop> {
    let (mut rows, mut moved): (Vec<Row>, Vec<Moved>) = (Vec::new(), Vec::new());
    for step in moves {
        let count = db.table(step.table)?.layout.column_count();
        let columns: Vec<_> = (0..count as u16).collect();
        let mut row = vec![Value::Null; count];
        if let Some(stamp) = access.read(step.table, &step.from, &columns, &mut row)? {
            access.delete(step.table, &step.from)?;
            row[count - 1] = Value::Uuid(step.to);
            rows.push(row.into());
            moved.push((step.table, Key::from(&step.to[..]), stamp));
        }
    }
    for (row, (table, key, _)) in rows.into_iter().zip(&moved) {
        if !access.insert(*table, key.clone(), row)? {
            return Err(Stop::Halt("two rows have one hidden id".into()));
        }
    }
    Ok(moved)
}
