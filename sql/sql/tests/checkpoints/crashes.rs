//! Power cuts while a checkpoint is written.

use engine::checkpoint::Checkpointer;
use kit::random::Random;
use ledger::MemoryFiles;
use ledger::memory_files::Failure;

use super::world::{World, digest_of, recovered, state_of};

/// Before and after every file operation of a checkpoint, whatever of the unsynced bytes survives,
/// the folder starts with the same state, and the next checkpoint can be taken.
#[test]
fn a_power_cut_between_any_two_file_operations_leaves_a_folder_that_starts() {
    let mut world = World::new("serial", 8);
    world.create_and_load(600);
    let mut checkpointer = world.checkpointer(1);
    world.checkpoint(&mut checkpointer);
    world.statement("UPDATE t SET amount = 0 WHERE id < 10");
    world.sync_results();
    let digest = digest_of(&world.replica);
    let mut cuts = 0;
    for operation in 0.. {
        let files = world.files.crash(&mut Random::new(0));
        let from = recovered(&files);
        let base = from.checkpoint.map(|checkpoint| checkpoint.base);
        assert!(base.is_some());
        let mut next =
            Checkpointer::new(std::sync::Arc::new(files.clone()), 1, base, &from.passed_over);
        let begun = files.operations();
        files.fail_at(Some(Failure::PowerOff(begun + operation)));
        let taken = next.take(&state_of(&from.replica), &mut |_| Ok(()));
        let finished = files.operations() <= begun + operation;
        for seed in 0..6 {
            let left = files.crash(&mut Random::new(seed));
            starts(&left, digest, taken.is_ok());
        }
        // A process that is killed loses nothing that it has written.
        files.fail_at(None);
        starts(&files, digest, taken.is_ok());
        cuts += 1;
        if finished {
            assert!(taken.is_ok());
            break;
        }
    }
    assert!(cuts > 12, "{cuts} operations");
}

/// An error that goes away again costs one checkpoint and nothing else.
#[test]
fn after_an_error_of_any_file_operation_the_next_checkpoint_succeeds() {
    let mut world = World::new("serial", 8);
    world.create_and_load(600);
    let mut checkpointer = world.checkpointer(1);
    world.checkpoint(&mut checkpointer);
    let mut failures = 0;
    for operation in 0.. {
        world.statement("UPDATE t SET amount = amount + 1 WHERE id < 10");
        let failure = world.files.operations() + operation;
        world.files.fail_at(Some(Failure::Once(failure)));
        let state = state_of(&world.replica);
        let failed = checkpointer.take(&state, &mut |_| Ok(())).is_err();
        let finished = world.files.operations() <= failure;
        world.files.fail_at(None);
        failures += u64::from(failed);
        let digest = digest_of(&world.replica);
        let from = recovered(&world.files);
        assert!(from.checkpoint.is_some());
        assert_eq!(digest_of(&from.replica), digest, "operation {operation}");
        assert_eq!(world.checkpoint(&mut checkpointer).digest, digest, "operation {operation}");
        if finished {
            break;
        }
    }
    assert!(failures > 5);
}

fn starts(files: &MemoryFiles, digest: ledger::Hash, newest: bool) {
    let from = recovered(files);
    let checkpoint = from.checkpoint.expect("one of the two checkpoints holds");
    assert_eq!(digest_of(&from.replica), digest);
    let height = checkpoint.base.manifest.height();
    assert!(!newest || height == from.replica.head().height);
    let files = std::sync::Arc::new(files.crash(&mut Random::new(1)));
    let mut again = Checkpointer::new(files.clone(), 1, Some(checkpoint.base), &from.passed_over);
    let taken = again.take(&state_of(&from.replica), &mut |_| Ok(())).unwrap();
    assert_eq!(taken.digest, digest);
    assert!(recovered(&files).passed_over.is_empty());
}
