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
//! A transaction gets so many shares ([`Meter::set_aside`]), the first ones of them large: what a
//! command's is follows from how many were issued before it. When they are gone, which follows from
//! the program and from what it has read, the interpreter reads the row, computes what comes of it
//! with the transaction's own meter, and issues that as a command that only sets values. So no
//! number of commands is rejected that would not be if it were a SELECT and an UPDATE each.
//!
//! *Why not what a command really took.* That is known when it is applied, after all commands
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
#[derive(Clone, PartialEq, Debug)]
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
    /// What an application of the command may spend. `share`: what a metered one may.
    pub fn allowance(&self, inputs: &[Value], share: Budget) -> Budget {
        match &self.metering {
            Metering::Brief => Budget { units_max: EXPRESSION_UNITS_MAX, ..Budget::UNBOUNDED },
            // The bound is what is paid for. Numbers of many digits cost more than that, and were
            // not looked at.
            Metering::Bounded(bound) => Budget {
                units_max: bound.units(inputs).saturating_add(EXPRESSION_UNITS_MAX),
                ..Budget::UNBOUNDED
            },
            Metering::Metered(_) => share,
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
    /// What its value weighs; `None`: as much as was stored.
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
            Expr::Cast { to: DataType::Array(_) | DataType::Jsonb, .. } => return None,
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
            Expr::Binary { left, right, .. } if self.is_jsonb(left) || self.is_jsonb(right) => {
                return None;
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

    /// Comparing takes as long as the longer one's text is.
    fn is_jsonb(&self, expr: &Expr) -> bool {
        let declared = |column: &ColumnId| self.columns.get(usize::from(*column));
        match expr {
            Expr::Column(column) => {
                declared(column).is_some_and(|column| column.data_type == DataType::Jsonb)
            }
            expr => expr.says_jsonb(),
        }
    }

    fn stored(&self, column: ColumnId) -> Option<Bound> {
        let column = self.columns.get(usize::from(column))?;
        bytes_of_type(&column.data_type).map(Bound::fixed)
    }
}

/// What the bytes of an address come to at most.
const ADDRESS: u64 = 34;

/// What a value of the type weighs at most.
fn bytes_of_type(data_type: &DataType) -> Option<u64> {
    let beside = match data_type {
        DataType::Inet | DataType::Cidr => ADDRESS,
        DataType::Varchar(Some(length)) | DataType::Char(length) => CHARACTER * u64::from(*length),
        DataType::Numeric(Some((precision, _))) => u64::from(*precision),
        DataType::Text
        | DataType::Varchar(None)
        | DataType::Bytea
        | DataType::Numeric(None)
        | DataType::Json
        | DataType::Jsonb
        | DataType::Array(_)
        | DataType::Unknown
        | DataType::System(_) => return None,
        _ => 0,
    };
    Some(beside + VALUE_WEIGHT as u64)
}

/// Those whose declaration says nothing of how long their values are.
pub fn long_columns(columns: &[ColumnSchema]) -> Box<[ColumnId]> {
    let is_long = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Text
                | DataType::Varchar(None)
                | DataType::Bytea
                | DataType::Json
                | DataType::Jsonb
                | DataType::Array(_)
        )
    };
    let all = (0..).zip(columns).filter(|(_, column)| !column.dropped);
    all.filter(|(_, column)| is_long(&column.data_type)).map(|(id, _)| id).collect()
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
        return (!matches!(result, DataType::Numeric(_) | DataType::Array(_))).then_some(short);
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

#[cfg(test)]
mod tests {
    use kit::random::Random;
    use types::{Key, SqlState, Stop, TableId, TableSchema};

    use super::*;
    use crate::expr::{Reg, UnaryOp};
    use crate::meter::{COMMANDS_MAX, Meter, UNWEIGHED_MAX};
    use crate::step::{Output, Procedure, Step};
    use crate::testing::Memory;
    use crate::{Frame, run};

    const TABLE: TableId = TableId(1);
    const LONG: ColumnId = 3;

    fn columns() -> Vec<ColumnSchema> {
        let column = |name: &str, data_type| ColumnSchema::new(name, data_type).nullable(true);
        vec![
            ColumnSchema::new("id", DataType::Int8),
            column("name", DataType::Varchar(Some(20))),
            column("code", DataType::Char(6)),
            column("long", DataType::Text),
            column("number", DataType::Int8),
            column("amount", DataType::Numeric(None)),
        ]
    }

    fn col(column: ColumnId) -> Expr {
        Expr::Column(column)
    }

    fn int(number: i64) -> Expr {
        Expr::Const(Value::Int(number))
    }

    fn text(text: &str) -> Expr {
        Expr::Const(Value::text(text))
    }

    fn concat(left: Expr, right: Expr) -> Expr {
        let (left, right) = (Box::new(left), Box::new(right));
        Expr::Binary { op: BinaryOp::Concat, left, right, result: DataType::Text }
    }

    fn call<const N: usize>(function: Function, arguments: [Expr; N]) -> Expr {
        Expr::Call { function, arguments: arguments.into(), result: DataType::Text }
    }

    fn like(input: Expr, pattern: Expr) -> Expr {
        let (input, pattern) = (Box::new(input), Box::new(pattern));
        let (escape, case_insensitive, negated) = (Some('\\'), false, false);
        Expr::Like { input, pattern, escape, case_insensitive, negated }
    }

    fn cast(input: Expr, to: DataType) -> Expr {
        Expr::Cast { input: Box::new(input), to, explicit: true }
    }

    fn kind(value: Expr) -> &'static str {
        let code = CommandCode::on(&columns(), [(1, value)].into(), Box::default());
        match code.metering {
            Metering::Brief => "brief",
            Metering::Bounded(_) => "bounded",
            Metering::Metered(_) => "metered",
        }
    }

    #[test]
    fn declared_lengths_bound_a_command_and_nothing_else_does() {
        let input = || Expr::Reg(Reg(0));
        let left = |of| call(Function::Left, [of, int(3)]);
        let plus = |left, right, result| {
            let (left, right) = (Box::new(left), Box::new(right));
            Expr::Binary { op: BinaryOp::Add, left, right, result }
        };
        for (value, expected) in [
            (plus(col(4), input(), DataType::Int8), "brief"),
            (plus(col(5), input(), DataType::Numeric(None)), "brief"),
            (col(LONG), "brief"),
            (concat(col(1), input()), "bounded"),
            (cast(concat(col(1), col(4)), DataType::Varchar(Some(20))), "bounded"),
            (left(concat(col(2), input())), "bounded"),
            (call(Function::Upper, [left(col(1))]), "bounded"),
            (like(col(1), text("%a_")), "bounded"),
            (Expr::Coalesce([left(col(1)), text("none")].into()), "bounded"),
            (concat(col(LONG), input()), "metered"),
            (left(col(LONG)), "metered"),
            (cast(left(col(LONG)), DataType::Varchar(Some(3))), "metered"),
            (like(col(1), input()), "metered"),
            (like(input(), text("%a%b%c")), "metered"),
            (concat(col(1), cast(col(5), DataType::Text)), "metered"),
            (call(Function::Repeat, [col(1), input()]), "metered"),
            (call(Function::Replace, [col(1), input(), input()]), "metered"),
            (call(Function::Lpad, [col(1), input()]), "metered"),
        ] {
            assert_eq!(kind(value.clone()), expected, "{value:?}");
        }
        let unknown = CommandCode::new([(1, concat(col(1), input()))].into(), Box::default());
        assert!(matches!(unknown.metering, Metering::Metered(_)));
        let declared = |length| {
            let columns = [ColumnSchema::new("c", DataType::Varchar(Some(length)))];
            let code = CommandCode::on(&columns, [(0, left(col(0)))].into(), Box::default());
            matches!(code.metering, Metering::Bounded(_))
        };
        assert!(declared(1000) && !declared(10_000_000));
    }

    /// An expression over the declared columns and two inputs, with values for all of them.
    fn random_text(random: &mut Random, depth: u32) -> Expr {
        use Function::*;
        if depth == 0 {
            return match random.below(6) {
                0 => col(1),
                1 => col(2),
                2 => cast(col(4), DataType::Text),
                3 => text(["", "xy", "%", "ÄÖ ß"][random.below(4) as usize]),
                n => Expr::Reg(Reg(n as u16 - 4)),
            };
        }
        let mut one = || random_text(random, depth - 1);
        let (a, b) = (one(), one());
        let n = random.below(9) as i64 - 4;
        match random.below(16) {
            0..4 => concat(a, b),
            4 => call([Lower, Upper, Initcap][random.below(3) as usize], [a]),
            5 => call(Substring, [a, int(n)]),
            6 => call([Left, Right][random.below(2) as usize], [a, int(n)]),
            7 => call([TrimBoth, TrimLeft, TrimRight][random.below(3) as usize], [a, b]),
            8 => call(Reverse, [a]),
            9 => call(SplitPart, [a, b, int(n.abs() + 1)]),
            10 => call([Concat, Greatest, Least][random.below(3) as usize], [a, b]),
            11 => cast(a, DataType::Varchar(Some(7))),
            12 => Expr::Coalesce([a, b].into()),
            13 => {
                let otherwise = Box::new(b.clone());
                Expr::Case { whens: [(like(col(1), text("%a%_%")), a)].into(), otherwise }
            }
            14 => {
                let (left, right) = (Box::new(a.clone()), Box::new(b.clone()));
                let result = DataType::Bool;
                let less = Expr::Binary { op: BinaryOp::Less, left, right, result };
                let less = Expr::Unary { op: UnaryOp::Not, input: Box::new(less) };
                Expr::Case { whens: [(less, a)].into(), otherwise: Box::new(b) }
            }
            _ => {
                let input = Box::new(a.clone());
                let found = Expr::InList { input, list: [text("xy"), b].into(), negated: false };
                Expr::Case { whens: [(found, a)].into(), otherwise: Box::new(text("none")) }
            }
        }
    }

    #[test]
    fn no_row_makes_a_command_spend_more_than_its_bound() {
        let random = &mut Random::new(7);
        let (mut bounded, mut closest) = (0, 0.0_f64);
        for _ in 0..20_000 {
            let depth = 1 + random.below(4) as u32;
            let value = random_text(random, depth);
            let code = CommandCode::on(&columns(), [(1, value)].into(), Box::default());
            let Metering::Bounded(bound) = code.metering else { continue };
            bounded += 1;
            let mut letters = |most: u64| {
                let letter = ["a", "ß", " ", "𝄞", "%"][random.below(5) as usize];
                Value::from(letter.repeat(random.below(most + 1) as usize))
            };
            let inputs = [letters(200), letters(2000)];
            let row = match random.below(8) {
                0 => vec![Value::Null; 6],
                _ => vec![
                    Value::Int(1),
                    Value::from("𝄞".repeat(random.below(21) as usize)),
                    Value::from("ß".repeat(random.below(7) as usize)),
                    Value::Null,
                    Value::Int(i64::MIN),
                    Value::Null,
                ],
            };
            let meter = Meter::default();
            let before = meter.left();
            let value = &code.assignments[0].1;
            let _ = value.eval_metered(&inputs, &row, 0, &meter);
            let spent = before - meter.left();
            let paid = bound.units(&inputs) + code.units;
            assert!(spent <= paid, "{spent} of {paid}: {value:?} of {row:?}, {inputs:?}");
            closest = closest.max(spent as f64 / paid as f64);
        }
        assert!(bounded > 5_000, "{bounded}");
        assert!(closest > 0.05, "at most {closest} of a bound is spent: too wide to be a test");
    }

    fn memory(rows: i64, long: &str) -> Memory {
        let schema = TableSchema {
            id: TABLE,
            name: "t".into(),
            columns: columns(),
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        };
        let mut memory = Memory::new([Arc::new(schema)]);
        for id in 0..rows {
            let mut row = vec![Value::Null; 6];
            (row[0], row[usize::from(LONG)]) = (Value::Int(id), Value::text(long));
            memory.put(TABLE, row).unwrap();
        }
        memory
    }

    /// What changes the rows from `first` to `last`, one by one.
    fn each(first: i64, last: i64, step: Step) -> Procedure {
        let turns = Step::ForRange {
            register: Reg(0),
            first: int(first),
            last: int(last),
            step: int(1),
            reverse: false,
            body: [step].into(),
            carried: Box::default(),
        };
        Procedure {
            name: "change".to_owned(),
            parameters: Vec::new(),
            registers: 2,
            register_names: Box::default(),
            body: [turns].into(),
            output: Output::Tag,
            tag: "CALL".to_owned(),
            read_only: false,
            draws: false,
            sequences: Box::default(),
        }
    }

    fn update(column: ColumnId, value: Expr) -> Step {
        let code = CommandCode::on(&columns(), [(column, value)].into(), Box::default());
        let (key, code) = ([Expr::Reg(Reg(0))].into(), Arc::new(code));
        Step::Update { table: TABLE, key, code, inputs: Box::default(), found: Reg(1) }
    }

    /// Appends a letter to the long text of the rows from `first` to `last`.
    fn append(first: i64, last: i64) -> Procedure {
        each(first, last, update(LONG, concat(col(LONG), text("x"))))
    }

    /// The long text that stays is hashed before and after, and the row is copied.
    #[test]
    fn what_stays_in_a_long_row_is_paid_for_behind_the_first_changes() {
        let (bytes, unweighed) = (100_000, i64::from(UNWEIGHED_MAX));
        let spent = |bytes: usize, rows: i64, step: &dyn Fn() -> Step| {
            let mut memory = memory(rows, &"y".repeat(bytes));
            let mut frame = Frame::metered(Meter::default());
            let before = frame.meter().left();
            run(&each(0, rows - 1, step()), &[], &mut frame, &mut memory).unwrap();
            before - frame.meter().left()
        };
        let short = || update(4, int(7));
        let delete = || {
            let (key, long) = ([Expr::Reg(Reg(0))].into(), long_columns(&columns()));
            Step::Delete { table: TABLE, key, long, found: Reg(1) }
        };
        let unit = crate::meter::WRITTEN_BYTES_PER_UNIT as u64;
        for (step, images) in [(&short as &dyn Fn() -> Step, 2), (&delete, 1)] {
            assert_eq!(spent(bytes, unweighed, step), spent(1, unweighed, step));
            let more = spent(bytes, unweighed + 5, step) - spent(1, unweighed + 5, step);
            assert_eq!(more, 5 * images * (bytes as u64 / unit));
        }
        // What is assigned is paid for as it was, and as what is written.
        let set = || update(LONG, text("z"));
        let more = spent(bytes, unweighed + 5, &set) - spent(1, unweighed + 5, &set);
        assert_eq!(more, 5 * (bytes as u64 / unit));
        // A table without such columns has no long rows.
        let bounded: Vec<ColumnSchema> =
            columns().into_iter().filter(|c| c.name != "long").collect();
        assert!(long_columns(&bounded).is_empty());
    }

    #[test]
    fn a_metered_command_fails_on_a_row_that_is_too_long_for_its_share() {
        let budget = Budget { units_max: 100_000, bytes_max: 1 << 20 };
        let run = |bytes: usize| {
            let mut memory = memory(1, &"y".repeat(bytes));
            let mut frame = Frame::metered(Meter::of(budget));
            let run = run(&append(0, 0), &[], &mut frame, &mut memory);
            (run.map(drop), memory.rows(TABLE)[0][usize::from(LONG)].weight())
        };
        let (short, weight) = run(130_000);
        assert_eq!((short, weight), (Ok(()), 130_001 + VALUE_WEIGHT));
        let (long, weight) = run(132_000);
        let Err(Stop::Rejected(error)) = long else { panic!("{long:?}") };
        assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(error.message(), "an UPDATE by key takes more than 131072 bytes of memory");
        assert!(error.fields().hint.as_deref().unwrap().contains("transaction_units_max"));
        assert_eq!(weight, 132_000 + VALUE_WEIGHT);
        let slow = {
            let budget = Budget { bytes_max: 1 << 30, ..budget };
            let mut frame = Frame::metered(Meter::of(budget));
            let mut memory = memory(1, &"y".repeat(500_000));
            crate::run(&append(0, 0), &[], &mut frame, &mut memory)
        };
        let Err(Stop::Rejected(error)) = slow else { panic!("{slow:?}") };
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
    }

    /// A first command may make a value as long as values may be; the others have less.
    #[test]
    fn the_first_commands_of_a_transaction_have_large_shares() {
        let budget = Budget { units_max: 100_000, bytes_max: 1 << 20 };
        let run = |count: i64| {
            let mut memory = memory(9, &"y".repeat(100_000));
            let mut frame = Frame::metered(Meter::of(budget));
            run(&append(0, count - 1), &[], &mut frame, &mut memory).map(drop)
        };
        assert_eq!(run(4), Ok(()));
        let Err(Stop::Rejected(error)) = run(5) else { panic!() };
        assert_eq!(error.message(), "an UPDATE by key takes more than 390 units of work");
        let detail = "What it makes of a row is computed when the row's turn comes. A \
                      transaction's first 4 such updates may take a 16th of the work and an 8th \
                      of the memory that it may take, each of the others a 256th.";
        assert_eq!(error.fields().detail.as_deref(), Some(detail));
        let longest = 64 << 20;
        let first = Budget::default().of_command(3);
        assert!(first.bytes_max > longest + 4096 && first.units_max > longest / 32 + 4096);
        assert!(Budget::default().of_command(4).bytes_max < longest);
    }

    /// It reads its row, then, and may take all that is left.
    #[test]
    fn a_command_that_finds_less_left_than_its_share_is_not_put_off() {
        let budget = Budget { units_max: 100_000, bytes_max: 1 << 20 };
        let meter = Meter::of(budget);
        meter.spend(budget.units_max - 6250).unwrap();
        assert_eq!(meter.set_aside(), Some(Budget { units_max: 6250, bytes_max: 1 << 17 }));
        assert_eq!(meter.set_aside(), None);
    }

    /// Those that no share is left for read their rows, however long these are.
    #[test]
    fn any_number_of_commands_is_done_and_none_is_free() {
        let rows = i64::from(COMMANDS_MAX) + 10;
        let long = "y".repeat(3000);
        let mut memory = memory(rows, &long);
        memory
            .put(TABLE, {
                let mut row = vec![Value::Null; 6];
                let longer = Value::text("y".repeat(100_000));
                (row[0], row[usize::from(LONG)]) = (Value::Int(rows), longer);
                row
            })
            .unwrap();
        let budget = Budget { units_max: 400_000, bytes_max: 1 << 20 };
        let mut frame = Frame::metered(Meter::of(budget));
        run(&append(0, rows), &[], &mut frame, &mut memory).unwrap();
        let texts = memory.rows(TABLE).into_iter().map(|row| row[usize::from(LONG)].clone());
        let texts: Vec<_> = texts.map(|text| text.as_text().unwrap().len()).collect();
        assert_eq!(texts[..rows as usize], vec![3001; rows as usize]);
        assert_eq!(texts[rows as usize], 100_001);
        let shares: u64 = (0..COMMANDS_MAX).map(|n| budget.of_command(n).units_max).sum();
        let spent = budget.units_max - frame.meter().left();
        let weighed = (COMMANDS_MAX - UNWEIGHED_MAX) as u64 * 3000 / 8;
        let least = shares + 11 * 94 + weighed;
        assert!(spent > least && spent < budget.units_max * 9 / 10, "{spent} {shares}");
        let missing = run(&append(rows + 1, 3 * rows), &[], &mut frame, &mut memory);
        assert!(missing.is_ok(), "{missing:?}");
        assert_eq!(memory.rows(TABLE).len(), rows as usize + 1);
        assert!(memory.stamped_rows(TABLE).iter().all(|(key, ..)| *key <= Key::from_int(rows)));
    }
}
