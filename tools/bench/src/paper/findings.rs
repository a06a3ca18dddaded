//! The result of a figure: tables, plots, judged claims, remarks on differences from the paper's
//! experiment, what was simulated and from what, and the raw measurements.

use serde::Serialize;

use super::claims::{Claim, Expected, Tally, Verdict, times};
use crate::Measurement;
use crate::misnamed::{self, Misnamed};
use crate::table::{Table, thousands};

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
    /// Why no claim is judged: what the figure is about was not measured.
    pub refusals: Vec<String>,
    /// What differs from the paper's experiment, for those that compare.
    pub remarks: Vec<String>,
    pub measurements: Vec<Measurement>,
    /// What series and claims rest on, where they were not measured.
    pub simulation: Option<Simulation>,
}

/// A figure that was simulated, and from what.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Simulation {
    /// What of it was.
    pub what: String,
    pub inputs: Vec<Input>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Input {
    pub name: String,
    pub value: String,
    pub origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Here, just before.
    Measured,
    /// From others that were measured.
    Computed,
    /// The paper's setting, or an assumption.
    Given,
}

impl Origin {
    fn word(self) -> &'static str {
        match self {
            Origin::Measured => "measured",
            Origin::Computed => "computed",
            Origin::Given => "given",
        }
    }
}

impl Simulation {
    fn table(&self) -> Table {
        let row = |input: &Input| {
            vec![input.name.clone(), input.value.clone(), input.origin.word().to_owned()]
        };
        let heads = ["simulated from", "", ""].map(str::to_owned).to_vec();
        Table { heads, rows: self.inputs.iter().map(row).collect() }
    }
}

/// Lines over the same places.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lines {
    pub title: String,
    pub x_label: String,
    pub unit: String,
    /// After the point.
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

impl Findings {
    pub fn render(&self) -> String {
        let mut text = String::new();
        if let Some(simulation) = &self.simulation {
            text.push_str(&note("SIMULATED:", &simulation.what));
            text.push_str(&format!("\n{}\n", indent(&simulation.table().render())));
        }
        for (title, table) in &self.tables {
            text.push_str(&format!("{title}\n\n{}\n", indent(&table.render())));
        }
        for lines in &self.series {
            let table = indent(&lines.table().render());
            text.push_str(&format!("{}, {}\n\n{table}\n", lines.title, lines.unit));
        }
        for why in &self.refusals {
            text.push_str(&note("NOT MEASURED:", why));
        }
        if !self.claims.is_empty() {
            let heads = ["the paper says", "paper", "here", "holds here"];
            let row = |claim: &Claim| {
                let verdict = claim.verdict.words().to_owned();
                vec![claim.claim.clone(), claim.paper.clone(), claim.ours.clone(), verdict]
            };
            let rows = self.claims.iter().map(row).collect();
            let heads = heads.map(str::to_owned).to_vec();
            text.push_str(&indent(&Table { heads, rows }.render()));
            text.push_str(&format!("\n  {}\n", Tally::of(&self.claims)));
        }
        for remark in &self.remarks {
            text.push_str(&note("Note:", remark));
        }
        text
    }

    /// One of which the paper has no number, or one of which any number on this side will do.
    pub(super) fn claim(&mut self, claim: &str, paper: &str, ours: String, holds: bool) {
        self.judge(claim, paper, ours, holds, holds);
    }

    /// One with a number: whether ours is about the paper's, and if not, whether it is at least on
    /// the same side.
    pub(super) fn judge(
        &mut self,
        claim: &str,
        paper: &str,
        ours: String,
        holds: bool,
        direction: bool,
    ) {
        let (claim, paper) = (claim.to_owned(), paper.to_owned());
        self.claims.push(Claim { claim, paper, ours, verdict: Verdict::of(holds, direction) });
    }

    /// One of a ratio.
    pub(super) fn ratio(&mut self, claim: &str, paper: impl Into<Expected>, ours: f64) {
        let (claim, paper) = (claim.to_owned(), paper.into());
        let verdict = paper.judge(ours);
        self.claims.push(Claim { claim, paper: paper.to_string(), ours: times(ours), verdict });
    }

    /// One of a ratio that this run says nothing about, while it does about others.
    pub(super) fn leave_open(
        &mut self,
        claim: &str,
        paper: impl Into<Expected>,
        ours: f64,
        why: &str,
    ) {
        let paper = paper.into().to_string();
        let (ours, verdict) = (times(ours), Verdict::NotMeasured);
        self.claims.push(Claim { claim: claim.to_owned(), paper, ours, verdict });
        self.remarks.push(format!("not measured: {claim}: {why}."));
    }

    /// No claim is judged if the `subject` ran in another way than its own; of others it is said.
    pub(super) fn refuse_misnamed(&mut self, subject: &str) {
        let mut places: Vec<(Misnamed, Vec<String>)> = Vec::new();
        for measurement in &self.measurements {
            let Some(misnamed) = misnamed::misnamed(measurement) else { continue };
            let place = place_of(measurement);
            match places.iter_mut().find(|(known, _)| *known == misnamed) {
                Some((_, places)) => places.push(place),
                None => places.push((misnamed, vec![place])),
            }
        }
        for (Misnamed { protocol, why }, places) in places {
            let line = format!("{protocol}: {why} ({})", places.join("; "));
            match misnamed::base(&protocol) == subject {
                true => self.refusals.push(line),
                false => self.remarks.push(line),
            }
        }
        if !self.refusals.is_empty() {
            self.claims.iter_mut().for_each(|claim| claim.verdict = Verdict::NotMeasured);
        }
    }

    pub(super) fn remark(&mut self, remark: &str) {
        self.remarks.push(remark.to_owned());
    }
}

/// Where a measurement stands in its figure.
fn place_of(measurement: &Measurement) -> String {
    let workload = crate::table::workload(measurement);
    match measurement.theta {
        Some(theta) => format!("{workload}, theta {theta}"),
        None => workload,
    }
}

/// A remark, in lines that fit a terminal.
fn note(head: &str, remark: &str) -> String {
    const COLUMNS: usize = 100;
    let mut text = format!("  {head}");
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
