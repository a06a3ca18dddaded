//! The read phase of healing: runs a procedure and records every access, so that the run can be
//! corrected later.

use types::{Stop, Value};

use super::cache::{AccessCache, Event, Extent};
use super::graph::{DependencyGraph, Node};
use super::{Notes, Restorable};
use crate::access::Row;
use crate::expr::Reg;
use crate::frame::{Counter, Frame, ProgramResult, null_bound};
use crate::interpret::{Flow, rows_of, run_query_step, run_row_step, run_step};
use crate::step::{Carried, Procedure, Step};

/// Run `procedure` from start to end as a transaction of its own, with a record in `cache`.
pub fn record<A: Restorable>(
    procedure: &Procedure,
    graph: &DependencyGraph,
    arguments: &[Value],
    frame: &mut Frame,
    access: &mut A,
    cache: &mut AccessCache,
) -> Result<ProgramResult, Stop> {
    frame.meter.refill();
    frame.enter(procedure, arguments, access.now_us())?;
    cache.clear();
    let mut recorder = Recorder::new(graph, frame, access, cache);
    recorder.block(&procedure.body, &graph.body)?;
    Ok(recorder.frame.leave())
}

/// Runs steps for the first time, at the end of the record.
pub(super) struct Recorder<'a, A> {
    pub graph: &'a DependencyGraph,
    pub frame: &'a mut Frame,
    pub access: &'a mut A,
    pub cache: &'a mut AccessCache,
    /// As of the last access: no other step makes notes.
    noted: Notes,
}

/// Where a structure begins.
pub(super) struct Opened {
    at: usize,
    notes: Notes,
    pub emitted: usize,
}

impl<'a, A: Restorable> Recorder<'a, A> {
    pub fn new(
        graph: &'a DependencyGraph,
        frame: &'a mut Frame,
        access: &'a mut A,
        cache: &'a mut AccessCache,
    ) -> Self {
        let noted = access.noted();
        Recorder { graph, frame, access, cache, noted }
    }

    /// All notes, up to the last access.
    #[inline]
    pub fn noted(&self) -> Notes {
        debug_assert_eq!(self.noted, self.access.noted(), "notes are made by accesses");
        self.noted
    }

    /// Those of an access that has just run.
    pub fn new_notes(&mut self) -> Notes {
        let before = std::mem::replace(&mut self.noted, self.access.noted());
        self.noted - before
    }

    /// The next old notes become new ones.
    pub fn keep(&mut self, notes: Notes) {
        self.access.keep(notes);
        self.noted = self.noted + notes;
    }

    pub fn block(&mut self, steps: &[Step], nodes: &[Node]) -> Result<Flow, Stop> {
        for (step, node) in steps.iter().zip(nodes) {
            let flow = self.step(step, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &Step, node: &Node) -> Result<Flow, Stop> {
        match step {
            Step::If { condition, then, otherwise, phis } => {
                self.frame.meter.spend(1)?;
                let taken = self.frame.holds(condition)?;
                let (block, nodes) = match taken {
                    true => (then, &node.blocks[0]),
                    false => (otherwise, &node.blocks[1]),
                };
                let opened = self.open();
                let flow = self.block(block, nodes)?;
                self.close(&opened, |extent| Event::Branch {
                    taken,
                    falls_through: flow == Flow::Next,
                    extent,
                });
                if flow == Flow::Next {
                    self.frame.merge(phis, taken)?;
                }
                Ok(flow)
            }
            Step::ForRows { .. }
            | Step::ForRange { .. }
            | Step::ForEach { .. }
            | Step::While { .. } => {
                self.frame.meter.spend(1)?;
                let opened = self.open();
                let mut source = self.source(step)?;
                let carried = carried_by(step);
                self.frame.enter_loop(carried)?;
                self.turns(step, node, &mut source, opened)
            }
            Step::Let { out, value } => {
                self.frame.meter.spend(1)?;
                let value = self.frame.eval(value)?;
                self.frame.set(*out, value);
                Ok(Flow::Next)
            }
            _ if touches_data(step) => self.access(step),
            _ => run_step(step, self.frame, self.access),
        }
    }

    /// A step that touches data.
    pub fn access(&mut self, step: &Step) -> Result<Flow, Stop> {
        let emitted = self.frame.result.rows.len();
        self.frame.meter.spend(1)?;
        match step {
            Step::Fetch { .. } | Step::EmitQuery { .. } => {
                run_query_step(step, self.frame, self.access)?;
            }
            _ => run_row_step(step, self.frame, self.access)?,
        }
        let notes = self.new_notes();
        // A step that neither looked at the store nor began a write has met an own one.
        if notes.writes == 0
            && is_write(step)
            && (notes == Notes::default() || self.was_merged(step))
        {
            self.cache.tangled = true;
        }
        let emitted = (self.frame.result.rows.len() - emitted) as u32;
        self.cache.events.push(Event::Access { notes, emitted });
        Ok(Flow::Next)
    }

    /// A write that was done without being begun was added to an earlier one.
    fn was_merged(&self, step: &Step) -> bool {
        let (Step::Update { found, .. }
        | Step::Delete { found, .. }
        | Step::Insert { inserted: found, .. }) = step
        else {
            return false;
        };
        *self.frame.get(*found) == Value::Bool(true)
    }

    /// What a loop runs over.
    pub fn source(&mut self, step: &Step) -> Result<Source, Stop> {
        Ok(match step {
            Step::ForRange { first, last, step, reverse, .. } => {
                Source::Count(Counter::new(self.frame, first, last, step, *reverse)?)
            }
            Step::ForEach { array, .. } => match self.frame.eval(array)? {
                Value::Array(elements) => Source::Elements(Value::Array(elements), 0),
                _ => return Err(null_bound("FOREACH expression must not be null").into()),
            },
            Step::ForRows { query, .. } => {
                let gathered = rows_of(query, usize::MAX, self.frame, self.access)?;
                let notes = self.new_notes();
                self.cache.events.push(Event::Access { notes, emitted: 0 });
                Source::Rows(gathered.rows.into_iter(), gathered.weight)
            }
            _ => Source::Condition,
        })
    }

    /// All turns of a loop whose carried registers are set; `opened` where its record begins.
    pub fn turns(
        &mut self,
        step: &Step,
        node: &Node,
        source: &mut Source,
        opened: Opened,
    ) -> Result<Flow, Stop> {
        let (body, carried) = (body_of(step), carried_by(step));
        let mut turns = 0;
        let mut ended = Flow::Next;
        while source.next(step, self.frame)? {
            self.frame.meter.spend(1)?;
            turns += 1;
            let turn = self.open();
            let flow = self.block(body, &node.blocks[0])?;
            // What comes in next is told before the registers go, and set when they are gone.
            let next = match (flow, carried) {
                (Flow::Next, [one]) => Some((one.register, self.frame.eval(&one.next)?)),
                (Flow::Next, [_, _, ..]) => {
                    self.frame.stage(carried.iter().map(|c| &c.next))?;
                    None
                }
                _ => None,
            };
            let window = self.save(&node.window);
            let falls_through = flow == Flow::Next;
            self.close(&turn, |extent| Event::Turn { window, falls_through, extent });
            match (flow, next) {
                (Flow::Next, Some((register, value))) => self.frame.set(register, value),
                (Flow::Next | Flow::Continue(0), _) => self.frame.carry(carried),
                (Flow::Exit(0), _) => {
                    self.frame.carry(carried);
                    break;
                }
                (Flow::Continue(depth), _) => ended = Flow::Continue(depth - 1),
                (Flow::Exit(depth), _) => ended = Flow::Exit(depth - 1),
                (Flow::Return, _) => ended = Flow::Return,
            }
            if ended != Flow::Next {
                break;
            }
        }
        if let Source::Rows(_, weight) = source {
            self.frame.meter.release(std::mem::take(weight));
        }
        let falls_through = ended == Flow::Next;
        self.close(&opened, |extent| Event::Loop { turns, falls_through, extent });
        Ok(ended)
    }

    /// The registers of a turn leave the frame.
    fn save(&mut self, window: &[Reg]) -> u32 {
        let from = self.cache.windows.len() as u32;
        let registers = &mut self.frame.registers;
        let saved = window.iter().map(|reg| std::mem::take(&mut registers[usize::from(reg.0)]));
        self.cache.windows.extend(saved);
        from
    }

    fn emitted(&self) -> usize {
        self.frame.result.rows.len()
    }

    #[inline]
    pub fn open(&mut self) -> Opened {
        self.open_at(self.emitted())
    }

    /// `emitted`: rows of the result before the structure, where others are behind it.
    pub fn open_at(&mut self, emitted: usize) -> Opened {
        let (at, notes) = (self.cache.events.len(), self.noted());
        // Its place; `close` says what it is.
        let extent = Extent::default();
        self.cache.events.push(Event::Branch { taken: false, falls_through: true, extent });
        Opened { at, notes, emitted }
    }

    #[inline]
    pub fn close(&mut self, opened: &Opened, event: impl FnOnce(Extent) -> Event) {
        self.close_at(opened, self.emitted(), event);
    }

    pub fn close_at(
        &mut self,
        opened: &Opened,
        emitted: usize,
        event: impl FnOnce(Extent) -> Event,
    ) {
        let extent = Extent {
            events: (self.cache.events.len() - opened.at - 1) as u32,
            notes: self.noted() - opened.notes,
            emitted: (emitted - opened.emitted) as u32,
        };
        self.cache.events[opened.at] = event(extent);
    }
}

/// Where the turns of a loop come from.
pub(super) enum Source {
    Count(Counter),
    /// An array, and the next element.
    Elements(Value, usize),
    /// Rows, and what they weighed.
    Rows(std::vec::IntoIter<Row>, usize),
    Condition,
}

impl Source {
    /// Set the loop's own registers for the next turn, if there is one.
    pub fn next(&mut self, step: &Step, frame: &mut Frame) -> Result<bool, Stop> {
        match (self, step) {
            (Source::Count(counter), Step::ForRange { register, .. }) => {
                let Some(number) = counter.next() else { return Ok(false) };
                frame.set(*register, Value::Int(number));
            }
            (Source::Elements(array, next), Step::ForEach { register, .. }) => {
                let element = array.as_array().and_then(|elements| elements.get(*next));
                let Some(element) = element else { return Ok(false) };
                frame.set(*register, element.copied());
                *next += 1;
            }
            (Source::Rows(rows, _), Step::ForRows { row, .. }) => {
                let Some(values) = rows.next() else { return Ok(false) };
                for (register, value) in row.iter().zip(values) {
                    frame.set(*register, value);
                }
            }
            (Source::Condition, Step::While { condition, .. }) => {
                return Ok(frame.holds(condition)?);
            }
            _ => return Err(Stop::Halt("a loop that runs over something else".to_owned())),
        }
        Ok(true)
    }
}

pub(super) fn carried_by(step: &Step) -> &[Carried] {
    crate::analysis::visit::carried(step)
}

pub(super) fn body_of(step: &Step) -> &[Step] {
    match crate::analysis::visit::blocks(step) {
        [Some(body), None] => body,
        _ => &[],
    }
}

fn is_write(step: &Step) -> bool {
    matches!(step, Step::Update { .. } | Step::Insert { .. } | Step::Delete { .. })
}

pub(super) fn touches_data(step: &Step) -> bool {
    is_write(step)
        || matches!(
            step,
            Step::Read { .. } | Step::Exists { .. } | Step::Fetch { .. } | Step::EmitQuery { .. }
        )
}

/// The values of registers, taken out of a frame.
pub(super) fn take_all(registers: &mut [Value], which: &[Reg]) -> smallvec::SmallVec<[Value; 8]> {
    which.iter().map(|reg| std::mem::take(&mut registers[usize::from(reg.0)])).collect()
}
