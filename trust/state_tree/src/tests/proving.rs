//! Proofs: what is accepted is the truth, and nothing but the whole of it.

use proofs::{Entry, Range, Refused, verify};

use super::*;

type Shown = Vec<(Vec<u8>, Value)>;

fn shown_by(proof: &[u8], root: &Hash, range: Range<'_>) -> Result<Shown, Refused> {
    let mut stack = vec![Entry::EMPTY; 1_153];
    let proven = verify(proof, root, range, &mut stack)?;
    let value = |row: proofs::Row<'_>| Value { image: row.image, height: row.height };
    Ok(proven.rows().map(|row| (row.key.to_vec(), value(row))).collect())
}

fn true_rows(model: &Model, range: Range<'_>) -> Shown {
    let rows = model.iter().filter(|(key, _)| range.contains(key.as_bytes()));
    rows.map(|(key, value)| (key.as_bytes().to_vec(), *value)).collect()
}

/// The ends of a range, and whether it extends: of one key, of a beginning, of anything between.
fn ends(random: &mut Random) -> (Vec<u8>, Vec<u8>, bool) {
    let one = key(random, 2_000).as_bytes().to_vec();
    match random.below(4) {
        0 => (one.clone(), one, false),
        1 => {
            let cut = random.below(one.len() as u64 + 1) as usize;
            (one[..cut].to_vec(), one[..cut].to_vec(), true)
        }
        _ => {
            let other = key(random, 2_000).as_bytes().to_vec();
            (one.clone().min(other.clone()), one.max(other), random.chance(3))
        }
    }
}

fn range((first, last, extends): &(Vec<u8>, Vec<u8>, bool)) -> Range<'_> {
    Range { first, last, extends: *extends }
}

/// Every range has a proof, and no proof of any other range passes for it unless it shows all.
pub(super) fn ranges(seed: u64) -> Result<(), String> {
    let random = &mut Random::new(seed);
    let (blocks, changes) = (1 + random.below(5), [0, 3, 40, 400][random.below(4) as usize]);
    let (tree, model) = grown(random, blocks, changes, 2_000);
    let all: Vec<_> = (0..30).map(|_| ends(random)).collect();
    let proofs: Vec<Vec<u8>> = all.iter().map(|ends| tree.prove(&range(ends))).collect();
    for (n, ends) in all.iter().enumerate() {
        let expected = true_rows(&model, range(ends));
        let shown = shown_by(&proofs[n], &tree.root(), range(ends));
        if shown.as_ref() != Ok(&expected) {
            return Err(format!("seed {seed}: {ends:?}: {shown:?}, not {expected:?}"));
        }
        for other in &proofs {
            if let Ok(shown) = shown_by(other, &tree.root(), range(ends))
                && shown != expected
            {
                return Err(format!("seed {seed}: {ends:?} shown as {shown:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn proofs_show_all_there_is() {
    kit::parallel::for_each(0..60, |seed| ranges(seed).unwrap());
}

/// No byte of a proof can be another one, none can be missing, and none follow.
#[test]
fn every_mutated_byte_is_refused() {
    let random = &mut Random::new(5);
    let (tree, model) = grown(random, 4, 300, 2_000);
    let mut kinds = [0, 0, 0];
    for _ in 0..24 {
        let ends = ends(random);
        let proof = tree.prove(&range(&ends));
        if proof.len() > 6_000 {
            continue;
        }
        kinds[true_rows(&model, range(&ends)).len().min(2)] += 1;
        for at in 0..proof.len() {
            for flip in [1, 2, 3, 0x80, 0xff] {
                let mut mutated = proof.clone();
                mutated[at] ^= flip;
                assert!(shown_by(&mutated, &tree.root(), range(&ends)).is_err(), "byte {at}");
            }
            assert!(shown_by(&proof[..at], &tree.root(), range(&ends)).is_err(), "cut at {at}");
        }
        for extra in [&[0][..], &[0, 0, 0], &[3, 0, 0]] {
            let longer = [&*proof, extra].concat();
            assert!(shown_by(&longer, &tree.root(), range(&ends)).is_err());
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "absences, rows and ranges: {kinds:?}");
}

/// Proofs of trees that leave out a row, add one or change one do not pass for the true tree, and
/// hostile changes of true ones show nothing false.
#[test]
fn forged_proofs_are_refused() {
    let random = &mut Random::new(6);
    let (tree, model) = grown(random, 4, 300, 2_000);
    let mut honest = Vec::new();
    for _ in 0..200 {
        let ends = ends(random);
        let proof = tree.prove(&range(&ends));
        let rows = true_rows(&model, range(&ends));
        let victim = key(random, 2_000);
        let victim = model.range(victim..).next().map_or(victim, |(key, _)| *key);
        for value in [None, Some(Value { image: [9; 32], height: 77 })] {
            let mut other = tree.clone();
            other.apply(&[Change { key: victim, value }], 1);
            let forged = shown_by(&other.prove(&range(&ends)), &tree.root(), range(&ends));
            assert!(forged.is_err() || forged == Ok(rows.clone()));
        }
        honest.push(proof.clone());
        for _ in 0..50 {
            let mut mutated = proof.clone();
            kit::mutation::mutate(&mut mutated, &honest, random);
            if let Ok(shown) = shown_by(&mutated, &tree.root(), range(&ends)) {
                assert_eq!(shown, rows);
            }
        }
    }
}

/// The sizes that are promised, of a table of a million rows' depth.
#[test]
fn proofs_are_small() {
    let value = Value { image: [1; 32], height: 1 };
    let tree_key = |n: u64| TreeKey::new(7, &n.to_be_bytes());
    let tree = StateTree::load((0..50_000).map(|n| (tree_key(n * 3), value)), 2);
    for n in [0, 1, 77_777, 149_997] {
        let proof = tree.prove(&Range::of(tree_key(n).as_bytes()));
        let shown = shown_by(&proof, &tree.root(), Range::of(tree_key(n).as_bytes())).unwrap();
        assert_eq!(shown.len(), usize::from(n % 3 == 0));
        // 23 branches less deep than ten million rows are by 8.
        assert!(proof.len() + 8 * 35 <= 2_000, "{} bytes", proof.len());
    }
    let (first, last) = (tree_key(3_000), tree_key(6_000));
    let range = Range { first: first.as_bytes(), last: last.as_bytes(), extends: false };
    let proof = tree.prove(&range);
    assert_eq!(shown_by(&proof, &tree.root(), range).unwrap().len(), 1_001);
    assert!(proof.len() < 1_001 * 54 + 4_000, "{} bytes", proof.len());
}

/// One entry is stack enough for a row and for an absence.
#[test]
fn a_row_needs_no_stack() {
    let random = &mut Random::new(7);
    let (tree, _) = grown(random, 5, 400, 2_000);
    for _ in 0..100 {
        let key = key(random, 2_000);
        let range = Range::of(key.as_bytes());
        assert!(verify(&tree.prove(&range), &tree.root(), range, &mut [Entry::EMPTY]).is_ok());
    }
}
