//! Two numbers that say in two minutes how fast this program is on this machine.
//!
//! Both are committed transactions per CPU-second, with sealing and without a disk, in blocks of
//! 1,000, on as many threads as there are cores up to two: what a replica that keeps a ledger gets
//! out of a processor. One is YCSB at theta 0.9, which is short transactions with contention; the
//! other is TPC-C's NewOrder and Payment on one warehouse, which is long ones with inserts and with
//! rows that all write. Compare machines and versions by them, and nothing else.

use anyhow::Result;
use serde::Serialize;

use crate::table::{percent, thousands};
use crate::{Measurement, Plan, Report, Workload, measure};

#[derive(Clone, Debug, Serialize)]
pub struct Canonical {
    pub name: &'static str,
    pub meaning: &'static str,
    pub measurement: Measurement,
}

/// Under the protocol that a new ledger gets.
pub fn plans(protocol: &str, threads: usize, smoke: bool) -> Result<Vec<Plan>> {
    let plan = |workload: Workload, transactions: usize| Plan {
        workloads: vec![workload],
        protocols: vec![protocol.to_owned()],
        thetas: vec![0.9],
        threads: vec![threads.min(2)],
        sealing: vec![true],
        transactions: if smoke { 100 } else { transactions },
        repetitions: if smoke { 1 } else { 9 },
        ..Plan::default()
    };
    let mut ycsb = Workload::named("ycsb")?;
    let mut tpcc = Workload::named("tpcc")?.with("mix", "neworder-payment");
    if smoke {
        ycsb = ycsb.with("rows", 200);
        tpcc = tpcc.with("customers", 30).with("items", 100);
    }
    Ok(vec![plan(ycsb, 200_000), plan(tpcc, 50_000)])
}

const MEANINGS: [(&str, &str); 2] = [
    ("ycsb", "YCSB transactions of ten operations, half reads, half writes, theta 0.9"),
    ("tpcc", "TPC-C's NewOrder and Payment, half of each, one warehouse"),
];

pub fn run(plans: &[Plan], report: Report<'_>) -> Result<Vec<Canonical>> {
    let mut numbers = Vec::new();
    for (plan, (name, meaning)) in plans.iter().zip(MEANINGS) {
        let measurements = measure(plan, report)?;
        numbers.extend(measurements.into_iter().map(|m| Canonical {
            name,
            meaning,
            measurement: m,
        }));
    }
    Ok(numbers)
}

impl Canonical {
    pub fn to_line(&self) -> String {
        let number = thousands(self.measurement.committed_per_cpu_second);
        let spread = percent(self.measurement.cpu_spread(), 0);
        format!("{:>9}  per CPU-second (±{spread} %): {}", number, self.meaning)
    }
}
