//! One version of PostgreSQL, wherever a client asks: at the login, in settings, in functions that
//! the engine, the catalogs and the analytical engine run, and in what a statement writes.

use std::io::{Read, Write};
use std::net::TcpStream;

use tempfile::TempDir;
use tokio_postgres::SimpleQueryMessage;

use crate::Node;

/// What the login says, which is what psql's banner shows.
fn at_login(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = b"\0\x03\0\0user\0tally\0database\0tally\0\0";
    stream.write_all(&(body.len() as u32 + 4).to_be_bytes()).unwrap();
    stream.write_all(body).unwrap();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        assert_ne!(head[0], b'Z', "the login names no version");
        if head[0] == b'S' && body.starts_with(b"server_version\0") {
            let value = &body["server_version\0".len()..length - 1];
            return String::from_utf8(value.to_vec()).unwrap();
        }
    }
}

#[tokio::test]
async fn every_way_to_ask_for_the_version_gives_the_same() {
    let data = TempDir::new().unwrap();
    let node = Node::start(data.path());
    let version = at_login(node.ready["listen"].as_str().unwrap());
    let client = node.connect().await;
    let ask = async |text: &str| {
        let messages = client.simple_query(text).await.unwrap();
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.unwrap().get(0).unwrap().to_owned()
    };
    assert_eq!(ask("SHOW server_version").await, version);
    assert_eq!(ask("SELECT current_setting('server_version')").await, version);
    assert_eq!(ask("SELECT setting FROM pg_settings WHERE name = 'server_version'").await, version);
    let number = ask("SHOW server_version_num").await;
    let (major, minor) = version.split_once('.').unwrap();
    let expected = major.parse::<u32>().unwrap() * 10_000 + minor.parse::<u32>().unwrap();
    assert_eq!(number.parse::<u32>().unwrap(), expected);
    let said = format!("PostgreSQL {version} (Tallystick)");
    assert_eq!(ask("SELECT version()").await, said);
    assert_eq!(ask("SELECT version() FROM pg_class LIMIT 1").await, said);
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, v text)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, version())").await.unwrap();
    client.execute("INSERT INTO t VALUES ($1, version())", &[&2_i32]).await.unwrap();
    for key in 1..=2 {
        assert_eq!(ask(&format!("SELECT v FROM t WHERE a = {key}")).await, said);
    }
}
