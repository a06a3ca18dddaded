//! The promises that every orderer makes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use order::conformance::{Harness, run};
use order::{Delivery, Limits, Orderer, Refused};
use order_raft::Node;
use types::{Error, Result};

use crate::cluster::{Cluster, Faults};

struct Raft {
    nodes: usize,
    cluster: Option<Cluster>,
    handles: Vec<Option<Node>>,
    starts: u64,
}

impl Raft {
    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().unwrap()
    }

    fn handle(&mut self, node: usize) -> &mut Node {
        self.handles[node].as_mut().unwrap()
    }
}

impl Harness for Raft {
    fn start(&mut self, limits: Limits) {
        self.starts += 1;
        self.cluster = None;
        let cluster = Cluster::start(self.nodes, limits, self.starts);
        self.handles = (0..self.nodes).map(|node| cluster.node(node)).collect();
        self.cluster = Some(cluster);
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn node(&mut self, node: usize) -> &mut dyn Orderer {
        self.handle(node)
    }

    fn pass(&mut self) {
        self.cluster().pass(20);
    }

    fn restart(&mut self, node: usize) {
        self.cluster().stop(node);
        self.handles[node] = None;
    }

    fn keeps_deliveries(&self) -> bool {
        true
    }

    fn make_empty_entry(&mut self) -> bool {
        let Some(leader) = self.cluster().leader() else { return false };
        let node = self.cluster().node(leader).unwrap();
        let members: BTreeSet<u64> = (0..self.nodes as u64).collect();
        self.cluster().runtime.block_on(node.change_members(members)).is_ok()
    }

    fn disturb(&mut self, on: bool) {
        let faults = if on { Faults::MANY } else { Faults::default() };
        self.cluster().set_faults(faults);
    }

    fn submit(&mut self, node: usize, envelope: Bytes) -> Result<(), Refused> {
        self.handle(node).submit(envelope)
    }

    fn poll(&mut self, node: usize, now_us: i64) -> Option<Delivery> {
        self.cluster().clock_us.store(now_us, Ordering::SeqCst);
        self.handle(node).poll(now_us)
    }

    /// A node that begins names what it has executed, and what lies after is delivered.
    fn resume(&mut self, node: usize, after: u64, time_us: i64) -> Result<()> {
        if self.handles[node].is_none() {
            self.cluster().begin(node, after);
            self.handles[node] = self.cluster().node(node);
        }
        self.handle(node).resume(after, time_us)
    }

    fn close(&mut self, node: usize, why: Error) {
        self.handle(node).close(why);
    }
}

fn conforms(nodes: usize) {
    let mut raft = Raft { nodes, cluster: None, handles: Vec::new(), starts: 0 };
    if let Err(broken) = run(&mut raft) {
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
