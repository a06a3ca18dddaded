//! What a benchmark refuses before it begins.

use bench::PlanError;

/// A protocol that there is none of.
pub fn wrong_protocol(error: &types::Error) -> PlanError {
    let hint = error.fields().hint.clone().unwrap_or_default();
    PlanError { message: error.message().to_owned(), hint }
}

/// Figures of a build without optimisation would be taken for figures.
pub fn refuse_a_debug_build(smoke: bool) -> Result<(), PlanError> {
    if cfg!(debug_assertions) && !smoke {
        return Err(PlanError {
            message: "this is a build without optimisation, whose figures mean nothing".into(),
            hint: "Build with --release, or see whether it works with --smoke.".into(),
        });
    }
    Ok(())
}
