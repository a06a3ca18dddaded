//! `cargo xtask deps`, `floors`, `tidy`, `pages` and `ratchet`: what the compiler does not check.
//! `cargo xtask unicode`: a part of the source that is made.
//!
//! The first five also run as tests, so that an ordinary `cargo test` keeps the layers, the
//! tidiness, the pages true, and what has been reached.

mod deps;
mod floors;
mod folders;
mod pages;
mod ratchet;
mod tidy;
mod unicode;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The repository that this was started in. A path from the build would be another's where two
/// checkouts share a target folder, and the sources that are looked at not those that were built.
fn root() -> PathBuf {
    let folder = std::env::current_dir().expect("the folder that this was started in");
    let is_root = |path: &&Path| path.join("tools/xtask/Cargo.toml").is_file();
    let root = folder.ancestors().find(is_root);
    root.expect("start this inside the repository").to_path_buf()
}

fn list(lines: io::Result<Vec<String>>) -> ExitCode {
    match lines {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let faults = match arguments[..] {
        ["deps"] => deps::faults(&root()),
        ["floors"] => floors::faults(&root()),
        ["tidy"] => tidy::faults(&root()),
        ["pages"] => pages::faults(&root()),
        ["ratchet"] => ratchet::faults(&root()),
        ["ratchet", "--write"] => ratchet::write(&root()),
        ["ratchet", "--places", measure, subject] => {
            return list(ratchet::places(&root(), measure, subject));
        }
        ["unicode"] => {
            print!("{}", unicode::tables());
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!(
                "usage: cargo xtask deps|floors|tidy|pages|unicode|ratchet\n\
                 ratchet --write                   tightens the limits to what has been reached\n\
                 ratchet --places MEASURE SUBJECT  where it is found, as `pronouns sql`"
            );
            return ExitCode::from(2);
        }
    };
    match faults {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
