//! Lai, Liu, Lo (Harmony): figures 1 and 15 to 18, for which the paper has eighty machines.
//!
//! What a replica, a signature, a hash and a sync take is measured here, one replica at a time;
//! the machines, their network and the orderers between them are [simulated](crate::replicas).
//! Nothing here comes from the paper's own curves: its numbers stand in claims alone.

use anyhow::{Context, Result, ensure};

use super::{Figure, Findings, Input, Lab, Lines, Origin, Simulation};
use crate::replicas::costs::{self, Sizes};
use crate::replicas::{
    CONTINENTS, Crypto, Endorsing, Nanos, Network, Ordering, Outcome, SECOND, Scene, System,
};
use crate::table::{Table, thousands};
use crate::{Measurement, Plan, Workload};

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "harmony-1",
        about: "the database layer beside the consensus layer (simulated), SmallBank",
        source: "Harmony, figure 1",
        protocols: PROTOCOLS,
        find: bottleneck,
    },
    Figure {
        name: "harmony-15",
        about: "Harmony, Aria, RBC and Fabric over replicas (simulated), SmallBank",
        source: "Harmony, figure 15",
        protocols: PROTOCOLS,
        find: |lab| replicas(lab, "smallbank"),
    },
    Figure {
        name: "harmony-16",
        about: "Harmony, Aria, RBC and Fabric over replicas (simulated), YCSB",
        source: "Harmony, figure 16",
        protocols: PROTOCOLS,
        find: |lab| replicas(lab, "ycsb"),
    },
    Figure {
        name: "harmony-17",
        about: "Harmony by HotStuff on four continents and by Kafka (simulated), SmallBank",
        source: "Harmony, figure 17",
        protocols: &["harmony"],
        find: |lab| byzantine(lab, "smallbank"),
    },
    Figure {
        name: "harmony-18",
        about: "Harmony by HotStuff on four continents and by Kafka (simulated), YCSB",
        source: "Harmony, figure 18",
        protocols: &["harmony"],
        find: |lab| byzantine(lab, "ycsb"),
    },
];

const PROTOCOLS: &[&str] = &["harmony", "aria", "rbc", "fabric"];
/// The one that simulates before it orders.
const SIMULATES_FIRST: &str = "fabric";
const SKEW: f64 = 0.6;
const KEYS: u64 = 10_000;
const COUNTS: [usize; 5] = [4, 10, 20, 40, 80];
const MOST: usize = 80;
/// How many machines the paper has in a region.
const OF_REGION: usize = 20;
const ENDORSERS: usize = 2;
/// The paper's cloud: five gigabits.
const BYTES_PER_SECOND: f64 = 625e6;
const NEAR: Nanos = 50_000;
const LINGER: Nanos = 5_000_000;
const PROPOSAL_TRANSACTIONS_MAX: usize = 10_000;
/// So much more is sent than replicas can execute, where the most is asked for.
const OVERLOAD: f64 = 1.5;
/// Of the most, where latency is asked for.
const SHARE: f64 = 0.7;
/// What is offered to an orderer whose replicas take no time.
const FLOOD: f64 = 2e6;
/// Cores of the paper's machines of figure 1.
const CORES: usize = 16;

/// Blocks that the paper found best, and for Fabric one of the size of Aria's.
fn block_of(protocol: &str, workload: &str) -> usize {
    match (protocol, workload) {
        ("harmony", _) => 25,
        ("rbc", _) => 10,
        ("aria", "smallbank") => 75,
        _ => 50,
    }
}

fn workload(lab: &Lab<'_>, name: &str) -> Result<Workload> {
    let rows = lab.effort.rows_exactly(KEYS);
    let workload = Workload::named(name)?.with("rows", rows);
    Ok(match name {
        "ycsb" => workload.with("draw", "chance").with("writes", 0).with("commands", 50),
        _ => workload,
    })
}

/// What was measured.
struct Costs {
    crypto: Crypto,
    sizes: Sizes,
    sync: Nanos,
    /// A transaction alone on one thread.
    run: Nanos,
    systems: Vec<Measured>,
    inputs: Vec<Input>,
}

struct Measured {
    protocol: String,
    system: System,
    /// The part of what is ordered that commits.
    commits: f64,
    /// What its block was measured to take, calls and all.
    block: Nanos,
    /// Of that, to simulate them, where endorsers do so in its place.
    simulation: Option<Nanos>,
}

impl Measured {
    /// What is ordered, and executed.
    fn executed_per_second(&self) -> f64 {
        let System { block_transactions, block, .. } = self.system;
        block_transactions as f64 * SECOND as f64 / block as f64
    }

    fn add_inputs(&self, inputs: &mut Vec<Input>) {
        let (protocol, count) = (&self.protocol, self.system.block_transactions);
        let block = format!("{protocol}: a block of {count} that are ordered");
        inputs.push(input(&block, micros(self.block), Origin::Measured));
        let commits = format!("{protocol}: the part of them that commits");
        let part = format!("{:.1} %", 100.0 * self.commits);
        inputs.push(input(&commits, part, Origin::Measured));
        if let Some(simulation) = self.simulation {
            let of_it = format!("{protocol}: of that block, to simulate it");
            inputs.push(input(&of_it, micros(simulation), Origin::Measured));
            let instead = format!("{protocol}: without that, with signatures to check");
            inputs.push(input(&instead, micros(self.system.block), Origin::Computed));
        }
    }
}

fn input(name: &str, value: String, origin: Origin) -> Input {
    Input { name: name.to_owned(), value, origin }
}

fn micros(nanos: Nanos) -> String {
    format!("{:.1} us", nanos as f64 / 1e3)
}

/// How long one that is ordered takes in nanoseconds, and the part of them that commits. Those that
/// do not are ordered and executed, too; one that is deferred is ordered once, however often it is
/// executed.
fn of_ordered(cell: &Measurement) -> Result<(f64, f64)> {
    let ordered = cell.executions as f64 * (1.0 - cell.deferred_share);
    let (nanos, commits) = per_ordered(ordered, cell.committed as f64, cell.committed_per_second);
    ensure!(nanos.is_normal(), "nothing commits by {}", cell.protocol);
    Ok((nanos, commits))
}

fn per_ordered(ordered: f64, committed: f64, committed_per_second: f64) -> (f64, f64) {
    let commits = committed / ordered;
    (commits / committed_per_second * SECOND as f64, commits)
}

fn the_only(cells: &[Measurement]) -> Result<&Measurement> {
    ensure!(cells.len() == 1, "{} cells were measured where one was asked for", cells.len());
    cells.first().context("no cell was measured")
}

impl Costs {
    fn measure(lab: &mut Lab<'_>, name: &str, findings: &mut Findings) -> Result<Costs> {
        let workload = workload(lab, name)?;
        let rounds = if lab.effort.smoke { 3 } else { 301 };
        let (crypto, calls) = (costs::crypto(rounds), lab.effort.transactions(2_000));
        let sizes = costs::sizes(&workload, SKEW, ENDORSERS, calls)?;
        let serial = Plan {
            protocols: vec!["serial".to_owned()],
            workloads: vec![workload.clone()],
            thetas: vec![SKEW],
            threads: vec![1],
            ..lab.times(100_000)
        };
        let run = of_ordered(the_only(&lab.measure(&serial)?)?)?.0 as Nanos;
        let (mut syncs, mut systems) = (Vec::new(), Vec::new());
        for protocol in lab.protocols.clone() {
            let block_transactions = block_of(&protocol, name);
            let plan = Plan {
                protocols: vec![protocol.clone()],
                workloads: vec![workload.clone()],
                thetas: vec![SKEW],
                block_transactions: vec![block_transactions],
                sealing: vec![true],
                durability: vec![Some(lab.effort.folder.clone())],
                ..lab.times(20_000)
            };
            let cells = lab.measure(&plan)?;
            let cell = the_only(&cells)?;
            let (nanos, commits) = of_ordered(cell)?;
            let block = (block_transactions as f64 * nanos) as Nanos;
            let transaction_bytes = sizes.ordered;
            let system = System { block_transactions, block, transaction_bytes, endorsing: None };
            let sync = cell.sync_us_p50.filter(|sync| sync.is_finite());
            syncs.push(sync.with_context(|| format!("{protocol}: no sync was measured"))?);
            let simulation = match &*protocol {
                SIMULATES_FIRST => {
                    let (threads, calls) = (lab.effort.threads, lab.effort.transactions(20_000));
                    let simulation =
                        costs::simulation(&workload, SKEW, block_transactions, threads, calls)?;
                    // A block or two are too few for a difference.
                    Some(if lab.effort.smoke { simulation.min(block) } else { simulation })
                }
                _ => None,
            };
            let system = match simulation {
                Some(simulation) => endorsed(system, simulation, &sizes, &crypto, run)?,
                None => system,
            };
            systems.push(Measured { protocol, system, commits, block, simulation });
            findings.measurements.extend(cells);
        }
        syncs.sort_by(f64::total_cmp);
        let sync = syncs.get(syncs.len() / 2).context("no protocol was measured")?;
        let sync = (1e3 * sync) as Nanos;
        let mut costs = Costs { crypto, sizes, sync, run, systems, inputs: Vec::new() };
        costs.inputs = costs.named();
        Ok(costs)
    }

    fn named(&self) -> Vec<Input> {
        use Origin::{Given, Measured};

        let Costs { crypto, sizes, systems, .. } = self;
        let mut inputs = vec![
            input("a sync of the disk", micros(self.sync), Measured),
            input("a transaction alone on one thread", micros(self.run), Measured),
            input(
                "to sign, to check one, each of 54 together",
                {
                    let Crypto { sign, verify, verify_of_many, .. } = *crypto;
                    [sign, verify, verify_of_many].map(micros).join(", ")
                },
                Measured,
            ),
            input("to hash a byte", format!("{:.2} ns", crypto.hash_nanos_per_byte), Measured),
            input("bytes of a call that is ordered", sizes.ordered.to_string(), Measured),
            input("bytes of one that two have endorsed", sizes.endorsed.to_string(), Measured),
        ];
        systems.iter().for_each(|system| system.add_inputs(&mut inputs));
        inputs.extend([
            input("a network card", "5 Gbit/s".to_owned(), Given),
            input("one way within a region", micros(NEAR), Given),
        ]);
        inputs
    }

    fn system(&self, protocol: &str) -> Option<&Measured> {
        self.systems.iter().find(|it| it.protocol == protocol)
    }

    fn kafka(&self) -> Ordering {
        Ordering::Kafka { linger: LINGER, sync: self.sync }
    }

    fn hotstuff(&self) -> Ordering {
        Ordering::HotStuff { batch_max: PROPOSAL_TRANSACTIONS_MAX, crypto: self.crypto }
    }
}

/// Simulated and signed before: a replica does not do it again, and checks the signatures.
fn endorsed(
    system: System,
    simulation: Nanos,
    sizes: &Sizes,
    crypto: &Crypto,
    run: Nanos,
) -> Result<System> {
    let signatures = (ENDORSERS * system.block_transactions) as Nanos;
    let validation = system.block.checked_sub(simulation);
    let validation = validation.context("a block took less time than its simulation alone")?;
    Ok(System {
        block: validation + signatures * crypto.verify_of_many,
        transaction_bytes: sizes.endorsed,
        endorsing: Some(Endorsing {
            endorsers: ENDORSERS,
            proposal_bytes: sizes.ordered,
            simulate: run + crypto.sign,
        }),
        ..system
    })
}

fn near() -> Network {
    let (far, replicas_of_region) = (CONTINENTS, None);
    Network { bytes_per_second: BYTES_PER_SECOND, near: NEAR, far, replicas_of_region }
}

fn on_continents() -> Network {
    Network { replicas_of_region: Some(OF_REGION), ..near() }
}

/// The most that a system does, and how long one takes at [`SHARE`] of that.
struct Reached {
    most: Outcome,
    latency: Outcome,
    /// The part of what is ordered.
    commits: f64,
}

impl Reached {
    fn committed_per_second(&self) -> f64 {
        self.most.per_second * self.commits
    }
}

fn reach(lab: &mut Lab<'_>, scene: Scene, commits: f64) -> Reached {
    lab.tell(0, 1, &format!("{} replicas, simulated", scene.replicas));
    let System { block, block_transactions, .. } = scene.system;
    let bound = block_transactions as f64 * SECOND as f64 / block as f64;
    let most = Scene { offered_per_second: OVERLOAD * bound, ..scene.clone() }.play();
    let offered_per_second = SHARE * most.per_second;
    let latency = match offered_per_second.is_normal() {
        true => Scene { offered_per_second, ..scene }.play(),
        // Too few to have a rate.
        false => most.clone(),
    };
    Reached { most, latency, commits }
}

fn scene(lab: &Lab<'_>, replicas: usize, system: System, ordering: Ordering) -> Scene {
    let transactions = match ordering {
        Ordering::Kafka { .. } => 20_000,
        // Many of the largest proposals.
        Ordering::HotStuff { .. } => 300_000,
    };
    Scene {
        replicas,
        system,
        ordering,
        network: near(),
        offered_per_second: FLOOD,
        transactions: lab.effort.transactions(transactions),
        seed: 1,
    }
}

fn simulation(what: &str, inputs: Vec<Input>) -> Option<Simulation> {
    Some(Simulation { what: what.to_owned(), inputs })
}

/// Two plots over numbers of replicas, and what was at work for longest.
struct Curves {
    rates: Lines,
    latencies: Lines,
    bounds: Table,
}

impl Curves {
    fn new() -> Curves {
        let lines = |title: &str, unit: &str, digits| Lines {
            title: title.to_owned(),
            x_label: "replicas".to_owned(),
            unit: unit.to_owned(),
            digits,
            places: COUNTS.map(|count| count.to_string()).to_vec(),
            lines: Vec::new(),
        };
        let heads = std::iter::once("replicas".to_owned());
        let heads = heads.chain(COUNTS.map(|count| count.to_string())).collect();
        Curves {
            rates: lines("Committed, the most (simulated)", "a second", 0),
            latencies: lines("Latency at 70 % of the most (simulated)", "ms, p50", 1),
            bounds: Table { heads, rows: Vec::new() },
        }
    }

    fn draw(&mut self, name: &str, reached: &[Reached]) {
        let of = |value: fn(&Reached) -> f64| reached.iter().map(|it| Some(value(it))).collect();
        self.rates.lines.push((name.to_owned(), of(Reached::committed_per_second)));
        self.latencies.lines.push((name.to_owned(), of(|it| it.latency.latency_ms_p50)));
        let bound = |it: &Reached| {
            let busiest = it.most.busiest;
            format!("{} {:.0} %", busiest.what, 100.0 * busiest.share)
        };
        self.bounds
            .rows
            .push(std::iter::once(name.to_owned()).chain(reached.iter().map(bound)).collect());
    }

    fn add_to(self, findings: &mut Findings) {
        findings.series.extend([self.rates, self.latencies]);
        let title = "What was at work for longest, where the most is asked for (simulated)";
        findings.tables.push((title.to_owned(), self.bounds));
    }
}

/// The last place over the first one.
fn change(reached: &[Reached], value: fn(&Reached) -> f64) -> f64 {
    match reached {
        [first, .., last] => value(last) / value(first),
        _ => f64::NAN,
    }
}

fn replicas(lab: &mut Lab<'_>, name: &str) -> Result<Findings> {
    let mut findings = Findings::default();
    let costs = Costs::measure(lab, name, &mut findings)?;
    let mut curves = Curves::new();
    for Measured { protocol, system, commits, .. } in &costs.systems {
        let of = |&count: &usize| {
            let scene = scene(lab, count, *system, costs.kafka());
            reach(lab, scene, *commits)
        };
        let reached: Vec<Reached> = COUNTS.iter().map(of).collect();
        let (rate, latency) = (
            change(&reached, Reached::committed_per_second),
            change(&reached, |it| it.latency.latency_ms_p50),
        );
        if protocol == SIMULATES_FIRST {
            let ours = format!("{:.0} % left", 100.0 * rate);
            findings.claim(
                &format!("{protocol} falls with the replicas"),
                "falls",
                ours,
                rate < 0.8,
            );
            let claim = format!("{protocol}: a transaction takes longer with the replicas");
            findings.claim(&claim, "grows", super::times(latency), latency > 1.05);
        } else {
            findings.ratio(&format!("{protocol}: as many a second by 80 as by 4"), 1.0, rate);
            findings.ratio(&format!("{protocol}: a transaction takes as long"), 1.0, latency);
        }
        curves.draw(protocol, &reached);
    }
    curves.add_to(&mut findings);
    let mut inputs = costs.inputs;
    inputs.push(input("Kafka: a batch that is not full waits", micros(LINGER), Origin::Given));
    findings.simulation = simulation(
        "replicas on machines of their own in one region, three brokers of Kafka, clients beside \
         the replicas; each replica takes for a block what one was measured to take here.",
        inputs,
    );
    findings.remark(
        "fabric: two replicas simulate and sign each transaction, all check both signatures. Theirs \
         carry X.509 certificates, some kilobytes; ours keys of 32 bytes. FastFabric# is not there.",
    );
    findings.remark(
        "a block of fabric is measured as calls, which each replica simulates; what that takes is \
         measured alone and taken off, and the checks of signatures are put on.",
    );
    findings.remark(
        "what does not commit is ordered and executed all the same, and not sent again. Each runs in \
         blocks of the size that the paper found best for it.",
    );
    Ok(findings)
}

fn byzantine(lab: &mut Lab<'_>, name: &str) -> Result<Findings> {
    let mut findings = Findings::default();
    let costs = Costs::measure(lab, name, &mut findings)?;
    let Some(measured) = costs.system("harmony") else { return Ok(findings) };
    let system = measured.system;
    let mut curves = Curves::new();
    let mut both = Vec::new();
    for (title, ordering, network) in [
        ("Kafka, one region", costs.kafka(), near()),
        ("HotStuff, regions of 20", costs.hotstuff(), on_continents()),
    ] {
        let of = |&count: &usize| {
            let scene = Scene { network: network.clone(), ..scene(lab, count, system, ordering) };
            reach(lab, scene, measured.commits)
        };
        let reached: Vec<Reached> = COUNTS.iter().map(of).collect();
        curves.draw(title, &reached);
        both.push(reached);
    }
    if let [kafka, hotstuff] = &both[..] {
        let pairs = || COUNTS.iter().zip(kafka.iter().zip(hotstuff));
        for (count, (kafka, hotstuff)) in pairs().filter(|(count, _)| **count >= OF_REGION) {
            let claim = format!("{count} nodes: as many a second by HotStuff as by Kafka");
            findings.ratio(
                &claim,
                1.0,
                hotstuff.committed_per_second() / kafka.committed_per_second(),
            );
        }
        let latency = |it: &Reached| it.latency.latency_ms_p50;
        let longer = pairs().filter(|(_, (kafka, hotstuff))| latency(hotstuff) > latency(kafka));
        let ours = format!("at {} of {}", longer.clone().count(), COUNTS.len());
        let always = longer.count() == COUNTS.len();
        findings.claim("HotStuff takes longer than Kafka", "everywhere", ours, always);
        let grows = hotstuff.iter().map(latency).is_sorted_by(|one, next| *next >= 0.98 * one);
        let grows = grows && change(hotstuff, latency) > 1.0;
        let ours = super::times(change(hotstuff, latency));
        findings.claim("HotStuff takes longer with more nodes", "grows", ours, grows);
    }
    curves.add_to(&mut findings);
    let mut inputs = costs.inputs;
    inputs.push(input("between continents, one way", "60 to 148 ms".to_owned(), Origin::Given));
    inputs.push(input("transactions of a proposal, at most", thousands(10_000.0), Origin::Given));
    findings.simulation = simulation(
        "chained HotStuff with one leader by as many nodes as there are replicas, 20 a continent \
         (Ohio, Mumbai, Sydney, Stockholm), beside Kafka in one region; each replica takes for a \
         block what one was measured to take here.",
        inputs,
    );
    findings.remark(
        "a proposal holds what waits, up to its bound, and is executed in blocks of 25; certificates \
         hold a signature of each voter. TCP is taken to fill the network card.",
    );
    Ok(findings)
}

/// What orderers do whose replicas take no time.
fn consensus(lab: &mut Lab<'_>, costs: &Costs, count: usize, far: bool, ordering: Ordering) -> f64 {
    lab.tell(0, 1, &format!("{count} nodes that order, simulated"));
    let system = System {
        block_transactions: 1_000,
        block: 0,
        transaction_bytes: costs.sizes.ordered,
        endorsing: None,
    };
    let network = if far { on_continents() } else { near() };
    let scene = scene(lab, count, system, ordering);
    Scene { network, transactions: 2 * scene.transactions, ..scene }.play().per_second
}

/// A block none of whose rows is in memory: its transactions read theirs page by page, as many at
/// once as there are cores.
fn on_disk(system: &System, rows: f64, page: Nanos, cores: usize) -> f64 {
    let rounds = system.block_transactions.div_ceil(cores) as f64;
    let block = system.block as f64 + rounds * rows * page as f64;
    system.block_transactions as f64 * SECOND as f64 / block
}

fn bottleneck(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let costs = Costs::measure(lab, "smallbank", &mut findings)?;
    let reads = if lab.effort.smoke { 5 } else { 501 };
    let page = costs::page_read(&lab.effort.folder, reads)?;
    let heads = ["", "committed or ordered a second", ""].map(str::to_owned).to_vec();
    let mut table = Table { heads, rows: Vec::new() };
    let mut row = |name: String, rate: f64, origin: &str| {
        table.rows.push(vec![name, thousands(rate), origin.to_owned()]);
    };
    // Of what is ordered, as orderers have it, whether or not it commits.
    let (mut best_on_disk, mut harmony) = (f64::NAN, f64::NAN);
    for measured in &costs.systems {
        let Measured { protocol, system, commits, simulation, .. } = measured;
        let rate = measured.executed_per_second();
        let slow = on_disk(system, costs.sizes.rows_read, page, CORES);
        let origin = if simulation.is_some() { "computed" } else { "measured" };
        row(format!("{protocol}, tables in memory"), rate * commits, origin);
        row(format!("{protocol}, no row in memory"), slow * commits, "computed");
        match &**protocol {
            "harmony" => harmony = rate,
            "rbc" | SIMULATES_FIRST => best_on_disk = slow.max(best_on_disk),
            _ => {}
        }
    }
    let mut farthest = f64::NAN;
    for (name, count, far, ordering) in [
        ("Kafka, 3 brokers, 4 replicas", 4, false, costs.kafka()),
        ("HotStuff, 4 nodes", 4, false, costs.hotstuff()),
        ("HotStuff, 80 nodes in a region", MOST, false, costs.hotstuff()),
        ("HotStuff, 80 nodes on four continents", MOST, true, costs.hotstuff()),
    ] {
        let rate = consensus(lab, &costs, count, far, ordering);
        row(name.to_owned(), rate, "simulated");
        farthest = rate;
    }
    findings.tables.push(("What a layer does alone, SmallBank, skew 0.6".to_owned(), table));
    let claim = "80 nodes by HotStuff order more than a chain's tables on disk can take";
    findings.ratio(claim, super::Expected::AtLeast(10.0), farthest / best_on_disk);
    let (claim, ours) = ("with tables in memory, consensus is the bottleneck", farthest / harmony);
    findings.claim(claim, "below 1.00x", super::times(ours), ours < 1.0);
    let mut inputs = costs.inputs;
    let rows = format!("{:.1}", costs.sizes.rows_read);
    inputs.push(input("a page of 8 KiB at random, not cached", micros(page), Origin::Measured));
    inputs.push(input("rows that a transaction reads", rows, Origin::Measured));
    inputs.push(input("pages that are read at once", CORES.to_string(), Origin::Given));
    inputs.push(input("between continents, one way", "60 to 148 ms".to_owned(), Origin::Given));
    inputs.push(input("transactions of a proposal, at most", thousands(10_000.0), Origin::Given));
    findings.simulation = simulation(
        "the consensus layer: chained HotStuff with one leader, and three brokers of Kafka; the \
         database layer is one replica, measured with its ledger on disk.",
        inputs,
    );
    findings.remark(
        "the database layer of the paper's chains is PostgreSQL, LevelDB and their logs; ours is \
         slower for nothing but pages that are not cached. GeoBFT and RCC are not simulated.",
    );
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty-five transactions by sixteen cores are two rounds of their pages.
    #[test]
    fn a_block_whose_rows_are_on_disk_takes_rounds_of_pages() {
        let (block, transaction_bytes) = (1_000_000, 100);
        let system = System { block_transactions: 25, block, transaction_bytes, endorsing: None };
        let rate = |cores| on_disk(&system, 4.0, 125_000, cores);
        assert_eq!(rate(16).round(), 25.0 / 2e-3);
        assert_eq!(rate(25).round(), (25.0f64 / 1.5e-3).round());
        assert_eq!(rate(1).round(), (25.0f64 / 13.5e-3).round());
    }

    /// Eighty are ordered in 60 ms, in which sixty of them commit.
    #[test]
    fn what_does_not_commit_is_ordered_all_the_same() {
        let (nanos, commits) = per_ordered(80.0, 60.0, 1_000.0);
        assert_eq!((nanos.round(), commits), (750_000.0, 0.75));
    }

    /// What is checked of an endorsed block is two signatures a transaction, its simulation is not
    /// done again, and it is ordered in the bytes that it has.
    #[test]
    fn endorsing_costs_signatures_and_bytes() {
        let system =
            System { block_transactions: 50, block: 7, transaction_bytes: 100, endorsing: None };
        let sizes = Sizes { ordered: 100, endorsed: 900, rows_read: 2.0, rows_written: 1.0 };
        let crypto = Crypto { sign: 3, verify: 20, verify_of_many: 10, hash_nanos_per_byte: 1.0 };
        let endorsed = |simulation| endorsed(system, simulation, &sizes, &crypto, 5);
        assert!(endorsed(8).is_err(), "more than all of it");
        let endorsed = endorsed(4).unwrap();
        assert_eq!((endorsed.block, endorsed.transaction_bytes), (7 - 4 + 100 * 10, 900));
        let endorsing = Endorsing { endorsers: 2, proposal_bytes: 100, simulate: 8 };
        assert_eq!(endorsed.endorsing, Some(endorsing));
    }
}
