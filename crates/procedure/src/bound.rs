//! How long an update command may take, whatever row it meets.
//!
//! A protocol applies a command when and as often as it likes, so no meter runs beside it, and its
//! transaction pays when it issues it. What is paid must be known then, without a look at the row,
//! or two replicas might disagree on whether the transaction can pay:
//!
//! | A command | Example | Pays when issued |
//! |---|---|---|
//! | whose text bounds its work | `n = n + 1` | its nodes |
//! | whose columns' declared lengths do | of a `varchar(80)`: `left(c, 5)` | a [`Bound`] |
//! | any other | of a `text`: `c \|\| $1` | [`Budget::of_command`] |
//!
//! An application may spend what was paid. Of the first two kinds it may spend
//! [`EXPRESSION_UNITS_MAX`] beside that, on what is never paid for: the digits of long numbers.
//!
//! The third kind is *metered*. One that meets a row too long for its share fails, as one that
//! overflows does: how it ends is a function of the command and of the row, and of nothing else.
//! Whatever a protocol does with commands that fail, it does with these; none has to know of them.
//!
//! A transaction gets so many shares ([`Meter::set_aside`]). When they are gone, which follows from
//! the program and from what it has read, the interpreter reads the row, computes what comes of it
//! with the transaction's own meter, and issues that as a command that only sets values. So no
//! number of commands is rejected that would not be if it were a SELECT and an UPDATE each.
//!
//! *Why not what a command really took.* That is known when it is applied, behind all commands
//! before it in the serial order. Harmony computes all folds before it installs one, so it could
//! add up over the records what each transaction has spent, and reject; but so would every protocol
//! have to that puts commands off, each in its way, and all to the same unit. And a rejection
//! changes the rows on which others have been paid for, so the sums would have to be made again.
//!
//! [`EXPRESSION_UNITS_MAX`]: crate::meter::EXPRESSION_UNITS_MAX
//! [`Meter::set_aside`]: crate::meter::Meter::set_aside

use std::sync::Arc;

use types::value::VALUE_WEIGHT;
use types::{ColumnId, ColumnSchema, DataType, Value};

use crate::access::CommandCode;
use crate::expr::{BinaryOp, Expr};
use crate::functions::Function;
use crate::meter::{Budget, EXPRESSION_UNITS_MAX};

/// Bounds above this are not worth paying for in advance.
const FIXED_UNITS_MAX: u64 = 1 << 14;
const FIXED_BYTES_MAX: u64 = 1 << 20;

/// How often a command's work may go over its inputs.
const PER_INPUT_BYTE_MAX: u64 = 64;

/// Bytes of a character.
const CHARACTER: u64 = 4;

/// What a function pays for as a unit, at the least.
const BYTES_PER_UNIT: u64 = 4;

/// The longest text of what is no text, array or number without bounds.
const SHOWN: u64 = 64;

/// How a command is paid for.
#[derive(Clone, Debug)]
pub enum Metering {
    /// By its nodes.
    Brief,
    Bounded(Bound),
    /// By a share of what its transaction may spend. With it comes the command that sets the same
    /// columns to its inputs.
    Metered(Arc<CommandCode>),
}

/// So many bytes, and so many for each byte that the command's inputs weigh; or so many units of
/// work, and so many for each [`BYTES_PER_UNIT`] of the inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    fixed: u64,
    per_input_byte: u64,
}

impl Bound {
    fn fixed(fixed: u64) -> Bound {
        Bound { fixed, per_input_byte: 0 }
    }

    fn and(self, other: Bound) -> Bound {
        Bound {
            fixed: self.fixed.saturating_add(other.fixed),
            per_input_byte: self.per_input_byte.saturating_add(other.per_input_byte),
        }
    }

    fn times(self, factor: u64) -> Bound {
        Bound {
            fixed: self.fixed.saturating_mul(factor),
            per_input_byte: self.per_input_byte.saturating_mul(factor),
        }
    }

    /// The units for going once over so many bytes.
    fn gone_over(self) -> Bound {
        Bound { fixed: self.fixed / BYTES_PER_UNIT + 1, ..self }
    }

    pub fn units(self, inputs: &[Value]) -> u64 {
        let bytes: usize = inputs.iter().map(Value::weight).sum();
        let inputs = bytes as u64 / BYTES_PER_UNIT + 1;
        self.fixed.saturating_add(self.per_input_byte.saturating_mul(inputs))
    }
}

impl CommandCode {
    /// What an application of the command may spend. `budget`: its transaction's.
    pub fn allowance(&self, inputs: &[Value], budget: Budget) -> Budget {
        match &self.metering {
            Metering::Brief => Budget { units_max: EXPRESSION_UNITS_MAX, ..Budget::UNBOUNDED },
            // The bound is what is paid for. Numbers of many digits cost more than that, and were
            // not looked at.
            Metering::Bounded(bound) => Budget {
                units_max: bound.units(inputs).saturating_add(EXPRESSION_UNITS_MAX),
                ..Budget::UNBOUNDED
            },
            Metering::Metered(_) => budget.of_command(),
        }
    }

    /// No value of the row decides how long it takes.
    pub fn is_brief(&self) -> bool {
        matches!(self.metering, Metering::Brief)
    }
}

/// How a command of these expressions is paid for, on a table of these columns.
pub(crate) fn metering<'e>(
    expressions: impl Iterator<Item = &'e Expr>,
    columns: &[ColumnSchema],
    assigned: impl Iterator<Item = ColumnId>,
) -> Metering {
    let long = expressions.filter(|expression| !expression.is_brief());
    let mut bound = None;
    for expression in long {
        let Some(found) = Bounding { columns }.of(expression).filter(Found::is_small) else {
            return Metering::Metered(Arc::new(CommandCode::setting(assigned)));
        };
        bound = Some(found.units.and(bound.unwrap_or_default()));
    }
    bound.map_or(Metering::Brief, Metering::Bounded)
}

/// What is known of an expression.
struct Found {
    units: Bound,
    /// What its value weighs; `None`: as much as somebody has stored.
    bytes: Option<Bound>,
}

impl Found {
    fn is_small(&self) -> bool {
        self.units.fixed <= FIXED_UNITS_MAX && self.units.per_input_byte <= PER_INPUT_BYTE_MAX
    }
}

struct Bounding<'a> {
    columns: &'a [ColumnSchema],
}

impl Bounding<'_> {
    /// `None`: nothing but a row says how long it takes.
    fn of(&self, expr: &Expr) -> Option<Found> {
        let mut units = Bound::fixed(1);
        // What its operands take, and weigh together.
        let mut bytes = Some(Bound::default());
        for operand in expr.children() {
            let found = self.of(operand)?;
            units = units.and(found.units);
            bytes = bytes.zip(found.bytes).map(|(all, one)| all.and(one));
        }
        let short = Some(Bound::fixed(SHOWN));
        let bytes = match expr {
            Expr::Const(value) => Some(Bound::fixed(value.weight() as u64)),
            Expr::Reg(_) => Some(Bound { fixed: 0, per_input_byte: 1 }),
            Expr::Column(column) => self.stored(*column),
            Expr::Case { .. } | Expr::Coalesce(_) | Expr::Unary { .. } => bytes,
            Expr::Cast { to: DataType::Array(_), .. } => return None,
            Expr::Cast { to, .. } => {
                let shown = bytes?.and(Bound::fixed(SHOWN));
                units = units.and(shown.gone_over());
                Some(bytes_of_type(to).map_or(shown, Bound::fixed))
            }
            Expr::Binary { op: BinaryOp::Concat, result, .. } => {
                if matches!(result, DataType::Array(_)) {
                    return None;
                }
                let joined = bytes?.and(Bound::fixed(2 * SHOWN));
                units = units.and(joined.gone_over());
                Some(joined)
            }
            Expr::Binary { op, left, right, result } => match op.is_comparison() {
                // The shorter one's length counts.
                true => {
                    let sides = [left, right].map(|side| self.of(side).and_then(|f| f.bytes));
                    let [left, right] = sides;
                    let shorter = left.or(right);
                    units = units.and(shorter?.gone_over());
                    short
                }
                false if matches!(result, DataType::Numeric(_)) => return None,
                false => short,
            },
            Expr::Like { pattern, .. } => {
                let Expr::Const(pattern) = &**pattern else { return None };
                let text = bytes.filter(|bytes| bytes.per_input_byte == 0)?;
                units = units.and(text.times(pattern.weight() as u64));
                short
            }
            Expr::Call { function, result, .. } => {
                units = units.and(Bound::fixed(128));
                of_call(*function, result, bytes, &mut units)?
            }
            Expr::InList { .. } => {
                units = units.and(bytes?.gone_over());
                short
            }
            Expr::Array(_) | Expr::AnyEqual { .. } | Expr::Element { .. } => return None,
            _ => short,
        };
        let bytes = bytes.filter(|bytes| bytes.fixed <= FIXED_BYTES_MAX);
        Some(Found { units, bytes })
    }

    fn stored(&self, column: ColumnId) -> Option<Bound> {
        let column = self.columns.get(usize::from(column))?;
        bytes_of_type(&column.data_type).map(Bound::fixed)
    }
}

/// What a value of the type weighs at most.
fn bytes_of_type(data_type: &DataType) -> Option<u64> {
    let beside = match data_type {
        DataType::Varchar(Some(length)) | DataType::Char(length) => CHARACTER * u64::from(*length),
        DataType::Numeric(Some((precision, _))) => u64::from(*precision),
        DataType::Text
        | DataType::Varchar(None)
        | DataType::Bytea
        | DataType::Numeric(None)
        | DataType::Array(_)
        | DataType::Unknown
        | DataType::System(_) => return None,
        _ => 0,
    };
    Some(beside + VALUE_WEIGHT as u64)
}

/// The bytes of what a function makes of so many. `None`: it may be any number, or take any time.
fn of_call(
    function: Function,
    result: &DataType,
    bytes: Option<Bound>,
    units: &mut Bound,
) -> Option<Option<Bound>> {
    use Function::*;
    let short = Some(Bound::fixed(SHOWN));
    if function.is_brief() {
        return (!matches!(result, DataType::Numeric(_))).then_some(short);
    }
    let made = match function {
        // A letter may be longer in the other case.
        Lower | Upper | Initcap => bytes?.times(3),
        Substring | Left | Right | TrimBoth | TrimLeft | TrimRight | Reverse | SplitPart
        | Decode | Greatest | Least => bytes?,
        Encode | Concat => bytes?.times(2).and(Bound::fixed(SHOWN)),
        Length | Position | StartsWith | Ascii | Sha256 => Bound::fixed(SHOWN),
        _ => return None,
    };
    // What comes in is looked at, and what comes of it.
    *units = units.and(bytes?.times(4).gone_over());
    Some(Some(made))
}
