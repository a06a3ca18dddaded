//! The command line of what measures and breaks a node.

use clap::{Args, Subcommand};

#[cfg(feature = "bench")]
use crate::benchmark::arguments::Bench;

#[derive(Subcommand, Debug)]
pub enum Tool {
    /// Compare protocols on the engine alone: no clients, a fresh database for every run.
    #[cfg(feature = "bench")]
    #[command(args_conflicts_with_subcommands = true)]
    Bench(Bench),
    /// Show the whole of it in a minute: load, run, kill, recover, prove.
    Demo(Demo),
    /// Kill a cluster's leader again and again, and say how long writes were away.
    Failover(Failover),
    /// Kill nodes, cut files and flip bytes until something is lost.
    #[cfg(feature = "torture")]
    Torture(Torture),
    /// Load a node for hours with everything, and see whether its memory stays flat.
    #[cfg(feature = "soak")]
    Soak(Soak),
    /// Run whole nodes in one thread, from seeds, until a rule is broken.
    #[cfg(feature = "sim")]
    Sim(Sim),
    /// Send a node what no driver sends, and see whether another session has to wait.
    #[cfg(feature = "fuzz")]
    Fuzz(Fuzz),
}

#[derive(Args, Debug, Clone)]
pub struct Demo {
    /// Customers to load.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub customers: u64,
    /// Seconds of the measured run.
    #[arg(long, value_name = "S", default_value_t = 10)]
    pub seconds: u64,
    /// Clients of the measured run.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: u32,
    /// Keep the data folder, the logs and the receipt, and say where they are.
    #[arg(long)]
    pub keep: bool,
    /// Four organisations over CometBFT instead: one is killed, one cut off, one lies.
    #[arg(long)]
    pub cluster: bool,
    /// CometBFT's program, for that [default: the one in PATH].
    #[arg(long, value_name = "FILE", env = "COMETBFT", default_value = "cometbft")]
    pub cometbft: std::path::PathBuf,
    /// Run against this PostgreSQL-compatible server instead, without the ledger's steps.
    #[arg(long, value_name = "URL", hide = true)]
    pub against: Option<String>,
}

#[derive(Args, Debug, Clone)]
pub struct Failover {
    /// What orders: `raft`, or `cometbft`, where the last block's proposer is killed.
    #[arg(long, value_name = "NAME", default_value = "raft")]
    pub order: String,
    /// Members [default: 3, by CometBFT 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=16))]
    pub nodes: Option<u16>,
    /// Kills, one after the other.
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub kills: u32,
    /// Where to write the report, as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<std::path::PathBuf>,
    /// CometBFT's program [default: the one in PATH].
    #[arg(long, value_name = "FILE", env = "COMETBFT", default_value = "cometbft")]
    pub cometbft: std::path::PathBuf,
}

#[cfg(feature = "torture")]
#[derive(Args, Debug, Clone)]
pub struct Torture {
    /// Kills; without it, as many as fit into their share of the time.
    #[arg(long, value_name = "N")]
    pub kills: Option<u64>,
    /// Seconds for everything, without kills if their number is given.
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub seconds: u64,
    /// Longest time under load before a kill, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    pub load_ms: u64,
    /// Most bytes to flip in a small ledger's folder, one at a time.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub flips: u64,
    /// Kill and freeze the nodes of a cluster of so many instead of all the rest.
    #[arg(long, value_name = "NODES")]
    #[arg(value_parser = clap::value_parser!(u16).range(3..=9))]
    pub cluster: Option<u16>,
    /// What clients do and when kills come follows from it [default: another one each time].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

#[cfg(feature = "soak")]
#[derive(Args, Debug, Clone)]
pub struct Soak {
    /// Seconds of load.
    #[arg(long, value_name = "S", default_value_t = 7200)]
    pub seconds: u64,
    /// Clients that write; two more read and change the schema.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: u32,
    /// All clients overwrite one row's text, as a week of a hot row would.
    #[arg(long)]
    pub only_hot: bool,
    /// What clients write follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Folder in which the node's own is made [default: the system's for temporary files].
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<std::path::PathBuf>,
    /// Keep the data folder and the logs, and say where they are.
    #[arg(long)]
    pub keep: bool,
}

#[cfg(feature = "sim")]
#[derive(Args, Debug, Clone)]
pub struct Sim {
    /// Worlds to run, one for each seed.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Run them all under this protocol [default: each seed draws one].
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<String>,
}

#[cfg(feature = "fuzz")]
#[derive(Args, Debug, Clone)]
pub struct Fuzz {
    /// Seconds for all three fuzzers, each of which gets a third.
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub seconds: u64,
    /// What is sent follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// One of them alone.
    #[arg(long, value_name = "KIND", value_enum)]
    pub only: Option<crate::fuzz::Kind>,
    /// Longest time, in milliseconds, for which the node may keep the other session waiting.
    #[arg(long, value_name = "MS")]
    pub late_ms_max: Option<u64>,
    /// A node that runs, HOST:PORT [default: one is started, on a folder that goes].
    #[arg(long, value_name = "ADDR")]
    pub address: Option<String>,
}
