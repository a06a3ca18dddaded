//! Single records by their height.

use super::*;

/// Reads and opens that it takes to find all of these one after the other.
fn reads(lookup: &mut Lookup, files: &MemoryFiles, heights: &[u64]) -> u64 {
    let before = files.reads();
    for height in heights {
        let found = lookup.record(files, *height).unwrap().unwrap();
        assert_eq!(found.height(), *height);
    }
    files.reads() - before
}

/// In one segment, so that all of it lies before the last record.
fn one_segment(blocks: u64) -> MemoryFiles {
    written(&orders(&chain(blocks, 2)), 8, LogOptions::default())
}

#[test]
fn records_are_found_in_any_order_by_reads_in_proportion_to_them() {
    for order in [|at: u64| at, |at: u64| 400 - at, |at: u64| at * 37 % 401] {
        let few = one_segment(400);
        let heights: Vec<u64> = (0..=400).map(order).collect();
        let mut lookup = Lookup::new(Stream::Orders);
        let first = reads(&mut lookup, &few, &heights);
        assert!(first < 401 * 5, "{first} reads of 401 records");
        let again = reads(&mut lookup, &few, &heights);
        assert!(again < 401 * 4, "{again} reads the second time");
    }
}

#[test]
fn two_places_far_apart_cost_no_more_than_one() {
    let files = one_segment(400);
    let mut lookup = Lookup::new(Stream::Orders);
    let heights: Vec<u64> = (0..200).flat_map(|at| [at, at + 200]).collect();
    let taken = reads(&mut lookup, &files, &heights);
    assert!(taken < 400 * 5, "{taken} reads of 400 records");
}

#[test]
fn it_follows_a_log_that_grows_and_one_that_is_cut() {
    let blocks = orders(&chain(30, 3));
    let files = written(&blocks[..10], 3, OPTIONS);
    let mut lookup = Lookup::new(Stream::Orders);
    assert_eq!(lookup.record(&files, 10).unwrap(), None);
    let mut writer = writer(&files, OPTIONS).unwrap();
    for block in &blocks[10..] {
        assert_eq!(lookup.record(&files, block.height()).unwrap(), None);
        writer.append(std::slice::from_ref(block)).unwrap();
        assert_eq!(lookup.record(&files, block.height()).unwrap().as_ref(), Some(block));
    }
    lookup.forget();
    writer.cut(12).unwrap();
    assert_eq!(lookup.record(&files, 12).unwrap(), None);
    assert_eq!(lookup.record(&files, 11).unwrap().as_ref(), Some(&blocks[11]));
}

#[test]
fn damage_is_named_where_it_is() {
    let blocks = orders(&chain(12, 2));
    let files = written(&blocks, 1, LogOptions::default());
    let path = files.paths().remove(0);
    let bytes = files.contents(&path).unwrap();
    let payload = blocks[5].payload();
    let at = bytes.windows(payload.len()).position(|window| window == &payload[..]).unwrap();
    let place = |flipped: usize, asked: u64| {
        let (damaged, mut bytes) = (MemoryFiles::new(), bytes.clone());
        bytes[flipped] ^= 1;
        damaged.create_folder("orders").unwrap();
        damaged.plant(&path, bytes);
        match read_record(&damaged, Stream::Orders, asked) {
            Ok(found) => Ok(found.map(|it| it.height())),
            Err(LogError::Damage(damage)) => Err(damage.height),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(place(at, 5), Err(5), "its payload");
    assert_eq!(place(at, 9), Ok(Some(9)), "one behind it is whole");
    assert_eq!(place(at - 5, 5), Err(5), "its header");
    assert_eq!(place(at - 5, 9), Err(5), "which is the way to those behind");
}
