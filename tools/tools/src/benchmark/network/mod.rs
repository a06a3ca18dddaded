//! `tally bench network`: transactions from clients, over organisations' nodes, at a set rate.
//!
//! *What is measured.* Not the engine alone, as by the rest of `tally bench`, but all that stands
//! between a client and its answer: simulation by each organisation's node, approvals over the
//! members' network, ordering, validation, the way back. And not what a node can do at most, but
//! what becomes of transactions that come whether or not it keeps up.
//!
//! ```text
//!   ledger 1: two nodes, bank_a and bank_b ◄── clients ◄── one transaction each 1 / rate seconds
//!   ledger 2: …                            ◄── …
//! ```
//!
//! *Open loop.* Transaction k of a ledger is due at k / rate, and its latency counts from there,
//! also where all clients still wait for answers to earlier ones: a node that stalls is charged
//! with all that came meanwhile (what a closed loop leaves out is its *coordinated omission*). One
//! for which no client is free in time is counted, and not sent.
//!
//! *Ledgers* are chains of their own, with nodes of their own: what Fabric calls channels.
//!
//! *Ends.* A transaction is valid; aborted early, as its simulation had been overtaken before it
//! was ordered; aborted in ordering, to break a cycle of conflicts; or invalid, when it stands in
//! its block with code 40001. What ends otherwise is a failure of the run.

mod ledgers;
mod load;

use anyhow::{Context, Result};
use bench::Report;
use bench::over_network::{Latency, NetworkPlan, NetworkRun};
use bench::table::Table;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::arguments::{Network, Switch};
use super::refusals::{refuse_a_debug_build, wrong_protocol};
use ledgers::Ledger;
use load::{End, Load, Pace};
use node::cli::{Exit, Output};

/// What a run under one protocol has come to, over all ledgers.
struct Measured {
    protocol: String,
    load: Load,
    /// Of a block, on average.
    block_transactions: f64,
}

pub fn run(arguments: &Network, output: Output) -> Result<Exit> {
    refuse_a_debug_build(arguments.smoke)?;
    let all = measured(&arguments.plan(), &mut |_, _, _| {})?;
    show(arguments, &all, output);
    let failed = all.iter().filter_map(|measured| measured.load.failure.as_ref());
    let mut exit = Exit::Ok;
    for failure in failed {
        eprintln!("tally: a transaction failed: {failure}");
        exit = Exit::Failed;
    }
    Ok(exit)
}

/// For figures of papers.
pub fn measure(plan: &NetworkPlan, report: Report<'_>) -> Result<Vec<NetworkRun>> {
    Ok(measured(plan, report)?.into_iter().map(Measured::into_run).collect())
}

/// One run under each protocol, on the same ledgers.
fn measured(plan: &NetworkPlan, report: Report<'_>) -> Result<Vec<Measured>> {
    for protocol in &plan.protocols {
        let check = protocols::by_name(protocol);
        check.map_err(|error| wrong_protocol(&error))?;
    }
    let workload = plan.workload.make(None)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let ledgers = (0..plan.ledgers)
        .map(|number| {
            let folder = folder.path().join(format!("ledger-{number}"));
            runtime.block_on(Ledger::start(&folder, &*workload, plan))
        })
        .collect::<Result<Vec<Ledger>>>()?;
    let mut all = Vec::new();
    for (number, protocol) in plan.protocols.iter().enumerate() {
        report(number, plan.protocols.len(), protocol);
        let pace = Pace::of(plan);
        let measured = async {
            for ledger in &ledgers {
                ledger.run_under(protocol).await?;
            }
            load::measure(&ledgers, &*workload, &pace, (plan.clients, plan.seed)).await
        };
        let before = counted(&ledgers)?;
        let load = runtime.block_on(measured).with_context(|| format!("under {protocol}"))?;
        for ledger in &ledgers {
            ledger.settle()?;
        }
        let after = counted(&ledgers)?;
        let block_transactions = (after.1 - before.1) / (after.0 - before.0).max(1.0);
        all.push(Measured { protocol: protocol.clone(), load, block_transactions });
    }
    Ok(all)
}

/// Blocks, and transactions in them, of all ledgers so far.
fn counted(ledgers: &[Ledger]) -> Result<(f64, f64)> {
    let counted = ledgers.iter().map(Ledger::counted).collect::<Result<Vec<_>>>()?;
    Ok(counted.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
}

impl Measured {
    fn into_run(self) -> NetworkRun {
        let Measured { protocol, load, block_transactions } = self;
        let count = |end| load.of(end).len();
        let valid = load.of(End::Valid);
        let at = |percentile| valid.value_at_percentile(percentile) as f64;
        let latency = Latency {
            min: valid.min() as f64,
            mean: valid.mean(),
            p50: at(50.0),
            p99: at(99.0),
            max: valid.max() as f64,
        };
        NetworkRun {
            protocol,
            seconds: load.seconds,
            valid: count(End::Valid),
            aborted_early: count(End::AbortedEarly),
            member_ahead: count(End::MemberAhead),
            aborted_in_ordering: count(End::AbortedInOrdering),
            invalid: count(End::Invalid),
            not_sent: count(End::NotSent),
            failed: count(End::Failed) + count(End::NotEndorsed),
            failure: load.failure,
            block_transactions,
            latency,
        }
    }
}

fn show(arguments: &Network, all: &[Measured], output: Output) {
    if output == Output::Json {
        for measured in all {
            println!("{}", as_json(arguments, measured));
        }
        return;
    }
    let Network { workload, ledgers, clients, rate, seconds, .. } = arguments;
    println!(
        "{workload}: {ledgers} ledgers of two nodes, {clients} clients each, {rate} transactions a \
         second each, {seconds} s\n"
    );
    print!("{}", table(all).render());
}

fn table(all: &[Measured]) -> Table {
    let mut heads = vec!["protocol".to_owned(), "valid/s".to_owned()];
    heads.extend(End::ALL.iter().map(|end| format!("{}%", end.short())));
    heads.extend(["p50 ms", "p99 ms", "p99 ms lost"].map(str::to_owned));
    let rows = all.iter().map(|Measured { protocol, load, .. }| {
        let valid = load.of(End::Valid);
        let mut row = vec![protocol.clone(), format!("{:.0}", load.per_second(End::Valid))];
        row.extend(End::ALL.map(|end| format!("{:.1}", 100.0 * load.share(end))));
        row.extend([ms(valid, 50.0), ms(valid, 99.0), ms(&load.lost(), 99.0)]);
        row
    });
    Table { heads, rows: rows.collect() }
}

fn ms(latencies_us: &Histogram<u64>, percentile: f64) -> String {
    match latencies_us.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.1}", latencies_us.value_at_percentile(percentile) as f64 / 1e3),
    }
}

fn as_json(
    arguments: &Network,
    Measured { protocol, load, block_transactions }: &Measured,
) -> Value {
    let ends = End::ALL.map(|end| {
        let latencies = load.of(end);
        let at = |percentile| match latencies.is_empty() {
            true => Value::Null,
            false => latencies.value_at_percentile(percentile).into(),
        };
        let counted = json!({
            "count": latencies.len(),
            "share": load.share(end),
            "per_second": load.per_second(end),
            "latency_us_p50": at(50.0),
            "latency_us_p99": at(99.0),
        });
        (end.name().to_owned(), counted)
    });
    json!({
        "workload": arguments.workload.to_string(),
        "protocol": protocol,
        "endorsed": arguments.endorse == Switch::On,
        "ledgers": arguments.ledgers,
        "clients": arguments.clients,
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "due": load.due(),
        "ends": ends.into_iter().collect::<serde_json::Map<String, Value>>(),
        "block_transactions": block_transactions,
        "failure": load.failure,
    })
}
