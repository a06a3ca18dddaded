//! How a member stands in the order, for people: what members tell of themselves, whatever this
//! program was built with.

use serde::{Deserialize, Serialize};

/// By the kind of what orders.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "orderer", rename_all = "lowercase")]
pub enum Standing {
    Raft(order_raft::Standing),
    Kafka(OfTopic),
    CometBft(OfComet),
}

/// Of a member with a CometBFT beside it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OfComet {
    /// CometBFT's, whose blocks are not all of the ledger.
    pub height: u64,
    /// The member whose block came last.
    pub proposer: Option<u64>,
    /// What is wrong.
    pub complaint: Option<String>,
}

/// Of a member that reads a topic of Kafka.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OfTopic {
    pub topic: String,
    /// As its settings name them.
    pub brokers: Vec<String>,
    /// Of the next record.
    pub offset: u64,
    /// The last block that was cut of the records before it.
    pub cut: u64,
    /// Why the brokers cannot be reached, if they cannot.
    pub away: Option<String>,
    /// Why it takes no part any more.
    pub stopped: Option<String>,
}

impl Standing {
    pub fn raft(&self) -> Option<&order_raft::Standing> {
        match self {
            Standing::Raft(raft) => Some(raft),
            Standing::Kafka(_) | Standing::CometBft(_) => None,
        }
    }

    /// Whether this member takes part in an order where none leads.
    pub fn orders_alone(&self) -> bool {
        match self {
            Standing::Raft(_) => false,
            Standing::Kafka(topic) => topic.away.is_none() && topic.stopped.is_none(),
            Standing::CometBft(comet) => comet.complaint.is_none(),
        }
    }

    /// Why it takes no part any more, or none yet, or nothing can be ordered.
    pub fn trouble(&self) -> Option<&str> {
        let why = match self {
            Standing::Raft(raft) => {
                raft.stopped.as_ref().or(raft.waits.as_ref()).or(raft.hindered.as_ref())
            }
            Standing::Kafka(topic) => topic.stopped.as_ref().or(topic.away.as_ref()),
            Standing::CometBft(comet) => comet.complaint.as_ref(),
        };
        why.map(String::as_str)
    }

    /// Orders that this member has, and knows of no other one's or has not executed.
    pub fn unconfirmed(&self, height: u64) -> u64 {
        match self {
            Standing::Raft(raft) => raft.entries.saturating_sub(raft.committed),
            Standing::Kafka(topic) => topic.cut.saturating_sub(height),
            Standing::CometBft(_) => 0,
        }
    }
}
