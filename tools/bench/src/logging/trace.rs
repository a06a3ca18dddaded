//! The result of a durability run: throughput and latency in slices of 100 ms, and totals by kind
//! of block.

use std::time::Duration;

use anyhow::Result;
use engine::checkpoint::Taken;
use hdrhistogram::Histogram;

use crate::run::latency_histogram;

/// The resolution of a trace.
pub const SLICE: Duration = Duration::from_millis(100);

/// What was released within one slice of the time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Slice {
    pub committed: u64,
    pub released: u64,
    pub latency_us_sum: u64,
    pub latency_us_max: u64,
    /// A checkpoint was being written.
    pub checkpoint: bool,
}

impl Slice {
    pub fn latency_ms_mean(&self) -> f64 {
        self.latency_us_sum as f64 / 1e3 / self.released.max(1) as f64
    }
}

/// Blocks of one kind, taken together.
#[derive(Clone, Debug)]
pub struct Part {
    pub wall: Duration,
    /// Of the whole process.
    pub cpu: Duration,
    pub committed: u64,
    pub blocks: u64,
    pub latencies_us: Histogram<u64>,
}

impl Part {
    pub fn new() -> Result<Part> {
        Ok(Part {
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            committed: 0,
            blocks: 0,
            latencies_us: latency_histogram()?,
        })
    }

    pub fn per_second(&self) -> f64 {
        self.committed as f64 / self.wall.as_secs_f64()
    }

    pub fn latency_ms_p99(&self) -> f64 {
        self.latencies_us.value_at_percentile(99.0) as f64 / 1e3
    }

    pub fn latency_ms_mean(&self) -> f64 {
        self.latencies_us.mean() / 1e3
    }
}

#[derive(Clone, Debug)]
pub struct CheckpointCost {
    pub taken: Taken,
    pub took: Duration,
    /// Of its own thread; `None` where the kernel does not tell.
    pub cpu: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Trace {
    pub slices: Vec<Slice>,
    /// The parts of the run in which a checkpoint was written, and was not.
    pub within: Part,
    pub without: Part,
    /// `None`: there was none, or it was not done by the end.
    pub checkpoint: Option<CheckpointCost>,
    pub log_bytes: u64,
}

impl Trace {
    pub fn wall(&self) -> Duration {
        self.within.wall + self.without.wall
    }

    pub fn cpu(&self) -> Duration {
        self.within.cpu + self.without.cpu
    }

    pub fn committed(&self) -> u64 {
        self.within.committed + self.without.committed
    }

    pub fn per_second(&self) -> f64 {
        self.committed() as f64 / self.wall().as_secs_f64()
    }

    pub fn per_cpu_second(&self) -> f64 {
        self.committed() as f64 / self.cpu().as_secs_f64()
    }

    pub fn latency_ms_mean(&self) -> f64 {
        let sum = |part: &Part| part.latencies_us.mean() * part.latencies_us.len() as f64;
        let count = self.within.latencies_us.len() + self.without.latencies_us.len();
        (sum(&self.within) + sum(&self.without)) / 1e3 / count.max(1) as f64
    }

    pub fn log_bytes_per_second(&self) -> f64 {
        self.log_bytes as f64 / self.wall().as_secs_f64()
    }
}
