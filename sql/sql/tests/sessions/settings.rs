//! What transactions, savepoints and statements make of settings.

use types::{SqlState, Value};

use super::{Client, Node, block_on, code};

async fn shown(client: &mut Client, name: &str) -> String {
    let rows = client.run(&format!("SHOW {name}")).await.unwrap();
    rows[0][0].as_text().unwrap().to_owned()
}

/// What the last statement warned of.
fn warned(client: &mut Client) -> Vec<String> {
    let notices = client.session.take_notices();
    let said = notices.iter().map(|notice| &notice.content);
    said.map(|said| format!("{} {}", said.code(), said.fields().message)).collect()
}

#[test]
fn settings_obey_the_transaction_that_they_are_set_in() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let name = "SHOW application_name";
        client.run("BEGIN; SET LOCAL application_name = 'local'").await.unwrap();
        assert_eq!(client.run(name).await.unwrap()[0][0], Value::text("local"));
        client.run("COMMIT; BEGIN; SET application_name = 'lost'; ROLLBACK").await.unwrap();
        assert_eq!(client.run(name).await.unwrap()[0][0], Value::text(""));
        client.run("BEGIN; SET application_name = 'kept'; COMMIT").await.unwrap();
        assert_eq!(client.run(name).await.unwrap()[0][0], Value::text("kept"));
        let zone = client.run("SET TIME ZONE 'Mars'").await;
        assert_eq!(code(zone), SqlState::INVALID_PARAMETER_VALUE);
        client.run("SET TIME ZONE 'UTC'").await.unwrap();
        let characteristics = "SET SESSION CHARACTERISTICS AS TRANSACTION";
        let read_only = format!("{characteristics} ISOLATION LEVEL READ COMMITTED, READ ONLY");
        client.run(&read_only).await.unwrap();
        let shown = client.run("SHOW default_transaction_read_only").await.unwrap();
        assert_eq!(shown[0][0], Value::text("on"));
        client.run(&format!("{characteristics} READ WRITE")).await.unwrap();
        node.verify();
    });
}

/// A row lands in the table that its statement means, whichever settings were given up.
#[test]
fn a_savepoint_takes_settings_back() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE w (id int); CREATE SCHEMA o").await.unwrap();
            client.run("CREATE TABLE o.w (id int)").await.unwrap();
            for set in [
                "SET search_path = o",
                "SET LOCAL search_path = o",
                "SELECT set_config('search_path', 'o', false)",
                "SELECT set_config('search_path', 'o', true)",
                "SAVEPOINT t; SET search_path = o; RELEASE t",
            ] {
                let text = format!("BEGIN; SAVEPOINT s; {set}; ROLLBACK TO s");
                client.run(&text).await.unwrap();
                client.run("INSERT INTO w VALUES (1); COMMIT").await.unwrap();
                let after = shown(&mut client, "search_path").await;
                assert_eq!(after, "\"$user\", public", "{set}");
            }
            assert_eq!(client.number("SELECT count(*) FROM public.w").await, 5, "{protocol}");
            assert_eq!(client.number("SELECT count(*) FROM o.w").await, 0, "{protocol}");
            client.run("BEGIN; SAVEPOINT s; SET search_path = o; RELEASE s").await.unwrap();
            client.run("INSERT INTO w VALUES (1); COMMIT; INSERT INTO w VALUES (2)").await.unwrap();
            assert_eq!(client.number("SELECT count(*) FROM o.w").await, 2, "{protocol}");
            node.verify();
        }
    });
}

#[test]
fn a_savepoint_leads_out_of_a_failed_transaction_with_its_settings() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("SET app.who = 'a'; BEGIN; SET app.who = 'b'; SAVEPOINT s").await.unwrap();
        client.run("SET app.who = 'c'; SET timezone = 'Asia/Tokyo'").await.unwrap();
        client.run("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await.unwrap();
        assert!(client.run("SELECT 1 / 0").await.is_err());
        client.run("ROLLBACK TO s").await.unwrap();
        assert_eq!(shown(&mut client, "app.who").await, "b");
        assert_eq!(shown(&mut client, "timezone").await, "UTC");
        assert_eq!(shown(&mut client, "default_transaction_read_only").await, "off");
        client.run("RESET ALL").await.unwrap();
        assert_eq!(code(client.run("SHOW app.who").await), SqlState::UNDEFINED_OBJECT);
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(shown(&mut client, "app.who").await, "a");
        node.verify();
    });
}

#[test]
fn what_lasts_for_a_transaction_warns_outside_of_one() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        for (text, warning) in [
            (
                "SET LOCAL application_name = 'x'",
                "25P01 SET LOCAL can only be used in transaction blocks",
            ),
            (
                "SET TRANSACTION READ ONLY",
                "25P01 SET TRANSACTION can only be used in transaction blocks",
            ),
            ("COMMIT", "25P01 there is no transaction in progress"),
            ("ROLLBACK", "25P01 there is no transaction in progress"),
        ] {
            client.run(text).await.unwrap();
            assert_eq!(warned(&mut client), [warning]);
            assert_eq!(shown(&mut client, "application_name").await, "");
        }
        client.run("BEGIN; SET LOCAL application_name = 'x'").await.unwrap();
        assert!(warned(&mut client).is_empty());
        client.run("BEGIN").await.unwrap();
        assert_eq!(warned(&mut client), ["25001 there is already a transaction in progress"]);
        client.run("COMMIT").await.unwrap();
        assert!(warned(&mut client).is_empty());
        assert_eq!(shown(&mut client, "application_name").await, "");
        let wrong = client.run("SET LOCAL statement_timeout = 'soon'").await;
        assert_eq!(code(wrong), SqlState::INVALID_PARAMETER_VALUE);
    });
}

/// A statement outside of a block is a transaction of its own.
#[test]
fn set_config_obeys_its_statement() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let both = "SELECT set_config('app.a', 'x', true), set_config('app.b', 'y', false)";
        let row = client.run(both).await.unwrap().remove(0);
        assert_eq!(*row, [Value::text("x"), Value::text("y")]);
        assert!(warned(&mut client).is_empty());
        assert_eq!(code(client.run("SHOW app.a").await), SqlState::UNDEFINED_OBJECT);
        assert_eq!(shown(&mut client, "app.b").await, "y");
        let failed =
            "SELECT set_config('app.b', 'z', false), 1 / length(set_config('app.c', '', false))";
        assert_eq!(code(client.run(failed).await), SqlState::DIVISION_BY_ZERO);
        assert_eq!(shown(&mut client, "app.b").await, "y");
        assert_eq!(code(client.run("SHOW app.c").await), SqlState::UNDEFINED_OBJECT);
    });
}

/// Rails asks for it as it connects.
#[test]
fn the_style_of_intervals_can_be_chosen() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        assert_eq!(shown(&mut client, "IntervalStyle").await, "postgres");
        for style in ["iso_8601", "SQL_Standard", "postgres_verbose"] {
            client.run(&format!("SET intervalstyle = '{style}'")).await.unwrap();
            assert_eq!(shown(&mut client, "IntervalStyle").await, style.to_lowercase());
        }
        let refused = client.run("SET intervalstyle = 'french'").await;
        assert_eq!(code(refused), SqlState::INVALID_PARAMETER_VALUE);
        client.run("RESET intervalstyle").await.unwrap();
        assert_eq!(shown(&mut client, "IntervalStyle").await, "postgres");
    });
}
