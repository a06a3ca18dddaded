//! Pins and scans of one table of numbers, written to by a thread that does nothing else.
//!
//! Updates go to the records as a protocol's do at the end of a block, without a transaction around
//! them: so many a second come from no real load, and that is what a scan is to be tried by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kit::random::Random;
use storage::Store;
use types::{Key, Stamp, Value};

use super::writers::query_cpu_time;
use super::{AnalyticalBed, median};
use crate::bed::Source;
use crate::paper::{Effort, Findings, Lab, Lines, times};
use crate::run::cpu_time;
use crate::table::{Table, thousands};

const COLUMNS: u16 = 8;
const ROWS: u64 = 4_000_000;
/// The column that is summed, and the one that is updated.
const SUM: &str = "SELECT sum(c3) FROM t";
const UPDATED: u16 = 3;

const PIN_US_MAX: f64 = 100.0;
const PINS: usize = 1_000;

/// Updates of a block when there is no limit to them.
const BLOCK: usize = 1_000;
const RATE: u64 = 10_000;
const BESIDE_RATE_MAX: f64 = 1.1;
const BESIDE_SATURATED_MAX: f64 = 2.0;
const LAYOUTS: [&str; 2] = ["row", "column"];

/// Updates of one column of random rows, block by block.
struct Writer {
    store: Arc<Store>,
    table: Arc<storage::Table>,
    random: Random,
    rows: u64,
    height: u64,
}

impl Writer {
    fn load(rows: u64, layout: &str) -> Result<Writer> {
        let columns: Vec<String> = (1..COLUMNS).map(|c| format!("c{c} bigint")).collect();
        let columns = columns.join(", ");
        let schema =
            format!("CREATE TABLE t (c0 bigint PRIMARY KEY, {columns}) WITH (layout = {layout})");
        let store = Arc::clone(Source::of(&schema, &[])?.store());
        let table = store.tables().pop().context("the table was made")?;
        let height = store.newest() + 1;
        let mut block = store.begin_block(height, 1);
        for key in 0..rows {
            let value = |column| Value::Int((key + u64::from(column)) as i64);
            let row: Vec<Value> = (0..COLUMNS).map(value).collect();
            let key = Key::from_int(key as i64);
            table.insert(key.as_bytes(), &row, Stamp::new(height, 0), block.arena(0));
        }
        store.finish_unread(block);
        store.publish(height);
        Ok(Writer { store, table, random: Random::new(7), rows, height })
    }

    fn block(&mut self, updates: usize) {
        self.height += 1;
        let mut block = self.store.begin_block(self.height, 1);
        for place in 0..updates {
            let key = self.random.below(self.rows) as i64;
            if let Some(slot) = self.table.find(Key::from_int(key).as_bytes()) {
                let stamp = Stamp::new(self.height, place as u32);
                self.table.update(slot, &[(UPDATED, Value::Int(key))], stamp, block.arena(0));
            }
        }
        self.store.finish_unread(block);
        self.store.publish(self.height);
        self.store.collect();
        self.store.bring_copies();
    }

    /// So many a second, or as many as it can; returns how many a second it were.
    fn until(&mut self, done: &AtomicBool, rate: Option<u64>) -> f64 {
        let began = Instant::now();
        let mut count = 0;
        while !done.load(Ordering::Relaxed) {
            let updates = if rate.is_some() { BLOCK / 10 } else { BLOCK };
            self.block(updates);
            count += updates as u64;
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(count as f64 / rate as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
        }
        count as f64 / began.elapsed().as_secs_f64()
    }
}

fn us(run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    run()?;
    Ok(began.elapsed().as_secs_f64() * 1e6)
}

fn span(effort: &Effort) -> Duration {
    Duration::from_millis(match (effort.smoke, effort.quick) {
        (true, _) => 20,
        (_, true) => 1_000,
        _ => 3_000,
    })
}

pub fn pin(lab: &mut Lab<'_>) -> Result<Findings> {
    let sizes = [ROWS / 100, ROWS / 10, ROWS].map(|rows| lab.effort.rows(rows));
    let modified = [0, 1_000, 100_000].map(|rows| lab.effort.rows(rows) as usize);
    let mut lines = Lines {
        title: "Taking a snapshot, 99th percentile of 1,000".to_owned(),
        x_label: "rows modified since the last".to_owned(),
        unit: "microseconds".to_owned(),
        digits: 2,
        places: modified.iter().map(ToString::to_string).collect(),
        lines: Vec::new(),
    };
    for (done, &rows) in sizes.iter().enumerate() {
        lab.tell(done, sizes.len(), &format!("{rows} rows"));
        let mut writer = Writer::load(rows, LAYOUTS[0])?;
        let bed = AnalyticalBed::new(&writer.store, 1)?;
        bed.run(SUM)?;
        let mut pins = Vec::new();
        for &updates in &modified {
            writer.block(updates);
            let mut took: Vec<f64> = Vec::with_capacity(PINS);
            for _ in 0..PINS {
                let mut kept = None;
                took.push(us(|| {
                    kept = Some(writer.store.snapshot());
                    Ok(())
                })?);
            }
            took.sort_by(f64::total_cmp);
            pins.push(Some(took[PINS * 99 / 100]));
        }
        lines.lines.push((format!("{rows} rows"), pins));
    }
    let all = lines.lines.iter().flat_map(|(_, pins)| pins.iter().flatten());
    let worst = all.copied().fold(0.0, f64::max);
    let mut findings = Findings { series: vec![lines], ..Findings::default() };
    let claim = "a snapshot is pinned, whatever the size and whatever was modified";
    findings.claim(claim, "< 100 us", format!("{worst:.2} us"), worst < PIN_US_MAX);
    findings.remark("the paper's is 108 ms by fork and 0.02 ms at best by rewiring, for 200 MB.");
    Ok(findings)
}

/// Scans one after the other, for a while; how long each took, in ms.
fn scans(bed: &AnalyticalBed, span: Duration) -> Result<Vec<f64>> {
    let began = Instant::now();
    let mut took = Vec::new();
    while took.is_empty() || began.elapsed() < span {
        took.push(us(|| bed.run(SUM).map(drop))? / 1e3);
    }
    Ok(took)
}

/// What scans and updates beside one another came to.
#[derive(Default)]
struct ScanCosts {
    scan_ms: Vec<f64>,
    updates_per_s: Vec<f64>,
    /// Of the processor, without what the queries' threads took of it.
    updates_per_cpu_s: Vec<f64>,
}

impl ScanCosts {
    fn measure(&mut self, table: &mut Laid, rate: Option<u64>, span: Duration) -> Result<()> {
        let done = AtomicBool::new(false);
        let (began, cpu, of_queries) = (Instant::now(), cpu_time(), query_cpu_time()?);
        let (writer, bed) = (&mut table.writer, &table.bed);
        let (updates, took) = std::thread::scope(|scope| {
            let writing = scope.spawn(|| writer.until(&done, rate));
            let took = scans(bed, span);
            done.store(true, Ordering::Relaxed);
            let updates = writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
            anyhow::Ok((updates, took?))
        })?;
        let of_queries = query_cpu_time()?.saturating_sub(of_queries);
        let cpu = (cpu_time() - cpu).saturating_sub(of_queries);
        self.scan_ms.push(median(took));
        self.updates_per_s.push(updates);
        self.updates_per_cpu_s.push(updates * began.elapsed().as_secs_f64() / cpu.as_secs_f64());
        Ok(())
    }
}

/// A table in one of the layouts, and what was measured of it.
struct Laid {
    writer: Writer,
    bed: AnalyticalBed,
    first: f64,
    patched: Vec<(String, f64)>,
    quiet: Vec<f64>,
    limited: ScanCosts,
    saturated: ScanCosts,
}

impl Laid {
    fn load(lab: &Lab<'_>, layout: &str) -> Result<Laid> {
        let mut writer = Writer::load(lab.effort.rows(ROWS), layout)?;
        let bed = AnalyticalBed::new(&writer.store, 1)?;
        let first = us(|| bed.run(SUM).map(drop))? / 1e3;
        let mut patched = Vec::new();
        for updates in [100, 1_000, 10_000, 100_000] {
            let mut took = Vec::new();
            for _ in 0..5 {
                writer.block(lab.effort.rows(updates) as usize);
                took.push(us(|| bed.run(SUM).map(drop))? / 1e3);
            }
            patched.push((format!("after {updates}"), median(took)));
        }
        let (quiet, limited, saturated) = (Vec::new(), ScanCosts::default(), ScanCosts::default());
        Ok(Laid { writer, bed, first, patched, quiet, limited, saturated })
    }

    fn round(&mut self, span: Duration) -> Result<()> {
        self.quiet.push(median(scans(&self.bed, span)?));
        let (mut limited, mut saturated) =
            (std::mem::take(&mut self.limited), std::mem::take(&mut self.saturated));
        limited.measure(self, Some(RATE), span)?;
        saturated.measure(self, None, span)?;
        (self.limited, self.saturated) = (limited, saturated);
        Ok(())
    }

    fn quiet(&self) -> f64 {
        median(self.quiet.clone())
    }

    /// Times in ms by what went on meanwhile.
    fn times(&self) -> Vec<(String, f64)> {
        let named = |name: &str, ms| (name.to_owned(), ms);
        let mut all = vec![named("first", self.first), named("quiet", self.quiet())];
        all.extend(self.patched.iter().cloned());
        all.push(named("during 10,000/s", median(self.limited.scan_ms.clone())));
        all.push(named("during saturated", median(self.saturated.scan_ms.clone())));
        all
    }
}

pub fn scan(lab: &mut Lab<'_>) -> Result<Findings> {
    let (rounds, span) = (lab.effort.rounds(), span(&lab.effort));
    let mut tables = Vec::new();
    for (done, layout) in LAYOUTS.iter().enumerate() {
        lab.tell(done, LAYOUTS.len(), &format!("a table of layout {layout}"));
        tables.push(Laid::load(lab, layout)?);
    }
    for round in 0..rounds {
        lab.tell(round, rounds, &"scans, alone and beside writers");
        tables.iter_mut().try_for_each(|table| table.round(span))?;
    }
    Ok(findings(&tables, lab.effort.rows(ROWS)))
}

fn findings(tables: &[Laid], rows: u64) -> Findings {
    let times_of: Vec<_> = tables.iter().map(Laid::times).collect();
    let line = |(layout, times): (&&str, &Vec<(String, f64)>)| {
        (format!("layout {layout}"), times.iter().map(|(_, ms)| Some(*ms)).collect())
    };
    let lines = Lines {
        title: format!("Sum of one bigint column of {rows} rows, by SQL on one thread"),
        x_label: "updates".to_owned(),
        unit: "milliseconds".to_owned(),
        digits: 2,
        places: times_of[0].iter().map(|(name, _)| name.clone()).collect(),
        lines: LAYOUTS.iter().zip(&times_of).map(line).collect(),
    };
    let mut findings = Findings { series: vec![lines], ..Findings::default() };
    let mut updates = Vec::new();
    for (layout, table) in LAYOUTS.iter().zip(tables) {
        let (quiet, saturated) = (table.quiet(), &table.saturated);
        let ratio = median(table.limited.scan_ms.clone()) / quiet;
        let claim = format!("layout {layout}: a scan during 10,000 updates/s, to a quiet one");
        findings.claim(&claim, "<= 1.1x", times(ratio), ratio <= BESIDE_RATE_MAX);
        let ratio = median(saturated.scan_ms.clone()) / quiet;
        let claim = format!("layout {layout}: the same during as many as one thread makes");
        findings.claim(&claim, "<= 2x", times(ratio), ratio <= BESIDE_SATURATED_MAX);
        let all = [&saturated.updates_per_s, &saturated.updates_per_cpu_s];
        let of_it = [&table.limited.updates_per_cpu_s];
        let cells = all.into_iter().chain(of_it).map(|rates| thousands(median(rates.clone())));
        updates.push(std::iter::once((*layout).to_owned()).chain(cells).collect());
    }
    let heads = ["layout", "saturated: updates/s", "per CPU-s", "10,000/s: per CPU-s"];
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows: updates };
    let title = "Updates beside the scans; CPU without the queries'".to_owned();
    findings.tables.push((title, table));
    findings.remark("one thread updates random rows without transactions, one scans; medians.");
    findings
}
