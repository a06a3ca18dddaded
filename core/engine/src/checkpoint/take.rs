//! Takes a checkpoint: writes the groups of rows that changed since the last one to a new file (a
//! *pack*); for the others its manifest names the place in an older pack.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::checkpoint::{
    CHECKPOINT_FOLDER, Group, Manifest, PackWriter, Past, TableGroups, clear, pack_bytes, retain,
    write_manifest,
};
use ledger::files::sqlstate_of;
use ledger::merkle::leaf_hash;
use ledger::{Files, Hash};
use replica::Boundary;
use replica::images::same_images;
use storage::{Snapshot, Table};
use types::{Error, Height, Result, TableId, TableSchema};

use crate::client::Replica;

use super::groups::{RowGroup, digest, each_group};
use super::passed_over::PassedOver;
use super::past::{PastGroup, each_past_group};

/// A state to be put down.
pub struct State {
    pub snapshot: Snapshot,
    pub boundary: Boundary,
    /// `LogWriter::durable_below`, no later than the snapshot.
    pub durable_below: Height,
    /// `Language::schema_image` of the snapshot.
    pub schema: Vec<u8>,
}

impl State {
    /// What a replica holds, without a claim about what is on stable storage.
    pub fn of(replica: &Replica) -> Result<State> {
        let snapshot = replica.store().snapshot();
        let schema = replica.language().schema_image(&snapshot)?;
        Ok(State { snapshot, boundary: replica.boundary(), durable_below: 0, schema })
    }

    /// What a checkpoint of it would carry.
    pub fn digest(&self) -> Result<Hash> {
        digest(&self.snapshot, &self.boundary, &self.schema)
    }
}

/// A checkpoint on disk, and the tables in memory that it shows: what the next one goes out from.
pub struct Base {
    pub manifest: Manifest,
    tables: BTreeMap<TableId, (u64, Arc<TableSchema>)>,
}

impl Base {
    pub fn new<'a>(manifest: Manifest, tables: impl Iterator<Item = &'a Arc<Table>>) -> Base {
        let seen = |table: &Arc<Table>| (table.incarnation(), Arc::clone(table.schema()));
        Base { manifest, tables: tables.map(|table| (table.id(), seen(table))).collect() }
    }

    /// The groups that a table had, if a row that has kept its stamp has kept its image.
    fn groups(&self, table: &Table) -> &[Group] {
        let same = self.tables.get(&table.id()).is_some_and(|(incarnation, schema)| {
            *incarnation == table.incarnation() && same_images(schema, table.schema())
        });
        let groups = self.manifest.tables.iter().find(|groups| groups.table == table.id());
        groups.filter(|_| same).map_or(&[], |groups| &groups.groups)
    }
}

/// How far a checkpoint has come, or what it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    pub rows: u64,
    pub groups: u64,
    /// Those that were not on disk already.
    pub groups_written: u64,
    pub bytes_written: u64,
}

/// A checkpoint that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub height: Height,
    pub digest: Hash,
    pub extent: Extent,
}

/// Takes one checkpoint after the other.
pub struct Checkpointer {
    files: Arc<dyn Files>,
    keep: usize,
    base: Option<Base>,
    /// Checkpoints that can never serve.
    lost: Vec<Height>,
}

impl Checkpointer {
    /// `base` is the newest checkpoint on disk that is known to hold; `passed_over` are those that
    /// were tried before it.
    pub fn new(
        files: Arc<dyn Files>,
        keep: usize,
        base: Option<Base>,
        passed_over: &[PassedOver],
    ) -> Checkpointer {
        let lost = passed_over.iter().filter(|passed_over| passed_over.is_lost);
        Checkpointer { files, keep, base, lost: lost.map(|lost| lost.height).collect() }
    }

    /// Returns when the checkpoint is durable. `pace` is called after each group, may sleep there,
    /// and ends the work by an error. After an error the checkpoints before are as they were.
    pub fn take(
        &mut self,
        state: &State,
        pace: &mut dyn FnMut(&Extent) -> Result<()>,
    ) -> Result<Taken> {
        let height = state.boundary.order.height;
        assert_eq!(state.snapshot.height(), height, "rows and headers are of one block");
        let held = self.base.as_ref().filter(|base| base.manifest.height() == height);
        // What a crash left, or a past that the ledger has lost.
        let room_from = height + u64::from(held.is_some());
        clear(&*self.files, room_from, &self.lost).map_err(cannot_write)?;
        self.lost.clear();
        if let Some(base) = held {
            let digest = base.manifest.digest()?;
            return Ok(Taken { height, digest, extent: Extent::default() });
        }
        let taken = self.write(state, pace);
        if taken.is_err() {
            // The next attempt clears the way again; this frees the disk at once, if it can.
            let _ = clear(&*self.files, height, &[]);
        }
        taken
    }

    /// Of the newest checkpoint that is known to hold.
    pub fn height(&self) -> Option<Height> {
        self.base.as_ref().map(|base| base.manifest.height())
    }

    fn write(
        &mut self,
        state: &State,
        pace: &mut dyn FnMut(&Extent) -> Result<()>,
    ) -> Result<Taken> {
        let files = &*self.files;
        files.create_folder(CHECKPOINT_FOLDER).map_err(cannot_write)?;
        files.sync_folder("").map_err(cannot_write)?;
        let mut writing = Writing {
            files,
            base: self.base.as_ref(),
            sparse: self.sparse_packs(),
            state,
            pack: None,
            bytes: Vec::new(),
            extent: Extent::default(),
        };
        let catalog = state.snapshot.catalog();
        let tables = catalog.tables().map(|table| writing.table(table, pace));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let past = state.boundary.past.from().map(|from| writing.past(from, pace)).transpose()?;
        let Writing { pack, mut extent, .. } = writing;
        pack.map(PackWriter::finish).transpose().map_err(cannot_write)?;
        let Boundary { order, result, parameters, carried, .. } = &state.boundary;
        let manifest = Manifest {
            order: order.clone(),
            result: result.clone(),
            durable_below: state.durable_below,
            parameters: parameters.as_ref().clone(),
            schema: state.schema.clone(),
            carried: carried.to_vec(),
            tables,
            past,
        };
        extent.bytes_written += write_manifest(files, &manifest)?;
        let taken = Taken { height: manifest.height(), digest: manifest.digest()?, extent };
        self.base = Some(Base::new(manifest, catalog.tables()));
        // The checkpoint is there whether or not older ones can be removed.
        if let Err(error) = retain(files, taken.height, self.keep) {
            tracing::warn!(%error, "older checkpoints stay until the next one is taken");
        }
        Ok(taken)
    }

    /// Packs of which the newest checkpoint's state uses less than half, or that cannot be read.
    fn sparse_packs(&self) -> BTreeSet<Height> {
        let mut used = BTreeMap::<Height, u64>::new();
        let tables = self.base.iter().flat_map(|base| &base.manifest.tables);
        let groups = tables.flat_map(|table| &table.groups);
        groups.for_each(|group| *used.entry(group.place.pack).or_default() += group.place.length);
        let is_sparse = |(pack, bytes): (Height, u64)| {
            let size = pack_bytes(&*self.files, pack).unwrap_or(u64::MAX);
            (bytes < size / 2).then_some(pack)
        };
        used.into_iter().filter_map(is_sparse).collect()
    }
}

/// A checkpoint under construction.
struct Writing<'a> {
    files: &'a dyn Files,
    base: Option<&'a Base>,
    sparse: BTreeSet<Height>,
    state: &'a State,
    pack: Option<PackWriter>,
    bytes: Vec<u8>,
    extent: Extent,
}

impl Writing<'_> {
    fn table(
        &mut self,
        table: &Table,
        pace: &mut dyn FnMut(&Extent) -> Result<()>,
    ) -> Result<TableGroups> {
        let mut before = self.base.map_or(&[][..], |base| base.groups(table)).iter().peekable();
        let mut groups = Vec::new();
        each_group(table, self.state.snapshot.height(), &mut |found| {
            while before.next_if(|old| old.first < found.first).is_some() {}
            let old = before.peek().filter(|old| self.is_same(old, found));
            let group = match old {
                Some(&old) => old.clone(),
                None => self.append(table, found)?,
            };
            groups.push(group);
            self.extent.rows += u64::from(found.rows());
            self.extent.groups += 1;
            pace(&self.extent)
        })?;
        Ok(TableGroups { table: table.id(), groups })
    }

    /// Whether a group of the base holds these rows, in a pack that stays.
    fn is_same(&self, old: &Group, found: &RowGroup) -> bool {
        let base_height = self.base.map_or(0, |base| base.manifest.height());
        found.changed <= base_height
            && old.first == found.first
            && old.last == found.last
            && old.rows == found.rows()
            && !self.sparse.contains(&old.place.pack)
    }

    fn append(&mut self, table: &Table, found: &RowGroup) -> Result<Group> {
        let mut bytes = std::mem::take(&mut self.bytes);
        found.encode(table, self.state.snapshot.height(), &mut bytes)?;
        let group = self.put(&bytes, found.rows(), (&found.first, &found.last));
        self.bytes = bytes;
        group
    }

    /// The older images of all tables.
    fn past(&mut self, from: Height, pace: &mut dyn FnMut(&Extent) -> Result<()>) -> Result<Past> {
        let snapshot = &self.state.snapshot;
        let mut tables = Vec::new();
        for table in snapshot.catalog().tables() {
            let mut groups = Vec::new();
            each_past_group(table, from, snapshot.height(), &mut |found: &PastGroup| {
                groups.push(self.put(&found.bytes, found.rows, (&found.first, &found.last))?);
                pace(&self.extent)
            })?;
            if !groups.is_empty() {
                tables.push(TableGroups { table: table.id(), groups });
            }
        }
        Ok(Past { from, tables })
    }

    /// Puts a group into the pack.
    fn put(&mut self, bytes: &[u8], rows: u32, (first, last): (&[u8], &[u8])) -> Result<Group> {
        let pack = match &mut self.pack {
            Some(pack) => pack,
            none => {
                let header = &self.state.boundary.order;
                let pack = PackWriter::create(self.files, header.ledger_id, header.height);
                none.insert(pack.map_err(cannot_write)?)
            }
        };
        let place = pack.append(bytes).map_err(cannot_write)?;
        self.extent.groups_written += 1;
        self.extent.bytes_written += bytes.len() as u64;
        let (first, last) = (first.to_vec(), last.to_vec());
        Ok(Group { hash: leaf_hash(bytes), rows, first, last, place })
    }
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::new(sqlstate_of(&error), "the checkpoint cannot be written")
        .with_detail(error.to_string())
        .with_hint("The ledger goes on without it, and the next one is tried when it is due.")
}
