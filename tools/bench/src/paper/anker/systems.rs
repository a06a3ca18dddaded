//! The five configurations under TPC-C's updates and scans: figures 2.8 to 2.11, table 2.2.

use std::time::Duration;

use anyhow::Result;

use super::short;
use crate::htap::{QUERIES, Setting, System, Tables, Trace, run};
use crate::paper::{Expected, Findings, Lab, Lines, near, times};
use crate::table::{Table, percent, thousands};

/// Warehouses, TPC-C's rows divided by, warm-up, duration and a query's beat, in milliseconds.
fn scale(lab: &Lab<'_>) -> (u32, u32, [u64; 3]) {
    match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => (2, 1_000, [10, 60, 10]),
        (_, true) => (10, 20, [300, 1_500, 50]),
        _ => (40, 4, [1_000, 6_000, 100]),
    }
}

fn setting(lab: &Lab<'_>, system: System) -> Setting {
    let (warehouses, divisor, [warm_up, duration, beat]) = scale(lab);
    Setting {
        system,
        tables: Tables::scaled(warehouses, divisor),
        skewed: false,
        oltp_streams: lab.effort.threads,
        olap_streams: 1,
        warm_up: Duration::from_millis(warm_up),
        duration: Duration::from_millis(duration),
        query_every: Duration::from_millis(beat),
        query: None,
        seed: 1,
    }
}

fn traces(lab: &mut Lab<'_>, settings: &[Setting]) -> Result<Vec<Trace>> {
    let total = settings.len();
    let traced = settings.iter().enumerate().map(|(done, setting)| {
        lab.tell(done, total, setting);
        run(setting)
    });
    traced.collect()
}

/// What a distribution is called, and each system's trace under it.
fn of_all_systems(lab: &mut Lab<'_>, skewed: bool) -> Result<(&'static str, Vec<Trace>)> {
    let settings = System::ALL.map(|system| Setting { skewed, ..setting(lab, system) });
    let kind = if skewed { "skewed" } else { "uniform" };
    Ok((kind, traces(lab, &settings)?))
}

fn remarks(lab: &Lab<'_>, findings: &mut Findings) {
    let (warehouses, divisor, _) = scale(lab);
    let megabytes = Tables::scaled(warehouses, divisor).bytes() >> 20;
    let streams = lab.effort.threads;
    findings.remark(&format!(
        "{warehouses} warehouses of a {divisor}th of TPC-C's rows ({megabytes} MB), {streams} OLTP \
         streams and 1 OLAP stream unless varied, seconds instead of minutes; the thesis has 40 \
         whole warehouses, 6 and 2 streams on 8 cores, 180 s. Mix 49 : 47 : 4 (not given)."
    ));
}

/// The mean of each query's snapshot and latency, in ms; `None`: it was never asked.
fn means(trace: &Trace, query: usize) -> Option<(f64, f64)> {
    let of: Vec<_> = trace.queries.iter().filter(|cost| cost.query == query).collect();
    let mean = |time: &dyn Fn(usize) -> Duration| {
        (0..of.len()).map(|at| time(at).as_secs_f64() * 1e3).sum::<f64>() / of.len() as f64
    };
    (!of.is_empty()).then(|| (mean(&|at| of[at].snapshot), mean(&|at| of[at].latency())))
}

pub fn latencies(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for skewed in [false, true] {
        let (kind, traces) = of_all_systems(lab, skewed)?;
        let line = |(system, trace): (System, &Trace)| {
            let latency = |query| means(trace, query).map(|(_, latency)| latency);
            (system.name().to_owned(), (1..=QUERIES).map(latency).collect())
        };
        let lines = System::ALL.into_iter().zip(&traces).map(line).collect();
        findings.series.push(Lines {
            title: format!("Latency of a query, {kind}"),
            x_label: "query".to_owned(),
            unit: "ms".to_owned(),
            digits: 2,
            places: (1..=QUERIES).map(|query| format!("Q{query}")).collect(),
            lines,
        });
        let snapshot = |trace: &Trace| {
            let all = trace.queries.iter().map(|cost| cost.snapshot.as_secs_f64() * 1e3);
            all.sum::<f64>() / trace.queries.len().max(1) as f64
        };
        let row = |(system, trace): (System, &Trace)| {
            vec![system.name().to_owned(), short(snapshot(trace)), trace.queries.len().to_string()]
        };
        let rows = System::ALL.into_iter().zip(&traces).map(row).collect();
        let heads = ["system", "snapshot, ms", "queries"].map(str::to_owned).to_vec();
        findings.tables.push((format!("Mean time to a snapshot, {kind}"), Table { heads, rows }));
        if !skewed {
            latency_claims(&traces, &snapshot, &mut findings);
        }
    }
    remarks(lab, &mut findings);
    Ok(findings)
}

fn at(system: System) -> usize {
    System::ALL.iter().position(|other| *other == system).unwrap_or_default()
}

fn latency_claims(traces: &[Trace], snapshot: &dyn Fn(&Trace) -> f64, findings: &mut Findings) {
    let of = |system: System| &traces[at(system)];
    let sum = |system: System, queries: std::ops::RangeInclusive<usize>| {
        queries
            .filter_map(|query| means(of(system), query))
            .map(|(_, latency)| latency)
            .sum::<f64>()
    };
    for system in [System::Slabs, System::Private] {
        let name = system.name();
        let faster = snapshot(of(System::Fork)) / snapshot(of(system));
        let claim = format!("snapshots: HEE_fork over {name}");
        findings.ratio(&claim, Expected::AtLeast(100.0), faster);
        let faster = sum(System::Fork, 6..=8) / sum(system, 6..=8);
        let claim = format!("Q6 to Q8: HEE_fork over {name}");
        findings.ratio(&claim, (4.9, 7.5), faster);
        let single = sum(System::SeeFs, 1..=8) / sum(system, 1..=8);
        let claim = format!("all queries: SEE_FS over {name}");
        findings.ratio(&claim, 4.0, single);
        let uncommitted = sum(system, 1..=8) / sum(System::SeeRu, 1..=8);
        let claim = format!("all queries: {name} over SEE_RU");
        findings.ratio(&claim, 1.0, uncommitted);
    }
}

pub fn throughput(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for skewed in [false, true] {
        let (kind, traces) = of_all_systems(lab, skewed)?;
        let line = |(system, trace): (System, &Trace)| {
            let rate = |&count: &u64| Some(count as f64 / trace.tenth.as_secs_f64());
            let warm = std::iter::once(Some(trace.warm_up_per_second));
            (system.name().to_owned(), warm.chain(trace.tenths.iter().map(rate)).collect())
        };
        findings.series.push(Lines {
            title: format!("Committed a second, {kind}"),
            x_label: "tenth of the time".to_owned(),
            unit: "transactions/s".to_owned(),
            digits: 0,
            places: std::iter::once("alone".to_owned())
                .chain((1..=10).map(|t| t.to_string()))
                .collect(),
            lines: System::ALL.into_iter().zip(&traces).map(line).collect(),
        });
        let row = |(system, trace): (System, &Trace)| {
            vec![
                system.name().to_owned(),
                thousands(trace.warm_up_per_second),
                thousands(trace.per_second),
                thousands(trace.per_cpu_second),
                percent(trace.refused_share, 1),
            ]
        };
        let heads = ["system", "alone, tx/s", "with queries, tx/s", "tx/CPU-s", "refused, %"];
        let rows = System::ALL.into_iter().zip(&traces).map(row).collect();
        let table = Table { heads: heads.map(str::to_owned).to_vec(), rows };
        findings.tables.push((format!("Means, {kind}"), table));
        if !skewed {
            throughput_claims(&traces, &mut findings);
        }
    }
    remarks(lab, &mut findings);
    Ok(findings)
}

fn throughput_claims(traces: &[Trace], findings: &mut Findings) {
    let of = |system: System| traces[at(system)].per_second;
    let best = of(System::Slabs).max(of(System::Private));
    for (system, paper) in
        [(System::SeeSi, 47.0 / 42.0), (System::Fork, 47.0 / 34.0), (System::SeeFs, 47.0 / 28.0)]
    {
        let ours = best / of(system);
        let claim = format!("with queries: HEE_AnKer over {}", system.name());
        findings.ratio(&claim, paper, ours);
    }
}

/// Throughput or latency over what is varied, for each system.
fn varied(
    lab: &mut Lab<'_>,
    values: &[usize],
    systems: &[System],
    vary: &dyn Fn(Setting, usize) -> Setting,
) -> Result<Vec<Vec<Trace>>> {
    let of = |system: &System| {
        values.iter().map(|&value| vary(setting(lab, *system), value)).collect::<Vec<_>>()
    };
    let settings: Vec<Setting> = systems.iter().flat_map(of).collect();
    let traces = traces(lab, &settings)?;
    Ok(traces.chunks(values.len()).map(<[Trace]>::to_vec).collect())
}

fn names(values: &[usize]) -> Vec<String> {
    values.iter().map(usize::to_string).collect()
}

fn streams(lab: &Lab<'_>) -> Vec<usize> {
    if lab.effort.smoke { vec![1, 2] } else { vec![1, 2, 4, 6] }
}

pub fn oltp_streams(lab: &mut Lab<'_>) -> Result<Findings> {
    let streams = streams(lab);
    let mut findings = Findings::default();
    for query in [1, 6] {
        let vary = |setting: Setting, oltp_streams: usize| Setting {
            oltp_streams,
            olap_streams: 2,
            query: Some(query),
            ..setting
        };
        let found = varied(lab, &streams, &System::ALL, &vary)?;
        let latency = |trace: &Trace| means(trace, query).map(|(_, latency)| latency);
        let line = |(system, traces): (System, &Vec<Trace>)| {
            (system.name().to_owned(), traces.iter().map(latency).collect())
        };
        findings.series.push(Lines {
            title: format!("Latency of Q{query}"),
            x_label: "OLTP streams".to_owned(),
            unit: "ms".to_owned(),
            digits: 2,
            places: names(&streams),
            lines: System::ALL.into_iter().zip(&found).map(line).collect(),
        });
        let growth = |system: System| {
            let traces = &found[at(system)];
            let of = |trace: Option<&Trace>| trace.and_then(latency).unwrap_or(f64::NAN);
            of(traces.last()) / of(traces.first())
        };
        let (hybrid, single) = (growth(System::Slabs), growth(System::SeeFs));
        let ours = format!("{} and {}", times(hybrid), times(single));
        let claim = format!("Q{query}, most streams over one: HEE_AnKer and SEE_FS");
        findings.claim(&claim, "flat, and worse", ours, hybrid < single);
    }
    remarks(lab, &mut findings);
    findings.remark("more streams than cores share the cores: then every latency grows.");
    Ok(findings)
}

pub fn olap_streams(lab: &mut Lab<'_>) -> Result<Findings> {
    let streams = streams(lab);
    let vary = |setting: Setting, olap_streams: usize| Setting {
        oltp_streams: 2,
        olap_streams,
        ..setting
    };
    let found = varied(lab, &streams, &System::ALL, &vary)?;
    let mut findings = Findings::default();
    let rate = |trace: &Trace| Some(trace.per_second);
    let line = |(system, traces): (System, &Vec<Trace>)| {
        (system.name().to_owned(), traces.iter().map(rate).collect())
    };
    findings.series.push(Lines {
        title: "Committed a second".to_owned(),
        x_label: "OLAP streams".to_owned(),
        unit: "transactions/s".to_owned(),
        digits: 0,
        places: names(&streams),
        lines: System::ALL.into_iter().zip(&found).map(line).collect(),
    });
    let loss = |system: System| {
        let traces = &found[at(system)];
        let of = |trace: Option<&Trace>| trace.map_or(f64::NAN, |trace| trace.per_second);
        1.0 - of(traces.last()) / of(traces.first())
    };
    let fork = loss(System::Fork);
    for (system, paper) in [(System::Slabs, 11.6), (System::Private, 11.6), (System::Fork, 67.6)] {
        let ours = 100.0 * loss(system);
        let claim = format!("{}: lost from 1 OLAP stream to the most", system.name());
        let direction = if system == System::Fork { ours > 0.0 } else { ours < 100.0 * fork };
        let (text, near) = (format!("{ours:.1} %"), near(paper, ours));
        findings.judge(&claim, &format!("{paper:.1} %"), text, near, direction);
    }
    remarks(lab, &mut findings);
    findings.remark("queries use the same cores here, so part of every loss is their own work.");
    Ok(findings)
}

pub fn warehouses(lab: &mut Lab<'_>) -> Result<Findings> {
    let (most, divisor, _) = scale(lab);
    let most = most as usize;
    let mut counts: Vec<usize> = [1, most / 4, most / 2, most * 3 / 4, most]
        .into_iter()
        .filter(|&count| count > 0)
        .collect();
    counts.dedup();
    let vary = |setting: Setting, warehouses: usize| Setting {
        tables: Tables::scaled(warehouses as u32, divisor),
        ..setting
    };
    let found = varied(lab, &counts, &System::ALL, &vary)?;
    let heads = std::iter::once("system, tx/s".to_owned());
    let heads = heads.chain(counts.iter().map(|count| format!("{count} WH")));
    let slowdown = |traces: &[Trace]| {
        let of = |trace: Option<&Trace>| trace.map_or(f64::NAN, |trace| trace.per_second);
        of(traces.first()) / of(traces.last())
    };
    let row = |(system, traces): (System, &Vec<Trace>)| {
        let rates = traces.iter().map(|trace| thousands(trace.per_second));
        let name = std::iter::once(system.name().to_owned());
        name.chain(rates).chain([times(slowdown(traces))]).collect()
    };
    let rows = System::ALL.into_iter().zip(&found).map(row).collect();
    let heads = heads.chain(["slowdown".to_owned()]).collect();
    let mut findings = Findings::default();
    findings.tables.push(("With queries".to_owned(), Table { heads, rows }));
    let fork = slowdown(&found[at(System::Fork)]);
    for (system, paper) in [
        (System::Slabs, 1.07),
        (System::Private, 1.07),
        (System::SeeFs, 1.13),
        (System::SeeSi, 1.05),
        (System::Fork, 1.49),
    ] {
        let ours = slowdown(&found[at(system)]);
        let claim = format!("{}: 1 warehouse over {most}", system.name());
        let direction = if system == System::Fork { ours > 1.0 } else { ours < fork };
        findings.judge(&claim, &times(paper), times(ours), near(paper, ours), direction);
    }
    remarks(lab, &mut findings);
    Ok(findings)
}
