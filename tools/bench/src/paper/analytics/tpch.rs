//! TPC-H, in turns: by images, by DataFusion over the same rows as Arrow tables in memory, and by
//! another database if the caller names one.
//!
//! Beside the time on the wall, which neighbours on the machine stretch, stands the processor time
//! of what runs in this process: one query at a time, so that all of it is that query's.

use std::sync::Arc;
use std::time::Instant;

use analytics::datafusion::datasource::MemTable;
use analytics::datafusion::prelude::{SessionConfig, SessionContext};
use anyhow::{Context, Result, bail};
use workloads::analytical::{Analytical, tpch};

use super::{AnalyticalBed, median};
use crate::answers::Answerer;
use crate::bed::Source;
use crate::paper::{Findings, Lab, Lines, times};
use crate::run::cpu_time;
use crate::table::Table;

const OVER_MEMORY_MAX: f64 = 1.3;
const AHEAD_MIN: f64 = 5.0;

pub fn queries(lab: &mut Lab<'_>) -> Result<Findings> {
    let scale = match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => 0.01,
        (_, true) => 0.1,
        _ => 1.0,
    };
    let workload = tpch::at(scale);
    let source = Source::of(&workload.schema, &workload.fills)?;
    let bed = AnalyticalBed::new(source.store(), lab.effort.threads)?;
    let memory = in_memory(&bed, lab.effort.threads)?;
    let mut other =
        lab.effort.other.as_ref().map(|other| (other.connect)(&other.address)).transpose()?;
    if let Some(other) = &mut other {
        other.load(&workload)?;
    }
    let mut took = Took::default();
    let rounds = lab.effort.rounds();
    for round in 0..rounds {
        for (at, query) in workload.queries.iter().enumerate() {
            let total = rounds * workload.queries.len();
            lab.tell(round * workload.queries.len() + at, total, &query.name);
            took.round(at, &bed, &memory, other.as_deref_mut(), &query.text)
                .with_context(|| format!("TPC-H {}", query.name))?;
        }
    }
    Ok(findings(&workload, scale, &took, other.map(|other| other.name())))
}

/// The rows of all tables, read once, under DataFusion's own types, functions and defaults.
fn in_memory(bed: &AnalyticalBed, threads: usize) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(threads);
    let context = SessionContext::new_with_config(config);
    for table in bed.store().tables() {
        let name = table.schema().name.to_string();
        let batches = bed.batches(&table)?;
        let Some(first) = batches.first() else { bail!("{name} has no rows") };
        let schema = first.schema();
        let rows = batches.len().div_ceil(threads).max(1);
        let partitions = batches.chunks(rows).map(<[_]>::to_vec).collect();
        context.register_table(&name, Arc::new(MemTable::try_new(schema, partitions)?))?;
    }
    Ok(context)
}

/// Milliseconds of each contender's runs, by query.
#[derive(Default)]
struct Took {
    images: Runs,
    memory: Runs,
    other: Runs,
}

/// Each query's runs: on the wall, and on processors.
#[derive(Default)]
struct Runs(Vec<Vec<[f64; 2]>>);

impl Runs {
    fn time<T>(&mut self, at: usize, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let (began, cpu) = (Instant::now(), cpu_time());
        let done = run()?;
        if self.0.len() <= at {
            self.0.resize(at + 1, Vec::new());
        }
        let spent = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        self.0[at].push(spent.map(|time| time.as_secs_f64() * 1e3));
        Ok(done)
    }

    /// The medians of each query's times.
    fn medians(&self, which: usize) -> Vec<f64> {
        self.0.iter().map(|runs| median(runs.iter().map(|run| run[which]).collect())).collect()
    }
}

const WALL: usize = 0;
const CPU: usize = 1;

impl Took {
    /// Asks each once.
    fn round(
        &mut self,
        at: usize,
        bed: &AnalyticalBed,
        memory: &SessionContext,
        other: Option<&mut (dyn Answerer + 'static)>,
        text: &str,
    ) -> Result<()> {
        let ours = self.images.time(at, || bed.run(text))?;
        let rows = self.memory.time(at, || bed.count_in(memory, text))?;
        if ours.len() != rows {
            bail!("images give {} rows and memory {rows}", ours.len());
        }
        if let Some(other) = other {
            self.other.time(at, || other.ask(text))?;
        }
        Ok(())
    }
}

fn findings(workload: &Analytical, scale: f64, took: &Took, other: Option<String>) -> Findings {
    let mut all = vec![("images".to_owned(), took.images.medians(WALL))];
    all.push(("Arrow tables in memory".to_owned(), took.memory.medians(WALL)));
    if let Some(name) = &other {
        all.push((name.clone(), took.other.medians(WALL)));
    }
    let cpu = [&took.images, &took.memory].map(|runs| runs.medians(CPU));
    let names = workload.queries.iter().map(|query| query.name.clone());
    let heads = ["", "total", "longest", "processor time"].map(str::to_owned).to_vec();
    let total = |ms: &[f64]| ms.iter().sum::<f64>();
    let row = |(at, (name, ms)): (usize, &(String, Vec<f64>))| {
        let longest = ms.iter().copied().fold(0.0, f64::max);
        let spent = cpu.get(at).map_or(String::new(), |ms| format!("{:.0}", total(ms)));
        vec![name.clone(), format!("{:.0}", total(ms)), format!("{longest:.0}"), spent]
    };
    let table = Table { heads, rows: all.iter().enumerate().map(row).collect() };
    let spent = ["images, processor time", "memory, processor time"].map(str::to_owned);
    let names_of = all.iter().map(|(name, _)| name.clone()).chain(spent);
    let of_queries = Table {
        heads: std::iter::once(String::new()).chain(names_of).collect(),
        rows: names
            .clone()
            .enumerate()
            .map(|(at, name)| {
                let times = all.iter().map(|(_, ms)| ms).chain(&cpu);
                let cells = times.map(|ms| format!("{:.1}", ms[at]));
                std::iter::once(name).chain(cells).collect()
            })
            .collect(),
    };
    let lines = Lines {
        title: format!("TPC-H at scale {scale}, each query"),
        x_label: "query".to_owned(),
        unit: "milliseconds".to_owned(),
        digits: 0,
        places: names.collect(),
        lines: Vec::new(),
    };
    let line = |(name, ms): &(String, Vec<f64>)| {
        (name.clone(), ms.iter().map(|ms| Some(*ms)).collect::<Vec<_>>())
    };
    let series = vec![Lines { lines: all.iter().map(line).collect(), ..lines }];
    let title = format!("TPC-H at scale {scale}, 22 queries, milliseconds");
    let tables = vec![(title.clone(), table), (title, of_queries)];
    // The series is for the page; a terminal has no room for 22 columns.
    let mut findings = Findings { tables, plots: series, ..Findings::default() };
    let ratio = total(&all[0].1) / total(&all[1].1);
    let claim = "total time, to DataFusion over Arrow tables in memory";
    findings.claim(claim, "<= 1.3x", times(ratio), ratio <= OVER_MEMORY_MAX);
    let ratio = total(&cpu[0]) / total(&cpu[1]);
    let claim = "total processor time, to the same";
    findings.claim(claim, "<= 1.3x", times(ratio), ratio <= OVER_MEMORY_MAX);
    if let Some(name) = other {
        let ahead = total(&all[2].1) / total(&all[0].1);
        findings.claim(&format!("ahead of {name}"), ">= 5x", times(ahead), ahead >= AHEAD_MIN);
    }
    findings.remark("medians of runs in turns, warm; the other database has indexes on all keys.");
    findings
}
