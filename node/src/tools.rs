//! Commands that another program runs: `tally-tools`, which measures and breaks nodes.
//!
//! It lies beside `tally`, and is run as git runs its commands: it takes this process over, and
//! has the rest of the command line as it came. A node needs none of it, and it brings workloads,
//! studies and figures along, so it is a build of its own; where it is not there, help does not
//! name its commands, and one that is asked for says how to get it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::folders;

const PROGRAM: &str = "tally-tools";

/// Asked for which of its commands a build of it has, one name on each line.
const LIST: &str = "list";

/// The first lines of the program's own help, which a test of it compares.
#[derive(Subcommand, Debug)]
pub enum Tool {
    /// Compare protocols on the engine alone: no clients, a fresh database for every run.
    #[command(hide = true, disable_help_flag = true)]
    Bench(Passed),
    /// Show the whole of it in a minute: load, run, kill, recover, prove.
    #[command(hide = true, disable_help_flag = true)]
    Demo(Passed),
    /// Kill a cluster's leader again and again, and say how long writes were away.
    #[command(hide = true, disable_help_flag = true)]
    Failover(Passed),
    /// Kill nodes, cut files and flip bytes until something is lost.
    #[command(hide = true, disable_help_flag = true)]
    Torture(Passed),
    /// Load a node for hours with everything, and see whether its memory stays flat.
    #[command(hide = true, disable_help_flag = true)]
    Soak(Passed),
    /// Run whole nodes in one thread, from seeds, until a rule is broken.
    #[command(hide = true, disable_help_flag = true)]
    Sim(Passed),
    /// Send a node what no driver sends, and see whether another session has to wait.
    #[command(hide = true, disable_help_flag = true)]
    Fuzz(Passed),
}

/// A command line that is not read here.
#[derive(Args, Debug)]
pub struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Tool {
    fn parts(&self) -> (&'static str, &[OsString]) {
        let (name, Passed { arguments }) = match self {
            Tool::Bench(passed) => ("bench", passed),
            Tool::Demo(passed) => ("demo", passed),
            Tool::Failover(passed) => ("failover", passed),
            Tool::Torture(passed) => ("torture", passed),
            Tool::Soak(passed) => ("soak", passed),
            Tool::Sim(passed) => ("sim", passed),
            Tool::Fuzz(passed) => ("fuzz", passed),
        };
        (name, arguments)
    }
}

fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    Ok(own.with_file_name(PROGRAM))
}

/// Becomes the program; returns only why it could not.
pub fn run(tool: &Tool, as_json: bool) -> anyhow::Error {
    let (name, arguments) = tool.parts();
    let path = match program() {
        Ok(path) => path,
        Err(error) => return error,
    };
    let mut command = Command::new(&path);
    if as_json {
        command.args(["--output", "json"]);
    }
    let error = command.arg(name).args(arguments).exec();
    if error.kind() != ErrorKind::NotFound {
        return anyhow::Error::from(error).context(format!("cannot run {}", path.display()));
    }
    let what = format!("\"{name}\" is a command of {PROGRAM}, and {} is not there", path.display());
    let hint = "Build it from the sources, in the same target folder: cargo build --release \
                --package tools.";
    folders::refused(what).with_hint(hint).into()
}

/// All commands of the program.
pub fn names() -> impl Iterator<Item = String> {
    let all = Tool::augment_subcommands(clap::Command::new(PROGRAM));
    let names: Vec<String> = all.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    names.into_iter()
}

/// Those that the one that lies here was built with; none where there is no such program.
pub fn there() -> Vec<String> {
    let listed = program().ok().and_then(|path| Command::new(path).arg(LIST).output().ok());
    let Some(listed) = listed else { return Vec::new() };
    let listed = String::from_utf8_lossy(&listed.stdout);
    names().filter(|name| listed.lines().any(|line| line == name)).collect()
}
