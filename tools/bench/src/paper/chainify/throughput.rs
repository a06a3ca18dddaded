//! How much is done: over clients, beside Fabric, beside databases alone.

use anyhow::Result;

use super::{
    ALL_3, ANY_2, BLOCK, CONNECTIONS, MIXED, POSTGRES, ZIPF, alone, load, measured, plan, rate_of,
    table, table_alone,
};
use crate::Workload;
use crate::over_databases::{ChainLoad, ChainRun, Level};
use crate::over_network::{NetworkPlan, NetworkRun};
use crate::paper::{Expected, Findings, Lab, times};
use crate::table::{Table, thousands};

const FABRIC: &str = "fabric:lock=state";
const FABRIC_PP: &str = "fabric_pp";
/// Of Fabric and Fabric++, as the thesis has it.
const FABRIC_BLOCK: u64 = 1024;

/// Clients of the thesis.
fn clients(lab: &Lab<'_>) -> &'static [u64] {
    match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => &[3],
        (_, true) => &[3, 24],
        _ => &[3, 6, 12, 24],
    }
}

pub(super) fn beside_fabric(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut loads = Vec::new();
    for &count in clients(lab) {
        loads.push(load(lab, &format!("Any-2, {count} clients"), ANY_2, count));
        loads.push(load(lab, &format!("All-3, {count} clients"), ALL_3, count));
    }
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, &MIXED, loads), &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("PostgreSQL, MariaDB, PostgreSQL".to_owned(), table(&runs)));
    let most = |name: &str| {
        let of = runs.iter().filter(|run| run.name.starts_with(name));
        of.filter_map(|run| rate_of(&runs, &run.name)).reduce(f64::max)
    };
    let (any, all) = (most("Any-2"), most("All-3"));
    if let (Some(any), Some(all)) = (any, all) {
        let ours = times(any / all);
        findings.claim("All-3 is much slower than Any-2", "much", ours, any / all > 1.5);
    }
    let fabric = fabric(lab, &mut findings)?;
    for (protocol, what, paper) in
        [(FABRIC_PP, "Any-2 over Fabric++", 5.0), (FABRIC, "Any-2 over Fabric", 6.0)]
    {
        let valid = fabric.iter().find(|run| run.protocol == protocol);
        let valid = valid.map(|run| run.per_second(run.valid)).filter(|valid| *valid > 0.0);
        if let (Some(any), Some(valid)) = (any, valid) {
            findings.ratio(what, paper, any / valid);
        }
    }
    findings.remark(
        "Fabric and Fabric++ here are two nodes of this program that keep rows in their own memory; \
         the thesis's are Fabric 1.2 over LevelDB. Any-2 writes every change to three databases \
         that wait for the disk.",
    );
    Ok(findings)
}

/// With a rate that is more than nodes can take.
fn fabric(lab: &mut Lab<'_>, findings: &mut Findings) -> Result<Vec<NetworkRun>> {
    let Some(measure) = lab.effort.network else {
        findings.refusals.push("this program starts no nodes to measure Fabric over".to_owned());
        return Ok(Vec::new());
    };
    let rows = lab.effort.rows_exactly(100_000);
    let workload = Workload::named("smallbank")?.with("rows", rows).with("mix", "chainify");
    let like = load(lab, "", ANY_2, 1);
    let (rate, clients) = if lab.effort.smoke { (40.0, 4) } else { (8192.0, 2 * 1024) };
    let plan = NetworkPlan {
        workload: workload.with("theta", ZIPF),
        protocols: vec![FABRIC.to_owned(), FABRIC_PP.to_owned()],
        endorsed: true,
        ledgers: 1,
        clients,
        rate,
        seconds: like.seconds,
        warm_up: like.warm_up,
        seed: 1,
        settings: vec![
            format!("block_transactions_max={FABRIC_BLOCK}"),
            "max_connections=5000".to_owned(),
        ],
    };
    let runs = measure(&plan, lab.report)?;
    let heads = ["", "valid/s", "aborted/s"].map(str::to_owned).to_vec();
    let row = |run: &NetworkRun| {
        let counts = [run.valid, run.aborted()].map(|count| thousands(run.per_second(count)));
        [&[run.protocol.clone()][..], &counts].concat()
    };
    let rows = runs.iter().map(row).collect();
    findings.tables.push(("Two nodes, SmallBank's four".to_owned(), Table { heads, rows }));
    Ok(runs)
}

pub(super) fn beside_databases(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut loads = Vec::new();
    for &count in clients(lab) {
        loads.push(load(lab, &format!("Any-2, {count} clients"), ANY_2, count));
        let name = format!("alone, {count} clients");
        loads.push(ChainLoad { theta: 0.0, ..alone(lab, &name, Level::Serializable, count) });
    }
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, &MIXED, loads), &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("Chained, Zipf".to_owned(), table(&runs)));
    let title = "Alone at the same time, uniform: PostgreSQL, MariaDB, PostgreSQL";
    findings.tables.push((title.to_owned(), table_alone(&runs)));
    for &count in clients(lab) {
        let each = of_alone(&runs, &format!("alone, {count} clients"));
        let [first, maria, third] = each[..] else { continue };
        let postgres = (first + third) / 2.0;
        let ours = times(postgres / maria);
        let what = format!("PostgreSQL is far ahead of MySQL, {count} clients");
        findings.claim(&what, "far", ours, postgres / maria > 1.5);
        let Some(any) = rate_of(&runs, &format!("Any-2, {count} clients")) else { continue };
        if count < 24 {
            let what = format!("Any-2 over PostgreSQL alone, {count} clients");
            findings.ratio(&what, Expected::Between(1.0, 1.5), any / postgres);
        }
    }
    findings.remark(
        "databases alone run at the same time, so that each has a third of the machine, by \
         SERIALIZABLE; the thesis draws alike for them, and by Zipf for Any-2.",
    );
    Ok(findings)
}

/// Of each database.
fn of_alone<'r>(runs: &'r [ChainRun], name: &str) -> &'r [f64] {
    runs.iter().find(|run| run.name == name).map_or(&[], |run| &run.alone_per_second)
}

pub(super) fn skew(lab: &mut Lab<'_>) -> Result<Findings> {
    let counts = clients(lab);
    let mut loads = Vec::new();
    for &count in counts {
        loads.push(load(lab, &format!("Zipf, {count} clients"), ANY_2, count));
        let name = format!("uniform, {count} clients");
        loads.push(ChainLoad { theta: 0.0, ..load(lab, &name, ANY_2, count) });
    }
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, &MIXED, loads), &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("Any-2: PostgreSQL, MariaDB, PostgreSQL".to_owned(), table(&runs)));
    let of = |draw: &str, count: u64| rate_of(&runs, &format!("{draw}, {count} clients"));
    let papers = [(3, 2279.0, 2757.0), (6, 3840.0, 3676.0), (12, 5774.0, 4709.0)];
    for (count, uniform, zipf) in papers.into_iter().chain([(24, 6144.0, 4812.0)]) {
        if let (Some(ours), Some(over)) = (of("uniform", count), of("Zipf", count)) {
            let what = format!("uniform over Zipf, {count} clients");
            findings.ratio(&what, uniform / zipf, ours / over);
        }
    }
    for (draw, paper) in [("Zipf", 4812.0 / 2757.0), ("uniform", 6144.0 / 2279.0)] {
        if let (Some(few), Some(many)) = (of(draw, 3), of(draw, 24)) {
            findings.ratio(&format!("24 clients over 3, {draw}"), paper, many / few);
        }
    }
    Ok(findings)
}

pub(super) fn external(lab: &mut Lab<'_>) -> Result<Findings> {
    let draws = [("uniform", 0.0), ("Zipf", ZIPF)];
    let mut loads = Vec::new();
    for (draw, theta) in draws {
        let chained = load(lab, &format!("stages, {draw}"), ANY_2, 24);
        loads.push(ChainLoad { theta, ..chained });
        for (level, name) in
            [(Level::Serializable, "SERIALIZABLE"), (Level::ReadCommitted, "READ COMMITTED")]
        {
            let name = format!("{name}, {draw}");
            let alone = alone(lab, &name, level, u64::from(CONNECTIONS));
            loads.push(ChainLoad { theta, ..alone });
        }
    }
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, &POSTGRES, loads), &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("Any-2 of three PostgreSQL".to_owned(), table(&runs)));
    findings.tables.push(("Three PostgreSQL alone at once".to_owned(), table_alone(&runs)));
    for (draw, _) in draws {
        let own = of_alone(&runs, &format!("SERIALIZABLE, {draw}"));
        let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
        if let Some(stages) = rate_of(&runs, &format!("stages, {draw}")).filter(|_| mean > 0.0) {
            let what = format!("stages over the database's own SERIALIZABLE, {draw}");
            findings.ratio(&what, 2.6, stages / mean);
        }
    }
    findings.remark(&format!(
        "the thesis's abstract has the number, its chapter no figure of it. Both sides have \
         {CONNECTIONS} connections to each database; stages are those of blocks of {BLOCK} at \
         most, and their side pays for triggers, votes and the ledger too.",
    ));
    Ok(findings)
}
