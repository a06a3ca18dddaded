//! The `tally` program: command line, configuration, signals, ports, files.
//!
//! The time of day, the folder and the ports come from here; what happens to a transaction is
//! decided below, in crates that know none of these. They meet in [`database`] and [`sessions`].
//!
//! A library beside the program, for those that drive a node from outside: what is public here is
//! what `tools` shares with it.

#[macro_use]
pub mod output;

mod analysis;
mod backup;
#[cfg(feature = "chainify")]
mod chainify;
mod checkpoints;
pub mod cli;
mod cluster;
pub mod config;
mod configure;
mod database;
mod databases;
mod export;
pub mod folders;
pub mod http;
mod inspect;
mod logs;
mod manual;
pub mod memory;
mod metrics;
mod observed;
pub mod progress;
mod proof;
mod proving;
mod prune;
mod receipts;
mod reload;
mod restore;
pub mod secrets;
mod serve;
mod sessions;
mod signing;
mod signing_commands;
mod skip;
mod tools;
mod users;
pub mod verification;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use types::printable::printable_page;

pub use database::{CLOCK_FILE, HAS_FAULTS};
pub use inspect::exit_of;

use cli::{Cli, Command, Exit, Output};

/// The program's file.
pub const PROGRAM: &str = "tally";

/// What it has given out stands in `tally_memory`.
#[global_allocator]
static ALLOCATOR: kit::allocations::Counting<mimalloc::MiMalloc> =
    kit::allocations::Counting(mimalloc::MiMalloc);

/// The program, from the command line to its exit code.
pub fn main() -> ExitCode {
    #[cfg(feature = "multiversion")]
    multiversion::register();
    let cli = cli::parse();
    ended(run(&cli))
}

/// What a program that has come to its end tells its caller, and people.
pub fn ended(outcome: Result<Exit>) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("tally: {}", printable_page(&format!("{error:#}")));
            if let Some(hint) = folders::hint_of(&error) {
                eprintln!("HINT: {}", printable_page(hint));
            }
            let usage = error.is::<config::ConfigError>();
            if usage { Exit::Usage } else { Exit::Failed }.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Exit> {
    match &cli.command {
        Command::Serve(flags) => {
            let settings = configure::resolve(flags)?.settings;
            logs::start(&settings).map_err(|fault| anyhow!(config::ConfigError(vec![fault.0])))?;
            serve::run(&settings, cli.output)
        }
        Command::Checkpoint(flags) => {
            checkpoints::run(&configure::resolve(flags)?.settings, cli.output)
        }
        Command::Verify(arguments) => inspect::verify(arguments, cli.output),
        Command::Backup(arguments) => backup::run(arguments, cli.output),
        Command::Prune(arguments) => prune::run(arguments, cli.output),
        Command::Restore(arguments) => restore::run(arguments, cli.output),
        Command::Skip(arguments) => skip::run(arguments, cli.output),
        Command::Export(arguments) => export::run(arguments, cli.output),
        Command::Receipt(arguments) => inspect::receipt(arguments, cli.output),
        Command::Proof(arguments) => proof::run(&arguments.action, cli.output),
        Command::Identity(arguments) => signing::identity(&arguments.action, cli.output),
        Command::Sign(arguments) => signing::sign(arguments, cli.output),
        Command::Approve(arguments) => signing::approve(arguments, cli.output),
        Command::Config(arguments) => configure::run(arguments, cli.output),
        Command::Completions { shell } => manual::complete(*shell),
        Command::Man { folder } => manual::write(folder, cli.output),
        Command::Cluster(arguments) => cluster::run(&arguments.action, cli.output),
        #[cfg(feature = "chainify")]
        Command::Chainify(arguments) => chainify::run(arguments, cli.output),
        Command::Tool(tool) => Err(tools::run(tool, cli.output == Output::Json)),
    }
}
