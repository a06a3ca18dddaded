//! What is left to run of a procedure whose accesses were made elsewhere.
//!
//! A protocol that takes a transaction apart makes its accesses one by one, each with the
//! computation that its key and its inputs need. To answer the call it need not run the procedure
//! once more: the *residue* is what shows in the answer, or may turn the call down, and nothing
//! else.
//!
//! ```text
//!   Read a[$1] → r3                Found r3
//!   Require r4                     Require r4
//!   Let r5 = r3 + $2               Let r5 = r3 + $2         it may overflow
//!   If r3 < 7                      –                        only accesses are in it
//!     Update b[$1] by r5           –
//!   ForEach k in $3                –
//!     Read c[k] → r6               –                        no step that is left needs it
//!   Emit r3                        Emit r3
//! ```
//!
//! Left are the steps that have an effect beside rows, those that may fail or take longer than
//! their text says, for a run from start to end would have ended there, and what all of these need,
//! of what accesses found too. Registers are single-assignment, so it is of no consequence when the
//! others would have been written.
//!
//! *Not left* is what only accesses need: the protocol that makes them computes it, and meets what
//! fails in it. So are the bounds of loops that are not left.
//!
//! *The meter* pays for what is left. What the rest may cost is for the protocol to know.

use types::{ColumnId, Error, Key, SqlState, Stamp, Stop, TableId, Value};

use crate::access::{Access, Command, Range, Row};
use crate::analysis::{may_fail, visit};
use crate::expr::{Expr, Reg};
use crate::frame::{Counter, Frame, ProgramResult, Turn, null_bound};
use crate::interpret::{Flow, run_step};
use crate::step::{Block, Carried, Phi, Procedure, Step};

/// What is left of a procedure.
pub struct Residue {
    body: Box<[Left]>,
    needed: Box<[Needed]>,
    arguments: Box<[Reg]>,
    registers: u16,
}

/// An access of which something is needed.
pub struct Needed {
    /// The register for whether the row was there, by which the access is known.
    pub found: Reg,
    /// Of a read, the places of the columns that are needed, ascending.
    pub columns: Box<[u16]>,
}

/// What the accesses of one call found.
pub trait Findings {
    /// Whether the row was there (of an insert: whether it was added), and the needed columns of a
    /// read, or none if there was no row. `access` is a place in [`Residue::needed`], `turn` the
    /// turn of the loop around it, 0 where there is none.
    fn found(&self, access: u16, turn: usize) -> Result<(bool, &[Value]), Stop>;
}

enum Left {
    /// One that touches no rows.
    Step(Step),
    Found {
        access: u16,
        found: Reg,
        columns: Box<[Reg]>,
    },
    If {
        condition: Expr,
        then: Box<[Left]>,
        otherwise: Box<[Left]>,
        phis: Box<[Phi]>,
    },
    Each {
        register: Reg,
        array: Expr,
        body: Box<[Left]>,
        carried: Box<[Carried]>,
    },
    Range {
        register: Reg,
        bounds: Box<[Expr; 3]>,
        reverse: bool,
        body: Box<[Left]>,
        carried: Box<[Carried]>,
    },
    /// A loop that has to have no turns.
    NoTurns {
        carried: Box<[Carried]>,
    },
}

impl Residue {
    /// Loops with accesses and an end within, and those over rows, have to have no turns, or no
    /// call may use this.
    pub fn of(procedure: &Procedure) -> Residue {
        let mut needs = Needs { needed: vec![false; usize::from(procedure.registers)], grew: true };
        while std::mem::take(&mut needs.grew) {
            needs.block(&procedure.body);
        }
        let mut left = Leaver { needs: &needs.needed, needed: Vec::new() };
        let mut body = left.block(&procedure.body);
        if matches!(body.last(), Some(Left::Step(Step::Return))) {
            body.pop();
        }
        let parameters = 0..procedure.parameters.len() as u16;
        let arguments = parameters.map(Reg).filter(|r| needs.needed[usize::from(r.0)]);
        Residue {
            needed: left.needed.into(),
            arguments: arguments.collect(),
            registers: procedure.registers,
            body: body.into(),
        }
    }

    pub fn needed(&self) -> &[Needed] {
        &self.needed
    }

    /// The answer of a call, from what its accesses found.
    pub fn run<F: Findings>(
        &self,
        arguments: &[Value],
        now_us: i64,
        frame: &mut Frame,
        findings: &F,
    ) -> Result<ProgramResult, Stop> {
        if self.body.is_empty() {
            return Ok(ProgramResult::default());
        }
        frame.meter().refill();
        frame.enter_partly(usize::from(self.registers), &self.arguments, arguments, now_us);
        run_left(&self.body, 0, frame, findings)?;
        Ok(frame.leave())
    }
}

fn run_left<F: Findings>(
    block: &[Left],
    turn: usize,
    frame: &mut Frame,
    findings: &F,
) -> Result<Flow, Stop> {
    for left in block {
        let flow = match left {
            Left::Step(step) => {
                let mut no_rows = NoRows { now_us: frame.now_us };
                run_step(step, frame, &mut no_rows)?
            }
            Left::Found { access, found, columns } => {
                let (is_there, values) = findings.found(*access, turn)?;
                for (place, column) in columns.iter().enumerate() {
                    // A row that is not there reads as NULLs.
                    frame.set(*column, values.get(place).map(Value::copied).unwrap_or_default());
                }
                frame.set(*found, Value::Bool(is_there));
                Flow::Next
            }
            Left::If { condition, then, otherwise, phis } => {
                frame.meter().spend(1)?;
                let taken = frame.holds(condition)?;
                let flow = run_left(if taken { then } else { otherwise }, turn, frame, findings)?;
                if flow == Flow::Next {
                    frame.merge(phis, taken)?;
                }
                flow
            }
            Left::Each { .. } | Left::Range { .. } | Left::NoTurns { .. } => {
                run_loop(left, frame, findings)?
            }
        };
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
    Ok(Flow::Next)
}

fn run_loop<F: Findings>(left: &Left, frame: &mut Frame, findings: &F) -> Result<Flow, Stop> {
    match left {
        Left::Each { register, array, body, carried } => {
            let Value::Array(elements) = frame.eval(array)? else {
                return Err(null_bound("FOREACH expression must not be null").into());
            };
            frame.enter_loop(carried)?;
            for (turn, element) in elements.iter().enumerate() {
                frame.set(*register, element.copied());
                if let Turn::End(flow) = run_turn(body, turn, carried, frame, findings)? {
                    return Ok(flow);
                }
            }
        }
        Left::Range { register, bounds, reverse, body, carried } => {
            let [first, last, step] = &**bounds;
            let counter = Counter::new(frame, first, last, step, *reverse)?;
            frame.enter_loop(carried)?;
            for (turn, number) in counter.enumerate() {
                frame.set(*register, Value::Int(number));
                if let Turn::End(flow) = run_turn(body, turn, carried, frame, findings)? {
                    return Ok(flow);
                }
            }
        }
        Left::NoTurns { carried } => frame.enter_loop(carried)?,
        Left::Step(_) | Left::Found { .. } | Left::If { .. } => {}
    }
    Ok(Flow::Next)
}

fn run_turn<F: Findings>(
    body: &[Left],
    turn: usize,
    carried: &[Carried],
    frame: &mut Frame,
    findings: &F,
) -> Result<Turn, Stop> {
    frame.meter().spend(1)?;
    let flow = run_left(body, turn, frame, findings)?;
    Ok(frame.end_turn(flow, carried)?)
}

/// Which registers are needed by what is left.
struct Needs {
    needed: Vec<bool>,
    grew: bool,
}

impl Needs {
    fn block(&mut self, block: &Block) {
        block.iter().rev().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &Step) {
        match step {
            step if looked_up(step).is_some() => {}
            step if !visit::touches_rows(step) => {
                if is_left(step, &self.needed) {
                    for step in std::iter::once(step).chain(inner(step)) {
                        visit::each_step_expr(step, &mut |_, expr| self.need(expr));
                    }
                }
            }
            Step::If { condition, then, otherwise, phis } => {
                self.block(then);
                self.block(otherwise);
                for phi in phis {
                    if phi_is_left(phi, &self.needed) {
                        self.need(&phi.then);
                        self.need(&phi.otherwise);
                    }
                }
                if is_left(step, &self.needed) {
                    self.need(condition);
                }
            }
            step => {
                visit::blocks(step).into_iter().flatten().for_each(|body| self.block(body));
                for carried in visit::carried(step) {
                    if carried_is_left(carried, &self.needed) {
                        self.need(&carried.initial);
                        self.need(&carried.next);
                    }
                }
                if is_left(step, &self.needed) {
                    visit::each_own_expr(step, &mut |expr| self.need(expr));
                }
            }
        }
    }

    fn need(&mut self, expr: &Expr) {
        visit::each_register(expr, &mut |register| {
            let needed = &mut self.needed[usize::from(register.0)];
            self.grew |= !std::mem::replace(needed, true);
        });
    }
}

/// Steps inside one, at any depth.
fn inner(step: &Step) -> impl Iterator<Item = &Step> {
    visit::blocks(step).into_iter().flatten().flat_map(visit::numbered)
}

fn is_needed(register: Reg, needed: &[bool]) -> bool {
    needed[usize::from(register.0)]
}

/// What a step fills that looks for a row, as [`visit::row_outputs`] has it: by its key, or by a
/// query.
fn looked_up(step: &Step) -> Option<(Reg, Reg, u16)> {
    match step {
        Step::Fetch { outputs, found, strict: false, .. } if visit::touches_rows(step) => {
            let first = outputs.first()?;
            let follow = outputs.iter().zip(first.0..).all(|(output, place)| output.0 == place);
            follow.then_some((*found, *first, outputs.len() as u16))
        }
        step => visit::row_outputs(step),
    }
}

/// Whether a run may end, or take long, by computing it.
fn is_risky(expr: &Expr) -> bool {
    may_fail(expr) || !expr.is_brief()
}

fn phi_is_left(phi: &Phi, needed: &[bool]) -> bool {
    is_needed(phi.out, needed) || is_risky(&phi.then) || is_risky(&phi.otherwise)
}

fn carried_is_left(carried: &Carried, needed: &[bool]) -> bool {
    is_needed(carried.register, needed) || is_risky(&carried.initial) || is_risky(&carried.next)
}

fn is_left(step: &Step, needed: &[bool]) -> bool {
    if looked_up(step).is_some() {
        let mut is_left = false;
        visit::each_output(step, &mut |register| is_left |= is_needed(register, needed));
        return is_left;
    }
    let mut blocks = visit::blocks(step).into_iter().flatten();
    let mut is_left = match step {
        Step::If { condition, phis, .. } => {
            is_risky(condition) || phis.iter().any(|phi| phi_is_left(phi, needed))
        }
        Step::Let { out, value } => is_needed(*out, needed) || is_risky(value),
        // Their turns are paid for. Those with accesses have as many as the accesses.
        step if visit::is_loop(step) => {
            !visit::touches_rows(step)
                || visit::carried(step).iter().any(|carried| carried_is_left(carried, needed))
        }
        _ => true,
    };
    is_left |= blocks.any(|block| block.iter().any(|step| self::is_left(step, needed)));
    is_left
}

struct Leaver<'n> {
    needs: &'n [bool],
    needed: Vec<Needed>,
}

impl Leaver<'_> {
    fn block(&mut self, block: &Block) -> Vec<Left> {
        block.iter().filter(|step| is_left(step, self.needs)).map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &Step) -> Left {
        if let Some((found, out, columns)) = looked_up(step) {
            let places = (0..columns).filter(|place| is_needed(Reg(out.0 + place), self.needs));
            let places: Box<[u16]> = places.collect();
            let columns = places.iter().map(|place| Reg(out.0 + place)).collect();
            self.needed.push(Needed { found, columns: places });
            return Left::Found { access: (self.needed.len() - 1) as u16, found, columns };
        }
        if !visit::touches_rows(step) {
            return Left::Step(step.clone());
        }
        let carried = visit::carried(step).iter();
        let carried = carried.filter(|carried| carried_is_left(carried, self.needs)).cloned();
        let carried: Box<[Carried]> = carried.collect();
        match step {
            Step::If { condition, then, otherwise, phis } => Left::If {
                condition: condition.clone(),
                then: self.block(then).into(),
                otherwise: self.block(otherwise).into(),
                phis: phis.iter().filter(|phi| phi_is_left(phi, self.needs)).cloned().collect(),
            },
            Step::ForEach { register, array, body, .. } => Left::Each {
                register: *register,
                array: array.clone(),
                body: self.block(body).into(),
                carried,
            },
            Step::ForRange { register, first, last, step, reverse, body, .. } => Left::Range {
                register: *register,
                bounds: Box::new([first.clone(), last.clone(), step.clone()]),
                reverse: *reverse,
                body: self.block(body).into(),
                carried,
            },
            _ => Left::NoTurns { carried },
        }
    }
}

/// What is left touches no rows.
struct NoRows {
    now_us: i64,
}

fn touched() -> Stop {
    let why = "what is left of a procedure touched a row";
    Stop::Rejected(Error::new(SqlState::INTERNAL_ERROR, why))
}

impl Access for NoRows {
    fn read(
        &mut self,
        _: TableId,
        _: &Key,
        _: &[ColumnId],
        _: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        Err(touched())
    }

    fn exists(&mut self, _: TableId, _: &Key) -> Result<bool, Stop> {
        Err(touched())
    }

    fn update(&mut self, _: TableId, _: &Key, _: Command) -> Result<bool, Stop> {
        Err(touched())
    }

    fn insert(&mut self, _: TableId, _: Key, _: Row) -> Result<bool, Stop> {
        Err(touched())
    }

    fn delete(&mut self, _: TableId, _: &Key) -> Result<bool, Stop> {
        Err(touched())
    }

    fn scan<V>(&mut self, _: &Range, _: &[ColumnId], _: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<std::ops::ControlFlow<()>, Stop>,
    {
        Err(touched())
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        [0; 16]
    }

    fn now_us(&self) -> i64 {
        self.now_us
    }
}

#[cfg(test)]
mod tests {
    use types::DataType;

    use super::*;
    use crate::access::CommandCode;
    use crate::expr::BinaryOp;
    use crate::step::{Column, OnError, Output};
    use std::sync::Arc;

    fn procedure(parameters: u16, registers: u16, body: Vec<Step>) -> Procedure {
        let column = |place| Column { name: format!("p{place}"), data_type: DataType::Int8 };
        Procedure {
            name: "test".into(),
            parameters: (0..parameters).map(column).collect(),
            registers,
            register_names: Box::default(),
            body: body.into(),
            output: Output::Tag,
            tag: "CALL".into(),
            read_only: false,
            draws: false,
            sequences: Box::default(),
        }
    }

    fn register(number: u16) -> Expr {
        Expr::Reg(Reg(number))
    }

    fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
        let (left, right) = (Box::new(left), Box::new(right));
        let result = if op.is_comparison() { DataType::Bool } else { DataType::Int8 };
        Expr::Binary { op, left, right, result }
    }

    fn read(key: u16, columns: &[ColumnId], out: u16, found: u16) -> Step {
        Step::Read {
            table: TableId(1),
            key: Box::new([register(key)]),
            columns: columns.into(),
            out: Reg(out),
            found: Reg(found),
        }
    }

    fn set(key: u16, input: u16, found: u16) -> Step {
        Step::Update {
            table: TableId(1),
            key: Box::new([register(key)]),
            code: Arc::new(CommandCode::setting([1].into_iter())),
            inputs: Box::new([register(input)]),
            found: Reg(found),
        }
    }

    /// What each access found, and each column: its place.
    struct All(Vec<Value>);

    impl Findings for All {
        fn found(&self, access: u16, turn: usize) -> Result<(bool, &[Value]), Stop> {
            assert!(usize::from(access) + turn < 8);
            Ok((true, &self.0))
        }
    }

    fn run(residue: &Residue, arguments: &[Value]) -> Result<ProgramResult, Stop> {
        let found = All((7..10).map(Value::Int).collect());
        residue.run(arguments, 0, &mut Frame::new(), &found)
    }

    #[test]
    fn nothing_is_left_of_accesses_that_only_accesses_need() {
        let each = Step::ForEach {
            register: Reg(1),
            array: register(0),
            body: Box::new([read(1, &[1, 2], 2, 4), set(1, 2, 5)]),
            carried: Box::default(),
        };
        let residue = Residue::of(&procedure(1, 6, vec![each, Step::Return]));
        assert!(residue.body.is_empty() && residue.needed().is_empty());
        assert_eq!(run(&residue, &[]).unwrap(), ProgramResult::default());
    }

    #[test]
    fn what_the_answer_needs_is_left() {
        let body = vec![
            read(0, &[1, 2, 3], 1, 4),
            set(0, 2, 5),
            Step::Emit { values: Box::new([binary(BinaryOp::Add, register(3), register(0))]) },
        ];
        let residue = Residue::of(&procedure(1, 6, body));
        let [needed] = residue.needed() else { panic!("the read alone") };
        assert_eq!((needed.found, &*needed.columns), (Reg(4), &[2][..]));
        let rows = run(&residue, &[Value::Int(5)]).unwrap().rows;
        assert!(matches!(&*rows[0], [Value::Int(12)]), "{rows:?}");
    }

    /// A run from start to end would have ended there.
    #[test]
    fn what_may_fail_is_left_though_nothing_needs_it() {
        let divide =
            Step::Let { out: Reg(3), value: binary(BinaryOp::Divide, register(1), register(0)) };
        let compare =
            Step::Let { out: Reg(4), value: binary(BinaryOp::Less, register(1), register(0)) };
        let residue = Residue::of(&procedure(1, 5, vec![read(0, &[1], 1, 2), divide, compare]));
        assert_eq!(residue.body.len(), 2, "the read and the division");
        assert!(run(&residue, &[Value::Int(1)]).is_ok());
        assert!(run(&residue, &[Value::Int(0)]).is_err());
    }

    /// Turns that count what they found, up to a bound.
    #[test]
    fn what_a_loop_carries_is_left_with_what_it_needs() {
        let then =
            vec![Step::Let { out: Reg(5), value: binary(BinaryOp::Add, register(2), register(3)) }];
        let branch = Step::If {
            condition: register(4),
            then: then.into(),
            otherwise: Box::default(),
            phis: Box::new([Phi { out: Reg(6), then: register(5), otherwise: register(2) }]),
        };
        let each = Step::ForEach {
            register: Reg(1),
            array: register(0),
            body: Box::new([read(1, &[1], 3, 4), set(1, 3, 7), branch]),
            carried: Box::new([Carried {
                register: Reg(2),
                initial: Expr::Const(Value::Int(0)),
                next: register(6),
            }]),
        };
        let error = OnError::new(SqlState::RAISE_EXCEPTION, "too much");
        let condition = binary(BinaryOp::Less, register(2), Expr::Const(Value::Int(15)));
        let body = vec![
            each,
            Step::Require { condition, error },
            Step::Emit { values: Box::new([register(2)]) },
        ];
        let residue = Residue::of(&procedure(1, 8, body));
        assert_eq!(residue.needed().len(), 1);
        let keys = |count: i64| [Value::array((0..count).map(Value::Int).collect::<Vec<_>>())];
        let rows = run(&residue, &keys(2)).unwrap().rows;
        assert!(matches!(&*rows[0], [Value::Int(14)]), "{rows:?}");
        assert!(run(&residue, &keys(3)).is_err());
    }
}
