//! Logs go to standard error, as text for people or one JSON object a line for collectors.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Settings};

/// Starts logging for the rest of the process.
pub fn start(settings: &Settings) -> Result<(), String> {
    // A member that is down makes Raft tell of each try, ten times a second; `openraft=info` in the
    // setting has it back.
    let filter = format!("openraft=off,{}", settings.log_level);
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("`log_level`: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Where nothing reads the log any more: it would be told to the same place, by a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match settings.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| error.to_string())
}
