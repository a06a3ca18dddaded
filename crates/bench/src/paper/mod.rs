//! Figures of the papers that the protocols come from, measured again here.
//!
//! Absolute numbers of other people's machines say little, so a figure is compared by what can be
//! carried over: counts and shares that follow from workload and block size alone, ratios between
//! protocols on one machine, and the shapes of curves. Each figure ends in the paper's claims with
//! the paper's number, ours, and whether it holds *here*: two of our protocols in one code base on
//! a few cores are not two of theirs on many.
//!
//! Adding a figure: one entry in [`FIGURES`].

#[cfg(feature = "analytics")]
pub mod analytics;
mod anker;
mod fabric;
mod harmony;
mod healing;
mod pacman;
mod quecc;
mod versions;

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::answers::Answerer;
use crate::table::{Table, thousands};
use crate::{Measurement, Plan, Report, measure};

/// A figure or table of a paper.
pub struct Figure {
    pub name: &'static str,
    pub about: &'static str,
    /// Where the paper has it.
    pub source: &'static str,
    protocols: &'static [&'static str],
    find: fn(&mut Lab<'_>) -> Result<Findings>,
}

pub static FIGURES: &[&[Figure]] = &[
    harmony::FIGURES,
    fabric::FIGURES,
    quecc::FIGURES,
    pacman::FIGURES,
    pacman::COSTS,
    healing::FIGURES,
    versions::FIGURES,
    anker::FIGURES,
    #[cfg(feature = "analytics")]
    analytics::FIGURES,
];

pub fn all() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().copied().flatten()
}

/// The figure of that name, those of a group (`pacman`), or all.
pub fn named(name: &str) -> Vec<&'static Figure> {
    let exact: Vec<_> = all().filter(|figure| figure.name == name).collect();
    if !exact.is_empty() {
        return exact;
    }
    all().filter(|figure| name == "all" || figure.group() == name).collect()
}

impl Figure {
    /// What its name begins with.
    pub fn group(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(group, _)| group)
    }

    /// Those of its protocols that this program does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.protocols.iter().filter(|name| protocols::by_name(name).is_err());
        missing.copied().collect()
    }

    /// Measure it, with the protocols that there are. `None`: there are none.
    pub fn find(&self, effort: Effort, report: Report<'_>) -> Result<Option<Findings>> {
        let present = self.protocols.iter().filter(|name| protocols::by_name(name).is_ok());
        let protocols: Vec<String> = present.map(|&name| name.to_owned()).collect();
        if protocols.is_empty() {
            return Ok(None);
        }
        (self.find)(&mut Lab { effort, protocols, report }).map(Some)
    }
}

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Effort {
    pub threads: usize,
    /// Of figures that are about time; counts need one run.
    pub repetitions: usize,
    /// A tenth of the rows and transactions: the shape of a figure in a tenth of the time.
    pub quick: bool,
    /// As little as possible: only to see whether it works.
    pub smoke: bool,
    /// Where figures that are about the disk write.
    pub folder: PathBuf,
    /// Whom figures that compare databases compare with.
    pub other: Option<Other>,
}

/// Another database, and who can ask it.
#[derive(Clone, Debug)]
pub struct Other {
    pub address: String,
    pub connect: fn(&str) -> Result<Box<dyn Answerer>>,
}

impl Effort {
    fn transactions(&self, wanted: usize) -> usize {
        match (self.smoke, self.quick) {
            (true, _) => wanted.min(60),
            (_, true) => wanted / 10,
            _ => wanted,
        }
    }

    fn rows(&self, wanted: u64) -> u64 {
        match (self.smoke, self.quick) {
            (true, _) => wanted.min(200),
            (_, true) => (wanted / 10).max(200),
            _ => wanted,
        }
    }

    /// Runs of each setting.
    fn rounds(&self) -> usize {
        if self.smoke { 1 } else { self.repetitions }
    }
}

/// What a figure measures with.
struct Lab<'a> {
    effort: Effort,
    /// The figure's protocols, as far as there are any.
    protocols: Vec<String>,
    report: Report<'a>,
}

impl Lab<'_> {
    /// A plan for the figure's protocols; its times are not looked at.
    fn counts(&self, transactions: usize) -> Plan {
        Plan {
            protocols: self.protocols.clone(),
            threads: vec![self.effort.threads],
            transactions: self.effort.transactions(transactions),
            repetitions: 1,
            ..Plan::default()
        }
    }

    /// The same for times.
    fn times(&self, transactions: usize) -> Plan {
        Plan { repetitions: self.effort.repetitions, ..self.counts(transactions) }
    }

    /// Before each run that is not one of a plan's.
    fn tell(&mut self, done: usize, total: usize, what: &dyn Display) {
        (self.report)(done, total, what);
    }

    fn measure(&mut self, plan: &Plan) -> Result<Vec<Measurement>> {
        measure(plan, self.report)
    }
}

/// What came out.
#[derive(Clone, Default)]
pub struct Findings {
    /// With what they show.
    pub tables: Vec<(String, Table)>,
    /// What is plotted; each has a table too.
    pub series: Vec<Lines>,
    /// What is plotted only, since a terminal has no room for its table.
    pub plots: Vec<Lines>,
    pub claims: Vec<Claim>,
    /// What differs from the paper's experiment, for whoever compares.
    pub remarks: Vec<String>,
    pub measurements: Vec<Measurement>,
}

/// Lines over the same places.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lines {
    pub title: String,
    pub x_label: String,
    pub unit: String,
    /// Behind the point.
    pub digits: usize,
    pub places: Vec<String>,
    /// Names, and a value for each place where there is one.
    pub lines: Vec<(String, Vec<Option<f64>>)>,
}

impl Lines {
    /// Lines downwards, places across.
    pub fn table(&self) -> Table {
        let heads = std::iter::once(self.x_label.clone()).chain(self.places.iter().cloned());
        let number = |value: &Option<f64>| match value {
            None => "-".to_owned(),
            Some(value) if self.digits == 0 => thousands(*value),
            Some(value) => format!("{value:.*}", self.digits),
        };
        let row = |(name, values): &(String, Vec<Option<f64>>)| {
            std::iter::once(name.clone()).chain(values.iter().map(number)).collect()
        };
        Table { heads: heads.collect(), rows: self.lines.iter().map(row).collect() }
    }
}

/// Something that the paper says, and whether it is so here.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    pub claim: String,
    pub paper: String,
    pub ours: String,
    pub holds: bool,
}

impl Findings {
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (title, table) in &self.tables {
            text.push_str(&format!("{title}\n\n{}\n", indent(&table.render())));
        }
        for lines in &self.series {
            let table = indent(&lines.table().render());
            text.push_str(&format!("{}, {}\n\n{table}\n", lines.title, lines.unit));
        }
        if !self.claims.is_empty() {
            let heads = ["the paper says", "paper", "here", "holds here"];
            let row = |claim: &Claim| {
                let holds = if claim.holds { "yes" } else { "NO" };
                vec![claim.claim.clone(), claim.paper.clone(), claim.ours.clone(), holds.into()]
            };
            let rows = self.claims.iter().map(row).collect();
            let heads = heads.map(str::to_owned).to_vec();
            text.push_str(&indent(&Table { heads, rows }.render()));
            text.push('\n');
        }
        for remark in &self.remarks {
            text.push_str(&note(remark));
        }
        text
    }

    fn claim(&mut self, claim: &str, paper: &str, ours: String, holds: bool) {
        let (claim, paper) = (claim.to_owned(), paper.to_owned());
        self.claims.push(Claim { claim, paper, ours, holds });
    }

    fn remark(&mut self, remark: &str) {
        self.remarks.push(remark.to_owned());
    }
}

/// A remark, in lines that fit a terminal.
fn note(remark: &str) -> String {
    const COLUMNS: usize = 100;
    let mut text = "  Note:".to_owned();
    let mut columns = text.len();
    for word in remark.split_whitespace() {
        if columns + word.chars().count() >= COLUMNS {
            text.push_str("\n   ");
            columns = 3;
        }
        columns += 1 + word.chars().count();
        text.push(' ');
        text.push_str(word);
    }
    text + "\n"
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Measurements by protocol and by one thing that varies.
struct Grid {
    cells: Vec<Measurement>,
    place: fn(&Measurement) -> String,
}

impl Grid {
    fn get(&self, protocol: &str, place: &str) -> Option<&Measurement> {
        self.cells.iter().find(|m| m.protocol == protocol && (self.place)(m) == place)
    }

    fn row(&self, protocol: &str) -> impl Iterator<Item = &Measurement> {
        self.cells.iter().filter(move |m| m.protocol == protocol)
    }

    fn places(&self) -> Vec<String> {
        distinct(self.cells.iter().map(self.place))
    }

    fn protocols(&self) -> Vec<String> {
        distinct(self.cells.iter().map(|m| m.protocol.clone()))
    }

    /// Protocols downwards, places across.
    fn table(&self, head: &str, cell: fn(&Measurement) -> String) -> Table {
        let places = self.places();
        let rows = self.protocols().into_iter().map(|protocol| {
            let cells = places
                .iter()
                .map(|place| self.get(&protocol, place).map_or_else(|| "-".to_owned(), cell));
            let cells: Vec<String> = cells.collect();
            std::iter::once(protocol).chain(cells).collect()
        });
        let rows = rows.collect();
        Table { heads: std::iter::once(head.to_owned()).chain(places).collect(), rows }
    }
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn theta_of(measurement: &Measurement) -> String {
    measurement.theta.map_or_else(|| "-".to_owned(), |theta| theta.to_string())
}

/// One of the settings that were given; empty if it was not.
fn setting(measurement: &Measurement, name: &str) -> String {
    measurement.settings.get(name).cloned().unwrap_or_default()
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_figure_says_what_it_is() {
        for (at, figure) in all().enumerate() {
            assert!(all().skip(at + 1).all(|other| other.name != figure.name), "{}", figure.name);
            assert!(!figure.about.is_empty() && figure.about.len() <= 90, "{}", figure.name);
            assert!(named(figure.name).iter().any(|found| found.about == figure.about));
        }
    }

    #[test]
    fn a_group_is_chosen_by_what_its_names_begin_with() {
        assert_eq!(named("pacman").len(), 13);
        assert_eq!(named("anker").len(), 10);
        assert_eq!(named("pacman-4.11").len(), 1);
        assert_eq!(named("all").len(), all().count());
        assert!(named("pac").is_empty());
    }

    /// With the protocols that there are, every figure comes to an end and has something to show.
    #[test]
    fn every_figure_can_be_measured() {
        // All but those of analytics are the same in a build without, which has measured them.
        let own = |figure: &&Figure| (figure.group() == "analytics") == cfg!(feature = "analytics");
        kit::parallel::for_each(all().filter(own), |figure| {
            let (quick, folder) = (false, std::env::temp_dir());
            let effort =
                Effort { threads: 2, repetitions: 1, quick, smoke: true, folder, other: None };
            let Some(findings) = figure.find(effort, &mut |_, _, _| {}).unwrap() else {
                assert!(!figure.missing().is_empty());
                return;
            };
            let shown = findings.tables.len() + findings.series.len();
            assert!(shown > 0, "{}", figure.name);
            let text = findings.render();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= 120, "{}: {widest}\n{text}", figure.name);
        });
    }
}
