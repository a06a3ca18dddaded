//! What the ways back cost: figures 4.13 to 4.20.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use recovery::replay::{self, Breakdown, Replayed, Strategy, Task};
use recovery::schemes::Scheme;
use recovery::schemes::recover::{self, RowStrategy};
use recovery::schemes::streams::RowLog;

use super::{FEW_CORES, median, thread_counts, wanted};
use crate::Workload;
use crate::paper::{Expected, Findings, Lab, Lines, near, times};
use crate::recovering::{Checkpointed, Logged, Wanted};
use crate::table::Table;

pub const TPCC_TRANSACTIONS: usize = 50_000;
pub const SMALLBANK_TRANSACTIONS: usize = 500_000;

/// A way back, with its name in the thesis.
#[derive(Clone, Copy)]
pub enum RecoveryMethod {
    Commands(&'static Strategy),
    Rows(Scheme, &'static RowStrategy),
}

impl RecoveryMethod {
    pub fn commands(name: &str) -> Result<RecoveryMethod> {
        replay::by_name(name).map(RecoveryMethod::Commands).context("an unknown strategy")
    }

    pub fn rows(scheme: Scheme, name: &str) -> Result<RecoveryMethod> {
        let method = recover::by_name(name).context("an unknown way back")?;
        Ok(RecoveryMethod::Rows(scheme, method))
    }

    /// The five of the thesis.
    fn of_the_thesis() -> Result<Vec<RecoveryMethod>> {
        Ok(vec![
            RecoveryMethod::rows(Scheme::Physical, "plr")?,
            RecoveryMethod::rows(Scheme::Logical, "llr")?,
            RecoveryMethod::rows(Scheme::Logical, "llr-p")?,
            RecoveryMethod::commands("serial")?,
            RecoveryMethod::commands("pipelined")?,
        ])
    }

    pub fn name(&self) -> String {
        match self {
            RecoveryMethod::Commands(strategy) if strategy.name == "serial" => {
                "clr (serial)".to_owned()
            }
            RecoveryMethod::Commands(strategy) if strategy.name == "pipelined" => {
                "clr-p (pipelined)".to_owned()
            }
            RecoveryMethod::Commands(strategy) => strategy.name.to_owned(),
            RecoveryMethod::Rows(_, method) => method.name.to_owned(),
        }
    }

    fn is_serial(&self) -> bool {
        matches!(self, RecoveryMethod::Commands(strategy) if strategy.name == "serial")
    }
}

/// Logs in memory, and how long reading them took.
pub struct Logs {
    pub logged: Logged,
    pub task: Task,
    pub logical: Arc<RowLog>,
    physical: Arc<RowLog>,
    /// Command, logical, physical.
    pub reload: [Duration; 3],
}

impl Logs {
    pub fn make(wanted: &Wanted) -> Result<Logs> {
        let logged = Logged::make(wanted)?;
        let commands = logged.read_commands()?;
        let logical = logged.read_rows(Scheme::Logical)?;
        let physical = logged.read_rows(Scheme::Physical)?;
        let reload = [commands.took, logical.took, physical.took];
        let task = Task::new(commands.log);
        Ok(Logs { logged, task, logical: logical.log, physical: physical.log, reload })
    }

    fn run(&self, method: &RecoveryMethod, workers: usize) -> Result<Replayed> {
        match method {
            RecoveryMethod::Commands(strategy) => self.logged.replay(strategy, &self.task, workers),
            RecoveryMethod::Rows(Scheme::Logical, method) => {
                self.logged.recover(method, &self.logical, workers)
            }
            RecoveryMethod::Rows(Scheme::Physical, method) => {
                self.logged.recover(method, &self.physical, workers)
            }
        }
    }

    fn reload(&self, method: &RecoveryMethod) -> Duration {
        match method {
            RecoveryMethod::Commands(_) => self.reload[0],
            RecoveryMethod::Rows(Scheme::Logical, _) => self.reload[1],
            RecoveryMethod::Rows(Scheme::Physical, _) => self.reload[2],
        }
    }
}

/// A way back with so many workers: the median of its rounds.
pub struct Cost {
    pub method: RecoveryMethod,
    pub workers: usize,
    pub seconds: f64,
    pub spent: Breakdown,
}

/// Every way with every number of workers, in turns.
pub fn costs(
    lab: &mut Lab<'_>,
    logs: &Logs,
    methods: &[RecoveryMethod],
    threads: &[usize],
) -> Result<Vec<Cost>> {
    let cells: Vec<(RecoveryMethod, usize)> = methods
        .iter()
        .flat_map(|method| {
            let threads = if method.is_serial() { &threads[..1] } else { threads };
            threads.iter().map(move |workers| (*method, *workers))
        })
        .collect();
    let mut runs: Vec<Vec<Replayed>> = cells.iter().map(|_| Vec::new()).collect();
    let rounds = lab.effort.rounds();
    for round in 0..rounds {
        for (at, (method, workers)) in cells.iter().enumerate() {
            let what = format!("{}, {workers} threads", method.name());
            lab.tell(round * cells.len() + at, rounds * cells.len(), &what);
            runs[at].push(logs.run(method, *workers)?);
        }
    }
    let seconds = |run: &Replayed| (run.prepared + run.replayed).as_secs_f64();
    let cost = |((method, workers), runs): ((RecoveryMethod, usize), Vec<Replayed>)| Cost {
        method,
        workers,
        seconds: median(runs.iter().map(seconds).collect()),
        spent: runs[0].spent,
    };
    Ok(cells.into_iter().zip(runs).map(cost).collect())
}

/// Seconds of a way with so many workers; a serial one has one.
pub fn seconds(costs: &[Cost], method: &str, workers: usize) -> f64 {
    let found = costs.iter().find(|cost| {
        cost.method.name().starts_with(method)
            && (cost.workers == workers || cost.method.is_serial())
    });
    found.map_or(f64::NAN, |cost| cost.seconds)
}

/// Ways over threads, in transactions a second.
fn rates(costs: &[Cost], transactions: u64, threads: &[usize], title: &str) -> Lines {
    let mut names: Vec<String> = Vec::new();
    costs.iter().map(|cost| cost.method.name()).for_each(|name| {
        if !names.contains(&name) {
            names.push(name);
        }
    });
    let line = |name: String| {
        let rate = |workers: &usize| {
            let of = costs.iter().find(|c| c.method.name() == name && c.workers == *workers);
            of.map(|cost| transactions as f64 / cost.seconds)
        };
        let values = threads.iter().map(rate).collect();
        (name, values)
    };
    Lines {
        title: title.to_owned(),
        x_label: "threads".to_owned(),
        unit: "logged transactions a second".to_owned(),
        digits: 0,
        places: threads.iter().map(usize::to_string).collect(),
        lines: names.into_iter().map(line).collect(),
    }
}

fn tpcc_logs(lab: &Lab<'_>) -> Result<Logs> {
    Logs::make(&wanted(lab, &super::tpcc(lab)?, TPCC_TRANSACTIONS))
}

pub fn checkpoint(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let checkpointed = Checkpointed::make(&tpcc, &lab.effort.folder)?;
    let threads = thread_counts(lab);
    let mut rates = Vec::new();
    for &workers in &threads {
        let rounds = lab.effort.rounds();
        let took: Result<Vec<f64>> = (0..rounds)
            .map(|round| {
                lab.tell(round, rounds, &format!("a checkpoint, {workers} threads"));
                Ok(checkpointed.load(workers)?.as_secs_f64())
            })
            .collect();
        rates.push(Some(checkpointed.bytes as f64 / 1e6 / median(took?)));
    }
    let mut findings = Findings::default();
    let gain = ratio_of_ends(&rates);
    findings.series.push(Lines {
        title: format!("{} rows from disk to a replica", checkpointed.rows),
        x_label: "threads".to_owned(),
        unit: "MB a second".to_owned(),
        digits: 0,
        places: threads.iter().map(usize::to_string).collect(),
        lines: vec![("load".to_owned(), rates)],
    });
    findings.claim("more threads load faster", "to the disk's rate", times(gain), gain > 1.0);
    findings.remark(
        "one checkpoint serves every log scheme, so what the thesis compares between schemes is \
         the same here; indexes are built while rows are loaded.",
    );
    findings.remark(FEW_CORES);
    Ok(findings)
}

fn ratio_of_ends(values: &[Option<f64>]) -> f64 {
    match (values.first(), values.last()) {
        (Some(Some(first)), Some(Some(last))) => last / first,
        _ => f64::NAN,
    }
}

pub fn log(lab: &mut Lab<'_>) -> Result<Findings> {
    let logs = tpcc_logs(lab)?;
    let (threads, methods) = (thread_counts(lab), RecoveryMethod::of_the_thesis()?);
    let most = lab.effort.threads;
    let costs = costs(lab, &logs, &methods, &threads)?;
    let mut findings = Findings::default();
    let heads = ["", "reading the log, ms", "log, MB"].map(str::to_owned).to_vec();
    let volume = logs.logged.volume;
    let bytes = [logs.logged.command_bytes, volume.logical_bytes, volume.physical_bytes];
    let row = |((name, took), bytes): ((&str, Duration), u64)| {
        let (ms, megabytes) = (took.as_secs_f64() * 1e3, bytes as f64 / 1e6);
        vec![name.to_owned(), format!("{ms:.0}"), format!("{megabytes:.1}")]
    };
    let rows = ["command", "logical", "physical"].into_iter().zip(logs.reload).zip(bytes);
    findings.tables.push(("Reading".to_owned(), Table { heads, rows: rows.map(row).collect() }));
    findings.series.push(rates(&costs, logs.logged.transactions, &threads, "Replay"));
    let (reload, shortest) = (logs.reload[0].as_secs_f64(), logs.reload[1].as_secs_f64());
    let faster = shortest / reload;
    let claim = "a command log is read faster than a logical one";
    findings.judge(claim, "much", times(faster), faster >= 2.0, faster > 1.0);
    let gain = seconds(&costs, "clr (", 1) / seconds(&costs, "clr-p", most);
    findings.ratio("clr-p is faster than clr (theirs: on 40 threads)", 18.0, gain);
    let gain = seconds(&costs, "clr-p", 1) / seconds(&costs, "clr-p", most);
    findings.claim("clr-p becomes faster with threads", "to 40", times(gain), gain > 1.0);
    findings.remark("reading a command log includes decoding and compiling its transactions.");
    findings.remark(FEW_CORES);
    Ok(findings)
}

pub fn latches(lab: &mut Lab<'_>) -> Result<Findings> {
    let logs = tpcc_logs(lab)?;
    let threads = thread_counts(lab);
    let methods = [
        RecoveryMethod::rows(Scheme::Logical, "llr")?,
        RecoveryMethod::rows(Scheme::Logical, "llr-p")?,
    ];
    let costs = costs(lab, &logs, &methods, &threads)?;
    let most = lab.effort.threads;
    let mut findings = Findings::default();
    findings.series.push(rates(&costs, logs.logged.transactions, &threads, "Latched and not"));
    let gain = seconds(&costs, "llr-p", 1) / seconds(&costs, "llr-p", most);
    findings.claim("without latches threads gain", "up to 12", times(gain), gain > 1.0);
    findings.remark(
        "the thesis takes the latches out of llr and lets it go wrong; what is right without them \
         is llr-p, which goes from the newest record back and installs each row once.",
    );
    findings.remark(FEW_CORES);
    Ok(findings)
}

pub fn overall(lab: &mut Lab<'_>) -> Result<Findings> {
    let most = lab.effort.threads;
    let mut findings = Findings::default();
    let workloads: [(Workload, usize); 2] =
        [(super::tpcc(lab)?, TPCC_TRANSACTIONS), (super::smallbank(lab)?, SMALLBANK_TRANSACTIONS)];
    let heads = ["", "checkpoint, ms", "reading, ms", "replay, ms", "all, ms"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    for (workload, transactions) in workloads {
        let checkpointed = Checkpointed::make(&workload, &lab.effort.folder)?;
        let load = checkpointed.load(most)?.as_secs_f64();
        let logs = Logs::make(&wanted(lab, &workload, transactions))?;
        let costs = costs(lab, &logs, &RecoveryMethod::of_the_thesis()?, &[most])?;
        let mut all = Vec::new();
        for cost in &costs {
            let reload = logs.reload(&cost.method).as_secs_f64();
            let sum = load + reload + cost.seconds;
            all.push((cost.method.name(), reload + cost.seconds));
            let ms = [load, reload, cost.seconds, sum].map(|part| format!("{:.0}", part * 1e3));
            let name = format!("{}, {}", workload.name(), cost.method.name());
            table.rows.push(std::iter::once(name).chain(ms).collect());
        }
        let of = |name: &str| {
            let found = all.iter().find(|(method, _)| method.starts_with(name));
            found.map_or(f64::NAN, |(_, seconds)| *seconds)
        };
        for (claim, slow, fast) in [
            ("clr-p is faster than clr", "clr (", "clr-p"),
            ("llr-p is faster than clr-p", "clr-p", "llr-p"),
        ] {
            let gain = of(slow) / of(fast);
            findings.claim(
                &format!("{}: {claim}", workload.name()),
                "yes",
                times(gain),
                gain > 1.0,
            );
        }
    }
    findings.tables.push((format!("Recovery with {most} threads"), table));
    findings.remark(FEW_CORES);
    Ok(findings)
}

pub fn ad_hoc(lab: &mut Lab<'_>) -> Result<Findings> {
    let (tpcc, most) = (super::tpcc(lab)?, lab.effort.threads);
    let shares = [0, 20, 40, 60, 80, 100];
    let mut line = Vec::new();
    for ad_hoc_percent in shares {
        let wanted = wanted(lab, &tpcc, TPCC_TRANSACTIONS / 5);
        let logs = Logs::make(&Wanted { ad_hoc_percent, block_transactions: 1, ..wanted })?;
        let costs = costs(lab, &logs, &[RecoveryMethod::commands("pipelined")?], &[most])?;
        line.push(Some(logs.logged.transactions as f64 / costs[0].seconds));
    }
    let mut findings = Findings::default();
    let gain = ratio_of_ends(&line);
    findings.series.push(Lines {
        title: "Pipelined replay".to_owned(),
        x_label: "ad hoc, %".to_owned(),
        unit: "logged transactions a second".to_owned(),
        digits: 0,
        places: shares.iter().map(u32::to_string).collect(),
        lines: vec![("clr-p".to_owned(), line)],
    });
    findings.claim("replay becomes faster with ad-hoc work", "to llr-p's", times(gain), gain > 1.0);
    findings.remark("blocks of one transaction, so that each one's rows are known.");
    findings.remark(FEW_CORES);
    Ok(findings)
}

pub fn static_only(lab: &mut Lab<'_>) -> Result<Findings> {
    let logs = tpcc_logs(lab)?;
    let (threads, most) = (thread_counts(lab), lab.effort.threads);
    let methods = [RecoveryMethod::commands("serial")?, RecoveryMethod::commands("static-only")?];
    let costs = costs(lab, &logs, &methods, &threads)?;
    let mut findings = Findings::default();
    findings.series.push(rates(&costs, logs.logged.transactions, &threads, "Static analysis"));
    let gain = seconds(&costs, "static-only", 1) / seconds(&costs, "static-only", most);
    findings.ratio("threads help a little, then not (theirs: 3)", 2.2, gain);
    findings.remark("transaction chopping, which the thesis found slower, is not there.");
    findings.remark(FEW_CORES);
    Ok(findings)
}

pub fn strategies(lab: &mut Lab<'_>) -> Result<Findings> {
    let logs = tpcc_logs(lab)?;
    let (threads, most) = (thread_counts(lab), lab.effort.threads);
    let methods: Vec<RecoveryMethod> = replay::ALL.iter().map(RecoveryMethod::Commands).collect();
    let costs = costs(lab, &logs, &methods, &threads)?;
    let mut findings = Findings::default();
    findings.series.push(rates(&costs, logs.logged.transactions, &threads, "Strategies"));
    in_order(&costs, most, &mut findings);
    findings.remark(FEW_CORES);
    Ok(findings)
}

/// The thesis's order of the strategies.
pub fn in_order(costs: &[Cost], threads: usize, findings: &mut Findings) {
    for (claim, paper, slow, fast) in [
        ("synchronous is faster than static-only", Some(4.0), "static-only", "synchronous"),
        ("pipelined is faster than synchronous", None, "synchronous", "pipelined"),
    ] {
        let of = |name: &str| {
            let name = if name == "pipelined" { "clr-p" } else { name };
            seconds(costs, name, threads)
        };
        let gain = of(slow) / of(fast);
        match paper {
            Some(least) => findings.ratio(claim, Expected::AtLeast(least), gain),
            None => findings.claim(claim, "yes", times(gain), gain > 1.0),
        }
    }
}

pub fn breakdown(lab: &mut Lab<'_>) -> Result<Findings> {
    let most = lab.effort.threads;
    let mut findings = Findings::default();
    let heads = ["", "loading", "key spaces", "scheduling", "execution"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    for (workload, transactions) in
        [(super::tpcc(lab)?, TPCC_TRANSACTIONS), (super::smallbank(lab)?, SMALLBANK_TRANSACTIONS)]
    {
        let logs = Logs::make(&wanted(lab, &workload, transactions))?;
        let costs = costs(lab, &logs, &[RecoveryMethod::commands("pipelined")?], &[most])?;
        let spent = costs[0].spent;
        let share = |part: Duration| 100.0 * part.as_secs_f64() / spent.total().as_secs_f64();
        let parts = [spent.loading, spent.analysis, spent.scheduling, spent.execution].map(share);
        let cells = parts.iter().map(|part| format!("{part:.0} %"));
        table.rows.push(std::iter::once(workload.name().to_owned()).chain(cells).collect());
        let claim = format!("{}: loading and key spaces take little", workload.name());
        let ours = format!("{:.0} %", parts[0] + parts[1]);
        findings.claim(&claim, "little", ours, parts[0] + parts[1] < parts[3]);
        if workload.name() == "tpcc" {
            let ours = format!("{:.0} %", parts[2]);
            let (claim, share) = ("tpcc: scheduling has its share", parts[2]);
            findings.judge(claim, "30 % on 40", ours, near(30.0, share), share <= 30.0);
        }
    }
    findings.tables.push((format!("Shares of the time of {most} threads"), table));
    findings.remark("scheduling is everything between two pieces of work, waiting included.");
    findings.remark(FEW_CORES);
    Ok(findings)
}
