//! The promises that every orderer makes.

use std::sync::atomic::Ordering;

use order::conformance::{Harness, run};
use order::{Delivery, Limits, Orderer};
use types::Result;

use crate::topic::{Cluster, Faults};

struct Kafka {
    nodes: usize,
    cluster: Option<Cluster>,
    starts: u64,
}

impl Kafka {
    fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().unwrap()
    }
}

impl Harness for Kafka {
    fn start(&mut self, limits: Limits) {
        self.starts += 1;
        self.cluster = None;
        self.cluster = Some(Cluster::start(self.nodes, limits, self.starts));
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn node(&mut self, node: usize) -> &mut dyn Orderer {
        self.cluster().node(node).unwrap()
    }

    fn pass(&mut self) {
        self.cluster().pass(20);
    }

    fn restart(&mut self, node: usize) {
        self.cluster().stop(node);
    }

    fn keeps_deliveries(&self) -> bool {
        true
    }

    fn disturb(&mut self, on: bool) {
        self.cluster().topic.state().faults = if on { Faults::MANY } else { Faults::default() };
    }

    fn poll(&mut self, node: usize, now_us: i64) -> Option<Delivery> {
        self.cluster().clock_us.store(now_us, Ordering::SeqCst);
        self.node(node).poll(now_us)
    }

    /// A node that begins names what it has executed, and what lies after is delivered.
    fn resume(&mut self, node: usize, after: u64, time_us: i64) -> Result<()> {
        if self.cluster().node(node).is_none() {
            self.cluster().begin(node, after);
        }
        self.node(node).resume(after, time_us)
    }
}

fn conforms(nodes: usize) {
    if let Err(broken) = run(&mut Kafka { nodes, cluster: None, starts: 0 }) {
        panic!("{nodes} nodes: {}: {}", broken.step, broken.what);
    }
}

#[test]
fn a_lone_node_conforms() {
    conforms(1);
}

#[test]
fn three_nodes_conform() {
    conforms(3);
}
