//! Raft's messages to the other members, as openraft sends them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, RaftNetwork, RaftNetworkFactory};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use types::{Error, Result};

use crate::machine::no_snapshots;
use crate::node::LACKS_LEAST;
use crate::store::Store;
use crate::wire::{Request, of_json};
use crate::{Network, Types};

/// Before the log is sent again to a member that could not be reached.
const BACKOFF: Duration = Duration::from_millis(150);

type RaftResult<T, E> = std::result::Result<T, RPCError<u64, EmptyNode, RaftError<u64, E>>>;

pub(crate) struct Peers {
    pub network: Arc<dyn Network>,
    pub store: Store,
}

pub(crate) struct Peer {
    network: Arc<dyn Network>,
    store: Store,
    to: u64,
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, to: u64, _node: &EmptyNode) -> Peer {
        Peer { network: Arc::clone(&self.network), store: self.store.clone(), to }
    }
}

impl Peer {
    /// A member that cannot be reached is not sent the log for a while: openraft goes on at once
    /// behind any other error. One that is slow has cost its time already.
    async fn ask<T: DeserializeOwned, E: std::error::Error>(
        &self,
        request: Request,
        option: &RPCOption,
    ) -> std::result::Result<T, RPCError<u64, EmptyNode, E>> {
        let network = |error: &Error| RPCError::Network(NetworkError::new(error));
        let request = request.encode().map_err(|error| network(&error))?;
        let call = timeout(option.hard_ttl(), self.network.call(self.to, request));
        let answer = call.await.map_err(|error| RPCError::Network(NetworkError::new(&error)))?;
        let answer = answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))?;
        of_json(&answer).map_err(|error| network(&error))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> RaftResult<AppendEntriesResponse<u64>, openraft::error::Infallible> {
        let answer: Result<_, RaftError<u64>> = self.ask(Request::Append(rpc), &option).await?;
        answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> RaftResult<VoteResponse<u64>, openraft::error::Infallible> {
        if !self.store.may_vote_for(rpc.last_log_id) {
            let lacks = io::Error::other(LACKS_LEAST);
            return Err(RPCError::Unreachable(Unreachable::new(&lacks)));
        }
        let answer: Result<_, RaftError<u64>> = self.ask(Request::Vote(rpc), &option).await?;
        answer.map_err(|error| RPCError::Network(NetworkError::new(&error)))
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(BACKOFF))
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> RaftResult<InstallSnapshotResponse<u64>, InstallSnapshotError> {
        let last = rpc.meta.last_log_id;
        let has = match last {
            Some(last) => self.ask::<bool, _>(Request::Pruned(last), &option).await?,
            None => false,
        };
        if has {
            return Ok(InstallSnapshotResponse { vote: rpc.vote });
        }
        Err(RPCError::Unreachable(Unreachable::new(&no_snapshots())))
    }
}
