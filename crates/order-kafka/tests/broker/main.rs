//! The same over a real broker, which `scripts/kafka` starts; killed, started again, and its topic
//! taken away. Without the broker's jars these tests fail: `scripts/kafka fetch` gets them.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::{Files, MemoryFiles};
use order::{Delivery, Limits, Orderer, Released};
use order_kafka::broker::Topic;
use order_kafka::{Config, Node, Timing};
use tokio::runtime::Runtime;
use types::{Error, SqlState};

/// Of anything that must happen.
const PATIENCE: Duration = Duration::from_secs(40);

/// Killed when dropped.
struct Broker {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Broker {
    fn start(name: &str) -> Broker {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let port = free_ports();
        let child = run(&folder, port);
        let mut broker = Broker { child, folder, port };
        broker.is_up();
        broker
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn is_up(&mut self) {
        let since = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            let ended = self.child.try_wait().unwrap().is_some();
            assert!(
                !ended && since.elapsed() < PATIENCE,
                "no broker: scripts/kafka fetch gets it, and {} has its log",
                self.folder.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.child = run(&self.folder, self.port);
        self.is_up();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn run(folder: &Path, port: u16) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kafka");
    let mut command = Command::new(script);
    command.arg("run").arg(folder).arg(port.to_string());
    // What is missing is said on stderr.
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// One for clients, and the next for the controller.
fn free_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

struct Member {
    node: Node,
    files: MemoryFiles,
    given: Vec<Delivery>,
}

impl Member {
    fn start(runtime: &Runtime, broker: &Broker, id: u8, files: MemoryFiles, after: u64) -> Member {
        let mut life = [id; 16];
        life[8..].copy_from_slice(&after.to_be_bytes());
        let config = Config {
            proposer: [id; 32],
            ledger_id: [7; 16],
            life,
            limits: Limits::default(),
            timing: Timing::default(),
            clock: Arc::new(|| 5),
            topic: "orders".to_owned(),
        };
        let topic = Topic::new(vec![broker.address()], "orders".to_owned());
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let _inside = runtime.enter();
        let mut node = Node::start(config, Arc::new(topic), shared, after).unwrap();
        let (parameters_hash, names_seen, carried) = ([0; 32], false, 0);
        node.released(Released {
            height: u64::MAX,
            result_hash: [0; 32],
            parameters_hash,
            names_seen,
            carried,
        });
        Member { node, files, given: Vec::new() }
    }

    fn envelopes(&self) -> Vec<Bytes> {
        let contents = self.given.iter().filter_map(|it| it.content.as_ref());
        contents.flat_map(|it| it.envelopes.clone()).collect()
    }
}

/// Until each was given all of these, each once.
fn until_given(members: &mut [Member], wanted: &BTreeSet<Bytes>) {
    let since = Instant::now();
    loop {
        let mut all = true;
        for member in members.iter_mut() {
            while let Some(delivery) = member.node.poll(0) {
                member.given.push(delivery);
            }
            all &= member.envelopes().len() >= wanted.len();
        }
        if all {
            break;
        }
        let standing: Vec<_> = members.iter().map(|it| it.node.standing()).collect();
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {standing:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    for member in members.iter() {
        let given = member.envelopes();
        let distinct: BTreeSet<Bytes> = given.iter().cloned().collect();
        assert_eq!(given.len(), distinct.len(), "an envelope came twice");
        assert_eq!(&distinct, wanted);
        assert_eq!(member.given, members[0].given, "not the same order");
    }
}

fn submit(members: &mut [Member], wanted: &mut BTreeSet<Bytes>, count: usize) {
    for _ in 0..count {
        let envelope = Bytes::from(format!("envelope {}", wanted.len()));
        let member = wanted.len() % members.len();
        let since = Instant::now();
        // A node that has missed the broker for some seconds takes none until it is back.
        while let Err(refused) = members[member].node.submit(envelope.clone()) {
            let code = Error::from(refused.clone()).code();
            assert_eq!(code, SqlState::CANNOT_CONNECT_NOW, "{refused:?}");
            assert!(since.elapsed() < PATIENCE, "still {refused:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        wanted.insert(envelope);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Three members, and what they have ordered.
fn three(runtime: &Runtime, broker: &Broker) -> (Vec<Member>, BTreeSet<Bytes>) {
    let member = |id| Member::start(runtime, broker, id, MemoryFiles::new(), 0);
    let mut members: Vec<Member> = (1..=3).map(member).collect();
    let mut wanted = BTreeSet::new();
    submit(&mut members, &mut wanted, 100);
    until_given(&mut members, &wanted);
    (members, wanted)
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}

/// Killed with appends under way, away for two seconds, and with a member that was away too.
#[test]
fn three_nodes_agree_over_a_broker_that_is_killed() {
    let (runtime, mut broker) = (runtime(), Broker::start("killed"));
    let (mut members, mut wanted) = three(&runtime, &broker);
    for round in 0..2 {
        submit(&mut members, &mut wanted, 50);
        broker.kill();
        submit(&mut members, &mut wanted, 10);
        std::thread::sleep(Duration::from_secs(1));
        broker.start_again();
        submit(&mut members, &mut wanted, 20);
        until_given(&mut members, &wanted);
        // One starts again behind what it has.
        let old = members.remove(round);
        old.node.stop();
        let after = old.given.len() as u64;
        let id = round as u8 + 1;
        let new = Member::start(&runtime, &broker, id, old.files, after);
        members.insert(round, Member { given: old.given, ..new });
    }
    submit(&mut members, &mut wanted, 20);
    until_given(&mut members, &wanted);
    members.iter().for_each(|member| member.node.stop());
}

fn cause(runtime: &Runtime, member: &Member) -> Error {
    let stopped = member.node.clone();
    let wait = async move { tokio::time::timeout(PATIENCE, stopped.stopped()).await };
    runtime.block_on(wait).unwrap_or_else(|_| panic!("goes on: {:?}", member.node.standing()))
}

/// A topic whose first records are gone, one that is gone, and one that was made anew.
#[test]
fn a_topic_that_is_not_what_it_was_stops_its_nodes() {
    let (runtime, broker) = (runtime(), Broker::start("topics"));
    let (mut members, _) = three(&runtime, &broker);
    let client = rskafka::client::ClientBuilder::new(vec![broker.address()]).build();
    let client = runtime.block_on(client).unwrap();
    let unknown = rskafka::client::partition::UnknownTopicHandling::Error;
    let topic = runtime.block_on(client.partition_client("orders", 0, unknown)).unwrap();

    // A member without positions, which begins at the first record.
    runtime.block_on(topic.delete_records(5, 5_000)).unwrap();
    let late = Member::start(&runtime, &broker, 9, MemoryFiles::new(), 0);
    let found = cause(&runtime, &late);
    assert!(found.message().contains("its first records were deleted"), "{found}");

    let controller = client.controller_client().unwrap();
    runtime.block_on(controller.delete_topic("orders", 5_000)).unwrap();
    let found = cause(&runtime, &members[0]);
    assert!(found.message().contains("there is no such topic any more"), "{found}");
    assert!(found.fields().hint.as_ref().is_some_and(|hint| hint.contains("Restore the topic")));

    // Made anew: a member that was away meanwhile finds another topic.
    let old = members.remove(1);
    old.node.stop();
    runtime.block_on(controller.create_topic("orders", 1, 1, 5_000)).unwrap();
    let after = old.given.len() as u64;
    let again = Member::start(&runtime, &broker, 2, old.files, after);
    let found = cause(&runtime, &again);
    assert!(found.message().contains("it ends at record"), "{found}");
}
