//! Intervals and times of day in blocks: alike on every replica, whatever order they are executed
//! in.

use ::types::{DataType, Interval, SqlState, Value, ZonedTime};
use engine::transaction::Asked;
use engine::{Body, ParameterTypes, Submitter};

use super::chance::check_recoveries;
use super::{Node, block_on, code};

const SCHEMA: [&str; 5] = [
    "CREATE TABLE shifts (id int PRIMARY KEY, span interval NOT NULL DEFAULT '8 hours',
         at time NOT NULL, away timetz, began timestamp NOT NULL,
         twice interval GENERATED ALWAYS AS (span * 2) STORED, CHECK (span > '-1 year'))",
    "CREATE INDEX shifts_span ON shifts (span, at)",
    "CREATE TABLE spans (span interval PRIMARY KEY, uses int NOT NULL)",
    "INSERT INTO shifts (id, at, away, began)
         SELECT g, time '06:00' + g * interval '90 min', timetz '06:00+02', timestamp '2024-01-31' + g * interval '1 day'
         FROM generate_series(1, 8) AS g",
    "CREATE PROCEDURE work(a int, s interval) LANGUAGE plpgsql AS $$
     DECLARE old interval; since timestamp; rest interval := '0';
     BEGIN
         SELECT span, shifts.began INTO old, since FROM shifts WHERE id = a;
         rest := justify_hours(old + s) - interval '1 day';
         IF rest > interval '1 mon' THEN
             UPDATE shifts SET span = '8 hours' WHERE id = a;
         ELSE
             UPDATE shifts SET span = old + s / 2, at = at + s, began = began + s WHERE id = a;
         END IF;
         INSERT INTO spans VALUES (s, 1) ON CONFLICT (span) DO UPDATE SET uses = spans.uses + 1;
     END $$",
];

fn statement(text: String) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

fn transactions(round: i64) -> Vec<Body> {
    let day = 86_400_000_000;
    let spans = [
        Interval::new(1, 0, 0),
        Interval::new(0, 30, 0),
        Interval::new(0, 1, 0),
        Interval::new(0, 0, day),
        Interval::new(0, 0, -5_400_000_000),
    ];
    let mut bodies = Vec::new();
    for n in 0..8 {
        let a = (round * 3 + n) % 8 + 1;
        let span = Value::Interval(spans[(round + n) as usize % spans.len()]);
        bodies.extend([
            Body::call("work", vec![Value::Int(a), span.clone()]),
            Body::statement(
                "UPDATE spans SET uses = uses + 10 WHERE span = $1".to_owned(),
                ParameterTypes::new(&[Some(DataType::INTERVAL)]),
                [span],
            ),
            statement(format!(
                "UPDATE shifts SET away = away + span, span = -(-span) WHERE id = {a} AND at > '09:00'"
            )),
            statement(format!(
                "UPDATE spans SET span = span + '0' WHERE span < (SELECT span FROM shifts WHERE id = {a})"
            )),
        ]);
    }
    bodies.push(statement("UPDATE shifts SET span = '-2 years' WHERE id = 1".into()));
    bodies.push(statement("UPDATE shifts SET span = span * 1e9 WHERE id = 2".into()));
    bodies
}

#[test]
fn every_protocol_comes_to_the_same_rows_and_to_them_again() {
    block_on(async {
        let mut answers = Vec::new();
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in SCHEMA {
                client.run(text).await.unwrap();
            }
            let mut refused = 0;
            for round in 0..3 {
                let submit = |body: Body| {
                    let submitter =
                        Submitter { principal: "tally", role: None, key: None, seed: [1; 16] };
                    node.database.engine.submit(submitter, &Asked::from(&body), None).unwrap()
                };
                let waiting: Vec<_> = transactions(round).into_iter().map(submit).collect();
                for answer in waiting {
                    refused += usize::from(answer.await.unwrap().is_err());
                }
            }
            // What violates the check, and what overflows.
            assert!(refused <= 6, "{protocol}: {refused}");
            let spans = "SELECT count(*), count(DISTINCT span), sum(uses) FROM spans";
            let spans = client.run(spans).await.unwrap();
            // A month and 30 days are one key, a day and 24 hours another.
            // Some protocols turn away what conflicts.
            assert_eq!(spans[0][0], spans[0][1], "{protocol}");
            assert!((1..=3).contains(&spans[0][0].as_int().unwrap()), "{protocol}");
            answers.push(spans[0][2].clone());
            let wrong = "SELECT count(*) FROM shifts WHERE twice <> span * 2 OR at >= '24:00'";
            assert_eq!(client.number(wrong).await, 0, "{protocol}");
            check_recoveries(&node, protocol);
            node.verify();
        }
        assert!(!answers.is_empty());
    });
}

#[test]
fn parameters_of_time_are_recorded_with_their_types() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client
            .run("CREATE TABLE t (id int PRIMARY KEY, i interval, c time, z timetz)")
            .await
            .unwrap();
        let types =
            [DataType::Int4, DataType::INTERVAL, DataType::Time(None), DataType::Timetz(None)];
        let insert = "INSERT INTO t VALUES ($1, $2, $3, $4)";
        let values = [
            Value::Interval(Interval::new(14, -3, 1)),
            Value::Time(1_000_000),
            Value::Timetz(ZonedTime { us: 5, west_s: 3600 }),
        ];
        let mut parameters = vec![Value::Int(1)];
        parameters.extend(values.clone());
        client.run_typed(insert, &types.map(Some), &parameters).await.unwrap();
        // Without a type they take the column's.
        parameters[0] = Value::Int(2);
        client.run_typed(insert, &[None, None, None, None], &parameters).await.unwrap();
        let rows = client.run("SELECT i, c, z FROM t ORDER BY id").await.unwrap();
        for row in &rows {
            assert_eq!(row[..], values);
            assert!(row[0].is_identical(&values[0]));
        }
        let beyond = client.run("UPDATE t SET i = i * 1e9").await;
        assert_eq!(code(beyond), SqlState::DATETIME_FIELD_OVERFLOW);
        // Equal, and not the same.
        client.run("UPDATE t SET i = '1 mon'").await.unwrap();
        client.run("UPDATE t SET i = '30 days' WHERE i = '1 mon' AND id = 1").await.unwrap();
        let kept = client.run("SELECT i::text FROM t ORDER BY id").await.unwrap();
        assert_eq!([&kept[0][0], &kept[1][0]], [&Value::text("30 days"), &Value::text("1 mon")]);
        let groups = "SELECT max(timestamp '2024-02-01' + (interval '1 mon') * n), \
             max(timestamp '2024-02-01' + (interval '30 days') * n) FROM generate_series(1, 1) n";
        let groups = client.run(groups).await.unwrap();
        assert_eq!(groups[0][0].to_string(), "2024-03-01 00:00:00");
        assert_eq!(groups[0][1].to_string(), "2024-03-02 00:00:00");
        node.verify();
    });
}

#[test]
fn zones_and_styles_are_a_sessions_own() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, i interval, z timestamptz)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, '1 mon', '2024-03-30 12:00+00')").await.unwrap();
        client.run("SET TIME ZONE 'Europe/Berlin'").await.unwrap();
        // The clocks go forward between them.
        let moved = "SELECT timestamptz '2024-03-30 12:00+00' + interval '1 day' \
             = timestamptz '2024-03-31 11:00+00', \
             timestamptz '2024-03-30 12:00+00' + interval '24 hours' \
             = timestamptz '2024-03-31 12:00+00'";
        let moved = client.run(moved).await.unwrap();
        assert_eq!(moved[0][..], [Value::Bool(true), Value::Bool(true)]);
        assert_eq!(
            client.number("SELECT count(*) FROM t WHERE z + interval '1 hour' > z").await,
            1
        );
        let by_month = client.run("SELECT z + i = timestamptz '2024-04-30 11:00+00' FROM t").await;
        assert_eq!(by_month.unwrap()[0][0], Value::Bool(true));
        let recorded = client.run("UPDATE t SET z = z + i").await;
        assert_eq!(code(recorded), SqlState::FEATURE_NOT_SUPPORTED);
        client.run("UPDATE t SET i = '-2 days', z = z - interval '1 hour'").await.unwrap();
        client.run("SET TIME ZONE 'UTC'").await.unwrap();
        client.run("SET intervalstyle = 'sql_standard'").await.unwrap();
        let shown = client.run("SELECT '-1 2:00'::interval = interval '-1 day -2 hours'").await;
        assert_eq!(shown.unwrap()[0][0], Value::Bool(true));
        let shown = client.run("SELECT (interval '1 day 1 hour')::text").await.unwrap();
        assert_eq!(shown[0][0], Value::text("1 1:00:00"));
        let in_program = client.run("SELECT i::text FROM t").await;
        assert_eq!(code(in_program), SqlState::FEATURE_NOT_SUPPORTED);
        client.run("RESET intervalstyle").await.unwrap();
        let shown = client.run("SELECT i::text FROM t").await.unwrap();
        assert_eq!(shown[0][0], Value::text("-2 days"));
        node.verify();
    });
}
