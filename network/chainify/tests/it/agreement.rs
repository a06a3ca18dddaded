//! Transactions that organisations have to agree to before they are ordered.

use std::sync::Arc;

use bytes::Bytes;
use chainify::dialect::Dialect;
use chainify::wire::Request;
use chainify::{Organisation, Outcome, Policies, Terms, gather};
use ledger::MemoryFiles;
use order::signed::approve_all;
use order::{Envelope, Signature};

use crate::chain::{envelope, proposal, tables};
use crate::network::{ALL, World, key, terms_with};
use crate::servers::postgres;

fn terms(agreement: &str) -> Terms {
    Terms { agreement: Policies::parse(agreement).unwrap(), ..terms_with(2) }
}

fn local_table(_: Dialect) -> &'static str {
    "CREATE TABLE blocked (pattern varchar(40) PRIMARY KEY)"
}

fn function(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "CREATE FUNCTION agrees(statements text) RETURNS boolean LANGUAGE sql AS \
             $$ SELECT NOT EXISTS (SELECT FROM blocked WHERE statements LIKE pattern) $$"
        }
        Dialect::MariaDb => {
            "CREATE FUNCTION agrees(statements LONGTEXT CHARACTER SET utf8mb4) RETURNS boolean \
             READS SQL DATA RETURN NOT EXISTS (SELECT 1 FROM blocked WHERE statements LIKE pattern)"
        }
    }
}

/// Each looks at its own data; what all have agreed to is in the block, and nothing else is run.
#[tokio::test(flavor = "multi_thread")]
async fn each_organisation_agrees_by_a_function_over_its_own_data() {
    let terms = terms("accounts=all transfers=2");
    let mut world = World::with(&terms, &[local_table, function]).await;
    assert_eq!(world.shared(2).status().agreement, "accounts=all transfers=2");
    let mut second = world.outside(2).await;
    second.run("INSERT INTO blocked VALUES ('%id = 13\"%')").await.unwrap();
    let gathered = async |member: u64, asked: Bytes| {
        let request = Request::Gather { envelope: asked }.encode();
        gather::read(&world.shared(member).answer(member, request).await.unwrap())
    };
    let update = |sequence: u64, id: u64| {
        envelope(sequence, &[&format!("UPDATE accounts SET balance = 7 WHERE id = {id}")])
    };
    let alone = world.shared(1).submit(update(1, 12)).unwrap_err();
    assert_eq!(
        alone.message(),
        "the transaction lacks the agreement of organisation 1, 2, 3",
        "{alone:?}"
    );
    let foreign = Request::Gather { envelope: update(1, 12) }.encode();
    assert!(world.shared(2).answer(3, foreign).await.is_err());
    let full = gathered(3, update(1, 12)).await.unwrap();
    world.shared(1).submit(full).unwrap();
    world.reach(&ALL, 1).await;
    let why = gathered(3, update(2, 13)).await.unwrap_err();
    assert!(
        why.message().contains("of organisation 2 (organisation 2: agrees does not agree)"),
        "{why}"
    );
    // Two of three are enough for a transfer.
    let insert = "INSERT INTO transfers (id, from_id, to_id, amount) SELECT 1, 1, 2, 3 FROM \
                  accounts WHERE id = 13";
    let full = gathered(2, envelope(3, &[insert])).await.unwrap();
    assert_eq!(Envelope::<String, Bytes>::decode(&full).unwrap().approvals.len(), 2);
    world.shared(1).submit(full).unwrap();
    world.reach(&ALL, 2).await;
    let rows = "SELECT (SELECT CAST(balance AS char(4)) FROM accounts WHERE id = 12), \
                (SELECT COUNT(*) FROM transfers)";
    for member in ALL {
        let found = world.outside(member).await.rows(rows).await.unwrap();
        assert_eq!(found, [[Some("7.00".to_owned()), Some("1".to_owned())]], "{member}");
    }
    world.compare().await;
}

/// With approvals by these, over the envelope of that sequence.
fn approved(asked: &Bytes, members: &[u64], over: &Bytes) -> Bytes {
    let mut envelope: Envelope = Envelope::decode(asked).unwrap();
    let id = Envelope::<String, Bytes>::decode(over).unwrap().id().unwrap();
    let approval = |member: &u64| Signature {
        key_id: key(*member).public(),
        bytes: approve_all(&key(*member), &[id]).concat().into(),
    };
    envelope.approvals = members.iter().map(approval).collect();
    envelope.approvals.sort_by_key(|approval| approval.key_id);
    envelope.encode().unwrap()
}

/// An orderer that orders what not all have agreed to has it refused by each of them, and what it
/// refuses does not use up its key.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_without_agreement_is_refused() {
    let server = postgres();
    let url = server.database(tables(server.dialect())).await;
    let (files, terms) = (Arc::new(MemoryFiles::new()), terms("accounts=all"));
    let mut organisation = Organisation::create(files.clone(), &url, &terms).await.unwrap();
    let one = envelope(1, &["UPDATE accounts SET balance = 1 WHERE id = 1"]);
    let other = envelope(2, &["UPDATE accounts SET balance = 2 WHERE id = 1"]);
    let free = envelope(3, &["DELETE FROM transfers"]);
    let block = vec![
        one.clone(),
        approved(&one, &[1, 3], &one),
        approved(&one, &[1, 2, 4], &one),
        approved(&one, &ALL, &other),
        free,
        approved(&one, &ALL, &one),
        approved(&one, &ALL, &one),
    ];
    let batch = organisation.order(proposal(1, block)).unwrap();
    let executed = organisation.execute(&batch).await.unwrap();
    organisation.agree(&executed).await.unwrap();
    let outcomes = executed.result.outcomes().iter().map(|it| Outcome::decode(it).unwrap());
    let (refused, succeeded) = (Outcome::Refused, Outcome::Succeeded);
    let expected = [refused, refused, refused, refused, succeeded, succeeded, refused];
    assert_eq!(outcomes.collect::<Vec<_>>(), expected);
    drop(organisation);
    // The same, as it is read from the folder.
    let organisation = Organisation::open(files, &url).await.unwrap();
    let run: Vec<bool> = organisation.book.admitted().iter().map(Option::is_some).collect();
    assert_eq!(run, expected.map(|outcome| outcome != refused));
}
