//! Three organisations, two with PostgreSQL and one with MariaDB, that agree on what blocks come to.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chainify::ballot::Stage;
use chainify::dialect::Dialect;
use chainify::wire::Request;
use chainify::{Database, Exchange, Folders, Joining, Member, Shared, Terms};
use futures::future::BoxFuture;
use ledger::MemoryFiles;
use ledger::hash::to_hex;
use ledger::signatures::SecretKey;
use order::Proposal;
use tokio::task::JoinHandle;

use crate::chain::{TIME_US, envelope, tables, terms, transfer};
use crate::servers::{Server, mariadb, postgres};

pub const ALL: [u64; 3] = [1, 2, 3];

/// Calls between members that run; what is cut does not get through.
#[derive(Default)]
struct Wires {
    members: Mutex<BTreeMap<u64, Arc<Shared>>>,
    /// To this one the orderer gives other orders, at this height.
    deceived: Mutex<Option<(u64, u64)>>,
}

struct Wire {
    wires: Arc<Wires>,
    from: u64,
}

impl Exchange for Wire {
    fn call(&self, to: u64, request: Bytes) -> BoxFuture<'static, io::Result<Bytes>> {
        let (wires, from) = (Arc::clone(&self.wires), self.from);
        Box::pin(async move {
            let called = wires.members.lock().unwrap().get(&to).cloned();
            let called = called.ok_or_else(|| io::Error::other("it is not there"))?;
            let answer = called.answer(from, request.clone()).await?;
            let deceived = *wires.deceived.lock().unwrap();
            let Ok(Request::Order { height }) = Request::decode(&request) else {
                return Ok(answer);
            };
            if (to, deceived) != (1, Some((from, height))) || answer.is_empty() {
                return Ok(answer);
            }
            let mut other = Proposal::decode(&answer).unwrap();
            other.envelopes = vec![envelope(999, &["DELETE FROM transfers"])];
            Ok(other.encode())
        })
    }
}

struct Party {
    files: [MemoryFiles; 3],
    url: String,
    /// Its function that agrees.
    check: Option<String>,
    running: Option<JoinHandle<types::Error>>,
}

/// All of them.
pub struct World {
    wires: Arc<Wires>,
    parties: BTreeMap<u64, Party>,
    sequence: AtomicU64,
}

pub fn key(member: u64) -> SecretKey {
    SecretKey::of_seed([member as u8; 32])
}

pub fn terms_with(votes: usize) -> Terms {
    let one = |id: u64| format!("{id} {} host-{id}:1", to_hex(&key(id).public()));
    Terms { members: ALL.map(one).join(", "), votes, ..terms() }
}

fn server_of(member: u64) -> &'static Server {
    if member == 3 { mariadb() } else { postgres() }
}

impl World {
    async fn new(votes: usize) -> World {
        World::with(&terms_with(votes), &[]).await
    }

    /// Each database has run these before; where there are any, `agrees` is its function.
    pub async fn with(terms: &Terms, before: &[fn(Dialect) -> &'static str]) -> World {
        let mut world =
            World { wires: Arc::default(), parties: BTreeMap::new(), sequence: AtomicU64::new(1) };
        for member in ALL {
            let server = server_of(member);
            let url = server.database(tables(server.dialect())).await;
            let files = [(); 3].map(|()| MemoryFiles::new());
            let mut database = Database::connect(&url).await.unwrap();
            for statement in before {
                database.run(statement(server.dialect())).await.unwrap();
            }
            let check = (!before.is_empty()).then(|| "agrees".to_owned());
            world.parties.insert(member, Party { files, url, check, running: None });
            world.start(member, Some(terms)).await;
        }
        world
    }

    async fn start(&mut self, member: u64, first: Option<&Terms>) {
        let party = self.parties.get_mut(&member).unwrap();
        let [book, orders, again] = party.files.clone().map(|files| Arc::new(files) as Arc<_>);
        let folders = Folders { book, orders, again };
        let exchange = Arc::new(Wire { wires: Arc::clone(&self.wires), from: member });
        let clock = Arc::new(|| TIME_US + 1_000_000);
        let (url, key) = (party.url.clone(), key(member));
        // Some by one connection, some by more: what blocks come to is the same.
        let connections = member as usize;
        let block_transactions = 10_000;
        let (key, check) = (Arc::new(key), party.check.clone());
        let joining = Joining {
            folders,
            url,
            member,
            key,
            exchange,
            clock,
            connections,
            block_transactions,
            check,
        };
        let joined = Member::open(joining, first).await.unwrap();
        self.wires.members.lock().unwrap().insert(member, Arc::clone(joined.shared()));
        party.running = Some(tokio::spawn(joined.run()));
    }

    /// As SIGKILL does, wherever it is.
    async fn kill(&mut self, member: u64) {
        self.wires.members.lock().unwrap().remove(&member);
        let running = self.parties.get_mut(&member).unwrap().running.take().unwrap();
        running.abort();
        let _ = running.await;
    }

    pub fn shared(&self, member: u64) -> Arc<Shared> {
        Arc::clone(&self.wires.members.lock().unwrap()[&member])
    }

    pub async fn outside(&self, member: u64) -> Database {
        Database::connect(&self.parties[&member].url).await.unwrap()
    }

    fn submit(&self, statements: &[&str]) {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        self.shared(1).submit(envelope(sequence, statements)).unwrap();
    }

    /// Some payments, each in a block of its own.
    async fn pay(&self, blocks: u64) {
        for _ in 0..blocks {
            let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
            let from = 1 + sequence % 7;
            self.shared(1).submit(transfer(sequence, from, from + 1, 100)).unwrap();
            self.reach(&[1], self.shared(1).status().agreed + 1).await;
        }
    }

    /// Until these have come so far.
    pub async fn reach(&self, members: &[u64], height: u64) {
        let began = Instant::now();
        for member in members {
            while self.shared(*member).status().agreed < height {
                let status = self.shared(*member).status();
                let late = began.elapsed() < Duration::from_secs(60);
                assert!(late, "organisation {member} waits for block {height}: {status:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// Until nothing waits to be ordered.
    async fn settle(&self) {
        let began = Instant::now();
        let mut idle = Instant::now();
        while idle.elapsed() < Duration::from_millis(700) {
            let status = self.shared(1).status();
            if status.agreed < status.ordered || !status.doing.starts_with("waiting for the order")
            {
                idle = Instant::now();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn events(&self, member: u64) -> String {
        self.shared(member).status().events.into_iter().collect::<Vec<_>>().join("\n")
    }

    /// Until an organisation's events name the value of each once, where none had enough votes:
    /// some when that was plain, the others when they came.
    async fn each_is_named(&self, member: u64, what: &str) {
        let (split, late) = (format!("{what} has no value with 3 votes: "), format!(" for {what}"));
        let began = Instant::now();
        loop {
            let mut named = Vec::new();
            for event in self.shared(member).status().events {
                if let Some(votes) = event.strip_prefix(&split) {
                    let members = votes.split(", ").filter_map(|vote| vote.split(':').next());
                    named.extend(members.map(str::to_owned));
                } else if event.ends_with(&late) {
                    named.extend(event.split(' ').nth(1).map(str::to_owned));
                }
            }
            named.sort();
            if named == ["1", "2", "3"] {
                return;
            }
            let events = self.events(member);
            assert!(named.len() < 3 && began.elapsed() < Duration::from_secs(60), "{events}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// All have the same rows, and the same certified results.
    pub async fn compare(&mut self) {
        self.settle().await;
        let height = self.shared(1).status().agreed;
        self.reach(&ALL, height).await;
        let electors = terms_with(2).electors().unwrap().unwrap();
        let mut certified = Vec::new();
        for member in ALL {
            let certificate = self.shared(member).certificate(Stage::Result, height).unwrap();
            assert_eq!(certificate.ledger_id, electors.ledger_id);
            certified.push(certificate.said);
        }
        assert!(certified.iter().all(|it| *it == certified[0]), "{certified:?}");
        let mut roots = Vec::new();
        for member in ALL {
            let mut outside = self.outside(member).await;
            let began = Instant::now();
            while outside.height().await.unwrap() < height {
                assert!(
                    began.elapsed() < Duration::from_secs(30),
                    "{member} does not end {height}"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            roots.push(outside.state_root(&terms().schema).await.unwrap());
        }
        assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_systems_agree_block_by_block() {
    let mut world = World::new(3).await;
    world.pay(4).await;
    world.submit(&["INSERT INTO accounts (id, balance, name) VALUES (70, 12.345, 'ä')"]);
    world.submit(&["UPDATE accounts SET balance = -1 WHERE id = 70"]);
    world.pay(2).await;
    world.compare().await;
    for member in ALL {
        assert_eq!(world.events(member), "");
    }
}

/// An administrator changes a row by SQL: the next block names it, and it is repaired, while the
/// others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_edited_by_hand_is_named_and_repaired() {
    let mut world = World::new(2).await;
    world.pay(4).await;
    world.reach(&ALL, 4).await;
    for member in [2, 3] {
        let mut admin = world.outside(member).await;
        let edit = "UPDATE accounts SET balance = 1000000 WHERE id = 40";
        assert_eq!(admin.run(edit).await.unwrap(), 1);
        world.pay(4).await;
        world.compare().await;
        let events = world.events(member);
        let user = server_of(member).user();
        let named = format!("accounts (id = 40) was changed by user {user}");
        assert!(events.contains(&named) && events.contains("recovered block"), "{events}");
        let rows = admin.rows("SELECT balance FROM accounts WHERE id = 40").await.unwrap();
        assert_eq!(rows, [[Some("100.00".to_owned())]]);
    }
    assert_eq!(world.events(1), "");
}

/// Around the triggers: no block tells, the next checkpoint does, and names the rows.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_around_the_triggers_is_named_at_the_next_checkpoint() {
    let mut world = World::new(2).await;
    world.pay(3).await;
    world.reach(&ALL, 3).await;
    for member in [2, 3] {
        let mut admin = world.outside(member).await;
        let off = match admin.dialect() {
            Dialect::Postgres => "SET tally_chainify.restoring = on",
            Dialect::MariaDb => "SET @tally_chainify_restoring = 1",
        };
        admin.run(off).await.unwrap();
        admin.run("UPDATE accounts SET name = 'me' WHERE id = 41").await.unwrap();
        admin.run("DELETE FROM accounts WHERE id = 42").await.unwrap();
        world.pay(3).await;
        world.compare().await;
        let events = world.events(member);
        for named in
            ["accounts (id = 41) is another row here", "accounts (id = 42) is missing here"]
        {
            assert!(events.contains(named), "{events}");
        }
    }
}

/// What turns triggers off, or goes round them, is named, and repaired.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_round_the_triggers_is_named() {
    let mut world = World::new(2).await;
    world.pay(1).await;
    world.reach(&ALL, 1).await;
    for (member, off, named) in [
        (
            2,
            "ALTER TABLE accounts DISABLE TRIGGER USER",
            "Trigger tally_chainify_accounts of table accounts is turned off.",
        ),
        (
            2,
            "DROP TRIGGER tally_chainify_accounts ON accounts",
            "Trigger tally_chainify_accounts of table accounts is missing.",
        ),
        (
            2,
            "CREATE OR REPLACE FUNCTION tally_chainify.changed_1() RETURNS trigger \
             LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "Trigger tally_chainify_accounts of table accounts is another one.",
        ),
        (
            3,
            "DROP TRIGGER tally_chainify_u_accounts",
            "Trigger tally_chainify_u_accounts of table accounts is missing.",
        ),
    ] {
        let mut admin = world.outside(member).await;
        admin.run(off).await.unwrap();
        admin.run("UPDATE accounts SET balance = 3 WHERE id = 44").await.unwrap();
        let before = world.shared(member).status().deviations.len();
        world.pay(1).await;
        world.compare().await;
        let status = world.shared(member).status();
        let deviation = status.deviations.back().unwrap();
        assert_eq!(status.deviations.len(), before + 1, "{status:?}");
        assert!(deviation.rows[0].contains(named), "{status:?}");
        assert!(deviation.recovered.starts_with("recovered block"), "{status:?}");
        let rows = admin.rows("SELECT balance FROM accounts WHERE id = 44").await.unwrap();
        assert_eq!(rows, [[Some("100.00".to_owned())]]);
    }
    // No trigger of MariaDB sees it; the next checkpoint does.
    let mut admin = world.outside(3).await;
    admin.run("TRUNCATE TABLE transfers").await.unwrap();
    world.pay(3).await;
    world.compare().await;
    let events = world.events(3);
    assert!(events.contains("transfers (id = 1) is missing here"), "{events}");
    assert_eq!(world.events(1), "");
}

/// 5 / 2 is 2 in PostgreSQL: the one with MariaDB cannot come to it, however often it tries, and
/// takes the rows of the next checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_system_that_rounds_differently_is_named_and_takes_the_others_rows() {
    let mut world = World::new(2).await;
    world.pay(2).await;
    world.submit(&["UPDATE accounts SET balance = balance + 5 / 2 WHERE id = 43"]);
    world.reach(&[1, 2], 3).await;
    world.pay(5).await;
    world.compare().await;
    let events = world.events(3);
    for named in ["accounts (id = 43) came to other values", "took the rows of block"] {
        assert!(events.contains(named), "{events}");
    }
    let mut outside = world.outside(3).await;
    let rows = outside.rows("SELECT balance FROM accounts WHERE id = 43").await.unwrap();
    assert_eq!(rows, [[Some("102.00".to_owned())]]);
}

/// A database that is set back to what it was some blocks ago gets the blocks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_from_an_old_backup_gets_its_lost_blocks() {
    let mut world = World::new(2).await;
    world.pay(2).await;
    world.reach(&ALL, 2).await;
    world.kill(2).await;
    let url = world.parties[&2].url.clone();
    let (server, name) = url.rsplit_once('/').unwrap();
    let mut admin = Database::connect(&format!("{server}/postgres")).await.unwrap();
    let backup = format!("CREATE DATABASE {name}_backup TEMPLATE {name}");
    let began = Instant::now();
    // A session that was killed may not have ended yet.
    while admin.run(&backup).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.start(2, None).await;
    world.pay(5).await;
    world.reach(&ALL, 7).await;
    world.kill(2).await;
    world.parties.get_mut(&2).unwrap().url = format!("{url}_backup");
    world.pay(1).await;
    world.start(2, None).await;
    world.pay(1).await;
    world.compare().await;
}

/// Killed anywhere, again and again, each goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn organisations_that_are_killed_come_back() {
    let mut world = World::new(2).await;
    for round in 0..12u64 {
        let member = 2 + round % 2;
        for _ in 0..3 {
            let sequence = world.sequence.fetch_add(1, Ordering::Relaxed);
            world.shared(1).submit(transfer(sequence, 1, 2, 1)).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(7 * round)).await;
        world.kill(member).await;
        world.pay(1).await;
        world.start(member, None).await;
    }
    world.pay(1).await;
    world.compare().await;
    let mut outside = world.outside(3).await;
    let rows = outside.rows("SELECT COUNT(*) FROM transfers").await.unwrap();
    assert_eq!(rows, [[Some((12 * 4 + 1).to_string())]]);
}

/// Databases that end their sessions, at any moment, are waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_is_made_again() {
    let mut world = World::new(2).await;
    world.pay(1).await;
    for round in 0..6u64 {
        let member = 1 + round % 3;
        let mut admin = world.outside(member).await;
        let others = match admin.dialect() {
            Dialect::Postgres => {
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()"
            }
            Dialect::MariaDb => {
                "SELECT CONCAT('KILL ', id) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            }
        };
        for _ in 0..3 {
            let sequence = world.sequence.fetch_add(1, Ordering::Relaxed);
            world.shared(1).submit(transfer(sequence, 1, 2, 1)).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(3 * round)).await;
        for row in admin.rows(others).await.unwrap() {
            if let Some(kill) = row[0].as_ref().filter(|text| text.starts_with("KILL")) {
                let _ = admin.run(kill).await;
            }
        }
        world.pay(1).await;
    }
    world.compare().await;
    let mut outside = world.outside(2).await;
    let rows = outside.rows("SELECT COUNT(*) FROM transfers").await.unwrap();
    assert_eq!(rows, [[Some((6 * 4 + 1).to_string())]]);
}

/// An orderer that gives one of them another order is found before a row is touched.
#[tokio::test(flavor = "multi_thread")]
async fn an_orderer_that_lies_to_one_is_named_and_touches_no_row() {
    let mut world = World::new(2).await;
    world.pay(2).await;
    world.reach(&ALL, 2).await;
    *world.wires.deceived.lock().unwrap() = Some((3, 3));
    world.pay(3).await;
    world.compare().await;
    let events = world.events(3);
    assert!(events.contains("another order for block 3"), "{events}");
    assert!(!events.contains("deviates"), "{events}");
}

/// Where all have to agree, one that deviates makes all recover: then they agree.
#[tokio::test(flavor = "multi_thread")]
async fn where_all_must_agree_all_recover_and_vote_again() {
    let mut world = World::new(3).await;
    world.pay(1).await;
    world.reach(&ALL, 1).await;
    let mut admin = world.outside(2).await;
    admin.run("UPDATE accounts SET balance = 1 WHERE id = 40").await.unwrap();
    world.pay(3).await;
    world.compare().await;
    for member in ALL {
        world.each_is_named(member, "block 2").await;
        let events = world.events(member);
        assert!(events.contains("ran block 2 again from the checkpoint of block 0"), "{events}");
        let again = world.shared(member).certificate(Stage::Again(1), 2);
        assert_eq!(again.unwrap().votes.len(), 3);
    }
    let rows = admin.rows("SELECT balance FROM accounts WHERE id = 40").await.unwrap();
    assert_eq!(rows, [[Some("100.00".to_owned())]]);
    // One that comes late finds it too.
    world.kill(3).await;
    world.start(3, None).await;
    world.pay(1).await;
    world.compare().await;
}

/// One that comes to something else each time stops all, with the values of each.
#[tokio::test(flavor = "multi_thread")]
async fn where_all_must_agree_and_systems_differ_all_stop_with_the_values() {
    let mut world = World::new(3).await;
    world.pay(1).await;
    world.reach(&ALL, 1).await;
    world.submit(&["UPDATE accounts SET balance = balance + 5 / 2 WHERE id = 43"]);
    for member in ALL {
        let running = world.parties.get_mut(&member).unwrap().running.take().unwrap();
        let error = running.await.unwrap();
        assert!(error.message().contains("block 2 comes to different results"), "{error:?}");
    }
    for member in ALL {
        world.each_is_named(member, "block 2").await;
        for round in 1..=3 {
            world.each_is_named(member, &format!("block 2, run again ({round} of 3)")).await;
        }
    }
}
