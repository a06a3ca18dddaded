//! The `tally` binary: command line, configuration, signals, ports, files.
//!
//! The time of day, the folder and the ports come from here; what happens to a transaction is
//! decided below, in crates that know none of these. They meet in [`database`] and [`sessions`].

#[macro_use]
mod output;

mod analysis;
mod backup;
mod checkpoints;
mod cli;
mod cluster;
mod config;
mod configure;
mod database;
mod export;
mod folders;
mod http;
mod inspect;
mod logs;
mod memory;
mod metrics;
mod progress;
mod proof;
mod proving;
mod prune;
mod receipts;
mod reload;
mod restore;
mod secrets;
mod serve;
mod sessions;
mod skip;
#[cfg(feature = "tools")]
mod tools;
mod users;
mod verification;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use types::printable::printable_page;

use cli::{Cli, Command, Exit};

#[cfg(not(feature = "tools"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
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
            logs::start(&settings).map_err(|fault| anyhow!(config::ConfigError(vec![fault])))?;
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
        Command::Config(arguments) => configure::run(arguments, cli.output),
        Command::Cluster(arguments) => cluster::run(&arguments.action, cli.output),
        #[cfg(feature = "tools")]
        Command::Tool(tool) => tools::run(tool, cli.output),
    }
}
