//! Who comes in, and who does not: encryption, certificates, guesses, crowds.

use std::sync::Arc;
use std::time::Duration;

use pgfront::{ClientCertificates, Options, Tls, TlsVersion};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

use crate::TestServer;
use crate::client::*;
use crate::life::{CERTIFICATE, KEY, encrypted_by};
use crate::soon;

/// For tests alone, like the server's own.
const CLIENT_CA: &[u8] = include_bytes!("../tls/client-ca.pem");
/// Of `CLIENT_CA`, for the common name alice.
const ALICE: (&[u8], &[u8]) =
    (include_bytes!("../tls/alice.pem"), include_bytes!("../tls/alice-key.pem"));
/// For the same name, and of no user that the server knows.
const STRANGER: (&[u8], &[u8]) =
    (include_bytes!("../tls/stranger.pem"), include_bytes!("../tls/stranger-key.pem"));

fn with_client_ca(client_certificates: ClientCertificates) -> Options {
    let tls = Tls::from_pem(CERTIFICATE, KEY, Some(CLIENT_CA), TlsVersion::V1_2);
    Options {
        tls: Some(tls.expect("a key pair")),
        tls_required: true,
        client_certificates,
        ..Options::default()
    }
}

fn connector(
    identity: Option<(&[u8], &[u8])>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("an identity")
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// What a client is told that shows `identity` and names `user`: the first reply's kind, and a
/// SQLSTATE if it is an error. `None`: the handshake failed.
async fn reported(
    server: &TestServer,
    identity: Option<(&[u8], &[u8])>,
    user: &str,
) -> Option<(char, Vec<u8>)> {
    let mut client = encrypted_by(server, connector(identity, rustls::ALL_VERSIONS)).await.ok()?;
    client.send(startup(&[("user", user)])).await;
    let reply = client.next().await?;
    match reply.kind {
        'E' => Some(('E', reply.sqlstate().into_bytes())),
        kind => Some((kind, reply.body[..4].to_vec())),
    }
}

const ADMITTED: (char, [u8; 4]) = ('R', [0, 0, 0, 0]);
const ASKED: (char, [u8; 4]) = ('R', [0, 0, 0, 10]);

#[tokio::test]
async fn a_certificate_stands_for_a_password_or_beside_it() {
    use ClientCertificates::{Optional, Required, WithPassword};
    let owned = |(kind, code): (char, [u8; 4])| Some((kind, code.to_vec()));
    let refused = Some(('E', b"28000".to_vec()));
    for (mode, own, none) in [
        (Optional, owned(ADMITTED), owned(ASKED)),
        (Required, owned(ADMITTED), refused.clone()),
        (WithPassword, owned(ASKED), refused.clone()),
    ] {
        let server = TestServer::with(with_client_ca(mode)).await;
        assert_eq!(reported(&server, Some(ALICE), "alice").await, own, "{mode:?}");
        assert_eq!(reported(&server, None, "alice").await, none, "{mode:?}");
        assert_eq!(reported(&server, Some(STRANGER), "alice").await, None, "{mode:?}");
        let other = reported(&server, Some(ALICE), "mallory").await;
        assert_eq!(other, if mode == Optional { owned(ASKED) } else { refused.clone() });
    }
}

#[tokio::test]
async fn where_encryption_is_required_nothing_is_asked_without_it() {
    let server = TestServer::with(with_client_ca(ClientCertificates::Optional)).await;
    for user in ["alice", "bench", "mallory"] {
        let mut client = Client::raw(server.address).await;
        client.send(startup(&[("user", user)])).await;
        let replies = client.until_closed().await;
        assert_eq!(kinds(&replies), "E", "no challenge before it");
        assert_eq!(replies[0].sqlstate(), "28000");
        assert!(replies[0].field('H').is_some_and(|hint| hint.contains("sslmode")));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = pgfront::Listener::unix(folder.path(), 5432).expect("a socket");
    let options = with_client_ca(ClientCertificates::Required);
    let server = TestServer::on(socket, server.address, options);
    let path = folder.path().join(".s.PGSQL.5432");
    let stream = soon(tokio::net::UnixStream::connect(path)).await.expect("a connection");
    let mut client = Client { stream };
    client.ask(startup(&[("user", "bench")])).await;
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn the_oldest_version_is_the_one_that_was_set() {
    let old = &[&rustls::version::TLS12];
    for (least, admitted) in [(TlsVersion::V1_2, true), (TlsVersion::V1_3, false)] {
        let tls = Tls::from_pem(CERTIFICATE, KEY, None, least).expect("a key pair");
        let server = TestServer::with(Options { tls: Some(tls), ..Options::default() }).await;
        assert_eq!(encrypted_by(&server, connector(None, old)).await.is_ok(), admitted);
        assert!(encrypted_by(&server, connector(None, rustls::ALL_VERSIONS)).await.is_ok());
    }
}

#[tokio::test]
async fn replaced_files_are_in_force_for_those_that_come_next() {
    let options = with_client_ca(ClientCertificates::Required);
    let tls = options.tls.clone().expect("TLS");
    let server = TestServer::with(options).await;
    let mut before = encrypted_by(&server, connector(Some(ALICE), rustls::ALL_VERSIONS))
        .await
        .expect("a handshake");
    before.ask(startup(&[("user", "alice")])).await;
    let others = Tls::from_pem(CERTIFICATE, KEY, Some(STRANGER.0), TlsVersion::V1_2);
    tls.replace(&others.expect("a key pair"));
    assert_eq!(reported(&server, Some(ALICE), "alice").await, None);
    assert_eq!(kinds(&before.ask(query("rows 1")).await), "TDCZ", "it is as it was");
}

#[test]
fn a_client_authority_that_is_none_is_refused() {
    for wrong in [&b""[..], b"nonsense", KEY] {
        assert!(Tls::from_pem(CERTIFICATE, KEY, Some(wrong), TlsVersion::V1_2).is_err());
    }
}

#[tokio::test]
async fn who_guesses_is_made_to_wait() {
    let options = Options { failed_logins_per_minute_max: 3, ..Options::default() };
    let server = TestServer::with(options).await;
    for user in ["alice", "mallory", "alice"] {
        assert_eq!(crate::scram::guess(&server, user, "wrong").await, "28P01");
    }
    let mut right = Client::raw(server.address).await;
    right.send(startup(&[("user", "alice")])).await;
    let replies = right.until_closed().await;
    assert_eq!(kinds(&replies), "E", "it is not asked at all");
    assert_eq!(replies[0].sqlstate(), "57P03");
    assert!(replies[0].field('H').is_some_and(|hint| hint.contains("seconds")));
    Client::connect(server.address).await;
}

/// Many exchanges that are begun before any of them fails.
#[tokio::test]
async fn guesses_side_by_side_are_no_more_than_guesses_in_turn() {
    let options = Options { failed_logins_per_minute_max: 3, ..Options::default() };
    let server = TestServer::with(options).await;
    let guesses = crate::scram::guesses_side_by_side(&server, "alice", 20).await;
    let looked_at = guesses.iter().filter(|code| *code == "28P01").count();
    assert_eq!(looked_at, 3, "{guesses:?}");
    assert!(guesses.iter().all(|code| code == "28P01" || code == "57P03"));
}

#[tokio::test]
async fn silent_sockets_keep_nobody_out() {
    let server = TestServer::with(Options { max_connections: 4, ..Options::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(Client::raw(server.address).await);
    }
    let mut client = Client::connect(server.address).await;
    assert_eq!(kinds(&client.ask(query("rows 1")).await), "TDCZ");
    // As many as may wait are still there, the others were let go.
    let gone = soon(async {
        let mut gone = 0;
        for client in &mut silent {
            let closed = tokio::time::timeout(Duration::from_millis(20), client.next());
            gone += usize::from(matches!(closed.await, Ok(None)));
        }
        gone
    });
    assert_eq!(gone.await, 100 - 20 + 1);
}

#[tokio::test]
async fn the_last_places_are_the_operators() {
    let options = Options { max_connections: 3, reserved_connections: 1, ..Options::default() };
    let server = TestServer::with(options).await;
    let _first = Client::connect(server.address).await;
    let _second = Client::connect(server.address).await;
    let mut third = Client::raw(server.address).await;
    third.send(startup(&[("user", "bench")])).await;
    let replies = third.until_closed().await;
    assert_eq!(replies.last().expect("a report").sqlstate(), "53300");
    let mut operator = Client::raw(server.address).await;
    operator.ask(startup(&[("user", "operator")])).await;
}
