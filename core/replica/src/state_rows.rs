//! The state tree beside the store, and the state root of each block.
//!
//! A ledger whose parameter `state_root` is set names in every result header the root over all rows
//! ([`state_tree`]), as they are after the block. The tree is changed where effects are hashed, by
//! the hashes that those take anyway:
//!
//! ```text
//!   effects ─► images hashed ─┬► effects root ─┐
//!                             └► tree ─► root ─┴► result header
//! ```
//!
//! *Who has it.* A [`Replica`](crate::Replica) shares it with what compares blocks after its
//! execution, where effects are hashed later and by another thread; blocks come there in order. A
//! state that came into the store in another way (a checkpoint, rows of a log, PACMAN's pieces) has
//! its tree made from the store when the next header needs it, or at the end.
//!
//! *Schema changes* say nothing of the rows that a table loses or that are written anew with it. So
//! a block with one has those tables whose images may be others taken out of the tree, and put in
//! as they are after the block; that costs what rewriting them costs.
//!
//! Not in the tree: schema, parameters and what a block hands on, which other roots commit to.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use ledger::hash::to_hex;
use ledger::{EffectsDigest, Hash, ResultHeader, ZERO_HASH, row_image_hash};
use parking_lot::Mutex;
use proofs::TreeKey;
use state_tree::{Change, StateTree, Value};
use storage::{Catalog, Slot, Snapshot, Store, Table};
use types::{Error, Height, Result, SqlState, TableId, TableSchema};

use crate::effects::Effects;
use crate::images::same_images;
use crate::replica::Halt;

/// Rows of a table that come into the tree together.
const ROWS_TOGETHER: usize = 16_384;

/// Where the tree is between blocks; `None` where none is kept, or it has to be made.
pub(crate) type Kept = Arc<Mutex<Option<StateRows>>>;

/// All rows of a state, by their hashes.
pub(crate) struct StateRows {
    tree: StateTree,
    /// The tables that the tree has, as they were.
    tables: BTreeMap<TableId, (u64, Arc<TableSchema>)>,
    workers: usize,
}

impl StateRows {
    /// Of the rows that the tables show at a height.
    pub fn of(catalog: &Catalog, at: Height, workers: usize) -> Result<StateRows> {
        let (tree, tables) = Default::default();
        let mut rows = StateRows { tree, tables, workers };
        rows.follow(catalog, at)?;
        Ok(rows)
    }

    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// Takes out the tables that are gone or written anew, and puts in those that are new.
    fn follow(&mut self, catalog: &Catalog, at: Height) -> Result<()> {
        let same = |table: &Arc<Table>, (incarnation, schema): &(u64, Arc<TableSchema>)| {
            table.incarnation() == *incarnation && same_images(schema, table.schema())
        };
        let stays = |id: &TableId, was: &(u64, Arc<TableSchema>)| {
            catalog.table(*id).is_some_and(|table| same(table, was))
        };
        let gone = self.tables.extract_if(.., |id, was| !stays(id, was));
        for (id, _) in gone {
            self.tree.remove(&id.0.to_be_bytes());
        }
        for table in catalog.tables() {
            if !self.tables.contains_key(&table.id()) {
                self.put_in(table, at)?;
            }
            let seen = (table.incarnation(), Arc::clone(table.schema()));
            self.tables.insert(table.id(), seen);
        }
        Ok(())
    }

    fn put_in(&mut self, table: &Table, at: Height) -> Result<()> {
        let mut rows: Vec<(TreeKey, Slot)> = Vec::new();
        let mut put = Ok(());
        table.each_row(at, &mut |key, slot, _| {
            rows.push((TreeKey::new(table.id().0, key), slot));
            if rows.len() == ROWS_TOGETHER {
                put = self.put_rows(table, at, &rows);
                rows.clear();
            }
            if put.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        put?;
        self.put_rows(table, at, &rows)
    }

    fn put_rows(&mut self, table: &Table, at: Height, rows: &[(TreeKey, Slot)]) -> Result<()> {
        if self.workers < 2 {
            self.change(hash_rows(table, at, rows)?);
            return Ok(());
        }
        let share = rows.len().div_ceil(self.workers).max(1);
        let hashed = std::thread::scope(|scope| {
            let hash = |rows| move || hash_rows(table, at, rows);
            let threads: Vec<_> = rows.chunks(share).map(|some| scope.spawn(hash(some))).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect::<Result<Vec<Vec<Change>>>>()
        })?;
        self.change(hashed.concat());
        Ok(())
    }

    /// Makes changes, of which a later one of a row counts.
    fn change(&mut self, mut changes: Vec<Change>) {
        // Long keys are in another order in the tree, and each step of a block has its own.
        if !changes.is_sorted_by(|a, b| a.key < b.key) {
            changes.sort_by_key(|change| change.key);
            changes.dedup_by(|next, kept| {
                let same = next.key == kept.key;
                if same {
                    *kept = *next;
                }
                same
            });
        }
        debug_assert!(changes.is_sorted_by(|a, b| a.key < b.key), "no row twice");
        self.tree.apply(&changes, self.workers);
    }
}

fn hash_rows(table: &Table, at: Height, rows: &[(TreeKey, Slot)]) -> Result<Vec<Change>> {
    let mut image = Vec::new();
    let hash = |&(key, slot): &(TreeKey, Slot)| {
        image.clear();
        let stamp = table.append_image(slot, at, &mut image)?.ok_or_else(|| {
            Error::new(SqlState::INTERNAL_ERROR, "a row went from under its snapshot")
        })?;
        let value = Value { image: row_image_hash(&image), height: stamp.height() };
        Ok(Change { key, value: Some(value) })
    };
    rows.iter().map(hash).collect()
}

/// What a block has to do with the tree.
pub struct Rooting {
    kept: Kept,
    height: Height,
    workers: usize,
    /// The block's header names the root.
    names: bool,
    /// The next one's does.
    goes_on: bool,
    /// The tables after the block, where they may be others than before it, or the tree has to be
    /// made.
    catalog: Option<Arc<Catalog>>,
    /// Keeps their rows readable, where later blocks may be executed before this is done.
    pub pin: Option<Snapshot>,
}

impl Rooting {
    /// Whether rows of the state are read, beside those that the block changed.
    pub fn reads_state(&self) -> bool {
        self.catalog.is_some()
    }

    /// What the header says of the effects and of the state after them.
    pub fn seal(&self, effects: &Effects) -> Result<(EffectsDigest, Hash)> {
        let mut kept = self.kept.lock();
        if !self.names && !self.goes_on {
            *kept = None;
            return Ok((effects.digest()?, ZERO_HASH));
        }
        let mut changes = Vec::new();
        let digest = effects.digest_with(Some(&mut changes))?;
        let rows = match (kept.take(), &self.catalog) {
            (Some(mut rows), catalog) => {
                rows.change(changes);
                if let Some(catalog) = catalog {
                    rows.follow(catalog, self.height)?;
                }
                rows
            }
            (None, Some(catalog)) => StateRows::of(catalog, self.height, self.workers)?,
            (None, None) => {
                let what = format!("no tree of the state before block {}", self.height);
                return Err(Error::new(SqlState::INTERNAL_ERROR, what));
            }
        };
        let root = if self.names { rows.root() } else { ZERO_HASH };
        if self.goes_on {
            *kept = Some(rows);
        }
        Ok((digest, root))
    }
}

/// The state after a block, by its hashes.
pub struct ProvableState {
    pub header: ResultHeader,
    pub tree: StateTree,
}

/// Which root a replica's headers name, between blocks.
pub(crate) struct Roots {
    kept: Kept,
    /// The tree is there, or is when blocks on their way have been sealed.
    is_kept: bool,
    /// In force for the next block: a block that changes the parameter runs under the one before.
    names: bool,
    workers: usize,
}

impl Roots {
    /// After a block whose rows are in the store, and whose header names this root, if any.
    pub fn at(
        store: &Store,
        (height, root): (Height, Hash),
        names: bool,
        workers: usize,
    ) -> Result<Roots, Halt> {
        let mut roots = Roots { kept: Kept::default(), is_kept: false, names, workers };
        roots.make_and_check(store, (height, root))?;
        Ok(roots)
    }

    /// The state has come into the store without its blocks.
    pub fn forget(&mut self) {
        // Blocks on their way keep the one that they have.
        self.kept = Kept::default();
        self.is_kept = false;
    }

    /// Makes the tree, if it is to be kept and is not there, and compares its root.
    pub fn make_and_check(
        &mut self,
        store: &Store,
        (height, root): (Height, Hash),
    ) -> Result<(), Halt> {
        if !self.names || self.is_kept {
            return Ok(());
        }
        let rows = StateRows::of(&store.catalog(), height, self.workers)?;
        if root != ZERO_HASH && rows.root() != root {
            let (expected, found) = (to_hex(&root), to_hex(&rows.root()));
            let what = format!("the state root of block {height} is {expected}, not {found}");
            return Err(Halt(what));
        }
        *self.kept.lock() = Some(rows);
        self.is_kept = true;
        Ok(())
    }

    /// A copy of the tree, if it is there and has this root.
    pub fn tree_of(&self, root: &Hash) -> Option<StateTree> {
        let kept = self.kept.lock();
        kept.as_ref().map(|rows| &rows.tree).filter(|tree| tree.root() == *root).cloned()
    }

    /// What a block that has run has to do with the tree. `names`: whether the next one names it.
    pub fn rooting(
        &mut self,
        store: &Store,
        height: Height,
        effects: &Effects,
        names: bool,
    ) -> Rooting {
        assert!(self.names || !self.is_kept, "a tree is kept for roots that headers name");
        let reads = (self.names || names) && (!self.is_kept || effects.change_objects());
        let rooting = Rooting {
            kept: Arc::clone(&self.kept),
            height,
            workers: self.workers,
            names: self.names,
            goes_on: names,
            catalog: reads.then(|| store.catalog()),
            pin: None,
        };
        self.is_kept = names;
        self.names = names;
        rooting
    }
}
