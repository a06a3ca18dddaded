//! The `tally` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::main()
}
