//! TLS as the server's operator configures it: a certificate chain and a key, in PEM files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use types::{Error, Result, SqlState};

/// The application protocol of PostgreSQL, which a client that skips SSLRequest has to name.
pub(crate) const ALPN: &[u8] = b"postgresql";

#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// Channel binding hashes the first certificate.
    pub(crate) certificate_pem: Arc<[u8]>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Tls> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| {
                Error::new(SqlState::IO_ERROR, format!("cannot read {}: {error}", path.display()))
            })
        };
        Tls::from_pem(&read(certificates)?, &read(key)?)
    }

    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Tls> {
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| invalid("certificate", &error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid("key", &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid("configuration", &error))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| invalid("certificate or key", &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate_pem: certificates.into(),
        })
    }
}

fn invalid(what: &str, error: &dyn fmt::Display) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("TLS {what} is not usable: {error}"))
}
