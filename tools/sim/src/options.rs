//! What a world is made of, beside its seed.

use std::fmt;

use kit::random::Random;

/// Those that worlds are drawn from.
pub const PROTOCOLS: [&str; 14] = [
    "serial",
    "calvin",
    "aria:fallback=off",
    "harmony",
    "harmony:fallback=defer",
    "quecc",
    "fabric",
    "fabric:lag=2",
    "bohm",
    "silo",
    "si",
    "harmony:inter_block=on",
    "harmony:inter_block=on:fallback=defer",
    "quecc:planning=pipelined",
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub protocol: String,
    /// Of one: the embedded orderer; of several: the modelled one.
    pub nodes: usize,
    pub clients: usize,
    pub steps: u64,
    /// Most requests meet on few rows.
    pub hot: bool,
    /// Messages are lost and doubled, between clients and nodes and on the way to the orderer.
    pub network_faults: bool,
    pub disk_faults: bool,
    /// Kills and power cuts.
    pub crashes: bool,
    pub checkpoints: bool,
    pub schema_changes: bool,
    pub parameter_changes: bool,
    /// A bug that the run has on purpose, of [`kit::mutant::ALL`]; needs the feature `mutants`.
    pub mutant: Option<&'static str>,
}

impl Options {
    /// What a seed draws, under a protocol or under one that it draws too.
    pub fn of_seed(seed: u64, protocol: Option<&str>) -> Options {
        multiversion::register();
        let mut random = Random::new(seed ^ 0x51_4d);
        let drawn = PROTOCOLS[random.below(PROTOCOLS.len() as u64) as usize];
        let protocol = protocol.unwrap_or(drawn).to_owned();
        let replicas = if random.chance(3) { 2 + random.below(2) as usize } else { 1 };
        let deterministic =
            protocols::by_name(&protocol).is_ok_and(|protocol| protocol.info().deterministic);
        let mut mostly = || !random.chance(4);
        Options {
            protocol,
            nodes: if deterministic { replicas } else { 1 },
            hot: mostly(),
            network_faults: mostly(),
            disk_faults: mostly(),
            crashes: mostly(),
            checkpoints: mostly(),
            schema_changes: mostly(),
            parameter_changes: mostly(),
            clients: [1, 3, 8, 20][random.below(4) as usize],
            steps: 200 + random.below(1_200),
            mutant: None,
        }
    }

    /// How much there is: what shrinking lessens.
    pub fn size(&self) -> u64 {
        let switches = [
            self.hot,
            self.network_faults,
            self.disk_faults,
            self.crashes,
            self.checkpoints,
            self.schema_changes,
            self.parameter_changes,
        ];
        let switched_on = switches.into_iter().filter(|on| *on).count() as u64;
        self.steps + 50 * self.clients as u64 + 100 * self.nodes as u64 + 20 * switched_on
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { protocol, nodes, clients, steps, .. } = self;
        write!(f, "protocol {protocol}, {nodes} nodes, {clients} clients, {steps} steps")?;
        let switches = [
            (self.hot, "hot rows"),
            (self.network_faults, "network faults"),
            (self.disk_faults, "disk faults"),
            (self.crashes, "crashes"),
            (self.checkpoints, "checkpoints"),
            (self.schema_changes, "schema changes"),
            (self.parameter_changes, "parameter changes"),
        ];
        for (_, what) in switches.into_iter().filter(|(on, _)| *on) {
            write!(f, ", {what}")?;
        }
        match self.mutant {
            Some(mutant) => write!(f, ", mutant {mutant}"),
            None => Ok(()),
        }
    }
}

/// Those that a ledger of any number of nodes can be put under while it runs.
const SWITCHED_TO: [&str; 9] = [
    "serial",
    "calvin",
    "aria:fallback=off",
    "harmony",
    "harmony:fallback=defer",
    "harmony:inter_block=on",
    "harmony:inter_block=on:fallback=defer",
    "quecc:planning=pipelined",
    "fabric:lag=2",
];

impl Options {
    /// A protocol that the ledger may be put under.
    pub(crate) fn another_protocol(&self, random: &mut Random) -> String {
        match random.chance(2) {
            true => self.protocol.clone(),
            false => SWITCHED_TO[random.below(SWITCHED_TO.len() as u64) as usize].to_owned(),
        }
    }
}
