//! One cell for a profiler, with allocations counted. Arguments, all of them optional: workload,
//! protocol, transactions of a block, sealing (on, off), transactions, theta, threads, and settings of
//! the workload as name=value (and programs=ir).
//!
//! `cargo run --release -p bench --example engine_alone -- smallbank serial 1000 off 300000`

// A global allocator is unsafe by its signature; this one only counts and passes on.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering};

use bench::{Plan, Programs, Settings, measure};
use mimalloc::MiMalloc;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to MiMalloc with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { MiMalloc.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { MiMalloc.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize, default: &str| arguments.get(at).map_or(default, |a| a).to_owned();
    let workload = text(0, "smallbank").parse().map_err(anyhow::Error::msg)?;
    let transactions: usize = text(4, "300000").parse()?;
    let mut settings = Settings::default();
    let mut programs = Programs::Sql;
    for (name, value) in arguments.iter().skip(7).filter_map(|a| a.split_once('=')) {
        match (name, value) {
            ("programs", "ir") => programs = Programs::Ir,
            ("programs", _) => programs = Programs::Sql,
            _ => settings.set(name, value),
        }
    }
    let plan = Plan {
        workload,
        protocols: vec![text(1, "serial")],
        thetas: vec![text(5, "0").parse()?],
        threads: vec![text(6, "1").parse()?],
        sealing: vec![text(3, "off") == "on"],
        block_transactions: text(2, "1000").parse()?,
        transactions,
        settings,
        programs,
        durability: None,
        repetitions: 1,
        seed: 1,
        allocations: Some(|| ALLOCATIONS.load(Ordering::Relaxed)),
    };
    let figures = measure(&plan, &mut |_, _, _| {})?;
    println!("{}", bench::figures::TABLE_HEAD);
    for figure in &figures {
        let allocations = figure.allocations_per_transaction.unwrap_or_default();
        println!("{}  {allocations:.1} allocations each", figure.to_row());
    }
    Ok(())
}
