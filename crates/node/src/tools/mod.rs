//! What measures and breaks a node: benchmarks, the demonstration, torture, long loads, simulation.
//!
//! A node needs none of them, and they bring every workload and protocol variant with them: the
//! feature `tools`, on by default, is off in binaries that are handed out (`make dist`). They drive
//! a node as its clients and its operators do: a process of its own, its ports, its folder.

pub mod arguments;
pub mod benchmark;
pub mod demo;
mod simulate;
mod soak;
mod torture;

use anyhow::Result;

use crate::cli::{Exit, Output};
use arguments::Tool;

/// Benchmarks count its calls.
#[global_allocator]
static ALLOCATOR: kit::allocations::Counting<mimalloc::MiMalloc> =
    kit::allocations::Counting(mimalloc::MiMalloc);

pub fn run(tool: &Tool, output: Output) -> Result<Exit> {
    match tool {
        Tool::Bench(arguments) => benchmark::run(arguments, output),
        Tool::Demo(arguments) => demo::run(arguments, output),
        Tool::Torture(arguments) => torture::run(arguments, output),
        Tool::Soak(arguments) => soak::run(arguments, output),
        Tool::Sim(arguments) => simulate::run(arguments, output),
    }
}
