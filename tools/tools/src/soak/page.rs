//! A soak as text.

use super::report::{GROWTH_PERCENT_MAX, PEAK_MAX, Report, Sample};

pub const HEAD: &str = "  minute   process  program allocated      rows  versions   entries   \
    indexes    disk  operations/s";

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// One minute; `before` is the sample before.
pub fn line(before: Option<&Sample>, sample: &Sample) -> String {
    let none = Sample::default();
    let before = before.unwrap_or(&none);
    let done = |sample: &Sample| sample.operations.values().sum::<u64>() as f64;
    let per_s = (done(sample) - done(before)) / (sample.at_s - before.at_s).max(1e-9);
    let part =
        |names: &[&str]| mib(names.iter().filter_map(|name| sample.parts_bytes.get(*name)).sum());
    format!(
        "  {:6.1} {:7.1} M {:6.1} M {:7.1} M {:7.1} M {:7.1} M {:7.1} M {:7.1} M {:5.0} M  \
         {per_s:12.0}",
        sample.at_s / 60.0,
        mib(sample.own_bytes),
        mib(sample.mapped_bytes),
        part(&["allocated"]),
        part(&["rows", "free for strings", "dropped tables"]),
        part(&["old versions", "free for old versions"]),
        part(&["old index entries"]),
        part(&["key hashes", "ordered indexes"]),
        mib(sample.ledger_bytes),
    )
}

pub fn verdict(report: &Report) -> String {
    let total = report.samples.last().cloned().unwrap_or_default();
    let mut text = format!("seed         {}, {} clients\n", report.seed, report.clients);
    for (kind, count) in &total.operations {
        let per_s = *count as f64 / total.at_s.max(1e-9);
        text += &format!("{kind:<12} {count} ({per_s:.0} a second)\n");
    }
    text += &format!("retried      {}\nblocks       {}\n", report.retried, total.blocks);
    text += &format!(
        "memory       {:.1} MiB in the second quarter (median), {:.1} MiB in the last: {:+.1} %; \
         there {:.1} MiB at most\n",
        mib(report.base_bytes),
        mib(report.last_bytes),
        report.growth_percent,
        mib(report.peak_bytes),
    );
    text += &format!("time         {:.0} s\n\n", report.total_s);
    text += &match report.holds {
        true => format!("Memory is flat within {GROWTH_PERCENT_MAX} %, and the ledger verifies.\n"),
        false => format!(
            "Memory is NOT flat within {GROWTH_PERCENT_MAX} %, with peaks of {PEAK_MAX} times it.\n"
        ),
    };
    text
}
