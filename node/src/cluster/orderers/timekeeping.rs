//! Compares clocks with the other members, for orderers whose own messages do not carry the time
//! (Kafka, CometBFT).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{Members, Peers};
use order_raft::clocks::{Clocks, Watch};
use order_raft::{Clock, answer_clock, ask_clock};
use tracing::{info, warn};

/// For another member's answer.
const PATIENCE: Duration = Duration::from_millis(600);

/// How far this member's clock is from the others'.
pub struct Timekeeping {
    id: u64,
    clock: Clock,
    /// `None`: they are not compared.
    bound: Option<Duration>,
    clocks: Arc<Clocks>,
}

impl Timekeeping {
    pub fn begin(
        id: u64,
        clock: Clock,
        bound: Option<Duration>,
        peers: Arc<Peers>,
        members: Arc<Members>,
    ) -> Arc<Timekeeping> {
        let keeping = Arc::new(Timekeeping { id, clock, bound, clocks: Arc::default() });
        if bound.is_some() {
            tokio::spawn(Arc::clone(&keeping).ask(peers, members));
        }
        keeping
    }

    /// Until the runtime ends.
    async fn ask(self: Arc<Self>, peers: Arc<Peers>, members: Arc<Members>) {
        let (clocks, clock) = (Arc::clone(&self.clocks), Arc::clone(&self.clock));
        let watch = Watch { clocks, clock: move || clock(), patience: PATIENCE };
        let mut was_off = false;
        loop {
            let others = members.now().0.into_keys().filter(|member| *member != self.id).collect();
            watch.round(&others, |other| ask_clock(peers.clone(), other)).await;
            let trouble = self.trouble();
            match &trouble {
                Some(why) if !was_off => warn!("{why}"),
                None if was_off => info!("this node's clock is right again"),
                _ => {}
            }
            was_off = trouble.is_some();
        }
    }

    /// Tells what most members' clocks say, as far as they answer.
    #[cfg(feature = "kafka")]
    pub fn time(&self) -> Clock {
        let (clock, clocks) = (Arc::clone(&self.clock), Arc::clone(&self.clocks));
        Arc::new(move || {
            let own_us = clock();
            clocks.among(own_us).time_us(own_us)
        })
    }

    /// The answer to another member that asks for the time.
    pub fn answer(&self, request: &Bytes) -> Option<Bytes> {
        answer_clock(request, &self.clock)
    }

    pub fn ahead_us(&self) -> BTreeMap<u64, i64> {
        self.clocks.all(self.id, (self.clock)())
    }

    pub fn trouble(&self) -> Option<String> {
        self.clocks.among((self.clock)()).trouble(self.bound?)
    }
}
