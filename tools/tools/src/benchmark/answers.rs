//! `tally bench answers`: PostgreSQL as the oracle of analytical queries.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use bench::answers::{Answerer, difference};
use bench::paper::analytics::InProcess;
use bench::table::Table;
use workloads::analytical;

use super::arguments::Answers;
use super::postgres::Postgres;
use node::cli::Exit;

pub fn run(arguments: &Answers) -> Result<Exit> {
    let mut theirs = Postgres::connect(&arguments.postgres)?;
    let mut differences = 0;
    for name in &arguments.workloads {
        differences += compare(name, arguments, &mut theirs)?;
    }
    Ok(if differences == 0 { Exit::Ok } else { Exit::Failed })
}

/// How many queries have another answer, or none.
fn compare(name: &str, arguments: &Answers, theirs: &mut Postgres) -> Result<usize> {
    let workload = analytical::by_name(name, arguments.scale)?;
    let mut ours = InProcess::default();
    eprintln!("{name}: loading {} and {}", ours.name(), theirs.name());
    ours.load(&workload)?;
    theirs.load(&workload)?;
    let heads = ["query", "rows", "tally ms", "PostgreSQL ms", "answers"].map(str::to_owned);
    let mut table = Table { heads: heads.to_vec(), rows: Vec::new() };
    let mut different = 0;
    for query in &workload.queries {
        let began = Instant::now();
        let expected = theirs.ask(&query.text).with_context(|| query.name.clone())?;
        let theirs_ms = began.elapsed().as_secs_f64() * 1e3;
        if let Some(folder) = &arguments.write {
            write(&folder.join(name), &query.name, &expected.to_lines())?;
        }
        let began = Instant::now();
        let given = ours.ask(&query.text);
        let ours_ms = began.elapsed().as_secs_f64() * 1e3;
        let fault = match given {
            Ok(given) => difference(&given, &expected),
            Err(error) => Some(format!("{error:#}")),
        };
        different += usize::from(fault.is_some());
        if let Some(fault) = &fault {
            eprintln!("{name} {}: {fault}", query.name);
        }
        let verdict = if fault.is_none() { "same" } else { "DIFFERENT" };
        let ms = |ms: f64| format!("{ms:.1}");
        let rows = expected.rows.len().to_string();
        table.rows.push(vec![
            query.name.clone(),
            rows,
            ms(ours_ms),
            ms(theirs_ms),
            verdict.to_owned(),
        ]);
    }
    println!("{name} at scale {}\n\n{}", arguments.scale, table.render());
    Ok(different)
}

fn write(folder: &Path, query: &str, lines: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(format!("{query}.tsv"));
    std::fs::write(&file, lines).with_context(|| format!("cannot write {}", file.display()))
}
