//! json and jsonb in blocks: alike on every replica, whatever order they are executed in.

use ::types::{DataType, Jsonb, SqlState, Value};
use engine::transaction::Asked;
use engine::{Body, ParameterTypes, Submitter};

use super::chance::check_recoveries;
use super::{Node, block_on, code};

const SCHEMA: [&str; 6] = [
    "CREATE TABLE docs (id int PRIMARY KEY, doc jsonb NOT NULL DEFAULT '{\"n\": 0}', raw json,
         name text GENERATED ALWAYS AS (doc ->> 'name') STORED, CHECK (jsonb_typeof(doc) = 'object'))",
    "CREATE INDEX docs_doc ON docs (doc)",
    "CREATE TABLE tags (tag jsonb PRIMARY KEY, uses int NOT NULL)",
    "INSERT INTO docs (id, raw) SELECT g, json_build_object('g', g) FROM generate_series(1, 8) AS g",
    "INSERT INTO tags VALUES ('0', 0), ('\"a\"', 0), ('[1, {}]', 0), ('{\"k\": 1.0}', 0)",
    "CREATE PROCEDURE note(a int, t jsonb) LANGUAGE plpgsql AS $$
     DECLARE old jsonb; found jsonb := '[]'; part record;
     BEGIN
         SELECT doc INTO old FROM docs WHERE id = a;
         FOR part IN SELECT key, value FROM jsonb_each(old) LOOP
             found := found || jsonb_build_array(part.key);
         END LOOP;
         IF (old ->> 'n')::int % 2 = 0 THEN
             UPDATE docs SET doc = doc || jsonb_build_object('keys', found) WHERE id = a;
         END IF;
         UPDATE docs SET doc = jsonb_set(doc, '{n}', to_jsonb((doc ->> 'n')::int + 1)) WHERE id = a;
         INSERT INTO tags VALUES (t, 1) ON CONFLICT (tag) DO UPDATE SET uses = tags.uses + 1;
     END $$",
];

fn json(text: &str) -> Value {
    Value::Jsonb(Jsonb::read(text).unwrap())
}

fn statement(text: &str) -> Body {
    Body::statement(text.to_owned(), ParameterTypes::default(), [])
}

fn transactions(round: i64) -> Vec<Body> {
    let tags = ["0", "0.00", "\"a\"", "[1, {}]", "{\"k\": 1}", "{\"k\": 2}"];
    let mut bodies = Vec::new();
    for n in 0..8 {
        let (a, tag) = ((round * 3 + n) % 8 + 1, json(tags[(round + n) as usize % tags.len()]));
        bodies.extend([
            Body::call("note", vec![Value::Int(a), tag.clone()]),
            Body::statement(
                "UPDATE tags SET uses = uses + 10 WHERE tag = $1".to_owned(),
                ParameterTypes::new(&[Some(DataType::Jsonb)]),
                [tag],
            ),
            statement(&format!("UPDATE docs SET doc = doc - 'keys' WHERE id = {a} AND doc ? 'keys'")),
            statement(&format!(
                "UPDATE docs SET doc = jsonb_set(doc, '{{name}}', '\"d{n}\"'), raw = doc WHERE id = {a}"
            )),
        ]);
    }
    bodies.push(statement("UPDATE docs SET doc = '[]' WHERE id = 1"));
    bodies.push(statement("DELETE FROM docs WHERE doc = '{\"n\": 0.0}'"));
    bodies
}

#[test]
fn every_protocol_comes_to_the_same_rows_and_to_them_again() {
    block_on(async {
        let mut complete = false;
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
            // The check's.
            assert!(refused <= 3, "{protocol}: {refused}");
            let changed = "SELECT count(*) FROM docs WHERE name LIKE 'd%' AND doc @> '{}' \
                           AND raw ->> 'n' IS NOT NULL";
            // Some protocols turn away what conflicts.
            let is_changed = client.number(changed).await >= 6;
            let tags = client.run("SELECT tag FROM tags ORDER BY tag").await.unwrap();
            let tags: Vec<String> = tags.iter().map(|row| row[0].to_string()).collect();
            let all = ["\"a\"", "0", "[1, {}]", "{\"k\": 1.0}", "{\"k\": 2}"];
            assert!(tags.iter().all(|tag| all.contains(&tag.as_str())), "{protocol}: {tags:?}");
            complete |= is_changed && tags == all;
            check_recoveries(&node, protocol);
            node.verify();
        }
        assert!(complete, "under one protocol at least");
    });
}

#[test]
fn parameters_of_json_are_recorded_with_their_types() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, a json, b jsonb)").await.unwrap();
        let types = [Some(DataType::Int4), Some(DataType::Json), Some(DataType::Jsonb)];
        let text = "{\"b\" : 1,\n \"a\":2}";
        let insert = "INSERT INTO t VALUES ($1, $2, $3)";
        let parameters = [Value::Int(1), Value::text(text), json(text)];
        client.run_typed(insert, &types, &parameters).await.unwrap();
        // Without a type they take the column's.
        let parameters = [Value::Int(2), Value::text("[ ]"), json("[ ]")];
        client.run_typed(insert, &[None, None, None], &parameters).await.unwrap();
        let rows = client.run("SELECT a, b FROM t ORDER BY id").await.unwrap();
        assert_eq!(rows[0][..], [Value::text(text), json(text)]);
        assert_eq!(rows[1][..], [Value::text("[ ]"), json("[]")]);
        node.verify();
    });
}

#[test]
fn what_is_made_of_json_is_bounded() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, b jsonb, a json)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, '[]', '[]')").await.unwrap();
        let deeper = "DO $$ BEGIN FOR i IN 1..1100 LOOP \
             UPDATE t SET b = jsonb_build_array(b), a = json_build_array(a) WHERE id = 1; \
             END LOOP; END $$";
        assert_eq!(code(client.run(deeper).await), SqlState::STATEMENT_TOO_COMPLEX);
        let longer = "DO $$ DECLARE v jsonb := '[\"0123456789abcdef\"]'; BEGIN \
             FOR i IN 1..40 LOOP v := v || v; END LOOP; END $$";
        assert_eq!(code(client.run(longer).await), SqlState::PROGRAM_LIMIT_EXCEEDED);
        let wide = "SELECT jsonb_pretty((repeat('[', 900) || repeat('1,', 100000) || '1' \
             || repeat(']', 900))::jsonb)";
        assert_eq!(code(client.run(wide).await), SqlState::PROGRAM_LIMIT_EXCEEDED);
        let within = "SELECT (repeat('[1,', 900) || '1' || repeat(']', 900))::jsonb \
             @> (repeat('[', 900) || '2' || repeat(']', 900))::jsonb";
        assert_eq!(client.run(within).await.unwrap()[0][0], Value::Bool(false));
        node.verify();
    });
}
