//! The `tally-tools` program: what measures and breaks a node, which runs its commands for `tally`.
//!
//! ```text
//! demo       the whole promise in a minute                                  always there
//! bench      protocols on the engine alone, figures of papers, dashboards   feature `bench`
//! failover   how long writes are away when a leader is killed                  always there
//! torture    kills, disks, hostile bytes                                    feature `torture`
//! soak       hours of load                                                  feature `soak`
//! sim        whole nodes in one thread                                      feature `sim`
//! fuzz       what no driver sends                                           feature `fuzz`
//! ```
//!
//! They drive a node as its clients and its operators do: a process of its own, which is the
//! program `tally` beside this one, its ports, its folder ([`node_process`]). All features are on
//! by default; `make demo` builds none.

#[macro_use]
extern crate node;

pub mod arguments;
#[cfg(feature = "bench")]
pub mod benchmark;
pub mod demo;
mod failover;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod members;
pub mod node_process;
#[cfg(feature = "sim")]
mod simulate;
#[cfg(feature = "soak")]
mod soak;
#[cfg(feature = "torture")]
mod torture;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use node::cli::{Exit, Output};
use types::{Error, SqlState};

use arguments::Tool;

/// What measures and breaks a node; `tally` runs its commands.
#[derive(Parser, Debug)]
#[command(name = "tally", bin_name = "tally", version, max_term_width = 100)]
struct Cli {
    /// Form of the result on standard output.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, display_order = 900)]
    output: Output,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(flatten)]
    Tool(Tool),
    /// Print the names of these commands.
    #[command(hide = true)]
    List,
    #[command(external_subcommand)]
    Absent(Vec<OsString>),
}

/// The program, from the command line to its exit code.
pub fn main() -> ExitCode {
    #[cfg(any(feature = "bench", feature = "sim"))]
    multiversion::register();
    let cli = Cli::parse();
    node::ended(run(&cli))
}

fn run(cli: &Cli) -> Result<Exit> {
    match &cli.command {
        Command::Tool(tool) => run_tool(tool, cli.output),
        Command::List => {
            for name in names() {
                println!("{name}");
            }
            Ok(Exit::Ok)
        }
        Command::Absent(words) => {
            let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            Err(absent(&name).into())
        }
    }
}

fn run_tool(tool: &Tool, output: Output) -> Result<Exit> {
    match tool {
        #[cfg(feature = "bench")]
        Tool::Bench(arguments) => benchmark::run(arguments, output),
        Tool::Demo(arguments) => demo::run(arguments, output),
        Tool::Failover(arguments) => failover::run(arguments, output),
        #[cfg(feature = "torture")]
        Tool::Torture(arguments) => torture::run(arguments, output),
        #[cfg(feature = "soak")]
        Tool::Soak(arguments) => soak::run(arguments, output),
        #[cfg(feature = "sim")]
        Tool::Sim(arguments) => simulate::run(arguments, output),
        #[cfg(feature = "fuzz")]
        Tool::Fuzz(arguments) => fuzz::command::run(arguments, output),
    }
}

/// The commands of this build.
fn names() -> Vec<String> {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

fn absent(name: &str) -> Error {
    let what = format!("this build of tally-tools has no command \"{name}\"");
    let hint = format!(
        "It has: {}. The others come with: cargo build --release --package tools.",
        names().join(", ")
    );
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A help text that scrolls is not read.
    #[test]
    fn every_help_text_fits_a_screen() {
        fn check(command: &clap::Command, words: &[&str]) {
            let asked = words.iter().chain(&["--help"]);
            let help = Cli::command().try_get_matches_from(asked).unwrap_err().to_string();
            let lines = help.lines().count();
            assert!(lines <= 40, "{words:?}: {lines} lines\n{help}");
            for inner in command.get_subcommands() {
                check(inner, &[words, &[inner.get_name()]].concat());
            }
        }
        let mut command = Cli::command();
        command.build();
        check(&command, &["tally"]);
    }

    /// `tally --help` has a line for each, which is the program's own.
    #[test]
    fn tally_tells_of_these_commands_what_they_say_themselves() {
        let (tally, own) = (node::cli::Cli::command(), Cli::command());
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        let passed_on = tally.get_subcommands().filter(|it| it.is_disable_help_flag_set());
        let reported: Vec<_> = passed_on.map(|it| (it.get_name().to_owned(), about(it))).collect();
        let shown = own.get_subcommands().filter(|it| !it.is_hide_set());
        let said: Vec<_> = shown.map(|it| (it.get_name().to_owned(), about(it))).collect();
        assert_eq!(reported, said);
    }

    #[test]
    fn a_command_that_a_build_lacks_is_named_with_those_that_it_has() {
        let error = absent("chart");
        let hint = error.fields().hint.as_deref().unwrap_or_default();
        assert!(error.message().contains("\"chart\"") && hint.contains("demo"), "{error:?}");
    }
}
