//! What openraft is made for here.

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
