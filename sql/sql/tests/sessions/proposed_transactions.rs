//! Interactive transactions as one proposal each, which this node and another endorse.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::types::{Error, Result, SqlState, Value};
use bytes::Bytes;
use concurrency::{Expectation, Interactive};
use engine::transaction::{Endorsed, SchemaSeen};
use engine::{Body, ParameterTypes};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use ledger::Hash;
use order::signed::approve_all;
use order::{Signature, View};
use sql::SessionInfo;
use sql::session::shared_state::{Endorsers, THIS_NODE};
use sql::session::{Session, Signal};
use tokio::sync::Notify;

use super::approvals::{NODE_A, NODE_B, detail};
use super::endorsed::{
    AMOUNTS, BALANCES, BOTH, INITIAL, POLICY, approve, balance, changed, changes, endorsed, own,
    proposed, refused, shown, statement, with,
};
use super::signed::{ADA, OK, Said, key, outcome, said, submit};
use super::{Client, Node, block_on, code};

/// How the other bank's node answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Approves,
    Refuses,
    /// It has met newer rows.
    IsAhead,
    /// Approves a transaction that writes something else.
    Forges,
    /// Nothing at all.
    IsSilent,
    /// Approves when it is told to.
    IsSlow,
    /// The block that it was simulated on; of the next one it knows.
    HasForgotten,
    /// The same, and is slow then.
    HasForgottenAndIsSlow,
}

/// The other bank's node.
struct Other {
    says: Mutex<Says>,
    asked: Mutex<Vec<Bytes>>,
    /// A slow one goes on.
    goes_on: Arc<Notify>,
    /// Of a client that gives up when it has approved.
    gives_up: Mutex<Option<Arc<Notify>>>,
}

impl Endorsers for Other {
    fn ask(
        &self,
        (envelope, id): (Bytes, Hash),
        approves: bool,
    ) -> BoxStream<'static, (String, Result<Signature>)> {
        assert_eq!(View::read(&envelope).unwrap().id().unwrap(), id);
        self.asked.lock().unwrap().push(envelope.clone());
        let own = approves.then(|| (THIS_NODE.to_owned(), approved(&envelope, NODE_A)));
        let own = stream::iter(own);
        let answer = match *self.says.lock().unwrap() {
            Says::Approves => approved(&envelope, NODE_B),
            Says::Refuses => {
                let what = "function watch does not approve the transaction";
                Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what))
            }
            Says::IsAhead => {
                Err(Error::serialization("What the transaction read was changed since. There."))
            }
            Says::IsSilent => return own.chain(stream::pending()).boxed(),
            Says::IsSlow => {
                let (goes_on, answer) = (Arc::clone(&self.goes_on), approved(&envelope, NODE_B));
                let late = stream::once(async move {
                    goes_on.notified().await;
                    ("member 2".to_owned(), answer)
                });
                return own.chain(late).boxed();
            }
            ref mut says @ (Says::HasForgotten | Says::HasForgottenAndIsSlow) => {
                *says = match *says {
                    Says::HasForgotten => Says::Approves,
                    _ => Says::IsSlow,
                };
                let what = "the time of block 1 is not known any more";
                Err(Error::new(SqlState::SNAPSHOT_TOO_OLD, what))
            }
            Says::Forges => {
                let view = View::read(&envelope).unwrap();
                let Body::Endorsed(mut endorsed) = Body::from_request(view.request).unwrap() else {
                    panic!("no proposal");
                };
                endorsed.writes.pop();
                let request = Body::Endorsed(endorsed).to_request();
                approved(&View { request: &request, ..view }.encode().unwrap(), NODE_B)
            }
        };
        let gives_up = self.gives_up.lock().unwrap().clone();
        let last = stream::once(async move {
            gives_up.inspect(|client| client.notify_one());
            ("member 2".to_owned(), answer)
        });
        own.chain(last).boxed()
    }
}

/// Beside another transaction, by one signature for both.
fn approved(envelope: &[u8], by: u8) -> Result<Signature> {
    let (key, id) = (key(by), View::read(envelope)?.id()?);
    let approval = approve_all(&key, &[id, [7; 32]]).swap_remove(0);
    Ok(Signature { key_id: key.public(), bytes: approval.into() })
}

/// Approves all but what names the number 13.
const LOOK: &str = "CREATE FUNCTION look(who text, kind text, what text, given text[]) RETURNS \
     boolean LANGUAGE plpgsql AS $$ BEGIN \
     RETURN what NOT LIKE '%13%' AND coalesce(given[1], '') <> '13'; END $$";

/// The balances of both banks, whose nodes look.
async fn looking(more: &[&str]) -> (Node, Client, Arc<Other>) {
    let look = format!("ALTER FUNCTION look {POLICY}");
    let alter = format!("ALTER TABLE balances {POLICY}");
    let texts = [&[BALANCES, INITIAL, LOOK, &look], more, &[&alter]].concat();
    let (node, client) = with(&texts).await;
    let (says, asked) = (Mutex::new(Says::Approves), Mutex::default());
    let (goes_on, gives_up) = Default::default();
    let other = Arc::new(Other { says, asked, goes_on, gives_up });
    let shared = &node.database.shared_state;
    shared.approval_check.set("look".to_owned()).unwrap();
    let endorsers: Arc<dyn Endorsers> = other.clone();
    assert!(shared.endorsers.set(endorsers).is_ok());
    (node, client, other)
}

impl Other {
    fn last(&self) -> Endorsed {
        let asked = self.asked.lock().unwrap();
        let view = View::read(asked.last().unwrap()).unwrap();
        match Body::from_request(view.request).unwrap() {
            Body::Endorsed(endorsed) => *endorsed,
            body => panic!("{body:?}"),
        }
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn run_all(client: &mut Client, texts: &[&str]) {
    for text in texts {
        client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }
}

#[test]
fn a_transaction_of_several_statements_is_one_proposal() {
    block_on(async {
        let log = "CREATE TABLE log (what text, at timestamptz)";
        let alter = format!("ALTER TABLE log {POLICY}");
        let (node, mut client, other) = looking(&[log, &alter]).await;
        run_all(&mut client, &["SET tally.endorse = on", "BEGIN"]).await;
        run_all(
            &mut client,
            &["UPDATE balances SET amount = amount - 30 WHERE name = 'BalA'", "SAVEPOINT s"],
        )
        .await;
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,70 BalB,50", "its own write");
        run_all(
            &mut client,
            &[
                "DELETE FROM balances",
                "INSERT INTO log VALUES ('all gone', now())",
                "ROLLBACK TO s",
                "UPDATE balances SET amount = 80 WHERE name = 'BalB'",
                "INSERT INTO log VALUES ('paid', now())",
            ],
        )
        .await;
        assert_eq!(other.count(), 0, "none is asked before COMMIT");
        // Beside it another is valid, on which nothing of it rests.
        let mut beside = node.session();
        run_all(&mut beside, &["SET tally.endorse = on", "INSERT INTO log VALUES ('beside')"])
            .await;
        run_all(&mut client, &["COMMIT"]).await;
        assert_eq!(other.count(), 2, "one proposal each");
        let Endorsed { proposal, writes, rows, now_us, .. } = other.last();
        let Body::Interactive { transaction, .. } = proposal else { panic!("{proposal:?}") };
        assert_eq!(transaction.writes.len(), 3, "what was rolled back is no part of it");
        assert_eq!(transaction.now_us, now_us);
        assert_eq!(writes.len(), 3);
        assert_eq!(writes[0].change, balance("BalA", 70));
        // It was shown both rows.
        let of_balances = rows.iter().filter(|row| row.table == writes[0].table);
        assert_eq!(of_balances.count(), 2);
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,70 BalB,80");
        assert_eq!(shown(&mut client, "SELECT count(*), count(at) FROM log").await, "2,1");
        // Only reads, or rolled back: nothing is asked.
        run_all(&mut client, &["BEGIN", "SELECT * FROM balances", "COMMIT"]).await;
        run_all(&mut client, &["BEGIN", "DELETE FROM balances", "ROLLBACK"]).await;
        assert_eq!(other.count(), 2);
        node.verify();
    });
}

#[test]
fn a_transaction_that_owes_approvals_is_a_proposal_by_itself() {
    block_on(async {
        let (node, mut client, other) = looking(&["CREATE TABLE free (id int PRIMARY KEY)"]).await;
        run_all(&mut client, &["BEGIN", "INSERT INTO free VALUES (1)", "COMMIT"]).await;
        assert_eq!(other.count(), 0, "a table without a policy");
        run_all(&mut client, &["BEGIN", "UPDATE balances SET amount = 7", "COMMIT"]).await;
        assert_eq!(other.count(), 1);
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,7 BalB,7");
        let alone = client.run("UPDATE balances SET amount = 8").await;
        assert_eq!((code(alone).as_str(), other.count()), ("42T01", 1), "as ever");
        // Rows beside it need some who have endorsed them.
        run_all(
            &mut client,
            &["BEGIN", "INSERT INTO free VALUES (2)", "UPDATE balances SET amount = 9"],
        )
        .await;
        let why = client.run("COMMIT").await.unwrap_err();
        assert_eq!(why.code().as_str(), "42T01");
        assert_eq!(why.message(), "table \"free\" takes no endorsed transactions");
        node.verify();
    });
}

#[test]
fn commit_tells_what_has_gone_wrong() {
    block_on(async {
        let (node, mut client, other) = looking(&[
            "CREATE TABLE child (id int PRIMARY KEY, of text REFERENCES balances DEFERRABLE \
             INITIALLY DEFERRED)",
            &format!("ALTER TABLE child {POLICY}"),
        ])
        .await;
        let mut another = node.session();
        run_all(&mut client, &["SET tally.endorse = on"]).await;
        run_all(&mut another, &["SET tally.endorse = on"]).await;
        let add = "UPDATE balances SET amount = amount + 1 WHERE name = 'BalB'";
        // What it was shown has changed before COMMIT.
        run_all(&mut client, &["BEGIN", "SELECT amount FROM balances WHERE name = 'BalA'"]).await;
        run_all(&mut another, &["UPDATE balances SET amount = 90 WHERE name = 'BalA'"]).await;
        run_all(&mut client, &[add]).await;
        let asked = other.count();
        let why = client.run("COMMIT").await.unwrap_err();
        assert_eq!(why.code().as_str(), "40001", "{why:?}");
        assert_eq!(other.count(), asked, "none is asked for what cannot be valid");
        // One that is blind of it is not troubled.
        run_all(&mut client, &["BEGIN", add]).await;
        run_all(&mut another, &["UPDATE balances SET amount = 100 WHERE name = 'BalA'"]).await;
        run_all(&mut client, &["COMMIT"]).await;
        for (says, code, told) in [
            (Says::Refuses, "42T01", "Of member 2: function watch does not approve"),
            (Says::IsAhead, "40001", "What the transaction read was changed since. There."),
            (Says::Forges, "42T01", "Of member 2: its approval of the transaction is wrong."),
        ] {
            *other.says.lock().unwrap() = says;
            run_all(&mut client, &["BEGIN", add]).await;
            let why = client.run("COMMIT").await.unwrap_err();
            assert_eq!(why.code().as_str(), code, "{says:?}: {why:?}");
            assert!(detail(&why).contains(told), "{says:?}: {why:?}");
        }
        *other.says.lock().unwrap() = Says::Approves;
        // The node's own check is asked for each statement.
        let thirteen = "UPDATE balances SET amount = amount + 13 WHERE name = 'BalA'";
        run_all(&mut client, &["BEGIN", add, thirteen, add]).await;
        let why = client.run("COMMIT").await.unwrap_err();
        assert_eq!(why.code().as_str(), "42T01");
        let own = "Of this node: function look does not approve the transaction.";
        assert!(detail(&why).contains(own), "{why:?}");
        // A statement's own error is told where it stands.
        run_all(&mut client, &["BEGIN", add]).await;
        let below = client.run("UPDATE balances SET amount = -1").await;
        assert_eq!(code(below).as_str(), "23514");
        run_all(&mut client, &["COMMIT"]).await;
        // A key that waits for COMMIT: its rows cannot be written one by one.
        run_all(&mut client, &["BEGIN", "INSERT INTO child VALUES (1, 'BalC')"]).await;
        run_all(&mut client, &["INSERT INTO balances VALUES ('BalC', 0)"]).await;
        let why = client.run("COMMIT").await.unwrap_err();
        assert_eq!(why.code().as_str(), "0A000", "{why:?}");
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,100 BalB,51", "none has written");
        run_all(&mut client, &["BEGIN", add, "COMMIT"]).await;
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,100 BalB,52");
        node.verify();
    });
}

/// As many blocks as are known by their hashes, and more, come while it is open.
#[test]
fn a_transaction_may_stay_open_for_more_blocks_than_are_remembered() {
    block_on(async {
        let (node, mut client, other) = looking(&["CREATE TABLE free (id int)"]).await;
        run_all(&mut client, &["BEGIN", "UPDATE balances SET amount = 7 WHERE name = 'BalA'"])
            .await;
        let before = node.database.engine.head().height;
        for at in 0..=engine::retention::RECENT_BLOCKS {
            let body = statement(format!("INSERT INTO free VALUES ({at})"));
            node.submit(body).await.unwrap().unwrap();
        }
        let passed = node.database.engine.head().height - before;
        assert!(passed > engine::retention::RECENT_BLOCKS as u64, "{passed} blocks");
        run_all(&mut client, &["COMMIT"]).await;
        assert_eq!(other.count(), 1);
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,7 BalB,50");
        node.verify();
    });
}

#[test]
fn none_is_waited_for_that_is_not_needed_or_when_the_client_gives_up() {
    block_on(async {
        let either = "ALTER TABLE free SET APPROVAL POLICY 'OR(bank_a, bank_b)'";
        let (node, mut client, other) =
            looking(&["CREATE TABLE free (id int PRIMARY KEY)", either]).await;
        *other.says.lock().unwrap() = Says::IsSilent;
        run_all(&mut client, &["SET tally.endorse = on", "BEGIN"]).await;
        run_all(&mut client, &["INSERT INTO free VALUES (1)", "COMMIT"]).await;
        assert_eq!(other.count(), 0, "what this node says is enough");
        let add = "UPDATE balances SET amount = amount + 1 WHERE name = 'BalA'";
        let height = node.database.engine.head().height;
        // In time, and by a request of its client.
        run_all(&mut client, &["SET tally.transaction_key = 'k'", "BEGIN", add]).await;
        run_all(&mut client, &["SET statement_timeout = 300"]).await;
        let late = client.run("COMMIT").await.unwrap_err();
        assert_eq!(late.code(), SqlState::QUERY_CANCELED);
        assert_eq!(late.message(), "canceling statement due to statement timeout");
        run_all(&mut client, &["SET statement_timeout = 0"]).await;
        let signal = Signal::default();
        let info = SessionInfo { user: "tally".into(), ..SessionInfo::default() };
        let interrupt = Arc::clone(&signal.raised);
        let session = Session::new(Arc::clone(&node.database), info, signal.clone());
        let mut another = Client { session, interrupt };
        run_all(&mut another, &["BEGIN", add]).await;
        let asked = other.count();
        let cancel = async {
            while other.count() == asked {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            loop {
                signal.withdraw.notify_waiters();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let why = tokio::select! {
            said = another.run("COMMIT") => said.unwrap_err(),
            () = cancel => unreachable!(),
        };
        assert_eq!(why.message(), "canceling statement due to user request");
        assert_eq!(node.database.engine.head().height, height, "nothing was ordered");
        // The key names the next one.
        assert_eq!(shown(&mut client, "SHOW tally.transaction_key").await, "k");
        *other.says.lock().unwrap() = Says::Approves;
        run_all(&mut client, &["BEGIN", add, "COMMIT"]).await;
        assert_eq!(shown(&mut client, "SELECT outcome FROM tally_outcome('k')").await, "committed");
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,101 BalB,50");
        node.verify();
    });
}

#[test]
fn a_transaction_is_not_valid_with_a_phantom_and_keeps_the_numbers_that_it_drew() {
    block_on(async {
        let texts = [
            "CREATE SEQUENCE numbers",
            "CREATE TABLE log (id bigint PRIMARY KEY, what text)",
            &format!("ALTER TABLE log {POLICY}"),
        ];
        let (node, mut client, other) = looking(&texts).await;
        let mut beside = node.session();
        run_all(&mut beside, &["SET tally.endorse = on"]).await;
        let many = "SELECT count(*) FROM balances WHERE amount >= 100";
        let put = "UPDATE balances SET amount = 0 WHERE name = 'BalB'";
        run_all(&mut client, &["BEGIN"]).await;
        assert_eq!(shown(&mut client, many).await, "1");
        run_all(&mut beside, &["INSERT INTO balances VALUES ('BalC', 100)"]).await;
        run_all(&mut client, &[put]).await;
        let asked = other.count();
        assert_eq!(code(client.run("COMMIT").await).as_str(), "40001");
        assert_eq!(other.count(), asked, "none is asked for it");
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,100 BalB,50 BalC,100");
        // A number is drawn for good, what it was drawn for is not.
        let log = "INSERT INTO log VALUES (nextval('numbers'), 'one')";
        run_all(&mut client, &["BEGIN", log, "SAVEPOINT s", log, "ROLLBACK TO s", log]).await;
        assert_eq!(shown(&mut client, "SELECT id FROM log ORDER BY id").await, "1 3");
        run_all(&mut client, &["COMMIT"]).await;
        assert_eq!(shown(&mut client, "SELECT id FROM log ORDER BY id").await, "1 3");
        assert_eq!(other.last().writes.len(), 2);
        node.verify();
    });
}

/// A COMMIT by hand: what it asks for in place of what a session would.
fn commit(version: u64, writes: &[(&str, u64)]) -> Body {
    let seen = SchemaSeen { version, whole: false };
    let write = |(text, count): &(&str, u64)| {
        let body = Body::statement(*text, ParameterTypes::default(), []);
        (body, Expectation { count: *count, rows: Vec::new() })
    };
    let writes = writes.iter().map(write).collect();
    let transaction = Interactive { now_us: 0, rows: Vec::new(), ranges: Vec::new(), writes };
    Body::Interactive { seen, transaction }
}

fn asked(endorsed: &mut Endorsed) -> &mut Interactive<Body> {
    match &mut endorsed.proposal {
        Body::Interactive { transaction, .. } => transaction,
        body => panic!("{body:?}"),
    }
}

#[test]
fn what_is_endorsed_of_a_transaction_is_what_it_comes_to() {
    block_on(async {
        let (node, mut client, _) = looking(&["GRANT SELECT ON balances TO ada"]).await;
        let version = node.database.schema.newest().version;
        let add = "UPDATE balances SET amount = amount + 1 WHERE name = 'BalA'";
        let put = "UPDATE balances SET amount = 60 WHERE name = 'BalB'";
        let two = || commit(version, &[(add, 1), (put, 1)]);
        let made = proposed(&mut client, &own(1, two())).await.unwrap();
        assert_eq!(changes(&made), [balance("BalA", 101), balance("BalB", 60)]);
        approve(&mut client, &made).await.unwrap();
        // Whatever a gateway changes in it no other node approves.
        type Change = fn(&mut Endorsed);
        let tried: [(Change, &str); 7] = [
            (|it| it.writes[0].change = balance("BalA", 102), "42T02"),
            (|it| drop(it.writes.pop()), "42T02"),
            (|it| drop(it.rows.pop()), "42T02"),
            (|it| it.now_us += 1, "42T02"),
            (|it| asked(it).now_us += 1, "42T02"),
            (|it| drop(asked(it).writes.pop()), "42T02"),
            (|it| asked(it).writes.clear(), "42T02"),
        ];
        for (at, (change, expected)) in tried.into_iter().enumerate() {
            let forged = changed(&made, change);
            let said = approve(&mut client, &forged).await;
            assert_eq!(code(said).as_str(), expected, "{at}");
        }
        // When it began its own node says: in the ten minutes before the newest block.
        let newest_us = node.database.engine.head().time_us;
        const WINDOW_US: i64 = 600_000_000;
        for (now_us, expected) in [
            (newest_us, OK),
            (newest_us - 1, OK),
            (newest_us - WINDOW_US, OK),
            (newest_us - WINDOW_US - 1, "40001"),
            (newest_us + 1, "42T02"),
        ] {
            let moved = changed(&made, |it| {
                it.now_us = now_us;
                asked(it).now_us = now_us;
            });
            let said = approve(&mut client, &moved).await.map(|()| OK.to_owned());
            let said = said.unwrap_or_else(|error| error.code().as_str().to_owned());
            assert_eq!(said, expected, "{}", now_us - newest_us);
        }
        // Nothing but its statements is written, both have signed it or not.
        let beyond = changed(&made, |it| asked(it).writes.clear());
        let beyond = Said { sequence: 1090, ..beyond };
        assert_eq!(outcome(&mut client, &beyond.by(&BOTH)).await, "42501");
        // Overtaken between its simulation and its block.
        let between = proposed(&mut client, &own(2, statement(add))).await.unwrap();
        assert_eq!(outcome(&mut client, &between.by(&BOTH)).await, OK);
        let why = refused(&mut client, &made.clone().by(&BOTH)).await;
        assert_eq!(why.code().as_str(), "40001");
        let made = proposed(&mut client, &own(3, two())).await.unwrap();
        assert_eq!(outcome(&mut client, &made.clone().by(&BOTH)).await, OK);
        assert_eq!(outcome(&mut client, &made.by(&BOTH)).await, "08P01", "replayed");
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,102 BalB,60");
        // It answers otherwise than it has answered its client.
        let other = proposed(&mut client, &own(4, commit(version, &[(add, 2)]))).await;
        assert_eq!(code(other).as_str(), "40001");
        let failing = commit(version, &[("UPDATE balances SET amount = -1", 2)]);
        assert_eq!(code(proposed(&mut client, &own(5, failing)).await).as_str(), "40001");
        // Under a schema that there has not been.
        let other = proposed(&mut client, &own(6, commit(version + 1, &[(add, 1)]))).await;
        assert_eq!(code(other).as_str(), "40001");
        // Without the right to it.
        let mut ada = node.session_of("ada");
        let denied = proposed(&mut ada, &said("ada", ADA, 1, two())).await;
        assert_eq!(code(denied).as_str(), "42501");
        // A change of the schema is no part of a proposal, nor is a proposal.
        let with_schema = |made: &Said, body: Body| {
            let forged = changed(made, |it| {
                asked(it).writes.push((body.clone(), Expectation::default()));
            });
            Body::from_request(&forged.body.to_request())
        };
        let made = proposed(&mut client, &own(7, two())).await.unwrap();
        let ddl = Body::Schema { text: "DROP TABLE balances".to_owned() };
        for body in [ddl, made.body.clone(), endorsed(&made).proposal.clone()] {
            assert_eq!(with_schema(&made, body).unwrap_err().code(), SqlState::DATA_CORRUPTED);
        }
        node.verify();
    });
}

/// Proposals of many clients pass one that waits, more than the ledger remembers numbers of a
/// submitter.
#[test]
fn none_is_too_old_by_the_time_that_a_slow_endorser_answers() {
    block_on(async {
        let rows = "INSERT INTO balances SELECT 'c' || n, 0 FROM generate_series(1, 10) n";
        let (node, mut slow, other) = looking(&[rows]).await;
        run_all(&mut slow, &["SET tally.endorse = on"]).await;
        *other.says.lock().unwrap() = Says::IsSlow;
        let pass = async {
            while other.count() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            *other.says.lock().unwrap() = Says::Approves;
            let each = 1 + order::WINDOW / 10;
            let clients = (1..=10).map(async |number| {
                let mut client = node.session();
                let add =
                    format!("UPDATE balances SET amount = amount + 1 WHERE name = 'c{number}'");
                run_all(&mut client, &["SET tally.endorse = on"]).await;
                for _ in 0..each {
                    run_all(&mut client, &[&add]).await;
                }
            });
            futures::future::join_all(clients).await;
            other.goes_on.notify_one();
            10 * each
        };
        let slow = slow.run("UPDATE balances SET amount = 7 WHERE name = 'BalA'");
        let (ended, passed) = tokio::join!(slow, pass);
        ended.unwrap();
        assert!(passed > order::WINDOW, "{passed} have passed it");
        let mut client = node.session();
        let sum = "SELECT sum(amount) FROM balances WHERE name LIKE 'c%'";
        assert_eq!(shown(&mut client, sum).await, passed.to_string());
        let of_slow = "SELECT amount FROM balances WHERE name = 'BalA'";
        assert_eq!(shown(&mut client, of_slow).await, "7");
        node.verify();
    });
}

/// One that has waited for a busy member for so many blocks is simulated on a newer one.
#[test]
fn a_proposal_on_a_block_that_is_forgotten_is_made_anew() {
    block_on(async {
        let (node, mut client, other) = looking(&[]).await;
        run_all(&mut client, &["SET tally.endorse = on", "SET tally.transaction_key = 'k'"]).await;
        *other.says.lock().unwrap() = Says::HasForgotten;
        let add = "UPDATE balances SET amount = amount + 1 WHERE name = 'BalA'";
        run_all(&mut client, &[add]).await;
        assert_eq!(other.count(), 2);
        assert_eq!(shown(&mut client, AMOUNTS).await, "BalA,101 BalB,50");
        assert_eq!(shown(&mut client, "SELECT outcome FROM tally_outcome('k')").await, "committed");
        node.verify();
    });
}

/// A member keeps each envelope that it was asked about, and hands it in some time.
#[test]
fn of_the_attempts_of_a_statement_one_is_executed() {
    block_on(async {
        let log = "CREATE TABLE log (what text)";
        let alter = format!("ALTER TABLE log {POLICY}");
        for (ordered_before, key) in
            [(false, None), (true, None), (false, Some("k")), (true, Some("k"))]
        {
            let (node, mut client, other) = looking(&[log, &alter]).await;
            let mut member = node.session();
            run_all(&mut client, &["SET tally.endorse = on"]).await;
            if let Some(key) = key {
                run_all(&mut client, &[&format!("SET tally.transaction_key = '{key}'")]).await;
            }
            *other.says.lock().unwrap() = Says::HasForgotten;
            let hand_in = async |member: &mut Client| {
                let first = other.asked.lock().unwrap()[0].clone();
                let by = [NODE_A, NODE_B].map(|by| approved(&first, by).unwrap());
                let by = by.iter().map(|it| Signature { key_id: it.key_id, bytes: &it.bytes[..] });
                let mut approvals: Vec<_> = by.collect();
                approvals.sort_by_key(|it| it.key_id);
                let whole = View { approvals, ..View::read(&first).unwrap() }.encode().unwrap();
                submit(member, &whole).await
            };
            let insert = "INSERT INTO log VALUES ('once')";
            if ordered_before {
                *other.says.lock().unwrap() = Says::HasForgottenAndIsSlow;
                let first = async {
                    while other.count() < 2 {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    hand_in(&mut member).await.unwrap();
                    other.goes_on.notify_one();
                };
                let (ended, ()) = tokio::join!(client.run(insert), first);
                let why = ended.unwrap_err();
                if key.is_some() {
                    // Its key says where it is.
                    assert_eq!(why.code(), SqlState::DUPLICATE_OBJECT, "{why:?}");
                    assert!(detail(&why).contains("of block"), "{why:?}");
                } else {
                    assert_eq!(why.code(), SqlState::TRANSACTION_RESOLUTION_UNKNOWN, "{why:?}");
                    assert!(detail(&why).contains("has handed in an attempt of it"), "{why:?}");
                }
            } else {
                run_all(&mut client, &[insert]).await;
                let why = hand_in(&mut member).await.unwrap_err();
                let told = if key.is_some() { "with this key" } else { "was used before" };
                assert!(why.message().contains(told), "{why:?}");
            }
            assert_eq!(other.count(), 2);
            assert_eq!(shown(&mut member, "SELECT count(*) FROM log").await, "1");
            node.verify();
        }
    });
}

#[test]
fn what_is_withdrawn_leaves_its_key_to_the_next() {
    block_on(async {
        let (node, mut client, other) = looking(&[]).await;
        let signal = Signal::default();
        let info = SessionInfo { user: "tally".into(), ..SessionInfo::default() };
        let interrupt = Arc::clone(&signal.raised);
        let session = Session::new(Arc::clone(&node.database), info, signal.clone());
        let mut hasty = Client { session, interrupt };
        run_all(&mut hasty, &["SET tally.endorse = on"]).await;
        let add = "UPDATE balances SET amount = amount + 1 WHERE name = 'BalA'";
        let mut committed = 0;
        // The sequencer may be faster.
        let key = loop {
            assert!(committed < 1000, "none was withdrawn");
            let key = format!("k{committed}");
            run_all(&mut hasty, &[&format!("SET tally.transaction_key = '{key}'")]).await;
            *other.gives_up.lock().unwrap() = Some(Arc::clone(&signal.withdraw));
            match hasty.run(add).await {
                Ok(_) => committed += 1,
                Err(why) => {
                    assert_eq!(why.code(), SqlState::QUERY_CANCELED, "{why:?}");
                    break key;
                }
            }
        };
        *other.gives_up.lock().unwrap() = None;
        assert_eq!(shown(&mut hasty, "SHOW tally.transaction_key").await, key);
        run_all(&mut hasty, &[add]).await;
        let outcome = format!("SELECT outcome FROM tally_outcome('{key}')");
        assert_eq!(shown(&mut client, &outcome).await, "committed");
        let amount = "SELECT amount FROM balances WHERE name = 'BalA'";
        assert_eq!(shown(&mut client, amount).await, (101 + committed).to_string());
        node.verify();
    });
}

/// An endless loop costs a node that is asked for its endorsement what it would cost in a block.
#[test]
fn a_simulation_may_spend_what_a_block_would_give_it() {
    block_on(async {
        let spin = "CREATE PROCEDURE spin() LANGUAGE plpgsql AS $$ BEGIN LOOP \
                    UPDATE balances SET amount = 1; END LOOP; END $$";
        let little = "SET ledger.transaction_units_max = 100000";
        let (node, mut client, other) = looking(&[spin, little]).await;
        run_all(&mut client, &["SET tally.endorse = on"]).await;
        let why = client.run("CALL spin()").await.unwrap_err();
        assert_eq!(why.code().as_str(), "54001", "{why:?}");
        let call = own(1, Body::call("spin", Vec::<Value>::new()));
        assert_eq!(code(proposed(&mut client, &call).await).as_str(), "54001");
        assert_eq!(code(approve(&mut client, &call).await).as_str(), "54001");
        assert_eq!(other.count(), 0);
        node.verify();
    });
}
