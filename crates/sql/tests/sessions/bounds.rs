//! What a program may raise and how long it may run, inside blocks and outside.

use super::{Node, block_on};

/// However long the message that a program raises, the block holds it and the replicas agree.
#[test]
fn a_raised_message_is_cut_before_it_is_recorded() {
    block_on(async {
        for protocol in ["serial", "harmony"] {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
            client
                .run(
                    "CREATE PROCEDURE shout(n int) LANGUAGE plpgsql AS $$ BEGIN
                     INSERT INTO t VALUES (n);
                     RAISE EXCEPTION '%', repeat('é', n) USING HINT = repeat('x', n); END $$",
                )
                .await
                .unwrap();
            for length in [10, 20_000] {
                let said = client.run(&format!("CALL shout({length})")).await.unwrap_err();
                assert_eq!(said.message().len(), if length == 10 { 20 } else { 4095 });
                assert!(said.fields().hint.as_ref().unwrap().len() <= 4096);
            }
            node.verify();
        }
    });
}
