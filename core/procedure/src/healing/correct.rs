//! The correction of healing: walks through the record of a run, runs again the steps whose input
//! has changed, and yields a corrected record.

use smallvec::SmallVec;
use types::{Stop, Value};

use super::cache::{AccessCache, Event, Extent};
use super::graph::{DependencyGraph, Node, Registers};
use super::record::{Opened, Recorder, Source, body_of, carried_by, take_all, touches_data};
use super::{Notes, Restorable};
use crate::access::Command;
use crate::expr::Reg;
use crate::frame::{Frame, ProgramResult, row_key};
use crate::interpret::{Flow, rows_of};
use crate::step::{Phi, Procedure, Step};

/// The record does not tell what to do: run the procedure again from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unhealed;

impl From<Stop> for Unhealed {
    /// What fails is left to a run of its own, which comes to the same rejection as any other run.
    fn from(_: Stop) -> Unhealed {
        Unhealed
    }
}

impl From<types::Error> for Unhealed {
    fn from(_: types::Error) -> Unhealed {
        Unhealed
    }
}

type Healed<T> = Result<T, Unhealed>;

/// Correct the run of `procedure` that `cache` is the record of, where `access` says that it is
/// stale. `frame` is as the run left it.
pub fn correct<A: Restorable>(
    procedure: &Procedure,
    graph: &DependencyGraph,
    frame: &mut Frame,
    access: &mut A,
    cache: &mut AccessCache,
    result: &mut ProgramResult,
) -> Healed<()> {
    // What a metered command pays follows from those before it.
    if cache.is_tangled(access) || graph.metered_commands {
        return Err(Unhealed);
    }
    cache.writes_moved = false;
    // What is computed again was paid for; running out here only means to run from the start.
    frame.meter.refill();
    frame.result = std::mem::take(result);
    let spare = std::mem::take(&mut cache.spare);
    let old = std::mem::replace(&mut cache.events, spare);
    cache.events.clear();
    let changed = Registers::none(graph.registers);
    let new = Recorder::new(graph, frame, access, cache);
    let mut walk = Walk { old: &old, next: 0, emitted: 0, changed, new };
    let healed = walk.block(&procedure.body, &graph.body);
    *result = walk.new.frame.leave();
    let tangled = walk.new.cache.is_tangled(walk.new.access);
    cache.spare = old;
    healed?;
    if tangled { Err(Unhealed) } else { Ok(()) }
}

struct Walk<'o, 'a, A> {
    old: &'o [Event],
    next: usize,
    /// Rows of the result that are behind.
    emitted: usize,
    changed: Registers,
    /// The record that is being made, and the run.
    new: Recorder<'a, A>,
}

impl<A: Restorable> Walk<'_, '_, A> {
    fn block(&mut self, steps: &[Step], nodes: &[Node]) -> Healed<Flow> {
        for (step, node) in steps.iter().zip(nodes) {
            let flow = self.step(step, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &Step, node: &Node) -> Healed<Flow> {
        let affected = self.changed.meets(&node.uses);
        match step {
            Step::Let { out, value } if affected => {
                let value = self.new.frame.eval(value)?;
                self.assign(*out, value);
            }
            Step::Require { condition, .. } if affected && !self.new.frame.holds(condition)? => {
                return Err(Unhealed);
            }
            Step::Emit { values } => {
                if affected {
                    let row = self.new.frame.row(values, None)?;
                    *self.new.frame.result.rows.get_mut(self.emitted).ok_or(Unhealed)? = row;
                }
                self.emitted += 1;
            }
            Step::CountRows { .. } | Step::Notice { .. } if affected => return Err(Unhealed),
            Step::Raise { .. } => return Err(Unhealed),
            Step::Return => return Ok(Flow::Return),
            Step::Exit { depth, values } => {
                self.new.frame.stage(values.iter())?;
                return Ok(Flow::Exit(*depth));
            }
            Step::Continue { depth, values } => {
                self.new.frame.stage(values.iter())?;
                return Ok(Flow::Continue(*depth));
            }
            Step::If { .. } => return self.branch(step, node, affected),
            Step::ForRows { .. }
            | Step::ForRange { .. }
            | Step::ForEach { .. }
            | Step::While { .. } => return self.turns(step, node, affected),
            _ if touches_data(step) => self.access(step, node, affected)?,
            _ => {}
        }
        Ok(Flow::Next)
    }

    /// A register may have another value.
    fn assign(&mut self, register: Reg, value: Value) {
        match self.new.frame.get(register).is_identical(&value) {
            true => self.changed.remove(register),
            false => {
                self.changed.insert(register);
                self.new.frame.set(register, value);
            }
        }
    }

    fn event(&mut self) -> Healed<Event> {
        let event = self.old.get(self.next).copied().ok_or(Unhealed)?;
        self.next += 1;
        Ok(event)
    }

    fn access(&mut self, step: &Step, node: &Node, affected: bool) -> Healed<()> {
        let event = self.event()?;
        let Event::Access { notes, emitted } = event else { return Err(Unhealed) };
        if !affected && !self.new.access.is_stale(notes) {
            self.keep(event, notes, emitted);
            return Ok(());
        }
        self.new.cache.steps_restored += 1;
        if self.restored_in_place(step, node, event)? {
            return Ok(());
        }
        self.new.access.skip(notes);
        if matches!(step, Step::Insert { hidden_row_id: true, .. }) {
            return Err(Unhealed);
        }
        let rows = &mut self.new.frame.result.rows;
        let behind = rows.split_off(self.emitted + emitted as usize);
        rows.truncate(self.emitted);
        let before = take_all(&mut self.new.frame.registers, &node.outputs);
        let writes = self.new.noted().writes;
        self.new.access(step)?;
        let wrote = self.new.noted().writes > writes;
        self.new.cache.writes_moved |= wrote || notes.writes > 0;
        self.emitted = self.new.frame.result.rows.len();
        self.new.frame.result.rows.extend(behind);
        for (register, before) in node.outputs.iter().zip(before) {
            let same = before.is_identical(self.new.frame.get(*register));
            match same || self.new.cache.forgets_dependents {
                true => self.changed.remove(*register),
                false => self.changed.insert(*register),
            }
        }
        self.check_writes(writes)
    }

    fn keep(&mut self, event: Event, notes: Notes, emitted: u32) {
        self.new.keep(notes);
        self.emitted += emitted as usize;
        self.new.cache.events.push(event);
    }

    /// A write whose key is what it was is given its new values where it stands.
    fn restored_in_place(&mut self, step: &Step, node: &Node, event: Event) -> Healed<bool> {
        let Event::Access { notes, emitted } = event else { return Ok(false) };
        if notes.writes != 1 || self.new.access.is_stale(notes) {
            return Ok(false);
        }
        let Recorder { frame, access, .. } = &mut self.new;
        let old_key = access.next_key().ok_or(Unhealed)?;
        match step {
            Step::Update { key, code, inputs, .. } => {
                if frame.key(key)?.as_ref() != Some(old_key) {
                    return Ok(false);
                }
                let inputs = inputs.iter().map(|input| frame.eval(input));
                let inputs = inputs.collect::<Result<SmallVec<_>, _>>()?;
                // Of a metered one there is none here.
                let allowance = code.allowance(&inputs, frame.meter.budget());
                access.replace_command(Command { inputs, code: code.clone(), allowance });
            }
            Step::Insert { table, key, hidden_row_id: false, values, .. } => {
                let row = frame.row(values, None)?;
                if row_key(*table, key, &row)? != *old_key {
                    return Ok(false);
                }
                access.replace_row(row);
            }
            Step::Insert { hidden_row_id: true, values, .. } => {
                let id = old_key.as_bytes().try_into().map_err(|_| Unhealed)?;
                let row = frame.row(values, Some(Value::Uuid(id)))?;
                access.replace_row(row);
            }
            _ => return Ok(false),
        }
        node.outputs.iter().for_each(|register| self.changed.remove(*register));
        let first = self.new.noted().writes;
        self.keep(event, notes, emitted);
        if matches!(step, Step::Insert { .. }) {
            // The row may have come into a range, or have left it.
            self.check_writes(first)?;
        }
        Ok(true)
    }

    /// The writes from `first` on are new: no step further on may have looked at their rows.
    fn check_writes(&mut self, first: u32) -> Healed<()> {
        let Recorder { access, cache, graph, .. } = &self.new;
        let tangled = cache.is_tangled(*access);
        match tangled || access.is_noted_later(first, &graph.queried) {
            true => Err(Unhealed),
            false => Ok(()),
        }
    }

    /// Take over a structure that nothing reaches.
    fn take_over(&mut self, head: Event, extent: Extent) {
        let end = self.next + extent.events as usize;
        self.new.cache.events.push(head);
        self.new.cache.events.extend_from_slice(&self.old[self.next..end]);
        self.new.keep(extent.notes);
        self.emitted += extent.emitted as usize;
        self.next = end;
    }

    /// Undo what is recorded up to `end`.
    fn discard_to(&mut self, end: usize) -> Healed<()> {
        if self.new.graph.hidden_row_ids {
            // Row ids are counted in program order.
            return Err(Unhealed);
        }
        self.new.cache.writes_moved = true;
        while self.next < end {
            if let Event::Access { notes, emitted } = self.event()? {
                self.new.access.skip(notes);
                let gone = self.emitted..self.emitted + emitted as usize;
                self.new.frame.result.rows.drain(gone);
            }
        }
        Ok(())
    }

    fn branch(&mut self, step: &Step, node: &Node, affected: bool) -> Healed<Flow> {
        let Step::If { condition, then, otherwise, phis } = step else { return Err(Unhealed) };
        let head = self.event()?;
        let Event::Branch { taken, falls_through, extent } = head else { return Err(Unhealed) };
        let now = if affected { self.new.frame.holds(condition)? } else { taken };
        let (block, nodes) = match now {
            true => (then, &node.blocks[0]),
            false => (otherwise, &node.blocks[1]),
        };
        if now != taken {
            self.other_way(block, nodes, now, falls_through, extent)?;
        } else if falls_through && !self.reaches(node, extent) {
            self.take_over(head, extent);
        } else {
            let opened = self.new.open_at(self.emitted);
            let flow = self.block(block, nodes)?;
            let falls_through = flow == Flow::Next;
            self.new.close_at(&opened, self.emitted, |extent| Event::Branch {
                taken,
                falls_through,
                extent,
            });
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        if now != taken || self.changed.meets(&node.phis) {
            self.merge(phis, now)?;
        }
        Ok(Flow::Next)
    }

    /// Whether something inside a structure may have to run again.
    fn reaches(&self, node: &Node, extent: Extent) -> bool {
        self.changed.meets(&node.inner) || self.new.access.is_stale(extent.notes)
    }

    /// A decision falls differently: one way is undone, the other one run.
    fn other_way(
        &mut self,
        block: &[Step],
        nodes: &[Node],
        taken: bool,
        fell_through: bool,
        extent: Extent,
    ) -> Healed<()> {
        let emits = |block: &[Step]| block.iter().any(emits);
        // Rows of the result that lie between others are left to a run of its own.
        if !fell_through || extent.emitted > 0 || emits(block) {
            return Err(Unhealed);
        }
        self.discard_to(self.next + extent.events as usize)?;
        let opened = self.new.open();
        let flow = self.run_anew(|new| new.block(block, nodes))?;
        let falls_through = true;
        self.new.close(&opened, |extent| Event::Branch { taken, falls_through, extent });
        if flow == Flow::Next { Ok(()) } else { Err(Unhealed) }
    }

    /// Steps that had not run, or not so.
    fn run_anew<T>(
        &mut self,
        run: impl FnOnce(&mut Recorder<'_, A>) -> Result<T, Stop>,
    ) -> Healed<T> {
        if self.new.graph.hidden_row_ids {
            return Err(Unhealed);
        }
        let (from, writes) = (self.new.cache.events.len(), self.new.noted().writes);
        self.new.cache.writes_moved = true;
        let done = run(&mut self.new)?;
        self.new.cache.steps_restored += (self.new.cache.events.len() - from) as u64;
        self.check_writes(writes)?;
        Ok(done)
    }

    fn merge(&mut self, phis: &[Phi], taken: bool) -> Healed<()> {
        for Phi { out, then, otherwise } in phis {
            let value = self.new.frame.eval(if taken { then } else { otherwise })?;
            self.assign(*out, value);
        }
        Ok(())
    }
}

/// Loops.
impl<A: Restorable> Walk<'_, '_, A> {
    fn turns(&mut self, step: &Step, node: &Node, affected: bool) -> Healed<Flow> {
        let head = self.event()?;
        let Event::Loop { turns, falls_through, extent } = head else { return Err(Unhealed) };
        let enters = node.initials.iter().any(|uses| self.changed.meets(uses));
        if falls_through && !affected && !enters && !self.reaches(node, extent) {
            self.take_over(head, extent);
            return Ok(Flow::Next);
        }
        let opened = self.new.open_at(self.emitted);
        let end = self.next + extent.events as usize;
        let mut source = self.source(step, affected)?;
        if let Some(source) = &mut source
            && source.turns() != Some(turns as usize)
        {
            if !falls_through || extent.emitted > 0 || body_of(step).iter().any(emits) {
                return Err(Unhealed);
            }
            return self.loop_anew(step, node, source, end, opened);
        }
        let flow = self.each_turn(step, node, source, turns)?;
        let falls_through = flow == Flow::Next;
        self.new.close_at(&opened, self.emitted, |extent| Event::Loop {
            turns,
            falls_through,
            extent,
        });
        Ok(flow)
    }

    /// What the loop runs over now; `None`: what it ran over.
    fn source(&mut self, step: &Step, affected: bool) -> Healed<Option<Source>> {
        let Step::ForRows { query, .. } = step else {
            let counts = affected && !matches!(step, Step::While { .. });
            return Ok(if counts { Some(self.new.source(step)?) } else { None });
        };
        let event = self.event()?;
        let Event::Access { notes, .. } = event else { return Err(Unhealed) };
        if !affected && !self.new.access.is_stale(notes) {
            self.keep(event, notes, 0);
            return Ok(None);
        }
        self.new.cache.steps_restored += 1;
        self.new.access.skip(notes);
        let gathered = rows_of(query, usize::MAX, self.new.frame, self.new.access)?;
        let notes = self.new.new_notes();
        self.new.cache.events.push(Event::Access { notes, emitted: 0 });
        if self.new.access.looked_at_own() {
            return Err(Unhealed);
        }
        Ok(Some(Source::Rows(gathered.rows.into_iter(), gathered.weight)))
    }

    /// There are more turns than there were, or fewer, or the loop was left before its end.
    fn loop_anew(
        &mut self,
        step: &Step,
        node: &Node,
        source: &mut Source,
        end: usize,
        mut opened: Opened,
    ) -> Healed<Flow> {
        self.discard_to(end)?;
        // It adds nothing to the result, whatever is behind it there.
        opened.emitted = self.new.frame.result.rows.len();
        let carried = carried_by(step);
        let before: SmallVec<[Value; 4]> =
            carried.iter().map(|c| self.new.frame.get(c.register).clone()).collect();
        self.new.frame.enter_loop(carried)?;
        let flow = self.run_anew(|new| new.turns(step, node, source, opened))?;
        if flow != Flow::Next {
            return Err(Unhealed);
        }
        node.window.iter().for_each(|register| self.changed.remove(*register));
        for (carried, before) in carried.iter().zip(before) {
            if !before.is_identical(self.new.frame.get(carried.register)) {
                self.changed.insert(carried.register);
            }
        }
        Ok(Flow::Next)
    }

    fn each_turn(
        &mut self,
        step: &Step,
        node: &Node,
        mut source: Option<Source>,
        turns: u32,
    ) -> Healed<Flow> {
        let carried = carried_by(step);
        // What comes in with the next turn; `None`: what came in.
        let mut incoming: Incoming = SmallVec::new();
        for (carried, uses) in carried.iter().zip(&node.initials) {
            let initial = self.changed.meets(uses).then(|| self.new.frame.eval(&carried.initial));
            incoming.push(initial.transpose()?);
        }
        for _ in 0..turns {
            let head = self.event()?;
            let Event::Turn { window, .. } = head else { return Err(Unhealed) };
            self.exchange(node, window);
            let flow = self.turn(step, node, head, source.as_mut(), &mut incoming);
            self.exchange(node, window);
            match flow? {
                Flow::Next | Flow::Continue(0) => {}
                Flow::Exit(0) => break,
                Flow::Continue(depth) => return Ok(Flow::Continue(depth - 1)),
                Flow::Exit(depth) => return Ok(Flow::Exit(depth - 1)),
                Flow::Return => return Ok(Flow::Return),
            }
        }
        node.window.iter().for_each(|register| self.changed.remove(*register));
        for (carried, value) in carried.iter().zip(incoming) {
            if let Some(value) = value {
                self.assign(carried.register, value);
            }
        }
        // A condition that would not let go, or had let go too early, needs other turns.
        if let Step::While { condition, .. } = step
            && self.changed.meets(&node.uses)
            && self.new.frame.holds(condition)?
        {
            return Err(Unhealed);
        }
        Ok(Flow::Next)
    }

    /// The registers of a turn come into the frame, or go back.
    fn exchange(&mut self, node: &Node, window: u32) {
        let Recorder { frame, cache, .. } = &mut self.new;
        let saved = &mut cache.windows[window as usize..];
        for (register, saved) in node.window.iter().zip(saved) {
            std::mem::swap(&mut frame.registers[usize::from(register.0)], saved);
        }
    }

    fn turn(
        &mut self,
        step: &Step,
        node: &Node,
        head: Event,
        source: Option<&mut Source>,
        incoming: &mut Incoming,
    ) -> Healed<Flow> {
        let Event::Turn { window, falls_through, extent } = head else { return Err(Unhealed) };
        node.window.iter().for_each(|register| self.changed.remove(*register));
        if let Some(source) = source {
            self.next_of(step, node, source)?;
        }
        let carried = carried_by(step);
        for (carried, value) in carried.iter().zip(incoming.iter_mut()) {
            if let Some(value) = value.take() {
                self.assign(carried.register, value);
            }
        }
        if let Step::While { condition, .. } = step
            && self.changed.meets(&node.uses)
            && !self.new.frame.holds(condition)?
        {
            return Err(Unhealed);
        }
        let mut flow = Flow::Next;
        if falls_through && !self.reaches(node, extent) {
            self.take_over(head, extent);
        } else {
            let opened = self.new.open_at(self.emitted);
            flow = self.block(body_of(step), &node.blocks[0])?;
            let falls_through = flow == Flow::Next;
            self.new.close_at(&opened, self.emitted, |extent| Event::Turn {
                window,
                falls_through,
                extent,
            });
        }
        match flow {
            Flow::Next => {
                for ((one, uses), incoming) in carried.iter().zip(&node.nexts).zip(incoming) {
                    if self.changed.meets(uses) {
                        *incoming = Some(self.new.frame.eval(&one.next)?);
                    }
                }
            }
            Flow::Continue(0) | Flow::Exit(0) => {
                let staged = self.new.frame.take_staged();
                incoming.iter_mut().zip(staged).for_each(|(place, value)| *place = Some(value));
            }
            _ => {}
        }
        Ok(flow)
    }

    /// The loop's own registers for this turn.
    fn next_of(&mut self, step: &Step, node: &Node, source: &mut Source) -> Healed<()> {
        let own: &[Reg] = match step {
            Step::ForRows { row, .. } => row,
            Step::ForRange { register, .. } | Step::ForEach { register, .. } => {
                std::slice::from_ref(register)
            }
            _ => &[],
        };
        let before = take_all(&mut self.new.frame.registers, own);
        if !source.next(step, self.new.frame)? {
            return Err(Unhealed);
        }
        for (register, before) in own.iter().zip(before) {
            let used = node.window.binary_search(register).is_ok();
            if used && !before.is_identical(self.new.frame.get(*register)) {
                self.changed.insert(*register);
            }
        }
        Ok(())
    }
}

type Incoming = SmallVec<[Option<Value>; 4]>;

impl Source {
    /// How many there are, unless a condition decides.
    fn turns(&self) -> Option<usize> {
        Some(match self {
            Source::Count(counter) => counter.turns(),
            Source::Elements(array, _) => array.as_array().map_or(0, <[Value]>::len),
            Source::Rows(rows, _) => rows.len(),
            Source::Condition => return None,
        })
    }
}

/// Whether a step adds to the result, to the count of rows, or to what the client is told.
fn emits(step: &Step) -> bool {
    let own = matches!(
        step,
        Step::Emit { .. } | Step::EmitQuery { .. } | Step::CountRows { .. } | Step::Notice { .. }
    );
    let mut inside = crate::analysis::visit::blocks(step).into_iter().flatten();
    own || inside.any(|block| block.iter().any(emits))
}
