//! Fabric++ (Sharma's thesis, chapter 3) over nodes: what a network, signatures and two
//! simulations leave of it.
//!
//! The baseline is `fabric:lock=state`, which holds up blocks while it simulates, as the original
//! does. A *client* of the thesis fires 512 transactions a second; here it is a rate and
//! [`CONNECTIONS`] connections, since a transaction that waits for its block holds one.
//!
//! *Refused* are runs that failed or of which none was valid; that met no conflict where a figure
//! is about conflicts, or ended none in the way that the protocol is about; whose blocks were much
//! smaller than their size, where that is what a figure varies; for whose transactions no
//! connection was free, where it is about latency; and whose clients, not nodes, were what bounded
//! them, where it is about all that a network takes.

use anyhow::Result;

use super::{Expected, Figure, Findings, Lab, times};
use crate::Workload;
use crate::over_network::{Latency, NetworkPlan, NetworkRun};
use crate::table::{Table, thousands};

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "fabric-totals",
        about: "all transactions a second of Fabric, with conflicts and blank: over nodes",
        source: "Sharma, figure 3.1",
        protocols: &[FABRIC],
        find: totals,
    },
    Figure {
        name: "fabric-blocks",
        about: "valid transactions a second over the size of blocks, SmallBank: over nodes",
        source: "Sharma, figure 3.9",
        protocols: &[FABRIC, FABRIC_PP],
        find: blocks,
    },
    Figure {
        name: "fabric-halves-nodes",
        about: "reordering and early abort, each alone and together, hot spot: over nodes",
        source: "Sharma, figure 3.12",
        protocols: &[FABRIC, REORDERING, EARLY_ABORT, FABRIC_PP],
        find: halves,
    },
    Figure {
        name: "fabric-channels",
        about: "valid transactions a second over ledgers, two clients each: over nodes",
        source: "Sharma, figure 3.13 (a)",
        protocols: &[FABRIC, FABRIC_PP],
        find: channels,
    },
    Figure {
        name: "fabric-clients",
        about: "valid transactions a second over clients of one ledger: over nodes",
        source: "Sharma, figure 3.13 (b)",
        protocols: &[FABRIC, FABRIC_PP],
        find: clients,
    },
    Figure {
        name: "fabric-latency",
        about: "latency and throughput at a rate that both sustain: over nodes",
        source: "Sharma, table 3.9",
        protocols: &[FABRIC, FABRIC_PP],
        find: latency,
    },
];

const FABRIC: &str = "fabric:lock=state";
const FABRIC_PP: &str = "fabric_pp";
/// Each without the other.
const REORDERING: &str = "fabric_pp:early_abort=off";
const EARLY_ABORT: &str = "fabric_pp:reordering=off";

/// Transactions a second of a client, and connections that it sends them by.
const RATE: f64 = 512.0;
const CONNECTIONS: u32 = 64;

/// How long a block waits to be full where its size is what is measured, as the thesis's blocks do.
const FILL_MS: u32 = 1000;

/// Aborted of all that ended, below which two protocols are not told apart.
const CONFLICTS_MIN: f64 = 0.01;
/// Not sent of all that were due, above which a latency is that of a queue.
const NOT_SENT_MAX: f64 = 0.05;
/// Not sent of all that were due, below which it is the clients that bound a throughput.
const NOT_SENT_MIN: f64 = 0.1;
/// Of a size of blocks, what one has on average at least where the size is what is measured.
const FULL_MIN: f64 = 0.5;

/// One setting, and the runs under each protocol.
struct Setting {
    place: String,
    runs: Vec<NetworkRun>,
}

impl Setting {
    fn of(&self, protocol: &str) -> Option<&NetworkRun> {
        self.runs.iter().find(|run| run.protocol == protocol)
    }

    /// Fabric++ over Fabric.
    fn ratio(&self, value: impl Fn(&NetworkRun) -> f64) -> Option<f64> {
        let (ours, theirs) = (value(self.of(FABRIC_PP)?), value(self.of(FABRIC)?));
        // Of none there is no ratio, and the run is refused.
        (ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
    }
}

/// The workload that Fabric++ gains most on.
fn hot_spot(lab: &Lab<'_>) -> Result<Workload> {
    let custom = Workload::named("custom")?.with("rows", lab.effort.rows_exactly(10_000));
    Ok(custom.with("rw", 8).with("hr", 40).with("hw", 10).with("hss", 1))
}

/// So many clients on each of so many ledgers.
fn plan(lab: &Lab<'_>, workload: Workload, (ledgers, clients): (u16, u32)) -> NetworkPlan {
    let (rate, connections) = (RATE * f64::from(clients), CONNECTIONS * clients);
    let (rate, connections, seconds, warm_up) = match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => (20.0 * f64::from(clients), 2 * clients, 1.0, 0.2),
        (_, true) => (rate, connections, 4.0, 1.0),
        _ => (rate, connections, 15.0, 2.0),
    };
    NetworkPlan {
        workload,
        protocols: lab.protocols.clone(),
        endorsed: true,
        ledgers,
        clients: connections,
        rate,
        seconds,
        warm_up,
        seed: 1,
        settings: Vec::new(),
    }
}

/// Measures all settings; `None`: there is nothing to measure them with, and the findings say so.
fn measured(
    lab: &mut Lab<'_>,
    plans: Vec<(String, NetworkPlan)>,
    findings: &mut Findings,
) -> Result<Option<Vec<Setting>>> {
    let Some(measure) = lab.effort.network else {
        findings.refusals.push("this program starts no nodes to measure it over".to_owned());
        return Ok(None);
    };
    let total = plans.iter().map(|(_, plan)| plan.protocols.len()).sum();
    let (mut settings, mut done) = (Vec::new(), 0);
    for (place, plan) in plans {
        let runs = measure(&plan, &mut |more, _, what| {
            (lab.report)(done + more, total, &format_args!("{place}: {what}"));
        })?;
        done += runs.len();
        for NetworkRun { protocol, failed, failure, valid, .. } in &runs {
            if *valid == 0 {
                findings.refusals.push(format!("{place}, {protocol}: none was valid"));
            }
            if *failed > 0 {
                let why = failure.as_deref().unwrap_or("without words");
                findings.refusals.push(format!("{place}, {protocol}: {failed} failed: {why}"));
            }
        }
        settings.push(Setting { place, runs });
    }
    Ok(Some(settings))
}

/// Where nothing met, protocols that differ in what they do about it were not measured.
fn refuse_without_conflicts<'s>(
    settings: impl IntoIterator<Item = &'s Setting>,
    findings: &mut Findings,
) {
    for Setting { place, runs } in settings {
        for run in runs.iter().filter(|run| run.protocol == FABRIC) {
            let share = run.aborted() as f64 / run.ended().max(1) as f64;
            if share < CONFLICTS_MIN {
                let what =
                    format!("{place}: of {} transactions {} met", run.ended(), run.aborted());
                findings.refusals.push(format!("{what} others, too few to tell protocols apart"));
            }
        }
        for run in runs {
            let NetworkRun { protocol, aborted_early, aborted_in_ordering, .. } = run;
            let (early, ordering) = (*aborted_early > 0, *aborted_in_ordering > 0);
            let is_so = match protocol.as_str() {
                FABRIC => !early && !ordering,
                REORDERING => !early && ordering,
                EARLY_ABORT => early && !ordering,
                _ => early || ordering,
            };
            if !is_so {
                findings.refusals.push(format!(
                    "{place}, {protocol}: {aborted_early} were aborted early, \
                     {aborted_in_ordering} in ordering"
                ));
            }
        }
    }
}

/// Rates of each end.
fn rates(head: &str, settings: &[Setting]) -> Table {
    let heads =
        ["protocol", "valid/s", "early/s", "ahead/s", "ordering/s", "invalid/s", "unsent/s"];
    let heads = [head].into_iter().chain(heads);
    let rows = settings.iter().flat_map(|Setting { place, runs }| {
        runs.iter().map(move |run| {
            let before = [run.valid, run.aborted_early, run.member_ahead];
            let counts = [before, [run.aborted_in_ordering, run.invalid, run.not_sent]].concat();
            let mut row = vec![place.clone(), run.protocol.clone()];
            row.extend(counts.into_iter().map(|count| thousands(run.per_second(count))));
            row
        })
    });
    Table { heads: heads.map(str::to_owned).collect(), rows: rows.collect() }
}

fn valid(run: &NetworkRun) -> f64 {
    run.per_second(run.valid)
}

fn aborted(run: &NetworkRun) -> f64 {
    run.aborted() as f64
}

fn totals(lab: &mut Lab<'_>) -> Result<Findings> {
    let blank = Workload::named("custom")?.with("rows", lab.effort.rows_exactly(10_000));
    let plans = [("RW=8", hot_spot(lab)?), ("blank", blank.with("rw", 0))];
    let plans = plans.map(|(place, of)| {
        let mut plan = plan(lab, of, (1, 4));
        // More than the nodes can take: they are to be what bounds it.
        plan.rate *= if lab.effort.smoke { 1.0 } else { 4.0 };
        (place.to_owned(), plan)
    });
    let plans = plans.to_vec();
    let mut findings = Findings::default();
    let Some(settings) = measured(lab, plans, &mut findings)? else { return Ok(findings) };
    findings.tables.push(("Transactions a second".to_owned(), rates("", &settings)));
    let of = |at: usize| settings.get(at).and_then(|setting| setting.of(FABRIC));
    if let (Some(meaningful), Some(blank)) = (of(0), of(1)) {
        let (all, blank) = (meaningful.ended() as f64, blank.ended().max(1) as f64);
        findings.ratio("all of both kinds, with conflicts over blank", 1.0, all / blank);
        let share = meaningful.aborted() as f64 / meaningful.ended().max(1) as f64;
        let ours = format!("{:.0} %", 100.0 * share);
        findings.claim("most of those with conflicts are aborted", "most", ours, share > 0.5);
    }
    for Setting { place, runs } in &settings {
        for run in runs.iter().filter(|run| (run.not_sent as f64) < NOT_SENT_MIN * run.due() as f64)
        {
            let what = format!("{place}: {} of {} were not sent", run.not_sent, run.due());
            findings.refusals.push(format!("{what}, too few for the nodes to be what bounds it"));
        }
    }
    refuse_without_conflicts(settings.first(), &mut findings);
    findings.remark(
        "a blank one is endorsed, ordered and validated like any, and reads and writes nothing.",
    );
    Ok(findings)
}

fn blocks(lab: &mut Lab<'_>) -> Result<Findings> {
    let sizes: &[u32] = match lab.effort.full {
        true => &[16, 32, 64, 128, 256, 512, 1024, 2048],
        false => &[16, 128, 1024],
    };
    let smallbank = Workload::named("smallbank")?.with("rows", lab.effort.rows_exactly(100_000));
    let smallbank = smallbank.with("mix", "fabric").with("modifying", 95).with("theta", 0);
    let plans = sizes.iter().map(|size| {
        let settings = vec![
            format!("block_transactions_max={size}"),
            format!("block_fill_ms_max={FILL_MS}"),
            "max_connections=5000".to_owned(),
        ];
        let plan = plan(lab, smallbank.clone(), (1, 4));
        // A transaction holds a connection until its block is there.
        let clients = if lab.effort.smoke { plan.clients } else { plan.clients.max(2 * size) };
        (size.to_string(), NetworkPlan { settings, clients, ..plan })
    });
    let plans = plans.collect();
    let mut findings = Findings::default();
    let Some(settings) = measured(lab, plans, &mut findings)? else { return Ok(findings) };
    refuse_smaller_blocks(&settings, sizes, &mut findings);
    findings.tables.push(("By transactions of a block, at most".into(), rates("", &settings)));
    let find = |size: &str| settings.iter().find(|setting| setting.place == size);
    let (small, large) = (find("16"), find("1024"));
    let grown = |protocol: &str| {
        let [small, large] = [small, large].map(|of| of?.of(protocol).map(valid));
        Some(large? / small?)
    };
    for (protocol, what) in [(FABRIC, "Fabric"), (FABRIC_PP, "Fabric++")] {
        if let Some(ratio) = grown(protocol) {
            let what = format!("{what}: more are valid in blocks of 1,024 than of 16");
            findings.claim(&what, "rises", times(ratio), ratio > 1.0);
        }
    }
    if let Some(ratio) = large.and_then(|setting| setting.ratio(valid)) {
        findings.ratio("valid in blocks of 1,024", (1.0, 1.4), ratio);
    }
    refuse_without_conflicts(&settings, &mut findings);
    findings
        .remark("a block waits a second to be full, as the thesis's do, and a schema change not.");
    Ok(findings)
}

/// Shows how large blocks were; those of a size are not measured where they were much smaller.
fn refuse_smaller_blocks(settings: &[Setting], sizes: &[u32], findings: &mut Findings) {
    let heads = ["at most", "protocol", "transactions of a block, on average"];
    let mut rows = Vec::new();
    for (Setting { place, runs }, size) in settings.iter().zip(sizes) {
        for NetworkRun { protocol, block_transactions, .. } in runs {
            let shown = format!("{block_transactions:.1}");
            if *block_transactions < FULL_MIN * f64::from(*size) {
                let what = format!("{place}, {protocol}: a block had {shown} transactions");
                findings.refusals.push(format!("{what}, this is another size"));
            }
            rows.push(vec![place.clone(), protocol.clone(), shown]);
        }
    }
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows };
    findings.tables.push(("Blocks".to_owned(), table));
}

fn halves(lab: &mut Lab<'_>) -> Result<Findings> {
    let plan = plan(lab, hot_spot(lab)?, (1, 4));
    let place = "RW=8, HR=40, HW=10, HSS=1".to_owned();
    let mut findings = Findings::default();
    let Some(settings) = measured(lab, vec![(place, plan)], &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("Transactions a second".to_owned(), rates("", &settings)));
    for setting in &settings {
        let Some(fabric) = setting.of(FABRIC).map(valid) else { continue };
        for (protocol, what, paper) in [
            (REORDERING, "reordering alone", 1.5),
            (EARLY_ABORT, "early abort alone", 1.5),
            (FABRIC_PP, "both", 2.2),
        ] {
            if let Some(run) = setting.of(protocol) {
                findings.ratio(&format!("valid, {what}"), paper, valid(run) / fabric);
            }
        }
    }
    refuse_without_conflicts(&settings, &mut findings);
    Ok(findings)
}

fn channels(lab: &mut Lab<'_>) -> Result<Findings> {
    let counts: &[u16] = match (lab.effort.smoke, lab.effort.full) {
        (true, _) => &[1, 2],
        (_, true) => &[1, 2, 4, 8],
        _ => &[1, 2, 4],
    };
    let hot_spot = hot_spot(lab)?;
    let plans = counts.iter().map(|&n| (n.to_string(), plan(lab, hot_spot.clone(), (n, 2))));
    let plans = plans.collect();
    let mut findings = Findings::default();
    let Some(settings) = measured(lab, plans, &mut findings)? else { return Ok(findings) };
    findings.tables.push(("By ledgers, of two clients each".into(), rates("ledgers", &settings)));
    ahead_everywhere(&settings, &mut findings);
    for (place, paper) in [("1", 81.0 / 213.0), ("8", 704.0 / 837.0)] {
        let setting = settings.iter().find(|setting| setting.place == place);
        if let Some(ratio) = setting.and_then(|setting| setting.ratio(aborted)) {
            findings.ratio(&format!("aborted, {place} ledgers"), paper, ratio);
        }
    }
    refuse_without_conflicts(&settings, &mut findings);
    findings.remark("all nodes share one machine, so that ledgers compete from the first on.");
    Ok(findings)
}

fn clients(lab: &mut Lab<'_>) -> Result<Findings> {
    let hot_spot = hot_spot(lab)?;
    let counts = [1, 2, 4, 8];
    let counts = &counts[..if lab.effort.smoke { 2 } else { 4 }];
    let plans = counts.iter().map(|&n| (n.to_string(), plan(lab, hot_spot.clone(), (1, n))));
    let plans = plans.collect();
    let mut findings = Findings::default();
    let Some(settings) = measured(lab, plans, &mut findings)? else { return Ok(findings) };
    findings.tables.push(("By clients".into(), rates("clients", &settings)));
    ahead_everywhere(&settings, &mut findings);
    let claims: [(&str, &str, fn(&NetworkRun) -> f64, Expected); 4] = [
        ("2", "valid", valid, (205.0 / 105.0, 205.0 / 60.0).into()),
        ("8", "valid", valid, 1.0.into()),
        ("1", "aborted", aborted, (20.0 / 86.0).into()),
        ("8", "aborted", aborted, (841.0 / 928.0).into()),
    ];
    for (place, what, value, paper) in claims {
        let setting = settings.iter().find(|setting| setting.place == place);
        if let Some(ratio) = setting.and_then(|setting| setting.ratio(value)) {
            findings.ratio(&format!("{what}, {place} clients"), paper, ratio);
        }
    }
    refuse_without_conflicts(&settings, &mut findings);
    Ok(findings)
}

fn ahead_everywhere(settings: &[Setting], findings: &mut Findings) {
    let ratios: Vec<f64> = settings.iter().filter_map(|setting| setting.ratio(valid)).collect();
    if let Some(least) = ratios.iter().copied().reduce(f64::min) {
        let ours = format!("at least {}", times(least));
        findings.claim("more are valid under Fabric++ everywhere", "everywhere", ours, least > 1.0);
    }
}

fn latency(lab: &mut Lab<'_>) -> Result<Findings> {
    let custom = Workload::named("custom")?.with("rows", lab.effort.rows_exactly(10_000));
    let custom = custom.with("rw", 4).with("hr", 40).with("hw", 10).with("hss", 1);
    let mut plan = plan(lab, custom, (1, 4));
    let size = 512;
    plan.settings.push(format!("block_transactions_max={size}"));
    plan.settings.push("max_connections=5000".to_owned());
    if !lab.effort.smoke {
        plan.clients = 2 * size;
        plan.rate = 4.0 * 150.0;
    }
    let mut findings = Findings::default();
    let place = "RW=4, HR=40, HW=10, HSS=1".to_owned();
    let Some(settings) = measured(lab, vec![(place, plan)], &mut findings)? else {
        return Ok(findings);
    };
    let Some(setting) = settings.first() else { return Ok(findings) };
    let heads = ["", "block", "valid/s", "max ms", "min ms", "avg ms", "p50 ms", "p99 ms"];
    let rows = setting.runs.iter().map(|run| {
        let Latency { min, mean, p50, p99, max } = run.latency;
        let block = format!("{:.1}", run.block_transactions);
        let mut row = vec![run.protocol.clone(), block, thousands(valid(run))];
        row.extend([max, min, mean, p50, p99].map(|us| format!("{:.1}", us / 1e3)));
        row
    });
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows: rows.collect() };
    findings.tables.push(("Latency of those that are valid".to_owned(), table));
    findings.tables.push(("What became of them".to_owned(), rates("", &settings)));
    let claims: [(&str, fn(&NetworkRun) -> f64, f64); 4] = [
        ("valid a second", valid, 299.0 / 188.0),
        ("average latency", |run| run.latency.mean, 0.28 / 0.47),
        ("least latency", |run| run.latency.min, 0.12 / 0.26),
        ("greatest latency", |run| run.latency.max, 1.14 / 1.44),
    ];
    for (what, value, paper) in claims {
        if let Some(ratio) = setting.ratio(value) {
            findings.ratio(what, paper, ratio);
        }
    }
    for run in &setting.runs {
        let NetworkRun { protocol, not_sent, .. } = run;
        if *not_sent as f64 > NOT_SENT_MAX * run.due() as f64 {
            let what = format!("{protocol}: {not_sent} of {} were not sent", run.due());
            findings.refusals.push(format!("{what}: this is the latency of a queue"));
        }
    }
    refuse_without_conflicts([setting], &mut findings);
    Ok(findings)
}
