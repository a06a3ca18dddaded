//! The global dependency graph over all procedures of a log, and the programs of its pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use procedure::Expr;
use procedure::analysis::{KeyPlan, StepId, visit};
use procedure::step::{Block, Procedure, Step};
use types::{ColumnId, IndexId, TableId, TableSchema, Value};

use super::operations::{Operation, Written, operations};
use super::partition::UnionFind;
use super::projection::{Constants, Role, project, recalled};
use super::slices::{self, LocalGraph, OPERATIONS_MAX, place_of};
use super::spaces::{Notes, SpaceColumns};
use super::{Model, Options};
use crate::log::RowWrite;
use crate::mutant::Mutant;
use crate::replay::Spaces;

/// What is to be analysed together.
#[derive(Clone, Default)]
pub struct Subject {
    /// Each procedure once, and whether its pieces may be run apart: not where it is a part of a
    /// larger transaction.
    pub procedures: Vec<(Arc<Procedure>, bool)>,
    /// Procedures, by their places above, that one transaction runs one after the other.
    pub together: Vec<Vec<usize>>,
    /// Tables into which rows are written by no procedure.
    pub written_ad_hoc: BTreeSet<TableId>,
    pub tables: BTreeMap<TableId, Arc<TableSchema>>,
}

/// The static analysis of a log.
pub struct Analysis {
    pub programs: Vec<Program>,
    /// In an order in which edges lead forward.
    pub blocks: Vec<GraphBlock>,
    /// (before, after), each pair once.
    pub edges: Vec<(usize, usize)>,
    /// Where rows that were written ad hoc are put back.
    pub block_of_table: BTreeMap<TableId, usize>,
    /// Columns of a key that make a space, for rows that are in no program.
    pub(crate) space_columns: SpaceColumns,
    pub(crate) tables: BTreeMap<TableId, Arc<TableSchema>>,
}

/// A procedure, cut up.
pub struct Program {
    pub procedure: Arc<Procedure>,
    /// Those that have a place in an order.
    pub operations: Vec<Operation>,
    pub local: LocalGraph,
    /// By slice.
    pub block_of: Vec<usize>,
    /// At most one for each block, in the order of the blocks.
    pub pieces: Vec<Piece>,
}

/// What of a procedure is run with one block.
pub struct Piece {
    pub block: usize,
    pub program: Procedure,
    /// Ascending by step.
    pub recalls: Vec<Recall>,
    /// Steps whose results others recall.
    pub exports: Vec<StepId>,
    /// Notes the key spaces; `None`: it has none.
    pub notes: Option<Procedure>,
    /// Whether the arguments alone tell the key spaces.
    pub foretold: bool,
    /// Keys to be fetched before it runs.
    pub keys: KeyPlan,
}

/// A result that another piece of the same procedure has exported.
#[derive(Clone, Copy, Debug)]
pub struct Recall {
    pub step: StepId,
    /// The piece, and which of its exports it is.
    pub piece: usize,
    pub export: usize,
    /// After its columns a read hands on whether there was a row.
    pub is_read: bool,
}

/// A node of the graph.
#[derive(Clone, Debug, Default)]
pub struct GraphBlock {
    /// (program, slice).
    pub slices: Vec<(usize, usize)>,
    /// Written tables.
    pub tables: BTreeSet<TableId>,
}

impl Analysis {
    pub fn of(subject: &Subject, options: Options) -> Analysis {
        let all: Vec<Vec<Operation>> =
            subject.procedures.iter().map(|(procedure, _)| operations(procedure)).collect();
        let mut written = Written::default();
        all.iter().flatten().for_each(|operation| written.add(operation));
        if options.mutant != Some(Mutant::NoPseudoWriters) {
            subject.written_ad_hoc.iter().for_each(|table| written.add_rows(*table));
        }
        let facts = Facts { subject, options, written };
        let cuts: Vec<Cut> = subject
            .procedures
            .iter()
            .zip(all)
            .map(|((procedure, apart), operations)| facts.cut(procedure, *apart, operations))
            .collect();
        facts.assemble(cuts)
    }

    /// The piece of a program in a block.
    pub fn piece(&self, program: usize, block: usize) -> Option<&Piece> {
        self.programs[program].pieces.iter().find(|piece| piece.block == block)
    }

    /// Whether the key spaces of a block's pieces are known before any piece has run.
    pub fn is_foretold(&self, block: usize) -> bool {
        let pieces = self.programs.iter().flat_map(|program| &program.pieces);
        pieces.filter(|piece| piece.block == block).all(|piece| piece.foretold)
    }

    /// The key space of a row that was logged as such.
    pub(crate) fn note_row(&self, write: &RowWrite, spaces: &mut Spaces) {
        let schema = self.tables.get(&write.table);
        match self.space_columns.prefix(write, schema.map(|schema| &**schema)) {
            Some(key) => spaces.note(write.table, &key),
            None => spaces.note_any(),
        }
    }

    /// Blocks that must be done before `block`.
    pub fn before(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        let edges = self.edges.iter().filter(move |(_, after)| *after == block);
        edges.map(|(before, _)| *before)
    }
}

/// A procedure and its slices.
struct Cut {
    procedure: Arc<Procedure>,
    operations: Vec<Operation>,
    constant: BTreeSet<StepId>,
    local: LocalGraph,
}

struct Facts<'a> {
    subject: &'a Subject,
    options: Options,
    written: Written,
}

impl Facts<'_> {
    fn is_constant(&self, operation: &Operation) -> bool {
        let indexed = |table: TableId, index: IndexId| -> Vec<ColumnId> {
            let schema = self.subject.tables.get(&table);
            let index = schema.and_then(|s| s.indexes.get(usize::from(index).wrapping_sub(1)));
            index.map(|index| index.columns.clone()).unwrap_or_default()
        };
        let alone = |touch| match self.options.mutant {
            Some(Mutant::ColumnsIgnored) => self.written.only_updated(touch),
            _ => self.written.leaves_alone(touch, &indexed),
        };
        self.options.model == Model::Refined && operation.touches.iter().all(alone)
    }

    fn cut(&self, procedure: &Arc<Procedure>, apart: bool, operations: Vec<Operation>) -> Cut {
        let (constant, mut ordered): (Vec<_>, Vec<_>) =
            operations.into_iter().partition(|operation| self.is_constant(operation));
        let constant: BTreeSet<StepId> = constant.iter().map(|operation| operation.step).collect();
        if self.options.mutant == Some(Mutant::RowIdsApart) {
            ordered.iter_mut().for_each(|operation| operation.takes_row_id = false);
        }
        let local = if !apart || ordered.len() >= OPERATIONS_MAX {
            LocalGraph::whole(ordered.len())
        } else {
            let role = |step: StepId| match constant.contains(&step) {
                true => Role::Constant,
                false => Role::Foreign,
            };
            let mut flow = slices::flow(procedure, &ordered, &role, self.options.mutant);
            if self.options.model == Model::Refined {
                (ordered, flow) = only_useful(ordered, flow);
            }
            LocalGraph::new(&ordered, &flow)
        };
        Cut { procedure: Arc::clone(procedure), operations: ordered, constant, local }
    }

    fn assemble(self, cuts: Vec<Cut>) -> Analysis {
        let (first, count) = numbered(&cuts);
        let mut classes = UnionFind::new(count);
        self.union_by_tables(&cuts, &first, &mut classes);
        for members in &self.subject.together {
            let slices = members.iter().flat_map(|at| first[*at]..first[*at + 1]);
            let slices: Vec<usize> = slices.collect();
            slices.windows(2).for_each(|pair| classes.union(pair[0], pair[1]));
        }
        let local = cuts.iter().zip(&first);
        let flow: Vec<(usize, usize)> = local
            .flat_map(|(cut, first)| {
                cut.local.edges.iter().map(move |(a, b)| (first + a, first + b))
            })
            .collect();
        classes.contract_cycles(&flow);
        let (places, edges) = in_order(&mut classes, &flow);
        let mut blocks = vec![GraphBlock::default(); places.len()];
        let mut block_of = vec![Vec::new(); cuts.len()];
        for (at, cut) in cuts.iter().enumerate() {
            for (slice, operations) in cut.local.slices.iter().enumerate() {
                let block = places[&classes.find(first[at] + slice)];
                block_of[at].push(block);
                blocks[block].slices.push((at, slice));
                let touches = operations.iter().flat_map(|o| &cut.operations[*o].touches);
                let written = touches.map(|touch| touch.table).filter(|t| self.written.has(*t));
                blocks[block].tables.extend(written);
            }
        }
        let block_of_table = self.homes(&mut blocks);
        let (programs, space_columns) = self.programs(cuts, block_of);
        let tables = self.subject.tables.clone();
        Analysis { programs, blocks, edges, block_of_table, space_columns, tables }
    }

    /// Slices that touch one table share a block if one of them writes it, or an ad hoc
    /// transaction.
    fn union_by_tables(&self, cuts: &[Cut], first: &[usize], classes: &mut UnionFind) {
        let mut users: BTreeMap<TableId, usize> = BTreeMap::new();
        for (at, cut) in cuts.iter().enumerate() {
            for (slice, operations) in cut.local.slices.iter().enumerate() {
                let touches = operations.iter().flat_map(|o| &cut.operations[*o].touches);
                for touch in touches.filter(|touch| self.written.has(touch.table)) {
                    let node = first[at] + slice;
                    let user = *users.entry(touch.table).or_insert(node);
                    classes.union(user, node);
                }
            }
        }
    }

    /// Where ad-hoc rows of each table go; tables that no procedure touches share a block.
    fn homes(&self, blocks: &mut Vec<GraphBlock>) -> BTreeMap<TableId, usize> {
        let mut homes = BTreeMap::new();
        let mut default = None;
        for table in &self.subject.written_ad_hoc {
            let home = blocks.iter().position(|block| block.tables.contains(table));
            let home = home.or(default).unwrap_or(blocks.len());
            if home == blocks.len() {
                blocks.push(GraphBlock::default());
                default = Some(home);
            }
            blocks[home].tables.insert(*table);
            homes.insert(*table, home);
        }
        homes
    }

    fn programs(&self, cuts: Vec<Cut>, block_of: Vec<Vec<usize>>) -> (Vec<Program>, SpaceColumns) {
        let mut columns = SpaceColumns::of_rows(self.subject);
        let mut notes = Vec::new();
        let mut programs: Vec<Program> = cuts
            .into_iter()
            .zip(block_of)
            .map(|(cut, block_of)| {
                let (pieces, of_pieces) = self.pieces(&cut, &block_of, &mut columns);
                notes.push(of_pieces);
                let Cut { procedure, operations, local, .. } = cut;
                Program { procedure, operations, local, block_of, pieces }
            })
            .collect();
        let all = programs.iter_mut().flat_map(|program| &mut program.pieces);
        for (piece, notes) in all.zip(notes.into_iter().flatten()) {
            piece.notes = notes.program(&piece.program, &columns, self.options.mutant);
            piece.foretold = piece.notes.as_ref().is_none_or(|n| recalled(&n.body).is_empty());
        }
        (programs, columns)
    }

    fn pieces(
        &self,
        cut: &Cut,
        block_of: &[usize],
        columns: &mut SpaceColumns,
    ) -> (Vec<Piece>, Vec<Notes>) {
        let blocks: BTreeSet<usize> = block_of.iter().copied().collect();
        let blocks: Vec<usize> = blocks.into_iter().collect();
        // By operation: the piece that runs it.
        let mut home = vec![0; cut.operations.len()];
        for (slice, operations) in cut.local.slices.iter().enumerate() {
            let piece = blocks.iter().position(|block| *block == block_of[slice]).unwrap_or(0);
            operations.iter().for_each(|operation| home[*operation] = piece);
        }
        let role = |piece: usize, exported: &BTreeSet<StepId>, step: StepId| match () {
            _ if cut.constant.contains(&step) => Role::Constant,
            _ if place_of(&cut.operations, step).is_none_or(|at| home[at] != piece) => {
                Role::Foreign
            }
            _ if exported.contains(&step) => Role::Exported,
            _ => Role::Own,
        };
        let nobody = BTreeSet::new();
        let recalls: Vec<Vec<StepId>> = (0..blocks.len())
            .map(|piece| {
                recalled(&project(&cut.procedure, &|step| role(piece, &nobody, step)).body)
            })
            .collect();
        let exported: BTreeSet<StepId> = recalls.iter().flatten().copied().collect();
        let exports = |piece: usize| -> Vec<StepId> {
            let own = exported.iter().filter(|step| role(piece, &nobody, **step) == Role::Own);
            own.copied().collect()
        };
        let steps = visit::numbered(&cut.procedure.body);
        let where_is = |step: StepId| {
            let piece = place_of(&cut.operations, step).map_or(0, |at| home[at]);
            let export = exports(piece).iter().position(|e| *e == step).unwrap_or(0);
            let is_read = matches!(steps[step as usize], Step::Read { .. });
            Recall { step, piece, export, is_read }
        };
        let mut notes = Vec::new();
        let pieces = blocks.iter().enumerate().map(|(piece, &block)| {
            let of_step = |step| role(piece, &exported, step);
            let mut program = project(&cut.procedure, &of_step);
            if self.options.mutant == Some(Mutant::GuardDropped) {
                program.body = unguarded(std::mem::take(&mut program.body));
            }
            let constants = Constants::of(&cut.procedure, &of_step);
            let mutant = self.options.mutant;
            notes.push(Notes::of(&program, &constants, &self.written, columns, mutant));
            let recalls = recalls[piece].iter().map(|step| where_is(*step)).collect();
            let (keys, exports) = (KeyPlan::of(&program), exports(piece));
            Piece { block, program, recalls, exports, notes: None, foretold: true, keys }
        });
        (pieces.collect(), notes)
    }
}

/// The first slice of each procedure, and how many there are in all.
fn numbered(cuts: &[Cut]) -> (Vec<usize>, usize) {
    let mut first = vec![0];
    for cut in cuts {
        first.push(first.last().copied().unwrap_or(0) + cut.local.slices.len());
    }
    let count = first.last().copied().unwrap_or(0);
    (first, count)
}

/// Operations that write, and those that something which writes is flow-dependent on.
fn only_useful(
    operations: Vec<Operation>,
    flow: Vec<(usize, usize)>,
) -> (Vec<Operation>, Vec<(usize, usize)>) {
    let mut useful: Vec<bool> = operations.iter().map(Operation::writes).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for &(before, after) in &flow {
            changed |= useful[after] && !useful[before];
            useful[before] |= useful[after];
        }
    }
    let mut place = 0;
    let places: Vec<usize> = useful
        .iter()
        .map(|useful| {
            place += usize::from(*useful);
            place.wrapping_sub(1)
        })
        .collect();
    let kept = flow.into_iter().filter(|&(before, after)| useful[before] && useful[after]);
    let flow = kept.map(|(before, after)| (places[before], places[after])).collect();
    let operations = operations.into_iter().zip(useful).filter(|(_, useful)| *useful);
    (operations.map(|(operation, _)| operation).collect(), flow)
}

/// The place of each class, by its first member, in an order in which edges lead forward: the one
/// that is named first, where there is a choice. And the edges between places.
fn in_order(
    classes: &mut UnionFind,
    flow: &[(usize, usize)],
) -> (BTreeMap<usize, usize>, Vec<(usize, usize)>) {
    let between: BTreeSet<(usize, usize)> = flow
        .iter()
        .map(|&(before, after)| (classes.find(before), classes.find(after)))
        .filter(|(before, after)| before != after)
        .collect();
    let all = classes.classes();
    let mut waits: BTreeMap<usize, usize> = all.iter().map(|members| (members[0], 0)).collect();
    for (_, after) in &between {
        *waits.entry(*after).or_default() += 1;
    }
    let free = waits.iter().filter(|(_, waits)| **waits == 0);
    let mut free: BTreeSet<usize> = free.map(|(class, _)| *class).collect();
    let mut places = BTreeMap::new();
    while let Some(class) = free.pop_first() {
        places.insert(class, places.len());
        for (_, after) in between.range((class, 0)..(class + 1, 0)) {
            let waits = waits.entry(*after).or_default();
            *waits -= 1;
            if *waits == 0 {
                free.insert(*after);
            }
        }
    }
    let edges = between.into_iter().map(|(before, after)| (places[&before], places[&after]));
    let mut edges: Vec<_> = edges.collect();
    edges.sort_unstable();
    (places, edges)
}

/// As if every condition held.
fn unguarded(block: Block) -> Block {
    let mut steps = block.into_vec();
    for step in &mut steps {
        match step {
            Step::If { condition, then, .. } => {
                *condition = Expr::Const(Value::Bool(true));
                *then = unguarded(std::mem::take(then));
            }
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => *body = unguarded(std::mem::take(body)),
            _ => {}
        }
    }
    steps.into()
}
