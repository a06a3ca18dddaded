//! The cluster demo's final report as one page of text.

use std::fmt::Write;

use super::report::Report;
use crate::demo::page::{grouped, verdicts};

pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\nTallystick demo: four organisations over CometBFT, SmallBank, {} customers, {:.0} s in all\n",
        grouped(report.customers),
        report.total_s
    );
    let mut row = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<12} {text}");
    };
    let rate = (report.load_rows as f64 / report.load_s.max(0.001)) as u64;
    row("load", format!("{} rows by COPY, {} rows/s", grouped(report.load_rows), grouped(rate)));
    let payments = grouped(report.payments_per_s as u64);
    row("throughput", format!("{payments} payments/s, each executed by all, on this one machine"));
    row("a kill", format!("the others waited {:.1} s at most", report.killed_wait_s));
    row("cut off", format!("the others waited {:.1} s at most", report.cut_off_wait_s));
    row("a lie", format!("named {:.1} s after a row was changed in memory", report.named_s));
    row("a fifth", format!("takes part {:.1} s after it was asked to", report.joined_s));
    let blocks = grouped(report.height);
    row(
        "ledger",
        format!("{} payments acknowledged, {blocks} blocks", grouped(report.acknowledged)),
    );
    out + &verdicts(&report.checks)
}
