//! The real CometBFT, as a child of each node, in its home and by its sockets. `scripts/cometbft
//! fetch` builds it; `COMETBFT` says where it is.
//!
//! A node's ledger is what it was given, in memory, and its results are hashes over that.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use ed25519_zebra::{SigningKey, VerificationKey};
use ledger::Hash;
use order::{Limits, Orderer, Proposal, Released};
use order_comet::home::{self, Member as Founder};
use order_comet::{
    Comet, Config, Keys, LAG, MisbehaviourKind, Settings, Start, Validators, height_of,
};
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tendermint_proto::google::protobuf::Timestamp;
use tendermint_proto::v0_38::types::{CanonicalBlockId, CanonicalPartSetHeader, CanonicalVote};

/// Of anything that must happen.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(5);
const LEDGER: [u8; 16] = [7; 16];

fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("COMETBFT").map(PathBuf::from);
    let program = named.unwrap_or_else(|| root.join("target/clients/cometbft-v0.39.4/cometbft"));
    assert!(program.is_file(), "no CometBFT at {}: scripts/cometbft fetch", program.display());
    program
}

/// Of one node: what it has executed.
#[derive(Clone)]
struct Ledger {
    contents: Vec<Proposal>,
    results: Vec<Hash>,
}

impl Ledger {
    fn new() -> Ledger {
        Ledger { contents: Vec::new(), results: vec![[9; 32]] }
    }

    /// As a crash leaves it that takes the last blocks.
    fn truncate(&mut self, blocks: usize) {
        self.contents.truncate(blocks);
        self.results.truncate(blocks + 1);
    }

    fn start(&self, keys: &Keys) -> Start {
        let height = self.contents.len() as u64;
        let known = height.saturating_sub(LAG + 1)..=height;
        let last = self.contents.last().cloned();
        Start {
            sequence: last.as_ref().map_or(0, |last| height_of(&last.proposer)),
            height,
            time_us: last.as_ref().map_or(i64::MIN, |last| last.time_us),
            last,
            results: known.map(|height| (height, self.results[height as usize])).collect(),
            validators: Validators::new(BTreeMap::from([(0, keys.clone())]), []),
        }
    }

    fn take(&mut self, content: Proposal) -> Released {
        let mut hash = Sha256::new();
        hash.update(self.results.last().unwrap());
        hash.update(content.encode());
        let result_hash: Hash = hash.finalize().into();
        self.contents.push(content);
        self.results.push(result_hash);
        let height = self.contents.len() as u64;
        let (parameters_hash, names_seen, carried) = ([7; 32], false, 0);
        Released { height, result_hash, parameters_hash, names_seen, carried }
    }

    fn envelopes(&self) -> Vec<Bytes> {
        self.contents.iter().flat_map(|content| content.envelopes.clone()).collect()
    }
}

struct Member {
    own: Founder,
    data: PathBuf,
    ledger: Ledger,
    comet: Option<Comet>,
}

struct Cluster {
    folder: tempfile::TempDir,
    founders: Vec<Founder>,
    members: Vec<Member>,
    wanted: BTreeSet<Bytes>,
}

fn seed_of(id: u64) -> [u8; 32] {
    [id as u8; 32]
}

impl Cluster {
    fn start(nodes: u64) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let ports = free_ports(nodes as u16);
        let founder = |id: u64| {
            let key = VerificationKey::from(&SigningKey::from(seed_of(id)));
            let address = format!("127.0.0.1:{}", ports + id as u16 - 1);
            Founder { id, key: key.into(), address }
        };
        let founders: Vec<Founder> = (1..=nodes).map(founder).collect();
        let member = |own: &Founder| {
            let data = folder.path().join(own.id.to_string());
            std::fs::create_dir(&data).unwrap();
            Member { own: own.clone(), data, ledger: Ledger::new(), comet: None }
        };
        let members = founders.iter().map(member).collect();
        let mut cluster = Cluster { folder, founders, members, wanted: BTreeSet::new() };
        for node in 0..cluster.members.len() {
            cluster.make_home(node);
            cluster.run(node);
        }
        cluster
    }

    fn make_home(&self, node: usize) {
        let Member { own, data, .. } = &self.members[node];
        let chain = home::chain_id(&LEDGER);
        home::make(data, &chain, &self.founders, &self.founders, own, &seed_of(own.id)).unwrap();
    }

    fn run(&mut self, node: usize) {
        static STARTS: AtomicU64 = AtomicU64::new(1);
        let Member { own, data, ledger, .. } = &self.members[node];
        let chain_id = home::chain_id(&LEDGER);
        let keys: Vec<(u64, [u8; 32])> = self.founders.iter().map(|it| (it.id, it.key)).collect();
        let start = ledger.start(&keys.iter().map(|(_, key)| *key).collect());
        let home = home::check(data, &chain_id, &keys, &[own.key], start.sequence).unwrap();
        let instance = STARTS.fetch_add(1, Ordering::SeqCst);
        let config = Config { limits: Limits::default(), lag: LAG, instance, patience_ms: 5_000 };
        let members = keys.into_iter().collect::<BTreeMap<_, _>>();
        let settings = Settings { home, program: program(), chain_id, members };
        let comet = Comet::start(settings, config, start).unwrap();
        self.members[node].comet = Some(comet);
    }

    fn stop(&mut self, node: usize) {
        self.members[node].comet.take().unwrap().stop();
    }

    /// Executes what was delivered.
    fn poll(&mut self) {
        for Member { comet, ledger, .. } in &mut self.members {
            let Some(comet) = comet else { continue };
            while let Some(delivery) = comet.poll(0) {
                if let Some(content) = delivery.content {
                    comet.released(ledger.take(content));
                }
            }
        }
    }

    fn submit(&mut self, count: usize) {
        for _ in 0..count {
            let envelope = Bytes::from(format!("envelope {}", self.wanted.len()));
            let running = self.members.iter_mut().filter_map(|it| it.comet.as_mut());
            let mut running: Vec<&mut Comet> = running.collect();
            let node = self.wanted.len() % running.len();
            running[node].submit(envelope.clone()).unwrap();
            self.wanted.insert(envelope);
            std::thread::sleep(PAUSE / 5);
            self.poll();
        }
    }

    fn until(&mut self, what: &str, so: impl Fn(&Cluster) -> bool) {
        let since = Instant::now();
        while !so(self) {
            let reported = || {
                let standing = |it: &Member| it.comet.as_ref().map(Comet::standing);
                let all: Vec<_> = self.members.iter().map(standing).collect();
                let logs: Vec<String> = self.members.iter().map(|it| log_of(&it.data)).collect();
                format!("{all:?}\n{}", logs.join("\n---\n"))
            };
            assert!(since.elapsed() < PATIENCE, "waited in vain for {what}: {}", reported());
            std::thread::sleep(PAUSE);
            self.poll();
        }
    }

    /// Until each that runs was given all, each once, in one order.
    fn settle(&mut self) {
        let count = self.wanted.len();
        self.until("all to be ordered", |cluster| {
            let running = cluster.members.iter().filter(|it| it.comet.is_some());
            running.clone().all(|it| it.ledger.envelopes().len() >= count)
        });
        // At least once is what is promised; without faults it is once.
        let running = self.members.iter().filter(|it| it.comet.is_some());
        let all: Vec<&Ledger> = running.map(|it| &it.ledger).collect();
        let longest = all.iter().max_by_key(|it| it.contents.len()).unwrap();
        for ledger in &all {
            assert_eq!(ledger.contents, longest.contents[..ledger.contents.len()]);
            let distinct: BTreeSet<Bytes> = ledger.envelopes().into_iter().collect();
            assert_eq!(distinct, self.wanted);
        }
    }

    /// CometBFT's height, when nothing has come for a while.
    fn rest(&mut self, node: usize) -> u64 {
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            std::thread::sleep(PAUSE);
            self.poll();
        }
        self.members[node].comet.as_ref().unwrap().standing().height
    }

    fn confirm(&mut self, node: usize) -> u64 {
        let (teller, reported) = channel();
        let comet = self.members[node].comet.as_mut().unwrap();
        assert!(comet.confirm(Box::new(move |height| _ = teller.send(height))));
        let since = Instant::now();
        loop {
            if let Ok(height) = reported.try_recv() {
                return height;
            }
            assert!(since.elapsed() < PATIENCE, "nothing is confirmed");
            std::thread::sleep(PAUSE);
            self.poll();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(comet) = member.comet.take() {
                comet.stop();
            }
        }
        assert!(self.folder.path().exists());
    }
}

fn log_of(data: &Path) -> String {
    let log = data.join("cometbft/cometbft.log");
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// Whose home this is, by what the system says of processes.
fn child_of(data: &Path) -> Option<Pid> {
    let home = std::fs::canonicalize(data).unwrap().join("cometbft");
    let home = home.to_str().unwrap();
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == home.as_bytes()).then(|| Pid::from_raw(id))?
    })
}

/// The first of so many ports in a row that are free.
fn free_ports(count: u16) -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let apart = 20 * CALLS.fetch_add(1, Ordering::SeqCst);
    let from = 33_000 + (std::process::id() % 9_000) as u16 + apart;
    let free = |port: &u16| {
        let bound: Vec<_> =
            (*port..port + count).map(|it| TcpListener::bind(("127.0.0.1", it))).collect();
        bound.iter().all(Result::is_ok)
    };
    (from..60_000).step_by(count.into()).find(free).unwrap()
}

/// Of CometBFT itself, by its socket.
fn ask(data: &Path, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut stream = UnixStream::connect(data.join("cometbft/rpc.sock")).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST / HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n\
         {body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, answer) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].clone()
}

const PREVOTE: i32 = 1;
/// When the votes say that they were given: 2023-11-14 22:13:20 UTC.
const GIVEN_S: i64 = 1_700_000_000;

/// A member's vote for a block of this hash, as CometBFT's JSON has it.
fn vote(own: &Founder, index: usize, height: i64, hash: u8) -> Value {
    let (hash, seconds) = ([hash; 32], GIVEN_S);
    let part_set_header = Some(CanonicalPartSetHeader { total: 1, hash: hash.to_vec() });
    let said = CanonicalVote {
        r#type: PREVOTE,
        height,
        round: 0,
        block_id: Some(CanonicalBlockId { hash: hash.to_vec(), part_set_header }),
        timestamp: Some(Timestamp { seconds, nanos: 0 }),
        chain_id: home::chain_id(&LEDGER),
    };
    let signed = SigningKey::from(seed_of(own.id)).sign(&said.encode_length_delimited_to_vec());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    json!({
        "type": PREVOTE,
        "height": height.to_string(),
        "round": 0,
        "block_id": {"hash": hex(&hash), "parts": {"total": 1, "hash": hex(&hash)}},
        "timestamp": "2023-11-14T22:13:20Z",
        "validator_address": hex(&home::address_of(&own.key)),
        "validator_index": index,
        "signature": BASE64_STANDARD.encode(signed.to_bytes()),
    })
}

/// One that signs two blocks of one height is convicted by the others, wherever that is told.
#[test]
fn a_validator_that_signs_twice_is_named_by_all() {
    let mut cluster = Cluster::start(4);
    cluster.submit(20);
    cluster.settle();
    let data = cluster.members[0].data.clone();
    let height = 2;
    let block = ask(&data, "block", json!({"height": height.to_string()}));
    let validators = ask(&data, "validators", json!({"height": height.to_string()}));
    let liar = cluster.founders[3].clone();
    let address = home::address_of(&liar.key).map(|byte| format!("{byte:02X}")).concat();
    let index = validators["validators"].as_array().unwrap().iter();
    let index = index.clone().position(|it| it["address"] == *address).unwrap();
    let evidence = json!({
        "type": "tendermint/DuplicateVoteEvidence",
        "value": {
            "vote_a": vote(&liar, index, height, 1),
            "vote_b": vote(&liar, index, height, 2),
            "TotalVotingPower": "4",
            "ValidatorPower": "1",
            "Timestamp": block["block"]["header"]["time"],
        },
    });
    ask(&data, "broadcast_evidence", json!({"evidence": evidence}));
    let convicted = |cluster: &Cluster| {
        cluster.members.iter().all(|member| {
            let found = member.comet.as_ref().map(Comet::misbehaviour).unwrap_or_default();
            matches!(&found[..], [one] if one.member == liar.id && one.height == height as u64
                && one.kind == MisbehaviourKind::DuplicateVote)
        })
    };
    cluster.submit(10);
    cluster.until("a conviction", convicted);
    cluster.settle();
    cluster.stop(1);
    cluster.run(1);
    cluster.until("it to be remembered", convicted);

    // It has no word any more: the others are all that are needed, and they go on.
    let left = |data: &Path| {
        let found = ask(data, "validators", json!({}));
        let found = found["validators"].as_array().unwrap().clone();
        found.iter().map(|it| it["address"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    cluster.submit(10);
    cluster.settle();
    assert!(left(&data).len() == 3 && !left(&data).contains(&address), "{:?}", left(&data));
    cluster.stop(3);
    cluster.submit(10);
    cluster.settle();
    // One that begins again comes to the same validators, or its blocks would not be the others'.
    cluster.stop(1);
    std::fs::remove_dir_all(cluster.members[1].data.join(home::FOLDER)).unwrap();
    cluster.members[1].ledger = Ledger::new();
    cluster.make_home(1);
    cluster.run(1);
    cluster.submit(10);
    cluster.settle();
}

#[test]
fn one_validator_orders_rests_and_goes_on() {
    let mut cluster = Cluster::start(1);
    cluster.submit(50);
    cluster.settle();
    let resting = cluster.rest(0);
    assert_eq!(cluster.rest(0), resting, "an idle ledger makes blocks");
    assert_eq!(cluster.confirm(0), cluster.members[0].ledger.contents.len() as u64);

    // A batch for what earlier blocks deferred.
    let before = cluster.members[0].ledger.contents.len();
    cluster.members[0].comet.as_mut().unwrap().nudge();
    cluster.until("an empty batch", |it| it.members[0].ledger.contents.len() > before);
    assert!(cluster.members[0].ledger.contents.last().unwrap().envelopes.is_empty());

    // The same start again, one that lacks the last blocks, and one that lacks all.
    for kept in [usize::MAX, 2, 0] {
        cluster.stop(0);
        assert_eq!(child_of(&cluster.members[0].data), None, "it outlives its node");
        let whole = cluster.members[0].ledger.contents.clone();
        cluster.members[0].ledger.truncate(kept.min(whole.len()));
        cluster.run(0);
        let count = whole.len();
        cluster.until("the replay", |it| it.members[0].ledger.contents.len() >= count);
        assert_eq!(cluster.members[0].ledger.contents, whole);
        cluster.submit(10);
        cluster.settle();
    }

    // CometBFT is killed, and started again by its node.
    let child = child_of(&cluster.members[0].data).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    cluster.submit(10);
    cluster.settle();
}

#[test]
fn four_validators_bear_one_that_stops_and_one_that_begins_again() {
    let mut cluster = Cluster::start(4);
    cluster.submit(60);
    cluster.settle();
    let resting = cluster.rest(0);
    assert_eq!(cluster.rest(0), resting, "an idle ledger makes blocks");

    cluster.stop(3);
    cluster.submit(30);
    cluster.settle();
    let kept = cluster.members[3].ledger.contents.len() - 1;
    cluster.members[3].ledger.truncate(kept);
    cluster.run(3);
    cluster.settle();

    // From scratch: it is sent all blocks, and executes them.
    cluster.stop(1);
    std::fs::remove_dir_all(cluster.members[1].data.join(home::FOLDER)).unwrap();
    cluster.members[1].ledger = Ledger::new();
    cluster.submit(10);
    cluster.make_home(1);
    cluster.run(1);
    cluster.submit(10);
    cluster.settle();
    let height = cluster.members.iter().map(|it| it.ledger.contents.len()).max().unwrap();
    assert!(cluster.confirm(1) >= height as u64);
}
