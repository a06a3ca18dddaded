//! One organisation by itself: blocks, crashes, checkpoints.

use std::sync::Arc;

use chainify::{Book, Database, Organisation, Outcome, statement};
use ledger::hash::to_hex;
use ledger::{MemoryFiles, ZERO_HASH};

use crate::chain::{Chained, envelope, proposal, tables, terms, transfer};
use crate::servers::{mariadb, postgres};

fn blocks() -> Vec<Vec<bytes::Bytes>> {
    vec![
        vec![
            transfer(1, 1, 2, 3050),
            // More than there is; then what the ledger does not take; then a copy of the first.
            transfer(2, 3, 4, 1_000_000),
            envelope(3, &["UPDATE accounts SET name = 'x' WHERE id = 1", "SELECT pg_sleep(1)"]),
            transfer(1, 1, 2, 3050),
            bytes::Bytes::from_static(b"no envelope"),
        ],
        vec![
            envelope(4, &["INSERT INTO accounts (id, balance, name) VALUES (60, 1.005, 'é''\\')"]),
            envelope(5, &["UPDATE accounts SET id = 61 WHERE id = 60"]),
            envelope(6, &["DELETE FROM accounts WHERE id = 1"]),
            transfer(7, 61, 60, 1),
        ],
        vec![],
        vec![envelope(8, &["UPDATE accounts SET balance = balance * 1.015"])],
    ]
}

/// A database with other rows is no member's.
#[tokio::test]
async fn all_begin_with_the_same_rows() {
    for server in [postgres(), mariadb()] {
        let url = server.database(tables(server.dialect())).await;
        let mut database = Database::connect(&url).await.unwrap();
        let root = database.state_root(&terms().schema).await.unwrap();
        assert_eq!(root, terms().first_root, "{}", to_hex(&root));
        database.run("UPDATE accounts SET balance = 99 WHERE id = 7").await.unwrap();
        let created = Organisation::create(Arc::new(MemoryFiles::new()), &url, &terms()).await;
        let error = created.err().unwrap();
        assert!(error.message().contains("rows of"), "{error:?}");
        assert_eq!(database.ledger().await.unwrap(), None, "nothing was left behind");
    }
}

#[tokio::test]
async fn both_systems_come_to_the_same_results() {
    let mut results = Vec::new();
    for server in [postgres(), mariadb()] {
        let mut chained = Chained::new(server).await;
        let mut heads = Vec::new();
        for block in blocks() {
            let executed = chained.block(block).await;
            let outcomes = executed.result.outcomes().iter().map(|it| Outcome::decode(it).unwrap());
            heads.push((executed.result.clone(), outcomes.collect::<Vec<_>>()));
        }
        use Outcome::{Failed, Refused, Succeeded};
        assert_eq!(heads[0].1, [Succeeded, Failed, Refused, Refused, Refused]);
        assert_eq!(heads[1].1, [Succeeded, Succeeded, Failed, Failed]);
        assert_eq!(heads[0].0.header().effect_count, 3, "two accounts and a transfer");
        assert_eq!(heads[1].0.header().effect_count, 1, "60 has come and gone");
        let roots: Vec<bool> =
            heads.iter().map(|it| it.0.header().state_root != ZERO_HASH).collect();
        assert_eq!(roots, [false, false, true, false]);
        assert_eq!(chained.organisation.database.entries().await.unwrap(), vec![]);
        assert_eq!(chained.organisation.database.height().await.unwrap(), 4);
        let head = chained.organisation.book.head();
        let again = chained.crash().await;
        assert_eq!(again.organisation.book.head(), head, "the ledger is read and verified");
        let book: &Book = &again.organisation.book;
        assert_eq!((book.terms(), book.ordered(), book.agreed()), (&terms(), 4, 4));
        results.push(heads);
    }
    assert_eq!(results[0], results[1]);
}

/// A process that ends between any two steps of a block goes on when it is started again, and the
/// block comes to what it would have come to.
#[tokio::test]
async fn a_crash_between_any_two_steps_is_resumed() {
    for server in [postgres(), mariadb()] {
        let mut control = Chained::new(server).await;
        let expected = control.block(blocks().swap_remove(0)).await.result;
        for after in 0..6 {
            let mut chained = Chained::new(server).await;
            let organisation = &mut chained.organisation;
            let batch = organisation.order(proposal(1, blocks().swap_remove(0))).unwrap();
            for index in 0..after.min(2) {
                let envelope = organisation.book.admitted()[index].clone().unwrap();
                let statements = statement::decode(&envelope.request).unwrap();
                organisation.database.execute(1, index as u32, &statements).await.unwrap();
            }
            if after >= 3 {
                let executed = organisation.execute(&batch).await.unwrap();
                if after >= 4 {
                    organisation.book.agree(&executed.result).unwrap();
                }
                if after >= 5 {
                    let entries = organisation.database.entries().await.unwrap();
                    assert!(organisation.database.finish(1, &entries).await.unwrap());
                }
            }
            let mut again = chained.crash().await;
            let organisation = &mut again.organisation;
            if let Some(batch) = organisation.under_way().unwrap() {
                assert!(after < 4, "{after}: it was agreed on");
                let executed = organisation.execute(&batch).await.unwrap();
                organisation.agree(&executed).await.unwrap();
            }
            assert_eq!(organisation.book.head(), expected.hash(), "after step {after}");
            assert_eq!(organisation.database.height().await.unwrap(), 1, "after step {after}");
        }
    }
}

async fn total(chained: &Chained) -> Vec<Vec<Option<String>>> {
    let sql = "SELECT id, balance FROM accounts ORDER BY id";
    chained.outside().await.rows(sql).await.unwrap()
}

/// A transaction whose end is not known, as the connection was lost at its COMMIT, is run once.
#[tokio::test]
async fn a_transaction_that_ended_is_not_run_again() {
    for server in [postgres(), mariadb()] {
        let mut chained = Chained::new(server).await;
        let statements =
            statement::decode(&order::Envelope::decode(&transfer(1, 1, 2, 500)).unwrap().request)
                .unwrap();
        let batch = chained.organisation.order(proposal(1, vec![transfer(1, 1, 2, 500)])).unwrap();
        chained.organisation.database.execute(1, 0, &statements).await.unwrap();
        let before = total(&chained).await;
        let again = chained.organisation.database.execute(1, 0, &statements).await.unwrap();
        assert!(again.succeeded, "as it was written down");
        assert_eq!(total(&chained).await, before);
        let mut chained = chained.crash().await;
        let executed = chained.organisation.execute(&batch).await.unwrap();
        assert_eq!(executed.result.header().effect_count, 3);
        assert_eq!(total(&chained).await, before);
    }
}

/// What another session does with triggers is told with its user; around them, a checkpoint's root
/// tells that something was done.
#[tokio::test]
async fn edits_by_hand_are_found() {
    for server in [postgres(), mariadb()] {
        let mut control = Chained::new(server).await;
        let mut chained = Chained::new(server).await;
        let mut outside = chained.outside().await;
        outside.run("UPDATE accounts SET balance = 7 WHERE id = 9").await.unwrap();
        let executed = chained.block(vec![transfer(1, 1, 2, 500)]).await;
        let expected = control.block(vec![transfer(1, 1, 2, 500)]).await;
        assert_ne!(executed.result.hash(), expected.result.hash());
        let outsiders: Vec<_> = executed.net.iter().filter(|net| net.outsider.is_some()).collect();
        assert_eq!((outsiders.len(), &*outsiders[0].key), (1, "1:9"));
        let user = outsiders[0].outsider.as_deref().unwrap();
        assert!(user.starts_with(server.user()), "{user}");

        let mut around = Chained::new(server).await;
        around.edit_around_triggers("UPDATE accounts SET balance = 7 WHERE id = 9").await;
        let mut control = Chained::new(server).await;
        for (height, sequence) in [(1, 1), (2, 2), (3, 3)] {
            let here = around.block(vec![transfer(sequence, 1, 2, 500)]).await.result;
            let there = control.block(vec![transfer(sequence, 1, 2, 500)]).await.result;
            let same_effects = here.header().effects_root == there.header().effects_root;
            let same_state = here.header().state_root == there.header().state_root;
            assert!(same_effects && same_state == (height < 3), "block {height}");
        }
        // The first touch of such a row tells too.
        let mut around = Chained::new(server).await;
        around.edit_around_triggers("UPDATE accounts SET name = 'x' WHERE id = 9").await;
        let here = around.block(vec![transfer(1, 9, 2, 500)]).await.result;
        let mut control = Chained::new(server).await;
        let there = control.block(vec![transfer(1, 9, 2, 500)]).await.result;
        assert_ne!(here.hash(), there.hash());
    }
}

#[tokio::test]
async fn tables_go_back_to_a_checkpoint() {
    for server in [postgres(), mariadb()] {
        let mut chained = Chained::new(server).await;
        for sequence in 1..=14 {
            chained.block(vec![transfer(sequence, 1 + sequence % 3, 9, 500)]).await;
        }
        let order = chained.organisation.referred_first().to_vec();
        assert_eq!(order, ["accounts", "transfers"]);
        let (schema, database) = (terms().schema, &mut chained.organisation.database);
        assert_eq!(database.checkpoints().await.unwrap(), [12, 9, 6]);
        let (batch_12, at_12) = chained.organisation.book.block(12).unwrap();
        assert_eq!(batch_12.height(), 12);
        let root = at_12.unwrap().header().state_root;
        chained.edit_around_triggers("DELETE FROM transfers").await;
        let database = &mut chained.organisation.database;
        database.restore(12, &schema, &order).await.unwrap();
        assert_eq!(database.state_root(&schema).await.unwrap(), root);
        assert_eq!(database.height().await.unwrap(), 12);
        assert_eq!(database.entries().await.unwrap(), vec![], "restoring is no change");
        let expected = chained.organisation.book.head();
        let mut chained = chained.crash().await;
        let database = &mut chained.organisation.database;
        assert_eq!(database.height().await.unwrap(), 14, "the rest is run again");
        assert_eq!(chained.organisation.book.head(), expected);
        let error = database_restore_missing(&mut chained).await;
        assert!(error.contains("no checkpoint of block 5"), "{error}");
    }
}

async fn database_restore_missing(chained: &mut Chained) -> String {
    let order = chained.organisation.referred_first().to_vec();
    let schema = terms().schema;
    let restored = chained.organisation.database.restore(5, &schema, &order).await;
    restored.unwrap_err().message().to_owned()
}

/// A row that another session has locked is waited for, and is no failure of the transaction.
#[tokio::test]
async fn locks_of_others_are_waited_for() {
    for server in [postgres(), mariadb()] {
        let mut chained = Chained::new(server).await;
        let mut outside = chained.outside().await;
        outside.run("BEGIN").await.unwrap();
        outside.run("UPDATE accounts SET name = name WHERE id = 1").await.unwrap();
        let released = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(6500)).await;
            outside.run("ROLLBACK").await.unwrap();
        });
        let executed = chained.block(vec![transfer(1, 1, 2, 500)]).await;
        released.await.unwrap();
        assert_eq!(executed.result.outcomes()[0], Outcome::Succeeded.encode());
    }
}

#[tokio::test]
async fn what_does_not_belong_together_is_refused() {
    let mut chained = Chained::new(postgres()).await;
    chained.block(vec![transfer(1, 1, 2, 500)]).await;
    let other = Chained::new(postgres()).await;
    let files: Arc<dyn ledger::Files> = Arc::new(chained.files.copy());
    chained.organisation.database.uninstall().await.unwrap();
    drop(chained.organisation);
    let opened = Organisation::open(files, &chained.url).await;
    let error = opened.err().unwrap();
    assert!(error.message().contains("not chained to this ledger"), "{error:?}");
    // A folder that is older than the database.
    let mut chained = other;
    let older = chained.files.copy();
    chained.block(vec![transfer(1, 1, 2, 500)]).await;
    drop(chained.organisation);
    let opened = Organisation::open(Arc::new(older), &chained.url).await;
    let error = opened.err().unwrap();
    assert!(error.message().contains("ahead of its ledger"), "{error:?}");
}
