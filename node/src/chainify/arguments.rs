//! What can be asked of `tally chainify`.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
        /// Transactions of a block, at most, where this organisation orders.
        #[arg(long, value_name = "N", default_value = "10000")]
        block_transactions: NonZeroUsize,
        /// A function of the database that agrees to a transaction or not: it gets its statements
        /// as a JSON list, and returns a truth value.
        #[arg(long, value_name = "FUNCTION")]
        check: Option<String>,
    },
    /// Have a transaction ordered, and say what it came to.
    Submit {
        #[command(flatten)]
        place: Place,
        /// INSERT, UPDATE and DELETE of chained tables; all of them or none.
        #[arg(required = true, value_name = "SQL")]
        statements: Vec<String>,
    },
    /// Have the transactions of a file ordered, so many at a time, and say how far all are.
    Feed(Feed),
    /// Run the transactions of a file on one database that is not chained, to compare with.
    Alone(Alone),
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
    /// Who has to agree to what a table gets, before it is ordered: TABLE=all, TABLE=2, or
    /// TABLE=row:COLUMN,COLUMN, those whose numbers a new row has there; repeat it.
    #[arg(long, value_name = "POLICY")]
    pub agree: Vec<String>,
    /// Blocks from one checkpoint to the next.
    #[arg(long, value_name = "N", default_value = "5")]
    pub checkpoint_blocks: NonZeroU64,
    /// Address of the first organisation's listener; the others have the ports after it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5480")]
    pub listen: SocketAddr,
}

#[derive(Args, Debug)]
pub struct Feed {
    #[command(flatten)]
    pub place: Place,
    /// A transaction a line: a JSON list of its statements.
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// Transactions that are under way at once.
    #[arg(long, value_name = "N", default_value = "1024")]
    pub under_way: NonZeroUsize,
    /// No more are begun after so many seconds [default: all of the file's].
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
}

#[derive(Args, Debug)]
pub struct Alone {
    /// As postgresql://user@host/name or mysql://user@host/name.
    #[arg(long, value_name = "URL")]
    pub database: String,
    /// A transaction a line: a JSON list of its statements.
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// On which transactions run beside each other.
    #[arg(long, value_name = "N", default_value = "4")]
    pub connections: NonZeroUsize,
    /// No more are begun after so many seconds [default: all of the file's].
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// How the database itself keeps them apart.
    #[arg(long, value_enum, default_value = "serializable")]
    pub isolation: Level,
    /// Also where the database is chained: for the ledger these are edits, which it names.
    #[arg(long)]
    pub chained: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Level {
    Serializable,
    ReadCommitted,
}
