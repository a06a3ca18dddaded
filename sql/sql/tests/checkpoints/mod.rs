//! Checkpoints of a ledger that is run by SQL: taken, loaded, damaged, cut.

mod crashes;
mod damage;
mod past;
mod running;
mod world;

use ledger::checkpoint::heights;

use world::{World, digest_of, full_replay, recovered};

/// From each checkpoint, replay of the blocks after it comes to the state of a full replay.
#[test]
fn checkpoint_and_replay_give_the_state_of_a_full_replay_under_every_protocol() {
    let lagging = ["fabric:lag=2:spread=1", "fabric_pp:lag=1", "harmony:inter_block=on"];
    for protocol in super::sessions::protocols().chain(lagging) {
        let mut world = World::new(protocol, 1);
        let mut checkpointer = world.checkpointer(100);
        world.create_and_load(1500);
        let (first, last) = (20, 50);
        let mut taken = Vec::new();
        while world.height() < last {
            world.work(5);
            if world.height() >= first {
                taken.push(world.checkpoint(&mut checkpointer));
            }
        }
        let digest = digest_of(&world.replica);
        let replayed = full_replay(&world.files);
        assert_eq!(digest_of(&replayed.replica), digest, "{protocol}: the full replay");
        assert!(!taken.is_empty() && heights(&world.files).unwrap().len() == taken.len());
        for at in taken.iter().rev() {
            let from = recovered(&world.files);
            let checkpoint = from.checkpoint.as_ref().expect("the newest checkpoint holds");
            assert_eq!(checkpoint.base.manifest.height(), at.height);
            assert_eq!(from.progress.blocks, last - at.height);
            assert_eq!(from.replica.head().hash, world.replica.head().hash);
            assert_eq!(digest_of(&from.replica), digest, "{protocol}: from block {}", at.height);
            world.remove_manifest(at.height);
        }
    }
}

/// What schema changes do to groups that have not changed by their stamps.
#[test]
fn schema_changes_between_checkpoints_are_seen() {
    let mut world = World::new("serial", 2);
    let mut checkpointer = world.checkpointer(100);
    world.create_and_load(1200);
    world.checkpoint(&mut checkpointer);
    for change in [
        "ALTER TABLE t ADD COLUMN more int DEFAULT 7",
        "CREATE INDEX by_more ON t (more)",
        "ALTER TABLE t DROP COLUMN note",
        "TRUNCATE TABLE journal",
        "CREATE TABLE other (k text PRIMARY KEY)",
        "ALTER TABLE other RENAME TO another",
        "DROP TABLE journal",
    ] {
        world.schema(change);
        let taken = world.checkpoint(&mut checkpointer);
        let from = recovered(&world.files);
        assert!(from.passed_over.is_empty(), "{change}: {:?}", from.passed_over);
        assert_eq!(digest_of(&from.replica), taken.digest, "{change}");
        assert_eq!(digest_of(&full_replay(&world.files).replica), taken.digest, "{change}");
    }
}

/// A table that is emptied once an hour does not make the schema longer, nor a start slower.
#[test]
fn truncations_do_not_stay_in_the_schema() {
    let mut world = World::new("serial", 3);
    let mut checkpointer = world.checkpointer(2);
    world.create_and_load(10);
    let image = |world: &World| world::state_of(&world.replica).schema;
    let before = image(&world);
    (0..20).for_each(|_| world.schema("TRUNCATE journal"));
    let after = image(&world);
    assert_eq!(before.len(), after.len());
    world.checkpoint(&mut checkpointer);
    let from = recovered(&world.files);
    assert_eq!(from.checkpoint.map(|c| c.rows), Some(10));
    let version = from.replica.language().schema_version();
    assert_eq!(version, world.replica.language().schema_version());
    assert_eq!(version.to_be_bytes(), after[..8]);
}

/// Rows that go and rows that come may leave a group's first key and its number as they were.
#[test]
fn only_groups_that_have_changed_are_written() {
    let mut world = World::new("serial", 4);
    let mut checkpointer = world.checkpointer(2);
    world.create_and_load(20_000);
    let first = world.checkpoint(&mut checkpointer);
    assert!(first.extent.groups >= 30 && first.extent.groups_written == first.extent.groups);
    world.statement("UPDATE t SET amount = amount + 1 WHERE id = 777");
    let second = world.checkpoint(&mut checkpointer);
    assert_eq!((second.extent.groups, second.extent.groups_written), (first.extent.groups, 1));
    world.statement("DELETE FROM t WHERE id = 778");
    let third = world.checkpoint(&mut checkpointer);
    assert_eq!(third.extent.groups_written, 1);
    for _ in 0..30 {
        world.statement("UPDATE t SET amount = amount + 1 WHERE id % 1000 = 3");
        world.work(3);
        let taken = world.checkpoint(&mut checkpointer);
        let from = recovered(&world.files);
        assert!(from.passed_over.is_empty(), "{:?}", from.passed_over);
        assert_eq!(digest_of(&from.replica), taken.digest);
    }
    let bytes = recovered(&world.files).checkpoint.expect("there are checkpoints").bytes;
    let folder = world.checkpoint_bytes();
    assert!(folder < 6 * bytes, "{folder} bytes for a state of {bytes}");
}
