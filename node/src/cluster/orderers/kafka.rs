//! Kafka: the nodes read one topic, and each writes the ledger's orders for itself.
//!
//! Nothing is asked of the other members for the order: a node that reaches the brokers orders,
//! whatever became of the others. Their votes are another matter ([`cluster::votes`]).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use cluster::Answer;
use engine::{Engine, Journal, RemoteOrderer};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::{Files, Hash, first_block};
use order_kafka::broker::{self, Access, Credentials, SaslConfig, Topic};
use order_kafka::record::Cuts;
use order_kafka::{Config, Node, Timing};
use tracing::{error, info};
use types::{Error, Height};

use super::listener::Listener;
use super::place::written_hash_of;
use super::timekeeping::Timekeeping;
use super::{Beginning, OfTopic, Place, Standing};
use crate::config::{KafkaSasl, Settings};
use crate::database::{block_limits, clock};
use crate::folders;
use crate::metrics::Order;
use crate::secrets;

const LOOK_EVERY: Duration = Duration::from_millis(200);

struct Kafka {
    node: Node,
    files: Arc<dyn Files>,
    topic: String,
    brokers: Vec<String>,
    time: Arc<Timekeeping>,
}

/// The topic of a new ledger.
pub fn prepare(settings: &Settings, ledger_id: [u8; 16]) -> Result<String> {
    let name = &settings.kafka_topic;
    let topic = Topic::new(access(settings)?, name.clone());
    let cuts = Cuts::of(&block_limits(settings).of_batches());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let log = secrets::random()?;
    let is_made = runtime.block_on(topic.begin(ledger_id, log, cuts))?;
    let made = if is_made { "was made" } else { "was there" };
    Ok(format!(
        "the topic {name:?} {made}. Its brokers' own rule says how long they keep records (a week \
         where nothing is set), and a member that was away for longer takes the ledger from \
         another one; to keep them all:\n\n    kafka-configs.sh --bootstrap-server {} --alter \
         --entity-type topics \\\n        --entity-name {name} --add-config \
         retention.ms=-1,retention.bytes=-1,cleanup.policy=delete\n",
        settings.kafka_brokers.0[0]
    ))
}

/// As the settings say that brokers are reached.
fn access(settings: &Settings) -> Result<Access> {
    let Settings { kafka_brokers, kafka_topic, kafka_tls_ca, .. } = settings;
    if kafka_brokers.0.is_empty() || kafka_topic.is_empty() {
        let what = "the ledger is ordered by a topic of Kafka, and no brokers are set";
        let hint = "Set kafka_brokers and kafka_topic: in tally.toml of the member's folder, or \
                    with tally cluster init by --set kafka_brokers=HOST:PORT --set \
                    kafka_topic=NAME.";
        return Err(folders::refused(what).with_hint(hint).into());
    }
    let read = |key: &str, path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read `{key}`, {}", path.display()))
    };
    let tls = match kafka_tls_ca {
        None => None,
        Some(path) => {
            let authorities = read("kafka_tls_ca", path)?;
            let own = settings.kafka_tls_certificate.as_ref().zip(settings.kafka_tls_key.as_ref());
            let own = own.map(|(chain, key)| {
                let chain = read("kafka_tls_certificate", chain)?;
                anyhow::Ok((chain, read("kafka_tls_key", key)?))
            });
            let own = own.transpose()?;
            let own = own.as_ref().map(|(chain, key)| (&chain[..], &key[..]));
            Some(broker::tls(&authorities, own).context("no TLS to brokers by `kafka_tls_ca`")?)
        }
    };
    let credentials = || {
        let path = settings.kafka_password_file.as_deref().context("no `kafka_password_file`")?;
        let password = String::from_utf8(read("kafka_password_file", path)?);
        let password = password.context("the password of `kafka_password_file` is no text")?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        ensure!(!password.is_empty(), "`kafka_password_file` is empty");
        anyhow::Ok(Credentials::new(settings.kafka_user.clone(), password))
    };
    let sasl = match settings.kafka_sasl {
        KafkaSasl::None => None,
        KafkaSasl::Plain => Some(SaslConfig::Plain(credentials()?)),
        KafkaSasl::ScramSha256 => Some(SaslConfig::ScramSha256(credentials()?)),
        KafkaSasl::ScramSha512 => Some(SaslConfig::ScramSha512(credentials()?)),
    };
    Ok(Access { brokers: kafka_brokers.0.clone(), tls, sasl })
}

pub async fn begin(beginning: Beginning<'_>) -> Result<(Arc<dyn Place>, Journal)> {
    let Beginning { plan, id, files, log, replica, limits, settings, .. } = beginning;
    let Beginning { members, engine, ahead_max, peers, .. } = beginning;
    let access = access(settings)?;
    let brokers = access.brokers.clone();
    let proposer = plan.keys()?.remove(&id).context("this node is not among the members")?;
    let time = Timekeeping::begin(id, clock(), ahead_max, peers, Arc::clone(&members));
    let config = Config {
        proposer,
        ledger_id: replica.ledger_id(),
        incarnation: secrets::random()?,
        limits: limits.of_batches(),
        timing: Timing::default(),
        clock: time.time(),
        topic: settings.kafka_topic.clone(),
    };
    let topic = settings.kafka_topic.clone();
    let log_of_topic = Arc::new(Topic::new(access, topic.clone()));
    let after = replica.head().height;
    let node = Node::start(config, log_of_topic, Arc::clone(&files), after);
    let node = node.context("cannot keep where this node stands in the topic")?;
    tokio::spawn(
        Listener { id, members, engine: Arc::clone(&engine), followed: Box::new(|_| ()) }.run(),
    );
    tokio::spawn(halt_with(node.clone(), engine));
    tokio::spawn(tell_of(node.clone()));
    Ok((Arc::new(Kafka { node, files, topic, brokers, time }), Journal::from(log)))
}

/// A topic that this node cannot go on in stops it, before it executes another order.
async fn halt_with(node: Node, engine: Arc<OnceLock<Arc<Engine>>>) {
    let cause: Error = node.stopped().await;
    let hint = cause.fields().hint.as_deref().unwrap_or_default();
    error!(%cause, hint, "this node takes no part in the order any more");
    loop {
        if let Some(engine) = engine.get() {
            return engine.halt(cause);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// That brokers cannot be reached the node's own reader says.
async fn tell_of(node: Node) {
    let mut was_away = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let is_away = node.standing().away.is_some();
        if was_away && !is_away {
            info!("the brokers answer again");
        }
        was_away = is_away;
    }
}

impl Place for Kafka {
    fn orderer(&self) -> RemoteOrderer {
        Box::new(self.node.clone())
    }

    fn standing(&self) -> Standing {
        let order_kafka::Standing { offset, sequence, away, stopped } = self.node.standing();
        let (topic, brokers) = (self.topic.clone(), self.brokers.clone());
        Standing::Kafka(OfTopic { topic, brokers, offset, cut: sequence, away, stopped })
    }

    fn order(&self) -> Order {
        let order_kafka::Standing { offset, sequence, away, stopped } = self.node.standing();
        let (is_away, is_stopped) = (away.is_some(), stopped.is_some());
        Order::Kafka(crate::metrics::OfTopic { offset, cut_height: sequence, is_away, is_stopped })
    }

    fn clocks(&self) -> BTreeMap<u64, i64> {
        self.time.ahead_us()
    }

    fn clock_trouble(&self) -> Option<String> {
        self.time.trouble()
    }

    fn answer(&self, request: Bytes) -> BoxFuture<'static, Answer> {
        if let Some(time) = self.time.answer(&request) {
            return async move { Ok(time) }.boxed();
        }
        let what = "members of a cluster by Kafka say no more about the order to each other";
        async move { Err(io::Error::other(what)) }.boxed()
    }

    fn hash_of(&self, height: Height) -> io::Result<Hash> {
        written_hash_of(&*self.files, height)
    }

    fn first_height(&self) -> Height {
        first_block(&*self.files).unwrap_or(0)
    }

    fn up_to(&self, height: Height) -> io::Result<Vec<u8>> {
        Ok(self.node.position_up_to(height))
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.node.stop();
        async {}.boxed()
    }

    fn rest(&self) -> io::Result<()> {
        Ok(())
    }
}
