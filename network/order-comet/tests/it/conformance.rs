//! The promises that every orderer makes, and mutants that break them.

use kit::mutant;
use order::conformance::run;

use crate::fake::Fake;

fn conforms(nodes: usize, lag: u64, seed: u64) {
    if let Err(broken) = run(&mut Fake::new(nodes, lag, seed)) {
        panic!("{nodes} nodes, lag {lag}: {}: {}", broken.step, broken.what);
    }
}

#[test]
fn any_number_of_nodes_conforms() {
    for (nodes, lag) in [(1, 0), (1, 1), (3, 1), (4, 0), (4, 1), (4, 2)] {
        conforms(nodes, lag, nodes as u64);
    }
}

#[test]
fn each_mutant_is_found() {
    for bug in mutant::COMET {
        let _guard = mutant::enter(Some(bug));
        let found = (0..20).any(|seed| {
            let tried = std::panic::catch_unwind(|| run(&mut Fake::new(3, 1, seed)).is_err());
            tried.unwrap_or(true)
        });
        assert!(found, "{bug} is not found");
    }
}
