//! Who the members of a cluster are, as it stands in files of each node's folder.
//!
//! ```text
//! cluster/plan.toml         the same for all: ledger id, members with address and certificate
//! cluster/node.toml         which of them this is
//! cluster/key.pem           its key, for its owner's eyes only; see [`own`](crate::own)
//! ```

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519};
use serde::{Deserialize, Serialize};

use crate::members::{Known, Membership};

/// The folder of these files, in the data folder.
pub const FOLDER: &str = "cluster";

const PLAN: &str = "plan.toml";
const NODE: &str = "node.toml";
pub(crate) const KEY: &str = "key.pem";

/// What all members agree on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of the ledger, 32 hexadecimal digits.
    pub ledger_id: String,
    /// What orders the ledger, as its first block names it.
    #[serde(default = "raft")]
    pub orderer: String,
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// From 1 on, never used again.
    pub id: u64,
    /// Where other members reach it: a host or an address, and a port.
    pub address: String,
    /// Its public key: 64 hexadecimal digits.
    pub key: String,
    /// In PEM. Only its own is of use to a node.
    #[serde(default)]
    pub certificate: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    id: u64,
}

/// A member and its key, in PEM.
pub struct Made {
    pub member: Member,
    pub key_pem: String,
}

impl Made {
    /// Draws a key and signs a certificate with it.
    pub fn new(id: u64, address: String) -> io::Result<Made> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(io::Error::other)?;
        let params = CertificateParams::new(vec![server_name(id)]);
        let mut params = params.map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, server_name(id));
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let hex = key.public_key_raw().iter().map(|byte| format!("{byte:02x}")).collect();
        let member = Member { id, address, key: hex, certificate: certificate.pem() };
        Ok(Made { member, key_pem: key.serialize_pem() })
    }

    /// Writes what a node needs into its data folder.
    pub fn write(&self, data: &Path, plan: &Plan) -> io::Result<()> {
        let folder = data.join(FOLDER);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        let plan = toml::to_string(plan).map_err(io::Error::other)?;
        let node = toml::to_string(&Node { id: self.member.id }).map_err(io::Error::other)?;
        for (name, text) in [(PLAN, &plan), (NODE, &node), (KEY, &self.key_pem)] {
            let mut options = OpenOptions::new();
            let mut file =
                options.create_new(true).write(true).mode(0o600).open(folder.join(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        fs::File::open(&folder)?.sync_all()
    }
}

fn raft() -> String {
    "raft".to_owned()
}

/// The name in a node's certificate.
pub(crate) fn server_name(id: u64) -> String {
    format!("node-{id}.tally")
}

impl Plan {
    /// Of a node's data folder, with its number; `None`: it is in no cluster.
    pub(crate) fn read_of_node(data: &Path) -> io::Result<Option<(Plan, u64)>> {
        let folder = data.join(FOLDER);
        if !folder.exists() {
            return Ok(None);
        }
        let plan: Plan = read_toml(&folder.join(PLAN))?;
        let node: Node = read_toml(&folder.join(NODE))?;
        plan.check(node.id).map_err(|error| at(&folder, error))?;
        Ok(Some((plan, node.id)))
    }

    /// Has the file name the members that the ledger names, so that a start without a ledger finds
    /// them, under their addresses and by their keys. Whether it did not.
    pub fn follow(data: &Path, membership: &Membership) -> io::Result<bool> {
        let folder = data.join(FOLDER);
        let path = folder.join(PLAN);
        let before: Plan = read_toml(&path)?;
        let member = |(id, Known { key, address, .. }): (&u64, &Known)| {
            let certificate = before.member(*id).map(|member| member.certificate.clone());
            let certificate = certificate.unwrap_or_default();
            Member {
                id: *id,
                address: address.clone(),
                key: ledger::hash::to_hex(key),
                certificate,
            }
        };
        let members: Vec<Member> = membership.0.iter().map(member).collect();
        if members == before.members {
            return Ok(false);
        }
        let text = toml::to_string(&Plan { members, ..before }).map_err(io::Error::other)?;
        let written = folder.join(format!("{PLAN}.new"));
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(true).write(true).mode(0o600).open(&written)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&written, &path)?;
        fs::File::open(&folder)?.sync_all()?;
        Ok(true)
    }

    fn check(&self, id: u64) -> io::Result<()> {
        let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        if self.keys()?.len() != self.members.len() {
            return invalid("two members have the same number");
        }
        if !self.members.iter().any(|member| member.id == id) {
            return invalid("this node is not among the members");
        }
        Ok(())
    }

    pub fn member(&self, id: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Public keys by number.
    pub fn keys(&self) -> io::Result<BTreeMap<u64, [u8; 32]>> {
        let key = |member: &Member| {
            let key = ledger::hash::hash_from_hex(&member.key);
            let what = || io::Error::other(format!("the key of member {} is none", member.id));
            Ok((member.id, key.map_err(|_| what())?))
        };
        self.members.iter().map(key).collect()
    }

    pub fn membership(&self) -> io::Result<Membership> {
        Membership::parse(&self.founders()).map_err(io::Error::other)
    }

    /// As it stands in the ledger's first block: numbers, keys and addresses.
    pub fn founders(&self) -> String {
        let one = |member: &Member| format!("{} {} {}", member.id, member.key, member.address);
        self.members.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<T> {
    let text = fs::read_to_string(path).map_err(|error| at(path, error))?;
    let read = toml::from_str(&text);
    read.map_err(|error| at(path, io::Error::new(io::ErrorKind::InvalidData, error.to_string())))
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
