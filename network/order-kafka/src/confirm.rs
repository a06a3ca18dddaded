//! Read barrier: how far this node has to execute before a read misses nothing acknowledged.
//!
//! Whatever was acknowledged before a read is in a batch that ended at some record of the topic. So
//! the brokers are asked for the topic's end offset, *after* the read has asked. Once this node has
//! consumed the topic up to that offset, the last batch that it has cut is the answer.
//!
//! *Cost.* One question to the brokers is in flight at a time; reads that arrive meanwhile share
//! the next one.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use kit::sync::lock;
use order::Tell;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use types::Height;

use crate::LogError;
use crate::node::Node;

/// For an answer, before the question is dropped: who wants to know asks again.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Those who want to know.
#[derive(Default)]
pub(crate) struct Asking {
    waiting: Mutex<Vec<Tell>>,
    came: Notify,
}

impl Asking {
    pub fn join(&self, tell: Tell) {
        self.lock().push(tell);
        self.came.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tell>> {
        lock(&self.waiting)
    }
}

impl Node {
    /// Answers, for ever.
    pub(crate) async fn ask(self) {
        loop {
            self.asking().came.notified().await;
            let telling = std::mem::take(&mut *self.asking().lock());
            if telling.is_empty() {
                continue;
            }
            match timeout(PATIENCE, self.confirmed()).await {
                Ok(Ok(height)) => telling.into_iter().for_each(|tell| tell(height)),
                _ => {
                    drop(telling);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn confirmed(&self) -> Result<Height, LogError> {
        let (_, end) = self.log().ends().await?;
        let mut read = self.read_up_to();
        let there = read.wait_for(|offset| *offset >= end).await.map(|offset| *offset);
        there.map_err(|_| LogError::Away("this node stops".to_owned()))?;
        Ok(self.standing().sequence)
    }
}
