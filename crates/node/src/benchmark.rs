//! `tally bench`: the command line and the terminal around the crate `bench`.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Result, bail};
use bench::{Cell, Plan, Programs, Settings, figures::TABLE_HEAD, measure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{Bench, Exit, Output, ProgramSource, Switch};

pub fn run(arguments: &Bench, output: Output) -> Result<Exit> {
    if cfg!(debug_assertions) && !arguments.smoke {
        bail!(
            "this is a build without optimisation, whose figures mean nothing: \
             build with --release, or see whether it works with --smoke"
        );
    }
    let plan = plan_of(arguments);
    let bar = progress_bar(plan.cells().len() * plan.repetitions);
    let figures = measure(&plan, &mut |done, _, cell| {
        bar.set_position(done as u64);
        bar.set_message(name_of(cell));
    })?;
    bar.finish_and_clear();
    if output == Output::Text {
        println!("{TABLE_HEAD}");
    }
    for figure in &figures {
        match output {
            Output::Text => println!("{}", figure.to_row()),
            Output::Json => println!("{}", figure.to_json()?),
        }
    }
    Ok(Exit::Ok)
}

fn plan_of(arguments: &Bench) -> Plan {
    let off = arguments.durability == Path::new("off");
    Plan {
        workload: arguments.workload,
        protocols: arguments.protocol.clone(),
        thetas: arguments.theta.clone(),
        threads: arguments.threads.clone(),
        sealing: arguments.sealing.iter().map(|&s| s == Switch::On).collect(),
        block_transactions: arguments.block_transactions,
        transactions: arguments.transactions,
        settings: settings_of(arguments),
        programs: arguments.programs.into(),
        durability: (!off).then(|| arguments.durability.clone()),
        repetitions: arguments.repetitions,
        seed: arguments.seed,
        allocations: None,
    }
}

impl From<ProgramSource> for Programs {
    fn from(source: ProgramSource) -> Programs {
        match source {
            ProgramSource::Sql => Programs::Sql,
            ProgramSource::Ir => Programs::Ir,
        }
    }
}

fn settings_of(arguments: &Bench) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in &arguments.with {
        settings.set(name, value);
    }
    for (name, value) in [("rows", arguments.rows), ("warehouses", arguments.warehouses)] {
        if let Some(value) = value {
            settings.set(name, value);
        }
    }
    settings
}

fn name_of(cell: &Cell) -> String {
    let sealing = if cell.sealing { ", sealing" } else { "" };
    format!("{}, theta {}, threads {}{sealing}", cell.protocol, cell.theta, cell.threads)
}

/// On standard error, so that standard output holds the figures alone.
fn progress_bar(runs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs as u64);
    let style = ProgressStyle::with_template("  {spinner} run {pos}/{len} {bar:20} {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}
