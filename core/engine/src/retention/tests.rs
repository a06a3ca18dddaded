use super::*;
use kit::random::Random;
use types::{ColumnSchema, DataType, Key, Stamp, TableId, TableSchema, Value};

fn head(height: Height, time_us: i64) -> Head {
    Head { height, hash: [height as u8; 32], time_us }
}

struct World {
    store: Arc<Store>,
    retention: Retention,
    rows: u64,
}

impl World {
    fn new(policy: &str, undo_bytes_max: u64) -> World {
        let store = Arc::new(Store::new());
        let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
        store.create_table(Arc::new(TableSchema {
            id: TableId(0),
            name: "t".into(),
            columns: vec![column("id"), column("height")],
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        }));
        store.publish(0);
        let settings =
            RetentionSettings { policy: policy.parse().unwrap(), undo_bytes_max, pins: None };
        let retention = Retention::new(Arc::clone(&store), settings, head(0, 0));
        World { store, retention, rows: 4 }
    }

    /// Each row says which block wrote it last.
    fn block(&self, height: Height, time_us: i64) {
        self.block_that_is(true, height, time_us);
    }

    fn block_that_is(&self, safe: bool, height: Height, time_us: i64) {
        let table = self.store.table(TableId(0)).unwrap();
        let mut block = self.store.begin_block(height, 1);
        for id in 0..self.rows {
            let row = [Value::Int(id as i64), Value::Int(height as i64)];
            let stamp = Stamp::new(height, id as u32);
            table.insert(Key::from_int(id as i64).as_bytes(), &row, stamp, block.arena(0));
        }
        self.store.finish_unread(block);
        self.retention.block(head(height, time_us), safe, || self.store.publish(height));
        if height.is_multiple_of(8) {
            self.retention.collect();
        }
    }

    fn retained(&self) -> Vec<Height> {
        self.retention.retained().iter().map(|known| known.head.height).collect()
    }

    fn check(&self, snapshot: &Snapshot) {
        let table = snapshot.table(TableId(0)).unwrap();
        let slot = table.find(Key::from_int(0).as_bytes()).unwrap();
        let mut out = [Value::Null];
        table.read(slot, snapshot.height(), &[1], &mut out);
        if snapshot.check().is_ok() {
            assert_eq!(out[0], Value::Int(snapshot.height() as i64));
        }
    }
}

/// Blocks that overlap: those of `reordered` are no states.
fn overlapping(world: &World, heights: std::ops::RangeInclusive<Height>, reordered: &[Height]) {
    world.retention.set_overlaps(true);
    for height in heights {
        world.retention.finished(reordered.contains(&(height - 1)));
        world.block_that_is(false, height, height as i64 * 10);
    }
}

#[test]
fn what_is_overtaken_is_neither_shown_nor_retained() {
    let world = World::new("every 4 blocks keep 9", 0);
    overlapping(&world, 1..=14, &[4, 5, 10, 13]);
    // In the place of block 4.
    assert_eq!(world.retained(), [6, 8, 12]);
    let refused = |height| world.retention.snapshot_at(height).err().unwrap().code();
    assert_eq!(refused(10), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    assert_eq!(world.retention.snapshot_at(12).unwrap().height(), 12);
    assert_eq!(world.retention.block_at(109).unwrap(), 9, "block 10 was reordered");
    assert_eq!(world.retention.block_at(1_000).unwrap(), 12, "the newest is in doubt");
    let pinned = world.retention.pin("newest", "me", None, None).unwrap();
    assert_eq!(pinned.head.height, 12);
    assert!(world.retention.pin("overtaken", "me", Some(13), None).is_err());
    assert!(world.retention.newest_at_once().is_none());
}

#[test]
fn a_reader_waits_for_a_state_and_asks_for_rest_where_it_was_overtaken() {
    let world = World::new("none", 0);
    overlapping(&world, 1..=2, &[]);
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| world.retention.newest().unwrap().height());
        world.retention.finished(false);
        assert_eq!(reader.join().unwrap(), 2);
        world.block_that_is(false, 3, 30);
        let reader = threads.spawn(|| world.retention.newest().unwrap().height());
        // It has come when it asks for rest.
        world.retention.finished(true);
        while !world.retention.is_rest_wanted() {
            std::thread::yield_now();
        }
        world.block_that_is(true, 4, 40);
        assert_eq!(reader.join().unwrap(), 4);
        assert!(!world.retention.is_rest_wanted());
        world.block_that_is(false, 5, 50);
        let reader = threads.spawn(|| world.retention.newest().err().unwrap().code());
        world.retention.end();
        assert_eq!(reader.join().unwrap(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    });
    assert_eq!(world.retention.newest_at_once().map(|lease| lease.height()), None);
}

#[test]
fn each_rule_keeps_its_newest_blocks_and_they_stay_readable() {
    let world = World::new("every 10 blocks keep 3, every 2 seconds keep 2", 0);
    for height in 1..=57 {
        world.block(height, height as i64 * 300_000);
    }
    // Blocks 46 and 53 are the last before seconds 14 and 16.
    assert_eq!(world.retained(), [30, 40, 46, 50, 53]);
    for height in world.retained() {
        world.check(&world.retention.snapshot_at(height).unwrap());
    }
    assert_eq!(world.retention.head_of(46).unwrap().hash, [46; 32]);
    let error = world.retention.snapshot_at(41).err().unwrap();
    assert_eq!(error.code(), SqlState::SNAPSHOT_TOO_OLD);
    let detail = error.fields().detail.as_deref().unwrap();
    assert!(detail.contains("oldest retained block is 30"), "{detail}");
    assert!(detail.contains("40 (") && detail.contains("46 ("), "{detail}");
    let error = world.retention.snapshot_at(58).err().unwrap();
    assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
}

#[test]
fn the_block_at_a_time_is_the_newest_at_or_before_it() {
    let world = World::new("every 1000 blocks keep 2", 0);
    let mut random = Random::new(1);
    let mut times = vec![0];
    for height in 1..=3_000 {
        times.push(times[height - 1] + random.below(3) as i64);
        world.block(height as Height, times[height]);
    }
    let newest = 3_000;
    for ask in 0..times[newest] + 5 {
        let expected = times.partition_point(|time| *time <= ask) as u64 - 1;
        match world.retention.block_at(ask) {
            Ok(found) => assert_eq!(found, expected, "at {ask}"),
            Err(_) => {
                let is_recent = expected + (RECENT_BLOCKS as u64) > newest as u64;
                assert!(!is_recent && expected != 2_000, "at {ask}, block {expected}");
            }
        }
    }
    let error = world.retention.block_at(times[1_500]).unwrap_err();
    assert!(error.fields().detail.as_deref().unwrap().contains("2000 ("), "{error:?}");
}

#[test]
fn a_name_keeps_its_block_until_it_is_given_up() {
    let world = World::new("every 10 blocks keep 1", 0);
    (1..=20).for_each(|height| world.block(height, 0));
    assert_eq!(world.retention.pin("twenty", "ada", None, None).unwrap().head, head(20, 0));
    assert_eq!(world.retention.pin("also", "ada", Some(20), None).unwrap().head.height, 20);
    let taken = world.retention.pin("twenty", "ada", None, None).unwrap_err();
    assert_eq!(taken.code(), SqlState::DUPLICATE_OBJECT);
    assert!(world.retention.pin("gone", "ada", Some(10), None).is_err());
    (21..=60).for_each(|height| world.block(height, 0));
    assert_eq!(world.retained(), [20, 60]);
    world.check(&world.retention.snapshot_at(20).unwrap());
    assert!(
        world.retention.unpin("twenty", Some("ada")).unwrap()
            && !world.retention.unpin("twenty", Some("ada")).unwrap()
    );
    assert_eq!(world.retained(), [20, 60]);
    assert!(world.retention.unpin("also", Some("ada")).unwrap());
    (61..=64).for_each(|height| world.block(height, 0));
    assert_eq!(world.retained(), [60]);
    assert!(world.retention.snapshot_at(20).is_err());
}

#[test]
fn a_reader_can_keep_what_nobody_else_could() {
    let world = World::new("none", 0);
    (1..=5).for_each(|height| world.block(height, 0));
    let reader = world.store.lease().shared();
    (6..=40).for_each(|height| world.block(height, 0));
    assert!(world.retention.pin("five", "ada", Some(5), None).is_err());
    let head = head(5, 0);
    assert_eq!(world.retention.pin("five", "ada", None, Some((&reader, head))).unwrap().head, head);
    drop(reader);
    (41..=80).for_each(|height| world.block(height, 0));
    world.check(&world.retention.snapshot_at(5).unwrap());
    assert!(world.retention.unpin("five", Some("ada")).unwrap());
    (81..=88).for_each(|height| world.block(height, 0));
    assert!(world.retention.snapshot_at(5).is_err());
}

/// Rows of one block fill a chunk of 64 KiB or two, so readers far apart soon pass the limit.
#[test]
fn beyond_the_limit_rules_go_first_then_the_oldest_and_whoever_reads_is_told() {
    let limit = 12 << 20;
    let world = World { rows: 3_000, ..World::new("every 10 blocks keep 100", limit) };
    (1..=5).for_each(|height| world.block(height, 0));
    let session = world.store.lease();
    world.block(6, 0);
    world.retention.pin("six", "ada", None, None).unwrap();
    let fresh_below = LEASE_BLOCKS_MIN;
    for height in 7..=400 {
        world.block(height, 0);
        let bytes = world.store.usage().undo_bytes;
        assert!(bytes < 2 * limit, "{bytes} at {height}");
        world.check(&session);
        for at in world.store.retained() {
            world.check(&world.store.lease_at(at).unwrap());
        }
    }
    assert!(world.retained().len() > 20 && world.retained()[0] == 6, "{:?}", world.retained());
    assert!(session.check().is_ok(), "rules go before sessions");

    // Now nothing but sessions: each old, each of another block.
    let world = World { rows: 3_000, ..World::new("none", limit) };
    let mut sessions = Vec::new();
    for height in 1..=400 {
        world.block(height, 0);
        sessions.push(world.store.lease());
        sessions.iter().step_by(7).for_each(|session| world.check(session));
        if height == 6 {
            world.retention.pin("six", "ada", None, None).unwrap();
        }
    }
    let ended = sessions.iter().take_while(|session| session.check().is_err()).count();
    assert!(ended > 0 && ended as u64 <= 400 - fresh_below, "{ended}");
    assert!(sessions[ended..].iter().all(|session| session.check().is_ok()), "the oldest first");
    let error = sessions[0].check().unwrap_err();
    assert_eq!(error.code(), SqlState::SNAPSHOT_TOO_OLD);
    assert!(error.fields().detail.is_some() && error.fields().hint.is_some());
    assert_eq!(world.retention.named()[0].lost, Some(Lost::Memory));
    let error = world.retention.snapshot_at(6).err().unwrap();
    assert!(
        error.fields().hint.as_deref().unwrap().contains("pinned as \"six\" and given up"),
        "{error:?}"
    );
    assert!(world.retention.collect().given_up as usize >= ended);
}

#[test]
fn a_session_left_open_is_ended_before_the_last_history_is() {
    let world = World { rows: 3_000, ..World::new("every 10 blocks keep 6", 1 << 20) };
    (1..=5).for_each(|height| world.block(height, 0));
    let idle = world.store.lease();
    for height in 6..=400 {
        world.block(height, 0);
        let is_young = height < 5 + LEASE_BLOCKS_MIN;
        assert!(idle.check().is_ok() || !is_young, "ended at {height}");
    }
    assert_eq!(idle.check().unwrap_err().code(), SqlState::SNAPSHOT_TOO_OLD);
    assert!(!world.retained().is_empty());
}

#[test]
fn names_belong_to_who_gave_them_and_nobody_takes_them_all() {
    let world = World::new("none", 0);
    world.block(1, 0);
    for number in 0..NAMES_OF_ONE_MAX {
        world.retention.pin(&number.to_string(), "ada", None, None).unwrap();
    }
    let full = world.retention.pin("more", "ada", None, None).unwrap_err();
    assert_eq!(full.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    world.retention.pin("more", "bob", None, None).unwrap();
    let foreign = world.retention.unpin("0", Some("bob")).unwrap_err();
    assert_eq!(foreign.code(), SqlState::INSUFFICIENT_PRIVILEGE);
    assert!(world.retention.unpin("0", Some("ada")).unwrap());
    assert!(world.retention.unpin("1", None).unwrap(), "whoever may do everything");
}
