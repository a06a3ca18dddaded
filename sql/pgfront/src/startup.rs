//! From an accepted socket to a session: encryption, identity, settings.
//!
//! ```text
//! client                     server
//!   SSLRequest          ->
//!                       <-   'S' and a TLS handshake, or 'N'
//!   StartupMessage      ->
//!                       <-   AuthenticationOk, perhaps after SCRAM
//!                       <-   ParameterStatus …, BackendKeyData, ReadyForQuery
//! ```
//!
//! A CancelRequest takes StartupMessage's place: the client opens a second connection only to say
//! which session is to stop, and hears nothing back.

use std::sync::Arc;
use std::time::Instant;

use pgwire::messages::startup::{
    Authentication as AuthenticationMessage, BackendKeyData, NegotiateProtocolVersion, SecretKey,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use types::printable::printable;
use types::{Error, Result, SqlState};

use crate::auth::{self, Challenge};
use crate::backend::{Authentication, Database, SessionOptions};
use crate::cancel::{Backends, Registration, RegistrationRefused};
use crate::listener::Peer;
use crate::message::Body;
use crate::options::ClientCertificates;
use crate::reply;
use crate::server::Server;
use crate::stream::Stream;
use crate::tls::{ALPN, Loaded, Tls, common_name};
use crate::wire::{Closed, Wire, malformed};

const CANCEL_REQUEST: i32 = 80_877_102;
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const PROTOCOL_3_2: i32 = 3 << 16 | 2;
/// A TLS record that starts a handshake, where a client skips SSLRequest (PostgreSQL 17).
const TLS_HANDSHAKE: u8 = 0x16;

/// What the client sends first, encryption apart.
#[derive(Debug, PartialEq)]
enum Opening {
    Ssl,
    Gss,
    Cancel { process_id: i32, secret: Vec<u8> },
    Startup(Startup),
}

#[derive(Debug, Default, PartialEq)]
pub struct Startup {
    protocol: i32,
    parameters: Vec<(String, String)>,
}

impl Opening {
    fn decode(bytes: &[u8]) -> Result<Opening> {
        let mut body = Body::new(bytes);
        match body.i32()? {
            SSL_REQUEST => Ok(Opening::Ssl),
            GSS_REQUEST => Ok(Opening::Gss),
            CANCEL_REQUEST => {
                Ok(Opening::Cancel { process_id: body.i32()?, secret: body.rest().to_vec() })
            }
            protocol if protocol >> 16 == 3 => {
                let mut parameters = Vec::new();
                loop {
                    let name = body.text()?;
                    if name.is_empty() {
                        break;
                    }
                    parameters.push((name.to_owned(), body.text()?.to_owned()));
                }
                body.end()?;
                Ok(Opening::Startup(Startup { protocol, parameters }))
            }
            protocol => Err(Error::unsupported(format!(
                "frontend protocol {}.{}",
                protocol >> 16,
                protocol & 0xffff
            ))),
        }
    }
}

/// A connection that is ready to authenticate, and what is known of it under TLS.
type Negotiated = (Wire, Startup, Option<Encryption>);

/// What is known of a connection under TLS.
pub struct Encryption {
    loaded: Arc<Loaded>,
    /// The common name in the client's certificate, if it has shown one that holds.
    client_name: Option<String>,
}

/// Agrees on encryption, where the stream may have it, and reads the startup message. Cancel
/// requests end here.
pub async fn negotiate<D: Database>(
    server: &Server<D>,
    stream: Stream,
) -> Result<Negotiated, (Option<Wire>, Closed)> {
    let mut tls = None;
    if let Stream::Tcp(tcp) = &stream {
        match starts_with_tls(tcp).await {
            Ok(false) => tls = server.options.tls.as_ref(),
            Ok(true) => return accept_tls(server, stream, true).await.map_err(|e| (None, e)),
            Err(error) => return Err((None, error.into())),
        }
    }
    let mut wire = Wire::new(stream);
    match negotiate_plain(server, &mut wire, tls).await {
        Ok(Some(startup)) => Ok((wire, startup, None)),
        Ok(None) => match wire.into_stream() {
            Ok(stream) => accept_tls(server, stream, false).await.map_err(|closed| (None, closed)),
            Err(closed) => Err((None, closed)),
        },
        Err(closed) => Err((Some(wire), closed)),
    }
}

async fn starts_with_tls(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first == [TLS_HANDSHAKE])
}

/// The startup message, or `None` if the client asked for TLS and `tls` is there to give it.
async fn negotiate_plain<D: Database>(
    server: &Server<D>,
    wire: &mut Wire,
    tls: Option<&Tls>,
) -> Result<Option<Startup>, Closed> {
    // A client asks for each kind of encryption once.
    for _ in 0..3 {
        match opening(wire).await? {
            Opening::Ssl if tls.is_some() => {
                // Checked before the answer: nothing may have been sent ahead of the handshake.
                wire.output.push(b'S');
                wire.flush().await?;
                return Ok(None);
            }
            Opening::Ssl | Opening::Gss => {
                wire.output.push(b'N');
                wire.flush().await?;
            }
            Opening::Cancel { process_id, secret } => {
                server.registry.cancel(process_id, &secret);
                return Err(Closed::Normally);
            }
            Opening::Startup(startup) => return Ok(Some(startup)),
        }
    }
    Err(malformed("expected a startup message"))
}

async fn opening(wire: &mut Wire) -> Result<Opening, Closed> {
    let frame = wire.startup_frame().await?;
    Opening::decode(wire.body(&frame)).map_err(Closed::Fatal)
}

async fn accept_tls<D: Database>(
    server: &Server<D>,
    stream: Stream,
    direct: bool,
) -> Result<Negotiated, Closed> {
    let (Some(tls), Stream::Tcp(stream)) = (&server.options.tls, stream) else {
        return Err(Closed::Normally);
    };
    let loaded = tls.loaded();
    let mut stream = loaded.acceptor.accept(stream).await?;
    if direct && stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        stream.shutdown().await?;
        return Err(Closed::Normally);
    }
    let client_name = common_name(stream.get_ref().1.peer_certificates());
    let encryption = Encryption { loaded, client_name };
    let mut wire = Wire::new(Stream::Tls(Box::new(stream)));
    match opening(&mut wire).await? {
        Opening::Startup(startup) => Ok((wire, startup, Some(encryption))),
        Opening::Cancel { process_id, secret } => {
            server.registry.cancel(process_id, &secret);
            Err(Closed::Normally)
        }
        Opening::Ssl | Opening::Gss => Err(malformed("the connection is encrypted already")),
    }
}

/// Authenticates the client, enters it in the registry and opens its session.
pub async fn open<D: Database>(
    server: &Server<D>,
    wire: &mut Wire,
    startup: Startup,
    peer: Peer,
    encryption: Option<&Encryption>,
) -> Result<(D::Session, Registration), Closed> {
    let protocol = startup.protocol;
    let (mut options, protocol_options) =
        session_options(startup, peer, encryption.is_some()).map_err(Closed::Fatal)?;
    if protocol > PROTOCOL_3_2 || !protocol_options.is_empty() {
        let newest = protocol.min(PROTOCOL_3_2);
        let message = NegotiateProtocolVersion::new(newest, protocol_options);
        reply::put(&mut wire.output, &message).map_err(Closed::Fatal)?;
    }
    let target = server.database.target(&options.user, &options.database).await;
    let target = target.map_err(Closed::Fatal)?;
    let shown = authenticate(server, wire, (&options, &target), encryption).await;
    shown.inspect_err(|closed| enter_failure(server, &options, closed))?;
    reply::put(&mut wire.output, &AuthenticationMessage::Ok).map_err(Closed::Fatal)?;

    let registration = register(server, &target, &options.user, protocol).map_err(Closed::Fatal)?;
    options.process_id = registration.control.process_id;
    options.cancel = registration.control.cancel.clone();
    options.backends = Backends(Arc::clone(&server.registry));

    put_parameters(&mut wire.output, &options, &server.options.server_version)
        .map_err(Closed::Fatal)?;
    let session = server.database.open_session(target, options).await.map_err(Closed::Fatal)?;
    let control = &registration.control;
    let key =
        BackendKeyData::new(control.process_id, SecretKey::Bytes(control.secret.clone().into()));
    reply::put(&mut wire.output, &key).map_err(Closed::Fatal)?;
    Ok((session, registration))
}

fn register<D: Database>(
    server: &Server<D>,
    target: &D::Target,
    user: &str,
    protocol: i32,
) -> Result<Registration> {
    // Protocol 3.2 allows longer secrets; 3.0 has room for four bytes.
    let mut secret = vec![0; if protocol >= PROTOCOL_3_2 { 32 } else { 4 }];
    auth::fill_random(&mut secret)?;
    let reserved = match server.database.is_operator(target, user) {
        true => 0,
        false => server.options.reserved_connections,
    };
    let max = server.options.max_connections;
    server.registry.register(secret, max, reserved).map_err(refusal)
}

fn refusal(refused: RegistrationRefused) -> Error {
    match refused {
        RegistrationRefused::Full(max) => Error::new(
            SqlState::TOO_MANY_CONNECTIONS,
            "sorry, too many clients already",
        )
        .with_hint(format!(
            "The limit is {max} connections: raise max_connections, or share connections by a pool."
        )),
        RegistrationRefused::Reserved(reserved) => Error::new(
            SqlState::TOO_MANY_CONNECTIONS,
            "remaining connection slots are reserved for the owner of the ledger",
        )
        .with_detail(format!("reserved_connections is {reserved}."))
        .with_hint("Raise max_connections, or share connections by a pool."),
        RegistrationRefused::ShuttingDown => {
            Error::new(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down")
        }
    }
}

/// What a failed login looks like, in the log and to those that come next. Which of the two a
/// client was, a stranger or one with a wrong password, does not show.
fn enter_failure<D: Database>(server: &Server<D>, options: &SessionOptions, closed: &Closed) {
    let Closed::Fatal(error) = closed else { return };
    let SessionOptions { user, peer, .. } = options;
    match error.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            let (user, sqlstate) = (user.chars().take(64).collect::<String>(), error.code());
            tracing::warn!(%peer, user = %printable(&user), %sqlstate, "failed login");
        }
        _ => {}
    }
    if error.code() == SqlState::INVALID_PASSWORD {
        server.attempts.failed((*peer).into(), Instant::now());
    }
}

async fn authenticate<D: Database>(
    server: &Server<D>,
    wire: &mut Wire,
    (options, target): (&SessionOptions, &D::Target),
    encryption: Option<&Encryption>,
) -> Result<(), Closed> {
    let SessionOptions { user, peer, .. } = options;
    if server.options.tls_required && encryption.is_none() && *peer != Peer::Unix {
        return Err(Closed::Fatal(no_encryption(*peer)));
    }
    let client_name = encryption.and_then(|encryption| encryption.client_name.as_deref());
    let certificates = server.options.client_certificates;
    let proven = certificate_proof(certificates, user, *peer, client_name);
    if proven.map_err(Closed::Fatal)? {
        return Ok(());
    }
    let may_try = || match server.attempts.wait((*peer).into(), Instant::now()) {
        Some(wait) => Err(too_many_failures(wait.as_secs() + 1)),
        None => Ok(()),
    };
    let demanded = server.database.authentication(target, user, *peer);
    let challenge = challenge(demanded, user, *peer, &server.mock_secret);
    let Some(challenge) = challenge.map_err(Closed::Fatal)? else {
        return Ok(());
    };
    may_try().map_err(Closed::Fatal)?;
    let certificate = encryption.map(|encryption| &*encryption.loaded.certificate_pem);
    auth::scram(wire, user, challenge, certificate, may_try).await
}

/// Whether a certificate is all that the client has to show. An error where there has to be one.
/// By a Unix-domain socket there is none, and none is asked for.
fn certificate_proof(
    certificates: ClientCertificates,
    user: &str,
    peer: Peer,
    client_name: Option<&str>,
) -> Result<bool> {
    let is_user = client_name == Some(user);
    match certificates {
        _ if peer == Peer::Unix => Ok(false),
        ClientCertificates::Optional => Ok(is_user),
        ClientCertificates::Required if is_user => Ok(true),
        ClientCertificates::WithPassword if is_user => Ok(false),
        ClientCertificates::Required | ClientCertificates::WithPassword => {
            Err(no_certificate(user, client_name))
        }
    }
}

fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
}

fn no_encryption(peer: Peer) -> Error {
    unauthorized(format!("connection from {peer} is not encrypted, and has to be"))
        .with_hint("Connect with sslmode=verify-full, or by the Unix-domain socket.")
}

fn no_certificate(user: &str, client_name: Option<&str>) -> Error {
    let hint = "Give the client sslcert and sslkey, and sslmode=verify-full.";
    match client_name {
        None => unauthorized("connection requires a valid client certificate").with_hint(hint),
        Some(name) => {
            unauthorized(format!("certificate authentication failed for user \"{user}\""))
                .with_detail(format!("The certificate's common name is \"{name}\"."))
                .with_hint("Connect as the user that the certificate is for.")
        }
    }
}

fn too_many_failures(seconds: u64) -> Error {
    // Another code than that of a wrong password, as nothing was looked at.
    Error::new(SqlState::CANNOT_CONNECT_NOW, "too many failed logins from this address")
        .with_hint(format!("Try again in {seconds} seconds."))
}

/// What a client has to prove; `None` for nothing. Trust reaches as far as the machine.
fn challenge(
    demanded: Authentication,
    user: &str,
    peer: Peer,
    mock_secret: &[u8; 32],
) -> Result<Option<Challenge>> {
    match demanded {
        Authentication::ScramSha256(verifier) => Ok(Some(Challenge::known(verifier))),
        Authentication::Unknown { iterations } => {
            Challenge::unknown(user, mock_secret, iterations).map(Some)
        }
        Authentication::Trust if peer.is_local() => Ok(None),
        Authentication::Trust => Err(unauthorized(format!("user \"{user}\" has no password"))
            .with_hint("Without a password a user can connect from the same machine only.")),
    }
}

/// Sorts the startup parameters. The second result names protocol extensions, which we have none.
fn session_options(
    startup: Startup,
    peer: Peer,
    tls: bool,
) -> Result<(SessionOptions, Vec<String>)> {
    let mut options = SessionOptions {
        user: String::new(),
        database: String::new(),
        application_name: String::new(),
        settings: Vec::new(),
        peer,
        tls,
        process_id: 0,
        cancel: Default::default(),
        backends: Backends::default(),
    };
    let mut protocol_options = Vec::new();
    for (name, value) in startup.parameters {
        match name.as_str() {
            "user" => options.user = value,
            "database" => options.database = value,
            "application_name" => options.application_name = value,
            "options" => options.settings.extend(command_line_settings(&value)?),
            "replication" => check_no_replication(&value)?,
            _ if name.starts_with("_pq_.") => protocol_options.push(name),
            _ => options.settings.push((name, value)),
        }
    }
    if options.user.is_empty() {
        return Err(Error::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    if options.database.is_empty() {
        options.database.clone_from(&options.user);
    }
    Ok((options, protocol_options))
}

fn check_no_replication(value: &str) -> Result<()> {
    match value {
        "false" | "off" | "no" | "0" => Ok(()),
        _ => Err(Error::unsupported("the replication protocol")),
    }
}

/// Settings in `options`: `-c name=value`, `-cname=value` or `--name=value`, with backslashes
/// before blanks that do not separate.
fn command_line_settings(text: &str) -> Result<Vec<(String, String)>> {
    let words = split_words(text);
    let mut words = words.into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("-c").or_else(|| word.strip_prefix("--")).map(str::to_owned)
        };
        let pair =
            setting.as_deref().and_then(|setting| setting.split_once('=')).ok_or_else(|| {
                Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid command-line argument \"{word}\""),
                )
                .with_hint("Settings are given as -c name=value.")
            })?;
        settings.push((pair.0.replace('-', "_"), pair.1.to_owned()));
    }
    Ok(settings)
}

fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                if let (Some(word), Some(escaped)) = (words.last_mut(), characters.next()) {
                    word.push(escaped);
                }
            }
            c if c.is_ascii_whitespace() => words.push(String::new()),
            c => {
                if let Some(word) = words.last_mut() {
                    word.push(c);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What drivers want to know before the first statement. A session corrects what it knows better
/// by [`crate::Session::take_parameter_changes`].
fn put_parameters(out: &mut Vec<u8>, options: &SessionOptions, version: &str) -> Result<()> {
    let parameters = [
        ("server_version", version),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "off"),
        ("session_authorization", &options.user),
        ("application_name", &options.application_name),
        ("default_transaction_read_only", "off"),
        ("in_hot_standby", "off"),
    ];
    for (name, value) in parameters {
        reply::parameter_status(out, name, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn startup(parameters: &[(&str, &str)]) -> Result<(SessionOptions, Vec<String>)> {
        let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let startup =
            Startup { protocol: 3 << 16, parameters: parameters.iter().map(pair).collect() };
        session_options(startup, Peer::Unix, false)
    }

    #[test]
    fn settings_on_the_command_line() {
        let options = r"-c a.b=c  -cd=e\ f --work-mem=1MB -c g=h=i";
        let (options, extensions) = startup(&[("user", "u"), ("options", options)]).unwrap();
        let pairs = [("a.b", "c"), ("d", "e f"), ("work_mem", "1MB"), ("g", "h=i")];
        let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(options.settings, expected);
        assert!(extensions.is_empty());
        for wrong in ["-c", "-c a", "--a", "a=b", "-d a=b"] {
            let error = startup(&[("user", "u"), ("options", wrong)]).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE, "{wrong}");
        }
    }

    #[test]
    fn the_database_is_named_like_the_user_by_default() {
        let (options, _) = startup(&[("user", "u"), ("application_name", "app")]).unwrap();
        assert_eq!((options.user.as_str(), options.database.as_str()), ("u", "u"));
        assert_eq!(options.application_name, "app");
        let (options, _) = startup(&[("user", "u"), ("database", "d")]).unwrap();
        assert_eq!(options.database, "d");
    }

    #[test]
    fn trust_ends_at_the_machine() {
        let asked = |demanded, peer| challenge(demanded, "u", peer, &[0; 32]);
        for (address, trusted) in [
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("::1", true),
            ("10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            let peer = Peer::Tcp((address.parse::<IpAddr>().unwrap(), 1).into());
            assert_eq!(asked(Authentication::Trust, peer).is_ok(), trusted, "{address}");
            let unknown = asked(Authentication::Unknown { iterations: 4096 }, peer);
            assert!(unknown.unwrap().is_some());
        }
        assert_eq!(asked(Authentication::Trust, Peer::Unix).unwrap(), None);
    }

    #[test]
    fn a_certificate_counts_as_the_setting_says() {
        use ClientCertificates::{Optional, Required, WithPassword};
        let tcp = Peer::Tcp((IpAddr::from([192, 0, 2, 1]), 1).into());
        let proof = |mode, name| certificate_proof(mode, "ada", tcp, name).map_err(|e| e.code());
        let refused = Err(SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        for (mode, own, foreign, none) in [
            (Optional, Ok(true), Ok(false), Ok(false)),
            (Required, Ok(true), refused, refused),
            (WithPassword, Ok(false), refused, refused),
        ] {
            assert_eq!(proof(mode, Some("ada")), own, "{mode:?}");
            assert_eq!(proof(mode, Some("bob")), foreign, "{mode:?}");
            assert_eq!(proof(mode, None), none, "{mode:?}");
            assert_eq!(certificate_proof(mode, "ada", Peer::Unix, None).ok(), Some(false));
        }
    }

    #[test]
    fn openings_are_told_apart() {
        let code = |code: i32, rest: &[u8]| Opening::decode(&[&code.to_be_bytes(), rest].concat());
        assert_eq!(code(SSL_REQUEST, b"").unwrap(), Opening::Ssl);
        assert_eq!(code(GSS_REQUEST, b"").unwrap(), Opening::Gss);
        let cancel = code(CANCEL_REQUEST, b"\0\0\0\x07abcd").unwrap();
        let (process_id, secret) = (7, b"abcd".to_vec());
        assert_eq!(cancel, Opening::Cancel { process_id, secret });
        assert!(code(3 << 16, b"user\0u\0\0").is_ok());
        assert!(code(3 << 16, b"user\0u\0").is_err());
        assert!(code(3 << 16, b"user\0u\0\0x").is_err());
        assert!(code(2 << 16, b"").is_err());
        assert!(code(CANCEL_REQUEST, b"").is_err());
    }
}
