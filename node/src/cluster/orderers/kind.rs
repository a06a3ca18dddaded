//! [`Kind`]: which orderer a ledger has (Raft, Kafka, CometBFT), as its parameters and `tally
//! cluster init --order` name it.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::ValueEnum;
use engine::limits::Limits;
use ledger::{Files, Parameters};

use crate::folders;

/// What orders a ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// The members among themselves: more than half of them must run.
    Raft,
    /// A topic of Kafka's brokers: any member goes on as long as it reaches them.
    Kafka,
    /// CometBFT beside each node: of 4 members one may stop or lie, of 7 two.
    #[value(name = "cometbft")]
    CometBft,
}

impl Kind {
    /// As the ledger's parameters name it, and as `--order` does.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Raft => engine::limits::RAFT,
            Kind::Kafka => "kafka",
            Kind::CometBft => "cometbft",
        }
    }

    /// That a node takes: for clients, for probes, for other members, and for what orders.
    pub fn ports(self) -> u16 {
        match self {
            Kind::Raft | Kind::Kafka => 3,
            Kind::CometBft => 4,
        }
    }

    /// One of this name, if this program has it.
    pub fn named(name: &str) -> Result<Kind> {
        let found = Kind::value_variants().iter().find(|kind| kind.name() == name);
        let Some(kind) = found else {
            bail!("the ledger is ordered by {name}, which this program does not know");
        };
        kind.check()?;
        Ok(*kind)
    }

    /// What orders a ledger, if this program has it; `None`: a lone node.
    pub fn of(parameters: &Parameters) -> Result<Option<Kind>> {
        Limits::orderer(parameters).map(Kind::named).transpose()
    }

    /// Whether this program was built with it.
    pub fn check(self) -> Result<()> {
        let is_there = match self {
            Kind::Raft => true,
            Kind::Kafka => cfg!(feature = "kafka"),
            Kind::CometBft => cfg!(feature = "cometbft"),
        };
        if is_there { Ok(()) } else { Err(self.is_missing()) }
    }

    pub fn is_missing(self) -> anyhow::Error {
        let name = self.name();
        let what = format!("the order by {name} is not in this program");
        let hint = format!(
            "It is a feature, {name:?}: build the program with it, cargo build --release --package \
             node --features {name}."
        );
        folders::refused(what).with_hint(hint).into()
    }

    /// Whether the other members send this one the blocks that it lacks, as long as they have them.
    pub fn members_send_blocks(self) -> bool {
        self == Kind::Raft
    }

    /// This member may have known more than its folder says.
    pub fn forget(self, files: &Arc<dyn Files>) -> std::io::Result<()> {
        match self {
            Kind::Raft => order_raft::forget(files),
            // What it put into the topic is there.
            Kind::Kafka => Ok(()),
            // It begins after the others, and CometBFT signs nothing before it has caught up.
            Kind::CometBft => Ok(()),
        }
    }

    /// A folder that was given another member's ledger goes on where that one's [`Place::up_to`]
    /// says.
    pub fn begin_behind(self, files: &Arc<dyn Files>, place: &[u8]) -> Result<()> {
        match self {
            Kind::Raft => Ok(order_raft::begin_behind(files, place)?),
            #[cfg(feature = "kafka")]
            Kind::Kafka => Ok(order_kafka::begin_behind(files, place)?),
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => Err(self.is_missing()),
            Kind::CometBft => bail!("CometBFT goes on behind no ledger of another member"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orderer_that_is_missing_is_refused_by_its_feature() {
        assert_eq!(Kind::named("raft").unwrap(), Kind::Raft);
        let unknown = Kind::named("zookeeper").unwrap_err().to_string();
        assert!(unknown.contains("ordered by zookeeper, which this program does not"), "{unknown}");
        for kind in Kind::value_variants() {
            let Err(missing) = kind.check() else { continue };
            let hint = folders::hint_of(&missing).unwrap_or_default();
            assert!(hint.contains(&format!("--features {}", kind.name())), "{missing}: {hint}");
        }
        assert_eq!(Kind::Kafka.check().is_ok(), cfg!(feature = "kafka"));
    }
}
