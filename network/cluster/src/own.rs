//! The keys by which a node is known: one, and a second one while the first is being replaced.
//!
//! ```text
//! cluster/key.pem         the key, and after a rotation its certificate
//! cluster/next-key.pem    key and certificate that the ledger names from some block on
//! ```
//!
//! The others know this node by the key that *their* ledger names, so while two are there each
//! connection shows the one that the other end wants. One that is called by this node says by its
//! name which one; one that this node calls does not say, so where a call fails the next one shows
//! the other key.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ledger::hash::to_hex;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, crypto::ring};

use crate::keys::key_of;
use crate::members::Key;
use crate::plan::{FOLDER, KEY, Made};

const NEXT_KEY: &str = "next-key.pem";
const DRAWN: &str = "next-key.pem.new";

/// A key of this node, with the certificate that stands for it.
pub struct Identity {
    pub public: Key,
    pub key: PrivateKeyDer<'static>,
    certified: Arc<CertifiedKey>,
}

/// See the module.
pub struct Own(RwLock<Vec<Arc<Identity>>>);

impl Identity {
    fn new(key: PrivateKeyDer<'static>, certificate: CertificateDer<'static>) -> io::Result<Self> {
        let public = key_of(&certificate).ok_or_else(|| invalid("the certificate has no key"))?;
        let provider = ring::default_provider();
        let (chain, own) = (vec![certificate], key.clone_key());
        let certified = CertifiedKey::from_der(chain, own, &provider).map_err(io::Error::other)?;
        Ok(Identity { public, key, certified: Arc::new(certified) })
    }

    /// Of a file that has both.
    fn of_pem(pem: &[u8]) -> io::Result<Identity> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(io::Error::other)?;
        let certificate = CertificateDer::from_pem_slice(pem).map_err(io::Error::other)?;
        Identity::new(key, certificate)
    }
}

impl Own {
    /// `certificate`: of a key that stands without one.
    pub(crate) fn read(data: &Path, certificate: &str) -> io::Result<Own> {
        let folder = data.join(FOLDER);
        let path = folder.join(KEY);
        let mut pem = fs::read(&path).map_err(|error| at(&path, error))?;
        pem.push(b'\n');
        // The first one counts.
        pem.extend_from_slice(certificate.as_bytes());
        let mut own = vec![Identity::of_pem(&pem).map_err(|error| at(&path, error))?];
        let path = folder.join(NEXT_KEY);
        if path.exists() {
            own.push(read_next(&folder)?);
        }
        Ok(Own(RwLock::new(own.into_iter().map(Arc::new).collect())))
    }

    /// The key in use, and after it the one that is to take its place, if there is one.
    pub fn now(&self) -> Vec<Arc<Identity>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn next(&self) -> Option<Arc<Identity>> {
        self.now().into_iter().nth(1)
    }

    /// Draws the key that is to follow, on stable storage; one that was drawn stays.
    pub fn draw(&self, data: &Path, id: u64) -> io::Result<Arc<Identity>> {
        let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = own.get(1) {
            return Ok(Arc::clone(next));
        }
        let folder = data.join(FOLDER);
        let made = Made::new(id, String::new())?;
        let (drawn, path) = (folder.join(DRAWN), folder.join(NEXT_KEY));
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&drawn)?;
        file.write_all(made.key_pem.as_bytes())?;
        file.write_all(made.member.certificate.as_bytes())?;
        file.sync_all()?;
        fs::rename(&drawn, &path)?;
        File::open(&folder)?.sync_all()?;
        let next = Arc::new(read_next(&folder)?);
        own.push(Arc::clone(&next));
        Ok(next)
    }

    /// The key that followed is the only one from now on; the old one is gone.
    pub fn take(&self, data: &Path) -> io::Result<()> {
        let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if own.len() < 2 {
            return Ok(());
        }
        let folder = data.join(FOLDER);
        fs::rename(folder.join(NEXT_KEY), folder.join(KEY))?;
        File::open(&folder)?.sync_all()?;
        own.remove(0);
        Ok(())
    }
}

fn read_next(folder: &Path) -> io::Result<Identity> {
    let path = folder.join(NEXT_KEY);
    let pem = fs::read(&path).map_err(|error| at(&path, error))?;
    Identity::of_pem(&pem).map_err(|error| at(&path, error))
}

/// What one calls a member by that it is to show this key for.
pub(crate) fn called(id: u64, key: &Key) -> String {
    format!("{}.{}", label(key), crate::plan::server_name(id))
}

/// A label of a name has at most 63 letters.
fn label(key: &Key) -> String {
    format!("k{}", to_hex(&key[..16]))
}

/// What a node shows to one that calls it.
pub(crate) struct Called(pub Arc<Own>);

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Called")
    }
}

impl ResolvesServerCert for Called {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let own = self.0.now();
        let wanted = hello.server_name().and_then(|name| name.split('.').next());
        let is_it = |it: &&Arc<Identity>| wanted == Some(&*label(&it.public));
        let shown = own.iter().find(is_it).or(own.first())?;
        Some(Arc::clone(&shown.certified))
    }
}

/// What a node shows to one that it calls: the newest key at first.
pub(crate) struct Calls {
    pub own: Arc<Own>,
    pub turn: Arc<AtomicUsize>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

impl ResolvesClientCert for Calls {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let own = self.own.now();
        let back = self.turn.load(Ordering::Relaxed) % own.len().max(1);
        own.iter().rev().nth(back).map(|it| Arc::clone(&it.certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
