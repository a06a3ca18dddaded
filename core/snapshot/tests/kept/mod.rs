//! Columns that are kept current: what they show, whatever holds them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch};
use kit::random::Random;
use snapshot::{Images, TableScan};
use storage::{GROUP_ROWS, Snapshot};
use types::Layout;

use crate::model::{self, Rows, World, rows_of, rows_of_batch, scanned, scanned_group, sorted};
use crate::{ALL, ROOMY, images, some_columns};

fn columnar(seed: u64, rows: u64) -> World {
    let world = World::new(seed, rows);
    world.set_layout(Layout::Column);
    world
}

fn scan(images: &Arc<Images>, world: &World) -> TableScan {
    images.scan(Arc::new(world.store.snapshot()), model::TABLE).expect("the table")
}

fn keep(images: &Images, world: &World) {
    images.keep(&world.store.lease());
}

fn address(array: &ArrayRef) -> *const u8 {
    array.to_data().buffers()[0].as_ptr()
}

/// A scan on its way through a table: what it has read, and what it must find.
struct Reading {
    scan: TableScan,
    columns: Vec<u16>,
    next: usize,
    /// Held as a query holds its batches, which may not be written into.
    batches: Vec<(RecordBatch, Rows)>,
    expected: Rows,
}

impl Reading {
    fn step(&mut self) {
        if self.next < self.scan.groups() {
            let read = self.scan.read(self.next, &self.columns).expect("values that Arrow has");
            let batch = read.into_batch(self.scan.schema(&self.columns)).expect("one length");
            let rows = rows_of_batch(&batch);
            self.batches.push((batch, rows));
            self.next += 1;
        }
    }

    fn finish(mut self, what: &str) {
        while self.next < self.scan.groups() {
            self.step();
        }
        let mut found = Rows::new();
        for (batch, rows) in &self.batches {
            assert_eq!(&rows_of_batch(batch), rows, "written into under its reader: {what}");
            found.extend(rows.iter().cloned());
        }
        let expected = model::project(&self.expected, &self.columns);
        assert_eq!(sorted(&found), expected, "{what}, columns {:?}", self.columns);
    }
}

#[test]
fn a_scan_shows_its_snapshot_wherever_columns_are_kept_between() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut world = columnar(seed, GROUP_ROWS as u64 + 1_000);
        let images = images(&world, if seed % 3 == 0 { 400_000 } else { ROOMY });
        let mut held: Vec<(Arc<Snapshot>, Rows)> = Vec::new();
        let mut readings: Vec<Reading> = Vec::new();
        for step in 0..150 {
            let what = format!("seed {seed}, step {step}");
            match random.below(8) {
                0 | 1 => world.run_block(),
                2 => world.collect(),
                3 => keep(&images, &world),
                // By the height of an older snapshot, as who was slow to do it.
                4 => {
                    if let Some((snapshot, _)) = held.first() {
                        images.keep(snapshot);
                    }
                }
                5 => {
                    let now = Arc::new(world.store.snapshot());
                    let rows = rows_of(&now);
                    held.push((now, rows));
                    if held.len() > 4 {
                        held.remove(random.below(4) as usize);
                    }
                }
                6 => {
                    if held.is_empty() {
                        continue;
                    }
                    let (snapshot, rows) = &held[random.below(held.len() as u64) as usize];
                    let scan = images.scan(snapshot.clone(), model::TABLE).expect("the table");
                    let columns = some_columns(&mut random);
                    let (batches, expected) = (Vec::new(), rows.clone());
                    readings.push(Reading { scan, columns, next: 0, batches, expected });
                    if readings.len() > 3 {
                        readings.remove(random.below(3) as usize).finish(&what);
                    }
                }
                _ => readings.iter_mut().for_each(Reading::step),
            }
        }
        readings.into_iter().for_each(|reading| reading.finish("the end"));
        for (snapshot, rows) in &held {
            assert_eq!(scanned(&images, snapshot, ALL), model::project(rows, ALL), "{seed}");
        }
    }
}

/// Readers hold old snapshots and batches while blocks insert, delete and use slots again, are
/// brought into columns, and the limit evicts.
#[test]
fn scans_beside_columns_that_are_kept_see_whole_blocks() {
    for (seed, bytes_max) in [(1, ROOMY), (2, 1_200_000)] {
        let mut world = columnar(seed, GROUP_ROWS as u64 + 1_000);
        let images = images(&world, bytes_max);
        let copies: Weak<Images> = Arc::downgrade(&images);
        world.store.keep_copies(copies);
        let (store, done, scans) = (world.store.clone(), AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (images, store, done, scans) = (&images, &store, &done, &scans);
                scope.spawn(move || {
                    let mut random = Random::new(seed << 8 | reader);
                    let mut held: Option<(Arc<Snapshot>, Rows)> = None;
                    while !done.load(Ordering::Relaxed) {
                        let now = Arc::new(store.snapshot());
                        let rows = rows_of(&now);
                        let old = held.get_or_insert_with(|| (now.clone(), rows.clone()));
                        for (snapshot, expected) in [(&now, &rows), (&old.0, &old.1)] {
                            let scan = images.scan(snapshot.clone(), model::TABLE).expect("it");
                            let columns = some_columns(&mut random);
                            let (batches, expected) = (Vec::new(), expected.clone());
                            let reading = Reading { scan, columns, next: 0, batches, expected };
                            reading.finish("beside blocks");
                            scans.fetch_add(1, Ordering::Relaxed);
                        }
                        if random.chance(5) {
                            held = None;
                        }
                    }
                });
            }
            let began = Instant::now();
            while scans.load(Ordering::Relaxed) < 60 && began.elapsed() < Duration::from_secs(300) {
                world.run_block();
                world.store.bring_copies();
                world.collect();
                std::thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(scans.load(Ordering::Relaxed) >= 60);
        assert!(images.usage().kept_rows > 0, "columns were kept");
        assert_eq!(images.usage().evicted > 0, bytes_max != ROOMY);
    }
}

#[test]
fn what_was_read_once_is_current_without_a_patch() {
    let mut world = columnar(1, 2 * GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let first = address(&scan(&images, &world).read(1, &[4]).expect("readable").columns[0]);
    for row in 0..100 {
        world.touch(GROUP_ROWS as u64 + row);
    }
    keep(&images, &world);
    assert_eq!(images.usage().kept_rows, 100);
    let read = scan(&images, &world).read(1, &[4]).expect("readable");
    assert_eq!((read.work.patched_rows, read.work.built_bytes), (0, 0));
    assert_eq!(address(&read.columns[0]), first, "written in its own memory");
    world.touch(GROUP_ROWS as u64 + 7);
    keep(&images, &world);
    let next = scan(&images, &world).read(1, &[4]).expect("readable");
    assert_eq!(next.work.patched_rows, 0);
    assert_ne!(address(&next.columns[0]), first, "somebody holds it");
    assert_eq!(read.columns[0].to_data().buffers()[0].as_ptr(), first);
}

#[test]
fn a_scan_that_columns_have_overtaken_reads_its_own_height_and_leaves_them_there() {
    let mut world = columnar(2, 3 * GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let all = |scan: &TableScan| -> u64 {
        (0..3).map(|group| scan.read(group, &[4]).expect("readable").work.patched_rows).sum()
    };
    all(&scan(&images, &world));
    let early = scan(&images, &world);
    let expected: Vec<Rows> = (0..3).map(|group| scanned_group(&early, group, &[4])).collect();
    for group in 0..3 {
        world.touch(group * GROUP_ROWS as u64 + 5);
    }
    keep(&images, &world);
    assert_eq!(images.usage().kept_rows, 3);
    assert_eq!(all(&early), 3, "patched backwards, each time, in a copy");
    for (group, expected) in expected.iter().enumerate() {
        assert_eq!(&scanned_group(&early, group, &[4]), expected);
    }
    assert_eq!(all(&scan(&images, &world)), 0, "and the columns stay where they were");
}

/// What lies beyond the bound of rows is brought after the blocks that follow.
#[test]
fn what_one_block_leaves_the_next_ones_bring() {
    let mut world = columnar(3, 16 * GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let groups = |images: &Arc<Images>, world: &World| {
        let scan = scan(images, world);
        let read = |group| scan.read(group, &[4]).expect("readable").work.patched_rows;
        (0..16).map(read).sum::<u64>()
    };
    groups(&images, &world);
    let rows = 16 * GROUP_ROWS as u64;
    world.touch_all(rows);
    keep(&images, &world);
    let first = images.usage().kept_rows;
    let bound = 16 << 10;
    assert!((bound..=bound + GROUP_ROWS as u64).contains(&first), "{first} rows at once");
    (0..rows.div_ceil(bound)).for_each(|_| keep(&images, &world));
    assert_eq!(images.usage().kept_rows, rows);
    assert_eq!(groups(&images, &world), 0);
}

/// Blocks that touch more than is brought after each: what the lists of touched rows do not reach
/// back to is for the next scan to build, and nothing is built for no reader.
#[test]
fn whoever_keeps_columns_builds_none() {
    let groups = 8;
    let rows = groups * GROUP_ROWS as u64;
    let mut world = columnar(8, rows);
    let images = images(&world, ROOMY);
    let read = |world: &World| {
        let scan = scan(&images, world);
        (0..groups as usize).for_each(|group| drop(scan.read(group, &[4]).expect("readable")));
    };
    read(&world);
    let built = images.usage().work.built_bytes;
    for _ in 0..4 {
        world.touch_all(rows);
        let kept = images.usage().kept_rows;
        keep(&images, &world);
        assert!(images.usage().kept_rows - kept <= (16 << 10) + GROUP_ROWS as u64);
    }
    assert_eq!(images.usage().work.built_bytes, built);
    let now = Arc::new(world.store.snapshot());
    assert_eq!(scanned(&images, &now, &[4]), model::project(&rows_of(&now), &[4]));
    assert!(images.usage().work.built_bytes > built);
}

#[test]
fn a_column_that_nobody_reads_is_kept_for_as_many_rows_as_a_group_has() {
    let mut world = columnar(9, GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let read = |world: &World| scan(&images, world).read(0, &[4]).expect("readable");
    read(&world);
    let keep_some = |world: &mut World, blocks: u64| {
        let before = images.usage().kept_rows;
        for _ in 0..blocks {
            world.touch_all(100);
            keep(&images, world);
        }
        images.usage().kept_rows - before
    };
    let enough = GROUP_ROWS as u64 / 100 + 1;
    assert_eq!(keep_some(&mut world, enough + 10), enough * 100);
    assert_eq!(read(&world).work.patched_rows, 100, "the same ones, again and again");
    assert_eq!(keep_some(&mut world, enough + 10), enough * 100, "and from then on again");
}

#[test]
fn a_string_that_did_not_change_is_not_written_again() {
    let mut world = columnar(10, GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    scan(&images, &world).read(0, &[4, 8]).expect("readable");
    let bytes = images.usage().bytes;
    for _ in 0..20 {
        world.touch_all(GROUP_ROWS as u64 / 40);
        keep(&images, &world);
    }
    assert!(images.usage().kept_rows > 0);
    let lists = (2 * GROUP_ROWS * size_of::<u64>()) as u64;
    let growth = images.usage().bytes - bytes;
    assert!(growth <= lists, "{growth} bytes more");
    let now = Arc::new(world.store.snapshot());
    assert_eq!(scanned(&images, &now, &[4, 8]), model::project(&rows_of(&now), &[4, 8]));
}

/// What is remembered of touched rows counts, and goes with the last image.
#[test]
fn lists_of_touched_rows_are_within_the_limit() {
    let mut world = World::new(11, GROUP_ROWS as u64);
    let images = images(&world, 100_000);
    let early = Arc::new(world.store.snapshot());
    let read = |at: &Arc<Snapshot>, column| {
        let scan = images.scan(at.clone(), model::TABLE).expect("the table");
        scan.read(0, &[column]).expect("readable").work
    };
    read(&early, 4);
    let image = images.usage().bytes;
    world.touch_all(2_000);
    let now = Arc::new(world.store.snapshot());
    assert_eq!(read(&now, 4).patched_rows, 2_000);
    assert!(images.usage().bytes >= image + 2_000 * 8, "an older snapshot may ask from its height");
    assert_eq!(read(&early, 4).patched_rows, 2_000);
    // A larger image pushes the one out that the list was for.
    (0..3).for_each(|_| _ = read(&now, 8));
    assert!(images.usage().bytes <= 100_000);
    let expected = model::project(&rows_of(&early), &[4]);
    assert_eq!(scanned(&images, &early, &[4]), expected);
}

/// Of groups of which no query has asked for more than how many rows they have.
#[test]
fn lists_without_images_make_room_too() {
    let mut world = World::new(12, GROUP_ROWS as u64);
    let images = images(&world, 10_000);
    let early = scan(&images, &world);
    assert_eq!(early.read(0, &[]).expect("readable").live.count(), GROUP_ROWS);
    world.touch_all(500);
    keep(&images, &world);
    let list = images.usage().bytes;
    assert!((500 * 8..10_000).contains(&list), "{list} bytes");
    world.touch_all(2_000);
    keep(&images, &world);
    assert_eq!(images.usage().bytes, 0);
    assert_eq!(scan(&images, &world).read(0, &[]).expect("readable").live.count(), GROUP_ROWS);
}

#[test]
fn nothing_is_kept_of_a_table_that_is_laid_out_by_rows_or_gone() {
    let mut world = columnar(4, 2 * GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    scan(&images, &world).read(1, &[4]).expect("readable");
    let touched = |world: &mut World, to: u64| {
        world.touch(GROUP_ROWS as u64 + 7);
        keep(&images, world);
        assert_eq!(images.usage().kept_rows, to);
    };
    touched(&mut world, 1);
    world.set_layout(Layout::Row);
    touched(&mut world, 1);
    assert_eq!(scan(&images, &world).layout(), Layout::Row);
    world.set_layout(Layout::Column);
    touched(&mut world, 2);
    assert_eq!(scan(&images, &world).layout(), Layout::Column);
    world.drop_table();
    world.run_empty_block();
    keep(&images, &world);
    assert_eq!(images.usage().bytes, 0);
}

#[test]
fn what_was_evicted_is_kept_from_when_it_is_read_again() {
    let mut world = columnar(5, 2 * GROUP_ROWS as u64);
    let images = images(&world, 0);
    scan(&images, &world).read(1, &[4]).expect("readable");
    assert_eq!(images.usage().bytes, 0);
    world.touch(GROUP_ROWS as u64 + 7);
    keep(&images, &world);
    assert_eq!(images.usage().kept_rows, 0);
    assert_eq!(images.usage().bytes, 0);
}

/// Strings that no row has any more go, whether or not they were held when they were written.
#[test]
fn long_strings_take_about_as_much_memory_as_rows_have() {
    let mut world = columnar(7, GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let mut random = Random::new(7);
    scan(&images, &world).read(0, &[8]).expect("readable");
    let built = images.usage().work.built_bytes;
    let mut most = 0;
    for round in 0..6_000u64 {
        let note = format!("{round:0>100}");
        world.annotate(random.below(64), &note);
        let held = (round % 7 == 0).then(|| scan(&images, &world).read(0, &[8]));
        keep(&images, &world);
        most = most.max(images.usage().bytes);
        drop(held);
        if round % 1_000 == 999 {
            let now = Arc::new(world.store.snapshot());
            assert_eq!(scanned(&images, &now, &[8]), model::project(&rows_of(&now), &[8]));
            world.collect();
        }
    }
    // Views of 16 bytes, a fifth of as many strings of 13 and of 40 bytes, and 64 of 100; as much
    // again and a little of strings that are dead, in a buffer that doubles as it grows; and the
    // list of touched rows.
    let views = 16 * GROUP_ROWS as u64;
    let strings = 53 * GROUP_ROWS as u64 / 5 + 6_400;
    let list = 8 * GROUP_ROWS as u64;
    let bound = views + 2 * (2 * strings + (16 << 10)) + list;
    assert!(most < bound, "{most} bytes, not {bound}, of 600,000 that were written");
    assert_eq!(images.usage().work.built_bytes, built, "and nothing was made anew");
}

#[test]
fn a_store_brings_the_copies_that_live() {
    let mut world = columnar(6, 2 * GROUP_ROWS as u64);
    let images = images(&world, ROOMY);
    let copies: Weak<Images> = Arc::downgrade(&images);
    world.store.keep_copies(copies);
    scan(&images, &world).read(1, &[4]).expect("readable");
    world.touch(GROUP_ROWS as u64 + 1);
    world.store.bring_copies();
    assert_eq!(images.usage().kept_rows, 1);
    assert_eq!(scan(&images, &world).read(1, &[4]).expect("readable").work.patched_rows, 0);
    assert_eq!(Arc::strong_count(&images), 1, "the store holds none");
    drop(images);
    world.touch(GROUP_ROWS as u64 + 2);
    world.store.bring_copies();
}
