//! CometBFT's folder, in the node's.
//!
//! ```text
//! cometbft/config/config.toml              made once; its owner may change it
//! cometbft/config/genesis.json             made once, the same for all members
//! cometbft/config/priv_validator_key.json  the member's key, and
//! cometbft/config/node_key.json            the same: a member has one
//! cometbft/data/                           CometBFT's own: blocks, state, what it signed last
//! cometbft/app.sock, rpc.sock              where it reaches the node, and the node reaches it
//! cometbft/cometbft.log                    what it says
//! ```
//!
//! **One key.** Who validates at first are the ledger's founders, under the keys by which the
//! ledger knows them: so the genesis follows from its first block, and evidence names a member.
//! What is signed cannot be taken for one another: TLS puts 64 spaces first, votes on results a
//! tag, CometBFT's votes the length of their message, and its handshakes sign 32 bytes alone.
//!
//! Sockets are in the folder, which is its owner's alone, and not ports: a process that can ask
//! CometBFT can fill its mempool.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::app::Address;
use crate::bundle::BUNDLE_BYTES_MAX;

/// In the data folder of a node.
pub const FOLDER: &str = "cometbft";

const CONFIG: &str = "config/config.toml";
const GENESIS: &str = "config/genesis.json";
const VALIDATOR_KEY: &str = "config/priv_validator_key.json";
const NODE_KEY: &str = "config/node_key.json";
const VALIDATOR_STATE: &str = "data/priv_validator_state.json";
const BLOCKS: &str = "data/blockstore.db";

/// Of a block: some bundles of the largest size.
const BLOCK_BYTES_MAX: usize = 4 * BUNDLE_BYTES_MAX;

/// The socket path that the system takes at most.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub id: u64,
    /// Its public key.
    pub key: [u8; 32],
    /// Where other nodes of CometBFT reach it: host and port.
    pub address: String,
}

/// What CometBFT calls a ledger.
pub fn chain_id(ledger_id: &[u8; 16]) -> String {
    format!("tally-{}", hex(ledger_id))
}

/// What CometBFT calls the holder of a key.
pub fn address_of(key: &[u8; 32]) -> Address {
    let hash: [u8; 32] = Sha256::digest(key).into();
    let mut address = [0; 20];
    address.copy_from_slice(&hash[..20]);
    address
}

/// The name of its node on the network.
pub fn node_id(key: &[u8; 32]) -> String {
    hex(&address_of(key))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the folder of a member. `founders`: of the ledger; `members`: those that it connects to;
/// `seed`: its private key.
pub fn make(
    data: &Path,
    chain_id: &str,
    founders: &[Member],
    members: &[Member],
    own: &Member,
    seed: &[u8; 32],
) -> io::Result<()> {
    let home = data.join(FOLDER);
    for folder in [home.clone(), home.join("config"), home.join("data")] {
        fs::DirBuilder::new().mode(0o700).create(folder)?;
    }
    let [node_key, validator_key] = keys(own, seed);
    for (name, text) in [
        (GENESIS, genesis(chain_id, founders).to_string()),
        validator_key,
        node_key,
        (VALIDATOR_STATE, json!({"height": "0", "round": 0, "step": 0}).to_string()),
        (CONFIG, config(own, &peers(members, own))),
    ] {
        let mut options = OpenOptions::new();
        let file = options.create_new(true).write(true).mode(0o600).open(home.join(name));
        let mut file = file?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    fs::File::open(&home)?.sync_all()
}

/// What holds a member's key, with the file's name: the one that it signs by comes last.
fn keys(own: &Member, seed: &[u8; 32]) -> [(&'static str, String); 2] {
    let private = BASE64_STANDARD.encode([&seed[..], &own.key].concat());
    let private = json!({"type": "tendermint/PrivKeyEd25519", "value": private});
    let validator_key = json!({
        "address": hex(&address_of(&own.key)).to_uppercase(),
        "pub_key": public(&own.key),
        "priv_key": private,
    });
    let node_key = json!({ "priv_key": private });
    [(NODE_KEY, node_key.to_string()), (VALIDATOR_KEY, validator_key.to_string())]
}

fn peers(members: &[Member], own: &Member) -> String {
    let others = members.iter().filter(|it| it.id != own.id);
    let peer = |it: &Member| format!("{}@{}", node_id(&it.key), it.address);
    others.map(peer).collect::<Vec<_>>().join(",")
}

/// Has CometBFT be known by another key from its next start on, and connect to these members.
pub fn rekey(home: &Path, members: &[Member], own: &Member, seed: &[u8; 32]) -> io::Result<()> {
    let config = fs::read_to_string(home.join(CONFIG))?;
    let line = |line: &str| match line.starts_with("persistent_peers =") {
        true => format!("persistent_peers = \"{}\"\n", peers(members, own)),
        false => format!("{line}\n"),
    };
    let config = (CONFIG, config.lines().map(line).collect());
    for (name, text) in std::iter::once(config).chain(keys(own, seed)) {
        let (path, written) = (home.join(name), home.join(format!("{name}.new")));
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).mode(0o600).open(&written);
        let mut file = file?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&written, &path)?;
        fs::File::open(home.join("config"))?.sync_all()?;
    }
    Ok(())
}

/// Whether CometBFT signs by this key from its next start on.
pub fn has_key(home: &Path, key: &[u8; 32]) -> bool {
    let held = fs::read(home.join(VALIDATOR_KEY)).unwrap_or_default();
    serde_json::from_slice::<Value>(&held).is_ok_and(|held| held["pub_key"] == public(key))
}

fn public(key: &[u8; 32]) -> Value {
    json!({"type": "tendermint/PubKeyEd25519", "value": BASE64_STANDARD.encode(key)})
}

/// The time is that of CometBFT's first block, and of none of the ledger's.
fn genesis(chain_id: &str, founders: &[Member]) -> Value {
    let validator = |it: &Member| {
        json!({
            "address": hex(&address_of(&it.key)).to_uppercase(),
            "pub_key": public(&it.key),
            "power": "1",
            "name": format!("member {}", it.id),
        })
    };
    let validators: Vec<Value> = founders.iter().map(validator).collect();
    json!({
        "genesis_time": "2020-01-01T00:00:00Z",
        "chain_id": chain_id,
        "initial_height": "1",
        "consensus_params": {
            "block": {"max_bytes": BLOCK_BYTES_MAX.to_string(), "max_gas": "-1"},
            "evidence": {
                "max_age_num_blocks": "100000",
                "max_age_duration": "172800000000000",
                "max_bytes": "1048576",
            },
            "validator": {"pub_key_types": ["ed25519"]},
            "version": {"app": "0"},
            "abci": {"vote_extensions_enable_height": "0"},
        },
        "validators": validators,
        "app_hash": "",
    })
}

/// What is not said is CometBFT's default. Blocks follow one another at once, as what comes
/// meanwhile gathers for the next; gossip looks every 5 ms, as each look is a part of each block.
fn config(own: &Member, peers: &str) -> String {
    let body_bytes_max = 2 * BUNDLE_BYTES_MAX;
    let (id, address) = (own.id, &own.address);
    format!(
        r#"# Made by `tally cluster init`. What is not said here is CometBFT's default.
proxy_app = "unix://app.sock"
moniker = "member-{id}"
log_level = "error"
filter_peers = true

[rpc]
laddr = "unix://rpc.sock"
max_body_bytes = {body_bytes_max}

[p2p]
laddr = "tcp://{address}"
persistent_peers = "{peers}"
persistent_peers_max_dial_period = "1s"
addr_book_strict = false
allow_duplicate_ip = true
pex = false
flush_throttle_timeout = "2ms"
max_packet_msg_payload_size = 65536
send_rate = 104857600
recv_rate = 104857600

[mempool]
recheck = false
max_tx_bytes = {BUNDLE_BYTES_MAX}
max_txs_bytes = 268435456

[consensus]
timeout_propose = "1s"
timeout_propose_delta = "500ms"
timeout_prevote = "500ms"
timeout_prevote_delta = "250ms"
timeout_precommit = "500ms"
timeout_precommit_delta = "250ms"
timeout_commit = "0s"
create_empty_blocks = false
peer_gossip_sleep_duration = "5ms"

[storage]
discard_abci_responses = true

[tx_index]
indexer = "null"
"#
    )
}

/// A folder that a node can go on with. `founders`: number and key of each, as the ledger names
/// them; `own`: the key of this member, or two while one is being replaced; `sequence`: CometBFT's
/// height of the ledger's last block.
///
/// # Errors
///
/// What is wrong with it, and what to do.
pub fn check(
    data: &Path,
    chain_id: &str,
    founders: &[(u64, [u8; 32])],
    own: &[[u8; 32]],
    sequence: u64,
) -> io::Result<PathBuf> {
    let home = fs::canonicalize(data)?.join(FOLDER);
    let folder = home.display();
    let read = |name: &str| {
        let text = fs::read_to_string(home.join(name)).map_err(|error| {
            let hint = "put the folder back from a copy of it";
            invalid(format!("{folder}/{name} cannot be read: {error}; {hint}"))
        })?;
        let parsed = serde_json::from_str::<Value>(&text);
        parsed.map_err(|error| invalid(format!("{folder}/{name} is damaged: {error}")))
    };
    let given = read(GENESIS)?;
    if given["chain_id"] != chain_id {
        let given = &given["chain_id"];
        return Err(invalid(format!(
            "{folder} is that of chain {given}, and the ledger's is \"{chain_id}\": put the \
             folder back that belongs to this ledger"
        )));
    }
    let keys =
        |it: &Value| it.as_array().map(|all| all.iter().map(|it| it["pub_key"].clone()).collect());
    let given: Option<Vec<Value>> = keys(&given["validators"]);
    let expected: Vec<Value> = founders.iter().map(|(_, key)| public(key)).collect();
    if given.as_ref() != Some(&expected) {
        return Err(invalid(format!(
            "{folder}/{GENESIS} names other validators than the ledger's first block names \
             members: put the file back as `tally cluster init` made it"
        )));
    }
    let held = read(VALIDATOR_KEY)?;
    if own.iter().all(|own| held["pub_key"] != public(own)) {
        return Err(invalid(format!(
            "{folder}/{VALIDATOR_KEY} is another key than that of this member: put the folder \
             back that belongs to this node"
        )));
    }
    let has_blocks = home.join(BLOCKS).exists();
    if sequence > 0 && !(has_blocks && home.join(VALIDATOR_STATE).exists()) {
        return Err(invalid(format!(
            "{folder}/data is gone or begins anew, and the ledger has blocks up to CometBFT's \
             height {sequence}: put it back from a copy, or move the ledger's folders `orders`, \
             `results` and `checkpoints` away and put the first block back, so that both begin \
             anew; a node that forgot what it signed must not start before the others are past it"
        )));
    }
    if home.join("app.sock").as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(invalid(format!(
            "{folder} is too long a path for a socket: choose a data folder nearer to the root"
        )));
    }
    Ok(home)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
