//! What a statement means depends on the types its parameters were declared with, and a replica
//! must be told them.

use ::types::{DataType, SqlState, Value};
use futures::StreamExt;
use sql::session::Answer;

use super::{Client, Node, block_on, code};

fn number(text: &str) -> Value {
    Value::read_text(&DataType::Numeric(None), text).unwrap()
}

#[test]
fn replicas_compile_a_statement_with_the_types_it_was_sent_with() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, n numeric, s text)").await.unwrap();
        let insert = "INSERT INTO t VALUES ($1, $2 / 2, $3 || 'x')";
        let statements = [
            (DataType::Int4, Value::Int(5), DataType::Text, Value::text("a")),
            (DataType::Numeric(None), number("5"), DataType::Varchar(None), Value::text("b")),
            (DataType::Int8, Value::Int(7), DataType::Int4, Value::Int(3)),
        ];
        for (id, (type_n, n, type_s, s)) in statements.into_iter().enumerate() {
            let types = [Some(DataType::Int8), Some(type_n), Some(type_s)];
            let parameters = [Value::Int(id as i64), n, s];
            client.run_typed(insert, &types, &parameters).await.unwrap();
        }
        let rows = client.run("SELECT n, s FROM t ORDER BY id").await.unwrap();
        let shown: Vec<String> = rows.iter().map(|r| format!("{:?} {:?}", r[0], r[1])).collect();
        assert!(shown[0].starts_with("Numeric(2)"), "{shown:?}");
        assert!(shown[1].starts_with("Numeric(2.5"), "{shown:?}");
        node.verify();
    });
}

/// Statements of a transaction travel in its COMMIT; those that SQL prepared carry modifiers.
#[test]
fn so_do_the_statements_of_transactions_and_those_that_sql_prepares() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, n numeric)").await.unwrap();
        client.run("BEGIN").await.unwrap();
        let types = [None, Some(DataType::Numeric(None))];
        let insert = "INSERT INTO t VALUES ($1, $2 / 2) RETURNING n";
        let parameters = [Value::Int(1), number("5")];
        let rows = client.run_typed(insert, &types, &parameters).await.unwrap();
        assert_eq!(rows[0][0], number("2.5"));
        client.run("COMMIT").await.unwrap();
        client
            .run("PREPARE p (int, numeric(4, 1)) AS INSERT INTO t VALUES ($1, $2 / 2)")
            .await
            .unwrap();
        client.run("EXECUTE p (2, 5.04)").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t WHERE n = 2.5").await, 2);
        node.verify();
    });
}

/// What COPY writes in binary format.
async fn binary(client: &mut Client, table: &str) -> Vec<u8> {
    let copy = format!("COPY {table} TO STDOUT (FORMAT binary)");
    let Answer::CopyOut { mut rows, mut formatter, .. } = client.answer(&copy).await.unwrap()
    else {
        panic!("no copy");
    };
    let mut data = Vec::new();
    formatter.header(&mut data);
    while let Some(rows) = rows.next().await {
        rows.unwrap().iter().for_each(|row| formatter.row(row, &mut data).unwrap());
    }
    formatter.end(&mut data);
    data
}

#[test]
fn binary_copies_are_the_same_rows_and_bytes() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        let columns = "(a int8 PRIMARY KEY, b int2, c int4, n numeric(9, 3), f float8, o bool, \
                       t text, v varchar(3), h char(3), y bytea, u uuid, d date, s timestamp, \
                       z timestamptz DEFAULT '2024-01-01', j json, k jsonb)";
        for table in ["t", "r"] {
            client.run(&format!("CREATE TABLE {table} {columns}")).await.unwrap();
        }
        client
            .run(
                "INSERT INTO t VALUES (1, -2, 3, -4.5, 0.1, true, 'é', 'abc', 'x', '\\x00ff', \
                 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-02-29', '1999-12-31 23:59', \
                 '2024-01-01 00:00+05', '{ \"b\":1.0}', '{\"bb\":1.0,\"a\":[]}'), \
                 (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            )
            .await
            .unwrap();
        let data = binary(&mut client, "t").await;
        client.answer("COPY r FROM STDIN (FORMAT binary)").await.unwrap();
        for piece in data.chunks(7) {
            client.session.copy_data(piece).await.unwrap();
        }
        client.session.copy_done().await.unwrap();
        assert_eq!(binary(&mut client, "r").await, data);
        let rows = [client.run("SELECT * FROM t").await, client.run("SELECT * FROM r").await];
        let [written, read] = rows.map(Result::unwrap);
        assert_eq!(written, read);
        for (wrong, expected) in [
            (&b"1\tx"[..], SqlState::BAD_COPY_FILE_FORMAT),
            (&data[..40], SqlState::BAD_COPY_FILE_FORMAT),
            (&data[..], SqlState::UNIQUE_VIOLATION),
        ] {
            client.answer("COPY r FROM STDIN BINARY").await.unwrap();
            let taken = client.session.copy_data(wrong).await;
            let done = match taken {
                Ok(()) => code(client.session.copy_done().await),
                Err(error) => error.code(),
            };
            assert_eq!(done, expected);
            client.session.copy_failed();
        }
        for (copy, expected) in [
            ("COPY r FROM STDIN (FORMAT binary, HEADER)", "0A000"),
            ("COPY r TO STDOUT (FORMAT binary, NULL 'x')", "42601"),
            ("COPY r TO STDOUT (FORMAT parquet)", "22023"),
        ] {
            assert_eq!(code(client.answer(copy).await).as_str(), expected, "{copy}");
        }
        client.run("SET client_encoding = 'LATIN1'").await.unwrap();
        let refused = client.answer("COPY r TO STDOUT (FORMAT binary)").await;
        assert_eq!(code(refused), SqlState::FEATURE_NOT_SUPPORTED);
        node.verify();
    });
}

/// Of a parameter, of a text that COPY reads, and of what COPY writes in binary format.
#[test]
fn no_way_in_or_out_costs_a_number_digits() {
    block_on(async {
        for protocol in ["serial", "harmony", "2pl"] {
            let node = Node::new(protocol);
            let mut client = node.session();
            for table in ["t", "r"] {
                let create = format!("CREATE TABLE {table} (n numeric PRIMARY KEY, m numeric)");
                client.run(&create).await.unwrap();
            }
            let numbers = [
                "0.00000000000000000000000000001",
                "-123456789012345678901234567890.1234567890",
                &format!("1{}", "0".repeat(131_071)),
                &format!("0.{}1", "0".repeat(16_382)),
            ];
            let types = [Some(DataType::Numeric(None))];
            for text in numbers {
                let insert = "INSERT INTO t VALUES ($1, $1)";
                client.run_typed(insert, &types, &[number(text)]).await.unwrap();
                client.answer("COPY t FROM STDIN").await.unwrap();
                let data = format!("-{text}1\t{text}\n").replace("--", "");
                let copied = match client.session.copy_data(data.as_bytes()).await {
                    Ok(()) => client.session.copy_done().await.map(drop),
                    Err(error) => Err(error),
                };
                // One digit more than there can be.
                let is_longest = text.len() > 1000;
                assert_eq!(copied.is_err(), is_longest, "{}", text.len());
                client.session.copy_failed();
            }
            let data = binary(&mut client, "t").await;
            client.answer("COPY r FROM STDIN (FORMAT binary)").await.unwrap();
            client.session.copy_data(&data).await.unwrap();
            client.session.copy_done().await.unwrap();
            let shown = |rows: Vec<Box<[Value]>>| -> Vec<String> {
                rows.iter().map(|row| row[1].to_string()).collect()
            };
            let [written, read] =
                ["t", "r"].map(|table| format!("SELECT n, m FROM {table} ORDER BY n"));
            let written = shown(client.run(&written).await.unwrap());
            let read = shown(client.run(&read).await.unwrap());
            assert_eq!(written, read);
            let mut given: Vec<&str> = written.iter().map(String::as_str).collect();
            given.dedup();
            let mut expected = numbers.to_vec();
            expected.sort_by_key(|text| number(text).as_numeric().cloned());
            given.sort_by_key(|text| number(text).as_numeric().cloned());
            given.dedup();
            assert_eq!(given, expected);
            node.verify();
        }
    });
}
