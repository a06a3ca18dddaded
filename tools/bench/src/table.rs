//! Text tables that fit a terminal.

use serde::Serialize;

use crate::Measurement;

/// Columns of the widest table.
pub const WIDTH_MAX: usize = 120;
const DIGEST_DIGITS: usize = 12;

/// A table of text: the first column's cells stand left, the others right.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Two spaces between columns. A first cell that would make its row too wide gets a line of its
    /// own.
    pub fn render(&self) -> String {
        let all = || std::iter::once(&self.heads).chain(&self.rows);
        let width_of = |at: usize| {
            all().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.heads.len()).map(width_of).collect();
        let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(WIDTH_MAX.saturating_sub(others));
        }
        let mut text = String::new();
        for row in all() {
            let mut line = String::new();
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match at {
                    0 if cell.chars().count() > width => {
                        text.push_str(cell);
                        text.push('\n');
                        line.push_str(&" ".repeat(width));
                    }
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A column of the measurements' table: its head, its cells, and whether it is left out where all
/// cells are the same (they stand in the line above the table).
struct Column {
    head: &'static str,
    cell: fn(&Measurement) -> String,
    shown: Shown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always,
    IfItVaries,
    IfNotZero,
}

const COLUMNS: &[Column] = &[
    column("protocol", |m| m.protocol.clone(), Shown::Always),
    column("workload", workload, Shown::IfItVaries),
    column("theta", |m| optional(m.theta), Shown::IfItVaries),
    column("warehouses", |m| optional(m.warehouses), Shown::IfItVaries),
    column("threads", |m| m.threads.to_string(), Shown::IfItVaries),
    column("block", |m| m.block_transactions.to_string(), Shown::IfItVaries),
    column("sealing", |m| on_off(m.sealing).to_owned(), Shown::IfItVaries),
    column("disk", |m| on_off(m.durability).to_owned(), Shown::IfItVaries),
    column("tx/s", |m| thousands(m.committed_per_second), Shown::Always),
    column("±%", |m| percent(m.spread(), 0), Shown::Always),
    column("tx/CPU-s", |m| thousands(m.committed_per_cpu_second), Shown::Always),
    column("±%", |m| percent(m.cpu_spread(), 0), Shown::Always),
    column("rerun%", |m| percent(m.rerun_share, 1), Shown::IfNotZero),
    column("defer%", |m| percent(m.deferred_share, 1), Shown::IfNotZero),
    column("40001%", |m| percent(m.failed_share, 1), Shown::IfNotZero),
    column("way, %", crate::misnamed::most, Shown::IfNotZero),
    column("p50 us", |m| m.latency_us_p50.to_string(), Shown::Always),
    column("p99 us", |m| m.latency_us_p99.to_string(), Shown::Always),
    column("sync us", |m| m.sync_us_p50.map_or_else(String::new, thousands), Shown::IfNotZero),
    column("allocs", allocations, Shown::IfNotZero),
    column("digest", digest, Shown::Always),
];

const fn column(head: &'static str, cell: fn(&Measurement) -> String, shown: Shown) -> Column {
    Column { head, cell, shown }
}

/// All that varies, and the figures.
pub fn measurements(measurements: &[Measurement]) -> Table {
    let shown: Vec<&Column> =
        COLUMNS.iter().filter(|column| is_shown(column, measurements)).collect();
    Table {
        heads: shown.iter().map(|column| column.head.to_owned()).collect(),
        rows: measurements
            .iter()
            .map(|measurement| shown.iter().map(|column| (column.cell)(measurement)).collect())
            .collect(),
    }
}

fn is_shown(column: &Column, measurements: &[Measurement]) -> bool {
    let mut cells = measurements.iter().map(column.cell);
    match column.shown {
        Shown::Always => true,
        Shown::IfItVaries => cells.next().is_some_and(|first| cells.any(|cell| cell != first)),
        Shown::IfNotZero => cells.any(|cell| !["", "0", "0.0"].contains(&cell.as_str())),
    }
}

/// What all measurements have in common, in one line.
pub fn heading(measurements: &[Measurement]) -> String {
    let Some(first) = measurements.first() else {
        return String::new();
    };
    let constant = |cell: fn(&Measurement) -> String| {
        measurements.iter().all(|m| cell(m) == cell(first)).then(|| cell(first))
    };
    let mut parts = Vec::new();
    parts.extend(constant(workload));
    parts.extend(constant(|m| {
        m.rows.map_or_else(String::new, |rows| format!("{} rows", thousands(rows as f64)))
    }));
    parts.extend(constant(|m| m.theta.map_or_else(String::new, |t| format!("theta {t}"))));
    parts
        .extend(constant(|m| m.warehouses.map_or_else(String::new, |w| format!("{w} warehouses"))));
    parts.extend(constant(|m| format!("blocks of {}", thousands(m.block_transactions as f64))));
    parts.extend(constant(|m| format!("{} threads", m.threads)));
    parts.extend(constant(|m| format!("sealing {}", on_off(m.sealing))));
    parts.extend(constant(|m| format!("durability {}", on_off(m.durability))));
    parts.push(format!(
        "{} x {} transactions, seed {}",
        first.repetitions,
        thousands(first.transactions as f64),
        first.seed
    ));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

pub(crate) fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// With its settings, but for those that have columns of their own.
pub(crate) fn workload(measurement: &Measurement) -> String {
    let mut text = measurement.workload.clone();
    for (name, value) in &measurement.settings {
        if !["rows", "warehouses"].contains(&name.as_str()) {
            text.push_str(&format!(":{name}={value}"));
        }
    }
    text
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn allocations(measurement: &Measurement) -> String {
    let count = measurement.allocations_per_transaction;
    count.map_or_else(String::new, |count| format!("{count:.1}"))
}

/// With a mark that is hard to miss where it should be another one.
fn digest(measurement: &Measurement) -> String {
    let mark = if measurement.digest_agrees { "" } else { "!! " };
    format!("{mark}{}", &measurement.digest[..DIGEST_DIGITS])
}

pub(crate) fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$}", 100.0 * share)
}

/// A whole number with its digits in groups of three.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_groups_of_three() {
        for (number, text) in [(7.0, "7"), (999.6, "1,000"), (12_345_678.0, "12,345,678")] {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn a_name_that_is_too_long_has_a_line_of_its_own() {
        let row = |name: &str| vec![name.to_owned(), "1".repeat(50), "2".repeat(50)];
        let heads = ["name", "a", "b"].map(str::to_owned).to_vec();
        let long = "x".repeat(40);
        let text = Table { heads, rows: vec![row("short"), row(&long)] }.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2], long);
        assert!(lines.iter().all(|line| line.len() <= WIDTH_MAX));
        assert_eq!(lines[1].len(), lines[3].len());
    }
}
