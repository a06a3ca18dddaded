//! Protocols that read states some blocks back: a start from a checkpoint of any block goes on as
//! if there had been none, since the checkpoint holds what those states differ in.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::checkpoint::load;
use engine::{Body, Fault, Replica, replay_behind};
use kit::random::Random;
use ledger::checkpoint::{Manifest, Past, manifest_path, pack_path, read_manifest, write_manifest};
use ledger::merkle::leaf_hash;
use ledger::{Files, Hash, MemoryFiles};
use types::{Height, SqlState};

use super::world::{World, digest_of, full_replay, make, recovered, statement};

/// Lags up to the longest, and protocols that read the newest state alone.
const PROTOCOLS: [&str; 15] = [
    "fabric",
    "fabric:lag=1",
    "fabric:lag=3:spread=2",
    "fabric:lag=12",
    "fabric:lag=64:spread=7",
    "fabric_pp",
    "fabric_pp:lag=2",
    "fabric_pp:lag=1:spread=4",
    "harmony",
    "harmony:fallback=defer",
    "harmony:inter_block=on",
    "quecc",
    "aria",
    "calvin",
    "serial",
];

const ROWS: i64 = 40;
const BLOCKS: Height = 40;

/// Schema and parameter changes. Some are refused when they come again, which is a barrier too.
const CHANGES: [&str; 5] = [
    "CREATE INDEX by_amount ON t (amount, id)",
    "ALTER TABLE t ADD COLUMN more int DEFAULT 7",
    "TRUNCATE journal",
    "DROP INDEX by_amount",
    "ALTER TABLE t DROP COLUMN more",
];

fn any(random: &mut Random) -> Body {
    let id = |random: &mut Random| match random.chance(2) {
        true => random.below(3) as i64,
        false => random.below(ROWS as u64) as i64,
    };
    let (a, b) = (id(random), id(random));
    statement(&match random.below(12) {
        0 => format!("DELETE FROM t WHERE id = {a}"),
        1 => format!("DELETE FROM t WHERE id BETWEEN {a} AND {a} + 2 AND amount > 20"),
        2 | 3 => format!("INSERT INTO t (id, amount, note) VALUES ({a}, {b}, 'note {b}')"),
        4 => format!("UPDATE t SET note = 'a note that lies in the heap {b}' WHERE id = {a}"),
        5 => format!("UPDATE t SET amount = amount + 1 WHERE note = 'note {b}'"),
        6 => format!("SELECT id, amount FROM t WHERE note >= 'note {b}' ORDER BY note LIMIT 3"),
        7 => format!("SELECT count(*), sum(amount) FROM t WHERE id < {a}"),
        8 => format!("INSERT INTO t (id, amount) VALUES (-{a}, 1)"),
        9 => format!("INSERT INTO journal SELECT note, {a}, NULL FROM t WHERE id = {b}"),
        10 => "DELETE FROM journal WHERE n < 9".to_owned(),
        _ => format!("UPDATE t SET amount = amount + {a} WHERE id = {b}"),
    })
}

fn bodies(random: &mut Random) -> Vec<Body> {
    let mut bodies: Vec<Body> = (0..1 + random.below(6)).map(|_| any(random)).collect();
    if random.chance(9) {
        let place = random.below(bodies.len() as u64 + 1) as usize;
        let text = CHANGES[random.below(CHANGES.len() as u64) as usize].into();
        bodies.insert(place, Body::Schema { text });
    }
    bodies
}

/// A ledger with a checkpoint of each of its last blocks, and the digest of each state.
struct Reported {
    world: World,
    digests: BTreeMap<Height, Hash>,
    first: Height,
}

/// `then` is the protocol of the second half.
fn tell(protocol: &str, then: Option<&str>, seed: u64) -> Reported {
    let mut world = World::new(protocol, seed);
    let mut checkpointer = world.checkpointer(1000);
    world.create_and_load(ROWS);
    let first = world.height();
    let mut random = Random::new(seed);
    let mut digests = BTreeMap::new();
    for block in 0..BLOCKS {
        let digest = world.checkpoint(&mut checkpointer).digest;
        assert_eq!(digest, digest_of(&world.replica), "{protocol}");
        digests.insert(world.height(), digest);
        let mut bodies = bodies(&mut random);
        if let Some(value) = then.filter(|_| block == BLOCKS / 2) {
            bodies.push(Body::Parameter { name: "protocol".into(), value: value.into() });
        }
        world.block(bodies);
    }
    digests.insert(world.height(), digest_of(&world.replica));
    Reported { world, digests, first }
}

impl Reported {
    fn files(&self) -> Arc<dyn Files> {
        Arc::new(self.world.files.clone())
    }

    fn last(&self) -> Height {
        self.world.height()
    }

    /// A start from the checkpoint of a block, by so many workers. Each block's order, outcomes,
    /// effects and header are compared on the way.
    fn start(&self, height: Height, workers: usize) -> Result<(), Fault> {
        let mut after = |replica: &Replica, _| {
            let at = replica.head().height;
            assert_eq!(digest_of(replica), self.digests[&at], "from {height}, behind {at}");
        };
        let replayed = replay_behind(&self.files(), height, &make, workers, &mut after)?;
        let replayed = replayed.unwrap_or_else(|passed_over| panic!("{passed_over:?}"));
        assert_eq!(replayed.progress.blocks, self.last() - height);
        assert_eq!(replayed.replica.head().hash, self.world.replica.head().hash);
        Ok(())
    }

    fn manifest(&self, height: Height) -> Manifest {
        read_manifest(&self.world.files, height).unwrap()
    }
}

fn starts_anywhere(reported: &Reported, what: &str) {
    for height in reported.first..reported.last() {
        let workers = 1 + height as usize % 2;
        reported.start(height, workers).unwrap_or_else(|fault| panic!("{what}, {height}: {fault}"));
    }
    let digest = reported.digests[&reported.last()];
    assert_eq!(digest_of(&full_replay(&reported.world.files).replica), digest, "{what}");
    assert_eq!(digest_of(&recovered(&reported.world.files).replica), digest, "{what}");
}

#[test]
fn a_start_from_a_checkpoint_of_any_block_goes_on_as_if_there_had_been_none() {
    for (seed, protocol) in (0..).zip(PROTOCOLS) {
        let reported = tell(protocol, None, seed);
        starts_anywhere(&reported, protocol);
        let history = protocols::by_name(protocol).unwrap().history();
        for height in reported.first..reported.last() {
            let past = reported.manifest(height).past;
            assert!(history > 1 || past.is_none(), "{protocol} reads the newest state alone");
            assert!(past.is_none_or(|past| past.from + history > height));
        }
    }
}

#[test]
fn a_ledger_that_is_put_under_another_protocol_starts_anywhere_as_well() {
    multiversion::register();
    for (protocol, then) in [
        ("fabric:lag=4", "harmony"),
        ("harmony", "fabric:lag=4"),
        ("fabric:lag=4", "fabric_pp:lag=7"),
        ("fabric:lag=9:spread=1", "fabric:lag=2"),
        ("fabric:lag=3", "silo"),
        ("si", "fabric:lag=3"),
    ] {
        starts_anywhere(&tell(protocol, Some(then), 70), &format!("{protocol}, {then}"));
    }
}

/// Checkpoints without what the older states differ in, right by every hash.
#[test]
fn a_checkpoint_that_lacks_the_past_is_found() {
    let reported = tell("fabric:lag=5", None, 80);
    let found = |past_of: fn(Past) -> Option<Past>| {
        let mut found = 0;
        for height in reported.first..reported.last() {
            let whole = reported.manifest(height);
            let past = whole.past.clone().and_then(past_of);
            plant(&reported.world.files, &Manifest { past, ..whole.clone() });
            let started = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut after = |_: &Replica, _| ();
                replay_behind(&reported.files(), height, &make, 1, &mut after).map(drop)
            }));
            found += u32::from(!matches!(started, Ok(Ok(()))));
            plant(&reported.world.files, &whole);
        }
        found
    };
    assert_eq!(found(Some), 0);
    let without = found(|_| None);
    let emptied = found(|past| Some(Past { tables: Vec::new(), ..past }));
    assert!(without > 10 && emptied > 10, "{without} and {emptied} of {BLOCKS}");
}

fn plant(files: &MemoryFiles, manifest: &Manifest) {
    files.remove(&manifest_path(manifest.height())).unwrap();
    write_manifest(files, manifest).unwrap();
}

/// The newest checkpoint, which has older images of several rows.
fn with_a_past() -> (Reported, Height) {
    let reported = tell("fabric:lag=8:spread=1", None, 90);
    let rich = |height: &Height| {
        let past = reported.manifest(*height).past;
        past.is_some_and(|past| past.tables.iter().any(|table| table.rows() > 5))
    };
    let height =
        (reported.first..reported.last()).rev().find(rich).expect("a workload that changes rows");
    (reported, height)
}

#[test]
fn every_flipped_byte_of_the_past_is_found() {
    let (reported, height) = with_a_past();
    let files = &reported.world.files;
    let manifest = reported.manifest(height);
    for group in manifest.past.iter().flat_map(|past| &past.tables).flat_map(|t| &t.groups) {
        let path = pack_path(group.place.pack);
        let bytes = files.contents(&path).unwrap();
        let place = group.place.offset as usize;
        for at in place..place + group.place.length as usize {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            files.plant(&path, changed);
            let error = load(files, height, &make, 1).err().expect("a flipped byte");
            assert_eq!(error.code(), SqlState::DATA_CORRUPTED);
        }
        files.plant(&path, bytes);
    }
    assert!(load(files, height, &make, 1).is_ok());
}

/// The hashes of a file prove nothing against one who can write it.
#[test]
fn a_hostile_past_is_refused_or_loaded_and_never_a_panic() {
    let (reported, height) = with_a_past();
    let files = &reported.world.files;
    let whole = reported.manifest(height);
    let mut random = Random::new(1);
    let (mut refused, mut loaded) = (0, 0);
    for round in 0..1500 {
        let mut manifest = whole.clone();
        let past = manifest.past.as_mut().unwrap();
        let table = random.below(past.tables.len() as u64) as usize;
        let groups = &mut past.tables[table].groups;
        let one = random.below(groups.len() as u64) as usize;
        let group = &mut groups[one];
        let path = pack_path(group.place.pack);
        let pack = files.contents(&path).unwrap();
        let (start, length) = (group.place.offset as usize, group.place.length as usize);
        let mut bytes = pack[start..start + length].to_vec();
        match round % 4 {
            0 => bytes.truncate(random.below(length as u64) as usize),
            1 => drop(bytes.splice(.., random_bytes(&mut random, 80))),
            _ => {
                for _ in 0..1 + random.below(3) {
                    let at = random.below(length as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            }
        }
        (group.place.offset, group.place.length) = (pack.len() as u64, bytes.len() as u64);
        group.hash = leaf_hash(&bytes);
        if random.chance(8) {
            past.from = past.from.saturating_sub(random.below(20)) + random.below(3);
        }
        files.plant(&path, [&pack[..], &bytes].concat());
        plant(files, &manifest);
        match load(files, height, &make, 1) {
            Ok(_) => loaded += 1,
            Err(error) => {
                assert_ne!(error.code(), SqlState::IO_ERROR, "{error}");
                refused += 1;
            }
        }
        files.plant(&path, pack);
    }
    // A value that was changed for another is for a re-execution to find.
    assert!(refused > 500 && loaded > 100, "{refused} were refused, {loaded} loaded");
}

fn random_bytes(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.below(256) as u8).collect()
}
