//! Readers between blocks: programs on a snapshot, as sessions run them.

use std::collections::BTreeMap;

use concurrency::{Moment, NoRecord, Overlay};
use procedure::{Frame, run};
use storage::{Snapshot, Store};
use types::{Height, SqlState, Stop, Value};

use crate::language::Schema;
use crate::model::{Answer, State, Table};
use crate::operation::{Call, Kind, TABLES};
use crate::{Wrong, wrong};

/// What a reading call answers on a snapshot.
pub fn read(snapshot: &Snapshot, call: &Call) -> Result<Answer, Wrong> {
    let program = match Schema::of(snapshot).program(call) {
        Ok(program) => program,
        Err(error) => return Ok(Err(error.code())),
    };
    let moment = Moment { height: snapshot.height() + 1, position: 0, now_us: 0 };
    let catalog = snapshot.catalog().clone();
    let mut overlay = Overlay::new(catalog, snapshot.height(), moment, NoRecord);
    let arguments = [Value::Int(call.x), Value::Int(call.y)];
    match run(&program, &arguments, &mut Frame::default(), &mut overlay) {
        Ok(result) => Ok(Ok(result.rows.into_iter().map(Vec::from).collect())),
        Err(Stop::Rejected(error) | Stop::Retry(error)) => Ok(Err(error.code())),
        Err(Stop::Halt(why)) => Err(wrong("reader", why)),
    }
}

/// All rows that a reader sees, at the newest height or at another.
pub fn read_tables(store: &Store, height: Option<Height>) -> Result<State, Wrong> {
    let snapshot = match height {
        None => store.snapshot(),
        Some(height) => store
            .snapshot_at(height)
            .ok_or_else(|| wrong("reader", format!("block {height} cannot be read")))?,
    };
    let mut tables = BTreeMap::new();
    for table in TABLES {
        let call = |kind| Call { kind, table, x: i64::MIN, y: i64::MAX };
        let rows = match read(&snapshot, &call(Kind::Range))? {
            Ok(rows) => rows.into_iter().filter_map(pair).collect(),
            Err(SqlState::UNDEFINED_OBJECT) => continue,
            Err(code) => return Err(wrong("reader", code)),
        };
        let indexed = read(&snapshot, &call(Kind::ByIndex))?.is_ok();
        tables.insert(table, Table { rows, indexed });
    }
    Ok(State { tables })
}

fn pair(row: Vec<Value>) -> Option<(i64, i64)> {
    match row[..] {
        [Value::Int(id), Value::Int(v)] => Some((id, v)),
        _ => None,
    }
}
