//! Loops, and the ways out of them.

use std::collections::BTreeSet;

use procedure::step::Carried;
use procedure::{Block, Expr, Reg, Step};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::assigned::Assigned;
use super::lower::Lowering;
use super::scope::{Place, Record, Rules, Slot};
use super::syntax::{self, LoopKind, Node, Target};
use crate::bind::{BoundQuery, Typed};

/// A loop around the statement at hand.
pub struct LoopFrame {
    label: Option<String>,
    carried: Vec<Slot>,
}

impl Lowering<'_> {
    pub(super) fn any_loop(
        &mut self,
        label: &Option<String>,
        kind: &LoopKind,
        body: &[Node],
    ) -> Result<()> {
        match kind {
            LoopKind::Forever => self.while_loop(label, None, body),
            LoopKind::While(condition) => self.while_loop(label, Some(condition), body),
            LoopKind::Range { .. } => self.range_loop(label, kind, body),
            LoopKind::Each { target, array } => self.each_loop(label, target, array, body),
            LoopKind::Rows { targets, statement } => {
                self.rows_loop(label, targets, statement, body)
            }
        }
    }

    /// Start carrying what the body may assign. From here on, those variables are registers of the
    /// loop.
    fn enter(
        &mut self,
        label: &Option<String>,
        body: &[Node],
        also: &[Target],
        turned: Option<Slot>,
    ) -> Result<Vec<(Slot, Reg, Expr)>> {
        let assigned = Assigned::by(body);
        let mut slots = BTreeSet::from_iter(turned);
        for target in assigned.targets.into_iter().chain(also) {
            match self.find(target) {
                Some(Place::Variable(slot)) => slots.extend([slot]),
                Some(Place::Record(record)) => {
                    slots.extend(self.records[record].fields.iter().flatten());
                }
                // The body's own declaration, or an error that the body will tell.
                None => {}
            }
        }
        if assigned.runs_sql {
            slots.extend(self.tracks_found.then_some(self.found));
            slots.extend(self.tracks_row_count.then_some(self.row_count));
        }
        let mut entered = Vec::new();
        for &slot in &slots {
            let initial = self.value(slot).clone();
            let register = self.version_of(slot)?;
            self.set(slot, Expr::Reg(register));
            entered.push((slot, register, initial));
        }
        self.loops.push(LoopFrame { label: label.clone(), carried: slots.into_iter().collect() });
        Ok(entered)
    }

    /// The body's end: what the next turn starts with.
    fn close(&mut self, entered: Vec<(Slot, Reg, Expr)>) -> Box<[Carried]> {
        self.loops.pop();
        let carried = entered.into_iter().map(|(slot, register, initial)| {
            let next = self.value(slot).clone();
            self.set(slot, Expr::Reg(register));
            Carried { register, initial, next }
        });
        carried.collect()
    }

    fn while_loop(
        &mut self,
        label: &Option<String>,
        condition: Option<&syntax::Expr>,
        body: &[Node],
    ) -> Result<()> {
        let was_reachable = self.reachable;
        let records = self.records.clone();
        let entered = self.enter(label, body, &[], None)?;
        let mut test = Expr::Const(Value::Bool(true));
        let mark = self.mark();
        let block = self.apart(|lowering| {
            if let Some(condition) = condition {
                test = lowering.condition(condition, "WHILE")?;
                if !lowering.binder.steps.is_empty() {
                    // The condition takes steps of its own: they are the first of every turn.
                    let exit = lowering.leave_step(0, true);
                    lowering.binder.steps.push(Step::If {
                        condition: lowering.not_true(&test),
                        then: [exit].into(),
                        otherwise: Box::default(),
                        phis: Box::default(),
                    });
                    test = Expr::Const(Value::Bool(true));
                }
            }
            lowering.nodes(body)?;
            lowering.forget(mark);
            Ok(())
        })?;
        let carried = self.close(entered);
        self.records = records;
        // A LOOP without an EXIT ends only by RETURN or an error.
        self.reachable = was_reachable && (condition.is_some() || is_left(&block, 0));
        self.binder.steps.push(Step::While { condition: test, body: block, carried });
        Ok(())
    }

    /// Any FOR. `start` puts the turn's values into variables, `step` makes the step. When it ends,
    /// FOUND says whether there was a turn; inside, FOUND is the body's own.
    fn for_loop(
        &mut self,
        label: &Option<String>,
        body: &[Node],
        also: &[Target],
        start: impl FnOnce(&mut Self) -> Result<()>,
        step: impl FnOnce(Block, Box<[Carried]>) -> Step,
    ) -> Result<()> {
        let (outside, was_reachable) = (self.mark(), self.reachable);
        let records = self.records.clone();
        let no = Expr::Const(Value::Bool(false));
        let turned =
            self.tracks_found.then(|| self.declare("", "", no, DataType::Bool, Rules::default()));
        let entered = self.enter(label, body, also, turned)?;
        let inside = self.mark();
        let block = self.apart(|lowering| {
            if let Some(turned) = turned {
                lowering.set(turned, Expr::Const(Value::Bool(true)));
            }
            start(lowering)?;
            lowering.nodes(body)?;
            lowering.forget(inside);
            Ok(())
        })?;
        let carried = self.close(entered);
        self.binder.steps.push(step(block, carried));
        if let Some(turned) = turned {
            let turned = self.value(turned).clone();
            self.set(self.found, turned);
        }
        self.records = records;
        self.forget(outside);
        self.reachable = was_reachable;
        Ok(())
    }

    fn range_loop(&mut self, label: &Option<String>, kind: &LoopKind, body: &[Node]) -> Result<()> {
        let LoopKind::Range { variable, reverse, first, last, step } = kind else {
            return Ok(());
        };
        let (first, last) = (self.loop_bound(first)?, self.loop_bound(last)?);
        let step = match step {
            Some(step) => self.loop_bound(step)?,
            None => Expr::Const(Value::Int(1)),
        };
        let register = self.binder.register()?;
        self.register_names.insert(register, variable.as_str().into());
        let qualifier = label.clone().unwrap_or_default();
        self.for_loop(
            label,
            body,
            &[],
            |lowering| {
                let value = Expr::Reg(register);
                lowering.declare(&qualifier, variable, value, DataType::Int4, Rules::default());
                Ok(())
            },
            |body, carried| Step::ForRange {
                register,
                first,
                last,
                step,
                reverse: *reverse,
                body,
                carried,
            },
        )
    }

    /// PL/pgSQL counts in integers.
    fn loop_bound(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        let bound = self.binder.bare_expression(expr)?;
        let bound = self.converted(bound, &DataType::Int4)?;
        self.binder.let_value(bound)
    }

    fn each_loop(
        &mut self,
        label: &Option<String>,
        target: &Target,
        array: &syntax::Expr,
        body: &[Node],
    ) -> Result<()> {
        let array = self.binder.bare_expression(array)?;
        let DataType::Array(element) = array.data_type else {
            let data_type = array.data_type;
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("FOREACH expression must yield an array, not type {data_type}"),
            ));
        };
        self.place(target)?;
        let register = self.binder.register()?;
        self.for_loop(
            label,
            body,
            std::slice::from_ref(target),
            |lowering| lowering.assign_to(target, Typed::new(Expr::Reg(register), *element)),
            |body, carried| Step::ForEach { register, array: array.expr, body, carried },
        )
    }

    fn rows_loop(
        &mut self,
        label: &Option<String>,
        targets: &[Target],
        statement: &ast::Statement,
        body: &[Node],
    ) -> Result<()> {
        let ast::Statement::Query(query) = statement else {
            return Err(Error::unsupported("FOR over a statement other than SELECT"));
        };
        let BoundQuery { query, columns, .. } = self.binder.query(query)?;
        let row = self.binder.registers(columns.len())?;
        let values = columns.into_iter().zip(&row).map(|(column, register)| {
            let value = Typed::new(Expr::Reg(*register), column.data_type);
            (column.name, value)
        });
        let values: Vec<(String, Typed)> = values.collect();
        self.clear(targets, &values)?;
        self.for_loop(
            label,
            body,
            targets,
            |lowering| lowering.store_row(targets, values),
            |body, carried| Step::ForRows { query, row: row.into(), body, carried },
        )
    }

    /// What FOR puts rows into is NULL before the first one comes, and has the query's columns if
    /// it is a record without a type.
    fn clear(&mut self, targets: &[Target], row: &[(String, Typed)]) -> Result<()> {
        let null = || Expr::Const(Value::Null);
        for place in self.places(targets)? {
            match place {
                Place::Variable(slot) if self.rules[slot].constant => {}
                Place::Variable(slot) => self.set(slot, null()),
                Place::Record(record) if self.has_columns(record, row) => {
                    for slot in self.records[record].fields.clone().into_iter().flatten() {
                        self.set(slot, null());
                    }
                }
                Place::Record(record) => {
                    let columns = row.iter().map(|(name, column)| {
                        (name.clone(), Typed::new(null(), column.data_type.clone()))
                    });
                    self.declare_fields(record, columns);
                }
            }
        }
        Ok(())
    }

    fn has_columns(&self, record: usize, row: &[(String, Typed)]) -> bool {
        let Record { fields: Some(fields), has_type, .. } = &self.records[record] else {
            return false;
        };
        let is_alike = |(slot, (name, column)): (&Slot, &(String, Typed))| {
            let field = &self.binder.variables[*slot];
            (&field.name, &field.data_type) == (name, &column.data_type)
        };
        *has_type || (fields.len() == row.len() && fields.iter().zip(row).all(is_alike))
    }

    pub(super) fn leave(
        &mut self,
        label: &Option<String>,
        when: &Option<syntax::Expr>,
        is_exit: bool,
    ) -> Result<()> {
        let depth = self.loop_depth(label, is_exit)?;
        let Some(when) = when else {
            let step = self.leave_step(depth, is_exit);
            self.binder.steps.push(step);
            self.reachable = false;
            return Ok(());
        };
        let condition = self.condition(when, "EXIT")?;
        let step = self.leave_step(depth, is_exit);
        self.binder.steps.push(Step::If {
            condition,
            then: [step].into(),
            otherwise: Box::default(),
            phis: Box::default(),
        });
        Ok(())
    }

    fn loop_depth(&self, label: &Option<String>, is_exit: bool) -> Result<u16> {
        let word = if is_exit { "EXIT" } else { "CONTINUE" };
        let mut inside_out = self.loops.iter().rev();
        let depth = match label {
            None if self.loops.is_empty() => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("{word} cannot be used outside a loop"),
                ));
            }
            None => Some(0),
            Some(_) => inside_out.position(|frame| frame.label == *label),
        };
        match (depth, label) {
            (Some(depth), _) => Ok(depth as u16),
            (None, Some(label)) if is_exit && self.is_block_label(label) => {
                Err(Error::unsupported("EXIT from a block that is not a loop"))
            }
            (None, label) => Err(Error::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "there is no label \"{}\" attached to any loop enclosing this statement",
                    label.as_deref().unwrap_or_default()
                ),
            )),
        }
    }

    fn leave_step(&self, depth: u16, is_exit: bool) -> Step {
        let frame = &self.loops[self.loops.len() - 1 - usize::from(depth)];
        let values = frame.carried.iter().map(|slot| self.value(*slot).clone());
        let values = values.collect();
        match is_exit {
            true => Step::Exit { depth, values },
            false => Step::Continue { depth, values },
        }
    }
}

/// Whether an `Exit` in `block` leads out of the loop `depth` levels around it.
fn is_left(block: &Block, depth: u16) -> bool {
    block.iter().any(|step| match step {
        Step::Exit { depth: out, .. } => *out == depth,
        Step::If { then, otherwise, .. } => is_left(then, depth) || is_left(otherwise, depth),
        Step::While { body, .. }
        | Step::ForRange { body, .. }
        | Step::ForEach { body, .. }
        | Step::ForRows { body, .. } => is_left(body, depth + 1),
        _ => false,
    })
}
