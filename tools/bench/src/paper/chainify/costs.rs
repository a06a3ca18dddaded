//! What parts cost: signatures, stages, sizes of blocks, triggers, votes.

use anyhow::Result;

use super::{
    ALL_3, ANY_2, CONNECTIONS, MIXED, POSTGRES, alone, load, measured, plan, rate, rate_of, table,
    table_alone,
};
use crate::over_databases::{ChainLoad, ChainRun, Level, Way};
use crate::paper::{Findings, Lab, times};

/// Of throughput, what the thesis's signatures cost at most.
const SIGNATURES_MAX: f64 = 0.085;

pub(super) fn parts(lab: &mut Lab<'_>) -> Result<Findings> {
    let ways = [("Any-2", 2, 0.07), ("All-3", 3, SIGNATURES_MAX)];
    let mut loads = Vec::new();
    for (name, votes, _) in ways {
        for (how, connections) in [("stages", CONNECTIONS), ("serial", 1)] {
            let way = Way::Chained { votes, connections };
            loads.push(load(lab, &format!("{name}, {how}"), way, 12));
        }
        let way = Way::Chained { votes, connections: CONNECTIONS };
        let name = format!("{name}, stages, agreed");
        loads.push(ChainLoad { agreed: true, ..load(lab, &name, way, 12) });
    }
    // The thesis draws by Zipf throughout.
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, &MIXED, loads), &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("PostgreSQL, MariaDB, PostgreSQL".to_owned(), table(&runs)));
    for (name, _, paper) in ways {
        let stages = rate_of(&runs, &format!("{name}, stages"));
        if let (Some(stages), Some(serial)) = (stages, rate_of(&runs, &format!("{name}, serial"))) {
            let what = format!("{name}: stages over one after the other");
            findings.judge(
                &what,
                "up to 5x",
                times(stages / serial),
                (1.8..=7.5).contains(&(stages / serial)),
                stages > serial,
            );
        }
        for how in ["stages", "stages, agreed"] {
            let run = runs.iter().find(|run| run.name == format!("{name}, {how}"));
            let Some(share) = run.map(|run| run.signatures_share) else { continue };
            let (paper, ours) =
                (format!("{:.1} %", 100.0 * paper), format!("{:.2} %", 100.0 * share));
            let what = format!("{name}, {how}: signatures cost");
            findings.claim(&what, &paper, ours, share <= SIGNATURES_MAX);
        }
    }
    findings.remark(
        "nothing switches signatures off: their cost is the time that an organisation spent making \
         and checking them, of all the time, which leaving them out could save at most. In the \
         thesis all agree to each transaction, as where it says agreed; else orders and results of \
         blocks are signed.",
    );
    Ok(findings)
}

pub(super) fn blocks(lab: &mut Lab<'_>) -> Result<Findings> {
    let sizes: &[u64] = match (lab.effort.smoke, lab.effort.full) {
        (true, _) => &[8, 32],
        (_, true) => &[256, 512, 1024, 2048, 4096],
        _ => &[256, 1024, 4096],
    };
    let loads = sizes.iter().map(|&size| ChainLoad {
        block_transactions: size,
        // Two blocks' worth: one runs, one waits.
        under_way: 3 * size,
        ..load(lab, &format!("blocks of {size}"), ANY_2, 1)
    });
    let plan = plan(lab, &MIXED, loads.collect());
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan, &mut findings)? else { return Ok(findings) };
    findings.tables.push(("Any-2: PostgreSQL, MariaDB, PostgreSQL".to_owned(), table(&runs)));
    for (run, size) in runs.iter().zip(sizes) {
        let found = run.window().map_or(0.0, |window| window.block_transactions());
        if found < 0.5 * *size as f64 {
            let what = format!("{}: a block had {found:.0} transactions", run.name);
            findings.refusals.push(format!("{what}, this is another size"));
        }
    }
    let rates: Vec<f64> = runs.iter().map(rate).collect();
    if let ([first, ..], [.., last]) = (&rates[..], &rates[..]) {
        let ours = times(last / first);
        findings.claim("more are done in larger blocks", "rises", ours, last > first);
    }
    Ok(findings)
}

/// One after the other: a database alone, the same with the ledger's triggers, chained.
pub(super) fn chaining(lab: &mut Lab<'_>) -> Result<Findings> {
    let connections = u64::from(CONNECTIONS);
    let uniform = |load: ChainLoad| ChainLoad { theta: 0.0, ..load };
    let triggers = Way::Alone { isolation: Level::ReadCommitted, triggers: true };
    let loads = vec![
        uniform(alone(lab, "SERIALIZABLE", Level::Serializable, connections)),
        uniform(alone(lab, "READ COMMITTED", Level::ReadCommitted, connections)),
        uniform(ChainLoad {
            under_way: connections,
            ..load(lab, "READ COMMITTED, triggers", triggers, 1)
        }),
        uniform(load(lab, "Any-2", ANY_2, 12)),
        uniform(load(lab, "All-3", ALL_3, 12)),
    ];
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, &POSTGRES, loads), &mut findings)? else {
        return Ok(findings);
    };
    findings.tables.push(("Three PostgreSQL alone at once".to_owned(), table_alone(&runs)));
    findings.tables.push(("Chained".to_owned(), table(&runs)));
    let of = |name: &str| runs.iter().find(|run| run.name == name);
    let mean = |run: &ChainRun| {
        run.alone_per_second.iter().sum::<f64>() / run.alone_per_second.len().max(1) as f64
    };
    if let (Some(alone), Some(any)) = (of("READ COMMITTED"), rate_of(&runs, "Any-2")) {
        let ratio = any / mean(alone).max(1e-9);
        let what = "Any-2 over one PostgreSQL alone with a third of the machine";
        findings.claim(what, "at least 0.9x", times(ratio), ratio >= 0.9);
    }
    let (plain, triggers, any) =
        (of("READ COMMITTED"), of("READ COMMITTED, triggers"), of("Any-2"));
    if let (Some(plain), Some(triggers), Some(window)) =
        (plain, triggers, any.and_then(ChainRun::window))
    {
        let base = plain.alone_cpu_us.max(1e-9);
        // Of the three servers together, as those alone are counted of one.
        let chained = window.servers_cpu_us() / POSTGRES.len() as f64;
        let more = chained / base - 1.0;
        let by_triggers = triggers.alone_cpu_us / base - 1.0;
        let ours = format!("{:.0} %, triggers {:.0} %", 100.0 * more, 100.0 * by_triggers);
        let what = "more processor time of a server for each transaction";
        findings.claim(what, "at most 25 %", ours, more <= 0.25);
    }
    findings.remark(
        "what the claims stand beside are goals of this project, not the thesis's numbers; uniform.",
    );
    Ok(findings)
}
