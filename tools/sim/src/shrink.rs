//! From a world that breaks a rule to a smaller one that breaks the same.
//!
//! What a seed draws changes with the options, so each smaller choice is tried with some seeds. A
//! failure's own run up to the step where it was seen comes first.

use crate::{Failure, Options, run};

/// Seeds that are tried for each choice.
const SEEDS: u64 = 6;

/// Spends `runs` runs at most.
pub fn shrink(mut failure: Failure, mut runs: usize) -> Failure {
    'smaller: loop {
        for options in candidates(&failure) {
            for offset in 0..SEEDS {
                if runs == 0 {
                    return failure;
                }
                runs -= 1;
                let seed = failure.seed.wrapping_add(offset);
                if let Err(found) = run(seed, &options)
                    && found.invariant == failure.invariant
                {
                    failure = found;
                    continue 'smaller;
                }
            }
        }
        return failure;
    }
}

/// Smaller choices, the boldest first.
fn candidates(failure: &Failure) -> Vec<Options> {
    let Failure { options, step, .. } = failure;
    let with = |change: &dyn Fn(&mut Options)| {
        let mut options = options.clone();
        change(&mut options);
        options
    };
    let all = [
        with(&|o| o.steps = o.steps.min(step + 1)),
        with(&|o| o.nodes = 1),
        with(&|o| o.steps /= 2),
        with(&|o| o.clients = 1),
        with(&|o| o.clients = o.clients.div_ceil(2)),
        with(&|o| o.disk_faults = false),
        with(&|o| o.network_faults = false),
        with(&|o| o.parameter_changes = false),
        with(&|o| o.schema_changes = false),
        with(&|o| o.checkpoints = false),
        with(&|o| o.crashes = false),
        with(&|o| o.steps = o.steps * 4 / 5),
    ];
    all.into_iter().filter(|smaller| smaller.size() < options.size()).collect()
}
