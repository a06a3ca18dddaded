//! TPC-H and CH-benCHmark against the answers that PostgreSQL 15 gave for the same rows.
//!
//! `scripts/with-postgres tally bench answers WORKLOAD --scale X --write
//! tools/bench/tests/answers` asks it again.
#![cfg(feature = "analytics")]

use std::path::Path;

use bench::answers::{Answer, Answerer, difference};
use bench::paper::analytics::InProcess;
use workloads::analytical;

fn compare(name: &str, scale: f64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers").join(name);
    let workload = analytical::by_name(name, scale).expect("a workload");
    let mut engine = InProcess::default();
    engine.load(&workload).expect("a load");
    let mut faults = Vec::new();
    for query in &workload.queries {
        let file = folder.join(format!("{}.tsv", query.name));
        let expected = Answer::from_lines(&std::fs::read_to_string(file).expect("an answer"));
        let fault = match engine.ask(&query.text) {
            Ok(given) => difference(&given, &expected),
            Err(error) => Some(format!("{error:#}")),
        };
        faults.extend(fault.map(|fault| format!("{}: {fault}", query.name)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn tpch_has_postgresqls_answers() {
    compare("tpch", 0.01);
}

#[test]
fn chbench_has_postgresqls_answers() {
    compare("chbench", 0.1);
}
