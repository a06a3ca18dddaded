//! Changing the tree: a block's changes go down together, hashes come up once.

use std::sync::Arc;

use proofs::{
    BITS_PER_BYTE, Hash, PAGE_BYTES_MAX, Row, Rows, TreeKey, VALUE_BYTES, bit, branch_hash,
    first_difference, page_hash, put_row,
};

use crate::node::{Node, Side, StateTree};

/// What the root commits to of a row that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    /// The hash of the row's image.
    pub image: Hash,
    /// Of the block that changed the row last.
    pub height: u64,
}

/// What becomes of a row: this, or, without a value, nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    pub key: TreeKey,
    pub value: Option<Value>,
}

/// Fewer changes than this are not worth a thread.
const CHANGES_PER_WORKER_MIN: usize = 128;

/// Paths that are gone down together.
const CHANGES_TOGETHER: usize = 16;
const CACHE_LINE: usize = 64;

/// How many rows are brought in together where all come in order.
const ROWS_PER_LOAD: usize = 16_384;

impl StateTree {
    /// Makes changes, on up to `workers` threads. Deleting a row that is not there changes nothing.
    ///
    /// # Panics
    /// If keys do not ascend: a caller that names a row twice does not know what it is to become.
    pub fn apply(&mut self, changes: &[Change], workers: usize) {
        assert!(changes.is_sorted_by(|a, b| a.key < b.key), "changes of one row each, in order");
        if changes.len() >= CHANGES_TOGETHER {
            fetch(&self.top.node, changes);
        }
        let top = std::mem::replace(&mut self.top, Side::empty());
        self.top = apply(top, changes, workers);
    }

    /// Takes out all rows whose tree keys begin so: with the four bytes of an id, a table's. Costs
    /// a path, and what freeing the rows takes.
    pub fn remove(&mut self, beginning: &[u8]) {
        let top = std::mem::replace(&mut self.top, Side::empty());
        self.top = cut(top, beginning);
    }

    /// The tree of rows that come in the order of their tree keys: a checkpoint's.
    pub fn load(rows: impl IntoIterator<Item = (TreeKey, Value)>, workers: usize) -> StateTree {
        let mut tree = StateTree::new();
        let mut rows = rows.into_iter().map(|(key, value)| Change { key, value: Some(value) });
        let mut some = Vec::new();
        loop {
            some.clear();
            some.extend(rows.by_ref().take(ROWS_PER_LOAD));
            if some.is_empty() {
                return tree;
            }
            tree.apply(&some, workers);
        }
    }
}

/// Goes down every path once, some of them together, so that memory answers for all of them at a
/// time: what comes then finds the nodes in the cache.
fn fetch(top: &Node, changes: &[Change]) {
    for changes in changes.chunks(CHANGES_TOGETHER) {
        let mut nodes = [top; CHANGES_TOGETHER];
        let (mut sum, mut deeper) = (0, true);
        while deeper {
            deeper = false;
            for (node, change) in nodes.iter_mut().zip(changes) {
                *node = match *node {
                    Node::Empty => continue,
                    Node::Page(page) => {
                        sum ^= page.iter().step_by(CACHE_LINE).fold(0, |sum, byte| sum ^ byte);
                        &Node::Empty
                    }
                    Node::Branch(branch) => {
                        let [left, right] = &branch.sides;
                        sum ^= left.hash[0] ^ right.hash[0] ^ right.hash[31];
                        let side = bit(change.key.as_bytes(), branch.position);
                        &branch.sides[usize::from(side)].node
                    }
                };
                deeper = true;
            }
        }
        std::hint::black_box(sum);
    }
}

fn apply(side: Side, changes: &[Change], workers: usize) -> Side {
    let Some(first) = changes.first() else {
        return side;
    };
    match side.node {
        Node::Empty => fresh(changes, workers),
        Node::Page(page) => merge(page, changes, workers),
        Node::Branch(_) => {
            let key = first.key.as_bytes();
            let known = TreeKey::of_bytes(side.node.key_toward(key)).unwrap_or(first.key);
            branch(side, changes, known.as_bytes(), workers)
        }
    }
}

/// Changes below a branch, of whose keys one is known.
fn branch(side: Side, changes: &[Change], known: &[u8], workers: usize) -> Side {
    let Node::Branch(mut node) = side.node else {
        return apply(side, changes, workers);
    };
    let leaves = |change: &Change| first_difference(change.key.as_bytes(), known);
    // Changes are in order, so none leaves the keys of this subtree before the first or last does.
    let ends = changes.first().into_iter().chain(changes.last());
    let leaving = ends.filter_map(leaves).min().filter(|at| *at < node.position);
    let leaving = leaving.filter(|_| !kit::mutant::mutated("tree_key_misplaced"));
    let position = leaving.unwrap_or(node.position);
    let (left, right) = part(changes, position);
    if leaving.is_some() {
        let inside = Side { hash: side.hash, node: Node::Branch(node) };
        let [left, right] = if bit(known, position) {
            [fresh(left, workers), branch(inside, right, known, workers)]
        } else {
            [branch(inside, left, known, workers), fresh(right, workers)]
        };
        return Side::join(position, left, right);
    }
    if changes.is_empty() {
        return Side { hash: side.hash, node: Node::Branch(node) };
    }
    // In place where no other tree has the branch.
    let sides = &mut Arc::make_mut(&mut node).sides;
    let [l, r] = sides.each_mut().map(|side| std::mem::replace(side, Side::taken()));
    let toward = bit(known, position);
    let below = |side, changes, known_side, workers| match toward == known_side {
        true => branch(side, changes, known, workers),
        false => apply(side, changes, workers),
    };
    let [l, r] = on_two(
        workers.min(changes.len() / CHANGES_PER_WORKER_MIN),
        |workers| below(l, left, false, workers),
        |workers| below(r, right, true, workers),
    );
    if l.stays_beside(&r) {
        let outdated = kit::mutant::mutated("tree_hash_outdated") && !right.is_empty();
        let hash = match outdated {
            true => side.hash,
            false => branch_hash(position, &l.hash, &r.hash),
        };
        Arc::make_mut(&mut node).sides = [l, r];
        return Side { hash, node: Node::Branch(node) };
    }
    Side::join(position, l, r)
}

/// What is left of a subtree without the keys that begin so.
fn cut(side: Side, beginning: &[u8]) -> Side {
    match side.node {
        Node::Empty => side,
        Node::Page(page) => {
            let mut left = Page::with_capacity(page.len());
            let stays = |row: &Row<'_>| !row.key.starts_with(beginning);
            Rows::of(&page).filter(stays).for_each(|row| left.push(&row));
            left.build(1)
        }
        Node::Branch(mut node) => {
            let position = node.position;
            if usize::from(position) >= beginning.len() * BITS_PER_BYTE {
                let all = node.sides[0].node.any_key().starts_with(beginning);
                return if all { Side::empty() } else { Side { node: Node::Branch(node), ..side } };
            }
            let sides = &mut Arc::make_mut(&mut node).sides;
            let [left, right] = sides.each_mut().map(|side| std::mem::replace(side, Side::taken()));
            match bit(beginning, position) {
                false => Side::join(position, cut(left, beginning), right),
                true => Side::join(position, left, cut(right, beginning)),
            }
        }
    }
}

/// The changes of keys whose bit is clear, and of those whose is set.
fn part(changes: &[Change], position: u16) -> (&[Change], &[Change]) {
    changes.split_at(changes.partition_point(|change| !bit(change.key.as_bytes(), position)))
}

/// Does two things, on two threads if there are workers for that.
fn on_two(
    workers: usize,
    left: impl FnOnce(usize) -> Side + Send,
    right: impl FnOnce(usize) -> Side + Send,
) -> [Side; 2] {
    if workers < 2 {
        return [left(1), right(1)];
    }
    std::thread::scope(|scope| {
        let right = scope.spawn(move || right(workers / 2));
        let left = left(workers - workers / 2);
        match right.join() {
            Ok(right) => [left, right],
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The rows of a page with changes.
fn merge(mut page: Arc<[u8]>, changes: &[Change], workers: usize) -> Side {
    if let Some(bytes) = Arc::get_mut(&mut page)
        && overwrite(bytes, changes).is_some()
    {
        return Side { hash: page_hash(&page), node: Node::Page(page) };
    }
    let mut merged = Page::with_capacity(page.len() + changes.len() * 64);
    let mut rows = Rows::of(&page).peekable();
    for change in changes {
        let key = change.key.as_bytes();
        while let Some(row) = rows.next_if(|row| row.key < key) {
            merged.push(&row);
        }
        let old = rows.next_if(|row| row.key == key);
        if let Some(value) = change.value {
            let stays = old.is_some_and(|old| old.image == value.image);
            let height = match old {
                Some(old) if stays && kit::mutant::mutated("tree_height_forgotten") => old.height,
                _ => value.height,
            };
            merged.push(&Row { key, image: value.image, height });
        } else if kit::mutant::mutated("tree_row_not_deleted") {
            old.iter().for_each(|row| merged.push(row));
        }
    }
    rows.for_each(|row| merged.push(&row));
    merged.build(workers)
}

/// Changes values in place, if all changes are of rows that are there and stay; else nothing.
fn overwrite(page: &mut [u8], changes: &[Change]) -> Option<()> {
    let mut from = 0;
    for change in changes {
        from = value_after(page, from, change.key.as_bytes())? + VALUE_BYTES;
        change.value?;
    }
    from = 0;
    for change in changes {
        let (at, value) = (value_after(page, from, change.key.as_bytes())?, change.value?);
        page[at..at + 32].copy_from_slice(&value.image);
        page[at + 32..at + VALUE_BYTES].copy_from_slice(&value.height.to_be_bytes());
        from = at + VALUE_BYTES;
    }
    Some(())
}

/// Where the value of a key begins, which is not before the row at `from`.
fn value_after(page: &[u8], mut from: usize, key: &[u8]) -> Option<usize> {
    loop {
        let value = from + 1 + usize::from(*page.get(from)?);
        if page.get(from + 1..value)? == key {
            return Some(value);
        }
        from = value + VALUE_BYTES;
    }
}

/// A subtree where there was none.
fn fresh(changes: &[Change], workers: usize) -> Side {
    let mut page = Page::with_capacity(changes.len() * 64);
    for change in changes {
        if let Some(Value { image, height }) = change.value {
            page.push(&Row { key: change.key.as_bytes(), image, height });
        }
    }
    page.build(workers)
}

/// Rows on their way to pages.
struct Page {
    bytes: Vec<u8>,
    /// Where each row begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Page {
    fn with_capacity(bytes: usize) -> Page {
        Page { bytes: Vec::with_capacity(bytes), starts: vec![0] }
    }

    fn push(&mut self, row: &Row<'_>) {
        put_row(row, |piece| self.bytes.extend_from_slice(piece));
        self.starts.push(self.bytes.len());
    }

    fn build(&self, workers: usize) -> Side {
        build(&self.bytes, &self.starts, workers)
    }
}

/// The subtree of some rows: this is what the shape *is*.
fn build(bytes: &[u8], starts: &[usize], workers: usize) -> Side {
    let rows = starts.len() - 1;
    let (begin, end) = (starts[0], starts[rows]);
    if rows == 0 {
        return Side::empty();
    }
    let more = if kit::mutant::mutated("tree_pages_too_large") { 54 } else { 0 };
    if rows == 1 || end - begin <= PAGE_BYTES_MAX + more {
        return Side::page(&bytes[begin..end]);
    }
    let key = |row: usize| {
        let length = usize::from(bytes[starts[row]]);
        &bytes[starts[row] + 1..starts[row] + 1 + length]
    };
    // Two rows of a tree never have one key.
    let position = first_difference(key(0), key(rows - 1)).unwrap_or_default();
    let (mut low, mut high) = (0, rows);
    while low < high {
        let middle = (low + high) / 2;
        match bit(key(middle), position) {
            false => low = middle + 1,
            true => high = middle,
        }
    }
    let [left, right] = on_two(
        workers.min(rows / CHANGES_PER_WORKER_MIN),
        |workers| build(bytes, &starts[..=low], workers),
        |workers| build(bytes, &starts[low..], workers),
    );
    Side::branch(position, left, right)
}
