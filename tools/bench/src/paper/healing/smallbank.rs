//! SmallBank over skew: figure 3.14, tables 3.2 and 3.3.

use anyhow::Result;

use super::{INTERLEAVED, contest, interleaved, lines, percentile, ratio, sized, spent_ns};
use crate::bed::Source;
use crate::contention::{Contender, Scene, Trace};
use crate::paper::{Findings, Lab, times};
use crate::table::Table;

/// The thesis has a thousand accounts a table.
const CUSTOMERS: u64 = 1_000;
const TRANSACTIONS: usize = 100_000;

struct Sweep {
    places: Vec<String>,
    contenders: Vec<Contender>,
    /// By theta, then by contender.
    traces: Vec<Vec<Trace>>,
}

fn sweep(
    lab: &mut Lab<'_>,
    thetas: &[f64],
    contenders: Vec<Contender>,
    spans: bool,
) -> Result<Sweep> {
    // Fewer customers would be another experiment.
    let mut workload = sized(lab, "smallbank", "rows", CUSTOMERS)?;
    if !lab.effort.smoke {
        workload = workload.with("rows", CUSTOMERS);
    }
    let source = Source::load(&workload)?;
    let contenders = interleaved(&contenders);
    let mut traces = Vec::new();
    for theta in thetas {
        let scene = Scene {
            workload: workload.clone(),
            theta: Some(*theta),
            transactions: lab.effort.transactions(TRANSACTIONS),
            threads: lab.effort.threads,
            ad_hoc_percent: 0,
        };
        traces.push(contest(lab, &source, &scene, &contenders, spans)?);
    }
    Ok(Sweep { places: thetas.iter().map(f64::to_string).collect(), contenders, traces })
}

fn named(names: &[&str]) -> Vec<Contender> {
    names.iter().map(|name| Contender::named(name)).collect()
}

/// Figure 3.14.
pub fn skew(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut contenders = named(&["healing", "occ", "silo", "2pl", "hybrid"]);
    contenders.extend(["occ", "silo"].map(Contender::unvalidated));
    let swept = sweep(lab, &[0.1, 0.3, 0.5, 0.7, 0.9], contenders, false)?;
    let Sweep { places, contenders, traces } = &swept;
    let mut findings = Findings::default();
    let axes = ("theta", "transactions per CPU-second", 0);
    let title = "SmallBank, 1,000 customers";
    findings.series.push(lines(title, axes, places, contenders, traces, Trace::per_cpu_second));
    let of = |place: usize, one, other| ratio(contenders, &traces[place], one, other);
    let calm = of(0, "SILO", "HEALING");
    findings.claim(
        "theta 0.1: SILO over HEALING",
        "1.05x",
        times(calm),
        (0.7..=1.07).contains(&calm),
    );
    let hot = of(4, "HEALING", "SILO");
    findings.ratio("theta 0.9: HEALING over SILO", 4.5, hot);
    let bound = of(4, "HEALING", "OCC-");
    findings.ratio("theta 0.9: HEALING over OCC-", 1.0, bound);
    findings.remark(&format!(
        "SILO- commits {} of what SILO does at theta 0.9, which is about as far as healing can get.",
        times(of(4, "SILO-", "SILO"))
    ));
    let rate = |place: usize| traces[place][0].per_cpu_second();
    let flat = rate(4) / rate(0);
    findings.claim(
        "HEALING at theta 0.9 over 0.1",
        "flat",
        times(flat),
        (0.8..=1.25).contains(&flat),
    );
    findings.remark(INTERLEAVED);
    Ok(findings)
}

/// The thesis's: theta, HEALING, OCC, SILO.
const ABORT_RATES: [(f64, [f64; 3]); 6] = [
    (0.1, [0.0, 0.007, 0.007]),
    (0.5, [0.0, 0.016, 0.012]),
    (0.6, [0.0, 0.024, 0.023]),
    (0.7, [0.0, 0.047, 0.084]),
    (0.8, [0.0, 0.251, 0.347]),
    (0.9, [0.0, 0.324, 0.403]),
];

/// Table 3.2.
pub fn aborts(lab: &mut Lab<'_>) -> Result<Findings> {
    let thetas = ABORT_RATES.map(|(theta, _)| theta);
    let swept = sweep(lab, &thetas, named(&["healing", "occ", "silo"]), false)?;
    let mut findings = Findings::default();
    let heads = ["theta", "HEALING", "OCC", "SILO", "theirs", "healed, %", "of these whole, %"];
    let mut table = Table { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() };
    for ((theta, theirs), traces) in ABORT_RATES.iter().zip(&swept.traces) {
        let mut row = vec![theta.to_string()];
        row.extend(traces.iter().map(|trace| format!("{:.3}", trace.abort_rate())));
        row.push(theirs.map(|rate| rate.to_string()).join(" / "));
        let Trace { healed, healed_whole, committed, .. } = traces[0];
        row.push(format!("{:.1}", 100.0 * healed as f64 / committed as f64));
        row.push(format!("{:.1}", 100.0 * healed_whole as f64 / healed.max(1) as f64));
        table.rows.push(row);
    }
    findings.tables.push(("Restarts for each commit".to_owned(), table));
    let restarts: u64 = swept.traces.iter().map(|traces| traces[0].restarts).sum();
    let none = restarts == 0;
    findings.claim("HEALING never begins again", "0", restarts.to_string(), none);
    let rate = |place: usize, who: usize| swept.traces[place][who].abort_rate();
    for (who, name) in [(1, "OCC"), (2, "SILO")] {
        let grows = rate(5, who) / rate(0, who);
        let theirs = ABORT_RATES[5].1[who] / ABORT_RATES[0].1[who];
        let claim = format!("{name}: abort rate at theta 0.9 over 0.1");
        findings.ratio(&claim, theirs, grows);
    }
    findings.remark(INTERLEAVED);
    Ok(findings)
}

/// Table 3.3: percentiles 25, 80 and 95.
pub fn latencies(lab: &mut Lab<'_>) -> Result<Findings> {
    let swept = sweep(lab, &[0.5, 0.7, 0.9], named(&["healing", "occ", "silo"]), true)?;
    let mut findings = Findings::default();
    let heads = ["theta", "protocol", "25 %, us", "80 %, us", "95 %, us"].map(str::to_owned);
    let mut table = Table { heads: heads.to_vec(), rows: Vec::new() };
    for (place, traces) in swept.places.iter().zip(&swept.traces) {
        for (who, trace) in swept.contenders.iter().zip(traces) {
            let spent = spent_ns(trace, None);
            let cell = |percent| format!("{:.2}", percentile(&spent, percent) / 1e3);
            table.rows.push(vec![place.clone(), who.name(), cell(25), cell(80), cell(95)]);
        }
    }
    findings.tables.push(("Time spent on a transaction".to_owned(), table));
    let of = |place: usize, who: usize, percent| {
        percentile(&spent_ns(&swept.traces[place][who], None), percent)
    };
    for (who, name, theirs) in [(1, "OCC", 3.2), (2, "SILO", 3.7)] {
        let gain = of(2, who, 95) / of(2, 0, 95);
        let claim = format!("theta 0.9: 95 % of {name} over that of HEALING");
        findings.ratio(&claim, theirs, gain);
    }
    findings.remark(INTERLEAVED);
    Ok(findings)
}
