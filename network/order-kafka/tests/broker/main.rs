//! The same over a real broker, which `scripts/kafka` starts; killed, started again, and its topic
//! taken away. Without the broker's jars these tests fail: `scripts/kafka fetch` gets them.

mod broker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::{Files, MemoryFiles};
use order::{Delivery, Limits, Orderer, Released};
use order_kafka::broker::{Access, Credentials, SaslConfig, Topic, tls};
use order_kafka::record::Cuts;
use order_kafka::{Config, Node, Timing};
use tokio::runtime::Runtime;
use types::{Error, SqlState};

use broker::{Broker, PATIENCE};

fn access(broker: &Broker) -> Access {
    Access { brokers: vec![broker.address()], ..Access::default() }
}

struct Member {
    node: Node,
    files: MemoryFiles,
    given: Vec<Delivery>,
}

impl Member {
    fn start(runtime: &Runtime, broker: &Broker, id: u8, files: MemoryFiles, after: u64) -> Member {
        let mut incarnation = [id; 16];
        incarnation[8..].copy_from_slice(&after.to_be_bytes());
        let config = Config {
            proposer: [id; 32],
            ledger_id: [7; 16],
            incarnation,
            limits: Limits::default(),
            timing: Timing::default(),
            clock: Arc::new(|| 5),
            topic: "orders".to_owned(),
        };
        let topic = Topic::new(access(broker), "orders".to_owned());
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
        // One starts again after what it has.
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

/// What a topic has to be before a ledger begins in it.
#[test]
fn a_topic_is_made_or_checked_before_a_ledger_begins() {
    let (runtime, broker) = (runtime(), Broker::start("begun"));
    let begin = |name: &str, ledger: u8| {
        let topic = Topic::new(access(&broker), name.to_owned());
        let cuts = Cuts::of(&Limits::default());
        runtime.block_on(topic.begin([ledger; 16], [ledger; 16], cuts))
    };
    assert!(begin("orders", 7).unwrap(), "it was made");
    let used = begin("orders", 8).unwrap_err();
    assert!(used.message().contains(&format!("the topic of ledger {}", "07".repeat(16))), "{used}");
    let client = rskafka::client::ClientBuilder::new(vec![broker.address()]).build();
    let client = runtime.block_on(client).unwrap();
    let controller = client.controller_client().unwrap();
    for (name, partitions) in [("two", 2), ("empty", 1)] {
        runtime.block_on(controller.create_topic(name, partitions, 1, 5_000)).unwrap();
    }
    let two = begin("two", 7).unwrap_err();
    assert!(two.message().contains("it has 2 partitions"), "{two}");
    assert!(!begin("empty", 7).unwrap(), "it was there");
    let nowhere = Access { brokers: vec!["127.0.0.1:1".to_owned()], ..Access::default() };
    let topic = Topic::new(nowhere, "orders".to_owned());
    let away = runtime.block_on(topic.begin([7; 16], [7; 16], Cuts::of(&Limits::default())));
    assert_eq!(away.unwrap_err().code(), SqlState::CANNOT_CONNECT_NOW);

    // Nodes go on in a topic whose marker was there.
    let mut members: Vec<Member> =
        (1..=2).map(|id| Member::start(&runtime, &broker, id, MemoryFiles::new(), 0)).collect();
    let mut wanted = BTreeSet::new();
    submit(&mut members, &mut wanted, 20);
    until_given(&mut members, &wanted);
}

/// Over TLS, by each mechanism; and what is said where the node has the wrong words.
#[test]
fn brokers_are_reached_over_tls_by_users() {
    let (runtime, broker) = (runtime(), Broker::start_secure("secure"));
    let certificate = std::fs::read(broker.certificate()).unwrap();
    let tls = tls(&certificate, None).unwrap();
    let user = |password: &str| Credentials::new("tally".to_owned(), password.to_owned());
    let begin = |name: &str, tls, sasl| {
        let access = Access { brokers: vec![broker.address()], tls, sasl };
        let topic = Topic::new(access, name.to_owned());
        runtime.block_on(topic.begin([7; 16], [8; 16], Cuts::of(&Limits::default())))
    };
    for (name, sasl) in [
        ("plain", SaslConfig::Plain(user("secret"))),
        ("scram-256", SaslConfig::ScramSha256(user("secret"))),
        ("scram-512", SaslConfig::ScramSha512(user("secret"))),
    ] {
        assert!(begin(name, Some(Arc::clone(&tls)), Some(sasl)).unwrap(), "{name}");
    }
    let wrong = Some(SaslConfig::ScramSha512(user("guessed")));
    let (none, some) = (None, Some(SaslConfig::Plain(user("secret"))));
    for (tls, sasl) in [(Some(Arc::clone(&tls)), wrong), (Some(tls), none), (None, some)] {
        let refused = begin("orders", tls, sasl).unwrap_err();
        assert_eq!(refused.code(), SqlState::CANNOT_CONNECT_NOW, "{refused}");
    }
    let strange = order_kafka::broker::tls(b"no certificate", None).unwrap_err();
    assert!(strange.message().contains("there is no certificate"), "{strange}");
}
