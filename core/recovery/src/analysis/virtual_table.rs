//! Tables that do not exist: how a piece of a procedure talks to what surrounds it.
//!
//! A piece runs in the ordinary interpreter, which reaches the outside only by accesses to tables.
//! So what one piece hands to the next, and what it says about its keys, are accesses too, to
//! tables whose number says what is meant:
//!
//! ```text
//! 31      28 27                       0
//! [  tag    |  payload                 ]
//!    0         number of a real table
//!    1 recall  step: a read gets what that step gave in an earlier piece
//!    2 export  step: an update's inputs are what the step gave
//!    3 open    step: the rows of another run of the loop follow
//!    4 note    number of a real table: the key of an `exists` will be touched
//!    5 any     rows will be touched that cannot be told
//! ```

use procedure::analysis::StepId;
use types::TableId;

const PAYLOAD_BITS: u32 = 28;
const PAYLOAD_MAX: u32 = (1 << PAYLOAD_BITS) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    Real,
    Recall(StepId),
    Export(StepId),
    Open(StepId),
    Note(TableId),
    Any,
}

#[inline]
pub fn is_real(table: TableId) -> bool {
    table.0 <= PAYLOAD_MAX
}

pub fn meaning(table: TableId) -> Meaning {
    let payload = table.0 & PAYLOAD_MAX;
    match table.0 >> PAYLOAD_BITS {
        1 => Meaning::Recall(payload),
        2 => Meaning::Export(payload),
        3 => Meaning::Open(payload),
        4 => Meaning::Note(TableId(payload)),
        5 => Meaning::Any,
        _ => Meaning::Real,
    }
}

pub fn table_of(meaning: Meaning) -> TableId {
    let (tag, payload) = match meaning {
        Meaning::Recall(step) => (1, step),
        Meaning::Export(step) => (2, step),
        Meaning::Open(step) => (3, step),
        Meaning::Note(table) => (4, table.0),
        Meaning::Any | Meaning::Real => (5, 0),
    };
    TableId(tag << PAYLOAD_BITS | payload & PAYLOAD_MAX)
}
