//! Random transactions of several sessions, held against the model.
//!
//! A transaction must see the committed state that it began on, with its own work over it; when it
//! has committed, all that it was told must be what it would have been told at its COMMIT, alone.

use ::types::SqlState;
use kit::random::Random;

use super::super::{Client, Node, block_on};
use super::model::{Answer, Cell, Model, Statement};
use super::verify;

const TABLES: [&str; 3] = ["one", "two", "three"];
const COLUMNS: [&str; 3] = ["a", "b", "c"];

enum Event {
    Ran(Statement, Answer),
    Savepoint,
    RollBack,
}

struct Open {
    model: Model,
    savepoint: Option<Model>,
    events: Vec<Event>,
    failed: bool,
}

#[derive(Default)]
struct Counts {
    committed: u32,
    migrated: u32,
    refused: u32,
}

/// Mostly of tables and columns that are there.
fn statement(random: &mut Random, model: &Model) -> Statement {
    let pick =
        |random: &mut Random, of: &[&'static str]| of[random.below(of.len() as u64) as usize];
    let there: Vec<_> = model.tables.keys().copied().collect();
    let missing: Vec<_> = TABLES.into_iter().filter(|table| !there.contains(table)).collect();
    let one_of = |random: &mut Random, wanted: &[&'static str]| match wanted {
        [] => pick(random, &TABLES),
        _ if random.chance(12) => pick(random, &TABLES),
        wanted => pick(random, wanted),
    };
    if there.len() < 2 && random.chance(2) {
        return Statement::Create { table: one_of(random, &missing), key: random.chance(2) };
    }
    let table = one_of(random, &there);
    let columns = model.tables.get(table).map_or(&[][..], |table| &table.columns[1..]);
    let column = match columns {
        [] => pick(random, &COLUMNS),
        _ if random.chance(12) => pick(random, &COLUMNS),
        columns => pick(random, columns),
    };
    let mut number = |below| random.below(below) as i64;
    let (key, value, spread) = (number(6), number(6), number(30));
    match random.below(40) {
        0 => Statement::Create { table: one_of(random, &missing), key: random.chance(2) },
        1 => Statement::Drop(table),
        2 => Statement::Rename { table, to: one_of(random, &missing) },
        3 | 4 => {
            let default = if random.chance(3) { None } else { Some(value + 10) };
            Statement::AddColumn { table, column: pick(random, &COLUMNS), default }
        }
        5 => Statement::DropColumn { table, column },
        6 => Statement::AddKey(table),
        7 => Statement::Index { table, column, unique: true },
        8 => Statement::Index { table, column, unique: false },
        9..=16 => {
            let width = model.width(table);
            Statement::Insert { table, key: spread, rest: spread, width }
        }
        17 | 18 => Statement::InsertFrom { table, from: one_of(random, &there) },
        19..=22 => Statement::Update { table, column, value: spread, key: spread % 10 },
        23 => Statement::Update { table, column: "k", value: spread, key },
        24 | 25 => Statement::Delete { table, column: "k", value },
        26 => Statement::Delete { table, column, value },
        27 | 28 => Statement::Select(table),
        29 | 30 => {
            Statement::UpdateFrom { table, column, value: spread, from: one_of(random, &there) }
        }
        31 => {
            Statement::DeleteUsing { table, column, value: spread, using: one_of(random, &there) }
        }
        32 | 33 if model.is_free(table) => {
            Statement::Merge { table, column, value: spread, from: one_of(random, &there) }
        }
        34 => Statement::Move { table, column, value: spread, to: one_of(random, &there) },
        _ => Statement::Find { table, column, value: spread },
    }
}

async fn ask(client: &mut Client, statement: &Statement) -> Result<Answer, SqlState> {
    let answer = client.run(&statement.text()).await;
    match answer {
        Ok(rows) => {
            let row = |row: &super::super::Row| -> Vec<Cell> {
                row.iter().map(|value| value.as_int()).collect()
            };
            let mut rows: Vec<Vec<Cell>> = rows.iter().map(row).collect();
            rows.sort();
            Ok(Ok(rows))
        }
        Err(error) => Err(error.code()),
    }
}

/// The model's answer, or `None` where both failed with the same code.
fn compare(expected: &Answer, got: &Result<Answer, SqlState>, about: &str) {
    let same = match (expected, got) {
        (Ok(expected), Ok(Ok(got))) => expected == got,
        (Err(expected), Err(got)) => *expected == got.as_str(),
        _ => false,
    };
    assert!(same, "{about}: expected {expected:?}, got {got:?}");
}

impl Open {
    fn new(model: &Model) -> Open {
        Open { model: model.clone(), savepoint: None, events: Vec::new(), failed: false }
    }

    async fn step(&mut self, client: &mut Client, random: &mut Random, about: &str) {
        if self.failed || (self.savepoint.is_some() && random.chance(9)) {
            if let Some(model) = &self.savepoint {
                self.model = model.clone();
                client.run("ROLLBACK TO s").await.unwrap();
                self.events.push(Event::RollBack);
                self.failed = false;
            }
            return;
        }
        if random.chance(5) {
            client.run("SAVEPOINT s").await.unwrap();
            self.savepoint = Some(self.model.clone());
            return self.events.push(Event::Savepoint);
        }
        let statement = statement(random, &self.model);
        let expected = self.model.run(&statement);
        let got = ask(client, &statement).await;
        compare(&expected, &got, &format!("{about}: {}", statement.text()));
        self.failed = expected.is_err();
        self.events.push(Event::Ran(statement, expected));
    }

    /// Whether anything is left to be committed, and a schema change in it.
    fn left(&self) -> (bool, bool) {
        let (mut left, mut saved) = (Vec::new(), 0);
        for event in &self.events {
            match event {
                Event::Ran(statement, Ok(_)) if statement.writes() => left.push(statement),
                Event::Ran(..) => {}
                Event::Savepoint => saved = left.len(),
                Event::RollBack => left.truncate(saved),
            }
        }
        (!left.is_empty(), left.iter().any(|statement| statement.changes_schema()))
    }

    /// The transaction once more, alone, after all that has committed.
    fn replay(&self, committed: &Model, about: &str) -> Model {
        let (mut model, mut savepoint) = (committed.clone(), committed.clone());
        for event in &self.events {
            match event {
                Event::Ran(statement, reported) => {
                    let answer = model.run(statement);
                    assert!(
                        answer == *reported,
                        "{about}: {statement:?} {reported:?}, then {answer:?}"
                    );
                }
                Event::Savepoint => savepoint = model.clone(),
                Event::RollBack => model = savepoint.clone(),
            }
        }
        model
    }
}

async fn check_tables(client: &mut Client, model: &Model, about: &str) {
    for table in TABLES {
        let mut twin = model.clone();
        let look = Statement::Select(table);
        let got = ask(client, &look).await;
        compare(&twin.run(&look), &got, about);
    }
}

async fn history(protocol: &str, seed: u64, sessions: usize) -> Counts {
    let about = format!("{protocol}, seed {seed}");
    let mut random = Random::new(seed);
    let node = Node::new(protocol);
    let mut clients: Vec<Client> = (0..sessions).map(|_| node.session()).collect();
    let mut open: Vec<Option<Open>> = (0..sessions).map(|_| None).collect();
    let (mut committed, mut counts) = (Model::default(), Counts::default());
    for _ in 0..200 {
        let at = random.below(sessions as u64) as usize;
        let client = &mut clients[at];
        let Some(transaction) = &mut open[at] else {
            if random.chance(4) {
                let statement = statement(&mut random, &committed);
                let expected = committed.run(&statement);
                let got = ask(client, &statement).await;
                compare(&expected, &got, &format!("{about}: {}", statement.text()));
                continue;
            }
            client.run("BEGIN").await.unwrap();
            open[at] = Some(Open::new(&committed));
            continue;
        };
        let ends = random.chance(8) || (transaction.failed && transaction.savepoint.is_none());
        if !ends {
            transaction.step(client, &mut random, &about).await;
            continue;
        }
        let Some(transaction) = open[at].take() else { continue };
        if transaction.failed || random.chance(5) {
            client.run("ROLLBACK").await.unwrap();
            continue;
        }
        let end = client.run("COMMIT").await;
        let (writes, migrates) = transaction.left();
        match end {
            Ok(_) if writes => {
                committed = transaction.replay(&committed, &about);
                counts.committed += 1;
                counts.migrated += u32::from(migrates);
            }
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE);
                assert!(sessions > 1, "{about}: {error}");
                counts.refused += 1;
            }
        }
        check_tables(client, &committed, &about).await;
    }
    drop(clients);
    verify(node);
    counts
}

#[test]
fn random_migrations_are_what_the_model_says() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(3);
    let mut total = Counts::default();
    for protocol in super::super::protocols() {
        // Where sessions lock, one that waits for another would wait for ever here.
        let sessions = if protocol == "2pl" { 1 } else { 3 };
        for seed in 0..seeds {
            let counts = block_on(history(protocol, seed, sessions));
            total.committed += counts.committed;
            total.migrated += counts.migrated;
            total.refused += counts.refused;
            block_on(history(protocol, seed + 1000, 1));
        }
    }
    let Counts { committed, migrated, refused } = total;
    println!("{committed} committed, {migrated} of them migrations, {refused} refused");
    assert!(migrated > 50 && refused > 20, "{committed} {migrated} {refused}");
}
