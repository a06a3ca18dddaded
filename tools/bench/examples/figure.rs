//! A figure of a paper, or a group of them, without the rest of the program: for who works on what
//! it measures.
//!
//! `cargo run --release -p bench --no-default-features --example figure -- healing-3.10 [--quick]
//! [--full]`

use bench::paper::{Effort, named};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let names = arguments.iter().filter(|argument| !argument.starts_with("--"));
    for figure in names.flat_map(|name| named(name)) {
        let effort = Effort {
            threads: 2,
            repetitions: if quick { 1 } else { 3 },
            quick,
            smoke: false,
            folder: std::env::temp_dir(),
            full: arguments.iter().any(|argument| argument == "--full"),
            other: None,
            network: None,
            databases: None,
        };
        println!("{}: {}", figure.name, figure.about);
        if let Some(findings) = figure.find(effort, &mut |_, _, _| {})? {
            println!("{}", findings.render());
        }
    }
    Ok(())
}
