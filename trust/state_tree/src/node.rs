//! Nodes, and the tree that holds the topmost.

use std::sync::Arc;

use proofs::{Hash, PAGE_BYTES_MAX, Row, Rows, bit, branch_hash, page_hash};

/// A subtree. Its hash is kept above it.
#[derive(Clone, Default, Debug)]
pub(crate) enum Node {
    /// No rows. Only the topmost node, or what stands where one is taken from.
    #[default]
    Empty,
    /// The bytes of a page, never empty.
    Page(Arc<[u8]>),
    Branch(Arc<Branch>),
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// Where the keys of the sides part.
    pub position: u16,
    pub sides: [Side; 2],
}

/// A subtree and its hash.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub hash: Hash,
    pub node: Node,
}

impl Side {
    pub fn empty() -> Side {
        Side { hash: page_hash(&[]), node: Node::Empty }
    }

    pub fn page(bytes: &[u8]) -> Side {
        Side { hash: page_hash(bytes), node: Node::Page(bytes.into()) }
    }

    /// What stands where a side was taken from for a moment.
    pub fn taken() -> Side {
        Side { hash: [0; 32], node: Node::Empty }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.node, Node::Empty)
    }

    /// The node above two others, neither of which is empty.
    pub fn branch(position: u16, left: Side, right: Side) -> Side {
        let hash = branch_hash(position, &left.hash, &right.hash);
        let branch = Branch { position, sides: [left, right] };
        Side { hash, node: Node::Branch(Arc::new(branch)) }
    }

    /// Whether a branch is above the two: both are there, and not small pages.
    pub fn stays_beside(&self, right: &Side) -> bool {
        match (&self.node, &right.node) {
            (Node::Empty, _) | (_, Node::Empty) => false,
            (Node::Page(l), Node::Page(r)) => {
                l.len() + r.len() > PAGE_BYTES_MAX || kit::mutant::mutated("tree_pages_not_joined")
            }
            _ => true,
        }
    }

    /// What two subtrees that part at `position` come to: one may be empty, and two small pages
    /// are one.
    pub fn join(position: u16, left: Side, right: Side) -> Side {
        if left.is_empty() {
            return right;
        }
        if right.is_empty() {
            return left;
        }
        if let (Node::Page(l), Node::Page(r)) = (&left.node, &right.node)
            && !left.stays_beside(&right)
        {
            return Side::page(&[&**l, &**r].concat());
        }
        Side::branch(position, left, right)
    }
}

impl Node {
    /// A key of the subtree: the first of the page that the bits of `toward` lead to.
    pub fn key_toward(&self, toward: &[u8]) -> &[u8] {
        let mut node = self;
        loop {
            match node {
                Node::Empty => return &[],
                Node::Page(page) => return Rows::of(page).next().map_or(&[], |row| row.key),
                Node::Branch(branch) => {
                    node = &branch.sides[usize::from(bit(toward, branch.position))].node;
                }
            }
        }
    }

    /// Any key of the subtree.
    pub fn any_key(&self) -> &[u8] {
        self.key_toward(&[])
    }
}

/// The tree of a state. A clone is another tree with the same rows, at no cost.
#[derive(Clone, Debug)]
pub struct StateTree {
    pub(crate) top: Side,
}

impl Default for StateTree {
    fn default() -> Self {
        StateTree { top: Side::empty() }
    }
}

impl StateTree {
    /// The tree of no rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state root.
    pub fn root(&self) -> Hash {
        self.top.hash
    }

    /// What the tree says of a row.
    pub fn get(&self, tree_key: &[u8]) -> Option<Row<'_>> {
        let mut node = &self.top.node;
        while let Node::Branch(branch) = node {
            node = &branch.sides[usize::from(bit(tree_key, branch.position))].node;
        }
        match node {
            Node::Page(page) => Rows::of(page).find(|row| row.key == tree_key),
            _ => None,
        }
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let mut open = vec![&self.top.node];
        let pages = std::iter::from_fn(move || {
            loop {
                match open.pop()? {
                    Node::Empty => {}
                    Node::Page(page) => return Some(&**page),
                    Node::Branch(branch) => {
                        let [left, right] = &branch.sides;
                        open.extend([&right.node, &left.node]);
                    }
                }
            }
        });
        pages.flat_map(Rows::of)
    }
}
