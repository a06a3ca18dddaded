//! Comparisons name what differs, and ask for little.

use super::*;
use crate::{Contradiction, Difference, Peer, Region, Summary};

fn expected(here: &Model, there: &Model) -> Vec<Difference> {
    let mut keys: Vec<TreeKey> = here.keys().chain(there.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let difference =
        |key| Difference { key, here: here.get(&key).copied(), there: there.get(&key).copied() };
    keys.into_iter().map(difference).filter(|found| found.here != found.there).collect()
}

/// Two trees that parted some blocks ago.
pub(super) fn parted(seed: u64) -> Result<(), String> {
    let random = &mut Random::new(seed);
    let (mut here, mut model_here) = grown(random, 3, 300, 3_000);
    let (mut there, mut model_there) = (here.clone(), model_here.clone());
    if random.chance(8) {
        (there, model_there) = (StateTree::new(), Model::new());
    }
    for (tree, model) in [(&mut here, &mut model_here), (&mut there, &mut model_there)] {
        let changes = [0, 1, 5, 50][random.below(4) as usize];
        let changes = block(random, model, 9, changes, 3_000);
        tree.apply(&changes, 1);
        change_model(model, &changes);
    }
    for (mine, other, mine_model, other_model) in
        [(&here, &there, &model_here, &model_there), (&there, &here, &model_there, &model_here)]
    {
        let found = mine.compare(&mut &*other, usize::MAX).map_err(|e| format!("{seed}: {e:?}"))?;
        let expected = expected(mine_model, other_model);
        if found.differences != expected || found.more {
            return Err(format!("seed {seed}: {found:?}, not {expected:?}"));
        }
        let path = |found: &Difference| {
            let key = proofs::Range::of(found.key.as_bytes());
            2 * other.prove(&key).len() / 35
        };
        if found.regions > 1 + expected.iter().map(path).sum::<usize>() {
            return Err(format!("seed {seed}: asked {} for {}", found.regions, expected.len()));
        }
    }
    Ok(())
}

#[test]
fn comparisons_name_every_row() {
    kit::parallel::for_each(0..100, |seed| parted(seed).unwrap());
}

/// A few exchanges for a few rows of many.
#[test]
fn exchanges_are_few() {
    let value = Value { image: [1; 32], height: 1 };
    let rows = (0..100_000u64).map(|n| (TreeKey::new(7, &n.to_be_bytes()), value));
    let here = StateTree::load(rows, 2);
    let mut there = here.clone();
    let other = Some(Value { image: [2; 32], height: 1 });
    let changes = [5u64, 70_000, 99_999]
        .map(|n| Change { key: TreeKey::new(7, &n.to_be_bytes()), value: other });
    there.apply(&changes, 1);
    let compared = here.compare(&mut &there, usize::MAX).unwrap();
    assert_eq!(compared.differences.len(), 3);
    assert!(compared.rounds <= 18, "{compared:?}");
    assert!(compared.regions <= 3 * 18, "{compared:?}");
    let same = here.compare(&mut &here.clone(), usize::MAX).unwrap();
    assert_eq!((same.rounds, same.differences.len()), (0, 0));
    let some = StateTree::new().compare(&mut &there, 1_000).unwrap();
    assert!(some.more && (1_000..100_000).contains(&some.differences.len()));
}

/// A peer that changes one of its answers.
struct Liar<'a> {
    tree: &'a StateTree,
    answers_until_lie: usize,
    lie: fn(&mut Summary),
}

impl Peer for Liar<'_> {
    type Error = ();

    fn root(&mut self) -> Result<Hash, ()> {
        Ok(self.tree.root())
    }

    fn summaries(&mut self, regions: &[Region]) -> Result<Vec<Summary>, ()> {
        let answer = |region: &Region| {
            let mut summary = self.tree.summary(region);
            if self.answers_until_lie == 0 {
                (self.lie)(&mut summary);
            }
            self.answers_until_lie = self.answers_until_lie.wrapping_sub(1);
            summary
        };
        Ok(regions.iter().map(answer).collect())
    }
}

const LIES: [fn(&mut Summary); 5] = [
    |summary| *summary = Summary::Page(Vec::new()),
    |summary| {
        if let Summary::Page(page) = summary {
            page[45] ^= 1;
        } else {
            *summary = Summary::Page(vec![1]);
        }
    },
    |summary| match summary {
        Summary::Branch { sides, .. } => sides[1][0] ^= 1,
        Summary::Page(page) => page.truncate(3),
    },
    // A key that is not of the subtree has its rows looked for elsewhere.
    |summary| match summary {
        Summary::Branch { key, .. } => *key = TreeKey::new(u32::MAX, b""),
        Summary::Page(page) => page.clear(),
    },
    |summary| match summary {
        Summary::Branch { position, .. } => *position += 1,
        Summary::Page(page) => page.reverse(),
    },
];

pub(super) fn lies(seed: u64) -> Result<(), String> {
    let random = &mut Random::new(seed);
    let (tree, _) = grown(random, 3, 400, 3_000);
    let mut other = tree.clone();
    other.apply(&[Change { key: TreeKey::new(7, &[3; 8]), value: Some(value(random, 50)) }], 1);
    for lie in LIES {
        let asked = 1 + random.below(4) as usize;
        let mut liar = Liar { tree: &other, answers_until_lie: asked, lie };
        let reported = tree.compare(&mut liar, usize::MAX);
        if liar.answers_until_lie < usize::MAX / 2 {
            continue; // The comparison was over before the lie.
        }
        if !matches!(reported, Err(Contradiction::Answer(_))) {
            return Err(format!("seed {seed}: believed: {reported:?}"));
        }
    }
    Ok(())
}

#[test]
fn lies_are_seen() {
    kit::parallel::for_each(0..20, |seed| lies(seed).unwrap());
}
