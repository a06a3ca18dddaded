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
}

pub fn run(arguments: &Network, output: Output) -> Result<Exit> {
    refuse_a_debug_build(arguments.smoke)?;
    for protocol in &arguments.protocol {
        let check = protocols::by_name(protocol);
        check.map_err(|error| wrong_protocol(&error))?;
    }
    let workload = arguments.workload.make(None)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let endorse = arguments.endorse == Switch::On;
    let ledgers = (0..arguments.ledgers)
        .map(|number| {
            let folder = folder.path().join(format!("ledger-{number}"));
            runtime.block_on(Ledger::start(&folder, &*workload, endorse))
        })
        .collect::<Result<Vec<Ledger>>>()?;
    let mut all = Vec::new();
    for protocol in &arguments.protocol {
        let pace = Pace::of(arguments);
        let measured = async {
            for ledger in &ledgers {
                ledger.run_under(protocol).await?;
            }
            load::measure(&ledgers, &*workload, &pace, (arguments.clients, arguments.seed)).await
        };
        let load = runtime.block_on(measured).with_context(|| format!("under {protocol}"))?;
        for ledger in &ledgers {
            ledger.settle()?;
        }
        all.push(Measured { protocol: protocol.clone(), load });
    }
    show(arguments, &all, output);
    let failed = all.iter().filter_map(|measured| measured.load.failure.as_ref());
    let mut exit = Exit::Ok;
    for failure in failed {
        eprintln!("tally: a transaction failed: {failure}");
        exit = Exit::Failed;
    }
    Ok(exit)
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
    let rows = all.iter().map(|Measured { protocol, load }| {
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

fn as_json(arguments: &Network, Measured { protocol, load }: &Measured) -> Value {
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
        "failure": load.failure,
    })
}
