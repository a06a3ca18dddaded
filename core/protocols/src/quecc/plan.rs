//! Planning: transactions into fragments, fragments into queues.
//!
//! Every planner takes a share of the block, in block order, and shares have the priority of their
//! order. A transaction becomes one of
//!
//! * *cut*: a fragment for each record, by the [program](super::program) of its procedure;
//! * *whole*: one fragment that stands in the queue of every part of the database which the key
//!   plan names, and runs when it has come to the head of all of them;
//! * *reader*, if reads are to take the snapshot: it needs no queue (the thesis's queues of
//!   read-only fragments, for whole transactions, so that nothing is lost of serializability);
//! * *tail*: what it touches is not known; it runs after the queues are drained.
//!
//! Only tables that the block writes matter: what is never written may be read at any time.
//!
//! A whole transaction looks its records up as it runs. Where they begin is kept from the key plan,
//! so that the executor can fetch them some transactions ahead.
//!
//! *Look-ups* come in groups, so that the memory accesses of a group overlap: fetch the lines of
//! the hash index, then the records that they point to, then compare the keys.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

use concurrency::{Block, Outcome, Statement, Work};
use procedure::analysis::{Abortable, KeyPlan, PlannedAccesses, Planning};
use procedure::meter::{COMMANDS_MAX, UNWEIGHED_MAX};
use procedure::{Budget, Expr, Frame, Meter, WRITTEN_BYTES_PER_UNIT, eval_key};
use smallvec::SmallVec;
use storage::{Catalog, KeyHash, Slot, Table};
use types::{Height, Key, Position, TableId, Value};

use super::action::Action;
use super::directory::Directory;
use super::guard::{GUARD_UNITS, Happens};
use super::modes::Modes;
use super::mutant::Mutant;
use super::program::{Counter, FRAGMENTS_MAX, Operation, Part, Program, Publish, Template, Turns};
use super::queues::{ABSENT, Entry, Queue, Queues, Starts, WHOLE, route};

/// Look-ups that overlap.
const GROUP: usize = 64;

/// What the fragments of a call and the steps around them may cost together, however much a ledger
/// allows.
const UNITS_MAX: u64 = 25_000;

/// No meter runs with fragments, so they cost a quarter at the most of what a transaction may do. A
/// half is set aside for its commands. A unit pays for a word of what is held.
pub fn units_max(budget: Budget) -> u64 {
    let words_max = budget.bytes_max / size_of::<u64>() as u64;
    UNITS_MAX.min(budget.units_max / 4).min(words_max / 4)
}

/// Rows of a load that is planned.
const LOAD_ROWS_MAX: usize = 64;

/// What a fragment publishes.
#[derive(Debug, Default)]
pub struct Output {
    /// It failed, or needed something that failed.
    pub poisoned: bool,
    /// It did not happen.
    pub skipped: bool,
    pub found: bool,
    pub columns: SmallVec<[Value; 1]>,
}

impl Output {
    pub fn skipped() -> Output {
        Output { skipped: true, ..Output::default() }
    }
}

pub struct Planned {
    pub position: Position,
    pub kind: Kind,
}

pub enum Kind {
    Cut(Cut),
    /// By number within the share.
    Whole(u32),
    /// Only reads, on the snapshot before the block.
    Reader,
    Tail,
}

pub struct Cut {
    pub compiled: u32,
    pub first_cell: u32,
    pub first_count: u32,
    /// By part: cells of the transaction before it. Empty where nothing is published.
    pub starts: SmallVec<[u16; 4]>,
    /// By template: a bit for each operation that may happen. Empty where all may.
    happening: SmallVec<[u64; 2]>,
}

impl Cut {
    /// Whether arguments let an operation of a template happen, in some turn at least.
    #[inline]
    pub fn may_happen(&self, template: u16, operation: usize) -> bool {
        self.happening.get(usize::from(template)).is_none_or(|may| may >> operation & 1 == 1)
    }

    /// Where a cell of a part's turn lies.
    pub fn cell(&self, program: &Program, part: u16, turn: u16, cell: u16) -> u32 {
        let cells = program.parts[usize::from(part)].cells;
        debug_assert!(cell < cells, "a part publishes so many values at each turn");
        let before = u32::from(self.starts[usize::from(part)]);
        let turns = u32::from(turn) * u32::from(cells);
        self.first_cell + before + turns + u32::from(cell)
    }
}

/// A transaction that runs in one piece.
pub struct Whole {
    /// Of its places in queues, those that no worker has come to.
    pub missing: AtomicU32,
    pub done: AtomicBool,
    pub outcome: OnceLock<Outcome>,
    /// Of the share's, those that it will look at.
    pub places: Range<u32>,
}

/// What one planner has made.
#[derive(Default)]
pub struct Share {
    pub transactions: Vec<Planned>,
    pub queues: Vec<Queue>,
    pub wholes: Vec<Whole>,
    /// Keys that whole transactions will look up, as far as the plan knows them.
    pub places: Vec<(TableId, KeyHash)>,
    pub cells: Vec<OnceLock<Output>>,
    pub counts: u32,
    pub starts: Starts,
    pub speculates: bool,
    /// Transactions that ran in one piece since others have to.
    pub uncut: u32,
}

pub struct Planner<'a> {
    pub(super) block: &'a Block,
    pub(super) catalog: &'a Arc<Catalog>,
    directory: &'a Directory,
    modes: Modes,
    /// Planning may overlap the block before: only rows that were there at this height are found.
    settled_at: Option<Height>,
    share: Share,
    queues: Queues,
    cells: u32,
    /// Cells of fragments that do not happen, and of reads that are done.
    pub(super) published: Vec<(u32, Output)>,
    /// Some registers are filled by reads of the call that is planned.
    pub(super) is_steady: bool,
    /// Units that those have taken.
    pub(super) spent: u64,
    /// By template of the call that is planned, which operations happen.
    pub(super) happening: Vec<u64>,
    pub(super) frame: Frame,
    pending: Vec<Pending<'a>>,
    pub(super) registers: Vec<Value>,
    inputs: Vec<Value>,
    row: Vec<Value>,
    routes: Vec<u32>,
    planning: Planning,
    pub(super) meter: Meter,
    pub(super) units_max: u64,
}

/// A fragment before its record is looked up.
struct Pending<'a> {
    entry: Entry,
    key: Option<(&'a Table, KeyHash, Key)>,
}

impl<'a> Planner<'a> {
    pub fn new(
        block: &'a Block,
        catalog: &'a Arc<Catalog>,
        directory: &'a Directory,
        modes: Modes,
        settled_at: Option<Height>,
        starts: &[usize],
    ) -> Self {
        Planner {
            block,
            catalog,
            directory,
            settled_at,
            share: Share::default(),
            queues: Queues::new(starts, modes.queue_capacity),
            modes,
            cells: 0,
            published: Vec::new(),
            is_steady: false,
            spent: 0,
            happening: Vec::new(),
            frame: Frame::metered(Meter::of(Budget {
                units_max: units_max(block.budget),
                ..block.budget
            })),
            pending: Vec::with_capacity(2 * GROUP),
            registers: Vec::new(),
            inputs: Vec::new(),
            row: Vec::new(),
            routes: Vec::new(),
            planning: Planning::default(),
            meter: Meter::new(GUARD_UNITS, None),
            units_max: units_max(block.budget),
        }
    }

    /// `queues`: how many of them keep the executors busy.
    pub fn plan(mut self, positions: Range<usize>, queues: usize) -> Share {
        self.share.transactions.reserve(positions.len());
        for position in positions {
            let kind = self.transaction(position);
            if let Kind::Cut(cut) = &kind {
                let program = &self.directory.compiled[cut.compiled as usize].program;
                self.share.speculates |=
                    program.as_ref().is_some_and(|program| program.abortable != Abortable::Never);
            }
            let position = position as Position;
            self.share.transactions.push(Planned { position, kind });
            if self.pending.len() >= GROUP {
                self.look_up();
            }
        }
        self.look_up();
        self.share.cells.resize_with(self.cells as usize, OnceLock::new);
        for (cell, output) in self.published.drain(..) {
            let fresh = self.share.cells[cell as usize].set(output).is_ok();
            debug_assert!(fresh, "what is planned is not run");
        }
        (self.share.queues, self.share.starts) = self.queues.finish(queues);
        self.share
    }

    fn transaction(&mut self, position: usize) -> Kind {
        let work = &*self.block.transactions[position];
        let before = (self.pending.len(), self.published.len());
        if let Work::Statement(statement) = work {
            let id = self.directory.of[position];
            let compiled = &*self.directory.compiled[id as usize];
            if self.modes.snapshot_reads && compiled.is_read_only {
                return Kind::Reader;
            }
            let whole = self.directory.is_whole(id) && compiled.steady_program().is_some();
            self.share.uncut += u32::from(self.directory.is_held_back(id));
            let program = compiled.program.as_ref().filter(|_| !whole);
            if self.directory.is_crowded && compiled.may_be_undone() {
                self.share.uncut += u32::from(!whole && !compiled.is_whole(self.modes));
            } else if let Some(program) = program.filter(|p| self.modes.may_cut(p)) {
                match self.cut(program, id, statement) {
                    Some(cut) => return Kind::Cut(cut),
                    None => {
                        self.pending.truncate(before.0);
                        self.published.truncate(before.1);
                        // How others route its keys, it does not.
                        if program.is_steady() {
                            return Kind::Tail;
                        }
                    }
                }
            }
        }
        self.routes.clear();
        let first_place = self.share.places.len() as u32;
        match self.routes_of(work) {
            Some(()) => self.whole(position, first_place),
            None => Kind::Tail,
        }
    }

    fn whole(&mut self, position: usize, first_place: u32) -> Kind {
        self.routes.sort_unstable();
        self.routes.dedup();
        if self.routes.is_empty() {
            self.routes.push(route(&position.to_be_bytes()));
        }
        let transaction = self.share.transactions.len() as u32;
        let entries = self.routes.iter().map(|&route| Pending {
            entry: Entry { transaction, template: WHOLE, turn: 0, slot: ABSENT, route },
            key: None,
        });
        self.pending.extend(entries);
        self.share.wholes.push(Whole {
            missing: AtomicU32::new(self.routes.len() as u32),
            done: AtomicBool::new(false),
            outcome: OnceLock::new(),
            places: first_place..self.share.places.len() as u32,
        });
        Kind::Whole(self.share.wholes.len() as u32 - 1)
    }

    /// Every part of the database that a transaction may touch, and the block may write.
    fn routes_of(&mut self, work: &Work) -> Option<()> {
        match work {
            Work::Void(_) => None,
            Work::Statement(statement) => {
                let keys = self.directory.keys_of(&statement.procedure)?;
                self.routes_of_call(keys, &statement.arguments)
            }
            Work::Load(load) if load.rows.len() <= LOAD_ROWS_MAX && !load.looks_at_answers() => {
                load.calls().try_for_each(|(procedure, row)| {
                    let keys = self.directory.keys_of(procedure)?;
                    self.routes_of_call(keys, row)
                })
            }
            Work::Load(_) => None,
            Work::Interactive(transaction) => {
                if !transaction.ranges.is_empty() {
                    return None;
                }
                for row in &transaction.rows {
                    self.route_of_key(row.table, &row.key)?;
                }
                transaction.writes.iter().try_for_each(|(write, _)| self.routes_of(write))
            }
        }
    }

    fn routes_of_call(&mut self, keys: &KeyPlan, arguments: &[Value]) -> Option<()> {
        if !keys.is_routable() {
            return None;
        }
        let mut planning = std::mem::take(&mut self.planning);
        let routes = match keys.evaluate(arguments, &mut planning) {
            Ok(()) => self.routes_of_accesses(&planning.found),
            Err(_) => None,
        };
        self.planning = planning;
        routes
    }

    fn routes_of_accesses(&mut self, accesses: &PlannedAccesses) -> Option<()> {
        for key in &accesses.keys {
            self.route_of_key(key.table, &key.key)?;
            let hash = self.catalog.table(key.table)?.hash(key.key.as_bytes());
            self.share.places.push((key.table, hash));
        }
        for lead in &accesses.leads {
            let schema = self.catalog.table(lead.table)?.schema();
            let index = usize::from(lead.index).checked_sub(1);
            let columns = match index {
                Some(index) => &schema.indexes.get(index)?.columns,
                None => &schema.primary_key,
            };
            if columns.first() != schema.primary_key.first() {
                return None;
            }
            if self.directory.is_written(lead.table)
                && self.modes.mutant != Some(Mutant::NoScanRoutes)
            {
                self.routes.push(route(lead.column.as_bytes()));
            }
        }
        Some(())
    }

    fn route_of_key(&mut self, table: TableId, key: &Key) -> Option<()> {
        if self.directory.is_written(table) {
            let table = self.catalog.table(table)?;
            self.routes.push(self.directory.route_of(table, key.as_bytes())?);
        }
        Some(())
    }

    /// `None`: something about this call needs more than its program; what was pending of it is to
    /// be dropped.
    fn cut(&mut self, program: &Program, compiled: u32, statement: &Statement) -> Option<Cut> {
        let arguments = &*statement.arguments;
        if arguments.len() != statement.procedure.parameters.len() {
            return None;
        }
        (self.is_steady, self.spent) = (program.is_steady(), 0);
        self.happening.clear();
        let mut starts = SmallVec::new();
        let (mut fragments, mut cells, mut row_ids) = (0, 0, 0);
        let (mut metered, mut unweighed, mut units) = (0, 0, program.units);
        let texts = program.texts.iter().map(|place| text_bytes(&arguments[usize::from(*place)]));
        let text: usize = texts.sum();
        let text_units = (text / WRITTEN_BYTES_PER_UNIT) as u64;
        for part in &program.parts {
            starts.push(cells as u16);
            let first_cell = self.cells + cells as u32;
            let turns = self.part(program, part, statement, first_cell, &mut row_ids)?;
            if part.must_be_empty && turns > 0 {
                return None;
            }
            fragments += turns * part.templates.len();
            cells += turns * usize::from(part.cells);
            metered += turns * part.metered;
            unweighed += turns * part.unweighed;
            let of_texts = text_units.saturating_mul(part.operations as u64);
            let of_turn = part.units.saturating_add(of_texts);
            units = units.saturating_add(of_turn.saturating_mul(turns as u64));
            units = units.saturating_add(std::mem::take(&mut self.spent));
            // After so many, they read.
            let reads = metered > COMMANDS_MAX as usize || unweighed > UNWEIGHED_MAX as usize;
            if fragments.max(cells) > FRAGMENTS_MAX || units > self.units_max || reads {
                return None;
            }
        }
        let cut = Cut {
            compiled,
            first_cell: self.cells,
            first_count: self.share.counts,
            starts: if cells > 0 { starts } else { SmallVec::new() },
            happening: match self.happening.iter().zip(&program.templates).all(happens_whole) {
                true => SmallVec::new(),
                false => SmallVec::from_slice(&self.happening),
            },
        };
        self.share.counts += program.reductions();
        self.cells += cells as u32;
        Some(cut)
    }

    /// The fragments of a part; returns its turns.
    fn part(
        &mut self,
        program: &Program,
        part: &Part,
        statement: &Statement,
        first_cell: u32,
        row_ids: &mut u32,
    ) -> Option<usize> {
        let Range { start, .. } = part.templates;
        let templates = &program.templates[as_range(&part.templates)];
        // One piece's guards may look at what another one has read.
        let is_foretold = !(matches!(part.turns, Turns::Once) && self.is_steady);
        let foretold = if is_foretold { templates } else { &[] };
        let happening = foretold.iter().map(|template| self.happens(template, statement));
        let happening: SmallVec<[Happens; 8]> = happening.collect::<Option<_>>()?;
        let arguments = &*statement.arguments;
        let mut one = |planner: &mut Self, turn: u16, value: Option<&Value>| {
            let first_cell = first_cell + u32::from(turn) * u32::from(part.cells);
            for ((template, id), place) in templates.iter().zip(start..).zip(0..) {
                let happens = match happening.get(place) {
                    Some(happens) => *happens,
                    None => planner.happens(template, statement)?,
                };
                let happens = match happens {
                    Happens::Always => true,
                    Happens::Never => false,
                    Happens::ByTurn => planner.happens_in_turn(template, value, statement)?,
                };
                match happens {
                    true if template.is_steady => {
                        planner.look(template, first_cell, value, statement)?;
                    }
                    true => planner.fragment(template, id, turn, value, statement, row_ids)?,
                    false => planner.skip(template, first_cell),
                }
            }
            Some(())
        };
        match &part.turns {
            Turns::Once => {
                one(self, 0, None)?;
                Some(1)
            }
            Turns::Each { array, .. } => {
                let array = array.eval_ref(arguments, &[], self.block.time_us).ok()?;
                let elements = array.as_array()?;
                if elements.len() > FRAGMENTS_MAX {
                    return None;
                }
                let keyed = self.keyed_by_turn(templates, &happening);
                for (turn, element) in (0..).zip(elements) {
                    match (keyed, element) {
                        (Some(table), Value::Int(number)) => {
                            let entry = self.entry(start, turn);
                            self.record(entry, table, Key::from_int(*number))?;
                        }
                        _ => one(self, turn, Some(element))?,
                    }
                }
                Some(elements.len())
            }
            Turns::Count { bounds, reverse, .. } => {
                let counter = Counter::of(bounds, *reverse, arguments, self.block.time_us)?;
                for turn in 0..counter.turns {
                    one(self, turn as u16, Some(&Value::Int(counter.at(turn))))?;
                }
                Some(counter.turns)
            }
        }
    }

    /// A fragment that does not happen, in this turn.
    fn skip(&mut self, template: &Template, first_cell: u32) {
        for operation in &template.operations {
            if let Publish::Cell { cell, .. } = &operation.publish {
                self.published.push((first_cell + u32::from(*cell), Output::skipped()));
            }
        }
    }

    /// Arguments and the turn's value to their registers.
    pub(super) fn fill_turn(
        &mut self,
        template: &Template,
        value: Option<&Value>,
        statement: &Statement,
    ) {
        let registers = usize::from(statement.procedure.registers);
        fill(&mut self.registers, registers, template, &statement.arguments);
        if let Some((register, value)) = template.turn.zip(value) {
            self.registers[usize::from(register.0)].set(value.copied());
        }
    }

    /// An update whose failing follows from the arguments must not fail.
    pub(super) fn try_decided(
        &mut self,
        template: &Template,
        operation: &Operation,
        statement: &Statement,
    ) -> Option<()> {
        let Action::Update { code, inputs, decided: true } = &operation.action else {
            return Some(());
        };
        let now_us = self.block.time_us;
        self.inputs.clear();
        for input in inputs {
            self.inputs.push(input.eval(&statement.arguments, &[], now_us).ok()?);
        }
        if code.only_sets(&self.inputs) {
            return Some(());
        }
        let columns = self.catalog.table(template.table)?.schema().columns.len();
        self.row.resize(self.row.len().max(columns), Value::Null);
        let share = self.block.budget.of_any_command();
        code.apply(&self.inputs, &mut self.row, now_us, share).ok()
    }

    fn fragment(
        &mut self,
        template: &Template,
        id: u16,
        turn: u16,
        value: Option<&Value>,
        statement: &Statement,
        row_ids: &mut u32,
    ) -> Option<()> {
        let mut entry = self.entry(id, turn);
        if template.has_hidden_key() {
            // A key that no other can know.
            entry.slot = *row_ids;
            entry.route = route(&u64::from(entry.transaction).to_be_bytes());
            *row_ids += 1;
            self.pending.push(Pending { entry, key: None });
            return Some(());
        }
        if template.is_keyed_by_data() {
            let columns = self.directory.columns_of(self.catalog.table(template.table)?);
            debug_assert!((1..=usize::from(template.known)).contains(&columns), "routes agree");
            let lead = self.key(template, template.key.get(..columns)?, value, statement)?;
            entry.route = route(lead.as_bytes());
            self.pending.push(Pending { entry, key: None });
            return Some(());
        }
        let key = self.key(template, &template.key, value, statement)?;
        self.record(entry, self.catalog.table(template.table)?, key)
    }

    /// A fragment of the transaction that is planned.
    #[inline]
    fn entry(&self, template: u16, turn: u16) -> Entry {
        let transaction = self.share.transactions.len() as u32;
        Entry { transaction, template, turn, slot: ABSENT, route: 0 }
    }

    /// A fragment whose record is known.
    #[inline]
    fn record(&mut self, mut entry: Entry, table: &'a Table, key: Key) -> Option<()> {
        let hash = table.hash(key.as_bytes());
        table.prefetch_hashed(hash);
        entry.route = self.directory.route_of(table, key.as_bytes())?;
        self.pending.push(Pending { entry, key: Some((table, hash, key)) });
        Some(())
    }

    /// The table of turns that do no more than something with the record of the turn's value.
    fn keyed_by_turn(&self, templates: &[Template], happening: &[Happens]) -> Option<&'a Table> {
        let ([template], [Happens::Always]) = (templates, happening) else { return None };
        let [Expr::Reg(register)] = &*template.key else { return None };
        let is_other =
            template.has_hidden_key() || template.is_keyed_by_data() || template.is_steady;
        if is_other || template.turn != Some(*register) {
            return None;
        }
        self.catalog.table(template.table).map(|table| &**table)
    }

    /// A key of a fragment, or the first columns of one.
    pub(super) fn key(
        &mut self,
        template: &Template,
        key: &[Expr],
        value: Option<&Value>,
        statement: &Statement,
    ) -> Option<Key> {
        let now_us = self.block.time_us;
        match (value, key) {
            (Some(Value::Int(number)), [Expr::Reg(register)])
                if template.turn == Some(*register) =>
            {
                Some(Key::from_int(*number))
            }
            (None, key) if !self.is_steady => {
                eval_key(key, &statement.arguments, &[], now_us).ok()?
            }
            (value, key) => {
                self.fill_turn(template, value, statement);
                eval_key(key, &self.registers, &[], now_us).ok()?
            }
        }
    }

    /// Find the records of what is pending, and put it into the queues.
    fn look_up(&mut self) {
        for pending in &self.pending {
            if let Some((table, hash, _)) = &pending.key {
                table.prefetch_guess(*hash);
            }
        }
        for Pending { mut entry, key } in self.pending.drain(..) {
            if let Some((table, hash, key)) = key {
                let slot = table.find_hashed(hash, key.as_bytes());
                let is_settled = |slot: &Slot| {
                    self.settled_at.is_none_or(|height| table.stamp(*slot, height).is_some())
                        || self.modes.mutant == Some(Mutant::UnsettledSlots)
                };
                entry.slot = slot.filter(is_settled).map_or(ABSENT, |slot| slot.0);
            }
            self.queues.push(entry);
        }
    }
}

/// Nothing of it is known not to happen.
fn happens_whole((happening, template): (&u64, &Template)) -> bool {
    happening.count_ones() as usize == template.operations.len()
}

/// Copies the arguments that a template uses to their registers.
pub fn fill(registers: &mut Vec<Value>, count: usize, template: &Template, arguments: &[Value]) {
    if registers.len() < count {
        registers.resize_with(count, Value::default);
    }
    for register in &template.arguments {
        registers[usize::from(register.0)].set(arguments[usize::from(register.0)].copied());
    }
}

fn as_range(templates: &Range<u16>) -> Range<usize> {
    usize::from(templates.start)..usize::from(templates.end)
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.iter().map(text_bytes).sum(),
        value => value.weight_beside(),
    }
}
