//! The demo's final report as one page of text.

use std::fmt::Write;

use super::report::{Check, Checkpoint, Report};

pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\nTallystick demo: SmallBank, {} customers, {} clients, {:.0} s in all\n",
        grouped(report.customers),
        report.clients,
        report.total_s
    );
    for (name, text) in lines(report) {
        let _ = writeln!(out, "  {name:<12} {text}");
    }
    out + &verdicts(&report.checks)
}

/// What was measured, each under its name.
fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let measured = &report.measured;
    let mut lines = vec![
        (
            "load",
            format!(
                "{} rows by COPY, {} rows/s",
                grouped(report.load_rows),
                grouped((report.load_rows as f64 / report.load_s.max(0.001)) as u64)
            ),
        ),
        (
            "throughput",
            format!(
                "{} transactions/s, each a procedure call, each on disk before its answer",
                grouped(measured.transactions_per_s as u64)
            ),
        ),
        (
            "latency",
            format!(
                "median {}, 95% {}, 99% {}, longest {}",
                milliseconds(measured.latency_us_p50),
                milliseconds(measured.latency_us_p95),
                milliseconds(measured.latency_us_p99),
                milliseconds(measured.latency_us_max)
            ),
        ),
    ];
    if let Some(ledger) = &report.ledger {
        let transactions = measured.transactions.max(1) as f64;
        lines.push((
            "ledger",
            format!(
                "{} blocks, {:.1} transactions a block, {:.1} MB, {:.0} bytes a transaction",
                grouped(ledger.blocks),
                transactions / ledger.blocks.max(1) as f64,
                ledger.bytes as f64 / 1e6,
                ledger.bytes as f64 / transactions
            ),
        ));
    }
    if let Some(Checkpoint { height: _, rows, bytes, took_s }) = &report.checkpoint {
        lines.push((
            "checkpoint",
            format!(
                "{took_s:.2} s for {} rows, {:.1} MB, while clients went on",
                grouped(*rows),
                *bytes as f64 / 1e6
            ),
        ));
    }
    if let Some(recovery_s) = report.recovery_s {
        let from = report.checkpoint.as_ref().map_or(String::new(), |checkpoint| {
            format!(", from block {} on", grouped(checkpoint.height))
        });
        lines.push((
            "recovery",
            format!("{recovery_s:.2} s from the start after SIGKILL until it serves again{from}"),
        ));
    }
    lines
}

/// A line for each, and one for all.
pub fn verdicts(checks: &[Check]) -> String {
    let mut out = String::from("\n");
    for check in checks {
        let mark = if check.holds { '✓' } else { '✗' };
        let _ = writeln!(out, "  {mark} {:<44} {}", check.claim, check.detail);
    }
    let failed = checks.iter().filter(|check| !check.holds).count();
    let _ = match failed {
        0 => writeln!(out, "\n  Everything holds."),
        _ => writeln!(out, "\n  {failed} of {} do NOT hold.", checks.len()),
    };
    out
}

fn milliseconds(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_failed_check_is_impossible_to_miss() {
        let mut report = Report::default();
        report.check("one", true, String::new());
        assert!(text(&report).ends_with("Everything holds.\n"));
        report.check("two", false, "lost 3".into());
        let page = text(&report);
        assert!(page.contains("✗ two") && page.contains("1 of 2 do NOT hold"));
    }
}
