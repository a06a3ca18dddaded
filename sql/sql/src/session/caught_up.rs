//! Read-your-writes across nodes: a session that moves to another node finds what it has seen.
//!
//! ```text
//!   node 1   INSERT ─► block 7          tally.seen_height is 7
//!   node 2                     connect ─► what have more than half of you? 9 ─► here up to 6 … 9
//!   node 3   a session of a pool, opened long ago:  SET tally.seen_height = 7 ─► here up to 7
//! ```
//!
//! *A new session* waits, before its first statement, until its node has executed what the cluster
//! had ordered at the time it connected. So a client that loses its node and connects to another
//! one needs nothing more. *An existing session* is told by its client, through
//! `tally.seen_height`, what the client has seen elsewhere. *Linearizable reads* wait as a new
//! session does, before each message outside a transaction block.
//!
//! Each wait is bounded by `tally.catch_up_timeout` and by `statement_timeout`. If the former is
//! zero, a new session takes its node as it is. A lone node never waits.

use std::sync::Arc;
use std::time::Duration;

use types::{Error, Height, Result, SqlState};

use super::Session;

impl Session {
    /// Before the first statement.
    pub async fn arrive(&mut self) -> Result<()> {
        self.shared.present.activity.calls_itself(self.settings.application());
        if self.serves_reads_only() {
            self.settings.report("in_hot_standby", "on".to_owned());
            return Ok(());
        }
        if self.settings.catch_up_timeout().is_some() {
            self.catch_up().await.map_err(cannot_connect)?;
        }
        match self.settings.seen_height() {
            0 => Ok(()),
            height => self.wait_for_seen(height).await.map_err(cannot_connect),
        }
    }

    /// Whether the next message must wait for what other nodes have.
    pub fn wants_to_catch_up(&self) -> bool {
        self.settings.linearizable_reads()
            && self.transaction.is_none()
            && self.settings.as_of_block().is_none()
            && self.database.engine.is_in_cluster()
    }

    /// Waits for what the cluster has ordered.
    pub async fn catch_up(&mut self) -> Result<()> {
        let engine = Arc::clone(&self.database.engine);
        if !engine.is_in_cluster() {
            return Ok(());
        }
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        self.within(async { engine.catch_up().await.map(drop) }, None).await
    }

    pub(super) async fn wait_for_seen(&mut self, height: Height) -> Result<()> {
        let engine = Arc::clone(&self.database.engine);
        self.within(engine.reach(height), Some(height)).await?;
        self.has_seen(height);
        Ok(())
    }

    /// By `&mut`, since a session is used by one task at a time and need not be `Sync`.
    async fn within(
        &mut self,
        wait: impl Future<Output = Result<()>>,
        height: Option<Height>,
    ) -> Result<()> {
        let limit = self.settings.catch_up_timeout();
        tokio::select! {
            biased;
            waited = wait => waited,
            why = self.guard.given_up() => Err(why),
            limit = late(limit) => Err(behind(self.database.engine.head().height, height, limit)),
        }
    }

    pub(super) fn has_seen(&mut self, height: Height) {
        if height <= self.seen.height {
            return;
        }
        self.seen.height = height;
        if self.settings.report_seen_height() {
            self.settings.report("tally.seen_height", height.to_string());
        }
    }

    /// The node takes no writes, so that clients who want to write should go elsewhere.
    pub(super) fn serves_reads_only(&self) -> bool {
        self.database.engine.is_halted()
    }
}

async fn late(limit: Option<Duration>) -> Duration {
    let Some(limit) = limit else { return std::future::pending().await };
    tokio::time::sleep(limit).await;
    limit
}

fn behind(released: Height, height: Option<Height>, limit: Duration) -> Error {
    let ms = limit.as_millis();
    let (what, why) = match height {
        Some(height) => (
            format!("this node has not come to block {height} within {ms} ms"),
            format!("It has released block {released}."),
        ),
        None => (
            format!("this node has not caught up with the others within {ms} ms"),
            format!(
                "It has released block {released}, and does not know what the cluster has ordered \
                 since: no majority answers, or it is behind."
            ),
        ),
    };
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what).with_detail(why).with_hint(
        "Ask another node, or read what this one has, in a session that begins with options='-c \
         tally.catch_up_timeout=0'.",
    )
}

/// Which has clients that know several nodes try the next one.
fn cannot_connect(error: Error) -> Error {
    match error.code() {
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => error.with_code(SqlState::CANNOT_CONNECT_NOW),
        _ => error,
    }
}
