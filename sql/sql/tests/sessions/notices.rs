//! What programs and statements tell their client beside the answer.

use procedure::NoticeLevel;

use super::{Client, Node, block_on};

async fn reported(client: &mut Client, text: &str) -> Vec<(NoticeLevel, String)> {
    client.run(text).await.unwrap();
    let notices = client.session.take_notices().into_iter();
    notices.map(|notice| (notice.level, notice.content.message().to_owned())).collect()
}

/// In order, from whatever a program does, and from whatever runs it.
#[test]
fn notices_are_told_under_every_protocol_and_in_transactions() {
    use NoticeLevel::{Info, Notice, Warning};
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO t VALUES (1, 10), (2, 20)").await.unwrap();
            let block = "DO $$ DECLARE r record; BEGIN
                FOR r IN SELECT id, v FROM t ORDER BY id LOOP
                    RAISE NOTICE 'row % has %', r.id, r.v;
                    UPDATE t SET v = v + 1 WHERE id = r.id;
                END LOOP;
                IF false THEN RAISE NOTICE 'never'; END IF;
                RAISE WARNING 'done';
                RAISE DEBUG 'not asked for';
                RAISE INFO 'always';
            END $$";
            let expected = |first: i32, second: i32| {
                vec![
                    (Notice, format!("row 1 has {first}")),
                    (Notice, format!("row 2 has {second}")),
                    (Warning, "done".to_owned()),
                    (Info, "always".to_owned()),
                ]
            };
            assert_eq!(reported(&mut client, block).await, expected(10, 20), "{protocol}");
            client.run("BEGIN").await.unwrap();
            assert_eq!(reported(&mut client, block).await, expected(11, 21), "{protocol}");
            assert!(reported(&mut client, "COMMIT").await.is_empty(), "{protocol}");
            client.run("SET client_min_messages = error").await.unwrap();
            assert_eq!(reported(&mut client, block).await, expected(0, 0)[3..], "{protocol}");
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 36);
            node.verify();
        }
    });
}

#[test]
fn functions_tell_and_only_so_much_is_kept() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client
            .run(
                "CREATE FUNCTION f(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
                    FOR i IN 1..n LOOP
                        RAISE NOTICE 'turn %', i USING DETAIL = 'of some';
                    END LOOP;
                    RETURN n;
                END $$",
            )
            .await
            .unwrap();
        client.run("SELECT f(2)").await.unwrap();
        let notices = client.session.take_notices();
        assert_eq!(notices.len(), 2);
        let fields = notices[1].content.fields();
        assert_eq!((fields.code.as_str(), fields.message.as_str()), ("00000", "turn 2"));
        assert_eq!(fields.detail.as_deref(), Some("of some"));
        assert_eq!(reported(&mut client, "SELECT f(5000)").await.len(), 1000);
        let skipped = reported(&mut client, "DROP TABLE IF EXISTS nowhere").await;
        let what = "table \"nowhere\" does not exist, skipping".to_owned();
        assert_eq!(skipped, [(NoticeLevel::Notice, what)]);
        node.verify();
    });
}
