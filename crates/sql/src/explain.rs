//! EXPLAIN: a program for people.

use procedure::Procedure;

/// The program, one line of text each.
pub fn lines(procedure: &Procedure) -> Vec<String> {
    let steps = procedure.body.iter().map(|step| format!("{step:?}"));
    steps.collect()
}
