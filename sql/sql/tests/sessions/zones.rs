//! Sessions whose clocks do not show UTC: what they read and show, and that the ledger holds
//! moments alone.

use types::{DataType, SqlState, Value};

use crate::sessions::{Client, Node, block_on, code, protocols};

const NOON_US: i64 = 757_425_600_000_000;

async fn moment(client: &mut Client, text: &str) -> i64 {
    match client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"))[0][0] {
        Value::Timestamptz(us) => us,
        ref other => panic!("{text}: {other:?}"),
    }
}

async fn text(client: &mut Client, text: &str) -> String {
    let rows = client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    rows[0][0].to_text(&DataType::Text)
}

#[test]
fn what_a_session_writes_is_the_moment_that_its_clocks_show() {
    for protocol in protocols() {
        block_on(async {
            let node = Node::new(protocol);
            let (mut berlin, mut utc) = (node.session(), node.session());
            utc.run("CREATE TABLE t (a int PRIMARY KEY, at timestamptz)").await.unwrap();
            berlin.run("SET TIME ZONE 'Europe/Berlin'").await.unwrap();
            // 2024-01-01 12:00 UTC, as a literal, a parameter, and with an offset.
            berlin.run("INSERT INTO t VALUES (1, '2024-01-01 13:00')").await.unwrap();
            let types = [Some(DataType::Timestamptz(None))];
            let insert = "INSERT INTO t VALUES (2, $1)";
            berlin.run_typed(insert, &types, &[Value::Timestamptz(NOON_US)]).await.unwrap();
            let written = "INSERT INTO t VALUES (3, timestamptz '2024-01-01 06:00-06')";
            berlin.run(written).await.unwrap();
            for statement in ["BEGIN", "INSERT INTO t VALUES (4, '2024-01-01 13:00')", "COMMIT"] {
                berlin.run(statement).await.unwrap();
            }
            let counted = "SELECT count(*) FROM t WHERE at = ";
            assert_eq!(utc.number(&format!("{counted}'2024-01-01 12:00'")).await, 4, "{protocol}");
            assert_eq!(berlin.number(&format!("{counted}'2024-01-01 13:00'")).await, 4);
            let shown = "SELECT count(*) FROM t WHERE at = timestamp '2024-01-01 13:00'";
            assert_eq!(berlin.number(shown).await, 4);
            // A text that was bound in one zone is bound anew in another.
            berlin.run("SET TIME ZONE 'UTC'").await.unwrap();
            assert_eq!(berlin.number(&format!("{counted}'2024-01-01 13:00'")).await, 0);
            node.verify();
        });
    }
}

#[test]
fn constants_are_converted_and_what_is_recorded_of_rows_is_refused() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (a int PRIMARY KEY, at timestamptz, d date)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, '2024-07-01 12:00+00', '2024-07-01')").await.unwrap();
        client.run("SET timezone = 'america/new_york'").await.unwrap();
        assert_eq!(text(&mut client, "SHOW TIME ZONE").await, "America/New_York");
        let at = moment(&mut client, "SELECT '2024-01-01 07:00'::timestamptz").await;
        assert_eq!(at, NOON_US);
        let at = moment(&mut client, "SELECT date '2024-01-01'::timestamptz").await;
        assert_eq!(at, NOON_US - 7 * 3_600_000_000);
        let shown = text(&mut client, "SELECT '2024-07-01 12:00Z'::timestamptz::text").await;
        assert_eq!(shown, "2024-07-01 08:00:00-04");
        let day = client.run("SELECT ('2024-07-01 01:00Z'::timestamptz)::date").await.unwrap();
        assert_eq!(day[0][0].to_text(&DataType::Date), "2024-06-30");
        assert_eq!(
            client.number("SELECT extract(epoch FROM at)::bigint FROM t").await,
            1_719_835_200
        );
        for (read, shown) in [
            ("SELECT (at::date)::text FROM t", "2024-07-01"),
            ("SELECT at::text FROM t", "2024-07-01 08:00:00-04"),
            ("SELECT 'x' || at FROM t", "x2024-07-01 08:00:00-04"),
            ("SELECT concat(a, at) FROM t", "12024-07-01 08:00:00-04"),
            ("SELECT quote_literal(at) FROM t", "'2024-07-01 08:00:00-04'"),
            ("SELECT date_trunc('day', at)::text FROM t", "2024-07-01 00:00:00-04"),
            ("SELECT extract(hour FROM at)::text FROM t", "8"),
            ("SELECT (at > d)::text FROM t", "true"),
            ("SELECT (current_date = now()::date)::text", "true"),
            ("SELECT (at AT TIME ZONE 'Asia/Tokyo')::text FROM t", "2024-07-01 21:00:00"),
        ] {
            assert_eq!(text(&mut client, read).await, shown, "{read}");
        }
        for recorded in [
            "INSERT INTO t SELECT 2, at, at::date FROM t",
            "UPDATE t SET d = at::date",
            "UPDATE t SET d = current_date",
            "UPDATE t SET at = date_trunc('day', at)",
            "DELETE FROM t WHERE extract(hour FROM at) = 8",
            "CREATE TABLE u AS SELECT at::date AS day FROM t",
        ] {
            let refusal = client.run(recorded).await;
            assert_eq!(code(refusal), SqlState::FEATURE_NOT_SUPPORTED, "{recorded}");
        }
        client.run("SET timezone = 'UTC'").await.unwrap();
        for recorded in [
            "UPDATE t SET d = at AT TIME ZONE 'Asia/Tokyo'",
            "UPDATE t SET at = date_trunc('day', at, 'Asia/Tokyo')",
        ] {
            let refusal = client.run(recorded).await;
            assert_eq!(code(refusal), SqlState::FEATURE_NOT_SUPPORTED, "{recorded}");
        }
        client.run("SET timezone = 'america/new_york'").await.unwrap();
        // A view's constants are moments since it was made.
        client.run("CREATE VIEW v AS SELECT a FROM t WHERE at > '2024-07-01 11:00'").await.unwrap();
        assert_eq!(client.number("SELECT a FROM v").await, 1);
        client.run("SET TIME ZONE LOCAL").await.unwrap();
        assert_eq!(client.number("SELECT a FROM v").await, 1);
        assert_eq!(text(&mut client, "SHOW timezone").await, "UTC");
        client.run("SELECT at::date, 'x' || at, current_date FROM t").await.unwrap();
        for (zone, shown) in [
            ("INTERVAL '+05:30' HOUR TO MINUTE", "<+05:30>-05:30"),
            ("INTERVAL '-08:00' HOUR TO MINUTE", "<-08>+08"),
            ("-3", "<-03>+03"),
            ("'gmt'", "GMT"),
            ("DEFAULT", "UTC"),
        ] {
            client.run(&format!("SET TIME ZONE {zone}")).await.unwrap();
            assert_eq!(text(&mut client, "SHOW timezone").await, shown, "{zone}");
        }
        client.run("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'").await.unwrap();
        let at = moment(&mut client, "SELECT '2024-01-01 21:00'::timestamptz").await;
        assert_eq!(at, NOON_US);
        client.run("COMMIT").await.unwrap();
        let at = moment(&mut client, "SELECT '2024-01-01 12:00'::timestamptz").await;
        assert_eq!(at, NOON_US);
        node.verify();
    });
}

/// A statement that the client keeps is another one in another zone.
#[test]
fn what_is_prepared_follows_the_zone() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let parsed = client.session.parse("SELECT '2024-01-01 13:00'::timestamptz").unwrap();
        let prepared = client.session.prepare(parsed.into_iter().next().unwrap(), &[]).unwrap();
        for (zone, ahead_us) in [("UTC", 0), ("Europe/Berlin", 3_600_000_000), ("GMT", 0)] {
            client.run(&format!("SET TIME ZONE '{zone}'")).await.unwrap();
            let answer = client.session.execute(&prepared, &[]).await.unwrap();
            let sql::session::Answer::Rows { rows, .. } = answer else { panic!("no rows") };
            let expected = Value::Timestamptz(NOON_US + 3_600_000_000 - ahead_us);
            assert_eq!(rows[0][0], expected, "{zone}");
        }
    });
}

/// Constants of every form, which a replica reads in UTC.
#[test]
fn what_a_statement_writes_is_recorded_in_utc() {
    for protocol in protocols() {
        block_on(async {
            let node = Node::new(protocol);
            let (mut chicago, mut utc) = (node.session(), node.session());
            let made =
                "CREATE TABLE t (a int PRIMARY KEY, at timestamptz, local timestamp, x text)";
            utc.run(made).await.unwrap();
            chicago.run("SET TIME ZONE 'America/Chicago'").await.unwrap();
            for written in [
                "INSERT INTO t VALUES (1, '2024-01-01 06:00'::timestamp, NULL, NULL)",
                "INSERT INTO t VALUES (2, timestamp '2024-01-01 06:00', NULL, '06:00')",
                "INSERT INTO t VALUES (3, timestamptz '2024-01-01 06:00', NULL, '''')",
                "INSERT INTO t (a, at) VALUES (4, '2024-01-01 06:00'::timestamp)",
                "INSERT INTO t VALUES (5, '2024-01-01 12:00+00', '2024-01-01 12:00Z'::timestamptz, '')",
                "INSERT INTO t VALUES (6, date '2024-01-01', NULL, NULL)",
                "UPDATE t SET at = '2024-01-01 06:00'::timestamp
                 WHERE at = '2024-01-01 00:00'::timestamp AND a = 6",
            ] {
                chicago.run(written).await.unwrap_or_else(|error| panic!("{written}: {error}"));
            }
            let at_noon = "SELECT count(*) FROM t WHERE at = '2024-01-01 12:00+00'";
            assert_eq!(utc.number(at_noon).await, 6, "{protocol}");
            let local = "SELECT count(*) FROM t WHERE local = '2024-01-01 06:00'";
            assert_eq!(utc.number(local).await, 1, "{protocol}");
            assert_eq!(text(&mut utc, "SELECT x FROM t WHERE a = 2").await, "06:00");
            assert_eq!(text(&mut utc, "SELECT x FROM t WHERE a = 3").await, "'");
            // One literal is a moment in one column, and what clocks show in another: an INSERT
            // says which is which, of other statements it is found out too late.
            let inserted = "INSERT INTO t VALUES (7, '2024-01-01 06:00'::timestamp,
                                                  '2024-01-01 06:00'::timestamp, NULL)";
            chicago.run(inserted).await.unwrap();
            let seventh = "SELECT count(*) FROM t WHERE a = 7 AND at = '2024-01-01 12:00+00'
                           AND local = '2024-01-01 06:00'";
            assert_eq!(utc.number(seventh).await, 1, "{protocol}");
            let both = "UPDATE t SET at = '2024-01-01 06:00'::timestamp,
                                     local = '2024-01-01 06:00'::timestamp WHERE a = 1";
            assert_eq!(code(chicago.run(both).await), SqlState::FEATURE_NOT_SUPPORTED);
            node.verify();
        });
    }
}

/// Of defaults, and of arrays.
#[test]
fn what_columns_have_by_default_is_the_moment_that_was_said() {
    block_on(async {
        let node = Node::new("serial");
        let (mut chicago, mut utc) = (node.session(), node.session());
        chicago.run("SET TIME ZONE 'America/Chicago'").await.unwrap();
        let made = "CREATE TABLE t (a int PRIMARY KEY, at timestamptz DEFAULT '2024-01-01 06:00')";
        chicago.run(made).await.unwrap();
        chicago.run("INSERT INTO t (a) VALUES (1)").await.unwrap();
        let added = "ALTER TABLE t ADD COLUMN b timestamptz DEFAULT '2024-01-01 06:00'::timestamp";
        chicago.run(added).await.unwrap();
        let set = "ALTER TABLE t ALTER COLUMN at SET DEFAULT date '2024-01-01'";
        chicago.run(set).await.unwrap();
        chicago.run("INSERT INTO t (a) VALUES (2)").await.unwrap();
        let noon = "SELECT count(*) FROM t WHERE b = '2024-01-01 12:00+00'";
        assert_eq!(utc.number(noon).await, 2);
        let first = "SELECT count(*) FROM t WHERE at = '2024-01-01 12:00+00'";
        assert_eq!(utc.number(first).await, 1);
        let second = "SELECT count(*) FROM t WHERE at = '2024-01-01 06:00+00'";
        assert_eq!(utc.number(second).await, 1);
        let bulk = "INSERT INTO t (a, at) SELECT * FROM unnest('{3,4}'::int[],
                    '{2024-01-01 06:00,2024-01-01 06:00}'::timestamp[]::timestamptz[])";
        chicago.run(bulk).await.unwrap();
        assert_eq!(utc.number(first).await, 3);
        node.verify();
    });
}
