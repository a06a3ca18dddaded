//! A ledger in memory whose blocks are formed here, so that a test knows each of them.

use std::sync::Arc;

use concurrency::Outcome;
use engine::checkpoint::{Checkpointer, State, Taken};
use engine::{
    Body, EXECUTOR, Language, Numbering, ParameterTypes, Replayed, Replica, Request, recover,
    replay, resume_writing,
};
use kit::random::Random;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use ledger::{BlockWriter, Files, Genesis, Hash, LogOptions, MemoryFiles, Parameters};
use sql::session::schema::Schema;
use storage::Store;
use types::{Height, Value};

pub struct World {
    pub files: MemoryFiles,
    pub replica: Replica,
    log: BlockWriter,
    random: Random,
    numbering: Numbering,
    rows: i64,
    /// Neither is in a block yet.
    next_id: i64,
}

const SCHEMA: &[&str] = &[
    "CREATE TABLE t (id bigint PRIMARY KEY, amount numeric(10, 2) NOT NULL, note text, \
     at timestamp, CHECK (id >= 0))",
    "CREATE INDEX by_note ON t (note)",
    "CREATE TABLE journal (what text, n float8, u uuid)",
    "CREATE PROCEDURE pay(a bigint, b bigint, much numeric) LANGUAGE plpgsql AS $$ \
     BEGIN \
       UPDATE t SET amount = amount - much WHERE id = a; \
       UPDATE t SET amount = amount + much, at = now() WHERE id = b; \
       INSERT INTO journal VALUES ('paid', 0.5, NULL); \
     END $$",
];

pub fn make(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Schema::new())
}

pub fn full_replay(files: &MemoryFiles) -> Replayed {
    let replayed = replay(Arc::new(files.clone()), &make, 2, &mut |_| ());
    replayed.unwrap_or_else(|fault| panic!("{fault}"))
}

pub fn recovered(files: &MemoryFiles) -> Replayed {
    let replayed = recover(Arc::new(files.clone()), &make, 2, &mut |_| ());
    replayed.unwrap_or_else(|fault| panic!("{fault}"))
}

pub fn state_of(replica: &Replica) -> State {
    State::of(replica).unwrap()
}

pub fn digest_of(replica: &Replica) -> Hash {
    state_of(replica).digest().unwrap()
}

fn options() -> LogOptions {
    LogOptions { zero_fill_bytes: 4096, segment_bytes: 1 << 16, sync: true }
}

impl World {
    pub fn new(protocol: &str, seed: u64) -> World {
        let files = MemoryFiles::new();
        let parameters = Parameters::new(protocol);
        let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
        let log = BlockWriter::begin(Arc::new(files.clone()), &genesis, options()).unwrap();
        World::on(files, log, full_replay, seed)
    }

    fn on(
        files: MemoryFiles,
        log: BlockWriter,
        read: impl Fn(&MemoryFiles) -> Replayed,
        seed: u64,
    ) -> World {
        drop(log);
        let Replayed { replica, reader, unrecorded, .. } = read(&files);
        let log = resume_writing(reader, &unrecorded, options()).unwrap();
        let (random, numbering) = (Random::new(seed), Numbering::new([7; 16]));
        World { files, replica, log, random, numbering, rows: 0, next_id: 0 }
    }

    pub fn height(&self) -> Height {
        self.replica.head().height
    }

    pub fn checkpointer(&self, keep: usize) -> Checkpointer {
        Checkpointer::new(Arc::new(self.files.clone()), keep, None, &[])
    }

    /// Results are on stable storage, as they are before a checkpoint is taken.
    pub fn sync_results(&mut self) {
        self.log.sync_results().unwrap();
    }

    pub fn checkpoint(&mut self, checkpointer: &mut Checkpointer) -> Taken {
        self.sync_results();
        let durable_below = self.log.durable_below();
        let state = State { durable_below, ..state_of(&self.replica) };
        checkpointer.take(&state, &mut |_| Ok(())).unwrap()
    }

    pub fn remove_manifest(&self, height: Height) {
        self.files.remove(&format!("{CHECKPOINT_FOLDER}/{height:020}.manifest")).unwrap();
    }

    pub fn checkpoint_bytes(&self) -> u64 {
        let names = self.files.list(CHECKPOINT_FOLDER).unwrap();
        let size = |name: &String| self.files.contents(&format!("{CHECKPOINT_FOLDER}/{name}"));
        names.iter().filter_map(size).map(|bytes| bytes.len() as u64).sum()
    }

    pub fn create_and_load(&mut self, rows: i64) {
        SCHEMA.iter().for_each(|text| self.schema(text));
        self.rows = rows;
        self.next_id = rows;
        let row = |id: i64| -> Box<[Value]> {
            let note = match id % 3 {
                0 => Value::Null,
                1 => Value::text("short"),
                _ => Value::text(format!("a note that is long enough for the heap, {id}")),
            };
            let amount = Value::Numeric(format!("{}.50", id % 100).parse().unwrap());
            Box::new([Value::Int(id), amount, note, Value::Timestamp(id)])
        };
        let rows = (0..rows).map(row).collect();
        let load = Body::load("COPY t (id, amount, note, at) FROM STDIN", rows);
        let outcomes = self.block(vec![load]);
        assert!(outcomes[0].is_committed(), "{outcomes:?}");
    }

    pub fn schema(&mut self, text: &str) {
        let outcomes = self.block(vec![Body::Schema { text: text.into() }]);
        assert!(outcomes[0].is_committed(), "{text}: {outcomes:?}");
    }

    pub fn statement(&mut self, text: &str) {
        self.block(vec![statement(text)]);
    }

    /// A block of random transactions.
    pub fn work(&mut self, transactions: usize) {
        let bodies = (0..transactions).map(|_| self.any()).collect();
        self.block(bodies);
    }

    fn any(&mut self) -> Body {
        let hot = self.random.chance(2);
        let mut id = || match hot {
            true => self.random.below(5) as i64,
            false => self.random.below(self.rows as u64) as i64,
        };
        let (a, b) = (id(), id());
        match self.random.below(6) {
            0 => statement(&format!("DELETE FROM t WHERE id = {a}")),
            1 => {
                self.next_id += 1;
                statement(&format!("INSERT INTO t VALUES ({}, 1, 'new')", self.next_id))
            }
            2 => statement(&format!("UPDATE t SET note = 'note ' || {b} WHERE id = {a}")),
            3 => statement(&format!("INSERT INTO t VALUES ({a}, 2) ON CONFLICT DO NOTHING")),
            _ => {
                let amount = Value::Numeric("0.25".parse().unwrap());
                Body::call("pay", [Value::Int(a), Value::Int(b), amount])
            }
        }
    }

    /// Outcomes of transactions that were deferred to the block come first.
    pub fn block(&mut self, bodies: Vec<Body>) -> Vec<Outcome> {
        let time_us = self.height() as i64;
        let mut request = |body: Body| self.numbering.request("tally", time_us, &body).unwrap();
        let requests: Vec<Request> = bodies.into_iter().map(&mut request).collect();
        let executed = self.replica.execute(time_us, requests).unwrap();
        self.log.append_order(&[executed.batch.encode().unwrap()]).unwrap();
        self.log.append_results(&[executed.result.encode().unwrap()]).unwrap();
        self.replica.publish();
        let outcomes = executed.decided.iter().map(|settled| settled.outcome.clone()).collect();
        drop(executed);
        let store = self.replica.store();
        store.collect();
        outcomes
    }
}

pub fn statement(text: &str) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}
