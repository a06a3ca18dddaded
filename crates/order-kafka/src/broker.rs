//! Kafka's brokers, by rskafka.
//!
//! Three connections: an answer to a fetch that waits holds up whatever follows it on the same one.
//! A connection on which something failed is not used again, and nothing is retried here: who
//! asked finds out whether it is still the same topic, and asks again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use rskafka::BackoffConfig;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::time::timeout;

use crate::{Log, LogError};

/// Of one fetch; a larger record comes alone.
const FETCH_BYTES_MAX: i32 = 4 << 20;
/// A fetch that finds nothing is answered after so long.
const FETCH_WAIT_MS: i32 = 500;
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(4);
/// The brokers' own default, and what they refuse if it is above their number.
const REPLICAS: [i16; 2] = [-1, 1];

/// One topic's only partition. Clones are the same.
#[derive(Clone)]
pub struct Topic(Arc<Shared>);

struct Shared {
    brokers: Vec<String>,
    name: String,
    reader: Connection,
    writer: Connection,
    asker: Connection,
}

#[derive(Default)]
struct Connection(Mutex<Option<Arc<PartitionClient>>>);

impl Connection {
    fn get(&self) -> Option<Arc<PartitionClient>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, client: Option<Arc<PartitionClient>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

impl Topic {
    /// Brokers as `host:port`, of which one has to answer to find the others.
    pub fn new(brokers: Vec<String>, name: String) -> Topic {
        let (reader, writer, asker) = Default::default();
        Topic(Arc::new(Shared { brokers, name, reader, writer, asker }))
    }

    async fn client(&self) -> Result<Client, LogError> {
        let once = BackoffConfig { deadline: Some(Duration::ZERO), ..BackoffConfig::default() };
        let built = ClientBuilder::new(self.0.brokers.clone()).backoff_config(once).build();
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
        async move {
            let client = topic.client().await?;
            let controller = client.controller_client().map_err(failed)?;
            let mut made = Ok(());
            for replicas in REPLICAS {
                let making = controller.create_topic(&topic.0.name, 1, replicas, 2_000);
                made = timeout(PATIENCE, making).await.map_err(late)?.map_err(failed);
                if made.is_ok() {
                    break;
                }
            }
            made
        }
        .boxed()
    }
}

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
        Error::RetryFailed(inner) => LogError::Away(inner.to_string()),
        _ => LogError::Away(error.to_string()),
    }
}
