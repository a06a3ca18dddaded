//! Every moment at which the power may go, and many of the disks that it may leave.

use kit::random::Random;

use super::*;

/// Appends the rest of `blocks` in random groups until done or until the power is off. Returns how
/// many are acknowledged as durable, and how many were ever handed over.
fn append_rest(
    writer: &mut LogWriter,
    blocks: &[Record],
    random: &mut Random,
    durable: &mut usize,
) -> usize {
    let mut handed = writer.next_height() as usize;
    while handed < blocks.len() {
        let group = 1 + random.below(3) as usize;
        let end = (handed + group).min(blocks.len());
        let appended = writer.append(&blocks[handed..end]);
        handed = end;
        if appended.is_err() {
            break;
        }
        *durable = writer.durable_below() as usize;
        if random.chance(4) && writer.sync().is_err() {
            break;
        }
        if random.chance(4) && writer.rest().is_err() {
            break;
        }
        *durable = writer.durable_below() as usize;
    }
    handed
}

/// One life after another on the same disk, each cut at a random operation (also of the recovery),
/// until all blocks are there.
fn live_and_die(seed: u64, blocks: &[Record], sync: bool) -> u64 {
    let stream = blocks[0].stream();
    let mut random = Random::new(seed);
    let options = LogOptions {
        segment_bytes: 600 + random.below(5_000),
        zero_fill_bytes: random.below(3_000),
        sync,
    };
    let mut files = MemoryFiles::new();
    let (mut durable, mut handed, mut torn_tails) = (0, 0, 0);
    loop {
        let (found, error) = read(&files);
        assert_eq!(found, blocks[..found.len()], "seed {seed}: blocks are whole or absent");
        assert!(found.len() >= durable, "seed {seed}: {durable} blocks were synced");
        assert!(found.len() <= handed, "seed {seed}");
        match error {
            None => {}
            Some(LogError::TornTail(tail)) => {
                torn_tails += 1;
                assert_eq!(tail.height, found.len() as u64, "seed {seed}");
            }
            Some(other) => panic!("seed {seed}: {other}"),
        }
        if found.len() == blocks.len() {
            return torn_tails;
        }
        let lifetime = random.below(25);
        files.fail_at(Some(Failure::PowerOff(files.operations() + lifetime)));
        // A node that has a checkpoint reads from there.
        let from = random.below(2) * random.below(blocks.len() as u64);
        if let Ok(mut writer) = writer_from(&files, stream, from, options) {
            assert_eq!(writer.next_height(), found.len() as u64, "seed {seed}");
            let head_hash = found.last().map_or([0; 32], Record::hash);
            assert_eq!(writer.head_hash(), head_hash, "seed {seed}, read from {from}");
            durable = durable.max(found.len());
            assert!(read(&files).1.is_none(), "seed {seed}: recovery leaves a clean log");
            handed = append_rest(&mut writer, blocks, &mut random, &mut durable);
        }
        files.fail_at(None);
        // A killed process leaves what it wrote in the page cache; only a power cut tears it.
        if !random.chance(3) {
            files = files.crash(&mut random);
        }
    }
}

#[test]
fn nothing_synced_is_lost_and_no_block_is_half() {
    let blocks = chain(20, 6);
    let (blocks, results) = (orders(&blocks), results(&blocks));
    let torn_tails: u64 = (0..400).map(|seed| live_and_die(seed, &blocks, true)).sum();
    assert!(torn_tails > 100, "only {torn_tails} torn tails: the test has lost its teeth");
    let torn_tails: u64 = (0..400).map(|seed| live_and_die(seed, &results, false)).sum();
    assert!(torn_tails > 100, "only {torn_tails} torn tails of results");
    let torn_tails: u64 = (0..400).map(|seed| live_and_die(seed, &blocks, false)).sum();
    assert!(torn_tails > 100, "only {torn_tails} torn tails without sync");
}

/// The power goes in the middle of the last write, after any number of its bytes.
#[test]
fn a_write_cut_anywhere_is_kept_aside() {
    let blocks = orders(&chain(3, 3));
    let whole = written(&blocks, 2, LogOptions { segment_bytes: 1 << 20, ..OPTIONS });
    let path = whole.paths().remove(0);
    let bytes = whole.contents(&path).unwrap();
    let synced = written(&blocks[..2], 2, LogOptions { segment_bytes: 1 << 20, ..OPTIONS });
    let start = bytes.windows(4).enumerate().filter(|(_, four)| *four == b"TREC").nth(2).unwrap().0;
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in start..end {
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        synced.plant(&path, torn);
        let files = synced.crash(&mut Random::new(0));
        let (found, error) = read(&files);
        assert!((2..4).contains(&found.len()), "cut at {cut}");
        let Some(LogError::TornTail(tail)) = error else {
            assert!(cut == start || found.len() == 3, "cut at {cut}: {error:?}");
            continue;
        };
        let mut writer = writer(&files, OPTIONS).unwrap();
        assert_eq!(writer.next_height(), tail.height);
        let aside = files.paths().into_iter().find(|path| path.starts_with("quarantine/"));
        let kept = files.contents(&aside.unwrap()).unwrap();
        let offset = tail.offset as usize;
        assert_eq!(kept, bytes[offset..offset + tail.cut_bytes as usize], "cut at {cut}");
        writer.append(&blocks[found.len()..]).unwrap();
        let (found, error) = read(&files);
        assert!(error.is_none() && found == blocks, "cut at {cut}");
    }
}
