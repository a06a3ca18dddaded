//! The types that openraft is instantiated with: drafts as entries, members by number.

use std::io;

use crate::draft::Draft;

openraft::declare_raft_types!(
    /// What openraft is asked to carry.
    pub Types:
        D = Draft,
        R = (),
        NodeId = u64,
        Node = openraft::EmptyNode,
        SnapshotData = io::Cursor<Vec<u8>>,
);
