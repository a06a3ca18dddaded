//! Sequences: what the catalog knows of one, and the two programs that change its state.
//!
//! *State.* A sequence is a table of its own with the columns that PostgreSQL shows, in front of
//! them an epoch: RESTART begins another one, so that DDL changes the catalog alone. The row of the
//! newest epoch counts; where there is none, nothing has been taken yet.
//!
//! ```text
//!   epoch (key) | last_value | is_called
//!             0 |         64 | true         values up to 64 were taken out
//! ```
//!
//! *Taking.* `SELECT tally_take_values('s', 32)` is how a ledger holds that a node took values out
//! of a sequence to hand them on: an ordinary transaction that moves `last_value`, in the effects
//! and in every proof as any other row. Who inserts neither reads nor writes the row: the values
//! come along with the transaction ([`procedure::sequences`]). `SELECT tally_set_value('s', 7,
//! true)` is what `setval` comes to.
//!
//! *Invariant.* A value lies before `last_value` of a durable block before it is handed on, so none
//! is handed on twice, whatever is killed when. What was taken and not handed on is a gap.

use crate::syntax::names::bare;
use procedure::build::{Builder, Tables, add, call, element, int, multiply, subtract, text};
use procedure::sequences::{Run, Steps};
use procedure::{Expr, Function, Procedure, Query};
use std::sync::Arc;
use types::{
    ColumnId, ColumnSchema, DataType, Error, Result, SqlState, TableId, TableSchema, Value,
};

/// How a ledger says that values were taken.
pub const TAKE_VALUES: &str = "tally_take_values";
/// How it says that a value was set.
pub const SET_VALUE: &str = "tally_set_value";

#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub name: String,
    /// Of the table that holds its state.
    pub id: TableId,
    pub data_type: DataType,
    pub steps: Steps,
    /// What RESTART goes back to.
    pub start: i64,
    /// How many values a node takes at once; 1 leaves it to the node.
    pub cache: u64,
    /// Key of the row that counts.
    pub epoch: i64,
    /// Where the epoch begins.
    pub first: i64,
    /// Definitions before this one: a node keeps no values that it took under another.
    pub version: i64,
    pub owner: Option<SequenceOwner>,
}

/// The column that a sequence goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    pub table: TableId,
    pub column: ColumnId,
    /// `None`: a serial column, or OWNED BY.
    pub identity: Option<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    Always,
    ByDefault,
}

const EPOCH: &str = "epoch";
const LAST_VALUE: &str = "last_value";
const IS_CALLED: &str = "is_called";

impl Sequence {
    pub fn state_schema(&self) -> TableSchema {
        let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
        TableSchema {
            id: self.id,
            name: self.name.clone(),
            columns: vec![
                column(EPOCH, DataType::Int8),
                column(LAST_VALUE, DataType::Int8),
                column(IS_CALLED, DataType::Bool),
            ],
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        }
    }

    /// All values that it can give before it begins again.
    pub fn all_values(&self) -> Run {
        self.steps.run(self.first, u64::MAX)
    }

    pub fn at_end(&self) -> Error {
        procedure::sequences::at_end(bare(&self.name), &self.steps)
    }

    /// What `SELECT * FROM s` shows: `last_value`, `log_cnt`, `is_called`.
    pub fn shown(&self) -> (Vec<(String, DataType)>, Query) {
        let row = Query::Get {
            table: self.id,
            key: [int(self.epoch)].into(),
            columns: [1, 2].into(),
            filter: None,
        };
        let found = Query::Project {
            input: Box::new(row),
            expressions: [Expr::Column(0), int(0), Expr::Column(1)].into(),
        };
        let unused = [int(self.first), int(0), Expr::Const(Value::Bool(false))];
        let both = Query::Append([found, Query::Values([unused.into()].into())].into());
        let columns = [("last_value", DataType::Int8), ("log_cnt", DataType::Int8)];
        let columns = columns.into_iter().chain([("is_called", DataType::Bool)]);
        let columns = columns.map(|(name, data_type)| (name.to_owned(), data_type)).collect();
        (columns, Query::Limit { input: Box::new(both), limit: Some(int(1)), offset: None })
    }

    /// Takes up to `count` values out, one at least: the first, the step, how many, and the version
    /// of the definition.
    pub fn take_values(&self, name: &str, count: i64) -> Result<Procedure> {
        if count < 1 {
            let what = "at least one value is taken at a time";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        let int8 = DataType::Int8;
        let tables: Tables = [Arc::new(self.state_schema())].into_iter().collect();
        let mut p = Builder::new(&tables, name, &[]);
        let columns = ["first_value", "step", "count", "version"];
        p.returns(&columns.map(|column| (column, int8.clone())));
        let key = [int(self.epoch)];
        let ([last, called], found) = p.read(&self.name, &key, [LAST_VALUE, IS_CALLED]);
        let Steps { increment, min, max, cycles } = self.steps;
        let arguments = vec![
            Expr::Coalesce([last, int(self.first)].into()),
            Expr::Coalesce([called, Expr::Const(Value::Bool(false))].into()),
            int(count),
            int(increment),
            int(min),
            int(max),
            Expr::Const(Value::Bool(cycles)),
            text(&self.name),
        ];
        let array = DataType::Array(Box::new(int8.clone()));
        let run = p.assign(call(Function::TakeValues, arguments, &array));
        let part = |place| element(&run, &int(place));
        let steps = multiply(part(2), subtract(part(3), int(1), &int8), &int8);
        let last = p.assign(add(part(1), steps, &int8));
        self.put(&mut p, found, last, Expr::Const(Value::Bool(true)));
        p.emit(vec![part(1), part(2), part(3), int(self.version)]);
        Ok(Procedure { tag: "SELECT".to_owned(), ..p.build()? })
    }

    /// Makes `value` the last one that was taken, or the next one.
    ///
    /// # Errors
    /// 22003 beyond the bounds.
    pub fn set_value(&self, name: &str, value: i64, called: bool) -> Result<Procedure> {
        let Steps { min, max, .. } = self.steps;
        if !(min..=max).contains(&value) {
            let name = &self.name;
            return Err(Error::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})"
                ),
            ));
        }
        let tables: Tables = [Arc::new(self.state_schema())].into_iter().collect();
        let mut p = Builder::new(&tables, name, &[]);
        p.returns(&[("setval", DataType::Int8)]);
        let (_, found) = p.read(&self.name, &[int(self.epoch)], [LAST_VALUE]);
        self.put(&mut p, found, int(value), Expr::Const(Value::Bool(called)));
        p.emit(vec![int(value)]);
        Ok(Procedure { tag: "SELECT".to_owned(), ..p.build()? })
    }

    fn put(&self, p: &mut Builder<'_>, found: Expr, last: Expr, called: Expr) {
        let table = self.name.as_str();
        let state = || vec![(LAST_VALUE, last.clone()), (IS_CALLED, called.clone())];
        p.when_else(
            found,
            |p| drop(p.update(table, &[int(self.epoch)], state())),
            |p| p.insert(table, std::iter::once((EPOCH, int(self.epoch))).chain(state()).collect()),
        );
    }
}
