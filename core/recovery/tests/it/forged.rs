//! A checkpoint of which something was changed, with every hash of its own files computed again.
//! Only the ledger can tell that its state is another; and where the ledger was made to say the
//! same, running it from genesis, or a head that is kept elsewhere.

use std::sync::Arc;

use engine::checkpoint::vouched::vouched_from;
use engine::checkpoint::{Checkpointer, ServiceSettings};
use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Checkpoints, Engine, EngineOptions, NoObserver, Progress, Recovery,
    Replayed, Submitter, Trust, replay, resume_writing,
};
use ledger::checkpoint::{
    CHECKPOINT_FOLDER, Group, Manifest, PackReader, PackWriter, Past, heights, manifest_path,
    pack_path, read_manifest, write_manifest,
};
use ledger::merkle::leaf_hash;
use ledger::{BlockWriter, ChainVerifier, Files, MemoryFiles};
use order::Envelope;
use types::{Height, Value};

use crate::ledgered::{begin, digest_of, executing, genesis_without_roots, options, recovered};

const TALLY: Submitter<'_> = Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };

const TRUSTING: Trust = Trust::Uncontradicted;

fn recovery(trust: Trust) -> Recovery {
    Recovery { trust, ..executing(1) }
}

fn start(files: &MemoryFiles, protocol: &str, vouch: bool, every: u64) -> Engine {
    let own: Arc<dyn Files> = Arc::new(files.clone());
    if files.paths().is_empty() {
        let genesis = genesis_without_roots(protocol);
        drop(BlockWriter::begin(Arc::clone(&own), &genesis, options()).unwrap());
    }
    let read = recovered(&own, &recovery(Trust::Vouched)).unwrap();
    let language = read.replica.language().clone();
    let base = read.checkpoint.map(|checkpoint| checkpoint.base);
    let checkpointer = Checkpointer::new(own, 9, base, &read.passed_over);
    let settings = ServiceSettings {
        interval_blocks: every,
        interval_bytes: 0,
        cpu_percent_max: 100,
        undo_bytes_max: 0,
    };
    let checkpoints = Some(Checkpoints { checkpointer, settings, since: Progress::default() });
    let log = resume_writing(read.reader, &read.unrecorded, options()).unwrap();
    let (limits, observer) = (BlockLimits::default(), Arc::new(NoObserver));
    let options = EngineOptions { checkpoints, vouch, ..EngineOptions::default() };
    let clock = Arc::new(|| 0);
    Engine::start_with(read.replica, log, language, limits, clock, observer, options).unwrap()
}

fn submit(engine: &Engine, body: &Body) {
    let answer = engine.submit(TALLY, &Asked::from(body), None).unwrap();
    answer.blocking_recv().expect("an engine answers").unwrap();
}

fn load(engine: &Engine, ids: std::ops::Range<i64>) {
    for id in ids {
        let row = [Value::Int(id), Value::Int(100)].into();
        submit(engine, &Body::load("COPY t (id, v) FROM STDIN", vec![row]));
    }
}

fn take(engine: &Engine) -> Height {
    engine.checkpoint().unwrap().blocking_recv().unwrap().unwrap().height
}

/// Two checkpoints, and blocks after them.
fn ledger(protocol: &str, vouch: bool) -> (MemoryFiles, [Height; 2]) {
    ledger_in(MemoryFiles::new(), protocol, vouch)
}

/// The same where genesis may be there already.
fn ledger_in(files: MemoryFiles, protocol: &str, vouch: bool) -> (MemoryFiles, [Height; 2]) {
    let engine = start(&files, protocol, vouch, 0);
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)".into();
    submit(&engine, &Body::Schema { text });
    load(&engine, 0..20);
    let first = take(&engine);
    load(&engine, 20..40);
    let second = take(&engine);
    load(&engine, 40..50);
    engine.stop();
    (files, [first, second])
}

/// Makes the last row of a checkpoint's first group another.
fn forge(files: &MemoryFiles, height: Height) {
    let mut manifest = read_manifest(files, height).unwrap();
    let packs = PackReader::open(files, manifest.order.ledger_id, &manifest.packs()).unwrap();
    let groups: Vec<(Group, Vec<u8>)> = manifest
        .groups()
        .map(|group| {
            let mut bytes = Vec::new();
            packs.read(group, &mut bytes).unwrap();
            (group.clone(), bytes)
        })
        .collect();
    files.remove(&manifest_path(height)).unwrap();
    let path = pack_path(height);
    if files.paths().contains(&path) {
        files.remove(&path).unwrap();
    }
    let mut pack = PackWriter::create(files, manifest.order.ledger_id, height).unwrap();
    let mut forged = Vec::new();
    for (group, mut bytes) in groups {
        if forged.is_empty() {
            *bytes.last_mut().unwrap() ^= 1;
        }
        let place = pack.append(&bytes).unwrap();
        forged.push(Group { hash: leaf_hash(&bytes), place, ..group });
    }
    pack.finish().unwrap();
    manifest.tables[0].groups = forged;
    write_manifest(files, &manifest).unwrap();
}

/// Writes a manifest again with something of it changed.
fn forge_manifest(files: &MemoryFiles, height: Height, change: &dyn Fn(&mut Manifest)) {
    let mut manifest = read_manifest(files, height).unwrap();
    change(&mut manifest);
    files.remove(&manifest_path(height)).unwrap();
    write_manifest(files, &manifest).unwrap();
}

fn begun_with(replayed: &Replayed) -> Option<Height> {
    replayed.checkpoint.as_ref().map(|checkpoint| checkpoint.base.manifest.height())
}

#[test]
fn a_forged_checkpoint_is_not_begun_with() {
    for protocol in ["serial", "harmony", "silo"] {
        let (files, [first, second]) = ledger(protocol, true);
        let own: Arc<dyn Files> = Arc::new(files.clone());
        let said = vouched_from(&own, 0).unwrap();
        assert_eq!(said.keys().copied().collect::<Vec<_>>(), [first, second]);
        let whole = recovered(&own, &recovery(Trust::Vouched)).unwrap();
        assert_eq!(begun_with(&whole), Some(second));
        let state = digest_of(&whole.replica);
        let executed =
            replay(Arc::clone(&own), &crate::ledgered::language, 1, &mut |_| ()).unwrap();
        assert_eq!(digest_of(&executed.replica), state, "{protocol}");

        forge(&files, second);
        for trust in [Trust::Vouched, TRUSTING] {
            let replayed = recovered(&own, &recovery(trust)).unwrap();
            assert_eq!(begun_with(&replayed), Some(first));
            let why = &replayed.passed_over[0];
            assert!(why.is_lost && why.why.contains("of the ledger names"), "{}", why.why);
            assert_eq!(digest_of(&replayed.replica), state, "{protocol}");
        }
        forge(&files, first);
        let replayed = recovered(&own, &recovery(TRUSTING)).unwrap();
        assert_eq!(begun_with(&replayed), None);
        assert_eq!(digest_of(&replayed.replica), state, "{protocol}");
    }
}

/// Where headers name state roots, no block has to vouch for a checkpoint: its own header does.
#[test]
fn a_state_root_tells_a_forged_checkpoint() {
    for protocol in ["serial", "harmony:inter_block=on", "silo"] {
        let files = MemoryFiles::new();
        let own: Arc<dyn Files> = Arc::new(files.clone());
        drop(begin(&own, protocol));
        let (files, [first, second]) = ledger_in(files, protocol, false);
        let whole = recovered(&own, &recovery(TRUSTING)).unwrap();
        assert_eq!(begun_with(&whole), Some(second));
        let state = digest_of(&whole.replica);
        for (forged, begun) in [(second, Some(first)), (first, None)] {
            forge(&files, forged);
            let replayed = recovered(&own, &recovery(TRUSTING)).unwrap();
            assert_eq!(begun_with(&replayed), begun, "{protocol}");
            let why = &replayed.passed_over[0];
            assert!(why.is_lost && why.why.contains("state root"), "{}", why.why);
            assert_eq!(digest_of(&replayed.replica), state, "{protocol}");
        }
    }
}

/// What a start says of a forged field of a manifest; `None`: that it begins with the checkpoint.
type Field = (&'static str, fn(&mut Manifest), Option<&'static str>);

const FIELDS: [Field; 9] = [
    ("order", other_order, Some("it is of another block")),
    ("result", |it| it.result.effects_root = [1; 32], Some("it is of another block")),
    // It says less of the ledger than it could, and nothing of the state.
    ("durable_below", |it| it.durable_below = 0, None),
    ("parameters", |it| it.parameters.protocol = "aria".into(), Some("of the ledger names")),
    ("schema", |it| it.schema.push(0), Some("of the ledger names")),
    ("carried", |it| it.carried.push(0), Some("of the ledger names")),
    ("tables", |it| it.tables[0].groups[0].rows -= 1, Some("of the ledger names")),
    ("tables", |it| drop(it.tables[0].groups.pop()), Some("of the ledger names")),
    ("past", |it| it.past = Some(Past { from: 1, tables: vec![] }), Some("of the ledger names")),
];

fn other_order(manifest: &mut Manifest) {
    manifest.order.proposer = [1; 32];
    manifest.result.order_hash = manifest.order.hash();
}

/// A field more does not compile here.
fn fields(manifest: Manifest) -> [&'static str; 8] {
    let Manifest {
        order: _,
        result: _,
        durable_below: _,
        parameters: _,
        schema: _,
        carried: _,
        tables: _,
        past: _,
    } = manifest;
    ["order", "result", "durable_below", "parameters", "schema", "carried", "tables", "past"]
}

#[test]
fn no_field_of_a_checkpoint_can_be_forged() {
    let (honest, [first, second]) = ledger("serial", true);
    let own: Arc<dyn Files> = Arc::new(honest.clone());
    let state = digest_of(&recovered(&own, &recovery(Trust::Vouched)).unwrap().replica);
    for field in fields(read_manifest(&honest, second).unwrap()) {
        assert!(FIELDS.iter().any(|(of, ..)| *of == field), "{field} is not forged");
    }
    for (field, change, found) in FIELDS {
        let files = honest.copy();
        forge_manifest(&files, second, &change);
        let own: Arc<dyn Files> = Arc::new(files);
        let replayed = recovered(&own, &recovery(TRUSTING)).unwrap();
        assert_eq!(digest_of(&replayed.replica), state, "{field}");
        let Some(found) = found else {
            assert_eq!(begun_with(&replayed), Some(second), "{field}");
            continue;
        };
        assert_eq!(begun_with(&replayed), Some(first), "{field}");
        let why = &replayed.passed_over[0].why;
        assert!(why.contains(found), "{field}: {why}");
    }
}

/// A block is made to vouch for a forged checkpoint, and every later header to fit: a start
/// believes it. Running the ledger from genesis shows another state than it names, which is what
/// `verify` looks at; where blocks were pruned, the head alone does.
#[test]
fn a_ledger_that_vouches_for_a_forged_checkpoint_has_another_head() {
    let (files, [_, second]) = ledger("serial", true);
    let own: Arc<dyn Files> = Arc::new(files.clone());
    let honest = recovered(&own, &recovery(Trust::Vouched)).unwrap();
    forge(&files, second);
    let forged_digest = read_manifest(&files, second).unwrap().digest().unwrap();

    let mut blocks = crate::forger::taken_apart(&own);
    let by = vouched_from(&own, second).unwrap()[&second][0].by as usize;
    let [envelope] = &mut blocks[by].envelopes[..] else { panic!("a block of its own") };
    let mut vouching = Envelope::decode(envelope).unwrap();
    vouching.request =
        Body::Checkpoint { height: second, digest: forged_digest }.to_request().into();
    *envelope = vouching.encode().unwrap();
    crate::forger::run_again(&mut blocks);
    let mut chain = ChainVerifier::new();
    for block in &blocks {
        chain.push(&block.batch(), Some(&block.block_result())).unwrap();
    }
    let forged = crate::forger::written(&blocks);
    for path in files.paths().iter().filter(|path| path.starts_with(CHECKPOINT_FOLDER)) {
        forged.plant(path, files.contents(path).unwrap());
    }
    let own: Arc<dyn Files> = Arc::new(forged);
    let believed = recovered(&own, &recovery(Trust::Vouched)).unwrap();
    assert_eq!(begun_with(&believed), Some(second));
    let executed = replay(Arc::clone(&own), &crate::ledgered::language, 1, &mut |_| ()).unwrap();
    assert_ne!(digest_of(&believed.replica), digest_of(&executed.replica));
    assert_eq!(digest_of(&executed.replica), digest_of(&honest.replica));
    assert_ne!(executed.replica.head().hash, honest.replica.head().hash);
}

/// Nothing in the files tells a forged one from an honest one then.
#[test]
fn what_no_block_vouches_for_is_passed_over() {
    let (files, [_, second]) = ledger("serial", false);
    let own: Arc<dyn Files> = Arc::new(files.clone());
    let state = digest_of(&recovered(&own, &recovery(TRUSTING)).unwrap().replica);
    forge(&files, second);
    let trusting = recovered(&own, &recovery(TRUSTING)).unwrap();
    assert_eq!(begun_with(&trusting), Some(second));
    assert_ne!(digest_of(&trusting.replica), state, "the test must be able to fail");
    let replayed = recovered(&own, &recovery(Trust::Vouched)).unwrap();
    assert_eq!((begun_with(&replayed), replayed.passed_over.len()), (None, 2));
    assert_eq!(digest_of(&replayed.replica), state);
}

/// The block of one checkpoint is no reason for the next, though blocks count.
#[test]
fn checkpoints_do_not_call_for_one_another() {
    let files = MemoryFiles::new();
    let engine = start(&files, "serial", true, 1);
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)".into();
    submit(&engine, &Body::Schema { text });
    load(&engine, 0..3);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = engine.head().height;
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(engine.head().height, before);
    let newest = take(&engine);
    engine.stop();
    assert!(heights(&files).unwrap().contains(&newest));
    assert!(before <= 1 + 4 + 4, "{before} blocks");
}
