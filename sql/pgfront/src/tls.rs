//! TLS as the server's operator configures it: a certificate chain and a key, in PEM files, and
//! perhaps the certificates of those that vouch for clients.
//!
//! A client whose certificate such an authority has signed is who the certificate's common name
//! says, as in PostgreSQL. A certificate of any other authority ends the handshake; none at all is
//! no fault of the handshake, so that the client can be told in words what it needs.
//!
//! [`Tls`] is a handle. [`Tls::replace`] puts other files in force for connections to come, while
//! those that are there keep theirs; channel binding is by the certificate that a client has seen.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tokio_rustls::TlsAcceptor;
use types::{Error, Result, SqlState};
use x509_certificate::CapturedX509Certificate;

/// The application protocol of PostgreSQL, which a client that skips SSLRequest has to name.
pub(crate) const ALPN: &[u8] = b"postgresql";

/// The oldest version of TLS that clients may speak; there is none below 1.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsVersion {
    V1_2,
    V1_3,
}

impl TlsVersion {
    fn and_newer(self) -> &'static [&'static SupportedProtocolVersion] {
        static NEWEST_FIRST: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
        match self {
            TlsVersion::V1_2 => &NEWEST_FIRST,
            TlsVersion::V1_3 => &NEWEST_FIRST[..1],
        }
    }
}

/// What TLS is made of, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles<'a> {
    pub certificates: &'a Path,
    pub key: &'a Path,
    /// Certificates of those that vouch for clients.
    pub client_ca: Option<&'a Path>,
    pub version_min: TlsVersion,
}

#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<Loaded>>>);

/// What one connection is made with.
pub(crate) struct Loaded {
    pub acceptor: TlsAcceptor,
    /// Channel binding hashes the first certificate.
    pub certificate_pem: Vec<u8>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    pub fn from_files(files: &TlsFiles<'_>) -> Result<Tls> {
        let client_ca = files.client_ca.map(read).transpose()?;
        Tls::from_pem(
            &read(files.certificates)?,
            &read(files.key)?,
            client_ca.as_deref(),
            files.version_min,
        )
    }

    pub fn from_pem(
        certificates: &[u8],
        key: &[u8],
        client_ca: Option<&[u8]>,
        version_min: TlsVersion,
    ) -> Result<Tls> {
        let chain = certificates_of(certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid("key", &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(version_min.and_newer())
            .map_err(|error| invalid("configuration", &error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => builder.with_client_cert_verifier(client_verifier(pem)?),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| invalid("certificate or key", &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let loaded = Loaded { acceptor, certificate_pem: certificates.to_vec() };
        Ok(Tls(Arc::new(RwLock::new(Arc::new(loaded)))))
    }

    /// Connections to come are made with what `other` holds.
    pub fn replace(&self, other: &Tls) {
        let loaded = other.loaded();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Clients without a certificate pass: what they may do is decided where they can be told.
fn client_verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    let authorities = certificates_of(pem)?;
    if authorities.is_empty() {
        return Err(invalid("client authority", &"no certificate is in it"));
    }
    for authority in authorities {
        roots.add(authority).map_err(|error| invalid("client authority", &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| invalid("client authority", &error))
}

/// The common name in a client's certificate, which the handshake has verified. There must be one
/// and no other, or which of them counts would depend on who reads it.
pub(crate) fn common_name(certificates: Option<&[CertificateDer<'_>]>) -> Option<String> {
    let certificate = CapturedX509Certificate::from_der(certificates?.first()?.to_vec()).ok()?;
    let mut names = certificate.subject_name().iter_common_name();
    let (Some(name), None) = (names.next(), names.next()) else {
        return None;
    };
    let name = name.to_string().ok()?;
    (!name.is_empty() && !name.contains(char::is_control)).then_some(name)
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    certificates.map_err(|error| invalid("certificate", &error))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::new(SqlState::IO_ERROR, format!("cannot read {}: {error}", path.display()))
    })
}

fn invalid(what: &str, error: &dyn fmt::Display) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("TLS {what} is not usable: {error}"))
}
