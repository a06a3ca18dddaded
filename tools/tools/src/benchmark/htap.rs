//! `tally bench htap`: SmallBank's writers and a dashboard on one node, alone and together.
//!
//! ```text
//!   pgbench, N clients ──►┐
//!                         ├─ one node, one disk, real connections
//!   M dashboards ────────►┘  ask a handful of queries in turn, without a pause
//! ```
//!
//! Money neither comes nor goes but through the table `outside`, so one of the dashboard's queries
//! has the same answer at every block boundary: it is the run's check that a query sees one state.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::page;
use bench::paper::{Findings, Lines};
use bench::table::{Table, thousands};
use hdrhistogram::Histogram;
use tokio_postgres::{Client, SimpleQueryMessage};
use workloads::skew::Skew;
use workloads::smallbank;

use super::arguments::Htap;
use super::machine;
use crate::demo::bank::Bank;
use crate::demo::pgbench::{self, Measured, Target};
use crate::node_process::NodeProcess;
use node::cli::Exit;
use node::progress::Progress;

/// What a dashboard shows; the first is the same at every block boundary.
const QUERIES: [&str; 5] = [
    "SELECT (SELECT sum(bal) FROM savings) + (SELECT sum(bal) FROM checking) \
          + (SELECT sum(bal) FROM outside)",
    "SELECT count(*), sum(bal), min(bal), max(bal), avg(bal) FROM checking",
    "SELECT bal / 10000 AS bracket, count(*) FROM savings GROUP BY 1 ORDER BY 1",
    "SELECT a.name, s.bal + c.bal AS total FROM accounts a \
     JOIN savings s ON s.custid = a.custid JOIN checking c ON c.custid = a.custid \
     ORDER BY total DESC, a.custid LIMIT 10",
    "SELECT count(*), sum(c.bal) FROM checking c JOIN savings s ON s.custid = c.custid \
     WHERE c.bal < s.bal",
];

/// One side's throughput and latencies.
#[derive(Clone, Debug, Default)]
struct Side {
    per_s: f64,
    ms_p50: f64,
    ms_p95: f64,
    ms_p99: f64,
}

impl Side {
    fn of_writers(measured: &Measured) -> Side {
        let ms = |us: u64| us as f64 / 1e3;
        Side {
            per_s: measured.transactions_per_s,
            ms_p50: ms(measured.latency_us_p50),
            ms_p95: ms(measured.latency_us_p95),
            ms_p99: ms(measured.latency_us_p99),
        }
    }

    fn of_queries(latencies_us: &Histogram<u64>, span: Duration) -> Side {
        let ms = |quantile| latencies_us.value_at_quantile(quantile) as f64 / 1e3;
        Side {
            per_s: latencies_us.len() as f64 / span.as_secs_f64(),
            ms_p50: ms(0.5),
            ms_p95: ms(0.95),
            ms_p99: ms(0.99),
        }
    }
}

/// What all phases share.
struct Run<'a> {
    arguments: &'a Htap,
    target: &'a Target,
    folder: &'a Path,
    runtime: &'a tokio::runtime::Runtime,
    scripts: Vec<String>,
    /// All the money there is.
    total: String,
}

pub fn run(arguments: &Htap) -> Result<Exit> {
    pgbench::require_tools()?;
    let folder = tempfile::Builder::new().prefix("tally-htap-").tempdir()?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    let node = NodeProcess::start(folder.path())?;
    let bank = Bank { customers: arguments.customers };
    let step = Progress::begin(&format!("loading {} customers", arguments.customers));
    runtime.block_on(bank.create(&node.target))?;
    runtime.block_on(bank.load(&node.target, |part| step.advance(part)))?;
    step.end("");
    let skew = Skew::hotspot(bank.customers, (bank.customers / 100).max(1), 50);
    let scripts = pgbench::write_scripts(&smallbank::scripts(&skew), folder.path())?;
    let total = runtime.block_on(async {
        let client = node.target.connect().await?;
        first_cell(&client, QUERIES[0]).await
    })?;
    let run = Run {
        arguments,
        target: &node.target,
        folder: folder.path(),
        runtime: &runtime,
        scripts,
        total,
    };
    let writers = run.phase("writers alone", true, false)?.0;
    let queries = run.phase("dashboards alone", false, true)?.1;
    let together = run.phase("writers and dashboards together", true, true)?;
    node.stop()?;
    let findings = findings(arguments, [&writers, &together.0], [&queries, &together.1]);
    println!("{}", findings.render());
    if let Some(file) = &arguments.html {
        let lead = "Transactions and dashboards on one node, alone and together.";
        let facts = machine::facts(&bench::Plan::default());
        let page = page::findings("tally bench htap", lead, &findings, &facts);
        std::fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?;
        println!("plots are in {}", file.display());
    }
    Ok(Exit::Ok)
}

impl Run<'_> {
    fn phase(&self, label: &str, writers: bool, dashboards: bool) -> Result<(Side, Side)> {
        let seconds = self.arguments.seconds;
        let step = Progress::begin(&format!("{label}, {seconds} s"));
        let (began, done) = (Instant::now(), AtomicBool::new(false));
        let span = Duration::from_secs(seconds);
        let count = if dashboards { self.arguments.dashboards } else { 0 };
        let sides = std::thread::scope(|scope| -> Result<(Side, Side)> {
            let ask = || self.runtime.block_on(self.dashboard(&done));
            let asking: Vec<_> = (0..count).map(|_| scope.spawn(ask)).collect();
            let measured = match writers {
                true => self.write(&step),
                false => Ok(Measured::default()).inspect(|_| std::thread::sleep(span)),
            };
            done.store(true, Ordering::Relaxed);
            let mut latencies_us = Histogram::<u64>::new(3)?;
            for one in asking {
                let of_one = one.join().map_err(|_| anyhow::anyhow!("a dashboard panicked"))?;
                latencies_us.add(of_one?)?;
            }
            let queries = Side::of_queries(&latencies_us, began.elapsed());
            Ok((Side::of_writers(&measured?), queries))
        })?;
        let rates = [(writers, &sides.0, "transactions"), (dashboards, &sides.1, "queries")];
        let rates = rates.iter().filter(|(runs, ..)| *runs);
        let rates = rates.map(|(_, side, what)| format!("{:.0} {what}/s", side.per_s));
        step.end(&rates.collect::<Vec<_>>().join(", "));
        Ok(sides)
    }

    fn write(&self, step: &Progress) -> Result<Measured> {
        let advance = |part, note: &str| {
            step.advance(part);
            step.note(note);
        };
        let Htap { clients, seconds, .. } = *self.arguments;
        pgbench::measure(self.target, clients, seconds, &self.scripts, self.folder, advance)
    }

    /// Asks in turn until told to stop.
    async fn dashboard(&self, done: &AtomicBool) -> Result<Histogram<u64>> {
        let client = self.target.connect().await?;
        let mut latencies_us = Histogram::new(3)?;
        for (at, query) in QUERIES.iter().enumerate().cycle() {
            if done.load(Ordering::Relaxed) {
                break;
            }
            let asked = Instant::now();
            let first = first_cell(&client, query).await.with_context(|| (*query).to_owned())?;
            latencies_us.record(asked.elapsed().as_micros() as u64)?;
            if at == 0 && first != self.total {
                bail!("a query saw half a transaction: {first} cents in all, not {}", self.total);
            }
        }
        Ok(latencies_us)
    }
}

async fn first_cell(client: &Client, query: &str) -> Result<String> {
    let messages = client.simple_query(query).await?;
    let cell = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(cell.unwrap_or_default().to_owned())
}

/// Each side alone and together.
fn findings(arguments: &Htap, writers: [&Side; 2], queries: [&Side; 2]) -> Findings {
    let Htap { clients, dashboards, customers, seconds, .. } = arguments;
    let heads = ["", "a second", "p50 ms", "p95 ms", "p99 ms"].map(str::to_owned).to_vec();
    let ms = |ms: f64| format!("{ms:.2}");
    let row = |name: &str, side: &Side| {
        let rate = if side.per_s < 100.0 { ms(side.per_s) } else { thousands(side.per_s) };
        vec![name.to_owned(), rate, ms(side.ms_p50), ms(side.ms_p95), ms(side.ms_p99)]
    };
    let rows = vec![
        row("transactions, alone", writers[0]),
        row("transactions, beside dashboards", writers[1]),
        row("queries, alone", queries[0]),
        row("queries, beside transactions", queries[1]),
    ];
    let title = format!(
        "SmallBank with {customers} customers: {clients} clients write, {dashboards} ask, \
         {seconds} s each"
    );
    let places = || ["alone", "together"].map(str::to_owned).to_vec();
    let lines = |title: &str, unit: &str, lines: Vec<(String, Vec<Option<f64>>)>| Lines {
        title: title.to_owned(),
        x_label: "each side".to_owned(),
        unit: unit.to_owned(),
        digits: 2,
        places: places(),
        lines,
    };
    let line = |name: &str, sides: [&Side; 2], value: fn(&Side) -> f64| {
        (name.to_owned(), sides.map(|side| Some(value(side))).to_vec())
    };
    let latencies = |sides: [&Side; 2]| {
        vec![
            line("p50", sides, |side| side.ms_p50),
            line("p95", sides, |side| side.ms_p95),
            line("p99", sides, |side| side.ms_p99),
        ]
    };
    let plots = vec![
        lines("Transactions", "a second", vec![line("SmallBank", writers, |side| side.per_s)]),
        lines("Transactions' latency", "milliseconds", latencies(writers)),
        lines("Queries", "a second", vec![line("dashboards", queries, |side| side.per_s)]),
        lines("Queries' latency", "milliseconds", latencies(queries)),
    ];
    let tables = vec![(title, Table { heads, rows })];
    let remarks = vec![
        "every dashboard found all the money, to the cent, in every state that it saw.".to_owned(),
        "node, pgbench and dashboards share this machine's cores.".to_owned(),
    ];
    Findings { tables, plots, remarks, ..Findings::default() }
}
