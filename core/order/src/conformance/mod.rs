//! What every orderer has to pass: the promises of [`crate::Orderer`], tried one by one.
//!
//! The crate of an orderer writes a [`Harness`], which makes a fresh cluster of it, lets time pass,
//! stops nodes and disturbs messages as far as it can, and calls [`run`]. Every delivery to every
//! node is looked at as it comes: numbers without a gap, times that do not run back, batches
//! within their bounds, the same for all nodes. Each step adds what it is about.
//!
//! ```text
//! step ─► start(limits) ─► submit … pass … poll … restart … disturb ─► what each node was given
//! ```
//!
//! The tests of this crate run it on Solo, on the model, and on both with seeded mutants, each of
//! which has to be found.

mod bed;
mod steps;

use bytes::Bytes;
use types::{Error, Result};

use crate::orderer::{Limits, Orderer, Refused};
use crate::proposal::Delivery;

/// A way to make an orderer, and to make its life hard. The methods with a body are there to be
/// left alone, but by tests of the suite.
pub trait Harness {
    /// Begins anew: an orderer with these limits that has ordered nothing and meets no faults.
    fn start(&mut self, limits: Limits);

    fn nodes(&self) -> usize;

    fn node(&mut self, node: usize) -> &mut dyn Orderer;

    /// Lets messages travel for a while; an adapter of a real engine sleeps some milliseconds.
    fn pass(&mut self);

    /// The node stops and starts; `resume` comes next. What it did not make durable is gone.
    fn restart(&mut self, node: usize);

    /// Are deliveries kept by the orderer, so that they can be had again after a restart? If not,
    /// a restart goes on after the last one.
    fn keeps_deliveries(&self) -> bool;

    /// Makes an entry without a batch, if there is such a thing.
    fn make_empty_entry(&mut self) -> bool {
        false
    }

    /// From now on (or no longer) messages are delayed, lost, doubled, if there are messages.
    fn disturb(&mut self, _on: bool) {}

    fn submit(&mut self, node: usize, envelope: Bytes) -> Result<(), Refused> {
        self.node(node).submit(envelope)
    }

    fn nudge(&mut self, node: usize) {
        self.node(node).nudge();
    }

    fn poll(&mut self, node: usize, now_us: i64) -> Option<Delivery> {
        self.node(node).poll(now_us)
    }

    fn resume(&mut self, node: usize, after: u64, time_us: i64) -> Result<()> {
        self.node(node).resume(after, time_us)
    }

    fn close(&mut self, node: usize, why: Error) {
        self.node(node).close(why);
    }
}

/// A promise that was not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    pub step: &'static str,
    pub what: String,
}

/// Tries everything; the first promise that is not kept.
pub fn run(harness: &mut dyn Harness) -> Result<(), Broken> {
    for (name, step) in steps::STEPS {
        let mut bed = bed::Bed::new(harness);
        step(&mut bed).map_err(|what| Broken { step: name, what })?;
    }
    Ok(())
}
