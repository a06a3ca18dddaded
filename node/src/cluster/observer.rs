//! The engine's observer on a member: counts each block for the metrics and hands it to the voting
//! thread.

use std::sync::Arc;
use std::time::Duration;

use cluster::votes::{Block, Votes};
use engine::checkpoint::Taken;
use engine::retention::Memory;
use engine::{BlockEvent, Observer};
use types::Error;

use crate::metrics::Metrics;

pub struct Telling {
    pub metrics: Arc<Metrics>,
    pub votes: Option<Arc<Votes>>,
}

impl Observer for Telling {
    fn block(&self, event: &BlockEvent) {
        self.metrics.block(event);
        if let Some(votes) = &self.votes {
            votes.executed(Block {
                height: event.height,
                result_hash: event.result_hash,
                time_us: event.time_us,
                parameters_hash: event.parameters_hash,
                next_parameters: Arc::clone(&event.next_parameters),
            });
        }
    }

    fn answered(&self, latency: Duration) {
        self.metrics.answered(latency);
    }

    fn collected(&self, left: &Memory) {
        self.metrics.collected(left);
    }

    fn checkpoint(&self, taken: &Taken, took: Duration) {
        self.metrics.checkpoint(taken, took);
    }

    fn checkpoint_failed(&self, error: &Error) {
        self.metrics.checkpoint_failed(error);
    }

    fn halted(&self, cause: &Error) {
        self.metrics.halted(cause);
    }
}
