//! One cell for a profiler; COUNT=1 counts allocations in a second one. Arguments, all of them
//! optional: workload, protocol, transactions of a block, sealing (on, off), transactions, theta,
//! threads, programs (sql, ir).
//!
//! `cargo run --release -p bench --example engine_alone -- ycsb:rows=100000 serial 1000 off 300000`

use bench::{Plan, measure, table};
use kit::allocations::Counting;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize, default: &str| arguments.get(at).map_or(default, |a| a).to_owned();
    let plan = Plan {
        workloads: vec![text(0, "smallbank:rows=100000").parse().map_err(anyhow::Error::msg)?],
        protocols: vec![text(1, "serial")],
        block_transactions: vec![text(2, "1000").parse()?],
        sealing: vec![text(3, "off") == "on"],
        transactions: text(4, "300000").parse()?,
        thetas: vec![text(5, "0").parse()?],
        threads: vec![text(6, "1").parse()?],
        programs: text(7, "sql").parse().map_err(anyhow::Error::msg)?,
        repetitions: 1,
        allocations: std::env::var_os("COUNT").is_some(),
        ..Plan::default()
    };
    let measurements = measure(&plan, &mut |_, _, _| {})?;
    println!("{}", table::heading(&measurements));
    print!("{}", table::measurements(&measurements).render());
    Ok(())
}
