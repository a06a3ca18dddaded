//! Programs that both engines answer alike, to the last digit.
//!
//! A query moves to the analytical engine when its tables grow, and its answer may not show that.
//! So a program moves only if all that it is made of is on a short list of what was compared,
//! operator by operator and type by type; whatever is not on it stays, however large the tables
//! are.
//!
//! | on the list | of |
//! |---|---|
//! | `+ - *` | integers, floats, numbers that have a declared scale or are a quotient |
//! | `/ %` | the same, but no remainders of floats |
//! | `+ -` | dates and days |
//! | `= <> < <= > >= IN`, IS DISTINCT FROM | two of one kind, bytes excepted |
//! | AND, OR, NOT, IS NULL, CASE, coalesce, LIKE | branches of one kind; written patterns |
//! | count, min, max, bool_and, bool_or, sum, avg | sum and avg: no floats |
//! | GROUP BY, DISTINCT, joins | kinds that compare, but quotients and floats |
//! | ORDER BY | kinds that compare |
//! | functions, casts that are written | all but of arrays: both call the same code |
//! | other casts | to wider integers, of integers to numeric, of strings to text |
//!
//! The digits of a quotient depend on what was divided, so the analytical engine's quotients bring
//! them along. Numbers have any number of digits here and 28 there: where one might have more, the
//! analytical engine refuses to go on, and the row executor answers after all.
//!
//! What is missing is missing for a reason: sums of floats depend on the order of rows; a number
//! without a declared scale shows as many digits as it was written with, which columns of one scale
//! forget; quotients that are equal may show different digits, and which is shown of a group would
//! be chance; char(n) compares without its blanks.
//!
//! *How.* Each expression has a [`Kind`], found from the columns and parameters below it; one that
//! has none is only allowed where nothing looks at it.

mod kinds;

use procedure::analysis::visit::bound_exprs;
use procedure::query::{Aggregate, AggregateFunction};
use procedure::{BinaryOp, Expr, Function, Procedure, Query, Step, UnaryOp};
use types::{DataType, Value};

use crate::schema::catalog::Catalog;
use kinds::{
    DIGITS_MAX, Kind, PARAMETER_SCALE, SCALE_MAX, cast, column_kind, computed_kind, one_of,
    parameter_kind,
};

/// The kinds of a row's columns; `None`: not to be looked at.
type Row = Vec<Option<Kind>>;

/// Whether another engine surely answers as this program does.
pub fn is_agreed(catalog: &Catalog, procedure: &Procedure) -> bool {
    let mut program = Program { catalog, registers: vec![None; procedure.registers.into()] };
    for (register, parameter) in program.registers.iter_mut().zip(&procedure.parameters) {
        *register = parameter_kind(&parameter.data_type);
    }
    procedure.read_only && procedure.body.iter().all(|step| program.step(step).is_some())
}

/// Whether the analytical engine can hold these parameters: its numerics have
/// [so many digits](PARAMETER_SCALE) after the point, and what is left before it.
pub fn are_agreed(parameters: &[Value]) -> bool {
    parameters.iter().all(|parameter| match parameter {
        Value::Numeric(number) => {
            let bound = 10u128.pow(u32::from(DIGITS_MAX - 2 + PARAMETER_SCALE));
            let units = number.units_at(u32::from(PARAMETER_SCALE));
            units.is_some_and(|units| units.unsigned_abs() < bound)
        }
        _ => true,
    })
}

struct Program<'a> {
    catalog: &'a Catalog,
    registers: Row,
}

/// What an expression sees.
#[derive(Clone, Copy)]
struct Scope<'a> {
    registers: &'a [Option<Kind>],
    row: &'a [Option<Kind>],
}

impl Program<'_> {
    fn step(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::Let { out, value } => {
                let kind = self.scope(&[]).kind(value)?;
                *self.registers.get_mut(usize::from(out.0))? = Some(kind);
            }
            Step::Fetch { query, outputs, found, .. } => {
                let row = self.query(query, &[])?;
                for (register, kind) in outputs.iter().zip(row) {
                    *self.registers.get_mut(usize::from(register.0))? = kind;
                }
                *self.registers.get_mut(usize::from(found.0))? = Some(Kind::Bool);
            }
            Step::EmitQuery { query } => {
                let row = self.query(query, &[])?;
                // The analytical engine shows no more digits of a parameter than it needs.
                let is_shown = |kind: &Option<Kind>| kind.is_some_and(|k| k != Kind::Parameter);
                row.iter().all(is_shown).then_some(())?;
            }
            Step::Return => {}
            _ => return None,
        }
        Some(())
    }

    fn scope<'s>(&'s self, row: &'s [Option<Kind>]) -> Scope<'s> {
        Scope { registers: &self.registers, row }
    }

    /// The rows that a query yields; `outer` is the row that a nested loop is at.
    fn query(&self, query: &Query, outer: &[Option<Kind>]) -> Option<Row> {
        match query {
            Query::Values(rows) => alternatives(rows.iter().map(|row| self.scope(outer).all(row))),
            Query::Get { table, key, columns, filter } => {
                self.scope(outer).all(key)?;
                self.table(*table, columns, filter.as_ref())
            }
            Query::Scan { table, low, high, columns, filter, .. } => {
                self.scope(outer).all(bound_exprs(low))?;
                self.scope(outer).all(bound_exprs(high))?;
                self.table(*table, columns, filter.as_ref())
            }
            Query::Filter { input, condition } => {
                let row = self.query(input, outer)?;
                self.scope(&row).condition(Some(condition))?;
                Some(row)
            }
            Query::Project { input, expressions } => {
                let row = self.query(input, outer)?;
                Some(expressions.iter().map(|expr| self.scope(&row).kind(expr)).collect())
            }
            Query::NestedLoop { outer: first, inner, condition, .. } => {
                let mut row = self.query(first, outer)?;
                row.extend(self.query(inner, &row)?);
                self.scope(&row).condition(condition.as_ref())?;
                Some(row)
            }
            // None that keeps rows of both sides comes here: see `outgrown_at`.
            Query::HashJoin { outer: first, inner, outer_keys, inner_keys, condition, .. } => {
                let (mut row, inner) = (self.query(first, outer)?, self.query(inner, outer)?);
                for (left, right) in outer_keys.iter().zip(inner_keys) {
                    let left = self.scope(&row).kind(left)?;
                    left.is_key_of(self.scope(&inner).kind(right)?).then_some(())?;
                }
                row.extend(inner);
                self.scope(&row).condition(condition.as_ref())?;
                Some(row)
            }
            Query::Aggregate { input, groups, sets, aggregates } if sets.is_empty() => {
                let row = self.query(input, outer)?;
                let mut made = self.scope(&row).all(groups).filter(|made| are_keyed(made))?;
                for aggregate in aggregates {
                    made.push(Some(self.scope(&row).aggregate(aggregate)?));
                }
                Some(made)
            }
            Query::Sort { input, keys } => {
                let row = self.query(input, outer)?;
                for key in keys {
                    self.scope(&row).kind(&key.expr).filter(|kind| kind.is_ordered())?;
                }
                Some(row)
            }
            Query::Limit { input, limit, offset } => {
                let mut counts = limit.iter().chain(offset);
                counts.all(|count| self.scope(outer).counts(count)).then_some(())?;
                self.query(input, outer)
            }
            Query::Distinct { input, by, .. } if by.is_empty() => {
                self.query(input, outer).filter(|row| are_keyed(row))
            }
            Query::Append(inputs) => {
                alternatives(inputs.iter().map(|input| self.query(input, outer)))
            }
            _ => None,
        }
    }

    fn table(
        &self,
        table: types::TableId,
        columns: &[types::ColumnId],
        filter: Option<&Expr>,
    ) -> Option<Row> {
        let table = self.catalog.table_by_id(table)?;
        let row: Row = columns.iter().map(|id| column_kind(table.column_type(*id))).collect();
        self.scope(&row).condition(filter)?;
        Some(row)
    }
}

fn are_keyed(row: &[Option<Kind>]) -> bool {
    row.iter().all(|kind| kind.is_some_and(Kind::is_keyed))
}

/// Rows from one query or another.
fn alternatives(mut rows: impl Iterator<Item = Option<Row>>) -> Option<Row> {
    let first = rows.next()??;
    rows.try_fold(first, |sofar, row| either(&sofar, &row?))
}

fn either(one: &[Option<Kind>], other: &[Option<Kind>]) -> Option<Row> {
    let pairs = one.iter().zip(other);
    let row = pairs.map(|(one, other)| one.zip(*other).and_then(|(one, other)| one.or(other)));
    (one.len() == other.len()).then(|| row.collect())
}

impl Scope<'_> {
    fn all(self, exprs: &[Expr]) -> Option<Row> {
        exprs.iter().map(|expr| self.kind(expr).map(Some)).collect()
    }

    fn condition(self, condition: Option<&Expr>) -> Option<()> {
        condition.is_none_or(|condition| self.is_bool(condition)).then_some(())
    }

    fn is_bool(self, expr: &Expr) -> bool {
        matches!(self.kind(expr), Some(Kind::Bool | Kind::Null))
    }

    /// Whether it says how many rows there are to be.
    fn counts(self, expr: &Expr) -> bool {
        matches!(self.kind(expr), Some(Kind::Int(_) | Kind::Null))
    }

    fn kind(self, expr: &Expr) -> Option<Kind> {
        match expr {
            Expr::Const(value) => Kind::of_value(value),
            Expr::Reg(register) => *self.registers.get(usize::from(register.0))?,
            Expr::Column(column) => *self.row.get(usize::from(*column))?,
            Expr::Unary { op: UnaryOp::Not, input } => self.is_bool(input).then_some(Kind::Bool),
            Expr::Unary { op: UnaryOp::Negate, input } => {
                let kind = self.kind(input)?;
                (kind.is_exact() || kind == Kind::Float).then_some(kind)
            }
            Expr::And(inputs) | Expr::Or(inputs) => {
                inputs.iter().all(|input| self.is_bool(input)).then_some(Kind::Bool)
            }
            Expr::IsNull { input, .. } => self.kind(input).map(|_| Kind::Bool),
            // What the analytical engine makes of it has the zero's digits.
            Expr::Binary { op: BinaryOp::Multiply, left, right, .. }
                if is_zero(left) || is_zero(right) =>
            {
                None
            }
            Expr::Binary { op, left, right, .. } => {
                self.binary(*op, self.kind(left)?, self.kind(right)?)
            }
            Expr::InList { input, list, .. } => {
                let input = self.kind(input)?;
                let mut kinds = list.iter().map(|item| self.kind(item));
                let compare = |kind: Option<Kind>| {
                    kind.is_some_and(|kind| input.compares_to(kind) && input != Kind::Float)
                };
                kinds.all(compare).then_some(Kind::Bool)
            }
            Expr::Case { whens, otherwise } => {
                whens.iter().all(|(when, _)| self.is_bool(when)).then_some(())?;
                let results = whens.iter().map(|(_, then)| self.kind(then));
                one_of(results.chain([self.kind(otherwise)]))
            }
            Expr::Coalesce(inputs) => one_of(inputs.iter().map(|input| self.kind(input))),
            Expr::Like { input, pattern, escape: Some('\\'), case_insensitive: false, .. } => {
                let is_text = self.kind(input)? == Kind::Text;
                (is_text && is_pattern(pattern)).then_some(Kind::Bool)
            }
            Expr::Cast { input, to, explicit: true } => match (self.kind(input)?, to) {
                (Kind::Null | Kind::Parameter, _) | (_, DataType::Array(_)) => None,
                (kind, DataType::Numeric(None)) if kind.is_exact() => cast(kind, to),
                (_, to) => computed_kind(to),
            },
            Expr::Cast { input, to, .. } => cast(self.kind(input)?, to),
            Expr::Call { function, arguments, result } => self.call(*function, arguments, result),
            _ => None,
        }
    }

    /// The analytical engine calls functions as the row executor does, by the types of what is
    /// written: what the binder has cast their arguments to, it casts, too.
    fn call(self, function: Function, arguments: &[Expr], result: &DataType) -> Option<Kind> {
        let mut kinds = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let written = match argument {
                Expr::Cast { input, explicit: false, .. } => input,
                other => other,
            };
            kinds.push(self.kind(written).filter(|kind| *kind != Kind::Parameter)?);
        }
        match (function, arguments) {
            (Function::Greatest | Function::Least, _) => {
                let kind = one_of(kinds.into_iter().map(Some))?;
                (kind.is_keyed() && kind != Kind::Null).then_some(kind)
            }
            // Of whole days, which are as many whole seconds.
            (Function::Extract, [Expr::Const(Value::Text(field)), _])
                if field == "epoch" && kinds[1] == Kind::Date =>
            {
                None
            }
            (Function::Extract, [Expr::Const(Value::Text(field)), _]) => {
                let scale = match field.as_str() {
                    "second" | "seconds" | "epoch" => 6,
                    "millisecond" | "milliseconds" => 3,
                    _ => 0,
                };
                Some(Kind::Number { whole: SCALE_MAX - scale, scale })
            }
            (Function::DatePart | Function::DateTrunc, [Expr::Const(_), _]) => column_kind(result),
            (Function::Extract | Function::DatePart | Function::DateTrunc, _) => None,
            (Function::CastByClocks | Function::MoveByClocks, _) => None,
            // Which values are drawn depends on how a query is carried out; JSON is a text there.
            (function, _) if function.draws() || matches!(function, Function::Json(_)) => None,
            _ => computed_kind(result),
        }
    }

    fn binary(self, op: BinaryOp, left: Kind, right: Kind) -> Option<Kind> {
        use BinaryOp::{Add, Concat, Divide, Modulo, Multiply, Subtract};
        let is_distinction = matches!(op, BinaryOp::IsDistinctFrom | BinaryOp::IsNotDistinctFrom);
        if is_distinction && !(left.is_keyed() && right.is_keyed()) {
            return None;
        }
        if op.is_comparison() {
            return left.compares_to(right).then_some(Kind::Bool);
        }
        match (left, right) {
            (Kind::Text, Kind::Text) => return (op == Concat).then_some(Kind::Text),
            (Kind::Date, Kind::Date) => return (op == Subtract).then_some(Kind::Int(10)),
            (Kind::Date, Kind::Int(0..=10)) => {
                return matches!(op, Add | Subtract).then_some(Kind::Date);
            }
            (Kind::Int(0..=10), Kind::Date) => return (op == Add).then_some(Kind::Date),
            (Kind::Date | Kind::Timestamp, Kind::Interval) => {
                return matches!(op, Add | Subtract).then_some(Kind::Timestamp);
            }
            (Kind::Interval, Kind::Date | Kind::Timestamp) => {
                return (op == Add).then_some(Kind::Timestamp);
            }
            _ => {}
        }
        let is_arithmetic = matches!(op, Add | Subtract | Multiply | Divide);
        match (left, right) {
            (Kind::Int(left), Kind::Int(right)) => {
                (is_arithmetic || op == Modulo).then_some(Kind::Int(left.max(right)))
            }
            (Kind::Float, other) | (other, Kind::Float) => {
                (is_arithmetic && (other.is_exact() || other == Kind::Float)).then_some(Kind::Float)
            }
            _ if !left.is_exact() || !right.is_exact() => None,
            (Kind::Free, _) | (_, Kind::Free) => {
                (is_arithmetic || op == Modulo).then_some(Kind::Free)
            }
            _ if matches!(op, Divide | Modulo) => Some(Kind::Free),
            _ => {
                let ((left, left_scale), (right, right_scale)) = (left.digits()?, right.digits()?);
                let (whole, scale) = match op {
                    Add | Subtract => (left.max(right) + 1, left_scale.max(right_scale)),
                    Multiply => (left + right, left_scale + right_scale),
                    _ => return None,
                };
                // One of more digits is refused when it comes up.
                let whole = whole.min(DIGITS_MAX.saturating_sub(scale));
                (scale <= SCALE_MAX).then_some(Kind::Number { whole, scale })
            }
        }
    }

    fn aggregate(self, aggregate: &Aggregate) -> Option<Kind> {
        self.condition(aggregate.filter.as_ref())?;
        let is_plain = aggregate.order.is_empty() && aggregate.separator.is_none();
        is_plain.then_some(())?;
        let input = match &aggregate.input {
            None => Kind::Null,
            Some(input) => self.kind(input)?,
        };
        if aggregate.distinct && !input.is_keyed() {
            return None;
        }
        let total = |scale| Kind::Number { whole: DIGITS_MAX - scale, scale };
        match (aggregate.function, input) {
            (AggregateFunction::Count, _) => Some(Kind::Int(19)),
            (AggregateFunction::Sum, Kind::Int(0..=10)) => Some(Kind::Int(19)),
            (AggregateFunction::Sum, Kind::Int(_)) => Some(total(0)),
            (AggregateFunction::Sum, Kind::Number { scale, .. }) => Some(total(scale)),
            (AggregateFunction::Sum, Kind::Free) => Some(Kind::Free),
            (AggregateFunction::Avg, input) if input.is_exact() => Some(Kind::Free),
            (AggregateFunction::Min | AggregateFunction::Max, _) => {
                let is_scalar = !matches!(input, Kind::Bool | Kind::Uuid | Kind::Null);
                (is_scalar && input.is_keyed() && input != Kind::Parameter).then_some(input)
            }
            (AggregateFunction::BoolAnd | AggregateFunction::BoolOr, Kind::Bool) => Some(input),
            _ => None,
        }
    }
}

fn is_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Const(Value::Int(number)) => *number == 0,
        Expr::Const(Value::Numeric(number)) => number.is_zero(),
        Expr::Cast { input, .. } => is_zero(input),
        _ => false,
    }
}

/// What LIKE may be asked: a text that is written, and does not end within an escape.
fn is_pattern(pattern: &Expr) -> bool {
    match pattern {
        Expr::Const(Value::Text(text)) => !text.ends_with('\\'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::statement::{Program, Statement};

    const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, small smallint, big bigint,
        price numeric(10,2), rate numeric(6,4), free numeric, ratio float8, name text,
        short varchar(5), code char(5), day date, at timestamp, raw bytea, ok boolean)";

    fn agreed(text: &str) -> bool {
        let bind = |catalog: &Catalog, text: &str| {
            let parsed = crate::parse(text).unwrap().remove(0);
            crate::bind(catalog, &parsed, &[]).unwrap_or_else(|e| panic!("{text}: {e:?}")).statement
        };
        let genesis = Catalog::genesis();
        let Statement::Ddl(ddl) = bind(&genesis, TABLE) else { panic!("no table") };
        let catalog = genesis.apply(&ddl).unwrap().0;
        match bind(&catalog, text) {
            Statement::Program(Program::Procedure(procedure)) => is_agreed(&catalog, &procedure),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_both_engines_compute_alike_may_move() {
        for text in [
            "SELECT id, name, price, ratio, raw FROM t",
            "SELECT count(*), count(ratio), sum(id), sum(big), sum(price) FROM t",
            "SELECT sum(price * (1 - rate)), min(day), max(name) FROM t WHERE ok AND NOT id = 3",
            "SELECT short, sum(small + 1) FROM t GROUP BY short HAVING sum(id) > 5 ORDER BY 2, 1",
            "SELECT DISTINCT day FROM t WHERE price > $1 OR name IS NULL LIMIT 10",
            "SELECT count(*) FROM t WHERE id IN (1, 2) AND day < date '2026-01-01'",
            "SELECT CASE WHEN ok THEN id ELSE 0 END FROM t",
            "SELECT count(*) FROM t a JOIN t b ON a.big = b.id AND a.price < b.price",
            "SELECT id FROM t UNION ALL SELECT small FROM t",
            "SELECT -id, -price, -ratio FROM t",
            "SELECT avg(price), avg(id), avg(price) * 2, round(avg(price), 2) FROM t",
            "SELECT price / 3, id / 2, id % 7, price * price * price * rate FROM t",
            "SELECT id FROM t WHERE ratio = 0 ORDER BY ratio, price / 3",
            "SELECT ratio * 2 + id FROM t WHERE ratio > 0.5",
            "SELECT sum(price::int), sum(price / 3) FROM t",
            "SELECT id::smallint, at::text, price::numeric(5,1) FROM t",
            "SELECT name::varchar(3) || 'x', upper(name), substring(name, 2, 3) FROM t",
            "SELECT extract(year FROM day), day + 7, day - date '2026-01-01' FROM t",
            "SELECT date_trunc('month', at), count(*) FROM t GROUP BY 1",
            "SELECT count(*) FROM t WHERE day <= date '2026-01-31' - interval '90 days'",
            "SELECT day + interval '1 month', at - interval '1 hour' FROM t",
            "SELECT sum(CASE WHEN name LIKE 'a%' THEN price ELSE 0 END) / sum(price) FROM t",
        ] {
            assert!(agreed(text), "{text}");
        }
    }

    #[test]
    fn parameters_with_more_digits_than_the_analytical_engine_has_stay() {
        for (text, fits) in [
            ("0.1234567890", true),
            ("0.12345678901", false),
            ("1.500000000000", true),
            ("-999999999999999999999999999", true),
            ("1000000000000000000000000000", false),
        ] {
            let parameter = Value::read_text(&DataType::Numeric(None), text).unwrap();
            assert_eq!(are_agreed(&[Value::Null, parameter]), fits, "{text}");
        }
    }

    #[test]
    fn whatever_may_differ_stays() {
        let texts = [
            "SELECT free FROM t",
            "SELECT id FROM t WHERE free > 1",
            "SELECT id FROM t WHERE code = 'ab   '",
            "SELECT code FROM t",
            "SELECT price * $1 FROM t WHERE $1 > 1.5",
            "SELECT sum(ratio) FROM t",
            "SELECT max(ratio) FROM t",
            "SELECT DISTINCT ratio FROM t",
            "SELECT id FROM t WHERE raw = '\\xdead'",
            "SELECT id FROM t WHERE name LIKE short",
            "SELECT id FROM t WHERE name ILIKE 'a%'",
            "SELECT price / 3 FROM t GROUP BY 1",
            "SELECT DISTINCT price / 3 FROM t",
            "SELECT avg(ratio) FROM t",
            "SELECT max(price / 3) FROM t",
            "SELECT count(DISTINCT price / 3) FROM t",
            "SELECT price / 3 FROM t UNION ALL SELECT price FROM t",
            "SELECT round(free, 2) FROM t",
            "SELECT id, $1 FROM t WHERE price > $1",
            "SELECT round($1, 2) FROM t WHERE price > $1",
            "SELECT extract(epoch FROM day) FROM t",
            "SELECT now(), id FROM t",
            "SELECT id FROM t GROUP BY id, interval '1 month' * id",
            "SELECT id, random() FROM t",
            "SELECT id FROM t WHERE random() < 0.5",
        ];
        let moved: Vec<&str> = texts.into_iter().filter(|text| agreed(text)).collect();
        assert!(moved.is_empty(), "{moved:?}");
    }
}
