//! Worlds that hold, and bugs that are found. More worlds: `TALLY_SIM_SEEDS=1000`.

use sim::{Failure, Options, PROTOCOLS, run, shrink};

fn seeds() -> u64 {
    std::env::var("TALLY_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12)
}

fn hold(protocol: &str, seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        if let Err(failure) = run(seed, &Options::of_seed(seed, Some(protocol))) {
            panic!("{failure}\n\nsmaller:\n{}", shrink(failure.clone(), 100));
        }
    }
}

#[test]
fn every_world_of_every_protocol_holds() {
    PROTOCOLS.iter().for_each(|protocol| hold(protocol, 0..seeds()));
}

#[test]
fn a_seed_says_all_there_is_to_say() {
    for seed in 0..3 {
        let options = Options::of_seed(seed, Some("harmony:fallback=defer"));
        assert_eq!(run(seed, &options).ok(), run(seed, &options).ok());
    }
}

/// The first world that shows a bug.
fn found(mutant: &'static str, protocol: &str) -> Option<Failure> {
    let world = |seed| {
        let drawn = Options::of_seed(seed, Some(protocol));
        // What hides no bug and brings most of them about.
        let options =
            Options { crashes: true, checkpoints: true, hot: true, mutant: Some(mutant), ..drawn };
        run(seed, &options).err()
    };
    (0..300).find_map(world)
}

/// It comes back by its seed, and a smaller world shows it too.
fn check(mutant: &'static str, protocol: &str, invariants: &[&str]) {
    let failure = found(mutant, protocol).unwrap_or_else(|| panic!("{mutant} was not found"));
    println!("{mutant}: {failure}");
    assert!(invariants.contains(&failure.invariant), "{mutant}: {failure}");
    let again = run(failure.seed, &failure.options).expect_err("a seed that failed");
    assert_eq!((again.step, &again.what), (failure.step, &failure.what));
    let smaller = shrink(failure.clone(), 40);
    assert_eq!(smaller.invariant, failure.invariant);
    assert!(smaller.options.size() < failure.options.size(), "{mutant}: {smaller}");
}

#[test]
fn a_block_that_is_released_before_it_is_durable_is_found() {
    check("released_before_durable", "calvin", &["acknowledged", "one ledger", "panic"]);
}

#[test]
fn a_snapshot_that_is_too_old_is_found() {
    check("lag_off_by_one", "calvin", &["halt"]);
    check("lag_off_by_one", "harmony:inter_block=on", &["serial replay", "halt"]);
}

#[test]
fn a_reader_of_an_unsafe_height_is_found() {
    check("unsafe_height_read", "harmony:inter_block=on", &["own past"]);
}

#[test]
fn a_request_that_runs_twice_is_found() {
    check("repeats_run", "serial", &["at most once"]);
}

#[test]
fn a_start_that_forgets_is_found() {
    let invariants = ["at most once", "outcome of a key", "one ledger", "replay", "recovery"];
    check("submissions_forgotten", "serial", &invariants);
    let invariants = ["one ledger", "replay", "recovery", "carried over", "progress", "halt"];
    check("deferred_forgotten", "harmony:fallback=defer", &invariants);
    // Blocks that overlap take more of a world, so that few smaller ones show it.
    assert!(found("deferred_forgotten", "harmony:inter_block=on:fallback=defer").is_some());
}

#[test]
fn a_start_without_the_older_states_is_found() {
    let invariants = ["one ledger", "replay", "recovery", "halt", "serial replay"];
    check("past_forgotten", "fabric:lag=2", &invariants);
}

#[test]
fn a_program_of_an_old_schema_is_found() {
    let invariants = ["serial replay", "one ledger", "replay", "recovery"];
    check("deferred_outdated", "harmony:fallback=defer", &invariants);
}

#[test]
fn a_result_whose_order_is_gone_is_found() {
    check("results_believed", "si", &["recovery", "halt"]);
}
