//! `cargo xtask deps`, `tidy` and `pages`: what the compiler does not check. `cargo xtask unicode`:
//! a part of the source that is made.
//!
//! The first three also run as tests, so that an ordinary `cargo test` keeps the layers, the
//! tidiness, and the pages true.

mod deps;
mod pages;
mod tidy;
mod unicode;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn main() -> ExitCode {
    let faults = match std::env::args().nth(1).as_deref() {
        Some("deps") => deps::faults(&root()),
        Some("tidy") => tidy::faults(&root()),
        Some("pages") => pages::faults(&root()),
        Some("unicode") => {
            print!("{}", unicode::tables());
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("usage: cargo xtask deps|tidy|pages|unicode");
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
