//! Connections' beginnings and ends: TLS, limits, timeouts, panics, shutdown.

use std::sync::Arc;
use std::time::Duration;

use pgfront::{Options, Tls, TlsVersion};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::TestServer;
use crate::client::*;
use crate::scram::initial_response;
use crate::soon;

/// Signed by itself, valid for a hundred years, known to all: for tests alone.
pub const CERTIFICATE: &[u8] = include_bytes!("../tls/certificate.pem");
pub const KEY: &[u8] = include_bytes!("../tls/key.pem");
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

fn cancel_request(process_id: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 12 + secret.len() as u8, 0x04, 0xd2, 0x16, 0x2e];
    bytes.extend_from_slice(process_id);
    bytes.extend_from_slice(secret);
    bytes
}

fn with_tls() -> Options {
    Options {
        tls: Some(Tls::from_pem(CERTIFICATE, KEY, None, TlsVersion::V1_2).expect("a key pair")),
        ..Options::default()
    }
}

fn tls_connector(alpn: &[&[u8]]) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    roots.add(certificate).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn startup_tells_what_drivers_ask_for() {
    let server = TestServer::start().await;
    let mut client = Client::raw(server.address).await;
    let parameters = [("user", "bench"), ("application_name", "test")];
    let replies = client.ask(startup(&parameters)).await;
    let reported: Vec<String> = replies.iter().filter(|r| r.kind == 'S').map(Reply::text).collect();
    for expected in [
        &*format!("server_version\0{}\0", types::version::SERVER_VERSION),
        "client_encoding\0UTF8\0",
        "DateStyle\0ISO, MDY\0",
        "integer_datetimes\0on\0",
        "standard_conforming_strings\0on\0",
        "session_authorization\0bench\0",
        "application_name\0test\0",
    ] {
        assert!(reported.iter().any(|t| t == expected), "{expected} not in {reported:?}");
    }
    assert_eq!(replies[replies.len() - 2].kind, 'K');
    assert_eq!(replies[replies.len() - 2].body.len(), 8);
}

#[tokio::test]
async fn newer_protocols_are_negotiated_down() {
    let server = TestServer::start().await;
    let mut client = Client::raw(server.address).await;
    let mut request = startup(&[("user", "bench"), ("_pq_.magic", "1")]);
    request[4..8].copy_from_slice(&[0, 3, 0, 9]);
    let replies = client.ask(request).await;
    assert_eq!(replies[0].kind, 'v');
    assert_eq!(replies[0].body, b"\0\x03\0\x02\0\0\0\x01_pq_.magic\0");
    let key = replies.iter().find(|r| r.kind == 'K').expect("a key");
    assert_eq!(key.body.len(), 4 + 32, "long secrets since 3.2");
}

#[tokio::test]
async fn what_is_not_supported_is_refused_at_startup() {
    let server = TestServer::start().await;
    for (parameters, expected) in [
        (&[("database", "x")][..], "28000"),
        (&[("user", "bench"), ("database", "nowhere")], "3D000"),
        (&[("user", "bench"), ("replication", "database")], "0A000"),
        (&[("user", "bench"), ("options", "-x 1")], "22023"),
    ] {
        let mut client = Client::raw(server.address).await;
        client.send(startup(parameters)).await;
        let replies = client.until_closed().await;
        let last = replies.last().expect("a report");
        assert_eq!(last.sqlstate(), expected, "{parameters:?}");
        assert_eq!(last.field('S').as_deref(), Some("FATAL"));
    }
}

#[tokio::test]
async fn encryption_is_refused_where_there_is_none() {
    let server = TestServer::start().await;
    let mut client = Client::raw(server.address).await;
    for request in [GSS_REQUEST, SSL_REQUEST] {
        client.send(request).await;
        let mut answer = [0];
        let read = client.stream.read_exact(&mut answer);
        soon(read).await.expect("an answer");
        assert_eq!(answer, *b"N");
    }
    let replies = client.ask(startup(&[("user", "bench")])).await;
    assert_eq!(replies.last().map(|r| r.kind), Some('Z'));
}

#[tokio::test]
async fn tls_by_request_and_directly() {
    let server = TestServer::with(with_tls()).await;
    for direct in [false, true] {
        let mut client = if direct {
            let plain = Client::raw(server.address).await;
            let name = ServerName::try_from("localhost").expect("a name");
            let connecting = tls_connector(&[b"postgresql"]).connect(name, plain.stream);
            let stream = soon(connecting).await.expect("a handshake");
            let mut client = Client { stream };
            client.send(startup(&[("user", "bench")])).await;
            client
        } else {
            encrypted(&server, "bench").await
        };
        client.until_ready().await;
        let replies = client.ask(query("who")).await;
        assert_eq!(replies[1].values()[2], Some(b"t".to_vec()));
        // Larger than any record, in both directions.
        let replies = client.ask(query(&format!("rows 20000 {}", "x".repeat(100_000)))).await;
        assert_eq!(replies.len(), 20_003);
    }
    // Who skips SSLRequest has to name the protocol.
    let plain = Client::raw(server.address).await;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = tls_connector(&[]).connect(name, plain.stream).await.expect("a handshake");
    let mut answer = [0];
    let read = stream.read(&mut answer);
    assert_eq!(soon(read).await.expect("a goodbye"), 0);
}

/// Encrypts a new connection after an SSLRequest.
pub async fn encrypted_by(
    server: &TestServer,
    connector: TlsConnector,
) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    let mut plain = Client::raw(server.address).await;
    plain.send(SSL_REQUEST).await;
    let mut answer = [0];
    soon(plain.stream.read_exact(&mut answer)).await.expect("an answer");
    assert_eq!(answer, *b"S");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = soon(connector.connect(name, plain.stream)).await?;
    Ok(Client { stream })
}

/// Connects with TLS after an SSLRequest, and sends the startup message.
async fn encrypted(server: &TestServer, user: &str) -> Client<TlsStream<TcpStream>> {
    let handshake = encrypted_by(server, tls_connector(&[b"postgresql"])).await;
    let mut client = handshake.expect("a handshake");
    client.send(startup(&[("user", user)])).await;
    client
}

#[tokio::test]
async fn channel_binding_cannot_be_talked_away() {
    let server = TestServer::with(with_tls()).await;
    for (mechanism, flag) in [
        ("SCRAM-SHA-256-PLUS", "n"),
        ("SCRAM-SHA-256-PLUS", "y"),
        ("SCRAM-SHA-256-PLUS", "p=tls-unique"),
        ("SCRAM-SHA-256", "p=tls-server-end-point"),
        // "I could bind but you cannot": the server's offer was removed on the way.
        ("SCRAM-SHA-256", "y"),
    ] {
        let mut client = encrypted(&server, "alice").await;
        let offer = client.next().await.expect("an offer");
        assert!(offer.text().contains("SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0"));
        let first = format!("{flag},,n=,r=nonce");
        client.send(initial_response(mechanism, &first)).await;
        let replies = client.until_closed().await;
        assert_eq!(replies.len(), 1, "{mechanism} {flag}");
        assert_eq!(replies[0].sqlstate(), "08P01");
    }
}

#[tokio::test]
async fn nothing_may_be_sent_ahead_of_the_handshake() {
    let server = TestServer::with(with_tls()).await;
    let mut client = Client::raw(server.address).await;
    let stuffed = [&SSL_REQUEST[..], &startup(&[("user", "bench")])].concat();
    client.send(stuffed).await;
    let mut answer = Vec::new();
    let read = client.stream.read_to_end(&mut answer);
    let _ = soon(read).await;
    assert!(answer.len() <= 1, "no session may begin: {answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_binds_the_channel() {
    let server = TestServer::with(with_tls()).await;
    let address = server.address;
    let psql = async |password: &'static str| {
        let mut psql = std::process::Command::new("psql");
        let connection = format!(
            "host=127.0.0.1 port={} user=alice dbname=x sslmode=require channel_binding=require",
            address.port()
        );
        psql.args([&connection, "-qAt", "-c", "who"]).env("PGPASSWORD", password);
        let run = tokio::task::spawn_blocking(move || psql.output());
        run.await.expect("no panic").expect("psql, which this test needs")
    };
    let output = psql(crate::fake::ALICE_PASSWORD).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alice|[]|t\n", "{errors}");
    assert!(!psql("wrong").await.status.success());
}

#[tokio::test]
async fn a_cancel_request_needs_the_secret() {
    let server = TestServer::start().await;
    let mut client = Client::raw(server.address).await;
    let replies = client.ask(startup(&[("user", "bench")])).await;
    let key = &replies[replies.len() - 2].body;
    let (process_id, secret) = key.split_at(4);
    client.send(query("wait")).await;
    let mut wrong = secret.to_vec();
    wrong[3] ^= 1;
    for secret in [&wrong[..], &[], &secret[..3]] {
        let mut other = Client::raw(server.address).await;
        other.send(cancel_request(process_id, secret)).await;
        assert!(other.until_closed().await.is_empty(), "no answer, right or wrong");
    }
    let waiting = tokio::time::timeout(Duration::from_millis(100), client.next()).await;
    assert!(waiting.is_err(), "nobody who does not know the secret can cancel");
    let mut other = Client::raw(server.address).await;
    other.send(cancel_request(process_id, secret)).await;
    assert_eq!(client.until_ready().await[0].sqlstate(), "57014");
    // A copy that waits for its client's data can be cancelled too.
    client.send(query("copy in")).await;
    assert_eq!(client.next().await.expect("a response").kind, 'G');
    let mut other = Client::raw(server.address).await;
    other.send(cancel_request(process_id, secret)).await;
    assert_eq!(client.until_ready().await[0].sqlstate(), "57014");
}

#[tokio::test]
async fn connections_are_limited_and_places_are_given_back() {
    let server = TestServer::with(Options { max_connections: 2, ..Options::default() }).await;
    let first = Client::connect(server.address).await;
    let _second = Client::connect(server.address).await;
    let mut third = Client::raw(server.address).await;
    third.send(startup(&[("user", "bench")])).await;
    let replies = third.until_closed().await;
    let last = replies.last().expect("a report");
    assert_eq!(last.sqlstate(), "53300");
    assert!(last.field('H').is_some_and(|hint| hint.contains("2 connections")));
    drop(first);
    a_place_is_given_back(&server).await;
}

/// The server notices at its own pace.
async fn a_place_is_given_back(server: &TestServer) {
    soon(async {
        loop {
            let mut client = Client::raw(server.address).await;
            client.send(startup(&[("user", "bench")])).await;
            while let Some(reply) = client.next().await {
                match reply.kind {
                    'Z' => return,
                    'E' => break,
                    _ => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_what_it_waits_for() {
    let server = TestServer::with(Options { max_connections: 1, ..Options::default() }).await;
    for endless in ["wait", "stream stalled", "copy out stalled"] {
        let mut client = Client::connect(server.address).await;
        // What was sent ahead does not hide the end.
        client.send([query(endless), query("rows 1"), sync()].concat()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(client);
        a_place_is_given_back(&server).await;
    }
}

#[tokio::test]
async fn a_panic_ends_its_own_session_only() {
    let server = TestServer::start().await;
    let mut other = Client::connect(server.address).await;
    let mut client = Client::connect(server.address).await;
    client.send([query("rows 1"), query("panic"), query("rows 1")].concat()).await;
    let replies = client.until_closed().await;
    assert_eq!(kinds(&replies), "TDCZE");
    assert_eq!(replies[4].sqlstate(), "XX000");
    assert_eq!(replies[4].field('S').as_deref(), Some("FATAL"));
    assert_eq!(kinds(&other.ask(query("rows 1")).await), "TDCZ");
}

#[tokio::test]
async fn shutdown_ends_what_can_be_given_up_and_lets_the_rest_finish() {
    let server = TestServer::start().await;
    let mut idle = Client::connect(server.address).await;
    let mut busy = Client::connect(server.address).await;
    let mut in_block = Client::connect(server.address).await;
    in_block.ask(query("begin")).await;
    let mut endless = Client::connect(server.address).await;
    busy.send(query("nap")).await;
    endless.send(query("wait")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop().await;
    let replies = endless.until_closed().await;
    assert_eq!(kinds(&replies), "E");
    assert_eq!(replies[0].sqlstate(), "57P01");
    let replies = busy.until_closed().await;
    assert_eq!(kinds(&replies), "CZE", "the statement that ran has its answer");
    assert_eq!(replies[2].sqlstate(), "57P01");
    for client in [&mut idle, &mut in_block] {
        let replies = client.until_closed().await;
        assert_eq!(replies[0].sqlstate(), "57P01");
        assert_eq!(replies.len(), 1);
    }
}

#[tokio::test]
async fn shutdown_cuts_off_what_does_not_end() {
    let server = TestServer::with(Options {
        shutdown_grace: Duration::from_millis(100),
        ..Options::default()
    })
    .await;
    let mut client = Client::connect(server.address).await;
    client.send(query("hang")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop().await;
    assert!(client.until_closed().await.is_empty());
}

#[tokio::test]
async fn idle_clients_are_sent_away() {
    let server = TestServer::with(Options {
        authentication_timeout: Duration::from_millis(300),
        ..Options::default()
    })
    .await;
    let mut silent = Client::raw(server.address).await;
    let mut patient = Client::connect(server.address).await;
    let mut idle = Client::connect(server.address).await;
    let mut in_block = Client::connect(server.address).await;
    in_block.ask(query("begin")).await;
    in_block.ask(query("patience 200")).await;
    idle.ask(query("patience 200")).await;
    assert_eq!(kinds(&idle.ask(query("nap")).await), "CZ", "it works, so it is not idle");
    assert!(silent.until_closed().await.is_empty());
    assert_eq!(idle.until_closed().await[0].sqlstate(), "57P05");
    assert_eq!(in_block.until_closed().await[0].sqlstate(), "25P03");
    assert_eq!(kinds(&patient.ask(query("rows 1")).await), "TDCZ");
}
