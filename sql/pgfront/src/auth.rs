//! SCRAM-SHA-256 (RFC 5802, RFC 7677): the client proves that it knows a password, the server
//! that it knows the password's verifier, and neither is sent.
//!
//! ```text
//! server                                       client
//!   AuthenticationSASL(mechanisms)        ->
//!                                         <-   client-first: nonce
//!   server-first: nonces, salt, count     ->
//!                                         <-   client-final: proof
//!   server-final: signature               ->
//! ```
//!
//! The exchange itself is the protocol crate's. What is decided here: which mechanisms are
//! offered (channel binding only under TLS), that mechanism and binding flag agree, and what an
//! unknown user sees: a salt derived from the name and a secret, the usual iteration count, and
//! the same failure at the same step as with a wrong password.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use pgwire::api::auth::sasl::scram::{
    ScramSecret, ScramServerAuth, ScramServerAuthWaitingForClientFinal, gen_salted_password,
};
use pgwire::error::PgWireError;
use pgwire::messages::startup::Authentication as AuthenticationMessage;
use types::{Error, Result, SqlState};

use crate::message::{Body, kind};
use crate::reply;
use crate::wire::{Closed, Frame, Wire, malformed};

const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// PostgreSQL's default, and RFC 7677's minimum.
pub const SCRAM_ITERATIONS_MIN: u32 = 4096;
/// What new verifiers are made with. A client computes so many rounds at each login (some 40 ms of
/// its processor time, by libpq), the server two. OWASP advises 600,000 rounds against who
/// has stolen the verifiers, but pgjdbc and node-postgres refuse more than 100,000; PostgreSQL's
/// default is the minimum.
pub const SCRAM_ITERATIONS: u32 = 65_536;
pub const SCRAM_ITERATIONS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;

/// What the server keeps instead of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub salt: Vec<u8>,
    pub iterations: u32,
    pub stored_key: [u8; 32],
    pub server_key: [u8; 32],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Makes a verifier with a salt from the operating system.
    pub fn from_password(password: &str, iterations: u32) -> Result<Verifier> {
        let mut salt = [0; SALT_BYTES];
        fill_random(&mut salt)?;
        Verifier::from_salted(password, &salt, iterations)
    }

    pub fn from_salted(password: &str, salt: &[u8], iterations: u32) -> Result<Verifier> {
        if iterations == 0 {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "SCRAM needs at least one iteration",
            ));
        }
        let salted = gen_salted_password(password, salt, iterations as usize);
        let secret =
            ScramSecret::verifier_from_salted_password(salt.to_vec(), salted, iterations as usize);
        match secret {
            ScramSecret::Verifier { salt, stored_key, server_key, .. } => Ok(Verifier {
                salt,
                iterations,
                stored_key: digest(&stored_key)?,
                server_key: digest(&server_key)?,
            }),
            ScramSecret::SaltedPassword { .. } => Err(internal("no verifier was made")),
        }
    }

    /// PostgreSQL's text form, as in `pg_authid` and in `CREATE ROLE … PASSWORD`:
    /// `SCRAM-SHA-256$iterations:salt$stored_key:server_key`. With it one can play the server.
    pub fn to_text(&self) -> String {
        format!(
            "{SCRAM_SHA_256}${}:{}${}:{}",
            self.iterations,
            BASE64.encode(&self.salt),
            BASE64.encode(self.stored_key),
            BASE64.encode(self.server_key)
        )
    }

    /// What an unknown user is asked to prove: nothing can, since its keys are random. The salt is
    /// always the same for the same name, as a real one's is.
    fn mock(user: &str, secret: &[u8; 32], iterations: u32) -> Result<Verifier> {
        let seed = gen_salted_password(user, secret, 1);
        let mut verifier = Verifier {
            salt: seed.get(..SALT_BYTES).unwrap_or(&seed).to_vec(),
            iterations,
            stored_key: [0; 32],
            server_key: [0; 32],
        };
        fill_random(&mut verifier.stored_key)?;
        fill_random(&mut verifier.server_key)?;
        Ok(verifier)
    }

    fn into_secret(self) -> ScramSecret {
        ScramSecret::Verifier {
            salt: self.salt,
            iterations: self.iterations as usize,
            stored_key: self.stored_key.to_vec(),
            server_key: self.server_key.to_vec(),
        }
    }
}

impl FromStr for Verifier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Verifier> {
        parse_verifier(text).ok_or_else(|| {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, "not a SCRAM-SHA-256 verifier")
        })
    }
}

fn parse_verifier(text: &str) -> Option<Verifier> {
    let (public, keys) = text.strip_prefix(SCRAM_SHA_256)?.strip_prefix('$')?.split_once('$')?;
    let (iterations, salt) = public.split_once(':')?;
    let (stored_key, server_key) = keys.split_once(':')?;
    let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
    Some(Verifier {
        salt: BASE64.decode(salt).ok()?,
        iterations: iterations
            .parse()
            .ok()
            .filter(|count| (1..=SCRAM_ITERATIONS_MAX).contains(count))?,
        stored_key: key(stored_key)?,
        server_key: key(server_key)?,
    })
}

fn digest(bytes: &[u8]) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| internal("a SHA-256 digest has 32 bytes"))
}

fn internal(message: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, message)
}

/// Bytes from the operating system's generator.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(bytes)
        .map_err(|_| internal("the operating system gave no random bytes"))
}

/// What a client is asked to prove.
#[derive(Debug, PartialEq)]
pub(crate) struct Challenge {
    verifier: Verifier,
    /// Without it no password is right.
    is_user_known: bool,
}

impl Challenge {
    pub fn known(verifier: Verifier) -> Challenge {
        Challenge { verifier, is_user_known: true }
    }

    pub fn unknown(user: &str, mock_secret: &[u8; 32], iterations: u32) -> Result<Challenge> {
        let verifier = Verifier::mock(user, mock_secret, iterations)?;
        Ok(Challenge { verifier, is_user_known: false })
    }
}

/// Runs the exchange; returns once the client has proved that it knows `user`'s password.
/// `certificate_pem` is set under TLS. A proof is looked at only if `may_try` allows it then.
pub(crate) async fn scram(
    wire: &mut Wire,
    user: &str,
    challenge: Challenge,
    certificate_pem: Option<&[u8]>,
    may_try: impl Fn() -> Result<()>,
) -> Result<(), Closed> {
    let Challenge { verifier, is_user_known } = challenge;
    let mut exchange = ScramServerAuth::new();
    if let Some(pem) = certificate_pem
        && let Err(error) = exchange.configure_certificate(pem)
    {
        // No binding type is defined for such a certificate; plain SCRAM works with any.
        tracing::debug!(%error, "no channel binding with this certificate");
    }
    let mut mechanisms = vec![SCRAM_SHA_256.to_owned()];
    if exchange.supports_channel_binding() {
        mechanisms.insert(0, SCRAM_SHA_256_PLUS.to_owned());
    }
    send(wire, AuthenticationMessage::SASL(mechanisms)).await?;

    let frame = password_frame(wire).await?;
    let (server_first, exchange) =
        first_step(&exchange, wire.body(&frame), verifier).map_err(Closed::Fatal)?;
    send(wire, AuthenticationMessage::SASLContinue(server_first.into())).await?;

    let frame = password_frame(wire).await?;
    may_try().map_err(Closed::Fatal)?;
    match exchange.on_client_final_message(wire.body(&frame)) {
        Ok(server_final) if is_user_known => {
            let message = AuthenticationMessage::SASLFinal(server_final.into());
            reply::put(&mut wire.output, &message).map_err(Closed::Fatal)
        }
        Ok(_) | Err(PgWireError::InvalidPassword(_)) => Err(Closed::Fatal(Error::new(
            SqlState::INVALID_PASSWORD,
            format!("password authentication failed for user \"{user}\""),
        ))),
        Err(error) => Err(Closed::Fatal(scram_error(&error))),
    }
}

/// Reads SASLInitialResponse and answers it.
fn first_step(
    exchange: &ScramServerAuth,
    body: &[u8],
    verifier: Verifier,
) -> Result<(String, ScramServerAuthWaitingForClientFinal)> {
    let mut body = Body::new(body);
    let mechanism = body.text()?;
    let client_first =
        body.value()?.ok_or_else(|| protocol_error("SASL needs an initial response"))?;
    body.end()?;
    let binds = match mechanism {
        SCRAM_SHA_256 => false,
        SCRAM_SHA_256_PLUS if exchange.supports_channel_binding() => true,
        _ => {
            return Err(protocol_error("client selected an invalid SASL authentication mechanism"));
        }
    };
    // A mechanism that promises binding with a message that has none would bind to nothing.
    if client_first.starts_with(b"p=") != binds {
        return Err(protocol_error("SASL mechanism and channel binding flag do not agree"));
    }
    exchange
        .on_client_first_message_with_secret(client_first, verifier.into_secret())
        .map_err(|error| scram_error(&error))
}

fn scram_error(error: &PgWireError) -> Error {
    tracing::debug!(%error, "malformed SCRAM message");
    protocol_error("malformed SCRAM message")
}

fn protocol_error(message: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

async fn send(wire: &mut Wire, message: AuthenticationMessage) -> Result<(), Closed> {
    reply::put(&mut wire.output, &message).map_err(Closed::Fatal)?;
    wire.flush().await?;
    Ok(())
}

async fn password_frame(wire: &mut Wire) -> Result<Frame, Closed> {
    loop {
        match wire.buffered_frame()? {
            Some(frame) if frame.kind == kind::PASSWORD => return Ok(frame),
            Some(_) => return Err(malformed("expected a SASL response")),
            None => wire.fill().await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verifier that PostgreSQL makes of password "pencil" with RFC 7677's salt.
    #[test]
    fn a_verifier_is_the_one_postgresql_makes() {
        let salt = [
            0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36,
            0xfa, 0x81,
        ];
        let verifier = Verifier::from_salted("pencil", &salt, SCRAM_ITERATIONS_MIN).unwrap();
        let stored = "586e5df283e6dceb5c3e791d8b8528ec191e664045ce971792e2e6b5bb13e2a6";
        let hex: String = verifier.stored_key.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, stored);
        assert!(Verifier::from_salted("pencil", &salt, 0).is_err());
    }

    #[test]
    fn the_text_form_is_read_back_or_refused() {
        let verifier = Verifier::from_salted("pencil", b"salt", 10).unwrap();
        let text = verifier.to_text();
        assert!(text.starts_with("SCRAM-SHA-256$10:c2FsdA==$"), "{text}");
        assert!(text.parse::<Verifier>().unwrap() == verifier);
        for wrong in [
            "",
            "md5d41d8cd98f00b204e9800998ecf8427e",
            &text.replace("$10:", "$0:"),
            &text.replace("$10:", "$x:"),
            &text.replace("$10:", "$4000000000:"),
            &text[..text.len() - 4],
            &text.replace(':', ";"),
        ] {
            assert!(wrong.parse::<Verifier>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mock_salt_depends_on_name_and_secret_alone() {
        let salt = |user, secret| Verifier::mock(user, &[secret; 32], 4096).unwrap().salt;
        assert_eq!(salt("a", 1), salt("a", 1));
        assert_ne!(salt("a", 1), salt("b", 1));
        assert_ne!(salt("a", 1), salt("a", 2));
        assert_eq!(salt("a", 1).len(), SALT_BYTES);
    }

    #[test]
    fn keys_do_not_show_in_logs() {
        let verifier = Verifier::from_salted("pencil", &[1; 16], 1).unwrap();
        assert_eq!(format!("{verifier:?}"), "Verifier { iterations: 1, .. }");
    }
}
