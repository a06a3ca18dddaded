//! Checkpoints whose files are not as they were written.

use std::sync::Arc;

use engine::checkpoint::Checkpointer;
use engine::{Fault, Language, PassedOver, recover};
use kit::random::Random;
use ledger::MemoryFiles;
use ledger::checkpoint::{CHECKPOINT_FOLDER, heights};
use ledger::memory_files::Failure;
use sql::session::schema::Schema;
use storage::Store;

use super::world::{World, digest_of, recovered, state_of};

/// A ledger with two checkpoints, the second of which refers to the first one's pack.
fn with_two_checkpoints() -> (World, Checkpointer) {
    let mut world = World::new("serial", 5);
    let mut checkpointer = world.checkpointer(2);
    world.create_and_load(1500);
    world.checkpoint(&mut checkpointer);
    world.statement("UPDATE t SET amount = 0 WHERE id < 10");
    world.work(5);
    world.checkpoint(&mut checkpointer);
    world.work(5);
    (world, checkpointer)
}

fn paths(files: &MemoryFiles, kind: &str) -> Vec<String> {
    let in_folder = |path: &String| path.starts_with(CHECKPOINT_FOLDER) && path.ends_with(kind);
    files.paths().into_iter().filter(in_folder).collect()
}

fn passed_over(files: &MemoryFiles) -> Vec<PassedOver> {
    recovered(files).passed_over
}

#[test]
fn damage_of_any_file_is_found_and_an_older_checkpoint_or_genesis_serves() {
    let (world, _) = with_two_checkpoints();
    let (digest, head) = (digest_of(&world.replica), world.replica.head().hash);
    let mut random = Random::new(9);
    let newest: Vec<String> =
        ["manifest", "pack"].map(|kind| paths(&world.files, kind).pop().unwrap()).into();
    for path in paths(&world.files, "") {
        let bytes = world.files.contents(&path).unwrap();
        for _ in 0..60 {
            let mut changed = bytes.clone();
            let place = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => changed[place] ^= 1 << random.below(8),
                1 => changed.truncate(place),
                _ => changed[place..].fill(0),
            }
            if changed == bytes {
                continue;
            }
            world.files.plant(&path, changed);
            let from = recovered(&world.files);
            // The newest checkpoint needs neither the older manifest nor all of the older pack.
            assert!(!newest.contains(&path) || !from.passed_over.is_empty(), "{path}, {place}");
            assert_eq!(from.replica.head().hash, head, "{path}, byte {place}");
            assert_eq!(digest_of(&from.replica), digest, "{path}, byte {place}");
        }
        world.files.plant(&path, bytes);
    }
    assert!(passed_over(&world.files).is_empty());
}

#[test]
fn a_lost_file_is_found() {
    let (world, _) = with_two_checkpoints();
    let digest = digest_of(&world.replica);
    for path in paths(&world.files, "") {
        let left = world.files.crash(&mut Random::new(1));
        ledger::Files::remove(&left, &path).unwrap();
        assert_eq!(digest_of(&recovered(&left).replica), digest, "{path}");
    }
}

/// Where the last block's record begins: the newest segment and an offset.
fn last_record(files: &MemoryFiles) -> (String, usize) {
    let segments = files.paths().into_iter().filter(|path| path.starts_with("orders"));
    let path = segments.max().unwrap();
    let bytes = files.contents(&path).unwrap();
    (path, bytes.windows(4).rposition(|four| four == b"TREC").unwrap())
}

/// The newest checkpoint is of a block that was not synced, and that a crash took out of the
/// ledger.
#[test]
fn a_checkpoint_ahead_of_the_ledger_is_passed_over_and_goes() {
    let (world, mut checkpointer) = with_two_checkpoints();
    checkpointer.take(&state_of(&world.replica), &mut |_| Ok(())).unwrap();
    let whole = world.files.crash(&mut Random::new(1));
    let (last, record) = last_record(&whole);
    let mut cut = whole.contents(&last).unwrap();
    cut[record..].fill(0);
    whole.plant(&last, cut);
    let from = recovered(&whole);
    assert_eq!(from.replica.head().height, world.height() - 1);
    assert_eq!(from.passed_over.len(), 1);
    assert!(from.passed_over[0].why.contains("ends before"), "{:?}", from.passed_over);
    let base = from.checkpoint.map(|checkpoint| checkpoint.base);
    let files = Arc::new(whole.clone());
    let mut checkpointer = Checkpointer::new(files, 2, base, &from.passed_over);
    let state = state_of(&from.replica);
    checkpointer.take(&state, &mut |_| Ok(())).unwrap();
    assert!(passed_over(&whole).is_empty(), "what was of another past is gone");
}

/// A disk that cannot read at the start costs replay, and no checkpoint.
#[test]
fn checkpoints_that_cannot_be_read_stay() {
    let (world, _) = with_two_checkpoints();
    let before = heights(&world.files).unwrap();
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    for read in 0.. {
        let files = world.files.crash(&mut Random::new(0));
        files.fail_at(Some(Failure::Read(read)));
        let from = recover(Arc::new(files.clone()), &make, 1, &mut |_| ());
        files.fail_at(None);
        let Ok(from) = from else { continue };
        if from.passed_over.is_empty() {
            return assert!(read > 3);
        }
        let base = from.checkpoint.map(|checkpoint| checkpoint.base);
        let mut next = Checkpointer::new(Arc::new(files.clone()), 2, base, &from.passed_over);
        let state = state_of(&from.replica);
        let stop = || types::Error::unsupported("this test");
        assert!(next.take(&state, &mut |_| Err(stop())).is_err());
        assert_eq!(heights(&files).unwrap(), before, "read {read}");
        let taken = next.take(&state, &mut |_| Ok(())).unwrap().height;
        assert_eq!(heights(&files).unwrap(), [before[1], taken], "read {read}");
    }
}

/// A checkpoint of a block that was synced shows that a ledger without the block is no crash's.
#[test]
fn a_ledger_that_has_lost_a_block_which_a_checkpoint_saw_durable_is_damaged() {
    let (mut world, mut checkpointer) = with_two_checkpoints();
    let taken = world.checkpoint(&mut checkpointer).height;
    let (last, record) = last_record(&world.files);
    let whole = world.files.contents(&last).unwrap();
    let mut rotten = whole.clone();
    rotten[record + 60] ^= 1;
    let mut emptied = whole.clone();
    emptied[record..].fill(0);
    for bytes in [rotten, emptied] {
        world.files.plant(&last, bytes);
        let damage = damage(&world.files);
        assert_eq!((damage.height, &damage.file, damage.offset), (taken, &last, record as u64));
        assert!(damage.what.contains("move the folder `checkpoints` away"), "{damage}");
    }
    world.files.plant(&last, whole);
    for segment in world.files.paths().into_iter().filter(|path| path.starts_with("orders")) {
        ledger::Files::remove(&world.files, &segment).unwrap();
    }
    assert_eq!(damage(&world.files).height, 0, "all segments are gone");
}

fn damage(files: &MemoryFiles) -> ledger::Damage {
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    match recover(Arc::new(files.clone()), &make, 1, &mut |_| ()) {
        Err(Fault::Damage(damage)) => damage,
        Err(fault) => panic!("{fault}"),
        Ok(replayed) => panic!("goes on at block {}", replayed.replica.head().height),
    }
}

/// The ledger's own damage is never hidden by a checkpoint.
#[test]
fn a_checkpoint_of_another_block_is_passed_over() {
    let (world, _) = with_two_checkpoints();
    let (other, mut checkpointer) = with_two_checkpoints();
    drop(other);
    let mut other = World::new("serial", 6);
    other.create_and_load(1500);
    while other.height() < world.height() {
        other.work(2);
    }
    checkpointer = {
        let _ = checkpointer;
        other.checkpointer(2)
    };
    other.checkpoint(&mut checkpointer);
    for path in paths(&other.files, "") {
        world.files.plant(&path, other.files.contents(&path).unwrap());
    }
    let from = recovered(&world.files);
    assert!(from.passed_over[0].why.contains("another block"), "{:?}", from.passed_over);
    assert_eq!(from.replica.head().hash, world.replica.head().hash);
}
