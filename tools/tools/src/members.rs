//! The members of a cluster, as processes of this machine.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::demo::pgbench::Target;
use crate::node_process::{Finished, path, run_tally, tally};
use node::http;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);
pub const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Under those that the system gives to clients by itself.
const PORTS_FROM: u16 = 20_000;
const PORTS_TO: u16 = 32_000;

/// Numbers of members begin at 1.
pub struct Members {
    folder: PathBuf,
    port: u16,
    /// Of each member: for clients, for probes, for other members, for CometBFT's others.
    ports: u16,
    children: Vec<Option<Child>>,
    /// Order hash of the first block: all that a reader of receipts has to trust.
    pub first_block: String,
}

impl Members {
    /// Makes the folders and starts all. `most`: members that there will be; `order`: more for
    /// `tally cluster init`.
    pub fn start(folder: &Path, count: u16, most: u16, order: &[&str]) -> Result<Members> {
        let ports = if order.contains(&"cometbft") { 4 } else { 3 };
        let port = free_ports(ports * most)?;
        let folder = folder.join("bank");
        let (nodes, port_text) = (count.to_string(), port.to_string());
        let mut init = vec!["--output", "json", "cluster", "init", "--folder", path(&folder)?];
        init.extend(["--nodes", &nodes, "--port", &port_text]);
        init.extend(order);
        let made = run_tally(&init)?;
        ensure!(made.success, "no cluster could be made: {}", made.output);
        let first_block = made.json["first_block"].as_str().unwrap_or_default().to_owned();
        let children = (0..most).map(|_| None).collect();
        let mut members = Members { folder, port, ports, children, first_block };
        (1..=count).try_for_each(|member| members.launch(member, &[]))?;
        (1..=count).try_for_each(|member| members.wait_until_ready(member))?;
        Ok(members)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn data(&self, member: u16) -> PathBuf {
        self.folder.join(format!("node-{member}"))
    }

    pub fn port(&self, member: u16) -> u16 {
        self.port + self.ports * (member - 1)
    }

    pub fn target(&self, member: u16) -> Target {
        Target::local(self.port(member))
    }

    /// Those whose node runs.
    pub fn running(&self) -> Vec<u16> {
        let runs = |member: &u16| self.children[usize::from(member - 1)].is_some();
        (1..=self.children.len() as u16).filter(runs).collect()
    }

    /// `environment`: of a member that is to lie.
    pub fn launch(&mut self, member: u16, environment: &[(&str, &str)]) -> Result<()> {
        let log = self.folder.join(format!("node-{member}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = tally()?;
        command.arg("serve").arg("--data").arg(self.data(member)).envs(environment.iter().copied());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.children[usize::from(member - 1)] = Some(child.context("cannot start a node")?);
        Ok(())
    }

    pub fn wait_until_ready(&mut self, member: u16) -> Result<()> {
        let began = Instant::now();
        let address = ([127, 0, 0, 1], self.port(member) + 1);
        loop {
            let probed = http::get(address.into(), "/readyz", Some(ANSWER_WITHIN));
            if probed.is_ok_and(|answer| answer.is_ok) {
                return Ok(());
            }
            let child = self.child(member)?;
            if let Some(status) = child.try_wait()? {
                bail!("member {member} ended ({status}):\n{}", self.log_tail(member));
            }
            if began.elapsed() > READY_WITHIN {
                bail!("member {member} is not ready:\n{}", self.log_tail(member));
            }
            std::thread::sleep(POLL);
        }
    }

    /// What a member counts, as its operators see it.
    #[cfg(feature = "bench")]
    pub fn metrics(&self, member: u16) -> Result<String> {
        let address = ([127, 0, 0, 1], self.port(member) + 1);
        let answer = http::get(address.into(), "/metrics", Some(ANSWER_WITHIN))?;
        ensure!(answer.is_ok, "member {member} shows no metrics: {}", answer.body);
        Ok(answer.body)
    }

    fn child(&mut self, member: u16) -> Result<&mut Child> {
        let child = self.children[usize::from(member - 1)].as_mut();
        child.with_context(|| format!("the node of member {member} does not run"))
    }

    pub fn kill(&mut self, member: u16) -> Result<()> {
        let mut child = self.children[usize::from(member - 1)].take().context("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM; whether it said that all was well.
    pub fn stop(&mut self, member: u16) -> Result<bool> {
        let mut child = self.children[usize::from(member - 1)].take().context("it does not run")?;
        kill_process(Pid::from_child(&child), Signal::TERM)?;
        Ok(child.wait()?.success())
    }

    /// The node and its CometBFT hear and say nothing, or do so again.
    pub fn cut_off(&mut self, member: u16, off: bool) -> Result<()> {
        let own = Pid::from_child(self.child(member)?);
        let signal = if off { Signal::STOP } else { Signal::CONT };
        for process in std::iter::once(own).chain(children_of(own)) {
            kill_process(process, signal)?;
        }
        Ok(())
    }

    fn ask(&self) -> Result<Finished> {
        run_tally(&["--output", "json", "cluster", "status", "--folder", path(&self.folder)?])
    }

    /// The member that leads, or whose block came last, where that is what orders.
    pub fn leader(&self) -> Result<Option<u16>> {
        let asked = self.ask()?;
        let members = asked.json["members"].as_array().cloned().unwrap_or_default();
        let proposer = members.iter().find_map(|says| says["standing"]["proposer"].as_u64());
        let leader = asked.json["leader"].as_u64().or(proposer).filter(|id| *id > 0);
        Ok(leader.and_then(|id| u16::try_from(id).ok()))
    }

    /// What the members say of themselves, those that answer, by their numbers.
    pub fn status(&self) -> Result<Vec<(u16, Value)>> {
        let asked = self.ask()?;
        let ids = asked.json["ids"].as_array().cloned().unwrap_or_default();
        let members = asked.json["members"].as_array().cloned().unwrap_or_default();
        let number = |id: &Value| id.as_u64().and_then(|id| u16::try_from(id).ok());
        let numbers = ids.iter().filter_map(number);
        Ok(numbers.zip(members).filter(|(_, says)| says.is_object()).collect())
    }

    /// Until it is so of what the members say.
    pub fn until(&self, what: &str, so: impl Fn(&[(u16, Value)]) -> bool) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let status = self.status()?;
            if so(&status) {
                return Ok(began.elapsed());
            }
            if began.elapsed() > READY_WITHIN {
                let status: Vec<String> =
                    status.iter().map(|(member, says)| format!("{member}: {says}")).collect();
                bail!("waited in vain for {what}:\n{}", status.join("\n"));
            }
            std::thread::sleep(5 * POLL);
        }
    }

    /// Until all that run have the same newest block.
    pub fn settle_heights(&self) -> Result<()> {
        let running = self.running();
        self.until("the members to come to the same", |status| {
            let reported = status.iter().filter(|(member, _)| running.contains(member));
            let heads: Vec<&Value> = reported.map(|(_, says)| &says["head"]).collect();
            heads.len() == running.len() && heads.windows(2).all(|two| two[0] == two[1])
        })?;
        Ok(())
    }

    /// Until all that run have the same newest block, and it is certified.
    pub fn settle(&self) -> Result<()> {
        let running = self.running();
        self.until("the members to come to the same", |status| {
            let reported = status.iter().filter(|(member, _)| running.contains(member));
            let heads: Vec<&Value> = reported.clone().map(|(_, says)| &says["head"]).collect();
            let certified =
                |(_, says): &(u16, Value)| says["votes"]["certified"][0] == says["height"];
            heads.len() == running.len()
                && heads.windows(2).all(|two| two[0] == two[1])
                && reported.clone().all(certified)
        })?;
        Ok(())
    }

    fn log_tail(&self, member: u16) -> String {
        let path = self.folder.join(format!("node-{member}.log"));
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            // One that was cut off takes its end when it hears again; its CometBFT ends with it.
            for process in children_of(Pid::from_child(child)) {
                let _ = kill_process(process, Signal::CONT);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// By what the system says of processes.
fn children_of(parent: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent_of = |process: &Path| -> Option<i32> {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let found = processes.filter(|it| parent_of(&it.path()) == Some(parent.as_raw_nonzero().get()));
    let id = |it: fs::DirEntry| it.file_name().to_str()?.parse().ok().and_then(Pid::from_raw);
    found.filter_map(id).collect()
}

/// The first of so many in a row that are free.
fn free_ports(count: u16) -> Result<u16> {
    let start = PORTS_FROM + (std::process::id() % 10_000) as u16;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let all = (start..PORTS_TO).chain(PORTS_FROM..start).step_by(count.into());
    let mut free = all.filter(|port| (*port..port + count).all(is_free));
    free.next().context("no ports are free")
}
