//! The manifest: everything about a checkpoint but its rows, and where those are.

use types::{Height, Result, TableId};

use crate::hash::{Hash, TAG_CHECKPOINT, TAG_STATE, tagged_hash, to_hex};
use crate::header::{ORDER_HEADER_BYTES, OrderHeader, RESULT_HEADER_BYTES, ResultHeader};
use crate::merkle::MerkleBuilder;
use crate::parameters::Parameters;
use crate::wire::{Cursor, put_prefixed};

use super::GROUP_ROWS_MAX;

const MAGIC: [u8; 8] = *b"TALLYCKM";
const VERSION: u32 = 2;
/// What an encoded table, and an encoded group, takes at least.
const TABLE_BYTES_MIN: usize = 8;
const GROUP_BYTES_MIN: usize = 68;
const HASH_BYTES: usize = size_of::<Hash>();

/// A checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Of the block whose state this is.
    pub order: OrderHeader,
    pub result: ResultHeader,
    /// All orders below were on stable storage when the checkpoint was begun: a ledger that ends
    /// before has lost some.
    pub durable_below: Height,
    /// In force for the next block.
    pub parameters: Parameters,
    /// Opaque here.
    pub schema: Vec<u8>,
    /// What the ledger's state holds beside rows and schema. Opaque here.
    pub carried: Vec<u8>,
    /// Every table of the schema, by id.
    pub tables: Vec<TableGroups>,
    /// `None`: no later block reads a state before this one.
    pub past: Option<Past>,
}

/// What the states before a checkpoint's differ in from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Past {
    /// The oldest of them.
    pub from: Height,
    /// The rows that differ, with what they were: tables that have some, by id.
    pub tables: Vec<TableGroups>,
}

/// The rows of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableGroups {
    pub table: TableId,
    /// In key order.
    pub groups: Vec<Group>,
}

/// Neighbouring rows, and where they lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The Merkle leaf over the group's bytes.
    pub hash: Hash,
    pub rows: u32,
    /// Encoded keys of the first row and of the last.
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    pub place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Height of the checkpoint that wrote the group.
    pub pack: Height,
    pub offset: u64,
    pub length: u64,
}

impl TableGroups {
    pub fn rows(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.rows)).sum()
    }

    pub fn root(&self) -> Hash {
        let mut tree = MerkleBuilder::new();
        self.groups.iter().for_each(|group| tree.push_hash(group.hash));
        tree.root()
    }
}

/// A table's part of a digest: the number of its rows, and the root over its groups.
pub type TableRoot = (TableId, u64, Hash);

/// What the digest of a state covers.
pub struct StateParts<'a> {
    pub parameters: &'a Parameters,
    pub schema: &'a [u8],
    pub carried: &'a [u8],
    /// Every table, by id.
    pub tables: Vec<TableRoot>,
    /// The oldest state before it that counts, and the tables that it differs in.
    pub past: Option<(Height, Vec<TableRoot>)>,
}

impl StateParts<'_> {
    pub fn digest(&self) -> Result<Hash> {
        let mut bytes = Vec::new();
        put_prefixed(&mut bytes, &self.parameters.encode()?)?;
        put_prefixed(&mut bytes, self.schema)?;
        put_prefixed(&mut bytes, self.carried)?;
        put_roots(&mut bytes, &self.tables);
        if let Some((from, tables)) = &self.past {
            bytes.extend_from_slice(&from.to_be_bytes());
            put_roots(&mut bytes, tables);
        }
        Ok(tagged_hash(TAG_STATE, &bytes))
    }
}

fn put_roots(bytes: &mut Vec<u8>, tables: &[TableRoot]) {
    bytes.extend_from_slice(&(tables.len() as u32).to_be_bytes());
    for (table, rows, root) in tables {
        bytes.extend_from_slice(&table.0.to_be_bytes());
        bytes.extend_from_slice(&rows.to_be_bytes());
        bytes.extend_from_slice(root);
    }
}

fn roots(tables: &[TableGroups]) -> Vec<TableRoot> {
    tables.iter().map(|groups| (groups.table, groups.rows(), groups.root())).collect()
}

impl Manifest {
    pub fn height(&self) -> Height {
        self.result.height
    }

    pub fn rows(&self) -> u64 {
        self.tables.iter().map(TableGroups::rows).sum()
    }

    /// Bytes of all groups, wherever they lie.
    pub fn bytes(&self) -> u64 {
        self.groups().map(|group| group.place.length).sum()
    }

    /// Those of the state, then those of its past.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        let past = self.past.iter().flat_map(|past| &past.tables);
        self.tables.iter().chain(past).flat_map(|table| &table.groups)
    }

    /// Heights in the names of the packs that it refers to, ascending.
    pub fn packs(&self) -> Vec<Height> {
        let mut packs: Vec<Height> = self.groups().map(|group| group.place.pack).collect();
        packs.sort_unstable();
        packs.dedup();
        packs
    }

    pub fn digest(&self) -> Result<Hash> {
        let Manifest { parameters, schema, carried, .. } = self;
        let past = self.past.as_ref().map(|past| (past.from, roots(&past.tables)));
        StateParts { parameters, schema, carried, tables: roots(&self.tables), past }.digest()
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.order.encode());
        bytes.extend_from_slice(&self.result.encode());
        bytes.extend_from_slice(&self.durable_below.to_be_bytes());
        bytes.extend_from_slice(&self.digest()?);
        put_prefixed(&mut bytes, &self.parameters.encode()?)?;
        put_prefixed(&mut bytes, &self.schema)?;
        put_prefixed(&mut bytes, &self.carried)?;
        put_tables(&mut bytes, &self.tables)?;
        if let Some(past) = &self.past {
            bytes.extend_from_slice(&past.from.to_be_bytes());
            put_tables(&mut bytes, &past.tables)?;
        }
        let hash = tagged_hash(TAG_CHECKPOINT, &bytes);
        bytes.extend_from_slice(&hash);
        Ok(bytes)
    }

    /// Strict: what this accepts encodes to the same bytes again.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        let mut cursor = Cursor::new("checkpoint manifest", bytes);
        if cursor.array()? != MAGIC {
            return Err(cursor.invalid("this is not a checkpoint's manifest"));
        }
        let Some((content, hash)) = bytes.split_last_chunk::<32>() else {
            return Err(cursor.invalid("it is cut"));
        };
        same(&cursor, "its hash", hash, &tagged_hash(TAG_CHECKPOINT, content))?;
        let version = cursor.u32()?;
        if version != VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let order = OrderHeader::decode(cursor.take(ORDER_HEADER_BYTES)?)?;
        let result = ResultHeader::decode(cursor.take(RESULT_HEADER_BYTES)?)?;
        let one_block = (result.height, result.ledger_id) == (order.height, order.ledger_id);
        if !one_block || result.order_hash != order.hash() {
            return Err(cursor.invalid("its two headers are not of one block"));
        }
        let durable_below = cursor.u64()?;
        let digest: Hash = cursor.array()?;
        let parameters = Parameters::decode(cursor.prefixed()?)?;
        let schema = cursor.prefixed()?.to_vec();
        let carried = cursor.prefixed()?.to_vec();
        let tables = decode_tables(&mut cursor, result.height)?;
        let past = match cursor.remaining() {
            HASH_BYTES => None,
            _ => Some(decode_past(&mut cursor, result.height)?),
        };
        let _hash: Hash = cursor.array()?;
        let manifest =
            Manifest { order, result, durable_below, parameters, schema, carried, tables, past };
        same(&cursor, "the digest of the state", &digest, &manifest.digest()?)?;
        cursor.finish()?;
        Ok(manifest)
    }
}

/// Hashes a manifest's bytes anew, as an attacker who changed them could: what is wrong with the
/// rest must show without the hash.
pub fn reseal(bytes: &mut [u8]) {
    if let Some((content, hash)) = bytes.split_last_chunk_mut::<32>() {
        *hash = tagged_hash(TAG_CHECKPOINT, content);
    }
}

fn same(cursor: &Cursor<'_>, what: &str, written: &Hash, computed: &Hash) -> Result<()> {
    if written == computed {
        return Ok(());
    }
    let (written, computed) = (to_hex(written), to_hex(computed));
    Err(cursor.invalid(format!("{what} is {computed}, written was {written}")))
}

fn put_tables(bytes: &mut Vec<u8>, tables: &[TableGroups]) -> Result<()> {
    bytes.extend_from_slice(&(tables.len() as u32).to_be_bytes());
    for TableGroups { table, groups } in tables {
        bytes.extend_from_slice(&table.0.to_be_bytes());
        bytes.extend_from_slice(&(groups.len() as u32).to_be_bytes());
        for Group { hash, rows, first, last, place } in groups {
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(&rows.to_be_bytes());
            put_prefixed(bytes, first)?;
            put_prefixed(bytes, last)?;
            bytes.extend_from_slice(&place.pack.to_be_bytes());
            bytes.extend_from_slice(&place.offset.to_be_bytes());
            bytes.extend_from_slice(&place.length.to_be_bytes());
        }
    }
    Ok(())
}

fn decode_tables(cursor: &mut Cursor<'_>, height: Height) -> Result<Vec<TableGroups>> {
    let mut tables: Vec<TableGroups> = Vec::new();
    for _ in 0..cursor.count(TABLE_BYTES_MIN)? {
        let table = decode_table(cursor, height)?;
        if tables.last().is_some_and(|before| before.table >= table.table) {
            return Err(cursor.invalid(format!("table {} is out of order", table.table.0)));
        }
        tables.push(table);
    }
    Ok(tables)
}

fn decode_past(cursor: &mut Cursor<'_>, height: Height) -> Result<Past> {
    let past = Past { from: cursor.u64()?, tables: decode_tables(cursor, height)? };
    if past.from >= height || past.tables.iter().any(|table| table.groups.is_empty()) {
        return Err(cursor.invalid("what it says of states before it is nothing"));
    }
    Ok(past)
}

fn decode_table(cursor: &mut Cursor<'_>, height: Height) -> Result<TableGroups> {
    let table = TableId(cursor.u32()?);
    let mut groups: Vec<Group> = Vec::new();
    for _ in 0..cursor.count(GROUP_BYTES_MIN)? {
        let group = Group {
            hash: cursor.array()?,
            rows: cursor.u32()?,
            first: cursor.prefixed()?.to_vec(),
            last: cursor.prefixed()?.to_vec(),
            place: Place { pack: cursor.u64()?, offset: cursor.u64()?, length: cursor.u64()? },
        };
        let ordered = groups.last().is_none_or(|before| before.last < group.first)
            && group.first <= group.last
            && (group.rows == 1) == (group.first == group.last);
        let possible = (1..=GROUP_ROWS_MAX).contains(&group.rows) && group.place.pack <= height;
        if !ordered || !possible {
            let place = groups.len();
            return Err(cursor.invalid(format!("group {place} of table {} is none", table.0)));
        }
        groups.push(group);
    }
    Ok(TableGroups { table, groups })
}
