//! Random histories: the tree is the model after every block, whatever led there.

use proofs::Rows;

use super::*;
use crate::node::Node;

/// Blocks of all sizes, on 1, 2 and 8 threads; what was cloned before a block stays as it was.
pub(super) fn history(seed: u64, workers: usize) -> Result<(), String> {
    let random = &mut Random::new(seed);
    let spread = [10, 200, 5_000][random.below(3) as usize];
    let (mut tree, mut model) = (StateTree::new(), Model::new());
    for height in 1..12 {
        let changes = [1, 7, 60, 900][random.below(4) as usize];
        let changes = block(random, &model, height, changes, spread);
        // Some blocks find nodes that another tree has, others change them in place.
        let copy = random.chance(2).then(|| tree.clone());
        tree.apply(&changes, workers);
        if copy.is_some_and(|copy| {
            let rows = copy.rows().map(|row| (row.key, row.image, row.height));
            !rows.eq(model.iter().map(|(key, v)| (key.as_bytes(), v.image, v.height)))
        }) {
            return Err(format!("seed {seed}: block {height} changed a copy"));
        }
        change_model(&mut model, &changes);
        if tree.root() != model_root(&model) {
            return Err(format!("seed {seed}: another root after block {height}"));
        }
    }
    let rows = tree.rows().map(|row| (row.key.to_vec(), row.image, row.height));
    if !rows.eq(model.iter().map(|(key, v)| (key.as_bytes().to_vec(), v.image, v.height))) {
        return Err(format!("seed {seed}: other rows"));
    }
    for _ in 0..50 {
        let key = key(random, spread);
        let found =
            tree.get(key.as_bytes()).map(|row| Value { image: row.image, height: row.height });
        if found != model.get(&key).copied() {
            return Err(format!("seed {seed}: another row {key:?}"));
        }
    }
    Ok(())
}

#[test]
fn the_tree_is_the_model() {
    kit::parallel::for_each(0..200, |seed| history(seed, [1, 2, 8][seed as usize % 3]).unwrap());
}

/// The same contents by other ways: at once, from a checkpoint's rows, row by row in another order
/// with others that come and go.
#[test]
fn history_leaves_no_trace() {
    kit::parallel::for_each(0..30, |seed| {
        let random = &mut Random::new(seed);
        let (tree, model) = grown(random, 8, 300, 2_000);
        let rows = || model.iter().map(|(key, value)| (*key, *value));
        let all: Vec<Change> =
            rows().map(|(key, value)| Change { key, value: Some(value) }).collect();
        for workers in [1, 2, 8] {
            let mut at_once = StateTree::new();
            at_once.apply(&all, workers);
            assert_eq!(at_once.root(), tree.root(), "seed {seed}, {workers} workers");
            assert_eq!(StateTree::load(rows(), workers).root(), tree.root());
        }
        let mut single = StateTree::new();
        let mut left = all;
        while !left.is_empty() {
            let change = left.swap_remove(random.below(left.len() as u64) as usize);
            let passing = key(random, 2_000);
            if !model.contains_key(&passing) {
                let value = Some(value(random, 99));
                single.apply(&[Change { key: passing, value }], 1);
                single.apply(&[change], 1);
                single.apply(&[Change { key: passing, value: None }], 1);
            }
            single.apply(&[change], 1);
        }
        assert_eq!(single.root(), tree.root(), "seed {seed}: one by one");
    });
}

/// Taking out a table, or any other beginning, is deleting its rows.
#[test]
fn what_begins_alike_goes_together() {
    kit::parallel::for_each(0..40, |seed| {
        let random = &mut Random::new(seed);
        let (mut tree, mut model) = grown(random, 4, 300, 2_000);
        let (copy, root) = (tree.clone(), tree.root());
        for _ in 0..5 {
            let key = key(random, 2_000);
            let cut = random.below(key.as_bytes().len() as u64 + 1) as usize;
            let beginning = &key.as_bytes()[..cut.max(usize::from(random.chance(2)) * 4)];
            tree.remove(beginning);
            model.retain(|key, _| !key.as_bytes().starts_with(beginning));
            assert_eq!(tree.root(), model_root(&model), "seed {seed}: without {beginning:?}");
        }
        let all = proofs::Range::beginning(&[]);
        assert_eq!((copy.root(), copy.prove(&all).len() > 100), (root, true));
    });
}

/// Of any shape the definition says so: no branch has an empty side or could be a page.
#[test]
fn every_node_is_what_it_must_be() {
    fn rows(node: &Node) -> (usize, usize) {
        match node {
            Node::Empty => (0, 0),
            Node::Page(page) => {
                let rows = Rows::of(page).count();
                assert!(rows == 1 || page.len() <= 512 && rows > 1);
                (rows, page.len())
            }
            Node::Branch(branch) => {
                let [(l, left), (r, right)] = branch.sides.each_ref().map(|side| rows(&side.node));
                assert!(l > 0 && r > 0 && left + right > 512);
                (l + r, left + right)
            }
        }
    }
    let (tree, model) = grown(&mut Random::new(3), 20, 700, 3_000);
    assert_eq!(rows(&tree.top.node).0, model.len());
}

#[test]
fn nothing_is_a_tree_too() {
    let mut tree = StateTree::new();
    assert_eq!(tree.root(), root_of(&[]));
    tree.apply(&[], 8);
    let row = Change { key: TreeKey::new(1, b"k"), value: None };
    tree.apply(&[row], 1);
    assert_eq!(tree.root(), root_of(&[]));
    assert_eq!(tree.rows().count(), 0);
    tree.apply(&[Change { value: Some(Value { image: [1; 32], height: 1 }), ..row }], 1);
    assert_ne!(tree.root(), root_of(&[]));
    tree.apply(&[row], 1);
    assert_eq!(tree.root(), root_of(&[]));
}

#[test]
#[should_panic(expected = "in order")]
fn a_row_changes_once_in_a_block() {
    let row = Change { key: TreeKey::new(1, b"k"), value: None };
    StateTree::new().apply(&[row, row], 1);
}

/// The longest path that keys can make: it is bounded, and the stack bears it.
#[test]
fn keys_that_begin_one_another_are_borne() {
    let mut keys: Vec<TreeKey> = Vec::new();
    for length in 0..200usize {
        for bit in 0..8 {
            let mut nested = vec![0xff; length];
            nested.push(!(1u8 << bit));
            keys.push(TreeKey::new(9, &nested));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let value = Value { image: [1; 32], height: 1 };
    let rows: Vec<(TreeKey, Value)> = keys.iter().map(|key| (*key, value)).collect();
    let mut tree = StateTree::new();
    for row in &rows {
        tree.apply(&[Change { key: row.0, value: Some(row.1) }], 1);
    }
    assert_eq!(tree.root(), root_of(&rows));
    let longest = keys.iter().map(|key| tree.prove(&proofs::Range::of(key.as_bytes())).len()).max();
    assert!(longest.is_some_and(|bytes| bytes < 1_153 * 35 + 600), "{longest:?}");
}
