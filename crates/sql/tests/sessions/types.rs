//! What a statement means depends on the types its parameters were declared with, and a replica
//! must be told them.

use ::types::{DataType, Value};

use super::{Node, block_on};

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
