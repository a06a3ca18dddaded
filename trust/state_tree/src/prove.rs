//! Making proofs: the tree with what a range does not meet cut off.

use proofs::{BOTH, Hash, LEFT, PAGE, RIGHT, Range, VERSION};

use crate::node::{Node, StateTree};

impl StateTree {
    /// The proof that shows all rows of a range of tree keys, and so that there are no others; the
    /// shortest that there is. `proofs::verify` checks it.
    pub fn prove(&self, range: &Range<'_>) -> Vec<u8> {
        let mut proof = vec![VERSION];
        show(&self.top.node, range, &mut proof);
        proof
    }
}

fn show(node: &Node, range: &Range<'_>, proof: &mut Vec<u8>) {
    let branch = match node {
        Node::Empty => return put_page(&[], proof),
        Node::Page(page) => return put_page(page, proof),
        Node::Branch(branch) => branch,
    };
    let meets = |side| range.meets(node.any_key(), branch.position, side);
    let [left, right] = &branch.sides;
    match [meets(false), meets(true)] {
        [true, true] if kit::mutant::mutated("tree_range_cut_short") => {
            show(&left.node, range, proof);
            put_hidden(RIGHT, branch.position, &right.hash, proof);
        }
        [true, true] => {
            show(&left.node, range, proof);
            show(&right.node, range, proof);
            proof.push(BOTH);
            proof.extend_from_slice(&branch.position.to_be_bytes());
        }
        [false, true] => {
            show(&right.node, range, proof);
            put_hidden(LEFT, branch.position, &left.hash, proof);
        }
        // Where the range meets neither, one is shown: its keys say where the other one lies.
        [_, false] => {
            show(&left.node, range, proof);
            put_hidden(RIGHT, branch.position, &right.hash, proof);
        }
    }
}

fn put_page(page: &[u8], proof: &mut Vec<u8>) {
    proof.push(PAGE);
    // A page has at most 512 bytes, or one row.
    proof.extend_from_slice(&(page.len() as u16).to_be_bytes());
    proof.extend_from_slice(page);
}

fn put_hidden(step: u8, position: u16, hash: &Hash, proof: &mut Vec<u8>) {
    proof.push(step);
    proof.extend_from_slice(&position.to_be_bytes());
    proof.extend_from_slice(hash);
}
