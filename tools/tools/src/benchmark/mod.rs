//! `tally bench`: the command line and the terminal around the crate `bench`.

#[cfg(feature = "analytics")]
mod answers;
pub mod arguments;
mod chained;
#[cfg(feature = "analytics")]
mod htap;
mod machine;
mod network;
mod postgres;
mod progress;
mod refusals;
mod scripts;

use anyhow::{Context, Result};
use bench::paper::{self, Effort};
use bench::{Plan, PlanError, agreement, canonical, measure, misnamed, page, table};

use arguments::{Bench, Comparison, Special};
use node::cli::{Exit, Output};
use node::config::Settings;
use progress::Progress;
use refusals::refuse_a_debug_build;

pub fn run(arguments: &Bench, output: Output) -> Result<Exit> {
    let done = match &arguments.special {
        None => compare(&arguments.comparison, output),
        Some(Special::Canonical { smoke }) => run_canonical(*smoke, output),
        Some(Special::Limit(arguments)) => limit(arguments, output),
        Some(Special::Figure(arguments)) => figures(arguments, output),
        Some(Special::Network(arguments)) => network::run(arguments, output),
        Some(Special::Scripts(arguments)) => scripts::run(arguments),
        #[cfg(feature = "analytics")]
        Some(Special::Answers(arguments)) => answers::run(arguments),
        #[cfg(feature = "analytics")]
        Some(Special::Htap(arguments)) => htap::run(arguments),
    };
    done.or_else(|error| match error.downcast::<PlanError>() {
        Ok(wrong) => {
            eprintln!("tally: {wrong}");
            Ok(Exit::Usage)
        }
        Err(error) => Err(error),
    })
}

fn compare(arguments: &Comparison, output: Output) -> Result<Exit> {
    refuse_a_debug_build(arguments.smoke)?;
    let plan = arguments.plan();
    plan.check()?;
    let mut progress = Progress::new(plan.runs());
    let measurements = measure(&plan, &mut |done, _, cell| progress.set(done, cell))?;
    progress.finish();
    if output == Output::Text {
        println!("{}\n", table::heading(&measurements));
        print!("{}", table::measurements(&measurements).render());
        for misnamed in measurements.iter().filter_map(misnamed::misnamed) {
            println!("{}: {}", misnamed.protocol, misnamed.why);
        }
    } else {
        for measurement in &measurements {
            println!("{}", measurement.to_json()?);
        }
    }
    if let Some(file) = &arguments.html {
        let title = format!("tally bench: {}", arguments.workload);
        let page = page::render(&title, &measurements, &machine::facts(&plan));
        let context = || format!("cannot write {}", file.display());
        std::fs::write(file, page).with_context(context)?;
    }
    Ok(verdict(&measurements))
}

/// A wrong state must not go unnoticed where the exit code alone is read.
fn verdict(measurements: &[bench::Measurement]) -> Exit {
    let mismatches = agreement::mismatches(measurements);
    if mismatches.is_empty() {
        return Exit::Ok;
    }
    eprintln!("\nWRONG RESULTS: states differ that must be equal.");
    for mismatch in &mismatches {
        eprintln!("  {}", mismatch.message);
    }
    Exit::Failed
}

fn run_canonical(smoke: bool, output: Output) -> Result<Exit> {
    refuse_a_debug_build(smoke)?;
    let defaults = Settings::defaults().map_err(anyhow::Error::msg)?;
    let protocol = defaults.protocol;
    let plans = canonical::plans(&protocol, cores(), smoke)?;
    let mut progress = Progress::new(plans.iter().map(Plan::runs).sum());
    let mut done = 0;
    let numbers = canonical::run(&plans, &mut |_, _, cell| {
        progress.set(done, cell);
        done += 1;
    })?;
    progress.finish();
    if output == Output::Text {
        let threads = cores().min(2);
        println!("committed transactions, {protocol}, {threads} threads, sealing on, no disk\n");
    }
    for number in &numbers {
        match output {
            Output::Text => println!("{}", number.to_line()),
            Output::Json => println!("{}", serde_json::to_string(number)?),
        }
    }
    let measurements: Vec<_> = numbers.into_iter().map(|number| number.measurement).collect();
    Ok(verdict(&measurements))
}

fn limit(arguments: &arguments::LimitOf, output: Output) -> Result<Exit> {
    refuse_a_debug_build(arguments.smoke)?;
    let plan = arguments.plan();
    let mut progress = Progress::new(plan.repetitions * (plan.cells().len() + 1));
    let limit = bench::limit::measure(&plan, &mut |done, _, what| progress.set(done, what))?;
    progress.finish();
    match output {
        Output::Text => print!("{}", limit.table().render()),
        Output::Json => println!("{}", serde_json::to_string(&limit)?),
    }
    Ok(verdict(&limit.measurements))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn figures(arguments: &arguments::Figure, output: Output) -> Result<Exit> {
    if arguments.names.is_empty() {
        list_figures();
        return Ok(Exit::Ok);
    }
    let mut chosen = Vec::new();
    for name in &arguments.names {
        let named = paper::named(name);
        if named.is_empty() {
            let message = format!("unknown figure \"{name}\"");
            let hint = "`tally bench figure` lists them.".into();
            return Err(PlanError { message, hint }.into());
        }
        chosen.extend(named);
    }
    refuse_a_debug_build(arguments.smoke)?;
    let effort = Effort {
        threads: arguments.threads.unwrap_or_else(cores),
        repetitions: arguments.repetitions,
        quick: arguments.quick,
        smoke: arguments.smoke,
        full: arguments.full,
        folder: arguments.folder.clone().unwrap_or_else(std::env::temp_dir),
        other: arguments.postgres.clone().map(postgres::other),
        network: Some(network::measure),
        databases: Some(chained::DATABASES),
    };
    let mut exit = Exit::Ok;
    let mut found = Vec::new();
    for figure in chosen {
        let Some(findings) = find(figure, effort.clone())? else {
            continue;
        };
        show(figure, &findings, output)?;
        if verdict(&findings.measurements) != Exit::Ok {
            exit = Exit::Failed;
        }
        found.push((figure, findings));
    }
    if let Some(file) = &arguments.html {
        let page = page::figures("tally bench figure", &found, &machine::facts(&Plan::default()));
        std::fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(exit)
}

/// One line each.
fn list_figures() {
    for figure in paper::all() {
        let missing = figure.missing();
        println!("{:<24}{}", figure.name, figure.about);
        if !missing.is_empty() {
            println!("{:24}(not there yet: {})", "", missing.join(", "));
        }
    }
}

fn find(figure: &paper::Figure, effort: Effort) -> Result<Option<paper::Findings>> {
    let mut progress: Option<Progress> = None;
    let findings = figure.find(effort, &mut |done, total, what| {
        if done == 0
            && let Some(before) = progress.take()
        {
            before.finish();
        }
        progress.get_or_insert_with(|| Progress::new(total)).set(done, what);
    })?;
    if let Some(progress) = &progress {
        progress.finish();
    }
    if findings.is_none() {
        println!("{}: not there yet: {}.", figure.name, figure.missing().join(", "));
    }
    Ok(findings)
}

fn show(figure: &paper::Figure, findings: &paper::Findings, output: Output) -> Result<()> {
    if output == Output::Text {
        println!("{} ({}): {}", figure.name, figure.source, figure.about);
        let missing = figure.missing();
        if !missing.is_empty() {
            println!("  Not there yet: {}.", missing.join(", "));
        }
        println!("\n{}", findings.render());
        return Ok(());
    }
    for measurement in &findings.measurements {
        println!("{}", measurement.to_json()?);
    }
    let simulated = findings.simulation.is_some();
    if let Some(simulation) = &findings.simulation {
        println!("{}", serde_json::json!({ "figure": figure.name, "simulation": simulation }));
    }
    for lines in &findings.series {
        println!(
            "{}",
            serde_json::json!({ "figure": figure.name, "series": lines, "simulated": simulated })
        );
    }
    for (title, table) in &findings.tables {
        println!(
            "{}",
            serde_json::json!({ "figure": figure.name, "title": title, "table": table })
        );
    }
    for why in &findings.refusals {
        println!("{}", serde_json::json!({ "figure": figure.name, "not_measured": why }));
    }
    for claim in &findings.claims {
        println!(
            "{}",
            serde_json::json!({ "figure": figure.name, "claim": claim, "simulated": simulated })
        );
    }
    Ok(())
}
