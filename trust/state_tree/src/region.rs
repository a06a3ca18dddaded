//! Regions: the keys that begin with certain bits, and what a tree says of one.

use proofs::{Hash, Row, Rows, TreeKey, bit, branch_hash, first_difference, page_hash, put_row};

use crate::node::{Node, StateTree};

/// A part of the key space: all of it, or the keys with the bits of `key` before `position` and
/// there `side`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    All,
    Side { key: TreeKey, position: u16, side: bool },
}

impl Region {
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Region::All => true,
            Region::Side { key: of, position, side } => {
                let same = first_difference(of.as_bytes(), key).is_none_or(|at| at >= *position);
                same && bit(key, *position) == *side
            }
        }
    }

    /// How many bits its keys have in common by definition.
    fn bits(&self) -> u16 {
        match self {
            Region::All => 0,
            Region::Side { position, .. } => position + 1,
        }
    }

    fn bit(&self, at: u16) -> bool {
        match self {
            Region::All => false,
            Region::Side { position, side, .. } if at == *position => *side,
            Region::Side { key, .. } => bit(key.as_bytes(), at),
        }
    }
}

/// What a tree has in a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Summary {
    /// All its rows, as a page.
    Page(Vec<u8>),
    /// More than a page: where its rows part, a key among them, and the hashes of the sides.
    Branch { key: TreeKey, position: u16, sides: [Hash; 2] },
}

impl Summary {
    /// The hash that it must have.
    pub fn hash(&self) -> Hash {
        match self {
            Summary::Page(page) => page_hash(page),
            Summary::Branch { position, sides: [l, r], .. } => branch_hash(*position, l, r),
        }
    }

    /// Whether this can be what a tree has in the region.
    pub(crate) fn fits(&self, region: &Region) -> bool {
        match self {
            Summary::Page(page) => {
                let mut rows = Rows::of(page);
                let inside = rows.by_ref().all(|row| region.contains(row.key));
                inside
                    && rows.rest().is_empty()
                    && Rows::of(page).is_sorted_by(|a, b| a.key < b.key)
            }
            Summary::Branch { key, position, .. } => {
                region.contains(key.as_bytes()) && *position >= region.bits()
            }
        }
    }
}

impl StateTree {
    /// What the tree has in a region.
    pub fn summary(&self, region: &Region) -> Summary {
        match self.inside(region) {
            Node::Empty => Summary::Page(Vec::new()),
            Node::Page(page) => {
                let mut bytes = Vec::new();
                for row in Rows::of(page).filter(|row| region.contains(row.key)) {
                    put_row(&row, |piece| bytes.extend_from_slice(piece));
                }
                Summary::Page(bytes)
            }
            Node::Branch(branch) => {
                let key = branch.sides[0].node.any_key();
                let Some(key) =
                    TreeKey::of_bytes(key).filter(|key| region.contains(key.as_bytes()))
                else {
                    return Summary::Page(Vec::new());
                };
                let sides = branch.sides.each_ref().map(|side| side.hash);
                Summary::Branch { key, position: branch.position, sides }
            }
        }
    }

    /// The rows of a region, in order, but for those of another one inside of it.
    pub(crate) fn rows_of(&self, region: &Region, but: Option<(&TreeKey, u16)>) -> Vec<Row<'_>> {
        let within = |key: &[u8]| {
            but.is_some_and(|(of, bits)| {
                first_difference(of.as_bytes(), key).is_none_or(|at| at >= bits)
            })
        };
        let (mut rows, mut open) = (Vec::new(), vec![self.inside(region)]);
        while let Some(node) = open.pop() {
            match node {
                Node::Empty => {}
                Node::Page(page) => rows.extend(
                    Rows::of(page).filter(|row| region.contains(row.key) && !within(row.key)),
                ),
                Node::Branch(branch) => {
                    let all_within = but.is_some_and(|(_, bits)| branch.position >= bits)
                        && within(node.any_key());
                    if !all_within && region.contains(node.any_key()) {
                        open.extend(branch.sides.iter().rev().map(|side| &side.node));
                    }
                }
            }
        }
        rows
    }

    /// The smallest subtree that has all rows of the region, if there are any.
    fn inside(&self, region: &Region) -> &Node {
        let mut node = &self.top.node;
        while let Node::Branch(branch) = node
            && branch.position < region.bits()
        {
            node = &branch.sides[usize::from(region.bit(branch.position))].node;
        }
        node
    }
}
