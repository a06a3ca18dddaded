//! ChainifyDB (Sharma's thesis, chapter 4) over PostgreSQL and MariaDB as they are, and goals that
//! the thesis does not have.
//!
//! *Any-2* and *All-3* say how many of three organisations have to agree. The workload is the
//! thesis's: 100,000 accounts, four of SmallBank's transactions alike, Zipf's draw with s = 1.1. A
//! *client* there fires 4,096 transactions, with a unit that is not printed; here it has
//! [`CLIENT_UNDER_WAY`] under way at any time. Three organisations, their servers and the clients
//! share one machine, so a database alone is measured with two others beside it, which are alone
//! too: each has a third.
//!
//! *Refused* are runs of too few blocks, of transactions that no organisation would run, of ledgers
//! that are not one, where an organisation deviated by itself, and where stages that a
//! figure is about had one transaction each, or several where it is about one after the other.

mod costs;
mod edits;
mod throughput;

use anyhow::Result;

use super::{Figure, Findings, Lab};
use crate::over_databases::{Blow, ChainLoad, ChainPlan, ChainRun, Level, System, Way};
use crate::table::{Table, thousands};

const fn figure(
    name: &'static str,
    about: &'static str,
    source: &'static str,
    find: fn(&mut Lab<'_>) -> Result<Findings>,
) -> Figure {
    // What organisations do with the order of a block: databases run it, no protocol of this
    // program.
    Figure { name, about, source, protocols: &["serial"], find }
}

pub const FIGURES: &[Figure] = &[
    figure(
        "chainify-4.11a",
        "transactions a second over clients: Any-2, All-3, Fabric, Fabric++",
        "Sharma, figure 4.11 (a)",
        throughput::beside_fabric,
    ),
    figure(
        "chainify-4.11b",
        "transactions a second over clients: Any-2, PostgreSQL and MariaDB alone",
        "Sharma, figure 4.11 (b)",
        throughput::beside_databases,
    ),
    figure(
        "chainify-table-4.2",
        "transactions a second over clients, Any-2: Zipf and uniform",
        "Sharma, table 4.2",
        throughput::skew,
    ),
    figure(
        "chainify-4.12a",
        "blocks over time, PostgreSQL and MariaDB: a row is edited, an organisation killed",
        "Sharma, figure 4.12 (a)",
        edits::mixed,
    ),
    figure(
        "chainify-4.12b",
        "blocks over time, three PostgreSQL: a row is edited, an organisation killed",
        "Sharma, figure 4.12 (b)",
        edits::alike,
    ),
    figure(
        "chainify-4.13",
        "what signatures cost, and stages beside one after the other",
        "Sharma, figure 4.13",
        costs::parts,
    ),
    figure(
        "chainify-4.14",
        "transactions a second over the size of blocks",
        "Sharma, figure 4.14",
        costs::blocks,
    ),
    figure(
        "chainify-external",
        "stages that the ledger makes beside the database's own concurrency control",
        "Sharma, abstract",
        throughput::external,
    ),
    figure(
        "chainify-costs",
        "what chaining costs beside a database with a third of the machine",
        "goals of this project",
        costs::chaining,
    ),
    figure(
        "chainify-recovery",
        "how soon rows are named, and recovered from a checkpoint five blocks back",
        "goals of this project",
        edits::recovery,
    ),
];

/// Of a client.
const CLIENT_UNDER_WAY: u64 = 256;
const BLOCK: u64 = 4096;
const ZIPF: f64 = 1.1;
const CONNECTIONS: u32 = 4;
const ANY_2: Way = Way::Chained { votes: 2, connections: CONNECTIONS };
const ALL_3: Way = Way::Chained { votes: 3, connections: CONNECTIONS };
const POSTGRES: [System; 3] = [System::Postgres; 3];
/// As the thesis has them.
const MIXED: [System; 3] = [System::Postgres, System::MariaDb, System::Postgres];

/// Of a stage, above which its transactions ran beside each other.
const BESIDE_MIN: f64 = 1.5;

/// So many clients' transactions under way, by this effort.
fn load(lab: &Lab<'_>, name: &str, way: Way, clients: u64) -> ChainLoad {
    let effort = &lab.effort;
    let (seconds, warm_up) = match (effort.smoke, effort.quick, effort.full) {
        (true, _, _) => (3.0, 0.2),
        (_, true, _) => (8.0, 2.0),
        (_, _, true) => (40.0, 8.0),
        _ => (15.0, 4.0),
    };
    let each = if effort.smoke { 16 } else { CLIENT_UNDER_WAY };
    ChainLoad {
        name: name.to_owned(),
        way,
        theta: ZIPF,
        under_way: clients * each,
        block_transactions: BLOCK,
        checkpoint_blocks: 5,
        seconds,
        warm_up,
        seed: 1,
        agreed: false,
        blows: Vec::new(),
    }
}

/// A database alone, with so many connections.
fn alone(lab: &Lab<'_>, name: &str, isolation: Level, connections: u64) -> ChainLoad {
    let way = Way::Alone { isolation, triggers: false };
    ChainLoad { under_way: connections, ..load(lab, name, way, 1) }
}

fn plan(lab: &Lab<'_>, systems: &[System], loads: Vec<ChainLoad>) -> ChainPlan {
    let (systems, accounts) = (systems.to_vec(), lab.effort.rows_exactly(100_000));
    ChainPlan { systems, accounts, folder: lab.effort.folder.clone(), loads }
}

/// All loads' runs; `None`: there is nothing to measure them with, and the findings say so.
fn measured(
    lab: &mut Lab<'_>,
    plan: &ChainPlan,
    findings: &mut Findings,
) -> Result<Option<Vec<ChainRun>>> {
    let Some(databases) = lab.effort.databases else {
        findings.refusals.push("this program chains no databases to measure it over".to_owned());
        return Ok(None);
    };
    if let Some(missing) = (databases.missing)() {
        findings.refusals.push(missing);
        return Ok(None);
    }
    let runs = (databases.measure)(plan, lab.report)?;
    for (load, run) in plan.loads.iter().zip(&runs) {
        refuse(load, run, findings);
    }
    if plan.loads.iter().any(|load| load.theta > 0.0) && !lab.effort.smoke {
        findings.remark(&format!("Zipf's draw with s = {ZIPF} over {} accounts.", plan.accounts));
    }
    Ok(Some(runs))
}

fn refuse(load: &ChainLoad, run: &ChainRun, findings: &mut Findings) {
    let mut refuse = |why: String| findings.refusals.push(format!("{}: {why}", load.name));
    let Way::Chained { connections, .. } = load.way else {
        if run.alone_per_second.contains(&0.0) {
            refuse("a database alone committed nothing".to_owned());
        }
        return;
    };
    if run.window().is_none() {
        refuse("fewer than two blocks ended in its time".to_owned());
    }
    if run.refused() > 0 {
        refuse(format!("{} transactions were not run at all", run.refused()));
    }
    if let Some(why) = &run.unsound {
        refuse(why.clone());
    }
    let is_hit = |organisation: usize| {
        load.blows.iter().any(|(_, blow)| match blow {
            Blow::Edit(of) | Blow::EditUnseen(of) | Blow::Kill(of) => *of == organisation,
        })
    };
    let unasked =
        run.said.iter().find(|said| said.line.contains("deviates") && !is_hit(said.organisation));
    if let Some(said) = unasked {
        refuse(format!("no row had been edited: {}", said.line));
    }
    let beside = run.beside();
    match connections {
        1 if run.transactions_run != run.stages_run => {
            refuse(format!("{beside:.2} transactions of a stage, not one after the other"));
        }
        1 => {}
        _ if beside < BESIDE_MIN => {
            refuse(format!("{beside:.2} transactions of a stage: nothing ran beside another"));
        }
        _ => {}
    }
}

/// Transactions a second.
fn rate(run: &ChainRun) -> f64 {
    run.window().map_or(0.0, |window| window.per_second())
}

/// Of the runs of these names.
fn rate_of(runs: &[ChainRun], name: &str) -> Option<f64> {
    let rate = rate(runs.iter().find(|run| run.name == name)?);
    (rate > 0.0).then_some(rate)
}

/// Of all chained runs.
fn table(runs: &[ChainRun]) -> Table {
    let heads = ["", "tx/s", "block", "failed", "in a stage", "servers us/tx", "members us/tx"];
    let row = |run: &ChainRun| {
        let window = run.window()?;
        Some(vec![
            run.name.clone(),
            thousands(window.per_second()),
            format!("{:.0}", window.block_transactions()),
            format!("{:.1} %", 100.0 * window.failed as f64 / window.transactions.max(1) as f64),
            format!("{:.1}", run.beside()),
            format!("{:.0}", window.servers_cpu_us()),
            format!("{:.0}", window.members_cpu_us()),
        ])
    };
    Table { heads: heads.map(str::to_owned).to_vec(), rows: runs.iter().filter_map(row).collect() }
}

/// Of databases alone, the organisations' one after the other.
fn table_alone(runs: &[ChainRun]) -> Table {
    let heads = ["alone", "tx/s of each", "sent again", "servers us/tx"];
    let is_alone = |run: &&ChainRun| !run.alone_per_second.is_empty();
    let row = |run: &ChainRun| {
        let each: Vec<String> = run.alone_per_second.iter().map(|it| thousands(*it)).collect();
        let (again, cpu) = (run.sent_again.to_string(), format!("{:.0}", run.alone_cpu_us));
        vec![run.name.clone(), each.join(" "), again, cpu]
    };
    let rows = runs.iter().filter(is_alone).map(row).collect();
    Table { heads: heads.map(str::to_owned).to_vec(), rows }
}
