//! `tally demo --cluster`: four organisations that keep one ledger over CometBFT, and what may
//! befall them, in two minutes.
//!
//! 1. Start four members, load SmallBank through one, and let clients of each record every payment
//!    that is acknowledged, until the end.
//! 2. SIGKILL the member whose block came last, and start it again.
//! 3. Cut a member off: it hears nothing and says nothing for some seconds.
//! 4. Change a row in one member's memory, behind the ledger's back: its results lie, and the
//!    others name it.
//! 5. Remove that one, add a fifth, and see it vote.
//! 6. Compare what clients were told with what two members hold; stop, verify every folder, take a
//!    receipt that the first block proves, see a forged one refused.
//!
//! A lie about results takes a build with the feature `faults`, which `make demo-cluster` makes.

mod page;
mod report;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::runtime::Runtime;
use workloads::smallbank;

use self::report::Report;
use super::bank::Bank;
use super::forgeries::forgeries_are_refused;
use super::page::grouped;
use super::recorders::{self, Ends, Recording, Seen};
use crate::arguments;
use crate::members::{Members, READY_WITHIN};
use crate::node_process::{path, run_tally};
use node::cli::{Exit, Output};
use node::progress::Progress;

const FOUNDERS: u16 = 4;
const FIFTH: u16 = 5;
/// Of each member, at a time.
const CLIENTS: u32 = 4;
const MEASURED: Duration = Duration::from_secs(10);
/// How long the others are watched while one is gone.
const GONE: Duration = Duration::from_secs(5);
/// A statement that has the liar's memory be changed.
const LIE: &str = "a row is changed in one memory";
const LIAR: u16 = 4;

pub fn run(arguments: &arguments::Demo, output: Output) -> Result<Exit> {
    if !node::HAS_FAULTS {
        bail!("no member of this build can lie: build it with --features node/faults");
    }
    let began = Instant::now();
    let folder = tempfile::Builder::new().prefix("tally-demo-").tempdir()?;
    let mut report = Report { customers: arguments.customers, ..Report::default() };
    let outcome = with_members(arguments, folder.path(), &mut report);
    report.total_s = began.elapsed().as_secs_f64();
    if arguments.keep || outcome.is_err() {
        eprintln!("folders, logs and receipt are kept in {}", folder.keep().display());
    }
    outcome?;
    match output {
        Output::Text => print!("{}", page::text(&report)),
        Output::Json => println!("{}", serde_json::to_string(&report)?),
    }
    Ok(if report.holds() { Exit::Ok } else { Exit::Failed })
}

/// Clients of a member that record now.
struct Group {
    member: u16,
    /// The number of the first client.
    first: usize,
    recording: Recording,
}

impl Group {
    fn seen(&self) -> &Seen {
        self.recording.seen()
    }
}

struct Demo<'a> {
    runtime: Runtime,
    folder: &'a Path,
    members: Members,
    bank: Bank,
    recordings: Vec<Group>,
    /// The member that was killed last.
    killed: u16,
    /// What each client was told, by its number.
    acknowledged: Vec<u64>,
    report: &'a mut Report,
}

fn with_members(arguments: &arguments::Demo, folder: &Path, report: &mut Report) -> Result<()> {
    let step = Progress::begin("starting four members, each with a CometBFT of its own");
    let program = format!("cometbft={}", path(&arguments.cometbft)?);
    let order = ["--order", "cometbft", "--set", &program];
    let members = Members::start(folder, FOUNDERS, FIFTH, &order)?;
    step.end(&format!("ready on ports {}, {}, …", members.port(1), members.port(2)));
    let bank = Bank { customers: arguments.customers };
    let (recordings, acknowledged) = (Vec::new(), Vec::new());
    let runtime = Runtime::new()?;
    let killed = 0;
    let mut demo =
        Demo { runtime, folder, members, bank, recordings, killed, acknowledged, report };
    demo.load()?;
    demo.measure()?;
    demo.kill_proposer()?;
    demo.cut_one_off()?;
    demo.have_one_lie()?;
    demo.replace_the_liar()?;
    demo.compare()?;
    demo.prove()
}

impl Demo<'_> {
    fn load(&mut self) -> Result<()> {
        let label = format!("loading {} customers by COPY", grouped(self.bank.customers));
        let step = Progress::begin(&label);
        let (target, began) = (self.members.target(1), Instant::now());
        self.runtime.block_on(self.bank.create(&target))?;
        let advance = |part| step.advance(part);
        self.report.load_rows = self.runtime.block_on(self.bank.load(&target, advance))?;
        self.report.load_s = began.elapsed().as_secs_f64();
        step.end(&format!("{} rows, executed by each member", grouped(self.report.load_rows)));
        Ok(())
    }

    /// Clients of a member record from now on. A number that was used is not used again.
    fn record(&mut self, member: u16) {
        let (first, target) = (self.acknowledged.len(), self.members.target(member));
        let clients = first as u32..first as u32 + CLIENTS;
        let customers = self.bank.customers;
        let recording = recorders::start(&self.runtime, &target, clients, customers, Ends::Refused);
        self.acknowledged.resize(first + CLIENTS as usize, 0);
        self.recordings.push(Group { member, first, recording });
    }

    /// What a member's clients were told, who have no more to say.
    fn end_recording(&mut self, member: u16) -> Result<()> {
        let is_its = |group: &Group| group.member == member;
        let all = std::mem::take(&mut self.recordings).into_iter();
        let (ended, others): (Vec<Group>, Vec<Group>) = all.partition(is_its);
        self.recordings = others;
        for Group { first, recording, .. } in ended {
            recording.stop();
            let reported = recording.join(&self.runtime)?;
            self.acknowledged[first..first + reported.len()].copy_from_slice(&reported);
        }
        Ok(())
    }

    /// How many payments of the others' clients are answered in the second half of that time, when
    /// none is left that was ordered before, and the longest wait.
    fn watch_others(&self, without: u16, time: Duration) -> (u64, Duration) {
        let others = || self.recordings.iter().filter(|group| group.member != without);
        let count = || -> u64 {
            others().map(|group| group.seen().acknowledged.load(Ordering::Relaxed)).sum()
        };
        others().for_each(|group| group.seen().slowest_us.store(0, Ordering::Relaxed));
        std::thread::sleep(time / 2);
        let before = count();
        std::thread::sleep(time / 2);
        let slowest = others().map(|group| group.seen().slowest_us.load(Ordering::Relaxed)).max();
        (count() - before, Duration::from_micros(slowest.unwrap_or(0)))
    }

    fn answers(&self) -> u64 {
        let of = |group: &Group| group.seen().acknowledged.load(Ordering::Relaxed);
        self.recordings.iter().map(of).sum()
    }

    fn measure(&mut self) -> Result<()> {
        let label = format!("payments by {CLIENTS} clients of each member, recorded by them");
        let step = Progress::begin(&label);
        (1..=FOUNDERS).for_each(|member| self.record(member));
        let (began, before) = (Instant::now(), self.answers());
        std::thread::sleep(MEASURED);
        let count = self.answers() - before;
        self.report.payments_per_s = count as f64 / began.elapsed().as_secs_f64();
        step.end(&format!("{} a second", grouped(self.report.payments_per_s as u64)));
        Ok(())
    }

    fn kill_proposer(&mut self) -> Result<()> {
        let step = Progress::begin("SIGKILL for the member whose block came last");
        let killed = self.members.leader()?.context("the members name no proposer")?;
        self.members.kill(killed)?;
        self.killed = killed;
        let (count, waited) = self.watch_others(killed, GONE);
        self.report.killed_wait_s = waited.as_secs_f64();
        let detail = format!("{count} payments in {:?} without member {killed}", GONE / 2);
        self.report.check("the others go on without a proposer", count > 0, detail);
        self.end_recording(killed)?;
        self.members.launch(killed, &[])?;
        self.members.wait_until_ready(killed)?;
        self.record(killed);
        step.end(&format!("member {killed}: the others waited {waited:.1?} at most"));
        Ok(())
    }

    fn cut_one_off(&mut self) -> Result<()> {
        let step = Progress::begin("cutting a member off");
        let killed = self.killed;
        let cut = (1..LIAR).find(|member| *member != killed).context("there is no other one")?;
        self.members.cut_off(cut, true)?;
        let (count, waited) = self.watch_others(cut, GONE);
        self.members.cut_off(cut, false)?;
        self.report.cut_off_wait_s = waited.as_secs_f64();
        let behind = self.members.until("the member to catch up", |status| {
            let height = |(_, says): &(u16, Value)| says["height"].as_u64();
            let own = status.iter().find(|(member, _)| *member == cut).and_then(height);
            let newest = status.iter().filter_map(height).max();
            own.zip(newest).is_some_and(|(own, newest)| own + 20 >= newest)
        })?;
        let detail = format!("{count} payments in {:?} without member {cut}", GONE / 2);
        self.report.check("the others go on without one that is cut off", count > 0, detail);
        self.end_recording(cut)?;
        self.record(cut);
        step.end(&format!("member {cut} has caught up after {behind:.1?}"));
        Ok(())
    }

    fn have_one_lie(&mut self) -> Result<()> {
        let step = Progress::begin("changing a row in one member's memory");
        self.members.stop(LIAR)?;
        self.end_recording(LIAR)?;
        self.members.launch(LIAR, &[("TEST_TAMPERS_ON", LIE)])?;
        self.members.wait_until_ready(LIAR)?;
        let client = self.runtime.block_on(self.members.target(1).connect())?;
        self.runtime
            .block_on(client.batch_execute("CREATE TABLE words (word text PRIMARY KEY)"))?;
        let lie = format!("INSERT INTO words VALUES ('{LIE}')");
        self.runtime.block_on(client.batch_execute(&lie))?;
        let began = Instant::now();
        // What was changed shows when it is read and written.
        for change in ["+ 1", "- 1"] {
            let first = format!(
                "UPDATE journal SET amount = amount {change} WHERE client = 0 AND sequence = 1"
            );
            self.runtime.block_on(client.batch_execute(&first))?;
        }
        // By the result that it has signed, or by its own word, where it was told in time.
        let named = format!(
            "SELECT count(*) FROM tally_cluster WHERE member = {LIAR}
             AND (deviating_height IS NOT NULL OR trouble LIKE '%another result of block%')"
        );
        for other in [1, 2, 3] {
            let other = self.runtime.block_on(self.members.target(other).connect())?;
            while self.runtime.block_on(other.query_one(&named, &[]))?.get::<_, i64>(0) == 0 {
                ensure!(began.elapsed() < READY_WITHIN, "no member names the liar");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.report.named_s = began.elapsed().as_secs_f64();
        let detail = format!("member {LIAR}, {:.1} s after the change", self.report.named_s);
        self.report.check("the others name the one whose results lie", true, detail);
        let stopped = self.members.status()?;
        let says = stopped.iter().find(|(member, _)| *member == LIAR).map(|(_, says)| says);
        let halted = says.is_some_and(|says| says["votes"]["diverged"].is_string());
        let detail = "it knows by the others' votes, and takes no more writes".to_owned();
        self.report.check("the liar finds out, and stops", halted, detail);
        self.members.stop(LIAR)?;
        step.end(&format!("member {LIAR} is named after {:.1} s", self.report.named_s));
        Ok(())
    }

    fn replace_the_liar(&mut self) -> Result<()> {
        let step = Progress::begin("a fifth organisation in its place");
        let began = Instant::now();
        let folder = path(self.members.folder())?.to_owned();
        let liar = LIAR.to_string();
        let remove = ["cluster", "remove", "--folder", &folder, "--member", &liar];
        let removed = run_tally(&remove)?;
        ensure!(removed.success, "the liar stays: {}", removed.output);
        let port = self.members.port(FIFTH).to_string();
        let added = run_tally(&["cluster", "add", "--folder", &folder, "--port", &port])?;
        ensure!(added.success, "none is added: {}", added.output);
        self.members.launch(FIFTH, &[])?;
        self.members.wait_until_ready(FIFTH)?;
        self.record(FIFTH);
        let newest = self.members.status()?;
        let newest = newest.iter().filter_map(|(_, says)| says["height"].as_u64()).max();
        self.members.until("the fifth to vote", |status| {
            let own = status.iter().find(|(member, _)| *member == FIFTH);
            let voted = own.and_then(|(_, says)| says["votes"]["signed"][0].as_u64());
            voted > newest
        })?;
        self.report.joined_s = began.elapsed().as_secs_f64();
        // Of four three are needed: without the fifth nothing would be ordered now.
        self.members.cut_off(3, true)?;
        let (more, _) = self.watch_others(3, GONE);
        self.members.cut_off(3, false)?;
        let detail = format!("{} payments while member 3 was cut off", grouped(more));
        self.report.check("the fifth orders and votes", more > 0, detail);
        step.end(&format!("it votes after {:.1} s", self.report.joined_s));
        Ok(())
    }

    fn compare(&mut self) -> Result<()> {
        let step = Progress::begin("comparing with what the clients wrote down");
        for member in self.members.running() {
            self.end_recording(member)?;
        }
        self.members.settle()?;
        self.report.acknowledged = self.acknowledged.iter().sum();
        for (claim, member) in
            [("nothing acknowledged was lost", 1), ("the fifth has all of it", FIFTH)]
        {
            let target = self.members.target(member);
            let journal =
                self.runtime.block_on(self.bank.journal(&target, self.acknowledged.len()))?;
            let found = recorders::compare(&self.acknowledged, &journal);
            let holds = found.lost == 0 && found.invented == 0 && found.acknowledged > 0;
            let detail = format!(
                "{} of {} payments at member {member}, {} made up",
                grouped(found.acknowledged - found.lost),
                grouped(found.acknowledged),
                found.invented
            );
            self.report.check(claim, holds, detail);
        }
        let expected = smallbank::initial_total_cents(self.bank.customers);
        let total = self.runtime.block_on(self.bank.total_cents(&self.members.target(1)))?;
        let detail = match total - expected {
            0 => format!("{} cents, as loaded", grouped(expected.unsigned_abs())),
            off => format!("off by {off} cents"),
        };
        self.report.check("the money is all there", total == expected, detail);
        step.end("");
        Ok(())
    }

    /// What the folders alone prove.
    fn prove(&mut self) -> Result<()> {
        let step = Progress::begin("verifying every folder");
        for member in self.members.running() {
            self.members.stop(member)?;
        }
        let mut heads = Vec::new();
        let began = Instant::now();
        for member in (1..=FIFTH).filter(|member| *member != LIAR) {
            let data = self.members.data(member);
            let verified = run_tally(&["--output", "json", "verify", path(&data)?])?;
            ensure!(verified.success, "member {member}: {}", verified.output);
            self.report.height = verified.json["height"].as_u64().unwrap_or(0);
            heads.push(verified.json["head"].clone());
        }
        let same = heads.windows(2).all(|two| two[0] == two[1]) && heads.len() == 4;
        let took = began.elapsed();
        let detail = format!("{} blocks, one head, in {took:.1?}", grouped(self.report.height));
        self.report.check("four members' ledgers verify", same, detail);
        let liar = self.members.data(LIAR);
        let verified = run_tally(&["verify", path(&liar)?])?;
        let detail = "what it wrote down is not what its orders give".to_owned();
        self.report.check("the liar's does not", !verified.success, detail);
        step.end("");

        let step = Progress::begin("taking a receipt and checking it by the first block");
        let (receipt, height) = (self.folder.join("receipt"), self.report.height.to_string());
        let (data, file) = (self.members.data(FIFTH), path(&receipt)?.to_owned());
        let take = ["receipt", "--data", path(&data)?, "--height", &height, "--index", "0"];
        let taken = run_tally(&[&take[..], &["--out", &file]].concat())?;
        let trusted = ["--first-block", &self.members.first_block];
        let held = run_tally(&[&["receipt", "verify", &file][..], &trusted].concat())?;
        let bytes = std::fs::read(&receipt).unwrap_or_default();
        let fits = taken.success && held.success;
        let detail = match fits {
            true => format!("{} bytes, by votes of members who came later, too", bytes.len()),
            false => format!("{} {}", taken.output, held.output),
        };
        self.report.check("the first block proves the fifth's receipt", fits, detail);
        let refused = forgeries_are_refused(&bytes, trusted, self.folder)?;
        let detail = "one bit changed, wherever it was tried".to_owned();
        self.report.check("a forged receipt is refused", refused, detail);
        step.end("");
        Ok(())
    }
}
