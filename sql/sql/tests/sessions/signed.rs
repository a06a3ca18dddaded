//! Organisations, and transactions that their users' keys have signed.

use std::sync::Arc;

use ::types::{Result, Value};
use engine::transaction::outcome::Reported;
use engine::{Body, EXECUTOR, Language, ParameterTypes, Replica, Request};
use identity::shown;
use ledger::signatures::SecretKey;
use ledger::{Genesis, Hash, Parameters};
use order::{Submission, View};
use sql::session::schema::Schema;
use storage::Store;

use super::{Client, NODE_SEED, Node, Row, block_on, code, protocols};

pub(super) const LEDGER: [u8; 16] = [7; 16];
pub(super) const ROOT: u8 = 1;
pub(super) const ADA: u8 = 2;
pub(super) const BOB: u8 = 3;
pub(super) const OTHER_ROOT: u8 = 4;
pub(super) const EVE: u8 = 5;

pub(super) fn key(seed: u8) -> SecretKey {
    SecretKey::of_seed([seed; 32])
}

pub(super) fn public(seed: u8) -> String {
    shown(&key(seed).public())
}

fn node_key() -> String {
    shown(&SecretKey::of_seed(NODE_SEED).public())
}

/// What is signed, as a client makes it.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub principal: &'static str,
    pub role: Option<&'static str>,
    pub ledger_id: [u8; 16],
    pub sequence: u64,
    pub expires_us: i64,
    pub seen_height: u64,
    pub body: Body,
    pub seeds: Vec<u8>,
    /// Of those who approve.
    pub approvers: Vec<u8>,
}

pub(super) fn said(principal: &'static str, seed: u8, sequence: u64, body: Body) -> Said {
    Said {
        principal,
        role: None,
        ledger_id: LEDGER,
        sequence,
        expires_us: 1_000_000,
        seen_height: 0,
        body,
        seeds: vec![seed],
        approvers: Vec::new(),
    }
}

impl Said {
    pub fn by(self, approvers: &[u8]) -> Said {
        Said { approvers: approvers.to_vec(), ..self }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let request = self.body.to_request();
        let mut envelope = View {
            ledger_id: self.ledger_id,
            principal: self.principal,
            submission: Submission::Sequence { submitter: [9; 16], sequence: self.sequence },
            expires_us: self.expires_us,
            seen_height: self.seen_height,
            settings: self.role.iter().map(|role| ("role", *role)).collect(),
            seed: [0; 16],
            request: &request,
            signatures: Vec::new(),
            approvals: Vec::new(),
        };
        let mut rooms = vec![[0; 64]; self.seeds.len()];
        for (seed, room) in self.seeds.iter().zip(&mut rooms) {
            envelope.sign(&key(*seed), room).unwrap();
        }
        let mut others = vec![[0; 64]; self.approvers.len()];
        for (seed, room) in self.approvers.iter().zip(&mut others) {
            envelope.approve(&key(*seed), room).unwrap();
        }
        envelope.encode().unwrap().to_vec()
    }
}

pub(super) fn put(id: i64) -> Body {
    let text = format!("INSERT INTO t VALUES ({id})");
    Body::statement(text, ParameterTypes::default(), [])
}

pub(super) fn schema(text: impl Into<String>) -> Body {
    Body::Schema { text: text.into() }
}

pub(super) async fn submit(client: &mut Client, bytes: &[u8]) -> Result<Vec<Row>> {
    let parameters = [Value::Bytes(bytes.into())];
    client.run_typed("SELECT * FROM tally_submit_signed($1)", &[], &parameters).await
}

pub(super) async fn outcome(client: &mut Client, said: &Said) -> String {
    code(submit(client, &said.bytes()).await).as_str().to_owned()
}

pub(super) const OK: &str = "00000";

/// Two organisations, with users and keys; each change bears the root key's signature.
fn founding() -> Vec<(u8, String)> {
    let alter = |rest: String| (ROOT, format!("ALTER ORGANISATION bank_a {rest}"));
    vec![
        alter("ADD USER ada".into()),
        alter("ADD USER bob WITH CLIENT SIGNATURE".into()),
        alter(format!("ADD KEY '{}' FOR USER ada", public(ADA))),
        alter(format!("ADD KEY '{}' FOR USER bob", public(BOB))),
        alter(format!("ADD KEY '{}' FOR NODE one", node_key())),
        (OTHER_ROOT, "ALTER ORGANISATION bank_b ADD USER eve".to_owned()),
        (OTHER_ROOT, format!("ALTER ORGANISATION bank_b ADD KEY '{}' FOR USER eve", public(EVE))),
    ]
}

fn beginning() -> Vec<String> {
    let create =
        |name: &str, root: u8| format!("CREATE ORGANISATION {name} KEY '{}'", public(root));
    let roles = ["ada", "bob", "eve"].map(|name| format!("CREATE USER {name}"));
    let mut texts = vec!["CREATE TABLE t (id int PRIMARY KEY)".to_owned()];
    texts.extend(roles);
    texts.extend(["GRANT INSERT, SELECT ON t TO ada, bob, eve".to_owned()]);
    texts.extend([create("bank_a", ROOT), create("bank_b", OTHER_ROOT)]);
    texts
}

pub(super) async fn founded() -> Node {
    let node = Node::new("harmony");
    let mut client = node.session();
    for text in beginning() {
        client.run(&text).await.unwrap();
    }
    for (sequence, (root, text)) in (0..).zip(founding()) {
        let said = said("tally", root, sequence, schema(text));
        assert_eq!(outcome(&mut client, &said).await, OK, "{:?}", said.body);
    }
    node
}

#[test]
fn an_organisation_is_what_its_root_key_says() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        let text = "SELECT tally_submit_signed('x')";
        assert_ne!(code(client.run(text).await).as_str(), OK);
        // No superuser changes it alone, nor with another's root key.
        for (sequence, text) in (100..).zip([
            "ADD USER tally",
            "DROP USER ada",
            "ALTER USER bob WITHOUT CLIENT SIGNATURE",
            &format!("ADD KEY '{}' FOR USER ada", public(77)),
            &format!("REVOKE KEY '{}'", public(ADA)),
            &format!("ROTATE KEY '{}'", public(77)),
        ]) {
            let text = format!("ALTER ORGANISATION bank_a {text}");
            assert_eq!(code(client.run(&text).await).as_str(), "42501", "{text}");
            let by_other = said("tally", OTHER_ROOT, sequence, schema(text));
            assert_eq!(outcome(&mut client, &by_other).await, "42501");
        }
        let mut eve = node.session_of("eve");
        let create = format!("CREATE ORGANISATION c KEY '{}'", public(70));
        assert_eq!(code(eve.run(&create).await).as_str(), "28000", "her node signs for none");
        for (text, expected) in [
            (format!("CREATE ORGANISATION bank_a KEY '{}'", public(70)), "42710"),
            (format!("CREATE ORGANISATION tally_x KEY '{}'", public(70)), "42939"),
            (format!("CREATE ORGANISATION c KEY '{}'", "00".repeat(32)), "22023"),
            ("CREATE ORGANISATION c KEY 'abc'".to_owned(), "42601"),
            ("DROP ORGANISATION bank_a".to_owned(), "2BP01"),
            ("DROP ORGANISATION nothing".to_owned(), "42704"),
            ("DROP ORGANISATION IF EXISTS nothing".to_owned(), OK),
            ("ALTER ORGANISATION nothing DROP USER ada".to_owned(), "42704"),
        ] {
            assert_eq!(code(client.run(&text).await).as_str(), expected, "{text}");
        }
        node.verify();
    });
}

#[test]
fn a_transaction_is_its_users_where_a_key_of_the_user_has_signed_it() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        let good = said("ada", ADA, 1, put(1));
        let wrong = |change: fn(&mut Said)| {
            let mut said = said("ada", ADA, 1, put(1));
            change(&mut said);
            said.bytes()
        };
        let mut forged = good.bytes();
        let end = forged.len() - 2;
        forged[end] ^= 1;
        let mut moved = good.bytes();
        let at = moved.windows(6).position(|part| part == b"INSERT").unwrap();
        moved[at] = b'i';
        let unsigned = wrong(|said| said.seeds.clear());
        for (why, bytes, expected) in [
            ("forged", forged, "28000"),
            ("over another request", moved, "28000"),
            ("unsigned", unsigned, "28000"),
            ("expired", wrong(|said| said.expires_us = -1), "57014"),
            ("of a foreign ledger", wrong(|said| said.ledger_id = [8; 16]), "08P01"),
            ("by another user", wrong(|said| said.seeds = vec![BOB]), "28000"),
            ("by another bank's user", wrong(|said| said.seeds = vec![EVE]), "28000"),
            ("by no one's key", wrong(|said| said.seeds = vec![99]), "28000"),
            ("by one too many", wrong(|said| said.seeds = vec![ADA, ROOT, 98]), "54000"),
            ("beside another", wrong(|said| said.seeds = vec![ADA, BOB]), "28000"),
            ("no envelope", b"tally".to_vec(), "22023"),
        ] {
            assert_eq!(code(submit(&mut client, &bytes).await).as_str(), expected, "{why}");
        }
        // 40001 would have the client try for ever.
        let text = "INSERT INTO t VALUES ($1)";
        let mistyped = Body::statement(text, ParameterTypes::default(), [Value::from("1")]);
        let mistyped = Said { body: mistyped, ..said("ada", ADA, 1, put(1)) };
        assert_eq!(outcome(&mut client, &mistyped).await, "42804");
        // None of them has cost the user its number.
        let rows = submit(&mut client, &good.bytes()).await.unwrap();
        assert_eq!(rows[0][2], Value::Int(1));
        assert_eq!(rows[0][3], Value::from("[]"));
        assert_eq!(code(submit(&mut client, &good.bytes()).await).as_str(), "08P01", "replayed");
        let bob = said("bob", BOB, 1, put(2));
        assert_eq!(outcome(&mut client, &bob).await, OK);
        assert_eq!(outcome(&mut client, &said("bob", ROOT, 2, put(3))).await, OK);
        let as_role = Said { role: Some("bob"), ..said("ada", ADA, 5, put(4)) };
        assert_eq!(outcome(&mut client, &as_role).await, "42501");
        let open = "BEGIN; SELECT * FROM tally_submit_signed('x')";
        assert_eq!(code(client.run(open).await).as_str(), "25001");
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t").await, 3);
        node.verify();
    });
}

#[test]
fn a_node_signs_for_users_of_its_organisation() {
    block_on(async {
        let node = founded().await;
        let (mut ada, mut bob) = (node.session_of("ada"), node.session_of("bob"));
        ada.run("INSERT INTO t VALUES (10)").await.unwrap();
        ada.run("BEGIN; INSERT INTO t VALUES (11); COMMIT").await.unwrap();
        let refused = bob.run("INSERT INTO t VALUES (12)").await.unwrap_err();
        assert_eq!(refused.code().as_str(), "28000");
        assert!(refused.message().contains("sign its transactions itself"), "{refused}");
        let refused = node.session_of("eve").run("INSERT INTO t VALUES (13)").await.unwrap_err();
        assert!(refused.message().contains("does not sign for role \"eve\""), "{refused}");
        let revoke = format!("ALTER ORGANISATION bank_a REVOKE KEY '{}'", node_key());
        let mut client = node.session();
        let revoke = said("tally", ROOT, 50, schema(revoke));
        assert_eq!(outcome(&mut client, &revoke).await, OK);
        assert_eq!(code(ada.run("INSERT INTO t VALUES (14)").await).as_str(), "28000");
        assert_eq!(client.number("SELECT count(*) FROM t").await, 2);
        node.verify();
    });
}

#[test]
fn a_user_takes_its_own_key_back_and_a_dropped_role_has_none() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        let text = format!("ALTER ORGANISATION bank_a REVOKE KEY '{}'", public(ADA));
        let revoke = said("ada", ADA, 1, schema(text.clone()));
        assert_eq!(
            outcome(&mut client, &Said { seeds: vec![BOB], ..revoke.clone() }).await,
            "28000"
        );
        assert_eq!(outcome(&mut client, &revoke).await, OK);
        assert_eq!(outcome(&mut client, &said("ada", ADA, 2, put(1))).await, "28000");
        // Not even the root key makes it one again.
        let again = format!("ALTER ORGANISATION bank_a ADD KEY '{}' FOR USER ada", public(ADA));
        assert_eq!(outcome(&mut client, &said("tally", ROOT, 50, schema(again))).await, "42710");
        client.run("REVOKE ALL ON t FROM bob; DROP ROLE bob; CREATE USER bob").await.unwrap();
        client.run("GRANT INSERT ON t TO bob").await.unwrap();
        assert_eq!(outcome(&mut client, &said("bob", BOB, 1, put(1))).await, "28000");
        let rotate = format!("ALTER ORGANISATION bank_a ROTATE KEY '{}'", public(60));
        let rotate = said("tally", ROOT, 51, schema(rotate));
        assert_eq!(outcome(&mut client, &rotate).await, OK);
        assert_eq!(outcome(&mut client, &said("ada", ROOT, 3, put(1))).await, "28000");
        assert_eq!(outcome(&mut client, &said("ada", 60, 3, put(1))).await, OK);
        node.verify();
    });
}

/// A block under every protocol, on 1, 2 and 8 workers: what is wrong costs its sender alone.
/// `before`: what the root keys say in a block of its own, after what they begin with.
pub(super) fn judge(before: &[(u8, String)], cases: &[(Vec<u8>, &'static str)]) {
    judge_behind(before, &[], &|_| cases.to_vec());
}

/// After a block of `data`; the cases follow from the schema.
pub(super) fn judge_behind(
    before: &[(u8, String)],
    data: &[Vec<u8>],
    cases: &dyn Fn(&Schema) -> Vec<(Vec<u8>, &'static str)>,
) {
    for protocol in protocols() {
        let mut heads = Vec::<Hash>::new();
        for workers in [1, 2, 8] {
            let parameters = Parameters::new(protocol);
            let genesis = Genesis { ledger_id: LEDGER, time_us: 0, parameters, executor: EXECUTOR };
            let of_ledger = Arc::new(Schema::new());
            let language: Arc<dyn Language> = of_ledger.clone();
            let made: Result<Replica, _> =
                Replica::new(&genesis, Arc::new(Store::new()), language, workers);
            let Ok(mut replica) = made else { continue };
            let mut run = |envelopes: Vec<Vec<u8>>| {
                let requests = envelopes.into_iter().map(|it| Request::of_bytes(it.into()));
                let executed = replica.execute(0, requests.collect()).unwrap();
                replica.publish();
                let outcomes = executed.result.outcomes().to_vec();
                (outcomes, executed.batch.envelopes().to_vec())
            };
            let unsigned =
                |text: String| Said { seeds: vec![], ..said("tally", 0, 0, schema(text)) };
            let begun = beginning().into_iter().map(unsigned);
            run((0..)
                .zip(begun)
                .map(|(sequence, said)| Said { sequence, ..said }.bytes())
                .collect());
            let texts = founding().into_iter().chain(before.iter().cloned());
            let founding = (100..).zip(texts).map(|(sequence, (root, text))| {
                said("tally", root, sequence, schema(text)).bytes()
            });
            let (outcomes, _) = run(founding.collect());
            assert!(outcomes.iter().all(|it| engine::transaction::is_committed(it)), "{protocol}");
            if !data.is_empty() {
                let (outcomes, _) = run(data.to_vec());
                let committed = outcomes.iter().all(|it| engine::transaction::is_committed(it));
                assert!(committed, "{protocol}");
            }
            let cases = cases(&of_ledger);
            let (outcomes, envelopes) = run(cases.iter().map(|(bytes, _)| bytes.clone()).collect());
            for (place, (bytes, expected)) in cases.iter().enumerate() {
                // Some are handed in twice.
                let before = cases[..place].iter().filter(|(it, _)| it == bytes).count();
                let mut places = (0..).zip(&envelopes).filter(|(_, it)| **it == *bytes);
                let at: usize = places.nth(before).unwrap().0;
                let code = match Reported::decode(&outcomes[at]).unwrap() {
                    Reported::Committed { .. } => OK.to_owned(),
                    Reported::Rejected(error) | Reported::Retry(error) => {
                        String::from_utf8(error.code.into()).unwrap()
                    }
                    other => format!("{other:?}"),
                };
                assert_eq!(code, *expected, "{protocol}, {workers} workers: case {place}");
            }
            heads.push(replica.head().hash);
        }
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "{protocol}");
    }
}

/// A block of everything.
#[test]
fn what_a_block_takes_away_counts_from_there_on() {
    let digest = Body::Checkpoint { height: 0, digest: [5; 32] };
    let revoke = format!("ALTER ORGANISATION bank_a REVOKE KEY '{}'", public(ADA));
    let cases = [
        (said("ada", ADA, 1, put(1)), OK),
        (said("ada", BOB, 2, put(2)), "28000"),
        (said("bob", BOB, 1, put(3)), OK),
        (said("ada", ADA, 1, put(4)), "08P01"),
        (said("ada", ADA, 2, put(5)), OK),
        (said("tally", ROOT, 190, schema(revoke)), OK),
        (said("ada", ADA, 3, put(6)), "28000"),
        (said("ada", ROOT, 4, put(7)), OK),
        (said("ada", ADA, 5, schema("CREATE TABLE u (id int)")), "28000"),
        (said("bob", BOB, 2, put(8)), OK),
        (Said { seeds: vec![], ..said("ada", ADA, 6, put(9)) }, "28000"),
        (Said { expires_us: -1, ..said("ada", ROOT, 7, put(10)) }, "57014"),
        // What changes nothing uses up no number of the user either.
        (Said { seeds: vec![], ..said("ada", ADA, 8, digest) }, "28000"),
        (said("ada", ROOT, 8, put(11)), OK),
    ];
    judge(&[], &cases.map(|(said, expected)| (said.bytes(), expected)));
}

/// No replica can look whether there is the ledger that a record of a database names.
#[test]
fn no_client_records_a_database() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let made = format!("LEDGER '{}' GENESIS '{}'", "ab".repeat(16), "cd".repeat(32));
        let texts = [
            format!("CREATE DATABASE shop {made}"),
            format!("CREATE /* plainly */ DATABASE shop {made}"),
            "DROP DATABASE IF EXISTS shop".to_owned(),
            "ALTER DATABASE shop RENAME TO store".to_owned(),
        ];
        let unsigned =
            |sequence, body| Said { seeds: Vec::new(), ..said("tally", 0, sequence, body) };
        let height = node.database.engine.head().height;
        for (sequence, text) in (0..).zip(&texts) {
            let statement = unsigned(sequence, schema(text));
            assert_eq!(outcome(&mut client, &statement).await, "42501", "{text}");
            let seen = engine::transaction::SchemaSeen { version: 0, whole: true };
            let writes = vec![(schema(text), concurrency::Expectation::default())];
            let transaction =
                concurrency::Interactive { now_us: 0, rows: vec![], ranges: vec![], writes };
            let migration = unsigned(100 + sequence, Body::Interactive { seen, transaction });
            assert_eq!(outcome(&mut client, &migration).await, "42501", "{text}");
        }
        // What would be refused as it is handed in is not read.
        let of_other = Said { seeds: Vec::new(), ..said("ada", 0, 201, schema(&texts[0])) };
        assert_eq!(outcome(&mut client, &of_other).await, "28000");
        let late = Said { expires_us: -1, ..unsigned(202, schema(&texts[0])) };
        assert_eq!(outcome(&mut client, &late).await, "57014");
        assert_eq!(node.database.engine.head().height, height, "nothing was ordered");
        let table = unsigned(200, schema("CREATE TABLE made (id int PRIMARY KEY)"));
        assert_eq!(outcome(&mut client, &table).await, OK);
    });
}
