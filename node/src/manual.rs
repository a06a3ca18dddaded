//! Manual pages and shell completions, generated from the command line's definition.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use serde_json::json;

use crate::cli::{self, Exit, Output};

pub fn complete(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::all_commands(), "tally", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(Exit::Ok)
}

pub fn write(folder: &Path, output: Output) -> Result<Exit> {
    let made = || -> io::Result<usize> {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(cli::all_commands(), folder)?;
        Ok(std::fs::read_dir(folder)?.count())
    };
    let pages = made().with_context(|| format!("cannot write into {}", folder.display()))?;
    match output {
        Output::Text => println!("{} has {pages} pages", folder.display()),
        Output::Json => println!("{}", json!({ "folder": folder, "pages": pages })),
    }
    Ok(Exit::Ok)
}
