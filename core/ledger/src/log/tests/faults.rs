//! Every fault at every operation, and a power cut on top.

use super::*;

/// As many blocks as the disk takes, one by one. Returns how many are acknowledged.
fn append_until_refused(files: &MemoryFiles, blocks: &[Record]) -> usize {
    let Ok(mut writer) = writer(files, OPTIONS) else {
        return 0;
    };
    let mut acknowledged = writer.next_height() as usize;
    for block in &blocks[acknowledged..] {
        if writer.append(std::slice::from_ref(block)).is_err() {
            // Nothing is retried as if nothing had happened.
            assert!(writer.append(std::slice::from_ref(block)).is_err());
            break;
        }
        acknowledged += 1;
        if acknowledged.is_multiple_of(2) && writer.rest().is_err() {
            break;
        }
    }
    acknowledged
}

fn expect_blocks(files: &MemoryFiles, blocks: &[Record], acknowledged: usize, when: &str) {
    let (found, error) = read(files);
    assert!(!matches!(error, Some(LogError::Damage(_))), "{when}: {error:?}");
    assert!(found.len() >= acknowledged, "{when}: {} of {acknowledged} blocks", found.len());
    assert_eq!(found, blocks[..found.len()], "{when}");
}

/// A process meets a fault and ends; the next one, on a sound disk, goes on from what the first
/// left; then the power goes. At no time is an acknowledged block missing, nor damage found.
#[test]
fn what_was_acknowledged_survives_every_fault_at_every_operation() {
    let blocks = orders(&chain(7, 3));
    let (before, after) = blocks.split_at(5);
    let operations = written(before, 1, OPTIONS).operations();
    let mut images = 0;
    for (what, manner) in MANNERS {
        for operation in 0..=operations {
            let when = format!("{what} at operation {operation}");
            let files = MemoryFiles::new();
            files.fail_at(Some(manner(operation)));
            let first = append_until_refused(&files, before);
            files.fail_at(None);
            for image in files.crash_images(6) {
                expect_blocks(&image, &blocks, first, &format!("{when}, cut"));
                images += 1;
            }
            expect_blocks(&files, &blocks, first, &when);
            let second = append_until_refused(&files, &blocks);
            assert_eq!(second, before.len() + after.len(), "{when}: the log goes on");
            for image in files.crash_images(6) {
                expect_blocks(&image, &blocks, second, &format!("{when}, gone on, cut"));
                images += 1;
            }
        }
    }
    assert!(images > 1_000, "only {images} images");
}

/// Every moment of a short life, and every disk that a power cut may then leave.
#[test]
fn every_image_of_every_moment_holds_what_was_acknowledged() {
    let blocks = orders(&chain(3, 2));
    let operations = written(&blocks, 1, OPTIONS).operations();
    let mut images = 0;
    for operation in 0..=operations {
        let files = MemoryFiles::new();
        files.fail_at(Some(Failure::PowerOff(operation)));
        let acknowledged = append_until_refused(&files, &blocks);
        for image in files.crash_images(12) {
            let when = format!("cut at operation {operation}");
            expect_blocks(&image, &blocks, acknowledged, &when);
            assert_eq!(append_until_refused(&image, &blocks), blocks.len(), "{when}");
            expect_blocks(&image, &blocks, blocks.len(), &when);
            images += 1;
        }
    }
    assert!(images > 80, "only {images} images");
}

/// A read that fails is told as such: it is neither damage nor the end of the log.
#[test]
fn a_failing_read_is_not_taken_for_damage() {
    let blocks = orders(&chain(4, 2));
    let files = written(&blocks, 1, OPTIONS);
    for n in 0.. {
        let fresh = files.crash_images(0).next().unwrap();
        fresh.fail_at(Some(Failure::Read(n)));
        match read(&fresh) {
            (_, Some(LogError::Io(_))) => continue,
            (found, None) => {
                assert!(n > 1 && found == blocks, "{n} reads");
                break;
            }
            (_, other) => panic!("read {n}: {other:?}"),
        }
    }
}
