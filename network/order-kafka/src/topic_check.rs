//! Whether the topic is the one that this node has read, and says what the ledger says.
//!
//! A node that goes on in a topic of another ledger, or in one that was recreated, would execute
//! different transactions. So it checks the topic before it starts reading, and after every
//! failure: its two ends, and the checksum of the record before the next one. What the ledger holds
//! already is compared batch by batch.

use std::sync::Arc;

use bytes::Bytes;
use ledger::{Batch, LogReader, Stream};
use order::Delivery;
use types::{Error, Result, SqlState};

use crate::cutter::Position;
use crate::node::{Node, Trouble, keep};
use crate::record::{Cuts, Marker, Record};
use crate::{Config, LogError};

impl Node {
    /// Whether the topic is the one that this node has read, and has what comes next. A topic that
    /// is new gets its marker.
    pub(crate) async fn check_topic(&self) -> Result<(), Trouble> {
        let place = self.state().mailbox.place();
        let (first, end) = match (self.log().ends().await, place) {
            (Err(LogError::NoTopic), None) if self.state().mailbox.recorded() == 0 => {
                self.log().create().await?;
                return Err(Trouble::Retry("the topic was just made".to_owned()));
            }
            (Err(LogError::NoTopic), _) if self.is_away_for_long() => {
                return Err(self.lost("there is no such topic any more"));
            }
            (ends, _) => ends?,
        };
        let Some((next, crc)) = place else { return self.begin(first, end).await };
        if next > end {
            let what = format!("it ends at record {end}, and this node has read up to {next}");
            return Err(self.lost(&what));
        }
        if first > next {
            let what = format!("its records before {first} were deleted, and {next} comes next");
            return Err(self.lost(&what));
        }
        if let Some(before) = next.checked_sub(1).filter(|before| *before >= first) {
            let found = self.one(before).await?;
            if crc32fast::hash(&found) != crc {
                let what = format!("record {before} is not the one that this node has read");
                return Err(self.lost(&what));
            }
        }
        Ok(())
    }

    async fn one(&self, offset: u64) -> Result<Bytes, Trouble> {
        let found = self.log().read(offset).await?.into_iter().find(|(at, _)| *at == offset);
        let (_, found) = found.ok_or_else(|| Trouble::Retry(format!("no record {offset}")))?;
        Ok(found)
    }

    /// Begins with the topic's first record.
    async fn begin(&self, first: u64, end: u64) -> Result<(), Trouble> {
        let Config { ledger_id, limits, incarnation, .. } = &self.config();
        let recorded = self.state().mailbox.recorded();
        if first > 0 {
            return Err(self.lost("its first records were deleted"));
        }
        if end == 0 {
            if recorded > 0 {
                let what = format!("it is empty, and this node's ledger has {recorded} blocks");
                return Err(self.lost(&what));
            }
            let marker =
                Marker { log: *incarnation, ledger_id: *ledger_id, cuts: Cuts::of(limits) };
            self.log().append(marker.encode()).await?;
        }
        let bytes = self.one(0).await?;
        let marker = match Record::decode(&bytes) {
            Ok(Record::Marker(marker)) => marker,
            _ => return Err(self.foreign("its first record is no ledger's")),
        };
        if marker.ledger_id != *ledger_id {
            let other = ledger::hash::to_hex(&marker.ledger_id);
            return Err(self.foreign(&format!("it is the topic of ledger {other}")));
        }
        let position = Position::behind(&marker, &bytes);
        let mut state = self.state();
        // The way back to the beginning, should the first records go.
        keep(&mut state.positions, &position);
        state.mailbox.begin(position);
        Ok(())
    }

    fn is_away_for_long(&self) -> bool {
        self.state().mailbox.is_unread_for_long(self.now_ms())
    }

    pub(crate) fn lost(&self, what: &str) -> Trouble {
        let topic = &self.config().topic;
        let why = format!("the topic {topic:?} is not what this node has read from: {what}");
        let error = Error::new(SqlState::DATA_CORRUPTED, why)
            .with_detail("It was truncated, deleted, made anew, or its retention has ended.")
            .with_hint(
                "Nothing that was answered is lost: the ledgers hold it. Restore the topic; or, if \
                 other nodes go on, have this one take the ledger from them: stop it, \
                 tally cluster rejoin --data FOLDER, start it.",
            );
        Trouble::Stop(error)
    }

    fn foreign(&self, what: &str) -> Trouble {
        let topic = &self.config().topic;
        let why = format!("the topic {topic:?} cannot order this ledger: {what}");
        let error = Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, why).with_hint(
            "See `kafka_brokers` and `kafka_topic` in this node's settings: they are the same \
                 on all nodes of the ledger.",
        );
        Trouble::Stop(error)
    }

    /// What the ledger has is what the topic says.
    pub(crate) fn compare(
        &self,
        delivery: &Delivery,
        reader: &mut Option<LogReader>,
    ) -> Result<(), Trouble> {
        let height = delivery.sequence;
        let again = |error: ledger::LogError| Trouble::Retry(error.to_string());
        let usable = reader.take().filter(|it| it.next_height() <= height);
        let mut reading = match usable {
            Some(reading) => reading,
            None => {
                let files = Arc::clone(self.files());
                let Ok(reading) = LogReader::open_at(files, Stream::Orders, height) else {
                    return Ok(());
                };
                reading
            }
        };
        while reading.next_height() <= height {
            let Some(record) = reading.next_record().map_err(again)? else { return Ok(()) };
            // It may have been pruned.
            if record.height() > height {
                break;
            }
            if record.height() < height {
                continue;
            }
            let batch = Batch::of(&record).map_err(Trouble::Stop)?;
            let content = delivery.content.as_ref();
            let is_same = content.is_some_and(|it| {
                it.envelopes == batch.envelopes() && it.proposer == batch.header().proposer
            });
            if !is_same {
                let what = format!("batch {height} in it is not block {height} of the ledger");
                return Err(self.lost(&what));
            }
        }
        *reader = Some(reading);
        Ok(())
    }
}
