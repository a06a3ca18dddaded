//! The ledger's files of another member, read over the network, and the answers to that.
//!
//! ```text
//! request  F | JSON        {"list": "orders"}   {"size": path}   {"read": [path, offset, length]}
//!                          "head"               {"own": height}        {"order": height}
//! answer   JSON; of read: the bytes
//! ```
//!
//! Only what belongs to the ledger can be asked for: no keys, no passwords, no settings. Chunks are
//! bounded, and the reader keeps the last one: files are read from front to back.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cluster::Peers;
use engine::Engine;
use kit::sync::lock;
use ledger::{Files, StorageFile, first_block};
use order::Network;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::orderers::Place;

/// What a request for files begins with.
pub const MARK: u8 = b'F';

/// Of one answer.
const CHUNK_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);
const AT_ONCE: Duration = Duration::from_secs(1);
/// Folders of the ledger, beside which a member's folder has secrets.
pub const FOLDERS: [&str; 5] =
    ["orders", "results", "checkpoints", "order-headers", "result-headers"];

#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
enum Ask {
    List(String),
    Size(String),
    Read(String, u64, u64),
    Head,
    Own(u64),
    /// The hash of a block's order.
    Order(u64),
}

/// The newest block that a member has in its files, and the oldest.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Heads {
    pub height: u64,
    pub hash: String,
    pub order_hash: String,
    pub first: u64,
}

/// One that belongs to the ledger.
fn is_open(path: &str) -> bool {
    let mut parts = path.split('/');
    let folder = parts.next().unwrap_or_default();
    let names = parts.all(|part| !part.is_empty() && part != "." && part != "..");
    names && FOLDERS.contains(&folder)
}

/// The answer to a member's request.
pub fn answer(
    request: &[u8],
    files: &dyn Files,
    place: &dyn Place,
    engine: Option<&Engine>,
) -> io::Result<Bytes> {
    let ask: Ask = serde_json::from_slice(request).map_err(io::Error::other)?;
    let closed = || io::Error::new(io::ErrorKind::PermissionDenied, "no file of the ledger");
    let json = |value: serde_json::Value| Ok(Bytes::from(value.to_string()));
    match ask {
        Ask::List(folder) if folder.is_empty() => {
            let names = files.list("")?.into_iter().filter(|name| FOLDERS.contains(&&**name));
            json(names.collect::<Vec<_>>().into())
        }
        Ask::List(folder) if is_open(&folder) => json(files.list(&folder)?.into()),
        Ask::Size(path) if is_open(&path) => json(size(files, &path)?.into()),
        Ask::Read(path, offset, length) if is_open(&path) => {
            let mut bytes = vec![0; length.min(CHUNK_BYTES) as usize];
            files.open(&path)?.read_at(&mut bytes, offset)?;
            Ok(bytes.into())
        }
        Ask::Own(height) => Ok(place.up_to(height)?.into()),
        // Of one that is released: above, orders may be taken back.
        Ask::Order(height) if engine.is_some_and(|it| it.head().height >= height) => {
            json(ledger::hash::to_hex(&place.hash_of(height)?).into())
        }
        Ask::Head => {
            let starting = || io::Error::other("the node is starting");
            let written = engine.ok_or_else(starting)?.written().map_err(io::Error::other)?;
            let (height, hash) = written.ok_or_else(starting)?;
            let order_hash = ledger::hash::to_hex(&place.hash_of(height)?);
            let first = first_block(files).map_err(io::Error::other)?;
            let hash = ledger::hash::to_hex(&hash);
            json(serde_json::to_value(Heads { height, hash, order_hash, first })?)
        }
        _ => Err(closed()),
    }
}

/// `None`: there is no such file (any more).
fn size(files: &dyn Files, path: &str) -> io::Result<Option<u64>> {
    match files.open(path) {
        Ok(file) => file.size().map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newest block that a member has, and the oldest that it has not pruned.
pub async fn ask_span(peers: &Peers, member: u64) -> io::Result<(u64, u64)> {
    let heads: Heads = ask_soon(peers, member, &Ask::Head).await?;
    Ok((heads.height, heads.first))
}

/// The hash of a block's order, as a member has it.
pub async fn ask_order(peers: &Peers, member: u64, height: u64) -> io::Result<String> {
    ask_soon(peers, member, &Ask::Order(height)).await
}

async fn ask_soon<T: serde::de::DeserializeOwned>(
    peers: &Peers,
    member: u64,
    ask: &Ask,
) -> io::Result<T> {
    let mut request = vec![MARK];
    serde_json::to_writer(&mut request, ask).map_err(io::Error::other)?;
    let call = tokio::time::timeout(AT_ONCE, peers.call(member, request.into()));
    let answer = call.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    serde_json::from_slice(&answer).map_err(io::Error::other)
}

/// The files of one member. Its clones are the same.
#[derive(Clone)]
pub struct RemoteFiles {
    pub from: u64,
    pub peers: Arc<Peers>,
    pub runtime: Arc<Runtime>,
}

impl RemoteFiles {
    fn ask(&self, ask: &Ask) -> io::Result<Bytes> {
        let mut request = vec![MARK];
        serde_json::to_writer(&mut request, ask).map_err(io::Error::other)?;
        let call = self.peers.call(self.from, request.into());
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, call).await });
        answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    fn ask_json<T: serde::de::DeserializeOwned>(&self, ask: &Ask) -> io::Result<T> {
        serde_json::from_slice(&self.ask(ask)?).map_err(io::Error::other)
    }

    /// Of a member that answers at once.
    pub async fn ask_heads(&self) -> Option<Heads> {
        let request = [&[MARK], &b"\"head\""[..]].concat();
        let call = self.peers.call(self.from, request.into());
        let answer = tokio::time::timeout(AT_ONCE, call).await.ok()?.ok()?;
        serde_json::from_slice(&answer).ok()
    }

    pub fn heads(&self) -> io::Result<Heads> {
        self.ask_json(&Ask::Head)
    }

    /// What its orderer goes on with after a block: [`super::orderers::Kind::begin_behind`].
    pub fn own_up_to(&self, height: u64) -> io::Result<Bytes> {
        self.ask(&Ask::Own(height))
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "another member's files are only read")
}

impl Files for RemoteFiles {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.ask_json(&Ask::List(folder.to_owned()))
    }

    fn create_folder(&self, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn sync_folder(&self, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn StorageFile>> {
        Err(refused())
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let size: Option<u64> = self.ask_json(&Ask::Size(path.to_owned()))?;
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("{path}: it is gone"));
        let size = size.ok_or_else(gone)?;
        let (files, path, kept) = (self.clone(), path.to_owned(), Mutex::default());
        Ok(Box::new(RemoteFile { files, path, size, kept }))
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn salt(&self) -> u64 {
        0
    }
}

struct RemoteFile {
    files: RemoteFiles,
    path: String,
    /// When it was opened.
    size: u64,
    /// The chunk that was read last, and where it begins.
    kept: Mutex<(u64, Bytes)>,
}

impl StorageFile for RemoteFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut kept = lock(&self.kept);
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (from, bytes) = &*kept;
            let there = at.checked_sub(*from).and_then(|skip| bytes.get(skip as usize..));
            match there.filter(|there| !there.is_empty()) {
                Some(there) => {
                    let length = there.len().min(buffer.len() - done);
                    buffer[done..done + length].copy_from_slice(&there[..length]);
                    done += length;
                }
                None => {
                    let length = self.size.saturating_sub(at).min(CHUNK_BYTES);
                    if length == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    let bytes = self.files.ask(&Ask::Read(self.path.clone(), at, length))?;
                    if bytes.is_empty() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *kept = (at, bytes);
                }
            }
        }
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn set_size(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Err(refused())
    }
}

#[cfg(test)]
mod tests {
    use super::is_open;

    #[test]
    fn only_the_ledger_is_open() {
        for path in ["orders", "orders/1.log", "checkpoints/7.pack", "order-headers/7.headers"] {
            assert!(is_open(path), "{path}");
        }
        for path in ["", "cluster/key.pem", "orders/../cluster/key.pem", "/etc", "tally.toml", "."]
        {
            assert!(!is_open(path), "{path}");
        }
    }
}
