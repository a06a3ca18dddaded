//! The commit stage: answers, victims, and the transactions that come last.
//!
//! ```text
//!   epilogues      in parallel       answers from what the fragments found; guards
//!   closure        of the failed     along the edges of speculation
//!   undo           of the victims    newest write first
//!   tail           by ordered locks  victims and what could not be planned, in block order
//! ```
//!
//! *Why that is a serial order.* Readers, if they take the snapshot, come before all. Survivors
//! come next, in block order, then the tail. A survivor has neither read nor overwritten what a
//! victim wrote, or it would be in the closure. So on each record the victims' writes are the last
//! ones; undoing them, newest first, leaves what the survivors alone would have left, and no
//! survivor has seen anything else. The tail then runs on that state.
//!
//! A transaction that was rejected on the way runs again as well: its answer is the one that it
//! gets there, by the specification's own code, and may be another one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use concurrency::{Block, Moment, NoRecord, Outcome, Overlay};
use procedure::access::Row;
use procedure::residue::Findings as Found;
use procedure::{Budget, Frame, Meter, ProgramResult};
use storage::{Catalog, UndoArena};
use types::{Position, Stop, TableId, Value};

use super::batch::Batch;
use super::in_place::{UndoLog, Written, unforeseen};
use super::mutant::Mutant;
use super::plan::{Cut, Kind, Output, Planned, Share, units_max};
use super::program::{Epilogue, Program};
use super::reduction::{Reduction, Summing};

/// Transactions whose epilogues are drawn at once.
const DRAWN: usize = 64;

/// What a worker has found while it drained queues.
#[derive(Default)]
pub struct Findings {
    pub counts: Vec<Vec<u32>>,
    pub log: UndoLog,
    pub edges: Vec<(Position, Position)>,
    pub scans: Vec<(TableId, Position)>,
}

/// The answers of those that did not fail.
pub struct Epilogues {
    next: AtomicUsize,
    /// By share: sums over the workers.
    counts: Vec<Vec<u32>>,
    pub outcomes: Vec<OnceLock<Outcome>>,
}

impl Epilogues {
    pub fn new(batch: &Batch, findings: &[Findings]) -> Epilogues {
        let mut counts: Vec<Vec<u32>> =
            batch.shares.iter().map(|share| vec![0; share.counts as usize]).collect();
        for (sum, more) in findings.iter().flat_map(|f| counts_of(&f.counts)) {
            counts[sum.0][sum.1] += more;
        }
        Epilogues {
            next: AtomicUsize::new(0),
            counts,
            outcomes: batch.block.transactions.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// Draw transactions until none is left. `Err`: halt.
    pub fn work(&self, batch: &Batch) -> Result<(), String> {
        let mut teller = Teller::of(batch.block.budget);
        loop {
            let first = self.next.fetch_add(DRAWN, Ordering::Relaxed);
            if first >= self.outcomes.len() {
                return Ok(());
            }
            let last = (first + DRAWN).min(self.outcomes.len());
            for (share_id, share) in batch.shares.iter().enumerate() {
                for planned in transactions_in(share, first, last) {
                    self.one(batch, share_id, planned, &mut teller)?;
                }
            }
        }
    }

    fn one(
        &self,
        batch: &Batch,
        share_id: usize,
        planned: &Planned,
        teller: &mut Teller,
    ) -> Result<(), String> {
        let position = planned.position as usize;
        let cut = match &planned.kind {
            Kind::Cut(cut) => cut,
            Kind::Reader => {
                let outcome = teller.read(batch, planned.position)?;
                let _ = self.outcomes[position].set(outcome);
                return Ok(());
            }
            Kind::Whole(_) | Kind::Tail => return Ok(()),
        };
        if batch.failed[position].load(Ordering::Relaxed) {
            return Ok(());
        }
        match teller.answer(batch, share_id, cut, planned.position, &self.counts[share_id]) {
            Ok(result) => {
                let _ = self.outcomes[position].set(Outcome::Committed(result));
            }
            Err(Stop::Halt(why)) => return Err(why),
            Err(_) => batch.failed[position].store(true, Ordering::Relaxed),
        }
        Ok(())
    }
}

/// ((share, place), count) of the reductions that found something.
fn counts_of(counts: &[Vec<u32>]) -> impl Iterator<Item = ((usize, usize), u32)> {
    counts.iter().enumerate().flat_map(|(share, counts)| {
        counts.iter().enumerate().map(move |(place, count)| ((share, place), *count))
    })
}

/// A share's transactions at positions in `first..last`.
fn transactions_in(share: &Share, first: usize, last: usize) -> &[Planned] {
    let Some(start) = share.transactions.first().map(|planned| planned.position as usize) else {
        return &[];
    };
    let count = share.transactions.len();
    let place = |position: usize| position.saturating_sub(start).min(count);
    &share.transactions[place(first)..place(last)]
}

struct Teller {
    frame: Frame,
    /// For what fragments have left to do.
    left: Frame,
    registers: Vec<Value>,
}

impl Teller {
    fn of(budget: Budget) -> Teller {
        // What the fragments have left of the half that is not set aside for commands.
        let units = units_max(budget);
        let left = Budget {
            units_max: budget.units_max / 2 - units,
            bytes_max: budget.bytes_max / 2 - units * size_of::<u64>() as u64,
        };
        let [frame, left] = [budget, left].map(|budget| Frame::metered(Meter::of(budget)));
        Teller { frame, left, registers: Vec::new() }
    }

    /// Run a reader on the snapshot before the block. An error is an answer there too.
    fn read(&mut self, batch: &Batch, position: Position) -> Result<Outcome, String> {
        let Block { height, time_us: now_us, .. } = *batch.block;
        let moment = Moment { height, position, now_us };
        let catalog = Arc::clone(&batch.catalog);
        let mut overlay = Overlay::new(catalog, batch.snapshot_height, moment, NoRecord);
        let work = &batch.block.transactions[position as usize];
        Outcome::from_run(work.run(&mut self.frame, &mut overlay))
    }

    fn answer(
        &mut self,
        batch: &Batch,
        share: usize,
        cut: &Cut,
        position: Position,
        counts: &[u32],
    ) -> Result<ProgramResult, Stop> {
        let program = batch.program(cut);
        let arguments = batch.arguments(position);
        let now_us = batch.block.time_us;
        match &program.epilogue {
            Epilogue::Reduced(reduction) => {
                let registers = usize::from(program.registers);
                self.registers.resize_with(registers, Value::default);
                for register in &reduction.arguments {
                    let place = usize::from(register.0);
                    self.registers[place].set(arguments[place].copied());
                }
                self.reduce(reduction, &counts[cut.first_count as usize..], now_us)
            }
            Epilogue::Left { residue, cells } => {
                let published = &batch.shares[share].cells;
                let found = Published { program, cut, cells, published };
                residue.run(arguments, now_us, &mut self.left, &found)
            }
        }
    }

    fn reduce(
        &mut self,
        reduction: &Reduction,
        counts: &[u32],
        now_us: i64,
    ) -> Result<ProgramResult, Stop> {
        let mut result = ProgramResult::default();
        for step in &reduction.steps {
            match step {
                Summing::Sum { register, initial, by, reduction } => {
                    let initial = initial.eval(&self.registers, &[], now_us)?;
                    let counted = by * i64::from(counts[usize::from(*reduction)]);
                    let sum = initial.as_int().and_then(|initial| initial.checked_add(counted));
                    let sum = sum.ok_or_else(unforeseen)?;
                    self.registers[usize::from(register.0)].set(Value::Int(sum));
                }
                Summing::Emit(values) => {
                    let row = values.iter().map(|value| value.eval(&self.registers, &[], now_us));
                    result.rows.push(row.collect::<Result<Row, _>>()?);
                }
                Summing::CountRows(by) => {
                    if let Value::Int(by) = by.eval(&self.registers, &[], now_us)? {
                        let by = u64::try_from(by).unwrap_or(0);
                        result.count = result.count.saturating_add(by);
                    }
                }
            }
        }
        Ok(result)
    }
}

/// What the fragments of one transaction published.
struct Published<'a> {
    program: &'a Program,
    cut: &'a Cut,
    /// By access that is needed: the part and the cell.
    cells: &'a [Option<(u16, u16)>],
    published: &'a [OnceLock<Output>],
}

impl Found for Published<'_> {
    fn found(&self, access: u16, turn: usize) -> Result<(bool, &[Value]), Stop> {
        debug_assert!(usize::from(access) < self.cells.len(), "accesses are numbered from 0");
        let (part, cell) = self.cells[usize::from(access)].ok_or_else(unforeseen)?;
        let cell = self.cut.cell(self.program, part, turn as u16, cell);
        let output = self.published.get(cell as usize).and_then(OnceLock::get);
        let is_sound = |output: &&Output| !output.poisoned && !output.skipped;
        let output = output.filter(is_sound).ok_or_else(unforeseen)?;
        Ok((output.found, &output.columns))
    }
}

/// Who failed, and who in turn has read, overwritten or scanned over what they wrote. By position.
pub fn victims(batch: &Batch, findings: &[Findings]) -> Vec<bool> {
    let mut victims: Vec<bool> =
        batch.failed.iter().map(|failed| failed.load(Ordering::Relaxed)).collect();
    if !victims.contains(&true) {
        return victims;
    }
    let mut edges: Vec<(Position, Position)> = findings
        .iter()
        .flat_map(|findings| findings.edges.iter().map(|(who, on)| (*on, *who)))
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let scans = Scans::new(findings);
    let count = victims.len() as Position;
    let mut reached: Vec<Position> = (0..count).filter(|p| victims[*p as usize]).collect();
    while let Some(on) = reached.pop() {
        let first = edges.partition_point(|edge| edge.0 < on);
        let readers = edges[first..].iter().take_while(|edge| edge.0 == on);
        for who in readers.map(|(_, who)| *who).chain(scans.after(on)) {
            if !std::mem::replace(&mut victims[who as usize], true) {
                reached.push(who);
            }
        }
    }
    debug_assert!(
        edges.iter().all(|(on, who)| !victims[*on as usize] || victims[*who as usize]),
        "what read of a victim is one"
    );
    victims
}

/// Who has scanned which table, and who has written it.
struct Scans {
    /// (table, who), ascending.
    scans: Vec<(TableId, Position)>,
    /// (who, table), ascending; of scanned tables alone.
    writes: Vec<(Position, TableId)>,
}

impl Scans {
    fn new(findings: &[Findings]) -> Scans {
        let mut scans: Vec<_> = findings.iter().flat_map(|f| f.scans.iter().copied()).collect();
        scans.sort_unstable();
        scans.dedup();
        let is_scanned = |table: TableId| {
            let at = scans.partition_point(|scan| scan.0 < table);
            scans.get(at).is_some_and(|scan| scan.0 == table)
        };
        let mut writes: Vec<_> = findings
            .iter()
            .filter(|_| !scans.is_empty())
            .flat_map(|findings| &findings.log.entries)
            .filter(|entry| is_scanned(entry.table))
            .map(|entry| (entry.position, entry.table))
            .collect();
        writes.sort_unstable();
        writes.dedup();
        Scans { scans, writes }
    }

    /// Who has scanned, later, a table that this one wrote.
    fn after(&self, writer: Position) -> impl Iterator<Item = Position> + '_ {
        let first = self.writes.partition_point(|write| write.0 < writer);
        let tables = self.writes[first..].iter().take_while(move |write| write.0 == writer);
        tables.flat_map(move |(_, table)| {
            let first = self.scans.partition_point(|scan| *scan <= (*table, writer));
            let later = self.scans[first..].iter().take_while(move |scan| scan.0 == *table);
            later.map(|scan| scan.1)
        })
    }
}

/// Undo all that victims wrote.
pub fn roll_back(
    findings: &[Findings],
    victims: &[bool],
    height: u64,
    catalog: &Catalog,
    undo: &mut UndoArena,
    mutant: Option<Mutant>,
) {
    if mutant == Some(Mutant::NoUndo) {
        return;
    }
    let logs = findings.iter().map(|findings| &findings.log);
    let mut writes: Vec<(&Written, &UndoLog)> =
        logs.flat_map(|log| log.entries.iter().map(move |entry| (entry, log))).collect();
    writes.retain(|(entry, _)| victims[entry.position as usize]);
    writes.sort_unstable_by_key(|(entry, _)| (entry.position, entry.ordinal));
    let place = |(entry, _): &(&Written, &UndoLog)| (entry.position, entry.ordinal);
    debug_assert!(writes.is_sorted_by(|a, b| place(a) < place(b)), "each write is undone once");
    if mutant != Some(Mutant::UndoForward) {
        writes.reverse();
    }
    for (entry, log) in writes {
        log.undo(entry, height, catalog, undo);
    }
}
