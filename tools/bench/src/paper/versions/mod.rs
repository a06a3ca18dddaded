//! Wu: *An Empirical Evaluation of In-Memory Multi-Version Concurrency Control* (thesis, 2017,
//! chapter 5; with Arulraj, Lin, Xian and Pavlo, VLDB 2017), figures 5.6 to 5.25 and table 5.1.
//!
//! Theirs are forty cores on four sockets and ten million tuples; ours is what there is. Ratios
//! between two ways on one machine can be carried over; the bends of curves over threads cannot.
//!
//! * [`rules`]: protocols, figures 5.6 to 5.10;
//! * [`storing`]: version storage, figures 5.11 to 5.17;
//! * [`keeping`]: collectors, indexes and the emulated systems, figures 5.18 to 5.25.

mod keeping;
mod rules;
mod stage;
mod storing;

use std::time::Duration;

use anyhow::Result;
use multiversion::TableSpec;

use super::{Figure, Findings, Lab, Lines};
use crate::Workload;
use crate::versions::{Data, Group, Played, Scene};
use stage::{Tpcc, Ycsb};

/// What the thesis's default is; figures name it as theirs.
const PROTOCOL: &str = "mvto";
const RULES: [&str; 5] = ["mvto", "mvocc", "mv2pl", "ssn", "ssi"];

pub const FIGURES: &[Figure] = &[
    figure("versions-5.6", "read-only transactions by protocol and threads", rules::read_only),
    figure("versions-5.7", "protocols over skew, reading and updating", rules::skew),
    figure("versions-5.8", "writers beside readers that do not declare it", rules::undeclared),
    figure("versions-5.9", "writers beside readers declared READ ONLY", rules::declared),
    figure("versions-5.10", "TPC-C by protocol, and who aborts", rules::tpcc),
    figure("versions-5.11", "long strings shared by versions, or copied", storing::strings),
    figure("versions-5.12", "newest first against oldest first over skew", storing::order),
    figure("versions-5.13", "storage by share of updates and width of rows", storing::updates),
    figure("versions-5.14", "storage by how many attributes are modified", storing::modified),
    figure("versions-5.15", "storage by how many attributes are read", storing::read),
    figure("versions-5.16", "memory spaces", storing::spaces),
    figure("versions-5.17", "storage on TPC-C beside a scan of the stock", storing::tpcc),
    figure("versions-5.18", "cooperative and background collection, throughput", keeping::tuples),
    figure("versions-5.19", "cooperative and background collection, memory", keeping::tuples),
    figure("versions-5.20", "collection by transaction, throughput", keeping::batches),
    figure("versions-5.21", "collection by transaction, memory", keeping::batches),
    figure("versions-5.22", "index pointers by number of indexes", keeping::indexes),
    figure("versions-5.23", "index pointers by threads", keeping::index_threads),
    figure("versions-5.24", "the systems of table 5.1 on TPC-C, throughput", keeping::systems),
    figure("versions-5.25", "the systems of table 5.1 on TPC-C, scans", keeping::systems),
];

type Find = fn(&mut Lab<'_>) -> Result<Findings>;

const fn figure(name: &'static str, about: &'static str, find: Find) -> Figure {
    Figure { name, about, source: "chapter 5 of Wu's thesis", protocols: &[PROTOCOL], find }
}

const FEW_CORES: &str = "two cores: the thesis's curves over up to forty threads, and where they \
    bend for cache coherence, sockets or a shared counter, cannot show here.";

/// The thesis's defaults: append newest first, by transaction, logical pointers.
fn ycsb(lab: &Lab<'_>) -> Ycsb {
    Ycsb {
        rows: lab.effort.rows(200_000),
        attributes: 10,
        long: false,
        operations: 10,
        update_percent: 20,
        written: 10,
        read: 10,
        theta: 0.2,
        indexes: 0,
    }
}

fn tpcc_tables(lab: &Lab<'_>, warehouses: usize) -> Result<Tpcc> {
    let tpcc = Workload::named("tpcc")?.with("warehouses", warehouses);
    let (customers, items) = (lab.effort.rows(3_000), lab.effort.rows(20_000));
    Tpcc::load(tpcc.with("customers", customers).with("items", items))
}

fn time(lab: &Lab<'_>) -> Duration {
    Duration::from_millis(match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => 5,
        (_, true) => 100,
        _ => 1_000,
    })
}

/// What the thesis keeps tables by where it says nothing else.
const THEIRS: &str = "storage=newest_first:gc=transaction:index=tuple_id";

fn spec(text: &str) -> Result<TableSpec> {
    Ok(TableSpec::parse(&format!("{THEIRS}:{text}"))?)
}

/// One run, told before it begins.
fn play(
    lab: &mut Lab<'_>,
    (rule, tables): (&str, &str),
    data: &Data,
    groups: &[Group],
) -> Result<Played> {
    lab.tell(0, 1, &format!("{rule} {tables}"));
    Scene { rule, spec: spec(tables)?, data, groups, time: time(lab) }.play()
}

/// The run of a middle rate.
fn play_often(
    lab: &mut Lab<'_>,
    what: (&str, &str),
    data: &Data,
    groups: &[Group],
) -> Result<Played> {
    let rounds = lab.effort.rounds();
    let runs: Result<Vec<Played>> = (0..rounds).map(|_| play(lab, what, data, groups)).collect();
    let mut runs = runs?;
    runs.sort_by(|a, b| a.per_cpu_second().total_cmp(&b.per_cpu_second()));
    Ok(runs.swap_remove(rounds / 2))
}

/// Lines of one quantity over some places.
struct Sheet {
    lines: Lines,
}

impl Sheet {
    fn new(title: &str, x_label: &str, unit: &str, digits: usize) -> Sheet {
        let (title, x_label, unit) = (title.to_owned(), x_label.to_owned(), unit.to_owned());
        let (places, lines) = (Vec::new(), Vec::new());
        Sheet { lines: Lines { title, x_label, unit, digits, places, lines } }
    }

    fn put(&mut self, line: &str, place: impl ToString, value: f64) {
        let place = place.to_string();
        let places = &mut self.lines.places;
        let at = places.iter().position(|known| *known == place).unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        });
        let lines = &mut self.lines.lines;
        if !lines.iter().any(|(name, _)| name == line) {
            lines.push((line.to_owned(), Vec::new()));
        }
        for (name, values) in lines {
            values.resize(values.len().max(at + 1), None);
            if name == line {
                values[at] = Some(value);
            }
        }
    }

    fn get(&self, line: &str, place: impl ToString) -> f64 {
        let place = place.to_string();
        let at = self.lines.places.iter().position(|known| *known == place);
        let line = self.lines.lines.iter().find(|(name, _)| name == line);
        let value = at.zip(line).and_then(|(at, (_, values))| *values.get(at)?);
        value.unwrap_or(f64::NAN)
    }

    /// One line over another, at a place.
    fn ratio(&self, [above, below]: [&str; 2], place: impl ToString) -> f64 {
        let place = place.to_string();
        self.get(above, &place) / self.get(below, &place)
    }

    fn add_to(mut self, findings: &mut Findings) {
        let places = self.lines.places.len();
        self.lines.lines.iter_mut().for_each(|(_, values)| values.resize(places, None));
        findings.series.push(self.lines);
    }
}
