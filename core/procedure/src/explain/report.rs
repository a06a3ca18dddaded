//! The sections of EXPLAIN that show the static analysis of a procedure: dependencies, commands,
//! key plan, footprint.

use std::fmt::Write;

use types::TableId;

use super::{Namer, numbers};
use crate::analysis::{
    Abortable, Analysis, CommandClass, Coverage, Fragment, Records, TableFootprint,
};
use crate::step::Step;

const LABEL_WIDTH: usize = 11;

pub(super) fn report(namer: &Namer<'_>, analysis: &Analysis, text: &mut String) {
    section("keys", &[keys(analysis)], text);
    section("commands", &commands(namer, analysis), text);
    section("footprint", &footprint(namer, analysis), text);
    section("fragments", &fragments(namer, analysis), text);
}

fn section(label: &str, lines: &[String], text: &mut String) {
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        let _ = writeln!(text, "{label:<LABEL_WIDTH$} {line}");
    }
}

fn keys(analysis: &Analysis) -> String {
    match analysis.keys.coverage {
        Coverage::Complete if analysis.footprint.tables.is_empty() => "none".to_string(),
        Coverage::Complete => "complete: all follow from the arguments".to_string(),
        Coverage::Partial => {
            let steps = &analysis.keys.unplanned;
            let (word, verb) = match steps.len() {
                1 => ("step", "needs"),
                _ => ("steps", "need"),
            };
            format!("partial: {word} {} {verb} data", numbers(steps))
        }
    }
}

fn commands(namer: &Namer<'_>, analysis: &Analysis) -> Vec<String> {
    let steps = crate::analysis::visit::numbered(&namer.procedure.body);
    let mut lines = Vec::new();
    for (id, facts) in analysis.steps.iter().enumerate() {
        let (Some(command), Step::Update { table, .. }) = (&facts.command, steps[id]) else {
            continue;
        };
        let assignments = command.assignments.iter().map(|(column, class)| {
            let class = match class {
                CommandClass::Set => "set",
                CommandClass::Add => "add",
                CommandClass::General => "general",
            };
            format!("{} {class}", namer.column(*table, *column))
        });
        let assignments: Vec<String> = assignments.collect();
        let mut line = format!("{}  {}: {}", id + 1, namer.table(*table), assignments.join(", "));
        if command.commutes_with(command) {
            line.push_str("; commutes with itself");
        } else if !command.checked.is_empty() {
            line.push_str("; checked, so in order");
        }
        lines.push(line);
    }
    lines
}

fn footprint(namer: &Namer<'_>, analysis: &Analysis) -> Vec<String> {
    let tables = analysis.footprint.tables.iter();
    tables
        .map(|(table, footprint)| {
            let parts = table_footprint(namer, *table, footprint);
            format!("{}: {}", namer.table(*table), parts.join("; "))
        })
        .collect()
}

fn table_footprint(namer: &Namer<'_>, table: TableId, of: &TableFootprint) -> Vec<String> {
    let columns = |set: &std::collections::BTreeSet<u16>| {
        let names: Vec<String> = set.iter().map(|c| namer.column(table, *c)).collect();
        names.join(", ")
    };
    let mut parts = Vec::new();
    if !of.reads.is_empty() {
        parts.push(format!("reads {}", columns(&of.reads)));
    }
    for index in &of.scans {
        parts.push(format!("scans {}", namer.index(table, *index)));
    }
    if !of.writes.is_empty() {
        let mut part = format!("changes {} by command", columns(&of.writes));
        if !of.command_reads.is_empty() {
            let _ = write!(part, " reading {}", columns(&of.command_reads));
        }
        parts.push(part);
    }
    if of.inserts {
        parts.push("inserts".to_string());
    }
    if of.deletes {
        parts.push("deletes".to_string());
    }
    if parts.is_empty() {
        parts.push("asks whether rows exist".to_string());
    }
    parts
}

fn fragments(namer: &Namer<'_>, analysis: &Analysis) -> Vec<String> {
    let number_width = analysis.fragments.len().to_string().len();
    let rows: Vec<[String; 3]> =
        analysis.fragments.iter().map(|fragment| fragment_row(namer, fragment)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (steps_width, records_width) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    let lines = rows.iter().enumerate().map(|(i, [steps, records, rest])| {
        let line = format!(
            "{:>number_width$}  {steps:<steps_width$}  {records:<records_width$}  {rest}",
            i + 1,
        );
        line.trim_end().to_string()
    });
    lines.collect()
}

fn fragment_row(namer: &Namer<'_>, fragment: &Fragment) -> [String; 3] {
    let word = if fragment.steps.len() == 1 { "step" } else { "steps" };
    let steps = format!("{word} {}", numbers(&fragment.steps));
    let records = match &fragment.records {
        Records::None => "on arguments".to_string(),
        Records::One(record) => format!("on {}", namer.record(record.table, &record.key, &[])),
        Records::New(table) => format!("on a new row of {}", namer.table(*table)),
        Records::Many => "on many rows".to_string(),
    };
    let mut rest = Vec::new();
    if fragment.abortable == Abortable::Guard {
        rest.push("may abort".to_string());
    }
    if !fragment.data_dependencies.is_empty() {
        rest.push(format!("data from {}", numbers(&fragment.data_dependencies)));
    }
    if !fragment.commit_dependencies.is_empty() {
        rest.push(format!("commits after {}", numbers(&fragment.commit_dependencies)));
    }
    [steps, records, rest.join(", ")]
}
