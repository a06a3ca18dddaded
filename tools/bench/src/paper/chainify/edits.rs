//! Blocks over time, while rows are edited behind the ledger's back and an organisation is killed.

use anyhow::Result;

use super::{ANY_2, CLIENT_UNDER_WAY, POSTGRES, load, measured, plan};
use crate::over_databases::{Blow, ChainLoad, ChainPlan, ChainRun, Said, System};
use crate::paper::{Findings, Lab, Lines};
use crate::table::Table;

/// The first one orders, so it is the second that is edited, and the third that is killed.
const EDITED: usize = 2;
const KILLED: usize = 3;
/// In the plot.
const PLACES: usize = 24;
/// Room for a database, a row and what became of it.
const SAID_COLUMNS: usize = 240;

pub(super) fn mixed(lab: &mut Lab<'_>) -> Result<Findings> {
    let systems = [System::MariaDb, System::Postgres, System::Postgres];
    let mut findings = edited_and_killed(lab, &systems, 17.0)?;
    findings.remark(
        "the first organisation orders, so that MariaDB, the slow one, is the first here: the others \
         run at its pace and never are far ahead of it, as the thesis's third one was.",
    );
    Ok(findings)
}

pub(super) fn alike(lab: &mut Lab<'_>) -> Result<Findings> {
    edited_and_killed(lab, &POSTGRES, 4.0)
}

fn edited_and_killed(lab: &mut Lab<'_>, systems: &[System], paper_s: f64) -> Result<Findings> {
    let base = load(lab, "edited, then killed", ANY_2, 12);
    let seconds = if lab.effort.smoke { 8.0 } else { 3.0 * base.seconds };
    let (edit, kill) = (0.3 * seconds, 0.75 * seconds);
    let under_way = if lab.effort.smoke { base.under_way } else { 4 * CLIENT_UNDER_WAY };
    let load = ChainLoad {
        seconds,
        under_way,
        block_transactions: 512,
        blows: vec![(edit, Blow::Edit(EDITED)), (kill, Blow::Kill(KILLED))],
        ..base
    };
    let mut findings = Findings::default();
    let Some(runs) = measured(lab, &plan(lab, systems, vec![load]), &mut findings)? else {
        return Ok(findings);
    };
    let Some(run) = runs.first() else { return Ok(findings) };
    findings.series.push(over_time(run));
    let [(edited, _), (killed, _), ..] = run.blows[..] else {
        findings.refusals.push("it ended before its row was edited".to_owned());
        return Ok(findings);
    };
    let named = run.said_at(EDITED, "deviates", edited);
    let back = run.said_at(EDITED, "recovered block", edited);
    let (Some(named), Some(back)) = (named, back) else {
        findings.refusals.push("the edited row was not named, or not recovered".to_owned());
        return Ok(findings);
    };
    let end = run.samples.last().map_or(killed, |sample| sample.seconds);
    findings.tables.push((
        "Seconds".to_owned(),
        seconds_of(&[
            ("from the edit to its row's name", named.seconds - edited),
            ("from there until it is recovered", back.seconds - named.seconds),
            ("longest without a block, before", run.longest_pause(run.warm_up, edited)),
            ("longest without a block, meanwhile", run.longest_pause(edited, back.seconds)),
            ("longest without a block, after the kill", run.longest_pause(killed, end)),
        ]),
    ));
    claims(run, (named.seconds, back.seconds), killed, &mut findings);
    let ours = back.seconds - edited;
    let (paper, shown) = (format!("{paper_s:.0} s"), format!("{ours:.1} s"));
    findings.claim("from the edit to its recovery", &paper, shown, ours <= 1.5 * paper_s);
    findings.tables.push(("Said".to_owned(), said(run)));
    Ok(findings)
}

fn claims(run: &ChainRun, (named, back): (f64, f64), killed: f64, findings: &mut Findings) {
    let decided_at = |seconds: f64| {
        let before = run.samples.iter().take_while(|sample| sample.seconds <= seconds);
        before.last().map_or(0, |sample| sample.decided)
    };
    let end = run.samples.last().map_or(killed, |sample| sample.seconds);
    let meanwhile = decided_at(back) - decided_at(named);
    let what = "the others go on while one recovers";
    findings.claim(what, "yes", format!("{meanwhile} blocks"), meanwhile > 0);
    let after = decided_at(end) - decided_at(killed);
    let what = "two go on without the third";
    findings.claim(what, "after a halt", format!("{after} blocks"), after > 0);
}

fn seconds_of(rows: &[(&str, f64)]) -> Table {
    let row = |(what, seconds): &(&str, f64)| vec![what.to_string(), format!("{seconds:.2}")];
    Table { heads: vec![String::new(), "s".to_owned()], rows: rows.iter().map(row).collect() }
}

fn said(run: &ChainRun) -> Table {
    let heads = ["s", "", ""].map(str::to_owned).to_vec();
    let row = |said: &Said| {
        let line: String = without_hashes(&said.line).chars().take(SAID_COLUMNS).collect();
        vec![format!("{:.1}", said.seconds), said.organisation.to_string(), line]
    };
    Table { heads, rows: run.said.iter().take(8).map(row).collect() }
}

/// Who has which result is of no interest here: the first group in brackets goes, if it is no key.
fn without_hashes(line: &str) -> String {
    let parts = line.split_once(" (").and_then(|(before, rest)| {
        let (within, after) = rest.split_once(')')?;
        (!within.contains(" = ")).then(|| format!("{before}{after}"))
    });
    parts.unwrap_or_else(|| line.to_owned())
}

/// The height of each organisation.
fn over_time(run: &ChainRun) -> Lines {
    let last = run.samples.last().map_or(0.0, |sample| sample.seconds);
    let at: Vec<f64> =
        (1..=PLACES / 2).map(|place| last * place as f64 * 2.0 / PLACES as f64).collect();
    let organisations = run.samples.first().map_or(0, |sample| sample.agreed.len());
    let line = |organisation: usize| {
        let height = |seconds: &f64| {
            let before = run.samples.iter().take_while(|sample| sample.seconds <= *seconds);
            let agreed = *before.last()?.agreed.get(organisation)?;
            agreed.map(|height| height as f64)
        };
        (format!("organisation {}", organisation + 1), at.iter().map(height).collect())
    };
    Lines {
        title: "Blocks that each has agreed on".to_owned(),
        x_label: "seconds".to_owned(),
        unit: "blocks".to_owned(),
        digits: 0,
        places: at.iter().map(|seconds| format!("{seconds:.0}")).collect(),
        lines: (0..organisations).map(line).collect(),
    }
}

/// A checkpoint of five blocks back at 100,000 accounts; rows named at a million.
pub(super) fn recovery(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let edit_s = |load: &ChainLoad| 0.5 * load.seconds;
    let with = |lab: &Lab<'_>, name: &str, blow: Blow| {
        let base = load(lab, name, ANY_2, 1);
        let seconds = if lab.effort.smoke { 8.0 } else { 2.0 * base.seconds };
        let base = ChainLoad { seconds, checkpoint_blocks: 10, block_transactions: 512, ..base };
        ChainLoad { blows: vec![(edit_s(&base), blow)], ..base }
    };
    let few = vec![with(lab, "100,000 accounts, by SQL", Blow::Edit(EDITED))];
    let many = vec![
        with(lab, "1,000,000 rows, by SQL", Blow::Edit(EDITED)),
        with(lab, "1,000,000 rows, around the triggers", Blow::EditUnseen(EDITED)),
    ];
    let few = plan(lab, &POSTGRES, few);
    let many =
        ChainPlan { accounts: lab.effort.rows_exactly(500_000), ..plan(lab, &POSTGRES, many) };
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for plan in [few, many] {
        let Some(runs) = measured(lab, &plan, &mut findings)? else { return Ok(findings) };
        all.extend(runs);
    }
    for run in &all {
        let Some((edited, _)) = run.blows.first() else { continue };
        let named = run.said_at(EDITED, "deviates", *edited);
        let back = run.said_at(EDITED, "recovered block", *edited);
        let (Some(named), Some(back)) = (named, back) else {
            let name = &run.name;
            findings.refusals.push(format!("{name}: the row was not named, or not recovered"));
            continue;
        };
        let (name_s, back_s) = (named.seconds - edited, back.seconds - named.seconds);
        rows.push(vec![run.name.clone(), format!("{name_s:.2}"), format!("{back_s:.2}")]);
        let is_few = run.name.starts_with("100,000");
        let (what, shown, holds) = match is_few {
            true => ("recovered", format!("{back_s:.2} s"), back_s < 5.0),
            false => ("named", format!("{name_s:.2} s"), name_s < 1.0),
        };
        let goal = if is_few { "under 5 s" } else { "under 1 s" };
        findings.claim(&format!("{what}: {}", run.name), goal, shown, holds);
    }
    let heads = ["", "until it is named, s", "recovery, s"].map(str::to_owned).to_vec();
    findings.tables.push(("An edited row".to_owned(), Table { heads, rows }));
    findings.remark(
        "what the claims stand beside are goals of this project, not the thesis's numbers. Until a \
         row is named, the block under way has to end.",
    );
    Ok(findings)
}
