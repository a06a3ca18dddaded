//! The live engine with threads, under protocols whose blocks overlap, against the witness.
//!
//! Clients ask on threads of their own, readers come between blocks, and somewhere on the way the
//! disk is copied as a power cut would leave it. Afterwards the witness is told the ledger, block
//! by block: every answer, every reading and every state must be the specification's.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep};
use std::time::Duration;

use concurrency::Outcome;
use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Engine, Journal, NoObserver, Replayed, Submitter, recover, resume_writing,
};
use kit::random::Random;
use ledger::{Files, Genesis, MemoryFiles, Parameters};
use types::Origin;
use types::{Height, SqlState};

use crate::client::{draw_call, draw_read};
use crate::model::Answer;
use crate::node::{LOG, begin, block_of, language};
use crate::operation::Call;
use crate::reader::read;
use crate::witness::Witness;
use crate::world::LEDGER_ID;

const CLIENTS: u64 = 8;
const READERS: u64 = 2;
const WORKERS: usize = 2;

fn genesis(protocol: &str) -> Genesis {
    let parameters = Parameters::new(protocol);
    Genesis { ledger_id: LEDGER_ID, time_us: 0, parameters, executor: engine::EXECUTOR }
}

fn start(disk: &MemoryFiles) -> Engine {
    let files: Arc<dyn Files> = Arc::new(disk.clone());
    let read = recover(files, &language, WORKERS, &mut |_| ()).unwrap();
    let Replayed { replica, reader, unrecorded, .. } = read;
    let journal = Journal::from(resume_writing(reader, &unrecorded, LOG).unwrap());
    // Every block is worth it, so that all of them are handed over.
    let limits = BlockLimits { overlap_min: Duration::ZERO, ..BlockLimits::default() };
    let clock = AtomicI64::new(1);
    let clock = Arc::new(move || clock.fetch_add(7, Ordering::Relaxed));
    let language = Arc::clone(replica.language());
    Engine::start(replica, journal, language, limits, clock, Arc::new(NoObserver)).unwrap()
}

fn ask(engine: &Engine, body: &Body) -> (Height, Origin, Outcome) {
    let submitter = Submitter { principal: "p", role: None, key: None, seed: [0; 16] };
    let answer = engine.submit(submitter, &Asked::from(body), None).unwrap();
    let completion = answer.blocking_recv().unwrap().unwrap();
    (completion.height, completion.origin, completion.outcome)
}

/// What one run of an engine told its clients and readers.
#[derive(Default)]
struct Reported {
    answers: Mutex<Vec<(Height, Origin, Outcome)>>,
    readings: Mutex<Vec<(Height, Call, Answer)>>,
    /// The newest height that was answered.
    acknowledged: AtomicU64,
}

impl Reported {
    fn hear(&self, answer: (Height, Origin, Outcome)) {
        self.acknowledged.fetch_max(answer.0, Ordering::SeqCst);
        self.answers.lock().unwrap().push(answer);
    }

    fn client(&self, engine: &Engine, mut random: Random, calls: u64) {
        for _ in 0..calls {
            let hot = random.chance(2);
            let call = Call { table: "main", ..draw_call(hot, &mut random) };
            self.hear(ask(engine, &call.body()));
        }
    }

    /// A session that has heard of what was answered before.
    fn reader(&self, engine: &Engine, mut random: Random, ended: &AtomicBool) {
        while !ended.load(Ordering::SeqCst) {
            let least = self.acknowledged.load(Ordering::SeqCst);
            let call = Call { table: "main", ..draw_read(&mut random) };
            let snapshot = engine.newest().unwrap();
            let height = snapshot.height();
            assert!(height >= least, "block {least} was answered, block {height} is read");
            self.readings.lock().unwrap().push((height, call, read(&snapshot, &call).unwrap()));
            if random.chance(8) {
                sleep(Duration::from_micros(random.below(500)));
            }
        }
    }

    /// All of them at once, and a power cut on the way; what was acknowledged by then, and what it
    /// leaves.
    fn run(
        &self,
        engine: &Engine,
        disk: &MemoryFiles,
        seed: u64,
        calls: u64,
    ) -> (u64, MemoryFiles) {
        let ended = AtomicBool::new(false);
        let random = |who| Random::new(seed.wrapping_mul(1_000).wrapping_add(who));
        scope(|threads| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|who| threads.spawn(move || self.client(engine, random(who), calls)))
                .collect();
            for who in 0..READERS {
                let ended = &ended;
                threads.spawn(move || self.reader(engine, random(100 + who), ended));
            }
            while self.answers.lock().unwrap().len() < (CLIENTS * calls / 2) as usize {
                sleep(Duration::from_micros(200));
            }
            let acknowledged = self.acknowledged.load(Ordering::SeqCst);
            let cut = disk.crash(&mut random(1_000));
            let index = Body::Schema { text: "create index main".into() };
            self.hear(ask(engine, &index));
            let joined: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            ended.store(true, Ordering::SeqCst);
            joined.into_iter().for_each(|client| client.unwrap());
            (acknowledged, cut)
        })
    }

    fn check(&self, witness: &mut Witness) {
        for (height, origin, outcome) in self.answers.lock().unwrap().iter() {
            witness.check_answer(*height, *origin, outcome).unwrap_or_else(|w| panic!("{w:?}"));
        }
        for (height, call, found) in self.readings.lock().unwrap().iter() {
            let seen = witness.show(*height).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            let specified = seen.state.clone().call(call);
            assert_eq!(*found, specified, "{call:?} behind block {height}");
        }
    }
}

/// The blocks of a disk, as far as the witness has not seen them; how many overlap.
fn observe(witness: &mut Witness, disk: &MemoryFiles, head: Height) -> usize {
    let mut overlapping = 0;
    for height in witness.height() + 1..=head {
        let (batch, result) = block_of(disk, height).unwrap().unwrap();
        overlapping += usize::from(result.header().snapshot_height + 1 < height);
        witness.observe(&batch, &result).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    }
    overlapping
}

fn check(protocol: &str, overlap: bool) {
    let disk = MemoryFiles::new();
    begin(&disk, &genesis(protocol)).unwrap();
    let mut witness = Witness::new(&genesis(protocol)).unwrap();
    let mut overlapping = 0;
    for seed in 0..3 {
        let engine = start(&disk);
        let reported = Reported::default();
        if seed == 0 {
            reported.hear(ask(&engine, &Body::Schema { text: "create table main".into() }));
        }
        let (acknowledged, cut) = reported.run(&engine, &disk, seed, 60);
        engine.stop();
        let head = engine.head();
        drop(engine);
        overlapping += observe(&mut witness, &disk, head.height);
        reported.check(&mut witness);
        let cut: Arc<dyn Files> = Arc::new(cut);
        let left = recover(cut, &language, 1, &mut |_| ()).unwrap().replica.head();
        assert!(left.height >= acknowledged, "{left:?} of {acknowledged}");
        assert_eq!(left.hash, witness.at(left.height).unwrap().head, "{protocol}");
        let files: Arc<dyn Files> = Arc::new(disk.clone());
        let verified = engine::replay(files, &language, 2, &mut |_| ()).unwrap();
        assert_eq!(verified.replica.head(), head, "{protocol}");
    }
    println!("{protocol}: {} blocks, {overlapping} overlap", witness.height());
    assert_eq!(overlapping > 0, overlap, "{protocol}");
}

#[test]
fn harmony_with_blocks_that_overlap() {
    check("harmony:inter_block=on", true);
}

#[test]
fn harmony_with_blocks_that_overlap_and_transactions_that_are_put_off() {
    check("harmony:inter_block=on:fallback=defer", true);
}

#[test]
fn quecc_that_plans_ahead() {
    check("quecc:planning=pipelined", false);
}

#[test]
fn harmony_one_block_after_the_other() {
    check("harmony", false);
}

/// A protocol is changed while clients ask and read: from blocks that overlap to others and back.
#[test]
fn a_protocol_is_changed_on_the_way() {
    let (disk, first) = (MemoryFiles::new(), "harmony");
    begin(&disk, &genesis(first)).unwrap();
    let engine = start(&disk);
    let reported = Reported::default();
    reported.hear(ask(&engine, &Body::Schema { text: "create table main".into() }));
    let protocols =
        ["harmony:inter_block=on", "quecc:planning=pipelined", "harmony:inter_block=on", "serial"];
    let ended = AtomicBool::new(false);
    scope(|threads| {
        let clients = (0..CLIENTS).map(|who| {
            let (reported, engine) = (&reported, &engine);
            threads.spawn(move || reported.client(engine, Random::new(who), 100))
        });
        let clients: Vec<_> = clients.collect();
        let (reported, engine, ended) = (&reported, &engine, &ended);
        threads.spawn(move || reported.reader(engine, Random::new(77), ended));
        for protocol in protocols {
            sleep(Duration::from_millis(20));
            let (name, value) = ("protocol".into(), protocol.into());
            let changed = ask(engine, &Body::Parameter { name, value });
            assert!(matches!(changed.2, Outcome::Committed(_)), "{changed:?}");
            reported.hear(changed);
        }
        let joined: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        ended.store(true, Ordering::SeqCst);
        joined.into_iter().for_each(|client| client.unwrap());
    });
    engine.stop();
    let mut witness = Witness::new(&genesis(first)).unwrap();
    observe(&mut witness, &disk, engine.head().height);
    reported.check(&mut witness);
}

/// A disk that fails while blocks overlap: all clients are answered, and what was acknowledged
/// stays.
#[test]
fn a_disk_that_fails_leaves_no_client_waiting() {
    for operations in [40, 90, 91, 150] {
        let disk = MemoryFiles::new();
        begin(&disk, &genesis("harmony:inter_block=on")).unwrap();
        let engine = start(&disk);
        let reported = Reported::default();
        reported.hear(ask(&engine, &Body::Schema { text: "create table main".into() }));
        let (_, manner) = ledger::memory_files::MANNERS[0];
        disk.fail_at(Some(manner(disk.operations() + operations)));
        scope(|threads| {
            for who in 0..CLIENTS {
                let (reported, engine) = (&reported, &engine);
                threads.spawn(move || {
                    let mut random = Random::new(who);
                    loop {
                        let call = Call { table: "main", ..draw_call(true, &mut random) };
                        let submitter =
                            Submitter { principal: "p", role: None, key: None, seed: [0; 16] };
                        let Ok(answer) = engine.submit(submitter, &Asked::from(&call.body()), None)
                        else {
                            return;
                        };
                        match answer.blocking_recv() {
                            Ok(Ok(done)) => reported.hear((done.height, done.origin, done.outcome)),
                            Ok(Err(error)) => {
                                assert_ne!(error.code(), SqlState::INTERNAL_ERROR, "{error:?}");
                                return;
                            }
                            Err(_) => panic!("a client was not answered"),
                        }
                    }
                });
            }
            let engine = &engine;
            threads.spawn(move || while engine.newest().is_ok() && !engine.is_halted() {});
        });
        assert!(engine.is_halted());
        engine.stop();
        disk.fail_at(None);
        let files: Arc<dyn Files> = Arc::new(disk.clone());
        let left = recover(files, &language, 1, &mut |_| ()).unwrap().replica.head();
        assert!(left.height >= reported.acknowledged.load(Ordering::SeqCst));
    }
}
