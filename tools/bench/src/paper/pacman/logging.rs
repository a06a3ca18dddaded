//! What a log costs while it is written: figures 4.11 and 4.12, tables 4.1 to 4.3.

use anyhow::Result;

use super::{
    CHECKPOINT_CPU_PERCENT_MAX, FEW_CORES, ONE_DISK, Quantity, median, percent_less, setting,
};
use crate::Workload;
use crate::logging::{Bench, Scheme, Setting, Slice, Trace};
use crate::paper::{Findings, Lab, Lines, near};
use crate::table::{Table, thousands};

/// Places on the time axis of a trace.
const TRACE_PLACES: usize = 12;

const TRANSACTIONS: usize = 40_000;

/// All settings once, again and again, so that a slower minute is that of all.
pub fn alternate(
    lab: &mut Lab<'_>,
    workload: &Workload,
    settings: &[Setting],
) -> Result<Vec<Vec<Trace>>> {
    let bench = Bench::load(workload)?;
    let rounds = lab.effort.rounds();
    let mut traces = vec![Vec::new(); settings.len()];
    for round in 0..rounds {
        for (at, setting) in settings.iter().enumerate() {
            lab.tell(round * settings.len() + at, rounds * settings.len(), setting);
            traces[at].push(bench.run(setting)?);
        }
    }
    Ok(traces)
}

pub fn median_of(traces: &[Trace], value: fn(&Trace) -> f64) -> f64 {
    median(traces.iter().map(value).collect())
}

fn with_checkpoint(setting: Setting) -> Setting {
    Setting { checkpoint_cpu_percent_max: Some(CHECKPOINT_CPU_PERCENT_MAX), ..setting }
}

/// A trace at so few places that it can be read.
fn resampled(slices: &[Slice], length: usize, value: fn(&Slice) -> f64) -> Vec<Option<f64>> {
    let step = length.div_ceil(TRACE_PLACES).max(1);
    let of_step = |slices: &[Slice]| {
        let sum: f64 = slices.iter().map(value).sum();
        (!slices.is_empty()).then(|| sum / slices.len() as f64)
    };
    let mut places: Vec<Option<f64>> = slices.chunks(step).map(of_step).collect();
    places.resize(length.div_ceil(step), None);
    places
}

pub fn traces(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let of = |scheme| with_checkpoint(setting(lab, &tpcc, TRANSACTIONS, scheme));
    let settings = Scheme::ALL.map(of);
    let traces = alternate(lab, &tpcc, &settings)?;
    let mut findings = Findings::default();
    let length = traces.iter().map(|runs| runs[0].slices.len()).max().unwrap_or(0);
    let step = length.div_ceil(TRACE_PLACES).max(1);
    let lines = |value: fn(&Slice) -> f64| {
        let of = |(scheme, runs): (&Scheme, &Vec<Trace>)| {
            (scheme.name().to_owned(), resampled(&runs[0].slices, length, value))
        };
        Scheme::ALL.iter().zip(&traces).map(of).collect()
    };
    let places: Vec<String> =
        (0..length).step_by(step).map(|slice| format!("{:.1}", slice as f64 / 10.0)).collect();
    let views: [(&str, &str, usize, Quantity<Slice>); 3] = [
        ("Throughput", "committed a second", 0, |s| 10.0 * s.committed as f64),
        ("Latency", "ms, mean", 1, Slice::latency_ms_mean),
        ("While a checkpoint is written", "1 or 0", 1, |s| f64::from(u8::from(s.checkpoint))),
    ];
    for (title, unit, digits, value) in views {
        let x_label = "seconds".to_owned();
        let (title, unit, places) = (title.to_owned(), unit.to_owned(), places.clone());
        findings.series.push(Lines { title, x_label, unit, digits, places, lines: lines(value) });
    }
    let off = median_of(&traces[0], |t| t.without.per_second());
    for (scheme, runs) in Scheme::ALL.iter().zip(&traces).skip(1) {
        let (name, ours) = (scheme.name(), median_of(runs, |t| t.without.per_second()));
        let within = median_of(runs, |t| t.within.per_second());
        let alone = format!("{name}: throughput lost to the log, without a checkpoint");
        let beside = format!("{name}: the same, while a checkpoint is written");
        for (claim, rate, about) in [(alone, ours, 0.20), (beside, within, 0.25)] {
            let (text, lost) = (percent_less(rate, off), 1.0 - rate / off);
            match scheme {
                Scheme::Command => findings.claim(&claim, "under 6 %", text, lost <= 0.06),
                _ => {
                    let paper = format!("about {:.0} %", 100.0 * about);
                    findings.judge(&claim, &paper, text, near(about, lost), lost > 0.0);
                }
            }
        }
    }
    findings.remark(
        "losses of 20 to 25 % hold where the log wants more than the disk gives; a disk that takes \
         all of it takes less of the throughput.",
    );
    findings.remark("shares of a claim are of sealing without a log and without a checkpoint.");
    findings.remark(FEW_CORES);
    findings.remark(ONE_DISK);
    Ok(findings)
}

pub fn sizes(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let heads = ["", "tx/s", "of off", "log MB/min", "B/tx", "times command"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    let papers = [
        (super::tpcc(lab)?, [11.4, 10.8], TRANSACTIONS),
        (super::smallbank(lab)?, [1.23, 0.92], 4 * TRANSACTIONS),
    ];
    for (workload, papers, transactions) in papers {
        let settings = Scheme::ALL.map(|scheme| setting(lab, &workload, transactions, scheme));
        let traces = alternate(lab, &workload, &settings)?;
        let bytes = |runs: &[Trace]| runs[0].log_bytes as f64 / runs[0].committed() as f64;
        let (off, command) = (median_of(&traces[0], Trace::per_second), bytes(&traces[3]));
        for (scheme, runs) in Scheme::ALL.iter().zip(&traces) {
            let rate = median_of(runs, Trace::per_second);
            let per_minute = median_of(runs, Trace::log_bytes_per_second) * 60.0 / 1e6;
            table.rows.push(vec![
                format!("{}, {}", workload.name(), scheme.name()),
                thousands(rate),
                format!("{:.2}", rate / off),
                format!("{per_minute:.0}"),
                format!("{:.0}", bytes(runs)),
                format!("{:.2}", bytes(runs) / command),
            ]);
        }
        for (scheme, paper, at) in [("physical", papers[0], 1), ("logical", papers[1], 2)] {
            let ratio = bytes(&traces[at]) / command;
            let claim = format!("{}: bytes of a {scheme} log, times command", workload.name());
            findings.ratio(&claim, paper, ratio);
        }
        let logical = bytes(&traces[2]) / command;
        if workload.name() == "tpcc" {
            findings.ratio("tpcc: command is a tenth of logical at most", 10.8, logical);
        }
    }
    findings.tables.push(("Log volume by scheme".to_owned(), table));
    findings.remark("a block is the epoch: a row is logged once for each block that changes it.");
    findings.remark("\"holds\" of a ratio of bytes is that it is on the paper's side of one.");
    Ok(findings)
}

pub fn bandwidth(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let schemes = &Scheme::ALL[1..];
    let mut findings = Findings::default();
    let heads = ["", "1 logger", "2 loggers", "1, checkpoint", "2, checkpoint"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    let mut settings = Vec::new();
    for &scheme in schemes {
        for checkpoint in [false, true] {
            for loggers in [1, 2] {
                let one = Setting { loggers, ..setting(lab, &tpcc, TRANSACTIONS, scheme) };
                settings.push(if checkpoint { with_checkpoint(one) } else { one });
            }
        }
    }
    let traces = alternate(lab, &tpcc, &settings)?;
    let megabytes = |trace: &Trace| {
        let checkpoint = trace.checkpoint.as_ref().map_or(0, |c| c.taken.extent.bytes_written);
        (trace.log_bytes + checkpoint) as f64 / 1e6 / trace.wall().as_secs_f64()
    };
    let rates: Vec<f64> = traces.iter().map(|runs| median_of(runs, megabytes)).collect();
    for (scheme, rates) in schemes.iter().zip(rates.chunks(4)) {
        let cells = rates.iter().map(|rate| format!("{rate:.1}"));
        table.rows.push(std::iter::once(scheme.name().to_owned()).chain(cells).collect());
    }
    findings.tables.push(("Megabytes a second to disk".to_owned(), table));
    let ratio = rates[0] / rates[8];
    findings.ratio("physical writes more than command", 8.1, ratio);
    let ratio = rates[10] / rates[8];
    findings.ratio("command writes more with a checkpoint", 7.4, ratio);
    findings.remark("the bytes of one checkpoint are spread over the whole run.");
    findings.remark(ONE_DISK);
    Ok(findings)
}

pub fn latencies(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let schemes = &Scheme::ALL[1..];
    let mut settings = Vec::new();
    for &scheme in schemes {
        for sync in [true, false] {
            for loggers in [1, 2] {
                settings.push(Setting {
                    loggers,
                    sync,
                    ..setting(lab, &tpcc, TRANSACTIONS, scheme)
                });
            }
        }
    }
    let traces = alternate(lab, &tpcc, &settings)?;
    let means: Vec<f64> =
        traces.iter().map(|runs| median_of(runs, Trace::latency_ms_mean)).collect();
    let mut findings = Findings::default();
    let heads = ["", "synced, 1 logger", "synced, 2", "not synced, 1", "not synced, 2"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    for (scheme, means) in schemes.iter().zip(means.chunks(4)) {
        let cells = means.iter().map(|mean| format!("{mean:.2}"));
        table.rows.push(std::iter::once(scheme.name().to_owned()).chain(cells).collect());
    }
    findings.tables.push(("Mean latency in ms, saturated, blocks of 1,000".to_owned(), table));
    for (at, name, paper) in [(0, "physical", 38.0 / 14.0), (4, "logical", 33.0 / 14.0)] {
        let ratio = means[at] / means[8];
        let claim = format!("{name} takes longer than command, synced");
        findings.ratio(&claim, paper, ratio);
    }
    findings.remark(
        "a transaction's latency is its block's time, execution included, not an epoch of a clock: \
         the log's part of it is the difference to not syncing.",
    );
    findings.remark(ONE_DISK);
    Ok(findings)
}

pub fn ad_hoc(lab: &mut Lab<'_>) -> Result<Findings> {
    let tpcc = super::tpcc(lab)?;
    let shares = [0, 20, 40, 60, 80, 100];
    let of = |ad_hoc_percent| Setting {
        ad_hoc_percent,
        ..setting(lab, &tpcc, TRANSACTIONS, Scheme::Command)
    };
    let settings = shares.map(of);
    let traces = alternate(lab, &tpcc, &settings)?;
    let mut findings = Findings::default();
    let medians = |value: fn(&Trace) -> f64| -> Vec<Option<f64>> {
        traces.iter().map(|runs| Some(median_of(runs, value))).collect()
    };
    let views: [(&str, &str, usize, Quantity<Trace>); 3] = [
        ("Throughput", "committed a second", 0, Trace::per_second),
        ("Latency", "ms, mean", 2, Trace::latency_ms_mean),
        ("Log", "MB a second", 1, |t| t.log_bytes_per_second() / 1e6),
    ];
    for (title, unit, digits, value) in views {
        let lines = vec![("command".to_owned(), medians(value))];
        let places = shares.iter().map(u32::to_string).collect();
        let (title, unit) = (title.to_owned(), unit.to_owned());
        let x_label = "ad hoc, %".to_owned();
        findings.series.push(Lines { title, x_label, unit, digits, places, lines });
    }
    let of = |at: usize| median_of(&traces[at], Trace::per_second);
    let (ours, lost) = (percent_less(of(5), of(0)), 1.0 - of(5) / of(0));
    let claim = "throughput falls with the share of ad-hoc work";
    findings.judge(claim, "about -20 %", ours, near(0.20, lost), lost > 0.0);
    findings.remark("the ledger holds the commands of ad-hoc work too; its rows come on top.");
    Ok(findings)
}
