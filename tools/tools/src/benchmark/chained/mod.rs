//! Loads over databases of organisations, chained and alone: what figures of papers ask for.
//!
//! All of it are processes: servers as Debian has them, `tally chainify run` for each organisation,
//! `tally chainify feed` for the clients, `tally chainify alone` where a database is by itself.

mod organisations;
mod processor;
mod servers;
mod transactions;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::Report;
use bench::over_databases::{
    Blow, ChainLoad, ChainPlan, ChainRun, Level, OverDatabases, Said, Sample, System, Way,
};
use kit::sync::lock;
use serde_json::Value;

use crate::node_process::{path, run_tally, tally};
use organisations::{Line, Organisations, chain, chainify};
use servers::Server;

pub const DATABASES: OverDatabases = OverDatabases { measure, missing };

/// More than a second's worth, so that a load ends by its time.
const PER_SECOND: f64 = 8000.0;
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// How much longer a load goes on of which too few blocks have ended.
const LATER: u32 = 5;
const POLL: Duration = Duration::from_millis(10);

fn missing() -> Option<String> {
    match run_tally(&["chainify", "--help"]) {
        Ok(done) if done.success => servers::missing(),
        Ok(_) => {
            let how = "cargo build --release --package node --features node/chainify";
            Some(format!("this build of tally has no command \"chainify\": {how}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn measure(plan: &ChainPlan, report: Report<'_>) -> Result<Vec<ChainRun>> {
    let folder = tempfile::Builder::new().prefix("tally-chained-").tempdir_in(&plan.folder)?;
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let total = plan.loads.len();
    report(0, total, &"starting servers");
    let mut started = Vec::new();
    for (number, system) in (1..).zip(&plan.systems) {
        let own = folder.path().join(format!("server-{number}"));
        started.push(Server::start(*system, &own)?);
    }
    let scene = Scene { folder: folder.path().to_owned(), servers: started, plan };
    scene.make_databases()?;
    let mut runs = Vec::new();
    for (number, load) in plan.loads.iter().enumerate() {
        report(number, total, &load.name);
        let run = scene.run(number, load).with_context(|| load.name.clone())?;
        runs.push(run);
    }
    Ok(runs)
}

struct Scene<'a> {
    folder: PathBuf,
    servers: Vec<Server>,
    plan: &'a ChainPlan,
}

impl Scene<'_> {
    fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.url(server.database())).collect()
    }

    /// Runs these on one database, none of which may fail.
    fn set_up(&self, url: &str, all: Vec<Vec<String>>) -> Result<()> {
        let (file, count) = (self.folder.join("set-up"), all.len() as u64);
        transactions::write(&file, all)?;
        let arguments = ["alone", "--database", url, "--connections", "1", "--file"];
        let level = ["--chained", "--isolation", "read-committed"];
        let done = chainify(&[&arguments[..], &[path(&file)?], &level].concat())?;
        ensure!(done["committed"].as_u64() == Some(count), "{url} has not done all of it: {done}");
        Ok(())
    }

    /// A server that has just opened its port may not answer yet.
    fn make_databases(&self) -> Result<()> {
        for server in &self.servers {
            let (name, statement) = match server.system {
                System::Postgres => (server.database(), "SELECT 1".to_owned()),
                System::MariaDb => ("mysql", format!("CREATE DATABASE {}", server.database())),
            };
            let (url, began) = (server.url(name), Instant::now());
            while let Err(error) = self.set_up(&url, vec![vec![statement.clone()]]) {
                if began.elapsed() > ANSWERS_WITHIN {
                    return Err(error);
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    fn run(&self, number: usize, load: &ChainLoad) -> Result<ChainRun> {
        for server in &self.servers {
            let tables = transactions::tables(server.system, self.plan.accounts);
            self.set_up(&server.url(server.database()), tables)?;
        }
        let file = self.folder.join("transactions");
        let count = ((load.seconds + load.warm_up) * PER_SECOND) as u64;
        let drawn = transactions::payments(self.plan.accounts, load.theta, load.seed, count);
        transactions::write(&file, drawn)?;
        let chained = self.folder.join(format!("chained-{number}"));
        let run = match load.way {
            Way::Chained { votes, connections } => {
                chain(&chained, &self.urls(), votes, load)?;
                self.run_chained(&chained, &file, connections, load)?
            }
            Way::Alone { isolation, triggers } => {
                if triggers {
                    let votes = self.servers.len();
                    chain(&chained, &self.urls(), votes, load)?;
                }
                self.run_alone(&file, isolation, load)?
            }
        };
        for url in self.urls() {
            chainify(&["uninstall", "--database", &url])?;
        }
        Ok(run)
    }

    fn run_alone(&self, file: &Path, isolation: Level, load: &ChainLoad) -> Result<ChainRun> {
        let level = match isolation {
            Level::ReadCommitted => "read-committed",
            Level::Serializable => "serializable",
        };
        let before = self.servers_s();
        let mut running = Vec::new();
        for url in self.urls() {
            let mut command = tally()?;
            command.args(["--output", "json", "chainify", "alone", "--database", &url]);
            command.args(["--connections", &load.under_way.to_string(), "--isolation", level]);
            command.args(["--chained", "--seconds", &load.seconds.to_string()]);
            command.arg("--file").arg(file);
            let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            running.push(piped.spawn()?);
        }
        let mut run = ChainRun { name: load.name.clone(), ..ChainRun::default() };
        let mut committed = 0.0;
        for child in running {
            let done = child.wait_with_output()?;
            let found: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
            let (Some(count), Some(seconds)) =
                (found["committed"].as_f64(), found["seconds"].as_f64())
            else {
                bail!("a database alone: {}", String::from_utf8_lossy(&done.stderr));
            };
            run.alone_per_second.push(count / seconds);
            run.sent_again += found["again"].as_u64().unwrap_or(0);
            committed += count;
        }
        run.alone_cpu_us = (self.servers_s() - before) * 1e6 / f64::max(committed, 1.0);
        Ok(run)
    }

    /// Processor time.
    fn servers_s(&self) -> f64 {
        self.servers.iter().map(Server::processor_s).sum()
    }

    fn run_chained(
        &self,
        chained: &Path,
        file: &Path,
        connections: u32,
        load: &ChainLoad,
    ) -> Result<ChainRun> {
        let count = self.servers.len();
        let block = load.block_transactions;
        let mut organisations = Organisations::start(chained, count, connections, block)?;
        let (servers_s, members_s) = (self.servers_s(), organisations.processor_s());
        let mut feeding = Feeding::start(&organisations.folder_of(1), file, load.under_way)?;
        let began = feeding.began;
        let end = began + Duration::from_secs_f64(load.warm_up + load.seconds);
        let latest = end + LATER * Duration::from_secs_f64(load.seconds);
        let mut run =
            ChainRun { name: load.name.clone(), warm_up: load.warm_up, ..ChainRun::default() };
        let mut blows = load.blows.clone();
        // Where blocks take long: until two have ended, and who was edited is back.
        let is_short =
            |run: &ChainRun, said: &[Line]| run.window().is_none() || is_away(run, began, said);
        while Instant::now() < end
            || (Instant::now() < latest && is_short(&run, &organisations.said()))
        {
            let seconds = began.elapsed().as_secs_f64();
            if let Some(due) = blows.iter().position(|(at, _)| *at <= seconds) {
                let (_, blow) = blows.remove(due);
                self.deal(blow, &mut organisations)?;
                run.blows.push((seconds, blow));
            }
            let spent = || (self.servers_s() - servers_s, organisations.processor_s() - members_s);
            if !feeding.take(&mut run, spent)? {
                break;
            }
            std::thread::sleep(POLL);
        }
        feeding.stop();
        let said = organisations.said().into_iter();
        run.said = said
            .map(|(at, organisation, line)| Said {
                seconds: at.saturating_duration_since(began).as_secs_f64(),
                organisation,
                line,
            })
            .collect();
        organisations.stop();
        run.unsound = organisations.unsound()?;
        Ok(run)
    }

    fn deal(&self, blow: Blow, organisations: &mut Organisations) -> Result<()> {
        let (organisation, is_unseen) = match blow {
            Blow::Kill(number) => {
                organisations.kill(number);
                return Ok(());
            }
            Blow::Edit(number) => (number, false),
            Blow::EditUnseen(number) => (number, true),
        };
        let server = self.servers.get(organisation - 1).context("no such organisation")?;
        // In the middle, where Zipf's draws rarely fall.
        let edit = transactions::edit(server.system, self.plan.accounts / 2, is_unseen);
        self.set_up(&server.url(server.database()), edit)
    }
}

/// Whether one that was edited has not said yet that it has recovered.
fn is_away(run: &ChainRun, began: Instant, said: &[Line]) -> bool {
    run.blows.iter().any(|(seconds, blow)| {
        let (Blow::Edit(edited) | Blow::EditUnseen(edited)) = blow else { return false };
        let dealt = began + Duration::from_secs_f64(*seconds);
        let mut back = said.iter().filter(|(at, who, _)| who == edited && *at >= dealt);
        !back.any(|(_, _, line)| line.contains("recovered block"))
    })
}

/// `tally chainify feed` and what it says.
struct Feeding {
    child: Child,
    began: Instant,
    lines: Arc<Mutex<Vec<(Instant, Value)>>>,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Feeding {
    fn start(folder: &Path, file: &Path, under_way: u64) -> Result<Feeding> {
        let mut command = tally()?;
        command.args(["--output", "json", "chainify", "feed", "--folder"]).arg(folder);
        command.args(["--under-way", &under_way.to_string(), "--file"]).arg(file);
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = piped.spawn().context("cannot start `tally`")?;
        let (began, lines) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        if let Some(output) = child.stdout.take() {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let said = serde_json::from_str(&line).unwrap_or_default();
                    lock(&lines).push((Instant::now(), said));
                }
            });
        }
        Ok(Feeding { child, began, lines })
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it has said since. False: it has ended, all being done.
    fn take(&mut self, run: &mut ChainRun, spent: impl Fn() -> (f64, f64)) -> Result<bool> {
        let ended = self.child.try_wait()?;
        let lines = std::mem::take(&mut *lock(&self.lines));
        for (at, said) in lines {
            let last = run.samples.last();
            let mut sample = sample(at.saturating_duration_since(self.began).as_secs_f64(), &said);
            (sample.servers_cpu_s, sample.members_cpu_s) = match last {
                Some(last) if last.decided == sample.decided => {
                    (last.servers_cpu_s, last.members_cpu_s)
                }
                _ => spent(),
            };
            let most = |name: &str| numbers(&said[name]).flatten().max().unwrap_or(0);
            (run.transactions_run, run.stages_run) = first_of(&said);
            let signed_s = most("signatures_us") as f64 / 1e6;
            run.signatures_share = signed_s / sample.seconds.max(1e-9);
            run.samples.push(sample);
        }
        match ended {
            Some(status) if !status.success() => bail!("the clients have ended: {status}"),
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }
}

fn numbers(list: &Value) -> impl Iterator<Item = Option<u64>> + '_ {
    list.as_array().into_iter().flatten().map(Value::as_u64)
}

/// What the first organisation has run: transactions and stages.
fn first_of(said: &Value) -> (u64, u64) {
    let first = |name: &str| numbers(&said[name]).flatten().next().unwrap_or(0);
    (first("transactions"), first("stages"))
}

fn sample(seconds: f64, said: &Value) -> Sample {
    let number = |name: &str| said[name].as_u64().unwrap_or(0);
    Sample {
        seconds,
        agreed: numbers(&said["agreed"]).collect(),
        decided: number("decided"),
        succeeded: number("succeeded"),
        failed: number("failed"),
        refused: number("refused"),
        servers_cpu_s: 0.0,
        members_cpu_s: 0.0,
    }
}
