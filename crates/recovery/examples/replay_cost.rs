//! What a log costs to be replayed: seconds by strategy and workers.
//!
//! `replay_cost WORKLOAD [TRANSACTIONS]`: the log is made by the serial protocol; its own rate is
//! the first line.

use std::sync::Arc;
use std::time::Instant;

use concurrency::Crew;
use recovery::replay::{self, Task};

#[path = "../tests/bed/mod.rs"]
mod bed;

use bed::Bed;

const BLOCK: usize = 500;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "tpcc".into());
    let transactions = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let bed = Bed::new(&name, &[]);
    let protocol = protocols::by_name("serial").unwrap();
    let start = Instant::now();
    let log: Arc<[_]> = bed.run(&*protocol, &Crew::new(1), transactions / BLOCK, BLOCK).into();
    println!("{name}: made in {:.3} s (drawing of calls included)", start.elapsed().as_secs_f64());
    drop(bed);
    for strategy in replay::ALL {
        for workers in [1, 2] {
            if strategy.name == "serial" && workers > 1 {
                continue;
            }
            let store = Bed::new(&name, &[]);
            let done =
                (strategy.replay)(&Task::new(Arc::clone(&log)), store.store(), &Crew::new(workers));
            let done = done.unwrap();
            let rate = done.transactions as f64 / done.replayed.as_secs_f64();
            let spent = done.spent;
            let share = |part: std::time::Duration| {
                100.0 * part.as_secs_f64() / spent.total().as_secs_f64()
            };
            println!(
                "{:12} {workers} workers  {:.3} s  {rate:8.0}/s  analysis once {:.1} ms; loading {:.0} %, \
                 key spaces {:.0} %, scheduling {:.0} %, execution {:.0} %",
                strategy.name,
                done.replayed.as_secs_f64(),
                done.prepared.as_secs_f64() * 1e3,
                share(spent.loading),
                share(spent.analysis),
                share(spent.scheduling),
                share(spent.execution),
            );
        }
    }
}
