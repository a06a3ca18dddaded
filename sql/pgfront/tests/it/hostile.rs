//! Clients that mean harm, or that are broken: nothing they send may panic, hang or spread.

use std::sync::atomic::{AtomicUsize, Ordering};

use pgfront::Options;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::TestServer;
use crate::client::*;
use crate::soon;

#[tokio::test]
async fn messages_are_limited() {
    let server =
        TestServer::with(Options { message_bytes_max: 100_000, ..Options::default() }).await;
    let mut client = Client::connect(server.address).await;
    let long = format!("rows 1 {}", "x".repeat(90_000));
    assert_eq!(kinds(&client.ask(query(&long)).await), "TDCZ");
    client.send(query(&"x".repeat(100_000))).await;
    let replies = client.until_closed().await;
    assert_eq!(replies[0].sqlstate(), "54000");
    assert_eq!(replies[0].field('S').as_deref(), Some("FATAL"));
    // Before authentication the limit is small, whatever the length claims.
    for length in [0i32, 3, 7, -1, i32::MIN, i32::MAX, 20_000] {
        let mut client = Client::raw(server.address).await;
        client.send([&length.to_be_bytes()[..], &[0, 3, 0, 0]].concat()).await;
        let replies = client.until_closed().await;
        assert_eq!(kinds(&replies), "E", "length {length}");
    }
}

#[tokio::test]
async fn unknown_messages_end_the_connection_and_broken_ones_the_statement() {
    let server = TestServer::start().await;
    for bad in [message(b'?', b""), vec![b'Q', 0, 0, 0, 3], vec![b'Q', 255, 0, 0, 0]] {
        let mut client = Client::connect(server.address).await;
        client.send(&bad).await;
        let replies = client.until_closed().await;
        assert_eq!(kinds(&replies), "E", "{bad:?}");
        assert_eq!(replies[0].sqlstate(), "08P01");
    }
    let mut client = Client::connect(server.address).await;
    for broken in [message(b'Q', b"no end"), message(b'Q', b"two\0ends\0")] {
        assert_eq!(kinds(&client.ask(broken).await), "EZ");
    }
    for kind in *b"PBDEC" {
        for body in [&b""[..], b"\0", b"no end", b"S\0\0", b"\0\0\xff\xff"] {
            let replies = client.ask([message(kind, body), sync()].concat()).await;
            assert_eq!(kinds(&replies), "EZ", "{} {body:?}", kind as char);
        }
    }
}

/// Sends bytes, says that no more will come, and waits for the server to close.
async fn throw(address: std::net::SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
}

/// Bytes that look like messages at first sight.
fn plausible_messages() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        Just(b"\0".to_vec()),
        Just(b"s\0".to_vec()),
        Just(b"echo int4 text\0".to_vec()),
        Just(b"copy in\0".to_vec()),
        Just(b"rows 3\0".to_vec()),
        Just(vec![0, 1, 0, 1]),
        Just(vec![0, 0, 0, 4]),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    let body = proptest::collection::vec(text, 0..5).prop_map(|parts| parts.concat());
    let kind = proptest::sample::select(b"QPBDECHSdcfFpX".to_vec());
    let one = (kind, body).prop_map(|(kind, body)| message(kind, &body));
    proptest::collection::vec(one, 1..12).prop_map(|messages| messages.concat())
}

#[test]
fn garbage_closes_its_own_connection_and_nothing_else() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let panics = count_panics();
    let server = runtime.block_on(TestServer::start());
    let address = server.address;
    let mut runner = TestRunner::new(Config::with_cases(150));
    let garbage =
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), plausible_messages(),];
    let check = |(bytes, logged_in): (Vec<u8>, u8)| {
        let start = match logged_in {
            0 => Vec::new(),
            1 => startup(&[("user", "alice")]),
            _ => startup(&[("user", "bench")]),
        };
        runtime.block_on(throw(address, &[start, bytes].concat()));
        Ok(())
    };
    runner.run(&(garbage, 0..4u8), check).expect("no failure");
    runtime.block_on(async {
        let mut client = Client::connect(address).await;
        assert_eq!(kinds(&client.ask(query("rows 1")).await), "TDCZ");
    });
    assert_eq!(panics(), 0, "the front end panicked");
}

/// Counts panics whose place is in the front end or below it, rather than in the tests.
fn count_panics() -> impl Fn() -> usize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let asked_for = panic.payload().downcast_ref::<&str>() == Some(&"asked to");
        if !asked_for {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        previous(panic);
    }));
    || PANICS.load(Ordering::Relaxed)
}
