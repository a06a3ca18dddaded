//! Running a query over system catalogs as the program that it was bound to.

use std::sync::Arc;

use concurrency::{Moment, NoRecord, Overlay};
use kit::pool::{Lease, Pool};
use procedure::analysis::Footprint;
use procedure::{Frame, Interrupt, Meter, Procedure};
use storage::Snapshot;
use types::{Error, Height, Result, SqlState, Stop, TableId, Value};

use super::around::Around;
use super::binding::Call;
use super::surrounded::Surrounded;
use crate::world::Row;

/// A session's query is ended by its timeout, and by nothing that it spends.
const UNITS_MAX: u64 = u64::MAX / 2;

/// What its rows may take at once, long strings included.
const ROWS_BYTES_MAX: usize = 128 << 20;

fn too_many_rows(bytes: u64) -> Error {
    let what = "the query joins too many rows of catalogs";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_detail(format!("They would take more than {bytes} bytes."))
}

/// Users' tables that a program reads.
pub fn tables(procedure: &Procedure) -> Box<[TableId]> {
    Footprint::of_block(&procedure.body).tables.into_keys().collect()
}

/// Its rows, and what covers them.
pub fn run(
    procedure: &Procedure,
    (around, calls): (Around, &Arc<[Call]>),
    parameters: &[Value],
    snapshot: Option<&Snapshot>,
    memory: Option<&Arc<Pool>>,
) -> Result<(Vec<Row>, Option<Lease>)> {
    let now_us = around.session.now_us;
    let (catalog, height) = match snapshot {
        Some(snapshot) => (Arc::clone(snapshot.catalog()), snapshot.height()),
        None => (Arc::default(), Height::default()),
    };
    let moment = Moment { height, position: 0, now_us };
    let mut overlay = Overlay::new(catalog, height, moment, NoRecord);
    let around = Arc::new(Surrounded { around, calls: Arc::clone(calls) });
    let mut meter = Meter::new(UNITS_MAX, Some(around as Arc<dyn Interrupt>))
        .with_memory(ROWS_BYTES_MAX as u64, too_many_rows);
    if let Some(pool) = memory {
        meter = meter.with_lease(pool.lease());
    }
    let mut frame = Frame::metered(meter);
    let left = frame.meter().memory_left();
    let result = procedure::run_within(procedure, parameters, &mut frame, &mut overlay);
    let result = result.map_err(error_of)?;
    if let Some(snapshot) = snapshot {
        snapshot.check()?;
    }
    let lease = frame.meter().hand_over(left);
    Ok((result.rows, lease))
}

fn error_of(stop: Stop) -> Error {
    match stop {
        Stop::Rejected(error) | Stop::Retry(error) => error,
        Stop::Halt(why) => {
            let what = "the statement met an impossible state";
            Error::new(SqlState::INTERNAL_ERROR, what).with_detail(why)
        }
    }
}
