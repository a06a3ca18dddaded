//! Key spaces: what a piece will touch, told from what it was given, before it runs.
//!
//! Two pieces of one piece-set may run beside each other if they touch different *key spaces*. A
//! space is a table and the first columns of its key: all of them, or as many as every range over
//! the table fixes, so that a range lies in one space with each row that it may meet.
//!
//! From a piece's program a second one is made, which touches nothing and notes the spaces:
//!
//! ```text
//!   Fetch new_order[$1, r1, ..] → r2       note new_order[$1, r1]
//!   If not r2.found Continue               ─   a decision by own data: both ways are noted
//!   Delete new_order[$1, r1, r2]           note new_order[$1, r1]    cut to the range's columns
//! ```
//!
//! *Taint.* What an own operation gives is not known when spaces are noted, nor is what is computed
//! from it. Where it decides, all ways are noted; where it is in a key, the columns before it are
//! noted; where nothing is known of a key, or a range is one of a secondary index, the piece may
//! touch *anything* and is a barrier within its piece-set. So the notes are a superset.
//!
//! *Recalls* are told run by run, so one is known only where each of its runs is noted, once and in
//! turn. Where all ways are noted, or a loop's body once for all of its turns, it is tainted too.
//!
//! *Row ids.* A row under a hidden row id is met by ranges alone, which are barriers.

use std::collections::BTreeMap;
use std::ops::Bound;

use procedure::analysis::visit;
use procedure::step::{Block, Carried, Procedure, Step};
use procedure::{Expr, Query, Reg};
use types::key::decode_column;
use types::{Key, TableId, TableSchema};

use super::graph::Subject;
use super::operations::Written;
use super::projection::{Constants, each_table, is_operation, is_root, recalled};
use super::sweep::sweep;
use super::virtual_table::{Meaning, is_real, meaning, table_of};
use crate::log::RowWrite;
use crate::mutant::Mutant;

/// How many columns of a key make a space, by table; tables that are touched by nothing but
/// barriers have none.
#[derive(Clone, Debug, Default)]
pub struct SpaceColumns(BTreeMap<TableId, usize>);

impl SpaceColumns {
    /// Rows that are written ad hoc are written by their whole keys.
    pub(crate) fn of_rows(subject: &Subject) -> SpaceColumns {
        let columns = |table: &TableId| {
            let schema = subject.tables.get(table);
            (*table, schema.map_or(usize::MAX, |schema| schema.primary_key.len()))
        };
        SpaceColumns(subject.written_ad_hoc.iter().map(columns).collect())
    }

    /// The first columns of a stored key, which make its space; `None`: it is in none alone.
    pub(crate) fn prefix(&self, write: &RowWrite, schema: Option<&TableSchema>) -> Option<Key> {
        let schema = schema?;
        // Only barriers touch a table without spaces, and rows of different keys do not conflict.
        let count = self.0.get(&write.table).copied().unwrap_or(schema.primary_key.len());
        let mut rest = write.key.as_bytes();
        for column in schema.primary_key.iter().take(count) {
            let column = &schema.columns[usize::from(*column)];
            decode_column(&column.data_type, column.nullable, &mut rest).ok()?;
        }
        let length = write.key.as_bytes().len() - rest.len();
        Some(Key::from(&write.key.as_bytes()[..length]))
    }
}

/// The notes of a piece's program, spaces not yet cut to their columns.
pub struct Notes {
    body: Block,
    registers: usize,
}

impl Notes {
    /// Reads what `program`, a projection, will touch; `columns` learns which columns are fixed.
    pub fn of(
        program: &Procedure,
        constants: &Constants,
        written: &Written,
        columns: &mut SpaceColumns,
        mutant: Option<Mutant>,
    ) -> Notes {
        let registers = usize::from(program.registers);
        let mut noting = Noting {
            tainted: vec![false; registers],
            scratch: Reg(program.registers - 1),
            constants,
            written,
            columns,
            uncertain: 0,
            loops: Vec::new(),
            mutant,
        };
        let body = noting.block(&program.body);
        Notes { body, registers }
    }

    /// The program that notes the spaces; `None`: there is nothing to note.
    pub fn program(
        self,
        of: &Procedure,
        columns: &SpaceColumns,
        mutant: Option<Mutant>,
    ) -> Option<Procedure> {
        let body = match mutant {
            Some(Mutant::RangesIgnored) => self.body,
            _ => cut(self.body, columns),
        };
        let body = sweep(body, self.registers, &is_note);
        (!body.is_empty()).then(|| Procedure {
            name: of.name.clone(),
            parameters: of.parameters.clone(),
            registers: of.registers,
            register_names: Box::default(),
            body,
            output: procedure::Output::Tag,
            tag: String::new(),
            read_only: true,
            draws: of.draws,
            sequences: of.sequences.clone(),
        })
    }
}

fn is_note(step: &Step) -> bool {
    let mut found = false;
    each_table(step, &mut |table| {
        found |= matches!(meaning(table), Meaning::Note(_) | Meaning::Any);
    });
    found
}

fn is_recall(step: &Step) -> bool {
    let mut found = false;
    each_table(step, &mut |table| found |= matches!(meaning(table), Meaning::Recall(_)));
    found
}

/// Cuts every note to the columns of its table's spaces. A note without a key is a row under a
/// hidden id: no other piece can know it, unless others do touch the table by its keys.
fn cut(block: Block, columns: &SpaceColumns) -> Block {
    let mut steps = Vec::with_capacity(block.len());
    for mut step in block {
        match &mut step {
            Step::Exists { table, key, .. } => {
                if let Meaning::Note(noted) = meaning(*table) {
                    let space = columns.0.get(&noted).copied();
                    match (space, key.is_empty()) {
                        (None, true) => continue,
                        (Some(_), true) => *table = table_of(Meaning::Any),
                        (space, false) => {
                            let count = space.unwrap_or(key.len()).min(key.len());
                            *key = key[..count].into();
                        }
                    }
                }
            }
            Step::If { then, otherwise, .. } => {
                *then = cut(std::mem::take(then), columns);
                *otherwise = cut(std::mem::take(otherwise), columns);
            }
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => *body = cut(std::mem::take(body), columns),
            _ => {}
        }
        steps.push(step);
    }
    steps.into()
}

struct Noting<'a> {
    /// By register: not known before the piece runs.
    tainted: Vec<bool>,
    scratch: Reg,
    constants: &'a Constants,
    written: &'a Written,
    columns: &'a mut SpaceColumns,
    /// Decisions by tainted values around the step at hand.
    uncertain: usize,
    loops: Vec<Around>,
    mutant: Option<Mutant>,
}

/// A loop around the step at hand.
struct Around {
    carried: Vec<Reg>,
    /// Its steps may leave it, or its turn, and whether they do is not known.
    left: bool,
}

impl Around {
    fn new(step: &Step) -> Around {
        let carried = visit::carried(step).iter().map(|carried| carried.register);
        Around { carried: carried.collect(), left: false }
    }
}

impl Noting<'_> {
    fn is_known(&self, expr: &Expr) -> bool {
        !expr.any(&mut |expr| match expr {
            Expr::Column(_) => true,
            Expr::Reg(Reg(register)) => self.tainted[usize::from(*register)],
            _ => false,
        })
    }

    fn taint(&mut self, Reg(register): Reg) {
        self.tainted[usize::from(register)] = true;
    }

    fn taint_outputs(&mut self, step: &Step) {
        let mut outputs = Vec::new();
        visit::each_output(step, &mut |register| outputs.push(register));
        outputs.into_iter().for_each(|register| self.taint(register));
    }

    fn block(&mut self, block: &Block) -> Block {
        let mut out = Vec::new();
        block.iter().for_each(|step| self.step(step, &mut out));
        out.into()
    }

    fn step(&mut self, step: &Step, out: &mut Vec<Step>) {
        visit::each_given(step, &mut |register| self.taint(register));
        match step {
            Step::Update { table, .. } if !is_real(*table) => {}
            Step::ForRows { .. } => self.rows(step, out),
            step if is_root(step, self.constants) => {
                self.note(step, out);
                self.taint_outputs(step);
            }
            Step::Let { out: register, value } => match self.is_known(value) {
                true => out.push(step.clone()),
                false => self.taint(*register),
            },
            Step::If { .. } => self.branch(step, out),
            Step::Exit { depth, .. } | Step::Continue { depth, .. } => {
                self.leave(*depth, step, out)
            }
            Step::Return if !self.is_certain() => self.may_leave(0),
            step if visit::is_loop(step) => self.turns(step, out),
            step => self.pure(step, out),
        }
    }

    /// A recall, a constant read, or a query over no table.
    fn pure(&mut self, step: &Step, out: &mut Vec<Step>) {
        let mut known = !self.is_out_of_step(step);
        let is_query = matches!(step, Step::Fetch { .. });
        visit::each_own_expr(step, &mut |expr| {
            // Within a query columns are those of its rows.
            known &= match is_query {
                true => !self.reads_tainted(expr),
                false => self.is_known(expr),
            };
        });
        match known {
            true => out.push(step.clone()),
            false => self.taint_outputs(step),
        }
    }

    fn reads_tainted(&self, expr: &Expr) -> bool {
        expr.any(&mut |expr| matches!(expr, Expr::Reg(Reg(r)) if self.tainted[usize::from(*r)]))
    }

    /// A recall of which it is not known how often it has run before.
    fn is_out_of_step(&self, step: &Step) -> bool {
        self.uncertain > 0 && self.mutant != Some(Mutant::RecallsOutOfStep) && is_recall(step)
    }

    /// All that get here run this step: no step before decided by own data, or left.
    fn is_certain(&self) -> bool {
        self.uncertain == 0 && !self.loops.iter().any(|around| around.left)
    }

    fn leave(&mut self, depth: u16, step: &Step, out: &mut Vec<Step>) {
        let Some(place) = self.loops.len().checked_sub(usize::from(depth) + 1) else {
            return;
        };
        if !self.is_certain() {
            return self.may_leave(place);
        }
        let (Step::Exit { values, .. } | Step::Continue { values, .. }) = step else {
            return;
        };
        let pairs = self.loops[place].carried.iter().zip(values);
        let tainted = pairs.filter(|(_, value)| !self.is_known(value));
        let tainted: Vec<Reg> = tainted.map(|(register, _)| *register).collect();
        if self.mutant != Some(Mutant::LeaversUnchecked) {
            tainted.into_iter().for_each(|register| self.taint(register));
        }
        out.push(step.clone());
    }

    /// A step may leave the loop at `place` and those inside it, or not.
    fn may_leave(&mut self, place: usize) {
        self.loops[place..].iter_mut().for_each(|around| around.left = true);
    }

    fn branch(&mut self, step: &Step, out: &mut Vec<Step>) {
        let Step::If { condition, then, otherwise, phis } = step else {
            return;
        };
        if !self.is_known(condition) {
            self.uncertain += 1;
            for block in [then, otherwise] {
                out.extend(self.block(block));
            }
            self.uncertain -= 1;
            return phis.iter().for_each(|phi| self.taint(phi.out));
        }
        let (then, otherwise) = (self.block(then), self.block(otherwise));
        let mut kept = Vec::new();
        for phi in phis {
            match self.is_known(&phi.then) && self.is_known(&phi.otherwise) {
                true => kept.push(phi.clone()),
                false => self.taint(phi.out),
            }
        }
        out.push(Step::If { condition: condition.clone(), then, otherwise, phis: kept.into() });
    }

    fn rows(&mut self, step: &Step, out: &mut Vec<Step>) {
        let own = is_operation(step) && is_root(step, self.constants);
        if own {
            self.note(step, out);
        }
        self.turns_of(step, own, out);
    }

    fn turns(&mut self, step: &Step, out: &mut Vec<Step>) {
        self.turns_of(step, false, out);
    }

    /// A loop whose turns are known is turned; of another the body is noted once, with nothing
    /// known of what differs from turn to turn.
    fn turns_of(&mut self, step: &Step, own: bool, out: &mut Vec<Step>) {
        let mut header_known = !own && !self.is_out_of_step(step);
        visit::each_own_expr(step, &mut |expr| header_known &= !self.reads_tainted(expr));
        if header_known && self.turned(step, out) {
            return;
        }
        self.taint_outputs(step);
        self.uncertain += 1;
        self.loops.push(Around::new(step));
        for body in visit::blocks(step).into_iter().flatten() {
            out.extend(self.block(body));
        }
        self.loops.pop();
        self.uncertain -= 1;
    }

    /// False: it cannot be told how often the loop is turned, or with what.
    fn turned(&mut self, step: &Step, out: &mut Vec<Step>) -> bool {
        let before = self.tainted.clone();
        loop {
            let known = self.carried_and_known(step);
            let (body, left) = self.one_turn(step);
            for Carried { register, initial, next } in visit::carried(step) {
                if left || !self.is_known(initial) || !self.is_known(next) {
                    self.taint(*register);
                }
            }
            // Taint only grows, so a turn in which none was added was noted with all of it.
            let is_settled = self.carried_and_known(step) == known;
            let needs_all = match step {
                Step::While { .. } => true,
                _ => left && self.recalls_within(&body),
            };
            if needs_all && (left || !is_settled) {
                self.tainted = before;
                return false;
            }
            if is_settled {
                out.push(with_body(step, body, &self.tainted));
                return true;
            }
        }
    }

    fn carried_and_known(&self, step: &Step) -> usize {
        let known = |carried: &&Carried| !self.tainted[usize::from(carried.register.0)];
        visit::carried(step).iter().filter(known).count()
    }

    /// Turns that end early would put the recalls of the next ones out of step.
    fn recalls_within(&self, body: &Block) -> bool {
        self.mutant != Some(Mutant::RecallsOutOfStep) && !recalled(body).is_empty()
    }

    /// The body, and whether its turns may end early for reasons that are not known.
    fn one_turn(&mut self, step: &Step) -> (Block, bool) {
        self.loops.push(Around::new(step));
        let mut notes = Block::default();
        for body in visit::blocks(step).into_iter().flatten() {
            notes = self.block(body);
        }
        (notes, self.loops.pop().is_some_and(|around| around.left))
    }

    fn note(&mut self, step: &Step, out: &mut Vec<Step>) {
        if let Some((table, key)) = visit::row_access(step) {
            let known = key.iter().take_while(|expr| self.is_known(expr));
            let known: Vec<Expr> = known.map(|expr| (*expr).clone()).collect();
            return self.note_key(table, known, out);
        }
        match step {
            Step::Insert { table, .. } => out.push(self.tell(Meaning::Note(*table), Vec::new())),
            Step::Fetch { query, .. } | Step::ForRows { query, .. } => {
                visit::each_query(query, &mut |query| self.note_query(query, out));
            }
            _ => {}
        }
    }

    fn note_query(&mut self, query: &Query, out: &mut Vec<Step>) {
        match query {
            Query::Get { table, key, .. } => {
                let known = key.iter().take_while(|expr| self.is_known(expr)).cloned().collect();
                self.note_key(*table, known, out);
            }
            Query::Scan { table, index, low, high, .. } => {
                let known = match index {
                    0 => self.fixed(low, high),
                    _ => Vec::new(),
                };
                self.note_key(*table, known, out);
            }
            _ => {}
        }
    }

    /// What is the same in every key of a range.
    fn fixed(&self, low: &Bound<Box<[Expr]>>, high: &Bound<Box<[Expr]>>) -> Vec<Expr> {
        let pairs = visit::bound_exprs(low).iter().zip(visit::bound_exprs(high));
        let same = pairs.take_while(|(low, high)| low == high && self.is_known(low));
        same.map(|(low, _)| low.clone()).collect()
    }

    fn note_key(&mut self, table: TableId, known: Vec<Expr>, out: &mut Vec<Step>) {
        if !self.written.has(table) {
            return;
        }
        if known.is_empty() {
            return out.push(self.tell(Meaning::Any, known));
        }
        let space = self.columns.0.entry(table).or_insert(known.len());
        *space = known.len().min(*space);
        out.push(self.tell(Meaning::Note(table), known));
    }

    fn tell(&self, what: Meaning, key: Vec<Expr>) -> Step {
        Step::Exists { table: table_of(what), key: key.into(), found: self.scratch }
    }
}

/// The loop around another body, which carries what is known alone.
fn with_body(step: &Step, notes: Block, tainted: &[bool]) -> Step {
    let mut step = step.clone();
    let places: Vec<bool> = visit::carried(&step)
        .iter()
        .map(|carried| !tainted[usize::from(carried.register.0)])
        .collect();
    if let Step::ForRows { body, carried, .. }
    | Step::ForRange { body, carried, .. }
    | Step::ForEach { body, carried, .. }
    | Step::While { body, carried, .. } = &mut step
    {
        *body = notes;
        if places.contains(&false) {
            *body = without_values(std::mem::take(body), &places, 0);
            let all = std::mem::take(carried).into_iter().zip(&places);
            *carried = all.filter(|(_, known)| **known).map(|(carried, _)| carried).collect();
        }
    }
    step
}

/// Who leaves the loop at `depth` brings along what it still carries.
fn without_values(block: Block, places: &[bool], depth: u16) -> Block {
    let mut steps = block.into_vec();
    for step in &mut steps {
        let deeper = depth + u16::from(visit::is_loop(step));
        match step {
            Step::Exit { depth: to, values } | Step::Continue { depth: to, values }
                if *to == depth =>
            {
                let all = std::mem::take(values).into_iter().zip(places);
                *values = all.filter(|(_, known)| **known).map(|(value, _)| value).collect();
            }
            Step::If { then, otherwise, .. } => {
                *then = without_values(std::mem::take(then), places, deeper);
                *otherwise = without_values(std::mem::take(otherwise), places, deeper);
            }
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => {
                *body = without_values(std::mem::take(body), places, deeper);
            }
            _ => {}
        }
    }
    steps.into()
}
