//! Shrinks a failing world: transactions, operations and rows are removed as long as the fault
//! still shows.

use std::fmt;

use concurrency::test_mode::{Interleaving, TestMode};
use concurrency::{BlockOutcome, Outcome, WorkerPool};

use crate::Divergence;
use crate::recipe::{Recipe, without_one};
use crate::subjects::Subject;
use crate::world::World;

/// A fault, with the smallest world that was found to show it. Its `Display` is what a failing
/// test prints.
#[derive(Debug)]
pub struct Failure {
    pub subject: String,
    /// The family of worlds and the seed that it came from.
    pub family: String,
    pub seed: u64,
    pub workers: usize,
    pub test_mode: TestMode,
    pub world: World,
    pub divergence: Divergence,
    /// Transactions before it was made smaller.
    pub transactions_at_first: usize,
}

/// Runs that are spent on making one world smaller.
const RUNS_MAX: usize = 3_000;

impl Failure {
    /// Make the world, which diverges, as small as it goes.
    pub fn smallest(
        subject: &Subject,
        (family, seed): (&str, u64),
        pool: &WorkerPool,
        test_mode: TestMode,
        (world, divergence): (World, Divergence),
    ) -> Box<Failure> {
        let transactions_at_first = world.transactions();
        // A shaken schedule does not come back, so a fault that needs one is tried for some time.
        let tries = match test_mode.interleaving {
            Interleaving::Shaken(_) => 20,
            Interleaving::Free | Interleaving::Chosen(_) => 1,
        };
        let fails = |world: &World| {
            (0..tries).find_map(|_| world.run(&subject.protocol, pool, test_mode).err())
        };
        let (world, divergence) = shrink(world, divergence, candidates, fails);
        Box::new(Failure {
            subject: subject.name.clone(),
            family: family.to_owned(),
            seed,
            workers: pool.workers(),
            test_mode,
            world,
            divergence,
            transactions_at_first,
        })
    }
}

/// Goes on to a smaller candidate as long as one fails as well.
pub fn shrink<T, F>(
    mut thing: T,
    mut fault: F,
    candidates: impl Fn(&T) -> Box<dyn Iterator<Item = T> + '_>,
    fails: impl Fn(&T) -> Option<F>,
) -> (T, F) {
    let mut runs_left = RUNS_MAX;
    let mut smaller = |thing: &T| {
        let affordable = candidates(thing).take_while(|_| {
            runs_left = runs_left.saturating_sub(1);
            runs_left > 0
        });
        affordable
            .map(|candidate| (fails(&candidate), candidate))
            .find_map(|(fault, candidate)| Some((candidate, fault?)))
    };
    while let Some(found) = smaller(&thing) {
        (thing, fault) = found;
    }
    (thing, fault)
}

/// Smaller worlds, the much smaller ones first.
fn candidates(world: &World) -> Box<dyn Iterator<Item = World> + '_> {
    let with_blocks = |blocks| World { blocks, ..world.clone() };
    let fewer_blocks = without_one(&world.blocks).map(with_blocks);
    let csns = (0..world.blocks.len()).rev();
    let fewer_transactions = csns.clone().flat_map(move |at| {
        let with_block = move |block| {
            let mut blocks = world.blocks.clone();
            blocks[at] = block;
            with_blocks(blocks)
        };
        without_some(&world.blocks[at]).map(with_block)
    });
    let smaller_transactions = csns.flat_map(move |at| {
        world.blocks[at].iter().enumerate().flat_map(move |(csn, recipe)| {
            recipe.smaller().into_iter().map(move |recipe: Recipe| {
                let mut blocks = world.blocks.clone();
                blocks[at][csn] = recipe;
                with_blocks(blocks)
            })
        })
    });
    let fewer_rows = (0..world.filled).map(|filled| World { filled, ..world.clone() });
    let fewer = fewer_blocks.chain(fewer_transactions);
    Box::new(fewer.chain(smaller_transactions).chain(fewer_rows))
}

/// A list without its halves, its quarters, … its single items.
fn without_some<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    let sizes = std::iter::successors(Some(items.len().div_ceil(2)), |&size| {
        (size > 1).then(|| size.div_ceil(2))
    });
    sizes.filter(|&size| size > 0).flat_map(move |size| {
        (0..items.len()).step_by(size).map(move |from| {
            let to = (from + size).min(items.len());
            [&items[..from], &items[to..]].concat()
        })
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { subject, family, seed, workers, world, divergence, .. } = self;
        write!(f, "{subject}: \"{family}\", seed {seed}, {workers} workers")?;
        if let Some(mutant) = self.test_mode.mutant {
            write!(f, ", with {mutant:?}")?;
        }
        match self.test_mode.interleaving {
            Interleaving::Free => {}
            Interleaving::Shaken(seed) => write!(f, ", shaken by {seed}")?,
            Interleaving::Chosen(seed) => write!(f, ", interleaved by {seed}")?,
        }
        writeln!(
            f,
            "; made smaller from {} transactions to {}:\n{world}  {divergence}",
            self.transactions_at_first,
            world.transactions()
        )?;
        match &divergence.outcome {
            Some(outcome) => write_outcome(f, outcome),
            None => Ok(()),
        }
    }
}

fn write_outcome(f: &mut fmt::Formatter<'_>, outcome: &BlockOutcome) -> fmt::Result {
    writeln!(f, "  claimed order {:?}", outcome.serial_order)?;
    if !outcome.deferred.is_empty() {
        writeln!(f, "  deferred {:?}", outcome.deferred)?;
    }
    for (at, outcome) in outcome.outcomes.iter().enumerate() {
        match outcome {
            Outcome::Committed(result) => writeln!(f, "    T{at:<3} committed {:?}", result.rows)?,
            Outcome::Rejected(error) => writeln!(f, "    T{at:<3} rejected: {}", error.message())?,
            Outcome::Retry(error) => writeln!(f, "    T{at:<3} retry: {}", error.message())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Operation;
    use crate::recipe::Call;

    /// A fault that needs one `Delete` before one `Read` is cut down to those two.
    #[test]
    fn a_failing_world_is_cut_down_to_what_it_needs() {
        let call = |operation| Call { operation, key: 0, number: 0 };
        let noise = Recipe::Program(vec![call(Operation::Add), call(Operation::Touch)]);
        let needed = [Operation::Delete, Operation::Read].map(|needed| {
            Recipe::Program(vec![call(Operation::Exists), call(needed), call(Operation::Add)])
        });
        let mut block = vec![noise; 40];
        block[7] = needed[0].clone();
        block[31] = needed[1].clone();
        let world = World { filled: 3, blocks: vec![block.clone(), block], collects: true };
        let fails = |world: &World| {
            let calls = world.blocks.iter().flatten().flat_map(|recipe| match recipe {
                Recipe::Program(calls) => calls.clone(),
                _ => Vec::new(),
            });
            let operations: Vec<_> = calls.map(|call| call.operation).collect();
            let delete = operations.iter().position(|o| *o == Operation::Delete)?;
            let read = operations.iter().rposition(|o| *o == Operation::Read)?;
            let what = String::new();
            (delete < read).then_some(Divergence { height: 1, what, outcome: None })
        };
        let divergence = fails(&world).expect("the world fails");
        let (smallest, _) = shrink(world, divergence, candidates, fails);
        assert_eq!((smallest.filled, smallest.transactions()), (0, 2));
        let lengths = smallest.blocks.iter().flatten().map(|recipe| match recipe {
            Recipe::Program(calls) => calls.len(),
            _ => 0,
        });
        assert_eq!(lengths.sum::<usize>(), 2);
    }
}
