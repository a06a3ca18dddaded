//! Figures of the papers that the protocols come from, measured again here.
//!
//! Absolute numbers of other people's machines say little, so a figure is compared by what can be
//! carried over: counts and shares that follow from workload and block size alone, ratios between
//! protocols on one machine, and the shapes of curves. Each figure ends in the paper's claims with
//! the paper's number, ours, and whether it holds *here*: two of our protocols in one code base on
//! a few cores are not two of theirs on many.
//!
//! Adding a figure: one entry in [`FIGURES`].

mod fabric;
mod harmony;
mod quecc;

use anyhow::Result;
use serde::Serialize;

use crate::table::Table;
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

pub static FIGURES: &[&[Figure]] = &[harmony::FIGURES, fabric::FIGURES, quecc::FIGURES];

pub fn all() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().copied().flatten()
}

pub fn by_name(name: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.name == name)
}

impl Figure {
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
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub threads: usize,
    /// Of figures that are about time; counts need one run.
    pub repetitions: usize,
    /// As little as possible: only to see whether it works.
    pub smoke: bool,
}

impl Effort {
    fn transactions(&self, wanted: usize) -> usize {
        if self.smoke { wanted.min(60) } else { wanted }
    }

    fn rows(&self, wanted: u64) -> u64 {
        if self.smoke { wanted.min(200) } else { wanted }
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

    fn measure(&mut self, plan: &Plan) -> Result<Vec<Measurement>> {
        measure(plan, self.report)
    }
}

/// What came out.
#[derive(Default)]
pub struct Findings {
    /// With what they show.
    pub tables: Vec<(String, Table)>,
    pub claims: Vec<Claim>,
    /// What differs from the paper's experiment, for whoever compares.
    pub remarks: Vec<String>,
    pub measurements: Vec<Measurement>,
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
            text.push_str(&format!("  Note: {remark}\n"));
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
            assert!(by_name(figure.name).is_some_and(|found| found.about == figure.about));
        }
    }

    /// With the protocols that there are, every figure comes to an end and has something to show.
    #[test]
    fn every_figure_can_be_measured() {
        for figure in all() {
            let effort = Effort { threads: 2, repetitions: 1, smoke: true };
            let Some(findings) = figure.find(effort, &mut |_, _, _| {}).unwrap() else {
                assert!(!figure.missing().is_empty());
                continue;
            };
            assert!(!findings.measurements.is_empty(), "{}", figure.name);
            let text = findings.render();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= 120, "{}: {widest}\n{text}", figure.name);
        }
    }
}
