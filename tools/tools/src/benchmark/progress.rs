//! How far a measurement is, on standard error: standard output holds the figures alone.

use std::fmt::Display;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Where there is no terminal to draw on, a line now and then.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub enum Progress {
    Bar(ProgressBar),
    Lines { runs: usize, next: Instant },
}

impl Progress {
    pub fn new(runs: usize) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::Lines { runs, next: Instant::now() + LINE_EVERY };
        }
        let bar = ProgressBar::new(runs as u64);
        let template = "  {spinner} run {pos}/{len} {bar:20} {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress::Bar(bar)
    }

    /// Before each run.
    pub fn set(&mut self, done: usize, cell: &dyn Display) {
        match self {
            Progress::Bar(bar) => {
                bar.set_position(done as u64);
                bar.set_message(cell.to_string());
            }
            Progress::Lines { runs, next } if Instant::now() >= *next => {
                *next = Instant::now() + LINE_EVERY;
                eprintln!("run {} of {runs}: {cell}", done + 1);
            }
            Progress::Lines { .. } => {}
        }
    }

    pub fn finish(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
