//! What can be asked of `tally bench`.

use std::path::{Path, PathBuf};

use bench::over_network::NetworkPlan;
use bench::{Plan, Programs, Workload};
use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug, Clone)]
pub struct Bench {
    #[command(subcommand)]
    pub special: Option<Special>,
    #[command(flatten)]
    pub comparison: Comparison,
}

#[derive(Args, Debug, Clone)]
pub struct Scripts {
    /// Where they go: `tpcb` and `smallbank` are made there.
    pub folder: PathBuf,
    /// TPC-B's scale: branches.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub scale: u32,
    /// SmallBank's customers.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub accounts: u64,
}

#[derive(Subcommand, Debug, Clone)]
pub enum Special {
    /// Two numbers in two minutes, to compare machines and versions by.
    Canonical {
        /// Only see whether it works: tiny, and allowed in a build without optimisation.
        #[arg(long)]
        smoke: bool,
    },
    /// What one core gets out of the tables by hand-written transactions, without interpreter or
    /// protocol, and how much of it protocols reach.
    Limit(LimitOf),
    /// Measure a figure of a paper again, beside its numbers; without a name, list them.
    Figure(Figure),
    /// Transactions at a set rate, simulated and signed by two organisations' nodes, ordered,
    /// validated: what becomes of them, and when their clients know.
    Network(Network),
    /// Write workloads' rows and pgbench scripts into a folder, to drive any database by.
    Scripts(Scripts),
    /// Ask PostgreSQL and a node the same questions about the same rows, and compare.
    #[cfg(feature = "analytics")]
    Answers(Answers),
    /// Writers and dashboards on one node: what each side gets, alone and together.
    #[cfg(feature = "analytics")]
    Htap(Htap),
}

#[derive(Args, Debug, Clone)]
pub struct LimitOf {
    /// Whose limit: tpcc (NewOrder and Payment) or ycsb, as `name` or `name:setting=value:…`.
    #[arg(default_value = "tpcc")]
    pub workload: Workload,
    /// Protocols to compare with it.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "serial,quecc,silo")]
    pub protocol: Vec<String>,
    /// Skew of the keys, where the workload has one.
    #[arg(long, value_name = "THETA", default_value_t = 0.0)]
    pub theta: f64,
    /// Threads of the protocols; by hand it is one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Transactions of a run.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub transactions: usize,
    /// Runs of each; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repetitions: usize,
    /// Only see whether it works: allow a build without optimisation.
    #[arg(long)]
    pub smoke: bool,
}

impl LimitOf {
    pub fn plan(&self) -> Plan {
        let workload = match self.workload.name() {
            "tpcc" => self.workload.clone().with("mix", "neworder-payment"),
            _ => self.workload.clone(),
        };
        Plan {
            workloads: vec![workload],
            protocols: self.protocol.clone(),
            thetas: vec![self.theta],
            threads: vec![self.threads],
            transactions: self.transactions,
            repetitions: self.repetitions,
            ..Plan::default()
        }
    }
}

#[derive(Args, Debug, Clone)]
pub struct Network {
    /// What to run, as `name` or `name:setting=value:…`.
    #[arg(default_value = "smallbank:rows=10000:mix=fabric")]
    pub workload: Workload,
    /// Protocols of the ledgers, one after the other.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "fabric:lock=state,fabric,fabric_pp"
    )]
    pub protocol: Vec<String>,
    /// Whether transactions are simulated and signed by both organisations before they are
    /// ordered, or ordered as calls, which each node runs.
    #[arg(long, value_enum, default_value = "on")]
    pub endorse: Switch,
    /// Ledgers, each of two nodes of its own.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=16)
    )]
    pub ledgers: u16,
    /// Clients of each ledger: so many transactions can be under way.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub clients: u32,
    /// Transactions that are due on each ledger in a second.
    #[arg(long, value_name = "N", default_value = "200", value_parser = rate)]
    pub rate: f64,
    /// Seconds that are measured under each protocol.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub seconds: f64,
    /// Seconds before that.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub warm_up: f64,
    /// Seed of the draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Settings of all nodes, as they are written in their files.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Only see whether it works: allow a build without optimisation.
    #[arg(long)]
    pub smoke: bool,
}

impl Network {
    pub fn plan(&self) -> NetworkPlan {
        NetworkPlan {
            workload: self.workload.clone(),
            protocols: self.protocol.clone(),
            endorsed: self.endorse == Switch::On,
            ledgers: self.ledgers,
            clients: self.clients,
            rate: self.rate,
            seconds: self.seconds,
            warm_up: self.warm_up,
            seed: self.seed,
            settings: self.settings.clone(),
        }
    }
}

fn rate(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(rate) if (0.1..=1e6).contains(&rate) => Ok(rate),
        _ => anyhow::bail!("a number from 0.1 to 1000000 is expected"),
    }
}

fn seconds(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => anyhow::bail!("a number of seconds, a day at most, is expected"),
    }
}

#[cfg(feature = "analytics")]
#[derive(Args, Debug, Clone)]
pub struct Htap {
    /// Customers of the bank.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub customers: u64,
    /// Seconds of each phase: writers alone, dashboards alone, together.
    #[arg(long, value_name = "S", default_value_t = 20)]
    pub seconds: u64,
    /// Clients that write.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub clients: u32,
    /// Connections that ask, one query after the other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub dashboards: u32,
    /// Also write a page with plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[cfg(feature = "analytics")]
#[derive(Args, Debug, Clone)]
pub struct Answers {
    /// Workloads of questions: tpch, chbench.
    #[arg(default_values = ["tpch", "chbench"])]
    pub workloads: Vec<String>,
    /// TPC-H's scale factor, CH-benCHmark's warehouses.
    #[arg(long, value_name = "X", default_value_t = 0.01)]
    pub scale: f64,
    /// The PostgreSQL, `postgresql://USER@HOST:PORT/DATABASE`; it gets a database for each
    /// workload.
    #[arg(long, value_name = "URL", env = "TALLY_POSTGRES")]
    pub postgres: String,
    /// Also write its answers into files, one for each query.
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
}

#[derive(Args, Debug, Clone)]
pub struct Figure {
    /// Names of figures or of groups of them (pacman, durability), or `all`.
    pub names: Vec<String>,
    /// Threads that execute a block [default: one for each core].
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Runs of each combination where times are compared; counts need one.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repetitions: usize,
    /// A tenth of the rows and transactions.
    #[arg(long)]
    pub quick: bool,
    /// All settings of figures that take a sample of the paper's.
    #[arg(long)]
    pub full: bool,
    /// A PostgreSQL that figures compare with, if they can.
    #[arg(long, value_name = "URL", env = "TALLY_POSTGRES")]
    pub postgres: Option<String>,
    /// Where figures that are about the disk write [default: the system's temporary folder].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Also write a page with plots and tables.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Only see whether it works: tiny, and allowed in a build without optimisation.
    #[arg(long)]
    pub smoke: bool,
}

/// A comparison of the caller's own making.
#[derive(Args, Debug, Clone)]
pub struct Comparison {
    /// What to run: smallbank, tpcb, ycsb, tpcc or custom, as `name` or `name:setting=value:…`.
    #[arg(default_value = "ycsb")]
    pub workload: Workload,
    /// Where procedures come from: sql, or ir, the builder.
    #[arg(long, value_name = "sql|ir", default_value = "sql")]
    pub programs: Programs,
    /// Protocols to compare, as `name` or `name:option=value:…` [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub protocol: Vec<String>,
    /// Skews of the keys: 0 is uniform, above it Zipf's.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0,0.6,0.9,0.99",
        value_parser = theta
    )]
    pub theta: Vec<f64>,
    /// Numbers of threads that execute a block.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2")]
    pub threads: Vec<usize>,
    /// Transactions of a block.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000")]
    pub block_transactions: Vec<usize>,
    /// Transactions of a run.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub transactions: usize,
    /// Rows of the largest table, where that is the workload's size.
    #[arg(long, value_name = "N")]
    pub rows: Option<u64>,
    /// TPC-C's sizes [default: 1].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub warehouses: Vec<u64>,
    /// Whether blocks are hashed into a chain, or the protocol runs alone.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_value = "off")]
    pub sealing: Vec<Switch>,
    /// Folder for a ledger that is written and synced, block by block; needs sealing. `off,DIR`
    /// compares.
    #[arg(long, value_name = "off|DIR", value_delimiter = ',', default_value = "off")]
    pub durability: Vec<PathBuf>,
    /// Runs of each combination; the median counts, the extremes are shown.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repetitions: usize,
    /// Seed of the draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Count allocations too, in one more run of each combination.
    #[arg(long)]
    pub allocations: bool,
    /// Also write a page with plots and tables.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Only see whether it works: allow a build without optimisation.
    #[arg(long)]
    pub smoke: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

fn theta(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(theta) if (0.0..=2.0).contains(&theta) => Ok(theta),
        _ => Err("a number from 0 to 2 is expected".into()),
    }
}

impl Comparison {
    pub fn plan(&self) -> Plan {
        let all = || protocols::ALL.iter().map(|entry| entry.info.name.to_owned()).collect();
        let folder = |path: &PathBuf| (path != Path::new("off")).then(|| path.clone());
        Plan {
            workloads: self.workloads(),
            programs: self.programs,
            protocols: if self.protocol.is_empty() { all() } else { self.protocol.clone() },
            thetas: self.theta.clone(),
            threads: self.threads.clone(),
            sealing: self.sealing.iter().map(|&switch| switch == Switch::On).collect(),
            block_transactions: self.block_transactions.clone(),
            transactions: self.transactions,
            durability: self.durability.iter().map(folder).collect(),
            repetitions: self.repetitions,
            seed: self.seed,
            allocations: self.allocations,
        }
    }

    /// One for each number of warehouses.
    fn workloads(&self) -> Vec<Workload> {
        let workload = match self.rows {
            Some(rows) => self.workload.clone().with("rows", rows),
            None => self.workload.clone(),
        };
        if self.warehouses.is_empty() {
            return vec![workload];
        }
        let of = |count: &u64| workload.clone().with("warehouses", count);
        self.warehouses.iter().map(of).collect()
    }
}
