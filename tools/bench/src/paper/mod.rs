//! Figures of the papers that the protocols come from, measured again here.
//!
//! Absolute numbers of other people's machines say little, so a figure is compared by what can be
//! carried over: counts and shares that follow from workload and block size alone, ratios between
//! protocols on one machine, and the shapes of curves. Each figure ends in the paper's claims with
//! the paper's number, ours, and a [verdict](Verdict) on *here*: two of our protocols in one code
//! base on a few cores are not two of theirs on many. Where the protocol that a figure is about ran
//! in another way than its own, there is no verdict.
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
use crate::named;
use crate::table::{Table, thousands};
use crate::way::{self, Misnamed};
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
        let missing = self.protocols.iter().filter(|name| named::protocol(name).is_err());
        missing.copied().collect()
    }

    /// Measure it, with the protocols that there are. `None`: there are none.
    pub fn find(&self, effort: Effort, report: Report<'_>) -> Result<Option<Findings>> {
        let present = self.protocols.iter().filter(|name| named::protocol(name).is_ok());
        let protocols: Vec<String> = present.map(|&name| name.to_owned()).collect();
        if protocols.is_empty() {
            return Ok(None);
        }
        let mut findings = (self.find)(&mut Lab { effort, protocols, report })?;
        findings.refuse_misnamed(self.subject());
        Ok(Some(findings))
    }

    /// The protocol that it is about.
    fn subject(&self) -> &'static str {
        match self.group() {
            "fabric" => "fabric_pp",
            group => group,
        }
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

    /// Rows that a share depends on: with fewer it would be another one.
    fn rows_exactly(&self, wanted: u64) -> u64 {
        if self.smoke { self.rows(wanted) } else { wanted }
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
    /// Why no claim is judged: what the figure is about was not measured.
    pub refusals: Vec<String>,
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
    pub verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our number is [near](near) the paper's, within its own spread, or the shape is the same.
    Holds,
    /// More where the paper has more, less where it has less, and not as much.
    DirectionOnly,
    Fails,
    /// Something else was measured.
    NotMeasured,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "yes",
            Verdict::DirectionOnly => "direction",
            Verdict::Fails => "NO",
            Verdict::NotMeasured => "-",
        }
    }

    /// `holds` is not asked for more than `direction`.
    fn of(holds: bool, direction: bool) -> Verdict {
        match (holds, direction) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::DirectionOnly,
            (false, false) => Verdict::Fails,
        }
    }
}

/// A number counts as the paper's within these times it.
const BAND: std::ops::RangeInclusive<f64> = 0.7..=1.5;

/// Whether our number is about the paper's.
fn near(paper: f64, ours: f64) -> bool {
    BAND.contains(&(ours / paper))
}

/// What a paper says of a ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Expected {
    About(f64),
    Between(f64, f64),
    AtLeast(f64),
}

impl From<f64> for Expected {
    fn from(about: f64) -> Expected {
        Expected::About(about)
    }
}

impl From<(f64, f64)> for Expected {
    fn from((low, high): (f64, f64)) -> Expected {
        Expected::Between(low, high)
    }
}

impl Expected {
    fn judge(self, ours: f64) -> Verdict {
        let same_side = |paper: f64| (paper > 1.0 && ours > 1.0) || (paper < 1.0 && ours < 1.0);
        let holds = match self {
            Expected::About(paper) => near(paper, ours),
            Expected::Between(low, high) => (low..=high).contains(&ours),
            Expected::AtLeast(paper) => ours >= BAND.start() * paper,
        };
        let direction = match self {
            Expected::About(paper) | Expected::AtLeast(paper) => same_side(paper),
            Expected::Between(low, high) => same_side(low) && same_side(high),
        };
        Verdict::of(holds, direction)
    }
}

impl Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expected::About(ratio) => write!(f, "{ratio:.2}x"),
            Expected::Between(low, high) => write!(f, "{low:.2}x to {high:.2}x"),
            Expected::AtLeast(ratio) => write!(f, "over {ratio:.0}x"),
        }
    }
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
    fn claim(&mut self, claim: &str, paper: &str, ours: String, holds: bool) {
        self.judge(claim, paper, ours, holds, holds);
    }

    /// One with a number: whether ours is about the paper's, and if not, whether it is at least on
    /// the same side.
    fn judge(&mut self, claim: &str, paper: &str, ours: String, holds: bool, direction: bool) {
        let (claim, paper) = (claim.to_owned(), paper.to_owned());
        self.claims.push(Claim { claim, paper, ours, verdict: Verdict::of(holds, direction) });
    }

    /// One of a ratio.
    fn ratio(&mut self, claim: &str, paper: impl Into<Expected>, ours: f64) {
        let (claim, paper) = (claim.to_owned(), paper.into());
        let verdict = paper.judge(ours);
        self.claims.push(Claim { claim, paper: paper.to_string(), ours: times(ours), verdict });
    }

    /// No claim is judged if the `subject` ran in another way than its own; of others it is said.
    fn refuse_misnamed(&mut self, subject: &str) {
        let mut places: Vec<(Misnamed, Vec<String>)> = Vec::new();
        for measurement in &self.measurements {
            let Some(misnamed) = way::misnamed(measurement) else { continue };
            let place = place_of(measurement);
            match places.iter_mut().find(|(known, _)| *known == misnamed) {
                Some((_, places)) => places.push(place),
                None => places.push((misnamed, vec![place])),
            }
        }
        for (Misnamed { protocol, why }, places) in places {
            let line = format!("{protocol}: {why} ({})", places.join("; "));
            match way::base(&protocol) == subject {
                true => self.refusals.push(line),
                false => self.remarks.push(line),
            }
        }
        if !self.refusals.is_empty() {
            self.claims.iter_mut().for_each(|claim| claim.verdict = Verdict::NotMeasured);
        }
    }

    fn remark(&mut self, remark: &str) {
        self.remarks.push(remark.to_owned());
    }
}

/// How many claims had which verdict.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    pub hold: usize,
    pub direction_only: usize,
    pub fail: usize,
    pub not_measured: usize,
}

impl Tally {
    pub fn of<'c>(claims: impl IntoIterator<Item = &'c Claim>) -> Tally {
        let mut tally = Tally::default();
        for claim in claims {
            *match claim.verdict {
                Verdict::Holds => &mut tally.hold,
                Verdict::DirectionOnly => &mut tally.direction_only,
                Verdict::Fails => &mut tally.fail,
                Verdict::NotMeasured => &mut tally.not_measured,
            } += 1;
        }
        tally
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { hold, direction_only, fail, not_measured } = self;
        let all = hold + direction_only + fail + not_measured;
        write!(f, "Of {all} claims {hold} hold, {direction_only} only in direction, {fail} fail")?;
        match not_measured {
            0 => f.write_str("."),
            _ => write!(f, ", {not_measured} were not measured."),
        }
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

    #[test]
    fn a_number_holds_in_a_band_and_else_its_direction_may() {
        use Verdict::{DirectionOnly, Fails, Holds};
        let about = [(3.3, 2.4, Holds), (3.3, 4.9, Holds), (3.3, 1.1, DirectionOnly)];
        let about = about.into_iter().chain([(3.3, 9.0, DirectionOnly), (3.3, 0.9, Fails)]);
        let about = about.chain([(0.5, 0.6, Holds), (0.5, 0.9, DirectionOnly), (0.5, 1.1, Fails)]);
        for (paper, ours, verdict) in about.chain([(1.0, 1.2, Holds), (1.0, 1.6, Fails)]) {
            assert_eq!(Expected::from(paper).judge(ours), verdict, "{paper} {ours}");
        }
        let between = Expected::from((1.4, 2.3));
        assert_eq!([1.4, 1.3, 0.9].map(|ours| between.judge(ours)), [Holds, DirectionOnly, Fails]);
        let least = Expected::AtLeast(100.0);
        assert_eq!([71.0, 2.0, 0.5].map(|ours| least.judge(ours)), [Holds, DirectionOnly, Fails]);
        assert_eq!(Expected::from(3.3).judge(f64::NAN), Fails);
    }

    /// What a block of scans and a few transactions leave of QueCC are Calvin's locks and one after
    /// another, and of BOHM the latter.
    #[test]
    fn a_figure_refuses_what_its_protocol_did_not_do() {
        let measured = |protocol: &str, workload: &str, block: usize| {
            let plan = Plan {
                workloads: vec![workload.parse().unwrap()],
                protocols: vec![protocol.to_owned()],
                threads: vec![2],
                block_transactions: vec![block],
                transactions: 300,
                repetitions: 1,
                ..Plan::default()
            };
            measure(&plan, &mut |_, _, _| {}).unwrap()
        };
        let scans = "ycsb:rows=5000:reads=80:writes=0:scans=20:scan_rows=3";
        let cut = "ycsb:rows=5000:reads=50:writes=50";
        for (protocol, workload, block, why) in [
            ("quecc", cut, 100, None),
            ("quecc", scans, 300, Some("this measured Calvin, not QueCC")),
            ("quecc", scans, 20, Some("this measured one transaction after another, not QueCC")),
            ("calvin", cut, 300, None),
            ("bohm", cut, 20, Some("this measured one transaction after another, not BOHM")),
            ("harmony:inter_block=on", cut, 20, None),
        ] {
            let mut findings = Findings {
                measurements: measured(protocol, workload, block),
                ..Findings::default()
            };
            findings.ratio("ahead", 3.3, 3.2);
            findings.refuse_misnamed("quecc");
            let (about, ways) = (format!("{protocol} {workload}"), &findings.measurements[0].ways);
            let said = findings.refusals.iter().chain(&findings.remarks).next();
            match why {
                None => assert_eq!(said, None, "{about} {ways:?}"),
                Some(why) => assert!(said.is_some_and(|s| s.contains(why)), "{about} {said:?}"),
            }
            let refused = protocol == "quecc" && why.is_some();
            let verdict = if refused { Verdict::NotMeasured } else { Verdict::Holds };
            assert_eq!(findings.claims[0].verdict, verdict, "{about} {ways:?}");
            assert_eq!(Tally::of(&findings.claims).not_measured, usize::from(refused));
        }
    }

    /// What follows from a workload and the size of its blocks alone is the paper's on any machine.
    #[test]
    fn shares_and_counts_are_those_of_the_papers() {
        let hits = ["harmony-hits-ycsb", "harmony-hits-smallbank"];
        let figures = ["fabric-conflicts", "fabric-cycles"].into_iter().chain(hits);
        let folder = std::env::temp_dir();
        let (threads, repetitions) = (2, 1);
        let effort =
            Effort { threads, repetitions, quick: true, smoke: false, folder, other: None };
        for name in figures {
            let figure = named(name)[0];
            let findings = figure.find(effort.clone(), &mut |_, _, _| {}).unwrap().unwrap();
            assert_eq!(findings.refusals, Vec::<String>::new(), "{name}");
            let exact = findings.claims.iter().filter(|claim| claim.claim != "reordering is cheap");
            for Claim { claim, paper, ours, verdict } in exact {
                assert_eq!(*verdict, Verdict::Holds, "{name}: {claim}: {paper}, here {ours}");
            }
        }
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
