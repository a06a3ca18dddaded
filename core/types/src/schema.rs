//! What storage must know of a table: its columns, its primary key and its indexes. Constraints
//! are steps of procedures, so storage does not know them.

use crate::value::DataType;

/// Number of a table in its ledger; never used again after a DROP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u32);

impl TableId {
    /// The first number of those that no ledger gives: tables of one session, beside the ledger.
    pub const FIRST_TEMPORARY: TableId = TableId(1 << 27);

    /// Whether it is a session's own, of which no block knows.
    #[inline]
    pub fn is_temporary(self) -> bool {
        self >= TableId::FIRST_TEMPORARY
    }
}

/// Position of a column in its table.
pub type ColumnId = u16;

/// Position of an index in its table: 0 is the primary key, secondary indexes follow.
pub type IndexId = u16;

/// How a table lies in memory, beside its rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Layout {
    /// Columns are copied from the rows when queries read them.
    #[default]
    Row,
    /// Columns that queries have read are kept current.
    Column,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TableSchema {
    pub id: TableId,
    pub name: String,
    pub columns: Vec<ColumnSchema>,
    /// Columns of the primary key, in key order; never empty: a table declared without one has a
    /// hidden last column (`hidden_row_id`) as its key.
    pub primary_key: Vec<ColumnId>,
    /// Secondary indexes; `IndexId` n is `indexes[n - 1]`.
    pub indexes: Vec<IndexSchema>,
    /// The last column is the hidden row id: 16 bytes, (height: 8, position: 4, ordinal: 4) big
    /// endian, typed `Uuid`.
    pub hidden_row_id: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ColumnSchema {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    /// Dropped columns keep their place.
    pub dropped: bool,
}

impl ColumnSchema {
    /// Whether it holds what an index computes, and no user names it: its name begins with NUL.
    pub fn is_hidden(&self) -> bool {
        self.name.starts_with('\0')
    }

    /// A column without NULLs.
    pub fn new(name: impl Into<String>, data_type: DataType) -> ColumnSchema {
        ColumnSchema { name: name.into(), data_type, nullable: false, dropped: false }
    }

    pub fn nullable(self, nullable: bool) -> ColumnSchema {
        ColumnSchema { nullable, ..self }
    }
}

/// A secondary index: entries are the encoded `columns` followed by the primary key, so entries
/// are distinct even where the columns are not. Uniqueness is checked by the steps that write.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexSchema {
    pub name: String,
    pub columns: Vec<ColumnId>,
    pub unique: bool,
    /// Dropped indexes keep their place, so that `IndexId` stays what it was.
    pub dropped: bool,
}

impl TableSchema {
    pub fn column_types(&self) -> impl Iterator<Item = &DataType> {
        self.columns.iter().map(|c| &c.data_type)
    }

    /// Columns that a user sees.
    pub fn visible_columns(&self) -> impl Iterator<Item = (ColumnId, &ColumnSchema)> {
        let shown = self.columns.len() - usize::from(self.hidden_row_id);
        self.columns[..shown]
            .iter()
            .enumerate()
            .filter(|(_, c)| !c.dropped && !c.is_hidden())
            .map(|(i, c)| (i as ColumnId, c))
    }

    pub fn column(&self, name: &str) -> Option<ColumnId> {
        self.visible_columns().find(|(_, c)| c.name == name).map(|(id, _)| id)
    }
}
