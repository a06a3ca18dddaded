//! Access to Kafka's brokers, by the client library rskafka.
//!
//! *Three connections.* Brokers answer the requests of a connection in turn, so a fetch that waits
//! for records would delay whatever follows it on the same connection.
//!
//! *No retries.* A connection on which a request failed is not used again, and nothing is retried
//! here. The caller first finds out whether the topic is still the same one, and then asks again.
//!
//! **Settings of the topic that are checked.** That it has one partition, by asking. That it is not
//! compacted: a compacted topic rejects records without a key. That this node may write, by writing
//! the marker when the ledger begins. How long records are kept cannot be asked through rskafka.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::sync::lock;
use rskafka::BackoffConfig;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, sleep, timeout};
use types::{Error as Refusal, SqlState};

pub use rskafka::client::{Credentials, SaslConfig};

use crate::record::{Cuts, Drawn, Marker, Record as Kept};
use crate::{Log, LogError};

/// Of one fetch; a larger record comes alone.
const FETCH_BYTES_MAX: i32 = 4 << 20;
/// A fetch that finds nothing is answered after so long.
const FETCH_WAIT_MS: i32 = 500;
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(4);
/// The brokers' own default, and what they refuse if it is above their number.
const REPLICAS: [i16; 2] = [-1, 1];

/// For a topic that was just made to have a leader.
const MADE_PATIENCE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(200);

/// Where brokers are, and what they ask of a client.
#[derive(Clone, Default)]
pub struct Access {
    /// `host:port` each, of which one has to answer to find the others.
    pub brokers: Vec<String>,
    pub tls: Option<Arc<ClientConfig>>,
    pub sasl: Option<SaslConfig>,
}

/// TLS to brokers for whom one of these authorities vouches, with a certificate of the node's own
/// and its key if they ask for one. All in PEM.
///
/// # Errors
///
/// What cannot be read.
pub fn tls(authorities: &[u8], own: Option<(&[u8], &[u8])>) -> types::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(authorities)?);
    if added == 0 {
        return Err(unusable("no certificate of an authority is in it"));
    }
    let made = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let made = made.with_safe_default_protocol_versions();
    let made = made.map_err(|error| unusable(error.to_string()))?.with_root_certificates(roots);
    let Some((chain, key)) = own else { return Ok(Arc::new(made.with_no_client_auth())) };
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|error| unusable(format!("the key cannot be read: {error}")))?;
    let made = made.with_client_auth_cert(certificates(chain)?, key);
    let unfit = |error| unusable(format!("the certificate and its key do not fit: {error}"));
    Ok(Arc::new(made.map_err(unfit)?))
}

fn certificates(pem: &[u8]) -> types::Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| unusable(format!("the certificates cannot be read: {error}")))?;
    if all.is_empty() { Err(unusable("there is no certificate in it")) } else { Ok(all) }
}

fn unusable(what: impl Into<String>) -> Refusal {
    Refusal::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

/// One topic's only partition. Clones are the same.
#[derive(Clone)]
pub struct Topic(Arc<Shared>);

struct Shared {
    access: Access,
    name: String,
    reader: Connection,
    writer: Connection,
    asker: Connection,
}

#[derive(Default)]
struct Connection(Mutex<Option<Arc<PartitionClient>>>);

impl Connection {
    fn get(&self) -> Option<Arc<PartitionClient>> {
        lock(&self.0).clone()
    }

    fn set(&self, client: Option<Arc<PartitionClient>>) {
        *lock(&self.0) = client;
    }
}

impl Topic {
    pub fn new(access: Access, name: String) -> Topic {
        let (reader, writer, asker) = Default::default();
        Topic(Arc::new(Shared { access, name, reader, writer, asker }))
    }

    /// Makes the topic that a new ledger is ordered by, or takes one that is there and empty, and
    /// writes the ledger's marker into it. Whether it was made.
    ///
    /// # Errors
    ///
    /// What stands in the way, and the next step. Nothing was written then, but for a topic that
    /// was made.
    pub async fn begin(
        &self,
        ledger_id: [u8; 16],
        log: Drawn,
        cuts: Cuts,
    ) -> Result<bool, Refusal> {
        let unreached = |error| self.unreached(&error);
        let mut partitions = self.partitions().await.map_err(unreached)?;
        let is_made = partitions.is_none() && self.make().await.map_err(unreached)?;
        if partitions.is_none() && !is_made {
            partitions = self.until_listed().await.map_err(unreached)?;
        }
        if let Some(many) = partitions.filter(|count| *count != 1) {
            let what = format!("it has {many} partitions, and one order needs one");
            return Err(self.unfit(&what));
        }
        let end = self.until_led().await.map_err(|error| self.unreached(&error))?;
        if end > 0 {
            let first = self.read(0).await.ok().and_then(|all| all.into_iter().next());
            let other = match first.map(|(_, bytes)| Kept::decode(&bytes)) {
                Some(Ok(Kept::Marker(marker))) => {
                    format!("it is the topic of ledger {}", ledger::hash::to_hex(&marker.ledger_id))
                }
                _ => format!("{end} records were written to it"),
            };
            return Err(self.unfit(&other));
        }
        let marker = Marker { log, ledger_id, cuts };
        match self.append(marker.encode()).await {
            Ok(()) => Ok(is_made),
            Err(error) => Err(self.unreached(&error)),
        }
    }

    /// How many it has; `None`: there is no such topic.
    async fn partitions(&self) -> Result<Option<usize>, LogError> {
        let client = self.client().await?;
        let all = timeout(PATIENCE, client.list_topics()).await.map_err(late)?.map_err(failed)?;
        Ok(all.iter().find(|topic| topic.name == self.0.name).map(|it| it.partitions.len()))
    }

    /// How many a topic has that is there, which brokers may list a moment later.
    async fn until_listed(&self) -> Result<Option<usize>, LogError> {
        let deadline = Instant::now() + MADE_PATIENCE;
        loop {
            match self.partitions().await? {
                None if Instant::now() < deadline => sleep(AGAIN).await,
                found => return Ok(found),
            }
        }
    }

    /// Makes the topic. False: it was there.
    async fn make(&self) -> Result<bool, LogError> {
        let client = self.client().await?;
        let controller = client.controller_client().map_err(failed)?;
        let mut made = Ok(true);
        for replicas in REPLICAS {
            let making = controller.create_topic(&self.0.name, 1, replicas, 2_000);
            made = match timeout(PATIENCE, making).await.map_err(late)? {
                Ok(()) => return Ok(true),
                Err(Error::ServerError {
                    protocol_error: ProtocolError::TopicAlreadyExists,
                    ..
                }) => return Ok(false),
                Err(error) => Err(failed(error)),
            };
        }
        made
    }

    /// The end of a topic that may have been made a moment ago.
    async fn until_led(&self) -> Result<u64, LogError> {
        let deadline = Instant::now() + MADE_PATIENCE;
        loop {
            match self.ends().await {
                Ok((_, end)) => return Ok(end),
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    fn unreached(&self, error: &LogError) -> Refusal {
        let (name, brokers) = (&self.0.name, self.0.access.brokers.join(", "));
        let what = format!("the topic {name:?} cannot be made ready for a ledger: {error}");
        Refusal::new(SqlState::CANNOT_CONNECT_NOW, what)
            .with_detail(format!("The brokers are {brokers}."))
            .with_hint(
                "Are they up, reached from here, and may this user make the topic, or write to it? \
                 Then do it again.",
            )
    }

    fn unfit(&self, why: &str) -> Refusal {
        let name = &self.0.name;
        let what = format!("the topic {name:?} cannot order a new ledger: {why}");
        Refusal::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
            .with_hint("Name another topic, which need not be there, or delete this one.")
    }

    async fn client(&self) -> Result<Client, LogError> {
        let once = BackoffConfig { deadline: Some(Duration::ZERO), ..BackoffConfig::default() };
        let Access { brokers, tls, sasl } = self.0.access.clone();
        let mut builder = ClientBuilder::new(brokers).backoff_config(once);
        if let Some(tls) = tls {
            builder = builder.tls_config(tls);
        }
        if let Some(sasl) = sasl {
            builder = builder.sasl_config(sasl);
        }
        let built = builder.build();
        timeout(CONNECT_PATIENCE, built).await.map_err(late)?.map_err(failed)
    }

    async fn connected(&self, connection: &Connection) -> Result<Arc<PartitionClient>, LogError> {
        if let Some(client) = connection.get() {
            return Ok(client);
        }
        let client = self.client().await?;
        let found = client.partition_client(&self.0.name, 0, UnknownTopicHandling::Error);
        let found = timeout(CONNECT_PATIENCE, found).await.map_err(late)?.map_err(failed)?;
        let found = Arc::new(found);
        connection.set(Some(Arc::clone(&found)));
        Ok(found)
    }
}

/// What the brokers said, or that they did not.
async fn asked<T>(
    connection: &Connection,
    asking: impl Future<Output = Result<T, Error>>,
) -> Result<T, LogError> {
    let answer = match timeout(PATIENCE, asking).await {
        Ok(answer) => answer.map_err(failed),
        Err(elapsed) => Err(late(elapsed)),
    };
    if answer.is_err() {
        connection.set(None);
    }
    answer
}

impl Log for Topic {
    fn append(&self, record: Bytes) -> BoxFuture<'static, Result<(), LogError>> {
        let topic = self.clone();
        async move {
            let writer = &topic.0.writer;
            let client = topic.connected(writer).await?;
            let (key, value, headers) = (None, Some(record.to_vec()), BTreeMap::new());
            let record = Record { key, value, headers, timestamp: Default::default() };
            let appended = client.produce(vec![record], Compression::NoCompression);
            asked(writer, appended).await.map(drop)
        }
        .boxed()
    }

    fn read(&self, from: u64) -> BoxFuture<'static, Result<Vec<(u64, Bytes)>, LogError>> {
        let topic = self.clone();
        async move {
            let reader = &topic.0.reader;
            let client = topic.connected(reader).await?;
            let fetched = client.fetch_records(offset(from)?, 1..FETCH_BYTES_MAX, FETCH_WAIT_MS);
            let (records, _) = asked(reader, fetched).await?;
            let record = |it: rskafka::record::RecordAndOffset| {
                let at = u64::try_from(it.offset).map_err(|_| LogError::OutOfRange)?;
                Ok((at, it.record.value.unwrap_or_default().into()))
            };
            records.into_iter().map(record).collect()
        }
        .boxed()
    }

    fn ends(&self) -> BoxFuture<'static, Result<(u64, u64), LogError>> {
        let topic = self.clone();
        async move {
            let asker = &topic.0.asker;
            let client = topic.connected(asker).await?;
            let first = asked(asker, client.get_offset(OffsetAt::Earliest)).await?;
            let end = asked(asker, client.get_offset(OffsetAt::Latest)).await?;
            let number = |offset: i64| u64::try_from(offset).map_err(|_| LogError::OutOfRange);
            Ok((number(first)?, number(end)?))
        }
        .boxed()
    }

    fn create(&self) -> BoxFuture<'static, Result<(), LogError>> {
        let topic = self.clone();
        async move { topic.make().await.map(drop) }.boxed()
    }
}

/// What brokers say of a record without a key.
const COMPACTED: &str = "it refuses records without a key, as a topic does that is compacted: set \
                         cleanup.policy=delete";

fn offset(from: u64) -> Result<i64, LogError> {
    i64::try_from(from).map_err(|_| LogError::OutOfRange)
}

fn late(_: tokio::time::error::Elapsed) -> LogError {
    LogError::Away("no answer within seconds".to_owned())
}

fn failed(error: Error) -> LogError {
    match &error {
        Error::ServerError { protocol_error: ProtocolError::OffsetOutOfRange, .. } => {
            LogError::OutOfRange
        }
        Error::ServerError { protocol_error: ProtocolError::UnknownTopicOrPartition, .. } => {
            LogError::NoTopic
        }
        Error::ServerError {
            protocol_error: ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge,
            ..
        } => LogError::TooLarge,
        Error::ServerError { protocol_error: ProtocolError::InvalidRecord, .. } => {
            LogError::Away(COMPACTED.to_owned())
        }
        Error::ServerError {
            protocol_error: protocol_error @ ProtocolError::TopicAuthorizationFailed,
            ..
        } => LogError::Away(format!("this node's user may not use the topic: {protocol_error}")),
        Error::RetryFailed(inner) => LogError::Away(inner.to_string()),
        _ => LogError::Away(error.to_string()),
    }
}
