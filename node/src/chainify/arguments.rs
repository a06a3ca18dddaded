//! What can be asked of `tally chainify`.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
pub struct Chainify {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Subcommand, Debug)]
pub enum Action {
    /// Chain databases: make a folder for each organisation, digest tables and triggers in each.
    Init(Init),
    /// Run one organisation until it is stopped: it orders, executes and votes.
    Run {
        #[command(flatten)]
        place: Place,
        /// Connections to the database: transactions that touch other rows run beside each other.
        #[arg(long, value_name = "N", default_value = "4")]
        connections: NonZeroUsize,
    },
    /// Have a transaction ordered, and say what it came to.
    Submit {
        #[command(flatten)]
        place: Place,
        /// INSERT, UPDATE and DELETE of chained tables; all of them or none.
        #[arg(required = true, value_name = "SQL")]
        statements: Vec<String>,
    },
    /// Ask each organisation how far it is, how it voted, and which of its rows have deviated.
    Status {
        #[command(flatten)]
        place: Place,
    },
    /// Check every hash and every certificate of an organisation's ledger, without its database.
    Verify {
        #[command(flatten)]
        place: Place,
    },
    /// Remove digest tables, triggers and checkpoints from a database: no trace is left in it.
    Uninstall {
        /// As postgresql://user@host/name or mysql://user@host/name.
        #[arg(long, value_name = "URL")]
        database: String,
    },
}

#[derive(Args, Debug)]
pub struct Place {
    /// The organisation's folder.
    #[arg(long, value_name = "DIR")]
    pub folder: PathBuf,
}

#[derive(Args, Debug)]
pub struct Init {
    /// New folder, in which each organisation has one.
    #[arg(long, value_name = "DIR", default_value = "tally-chained")]
    pub folder: PathBuf,
    /// Of one organisation, as postgresql://user@host/name or mysql://user@host/name; repeat it.
    #[arg(long, value_name = "URL", required = true)]
    pub database: Vec<String>,
    /// Tables that are chained, with the same rows in each database.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required = true)]
    pub tables: Vec<String>,
    /// Votes that are enough [default: more than half].
    #[arg(long, value_name = "C")]
    pub votes: Option<usize>,
    /// Blocks from one checkpoint to the next.
    #[arg(long, value_name = "N", default_value = "5")]
    pub checkpoint_blocks: NonZeroU64,
    /// Address of the first organisation's listener; the others have the ports after it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5480")]
    pub listen: SocketAddr,
}
