//! The `tally-tools` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::main()
}
