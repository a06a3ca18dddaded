//! Raft: the log of orders is its log, so it writes the ledger's orders itself.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use cluster::{Answer, Peers};
use engine::{Journal, RemoteOrderer};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::{BlockWriter, Hash};
use order_raft::{Config, Node, Store, Timing};
use types::Height;

use super::{Beginning, Place, Standing};
use crate::cluster::REJOIN;
use crate::cluster::follow::Following;
use crate::database::clock;
use crate::folders;
use crate::metrics::{OfRaft, Order};

struct Raft {
    node: Node,
    peers: Arc<Peers>,
}

pub async fn begin(beginning: Beginning<'_>) -> Result<(Arc<dyn Place>, Journal)> {
    let Beginning { plan, id, files, log, replica, limits, settings, ahead_max, .. } = beginning;
    let Beginning { peers, members, engine, pending, .. } = beginning;
    let BlockWriter { orders, results } = log;
    let store = Store::open(files, orders).map_err(|error| -> anyhow::Error {
        let what = format!("cannot go on in the cluster: {error}");
        match error.kind() {
            ErrorKind::InvalidData => folders::refused(what).with_hint(REJOIN).into(),
            _ => anyhow::Error::from(error).context("cannot go on in the cluster"),
        }
    })?;
    let height = replica.head().height;
    let after = store.sequence_of(height);
    let config = Config {
        id,
        members: plan.keys()?,
        limits: limits.of_batches(),
        timing: Timing {
            fill: Duration::from_millis(settings.block_fill_ms_max),
            ..Timing::default()
        },
        clock: clock(),
        ahead_max,
        is_barrier: engine::is_barrier,
    };
    let node = Node::start(config, store, peers.clone(), after).await?;
    let following = Following {
        node: node.clone(),
        engine,
        id,
        members,
        pending,
        data: settings.data.clone(),
        owner: settings.owner.clone(),
    };
    tokio::spawn(following.run());
    Ok((Arc::new(Raft { node, peers }), Journal::of_results(results, height + 1)))
}

impl Place for Raft {
    fn orderer(&self) -> RemoteOrderer {
        Box::new(self.node.clone())
    }

    fn standing(&self) -> Standing {
        Standing::Raft(self.node.standing())
    }

    fn order(&self) -> Order {
        let (standing, store) = (self.node.standing(), self.node.store());
        let committed = standing.committed.checked_sub(1);
        Order::Raft(OfRaft {
            leader: standing.leader.unwrap_or(0),
            leads: standing.leader == Some(standing.id),
            term: standing.term,
            ordered_height: store.height(),
            committed_height: committed.map_or(0, |index| store.height_at(index)),
            dials: self.peers.dials(),
            hindered: standing.hindered.is_some(),
        })
    }

    fn clocks(&self) -> BTreeMap<u64, i64> {
        self.node.clocks()
    }

    fn clock_trouble(&self) -> Option<String> {
        self.node.clock_is_off()
    }

    fn answer(&self, request: Bytes) -> BoxFuture<'static, Answer> {
        let node = self.node.clone();
        async move { node.answer(request).await }.boxed()
    }

    fn hash_of(&self, height: Height) -> io::Result<Hash> {
        self.node.store().hash_of(height)
    }

    fn first_height(&self) -> Height {
        self.node.store().first_height()
    }

    fn up_to(&self, height: Height) -> io::Result<Vec<u8>> {
        self.node.store().own_up_to(height)
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let node = self.node.clone();
        async move { node.stop().await }.boxed()
    }

    fn rest(&self) -> io::Result<()> {
        self.node.store().rest()
    }
}
