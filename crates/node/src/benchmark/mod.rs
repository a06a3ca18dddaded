//! `tally bench`: the command line and the terminal around the crate `bench`.

pub mod arguments;
mod machine;
mod progress;

use anyhow::{Context, Result};
use bench::{PlanError, agreement, measure, page, table};

use crate::cli::{Exit, Output};
use arguments::{Bench, Comparison, Special};
use progress::Progress;

pub fn run(arguments: &Bench, output: Output) -> Result<Exit> {
    let done = match &arguments.special {
        None => compare(&arguments.comparison, output),
        Some(Special::Canonical { smoke }) => canonical(*smoke, output),
    };
    done.or_else(|error| match error.downcast::<PlanError>() {
        Ok(wrong) => {
            eprintln!("tally: {wrong}");
            Ok(Exit::Usage)
        }
        Err(error) => Err(error),
    })
}

/// Figures of a build without optimisation would be taken for figures.
fn refuse_a_debug_build(smoke: bool) -> Result<(), PlanError> {
    if cfg!(debug_assertions) && !smoke {
        return Err(PlanError {
            message: "this is a build without optimisation, whose figures mean nothing".into(),
            hint: "Build with --release, or see whether it works with --smoke.".into(),
        });
    }
    Ok(())
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

/// A wrong state must not go unnoticed, whoever reads only the exit code.
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

fn canonical(_smoke: bool, _output: Output) -> Result<Exit> {
    Ok(Exit::Ok)
}
