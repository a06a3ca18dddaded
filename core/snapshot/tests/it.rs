//! Images against what readers of the records see at the same heights.

mod kept;
mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use kit::random::Random;
use model::{Rows, World, rows_of, scanned};
use snapshot::{Images, Live, Zone};
use storage::{GROUP_ROWS, Snapshot};

const ALL: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const ROOMY: u64 = 1 << 30;

fn images(world: &World, bytes_max: u64) -> Arc<Images> {
    Arc::new(Images::new(world.store.clone(), bytes_max))
}

/// Some columns, in any order.
fn some_columns(random: &mut Random) -> Vec<u16> {
    let mut columns: Vec<u16> = ALL.to_vec();
    columns.sort_by_cached_key(|_| random.next_u64());
    columns.truncate(1 + random.below(ALL.len() as u64) as usize);
    columns
}

#[test]
fn a_scan_shows_what_its_snapshot_shows_whatever_was_scanned_before() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, GROUP_ROWS as u64 + 1_000);
        // Small enough to evict all the time, for every third seed.
        let images = images(&world, if seed % 3 == 0 { 400_000 } else { ROOMY });
        let mut held: Vec<(Arc<Snapshot>, Rows)> = Vec::new();
        for _ in 0..30 {
            for _ in 0..random.below(4) {
                world.run_block();
            }
            if random.chance(3) {
                world.collect();
            }
            let now = Arc::new(world.store.snapshot());
            let rows = rows_of(&now);
            held.push((now, rows));
            if held.len() > 5 {
                held.remove(random.below(5) as usize);
            }
            for _ in 0..2 {
                let (snapshot, rows) = &held[random.below(held.len() as u64) as usize];
                let columns = some_columns(&mut random);
                let expected = model::project(rows, &columns);
                let at = snapshot.height();
                let found = scanned(&images, snapshot, &columns);
                assert_eq!(found, expected, "seed {seed}, height {at}, columns {columns:?}");
            }
        }
    }
}

#[test]
fn a_table_first_scanned_late_misses_nothing() {
    let mut world = World::new(5, 100);
    let images = images(&world, ROOMY);
    let old = Arc::new(world.store.snapshot());
    // The feed is drained for the other table, so the blocks are told when none keeps rows of
    // this one; then comes a scan of it at the older height.
    scanned_other(&images, &old);
    for _ in 0..5 {
        world.run_block();
    }
    let new = Arc::new(world.store.snapshot());
    scanned_other(&images, &new);
    for snapshot in [&old, &new] {
        assert_eq!(scanned(&images, snapshot, ALL), model::project(&rows_of(snapshot), ALL));
    }
}

fn scanned_other(images: &Arc<Images>, snapshot: &Arc<Snapshot>) {
    let scan = images.scan(snapshot.clone(), model::OTHER).expect("the other table");
    assert_eq!(scan.groups(), 0);
}

#[test]
fn snapshots_between_which_nothing_changed_share_their_images() {
    let mut world = World::new(1, 5_000);
    let images = images(&world, ROOMY);
    let read = |snapshot: &Arc<Snapshot>| {
        let scan = images.scan(snapshot.clone(), model::TABLE).expect("the table");
        scan.read(1, &[0]).expect("readable").columns[0].to_data().buffers()[0].as_ptr()
    };
    let first = Arc::new(world.store.snapshot());
    let address = read(&first);
    world.run_empty_block();
    let second = Arc::new(world.store.snapshot());
    assert!(second.height() > first.height());
    assert_eq!(read(&second), address);
    assert_eq!(read(&first), address);
}

#[test]
fn an_image_is_patched_in_its_own_memory_unless_somebody_holds_it() {
    let mut world = World::new(1, 2 * GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let read = |world: &World| {
        let snapshot = Arc::new(world.store.snapshot());
        let scan = images.scan(snapshot, model::TABLE).expect("the table");
        scan.read(1, &[4]).expect("readable").columns
    };
    let numbers =
        |columns: &[arrow_array::ArrayRef]| columns[0].as_primitive::<Int32Type>().clone();
    let address = |columns: &[arrow_array::ArrayRef]| columns[0].to_data().buffers()[0].as_ptr();
    let first = address(&read(&world));
    world.touch(GROUP_ROWS as u64 + 3);
    let held = read(&world);
    assert_eq!(address(&held), first, "nobody held it");
    assert_eq!(numbers(&held).value(3), -1);
    let before = numbers(&held).value(4);
    let usage = images.usage();
    world.touch(GROUP_ROWS as u64 + 4);
    let last = read(&world);
    assert_ne!(address(&last), first, "somebody holds it");
    assert_eq!((numbers(&held).value(4), numbers(&last).value(4)), (before, -1));
    assert_eq!(images.usage().bytes, usage.bytes, "the old image is nobody's but the reader's");
    assert_eq!(images.usage().evicted, 0);
}

#[test]
fn bytes_stay_below_the_limit_and_are_freed_with_the_table() {
    let world = World::new(2, 20_000);
    let limit = 400_000;
    let images = images(&world, limit);
    let snapshot = Arc::new(world.store.snapshot());
    let expected = model::project(&rows_of(&snapshot), ALL);
    assert_eq!(scanned(&images, &snapshot, ALL), expected);
    let usage = images.usage();
    assert!(usage.bytes <= limit && usage.bytes > limit / 2, "{usage:?}");
    assert!(usage.evicted > 0);
    assert_eq!(scanned(&images, &snapshot, ALL), expected);
    drop(snapshot);
    world.drop_table();
    scanned_other(&images, &Arc::new(world.store.snapshot()));
    assert_eq!(images.usage().bytes, 0);
}

#[test]
fn what_is_evicted_is_freed_with_its_last_reader() {
    let world = World::new(6, 20_000);
    let limit = 100_000;
    let images = images(&world, limit);
    let snapshot = Arc::new(world.store.snapshot());
    let scan = images.scan(snapshot, model::TABLE).expect("the table");
    let mut seen = Vec::new();
    let mut held = None;
    for group in 0..scan.groups() {
        let read = scan.read(group, ALL).expect("readable");
        seen.extend(read.columns.iter().map(Arc::downgrade));
        held.get_or_insert(read);
    }
    let alive = |seen: &[std::sync::Weak<dyn arrow_array::Array>]| -> u64 {
        let arrays = seen.iter().filter_map(std::sync::Weak::upgrade);
        arrays.map(|array| array.get_array_memory_size() as u64).sum()
    };
    let of_reader: u64 = held.iter().flat_map(|read| &read.columns).map(array_bytes).sum();
    assert!(images.usage().evicted > 0 && images.usage().bytes <= limit);
    assert!(alive(&seen) <= images.usage().bytes + of_reader, "the cache and one reader");
    drop(held);
    assert_eq!(alive(&seen), images.usage().bytes);
}

fn array_bytes(array: &arrow_array::ArrayRef) -> u64 {
    array.get_array_memory_size() as u64
}

/// What an ended lease makes of a group must reach neither its own reader nor the cache.
#[test]
fn a_scan_by_an_ended_lease_fails_and_leaves_no_image() {
    let mut world = World::new(7, 5_000);
    let images = images(&world, ROOMY);
    let lease = Arc::new(world.store.lease());
    let early = images.scan(lease, model::TABLE).expect("the table");
    early.read(0, ALL).expect("it is not ended yet");
    let bytes = images.usage().bytes;
    (0..20).for_each(|row| world.touch(row));
    let kept = Arc::new(world.store.snapshot());
    let expected = model::project(&rows_of(&kept), ALL);
    (0..20).for_each(|row| world.touch(row));
    assert!(world.store.end_oldest_leases(kept.height()).is_some());
    world.collect();
    let error = early.read(1, ALL).err().expect("it was ended");
    assert_eq!(error.code(), types::SqlState::SNAPSHOT_TOO_OLD);
    assert_eq!(images.usage().bytes, bytes);
    assert_eq!(scanned(&images, &kept, ALL), expected);
}

#[test]
fn a_zone_is_told_only_of_an_image_that_is_current() {
    let mut world = World::new(3, GROUP_ROWS as u64 + 1_000);
    let images = images(&world, ROOMY);
    let scan = |world: &World| {
        images.scan(Arc::new(world.store.snapshot()), model::TABLE).expect("the table")
    };
    let first = scan(&world);
    assert_eq!(first.zone(0, 0), Zone::Unknown);
    let read = first.read(0, &[0]).expect("readable");
    assert_eq!(read.live, Live::Prefix(GROUP_ROWS));
    assert_eq!(first.zone(0, 0), Zone::Int(0, GROUP_ROWS as i64 - 1));
    world.touch(5);
    assert_eq!(first.zone(0, 0), Zone::Int(0, GROUP_ROWS as i64 - 1));
    assert_eq!(scan(&world).zone(0, 0), Zone::Unknown);
}

/// The transactions' own invariant is one that every snapshot shows: money only moves.
#[test]
fn scans_beside_a_writer_see_whole_blocks() {
    let mut world = World::new(4, 6_000);
    let images = images(&world, 2_400_000);
    let store = world.store.clone();
    let total = model::total_of(&images, &Arc::new(store.snapshot()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut scans, mut last) = (0, 0);
                    while !done.load(Ordering::Relaxed) || scans < 3 {
                        let snapshot = Arc::new(store.snapshot());
                        assert!(snapshot.height() >= last);
                        last = snapshot.height();
                        assert_eq!(model::total_of(&images, &snapshot), total);
                        scans += 1;
                    }
                    scans
                })
            })
            .collect();
        for _ in 0..300 {
            world.move_money(50);
            world.collect();
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("its checks hold") >= 3);
        }
    });
}
