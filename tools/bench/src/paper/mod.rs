//! Figures of the papers that the protocols come from, measured again here.
//!
//! Absolute numbers of other people's machines say little, so a figure is compared by what can be
//! carried over: counts and shares that follow from workload and block size alone, ratios between
//! protocols on one machine, and the shapes of curves. Each figure ends in the paper's claims with
//! the paper's number, ours, and a [verdict](Verdict) on *here*: two of our protocols in one code
//! base on a few cores are not two of theirs on many. Where the protocol that a figure is about ran
//! in another way than its own, there is no verdict. What one machine cannot do (many replicas,
//! other continents) is [simulated](Simulation), and says so wherever it is shown.
//!
//! Adding a figure: one entry in [`FIGURES`].

#[cfg(feature = "analytics")]
pub mod analytics;
mod anker;
pub mod chainify;
mod claims;
mod fabric;
mod figure;
mod findings;
mod grid;
mod harmony;
mod healing;
mod lab;
pub mod network;
mod pacman;
mod quecc;
mod replicas;
mod versions;

use claims::{Expected, near, times};
use grid::{Grid, setting, theta_of};
use lab::Lab;

pub use claims::{Claim, Tally, Verdict};
pub use figure::Figure;
pub use findings::{Findings, Input, Lines, Origin, Simulation};
pub use lab::{Effort, Other};

pub static FIGURES: &[&[Figure]] = &[
    harmony::FIGURES,
    replicas::FIGURES,
    fabric::FIGURES,
    network::FIGURES,
    chainify::FIGURES,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, measure};

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

    /// A run that says nothing about one claim may say something about the next.
    #[test]
    fn a_claim_that_was_not_measured_leaves_the_others() {
        let mut findings = Findings::default();
        findings.leave_open("at no skew", 1.11, 1.0, "hardly any fails");
        findings.ratio("at much skew", 3.3, 3.2);
        findings.refuse_misnamed("fabric_pp");
        let verdicts: Vec<_> = findings.claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotMeasured, Verdict::Holds]);
        assert!(findings.render().contains("at no skew: hardly any fails"));
    }

    fn effort() -> Effort {
        Effort {
            threads: 2,
            repetitions: 1,
            quick: false,
            smoke: false,
            full: false,
            folder: std::env::temp_dir(),
            other: None,
            network: None,
            databases: None,
        }
    }

    /// What follows from a workload and the size of its blocks alone is the paper's on any machine.
    #[test]
    fn shares_and_counts_are_those_of_the_papers() {
        let hits = ["harmony-hits-ycsb", "harmony-hits-smallbank"];
        let figures = ["fabric-conflicts", "fabric-cycles"].into_iter().chain(hits);
        let effort = Effort { quick: true, ..effort() };
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
            // On a disk, which a folder for what is temporary need not be.
            let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
            let effort = Effort { smoke: true, folder, ..effort() };
            let Some(findings) = figure.find(effort, &mut |_, _, _| {}).unwrap() else {
                assert!(!figure.missing().is_empty());
                return;
            };
            if network::FIGURES.iter().any(|over_network| over_network.name == figure.name) {
                assert_eq!(findings.refusals, ["this program starts no nodes to measure it over"]);
                return;
            }
            if figure.group() == "chainify" {
                let why = "this program chains no databases to measure it over";
                assert_eq!(findings.refusals, [why]);
                return;
            }
            let shown = findings.tables.len() + findings.series.len();
            assert!(shown > 0, "{}", figure.name);
            let text = findings.render();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= 120, "{}: {widest}\n{text}", figure.name);
        });
    }
}
