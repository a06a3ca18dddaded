//! Waiting until this node has what a client has seen elsewhere, or what the cluster has ordered.

use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use types::{Error, Height, SqlState};

use super::Engine;
use super::shared::shutting_down;

impl Engine {
    /// Completes when this node has released what the cluster had ordered when this was called:
    /// how far that is. At once where this node orders alone. Waits as long as no majority
    /// answers: bound it.
    pub async fn catch_up(&self) -> Result<Height, Error> {
        let Some(remote) = &self.shared.queue.remote else {
            return Ok(self.shared.released.load(Ordering::Acquire));
        };
        let confirmed = loop {
            let (tell, told) = oneshot::channel();
            let asked = remote.confirm(Box::new(move |height| _ = tell.send(height)));
            if !asked {
                return Ok(self.shared.released.load(Ordering::Acquire));
            }
            if let Ok(height) = told.await {
                break height;
            }
            if self.shared.ended.load(Ordering::SeqCst) {
                return Err(self.never_reaches(self.shared.released.load(Ordering::Acquire)));
            }
        };
        self.reach(confirmed).await?;
        Ok(confirmed)
    }

    /// Completes when this node has released a block; fails when it will not.
    pub async fn reach(&self, height: Height) -> Result<(), Error> {
        if self.shared.released.load(Ordering::Acquire) >= height {
            return Ok(());
        }
        if let Some(remote) = &self.shared.queue.remote {
            remote.awaited();
        }
        let mut published = self.shared.published.subscribe();
        let ends = || self.shared.ended.load(Ordering::SeqCst);
        let there = published.wait_for(|published| *published >= height || ends()).await;
        match there.is_ok_and(|published| *published >= height) {
            true => Ok(()),
            false => Err(self.never_reaches(height)),
        }
    }

    /// Whether other nodes take part in the order.
    pub fn is_in_cluster(&self) -> bool {
        self.shared.queue.remote.is_some()
    }

    fn never_reaches(&self, height: Height) -> Error {
        let Some(cause) = self.halt_cause() else { return shutting_down() };
        let released = self.shared.released.load(Ordering::Acquire);
        let what = format!("this node has stopped at block {released} and goes no further");
        Error::new(SqlState::CANNOT_CONNECT_NOW, what)
            .with_detail(format!("Block {height} is asked for. The cause is {cause}."))
            .with_hint("Connect to another node, and restart this one.")
    }
}
