use proptest::prelude::*;
use types::TableId;

use super::*;
use crate::files::Files;
use crate::memory_files::{Failure, MemoryFiles};
use crate::merkle::leaf_hash;
use crate::parameters::Parameters;
use crate::testing::chain;

fn group(files: &mut PackWriter, first: u8, bytes: &[u8]) -> Group {
    let place = files.append(bytes).unwrap();
    Group { hash: leaf_hash(bytes), rows: 2, first: vec![first], last: vec![first, 1], place }
}

/// A checkpoint of two tables, one of them empty.
fn manifest(height: u64, groups: Vec<Group>) -> Manifest {
    let block = chain(height, 1).remove(height as usize);
    let tables = [(TableId(1), groups), (TableId(7), Vec::new())];
    Manifest {
        order: block.batch.header().clone(),
        result: block.result.header().clone(),
        durable_below: height + 1,
        parameters: Parameters::new("serial"),
        schema: b"schema".to_vec(),
        carried: b"handed on".to_vec(),
        tables: tables.map(|(table, groups)| TableGroups { table, groups }).into(),
        past: None,
    }
}

fn write(files: &MemoryFiles, height: u64, reused: Option<Group>) -> Manifest {
    let ledger_id = chain(0, 0)[0].batch.header().ledger_id;
    let mut pack = PackWriter::create(files, ledger_id, height).unwrap();
    let large = vec![height as u8; (1 << 20) + 5000];
    let mut groups: Vec<Group> = reused.into_iter().collect();
    groups.extend([group(&mut pack, 100, &large), group(&mut pack, 200, b"short")]);
    pack.finish().unwrap();
    let manifest = manifest(height, groups);
    write_manifest(files, &manifest).unwrap();
    manifest
}

fn packs(manifest: &Manifest) -> Vec<u64> {
    let mut packs: Vec<u64> = manifest.groups().map(|group| group.place.pack).collect();
    packs.sort_unstable();
    packs.dedup();
    packs
}

fn read_groups(files: &MemoryFiles, manifest: &Manifest) -> types::Result<usize> {
    let ledger_id = manifest.order.ledger_id;
    let reader = PackReader::open(files, ledger_id, &packs(manifest))?;
    let mut bytes = Vec::new();
    manifest.groups().try_for_each(|group| reader.read(group, &mut bytes))?;
    Ok(bytes.len())
}

#[test]
fn what_was_written_is_read() {
    let files = MemoryFiles::new();
    let written = write(&files, 3, None);
    assert_eq!(heights(&files).unwrap(), [3]);
    let read = read_manifest(&files, 3).unwrap();
    assert_eq!(read, written);
    assert_eq!(read.rows(), 4);
    assert_eq!(read_groups(&files, &read), Ok(5));
    let past = with_a_past(&MemoryFiles::new());
    assert_eq!((past.rows(), past.groups().count()), (4, 3), "rows are those of the state");
}

#[test]
fn every_flipped_byte_of_a_manifest_is_found() {
    let files = MemoryFiles::new();
    let bytes = write(&files, 2, None).encode().unwrap();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        assert!(Manifest::decode(&changed).is_err(), "byte {place}");
        assert!(Manifest::decode(&bytes[..place]).is_err(), "cut at {place}");
    }
}

/// A checkpoint with the older images of one group of rows.
fn with_a_past(files: &MemoryFiles) -> Manifest {
    let manifest = write(files, 5, None);
    let groups = vec![manifest.tables[0].groups[1].clone()];
    let past = Past { from: 3, tables: vec![TableGroups { table: TableId(1), groups }] };
    Manifest { past: Some(past), ..manifest }
}

#[test]
fn what_a_manifest_says_of_the_past_has_one_encoding() {
    let whole = with_a_past(&MemoryFiles::new());
    let bytes = whole.encode().unwrap();
    assert_eq!(Manifest::decode(&bytes).unwrap(), whole);
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        assert!(Manifest::decode(&changed).is_err(), "byte {place}");
    }
    let decoded = |change: fn(&mut Past)| {
        let mut past = whole.past.clone();
        past.iter_mut().for_each(change);
        Manifest::decode(&Manifest { past, ..whole.clone() }.encode().unwrap())
    };
    assert!(decoded(|past| past.from = 4).is_ok() && decoded(|past| past.tables.clear()).is_ok());
    assert!(decoded(|past| past.from = 5).is_err(), "that is the state itself");
    assert!(decoded(|past| past.tables[0].groups.clear()).is_err(), "nothing");
    assert!(decoded(|past| past.tables.push(past.tables[0].clone())).is_err(), "twice");
    let without = Manifest { past: None, ..whole.clone() };
    assert_eq!(without, write(&MemoryFiles::new(), 5, None));
    let without = without.encode().unwrap();
    for more in 1..bytes.len() - without.len() {
        let (content, hash) = without.split_at(without.len() - 32);
        let mut cut = [content, &bytes[content.len()..][..more], hash].concat();
        reseal(&mut cut);
        assert!(Manifest::decode(&cut).is_err(), "cut behind {more} bytes");
    }
}

#[test]
fn the_two_headers_of_a_manifest_are_of_one_block() {
    let (two, three) = (manifest(2, Vec::new()), manifest(3, Vec::new()));
    let mixed = Manifest { order: three.order, ..two.clone() };
    assert!(Manifest::decode(&mixed.encode().unwrap()).is_err());
    assert_eq!(Manifest::decode(&two.encode().unwrap()).unwrap(), two);
}

#[test]
fn a_flipped_byte_of_a_pack_is_found() {
    let files = MemoryFiles::new();
    let manifest = write(&files, 2, None);
    let path = "checkpoints/00000000000000000002.pack";
    let bytes = files.contents(path).unwrap();
    for place in (0..40).chain((40..bytes.len()).step_by(9973)).chain([bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        files.plant(path, changed);
        assert!(read_groups(&files, &manifest).is_err(), "byte {place}");
    }
    files.plant(path, bytes[..bytes.len() - 1].to_vec());
    assert!(read_groups(&files, &manifest).is_err(), "cut");
    files.plant(path, bytes);
    assert!(read_groups(&files, &manifest).is_ok());
}

#[test]
fn the_digest_is_the_states_alone() {
    let files = MemoryFiles::new();
    let first = write(&files, 2, None);
    let mut other = first.clone();
    other.order = chain(9, 1)[9].batch.header().clone();
    other.result = chain(9, 1)[9].result.header().clone();
    other.tables[0].groups[0].place.offset += 1;
    assert_eq!(other.digest(), first.digest());
    for change in [
        |m: &mut Manifest| m.tables[0].groups[1].hash[0] ^= 1,
        |m: &mut Manifest| m.tables[0].groups[1].rows += 1,
        |m: &mut Manifest| m.tables[1].table.0 += 1,
        |m: &mut Manifest| m.schema.push(0),
        |m: &mut Manifest| m.carried.push(0),
        |m: &mut Manifest| m.schema.extend(m.carried.split_off(1)),
        |m: &mut Manifest| m.parameters.protocol.push('x'),
    ] {
        let mut other = first.clone();
        change(&mut other);
        assert_ne!(other.digest(), first.digest());
    }
    let first = with_a_past(&MemoryFiles::new());
    for change in [
        |m: &mut Manifest| m.past = None,
        |m: &mut Manifest| m.past.iter_mut().for_each(|past| past.from += 1),
        |m: &mut Manifest| m.past.iter_mut().for_each(|past| past.tables.clear()),
        |m: &mut Manifest| m.past.iter_mut().for_each(|p| p.tables[0].groups[0].hash[0] ^= 1),
    ] {
        let mut other = first.clone();
        change(&mut other);
        assert_ne!(other.digest(), first.digest());
    }
}

#[test]
fn the_newest_are_kept_with_the_packs_that_they_refer_to() {
    let files = MemoryFiles::new();
    let one = write(&files, 1, None);
    let reused = Group { first: vec![1], last: vec![1, 1], ..one.tables[0].groups[1].clone() };
    write(&files, 2, None);
    let three = write(&files, 3, Some(reused));
    write(&files, 9, None);
    files.plant("checkpoints/00000000000000000002.manifest", vec![1; 300]);
    retain(&files, 3, 2).unwrap();
    assert_eq!(heights(&files).unwrap(), [1, 3], "a damaged one and one of another past go");
    retain(&files, 3, 1).unwrap();
    assert_eq!(heights(&files).unwrap(), [3]);
    assert_eq!(read_groups(&files, &three), Ok(5), "the older pack is still there");
    let names = files.list("checkpoints").unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn only_what_is_in_the_way_of_a_new_checkpoint_goes_before_it() {
    let files = MemoryFiles::new();
    (1..=5).for_each(|height| drop(write(&files, height, None)));
    clear(&files, 4, &[2]).unwrap();
    assert_eq!(heights(&files).unwrap(), [1, 3], "a lost one, the one at 4 and one above go");
    let packs = files.list("checkpoints").unwrap().into_iter().filter(|n| n.ends_with("pack"));
    assert_eq!(packs.count(), 4, "whose packs others may refer to");
    write(&files, 4, None);
}

/// A disk that cannot read just now is not a damaged file.
#[test]
fn what_cannot_be_read_is_not_removed() {
    for read in 0.. {
        let files = MemoryFiles::new();
        (1..=3).for_each(|height| drop(write(&files, height, None)));
        let before = files.paths();
        files.fail_at(Some(Failure::Read(read)));
        let retained = retain(&files, 3, 2);
        files.fail_at(None);
        if retained.is_ok() {
            assert!(read > 0);
            return assert_eq!(heights(&files).unwrap(), [2, 3]);
        }
        assert_eq!(files.paths(), before, "read {read}");
    }
}

/// Whatever of the files survives, a manifest that decodes has all its groups.
#[test]
fn a_manifest_that_survives_a_crash_has_its_groups() {
    for operation in 0.. {
        let files = MemoryFiles::new();
        let before = write(&files, 1, None);
        files.fail_at(Some(Failure::PowerOff(files.operations() + operation)));
        let written = std::panic::catch_unwind(|| {
            write(&files, 2, None);
            retain(&files, 2, 1).unwrap();
        });
        for seed in 0..20 {
            let left = files.crash(&mut kit::random::Random::new(seed));
            let heights = heights(&left).unwrap();
            let whole = heights.iter().filter_map(|h| read_manifest(&left, *h).ok());
            let whole: Vec<Manifest> = whole.collect();
            assert!(!whole.is_empty(), "operation {operation}, seed {seed}");
            for manifest in &whole {
                read_groups(&left, manifest).unwrap();
            }
            let newest = whole.last().unwrap().height();
            assert!(written.is_err() || newest == 2);
            assert!(newest == 2 || whole.contains(&before));
        }
        if written.is_ok() {
            return;
        }
    }
}

proptest! {
    #[test]
    fn groups_are_cut_by_keys_alone(keys in prop::collection::btree_set(any::<u32>(), 1..3000)) {
        let cut = |keys: &[u32]| {
            let mut rows = 0;
            let begins = |key: &&u32| {
                let begins = begins_group(&key.to_be_bytes(), rows);
                rows = if begins { 1 } else { rows + 1 };
                begins
            };
            keys.iter().filter(begins).copied().collect::<Vec<u32>>()
        };
        let keys: Vec<u32> = keys.into_iter().collect();
        let (all, without) = (cut(&keys), cut(&keys[1..]));
        prop_assert!(all.iter().skip(1).all(|key| *key == keys[1] || without.contains(key)));
    }

    #[test]
    fn hostile_manifests_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
    }
}
