//! COPY into a ledger, whole and in blocks.

use super::{Client, Node, block_on, code};

async fn copy(client: &mut Client, copy: &str, data: &str) -> Result<u64, types::Error> {
    client.answer(copy).await?;
    for piece in data.as_bytes().chunks(10) {
        if let Err(error) = client.session.copy_data(piece).await {
            client.session.copy_failed();
            return Err(error);
        }
    }
    match client.session.copy_done().await? {
        sql::session::Answer::Tag(sql::session::Tag::Counted(_, rows)) => Ok(rows),
        _ => panic!("COPY answers something else"),
    }
}

fn rows(numbers: std::ops::Range<i64>) -> String {
    numbers.map(|n| format!("{n}\n")).collect()
}

#[test]
fn a_copy_is_one_transaction_unless_a_setting_cuts_it() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (a int PRIMARY KEY, s serial)").await.unwrap();
        let head = |node: &Node| node.database.engine.head().height;
        let before = head(&node);
        assert_eq!(copy(&mut client, "COPY t (a) FROM STDIN", &rows(0..25)).await, Ok(25));
        assert!(head(&node) <= before + 2, "all rows, and at most the sequence's values");

        client.run("SET tally.copy_rows_per_block = 10").await.unwrap();
        let before = head(&node);
        assert_eq!(copy(&mut client, "COPY t (a) FROM STDIN", &rows(100..125)).await, Ok(25));
        assert!(head(&node) >= before + 3);
        assert_eq!(client.number("SELECT count(DISTINCT s) FROM t").await, 50);

        // What came before the row that fails is there, and the error says so.
        let data = rows(200..215) + "100\n" + &rows(215..240);
        let error = copy(&mut client, "COPY t (a) FROM STDIN", &data).await.unwrap_err();
        assert_eq!(error.code().as_str(), "23505");
        assert!(error.fields().detail.as_ref().unwrap().contains("The first 10 rows"), "{error}");
        assert_eq!(client.number("SELECT count(*) FROM t WHERE a >= 200").await, 10);
        let data = rows(300..315) + "nonsense\n";
        let error = copy(&mut client, "COPY t (a) FROM STDIN", &data).await.unwrap_err();
        assert_eq!(error.code().as_str(), "22P02");
        assert!(error.fields().detail.as_ref().unwrap().contains("The first 10 rows"), "{error}");

        // A transaction stays whole.
        client.run("BEGIN").await.unwrap();
        assert_eq!(copy(&mut client, "COPY t (a) FROM STDIN", &rows(400..425)).await, Ok(25));
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t WHERE a >= 400").await, 0);
        for wrong in ["many", "-1", "1.5"] {
            let set = format!("SET tally.copy_rows_per_block = '{wrong}'");
            assert_eq!(code(client.run(&set).await).as_str(), "22023");
        }
        node.verify();
    });
}
