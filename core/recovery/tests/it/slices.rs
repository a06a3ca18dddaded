//! The definitions themselves, tried out on small programs: of all partitions that are allowed, the
//! slices are the finest; and flow is no more than what steps read and stand under.

use std::collections::BTreeSet;

use kit::random::Random;
use procedure::analysis::Analysis as Steps;
use recovery::analysis::LocalGraph;
use recovery::analysis::Operation;
use recovery::analysis::operations::operations;
use recovery::analysis::projection::Role;
use recovery::analysis::slices::flow;

/// Few enough that all partitions can be looked at.
const OPERATIONS_MAX: usize = 7;

/// Every partition of `0..count`, as a class for each.
fn partitions(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        let with_one_more = |classes: &Vec<usize>| {
            let next = classes.iter().max().map_or(0, |max| max + 1);
            let classes = classes.clone();
            (0..=next).map(move |class| [&classes[..], &[class]].concat())
        };
        all = all.iter().flat_map(with_one_more).collect();
    }
    all
}

/// Whether nothing that lies between two members of a class, on a way of flow, is outside of it.
fn is_allowed(classes: &[usize], operations: &[Operation], flow: &[(usize, usize)]) -> bool {
    let count = operations.len();
    let together = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
    for (a, b) in together {
        if operations[a].is_data_dependent(&operations[b]) && classes[a] != classes[b] {
            return false;
        }
    }
    // Reachability between classes, by brute force: a way out of a class never leads back.
    let mut reaches = vec![vec![false; count]; count];
    flow.iter().for_each(|&(a, b)| reaches[classes[a]][classes[b]] |= classes[a] != classes[b]);
    for middle in 0..count {
        for a in 0..count {
            for b in 0..count {
                reaches[a][b] |= reaches[a][middle] && reaches[middle][b];
            }
        }
    }
    (0..count).all(|class| !reaches[class][class])
}

fn is_finer(ours: &[usize], theirs: &[usize]) -> bool {
    let pairs = (0..ours.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let mut split = pairs.filter(|&(a, b)| ours[a] == ours[b] && theirs[a] != theirs[b]);
    split.next().is_none()
}

#[test]
fn slices_are_the_finest_partition_that_the_definition_allows() {
    let (mut tried, mut cut) = (0, 0);
    for seed in 0..400 {
        let program = crate::several::any_program(&mut Random::new(seed));
        let found = operations(&program);
        if found.len() > OPERATIONS_MAX {
            continue;
        }
        let flow = flow(&program, &found, &|_| Role::Foreign, None);
        let local = LocalGraph::new(&found, &flow);
        let mut ours = vec![0; found.len()];
        for (slice, members) in local.slices.iter().enumerate() {
            members.iter().for_each(|member| ours[*member] = slice);
        }
        assert!(is_allowed(&ours, &found, &flow), "seed {seed}");
        for theirs in partitions(found.len()) {
            if is_allowed(&theirs, &found, &flow) {
                assert!(is_finer(&ours, &theirs), "seed {seed}: {theirs:?} is finer");
            }
        }
        tried += 1;
        cut += usize::from(local.slices.len() > 1);
    }
    assert!(tried > 100 && cut > 50, "{tried} programs, {cut} of several slices");
}

/// The steps' own facts are coarser (a branch depends on all that its phis take), and know only of
/// leavers that stand before a step: those of the loop around it count as well.
#[test]
fn flow_is_within_what_steps_read_and_stand_under() {
    for seed in 0..400 {
        let program = crate::several::any_program(&mut Random::new(seed));
        let found = operations(&program);
        let steps = Steps::of(&program).steps;
        for (before, after) in flow(&program, &found, &|_| Role::Foreign, None) {
            let (before, after) = (found[before].step, found[after].step);
            let mut reached = BTreeSet::new();
            let mut left = vec![after];
            while let Some(step) = left.pop() {
                if reached.insert(step) {
                    let facts = &steps[step as usize];
                    left.extend(facts.inputs());
                    // All that stands in a loop around may end it.
                    let inside = |at: &u32| steps[*at as usize].parent == Some(step);
                    left.extend((0..steps.len() as u32).filter(inside));
                }
            }
            assert!(reached.contains(&before), "seed {seed}: step {after} has nothing of {before}");
        }
    }
}
