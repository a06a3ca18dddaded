//! The `tally` binary: command line, configuration, signals, ports, files.
//!
//! The time of day, the folder and the ports come from here; what happens to a transaction is
//! decided below, in crates that know none of these. They meet in [`database`] and [`sessions`].

mod analysis;
mod backup;
mod benchmark;
mod checkpoints;
mod cli;
mod config;
mod configure;
mod database;
mod demo;
mod export;
mod folders;
mod http;
mod inspect;
mod logs;
mod memory;
mod metrics;
mod prune;
mod receipts;
mod reload;
mod restore;
mod secrets;
mod serve;
mod sessions;
mod simulate;
mod soak;
mod torture;
mod users;
mod verification;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use types::printable::printable_page;

use cli::{Cli, Command, Exit};

#[global_allocator]
static ALLOCATOR: bench::allocations::Counting<mimalloc::MiMalloc> =
    bench::allocations::Counting(mimalloc::MiMalloc);

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
        Command::Export(arguments) => export::run(arguments, cli.output),
        Command::Receipt(arguments) => inspect::receipt(arguments, cli.output),
        Command::Config(arguments) => configure::run(arguments, cli.output),
        Command::Bench(arguments) => benchmark::run(arguments, cli.output),
        Command::Demo(arguments) => demo::run(arguments, cli.output),
        Command::Torture(arguments) => torture::run(arguments, cli.output),
        Command::Soak(arguments) => soak::run(arguments, cli.output),
        Command::Sim(arguments) => simulate::run(arguments, cli.output),
    }
}
