//! The command line: every command and option of `tally`, and the exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use clap_complete::Shell;

use crate::tools::{self, Tool};

use crate::cluster::Kind;
use crate::config::BadValue;
use crate::signing_commands::{Approve, Identity, Sign};

/// What a script learns from a run. Documented in `--help`; never renumbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// All that was asked for holds.
    Ok = 0,
    /// It was done, and the answer is no; or it could not be done.
    Failed = 1,
    /// The command line or the configuration is wrong. (clap's own code.)
    Usage = 2,
    /// The ledger's last record is torn or damaged; everything before it holds.
    TornTail = 3,
    /// The ledger is damaged before its last record, or its blocks do not give its results.
    Damaged = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  all that was asked for holds
  1  a check failed, or the command could not be carried out
  2  the command line or the configuration is wrong
  3  the ledger's last record is torn or damaged, and all before it holds; 4  an earlier one is";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

/// A ledger database: PostgreSQL's clients and SQL, every block hashed, every row provable.
#[derive(Parser, Debug)]
#[command(name = "tally", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// Form of the result on standard output.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, display_order = 900)]
    pub output: Output,

    #[command(subcommand)]
    pub command: Command,
}

/// What this process was asked for. Ends it where that cannot be read, or was a text of help.
pub(crate) fn parse() -> Cli {
    let words: Vec<OsString> = std::env::args_os().collect();
    let asks_for_commands = match words.get(1) {
        Some(first) => ["help", "--help", "-h"].iter().any(|ask| first == *ask),
        None => true,
    };
    let command = if asks_for_commands { all_commands() } else { Cli::command() };
    let matches = command.get_matches_from(help_of_tool(words));
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// With those of another program that lies beside this one.
pub(crate) fn all_commands() -> clap::Command {
    with_tools(Cli::command(), &tools::there())
}

/// With these commands of another program in the help.
fn with_tools(command: clap::Command, there: &[String]) -> clap::Command {
    let shown = |command: clap::Command, name| command.mut_subcommand(name, |it| it.hide(false));
    there.iter().fold(command, shown)
}

/// `tally help TOOL` is for the tool to answer.
fn help_of_tool(words: Vec<OsString>) -> Vec<OsString> {
    match &words[..] {
        [program, help, name] if help == "help" && tools::names().any(|tool| name == &*tool) => {
            vec![program.clone(), name.clone(), "--help".into()]
        }
        _ => words,
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a node until SIGTERM or SIGINT.
    Serve(Settings),
    /// Make, run and look at nodes that keep one ledger together.
    Cluster(Cluster),
    /// Chain databases that organisations have to one ledger.
    #[cfg(feature = "chainify")]
    Chainify(crate::chainify::arguments::Chainify),
    /// Check every hash of a ledger, run every block again and compare.
    #[command(after_help = EXIT_CODES)]
    Verify(Verify),
    /// Write the state down, so that the next start is quick. Asks the node, if one is running.
    Checkpoint(Settings),
    /// Copy the ledger, or what has come since the last time, while a node may be running.
    #[command(after_help = EXIT_CODES)]
    Backup(Backup),
    /// Make a new folder with the ledger as it was at a block or at a time, and verify it.
    Restore(Restore),
    /// Remove old blocks that a checkpoint makes superfluous; their headers stay.
    Prune(Prune),
    /// Record a block as rejected that makes every start die.
    Skip(Skip),
    /// Write tables into files that other programs read.
    Export(Export),
    /// Take the receipt of one transaction, or check one against a head that you trust.
    #[command(args_conflicts_with_subcommands = true)]
    Receipt(Receipt),
    /// Check a proof that a node gave, or show the key that its heads are signed with.
    Proof(Proof),
    /// Make a key that signs transactions, or show the public half of one.
    Identity(Identity),
    /// Sign a transaction of a user, for SELECT tally_submit_signed(…) on any node.
    Sign(Sign),
    /// Approve a transaction of another by a user's key, for which a policy may ask.
    Approve(Approve),
    /// Write, check or show the configuration.
    Config(Config),
    /// Print what a shell needs to complete these commands.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write a manual page for each command into a folder.
    #[command(hide = true)]
    Man {
        /// The folder, which is made if there is none.
        folder: PathBuf,
    },
    #[command(flatten)]
    Tool(Tool),
}

/// Where settings come from. Every setting can be given by `--set`; the usual ones have a flag.
#[derive(Args, Debug, Default, Clone)]
pub struct Settings {
    /// Configuration file [default: tally.toml in the data folder].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder that holds the ledger [default: tally-data].
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Address of the PostgreSQL port [default: 127.0.0.1:5460].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address of /livez, /readyz and /metrics; '' turns them off [default: 127.0.0.1:5461].
    #[arg(long, value_name = "ADDR")]
    pub http_listen: Option<String>,
    /// Threads that execute a block [default: one for each core].
    #[arg(long, value_name = "N")]
    pub workers: Option<String>,
    /// Whether results wait for the disk: on or off [default: on].
    #[arg(long, value_name = "on|off")]
    pub durability: Option<String>,
    /// Protocol of a new ledger [default: harmony].
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Any setting; can be given more than once. `tally config show` lists them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
}

impl Settings {
    /// The flags as the configuration takes them. A named flag beats `--set`.
    pub fn flags(&self) -> Vec<(String, String)> {
        let named = [
            ("data", &self.data),
            ("listen", &self.listen),
            ("http_listen", &self.http_listen),
            ("workers", &self.workers),
            ("durability", &self.durability),
            ("protocol", &self.protocol),
        ];
        let given =
            named.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?)));
        self.set.iter().cloned().chain(given).collect()
    }
}

fn key_and_value(text: &str) -> Result<(String, String), BadValue> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(BadValue("KEY=VALUE is expected".to_owned())),
    }
}

#[derive(Args, Debug)]
pub struct Cluster {
    #[command(subcommand)]
    pub action: ClusterAction,
}

#[derive(Subcommand, Debug)]
pub enum ClusterAction {
    /// Make keys, certificates and the first block, in one folder for each node.
    Init(ClusterInit),
    /// Run all nodes as processes of this machine, until SIGTERM or SIGINT.
    Up {
        /// The folder that init has made.
        #[arg(long, value_name = "DIR", default_value = "tally-cluster")]
        folder: PathBuf,
    },
    /// Ask each node who leads and how far it is.
    Status {
        /// The folder that init has made, or the data folder of one node.
        #[arg(long, value_name = "DIR", default_value = "tally-cluster")]
        folder: PathBuf,
    },
    /// Add a member, while the others run: it gets the ledger from them, then it votes.
    Add(ClusterAdd),
    /// Remove a member, while the others run: they refuse it from then on.
    Remove {
        /// The folder that init has made.
        #[arg(long, value_name = "DIR", default_value = "tally-cluster")]
        folder: PathBuf,
        /// Its number.
        #[arg(long, value_name = "N")]
        member: u64,
        /// Also a member without which no result is certified any more.
        #[arg(long)]
        yes: bool,
    },
    /// Replace the key of a member, while its node and the others run.
    Rotate {
        /// The folder that init has made.
        #[arg(long, value_name = "DIR", default_value = "tally-cluster")]
        folder: PathBuf,
        /// Its number.
        #[arg(long, value_name = "N")]
        member: u16,
    },
    /// Have one folder go on alone, where no majority is left: what only others had is lost.
    Recover(ClusterRecover),
    /// Put a stopped member's damaged ledger aside: its next start takes it from the others.
    Rejoin {
        /// The member's data folder.
        #[arg(long, value_name = "DIR", default_value = "tally-data")]
        data: PathBuf,
    },
}

#[derive(Args, Debug)]
pub struct ClusterRecover {
    /// Folder of the member that has the most, or one that a backup was restored to.
    #[arg(long, value_name = "DIR", default_value = "tally-data")]
    pub data: PathBuf,
    /// Host that it listens on, as others will reach it; for a backup, which has no keys.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// First of its three ports; for a backup.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Do it; without this, what may be missing is said.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct ClusterAdd {
    /// The folder that init has made; the new node's comes to lie in it.
    #[arg(long, value_name = "DIR", default_value = "tally-cluster")]
    pub folder: PathBuf,
    /// Host that it listens on, as the others reach it.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// First of its three ports.
    #[arg(long, value_name = "PORT")]
    pub port: u16,
    /// It executes all, and serves reads and analytics; it neither orders nor votes.
    #[arg(long)]
    pub observer: bool,
}

#[derive(Args, Debug)]
pub struct ClusterInit {
    /// Folder to make.
    #[arg(long, value_name = "DIR", default_value = "tally-cluster")]
    pub folder: PathBuf,
    /// Nodes: more than half of them must run, so 3 bear one that does not, and 5 two.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=9))]
    pub nodes: u16,
    /// Host that all of them listen on.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// First port; each node takes three, for clients, probes, other nodes; with CometBFT four.
    #[arg(long, value_name = "PORT", default_value_t = 5460)]
    pub port: u16,
    /// What orders the ledger, for good: raft, or where it was built with them kafka or cometbft.
    #[arg(long, value_enum, default_value = "raft", hide_possible_values = true)]
    pub order: Kind,
    /// A setting of all nodes, written into each one's tally.toml; can be given more than once.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Protocol of the ledger [default: harmony].
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Votes that a certificate takes [default: more than two thirds of the nodes].
    #[arg(long, value_name = "C")]
    pub votes: Option<usize>,
    /// Nodes that may lie, as twice the votes exceed nodes and liars [default: fewer than a third].
    #[arg(long, value_name = "F")]
    pub liars: Option<usize>,
}

#[derive(Args, Debug)]
pub struct Verify {
    /// The ledger's folder, on which no node may be running, or a backup or an archive of it.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    #[arg(long, value_name = "NAME", help = "Of a node's folder, the ledger of this database")]
    pub database: Option<String>,
    #[arg(long, value_name = "N", help = "Threads that run blocks again [default: all cores]")]
    pub workers: Option<u32>,
    /// Begin with the newest checkpoint that holds: quicker, and trusts what it says.
    #[arg(long)]
    pub from_checkpoint: bool,
    /// Also compare its orders with those of a running member (number, address), or of a folder.
    #[arg(long, value_name = "MEMBER|DIR")]
    pub peer: Option<String>,
}

#[derive(Args, Debug)]
pub struct Skip {
    /// Height of the block, as the node that stopped before it names it.
    #[arg(value_name = "HEIGHT")]
    pub height: u64,
    /// Folder that holds the ledger, on which no node may be running.
    #[arg(long, value_name = "DIR", default_value = "tally-data")]
    pub data: PathBuf,
    /// Who decides it: a name that stands in the ledger.
    #[arg(long, value_name = "NAME")]
    pub owner: String,
    /// Why: a text that stands in the ledger.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Do it; without this, what would be done is shown.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct Backup {
    /// Folder of the backup: a new one, or one that holds earlier backups of the same ledger.
    #[arg(long, value_name = "DIR", required_unless_present = "verify")]
    pub to: Option<PathBuf>,
    /// Compare every byte of a backup or an archive with its digests, and do nothing else.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "data"])]
    pub verify: Option<PathBuf>,
    /// Of the node's folder, the ledger of this database.
    #[arg(long, value_name = "NAME", conflicts_with = "verify")]
    pub database: Option<String>,
    #[command(flatten)]
    pub node: Running,
}

#[derive(Args, Debug)]
pub struct Prune {
    /// Last block that may go. Segments go as a whole, none above the oldest checkpoint.
    #[arg(long, value_name = "N")]
    pub to_block: u64,
    /// Folder of an archive, to which the blocks are copied before they go.
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
    #[command(flatten)]
    pub node: Running,
}

/// A ledger's folder, and where its node answers if one is running.
#[derive(Args, Debug, Default, Clone)]
pub struct Running {
    /// Configuration file [default: tally.toml in the data folder].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder that holds the ledger [default: tally-data].
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Second port of the running node [default: 127.0.0.1:5461].
    #[arg(long, value_name = "ADDR")]
    pub http_listen: Option<String>,
}

impl Running {
    pub fn settings(&self) -> Settings {
        let Running { config, data, http_listen } = self.clone();
        Settings { config, data, http_listen, ..Settings::default() }
    }
}

#[derive(Args, Debug)]
pub struct Restore {
    /// A backup, an archive, or a ledger's folder on which no node is running.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// An archive of what was pruned from it; can be given more than once.
    #[arg(long, value_name = "DIR")]
    pub archive: Vec<PathBuf>,
    /// Folder to make.
    #[arg(long, value_name = "NEW")]
    pub data: PathBuf,
    /// Last block [default: the newest].
    #[arg(long, value_name = "N", conflicts_with = "to_time")]
    pub to_block: Option<u64>,
    /// Take blocks up to this time, such as '2026-01-31 23:59:59+00'.
    #[arg(long, value_name = "T")]
    pub to_time: Option<String>,
}

#[derive(Args, Debug)]
pub struct Export {
    /// The ledger's folder, on which no node may be running, or a backup of it.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Folder for the files, one for each table; none of them may exist.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// A table; can be given more than once [default: all].
    #[arg(long, value_name = "NAME")]
    pub table: Vec<String>,
    /// Form of the files.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// As COPY writes it, with a header.
    Csv,
    /// Columns with their types, compressed by Snappy.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    pub fn suffix(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            #[cfg(feature = "parquet")]
            Format::Parquet => "parquet",
        }
    }
}

#[derive(Args, Debug)]
pub struct Receipt {
    #[command(subcommand)]
    pub check: Option<ReceiptCheck>,
    /// The ledger's folder, on which no node may be running, or a backup or an archive of it.
    #[arg(long, value_name = "DIR", required = true)]
    pub data: Option<PathBuf>,
    /// Height of the block that the transaction was ordered in.
    #[arg(long, value_name = "H", required = true)]
    pub height: Option<u64>,
    /// Index of the transaction among those ordered in the block, from 0.
    #[arg(long, value_name = "I", required_unless_present = "position")]
    pub index: Option<u32>,
    /// Instead of the index: position among all that ran in the block, as tally_history tells.
    #[arg(long, value_name = "P", conflicts_with = "index")]
    pub position: Option<u32>,
    /// File to write; without it the receipt is described on standard output only.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum ReceiptCheck {
    /// Check a receipt offline, against a head, a first block or a ledger's folder.
    Verify {
        /// The receipt's file.
        file: PathBuf,
        /// SHA-256 hash of the deciding block's result header, 64 hexadecimal digits.
        #[arg(long, value_name = "HEX", value_parser = hash)]
        #[arg(required_unless_present_any = ["data", "first_block"])]
        #[arg(conflicts_with_all = ["data", "first_block"])]
        head: Option<ledger::Hash>,
        /// Hash of the first block's order header, which names the members whose votes certify.
        #[arg(long, value_name = "HEX", value_parser = hash, conflicts_with = "data")]
        first_block: Option<ledger::Hash>,
        /// Trust this ledger's folder for the head, also of a block that was pruned.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub struct Proof {
    #[command(subcommand)]
    pub action: ProofAction,
}

#[derive(Subcommand, Debug)]
pub enum ProofAction {
    /// Check a proof offline, against a head, a verifier key or a first block that you trust.
    #[command(after_help = EXIT_CODES)]
    Verify {
        /// The proof's file, as SELECT tally_row_proof(…) and others answer it.
        file: PathBuf,
        /// SHA-256 hash of a result header, 64 hexadecimal digits.
        #[arg(long, value_name = "HEX", value_parser = hash)]
        #[arg(required_unless_present_any = ["key", "first_block"])]
        #[arg(conflicts_with_all = ["key", "first_block"])]
        head: Option<ledger::Hash>,
        /// Key of a node, as `tally proof key` or SELECT tally_verifier_key() tells.
        #[arg(long, value_name = "KEY", conflicts_with = "first_block")]
        key: Option<String>,
        /// SHA-256 hash of the first block's order header, as `tally cluster init` tells it: for a
        /// proof with the votes of a cluster's members.
        #[arg(long, value_name = "HEX", value_parser = hash)]
        first_block: Option<ledger::Hash>,
    },
    /// Print a proof anchored in the members' votes, from the folder of a stopped member.
    #[command(after_help = EXIT_CODES)]
    Certify {
        /// The proof's file, of this ledger.
        file: PathBuf,
        /// A member's data folder.
        #[arg(long, value_name = "DIR", default_value = "tally-data")]
        data: PathBuf,
    },
    /// Print the verifier key of a node, which is made if there is none.
    Key {
        /// The node's data folder.
        #[arg(long, value_name = "DIR", default_value = "tally-data")]
        data: PathBuf,
    },
}

fn iterations() -> RangedU64ValueParser<u32> {
    use pgfront::auth::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN};
    RangedU64ValueParser::new()
        .range(u64::from(SCRAM_ITERATIONS_MIN)..=u64::from(SCRAM_ITERATIONS_MAX))
}

fn hash(text: &str) -> Result<ledger::Hash, BadValue> {
    let hash = ledger::hash::hash_from_hex(text);
    hash.map_err(|_| BadValue("64 lower-case hexadecimal digits are expected".to_owned()))
}

#[derive(Args, Debug)]
pub struct Config {
    #[command(subcommand)]
    pub action: ConfigAction,
}

#[derive(Subcommand, Debug)]
pub enum ConfigAction {
    /// Write a commented file with every setting at its default.
    Init {
        /// File to write, which must not exist [default: tally.toml in the data folder].
        file: Option<PathBuf>,
        /// The data folder, which is made if there is none [default: tally-data].
        #[arg(long, value_name = "DIR", conflicts_with = "file")]
        data: Option<PathBuf>,
    },
    /// Validate the configuration that a node would start with.
    Check(Settings),
    /// Print the effective values and where each came from.
    Show(Settings),
    /// Read a password from standard input and print a line for `password_file`.
    Password {
        /// The user it is for.
        user: String,
        /// Rounds of hashing that each login costs a client, and each guess who has the file.
        #[arg(long, value_name = "N", default_value_t = pgfront::auth::SCRAM_ITERATIONS)]
        #[arg(value_parser = iterations())]
        iterations: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A help text that scrolls is not read.
    #[test]
    fn every_help_text_fits_a_screen() {
        fn check(command: &clap::Command, words: &[&str]) {
            let asked = words.iter().chain(&["--help"]);
            let all: Vec<String> = tools::names().collect();
            let help = with_tools(Cli::command(), &all)
                .try_get_matches_from(asked)
                .unwrap_err()
                .to_string();
            let lines = help.lines().count();
            assert!(lines <= 40, "{words:?}: {lines} lines\n{help}");
            let own = |inner: &&clap::Command| !inner.is_disable_help_flag_set();
            for inner in command.get_subcommands().filter(own) {
                check(inner, &[words, &[inner.get_name()]].concat());
            }
        }
        let mut command = Cli::command();
        command.build();
        check(&command, &["tally"]);
    }

    #[test]
    fn flags_become_settings_and_named_ones_win() {
        let cli = Cli::try_parse_from(["tally", "serve", "--workers", "2", "--set", "workers=9"]);
        let Command::Serve(settings) = cli.unwrap().command else { unreachable!() };
        let last = settings.flags().pop();
        assert_eq!(last, Some(("workers".into(), "2".into())));
    }

    #[test]
    fn receipts_are_taken_by_flags_and_checked_by_a_subcommand() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("tally receipt --data d --height 1 --index 0").is_ok());
        assert!(parse("tally receipt --data d --height 1").is_err());
        assert!(parse("tally receipt --data d --height 1 --position 0").is_ok());
        assert!(parse("tally receipt --data d --height 1 --position 0 --index 0").is_err());
        let hash = "0a".repeat(32);
        assert!(parse(&format!("tally receipt verify f --head {hash}")).is_ok());
        assert!(parse(&format!("tally receipt verify f --first-block {hash}")).is_ok());
        let both = format!("tally receipt verify f --first-block {hash} --head {hash}");
        assert!(parse(&both).is_err());
        assert!(parse("tally receipt verify f --head 0a").is_err());
        assert!(parse("tally receipt verify f").is_err());
    }
}
