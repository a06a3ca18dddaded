//! The effects of blocks with schema changes, against what is left when a state is taken from
//! another.
//!
//! ```text
//!   block      rows │ change │ rows │ change │ rows
//!   states    S     S'       S      S'       S       each a map of all rows, read whole
//!   leaves     └ S' - S, objects, S' - S, objects, … ─► the root of the result header?
//! ```
//!
//! The states within a block are seen by the language, which the engine calls for each change.

mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use ::types::row::encode_row;
use ::types::{Error, Height, Position, Result, Stamp, Stop, TableId};
use concurrency::{Expectation, Interactive, Work};
use engine::transaction::SchemaSeen;
use engine::{
    AskedChange, Body, EXECUTOR, Language, Migrated, Numbering, ObjectChange, ParameterTypes,
    Replica, Request, SCHEMA_TABLE, SchemaChange, Transaction,
};
use ledger::effects::{Effect, EffectsBuilder, row_image_hash};
use ledger::{EffectsDigest, Genesis, Hash, Parameters};
use sql::session::schema::Schema;
use storage::{LATEST, Snapshot, Store};

/// Every row by its table and key: when it last changed, and the hash of its image.
type State = BTreeMap<(TableId, Vec<u8>), (Stamp, Hash)>;

fn state(store: &Store) -> State {
    let mut state = State::new();
    for table in store.tables() {
        table.each_row(LATEST, &mut |key, slot, stamp| {
            let (mut row, mut image) = (Vec::new(), Vec::new());
            table.read_row(slot, LATEST, &mut row);
            encode_row(&table.schema().columns, &row, &mut image).unwrap();
            state.insert((table.id(), key.to_vec()), (stamp, row_image_hash(&image)));
            ControlFlow::Continue(())
        });
    }
    state
}

/// A change within a block, with the rows around it.
struct Moment {
    before: State,
    objects: Vec<ObjectChange>,
    after: State,
}

/// SQL, which notes each schema change that it is asked for.
#[derive(Default)]
struct Watched {
    schema: Schema,
    moments: Mutex<Vec<Moment>>,
}

impl Watched {
    fn note(&self, before: State, objects: Vec<ObjectChange>, store: &Store) {
        self.moments.lock().unwrap().push(Moment { before, objects, after: state(store) });
    }
}

impl Language for Watched {
    fn compile(&self, transaction: Transaction) -> Result<Work> {
        self.schema.compile(transaction)
    }

    fn schema_version(&self) -> u64 {
        self.schema.schema_version()
    }

    fn apply(
        &self,
        asked: AskedChange<'_>,
        store: &Arc<Store>,
        height: Height,
        time_us: i64,
    ) -> Result<SchemaChange, Error> {
        let before = state(store);
        let applied = self.schema.apply(asked, store, height, time_us);
        let objects = applied.as_ref().map_or(Vec::new(), |change| change.objects.clone());
        self.note(before, objects, store);
        applied
    }

    fn migrate(
        &self,
        transaction: Transaction,
        store: &Arc<Store>,
        position: Position,
        height: Height,
    ) -> Result<Migrated, Stop> {
        let mut before = state(store);
        let migrated = self.schema.migrate(transaction, store, position, height);
        let changes = migrated.as_ref().map_or(&[][..], |migrated| &migrated.changes);
        for change in changes {
            self.note(std::mem::take(&mut before), change.objects.clone(), store);
            before = state(store);
        }
        if changes.is_empty() {
            self.note(before, Vec::new(), store);
        }
        migrated
    }

    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        self.schema.schema_image(snapshot)
    }

    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()> {
        self.schema.restore(schema_image, store)
    }
}

/// What led from one state to the other, as leaves.
fn push_difference(before: &State, after: &State, leaves: &mut EffectsBuilder) {
    leaves.begin_step();
    let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for place @ (table, key) in all {
        let (was, is) = (before.get(place), after.get(place));
        if was.map(|(stamp, _)| stamp) == is.map(|(stamp, _)| stamp) {
            assert_eq!(was, is, "a row has changed and its stamp has not");
            continue;
        }
        let effect = Effect {
            table: *table,
            key,
            before: was.map(|(_, hash)| *hash),
            after: is.map(|(_, hash)| *hash),
            previous_height: was.map_or(0, |(stamp, _)| stamp.height()),
        };
        leaves.push(&effect).unwrap();
    }
}

fn push_objects(objects: &[ObjectChange], leaves: &mut EffectsBuilder) {
    leaves.begin_step();
    for object in objects {
        let hash = |text: &Option<String>| text.as_ref().map(|t| row_image_hash(t.as_bytes()));
        let effect = Effect {
            table: SCHEMA_TABLE,
            key: object.name.as_bytes(),
            before: hash(&object.before),
            after: hash(&object.after),
            previous_height: 0,
        };
        leaves.push(&effect).unwrap();
    }
}

/// A ledger without files, whose blocks are formed here.
struct World {
    language: Arc<Watched>,
    replica: Replica,
    numbering: Numbering,
}

impl World {
    fn new(protocol: &str, workers: usize) -> World {
        let parameters = Parameters::new(protocol);
        let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
        let language = Arc::new(Watched::default());
        let made: Arc<dyn Language> = language.clone();
        let replica = Replica::new(&genesis, Arc::new(Store::new()), made, workers).unwrap();
        World { language, replica, numbering: Numbering::new([7; 16]) }
    }

    /// Runs a block; `Err`: its leaves are not what it did.
    fn block(&mut self, bodies: &[Body]) -> Result<(), String> {
        let time_us = self.replica.head().height as i64;
        let mut request = |body| self.numbering.request("tally", time_us, body).unwrap();
        let requests: Vec<Request> = bodies.iter().map(&mut request).collect();
        let mut before = state(self.replica.store());
        let executed = self.replica.execute(time_us, requests).unwrap();
        let mut leaves = EffectsBuilder::new();
        for moment in std::mem::take(&mut *self.language.moments.lock().unwrap()) {
            push_difference(&before, &moment.before, &mut leaves);
            push_objects(&moment.objects, &mut leaves);
            before = moment.after;
        }
        push_difference(&before, &state(self.replica.store()), &mut leaves);
        let header = executed.result.header();
        let reported = EffectsDigest { count: header.effect_count, root: header.effects_root };
        let shown = executed.effects.rows();
        self.replica.publish();
        if reported != leaves.digest() {
            let shown = shown.iter().map(|row| format!("{row}\n")).collect::<String>();
            let expected = leaves.digest().count;
            return Err(format!("{} leaves of {expected}: {shown}", reported.count));
        }
        if shown.len() as u64 != reported.count {
            return Err(format!("{} rows shown of {}", shown.len(), reported.count));
        }
        drop(executed);
        self.replica.store().collect();
        Ok(())
    }
}

fn statement(text: impl Into<String>) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

fn schema(text: &str) -> Body {
    Body::Schema { text: text.to_owned() }
}

/// All protocols, and options under which a block's first step writes rows more than once.
fn protocols() -> impl Iterator<Item = &'static str> {
    let more = ["harmony:inter_block=on", "fabric:lag=2:spread=1", "fabric_pp:lag=1"];
    super::sessions::protocols().chain(more)
}

const SET_UP: [&str; 4] = [
    "CREATE TABLE t (id int PRIMARY KEY, v int, s text)",
    "CREATE INDEX ON t (v)",
    "CREATE TABLE u (a int, b text)",
    "CREATE PROCEDURE put_and_take(k int) LANGUAGE plpgsql AS $$ BEGIN \
     INSERT INTO t (id, v) VALUES (k, 1); DELETE FROM t WHERE id = k; END $$",
];

fn prepared(protocol: &str, workers: usize) -> World {
    let mut world = World::new(protocol, workers);
    world.block(&SET_UP.map(schema)).unwrap();
    let rows = (0..6).map(|id| statement(format!("INSERT INTO t VALUES ({id}, {id}, 'x')")));
    world.block(&rows.collect::<Vec<_>>()).unwrap();
    world
}

/// What two steps of a block do to one row, with what stands between them.
#[test]
fn a_row_that_two_steps_change_is_among_the_effects_of_both() {
    let long = "a text that is too long to lie in the row";
    let first = [
        format!("UPDATE t SET v = v + 1, s = '{long}' WHERE id = 1"),
        "INSERT INTO t VALUES (1, 7, 'y') ON CONFLICT (id) DO UPDATE SET v = 9".into(),
        "INSERT INTO t (id, v) VALUES (50, 7)".into(),
        "DELETE FROM t WHERE id = 1".into(),
        "CALL put_and_take(50)".into(),
    ];
    let between = [
        "CREATE TABLE w (a int)",
        "ALTER TABLE t ADD COLUMN more int DEFAULT 7",
        "ALTER TABLE t DROP COLUMN s",
        "CREATE INDEX ON t (id, v)",
        "DROP TABLE nothing",
        "TRUNCATE u",
        "TRUNCATE t",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
    ];
    let second = [
        "UPDATE t SET v = v + 1 WHERE id IN (1, 50)",
        "INSERT INTO t (id, v) VALUES (50, 8) ON CONFLICT DO NOTHING",
        "INSERT INTO t (id, v) VALUES (1, 8) ON CONFLICT DO NOTHING",
        "DELETE FROM t WHERE id IN (1, 50)",
        "UPDATE t SET v = v",
    ];
    for protocol in protocols() {
        // What stands after the first step is run alike.
        let count = if protocol == "serial" { between.len() } else { 2 };
        for change in &between[..count] {
            for first in &first {
                for second in second {
                    let mut world = prepared(protocol, 2);
                    let block = [statement(first), schema(change), statement(second)];
                    let found = world.block(&block);
                    let found = found.and_then(|()| world.block(&[statement(second)]));
                    if let Err(what) = found {
                        panic!("{protocol}: {first}; {change}; {second}: {what}");
                    }
                }
            }
        }
    }
}
