//! Progress of a long command: a bar on a terminal, one line for each finished step elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const PARTS: u64 = 1000;

pub struct Progress {
    bar: Option<ProgressBar>,
    label: String,
    began: Instant,
}

impl Progress {
    pub fn begin(label: &str) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(PARTS);
            let template = "  {spinner} {prefix:<62} {bar:20} {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(label.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress { bar, label: label.to_owned(), began: Instant::now() }
    }

    /// `part` goes from 0 to 1.
    pub fn advance(&self, part: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((part.clamp(0.0, 1.0) * PARTS as f64) as u64);
        }
    }

    pub fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    pub fn end(self, result: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.began.elapsed().as_secs_f64();
        eprintln!("{}", format!("  {seconds:5.1} s  {:<62} {result}", self.label).trim_end());
    }
}
