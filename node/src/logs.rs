//! Logs go to standard error, as text for people or one JSON object a line for collectors.
//!
//! A warning that repeats itself word for word is logged once a minute: what goes wrong ten times a
//! second for hours must not bury everything else, nor fill the disk.

use std::fmt::{Debug, Write as _};
use std::io::IsTerminal;

use cluster::Seldom;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::config::{BadValue, LogFormat, Settings};

/// Starts logging for the rest of the process.
pub fn start(settings: &Settings) -> Result<(), BadValue> {
    // A member that is down makes Raft tell of each try, ten times a second; `openraft=info` in the
    // setting has it back.
    let filter = format!("openraft=off,{}", settings.log_level);
    let filter =
        EnvFilter::try_new(filter).map_err(|error| BadValue(format!("`log_level`: {error}")))?;
    let logger = logger(filter, settings.log_format, std::io::stderr);
    logger.try_init().map_err(|error| BadValue(error.to_string()))
}

fn logger<W>(filter: EnvFilter, format: LogFormat, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = fmt::layer()
        // Where nothing reads the log any more: it would be told to the same place, by a panic.
        .log_internal_errors(false)
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal());
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines).with(filter).with(Repeats::default())
}

/// Keeps back a warning that was logged within the last minute.
#[derive(Default)]
struct Repeats(Seldom);

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() != Level::WARN {
            return true;
        }
        let mut words = Words(metadata.name().to_owned());
        event.record(&mut words);
        self.0.is_due(&words.0).is_some()
    }
}

/// What an event says.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str, format: LogFormat, log: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let filter = EnvFilter::try_new(level).unwrap();
        tracing::subscriber::with_default(logger(filter, format, move || writer.clone()), log);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_warning_of_one_cause_is_logged_once_a_minute() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = logged("debug", format, || {
                for round in 0..100 {
                    tracing::warn!(error = "too many open files", "cannot accept connections");
                    tracing::warn!(error = "another", "cannot accept connections");
                    tracing::info!("ready");
                    tracing::error!("the ledger cannot be written");
                    if round < 3 {
                        tracing::warn!(height = round, "a block takes long");
                    }
                }
            });
            let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
            assert_eq!(count("too many open files"), 1, "{format:?}");
            assert_eq!(count("another"), 1);
            assert_eq!((count("ready"), count("cannot be written")), (100, 100));
            assert_eq!(count("a block takes long"), 3);
        }
    }

    #[test]
    fn levels_are_those_of_the_setting() {
        let log = || {
            tracing::debug!("detail");
            tracing::info!("ready");
            tracing::warn!("strange");
        };
        let counts = ["debug", "info", "warn", "off"].map(|it| logged(it, LogFormat::Text, log));
        assert_eq!(counts.map(|lines| lines.len()), [3, 2, 1, 0]);
    }
}
